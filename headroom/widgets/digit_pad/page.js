// @ts-check
/* The page: what is drawn on it, and how it changes. The model keeps the strokes; the ink is made of them, and the pixels
 * of the ink. */
import { decode } from "../kernel/numbers.js";
import { FINE, SIDE, inkOf, lastPiece, lay, pixelsOf, place } from "./ink.js";
/** @import { Model, DigitPad as T } from "../types" */

const NEAR = 0.25; // a point nearer than this to the last one adds nothing

export class Page {
  /** @param {Model<T.Traits>} model
   * @param {{ schedule: () => void, ask: () => void, send: () => void }} tell paint anew, ask Python, send what is set */
  constructor(model, tell) {
    this.model = model;
    this.tell = tell;
    this.examples = decode(Uint8Array, model.get("_examples"));
    this.strokes = model.get("_drawing").strokes;
    /** @type {T.Stroke | null} */
    this.stroke = null; // the one being drawn
    /** @type {"pen" | "eraser"} */
    this.tool = "pen";
    /** @type {T.Drawing[]} */
    this.before = []; // drawings to which undo goes back
    this.own = false; // whether a change of the drawing is this view's
    this.ink = inkOf(this.example(), this.strokes);
    /** @type {T.Placing | null} */
    this.placing = null; // nothing is drawn
    /** @type {Uint8Array<ArrayBuffer> | null} */
    this.pixels = null;
    this.develop();
  }
  example() {
    const i = this.model.get("example") ?? null;
    return i === null ? null : this.examples.subarray(i * SIDE * SIDE, (i + 1) * SIDE * SIDE);
  }
  /** Every stroke, the one being drawn included. */
  all() {
    return this.stroke ? [...this.strokes, this.stroke] : this.strokes;
  }
  get isAsItCame() {
    return this.example() !== null && !this.strokes.length && !this.stroke;
  }
  /** Make the pixels from the ink. An example as it came is given as it came. */
  develop() {
    const example = this.example();
    this.placing = place(this.ink, this.model.get("centred"));
    if (!this.placing) this.pixels = null;
    else if (example && this.isAsItCame) [this.placing, this.pixels] = [{ left: 0, top: 0, step: FINE }, example];
    else this.pixels = pixelsOf(this.ink, this.placing);
  }
  /** @returns {T.Drawing} */
  drawing() {
    return { example: this.model.get("example") ?? null, strokes: this.strokes };
  }
  remember() {
    this.before.push(this.drawing());
  }
  /** Put a drawing in the page's place, and tell. @param {T.Drawing} drawing */
  draw(drawing) {
    [this.strokes, this.stroke] = [drawing.strokes, null];
    this.own = true;
    this.model.set("example", drawing.example);
    this.model.set("_drawing", drawing);
    this.own = false;
    this.redraw();
    this.tell.ask();
  }
  redraw() {
    this.ink = inkOf(this.example(), this.strokes);
    this.develop();
    this.tell.schedule();
  }
  /** Python, or another view, has changed the drawing. */
  changed() {
    if (this.own) return;
    [this.strokes, this.stroke, this.before] = [this.model.get("_drawing").strokes, null, []];
    this.redraw();
  }

  undo() {
    this.finish();
    const last = this.before.pop();
    if (last) this.draw(last);
    else if (this.strokes.length) this.draw({ ...this.drawing(), strokes: this.strokes.slice(0, -1) }); // drawn before this view was opened
  }
  clear() {
    this.finish();
    if (!this.strokes.length && this.drawing().example === null) return;
    this.remember();
    this.draw({ example: null, strokes: [] });
  }
  /** @param {number | null} example */
  startFrom(example) {
    this.finish();
    this.remember();
    this.draw({ example, strokes: [] });
  }

  /** Begin a stroke, go on with it, end it. The ink is laid piece by piece; the whole is kept when it ends.
   * @param {number} x @param {number} y @param {boolean} erases */
  begin(x, y, erases) {
    this.finish();
    this.remember();
    this.stroke = [erases ? 1 : 0, x, y];
    this.grow(this.stroke);
  }
  /** @param {number} x @param {number} y */
  extend(x, y) {
    if (!this.stroke) return;
    const [lastX, lastY] = this.stroke.slice(-2);
    if (Math.hypot(x - lastX, y - lastY) < NEAR) return;
    this.stroke.push(x, y);
    this.grow(this.stroke);
  }
  /** @param {T.Stroke} stroke */
  grow(stroke) {
    lay(this.ink, lastPiece(stroke), stroke[0] === 1);
    this.develop();
    this.tell.schedule();
    this.tell.ask();
  }
  finish() {
    if (!this.stroke) return;
    this.strokes = this.all();
    this.stroke = null;
    this.own = true;
    this.model.set("_drawing", this.drawing());
    this.own = false;
    this.tell.send();
  }
}
