// @ts-check
/* The front end of headroom.widgets.NormExplorer.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-norm-explorer          the root of one view; a page may hold many
 *   canvas[data-part=tensor]         x; takes the focus and the keys, its numbers can be dragged
 *   canvas[data-part=output]         what the chosen norm makes of it
 *   canvas[data-part=theirs]         what the reader's own module made of the x it started from (only with a module)
 *                                    data-left, -top, -cell-width, -cell-height, -sample-height on each: token t of
 *                                    sample s lies at top + s * sampleHeight + t * cellHeight
 *   [data-part=norm]                 <input type=radio>, value: "none", "LayerNorm", "RMSNorm", "BatchNorm"; its label
 *                                    holds a canvas[data-part=small] and says how many outputs have changed
 *   [data-part=value-input]          <input type=number>: the chosen number
 *   [data-part=eps-range]            <input type=range>, value: log10 of ε
 *   [data-part=affine-box]           <input type=checkbox> (only with γ or β)
 *   [data-part=times-ten], [data-part=tenth], [data-part=plus-one], [data-part=minus-one], [data-part=reset]   <button>s
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=calculation]          mean, variance and ε of the chosen number, in numbers
 *   [data-part=compared]             how the reader's own module differs
 *   canvas[data-part=before], canvas[data-part=after]   histograms; [data-part=table], [data-part=keys] (<details>)
 *   data-norm, data-sample, data-token, data-feature, data-locked, data-eps, data-affine on the root: what is shown now
 */
import {
  capital, choices, css, decode, guardKeys, h, inkOn, legend, liveLine, needsPython, number, onPointer, penOf,
  prepare, repaint, tableView, themeColours, uniqueName,
} from "./shared.js";
/** @import { Canvas, Child, Colours, Legend, Model, On, Pen, Point, View, NormExplorer as T } from "./types" */

/** @type {T.Norm[]} */
const NORMS = ["none", "LayerNorm", "RMSNorm", "BatchNorm"];
/** @type {(keyof T.Now)[]} */
const CHOICES = ["norm", "sample", "token", "feature", "locked", "eps", "affine"];
const MOVED = 0.001; // by how much an output must move to be marked
const SAME = 1e-5; // relative to outputs of size 1: float32 computes no better
const ROUNDING = 1e-14; // what is left of a mean that is 0
const MOST = 1e6; // Python's MAX_SIZE
const DRAG_PIXELS = 5; // a step of the number for so many pixels
const LARGEST = 360; // height of a large picture of the tensor, in pixels

// Matplotlib's PuOr, the course's map for signed numbers: from minus (orange brown) over white to plus (purple).
const SIGNED = "7f3b08 b35806 e08214 fdb863 fee0b6 f7f7f7 d8daeb b2abd2 8073ac 542788 2d004b".split(" ")
  .map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

/** The colour of a fraction −1…1. @param {number} fraction */
function signed(fraction) {
  const place = (Math.min(1, Math.max(-1, fraction)) + 1) * ((SIGNED.length - 1) / 2);
  const below = Math.min(SIGNED.length - 2, Math.floor(place));
  return SIGNED[below].map((from, i) => Math.round(from + (place - below) * (SIGNED[below + 1][i] - from)));
}

// The same for whole tensors: one 32-bit pixel for each of 1024 fractions.
const PIXELS_SIGNED = new Uint32Array(1024).map((_, i) => new Uint32Array(new Uint8ClampedArray([...signed(i / 511.5 - 1), 255]).buffer)[0]);

/** A number of any size in few characters. @param {number} value @param {number} [digits] */
function amount(value, digits = 2) {
  const size = Math.abs(value) < ROUNDING ? 0 : Math.abs(value);
  if (size > 0 && (size < 0.5 * 10 ** -digits || size >= 1e4)) return value.toExponential(1).replace("e+", "e").replaceAll("-", "−");
  return number(size && value, size >= 100 ? Math.min(digits, 1) : digits);
}

// ---------------------------------------------------------------- the numbers

