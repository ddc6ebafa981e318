// @ts-check
/* The front end of headroom.widgets.AttentionStepper.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-attention-stepper      the root of one view; a page may hold many
 *   [data-part=query-select]         <select>, value: query from 0
 *   [data-part=back], [data-part=next]   <button>s; [data-part=step-range]: <input type=range>, value: step from 1
 *   [data-part=edit]                 <button>: opens [data-part=changes], which holds
 *   [data-part=scaled-box], [data-part=temperature-range] (log2), [data-part=reset]
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=check]                what is said of the student's tensors (absent without them)
 *   [data-part=edited]               says that numbers are the reader's own (hidden when none is)
 *   [data-part=ledger]               the row in numbers, a key a line: td[data-spot=dots | scores | masked | powers |
 *                                    weights][data-key], from 0; while changing, input[data-part=score-input] and
 *                                    input[data-part=mask-box] in it
 *   [data-part=working]              the step written out; its terms are button[data-chip], from 0
 *   [data-part=output]               the output's entries, button[data-chip], from 0
 *   canvas[data-part=q | k | v | s | o]   the matrices; data-left, -top, -cell-width, -cell-height: where the cells lie
 *   [data-part=table], [data-part=keys] (<details>)
 *   data-query, data-step, data-spot, data-key, data-entry, data-locked, … on the root: what is shown, from 0;
 *   data-changed: whether some numbers are the reader's own
 */
import { choices, guardKeys, onPointer, repaint } from "../kernel/choices.js";
import { themeColours } from "../kernel/colours.js";
import { h, tableView, targetOf, uniqueName, write } from "../kernel/elements.js";
import { cellAt, gridOf } from "../kernel/matrix.js";
import { clamp, cycle } from "../kernel/numbers.js";
import { frontEnd } from "../kernel/python.js";
import { Data, SPOTS, STEPS, UNTOUCHED, cutEntry, upTo } from "./data.js";
import { writeLedger } from "./ledger.js";
import { Matrices } from "./matrices.js";
import { partsOf } from "./parts.js";
import { Words, temperatureOf } from "./words.js";
import { writeOutcome, writeWorking } from "./working.js";
/** @import { On, View as Given, AttentionStepper as T } from "../types" */

/** @type {("spot" | "key" | "entry")[]} */
const AIMED = ["spot", "key", "entry"]; // what says at what the reader points
/** @type {Record<T.Given, T.Step>} */
const STEP_OF = { scores: "scale", weights: "softmax", output: "mix" }; // where a stage of the comparison is seen
const SCORE_STEP = 0.25; // what an arrow key adds to a score
/** @type {Record<string, number[]>} */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** @type {(at: T.At) => Pick<T.Now, "spot" | "key" | "entry">} */
const place = ({ spot, key = null, entry = null }) => ({ spot, key, entry });

class View {
  /** @param {Given<T.Traits>} _ @param {AbortSignal} signal */
  constructor({ model, el }, signal) {
    this.model = model;
    this.names = model.get("_choices");
    this.signal = signal;
    this.data = new Data(model);
    this.say = new Words(this.data);
    this.table = tableView(() => this.say.tables(this.look()), "Table of all numbers");
    this.parts = partsOf(this.data, this.say, uniqueName(), this.table);
    this.matrices = new Matrices(this.data, this.say, this.parts);
    const { root, matrices } = this.parts;
    el.append(h("div", { class: "headroom-frame" }, root));
    this.schedule = repaint(() => this.paint(), { model, names: this.names, canvases: [...matrices.map(({ canvas }) => canvas), root], signal });
    this.choice = choices(model, this.names, { schedule: this.schedule, signal });
    this.listenToMatrices();
    this.listenToRows();
    this.listenToControls();
    guardKeys(root, signal, (event) => this.press(event));
    this.paint();
  }
  /** @type {On} */
  on(target, type, handle) {
    target.addEventListener(type, handle, { signal: this.signal });
  }
  look() {
    return this.data.look(this.choice.now());
  }

