// @ts-check
/* The front end of headroom.widgets.DigitPad.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-digit-pad              the root of one view; a page may hold many
 *   canvas[data-part=pad]            the page to draw on: takes pointer, focus and keys. With r its
 *                                    getBoundingClientRect(), pixel (x, y), counted from 0, lies around
 *                                    r.left + (x + 0.5) * r.width / 28, r.top + (y + 0.5) * r.height / 28
 *   canvas[data-part=seen]           the 28 × 28 pixels that the model sees
 *   [data-part=pen], [data-part=eraser], [data-part=undo], [data-part=clear]    <button>s
 *   [data-part=example-select]       <select>, value: "" (an empty page) or example from 0
 *   [data-part=centred-box], [data-part=overlay-box]    <input type=checkbox>
 *   [data-part=layer-range]          <input type=range>, value: layer from 1
 *   [data-part=head-select]          <select>, value: "mean" or head from 0
 *   [data-part=mistake-select]       <select>, value: "" or a mistake's name (only where some apply)
 *   [data-part=reading]              what one model reads; the second is that of the model with the mistake. Within it:
 *                                    [data-part=guess], [data-part=doubts] with a [data-digit] each, canvas[data-part=map],
 *                                    [data-part=map-note]
 *   [data-part=status]               what keeps the answer from coming, in a sentence; hidden when nothing does
 *   [data-part=live], [data-part=legend], [data-part=table], [data-part=keys], [data-part=python]    as in every widget
 *   data-example, data-layer, data-head, data-overlay, data-centred, data-mistake, data-strokes, data-points, data-guess
 *   and data-fresh ("true": the answer belongs to what is drawn) on the root: what is shown now, from 0
 */
import {
  capital, choices, colour, css, cycle, decode, guardKeys, h, inkOn, legend, liveLine, needsPython, number,
  paintFrame, pairs, penOf, prepare, repaint, sayHead, tableView, themeColours, uniqueName, write,
} from "./shared.js";
/** @import { Child, On, Canvas, View, DigitPad as T } from "./types" */

const SIDE = 28; // pixels of an image along each side
const FINE = 8; // the ink is kept on a grid so many times finer
const WIDE = SIDE * FINE;
const PEN = 2.8; // width of a stroke in pixels; scaled into its box it is about 2.4, as MNIST's are
const ERASER = 5;
const BOX = 20; // MNIST's digits are scaled to fit into so many pixels, …
const MIDDLE = SIDE / 2; // … and moved by whole pixels until their centre of mass lies in the pixel that starts here
const NEAR = 0.25; // a point nearer than this to the last one adds nothing
const STEP = 1; // pixels that a key moves the pen
const LEAP = 4; // … with Shift
const LATE_MS = 1000; // Python's answer is missed after this long
/** @type {(keyof T.Now)[]} */
const CHOICES = ["example", "layer", "head", "overlay", "centred", "mistake"];

// ---------------------------------------------------------------- ink

/** @param {number} value @param {number} low @param {number} high */
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

