// @ts-check
/* The front end of headroom.widgets.PositionExplorer.
 *
 * Positions p, pairs i and dimensions 2i, 2i + 1 count from 0, on the screen too: they are the formula's.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-position-explorer      the root of one view; a page may hold many
 *   canvas[data-part=table-picture]  the table, positions down, dimensions across; takes the focus and the keys
 *   canvas[data-part=matrix]         the similarity of every two positions; takes the focus and the keys
 *   canvas[data-part=profile]        the similarity by distance; data-step: pixels from one distance to the next
 *   canvas[data-part=wave]           the chosen dimension over the positions; data-step: as above
 *                                    on these four data-left, -top, -cell-width, -cell-height say where cells or points lie
 *   canvas[data-part=circle]         the chosen pair as a point, at the position and at the shifted one
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=kind]                 <input type=radio>, value: "sin-cos", "learned", "rotary" or "yours"
 *   [data-part=base-range]           <input type=range>, value: log10 of the base
 *   [data-part=width-range], [data-part=count-range], [data-part=position-range], [data-part=dimension-range],
 *   [data-part=shift-range]          <input type=range>, value: the number itself
 *   [data-part=measure-select]       <select>, value: "dot" or "cosine"
 *   [data-part=distance], [data-part=rotation], [data-part=comparison]   what the pictures come to, in numbers
 *   [data-part=show-difference]      <button>: go to the first number in which yours and sin-cos differ
 *   [data-part=table], [data-part=keys] (<details>)
 *   data-kind, data-position, data-dimension, data-shift, data-base, … on the root: what is shown now
 */
import { choices, guardKeys, repaint } from "../kernel/choices.js";
import { bind } from "../kernel/controls.js";
import { h, tableView, uniqueName, write } from "../kernel/elements.js";
import { cellUnder, surface } from "../kernel/matrix.js";
import { clamp, cycle } from "../kernel/numbers.js";
import { frontEnd } from "../kernel/python.js";
import { Data } from "./data.js";
import { paintCircle, paintMatrix, paintProfile, paintTable, paintTile, paintWave } from "./paint.js";
import { partsOf } from "./parts.js";
import { NAMES, Words, measureName, minus, plural, sayBase, sayLength, short } from "./words.js";
/** @import { Canvas, On, View as Given, PositionExplorer as T } from "../types" */

/** @type {("_yours" | "_yours_facts")[]} */
const SENT_AGAIN = ["_yours", "_yours_facts"]; // when the reader's function has made another table

class View {
  /** @param {Given<T.Traits>} _ @param {AbortSignal} signal */
  constructor({ model, el }, signal) {
    this.model = model;
    this.names = model.get("_choices");
    this.signal = signal;
    this.data = new Data(model);
    this.say = new Words(this.data);
    this.table = tableView(() => this.say.table(this.shown()), "Table of numbers");
    this.parts = partsOf(this.data, uniqueName(), this.table);
    const { root, pictures, kindsField, measure } = this.parts;
    el.append(h("div", { class: "headroom-frame" }, root));
    const canvases = [...Object.values(pictures), kindsField, root];
    const schedule = repaint(() => this.paint(), { model, names: [...this.names, ...SENT_AGAIN], canvases, signal });
    const readYours = () => this.data.readYours();
    for (const name of SENT_AGAIN) model.on(`change:${name}`, readYours);
    signal.addEventListener("abort", () => SENT_AGAIN.forEach((name) => model.off(`change:${name}`, readYours)));
    this.choice = choices(model, this.names, { schedule, also: (changes) => this.follow(changes), signal });
    bind([measure], this.choice, signal);
    this.listenToPictures();
    this.listenToControls();
    guardKeys(root, signal, (event) => this.press(event));
    this.paint();
  }
  /** @type {On} */
  on(target, type, handle) {
    target.addEventListener(type, handle, { signal: this.signal });
  }

  // ------------------------------------------------ choosing
  /** What is shown: the choice, kept to what exists while Python's changes arrive one by one. */
  shown() {
    const now = this.choice.now();
    this.fitIn(now, now);
    return now;
  }
  /** Brings position, shift and dimension of `now` into range, and what it had to change into `changes`. @param {T.Now} now @param {Partial<T.Now>} changes */
  fitIn(now, changes) {
    const last = now.n_positions - 1;
    /** @param {T.Size} name @param {number} value */
    const set = (name, value) => now[name] !== value && (changes[name] = now[name] = value);
    set("position", clamp(now.position, 0, last));
    set("shift", clamp(now.shift, -last, last));
    set("dimension", clamp(now.dimension, 0, this.data.widthOf(now.kind, now.d_model) - 1));
  }
  /** What follows from a choice; Python does the same. @param {Partial<T.Now>} changes */
  follow(changes) {
    this.fitIn({ ...this.choice.now(), ...changes }, changes);
  }
  /** @param {Partial<T.Now>} at */
  click(at) {
    const { choice, model } = this;
    const again = model.get("locked") && this.names.every((name) => !(name in at) || at[name] === model.get(name));
    choice.choose({ ...at, locked: !again });
  }

