// @ts-check
/* The front end of headroom.widgets.AttentionExplorer.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-attention-explorer     the root of one view; a page may hold many
 *   canvas[data-part=image]          an image's patches; takes the focus and the keys. It holds exactly the grid: with r
 *                                    its getBoundingClientRect(), patch (row, column), counted from 0, lies around
 *                                    x = r.left + (column + 0.5) * r.width / columns, y = r.top + (row + 0.5) * r.height / rows
 *   canvas[data-part=class]          the [class] token's own cell, above the picture (absent without such a token)
 *   [data-part=queries], [data-part=keys-row]   a text's words; each is a [data-token], from 0
 *   canvas[data-part=matrix]         the chosen head, queries down, keys across; data-left, -top, -cell-width, -cell-height: where its cells lie
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=sample-select]        <select>, value: sequence or image from 0
 *   [data-part=layer-range]          <input type=range>, value: layer from 1
 *   [data-part=head]                 <input type=radio>, value: "mean" or head from 0; its label holds small pictures
 *   [data-part=scale-select]         <select>, value: "row" or "all"
 *   [data-part=show-select]          <select>, value: "weights", "unmasked" or "scores" (only with scores)
 *   [data-part=control-box]          <input type=checkbox>; [data-part=control-select]: which other image, from 0
 *   [data-part=matrices-box]         <input type=checkbox> (only with images)
 *   [data-part=predict], [data-part=reveal]     <button>s
 *   [data-part=legend], [data-part=row] (canvas of bars, only with images), [data-part=table], [data-part=keys] (<details>)
 *   data-sample, data-layer, data-head, data-query, data-key, data-locked, data-control, data-phase, … on the root: what
 *   is shown now, from 0
 */
import {
  bitmap, capital, choices, colour, css, cycle, decode, guardKeys, h, inkOn, legend, list, liveLine, needsPython,
  number, onPointer, paintBand, paintFrame, paintNames, pairs, penOf, prepare, repaint, sayHead, tableView,
  themeColours, uniqueName, visible, write,
} from "./shared.js";
/** @import { Canvas, Child, Model, On, Pen, Point, Rect, Side, View, AttentionExplorer as T } from "./types" */

const CLASS_TOKEN = "[class]";
/** @type {(keyof T.Now)[]} */
const CHOICES = ["sample", "layer", "head", "query", "key", "locked", "control", "scale", "show", "matrices", "phase", "marks"];
/** @type {(keyof T.Now)[]} */
const ROW = ["sample", "layer", "head", "query", "control"]; // what says whose row of numbers is shown
/** @type {T.Show[]} */
const SHOWS = ["weights", "unmasked", "scores"]; // in the menu's order
const OUTLINE_SIDE = 56; // pixels to which an image is reduced before its outline is traced
const LARGEST = 400; // height of the large matrix, in pixels
const LABELLED = 11; // smallest cell, in pixels, whose row and column carry their words

// ---------------------------------------------------------------- the numbers

/** What one widget was given, and questions about it. Tokens count from 0, [class] included. @param {Model<T.Traits>} model */
function readData(model) {
  const facts = model.get("_facts");
  const { n_layers, n_heads, sizes, has_class } = facts;
  const isImage = "rows" in facts;
  const first = has_class ? 1 : 0; // of the patches: tokens are [class], then the patches row by row
  const weights = decode(Uint16Array, model.get("_attention")); // round(65535 * weight)
  const scores = decode(Float32Array, model.get("_scores"));
  const mask = decode(Uint8Array, model.get("_mask"));
  const pixels = decode(Uint8Array, model.get("_pixels"));
  const starts = [0]; // of each sample's weights; divided by layers and heads, of its mask
  for (const [queries, keys] of sizes) starts.push(starts[starts.length - 1] + n_layers * n_heads * queries * keys);

  /** @param {number} sample @param {number} query @param {number} key */
  const may = (sample, query, key) =>
    !mask.length || mask[starts[sample] / (n_layers * n_heads) + query * sizes[sample][1] + key] === 1;

  /** The numbers of one query, written into `out`; head null: the mean of the heads. `kind` as the trait `show`. @param {Float32Array} out @param {T.Show} kind @param {number} sample @param {number} layer @param {number | null} head @param {number} query */
  function fillRow(out, kind, sample, layer, head, query) {
    const [queries, keys] = sizes[sample];
    out.fill(0);
    const [from, to] = head === null ? [0, n_heads] : [head, head + 1];
    for (let one = from; one < to; one++) {
      const start = starts[sample] + ((layer * n_heads + one) * queries + query) * keys;
      if (kind === "weights") for (let key = 0; key < keys; key++) out[key] += weights[start + key];
      else if (kind === "scores") for (let key = 0; key < keys; key++) out[key] += scores[start + key];
      else {
        const row = scores.subarray(start, start + keys);
        const most = row.reduce((a, b) => Math.max(a, b));
        const powers = row.map((score) => Math.exp(score - most));
        const total = powers.reduce((a, b) => a + b);
        for (let key = 0; key < keys; key++) out[key] += powers[key] / total;
      }
    }
    const divide = (to - from) * (kind === "weights" ? 65535 : 1);
    for (let key = 0; key < keys; key++) out[key] /= divide;
    return out;
  }
  /** @param {T.Show} kind @param {T.Place} _ @param {number} query */
  const row = (kind, { sample, layer, head }, query) => fillRow(new Float32Array(sizes[sample][1]), kind, sample, layer, head, query);

  /** @type {Partial<Record<T.Show, T.Limits>>} */
  const extents = { weights: [0, facts.largest] };
  /** The smallest and the largest number of any sample, layer and head. @param {T.Show} kind @returns {T.Limits} */
  function extent(kind) {
    let known = extents[kind];
    if (!known) {
      let [low, high] = kind === "scores" ? [Infinity, -Infinity] : [0, 0];
      for (let sample = 0; sample < sizes.length; sample++)
        for (let layer = 0; layer < n_layers; layer++)
          for (let head = 0; head < n_heads; head++)
            for (let query = 0; query < sizes[sample][0]; query++)
              for (const value of row(kind, { sample, layer, head }, query)) [low, high] = [Math.min(low, value), Math.max(high, value)];
      extents[kind] = known = [low, high];
    }
    return known;
  }
  /** Lowest and highest colour of a row. @param {T.Show} kind @param {T.Scale} scale @param {Float32Array} values @returns {T.Limits} */
  function limits(kind, scale, values) {
    if (scale === "all") return extent(kind);
    let [low, high] = kind === "scores" ? [Infinity, -Infinity] : [0, 0];
    for (let key = 0; key < values.length; key++) {
      if (values[key] < low) low = values[key];
      if (values[key] > high) high = values[key];
    }
    return [low, high];
  }

  // A layer's heads are painted once: going back and forth between layers, or along the queries, repeats nothing.
  /** @type {Map<string, Canvas>} */
  const kept = new Map();
  const room = 4 * (n_heads + 1);
  /** One head as a picture, one pixel a cell. @param {T.Show} kind @param {number} sample @param {number} layer @param {number | null} head @param {T.Scale} scale */
  function picture(kind, sample, layer, head, scale) {
    const name = [kind, sample, layer, head, scale].join();
    let found = kept.get(name);
    if (!found) {
      const [queries, keys] = sizes[sample];
      const values = new Float32Array(keys);
      const hides = kind === "weights" && mask.length > 0;
      found = bitmap(queries, keys, (query) => {
        fillRow(values, kind, sample, layer, head, query);
        const [low, high] = limits(kind, scale, values);
        for (let key = 0; hides && key < keys; key++) if (!may(sample, query, key)) values[key] = NaN;
        return { values, low, high };
      });
      if (kept.size >= room) kept.delete([...kept.keys()][0]);
    }
    kept.delete(name);
    kept.set(name, found); // last used, last out
    return found;
  }

  const { width, height, channels } = facts;
  /** @type {Map<number, Path2D>} */
  const outlines = new Map();
  return {
    ...facts, isImage, first, may, limits, picture, row,
    hasScores: scores.length > 0,
    n: sizes.length,
    /** @param {number} image */
    pixels: (image) => pixels.subarray(image * height * width * channels, (image + 1) * height * width * channels),
    /** An image's outline, in pixels of the image: colours below it stay as the legend has them. @param {number} image */
    outline(image) {
      const known = outlines.get(image) ?? traceOutline(this.pixels(image), width, height, channels);
      outlines.set(image, known);
      return known;
    },
  };
}

