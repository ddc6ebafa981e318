// @ts-check
/* The front end of headroom.widgets.BugSwitches.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-bug-switches           the root of one view; a page may hold many
 *   [data-part=switch]               <input type=checkbox>, value: a mistake's name
 *   [data-part=off]                  <button>: all off
 *   [data-part=what]                 what each mistake that is on does
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=numbers]              <table>: as it is, with the mistakes, difference; its rows carry data-number
 *   [data-part=sample-select], [data-part=part-select], [data-part=head-select]   <select>; head: "mean" or from 0
 *   [data-part=layer-range]          <input type=range>, value: layer from 1
 *   [data-part=example]              what the model says to the example, with and without the mistakes
 *   canvas[data-part=healthy], canvas[data-part=broken]   attention, queries down, keys across; they take the focus and
 *                                    the keys; data-left, -top, -cell-width, -cell-height: where their cells lie
 *   [data-part=legend], [data-part=table]
 *   [data-part=gradients]            <table> of bars: a row for each part of the model, data-gradient its name
 *   data-on (names joined with +), data-sample, data-part-shown, data-layer, data-head, data-query, data-key on the root
 */
import { choices, guardKeys, repaint } from "../kernel/choices.js";
import { themeColours } from "../kernel/colours.js";
import { attentionKeys, bind } from "../kernel/controls.js";
import { h, tableView, uniqueName, write } from "../kernel/elements.js";
import { cellUnder, surface } from "../kernel/matrix.js";
import { clamp, cycle } from "../kernel/numbers.js";
import { frontEnd } from "../kernel/python.js";
import { capital, sayHead } from "../kernel/words.js";
import { Data } from "./data.js";
import { paintDigit, paintMatrix } from "./paint.js";
import { partsOf } from "./parts.js";
import { fillGradients, fillNumbers, weightsTable } from "./tables.js";
import { Words } from "./words.js";
/** @import { View as Given, BugSwitches as T } from "../types" */


/** @param {string} text */
const withCode = (text) => text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece));

class View {
  /** @param {Given<T.Traits>} _ @param {AbortSignal} signal */
  constructor({ model, el }, signal) {
    this.model = model;
    this.names = model.get("_choices");
    this.data = new Data(model);
    this.say = new Words(this.data);
    this.table = tableView(() => weightsTable(this.data, this.say, this.choice.now()), "Table of weights");
    this.parts = partsOf(this.data, this.say, uniqueName(), this.table);
    this.painted = ""; // what the checkboxes and the gradients show
    const { root, boxes, off, controls } = this.parts;
    el.append(h("div", { class: "headroom-frame" }, root));
    const schedule = repaint(() => this.paint(), { model, names: [...this.names, "_results", "_attention"], canvases: [root], signal });
    this.choice = choices(model, this.names, { schedule, also: (changes) => this.follow(changes), signal });
    this.showChoices = bind(controls, this.choice, signal);
    for (const one of boxes) one.input.addEventListener("change", () => this.switchOn(one), { signal });
    off.addEventListener("click", () => this.choice.choose({ on: [] }), { signal });
    if (this.data.hasWeights) this.listenToPanels(signal);
    guardKeys(root, signal, (event) => this.press(event));
    this.paint();
  }

  // ------------------------------------------------ choosing
  /** Query and key exist in what is shown; Python does the same. @param {Partial<T.Now>} changes */
  follow(changes) {
    const { data, choice } = this;
    if (!data.hasWeights || !("sample" in changes || "part" in changes)) return;
    const now = { ...choice.now(), ...changes };
    const [queries, keyed] = data.sizes("", now.part)[now.sample];
    changes.query = Math.min(now.query, queries - 1);
    changes.key = Math.min(now.key, keyed - 1);
  }
  /** @param {{ name: string, slot: string, input: HTMLInputElement }} _ */
  switchOn({ name, slot, input }) {
    const { data, choice } = this;
    const others = choice.now().on.filter((one) => one !== name && !(input.checked && data.facts.mistakes.find((other) => other.name === one)?.slot === slot));
    choice.choose({ on: input.checked ? [...others, name] : others });
  }

