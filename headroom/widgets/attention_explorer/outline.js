// @ts-check
/* The outline of an image. */
/** @import { Point } from "../types" */

export const OUTLINE_SIDE = 56; // pixels to which an image is reduced before its outline is traced

/** An image's brightness, reduced by `step` each way. @param {Uint8Array} pixels @param {number} width @param {number} height @param {number} channels @param {number} step */
function reduced(pixels, width, height, channels, step) {
  const [columns, rows] = [Math.ceil(width / step), Math.ceil(height / step)];
  const grey = new Float32Array(columns * rows);
  const counts = new Float32Array(columns * rows);
  for (let i = 0; i < pixels.length; i++) {
    const pixel = Math.floor(i / channels);
    const cell = Math.floor(Math.floor(pixel / width) / step) * columns + Math.floor((pixel % width) / step);
    grey[cell] += pixels[i];
    counts[cell] += 1;
  }
  return { columns, rows, grey: grey.map((sum, i) => sum / counts[i]) };
}

/** Marching squares: the line along which an image, reduced to few pixels, crosses the middle of its brightness, as pieces
 * from point to point. @param {Uint8Array} pixels @param {number} width @param {number} height @param {number} channels */
export function outlineOf(pixels, width, height, channels) {
  const step = Math.max(1, Math.ceil(Math.max(width, height) / OUTLINE_SIDE));
  const { columns, rows, grey } = reduced(pixels, width, height, channels, step);
  const level = (Math.min(...grey) + Math.max(...grey)) / 2;
  /** @type {[Point, Point][]} */
  const pieces = [];
  /** @param {number} x @param {number} y */
  const at = (x, y) => (x < 0 || y < 0 || x >= columns || y >= rows ? 0 : grey[y * columns + x]);
  for (let y = -1; y < rows; y++) {
    for (let x = -1; x < columns; x++) {
      // Four neighbouring pixel centres, clockwise; where two neighbours lie on different sides, the line crosses.
      const corners = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1]];
      /** @type {Point[]} */
      const crossings = [];
      corners.forEach(([x0, y0], i) => {
        const [x1, y1] = corners[(i + 1) % 4];
        const [a, b] = [at(x0, y0), at(x1, y1)];
        if (a > level === b > level) return;
        const share = (level - a) / (b - a);
        crossings.push([(x0 + share * (x1 - x0) + 0.5) * step, (y0 + share * (y1 - y0) + 0.5) * step]);
      });
      for (let i = 0; i + 1 < crossings.length; i += 2) pieces.push([crossings[i], crossings[i + 1]]);
    }
  }
  return pieces;
}
