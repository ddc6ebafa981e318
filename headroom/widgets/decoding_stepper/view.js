// @ts-check
/* The front end of headroom.widgets.DecodingStepper: of a Transformer, or of a language model (`facts.continues`).
 *
 * What the model answers depends on the prefix alone, and every answer that Python has computed is here, by its prefix:
 * choosing, drawing and searching happen in this file. Where an answer is missing, Python computes it; until then a
 * sentence says so.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-decoding-stepper       the root of one view; a page may hold many
 *   [data-part=source-select]        <select>, value: the text
 *   [data-part=own-text], [data-part=read]      <input type=text> for a text of one's own, and its <button>
 *   [data-part=problem]              why a text cannot be read, or what is waited for
 *   [data-part=method-select]        <select>, value: "greedy", "sampling" or "beam"
 *   [data-part=temperature-range], [data-part=seed-input], [data-part=again]   sampling; [data-part=beams-range]: beam search
 *   [data-part=first], [data-part=back], [data-part=next], [data-part=last]    <button>s; [data-part=step-range], from 1
 *   [data-part=written]              the text so far; takes the focus and the arrow keys; its tokens are [data-step], from 0
 *   [data-part=candidate]            <button> of a candidate: data-token (its name), data-share, data-kept (beam search)
 *   [data-part=undo]                 <button>: back to the model's own choices
 *   [data-part=layer-range], [data-part=head-select]   whose attention
 *   [data-part=characters]           what is looked at; each character, or token, is a [data-token], from 0
 *   canvas[data-part=alignment]      a row of weights for each step so far
 *   [data-part=tree]                 beam search; takes the focus and the arrow keys; its hypotheses are [data-level][data-rank]
 *   [data-part=cache], [data-part=cost], [data-part=legend], [data-part=live], [data-part=table], [data-part=keys] (<details>)
 *   data-source, data-method, data-step, … on the root: what is shown now, from 0; data-steps: how many there are;
 *   data-prefix: the text before this step; data-candidate: the token that it writes; data-complete: whether all is known
 */
import { choices, guardKeys, repaint } from "../kernel/choices.js";
import { themeColours } from "../kernel/colours.js";
import { attentionKeys, bind } from "../kernel/controls.js";
import { h, memory, tableView, targetOf, uniqueName, write } from "../kernel/elements.js";
import { cycle, pairs } from "../kernel/numbers.js";
import { frontEnd } from "../kernel/python.js";
import { capital, number, visible } from "../kernel/words.js";
import { Answers, DATA } from "./answers.js";
import { Attention } from "./attention.js";
import { Cache } from "./cache.js";
import { Candidates } from "./candidates.js";
import { partsOf } from "./parts.js";
import { Tree } from "./tree.js";
import { Words, taken } from "./words.js";
/** @import { On, View as Given, DecodingStepper as T } from "../types" */

/** @type {T.Method[]} */
const METHODS = ["greedy", "sampling", "beam"];
const PATIENCE_MS = 2500; // then what waits for Python says that it needs it

class View {
  /** @param {Given<T.Traits>} _ @param {AbortSignal} signal */
  constructor({ model, el }, signal) {
    this.model = model;
    this.names = model.get("_choices");
    this.signal = signal;
    this.answers = new Answers(model);
    this.say = new Words(this.answers);
    this.table = tableView(() => this.say.tables(this.look()), "Tables of candidates and weights");
    this.parts = partsOf(this.answers.facts, uniqueName(), this.table);
    const changed = memory();
    /** @type {[Answers, Words, typeof this.parts, typeof changed]} */
    const shared = [this.answers, this.say, this.parts, (part, ...made) => changed(part, this.answers.version, ...made)];
    this.candidates = new Candidates(...shared);
    this.attention = new Attention(...shared);
    this.tree = new Tree(...shared);
    this.cache = new Cache(...shared);
    /** @type {string | null} */
    this.waitsFor = null; // what Python has been asked for
    this.since = 0;
    const { root, alignment, method, layer, head } = this.parts;
    el.append(h("div", { class: "headroom-frame" }, root));
    this.schedule = repaint(() => this.paint(), { model, names: [...this.names, ...DATA, "_asked", "_problem"], canvases: [alignment, root], signal });
    this.choice = choices(model, this.names, { schedule: this.schedule, also: (changes) => this.follow(changes), signal });
    this.showChoices = bind([method, layer, head], this.choice, signal);
    this.listenToControls();
    this.listenToPictures();
    guardKeys(root, signal, (event) => this.press(event));
    this.paint();
  }
  /** @type {On} */
  on(target, type, handle) {
    target.addEventListener(type, handle, { signal: this.signal });
  }
  look() {
    return this.answers.look(this.choice.now());
  }

