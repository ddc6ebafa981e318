// @ts-check
/* The elements of one view. */
import { button, checkbox, field, keys } from "../kernel/controls.js";
import { css } from "../kernel/colours.js";
import { h, legend, liveLine, needsPython } from "../kernel/elements.js";
import { MOVED, NORMS } from "./data.js";
import { SIGNED } from "./paint.js";
/** @import { Data } from "./data.js" */
/** @import { Child } from "../types" */

export const MOST = 1e6; // Python's MAX_SIZE

/** @param {string} part */
const picture = (part) => h("canvas", { "data-part": part, role: "img" });

/** @param {Data} data */
function controlsOf(data) {
  const valueInput = h("input", { type: "number", "data-part": "value-input", min: -MOST, max: MOST, step: "any" });
  const epsRange = h("input", { type: "range", "data-part": "eps-range", min: -12, max: 2, step: 0.5 });
  const epsOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const affine = checkbox("affine-box", "affine", "γ and β");
  /** @type {Record<string, [HTMLButtonElement, (value: number, one: number) => number]>} */
  const buttons = {
    "times-ten": [button("times-ten", "× 10", { "aria-label": "Multiply all of x by 10" }), (value) => value * 10],
    tenth: [button("tenth", "÷ 10", { "aria-label": "Divide all of x by 10" }), (value) => value / 10],
    "plus-one": [button("plus-one", "+ 1", { "aria-label": "Add 1 to all of x" }), (value) => value + 1],
    "minus-one": [button("minus-one", "− 1", { "aria-label": "Subtract 1 from all of x" }), (value) => value - 1],
    reset: [button("reset", "Back to the start", { "aria-label": "Set x back to what it started from" }), (_, one) => data.start[one]],
  };
  const element = h("div", { class: "headroom-controls" },
    field("Chosen number", valueInput),
    field("ε (log. slider)", epsRange, epsOutput),
    ...(data.hasAffine ? [affine.label] : []),
    h("span", { class: "headroom-pair" }, h("span", {}, "All of x"), ...Object.values(buttons).map(([one]) => one)));
  return { element, valueInput, epsRange, epsOutput, affine, buttons };
}

/** A picture under its title, with its scale and what else belongs to it. @param {...Child} parts */
function panelOf(...parts) {
  const title = h("div", { class: "headroom-title" });
  const bar = legend();
  const ramp = /** @type {HTMLElement} */ (bar.element.querySelector(".headroom-ramp"));
  ramp.style.background = `linear-gradient(to right, ${SIGNED.map(css).join(", ")})`;
  return { title, bar, element: h("div", { class: "headroom-panel" }, title, parts[0], bar.element, ...parts.slice(1)) };
}

/** The norms side by side. @param {string} unique */
function tilesOf(unique) {
  const tiles = NORMS.map((norm) => {
    const input = h("input", { type: "radio", "data-part": "norm", name: `norm-${unique}`, value: norm });
    const small = h("canvas", { "aria-hidden": "true", "data-part": "small" });
    const note = h("span", { class: "headroom-value" });
    return { norm, input, small, note, label: h("label", { class: "headroom-tile" }, small, input, h("span", {}, norm === "none" ? "no norm" : norm), note) };
  });
  const tilesTitle = h("legend");
  const element = h("fieldset", { "data-part": "norms" }, tilesTitle, h("div", { class: "headroom-tiles" }, ...tiles.map((tile) => tile.label)));
  return { element, tiles, tilesTitle };
}

/** What the reader's own module made of x; null: there is none. @param {Data} data */
function ownOf({ module }) {
  return module.name ? { canvas: picture("theirs"), compared: h("p", { "data-part": "compared" }), title: h("div", { class: "headroom-title" }, `What ${module.name} made of the x it started from`) } : null;
}

/** @param {Data} data */
function helpOf({ hasAffine, module }) {
  return h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Pointer: a number under it is framed, with all that share its mean and variance. Press on a number of x and drag up or down to change it; a click locks it, a second click lets go. ",
      "With the focus on x, ", ...keys("arrows"), " move from number to number. ", ...keys("Enter"), " or ", ...keys("Space"), " lock the number: now ", ...keys("↑"), " ", ...keys("↓"), " (or ", ...keys("→"), " ", ...keys("←"),
      ") change it by a step, with ", ...keys("Shift"), " by ten. ", ...keys("Esc"), " lets go. ", ...keys("+"), " and ", ...keys("−"), " change it without locking. ",
      ...keys("n"), " goes to the next norm, ", ...keys("e"), " and ", ...keys("E"), " make ε ten times smaller and larger, ", ...(hasAffine ? [...keys("g"), " switches γ and β, "] : []), ...keys("r"), " takes x back to the start."),
    h("p", {}, `Signs: ▲ and ▼ mark numbers that are larger and smaller than at the start, by ${MOVED} or more${module.name ? ", ✗ an output of your module that differs from ours" : ""}. A thick frame is the chosen number, dashed frames its group.`),
    needsPython("Python reads and sets what you see: ", h("code", {}, "widget.x"), ", ", h("code", {}, "widget.output"), " and ", h("code", {}, "widget.selection"),
      `. Python counts from 0, this picture from 1. Nothing else here needs it${module.name ? "; your module was asked once, before this was drawn" : ""}.`));
}

/** All elements of a view. @param {Data} data @param {string} unique @param {{ element: HTMLElement }} table */
export function partsOf(data, unique, table) {
  const id = `live-${unique}`;
  const live = liveLine(id);
  const { element: controls, ...inputs } = controlsOf(data);
  const tensor = h("canvas", { "data-part": "tensor", tabindex: 0, role: "application", "aria-roledescription": "tensor of numbers", "aria-describedby": id });
  const output = picture("output");
  const [before, after] = [picture("before"), picture("after")];
  const [leftPanel, rightPanel] = [panelOf(tensor, before), panelOf(output, after)];
  const calculation = h("p", { "data-part": "calculation" });
  const [sum, role] = [h("span", { class: "headroom-sum" }), h("span")];
  calculation.append(sum, " ", role);
  const { element: norms, ...choosing } = tilesOf(unique);
  const own = ownOf(data);
  const root = h("div", { class: "headroom-widget headroom-norm-explorer", role: "group", "aria-label": "Norm explorer" },
    controls, h("div", { class: "headroom-body" }, leftPanel.element, rightPanel.element), live.element, calculation, norms,
    ...(own ? [h("div", { class: "headroom-own" }, own.title, own.canvas, own.compared)] : []), table.element, helpOf(data));
  return { root, live, ...inputs, tensor, output, before, after, leftPanel, rightPanel, sum, role, ...choosing, own };
}
