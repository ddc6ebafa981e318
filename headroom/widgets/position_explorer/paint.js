// @ts-check
/* The pictures. */
import { prepare } from "../kernel/canvas.js";
import { tellGrid } from "../kernel/matrix.js";
import { clamp, pairs } from "../kernel/numbers.js";
import { pairAt } from "./encodings.js";
import { paintCells, paintDot, paintLine, paintPlace, paintPlane, ticks, trace, write } from "./marks.js";
import { minus } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { Canvas, Pen, Point, PositionExplorer as T } from "../types" */

/** @param {Canvas} canvas @param {Data} data @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
export function paintTable(canvas, data, now, one, colours) {
  const { position: p, dimension: j, n_positions: n } = now;
  const { context, width: wide, height } = prepare(canvas);
  const [left, top] = [26, 10];
  const [w, ht] = [(wide - left - 3) / one.width, (height - top - 18) / n];
  tellGrid(canvas, { left, top, cellWidth: w, cellHeight: ht });
  paintCells(context, data.tablePicture(one), left, top, one.width * w, n * ht);
  const target = p + now.shift;
  if (target >= 0 && target < n) paintPlace(context, left, top + target * ht, one.width * w, ht, true, colours);
  paintPlace(context, left, top + p * ht, one.width * w, ht, false, colours);
  context.lineWidth = 1;
  context.strokeStyle = "#fff";
  context.strokeRect(left + j * w, top, w, n * ht);
  context.fillStyle = colours.text;
  write(context, "▼", left + (j + 0.5) * w, top - 5, { bold: true });
  for (const at of ticks(0, n - 1, ht, 14)) write(context, `${at}`, left - 6, top + (at + 0.5) * ht, { align: "right", bold: at === p });
  for (const at of ticks(0, one.width - 1, w, 24)) write(context, `${at}`, left + (at + 0.5) * w, height - 8, { bold: at === j });
}

/** @param {Canvas} canvas @param {Data} data @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
export function paintMatrix(canvas, data, now, one, colours) {
  const { position: p, n_positions: n, measure } = now;
  const { context, width: wide, height } = prepare(canvas);
  const [left, top] = [26, 10];
  const cell = Math.min(wide - left - 3, height - top - 18) / n;
  tellGrid(canvas, { left, top, cellWidth: cell, cellHeight: cell });
  paintCells(context, data.matrixPicture(one, measure), left, top, n * cell, n * cell);
  const target = p + now.shift;
  const has = one.rows.length;
  const [from, to] = [Math.max(0, -now.shift), Math.min(has, has - now.shift)]; // all pairs that are as far apart
  /** @param {number} row */
  const at = (row) => /** @type {Point} */ ([left + (row + now.shift) * cell, top + row * cell]);
  if (from < to) for (const [style, thick] of pairs(["#000", 2.5], ["#fff", 1.2])) paintLine(context, at(from), at(to), style, thick);
  if (target >= 0 && target < n) paintPlace(context, left + target * cell, top, cell, n * cell, true, colours);
  paintPlace(context, left, top + p * cell, n * cell, cell, false, colours);
  context.fillStyle = colours.text;
  for (const nth of ticks(0, n - 1, cell, 20)) {
    write(context, `${nth}`, left - 6, top + (nth + 0.5) * cell, { align: "right", bold: nth === p });
    write(context, `${nth}`, left + (nth + 0.5) * cell, top + n * cell + 10, { bold: nth === target });
  }
}

