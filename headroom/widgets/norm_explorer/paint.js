// @ts-check
/* Pictures: tensors. */
import { penOf, picture, prepare } from "../kernel/canvas.js";
import { inkOn } from "../kernel/colours.js";
import { tellGrid } from "../kernel/matrix.js";
import { clamp } from "../kernel/numbers.js";
import { reachOf } from "./data.js";
import { amount } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { Canvas, Colours, Pen, Point, NormExplorer as T } from "../types" */

const LARGEST = 360; // height of a large picture of the tensor, in pixels

// Matplotlib's PuOr, the course's map for signed numbers: from minus (orange brown) over white to plus (purple).
export const SIGNED = "7f3b08 b35806 e08214 fdb863 fee0b6 f7f7f7 d8daeb b2abd2 8073ac 542788 2d004b".split(" ")
  .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

/** The colour of a fraction −1…1. @param {number} fraction */
function signed(fraction) {
  const place = (Math.min(1, Math.max(-1, fraction)) + 1) * ((SIGNED.length - 1) / 2);
  const below = Math.min(SIGNED.length - 2, Math.floor(place));
  return SIGNED[below].map((from, i) => Math.round(from + (place - below) * (SIGNED[below + 1][i] - from)));
}

// The same for whole tensors: one 32-bit pixel for each of 1024 fractions.
const PIXELS_SIGNED = new Uint32Array(1024).map((_, i) => new Uint32Array(new Uint8ClampedArray([...signed(i / 511.5 - 1), 255]).buffer)[0]);

/** @type {Map<string, number>} */
const widths = new Map(); // of numbers: the browser takes long to measure one
const MEASURED = 5000;

/** How wide a number is, in pixels. @param {Pen} context always with the same font @param {string} text */
function widthOf(context, text) {
  if (widths.size > MEASURED) widths.clear();
  let width = widths.get(text);
  if (width === undefined) widths.set(text, width = context.measureText(text).width);
  return width;
}

/** @param {Canvas} canvas @param {Data} data @param {boolean} large @returns {T.Grid} */
function layout(canvas, { samples, tokens, features, words }, large) {
  const { clientWidth } = canvas;
  const context = penOf(canvas);
  context.font = "12px system-ui, sans-serif";
  const widest = large && words ? Math.max(...words.flat().map((one) => context.measureText(one).width)) : 8;
  const left = large ? Math.min(74, widest + 10) : 2;
  const [head, gap] = large ? [34, 20] : [2, 5]; // above all; between two samples
  const w = Math.min(large ? 66 : 34, (clientWidth - left - 4) / features);
  const tall = (large ? LARGEST : 130) - head - (samples - 1) * gap;
  const ht = clamp(tall / (samples * tokens), 3, large ? 26 : 13);
  return { left, top: head, cellWidth: w, cellHeight: ht, sampleHeight: tokens * ht + gap, height: head + samples * (tokens * ht + gap) - gap + 4 };
}

/** A frame that is seen on any colour: a white rim, a black line. @param {Pen} context @param {number} x @param {number} y @param {number} w @param {number} height @param {boolean} dashed */
function paintFrame(context, x, y, w, height, dashed) {
  if (w < 12 || height < 12) [x, y, w, height] = [x - 2, y - 2, w + 4, height + 4]; // around it: it would cover a small cell
  context.lineJoin = "miter";
  context.setLineDash([]);
  context.strokeStyle = "#fff";
  context.lineWidth = dashed ? 3.5 : 5;
  context.strokeRect(x, y, w, height);
  context.strokeStyle = "#000";
  context.lineWidth = dashed ? 1.75 : 3;
  if (dashed) context.setLineDash([4, 3]);
  context.strokeRect(x, y, w, height);
  context.setLineDash([]);
}

/** Signs in the upper right corners of cells, all of one kind at once: "up" and "down" are triangles, else crosses. @param {Pen} context @param {Point[]} corners @param {number} side @param {T.Sign} kind */
function paintSigns(context, corners, side, kind) {
  context.beginPath();
  for (const [r, t] of corners) {
    const [l, b] = [r - side, t + side];
    if (kind === "cross") {
      context.moveTo(l, t); context.lineTo(r, b);
      context.moveTo(r, t); context.lineTo(l, b);
      continue;
    }
    const [point, base] = kind === "up" ? [t, b] : [b, t];
    context.moveTo((l + r) / 2, point);
    context.lineTo(r, base);
    context.lineTo(l, base);
    context.closePath();
  }
  context.strokeStyle = "#fff";
  context.lineWidth = kind === "cross" ? 4 : 2.5;
  context.stroke();
  context.strokeStyle = context.fillStyle = "#000";
  context.lineWidth = 1.8;
  if (kind === "cross") context.stroke();
  else context.fill();
}

/** A tensor's numbers as colours, with what is framed and marked.
 * @param {Canvas} canvas @param {Data} data @param {Float64Array} values @param {T.Painting} _ */