  // ------------------------------------------------ choosing
  /** What follows from a choice; Python does the same. @param {Partial<T.Now>} changes */
  follow(changes) {
    const now = { ...this.choice.now(), ...changes };
    if ("source" in changes || now.method === "beam") if (now.taken.length) now.taken = changes.taken = [];
    if (now.hypothesis !== null && (now.method !== "beam" || "source" in changes || "beams" in changes)) now.hypothesis = changes.hypothesis = null;
    const view = this.answers.look(now);
    if (view.complete && view.step !== now.step) changes.step = view.step; // else Python knows how many there are
    if (view.beam && now.hypothesis !== null && now.hypothesis >= view.beam.levels[view.step].kept.length) changes.hypothesis = null;
  }
  /** To another step; in beam search along the line of the hypothesis that is shown. @param {number} step */
  go(step) {
    const { choice, model } = this;
    const view = this.look();
    const to = Math.min(view.steps - 1, Math.max(0, step));
    if (to === view.step) return;
    const { beam } = view;
    if (!beam || model.get("hypothesis") === null || Math.abs(to - view.step) > 1) return choice.choose({ step: to, hypothesis: null });
    choice.choose({ step: to, hypothesis: to < view.step ? beam.hypothesis.parent : beam.child?.rank ?? null });
  }
  /** To a hypothesis; for one of the last level, to the step that wrote it. @param {number} level @param {number} rank */
  goTo(level, rank) {
    const { choice } = this;
    const { beam, steps } = this.look();
    const one = beam?.levels[level].kept[rank];
    if (one) choice.choose(level < steps ? { step: level, hypothesis: rank } : { step: steps - 1, hypothesis: one.parent });
  }
  /** @param {number} token */
  take(token) {
    const { choice, answers } = this;
    const view = this.look();
    const { beam } = view;
    if (beam) {
      const child = beam.children.find(({ prefix }) => prefix.at(-1) === token);
      if (child && view.step + 1 < view.steps) this.goTo(view.step + 1, child.rank);
      return;
    }
    const before = view.now.taken.filter(([at]) => at < view.step);
    const own = token === view.own || (token === view.token && taken(view)); // chosen again: let go
    choice.choose({ taken: own ? before : [...before, [view.step, answers.facts.tokens[token]]] });
  }
  ask() {
    const { choice, model, answers } = this;
    const { ownText } = this.parts;
    const text = answers.facts.continues ? ownText.value : ownText.value.trim(); // there, spaces at the ends are part of it
    if (!text.trim()) return this.tell(`There is nothing to read yet: write ${answers.facts.continues ? "how a text begins" : "a date, such as 4 March 2021"}.`);
    if (answers.which(text) >= 0) {
      this.tell("");
      return choice.choose({ source: text, step: 0 });
    }
    model.set("_problem", "");
    model.set("_asked", text);
    model.save_changes();
    this.schedule();
  }
  /** @param {string} sentence */
  tell(sentence) {
    const { model } = this;
    model.set("_problem", sentence);
    model.save_changes();
    this.schedule();
  }
  drawAgain() {
    this.choice.choose({ seed: this.model.get("seed") + 1 });
  }

