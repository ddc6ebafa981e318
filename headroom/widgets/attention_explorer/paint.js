// @ts-check
/* The pictures: an image's patches, matrices, bars. */
import { paintBand, paintFrame, paintNames, penOf, prepare } from "../kernel/canvas.js";
import { colour, css, inkOn } from "../kernel/colours.js";
import { tellGrid } from "../kernel/matrix.js";
import { pairs } from "../kernel/numbers.js";
import { number } from "../kernel/words.js";
import { CLASS_TOKEN } from "./data.js";
import { OUTLINE_SIDE } from "./outline.js";
/** @import { Data } from "./data.js" */
/** @import { Words } from "./words.js" */
/** @import { Canvas, Pen, Rect, Side, AttentionExplorer as T } from "../types" */

const LARGEST = 400; // height of the large matrix, in pixels
const LABELLED = 11; // smallest cell, in pixels, whose row and column carry their words

// ---------------------------------------------------------------- patches

/** One token's cell; while predicting it tells nothing. @param {Pen} context @param {Rect} _ @param {number} value @param {T.Shown} view */
function paintCell(context, { x, y, w, h }, value, view) {
  context.fillStyle = view.marking ? "#5a5a5a" : css(colour(view.fraction(value)));
  context.fillRect(x, y, w, h);
  if (w < 10) return;
  context.strokeStyle = "rgb(255 255 255 / 0.35)";
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
}
/** A cell's number, with a rim of the cell's colour: the outline may pass behind it. @param {Pen} context @param {Rect} _ @param {number} value @param {T.Shown} view */
function paintNumber(context, { x, y, w, h }, value, view) {
  const rgb = colour(view.fraction(value));
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "bottom";
  context.lineJoin = "round";
  context.lineWidth = 3;
  context.strokeStyle = css(rgb);
  context.strokeText(number(value), x + w - 11, y + h - 10);
  context.fillStyle = inkOn(rgb);
  context.fillText(number(value), x + w - 11, y + h - 10);
}
/** Frames of query and key, and the reader's marks. @param {Pen} context @param {Rect} cell @param {number} token @param {T.Shown} view */
function paintSigns(context, cell, token, view) {
  if (token === view.aim) paintFrame(context, cell, "k", view.colours, "K");
  if (token === view.query) paintFrame(context, cell, "q", view.colours, "Q");
  if (!view.marks.includes(token)) return;
  const size = Math.min(18, cell.w / 2);
  const [x, y] = [cell.x + cell.w / 2, cell.y + cell.h / 2];
  context.beginPath();
  context.arc(x, y, size / 2 + 2, 0, 2 * Math.PI);
  context.fillStyle = "#fff";
  context.fill();
  context.strokeStyle = context.fillStyle = "#000";
  context.lineWidth = 1.5;
  context.stroke();
  context.font = `bold ${Math.round(size * 0.8)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText("?", x, y + 0.5);
}
/** @param {Pen} context @param {Data} data @param {number} image @param {number} x @param {number} y @param {number} width */
function paintOutline(context, data, image, x, y, width) {
  const zoom = width / data.facts.width;
  context.save();
  context.translate(x, y);
  context.scale(zoom, zoom);
  context.lineCap = "round";
  for (const [style, thick] of pairs(["#000", 3.5], ["#fff", 1.8])) {
    context.strokeStyle = style;
    context.lineWidth = (thick * Math.min(1, Math.max(0.5, width / 250))) / zoom;
    context.stroke(data.outline(image));
  }
  context.restore();
}
/** An image as the model sees it. @param {Canvas} canvas @param {Data} data @param {number} image */
export function paintPlain(canvas, data, image) {
  if (canvas.dataset.painted === String(image)) return;
  canvas.dataset.painted = String(image);
  const { width, height, channels } = data.facts;
  [canvas.width, canvas.height] = [width, height];
  const context = penOf(canvas);
  const frame = context.createImageData(width, height);
  const pixels = data.pixels(image);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) frame.data[4 * i + c] = pixels[i * channels + (channels === 3 ? c : 0)];
    frame.data[4 * i + 3] = 255;
  }
  context.putImageData(frame, 0, 0);
}
/** The patches. @param {Canvas} canvas @param {Data} data @param {T.Shown} view */
export function paintPatches(canvas, data, view) {
  const { first, facts: { rows, columns } } = data;
  const { context, width, height } = prepare(canvas);
  const [w, h] = [width / columns, height / rows];
  /** @param {(cell: Rect, token: number) => void} paint */
  const each = (paint) => {
    for (let patch = 0; patch < rows * columns; patch++) paint({ x: (patch % columns) * w, y: Math.floor(patch / columns) * h, w, h }, patch + first);
  };
  each((cell, token) => paintCell(context, cell, view.row[token], view));
  paintOutline(context, data, view.now.sample, 0, 0, width);
  each((cell, token) => paintSigns(context, cell, token, view));
  if (w >= 40 && h >= 40 && !view.marking) each((cell, token) => paintNumber(context, cell, view.row[token], view));
}
/** The [class] token's own cell. @param {Canvas} canvas @param {T.Shown} view */
export function paintClass(canvas, view) {
  const { context, width, height } = prepare(canvas);
  const all = { x: 0, y: 0, w: width, h: height };
  paintCell(context, all, view.row[0], view);
  paintSigns(context, all, 0, view);
  if (width >= 40 && !view.marking) paintNumber(context, all, view.row[0], view);
}
/** The row as bars: [class], then the patches, a gap after each row of the image.
 * @param {Canvas} canvas @param {Data} data @param {T.Shown} _ */
export function paintBars(canvas, { first, facts: { rows, columns, has_class } }, { row, best, query, limits: [low, high], colours, now }) {
  const { context, width, height } = prepare(canvas);
  const tokens = row.length;
  const [left, floor, ceiling] = [38, height - 18, 16];
  const gap = Math.min(10, (width - left) / tokens / 2);
  const w = (width - left - 4 - (has_class ? rows : rows - 1) * gap) / tokens;
  /** @param {number} value */
  const y = (value) => floor - ((value - low) / (high - low || 1)) * (floor - ceiling);
  /** @param {number} one */
  const x = (one) => left + one * w + (one < first ? 0 : Math.floor((one - first) / columns) + first) * gap;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colours.text;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const value of [low, high]) context.fillText(number(value), left - 5, y(value));
  for (let one = 0; one < tokens; one++) {
    const tall = Math.max(1, floor - y(row[one]));
    context.fillStyle = colours.k;
    context.fillRect(x(one), floor - tall, Math.max(1, w - 1), tall);
    context.strokeStyle = colours.text;
    context.lineWidth = 0.75;
    if (w > 5) context.strokeRect(x(one), floor - tall, Math.max(1, w - 1), tall);
  }
  if (now.show !== "scores") { // what a query that does not care would give to each token
    context.strokeStyle = colours.text;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(left, y(1 / tokens));
    context.lineTo(width - 2, y(1 / tokens));
    context.stroke();
    context.setLineDash([]);
  }
  context.fillStyle = colours.text;
  context.textBaseline = "top";
  context.textAlign = "center";
  if (has_class) context.fillText(CLASS_TOKEN, Math.max(x(0) + w / 2, 22), floor + 4);
  for (let r = 0; r < rows; r++) {
    context.fillText(columns * w > 34 ? `row ${r + 1}` : `${r + 1}`, x(first + r * columns) + (columns * w) / 2, floor + 4);
  }
  context.textBaseline = "bottom";
  context.font = "bold 11px system-ui, sans-serif";
  /** @param {number} one @param {string} letter */
  const sign = (one, letter) => context.fillText(letter, x(one) + w / 2, y(row[one]) - 2);
  sign(best, query === best ? "Q K" : "K");
  if (query !== best) sign(query, "Q");
}

// ---------------------------------------------------------------- matrices

/** @param {Pen} context @param {Data} data @param {T.Shown} view @param {number | null} head @param {number} left @param {number} top @param {number} w @param {number} h */
function paintCells(context, data, view, head, left, top, w, h) {
  const { now, from, query, key, colours } = view;
  const [asking, asked] = data.facts.sizes[from.sample];
  context.imageSmoothingEnabled = w < 1 || h < 1;
  context.drawImage(data.picture(now.show, { ...from, head }, now.scale), left, top, asked * w, asking * h);
  paintBand(context, left, top + query * h, asked * w, h, "q", colours);
  if (key !== null) paintBand(context, left + key * w, top, w, asking * h, "k", colours);
}
/** Crosses where the mask hides. @param {Pen} context @param {Data} data @param {number} sample @param {number} left @param {number} top @param {number} cell */
function paintCrosses(context, data, sample, left, top, cell) {
  const [asking, asked] = data.facts.sizes[sample];
  context.lineWidth = 1;
  for (let i = 0; i < asking; i++) {
    for (let j = 0; j < asked; j++) {
      if (data.may(sample, i, j)) continue;
      const [x, y, r] = [left + (j + 0.5) * cell, top + (i + 0.5) * cell, cell / 5];
      for (const [style, thick] of pairs(["#fff", 3], ["#000", 1.2])) {
        context.strokeStyle = style;
        context.lineWidth = thick;
        context.beginPath();
        context.moveTo(x - r, y - r);
        context.lineTo(x + r, y + r);
        context.moveTo(x + r, y - r);
        context.lineTo(x - r, y + r);
        context.stroke();
      }
    }
  }
}
/** The chosen head, as large as it fits. @param {Canvas} canvas @param {Data} data @param {Words} say @param {T.Shown} view */
export function paintMatrix(canvas, data, say, view) {
  const { now, from, query, key, colours } = view;
  const [asking, asked] = data.facts.sizes[from.sample];
  const available = canvas.clientWidth;
  const measure = penOf(canvas);
  measure.font = "12px system-ui, sans-serif";
  /** @param {Side} side */
  const words = (side) => (data.isImage ? [] : say.of(now.sample, side));
  /** @param {Side} side */
  const widest = (side) => Math.max(0, ...words(side).map((word) => measure.measureText(word).width));
  let [left, top] = [Math.min(90, widest("queries")) + 20, Math.min(90, widest("keys")) + 18];
  if ((available - left - 3) / asked < LABELLED) [left, top] = [18, 18]; // no room for words: only Q and K stand at the edges
  const cell = Math.min(34, (available - left - 3) / asked, LARGEST / asking);
  canvas.style.height = `${Math.ceil(top + asking * cell + 3)}px`;
  tellGrid(canvas, { left, top, cellWidth: cell, cellHeight: cell });
  const { context } = prepare(canvas);
  paintCells(context, data, view, now.head, left, top, cell, cell);
  const [rows, columns] = cell >= LABELLED ? [words("queries"), words("keys")] : [[], []];
  paintNames(context, { rows, columns, query, key, left, top, cell, longest: 13, colours });
  if (data.hasScores && cell >= 7) paintCrosses(context, data, from.sample, left, top, cell);
}

/** One head: for an image the query's map, [class] above the patches; and its matrix. @param {T.Tile} tile @param {Data} data @param {T.Shown} view */
export function paintTile({ head, map, small }, data, view) {
  if (data.isImage) paintMap(map, head, data, view);
  if (small.hidden) return;
  const [asking, asked] = data.facts.sizes[view.from.sample];
  small.style.aspectRatio = `${asked} / ${asking}`;
  const { context, width, height } = prepare(small);
  paintCells(context, data, view, head, 0, 0, width / asked, height / asking);
}
/** @param {Canvas} canvas @param {number | null} head @param {Data} data @param {T.Shown} view */
function paintMap(canvas, head, data, view) {
  const { now, from, query, colours } = view;
  const { first, facts: { rows, columns, width: wide, height: tall } } = data;
  const its = data.row(now.show, { ...from, head }, query);
  const [low, high] = data.limits(now.show, now.scale, its);
  const own = { ...view, fraction: (/** @type {number} */ value) => (high > low ? (value - low) / (high - low) : 0) };
  canvas.style.aspectRatio = `${columns} / ${rows + first * 1.15}`;
  const { context, width } = prepare(canvas);
  const [w, h] = [width / columns, (width * tall) / wide / rows];
  const top = first * (h + 4);
  /** @param {number} one */
  const cell = (one) => one < first ? { x: 0, y: 0, w, h }
    : { x: ((one - first) % columns) * w, y: top + Math.floor((one - first) / columns) * h, w, h };
  for (let one = 0; one < its.length; one++) paintCell(context, cell(one), its[one], own);
  if (Math.max(wide, tall) <= OUTLINE_SIDE) paintOutline(context, data, now.sample, 0, top, width); // more would be a tangle
  paintFrame(context, cell(query), "q", colours);
}