export function paintTensor(canvas, data, values, { view, colours, norm, then, crossed, large = false }) {
  const { samples, tokens, features } = data;
  const grid = layout(canvas, data, large);
  const { left, top, cellWidth: w, cellHeight: ht, sampleHeight } = grid;
  canvas.style.height = `${Math.ceil(grid.height)}px`;
  tellGrid(canvas, grid);
  const { context } = prepare(canvas);
  const reach = reachOf(values) || 1;
  const coloured = picture(samples * tokens, features, (pixels) => {
    values.forEach((value, one) => (pixels[one] = PIXELS_SIGNED[Math.round((value / reach + 1) * 511.5)]));
  }, canvas);
  for (let sample = 0; sample < samples; sample++) {
    context.drawImage(coloured, 0, sample * tokens, features, tokens, left, top + sample * sampleHeight, features * w, tokens * ht);
  }
  /** @param {number} one */
  const cell = (one) => {
    const { sample, token, feature } = data.place(one);
    return /** @type {Point} */ ([left + feature * w, top + sample * sampleHeight + token * ht]);
  };
  if (w >= 5 && ht >= 5) paintGrid(context, data, grid);
  if (large && w >= 30 && ht >= 13) paintNumbers(context, values, cell, w, ht, reach);
  if (large) paintLabels(context, data, view, colours, grid);
  // The frames of the group: a token's row, or a feature's column in every sample.
  const { sample, token, feature } = view.place;
  if (norm === "BatchNorm") for (let s = 0; s < samples; s++) paintFrame(context, left + feature * w, top + s * sampleHeight, w, tokens * ht, true);
  else if (norm !== "none") paintFrame(context, left, top + sample * sampleHeight + token * ht, features * w, ht, true);
  paintFrame(context, ...cell(view.one), w, ht, false);
  const side = clamp(Math.min(w, ht) / 3, 2.5, 8);
  /** @param {number} one */
  const corner = (one) => /** @type {Point} */ ([cell(one)[0] + w - Math.min(3, w / 6), cell(one)[1] + Math.min(3, ht / 6)]);
  /** @param {T.Sign} kind @param {number[]} which */
  const signs = (kind, which) => paintSigns(context, which.map(corner), side, kind);
  if (crossed) return signs("cross", crossed);
  if (!then) return;
  const marks = data.moved(values, then);
  signs("up", marks.filter((one) => values[one] > then[one]));
  signs("down", marks.filter((one) => values[one] < then[one]));
}

/** @param {Pen} context @param {Data} data @param {T.Grid} _ */
function paintGrid(context, { samples, tokens, features }, { left, top, cellWidth: w, cellHeight: ht, sampleHeight }) {
  context.strokeStyle = "rgb(0 0 0 / 0.25)";
  context.lineWidth = 1;
  context.beginPath();
  for (let sample = 0; sample < samples; sample++) {
    const y = top + sample * sampleHeight;
    for (let token = 0; token <= tokens; token++) {
      context.moveTo(left, y + token * ht);
      context.lineTo(left + features * w, y + token * ht);
    }
    for (let feature = 0; feature <= features; feature++) {
      context.moveTo(left + feature * w, y);
      context.lineTo(left + feature * w, y + tokens * ht);
    }
  }
  context.stroke();
}

/** @param {Pen} context @param {Float64Array} values @param {(one: number) => Point} cell @param {number} w @param {number} ht @param {number} reach */
function paintNumbers(context, values, cell, w, ht, reach) {
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.font = "12px system-ui, sans-serif";
  const room = w - (w >= 50 ? 20 : 4); // the sign in the corner stays clear of the number
  values.forEach((value, one) => {
    const [x, y] = cell(one);
    let text = amount(value);
    if (widthOf(context, text) > room) text = amount(value, 1);
    if (widthOf(context, text) > w - 4 && Math.abs(value) >= 10) text = amount(value, 0);
    context.fillStyle = inkOn(signed(value / reach));
    context.fillText(text, x + w / 2, y + ht / 2 + 0.5);
  });
}

/** @param {Pen} context @param {Data} data @param {T.Look} _ @param {Colours} colours @param {T.Grid} grid */
function paintLabels(context, { samples, tokens, features, words }, { place }, colours, { left, top, cellWidth: w, cellHeight: ht, sampleHeight }) {
  context.fillStyle = colours.text;
  context.textBaseline = "alphabetic";
  /** @param {boolean} yes */
  const bold = (yes) => (context.font = `${yes ? "bold " : ""}12px system-ui, sans-serif`);
  for (let sample = 0; sample < samples; sample++) {
    const y = top + sample * sampleHeight;
    bold(sample === place.sample);
    context.textAlign = "left";
    context.fillText(`sample ${sample + 1}`, 2, y - (sample ? 5 : 20));
    if (ht < 11) continue;
    context.textAlign = "right";
    for (let token = 0; token < tokens; token++) {
      bold(sample === place.sample && token === place.token);
      const name = words ? words[sample][token] : String(token + 1);
      context.fillText(name.length > 10 ? `${name.slice(0, 9)}…` : name, left - 6, y + (token + 0.5) * ht + 4);
    }
  }
  context.textAlign = "center";
  const every = w >= 16 ? 1 : w >= 8 ? 4 : 8; // not every column has room for its number
  for (let feature = 0; feature < features; feature++) {
    const chosen = feature === place.feature;
    if (!chosen && (feature + 1) % every && feature) continue;
    if (!chosen && every > 1 && Math.abs(feature - place.feature) < 16 / w) continue;
    bold(chosen);
    context.fillText(String(feature + 1), left + (feature + 0.5) * w, top - 6);
  }
  bold(false);
  context.textAlign = "right";
  context.fillText("features", left + features * w, top - 20);
}