  // ------------------------------------------------ painting a state
  paint() {
    const { say, choice, answers, parts: { root, tree, treeBox, live } } = this;
    answers.refresh();
    const now = choice.now();
    if (answers.which(now.source) < 0) return; // it is on its way
    const view = answers.look(now);
    // Everything is measured before anything is written: a change in between would make the browser lay out anew.
    const treeRoom = view.beam ? { from: tree.scrollLeft, width: tree.clientWidth } : { from: 0, width: 0 };
    this.attention.paintAlignment(view, themeColours(root));
    for (const one of this.names) root.setAttribute(`data-${one}`, one === "taken" ? JSON.stringify(now.taken) : String(now[one] ?? "none"));
    const facts = { step: view.step, steps: view.steps, prefix: say.textOf(view.prefix), candidate: view.token === null ? "none" : answers.facts.tokens[view.token], complete: view.complete };
    for (const [one, value] of Object.entries(facts)) root.setAttribute(`data-${one}`, String(value));
    this.paintControls(view);
    this.paintProblem(view);
    this.candidates.paintWritten(view);
    this.candidates.paintCandidates(view);
    this.attention.paintCharacters(view);
    if (view.beam && treeBox.hidden) this.schedule(); // its width, and so what of it is in sight, is known in the next frame
    treeBox.hidden = !view.beam;
    if (view.beam) this.tree.paint(view, view.beam, treeRoom);
    this.cache.paint(view);
    live.say(say.sayAll(view));
    this.table.update();
  }
  /** @param {T.Shown} _ */
  paintControls({ now, step, steps: n, complete, beam }) {
    const { facts } = this.answers;
    const { sourceSelect, temperatureRange, temperatureOutput, seedInput, beamsRange, beamsOutput, sampling, beaming, stepButtons, stepRange, stepOutput } = this.parts;
    const texts = facts.sources.map(({ text }) => text);
    if ([...sourceSelect.options].map((one) => one.value).join("\n") !== texts.join("\n")) sourceSelect.replaceChildren(...texts.map((text) => h("option", { value: text }, visible(text))));
    sourceSelect.value = now.source;
    sampling.hidden = now.method !== "sampling";
    beaming.hidden = !beam;
    temperatureRange.value = String(now.temperature);
    write(temperatureOutput, number(now.temperature, 1));
    temperatureRange.setAttribute("aria-valuetext", number(now.temperature, 1));
    if (document.activeElement !== seedInput) seedInput.value = String(now.seed);
    beamsRange.value = String(now.beams);
    write(beamsOutput, `${now.beams} of up to ${facts.max_beams}`);
    beamsRange.setAttribute("aria-valuetext", `${now.beams}`);
    stepRange.max = String(n);
    stepRange.value = String(step + 1);
    stepRange.disabled = n === 1;
    const of = `${step + 1} of ${complete ? n : `at least ${n}`}`;
    write(stepOutput, of);
    stepRange.setAttribute("aria-valuetext", `step ${of}`);
    for (const [one, off] of pairs([stepButtons.first, step === 0], [stepButtons.back, step === 0], [stepButtons.next, step === n - 1], [stepButtons.last, step === n - 1])) {
      // A button that is switched off would lose the focus, and the keys with it.
      one.setAttribute("aria-disabled", String(off));
    }
    this.showChoices(now);
  }
  /** @param {T.Shown} _ */
  paintProblem({ complete, beam, missing, path, now }) {
    const { say, model, signal, parts: { problem } } = this;
    const asked = model.get("_asked");
    /** @type {string | null} */
    let wanted = null;
    if (asked) wanted = `the text “${asked}”`;
    else if (!complete) wanted = beam ? "a hypothesis of this search" : missing === "noise" ? `the random numbers of seed ${now.seed}` : `what follows “${say.textOf(path)}”`;
    if (wanted !== this.waitsFor) {
      this.waitsFor = wanted;
      this.since = performance.now();
      if (wanted) setTimeout(() => signal.aborted || this.schedule(), PATIENCE_MS + 50);
    }
    let text = model.get("_problem");
    if (wanted) {
      text = performance.now() - this.since < PATIENCE_MS ? `Python is asked for ${wanted}.`
        : `This needs Python, which has not answered: ${wanted} was never computed. Run the cell that shows this again.`;
    }
    problem.hidden = !text;
    write(problem, text ? capital(text) + (/[.!?”]$/.test(text) ? "" : ".") : "");
  }