  // ------------------------------------------------ choosing
  /** @param {T.At | null} at */
  point(at) {
    this.choice.point(at === null ? null : place(at));
  }
  /** @param {T.At} at */
  hold(at) {
    const { choice, model } = this;
    const to = place(at);
    const same = AIMED.every((name) => (model.get(name) ?? null) === to[name]);
    choice.choose({ ...to, ...(at.query === undefined ? {} : { query: at.query }), locked: !(same && model.get("locked")) });
  }
  /** To another step: the key stays, the kind of number becomes that step's. @param {number} to */
  go(to) {
    const { choice } = this;
    const step = STEPS[Math.min(STEPS.length - 1, Math.max(0, to))];
    if (step !== choice.now().step) choice.choose({ step, spot: null, entry: null });
  }
  /** @param {number} by */
  stepBy(by) {
    this.go(STEPS.indexOf(this.choice.now().step) + by);
  }
  /** @param {number} query @param {number} key @param {number} value */
  setScore(query, key, value) {
    const { choice } = this;
    const others = choice.now().edited.filter(([i, j]) => i !== query || j !== key);
    choice.choose({ edited: [...others, [query, key, value]], spot: "scores", key, entry: null });
  }
  /** @param {number} query @param {number} key */
  flip(query, key) {
    const { choice } = this;
    const { flipped } = choice.now();
    const others = flipped.filter(([i, j]) => i !== query || j !== key);
    choice.choose({ flipped: others.length < flipped.length ? others : [...flipped, [query, key]], spot: "masked", key, entry: null });
  }

  // ------------------------------------------------ painting a state
  paint() {
    const { data, say, parts, parts: { root, live, working, outcome } } = this;
    const view = this.look();
    this.matrices.paint({ ...view, colours: themeColours(root) });
    this.writeControls(view);
    writeLedger(parts, view, data);
    writeWorking(working, view, data, say);
    writeOutcome(outcome, view, data, say);
    live.say(`${say.sayStep(view)}${say.saySpot(view)}${view.now.locked ? " Held." : ""}`);
    this.table.update();
  }
  /** @param {T.Shown} view */
  writeControls(view) {
    const { now, at, step, changed } = view;
    const { root, querySelect, stepRange, stepOutput, back, next, edit, changes, scaledBox, temperatureRange, temperatureOutput, reset, editedNote, check } = this.parts;
    for (const name of this.names) root.setAttribute(`data-${name}`, typeof now[name] === "object" ? JSON.stringify(now[name] ?? "none").replaceAll('"', "") : String(now[name]));
    root.setAttribute("data-changed", String(changed));
    querySelect.value = String(now.query);
    stepRange.value = String(at + 1);
    stepRange.setAttribute("aria-valuetext", `step ${at + 1} of ${STEPS.length}, ${step}`);
    write(stepOutput, `${at + 1} of ${STEPS.length}: ${step}`);
    // Not `disabled`: a button that had the focus would drop it, and the next key would reach the notebook.
    back.setAttribute("aria-disabled", String(at === 0));
    next.setAttribute("aria-disabled", String(at === STEPS.length - 1));
    edit.setAttribute("aria-pressed", String(now.editing));
    changes.hidden = !now.editing;
    scaledBox.checked = now.scaled;
    temperatureRange.value = String(Math.log2(now.temperature));
    temperatureRange.setAttribute("aria-valuetext", temperatureOf(now.temperature));
    write(temperatureOutput, temperatureOf(now.temperature));
    reset.setAttribute("aria-disabled", String(!changed));
    editedNote.hidden = !changed;
    check.hidden = changed;
    if (changed) write(editedNote, this.say.sayChanges(view));
  }

