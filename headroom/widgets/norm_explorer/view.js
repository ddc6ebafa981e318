// @ts-check
/* The front end of headroom.widgets.NormExplorer.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-norm-explorer          the root of one view; a page may hold many
 *   canvas[data-part=tensor]         x; takes the focus and the keys, its numbers can be dragged
 *   canvas[data-part=output]         what the chosen norm makes of it
 *   canvas[data-part=theirs]         what the reader's own module made of the x it started from (only with a module)
 *                                    data-left, -top, -cell-width, -cell-height, -sample-height on each: token t of
 *                                    sample s lies at top + s * sampleHeight + t * cellHeight
 *   [data-part=norm]                 <input type=radio>, value: "none", "LayerNorm", "RMSNorm", "BatchNorm"; its label
 *                                    holds a canvas[data-part=small] and says how many outputs have changed
 *   [data-part=value-input]          <input type=number>: the chosen number
 *   [data-part=eps-range]            <input type=range>, value: log10 of ε
 *   [data-part=affine-box]           <input type=checkbox> (only with γ or β)
 *   [data-part=times-ten], [data-part=tenth], [data-part=plus-one], [data-part=minus-one], [data-part=reset]   <button>s
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=calculation]          mean, variance and ε of the chosen number, in numbers
 *   [data-part=compared]             how the reader's own module differs
 *   canvas[data-part=before], canvas[data-part=after]   histograms; [data-part=table], [data-part=keys] (<details>)
 *   data-norm, data-sample, data-token, data-feature, data-locked, data-eps, data-affine on the root: what is shown now
 */
import { choices, guardKeys, onPointer, repaint } from "../kernel/choices.js";
import { themeColours } from "../kernel/colours.js";
import { bind } from "../kernel/controls.js";
import { h, tableView, uniqueName, write } from "../kernel/elements.js";
import { clamp, decode } from "../kernel/numbers.js";
import { frontEnd } from "../kernel/python.js";
import { Data, NORMS, reachOf } from "./data.js";
import { paintHistogram } from "./histogram.js";
import { paintTensor } from "./paint.js";
import { MOST, partsOf } from "./parts.js";
import { Words, amount, sayEps } from "./words.js";
/** @import { Canvas, Legend, On, Point, View as Given, NormExplorer as T } from "../types" */

const DRAG_PIXELS = 5; // a step of the number for so many pixels
/** @type {Record<string, Point>} */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** Steps land on whole steps: 0.3, never 0.30000000000000004. @param {number} value @param {number} step */
const stepped = (value, step) => {
  const to = clamp(value, -MOST, MOST);
  return Number((Math.round(to / step) * step).toPrecision(12));
};

class View {
  /** @param {Given<T.Traits>} _ @param {AbortSignal} signal */
  constructor({ model, el }, signal) {
    this.model = model;
    this.names = model.get("_choices");
    this.signal = signal;
    signal.addEventListener("abort", () => this.keep()); // before what it keeps is sent
    this.data = new Data(model);
    this.say = new Words(this.data);
    /** @type {Float64Array<ArrayBuffer> | null} */
    this.draft = null; // x while it is dragged or typed: Python gets it when that ends
    /** @type {{ one: number, from: number, value: number, step: number, far: boolean, again: boolean } | null} */
    this.drag = null;
    this.table = tableView(() => this.say.table(this.view), "Table of x and its norms");
    this.parts = partsOf(this.data, uniqueName(), this.table);
    const { root, tensor, output, before, after, tiles, own, affine } = this.parts;
    el.append(h("div", { class: "headroom-frame" }, root));
    const tensors = [tensor, output, ...tiles.map((tile) => tile.small), ...(own ? [own.canvas] : [])];
    this.schedule = repaint(() => this.paint(), { model, names: [...this.names, "x"], canvases: [...tensors, before, after, root], signal });
    this.choice = choices(model, [...this.names, "x"], { schedule: this.schedule, signal });
    bind([affine], this.choice, signal);
    this.view = this.data.look(this.choice.now(), this.numbers());
    this.listenToPictures(tensors);
    this.listenToControls();
    guardKeys(root, signal, (event) => this.press(event));
    this.paint();
  }
  /** @type {On} */
  on(target, type, handle) {
    target.addEventListener(type, handle, { signal: this.signal });
  }