  // ------------------------------------------------ painting a state
  paint() {
    const { say, data, choice, model, parts } = this;
    const { root, live, example, digit, numbersBody } = parts;
    const now = choice.now();
    const name = data.combination(now.on);
    const result = data.result(name) ?? null;
    const known = `${name} ${result !== null} ${Object.keys(model.get("_results")).length}`;
    if (data.hasWeights) this.paintPanels(now, result && name);
    if (data.isImage) paintDigit(digit, data, now.sample);
    for (const one of this.names) root.setAttribute(one === "part" ? "data-part-shown" : `data-${one}`, one === "on" ? name : String(now[one] ?? "mean"));
    this.showChoices(now);
    write(example, say.example(now));
    if (data.isImage) digit.setAttribute("aria-label", capital(say.sample(now.sample)));
    live.say(say.all(now));
    fillNumbers(numbersBody, data, now, result);
    if (this.painted !== known) this.writeSwitches(now, result);
    this.painted = known;
    if (data.hasWeights) this.table.update();
  }
  /** @param {T.Now} now @param {string | null} name */
  paintPanels(now, name) {
    const { say, data, parts: { root, panels, scaleLegend } } = this;
    const shownNow = panels.map(({ which }) => (which === "healthy" ? "" : now.on.length ? name : null));
    const colours = themeColours(root);
    const matrices = shownNow.map((one) => (one !== null && data.looks(one, now.part) ? data.rows(one, now) : null));
    const high = matrices.reduce((most, rows) => (rows ?? []).reduce((top, row) => row.reduce((a, b) => Math.max(a, b), top), most), 0);
    panels.forEach(({ canvas }, i) => {
      const [one, matrix] = [shownNow[i], matrices[i]];
      canvas.hidden = !matrix;
      if (one !== null && matrix) paintMatrix(canvas, data, one, now, matrix, high, colours);
    });
    panels.forEach(({ which, canvas, title, note }, i) => { // texts after pictures: a change in between would lay out anew
      write(title, which === "healthy" ? "As it is" : now.on.length ? `With the ${now.on.length > 1 ? "mistakes" : "mistake"}: ${say.titles(now.on)}` : "With a mistake");
      const one = shownNow[i];
      write(note, one !== null ? say.looks(one, now.part) : now.on.length ? "Not computed yet." : "Switch one on, and its attention stands here.");
      canvas.setAttribute("aria-label", `${title.textContent}: weights of layer ${now.layer + 1}, ${sayHead(now.head)}. Arrow keys move query and key.`);
    });
    scaleLegend.set(0, high, "Both pictures have one scale, up to the largest weight in them.");
  }
  /** What changes with the mistakes that are on, and with what is computed. @param {T.Now} now @param {T.Result | null} result */
  writeSwitches(now, result) {
    const { say, data, model, parts, data: { facts: { mistakes } }, parts: { boxes, off, what, withHead, computed } } = this;
    for (const { name: one, input } of boxes) input.checked = now.on.includes(one);
    off.disabled = !now.on.length;
    what.replaceChildren(...(now.on.length
      ? mistakes.filter((one) => now.on.includes(one.name)).map((one) => h("p", {}, h("b", {}, `${capital(one.title)}. `), ...withCode(one.sentence)))
      : [h("p", {}, "Each mistake is made in a copy of the model, and beside it you see the model as it is.")]));
    write(withHead, now.on.length > 1 ? "with the mistakes" : "with the mistake");
    fillGradients(parts, data, say, result, now.on.length > 0);
    const singles = mistakes.filter((one) => data.result(one.name)).length;
    write(computed, `Computed so far: ${singles} of ${mistakes.length} single mistakes, and ${Object.keys(model.get("_results")).length - 1 - singles} combinations.`);
  }

  // ------------------------------------------------ pointer and keys
  /** @param {AbortSignal} signal */
  listenToPanels(signal) {
    const { data, choice } = this;
    for (const { which, canvas } of this.parts.panels) {
      /** @param {MouseEvent} event */
      const at = (event) => {
        const now = choice.now();
        const name = which === "healthy" ? "" : data.combination(now.on);
        const cell = cellUnder(canvas, event, ...data.sizes(name, now.part)[now.sample]);
        return cell && { query: data.token(name, now, "queries", cell.row), key: data.token(name, now, "keys", cell.column) };
      };
      surface(canvas, signal, at, { point: (found) => choice.point(found), click: (found) => choice.choose(found) });
      canvas.addEventListener("click", () => canvas.focus({ preventScroll: true }), { signal });
    }
  }
  /** @returns {Record<string, () => unknown>} */
  actions() {
    const { data, choice, data: { facts } } = this;
    const { part, sample, query, key } = choice.now();
    const [queries, keyed] = data.sizes("", part)[sample];
    /** @param {number} by */
    const toQuery = (by) => choice.choose({ query: clamp(query + by, 0, queries - 1) });
    /** @param {number} by */
    const toKey = (by) => choice.choose({ key: clamp(key + by, 0, keyed - 1) });
    /** @param {number} by */
    const toSample = (by) => choice.choose({ sample: cycle(sample, by, facts.shown.length) });
    return {
      ...attentionKeys(choice, facts),
      ArrowUp: () => toQuery(-1), ArrowDown: () => toQuery(1), ArrowLeft: () => toKey(-1), ArrowRight: () => toKey(1),
      i: () => toSample(1), I: () => toSample(-1),
    };
  }
  /** @param {KeyboardEvent} event */
  press({ key, target }) {
    if (key === "Escape") {
      this.choice.choose({ on: [] });
      return true;
    }
    const action = this.parts.panels.some(({ canvas }) => canvas === target) && this.actions()[key];
    if (action) action();
    return Boolean(action);
  }
}

export default frontEnd(View);