  // ------------------------------------------------ pointer
  scoreSpot() {
    return SPOTS[Math.min(STEPS.indexOf(this.choice.now().step), 3)];
  }
  /** The cell of a matrix as what is pointed at; left of the cells, its row's first. @param {T.Picture} _ @param {MouseEvent} event */
  inMatrix({ name, rows, columns, canvas }, event) {
    const all = canvas.getBoundingClientRect();
    const { left, top, cellWidth, cellHeight } = gridOf(canvas);
    const found = cellAt({ left, top, cellWidth, cellHeight }, Math.max(event.clientX - all.left, left), event.clientY - all.top, rows, columns);
    return found && this.spotOf(name, found.row, found.column);
  }
  /** @param {T.Letter} name @param {number} row @param {number} column @returns {T.At | null} */
  spotOf(name, row, column) {
    const { choice } = this;
    if (name === "k" || name === "v") return { spot: name, key: row, entry: column };
    if (name === "o" && choice.now().step !== "mix") return null;
    return { query: row, ...(name === "s" ? { spot: this.scoreSpot(), key: column } : { spot: name === "q" ? "q" : "output", entry: column }) };
  }
  /** @param {Element} target */
  ledgerSpot(target) {
    const { lines, columns } = this.parts;
    const line = lines.find(({ element }) => element.contains(target));
    const column = line ? line.cells.findIndex(({ element }) => element.contains(target)) : -1;
    return line && (column >= 0 || line.head.contains(target)) ? { spot: column < 0 ? this.scoreSpot() : columns[column].spot, key: line.key } : null;
  }
  /** @param {T.Chips} part @param {Element} target @returns {T.At | null} */
  chipSpot(part, target) {
    const i = part.all.findIndex(({ element }) => element.contains(target));
    if (i < 0) return null;
    if (part === this.parts.outcome) return { spot: "output", entry: i };
    const view = this.look();
    if (view.step === "compare") return { spot: "k", key: view.key, entry: i };
    return view.step === "mix" ? { spot: "v", key: i, entry: cutEntry(view.entry, this.data.facts.d_v) } : { spot: "powers", key: i };
  }
  listenToMatrices() {
    for (const one of this.parts.matrices) {
      onPointer(one.canvas, this.signal, (event) => {
        const found = this.inMatrix(one, event);
        // Another query's row is followed only when it is clicked: the row that is being worked through stays in place.
        if (found && (found.query === undefined || found.query === this.choice.now().query)) this.point(found);
      }, () => this.point(null));
      this.on(one.canvas, "click", (event) => {
        const found = this.inMatrix(one, event);
        if (found) this.hold(found);
        one.canvas.focus({ preventScroll: true });
      });
    }
  }
  listenToRows() {
    const { ledger, working, outcome } = this.parts;
    /** @type {[HTMLElement, (target: Element) => T.At | null][]} */
    const rows = [[ledger, (target) => this.ledgerSpot(target)], [working.row, (target) => this.chipSpot(working, target)], [outcome.row, (target) => this.chipSpot(outcome, target)]];
    for (const [element, at] of rows) {
      onPointer(element, this.signal, (event) => {
        const found = at(targetOf(event));
        if (found) this.point(found);
      }, () => this.point(null));
      this.on(element, "focusin", (event) => { // to have the focus is to be pointed at
        const found = at(targetOf(event));
        if (found && !this.choice.now().locked && targetOf(event).matches(":focus-visible")) this.choice.choose(place(found));
      });
      this.on(element, "click", (event) => {
        const found = !targetOf(event).closest("input") && at(targetOf(event));
        if (found) this.hold(found);
      });
    }
  }

  // ------------------------------------------------ controls
  listenToControls() {
    const { choice, parts: { querySelect, back, next, stepRange, edit, scaledBox, temperatureRange, reset, lines, checks } } = this;
    this.on(querySelect, "change", () => choice.choose({ query: Number(querySelect.value), spot: null, key: null, entry: null, locked: false }));
    this.on(back, "click", () => this.stepBy(-1));
    this.on(next, "click", () => this.stepBy(1));
    this.on(stepRange, "input", () => this.go(Number(stepRange.value) - 1));
    this.on(edit, "click", () => choice.choose({ editing: !choice.now().editing }));
    this.on(scaledBox, "change", () => choice.choose({ scaled: scaledBox.checked }));
    this.on(temperatureRange, "input", () => choice.choose({ temperature: 2 ** Number(temperatureRange.value) }));
    this.on(reset, "click", () => choice.choose(UNTOUCHED));
    for (const { key, scoreInput, maskBox } of lines) {
      this.on(scoreInput, "input", () => {
        if (scoreInput.value !== "" && Number.isFinite(Number(scoreInput.value))) this.setScore(choice.now().query, key, Number(scoreInput.value));
      });
      this.on(scoreInput, "blur", () => this.schedule()); // an empty field shows its number again
      this.on(maskBox, "change", () => this.flip(choice.now().query, key));
    }
    for (const one of checks) {
      if (one.ok) continue;
      const { stage, show, query, column } = one;
      this.on(show, "click", () => choice.choose({
        query, step: STEP_OF[stage], spot: stage, key: stage === "output" ? null : column, entry: stage === "output" ? column : null, locked: true,
      }));
    }
  }