  // ------------------------------------------------ choosing
  numbers() {
    return this.draft ?? decode(Float64Array, this.model.get("x"));
  }
  current() {
    return this.data.at(this.choice.now());
  }
  typing() {
    const { root, valueInput } = this.parts;
    return /** @type {Document | ShadowRoot} */ (root.getRootNode()).activeElement === valueInput;
  }
  /** @param {number} one @param {number} value */
  edit(one, value) {
    this.draft = Float64Array.from(this.numbers());
    this.draft[one] = value;
    this.schedule();
  }
  keep(more = {}) {
    if (this.draft === null) return;
    const x = this.draft;
    this.draft = null;
    this.choice.choose({ x: new DataView(x.buffer), ...more });
  }
  /** @param {number} steps */
  nudge(steps) {
    const x = this.numbers();
    const one = this.current();
    const step = this.data.stepOf(x, one);
    this.edit(one, stepped(x[one] + steps * step, step));
    this.keep();
  }
  /** @param {(value: number, one: number) => number} action */
  change(action) {
    const x = Float64Array.from(this.numbers(), action);
    this.draft = null;
    if (x.every((value) => Math.abs(value) <= MOST)) this.choice.choose({ x: new DataView(x.buffer) });
  }
  /** @param {number} power */
  setEps(power) {
    this.choice.choose({ eps: Number((10 ** clamp(power, -12, 2)).toPrecision(6)) });
  }

  // ------------------------------------------------ painting a state
  // Everything is measured and painted before any text changes: a change in between would make the browser lay out anew.
  paint() {
    const { data } = this;
    const { root, tensor, output, before, after, tiles, own } = this.parts;
    const view = this.view = data.look(this.choice.now(), this.numbers());
    const { now, x, outs } = view;
    const colours = themeColours(root);
    paintTensor(tensor, data, x, { view, colours, norm: now.norm, then: data.start, large: true });
    paintTensor(output, data, outs[now.norm], { view, colours, norm: now.norm, then: data.atStart(now.norm, now).out, large: true });
    for (const { norm, small } of tiles) paintTensor(small, data, outs[norm], { view, colours, norm, then: data.atStart(norm, now).out });
    const difference = own && data.differing(now);
    if (own && difference) paintTensor(own.canvas, data, data.theirs, { view, colours, norm: now.norm, crossed: difference.where, large: true });
    paintHistogram(before, data, x, "Before", view, colours);
    paintHistogram(after, data, outs[now.norm], "After", view, colours);
    this.writeTexts(view, difference);
  }
  /** @param {T.Look} view @param {T.Difference | null} difference */
  writeTexts(view, difference) {
    const { say, say: { shape } } = this;
    const { root, tensor, output, leftPanel, rightPanel, sum, role, tilesTitle, own, live } = this.parts;
    const { now, x, outs, edited } = view;
    for (const name of this.names) root.setAttribute(`data-${name}`, String(now[name]));
    this.writeControls(view);
    write(leftPanel.title, `Before: x, ${shape}`);
    write(rightPanel.title, now.norm === "none" ? "After no norm: the same" : `After ${now.norm}`);
    /** @param {Float64Array} values @param {Legend} bar */
    const scale = (values, bar) => {
      const reach = reachOf(values);
      bar.set(-reach, reach, "Purple is above 0, brown below, white 0.", amount);
    };
    scale(x, leftPanel.bar);
    scale(outs[now.norm], rightPanel.bar);
    tensor.setAttribute("aria-label", `x: ${shape}. ${now.locked ? "Arrow keys change the number, Escape lets go." : "Arrow keys move, Enter locks a number to change it."}`);
    output.setAttribute("aria-label", `${now.norm === "none" ? "x as it is" : `What ${now.norm} makes of x`}: ${shape}. The table below has the numbers.`);
    write(tilesTitle, edited.length ? "The same x after each norm: ▲ and ▼ mark what has changed since the start" : "The same x after each norm: drag a number of x, and see which outputs change");
    this.writeTiles(view);
    live.say(say.all(view));
    const [first, second] = say.calculation(view);
    write(sum, first);
    write(role, second ?? "");
    if (own && difference) {
      write(own.compared, say.compared(now, difference));
      own.canvas.setAttribute("aria-label", `What your module made of the x it started from: ${shape}. ${say.compared(now, difference)}`);
    }
    this.table.update();
  }
  /** @param {T.Look} _ */
  writeControls({ now, x, one, place, value, edited }) {
    const { data, say, parts: { valueInput, epsRange, epsOutput, affine, buttons } } = this;
    valueInput.setAttribute("aria-label", `Chosen number: ${say.place(place)}`);
    const step = data.stepOf(x, one);
    valueInput.step = String(step);
    // What is being typed stays as it is typed.
    if (!this.typing() || Number(valueInput.value) !== value) valueInput.value = String(Number(value.toPrecision(7)));
    epsRange.value = String(Math.log10(now.eps));
    epsRange.setAttribute("aria-valuetext", `ε = ${sayEps(now.eps)}`);
    write(epsOutput, sayEps(now.eps));
    affine.show(now);
    buttons["times-ten"][0].disabled = reachOf(x) * 10 > MOST;
    buttons.reset[0].disabled = !edited.length;
  }
  /** @param {T.Look} _ */
  writeTiles({ now, changed, edited }) {
    const { say } = this;
    for (const { norm, input, note, label } of this.parts.tiles) {
      const text = edited.length ? say.changed(changed[norm]).short : norm === "none" ? "as it is" : say.groups(norm);
      input.checked = norm === now.norm;
      input.setAttribute("aria-label", `${norm === "none" ? "no norm" : norm}: ${text}`);
      label.classList.toggle("headroom-chosen", norm === now.norm);
      write(note, text);
    }
  }

