// @ts-check
/* The elements of one view. */
import { button, field, keys, menu } from "../kernel/controls.js";
import { h, legend, liveLine, needsPython, write } from "../kernel/elements.js";
import { NAMES } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { Child, Entry, PositionExplorer as T } from "../types" */

/** A native slider with its number beside it: `set` says where it stands, within which limits, and what that means. @param {string} part @param {string} text @param {number} [step] */
function slider(part, text, step = 1) {
  const input = h("input", { type: "range", "data-part": `${part}-range`, step });
  const output = h("span", { class: "headroom-value", "aria-hidden": "true" });
  return {
    input,
    label: field(text, input, output),
    /** @param {number} value @param {number} low @param {number} high @param {string} says */
    set(value, low, high, says) {
      [input.min, input.max, input.value] = [low, high, value].map(String);
      input.setAttribute("aria-valuetext", says);
      write(output, says);
    },
  };
}

function controlsOf() {
  const base = slider("base", "Base", 0.05);
  const width = slider("width", "Width d_model", 2);
  const count = slider("count", "Positions");
  const position = slider("position", "Position p");
  const dimension = slider("dimension", "Dimension");
  const shift = slider("shift", "Shift");
  /** @type {Entry<T.Measure>[]} */
  const measures = [{ value: "dot", text: "dot product" }, { value: "cosine", text: "cosine" }];
  const measure = menu("measure-select", "measure", measures);
  const element = h("div", { class: "headroom-controls" },
    base.label, width.label, count.label, position.label, dimension.label, shift.label, field("Similarity", measure.input));
  return { element, base, width, count, position, dimension, shift, measure };
}

/** The encodings side by side. @param {T.Kind[]} kinds @param {string} unique */
function tilesOf(kinds, unique) {
  const tiles = kinds.map((kind) => {
    const input = h("input", { type: "radio", "data-part": "kind", name: `kind-${unique}`, value: kind });
    const [map, line] = [h("canvas", { "aria-hidden": "true", class: "headroom-small-table" }), h("canvas", { "aria-hidden": "true", class: "headroom-small-line" })];
    const value = h("span", { class: "headroom-value" });
    return { kind, input, map, line, value, label: h("label", { class: "headroom-tile" }, map, line, input, h("span", {}, NAMES[kind]), value) };
  });
  const tilesTitle = h("legend");
  const element = h("fieldset", { "data-part": "kinds" }, tilesTitle, h("div", { class: "headroom-tiles" }, ...tiles.map((tile) => tile.label)));
  return { element, tiles, tilesTitle };
}

/** @param {Data} data */
function helpOf({ tables, q }) {
  return h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Positions, pairs and dimensions count from 0, as in the formula: pair i, of the dimensions 2i and 2i + 1, turns by base", h("sup", {}, "−2i / d_model"), " radians a position."),
    h("p", {}, "Pointer: a cell of the table is a position and a dimension, a cell of the matrix a position (down) and the one that it is compared with (across), ",
      "a place below the matrix is a distance, one on the wave a position; a click locks, a second click lets go. With the focus on the table or the matrix, ",
      ...keys("↑", "↓"), " change the position (", ...keys("Page Up", "Page Down"), " by ten), ", ...keys("←", "→"), " the dimension or, on the matrix, the shift, ",
      ...keys("s", "S"), " the shift, ", ...keys("[", "]"), " the width, ", ...keys("−", "+"), " the base, ", ...keys("k", "K"), " the kind, ",
      ...keys("m"), " the measure; ", ...keys("Enter"), " or ", ...keys("Space"), " lock and let go, ", ...keys("Esc"), " lets go."),
    h("p", {}, q.length ? "Rotary: the query and the key are yours." : "Rotary: the query and the key are all ones, so that the score is √d_model · the mean cosine of all turns."),
    needsPython("Python reads what you choose: ", h("code", {}, "widget.selection"), " and ", h("code", {}, "widget.table"), ". ",
      tables.yours?.function ? "Your function runs in Python: without it yours keeps its last size. Nothing else here needs it." : "Nothing else here needs it."));
}

/** @param {string} part @param {...Child} children */
const viewOf = (part, ...children) => h("div", { class: `headroom-view headroom-view-${part}` }, ...children);
/** @param {string} part */
const drawing = (part) => h("canvas", { "data-part": part, role: "img" });

/** All elements of a view. @param {Data} data @param {string} unique @param {{ element: HTMLElement }} table */
export function partsOf(data, unique, table) {
  const { kinds } = data;
  const id = `live-${unique}`;
  const live = liveLine(id);
  /** @param {string} part @param {string} description */
  const surface = (part, description) =>
    h("canvas", { "data-part": part, tabindex: 0, role: "application", "aria-roledescription": description, "aria-describedby": id });
  const { element: controls, ...inputs } = controlsOf();
  const { element: kindsField, ...choosing } = tilesOf(kinds, unique);
  const pictures = { table: surface("table-picture", "picture of a table"), matrix: surface("matrix", "matrix of similarities"), profile: drawing("profile"), wave: drawing("wave"), circle: drawing("circle") };
  const [tableLegend, matrixLegend] = [legend(), legend()];
  const titles = Array.from({ length: 5 }, () => h("div", { class: "headroom-title" }));
  const distance = h("p", { "data-part": "distance", class: "headroom-said" });
  const rotation = h("div", { "data-part": "rotation", class: "headroom-said" });
  const comparison = h("p", { "data-part": "comparison", class: "headroom-said" });
  const showDifference = button("show-difference", "Go to the first difference");
  const comparisonBox = h("div", { class: "headroom-comparison" }, comparison, showDifference);
  const root = h("div", { class: "headroom-widget headroom-position-explorer", role: "group", "aria-label": "Position explorer" },
    kindsField,
    controls,
    h("div", { class: "headroom-views" },
      viewOf("table", titles[0], pictures.table, tableLegend.element),
      viewOf("matrix", titles[1], pictures.matrix, matrixLegend.element),
      viewOf("wave", titles[2], pictures.wave),
      viewOf("profile", titles[3], pictures.profile, distance),
      viewOf("circle", titles[4], h("div", { class: "headroom-turn" }, pictures.circle, rotation))),
    live.element, ...(kinds.includes("yours") ? [comparisonBox] : []), table.element, helpOf(data));
  return { root, live, ...inputs, ...choosing, kindsField, pictures, tableLegend, matrixLegend, titles, distance, rotation, comparison, showDifference };
}