  // ------------------------------------------------ painting a state
  // Everything is measured and painted before any text changes: a change in between would make the browser lay out anew.
  paint() {
    const { data, parts: { root, tiles, pictures } } = this;
    const now = this.shown();
    const one = data.encoding(now.kind, now);
    const style = getComputedStyle(root);
    const colours = { text: style.color, mark: style.getPropertyValue("--headroom-mark").trim(), line: style.getPropertyValue("--headroom-line").trim() };
    for (const tile of tiles) paintTile(tile, data, now, colours);
    paintTable(pictures.table, data, now, one, colours);
    paintMatrix(pictures.matrix, data, now, one, colours);
    paintProfile(pictures.profile, data, now, one, colours);
    paintWave(pictures.wave, data, now, one, colours);
    paintCircle(pictures.circle, data, now, one, colours);
    this.writeTexts(now, one);
  }
  /** @param {T.Now} now @param {T.Encoding} one */
  writeTexts(now, one) {
    for (const name of this.names) this.parts.root.setAttribute(`data-${name.replace("_", "-")}`, String(now[name]));
    this.writeControls(now, one);
    this.writeTiles(now);
    this.writePictures(now, one);
    this.table.update();
  }
  /** @param {T.Now} now @param {T.Encoding} one */
  writeControls(now, one) {
    const { facts } = this.data;
    const { base, width, count, position, dimension, shift, measure } = this.parts;
    const { position: p, dimension: j, shift: by, n_positions: n } = now;
    const [lowest, highest] = facts.bases;
    base.set(Math.log10(now.base), Math.log10(lowest), Math.log10(highest), sayBase(now.base));
    width.set(now.d_model, 2, facts.max_d_model, String(now.d_model));
    count.set(n, 2, facts.max_positions, String(n));
    position.set(p, 0, n - 1, String(p));
    dimension.set(j, 0, one.width - 1, String(j));
    shift.set(by, 1 - n, n - 1, `${by > 0 ? "+" : ""}${minus(String(by))}`);
    measure.show(now);
  }
  /** @param {T.Now} now */
  writeTiles(now) {
    const { data, data: { kinds }, parts: { tiles, tilesTitle } } = this;
    const { kind, position: p, shift: by, measure } = now;
    const target = p + by;
    write(tilesTitle, `The same position in ${plural(kinds.length, "encoding")}: ${p}, compared with ${minus(String(target))}`);
    for (const { kind: its, input, value, label } of tiles) {
      const other = data.encoding(its, now);
      const missing = [p, target].find((at) => !other.row(at));
      const says = missing === undefined ? `${measureName(its, measure)} ${short(data.similarity(other, measure, p, target))}` : `no row ${missing}`;
      input.checked = its === kind;
      label.classList.toggle("headroom-chosen", its === kind);
      input.setAttribute("aria-label", `${NAMES[its]}, ${says}`);
      write(value, says);
    }
  }
  /** @param {T.Now} now @param {T.Encoding} one */
  writePictures(now, one) {
    const { data, say, parts: { pictures, titles, tableLegend, matrixLegend, distance, rotation, comparison, showDifference, live } } = this;
    const { n_positions: n, dimension: j, measure } = now;
    say.titles(now, one).forEach((title, i) => write(titles[i], title));
    const what = measureName(now.kind, measure);
    const { low, high } = data.similarities(one, measure);
    tableLegend.set(-one.limit, one.limit, `Colours of the table${one.rows.length < n ? "; grey: no row" : ""}.`);
    matrixLegend.set(low, high, `Colours of the ${what}s; the line marks all pairs that are as far apart.`);
    pictures.table.setAttribute("aria-label", `${titles[0].textContent}. Up and down change the position, left and right the dimension, Enter locks.`);
    pictures.matrix.setAttribute("aria-label", `${titles[1].textContent}, ${n} by ${n}. Up and down change the position, left and right the shift, Enter locks.`);
    const [said, turns] = [say.distance(now, one), say.rotation(now, one)];
    pictures.profile.setAttribute("aria-label", `${titles[3].textContent}: the mean as a line, from least to most as a band. ${said}`);
    pictures.wave.setAttribute("aria-label", `${titles[2].textContent}. ${one.omegas ? `A wave ${sayLength(one.omegas[j >> 1])} positions long.` : "Numbers, not a formula's wave."}`);
    pictures.circle.setAttribute("aria-label", `${titles[4].textContent}. ${turns[0]}`);
    write(distance, said);
    if (rotation.textContent !== turns.join("")) rotation.replaceChildren(...turns.map((text) => h("p", {}, text)));
    live.say(say.all(now, one));
    if (data.kinds.includes("yours")) {
      write(comparison, say.comparison(now));
      showDifference.hidden = !data.differences(now.base)?.first;
    }
  }