/** Lay a straight piece of a stroke on the ink, or take it off, softly at its edge. Overlaps add nothing. @param {Float32Array} ink @param {number[]} _ @param {boolean} erases */
function lay(ink, [x0, y0, x1, y1], erases) {
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
function lastPiece(stroke) {
  const [x, y] = stroke.slice(-2);
  return stroke.length > 3 ? stroke.slice(-4) : [x, y, x, y];
}

/** The ink of a drawing: an example's pixels (bytes; null: none), then strokes. @param {Uint8Array | null} example @param {T.Stroke[]} strokes */
function inkOf(example, strokes) {
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
function place(ink, centred) {
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
function pixelsOf(ink, { left, top, step }) {
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

const GREYS = new Uint32Array(new Uint8ClampedArray([...Array(256).keys()].flatMap((ink) => [255 - ink, 255 - ink, 255 - ink, 255])).buffer);

/** A picture in black on white, `side` pixels wide: `picture((at) => byte)` fills it and answers its canvas. @param {number} side */
function greyPicture(side) {
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

// ---------------------------------------------------------------- one view

/** @param {View<T.Traits>} _ */
function render({ model, el }) {
  const { n_layers, n_heads, side, labels, mistakes } = model.get("_facts");
  const examples = decode(Uint8Array, model.get("_examples"));
  const n = examples.length / (SIDE * SIDE);
  /** @param {number | null} i */
  const exampleAt = (i) => (i === null ? null : examples.subarray(i * SIDE * SIDE, (i + 1) * SIDE * SIDE));
  const unique = uniqueName();
  const ended = new AbortController(); // ends every listener with the view
  const { signal } = ended;

  // The drawing. The model keeps its strokes; the ink is made of them, and the pixels of the ink.
  let { strokes } = model.get("_drawing");
  let ink = inkOf(exampleAt(model.get("example") ?? null), strokes);
  /** @type {T.Placing | null} */
  let placing = null; // nothing is drawn
  /** @type {Uint8Array<ArrayBuffer> | null} */
  let pixels = null;
  /** @type {T.Stroke | null} */
  let stroke = null; // the one being drawn
  /** @type {"pen" | "eraser"} */
  let tool = "pen";
  /** @type {T.Drawing[]} */
  let before = []; // drawings to which undo goes back
  const cursor = { x: SIDE / 2, y: SIDE / 2, shown: false };
  let told = ""; // what the keys did to the pen

  // ------------------------------------------------ words
  /** @param {number} digit */
  const a = (digit) => `${digit === 8 ? "an" : "a"} ${digit}`;
  /** @param {number} i */
  const sayExample = (i) => labels ? `${a(labels[i])} (example ${i + 1})` : `example ${i + 1}`;
  /** @param {number} i */
  const sayPatch = (i) => `patch row ${Math.floor(i / side) + 1}, column ${(i % side) + 1}`;
  /** @param {number[] | Float32Array} values */
  const ranked = (values) => [...values.keys()].sort((i, j) => values[j] - values[i]);
  /** @param {number} p */
  const sure = (p) => (p >= 0.95 ? "sure" : p >= 0.75 ? "fairly sure" : p >= 0.5 ? "unsure" : "guessing");
  /** @param {string | null} name */
  const titleOf = (name) => mistakes.find(([one]) => one === name)?.[2];
  /** @param {T.Reading} _ */
  function sayGuess({ probabilities }) {
    const [first, second] = ranked(probabilities);
    return `${a(first)} (${number(probabilities[first])}), ${sure(probabilities[first])}, then ${a(second)} (${number(probabilities[second])})`;
  }
  /** What one model reads, in a clause. @param {T.Reading | T.Failure} one @param {number} i @param {string | null} mistake */
  const sayModel = (one, i, mistake) => {
    const who = i ? `With the mistake “${titleOf(mistake)}” it` : "The model";
    return one.error !== undefined ? `${who} gives no answer: ${one.error}` : `${who} reads ${sayGuess(one)}.`;
  };
  /** Where one model looks. @param {T.Reading} one @param {T.Now} _ */
  function sayMap(one, { layer, head }) {
    const { patches, own } = mapOf(one, layer, head);
    const best = ranked(patches)[0];
    const rest = own === null ? "" : `; ${number(own)} goes to [class]`;
    return `${capital(one.reader)}, layer ${layer + 1}, ${sayHead(head)}: most weight on ${sayPatch(best)} (${number(patches[best])})${rest}.`;
  }

  // ------------------------------------------------ what Python answered
  /** One model's attention: of each patch, and of [class] itself where there is one. @param {T.Reading} _ @param {number} layer @param {number | null} head */
  function mapOf({ attention }, layer, head) {
    const all = decode(Float32Array, attention);
    const tokens = all.length / (n_layers * n_heads); // a mistake may have left [class] out
    const row = new Float32Array(tokens);
    const heads = head === null ? [...Array(n_heads).keys()] : [head];
    for (const one of heads) for (let token = 0; token < tokens; token++) row[token] += all[(layer * n_heads + one) * tokens + token] / heads.length;
    return tokens > side * side ? { patches: row.subarray(1), own: row[0] } : { patches: row, own: null };
  }
  /** Whether the answer is that of what is drawn and chosen. @param {T.Answer} answer @param {string | null} mistake */
  function isFresh(answer, mistake) {
    const drawn = pixels;
    if (!drawn) return true;
    if (!answer.pixels || (mistake !== null && answer.mistake !== mistake)) return false;
    const read = decode(Uint8Array, answer.pixels);
    return read.every((value, at) => value === drawn[at]);
  }

  // ------------------------------------------------ the parts
  /** @param {string | number} value @param {string} text */
  const option = (value, text) => h("option", { value }, text);
  /** @param {string} text @param {...Child} inputs */
  const field = (text, ...inputs) => h("label", {}, h("span", {}, text), ...inputs);
  /** @param {string} part @param {string} text */
  const box = (part, text) => {
    const input = h("input", { type: "checkbox", "data-part": part });
    return { input, label: h("label", {}, input, h("span", {}, text)) };
  };
  const exampleSelect = h("select", { "data-part": "example-select" }, option("", "an empty page"),
    ...[...Array(n).keys()].map((i) => option(i, sayExample(i))));
  const centred = box("centred-box", "Centre as MNIST does");
  const overlay = box("overlay-box", "Where it looks");
  const layerRange = h("input", { type: "range", "data-part": "layer-range", min: 1, max: n_layers, step: 1, disabled: n_layers === 1 });
  const layerOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const headSelect = h("select", { "data-part": "head-select" }, option("mean", "mean"), ...[...Array(n_heads).keys()].map((i) => option(i, `${i + 1}`)));
  const groups = [...new Set(mistakes.map(([, group]) => group))];
  const mistakeSelect = h("select", { "data-part": "mistake-select" }, option("", "nothing"), ...groups.map((group) =>
    h("optgroup", { label: group }, ...mistakes.filter((one) => one[1] === group).map(([name, , title]) => option(name, title)))));
  const controls = h("div", { class: "headroom-controls" },
    ...(n ? [field("Start from", exampleSelect)] : []), centred.label, overlay.label, field("Layer", layerRange, layerOutput), field("Head", headSelect),
    ...(mistakes.length ? [field("Break it", mistakeSelect)] : []));

  const id = `live-${unique}`;
  const live = liveLine(id);
  const pad = h("canvas", { "data-part": "pad", tabindex: 0, role: "application", "aria-roledescription": "drawing pad", "aria-describedby": id,
    "aria-label": `Page of ${SIDE} by ${SIDE} pixels. Arrow keys move the pen, Space lowers and lifts it, u takes a stroke back.` });
  /** @param {string} part @param {string} text */
  const button = (part, text) => h("button", { type: "button", "data-part": part }, text);
  const [penButton, eraserButton, undoButton, clearButton] = [button("pen", "Pen"), button("eraser", "Eraser"), button("undo", "Undo"), button("clear", "Clear")];
  const tools = h("div", { class: "headroom-controls", role: "group", "aria-label": "Tools" }, penButton, eraserButton, undoButton, clearButton);
  const seen = h("canvas", { "data-part": "seen", role: "img" });
  const seenNote = h("span", { class: "headroom-note" });

  const readings = [0, 1].map((i) => {
    const title = h("div", { class: "headroom-title" });
    const what = h("p", { class: "headroom-note" });
    const big = h("b", { class: "headroom-big", "aria-hidden": "true" });
    const guess = h("span", { "data-part": "guess" });
    const rows = [...Array(10).keys()].map((digit) => {
      const fill = h("span", { class: "headroom-fill" });
      const value = h("span", { class: "headroom-value" });
      return { fill, value, element: h("li", { "data-digit": digit }, h("span", {}, String(digit)), h("span", { class: "headroom-track", "aria-hidden": "true" }, fill), value) };
    });
    const doubts = h("ul", { "data-part": "doubts", "aria-label": "Probability of each digit" }, ...rows.map((row) => row.element));
    const map = h("canvas", { "data-part": "map", role: "img" });
    const mapNote = h("p", { class: "headroom-note", "data-part": "map-note" });
    const mapBox = h("div", { class: "headroom-map" }, map, mapNote);
    const answer = h("div", { class: "headroom-answer" }, h("div", {}, h("div", { class: "headroom-guess" }, big, guess), doubts), mapBox);
    return { title, what, big, guess, rows, answer, map, mapNote, mapBox,
      element: h("div", { "data-part": "reading", role: "group", "aria-label": i ? "The model with the mistake" : "The model" }, title, what, answer) };
  });
  const scaleLegend = legend();
  const status = h("p", { "data-part": "status", role: "status" });
  const table = tableView(fillTable, "Table of probabilities and weights");

  /** @param {string} text */
  const kbd = (text) => h("kbd", {}, text);
  const help = h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Pointer: draw with mouse, pen or finger. With the focus on the page, ", kbd("arrows"), " move the pen by a pixel, with ", kbd("Shift"), ` by ${LEAP}; `,
      kbd("Home"), " ", kbd("Page Up"), " ", kbd("End"), " ", kbd("Page Down"), " move it slantwise. ", kbd("Space"), " lowers and lifts the pen, ", kbd("Esc"), " lifts it, ",
      kbd("e"), " changes between pen and eraser, ", kbd("u"), " takes the last change back, ", kbd("Delete"), " clears the page, ",
      ...(n ? [kbd("i"), " ", kbd("I"), " start from the next and the previous digit, "] : []), kbd("m"), " switches the centring, ", kbd("w"), " where it looks, ",
      kbd("["), " ", kbd("]"), " change the layer, ", kbd("1"), "–", kbd("9"), " pick a head, ", kbd("0"), " the mean, ", kbd("h"), " ", kbd("H"), " the next and the previous head."),
    h("p", {}, "MNIST's digits were scaled to fit into 20 × 20 pixels and moved until their centre of mass was in the middle (LeCun et al. 1998, section III.A). ",
      "With “Centre as MNIST does” your drawing is treated in the same way; a digit that you start from and do not alter is given as it is. ",
      "“Sure” means a probability of 0.95 and more, “fairly sure” of 0.75, “unsure” of 0.5; below that the model is guessing."),
    needsPython("You can draw without it, but Python is what answers: it runs your model. ", h("code", {}, "widget.image"), " and ", h("code", {}, "widget.probabilities"),
      " are what the model saw and said last, ", h("code", {}, "widget.selection"), " is what you have chosen. Python counts layers and heads from 0, this picture from 1."));

  const root = h("div", { class: "headroom-widget headroom-digit-pad", role: "group", "aria-label": "Digit pad" },
    controls,
    h("div", { class: "headroom-body" },
      h("div", { class: "headroom-left" }, pad, tools, h("div", { class: "headroom-seen" }, seen, seenNote)),
      h("div", { class: "headroom-right" }, status, ...readings.map((one) => one.element), scaleLegend.element)),
    live.element, table.element, help);
  el.append(h("div", { class: "headroom-frame" }, root));

  // ------------------------------------------------ drawing
  const schedule = repaint(() => paint(), { model, names: [...CHOICES, "_answer"], canvases: [pad, root], signal });
  const choice = choices(model, CHOICES, { schedule, signal });

  /** Make the pixels from the ink. An example as it came is given as it came. */
  function develop() {
    const example = exampleAt(model.get("example") ?? null);
    placing = place(ink, model.get("centred"));
    if (!placing) pixels = null;
    else if (example && !strokes.length && !stroke) [placing, pixels] = [{ left: 0, top: 0, step: FINE }, example];
    else pixels = pixelsOf(ink, placing);
  }
  let own = false; // whether the change of the drawing is this view's
  /** Put a drawing in the page's place, and tell. @param {T.Drawing} drawing */
  function draw(drawing) {
    [strokes, stroke] = [drawing.strokes, null];
    own = true;
    model.set("example", drawing.example);
    model.set("_drawing", drawing);
    own = false;
    redraw();
    ask();
  }
  function redraw() {
    ink = inkOf(exampleAt(model.get("example") ?? null), strokes);
    develop();
    schedule();
  }
  const drawing = () => ({ example: model.get("example") ?? null, strokes });
  const remember = () => before.push(drawing());
  function undo() {
    finish();
    const last = before.pop();
    if (last) draw(last);
    else if (strokes.length) draw({ ...drawing(), strokes: strokes.slice(0, -1) }); // drawn before this view was opened
  }
  function clear() {
    finish();
    if (!strokes.length && drawing().example === null) return;
    remember();
    draw({ example: null, strokes: [] });
  }
  /** @param {number | null} example */
  function startFrom(example) {
    finish();
    remember();
    draw({ example, strokes: [] });
  }

  /** Begin a stroke, go on with it, end it. The ink is laid piece by piece; the whole is kept when it ends. @param {number} x @param {number} y @param {boolean} erases */
  function begin(x, y, erases) {
    finish();
    remember();
    stroke = [erases ? 1 : 0, x, y];
    grow(stroke);
  }
  /** @param {number} x @param {number} y */
  function extend(x, y) {
    if (!stroke) return;
    const [lastX, lastY] = stroke.slice(-2);
    if (Math.hypot(x - lastX, y - lastY) < NEAR) return;
    stroke.push(x, y);
    grow(stroke);
  }
  /** @param {T.Stroke} one */
  function grow(one) {
    lay(ink, lastPiece(one), one[0] === 1);
    develop();
    schedule();
    ask();
  }
  function finish() {
    if (!stroke) return;
    strokes = [...strokes, stroke];
    stroke = null;
    own = true;
    model.set("_drawing", drawing());
    own = false;
    send();
  }

  // ------------------------------------------------ asking Python
  // One request at a time: while one is under way the drawing goes on, and the newest is asked for when it comes back.
  let asked = 0;
  /** @type {string | null} */
  let waiting = null; // the request that is under way
  let again = false; // whether the drawing has changed since
  let missed = 0; // the timer after which an answer is missed
  let late = false;
  let unsent = false;
  /** Send what has been set, once it is painted: what JupyterLab does when the kernel gets busy would hold up the painting. */
  function send() {
    if (!unsent) requestAnimationFrame(() => setTimeout(() => {
      unsent = false;
      model.save_changes();
    }, 0));
    unsent = true;
  }
  function ask() {
    again = waiting !== null;
    if (!again) {
      waiting = `${unique} ${++asked}`;
      model.set("_request", { id: waiting, pixels: new DataView((pixels ?? new Uint8Array()).slice().buffer) });
    }
    send();
  }
  const heard = () => {
    clearTimeout(missed);
    [missed, late] = [0, false];
    if (model.get("_answer").id !== waiting) return;
    waiting = null;
    if (again) ask();
  };
  const changed = () => { // by Python, or by another view
    if (own) return;
    [strokes, stroke, before] = [model.get("_drawing").strokes, null, []];
    redraw();
  };
  const recentred = () => {
    develop();
    if (!isFresh(model.get("_answer"), model.get("mistake") ?? null)) ask();
  };
  /** @type {[`change:${keyof T.Traits}`, () => void][]} */
  const heeded = [["change:_answer", heard], ["change:_drawing", changed], ["change:example", changed], ["change:centred", recentred]];
  for (const [event, handle] of heeded) {
    model.on(event, handle);
    signal.addEventListener("abort", () => model.off(event, handle));
  }
  signal.addEventListener("abort", () => {
    finish();
    clearTimeout(missed);
    model.save_changes();
  });
  /** Say so when an answer does not come; what is shown until then is the last one. @param {boolean} fresh */
  function watch(fresh) {
    if (fresh) {
      clearTimeout(missed);
      [missed, late] = [0, false];
    } else {
      missed ||= setTimeout(() => {
        late = true;
        schedule();
      }, LATE_MS);
    }
  }

  // ------------------------------------------------ painting a state
  const [page, image] = [greyPicture(WIDE), greyPicture(SIDE)];
  /** @type {T.Shown} */
  let view; // what is shown

  function paint() {
    const now = choice.now();
    const answer = model.get("_answer");
    const fresh = isFresh(answer, now.mistake);
    watch(fresh);
    const models = (pixels && answer.models) || [];
    // A second model that does not answer yet has its place already.
    const shown = now.mistake === null ? models.slice(0, 1) : answer.mistake === now.mistake ? models : [models[0], undefined];
    const drawable = now.overlay ? shown.filter((one) => one?.attention !== undefined) : [];
    view = { now, shown, fresh, drawable, colours: themeColours(root), largest: 0 };
    for (const one of drawable) view.largest = Math.max(view.largest, ...mapOf(one, now.layer, now.head).patches);

    readings[1].element.hidden = now.mistake === null;
    root.setAttribute("data-overlay", String(now.overlay));
    readings.forEach(({ mapBox }, i) => (mapBox.hidden = !drawable.some((one) => one === shown[i])));
    scaleLegend.element.hidden = !drawable.length;
    paintPad();
    const { context, width } = prepare(seen);
    context.drawImage(image((at) => (pixels ? pixels[at] : 0)), 0, 0, width, width);
    for (const one of drawable) paintMap(readings[shown.indexOf(one)].map, one);
    writeTexts();
  }

  function paintPad() {
    const { context, width } = prepare(pad);
    context.imageSmoothingEnabled = true;
    context.drawImage(page((at) => (ink[at] * 255 + 0.5) | 0), 0, 0, width, width);
    const unit = width / SIDE;
    if (!model.get("centred")) { // where MNIST's digits lie
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
  /** Patches in the colours of their weights, under the outline of what the model has read. @param {Canvas} canvas @param {T.Reading} one */
  function paintMap(canvas, one) {
    const { now, largest, colours } = view;
    const { context, width } = prepare(canvas);
    const { patches } = mapOf(one, now.layer, now.head);
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
    const answered = model.get("_answer").pixels;
    const read = answered ? decode(Uint8Array, answered) : [];
    /** @param {number} x @param {number} y */
    const inked = (x, y) => x >= 0 && y >= 0 && x < SIDE && y < SIDE && read[y * SIDE + x] > 127;
    const unit = width / SIDE;
    const outline = new Path2D(); // along the edges of the pixels that are more ink than paper
    for (let y = 0; y <= SIDE; y++) {
      for (let x = 0; x <= SIDE; x++) {
        if (inked(x, y) !== inked(x - 1, y)) { outline.moveTo(x * unit, y * unit); outline.lineTo(x * unit, (y + 1) * unit); }
        if (inked(x, y) !== inked(x, y - 1)) { outline.moveTo(x * unit, y * unit); outline.lineTo((x + 1) * unit, y * unit); }
      }
    }
    context.lineCap = "square";
    for (const [style, thick] of pairs(["#000", 3], ["#fff", 1.4])) {
      context.strokeStyle = style;
      context.lineWidth = thick;
      context.stroke(outline);
    }
    paintFrame(context, cell(ranked(patches)[0]), "k", colours, "K");
    if (w < 36) return;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 4;
    patches.forEach((value, i) => {
      const { x, y } = cell(i);
      const rgb = shade(value);
      context.strokeStyle = css(rgb); // a rim: the outline may pass behind the number
      context.strokeText(number(value), x + w / 2, y + w / 2 + 1);
      context.fillStyle = inkOn(rgb);
      context.fillText(number(value), x + w / 2, y + w / 2 + 1);
    });
  }

  function writeTexts() {
    const { now, shown, fresh, drawable, largest } = view;
    const { example, layer, head, mistake } = now;
    for (const one of CHOICES) root.setAttribute(`data-${one}`, String(now[one] ?? "none"));
    root.setAttribute("data-strokes", String(strokes.length + (stroke ? 1 : 0)));
    root.setAttribute("data-points", String([...strokes, ...(stroke ? [stroke] : [])].reduce((sum, one) => sum + (one.length - 1) / 2, 0)));
    root.setAttribute("data-fresh", String(fresh));
    exampleSelect.value = String(example ?? "");
    centred.input.checked = now.centred;
    overlay.input.checked = now.overlay;
    layerRange.value = String(layer + 1);
    layerRange.setAttribute("aria-valuetext", `layer ${layer + 1} of ${n_layers}`);
    write(layerOutput, `${layer + 1} of ${n_layers}`);
    headSelect.value = String(head ?? "mean");
    mistakeSelect.value = mistake ?? "";
    penButton.setAttribute("aria-pressed", String(tool === "pen"));
    eraserButton.setAttribute("aria-pressed", String(tool === "eraser"));
    undoButton.disabled = !before.length && !strokes.length && !stroke;
    clearButton.disabled = example === null && !strokes.length && !stroke;

    const scale = placing ? FINE / placing.step : 1;
    const plain = !now.centred || (example !== null && !strokes.length && !stroke);
    write(seenNote, !pixels ? `What the model sees: ${SIDE} × ${SIDE} pixels, all paper.` : `What the model sees: ${SIDE} × ${SIDE} pixels` +
      (plain ? ", as drawn." : `, the drawing made ${number(scale)} times as large to fit ${BOX} × ${BOX}, its centre of mass in the middle.`));
    seen.setAttribute("aria-label", seenNote.textContent);

    readings.forEach((one, i) => {
      const answer = shown[i];
      write(one.title, i ? `With the mistake: ${titleOf(mistake)}` : mistake === null ? "What your model reads" : "What your healthy model reads");
      write(one.what, i && mistake !== null ? mistakes.find(([name]) => name === mistake)?.[3] ?? "" : "");
      const values = answer?.probabilities;
      const best = values ? ranked(values)[0] : -1;
      if (!i) root.setAttribute("data-guess", values ? String(best) : "none");
      write(one.big, values ? String(best) : "–");
      write(one.guess, values ? `${capital(sure(values[best]))}: ${number(values[best])}` : answer?.error ?? (pixels ? "No answer yet." : "Nothing is drawn."));
      one.rows.forEach(({ fill, value, element }, digit) => {
        fill.style.transform = `scaleX(${values ? values[digit] : 0})`;
        element.classList.toggle("headroom-best", digit === best);
        write(value, values ? number(values[digit]) : "–");
      });
      one.element.classList.toggle("headroom-old", late && !!values);
      if (!now.overlay || answer?.attention === undefined) return;
      write(one.mapNote, sayMap(answer, now));
      one.map.setAttribute("aria-label", `Attention over ${side} × ${side} patches. ${one.mapNote.textContent}`);
    });
    scaleLegend.set(0, largest, `Weight of a patch, up to the largest that is shown${drawable.length > 1 ? " in either map" : ""}.`);
    const old = shown[0] ? " What stands here was read from an earlier drawing or with another choice." : "";
    write(status, late ? `Python has not answered for a second: it is busy with another cell, or it is not running. Draw on; it will be asked for the newest drawing.${old}` : "");
    status.hidden = !late;
    if (!stroke || cursor.shown) sayAll(); // not while the pointer draws: it would never stop talking
    table.update();
  }
  function sayAll() {
    const { now, shown, drawable } = view;
    const drawn = pixels ? shown.map((one, i) => (one ? sayModel(one, i, now.mistake) : "")).filter(Boolean) : [];
    const where = drawable.map((one) => sayMap(one, now));
    const rest = pixels ? [...drawn, ...where] : [`Nothing is drawn. Draw a digit${n ? ", or start from one of the menu" : ""}.`];
    live.say([told, ...(rest.length ? rest : ["The drawing has not been read yet."])].filter(Boolean).join(" "));
  }

  function fillTable() {
    const { now, shown, drawable } = view;
    /** @param {string} text */
    const column = (text) => h("th", { scope: "col" }, text);
    /** @param {string} text @param {(number | undefined)[]} cells */
    const line = (text, cells) => h("tr", {}, h("th", { scope: "row" }, text), ...cells.map((value) => h("td", {}, value === undefined ? "–" : number(value, 3))));
    const names = ["the model", ...(now.mistake === null ? [] : ["with the mistake"])];
    const probabilities = h("table", {}, h("caption", {}, "Probability of each digit"),
      h("thead", {}, h("tr", {}, column("digit"), ...names.map(column))),
      h("tbody", {}, ...[...Array(10).keys()].map((digit) => line(String(digit), names.map((_, i) => shown[i]?.probabilities?.[digit])))));
    const maps = drawable.map((one) => {
      const { patches, own: itself } = mapOf(one, now.layer, now.head);
      const whose = one === shown[0] ? "the model" : "the model with the mistake";
      return h("table", {}, h("caption", {}, `Weights in ${whose}: ${one.reader}, layer ${now.layer + 1}, ${sayHead(now.head)}`),
        h("thead", {}, h("tr", {}, h("td"), ...Array.from({ length: side }, (_, c) => column(`column ${c + 1}`)))),
        h("tbody", {}, ...(itself === null ? [] : [line("[class]", [itself])]),
          ...Array.from({ length: side }, (_, r) => line(`row ${r + 1}`, [...patches.subarray(r * side, (r + 1) * side)]))));
    });
    const all = document.createDocumentFragment();
    all.append(probabilities, ...maps);
    return all;
  }

  // ------------------------------------------------ pointer
  /** @type {On} */
  const on = (target, type, handle) => target.addEventListener(type, handle, { signal });
  /** @param {PointerEvent} _ */
  const inPixels = ({ clientX, clientY }) => {
    const r = pad.getBoundingClientRect();
    /** @param {number} value */
    const round = (value) => Math.round(clamp(value, 0, SIDE) * 100) / 100;
    return /** @type {[x: number, y: number]} */ ([round(((clientX - r.left) / r.width) * SIDE), round(((clientY - r.top) / r.height) * SIDE)]);
  };
  /** @type {number | null} */
  let pointer = null; // which one is drawing: a second finger does not
  on(pad, "pointerdown", (event) => {
    if (pointer !== null || (event.button > 0 && event.button !== 5)) return; // 5: a pen's own eraser
    event.preventDefault();
    pad.focus({ preventScroll: true });
    pad.setPointerCapture(event.pointerId);
    [pointer, cursor.shown, told] = [event.pointerId, false, ""];
    begin(...inPixels(event), tool === "eraser" || event.button === 5);
  });
  on(pad, "pointermove", (event) => {
    if (event.pointerId !== pointer || !stroke) return;
    const all = event.getCoalescedEvents?.() ?? [];
    for (const one of all.length ? all : [event]) extend(...inPixels(one));
  });
  /** @param {PointerEvent} event */
  const lift = (event) => {
    if (event.pointerId !== pointer) return;
    pointer = null;
    finish();
    schedule();
  };
  on(pad, "pointerup", lift);
  on(pad, "pointercancel", lift);
  on(pad, "lostpointercapture", lift);

  /** @param {"pen" | "eraser"} one */
  const pick = (one) => {
    finish();
    tool = one;
    schedule();
  };
  on(penButton, "click", () => pick("pen"));
  on(eraserButton, "click", () => pick("eraser"));
  on(undoButton, "click", undo);
  on(clearButton, "click", clear);
  on(exampleSelect, "change", () => startFrom(exampleSelect.value === "" ? null : Number(exampleSelect.value)));
  on(centred.input, "change", () => choice.choose({ centred: centred.input.checked }));
  on(overlay.input, "change", () => choice.choose({ overlay: overlay.input.checked }));
  on(layerRange, "input", () => choice.choose({ layer: Number(layerRange.value) - 1 }));
  on(headSelect, "change", () => choice.choose({ head: headSelect.value === "mean" ? null : Number(headSelect.value) }));
  on(mistakeSelect, "change", () => choice.choose({ mistake: mistakeSelect.value || null }));
  on(pad, "blur", () => {
    finish();
    [cursor.shown, told] = [false, ""];
    schedule();
  });

  // ------------------------------------------------ keys
  /** @type {Record<string, number[]>} */
  const MOVES = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0], Home: [-1, -1], PageUp: [1, -1], End: [-1, 1], PageDown: [1, 1] };
  const sayPen = () => (told = `${tool === "pen" ? "Pen" : "Eraser"} ${stroke ? "down" : "up"} at row ${Math.floor(Math.min(cursor.y, SIDE - 1)) + 1}, ` +
    `column ${Math.floor(Math.min(cursor.x, SIDE - 1)) + 1}.`);
  /** @param {number[]} _ @param {number} by */
  function move([right, down], by) {
    cursor.shown = true;
    cursor.x = clamp(cursor.x + right * by, 0, SIDE);
    cursor.y = clamp(cursor.y + down * by, 0, SIDE);
    if (stroke) extend(cursor.x, cursor.y);
    sayPen();
    schedule();
  }
  function lower() {
    cursor.shown = true;
    if (stroke) finish();
    else begin(cursor.x, cursor.y, tool === "eraser");
    sayPen();
    schedule();
  }
  /** @param {KeyboardEvent} _ */
  function press({ key: pressed, shiftKey }) {
    const { example, layer, head, overlay: shows, centred: centres } = choice.now();
    /** @param {number} by */
    const stepLayer = (by) => choice.choose({ layer: clamp(layer + by, 0, n_layers - 1) });
    /** @param {number} by */
    const stepHead = (by) => {
      const next = cycle(head === null ? 0 : head + 1, by, n_heads + 1); // 0: the mean
      choice.choose({ head: next === 0 ? null : next - 1 });
    };
    /** @param {number} by */
    const stepExample = (by) => startFrom(example === null ? (by > 0 ? 0 : n - 1) : cycle(example, by, n));
    /** @type {Record<string, () => unknown>} */
    const actions = {
      " ": lower,
      Enter: lower,
      e: () => pick(tool === "pen" ? "eraser" : "pen"),
      u: undo,
      Delete: clear,
      Backspace: clear,
      "[": () => stepLayer(-1),
      "]": () => stepLayer(1),
      h: () => stepHead(1),
      H: () => stepHead(-1),
      0: () => choice.choose({ head: null }),
      m: () => choice.choose({ centred: !centres }),
      w: () => choice.choose({ overlay: !shows }),
    };
    if (n) Object.assign(actions, { i: () => stepExample(1), I: () => stepExample(-1) });
    for (let digit = 1; digit <= Math.min(9, n_heads); digit++) actions[digit] = () => choice.choose({ head: digit - 1 });
    if (pressed in MOVES) move(MOVES[pressed], shiftKey ? LEAP : STEP);
    else if (pressed in actions) {
      told = "";
      actions[pressed]();
    }
    return pressed in MOVES || pressed in actions;
  }
  guardKeys(root, signal, (event) => {
    if (event.key === "Escape") {
      finish();
      told = "";
      schedule();
      return true;
    }
    return event.target === pad && press(event);
  });

  develop();
  paint();
  return () => ended.abort();
}

export default { render };
