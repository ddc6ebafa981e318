// @ts-check
/* The matrices. */
import { bitmap, penOf, prepare } from "../kernel/canvas.js";
import { colour, inkOn } from "../kernel/colours.js";
import { write } from "../kernel/elements.js";
import { tellGrid } from "../kernel/matrix.js";
import { capital } from "../kernel/words.js";
import { cutEntry, upTo } from "./data.js";
import { CELL } from "./parts.js";
import { say, temperatureOf } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { Words } from "./words.js" */
/** @import { Canvas, Colours, Legend, Pen, Side, AttentionStepper as T } from "../types" */

const NUMBERED = 33; // the narrowest cell that holds a number
const LABELLED = 9; // the narrowest cell whose row and column carry their names

/** Where what is pointed at comes from and goes to: [matrix, row or null for all, column or null for all]. @param {T.Shown} _ @param {number} d_v */
function lights({ query, spot, key, entry }, d_v) {
  const ofValue = cutEntry(entry, d_v);
  /** @type {T.Light[]} */
  const whole = [["q", query, null], ["k", key, null]];
  /** @type {Partial<Record<T.Spot, T.Light[]>>} */
  const all = {
    q: [["q", query, null], ["q", query, entry], ["k", null, entry], ["s", query, null]],
    k: [...whole, ["q", query, entry], ["k", key, entry], ["s", query, key]],
    v: [["v", key, null], ["v", key, ofValue], ["s", query, key], ["o", query, ofValue]],
    weights: [...whole, ["s", query, key], ["v", key, null], ["o", query, null]],
    output: [["q", query, null], ["s", query, null], ["v", null, ofValue], ["o", query, ofValue]],
  };
  return all[spot] ?? [...whole, ["s", query, key]];
}

/** @param {T.Shown} _ @returns {[Float64Array, string]} */
function shownScores({ stages, at }) {
  if (at >= 3) return [stages.weights, "weights, after the softmax"];
  if (at === 2) return [stages.masked, "scores, after the mask (× hidden)"];
  return at === 1 ? [stages.scores, "scores"] : [stages.dots, "dot products Q Kᵀ"];
}

/** @param {Float64Array} values @returns {[low: number, high: number]} */
function extent(values, signed = false) {
  const finite = values.filter(Number.isFinite);
  if (signed) {
    const most = Math.max(0, ...finite.map(Math.abs));
    return [-most, most];
  }
  return finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 0];
}

/** @param {string} word */
function cut(word) {
  return word.length > 9 ? `${word.slice(0, 8)}…` : word;
}

/** A frame around cells: queries solid blue, keys dashed orange, values dotted green, scores and output plain. @param {Pen} context @param {number} x @param {number} y @param {number} w @param {number} height @param {T.Letter} name @param {Colours} colours @param {boolean} [thin] */
function paintLit(context, x, y, w, height, name, colours, thin = false) {
  const kind = name === "s" || name === "o" ? null : name;
  /** @param {string} style @param {number} width @param {number[]} [dash] */
  const line = (style, width, dash = []) => {
    context.setLineDash(dash);
    context.strokeStyle = style;
    context.lineWidth = width;
    context.strokeRect(x, y, w, height);
  };
  if (thin) return line(colours.text, 1);
  line("#fff", 6);
  line("#000", kind ? 4 : 2.5);
  if (kind) line(colours[kind], 3, { q: [], k: [7, 4], v: [3, 3] }[kind]);
  context.setLineDash([]);
}

/** Signs and numbers in cells. @param {Pen} context @param {number} rows @param {number} columns @param {(i: number, j: number) => string} sign
 * @param {(i: number, j: number) => number | null} fraction of the colours behind it; null: grey @param {T.Cells} _ */