  // ------------------------------------------------ pointer
  /** Back and forward by a step, to the first and to the last. */
  jumps() {
    const here = () => Number(this.parts.root.dataset.step);
    return { first: () => this.go(0), back: () => this.go(here() - 1), next: () => this.go(here() + 1), last: () => this.go(Infinity) };
  }
  listenToControls() {
    const { choice, model, parts: { sourceSelect, readButton, temperatureRange, seedInput, againButton, beamsRange, stepRange, stepButtons, undo, writtenRow } } = this;
    this.on(sourceSelect, "change", () => {
      if (model.get("_problem")) this.tell("");
      choice.choose({ source: sourceSelect.value, step: 0 });
    });
    this.on(readButton, "click", () => this.ask());
    this.on(temperatureRange, "input", () => choice.choose({ temperature: Number(temperatureRange.value) }));
    this.on(seedInput, "input", () => Number.isSafeInteger(seedInput.valueAsNumber) && seedInput.valueAsNumber >= 0 && choice.choose({ seed: seedInput.valueAsNumber }));
    this.on(againButton, "click", () => this.drawAgain());
    this.on(beamsRange, "input", () => choice.choose({ beams: Number(beamsRange.value) }));
    this.on(stepRange, "input", () => this.go(Number(stepRange.value) - 1));
    const { first, back, next, last } = this.jumps();
    for (const [element, jump] of pairs([stepButtons.first, first], [stepButtons.back, back], [stepButtons.next, next], [stepButtons.last, last])) this.on(element, "click", jump);
    this.on(undo, "click", () => {
      choice.choose({ taken: [] });
      writtenRow.focus({ preventScroll: true }); // the button goes
    });
  }
  listenToPictures() {
    const { answers, parts: { root, candidates, writtenRow, alignment, tree } } = this;
    this.on(candidates, "click", (event) => {
      const row = targetOf(event).closest("[data-part=candidate]");
      if (row) this.take(answers.facts.tokens.indexOf(row.getAttribute("data-token") ?? ""));
    });
    this.on(writtenRow, "click", (event) => {
      const chip = targetOf(event).closest("[data-step]");
      if (chip) this.go(Number(chip.getAttribute("data-step")));
    });
    this.on(alignment, "click", (event) => {
      const row = Math.floor((event.clientY - alignment.getBoundingClientRect().top - Number(alignment.dataset.top)) / Number(alignment.dataset.rowHeight));
      if (row >= 0 && row <= Number(root.dataset.step)) this.go(row);
    });
    this.on(tree, "click", (event) => {
      const node = targetOf(event).closest("[data-rank]");
      if (node) this.goTo(Number(node.getAttribute("data-level")), Number(node.getAttribute("data-rank")));
    });
  }

  // ------------------------------------------------ keys
  /** @param {EventTarget} target @returns {Record<string, () => unknown>} */
  actions(target) {
    const { choice, answers: { facts } } = this;
    const { method, taken: changed, hypothesis } = choice.now();
    const { first, back, next, last } = this.jumps();
    /** @param {number} by */
    const another = (by) => {
      const { step, beam } = this.look();
      if (beam) this.goTo(step, beam.rank + by);
    };
    const undone = () => {
      if (changed.length) choice.choose({ taken: [] });
      else if (hypothesis !== null) choice.choose({ hypothesis: null });
    };
    const { PageUp: _up, PageDown: _down, ...keys } = attentionKeys(choice, facts); // these scroll the page here
    return {
      ...keys,
      ArrowLeft: back, ArrowRight: next, Home: first, End: last,
      m: () => choice.choose({ method: METHODS[cycle(METHODS.indexOf(method), 1, 3)] }),
      u: undone, Escape: undone,
      ...(method === "sampling" ? { r: () => this.drawAgain() } : {}),
      ...(target === this.parts.tree ? { ArrowUp: () => another(-1), ArrowDown: () => another(1) } : {}),
    };
  }
  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.target === this.parts.ownText && event.key === "Enter") {
      this.ask();
      return true;
    }
    if (targetOf(event).matches("input, select, summary")) return false;
    const action = this.actions(targetOf(event))[event.key];
    if (action) action();
    return Boolean(action);
  }
}

export default frontEnd(View);