  // ------------------------------------------------ pointer
  /** @param {Canvas} canvas @param {MouseEvent} event */
  pointed(canvas, event) {
    const { samples, tokens, features } = this.data;
    const r = canvas.getBoundingClientRect();
    const { left, top, cellWidth, cellHeight, sampleHeight } = Object.fromEntries(Object.entries(canvas.dataset).map(([name, value]) => [name, Number(value)]));
    const [down, right] = [event.clientY - r.top - top, event.clientX - r.left - left];
    const [sample, feature] = [Math.floor(down / sampleHeight), Math.floor(right / cellWidth)];
    const token = Math.floor((down - sample * sampleHeight) / cellHeight);
    const there = down >= 0 && sample < samples && token < tokens && feature >= 0 && feature < features;
    return there ? { sample, token, feature } : null;
  }
  /** @param {Canvas[]} canvases */
  listenToPictures(canvases) {
    for (const canvas of canvases) {
      onPointer(canvas, this.signal, (event) => {
        const place = this.drag || this.draft ? null : this.pointed(canvas, event); // what is typed belongs to one number
        if (place) this.choice.point(place);
      }, () => !this.drag && this.choice.point(null));
    }
    const { tensor } = this.parts;
    this.on(tensor, "pointerdown", (event) => this.startDrag(event));
    this.on(tensor, "pointermove", ({ clientY }) => {
      const { drag } = this;
      if (!drag) return;
      const up = drag.from - clientY;
      drag.far ||= Math.abs(up) > 3;
      if (drag.far) this.edit(drag.one, stepped(drag.value + Math.round(up / DRAG_PIXELS) * drag.step, drag.step));
    });
    this.on(tensor, "pointerup", () => this.endDrag());
    this.on(tensor, "pointercancel", () => this.dropDrag());
  }
  /** @param {PointerEvent} event */
  startDrag(event) {
    const { data, choice, model, parts: { tensor } } = this;
    const place = event.button === 0 && event.isPrimary && this.pointed(tensor, event);
    if (!place) return;
    event.preventDefault(); // no selecting of text
    tensor.focus({ preventScroll: true });
    tensor.setPointerCapture(event.pointerId);
    const one = data.at(place);
    const x = this.numbers();
    this.drag = { one, from: event.clientY, value: x[one], step: data.stepOf(x, one), far: false, again: model.get("locked") && one === this.current() };
    choice.choose(place);
  }
  endDrag() {
    if (!this.drag) return;
    const { far, again } = this.drag;
    this.drag = null;
    if (far) this.keep({ locked: true }); // what was dragged stays chosen while the pointer goes on
    else this.choice.choose({ locked: !again });
  }
  dropDrag() {
    if (!this.drag) return false;
    [this.drag, this.draft] = [null, null];
    this.schedule();
    return true;
  }