/** Marching squares: the line along which an image, reduced to few pixels, crosses the middle of its brightness. @param {Uint8Array} pixels @param {number} width @param {number} height @param {number} channels */
function traceOutline(pixels, width, height, channels) {
  const step = Math.max(1, Math.ceil(Math.max(width, height) / OUTLINE_SIDE));
  const [columns, rows] = [Math.ceil(width / step), Math.ceil(height / step)];
  const grey = new Float32Array(columns * rows);
  const counts = new Float32Array(columns * rows);
  for (let i = 0; i < pixels.length; i++) {
    const pixel = Math.floor(i / channels);
    const cell = Math.floor(Math.floor(pixel / width) / step) * columns + Math.floor((pixel % width) / step);
    grey[cell] += pixels[i];
    counts[cell] += 1;
  }
  grey.forEach((sum, i) => (grey[i] = sum / counts[i]));
  const level = (Math.min(...grey) + Math.max(...grey)) / 2;
  const path = new Path2D();
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
      for (let i = 0; i + 1 < crossings.length; i += 2) {
        path.moveTo(...crossings[i]);
        path.lineTo(...crossings[i + 1]);
      }
    }
  }
  return path;
}

// ---------------------------------------------------------------- one view

/** @param {View<T.Traits>} _ */
function render({ model, el }) {
  const data = readData(model);
  const { n, n_layers, n_heads, isImage, first, has_class, rows, columns, labels, predictions } = data;
  const unique = uniqueName();
  const ended = new AbortController(); // ends every listener with the view
  const { signal } = ended;
  const samples = [...Array(n).keys()];

  // ------------------------------------------------ words
  const kindOf = isImage ? "image" : "sequence";
  /** @param {number} sample @param {Side} side */
  const words = (sample, side) => data[side][sample].map(visible);
  /** @param {number} sample */
  const joined = (sample) => {
    const all = words(sample, data.crossed ? "keys" : "queries");
    const text = all.join(all.every((word) => [...word].length === 1) ? "" : " ").replaceAll("␣", " ");
    return text.length > 32 ? `${text.slice(0, 30)}…` : text;
  };
  /** @param {number} i */
  const saySample = (i) => (isImage ? `image ${i + 1}` + (labels ? ` (a ${labels[i]})` : "") : `sequence ${i + 1}: ${joined(i)}`);
  // Python and the traits name a patch by its number among the patches; in here all tokens count, [class] included.
  /** @param {T.Token} name */
  const token = (name) => (name === CLASS_TOKEN ? 0 : name + first);
  /** @param {T.Token | null} name */
  const tokenOrNone = (name) => (name === null ? null : token(name));
  /** @param {number} one @returns {T.Token} */
  const name = (one) => (isImage && one < first ? CLASS_TOKEN : one - first);
  /** @param {number} i */
  const sayPatch = (i) => `patch row ${Math.floor(i / columns) + 1}, column ${(i % columns) + 1}`;
  /** @param {number} sample @param {Side} side @param {number} which */
  function sayToken(sample, side, which) {
    if (isImage) return which < first ? CLASS_TOKEN : sayPatch(which - first);
    return `${side === "queries" ? "query" : "key"} ${which + 1} “${words(sample, side)[which]}”`;
  }
  /** @param {number} image */
  function sayPrediction(image) {
    if (!predictions) return labels ? `Label: ${labels[image]}.` : "";
    const best = predictions[image].reduce((most, p, i, all) => (p > all[most] ? i : most), 0);
    const says = `The model says ${best} (${number(predictions[image][best])})`;
    if (!labels) return `${says}.`;
    return `${says}, ${best === labels[image] ? "right" : "wrong"}: the label is ${labels[image]}.`;
  }
  /** @param {Float32Array} row */
  const byWeight = (row) => [...row.keys()].sort((a, b) => row[b] - row[a]);
  const KINDS = { weights: "weight", unmasked: "weight without the mask", scores: "score" };

  /** @param {T.Now} now @param {Float32Array} row */
  function sayAll(now, row) {
    const { sample, layer, head, locked, control, show, phase } = now;
    const [query, key] = [token(now.query), tokenOrNone(now.key)];
    const place = `${capital(kindOf)} ${sample + 1}, layer ${layer + 1}, ${sayHead(head)}`;
    const asks = sayToken(sample, "queries", query);
    /** @param {number} one */
    const say = (one) => sayToken(sample, "keys", one);
    if (phase === "marking") {
      const marks = now.marks.length ? `Marked: ${list(now.marks.map((one) => say(token(one))))}.` : "Nothing is marked yet.";
      const cursor = key === null ? "" : ` The next mark: ${say(key)}.`;
      return `${place}. Predict: to which keys does ${asks} give most weight? Mark them, then reveal. ${marks}${cursor}`;
    }
    const [best, second] = byWeight(row);
    const verdict = phase === "revealed" ? `${sayVerdict(now)} ` : "";
    const then = second === undefined ? "" : `, then ${say(second)} (${number(row[second])})`;
    let text = `${verdict}${place}: ${asks} gives most ${KINDS[show] === "weight" ? "weight" : KINDS[show]} to ${say(best)} (${number(row[best])})${then}.`;
    if (show === "scores") text = `${verdict}${place}: ${asks} has its highest score with ${say(best)} (${number(row[best])})${then}.`;
    if (key !== null) {
      const hidden = data.may(sample, query, key) ? "" : ", which the mask hides";
      text += ` Pointing at ${say(key)}${hidden}: ${KINDS[show]} ${number(row[key], 3)}.`;
    }
    if (control !== null) text += ` Control: these weights belong to image ${control + 1}, not to the one drawn.`;
    if (locked) text += " Locked.";
    return text;
  }
  /** How close the reader's marks are to where the weight is. @param {T.Now} now */
  function sayVerdict(now) {
    const { sample } = now;
    const query = token(now.query);
    const row = data.row("weights", { ...now, sample: now.control ?? sample }, query);
    const marks = now.marks.map(token);
    const order = byWeight(row);
    /** @param {number[]} tokens */
    const sum = (tokens) => tokens.reduce((total, one) => total + row[one], 0);
    const allowed = order.filter((key) => data.may(sample, query, key)).length;
    const [got, possible] = [sum(marks), sum(order.slice(0, marks.length))];
    const even = Math.min(1, marks.length / allowed);
    const share = possible > even ? (got - even) / (possible - even) : 1; // 0: no better than marking blindly
    const word = share >= 0.9 ? "Very close" : share >= 0.6 ? "Close" : share >= 0.25 ? "Partly" : "It looks elsewhere";
    const best = sayToken(sample, "keys", order[0]);
    const rank = Math.min(...marks.map((one) => order.indexOf(one))) + 1;
    const many = marks.length === 1 ? "key" : `${marks.length} keys`;
    const top = marks.includes(order[0])
      ? `The key that gets most, ${best}, is ${marks.length === 1 ? "yours" : "among them"}.`
      : `Most goes to ${best} (${number(row[order[0]])}); ${marks.length === 1 ? "yours" : "the best of yours"} comes ${rank}${["th", "st", "nd", "rd"][rank % 100 > 10 && rank % 100 < 14 ? 0 : rank % 10] ?? "th"}.`;
    return `${word}: the ${many} you marked ${marks.length === 1 ? "gets" : "get"} ${number(got)} of the weight, the best ${many} possible ${number(possible)}, ` +
      `an even share would be ${number(even)}. ${top}`;
  }
  /** What the mask does to a row, in numbers. @param {T.Now} _ */
  function sayMask({ sample, layer, head, query: asked }) {
    if (head === null) return "Choose one head to see what the mask does to its numbers: a mean of heads is no softmax.";
    const query = token(asked);
    const before = data.row("unmasked", { sample, layer, head }, query);
    const after = data.row("weights", { sample, layer, head }, query);
    const keys = [...before.keys()];
    const hidden = keys.filter((key) => !data.may(sample, query, key));
    if (!hidden.length) return "The mask hides nothing from this query: its weights are the same with and without.";
    const left = keys.filter((key) => data.may(sample, query, key));
    const share = left.reduce((sum, key) => sum + before[key], 0);
    const best = byWeight(after)[0];
    /** @param {number} value */
    const three = (value) => number(value, 3);
    /** @param {number[]} some */
    const count = (some) => (some.length === 1 ? "1 key" : `${some.length} keys`);
    return `Without the mask, the softmax gives ${three(share)} to the ${count(left)} that this query may attend to, and ${three(1 - share)} to the ` +
      `${count(hidden)} that it may not (×). The mask sets the hidden scores to −∞; every weight left is divided by ${three(share)}, so that they sum to 1 again: ` +
      `${sayToken(sample, "keys", best)}: ${three(before[best])} / ${three(share)} = ${three(after[best])}.`;
  }

  // ------------------------------------------------ the parts
  /** @param {string | number} value @param {string} text */
  const option = (value, text) => h("option", { value }, text);
  /** @param {string} part @param {boolean} [disabled] */
  const box = (part, disabled = false) => h("input", { type: "checkbox", "data-part": part, disabled });
  /** @param {string} text @param {...Child} inputs */
  const field = (text, ...inputs) => h("label", {}, h("span", {}, text), ...inputs);
  const sampleSelect = h("select", { "data-part": "sample-select" }, ...samples.map((i) => option(i, capital(saySample(i)))));
  const layerRange = h("input", { type: "range", "data-part": "layer-range", min: 1, max: n_layers, step: 1, disabled: n_layers === 1 });
  const layerOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const scaleSelect = h("select", { "data-part": "scale-select" }, option("row", "each row its own"), option("all", "one for all rows"));
  const showSelect = h("select", { "data-part": "show-select" }, option("weights", "weights after the mask"),
    option("unmasked", "weights without the mask"), option("scores", "scores before the mask"));
  const controlBox = box("control-box", n === 1);
  const controlSelect = h("select", { "data-part": "control-select", "aria-label": "Image that the control takes its weights from" },
    ...(isImage ? samples.map((i) => option(i, saySample(i))) : []));
  const matricesBox = box("matrices-box");
  const predictButton = h("button", { type: "button", "data-part": "predict" }, "Predict first");
  const revealButton = h("button", { type: "button", "data-part": "reveal" }, "Reveal");
  /** @param {...Child} parts */
  const pair = (...parts) => h("span", { class: "headroom-pair" }, ...parts);
  const controls = h("div", { class: "headroom-controls" },
    field(capital(kindOf), sampleSelect), field("Layer", layerRange, layerOutput), field("Scale", scaleSelect),
    ...(data.hasScores ? [field("Show", showSelect)] : []),
    ...(isImage ? [pair(h("label", {}, controlBox, h("span", {}, "Control: weights of")), controlSelect), h("label", {}, matricesBox, h("span", {}, "Matrices"))] : []),
    pair(predictButton, revealButton));

  const id = `live-${unique}`;
  const live = liveLine(id);
  /** @template {"canvas" | "div"} Tag @param {Tag} tag @param {string} part @param {string} description */
  const surface = (tag, part, description) =>
    h(tag, { "data-part": part, tabindex: 0, role: "application", "aria-roledescription": description, "aria-describedby": id });

  // An image: its digits or photographs, plain, and its patches in the colours of their weights
  const digit = h("canvas", { "data-part": "digit", role: "img" });
  const digitNote = h("span", { "data-part": "prediction" });
  const sourceDigit = h("canvas", { "data-part": "control-digit", role: "img" });
  const sourceNote = h("span", { "data-part": "control-note" });
  const source = h("span", { class: "headroom-digit headroom-control" }, sourceDigit, sourceNote);
  const classCanvas = h("canvas", { "data-part": "class", role: "img" });
  const picture = surface("canvas", "image", "picture of attention");
  if (isImage) {
    digit.style.height = sourceDigit.style.height = data.height > OUTLINE_SIDE ? "96px" : "42px";
    picture.style.aspectRatio = `${data.width} / ${data.height}`;
    classCanvas.style.width = `max(calc(100% / ${columns}), 30px)`;
    classCanvas.style.aspectRatio = `${data.width / columns} / ${data.height / rows}`;
  }
  const classCell = h("div", { class: "headroom-class" }, classCanvas,
    h("span", { class: "headroom-note" }, "the [class] token, which is no part of the image"));
  const bars = h("canvas", { "data-part": "row", role: "img" });

  // A text: the words that ask, and the words that are asked
  /** @param {string} part @param {string} text */
  const strip = (part, text) => {
    const element = surface("div", part, "row of words");
    return /** @type {T.Strip} */ ({ element, sample: -1, chips: [], box: h("div", { class: "headroom-strip" }, h("span", { class: "headroom-note" }, text), element) });
  };
  const queries = strip("queries", "Queries (Q): who looks");
  const keysRow = strip("keys-row", "Keys (K): who is looked at, and the number that each gets");

  const scaleLegend = legend();
  const matrixCanvas = surface("canvas", "matrix", "matrix of attention");
  const matrixTitle = h("div", { class: "headroom-title" });
  const matrixBox = h("div", { class: "headroom-matrix" }, matrixTitle, matrixCanvas,
    h("span", { class: "headroom-note" }, "Rows are queries (Q), columns keys (K)."));

  const tiles = [null, ...Array(n_heads).keys()].map((head) => {
    const input = h("input", { type: "radio", "data-part": "head", name: `head-${unique}`, value: head ?? "mean" });
    const [map, small] = [h("canvas", { "aria-hidden": "true", class: "headroom-small-map" }), h("canvas", { "aria-hidden": "true", "data-part": "small-matrix" })];
    const most = h("span", { class: "headroom-value" });
    const text = h("span", {}, head === null ? "mean" : `head ${head + 1}`);
    return { head, input, map, small, most, label: h("label", { class: "headroom-tile" }, ...(isImage ? [map] : []), small, input, text, most) };
  });
  const headsTitle = h("legend");
  const heads = h("fieldset", { "data-part": "heads" }, headsTitle, h("div", { class: "headroom-tiles" }, ...tiles.map((tile) => tile.label)));
  heads.style.setProperty("--headroom-tile", tiles.length > 6 ? "84px" : "118px"); // few heads: larger pictures

  const renormalised = h("p", { "data-part": "renormalised" });
  const covered = h("p", { "data-part": "covered" }, "Matrices, numbers and table are covered until you reveal.");
  const table = tableView(() => fillTable(choice.now()), "Table of weights");

  /** @param {string} text */
  const kbd = (text) => h("kbd", {}, text);
  const help = h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, isImage ? "Pointer: a patch under it is the query, a cell of a matrix is a query and a key; " : "Pointer: a word under it is the query or the key, a cell of a matrix is both; ",
      "a click locks, a second click lets go. With the focus on ", ...(isImage ? ["the picture, ", kbd("arrows"), " move the query",
        ...(has_class ? [" (up from the first row to [class], or ", kbd("c"), ")"] : [])] : ["a row of words, ", kbd("←"), " ", kbd("→"), " move along it"]),
      "; on the large matrix ", kbd("↑"), " ", kbd("↓"), " move the query, ", kbd("←"), " ", kbd("→"), " the key. ",
      kbd("Enter"), " or ", kbd("Space"), " lock and let go, ", kbd("Esc"), " lets go, ",
      kbd("["), " ", kbd("]"), " or ", kbd("Page Up"), " ", kbd("Page Down"), " change the layer, ",
      kbd("1"), "–", kbd("9"), " pick a head, ", kbd("0"), " the mean, ", kbd("h"), " ", kbd("H"), " the next and the previous head, ",
      kbd("i"), " ", kbd("I"), ` the next and the previous ${kindOf}, `, kbd("s"), " changes the scale",
      ...(data.hasScores ? [", ", kbd("m"), " what is shown of the mask"] : []), ...(isImage ? [", ", kbd("x"), " switches the control"] : []), "."),
    h("p", {}, "Predict first (", kbd("p"), "): the numbers are covered, and you mark the keys that you expect to get most of the query's weight, by a click or with ",
      "the arrows and ", kbd("Space"), ". ", kbd("r"), " reveals, ", kbd("Esc"), " gives up."),
    needsPython("Python reads what you choose: ", h("code", {}, "widget.selection"), " and ", h("code", {}, "widget.selected_weights"),
      ". Python counts from 0, this picture from 1. Nothing else here needs it."));

  const root = h("div", { class: `headroom-widget headroom-attention-explorer headroom-of-${kindOf}`, role: "group", "aria-label": "Attention explorer" },
    controls,
    ...(isImage ? [h("div", { class: "headroom-digits" }, h("span", { class: "headroom-digit" }, digit, digitNote), source)] : [queries.box, keysRow.box]),
    h("div", { class: "headroom-body" },
      ...(isImage ? [h("div", { class: "headroom-left" }, ...(has_class ? [classCell] : []), picture, scaleLegend.element)] : []),
      matrixBox, heads),
    covered, live.element, ...(data.hasScores ? [renormalised] : []), ...(isImage ? [bars] : []), table.element, help);
  if (!isImage) matrixBox.append(scaleLegend.element);
  el.append(h("div", { class: "headroom-frame" }, root));

  // ------------------------------------------------ choosing
  const schedule = repaint(() => paint(), { model, names: CHOICES, canvases: [picture, bars, heads, matrixCanvas, root], signal });
  const choice = choices(model, CHOICES, { schedule, also: follow, signal });

  /** What follows from a choice; Python does the same. @param {Partial<T.Now>} changes */
  function follow(changes) {
    const sample = changes.sample ?? model.get("sample");
    const control = "control" in changes ? changes.control : model.get("control");
    if (control === sample) changes.control = n === 1 ? null : (sample + 1) % n;
    if (!isImage && "sample" in changes) { // another sequence may be shorter
      const [asking, asked] = data.sizes[sample];
      changes.query = name(Math.min(token(changes.query ?? model.get("query")), asking - 1));
      const at = "key" in changes ? changes.key : model.get("key");
      changes.key = typeof at === "number" ? name(Math.min(token(at), asked - 1)) : null;
    }
    // A prediction is about one row of numbers: another row, another prediction.
    const moved = ROW.some((one) => one in changes && changes[one] !== (model.get(one) ?? null));
    if (moved && model.get("marks").length) changes.marks = [];
    if (moved && model.get("phase") === "revealed") changes.phase = "marking";
  }
  /** @param {number} image */
  function otherImage(image) {
    const rest = samples.map((i) => (image + 1 + i) % n).filter((i) => i !== image);
    return (labels && rest.find((i) => labels[i] !== labels[image])) ?? rest[0] ?? image;
  }

  /** Pointed at: `{ query }`, `{ key }` or both, as tokens. While predicting, only keys are pointed at, to be marked. @param {T.At} at */
  const named = ({ query, key = null }) => ({ ...(query === undefined ? {} : { query: name(query) }), key: key === null ? null : name(key) });
  /** @param {T.At | null} at */
  function point(at) {
    if (at === null) return choice.point(null);
    if (model.get("phase") === "marking") return;
    choice.point(named(at));
  }
  /** @param {T.At} at */
  function click(at) {
    const now = choice.now();
    if (now.phase === "marking" && typeof at.key === "number") return mark(name(at.key));
    const to = named(at);
    const again = model.get("locked") && (to.query ?? model.get("query")) === model.get("query") && to.key === (model.get("key") ?? null);
    choice.choose({ ...to, locked: now.phase === "marking" ? false : !again });
  }
  /** @param {T.Token} one */
  function mark(one) {
    const marks = model.get("marks");
    choice.choose({ key: one, marks: marks.includes(one) ? marks.filter((other) => other !== one) : [...marks, one] });
  }
  const predict = () => choice.choose(model.get("phase") === "off" ? { phase: "marking", marks: [], key: null, locked: false, show: "weights" } : { phase: "off", marks: [], key: null });
  const reveal = () => model.get("phase") === "marking" && model.get("marks").length && choice.choose({ phase: "revealed", key: null });

  // ------------------------------------------------ painting a state
  // Everything is measured and painted before any text changes: a change in between would make the browser lay out anew.
  function paint() {
    const now = choice.now();
    const { sample, control, scale, show, phase } = now;
    const from = { ...now, sample: control ?? sample }; // whose numbers are drawn
    const [query, key] = [token(now.query), tokenOrNone(now.key)];
    const row = data.row(show, from, query);
    const best = row.indexOf(row.reduce((a, b) => Math.max(a, b)));
    const limits = data.limits(show, scale, row);
    const marking = phase === "marking";
    /** @type {T.Shown} */
    const view = {
      now, from, query, key, row, best, limits, marking,
      aim: marking ? key : key ?? best, // which key wears the frame
      marks: now.marks.map(token),
      fraction: (value) => (limits[1] > limits[0] ? (value - limits[0]) / (limits[1] - limits[0]) : 0),
      colours: themeColours(root),
    };
    if (!isImage && (keysRow.sample !== sample || queries.sample !== sample)) fillStrips(sample);

    matrixBox.hidden = marking || (isImage && !now.matrices);
    heads.hidden = table.element.hidden = marking;
    scaleLegend.element.hidden = bars.hidden = renormalised.hidden = marking;
    covered.hidden = !marking;
    root.setAttribute("data-matrices", String(now.matrices));
    for (const tile of tiles) tile.small.hidden = isImage && !now.matrices;

    if (isImage) paintImage(view);
    if (!marking) {
      if (!matrixBox.hidden) paintMatrix(view);
      for (const tile of tiles) paintTile(tile, view);
      if (isImage) paintBars(view);
    }
    if (!isImage) paintStrips(view);
    writeTexts(view);
  }

  /** @param {T.Shown} _ */
  function writeTexts({ now, from, query, row, limits, marking }) {
    const { sample, layer, head, control, scale, show, phase } = now;
    for (const one of CHOICES) root.setAttribute(`data-${one}`, String(now[one] ?? "none"));
    sampleSelect.value = String(sample);
    layerRange.value = String(layer + 1);
    layerRange.setAttribute("aria-valuetext", `layer ${layer + 1} of ${n_layers}`);
    layerOutput.textContent = `${layer + 1} of ${n_layers}`;
    scaleSelect.value = scale;
    showSelect.value = show;
    showSelect.disabled = phase !== "off";
    matricesBox.checked = now.matrices;
    predictButton.setAttribute("aria-pressed", String(phase !== "off"));
    revealButton.hidden = !marking;
    revealButton.disabled = !now.marks.length;
    if (isImage) {
      controlBox.checked = control !== null;
      controlSelect.disabled = n === 1;
      for (const one of controlSelect.options) one.disabled = Number(one.value) === sample;
      controlSelect.value = String(control ?? otherImage(sample));
      digit.setAttribute("aria-label", capital(saySample(sample)));
      digitNote.textContent = `Image ${sample + 1}. ${sayPrediction(sample)}`;
      source.hidden = control === null;
      if (control !== null) {
        sourceDigit.setAttribute("aria-label", capital(saySample(control)));
        sourceNote.textContent = `Control: weights from ${saySample(control)}, drawn over image ${sample + 1}.`;
      }
      const coloured = marking ? "Its weights are covered" : `coloured by the weights that ${sayToken(sample, "queries", query)} gives`;
      picture.setAttribute("aria-label", `${capital(saySample(sample))} in ${rows} rows and ${columns} columns of patches. ${capital(coloured)}. ` +
        (marking ? "Arrow keys move, Space marks." : "Arrow keys move the query, Enter locks it."));
      if (has_class) classCanvas.setAttribute("aria-label", `[class] token${marking ? "" : `: weight ${number(row[0])}`}${query === 0 ? ", the query" : ""}`);
    } else {
      queries.element.setAttribute("aria-label", `Queries: ${words(sample, "queries").join(" ")}. Arrow keys move the query.`);
      keysRow.element.setAttribute("aria-label", `Keys: ${words(sample, "keys").join(" ")}. Arrow keys move ${marking ? "and Space marks" : "the key"}.`);
    }
    const what = { weights: "Weights", unmasked: "Weights without the mask", scores: "Scores" }[show];
    matrixTitle.textContent = `${what}, layer ${layer + 1}, ${sayHead(head)}`;
    const [asking, asked] = data.sizes[from.sample];
    matrixCanvas.setAttribute("aria-label", `${what} of layer ${layer + 1}, ${sayHead(head)}: ${asking} queries down, ${asked} keys across. ` +
      "Arrow keys move query and key, Enter locks them.");
    const least = show === "scores" ? "its lowest score" : "0";
    scaleLegend.set(...limits, scale === "all"
      ? `One scale for all: up to the largest ${show === "scores" ? "score" : "weight"} of any ${kindOf}, layer and head.`
      : `Row scale: each query's row goes from ${least} to its own largest number.`);
    headsTitle.textContent = `Layer ${layer + 1}: the same query in every head`;
    for (const { head: its, input, most, label } of tiles) {
      const top = data.row(show, { ...from, head: its }, query).reduce((a, b) => Math.max(a, b));
      input.checked = its === head;
      label.classList.toggle("headroom-chosen", its === head);
      input.setAttribute("aria-label", `${sayHead(its)}, largest ${KINDS[show]} ${number(top)}`);
      most.textContent = `max ${number(top)}`;
    }
    live.say(sayAll(now, row));
    if (data.hasScores) renormalised.textContent = sayMask(now);
    if (!marking) table.update();
  }

  // ---- an image
  /** One token's cell; while predicting it tells nothing. @param {Pen} context @param {Rect} _ @param {number} value @param {T.Shown} view */
  function paintCell(context, { x, y, w, h: height }, value, view) {
    context.fillStyle = view.marking ? "#5a5a5a" : css(colour(view.fraction(value)));
    context.fillRect(x, y, w, height);
    if (w < 10) return;
    context.strokeStyle = "rgb(255 255 255 / 0.35)";
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, w - 1, height - 1);
  }
  /** A cell's number, with a rim of the cell's colour: the outline may pass behind it. @param {Pen} context @param {Rect} _ @param {number} value @param {T.Shown} view */
  function paintNumber(context, { x, y, w, h: height }, value, view) {
    const rgb = colour(view.fraction(value));
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "bottom";
    context.lineJoin = "round";
    context.lineWidth = 3;
    context.strokeStyle = css(rgb);
    context.strokeText(number(value), x + w - 11, y + height - 10);
    context.fillStyle = inkOn(rgb);
    context.fillText(number(value), x + w - 11, y + height - 10);
  }
  /** Frames of query and key, and the reader's marks. @param {Pen} context @param {(one: number) => Rect} cellOf @param {number} one @param {T.Shown} view */
  function paintSigns(context, cellOf, one, view) {
    const cell = cellOf(one);
    if (one === view.aim) paintFrame(context, cell, "k", view.colours, "K");
    if (one === view.query) paintFrame(context, cell, "q", view.colours, "Q");
    if (!view.marks.includes(one)) return;
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
  /** @param {Pen} context @param {number} image @param {number} x @param {number} y @param {number} width */
  function paintOutline(context, image, x, y, width) {
    const zoom = width / data.width;
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
  /** An image as the model sees it. @param {Canvas} canvas @param {number} image */
  function paintPlain(canvas, image) {
    if (canvas.dataset.painted === String(image)) return;
    canvas.dataset.painted = String(image);
    [canvas.width, canvas.height] = [data.width, data.height];
    const context = penOf(canvas);
    const frame = context.createImageData(data.width, data.height);
    const pixels = data.pixels(image);
    const { channels } = data;
    for (let i = 0; i < data.width * data.height; i++) {
      for (let c = 0; c < 3; c++) frame.data[4 * i + c] = pixels[i * channels + (channels === 3 ? c : 0)];
      frame.data[4 * i + 3] = 255;
    }
    context.putImageData(frame, 0, 0);
  }
  /** @param {T.Shown} view */
  function paintImage(view) {
    const { now, row } = view;
    paintPlain(digit, now.sample);
    if (now.control !== null) paintPlain(sourceDigit, now.control);
    const { context, width, height } = prepare(picture);
    const [w, ht] = [width / columns, height / rows];
    /** @param {number} one */
    const cell = (one) => ({ x: ((one - first) % columns) * w, y: Math.floor((one - first) / columns) * ht, w, h: ht });
    const patches = [...Array(rows * columns).keys()].map((patch) => patch + first);
    for (const one of patches) paintCell(context, cell(one), row[one], view);
    paintOutline(context, now.sample, 0, 0, width);
    for (const one of patches) paintSigns(context, cell, one, view);
    if (w >= 40 && ht >= 40 && !view.marking) for (const one of patches) paintNumber(context, cell(one), row[one], view);
    if (has_class) {
      const { context: own, width: cw, height: ch } = prepare(classCanvas);
      const all = { x: 0, y: 0, w: cw, h: ch };
      paintCell(own, all, row[0], view);
      paintSigns(own, () => all, 0, view);
      if (cw >= 40 && !view.marking) paintNumber(own, all, row[0], view);
    }
  }
  /** The row as bars: [class], then the patches, a gap after each row of the image. @param {T.Shown} _ */
  function paintBars({ row, best, query, limits: [low, high], colours, now }) {
    const { context, width, height } = prepare(bars);
    const tokens = row.length;
    const [left, floor, ceiling] = [38, height - 18, 16];
    const gap = Math.min(10, (width - left) / tokens / 2);
    const gaps = has_class ? rows : rows - 1;
    const w = (width - left - 4 - gaps * gap) / tokens;
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
      const one = first + r * columns;
      context.fillText(columns * w > 34 ? `row ${r + 1}` : `${r + 1}`, x(one) + (columns * w) / 2, floor + 4);
    }
    context.textBaseline = "bottom";
    context.font = "bold 11px system-ui, sans-serif";
    /** @param {number} one @param {string} letter */
    const sign = (one, letter) => context.fillText(letter, x(one) + w / 2, y(row[one]) - 2);
    if (query === best) sign(best, "Q K");
    else {
      sign(best, "K");
      sign(query, "Q");
    }
    bars.setAttribute("aria-label",
      `Bars: the numbers of ${sayToken(now.sample, "queries", query)} in layer ${now.layer + 1}, ${sayHead(now.head)}, for all ${tokens} tokens; ` +
      `largest ${number(row[best])} at ${sayToken(now.sample, "keys", best)}; the dashed line is an even share, ${number(1 / tokens, 3)}. The table below has the numbers.`);
  }

  // ---- a text
  /** @param {number} sample */
  function fillStrips(sample) {
    for (const part of [queries, keysRow]) {
      const side = part === queries ? "queries" : "keys";
      part.sample = sample;
      part.chips = words(sample, side).map((word, i) => {
        const value = h("span", { class: "headroom-value" });
        const sign = h("b");
        return { value, sign, element: h("span", { class: "headroom-chip", "data-token": i }, sign, h("span", {}, word), ...(side === "keys" ? [value] : [])) };
      });
      part.element.replaceChildren(...part.chips.map((chip) => chip.element));
    }
  }
  /** @param {T.Shown} _ */
  function paintStrips({ now, query, row, aim, marks, marking, fraction }) {
    queries.chips.forEach(({ element, sign }, one) => {
      element.classList.toggle("headroom-is-q", one === query);
      write(sign, one === query ? "Q" : "");
    });
    keysRow.chips.forEach(({ element, sign, value }, one) => {
      const hidden = !data.may(now.sample, query, one);
      const grey = !marking && hidden && now.show === "weights";
      const rgb = marking ? null : grey ? [217, 217, 217] : colour(fraction(row[one]));
      element.style.background = rgb ? css(rgb) : "";
      element.style.color = rgb ? inkOn(rgb) : "";
      element.classList.toggle("headroom-is-k", one === aim);
      write(sign, (one === aim ? "K" : "") + (marks.includes(one) ? "?" : ""));
      write(value, marking ? "" : (hidden ? "× " : "") + number(row[one]));
    });
  }

  // ---- matrices
  /** @param {Pen} context @param {T.Shown} view @param {number | null} head @param {number} left @param {number} top @param {number} w @param {number} ht */
  function paintCells(context, view, head, left, top, w, ht) {
    const { now, from, query, key, colours } = view;
    const [asking, asked] = data.sizes[from.sample];
    context.imageSmoothingEnabled = w < 1 || ht < 1;
    context.drawImage(data.picture(now.show, from.sample, now.layer, head, now.scale), left, top, asked * w, asking * ht);
    paintBand(context, left, top + query * ht, asked * w, ht, "q", colours);
    if (key !== null) paintBand(context, left + key * w, top, w, asking * ht, "k", colours);
  }
  /** @param {T.Shown} view */
  function paintMatrix(view) {
    const { now, from, query, key, colours } = view;
    const [asking, asked] = data.sizes[from.sample];
    const available = matrixCanvas.clientWidth;
    const context = penOf(matrixCanvas);
    context.font = "12px system-ui, sans-serif";
    /** @param {Side} side */
    const widest = (side) => (isImage ? 0 : Math.max(...words(now.sample, side).map((word) => context.measureText(word).width)));
    let [left, top] = [Math.min(90, widest("queries")) + 20, Math.min(90, widest("keys")) + 18];
    let w = Math.min(34, (available - left - 3) / asked);
    if (w < LABELLED) [left, top] = [18, 18]; // no room for words: only Q and K stand at the edges
    w = Math.min(34, (available - left - 3) / asked, LARGEST / asking);
    const ht = w;
    matrixCanvas.style.height = `${Math.ceil(top + asking * ht + 3)}px`;
    for (const [what, value] of Object.entries({ left, top, cellWidth: w, cellHeight: ht })) matrixCanvas.dataset[what] = value.toFixed(3);
    const { context: screen } = prepare(matrixCanvas);
    paintCells(screen, view, now.head, left, top, w, ht);
    const labelled = !isImage && w >= LABELLED && ht >= LABELLED;
    const [rowWords, columnWords] = labelled ? [words(now.sample, "queries"), words(now.sample, "keys")] : [[], []];
    paintNames(screen, { rows: rowWords, columns: columnWords, query, key, left, top, cell: w, longest: 13, colours });
    if (data.hasScores && w >= 7 && ht >= 7) { // crosses where the mask hides
      screen.lineWidth = 1;
      for (let i = 0; i < asking; i++) {
        for (let j = 0; j < asked; j++) {
          if (data.may(from.sample, i, j)) continue;
          const [x, y, r] = [left + (j + 0.5) * w, top + (i + 0.5) * ht, Math.min(w, ht) / 5];
          for (const [style, thick] of pairs(["#fff", 3], ["#000", 1.2])) {
            screen.strokeStyle = style;
            screen.lineWidth = thick;
            screen.beginPath();
            screen.moveTo(x - r, y - r);
            screen.lineTo(x + r, y + r);
            screen.moveTo(x + r, y - r);
            screen.lineTo(x - r, y + r);
            screen.stroke();
          }
        }
      }
    }
  }
  /** One head: for an image the query's map, [class] above the patches; and its matrix. @param {T.Tile} _ @param {T.Shown} view */
  function paintTile({ head, map, small }, view) {
    const { now, from, query, colours } = view;
    if (isImage) {
      const its = data.row(now.show, { ...from, head }, query);
      const [low, high] = data.limits(now.show, now.scale, its);
      const own = { ...view, fraction: (/** @type {number} */ value) => (high > low ? (value - low) / (high - low) : 0) };
      const gap = has_class ? 4 : 0;
      map.style.aspectRatio = `${columns} / ${rows + first * 1.15}`;
      const { context, width } = prepare(map);
      const w = width / columns;
      const ht = (width * data.height) / data.width / rows;
      const top = first * (ht + gap);
      /** @param {number} one */
      const cell = (one) => one < first ? { x: 0, y: 0, w, h: ht }
        : { x: ((one - first) % columns) * w, y: top + Math.floor((one - first) / columns) * ht, w, h: ht };
      for (let one = 0; one < its.length; one++) paintCell(context, cell(one), its[one], own);
      if (Math.max(data.width, data.height) <= OUTLINE_SIDE) paintOutline(context, now.sample, 0, top, width); // more would be a tangle
      paintFrame(context, cell(query), "q", colours);
    }
    if (small.hidden) return;
    const [asking, asked] = data.sizes[from.sample];
    small.style.aspectRatio = `${asked} / ${asking}`;
    const { context, width, height } = prepare(small);
    paintCells(context, view, head, 0, 0, width / asked, height / asking);
  }

  /** @param {T.Now} now */
  function fillTable(now) {
    const { sample, layer, head, control } = now;
    const query = token(now.query);
    const from = { ...now, sample: control ?? sample };
    const row = data.row("weights", from, query);
    const whose = control === null ? "" : ` (control: image ${control + 1}'s weights)`;
    const caption = h("caption", {}, `Weights of ${sayToken(sample, "queries", query)}: ${kindOf} ${sample + 1}, layer ${layer + 1}, ${sayHead(head)}${whose}`);
    /** @param {number} value */
    const cell = (value) => h("td", {}, number(value, 3));
    /** @param {string} text */
    const column = (text) => h("th", { scope: "col" }, text);
    /** @param {string} text @param {...Child} cells */
    const line = (text, ...cells) => h("tr", {}, h("th", { scope: "row" }, text), ...cells);
    if (isImage) {
      return h("table", {}, caption,
        h("thead", {}, h("tr", {}, h("td"), ...Array.from({ length: columns }, (_, c) => column(`column ${c + 1}`)))),
        h("tbody", {}, ...(has_class ? [line(CLASS_TOKEN, cell(row[0]))] : []),
          ...Array.from({ length: rows }, (_, r) => line(`row ${r + 1}`, ...Array.from({ length: columns }, (__, c) => cell(row[first + r * columns + c]))))));
    }
    const more = data.hasScores ? [data.row("scores", from, query), data.row("unmasked", from, query)] : [];
    return h("table", {}, caption,
      h("thead", {}, h("tr", {}, column("key"), column("weight"), ...(more.length ? [column("score"), column("without the mask"), column("may attend")] : []))),
      h("tbody", {}, ...[...row.keys()].map((one) => line(sayToken(sample, "keys", one), cell(row[one]), ...more.map((its) => cell(its[one])),
        ...(more.length ? [h("td", {}, data.may(sample, query, one) ? "yes" : "no")] : [])))));
  }

  // ------------------------------------------------ pointer
  const leave = () => point(null);
  /** @param {number} value @param {number} size */
  const clamp = (value, size) => Math.min(size - 1, Math.max(0, Math.floor(value)));
  /** @param {HTMLElement} element @param {(event: MouseEvent) => T.At | null} at @param {HTMLElement | null} [focus] */
  function surfaceOf(element, at, focus = element) {
    onPointer(element, signal, (event) => { const place = at(event); if (place) point(place); }, leave);
    element.addEventListener("click", (event) => {
      const place = at(event);
      if (!place) return;
      click(place);
      if (focus) focus.focus({ preventScroll: true });
    }, { signal });
  }
  // While predicting, a click on a patch marks it as a key.
  /** @param {number} one */
  const asked = (one) => (model.get("phase") === "marking" ? { key: one } : { query: one });
  surfaceOf(picture, (event) => {
    const r = picture.getBoundingClientRect();
    const c = clamp(((event.clientX - r.left) / r.width) * columns, columns);
    return asked(first + clamp(((event.clientY - r.top) / r.height) * rows, rows) * columns + c);
  });
  surfaceOf(classCanvas, () => asked(0), picture);
  for (const part of [queries, keysRow]) {
    surfaceOf(part.element, ({ target }) => {
      const chip = part.chips.findIndex(({ element }) => element.contains(/** @type {Node} */ (target)));
      return chip < 0 ? null : part === queries ? { query: chip } : { key: chip };
    });
  }
  /** @param {Canvas} canvas @param {T.Laid} _ */
  const inMatrix = (canvas, { left, top, w, ht }) => (/** @type {MouseEvent} */ event) => {
    const r = canvas.getBoundingClientRect();
    const [asking, keyed] = data.sizes[model.get("control") ?? model.get("sample")];
    const [row, column] = [Math.floor((event.clientY - r.top - top()) / ht(asking, r)), Math.floor((event.clientX - r.left - left()) / w(keyed, r))];
    return row >= 0 && column >= 0 && row < asking && column < keyed ? { query: row, key: column } : null;
  };
  /** @param {string} what */
  const laid = (what) => () => Number(matrixCanvas.dataset[what]);
  surfaceOf(matrixCanvas, inMatrix(matrixCanvas, { left: laid("left"), top: laid("top"), w: laid("cellWidth"), ht: laid("cellHeight") }));
  for (const { small } of tiles) { // a click chooses the head, as a click anywhere on the tile does
    const at = inMatrix(small, { left: () => 0, top: () => 0, w: (keyed, r) => r.width / keyed, ht: (asking, r) => r.height / asking });
    onPointer(small, signal, (event) => { const place = at(event); if (place) point(place); }, leave);
  }

  /** @type {On} */
  const on = (target, type, handle) => target.addEventListener(type, handle, { signal });
  on(sampleSelect, "change", () => choice.choose({ sample: Number(sampleSelect.value) }));
  on(layerRange, "input", () => choice.choose({ layer: Number(layerRange.value) - 1 }));
  on(scaleSelect, "change", () => choice.choose({ scale: scaleSelect.selectedIndex ? "all" : "row" }));
  on(showSelect, "change", () => choice.choose({ show: SHOWS[showSelect.selectedIndex] }));
  on(controlBox, "change", () => choice.choose({ control: controlBox.checked ? Number(controlSelect.value) : null }));
  on(controlSelect, "change", () => choice.choose({ control: Number(controlSelect.value) }));
  on(matricesBox, "change", () => choice.choose({ matrices: matricesBox.checked }));
  on(predictButton, "click", predict);
  on(revealButton, "click", reveal);
  for (const { head, input } of tiles) on(input, "change", () => choice.choose({ head }));

  // ------------------------------------------------ keys
  /** The patch one step away; [class] sits above the first row. @param {number} from @param {number} down @param {number} right */
  function stepped(from, down, right) {
    if (from < first) return down > 0 ? first : from;
    const [r, c] = [Math.floor((from - first) / columns) + down, ((from - first) % columns) + right];
    if (r < 0 && has_class) return 0;
    return first + Math.min(rows - 1, Math.max(0, r)) * columns + Math.min(columns - 1, Math.max(0, c));
  }
  /** @type {Record<string, number[]>} */
  const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  /** @param {EventTarget} place @param {number[]} _ */
  function arrow(place, [down, right]) {
    const now = choice.now();
    const [query, key] = [token(now.query), tokenOrNone(now.key)];
    const [asking, keyed] = data.sizes[now.sample];
    /** @param {number} at @param {number} step @param {number} size */
    const along = (at, step, size) => Math.min(size - 1, Math.max(0, at + step));
    /** @param {"query" | "key"} side @param {number} one */
    const move = (side, one) => choice.choose({ [side]: name(one) });
    if (place === picture) {
      if (now.phase === "marking") move("key", key === null ? first : stepped(key, down, right));
      else choice.choose({ query: name(stepped(query, down, right)), key: null });
    } else if (place === matrixCanvas ? down : place === queries.element) move("query", along(query, down + right, asking));
    else move("key", key === null ? 0 : along(key, down + right, keyed));
  }
  /** @param {string} pressed @param {EventTarget} place */
  function press(pressed, place) {
    const { layer, head, locked, sample, control, scale, show, phase, key } = choice.now();
    /** @param {number} by */
    const stepLayer = (by) => choice.choose({ layer: Math.min(n_layers - 1, Math.max(0, layer + by)) });
    /** @param {number} by */
    const stepHead = (by) => {
      const next = cycle(head === null ? 0 : head + 1, by, n_heads + 1); // 0: the mean
      choice.choose({ head: next === 0 ? null : next - 1 });
    };
    const lock = () => (phase === "marking" ? key !== null && mark(key) : choice.choose({ locked: !locked }));
    /** @type {Record<string, () => unknown>} */
    const actions = {
      Enter: lock,
      " ": lock,
      "[": () => stepLayer(-1),
      "]": () => stepLayer(1),
      PageUp: () => stepLayer(-1),
      PageDown: () => stepLayer(1),
      h: () => stepHead(1),
      H: () => stepHead(-1),
      0: () => choice.choose({ head: null }),
      i: () => choice.choose({ sample: cycle(sample, 1, n) }),
      I: () => choice.choose({ sample: cycle(sample, -1, n) }),
      s: () => choice.choose({ scale: scale === "row" ? "all" : "row" }),
      p: predict,
      r: reveal,
    };
    for (const one of Object.keys(ARROWS)) actions[one] = () => arrow(place, ARROWS[one]);
    if (isImage) actions.x = () => n > 1 && choice.choose({ control: control === null ? otherImage(sample) : null });
    if (has_class) actions.c = () => (phase === "marking" ? choice.choose({ key: CLASS_TOKEN }) : choice.choose({ query: CLASS_TOKEN, key: null }));
    if (data.hasScores) actions.m = () => phase === "off" && choice.choose({ show: SHOWS[cycle(SHOWS.indexOf(show), 1, 3)] });
    for (let nth = 1; nth <= Math.min(9, n_heads); nth++) actions[nth] = () => choice.choose({ head: nth - 1 });
    actions[pressed]?.();
    return pressed in actions;
  }
  const surfaces = [picture, matrixCanvas, queries.element, keysRow.element];
  guardKeys(root, signal, (event) => {
    if (event.key === "Escape") {
      choice.choose(model.get("phase") === "marking" ? { phase: "off", marks: [], key: null } : { locked: false, key: null });
      return true;
    }
    const place = surfaces.find((one) => one === event.target);
    return place !== undefined && press(event.key, place);
  });

  paint();
  return () => ended.abort();
}

export default { render };
