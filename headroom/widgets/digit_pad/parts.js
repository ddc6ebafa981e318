// @ts-check
/* The elements of one view. */
import { button, checkbox, field, headEntries, keys, layerSlider, menu } from "../kernel/controls.js";
import { h, legend, liveLine, needsPython } from "../kernel/elements.js";
import { SIDE } from "./ink.js";
import { sayExample } from "./words.js";
/** @import { DigitPad as T } from "../types" */

export const LEAP = 4; // pixels that a key moves the pen with Shift

/** @param {T.Facts} facts @param {number} n how many examples there are */
function controlsOf(facts, n) {
  const { n_layers, n_heads, mistakes } = facts;
  const examples = Array.from({ length: n }, (_, value) => ({ value, text: sayExample(facts, value) }));
  /** @type {import("../types").Entry<number | null>[]} */
  const pages = [{ value: null, text: "an empty page" }, ...examples];
  /** @type {import("../types").Entry<string | null>[]} */
  const switches = [{ value: null, text: "nothing" }, ...mistakes.map(([value, group, text]) => ({ value, text, group }))];
  const all = {
    example: menu("example-select", "example", pages),
    centred: checkbox("centred-box", "centred", "Centre as MNIST does"),
    overlay: checkbox("overlay-box", "overlay", "Where it looks"),
    layer: layerSlider(n_layers),
    head: menu("head-select", "head", headEntries(n_heads), { none: "mean" }),
    mistake: menu("mistake-select", "mistake", switches),
  };
  const element = h("div", { class: "headroom-controls" },
    ...(n ? [field("Start from", all.example.input)] : []), all.centred.label, all.overlay.label, all.layer.label, field("Head", all.head.input),
    ...(mistakes.length ? [field("Break it", all.mistake.input)] : []));
  return { ...all, element };
}

/** What one of the two models reads. @param {number} i */
function readingOf(i) {
  const title = h("div", { class: "headroom-title" });
  const what = h("p", { class: "headroom-note" });
  const big = h("b", { class: "headroom-big", "aria-hidden": "true" });
  const guess = h("span", { "data-part": "guess" });
  const rows = Array.from({ length: 10 }, (_, digit) => {
    const fill = h("span", { class: "headroom-fill" });
    const value = h("span", { class: "headroom-value" });
    const track = h("span", { class: "headroom-track", "aria-hidden": "true" }, fill);
    return { fill, value, element: h("li", { "data-digit": digit }, h("span", {}, String(digit)), track, value) };
  });
  const doubts = h("ul", { "data-part": "doubts", "aria-label": "Probability of each digit" }, ...rows.map((row) => row.element));
  const map = h("canvas", { "data-part": "map", role: "img" });
  const mapNote = h("p", { class: "headroom-note", "data-part": "map-note" });
  const mapBox = h("div", { class: "headroom-map" }, map, mapNote);
  const answer = h("div", { class: "headroom-answer" }, h("div", {}, h("div", { class: "headroom-guess" }, big, guess), doubts), mapBox);
  const element = h("div", { "data-part": "reading", role: "group", "aria-label": i ? "The model with the mistake" : "The model" }, title, what, answer);
  return { title, what, big, guess, rows, map, mapNote, mapBox, element };
}

/** @param {number} n how many examples there are @param {boolean} here whether the page itself computes */
function helpOf(n, here) {
  return h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Pointer: draw with mouse, pen or finger. With the focus on the page, ", ...keys("arrows"), " move the pen by a pixel, with ", ...keys("Shift"), ` by ${LEAP}; `,
      ...keys("Home", "Page Up", "End", "Page Down"), " move it slantwise. ", ...keys("Space"), " lowers and lifts the pen, ", ...keys("Esc"), " lifts it, ",
      ...keys("e"), " changes between pen and eraser, ", ...keys("u"), " takes the last change back, ", ...keys("Delete"), " clears the page, ",
      ...(n ? [...keys("i", "I"), " start from the next and the previous digit, "] : []), ...keys("m"), " switches the centring, ", ...keys("w"), " where it looks, ",
      ...keys("[", "]"), " change the layer, ", ...keys("1"), "–", ...keys("9"), " pick a head, ", ...keys("0"), " the mean, ", ...keys("h", "H"), " the next and the previous head."),
    h("p", {}, "MNIST's digits were scaled to fit into 20 × 20 pixels and moved until their centre of mass was in the middle (LeCun et al. 1998, section III.A). ",
      "With “Centre as MNIST does” your drawing is treated in the same way; a digit that you start from and do not alter is given as it is. ",
      "“Sure” means a probability of 0.95 and more, “fairly sure” of 0.75, “unsure” of 0.5; below that the model is guessing."),
    here ? h("p", { "data-part": "python" }, "There is no Python behind this page, and none is needed: what the model reads is computed here, from its weights, which came with the page.")
    : needsPython("You can draw without it, but Python is what answers: it runs your model. ", h("code", {}, "pad.image"), " and ", h("code", {}, "pad.probabilities"),
      " are what the model saw and said last, ", h("code", {}, "widget.selection"), " is what you have chosen. Python counts layers and heads from 0, this picture from 1."));
}

/** All elements of a view. @param {T.Facts} facts @param {number} n how many examples there are
 * @param {string} unique @param {{ element: HTMLElement }} table @param {boolean} here whether the page itself computes */
export function partsOf(facts, n, unique, table, here) {
  const id = `live-${unique}`;
  const controls = controlsOf(facts, n);
  const live = liveLine(id);
  const pad = h("canvas", { "data-part": "pad", tabindex: 0, role: "application", "aria-roledescription": "drawing pad", "aria-describedby": id,
    "aria-label": `Page of ${SIDE} by ${SIDE} pixels. Arrow keys move the pen, Space lowers and lifts it, u takes a stroke back.` });
  const buttons = { pen: button("pen", "Pen"), eraser: button("eraser", "Eraser"), undo: button("undo", "Undo"), clear: button("clear", "Clear") };
  const tools = h("div", { class: "headroom-controls", role: "group", "aria-label": "Tools" }, ...Object.values(buttons));
  const seen = h("canvas", { "data-part": "seen", role: "img" });
  const seenNote = h("span", { class: "headroom-note" });
  const readings = [0, 1].map(readingOf);
  const scale = legend();
  const status = h("p", { "data-part": "status", role: "status" });
  const root = h("div", { class: "headroom-widget headroom-digit-pad", role: "group", "aria-label": "Digit pad" },
    controls.element,
    h("div", { class: "headroom-body" },
      h("div", { class: "headroom-left" }, pad, tools, h("div", { class: "headroom-seen" }, seen, seenNote)),
      h("div", { class: "headroom-right" }, status, ...readings.map((one) => one.element), scale.element)),
    live.element, table.element, helpOf(n, here));
  return { root, controls, live, pad, buttons, seen, seenNote, readings, scale, status };
}