  // ------------------------------------------------ pointer
  listenToPictures() {
    const { model, data, parts: { pictures: { table, matrix, profile, wave } } } = this;
    const n = () => model.get("n_positions");
    const width = () => data.widthOf(model.get("kind"), model.get("d_model"));
    /** @param {Canvas} canvas @param {(event: MouseEvent) => Partial<T.Now> | null} at @param {boolean} focus */
    const listen = (canvas, at, focus) => {
      surface(canvas, this.signal, at, { point: (place) => this.choice.point(place), click: (place) => this.click(place) });
      if (focus) this.on(canvas, "click", (event) => at(event) && canvas.focus({ preventScroll: true }));
    };
    /** How far along a canvas the pointer is. @param {Canvas} canvas @param {MouseEvent} event */
    const along = (canvas, { clientX }) => Math.round((clientX - canvas.getBoundingClientRect().left - Number(canvas.dataset.left)) / Number(canvas.dataset.step));
    listen(table, (event) => {
      const cell = cellUnder(table, event, n(), width());
      return cell && { position: cell.row, dimension: cell.column };
    }, true);
    listen(matrix, (event) => {
      const cell = cellUnder(matrix, event, n(), n());
      return cell && { position: cell.row, shift: cell.column - cell.row };
    }, true);
    listen(profile, (event) => ({ shift: clamp(along(profile, event), 0, 2 * n() - 2) - (n() - 1) }), false);
    listen(wave, (event) => ({ position: clamp(along(wave, event), 0, n() - 1) }), false);
  }

  // ------------------------------------------------ controls
  /** The base that a slider stands for, in three digits. @param {number} exponent */
  nearest(exponent) {
    return clamp(Number((10 ** exponent).toPrecision(3)), ...this.data.facts.bases);
  }
  listenToControls() {
    const { data, model, choice, parts: { base, width, count, position, dimension, shift, tiles, showDifference } } = this;
    this.on(base.input, "input", () => choice.choose({ base: this.nearest(Number(base.input.value)) }));
    for (const [name, { input }] of Object.entries({ d_model: width, n_positions: count, position, dimension, shift })) {
      this.on(input, "input", () => choice.choose({ [name]: Number(input.value) }));
    }
    for (const { kind, input } of tiles) this.on(input, "change", () => choice.choose({ kind }));
    this.on(showDifference, "click", () => {
      const first = data.differences(model.get("base"))?.first;
      if (!first) return;
      const n = Math.max(model.get("n_positions"), first.position + 1);
      choice.choose({ kind: "yours", n_positions: n, position: first.position, dimension: first.dimension, locked: true });
    });
  }

  // ------------------------------------------------ keys
  /** What the keys do on the table and on the matrix. @param {EventTarget} place @returns {Record<string, () => unknown>} */
  actions(place) {
    const { data, choice, data: { facts, kinds } } = this;
    const now = this.shown();
    /** @param {T.Size} name @param {number} by @param {number} [low] @param {number} [high] */
    const step = (name, by, low = -Infinity, high = Infinity) => choice.choose({ [name]: clamp(now[name] + by, low, high) });
    /** @param {number} by */
    const move = (by) => step("position", by, 0, now.n_positions - 1);
    /** @param {number} by */
    const moveShift = (by) => step("shift", by, 1 - now.n_positions, now.n_positions - 1);
    /** @param {number} by */
    const across = (by) => (place === this.parts.pictures.matrix ? moveShift(by) : step("dimension", by, 0, data.widthOf(now.kind, now.d_model) - 1));
    /** @param {number} by */
    const stepKind = (by) => choice.choose({ kind: kinds[cycle(kinds.indexOf(now.kind), by, kinds.length)] });
    /** @param {number} by */
    const stepBase = (by) => choice.choose({ base: this.nearest(Math.round((Math.log10(now.base) + by) * 20) / 20) });
    const lock = () => choice.choose({ locked: !now.locked });
    return {
      ArrowUp: () => move(-1),
      ArrowDown: () => move(1),
      PageUp: () => move(-10),
      PageDown: () => move(10),
      ArrowLeft: () => across(-1),
      ArrowRight: () => across(1),
      s: () => moveShift(1),
      S: () => moveShift(-1),
      "[": () => step("d_model", -2, 2, facts.max_d_model),
      "]": () => step("d_model", 2, 2, facts.max_d_model),
      "-": () => stepBase(-0.05),
      "+": () => stepBase(0.05),
      k: () => stepKind(1),
      K: () => stepKind(-1),
      m: () => choice.choose({ measure: now.measure === "dot" ? "cosine" : "dot" }),
      Enter: lock,
      " ": lock,
    };
  }
  /** @param {KeyboardEvent} event */
  press({ key, target }) {
    if (key === "Escape") {
      this.choice.choose({ locked: false });
      return true;
    }
    const { table, matrix } = this.parts.pictures;
    const action = (target === table || target === matrix) && this.actions(target)[key];
    if (action) action();
    return Boolean(action);
  }
}

export default frontEnd(View);