/** What one widget was given, and the arithmetic on it. Numbers count from 0, as they lie in memory. @param {Model<T.Traits>} model */
function readData(model) {
  const { shape, words, gamma, beta, module } = model.get("_facts");
  const [samples, tokens, features] = shape;
  const size = samples * tokens * features;
  const theirs = decode(Float64Array, model.get("_theirs"));

  /** Which group a number belongs to, and how many groups there are. @param {T.Norm} norm @param {number} one */
  const groupOf = (norm, one) => (norm === "none" ? one : norm === "BatchNorm" ? one % features : Math.floor(one / features));
  /** @param {T.Norm} norm @param {number} one */
  function members(norm, one) {
    if (norm === "none") return [one];
    const group = groupOf(norm, one);
    if (norm === "BatchNorm") return Array.from({ length: samples * tokens }, (_, i) => i * features + group);
    return Array.from({ length: features }, (_, i) => group * features + i);
  }

  /** Mean and variance of some numbers; RMSNorm takes no mean off, so that its variance is the mean square. @param {T.Norm} norm @param {Float64Array} x @param {number[]} group */
  function statistics(norm, x, group) {
    let mean = 0, variance = 0;
    if (norm !== "RMSNorm") for (const one of group) mean += x[one] / group.length;
    for (const one of group) variance += (x[one] - mean) ** 2 / group.length;
    return { mean, variance };
  }

  /** What a norm makes of x: { out, roots }, a number each; `roots` is what it was divided by. @param {T.Norm} norm @param {Float64Array} x @param {number} eps @param {boolean} affine */
  function normalise(norm, x, eps, affine) {
    const out = Float64Array.from(x);
    const roots = new Float64Array(size).fill(1);
    if (norm === "none") return { out, roots };
    const n = norm === "BatchNorm" ? features : samples * tokens;
    for (let i = 0; i < n; i++) {
      const group = members(norm, norm === "BatchNorm" ? i : i * features);
      const { mean, variance } = statistics(norm, x, group);
      const root = Math.sqrt(variance + eps);
      for (const one of group) {
        const feature = one % features;
        roots[one] = root;
        out[one] = (x[one] - mean) / root;
        if (affine && gamma) out[one] *= gamma[feature];
        if (affine && beta && norm !== "RMSNorm") out[one] += beta[feature];
      }
    }
    return { out, roots };
  }

  return {
    samples, tokens, features, size, words, gamma, beta, module, theirs, members, statistics, normalise,
    hasAffine: Boolean(gamma || beta),
    start: decode(Float64Array, model.get("_start")),
    /** @param {T.Place} _ */
    at: ({ sample, token, feature }) => (sample * tokens + token) * features + feature,
    /** @param {number} one */
    place: (one) => ({ sample: Math.floor(one / (tokens * features)), token: Math.floor(one / features) % tokens, feature: one % features }),
  };
}

// ---------------------------------------------------------------- one view

