// @ts-check
/* The pictures: the page, what the model sees, and where it looks. */
import { paintFrame, penOf, prepare } from "../kernel/canvas.js";
import { colour, css, inkOn } from "../kernel/colours.js";
import { decode, pairs } from "../kernel/numbers.js";
import { number } from "../kernel/words.js";
import { BOX, ERASER, PEN, SIDE } from "./ink.js";
import { mapOf, ranked } from "./words.js";
/** @import { Bytes, Canvas, Pen, Rect, DigitPad as T } from "../types" */

const FONT = "11px system-ui, sans-serif"; // of the numbers in a map
const GREYS = new Uint32Array(new Uint8ClampedArray([...Array(256).keys()].flatMap((ink) => [255 - ink, 255 - ink, 255 - ink, 255])).buffer);

/** A picture in black on white, `side` pixels wide: `picture((at) => byte)` fills it and answers its canvas. @param {number} side */
export function greyPicture(side) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [side, side];
  const context = penOf(canvas);
  const data = context.createImageData(side, side);
  const shades = new Uint32Array(data.data.buffer);
  return (/** @type {(at: number) => number} */ inkAt) => {
    for (let at = 0; at < shades.length; at++) shades[at] = GREYS[inkAt(at)];
    context.putImageData(data, 0, 0);
    return canvas;
  };
}

/** The page, as a grey picture of its ink. @param {Canvas} canvas @param {Canvas} picture
 * @param {{ tool: "pen" | "eraser", stroke: T.Stroke | null }} page @param {T.Cursor} cursor @param {boolean} centred */
export function paintPage(canvas, picture, { tool, stroke }, cursor, centred) {
  const { context, width } = prepare(canvas);
  context.imageSmoothingEnabled = true;
  context.drawImage(picture, 0, 0, width, width);
  const unit = width / SIDE;
  if (!centred) { // where MNIST's digits lie
    context.strokeStyle = "#767676";
    context.lineWidth = 1;
    context.setLineDash([4, 4]);
    context.strokeRect((SIDE - BOX) / 2 * unit, (SIDE - BOX) / 2 * unit, BOX * unit, BOX * unit);
    context.setLineDash([]);
  }
  if (!cursor.shown) return;
  // The pen, where keys have moved it: a ring, filled while it is down; the eraser is a larger ring.
  const radius = Math.max(5, ((tool === "eraser" ? ERASER : PEN) / 2) * unit);
  for (const [style, thick] of pairs(["#fff", 5], ["#c4003a", 2.5])) {
    context.beginPath();
    context.arc(cursor.x * unit, cursor.y * unit, radius, 0, 2 * Math.PI);
    context.strokeStyle = style;
    context.lineWidth = thick;
    context.stroke();
    if (stroke) {
      context.beginPath();
      context.arc(cursor.x * unit, cursor.y * unit, radius / 2, 0, 2 * Math.PI);
      context.fillStyle = style;
      context.fill();
    }
  }
}

/** The edges of the pixels that are more ink than paper. @param {Bytes | undefined} answered @param {number} unit width of a pixel */
function outlineOf(answered, unit) {
  const read = answered ? decode(Uint8Array, answered) : [];
  /** @param {number} x @param {number} y */
  const inked = (x, y) => x >= 0 && y >= 0 && x < SIDE && y < SIDE && read[y * SIDE + x] > 127;
  const outline = new Path2D();
  for (let y = 0; y <= SIDE; y++) {
    for (let x = 0; x <= SIDE; x++) {
      if (inked(x, y) !== inked(x - 1, y)) { outline.moveTo(x * unit, y * unit); outline.lineTo(x * unit, (y + 1) * unit); }
      if (inked(x, y) !== inked(x, y - 1)) { outline.moveTo(x * unit, y * unit); outline.lineTo((x + 1) * unit, y * unit); }
    }
  }
  return outline;
}

/** The room of a number in the middle of a cell. @param {Pen} context @param {string} text @param {Rect} cell
 * @returns {[x: number, y: number, w: number, h: number]} */
function plateOf(context, text, { x, y, w, h }) {
  const wide = context.measureText(text).width + 6;
  return [x + (w - wide) / 2, y + h / 2 - 8, wide, 17];
}

/** Patches in the colours of their weights, under the outline of what the model has read.
 * @param {Canvas} canvas @param {T.Facts} facts @param {T.Reading} reading @param {T.Shown} view @param {Bytes | undefined} answered */
export function paintMap(canvas, facts, reading, { now, largest, colours }, answered) {
  const { side } = facts;
  const { context, width } = prepare(canvas);
  const { patches } = mapOf(facts, reading, now.layer, now.head);
  const w = width / side;
  /** @param {number} i */
  const cell = (i) => ({ x: (i % side) * w, y: Math.floor(i / side) * w, w, h: w });
  /** @param {number} value */
  const shade = (value) => colour(largest > 0 ? value / largest : 0);
  patches.forEach((value, i) => {
    const { x, y } = cell(i);
    context.fillStyle = css(shade(value));
    context.fillRect(x, y, w, w);
    context.strokeStyle = "rgb(255 255 255 / 0.35)";
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, w - 1, w - 1);
  });
  context.font = FONT;
  const numbered = w >= 36;
  const outline = outlineOf(answered, width / SIDE);
  context.save();
  context.beginPath(); // everywhere but where the numbers stand
  context.rect(0, 0, width, width);
  if (numbered) patches.forEach((value, i) => context.rect(...plateOf(context, number(value), cell(i))));
  context.clip("evenodd");
  context.lineCap = "square";
  for (const [style, thick] of pairs(["#000", 3], ["#fff", 1.4])) {
    context.strokeStyle = style;
    context.lineWidth = thick;
    context.stroke(outline);
  }
  context.restore();
  paintFrame(context, cell(ranked(patches)[0]), "k", colours, "K");
  if (!numbered) return;
  context.font = FONT; // the frame's letter is bold
  context.textAlign = "center";
  context.textBaseline = "middle";
  patches.forEach((value, i) => {
    const { x, y } = cell(i);
    context.fillStyle = inkOn(shade(value));
    context.fillText(number(value), x + w / 2, y + w / 2 + 1);
  });
}