/** @param {Canvas} canvas @param {Data} data @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
export function paintProfile(canvas, data, now, one, colours) {
  const { shift: apart, n_positions: n, measure } = now;
  const { context, width: wide, height } = prepare(canvas);
  const { mean, least, most, count: many, low, high } = data.similarities(one, measure);
  const [left, right, floor, ceiling] = [46, wide - 6, height - 18, 8];
  const step = (right - left) / (2 * n - 2);
  tellGrid(canvas, { left, step });
  const y = paintPlane(context, { left, right, floor, ceiling, low, high }, colours);
  /** @param {number} at */
  const x = (at) => left + at * step;
  const seen = [...mean.keys()].filter((at) => many[at]);
  context.beginPath(); // from the least to the most of each distance
  for (const at of seen) context.lineTo(x(at), y(most[at]));
  for (const at of seen.toReversed()) context.lineTo(x(at), y(least[at]));
  context.closePath();
  context.globalAlpha = 0.3;
  context.fillStyle = colours.text;
  context.fill();
  context.globalAlpha = 1;
  trace(context, Array.from(mean, (value, at) => [x(at), y(value)]), colours.text, 1.5);
  const at = n - 1 + apart;
  paintLine(context, [x(at), ceiling], [x(at), floor], colours.mark, 1.5, [5, 3]);
  if (many[at]) paintDot(context, x(at), y(mean[at]), true, colours, 4);
  context.fillStyle = colours.text;
  for (const far of ticks(1 - n, n - 1, step, 34)) write(context, minus(String(far)), x(n - 1 + far), height - 8, { bold: far === apart });
}

/** @param {Canvas} canvas @param {Data} data @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
export function paintWave(canvas, data, now, one, colours) {
  const { position: p, dimension: j, shift: by, n_positions: n } = now;
  const { context, width: wide, height } = prepare(canvas);
  const [left, right, floor, ceiling] = [46, wide - 8, height - 18, 8];
  const step = (right - left) / (n - 1);
  tellGrid(canvas, { left, step });
  const y = paintPlane(context, { left, right, floor, ceiling, low: -one.limit, high: one.limit }, colours);
  /** @param {number} at */
  const x = (at) => left + at * step;
  const partner = j % 2 ? j - 1 : j + 1;
  /** @param {number} which */
  const points = (which) => (one.omegas
    ? Array.from({ length: Math.ceil(right - left) }, (_, i) => [left + i, y(one.between(i / step, which))])
    : one.rows.map((row, at) => [x(at), y(row[which])]));
  if (partner < one.width) trace(context, points(partner), colours.text, 1, [3, 3]);
  trace(context, points(j), colours.text, 1.8);
  if (step >= 6) {
    context.fillStyle = colours.text;
    one.rows.forEach((row, at) => {
      context.beginPath();
      context.arc(x(at), y(row[j]), 2.2, 0, 2 * Math.PI);
      context.fill();
    });
  }
  const target = p + by;
  for (const [at, ring] of pairs([target, true], [p, false])) {
    if (at < 0 || at >= n) continue;
    paintLine(context, [x(at), ceiling], [x(at), floor], colours.mark, 1.5, ring ? [5, 3] : []);
    const row = one.row(at);
    if (row) paintDot(context, x(at), y(row[j]), ring, colours);
  }
  context.fillStyle = colours.text;
  for (const at of ticks(0, n - 1, step, 24)) write(context, `${at}`, x(at), height - 8, { bold: at === p || at === target });
}