/** @param {View<T.Traits>} _ */
function render({ model, el }) {
  const data = readData(model);
  const { samples, tokens, features, size, start, theirs, module: told } = data;
  const unique = uniqueName();
  const ended = new AbortController(); // ends every listener with the view
  const { signal } = ended;
  const all = [...Array(size).keys()];
  /** @type {Float64Array<ArrayBuffer> | null} */
  let draft = null; // x while it is dragged or typed: Python gets it when that ends
  const numbers = () => draft ?? decode(Float64Array, model.get("x"));

  // ------------------------------------------------ words
  /** @param {number} n @param {string} one @param {string} [many] */
  const count = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;
  /** @param {T.Place} _ */
  const word = ({ sample, token }) => (data.words ? ` “${data.words[sample][token]}”` : "");
  /** @param {T.Place} place */
  const sayToken = (place) => `sample ${place.sample + 1}, token ${place.token + 1}${word(place)}`;
  /** @param {T.Place} place */
  const sayPlace = (place) => `${sayToken(place)}, feature ${place.feature + 1}`;
  /** @param {T.Place} _ */
  const inPython = ({ sample, token, feature }) => `[${sample}, ${token}, ${feature}]`;
  const several = samples * tokens;

  /** @param {T.Norm} norm @param {T.Place} place @param {T.Statistics} _ */
  function sayGroup(norm, place, { mean, variance }) {
    if (norm === "none") return "No norm: every number stays what it is.";
    if (norm === "BatchNorm") {
      const where = samples === 1 ? `all ${count(tokens, "token")}` : `all ${count(tokens, "token")} of all ${count(samples, "sample")}`;
      return `It shares mean ${amount(mean)} and variance ${amount(variance)} with feature ${place.feature + 1} of ${where}: ${count(several, "number")}.`;
    }
    const whose = `the ${count(features, "feature")} of its own token`;
    if (norm === "RMSNorm") return `It shares the mean square ${amount(variance)} with ${whose}.`;
    return `It shares mean ${amount(mean)} and variance ${amount(variance)} with ${whose}.`;
  }
  /** Where outputs have changed: { n, text, short }. @param {number[]} changed */
  function sayChanged(changed) {
    const n = changed.length;
    if (!n) return { n, text: `no output changes by ${MOVED} or more`, short: "none changes" };
    const places = changed.map(data.place);
    const inTokens = new Set(places.map(({ sample, token }) => sample * tokens + token)).size;
    const inSamples = new Set(places.map(({ sample }) => sample)).size;
    const where = inTokens === 1 ? `all in ${sayToken(places[0])}`
      : `in ${inTokens} tokens of ${inSamples === 1 ? `sample ${places[0].sample + 1}` : `${inSamples} samples`}`;
    return { n, text: `${n} of ${count(size, "output")} ${n === 1 ? "changes" : "change"}, ${where}`, short: `${n} of ${size} change, ${where}` };
  }
  /** @param {T.Look} _ */
  function sayAll({ now, place, value, result, stats, edited, changed }) {
    const becomes = now.norm === "none" ? amount(value) : `${amount(value)} becomes ${amount(result)}`;
    const parts = [`${now.norm === "none" ? "No norm" : now.norm}. ${capital(sayPlace(place))}: ${becomes}.`];
    if (now.norm !== "none") parts.push(sayGroup(now.norm, place, stats));
    if (edited.length) parts.push(`Since the start, ${count(edited.length, "number")} of x changed, and ${sayChanged(changed[now.norm]).text}.`);
    if (now.locked) parts.push("Locked: the arrow keys change it.");
    return parts.join(" ");
  }
  /** Mean, variance, ε and the chosen number, calculated. @param {T.Look} _ */
  function sayCalculation({ now, place, value, result, stats: { mean, variance } }) {
    const { norm, eps, affine } = now;
    if (norm === "none") return [sayGroup(norm, place, { mean, variance })];
    const [scale, shift] = [affine && data.gamma?.[place.feature], affine && norm !== "RMSNorm" && data.beta?.[place.feature]];
    const top = norm === "RMSNorm" ? amount(value) : `(${amount(value)} − ${mean < 0 ? `(${amount(mean)})` : amount(mean)})`;
    const more = (typeof scale === "number" ? ` · γ ${amount(scale)}` : "") + (typeof shift === "number" ? ` + β ${shift < 0 ? `(${amount(shift)})` : amount(shift)}` : "");
    const what = norm === "RMSNorm" ? "mean square" : "variance";
    const sum = `${top} / √(${amount(variance)} + ${sayEps(eps)})${more} = ${amount(result, 3)}`;
    const left = variance / (variance + eps);
    const role = variance === 0 ? `The ${what} is 0: without ε this would be 0 / 0.`
      : left > 0.995 ? `ε is ${amount((100 * eps) / variance)} % of the ${what}: too little to matter.`
      : `ε is ${amount((100 * eps) / variance, eps > variance ? 0 : 1)} % of the ${what}, and so the ${what} becomes ${amount(left)}, not 1` +
        `${more ? ", before γ and β" : ""}: numbers as small as these stay small.`;
    return [sum, role];
  }
  /** @param {number} eps */
  const sayEps = (eps) => {
    const power = Math.log10(eps);
    if (Math.abs(power - Math.round(power)) > 1e-9) return eps < 0.01 || eps >= 100 ? eps.toExponential(1).replace("-", "−").replace("e+", "e") : amount(eps);
    return power < -3 ? `1e−${Math.round(-power)}` : String(Number(eps.toPrecision(3)));
  };

  // ------------------------------------------------ the parts
  /** @param {string} text @param {...Child} inputs */
  const field = (text, ...inputs) => h("label", {}, h("span", {}, text), ...inputs);
  /** @param {string} part @param {string} text @param {string} name */
  const button = (part, text, name) => h("button", { type: "button", "data-part": part, "aria-label": name }, text);
  const valueInput = h("input", { type: "number", "data-part": "value-input", min: -MOST, max: MOST, step: "any" });
  const epsRange = h("input", { type: "range", "data-part": "eps-range", min: -12, max: 2, step: 0.5 });
  const epsOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const affineBox = h("input", { type: "checkbox", "data-part": "affine-box" });
  /** @type {Record<string, [HTMLButtonElement, (value: number, one: number) => number]>} */
  const buttons = {
    "times-ten": [button("times-ten", "× 10", "Multiply all of x by 10"), (value) => value * 10],
    tenth: [button("tenth", "÷ 10", "Divide all of x by 10"), (value) => value / 10],
    "plus-one": [button("plus-one", "+ 1", "Add 1 to all of x"), (value) => value + 1],
    "minus-one": [button("minus-one", "− 1", "Subtract 1 from all of x"), (value) => value - 1],
    reset: [button("reset", "Back to the start", "Set x back to what it started from"), (_, one) => start[one]],
  };
  const onlyButtons = Object.values(buttons).map(([element]) => element);
  const controls = h("div", { class: "headroom-controls" },
    field("Chosen number", valueInput),
    field("ε (log. slider)", epsRange, epsOutput),
    ...(data.hasAffine ? [h("label", {}, affineBox, h("span", {}, "γ and β"))] : []),
    h("span", { class: "headroom-pair" }, h("span", {}, "All of x"), ...onlyButtons));

  const id = `live-${unique}`;
  const live = liveLine(id);
  /** @param {string} part */
  const picture = (part) => h("canvas", { "data-part": part, role: "img" });
  const tensor = h("canvas", { "data-part": "tensor", tabindex: 0, role: "application", "aria-roledescription": "tensor of numbers", "aria-describedby": id });
  const output = picture("output");
  const [before, after] = [picture("before"), picture("after")];
  /** @param {...Child} parts */
  function panel(...parts) {
    const title = h("div", { class: "headroom-title" });
    const bar = legend();
    const ramp = /** @type {HTMLElement} */ (bar.element.querySelector(".headroom-ramp"));
    ramp.style.background = `linear-gradient(to right, ${SIGNED.map(css).join(", ")})`;
    return { title, bar, element: h("div", { class: "headroom-panel" }, title, parts[0], bar.element, ...parts.slice(1)) };
  }
  const leftPanel = panel(tensor, before);
  const rightPanel = panel(output, after);
  const calculation = h("p", { "data-part": "calculation" });
  const [sum, role] = [h("span", { class: "headroom-sum" }), h("span")];
  calculation.append(sum, " ", role);

  const tiles = NORMS.map((norm) => {
    const input = h("input", { type: "radio", "data-part": "norm", name: `norm-${unique}`, value: norm });
    const small = h("canvas", { "aria-hidden": "true", "data-part": "small" });
    const note = h("span", { class: "headroom-value" });
    return { norm, input, small, note, label: h("label", { class: "headroom-tile" }, small, input, h("span", {}, norm === "none" ? "no norm" : norm), note) };
  });
  const tilesTitle = h("legend");
  const norms = h("fieldset", { "data-part": "norms" }, tilesTitle, h("div", { class: "headroom-tiles" }, ...tiles.map((tile) => tile.label)));

  const own = told.name ? { canvas: picture("theirs"), compared: h("p", { "data-part": "compared" }), title: h("div", { class: "headroom-title" }, `What ${told.name} made of the x it started from`) } : null;

  const table = tableView(() => fillTable(), "Table of x and its norms");
  /** @param {string} text */
  const kbd = (text) => h("kbd", {}, text);
  const help = h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Pointer: a number under it is framed, with all that share its mean and variance. Press on a number of x and drag up or down to change it; a click locks it, a second click lets go. ",
      "With the focus on x, ", kbd("arrows"), " move from number to number. ", kbd("Enter"), " or ", kbd("Space"), " lock the number: now ", kbd("↑"), " ", kbd("↓"), " (or ", kbd("→"), " ", kbd("←"),
      ") change it by a step, with ", kbd("Shift"), " by ten. ", kbd("Esc"), " lets go. ", kbd("+"), " and ", kbd("−"), " change it without locking. ",
      kbd("n"), " goes to the next norm, ", kbd("e"), " and ", kbd("E"), " make ε ten times smaller and larger, ", ...(data.hasAffine ? [kbd("g"), " switches γ and β, "] : []), kbd("r"), " takes x back to the start."),
    h("p", {}, `Signs: ▲ and ▼ mark numbers that are larger and smaller than at the start, by ${MOVED} or more${own ? ", ✗ an output of your module that differs from ours" : ""}. A thick frame is the chosen number, dashed frames its group.`),
    needsPython("Python reads and sets what you see: ", h("code", {}, "widget.x"), ", ", h("code", {}, "widget.output"), " and ", h("code", {}, "widget.selection"),
      `. Python counts from 0, this picture from 1. Nothing else here needs it${own ? "; your module was asked once, before this was drawn" : ""}.`));

  const root = h("div", { class: "headroom-widget headroom-norm-explorer", role: "group", "aria-label": "Norm explorer" },
    controls, h("div", { class: "headroom-body" }, leftPanel.element, rightPanel.element), live.element, calculation, norms,
    ...(own ? [h("div", { class: "headroom-own" }, own.title, own.canvas, own.compared)] : []), table.element, help);
  el.append(h("div", { class: "headroom-frame" }, root));

  // ------------------------------------------------ choosing
  const canvases = [tensor, output, before, after, ...tiles.map((tile) => tile.small), ...(own ? [own.canvas] : [])];
  const schedule = repaint(() => paint(), { model, names: [...CHOICES, "x"], canvases: [...canvases, root], signal });
  const choice = choices(model, [...CHOICES, "x"], { schedule, signal });
  const current = () => data.at(choice.now());

  const typing = () => /** @type {Document | ShadowRoot} */ (root.getRootNode()).activeElement === valueInput;
  /** @param {number} value @param {number} low @param {number} high */
  const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
  /** A step suits the numbers around the chosen one: the power of ten between 3 and 32 % of their spread. @param {Float64Array} x @param {number} chosen */
  function stepOf(x, chosen) {
    const rest = all.filter((one) => one !== chosen);
    const { variance } = rest.length ? data.statistics("LayerNorm", x, rest) : { variance: 0 };
    const spread = Math.sqrt(variance) || Math.abs(x[rest[0] ?? chosen]) || 1;
    return clamp(10 ** Math.floor(Math.log10(spread * 1.0001) - 0.5), 1e-9, 1e4);
  }
  /** Steps land on whole steps: 0.3, never 0.30000000000000004. @param {number} value @param {number} step */
  const stepped = (value, step) => {
    const to = clamp(value, -MOST, MOST);
    return Number((Math.round(to / step) * step).toPrecision(12));
  };
  /** @param {number} one @param {number} value */
  function edit(one, value) {
    draft = Float64Array.from(numbers());
    draft[one] = value;
    schedule();
  }
  function keep(more = {}) {
    if (draft === null) return;
    const x = draft;
    draft = null;
    choice.choose({ x: new DataView(x.buffer), ...more });
  }
  /** @param {number} steps */
  function nudge(steps) {
    const x = numbers();
    const one = current();
    const step = stepOf(x, one);
    edit(one, stepped(x[one] + steps * step, step));
    keep();
  }
  /** @param {(value: number, one: number) => number} action */
  function change(action) {
    const x = Float64Array.from(numbers(), action);
    draft = null;
    if (x.every((value) => Math.abs(value) <= MOST)) choice.choose({ x: new DataView(x.buffer) });
  }
  /** @param {number} power */
  const setEps = (power) => choice.choose({ eps: Number((10 ** clamp(power, -12, 2)).toPrecision(6)) });

  // ------------------------------------------------ painting a state
  /** @type {Partial<Record<T.Norm, { name: string, out: Float64Array, roots: Float64Array }>>} */
  const starting = {}; // what each norm makes of the x it started from, while ε and the rest stay
  /** @param {T.Norm} norm @param {T.Now} _ */
  function atStart(norm, { eps, affine }) {
    const name = `${eps} ${affine}`;
    const known = starting[norm];
    return known?.name === name ? known : (starting[norm] = { name, ...data.normalise(norm, start, eps, affine) });
  }
  /** @param {Float64Array} now @param {Float64Array} then */
  const moved = (now, then) => all.filter((one) => Math.abs(now[one] - then[one]) >= MOVED);
  /** @param {Float64Array} values */
  const reachOf = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

  /** @returns {T.Look} */
  function look() {
    const now = choice.now();
    const x = numbers();
    const one = data.at(now);
    const outs = /** @type {T.Look["outs"]} */ ({});
    const changed = /** @type {T.Look["changed"]} */ ({});
    for (const norm of NORMS) {
      outs[norm] = data.normalise(norm, x, now.eps, now.affine).out;
      changed[norm] = moved(outs[norm], atStart(norm, now).out);
    }
    const group = data.members(now.norm, one);
    return {
      now, x, one, outs, changed, group,
      place: data.place(one), value: x[one], result: outs[now.norm][one],
      edited: all.filter((i) => x[i] !== start[i]),
      stats: data.statistics(now.norm, x, group),
    };
  }
  // Everything is measured and painted before any text changes: a change in between would make the browser lay out anew.
  function paint() {
    const view = look();
    const { now, x, outs } = view;
    const colours = themeColours(root);
    paintTensor(tensor, x, { view, colours, norm: now.norm, then: start, large: true });
    paintTensor(output, outs[now.norm], { view, colours, norm: now.norm, then: atStart(now.norm, now).out, large: true });
    for (const { norm, small } of tiles) paintTensor(small, outs[norm], { view, colours, norm, then: atStart(norm, now).out });
    const difference = own && differing(now);
    if (own && difference) paintTensor(own.canvas, theirs, { view, colours, norm: now.norm, crossed: difference.where, large: true });
    paintHistogram(before, x, "Before", view, colours);
    paintHistogram(after, outs[now.norm], "After", view, colours);
    writeTexts(view, difference);
  }

  /** @param {T.Look} view @param {T.Difference | null} difference */
  function writeTexts(view, difference) {
    const { now, x, one, outs, changed, place, value, edited } = view;
    for (const name of CHOICES) root.setAttribute(`data-${name}`, String(now[name]));
    valueInput.setAttribute("aria-label", `Chosen number: ${sayPlace(place)}`);
    const step = stepOf(x, one);
    valueInput.step = String(step);
    // What is being typed stays as it is typed.
    if (!typing() || Number(valueInput.value) !== value) valueInput.value = String(Number(value.toPrecision(7)));
    epsRange.value = String(Math.log10(now.eps));
    epsRange.setAttribute("aria-valuetext", `ε = ${sayEps(now.eps)}`);
    epsOutput.textContent = sayEps(now.eps);
    affineBox.checked = now.affine;
    buttons["times-ten"][0].disabled = reachOf(x) * 10 > MOST;
    buttons.reset[0].disabled = !edited.length;

    const shape = `${count(samples, "sample")} × ${count(tokens, "token")} × ${count(features, "feature")}`;
    leftPanel.title.textContent = `Before: x, ${shape}`;
    rightPanel.title.textContent = now.norm === "none" ? "After no norm: the same" : `After ${now.norm}`;
    /** @param {Float64Array} values @param {Legend} bar */
    const scale = (values, bar) => {
      const reach = reachOf(values);
      bar.set(-reach, reach, "Purple is above 0, brown below, white 0.");
      bar.element.querySelectorAll(".headroom-ticks span").forEach((tick, i) => (tick.textContent = amount((i - 1) * reach)));
    };
    scale(x, leftPanel.bar);
    scale(outs[now.norm], rightPanel.bar);
    tensor.setAttribute("aria-label", `x: ${shape}. ${now.locked ? "Arrow keys change the number, Escape lets go." : "Arrow keys move, Enter locks a number to change it."}`);
    output.setAttribute("aria-label", `${now.norm === "none" ? "x as it is" : `What ${now.norm} makes of x`}: ${shape}. The table below has the numbers.`);
    tilesTitle.textContent = edited.length ? "The same x after each norm: ▲ and ▼ mark what has changed since the start" : "The same x after each norm: drag a number of x, and see which outputs change";
    for (const { norm, input, note, label } of tiles) {
      const text = edited.length ? sayChanged(changed[norm]).short : norm === "none" ? "as it is" : groups(norm);
      input.checked = norm === now.norm;
      input.setAttribute("aria-label", `${norm === "none" ? "no norm" : norm}: ${text}`);
      label.classList.toggle("headroom-chosen", norm === now.norm);
      note.textContent = text;
    }
    live.say(sayAll(view));
    const [first, second] = sayCalculation(view);
    sum.textContent = first;
    role.textContent = second ?? "";
    if (own && difference) {
      own.compared.textContent = sayCompared(now, difference);
      own.canvas.setAttribute("aria-label", `What your module made of the x it started from: ${shape}. ${sayCompared(now, difference)}`);
    }
    table.update();
  }
  /** @param {T.Norm} norm */
  const groups = (norm) => (norm === "BatchNorm" ? `${count(features, "mean")}: one for each feature` : `${count(several, norm === "RMSNorm" ? "mean square" : "mean")}: one for each token`);

  // ---- the reader's own module
  /** @param {T.Now} _ @param {T.Norm} [of] */
  function differing({ norm, eps, affine }, of = norm) {
    const { out, roots } = data.normalise(of, start, eps, affine);
    const most = reachOf(start);
    const where = all.filter((one) => Math.abs(out[one] - theirs[one]) > SAME * Math.max(1, Math.abs(out[one])) + (1e-6 * most) / roots[one]);
    return { where, out, largest: all.reduce((top, one) => Math.max(top, Math.abs(out[one] - theirs[one])), 0) };
  }
  /** @param {T.Now} now @param {T.Difference} _ */
  function sayCompared(now, { where, out, largest }) {
    const ours = now.norm === "none" ? "x as it is" : `${now.norm} with ε = ${sayEps(now.eps)}`;
    const notes = [
      ...(told.overwrites ? ["It also changes the tensor that it is given, which belongs to the caller."] : []),
      ...(told.running && now.norm === "BatchNorm" ? ["It is in eval mode, where BatchNorm uses the running averages that it kept and not this batch's mean and variance."] : []),
    ];
    if (!where.length) return [`Your module agrees with ${ours} on the x it started from: the largest difference is ${amount(largest)}.`, ...notes].join(" ");
    const place = data.place(where[0]);
    const other = NORMS.find((norm) => norm !== now.norm && !differing(now, norm).where.length);
    if (other) notes.unshift(other === "none" ? "It returns x as it is." : `It agrees with ${other} instead.`);
    return [`Your module differs from ${ours} in ${where.length} of ${count(size, "output")} (✗). The first: ${sayPlace(place)}, in Python ${inPython(place)}: ` +
      `yours ${amount(theirs[where[0]], 4)}, ours ${amount(out[where[0]], 4)}.`, ...notes].join(" ");
  }

  // ---- tensors
  const pixels = document.createElement("canvas"); // one pixel a number, to be drawn large
  /** @param {Canvas} canvas @param {boolean} large */
  function layout(canvas, large) {
    const { clientWidth } = canvas;
    const context = penOf(canvas);
    context.font = "12px system-ui, sans-serif";
    const widest = large && data.words ? Math.max(...data.words.flat().map((one) => context.measureText(one).width)) : 8;
    const left = large ? Math.min(74, widest + 10) : 2;
    const [head, gap] = large ? [34, 20] : [2, 5]; // above all; between two samples
    const w = Math.min(large ? 66 : 34, (clientWidth - left - 4) / features);
    const tall = (large ? LARGEST : 130) - head - (samples - 1) * gap;
    const ht = clamp(tall / (samples * tokens), 3, large ? 26 : 13);
    return { left, top: head, w, ht, sampleHeight: tokens * ht + gap, height: head + samples * (tokens * ht + gap) - gap + 4 };
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
  /** @param {Canvas} canvas @param {Float64Array} values @param {T.Painting} _ */
  function paintTensor(canvas, values, { view, colours, norm, then, crossed, large = false }) {
    const { left, top, w, ht, sampleHeight, height } = layout(canvas, large);
    canvas.style.height = `${Math.ceil(height)}px`;
    for (const [name, length] of Object.entries({ left, top, cellWidth: w, cellHeight: ht, sampleHeight })) canvas.dataset[name] = length.toFixed(3);
    const { context } = prepare(canvas);
    const reach = reachOf(values) || 1;
    [pixels.width, pixels.height] = [features, samples * tokens];
    const small = penOf(pixels);
    const frame = small.createImageData(features, samples * tokens);
    const colour = new Uint32Array(frame.data.buffer);
    for (let one = 0; one < size; one++) colour[one] = PIXELS_SIGNED[Math.round((values[one] / reach + 1) * 511.5)];
    small.putImageData(frame, 0, 0);
    for (let sample = 0; sample < samples; sample++) {
      context.drawImage(pixels, 0, sample * tokens, features, tokens, left, top + sample * sampleHeight, features * w, tokens * ht);
    }
    /** @param {number} one */
    const cell = (one) => {
      const { sample, token, feature } = data.place(one);
      return /** @type {Point} */ ([left + feature * w, top + sample * sampleHeight + token * ht]);
    };
    if (w >= 5 && ht >= 5) paintGrid(context, { left, top, w, ht, sampleHeight });
    if (large && w >= 30 && ht >= 13) paintNumbers(context, values, cell, w, ht, reach);
    if (large) paintLabels(context, view, colours, { left, top, w, ht, sampleHeight });
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
    const marks = moved(values, then);
    signs("up", marks.filter((one) => values[one] > then[one]));
    signs("down", marks.filter((one) => values[one] < then[one]));
  }
  /** @param {Pen} context @param {T.Grid} _ */
  function paintGrid(context, { left, top, w, ht, sampleHeight }) {
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
      if (context.measureText(text).width > room) text = amount(value, 1);
      if (context.measureText(text).width > w - 4 && Math.abs(value) >= 10) text = amount(value, 0);
      context.fillStyle = inkOn(signed(value / reach));
      context.fillText(text, x + w / 2, y + ht / 2 + 0.5);
    });
  }
  /** @param {Pen} context @param {T.Look} _ @param {Colours} colours @param {T.Grid} grid */
  function paintLabels(context, { place }, colours, { left, top, w, ht, sampleHeight }) {
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
        const name = data.words ? data.words[sample][token] : String(token + 1);
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

  // ---- histograms
  /** @param {Canvas} canvas @param {Float64Array} values @param {string} when @param {T.Look} _ @param {Colours} colours */
  function paintHistogram(canvas, values, when, { now, group }, colours) {
    const { context, width, height } = prepare(canvas);
    let [low, high] = [Math.min(...values), Math.max(...values)];
    const pad = (high - low) * 0.04 || Math.abs(high) * 0.5 || 1;
    [low, high] = [low - pad, high + pad];
    const bins = 16;
    /** @param {number[]} which */
    const counted = (which) => {
      const counts = new Array(bins).fill(0);
      for (const one of which) counts[Math.min(bins - 1, Math.floor(((values[one] - low) / (high - low)) * bins))]++;
      return counts;
    };
    const [everything, grouped] = [counted(all), counted(group)];
    const rare = group.length < size / 20; // too few to be seen among all: drawn as if they were all
    const [most, ofGroup] = [Math.max(...everything), Math.max(...(rare ? grouped : everything))];
    const [floor, ceiling, edge] = [height - 18, 16, 6];
    /** @param {number} value */
    const x = (value) => edge + ((value - low) / (high - low)) * (width - 2 * edge);
    const wide = (width - 2 * edge) / bins;
    for (let bin = 0; bin < bins; bin++) {
      /** @param {number} n @param {number} [of] */
      const tall = (n, of = most) => (n / of) * (floor - ceiling);
      const at = edge + bin * wide;
      context.strokeStyle = colours.text;
      context.lineWidth = 1;
      if (everything[bin]) context.strokeRect(at + 1, floor - tall(everything[bin]), wide - 2, tall(everything[bin]));
      context.fillStyle = colours.text;
      if (grouped[bin]) context.fillRect(at + 4, floor - tall(grouped[bin], ofGroup), wide - 8, tall(grouped[bin], ofGroup));
    }
    context.fillStyle = context.strokeStyle = colours.text;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    context.beginPath();
    context.moveTo(edge, floor + 0.5);
    context.lineTo(width - edge, floor + 0.5);
    context.stroke();
    context.textAlign = "left";
    context.fillText(amount(low), edge, floor + 4);
    context.textAlign = "right";
    context.fillText(amount(high), width - edge, floor + 4);
    const { mean, variance } = data.statistics("LayerNorm", values, group);
    context.textAlign = "center";
    if (low < 0 && high > 0 && x(0) > 60 && x(0) < width - 60) context.fillText("0", x(0), floor + 4);
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x(mean), ceiling - 2);
    context.lineTo(x(mean), floor);
    context.stroke();
    context.setLineDash([]);
    const what = group.length === 1 ? "the number" : `the ${group.length} framed`;
    const text = group.length === 1 ? `${when}: ${what}, ${amount(mean)}` : `${when}: ${what}: mean ${amount(mean)}, variance ${amount(variance)}`;
    const more = `${text} (filled${rare ? ", enlarged" : ""}); outlined: all ${size}`;
    context.textAlign = "left";
    context.fillText(context.measureText(more).width < width - 2 * edge ? more : text, edge, 1);
    canvas.setAttribute("aria-label", `Histogram ${when.toLowerCase()} ${now.norm === "none" ? "no norm" : now.norm}: ${size} numbers from ${amount(Math.min(...values))} to ${amount(Math.max(...values))}; ` +
      (group.length === 1 ? "no group." : `the ${group.length} that share a mean lie around ${amount(mean)} with variance ${amount(variance)}.`));
  }

  // ---- the table
  function fillTable() {
    const { x, outs, now, place } = look();
    const few = size <= 200;
    const shown = few ? all : data.members("LayerNorm", data.at(now));
    /** @param {string} text */
    const column = (text) => h("th", { scope: "col" }, text);
    /** @param {number} value */
    const cell = (value) => h("td", {}, number(value, 6));
    return h("table", {},
      h("caption", {}, few ? `x and its norms, ε = ${sayEps(now.eps)}` : `x and its norms, ε = ${sayEps(now.eps)}: ${sayToken(place)} (choose another to see its numbers)`),
      h("thead", {}, h("tr", {}, column("sample, token, feature"), column("x"), ...NORMS.slice(1).map(column))),
      h("tbody", {}, ...shown.map((one) => {
        const { sample, token, feature } = data.place(one);
        return h("tr", {}, h("th", { scope: "row" }, `${sample + 1}, ${token + 1}, ${feature + 1}`), cell(x[one]), ...NORMS.slice(1).map((norm) => cell(outs[norm][one])));
      })));
  }

  // ------------------------------------------------ pointer
  /** @param {Canvas} canvas @param {MouseEvent} event */
  function pointed(canvas, event) {
    const r = canvas.getBoundingClientRect();
    const { left, top, cellWidth, cellHeight, sampleHeight } = Object.fromEntries(Object.entries(canvas.dataset).map(([name, value]) => [name, Number(value)]));
    const [down, right] = [event.clientY - r.top - top, event.clientX - r.left - left];
    const [sample, feature] = [Math.floor(down / sampleHeight), Math.floor(right / cellWidth)];
    const token = Math.floor((down - sample * sampleHeight) / cellHeight);
    const there = down >= 0 && sample < samples && token < tokens && feature >= 0 && feature < features;
    return there ? { sample, token, feature } : null;
  }
  /** @type {{ one: number, place: T.Place, from: number, value: number, step: number, far: boolean, again: boolean } | null} */
  let drag = null;
  for (const canvas of canvases) {
    if (canvas === before || canvas === after) continue;
    onPointer(canvas, signal, (event) => {
      const place = drag || draft ? null : pointed(canvas, event); // what is typed belongs to one number
      if (place) choice.point(place);
    }, () => !drag && choice.point(null));
  }
  /** @type {On} */
  const on = (target, type, handle) => target.addEventListener(type, handle, { signal });
  on(tensor, "pointerdown", (event) => {
    const place = event.button === 0 && event.isPrimary && pointed(tensor, event);
    if (!place) return;
    event.preventDefault(); // no selecting of text
    tensor.focus({ preventScroll: true });
    tensor.setPointerCapture(event.pointerId);
    const one = data.at(place);
    const x = numbers();
    drag = { one, place, from: event.clientY, value: x[one], step: stepOf(x, one), far: false, again: model.get("locked") && one === data.at(choice.now()) };
    choice.choose(place);
  });
  on(tensor, "pointermove", (event) => {
    if (!drag) return;
    const up = drag.from - event.clientY;
    drag.far ||= Math.abs(up) > 3;
    if (drag.far) edit(drag.one, stepped(drag.value + Math.round(up / DRAG_PIXELS) * drag.step, drag.step));
  });
  on(tensor, "pointerup", () => {
    if (!drag) return;
    const { far, again } = drag;
    drag = null;
    if (far) keep({ locked: true }); // what was dragged stays chosen while the pointer goes on
    else choice.choose({ locked: !again });
  });
  const dropDrag = () => {
    if (!drag) return false;
    [drag, draft] = [null, null];
    schedule();
    return true;
  };
  on(tensor, "pointercancel", dropDrag);

  // ------------------------------------------------ controls
  on(valueInput, "input", () => {
    const value = valueInput.valueAsNumber;
    if (Number.isFinite(value)) edit(current(), clamp(value, -MOST, MOST));
  });
  on(valueInput, "change", () => {
    keep();
    schedule();
  });
  on(valueInput, "blur", schedule);
  on(epsRange, "input", () => setEps(epsRange.valueAsNumber));
  on(affineBox, "change", () => choice.choose({ affine: affineBox.checked }));
  for (const [element, action] of Object.values(buttons)) on(element, "click", () => change(action));
  for (const { norm, input } of tiles) on(input, "change", () => choice.choose({ norm }));

  // ------------------------------------------------ keys
  /** @type {Record<string, Point>} */
  const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  /** @param {Point} _ @param {boolean} large */
  function arrow([down, right], large) {
    const { sample, token, feature, locked } = choice.now();
    if (locked) return nudge((right - down) * (large ? 10 : 1));
    const row = clamp(sample * tokens + token + down, 0, samples * tokens - 1); // down from a sample's last token to the next sample
    choice.choose({ sample: Math.floor(row / tokens), token: row % tokens, feature: clamp(feature + right, 0, features - 1) });
  }
  /** @param {KeyboardEvent} _ */
  function press({ key: pressed, shiftKey }) {
    const { norm, eps, affine, locked } = choice.now();
    const lock = () => choice.choose({ locked: !locked });
    /** @type {Record<string, () => unknown>} */
    const actions = {
      Enter: lock,
      " ": lock,
      "+": () => nudge(1),
      "=": () => nudge(1), // the key of + without Shift
      "-": () => nudge(-1),
      "_": () => nudge(-1),
      n: () => choice.choose({ norm: NORMS[(NORMS.indexOf(norm) + 1) % NORMS.length] }),
      N: () => choice.choose({ norm: NORMS[(NORMS.indexOf(norm) + NORMS.length - 1) % NORMS.length] }),
      e: () => setEps(Math.log10(eps) - 1),
      E: () => setEps(Math.log10(eps) + 1),
      r: () => change((_, one) => start[one]),
    };
    for (const name of Object.keys(ARROWS)) actions[name] = () => arrow(ARROWS[name], shiftKey);
    if (data.hasAffine) actions.g = () => choice.choose({ affine: !affine });
    actions[pressed]?.();
    return pressed in actions;
  }
  guardKeys(root, signal, (event) => {
    if (event.key === "Escape") {
      if (!dropDrag()) choice.choose({ locked: false });
      return true;
    }
    return event.target === tensor && press(event);
  });

  paint();
  return () => {
    keep();
    ended.abort();
  };
}

export default { render };
