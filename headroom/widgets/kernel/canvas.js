// @ts-check
/* What is painted on a canvas: pictures of matrices, frames, names along the edges. */
import { colour } from "./colours.js";
/** @import { Canvas, Colours, Names, Pen, PictureRow, Rect } from "../types" */

// The same colours for whole matrices: one 32-bit pixel for each of 1024 fractions.
const PIXELS = new Uint32Array(1024).map((_, i) => {
  const [r, g, b] = colour(i / 1023);
  return new Uint32Array(new Uint8ClampedArray([r, g, b, 255]).buffer)[0]; // in the machine's own order of bytes
});

const HIDDEN = new Uint32Array(new Uint8ClampedArray([217, 217, 217, 255]).buffer)[0]; // as in the course's figures

/** @type {ImageData | null} */
let scratch = null; // pixels that pictures of one size share: thousands a second would keep the browser cleaning up

/** @type {WeakMap<Canvas, { picture: Canvas, pixels: Uint32Array }>} */
const known = new WeakMap(); // the last picture that was made for a canvas, and its pixels

/** A picture of one pixel per number, to be drawn large. @param {number} rows @param {number} columns
 * @param {(pixels: Uint32Array) => void} fill gives every pixel its colour @param {Canvas} [on] where it is drawn again and again:
 * a picture that comes out as the last one is that one, because the browser takes long to make another */
export function picture(rows, columns, fill, on) {
  scratch = scratch?.width === columns && scratch.height === rows ? scratch : new ImageData(columns, rows);
  const pixels = new Uint32Array(scratch.data.buffer);
  fill(pixels);
  const last = on && known.get(on);
  if (last && last.picture.width === columns && last.picture.height === rows && pixels.every((one, at) => one === last.pixels[at])) return last.picture;
  const made = document.createElement("canvas");
  [made.width, made.height] = [columns, rows];
  penOf(made).putImageData(scratch, 0, 0);
  if (on) known.set(on, { picture: made, pixels: pixels.slice() });
  return made;
}

/** A picture of a matrix. `rowOf(row)` → { values, low, high }: a row's numbers (`values` may be the same array each
 * time) and those of the lowest and the highest colour. NaN is grey: hidden by a mask.
 * @param {number} rows @param {number} columns @param {(row: number) => PictureRow} rowOf @param {Canvas} [on] as in `picture` */
export function bitmap(rows, columns, rowOf, on) {
  return picture(rows, columns, (pixels) => {
    for (let row = 0, at = 0; row < rows; row++) {
      const { values, low, high } = rowOf(row);
      const scale = high > low ? 1023 / (high - low) : 0;
      for (let column = 0; column < columns; column++, at++) {
        const place = (values[column] - low) * scale;
        pixels[at] = place !== place ? HIDDEN : PIXELS[place < 0 ? 0 : place > 1023 ? 1023 : (place + 0.5) | 0];
      }
    }
  }, on);
}

/** What paints on a canvas. @param {Canvas} canvas */
export function penOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser does not paint on a canvas");
  return context;
}

/** Match a canvas's own pixels to the screen's, clear it, and return its context in CSS pixels. @param {Canvas} canvas */
export function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [w, ht] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== ht) [canvas.width, canvas.height] = [w, ht];
  const context = penOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.imageSmoothingEnabled = false;
  return { context, width, height };
}

/** A frame around a rectangle: solid for a query, dashed for a key, with its letter where there is room.
 * @param {Pen} context @param {Rect} rect @param {"q" | "k"} kind @param {Colours} colours */
export function paintFrame(context, { x, y, w, h: height }, kind, colours, letter = "") {
  const thick = letter ? 4 : 2;
  const inset = thick / 2 + (kind === "k" ? thick : 0); // both stay visible on one cell
  if (w <= 2 * inset || height <= 2 * inset) return;
  /** @type {[number, number, number, number]} */
  const rect = [x + inset, y + inset, w - 2 * inset, height - 2 * inset];
  context.lineJoin = "miter";
  context.setLineDash([]);
  context.strokeStyle = kind === "q" ? "#fff" : "#000";
  context.lineWidth = thick + 2;
  context.strokeRect(...rect);
  context.strokeStyle = colours[kind];
  context.lineWidth = thick;
  if (kind === "k") context.setLineDash(letter ? [7, 4] : [3, 2]);
  context.strokeRect(...rect);
  context.setLineDash([]);
  if (!letter) return;
  const size = Math.min(16, w / 2.4);
  const [tx, ty] = kind === "q" ? [x, y] : [x + w - size, y];
  context.fillStyle = colours[kind];
  context.fillRect(tx, ty, size, size);
  context.fillStyle = kind === "q" ? "#fff" : "#000";
  context.font = `bold ${Math.round(size * 0.75)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(letter, tx + size / 2, ty + size / 2 + 0.5);
}

/** The frame of a row or a column of a matrix, drawn around it: cells may be smaller than a line is thick.
 * @param {Pen} context @param {number} x @param {number} y @param {number} w @param {number} height @param {"q" | "k"} kind @param {Colours} colours */
export function paintBand(context, x, y, w, height, kind, colours) {
  context.lineWidth = 4;
  context.strokeStyle = kind === "q" ? "#fff" : "#000";
  context.strokeRect(x, y, w, height);
  context.lineWidth = 2;
  context.strokeStyle = colours[kind];
  if (kind === "k") context.setLineDash([5, 3]);
  context.strokeRect(x, y, w, height);
  context.setLineDash([]);
}

/** What stands along a matrix of square cells: the words of its rows and columns (none where there is no room), cut to
 * `longest` letters, and Q and K at the chosen ones (null: none is chosen). @param {Pen} context @param {Names} names */
export function paintNames(context, { rows, columns, query, key, left, top, cell, longest, colours }) {
  /** @param {string} word */
  const cut = (word) => (word.length > longest ? `${word.slice(0, longest - 1)}…` : word);
  /** @param {boolean} yes */
  const bold = (yes) => (context.font = `${yes ? "bold " : ""}12px system-ui, sans-serif`);
  context.fillStyle = colours.text;
  context.textBaseline = "middle";
  context.textAlign = "right";
  rows.forEach((word, i) => {
    bold(i === query);
    context.fillText(cut(word), left - 15, top + (i + 0.5) * cell);
  });
  columns.forEach((word, i) => {
    bold(i === key);
    context.save();
    context.translate(left + (i + 0.5) * cell, top - 15);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(cut(word), 0, 0);
    context.restore();
  });
  bold(true);
  context.textAlign = "center";
  if (query !== null) context.fillText("Q", left - 8, top + (query + 0.5) * cell);
  if (key !== null) context.fillText("K", left + (key + 0.5) * cell, top - 8);
}
