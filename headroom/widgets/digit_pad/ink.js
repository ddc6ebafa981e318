// @ts-check
/* From strokes to the 28 × 28 pixels that the model sees. */
import { clamp } from "../kernel/numbers.js";
/** @import { DigitPad as T } from "../types" */

export const SIDE = 28; // pixels of an image along each side
export const FINE = 8; // the ink is kept on a grid so many times finer
export const WIDE = SIDE * FINE;
export const PEN = 2.8; // width of a stroke in pixels; scaled into its box it is about 2.4, as MNIST's are
export const ERASER = 5;
export const BOX = 20; // MNIST's digits are scaled to fit into so many pixels, …
const MIDDLE = SIDE / 2; // … and moved by whole pixels until their centre of mass lies in the pixel that starts here

/** Lay a straight piece of a stroke on the ink, or take it off, softly at its edge. Overlaps add nothing. @param {Float32Array} ink @param {number[]} _ @param {boolean} erases */
export function lay(ink, [x0, y0, x1, y1], erases) {
  const radius = ((erases ? ERASER : PEN) / 2) * FINE;
  const [ax, ay, bx, by] = [x0, y0, x1, y1].map((value) => value * FINE - 0.5); // as indices into the fine grid
  const [dx, dy] = [bx - ax, by - ay];
  const squared = dx * dx + dy * dy;
  /** @param {number} a @param {number} b */
  const first = (a, b) => clamp(Math.floor(Math.min(a, b) - radius - 1), 0, WIDE - 1);
  /** @param {number} a @param {number} b */
  const last = (a, b) => clamp(Math.ceil(Math.max(a, b) + radius + 1), 0, WIDE - 1);
  for (let y = first(ay, by); y <= last(ay, by); y++) {
    for (let x = first(ax, bx); x <= last(ax, bx); x++) {
      const along = squared ? clamp(((x - ax) * dx + (y - ay) * dy) / squared, 0, 1) : 0;
      const covered = clamp(radius + 0.5 - Math.hypot(x - ax - along * dx, y - ay - along * dy), 0, 1);
      const at = y * WIDE + x;
      ink[at] = erases ? Math.min(ink[at], 1 - covered) : Math.max(ink[at], covered);
    }
  }
}

/** The last piece of a stroke, [erases, x, y, x, y, …]; of a dot, a piece without length. @param {T.Stroke} stroke */
export function lastPiece(stroke) {
  const [x, y] = stroke.slice(-2);
  return stroke.length > 3 ? stroke.slice(-4) : [x, y, x, y];
}

/** The ink of a drawing: an example's pixels (bytes; null: none), then strokes. @param {Uint8Array | null} example @param {T.Stroke[]} strokes */
export function inkOf(example, strokes) {
  const ink = new Float32Array(WIDE * WIDE);
  if (example) for (let at = 0; at < ink.length; at++) ink[at] = example[Math.floor(at / WIDE / FINE) * SIDE + Math.floor((at % WIDE) / FINE)] / 255;
  for (const stroke of strokes) {
    for (let end = 3; end <= stroke.length; end += 2) lay(ink, lastPiece(stroke.slice(0, end)), stroke[0] === 1);
  }
  return ink;
}

/** Where MNIST's makers would have put a drawing (LeCun et al. 1998, section III.A): scaled, with its proportions, to fit
 * into 20 × 20 pixels, and moved by whole pixels until its centre of mass is in the middle. Answers which part of the fine
 * grid becomes the image: pixel (0, 0) starts at (left, top), and a pixel is `step` wide. Null: there is no ink. @param {Float32Array} ink @param {boolean} centred */
export function place(ink, centred) {
  let [left, top, right, bottom] = [WIDE, WIDE, 0, 0];
  let [mass, sumX, sumY] = [0, 0, 0];
  for (let y = 0, at = 0; y < WIDE; y++) {
    for (let x = 0; x < WIDE; x++, at++) {
      if (ink[at] < 1 / 512) continue; // less than any byte above 0
      [left, right] = [Math.min(left, x), Math.max(right, x + 1)];
      [top, bottom] = [Math.min(top, y), Math.max(bottom, y + 1)];
      mass += ink[at];
      sumX += ink[at] * (x + 0.5);
      sumY += ink[at] * (y + 0.5);
    }
  }
  if (!mass) return null;
  if (!centred) return { left: 0, top: 0, step: FINE };
  const step = Math.max(right - left, bottom - top) / BOX;
  /** In which pixel the drawing starts: never so far out that a part of it is lost. @param {number} low @param {number} high @param {number} middle */
  const start = (low, high, middle) => clamp(Math.ceil(MIDDLE - (middle - low) / step - 1e-6), 0, SIDE - Math.ceil((high - low) / step - 1e-6));
  return { left: left - start(left, right, sumX / mass) * step, top: top - start(top, bottom, sumY / mass) * step, step };
}

/** The image, 28 × 28 bytes: each pixel the mean of the ink under it, exactly, fractions of the fine grid included. @param {Float32Array} ink @param {T.Placing} _ */
export function pixelsOf(ink, { left, top, step }) {
  const stride = WIDE + 1;
  const sums = new Float64Array(stride * stride); // sums[y][x]: all ink above and left of (x, y)
  for (let y = 0; y < WIDE; y++) {
    for (let x = 0, row = 0; x < WIDE; x++) {
      row += ink[y * WIDE + x];
      sums[(y + 1) * stride + x + 1] = sums[y * stride + x + 1] + row;
    }
  }
  /** @param {number} x @param {number} y */
  const upTo = (x, y) => { // between the corners of the fine grid these sums are bilinear
    const [cx, cy] = [clamp(x, 0, WIDE), clamp(y, 0, WIDE)];
    const [x0, y0] = [Math.min(Math.floor(cx), WIDE - 1), Math.min(Math.floor(cy), WIDE - 1)];
    const [fx, fy, at] = [cx - x0, cy - y0, y0 * stride + x0];
    return (1 - fy) * ((1 - fx) * sums[at] + fx * sums[at + 1]) + fy * ((1 - fx) * sums[at + stride] + fx * sums[at + stride + 1]);
  };
  const corners = [];
  for (let i = 0; i <= SIDE; i++) for (let j = 0; j <= SIDE; j++) corners.push(upTo(left + j * step, top + i * step));
  const pixels = new Uint8Array(SIDE * SIDE);
  for (let i = 0; i < SIDE; i++) {
    for (let j = 0; j < SIDE; j++) {
      const at = i * (SIDE + 1) + j;
      const sum = corners[at] - corners[at + 1] - corners[at + SIDE + 1] + corners[at + SIDE + 2];
      pixels[i * SIDE + j] = Math.round(clamp(sum / (step * step), 0, 1) * 255);
    }
  }
  return pixels;
}