  // ------------------------------------------------ keys
  /** @param {T.Picture} one @param {number[]} _ */
  inCanvas(one, [down, right]) {
    const { choice } = this;
    const view = this.look();
    const rowNow = "qso".includes(one.name) ? view.query : view.key;
    const columnNow = one.name === "s" ? view.key : cutEntry(view.entry, one.columns);
    const found = this.spotOf(one.name, clamp(rowNow + down, 0, one.rows - 1), clamp(columnNow + right, 0, one.columns - 1));
    if (found) choice.choose({ ...place(found), ...(found.query === undefined ? {} : { query: found.query }) });
  }
  /** @param {HTMLElement} td @param {number[]} _ */
  inLedger(td, [down, right]) {
    const { choice, data: { facts }, parts: { columns, lines } } = this;
    const j = clamp(Number(td.dataset.key) + down, 0, facts.n_keys - 1);
    const own = upTo(columns.length).filter((c) => !columns[c].whose);
    const from = own.findIndex((c) => columns[c].spot === td.dataset.spot);
    const to = clamp(from + right, 0, own.length - 1);
    if (columns[own[to]].from > this.look().at) { // past the last column that is there: the next step
      this.stepBy(1);
      this.paint();
    } else if (right > 0 && to === from) this.stepBy(1); // the last column: to the output
    lines[j].cells[own[to]].element.focus();
    choice.choose(place({ spot: columns[own[to]].spot, key: j }));
  }
  /** @param {T.Chips} part @param {HTMLElement} chip @param {number[]} _ */
  inChips(part, chip, [down, right]) {
    const { choice } = this;
    const shown = part.all.filter(({ element }) => !element.hidden);
    const to = shown[clamp(Number(chip.dataset.chip) + down + right, 0, shown.length - 1)].element;
    to.focus();
    const found = this.chipSpot(part, to);
    if (found) choice.choose(place(found));
  }
  /** In a score that is being typed, up and down change it by a step. @param {HTMLElement} target @param {string} key */
  pressInScore(target, key) {
    const typed = this.parts.lines.find(({ scoreInput }) => scoreInput === target);
    if (!typed || (key !== "ArrowUp" && key !== "ArrowDown")) return false;
    const value = Number(typed.scoreInput.value) + (key === "ArrowUp" ? SCORE_STEP : -SCORE_STEP);
    typed.scoreInput.value = String(value);
    this.setScore(this.choice.now().query, typed.key, value);
    return true;
  }
  /** @param {KeyboardEvent} event */
  press(event) {
    const { choice, parts: { matrices, outcome, working }, data: { facts: { n_queries } } } = this;
    const [pressed, target] = [event.key, targetOf(event)];
    if (pressed === "Escape") {
      choice.choose({ locked: false, spot: null, key: null, entry: null });
      return true;
    }
    if (this.pressInScore(target, pressed)) return true;
    const matrix = matrices.find(({ canvas }) => canvas === target);
    const td = target.matches("td[data-spot]") ? target : null;
    const part = target.matches("[data-chip]") ? (outcome.row.contains(target) ? outcome : working) : null;
    if (!matrix && !td && !part) return false;
    if (pressed === "[" || pressed === "PageUp") this.stepBy(-1);
    else if (pressed === "]" || pressed === "PageDown") this.stepBy(1);
    else if (pressed === "q" || pressed === "Q") choice.choose({ query: cycle(choice.now().query, pressed === "q" ? 1 : -1, n_queries) });
    else if (pressed in ARROWS) {
      if (matrix) this.inCanvas(matrix, ARROWS[pressed]);
      else if (td) this.inLedger(td, ARROWS[pressed]);
      else if (part) this.inChips(part, target, ARROWS[pressed]);
    } else if ((pressed === "Enter" || pressed === " ") && !part) choice.choose({ locked: !choice.now().locked }); // a chip is a button
    else return false;
    return true;
  }
}

export default frontEnd(View);