  // ------------------------------------------------ controls
  listenToControls() {
    const { valueInput, epsRange, buttons, tiles } = this.parts;
    this.on(valueInput, "input", () => {
      const value = valueInput.valueAsNumber;
      if (Number.isFinite(value)) this.edit(this.current(), clamp(value, -MOST, MOST));
    });
    this.on(valueInput, "change", () => {
      this.keep();
      this.schedule();
    });
    this.on(valueInput, "blur", () => this.schedule());
    this.on(epsRange, "input", () => this.setEps(epsRange.valueAsNumber));
    for (const [element, action] of Object.values(buttons)) this.on(element, "click", () => this.change(action));
    for (const { norm, input } of tiles) this.on(input, "change", () => this.choice.choose({ norm }));
  }

  // ------------------------------------------------ keys
  /** @param {Point} _ @param {boolean} large */
  arrow([down, right], large) {
    const { samples, tokens, features } = this.data;
    const { choice } = this;
    const { sample, token, feature, locked } = choice.now();
    if (locked) return this.nudge((right - down) * (large ? 10 : 1));
    const row = clamp(sample * tokens + token + down, 0, samples * tokens - 1); // down from a sample's last token to the next sample
    choice.choose({ sample: Math.floor(row / tokens), token: row % tokens, feature: clamp(feature + right, 0, features - 1) });
  }
  /** What the keys do while the focus is on x. @param {boolean} large @returns {Record<string, () => unknown>} */
  actions(large) {
    const { choice, data: { start, hasAffine } } = this;
    const { norm, eps, affine, locked } = choice.now();
    const lock = () => choice.choose({ locked: !locked });
    /** @type {Record<string, () => unknown>} */
    const actions = {
      Enter: lock,
      " ": lock,
      "+": () => this.nudge(1),
      "=": () => this.nudge(1), // the key of + without Shift
      "-": () => this.nudge(-1),
      "_": () => this.nudge(-1),
      n: () => choice.choose({ norm: NORMS[(NORMS.indexOf(norm) + 1) % NORMS.length] }),
      N: () => choice.choose({ norm: NORMS[(NORMS.indexOf(norm) + NORMS.length - 1) % NORMS.length] }),
      e: () => this.setEps(Math.log10(eps) - 1),
      E: () => this.setEps(Math.log10(eps) + 1),
      r: () => this.change((_, one) => start[one]),
    };
    for (const name of Object.keys(ARROWS)) actions[name] = () => this.arrow(ARROWS[name], large);
    if (hasAffine) actions.g = () => choice.choose({ affine: !affine });
    return actions;
  }
  /** @param {KeyboardEvent} event */
  press({ key, shiftKey, target }) {
    if (key === "Escape") {
      if (!this.dropDrag()) this.choice.choose({ locked: false });
      return true;
    }
    const action = target === this.parts.tensor && this.actions(shiftKey)[key];
    if (action) action();
    return Boolean(action);
  }
}

export default frontEnd(View);