/** @param {Canvas} canvas @param {Data} data @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
export function paintCircle(canvas, data, now, one, colours) {
  const { position: p, dimension: j, shift: by } = now;
  const pair = j >> 1;
  const { context, width: wide, height } = prepare(canvas);
  const [cx, cy, reach] = [wide / 2, height / 2, Math.max(1, Math.min(wide, height) / 2 - 24)]; // at least 1: a hidden canvas has no size
  const all = one.rows.map((row) => pairAt(one, row, pair)).filter((its) => its !== null);
  const [from, to] = [pairAt(one, one.row(p), pair), pairAt(one, one.row(p + by), pair)];
  const longest = Math.max(...all.map(([x, y]) => Math.hypot(x, y)), from ? Math.hypot(...from) : 0, to ? Math.hypot(...to) : 0) || 1;
  /** @type {(point: Point) => Point} */
  const place = ([x, y]) => [cx + (x / longest) * reach, cy - (y / longest) * reach];
  paintLine(context, [cx - reach - 8, cy], [cx + reach + 8, cy], colours.line, 1);
  paintLine(context, [cx, cy - reach - 8], [cx, cy + reach + 8], colours.line, 1);
  context.beginPath();
  context.arc(cx, cy, reach, 0, 2 * Math.PI);
  context.strokeStyle = colours.line;
  context.stroke();
  context.fillStyle = colours.text;
  context.globalAlpha = 0.45;
  for (const point of all) {
    context.beginPath();
    context.arc(...place(point), 1.8, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
  if (from && to && by && one.omegas) paintArc(context, cx, cy, reach * 0.45, Math.atan2(from[1], from[0]), one.omegas[pair] * by, colours);
  for (const [point, ring] of pairs([to, true], [from, false])) {
    if (!point) continue;
    paintLine(context, [cx, cy], place(point), colours.mark, 2, ring ? [5, 3] : []);
    paintDot(context, ...place(point), ring, colours);
  }
  context.fillStyle = colours.text;
  const directions = [from, to].map((point) => (point ? Math.atan2(point[1], point[0]) : 0));
  if (from && to) { // two names that would lie on each other move apart
    const gap = ((directions[1] - directions[0] + 3 * Math.PI) % (2 * Math.PI)) - Math.PI;
    const apart = Math.max(0, 0.25 - Math.abs(gap) / 2) * (gap < 0 ? -1 : 1);
    directions[0] -= apart;
    directions[1] += apart;
  }
  pairs([from, p], [to, p + by]).forEach(([point, at], which) => {
    if (!point || (which && by === 0)) return;
    const far = Math.hypot(...point) / longest * reach + 15;
    const [x, y] = [cx + far * Math.cos(directions[which]), cy - far * Math.sin(directions[which])];
    write(context, minus(String(at)), clamp(x, 9, wide - 9), clamp(y, 8, height - 8), { bold: true });
  });
}

/** The turn from one to the other, with an arrow's head; more than once around is drawn once. @param {Pen} context @param {number} cx @param {number} cy @param {number} size @param {number} start @param {number} turn @param {T.Colours} colours */
function paintArc(context, cx, cy, size, start, turn, colours) {
  const end = start + clamp(turn, -2 * Math.PI, 2 * Math.PI);
  context.strokeStyle = context.fillStyle = colours.text;
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(cx, cy, size, -start, -end, turn > 0); // the screen's y points down
  context.stroke();
  if (Math.abs(turn) * size < 6) return;
  const [x, y] = [cx + size * Math.cos(end), cy - size * Math.sin(end)];
  const along = turn > 0 ? -end - Math.PI / 2 : -end + Math.PI / 2;
  context.beginPath();
  context.moveTo(x + 5 * Math.cos(along), y + 5 * Math.sin(along));
  for (const side of [2.4, -2.4]) context.lineTo(x + 5 * Math.cos(along + side), y + 5 * Math.sin(along + side));
  context.fill();
}

/** One kind small: its table, and how alike the chosen position and every other are.
 * @param {{ kind: T.Kind, map: Canvas, line: Canvas }} _ @param {Data} data @param {T.Now} now @param {T.Colours} colours */
export function paintTile({ kind, map, line }, data, now, colours) {
  const { position: p, shift: by, n_positions: n, measure } = now;
  const one = data.encoding(kind, now);
  const small = prepare(map);
  paintCells(small.context, data.tablePicture(one), 0, 0, small.width, small.height);
  const ht = small.height / n;
  if (p + by >= 0 && p + by < n) paintPlace(small.context, 0, (p + by) * ht, small.width, ht, true, colours, 1.2);
  paintPlace(small.context, 0, p * ht, small.width, ht, false, colours, 1.2);
  const { context, width: wide, height } = prepare(line);
  const alike = Array.from({ length: n }, (_, other) => data.similarity(one, measure, p, other));
  const numbers = alike.filter((value) => value === value);
  if (!numbers.length) return;
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  /** @param {number} value */
  const y = (value) => height - 5 - ((value - low) / (high - low || 1)) * (height - 10);
  /** @param {number} at */
  const x = (at) => 5 + (at * (wide - 10)) / (n - 1);
  trace(context, alike.map((value, at) => [x(at), y(value)]), colours.text, 1.4);
  for (const [at, ring] of pairs([p + by, true], [p, false])) if (alike[at] === alike[at] && at in alike) paintDot(context, x(at), y(alike[at]), ring, colours, 3.5);
}
