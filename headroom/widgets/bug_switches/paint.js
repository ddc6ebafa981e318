// @ts-check
/* Pictures: attention as a matrix, and the image of an example. */
import { bitmap, paintBand, paintNames, penOf, picture, prepare } from "../kernel/canvas.js";
import { tellGrid } from "../kernel/matrix.js";
import { visible } from "../kernel/words.js";
/** @import { Data } from "./data.js" */
/** @import { Canvas, Colours, Numbers, Side, BugSwitches as T } from "../types" */

const LABELLED = 11; // smallest cell, in pixels, whose row and column carry their words

/** One head's weights, queries down, keys across, up to `high`.
 * @param {Canvas} canvas @param {Data} data @param {string} name @param {T.Now} now @param {Numbers[]} matrix @param {number} high @param {Colours} colours */
export function paintMatrix(canvas, data, name, now, matrix, high, colours) {
  const [queries, keyed] = [matrix.length, matrix[0].length];
  /** @type {Side[]} */
  const sides = ["queries", "keys"];
  const words = sides.map((side) => data.words(name, now, side).map(visible));
  const available = canvas.clientWidth;
  const measure = penOf(canvas);
  measure.font = "bold 12px system-ui, sans-serif";
  const widest = words.map((all) => Math.min(66, Math.max(...all.map((word) => measure.measureText(word).width))));
  let [left, top] = [widest[0] + 20, widest[1] + 18];
  if ((available - left - 3) / keyed < LABELLED) [left, top] = [18, 18]; // no room for words: only Q and K stand at the edges
  const cell = Math.min(26, (available - left - 3) / keyed, 420 / queries);
  canvas.style.height = `${Math.ceil(top + queries * cell + 3)}px`;
  tellGrid(canvas, { left, top, cellWidth: cell, cellHeight: cell });
  const { context } = prepare(canvas);
  context.imageSmoothingEnabled = cell < 1;
  context.drawImage(bitmap(queries, keyed, (query) => ({ values: matrix[query], low: 0, high }), canvas), left, top, keyed * cell, queries * cell);
  const [query, key] = [data.place(name, now, "queries", now.query), data.place(name, now, "keys", now.key)];
  if (query >= 0) paintBand(context, left, top + query * cell, keyed * cell, cell, "q", colours);
  if (key >= 0) paintBand(context, left + key * cell, top, cell, queries * cell, "k", colours);
  const [rows, columns] = cell >= LABELLED && left > 18 ? words : [[], []];
  const named = { query: query >= 0 ? query : null, key: key >= 0 ? key : null };
  paintNames(context, { rows, columns, ...named, left, top, cell, longest: 9, colours });
}

/** An example's image. @param {Canvas} digit @param {Data} data @param {number} sample */
export function paintDigit(digit, data, sample) {
  const { width, height, channels } = data.facts;
  digit.style.aspectRatio = `${width} / ${height}`;
  const from = sample * width * height * channels;
  const plain = picture(height, width, ({ buffer }) => {
    const colours = new Uint8ClampedArray(buffer);
    for (let i = 0; i < width * height; i++) {
      for (let c = 0; c < 3; c++) colours[4 * i + c] = data.pixels[from + i * channels + (channels === 3 ? c : 0)];
      colours[4 * i + 3] = 255;
    }
  }, digit);
  const { context, width: w, height: ht } = prepare(digit);
  context.drawImage(plain, 0, 0, w, ht);
}