function paintNumbers(context, rows, columns, sign, fraction, { left, top, w, ht }) {
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = "11px system-ui, sans-serif";
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      const text = sign(i, j);
      if (!text) continue;
      const behind = fraction(i, j);
      context.fillStyle = behind === null ? "#000" : inkOn(colour(behind));
      context.fillText(text, left + (j + 0.5) * w, top + (i + 0.5) * ht + 0.5, w);
    }
  }
}

export class Matrices {
  /** @param {Data} data @param {Words} words @param {{ matrices: T.Picture[], entryLegend: Legend, scoreLegend: Legend }} parts */
  constructor(data, words, parts) {
    this.data = data;
    this.words = words;
    this.parts = parts;
  }
  /** @param {T.Painted} view */
  paint(view) {
    const { q, k, v, facts: { d_v } } = this.data;
    const { matrices, entryLegend, scoreLegend } = this.parts;
    const { stages, at, query, now } = view;
    const [scores, text] = shownScores(view);
    const entries = [q, k, v].map(({ values }) => extent(values, true)[1]);
    /** @type {[low: number, high: number]} */
    const scale = [-Math.max(...entries), Math.max(...entries)];
    /** @type {[low: number, high: number]} */
    const own = at >= 3 ? [0, extent(scores)[1]] : extent(scores);
    const lit = lights(view, d_v);
    const values = { q: q.values, k: k.values, v: v.values, s: scores, o: stages.output };
    const laid = matrices.map((one) => ({ one, ...this.lay(one) }));
    const common = Math.min(...laid.map(({ w }) => w)); // without numbers, all cells are of one size
    for (const { one, left, w } of laid) {
      const waits = one.name === "o" && at < 4;
      this.paintMatrix(one, view, values[one.name], one.name === "s" ? own : scale, lit.filter(([name]) => name === one.name), {
        left, w: common < NUMBERED && w < CELL ? common : w, waits, crossed: one.name === "s" && at >= 2,
      });
      const shape = `${one.rows} × ${one.columns}`;
      const what = { q: "Q, the queries", k: "K, the keys", v: "V, the values", s: text, o: waits ? "output, empty until step 5" : "output" }[one.name];
      write(one.title, one.name === "s" || one.name === "o" ? `${what}` : what.slice(3));
      const moves = { q: "up and down the query, left and right its entries", k: "up and down the key, left and right its entries", v: "up and down the value, left and right its entries",
        s: "up and down the query, left and right the key", o: "up and down the query, left and right the entry" }[one.name];
      one.canvas.setAttribute("aria-label", `${capital(what)}, ${shape} (rows × columns). Row ${"qso".includes(one.name) ? query + 1 : view.key + 1} is lit. Arrow keys: ${moves}.`);
    }
    entryLegend.set(...scale, "Q, K, V and the output share one scale.");
    scoreLegend.set(...own, `${capital(text)}: one scale for all rows.${now.temperature !== 1 && at >= 3 ? ` Temperature ${temperatureOf(now.temperature)}.` : ""}`);
  }
  /** The room that names take, in pixels. @param {Canvas} canvas @param {Side} side @param {number} size */
  widest(canvas, side, size) {
    const { words } = this;
    const context = penOf(canvas);
    context.font = "bold 12px system-ui, sans-serif"; // as wide as a name becomes when its row is lit
    return Math.ceil(Math.min(64, Math.max(...upTo(size).map((i) => context.measureText(cut(words.wordOf(side, i))).width)))) + 8;
  }
  /** Where a matrix's cells start, and how wide they may be. @param {T.Picture} _ */
  lay({ canvas, side, rows, columns }) {
    const left = this.widest(canvas, side, rows);
    return { left, w: Math.min(CELL + 6, (canvas.clientWidth - left - 3) / columns) };
  }
  /** @param {T.Picture} one @param {T.Painted} view @param {Float64Array} values @param {[low: number, high: number]} scale @param {T.Light[]} lit @param {T.Laid} laid */
  paintMatrix({ name, rows, columns, side, canvas }, view, values, [low, high], lit, { left, w, waits, crossed }) {
    const { colours, query, stages } = view;
    const ht = Math.max(14, Math.min(22, w));
    const labelled = w >= LABELLED;
    const words = name === "s" && this.data.facts.keys !== null;
    const top = !labelled ? 6 : words ? this.widest(canvas, "keys", columns) : 18;
    const height = Math.ceil(top + rows * ht + 4);
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    tellGrid(canvas, { left, top, cellWidth: w, cellHeight: ht });
    const { context } = prepare(canvas);
    const numbered = w >= NUMBERED && !waits;
    /** @param {number} i @param {number} j */
    const crosses = (i, j) => crossed && !stages.may[i * columns + j];
    /** @param {number} i @param {number} j */
    const hidden = (i, j) => waits || crosses(i, j) || !Number.isFinite(values[i * columns + j]);
    const cells = bitmap(rows, columns, (i) => ({ values: upTo(columns).map((j) => (hidden(i, j) ? NaN : values[i * columns + j])), low, high }), canvas);
    context.drawImage(cells, left, top, columns * w, rows * ht);
    /** @param {number} i @param {number} j */
    const sign = (i, j) => (crosses(i, j) ? "×" : numbered ? say(values[i * columns + j]) : "");
    paintNumbers(context, rows, columns, sign, (i, j) => (hidden(i, j) ? null : (values[i * columns + j] - low) / (high - low || 1)), { left, top, w, ht });
    context.beginPath(); // thin lines between the cells
    for (let i = 1; i < rows; i++) context.rect(left, top + i * ht - 0.25, columns * w, 0.5);
    for (let j = 1; j < columns; j++) context.rect(left + j * w - 0.25, top, 0.5, rows * ht);
    context.fillStyle = "rgb(255 255 255 / 0.6)";
    context.fill();
    this.paintLabels(context, { side, rows, columns }, lit, { left, top, w, ht }, words, colours);
    // Wide bands first, so that a single cell's frame stays on top.
    /** @param {T.Light} _ */
    const wide = ([, row, column]) => (row === null || column === null ? 0 : 1);
    for (const [, row, column] of [...lit].sort((a, b) => wide(a) - wide(b))) {
      const [x, y] = [left + (column === null ? 0 : column * w), top + (row === null ? 0 : row * ht)];
      paintLit(context, x, y, column === null ? columns * w : w, row === null ? rows * ht : ht, name, colours);
    }
    if (!lit.length && "qso".includes(name)) paintLit(context, left, top + query * ht, columns * w, ht, name, colours, true);
  }
  /** @param {Pen} context @param {{ side: Side, rows: number, columns: number }} _ @param {T.Light[]} lit @param {T.Cells} cells
   * @param {boolean} words whether the columns have names @param {Colours} colours */
  paintLabels(context, { side, rows, columns }, lit, { left, top, w, ht }, words, colours) {
    const labelled = w >= LABELLED;
    /** @param {number} i */
    const rowLit = (i) => lit.some(([, row]) => row === i);
    /** @param {number} j */
    const columnLit = (j) => lit.some(([, , column]) => column === j);
    context.fillStyle = colours.text;
    /** @param {boolean} bold */
    const font = (bold) => (context.font = `${bold ? "bold " : ""}12px system-ui, sans-serif`);
    for (let i = 0; i < rows; i++) {
      context.textAlign = "right";
      font(rowLit(i));
      context.fillText(cut(this.words.wordOf(side, i)), left - 5, top + (i + 0.5) * ht, 64);
    }
    for (let j = 0; labelled && j < columns; j++) {
      font(columnLit(j));
      context.save();
      context.translate(left + (j + 0.5) * w, top - 5);
      if (words) context.rotate(-Math.PI / 2);
      else context.translate(0, -5);
      context.textAlign = words ? "left" : "center";
      if (words || w >= 17 || j % 5 === 4 || columnLit(j)) context.fillText(words ? cut(this.words.wordOf("keys", j)) : String(j + 1), 0, 0);
      context.restore();
    }
  }
}
