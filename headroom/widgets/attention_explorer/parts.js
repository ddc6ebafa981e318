// @ts-check
/* The elements of one view. */
import { button, checkbox, field, keys, layerSlider, menu } from "../kernel/controls.js";
import { h, legend, liveLine, needsPython } from "../kernel/elements.js";
import { capital } from "../kernel/words.js";
import { OUTLINE_SIDE } from "./outline.js";
/** @import { Data } from "./data.js" */
/** @import { Words } from "./words.js" */
/** @import { Child, AttentionExplorer as T } from "../types" */

/** @param {...Child} parts */
const pair = (...parts) => h("span", { class: "headroom-pair" }, ...parts);

/** @param {Data} data @param {Words} say */
function controlsOf({ n, isImage, hasScores, facts: { n_layers } }, say) {
  const samples = Array.from({ length: n }, (_, value) => ({ value, text: say.sample(value) }));
  /** @type {T.Scale[]} */
  const scales = ["row", "all"];
  /** @type {Record<T.Show, string>} */
  const shows = { weights: "weights after the mask", unmasked: "weights without the mask", scores: "scores before the mask" };
  const all = {
    sample: menu("sample-select", "sample", samples.map(({ value, text }) => ({ value, text: capital(text) }))),
    layer: layerSlider(n_layers),
    scale: menu("scale-select", "scale", scales.map((value) => ({ value, text: value === "row" ? "each row its own" : "one for all rows" }))),
    show: menu("show-select", "show", Object.entries(shows).map(([value, text]) => ({ value: /** @type {T.Show} */ (value), text }))),
    control: menu("control-select", "control", isImage ? samples : [], { "aria-label": "Image that the control takes its weights from" }),
    controlBox: h("input", { type: "checkbox", "data-part": "control-box", disabled: n === 1 }),
    matrices: checkbox("matrices-box", "matrices", "Matrices"),
    predict: button("predict", "Predict first"),
    reveal: button("reveal", "Reveal"),
  };
  const element = h("div", { class: "headroom-controls" },
    field(capital(say.kindOf), all.sample.input), all.layer.label, field("Scale", all.scale.input),
    ...(hasScores ? [field("Show", all.show.input)] : []),
    ...(isImage ? [pair(h("label", {}, all.controlBox, h("span", {}, "Control: weights of")), all.control.input), all.matrices.label] : []),
    pair(all.predict, all.reveal));
  return { ...all, element };
}

/** @template {"canvas" | "div"} Tag @param {Tag} tag @param {string} part @param {string} id @param {string} description */
function surfaceOf(tag, part, id, description) {
  return h(tag, { "data-part": part, tabindex: 0, role: "application", "aria-roledescription": description, "aria-describedby": id });
}

/** An image: its digits or photographs, plain, and its patches in the colours of their weights. @param {Data} data @param {string} id */
function imageOf({ isImage, facts: { width, height, rows, columns } }, id) {
  const digit = h("canvas", { "data-part": "digit", role: "img" });
  const digitNote = h("span", { "data-part": "prediction" });
  const sourceDigit = h("canvas", { "data-part": "control-digit", role: "img" });
  const sourceNote = h("span", { "data-part": "control-note" });
  const source = h("span", { class: "headroom-digit headroom-control" }, sourceDigit, sourceNote);
  const classCanvas = h("canvas", { "data-part": "class", role: "img" });
  const picture = surfaceOf("canvas", "image", id, "picture of attention");
  if (isImage) {
    digit.style.height = sourceDigit.style.height = height > OUTLINE_SIDE ? "96px" : "42px";
    picture.style.aspectRatio = `${width} / ${height}`;
    classCanvas.style.width = `max(calc(100% / ${columns}), 30px)`;
    classCanvas.style.aspectRatio = `${width / columns} / ${height / rows}`;
  }
  const classCell = h("div", { class: "headroom-class" }, classCanvas,
    h("span", { class: "headroom-note" }, "the [class] token, which is no part of the image"));
  const bars = h("canvas", { "data-part": "row", role: "img" });
  const digits = h("div", { class: "headroom-digits" }, h("span", { class: "headroom-digit" }, digit, digitNote), source);
  return { digit, digitNote, sourceDigit, sourceNote, source, classCanvas, picture, classCell, bars, digits };
}

/** A text's words in a row: those that ask, or those that are asked. @param {string} part @param {string} id @param {string} text @returns {T.Strip} */
function stripOf(part, id, text) {
  const element = surfaceOf("div", part, id, "row of words");
  return { element, sample: -1, chips: [], box: h("div", { class: "headroom-strip" }, h("span", { class: "headroom-note" }, text), element) };
}

/** The heads side by side, their mean first. @param {Data} data @param {string} unique */
function headsOf({ isImage, facts: { n_heads } }, unique) {
  const tiles = [null, ...Array(n_heads).keys()].map((head) => {
    const input = h("input", { type: "radio", "data-part": "head", name: `head-${unique}`, value: head ?? "mean" });
    const [map, small] = [h("canvas", { "aria-hidden": "true", class: "headroom-small-map" }), h("canvas", { "aria-hidden": "true", "data-part": "small-matrix" })];
    const most = h("span", { class: "headroom-value" });
    const text = h("span", {}, head === null ? "mean" : `head ${head + 1}`);
    return { head, input, map, small, most, label: h("label", { class: "headroom-tile" }, ...(isImage ? [map] : []), small, input, text, most) };
  });
  const title = h("legend");
  const element = h("fieldset", { "data-part": "heads" }, title, h("div", { class: "headroom-tiles" }, ...tiles.map((tile) => tile.label)));
  element.style.setProperty("--headroom-tile", tiles.length > 6 ? "84px" : "118px"); // few heads: larger pictures
  return { tiles, title, element };
}

/** @param {Data} data @param {Words} say */
function helpOf({ isImage, hasScores, facts: { has_class } }, { kindOf }) {
  return h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, isImage ? "Pointer: a patch under it is the query, a cell of a matrix is a query and a key; " : "Pointer: a word under it is the query or the key, a cell of a matrix is both; ",
      "a click locks, a second click lets go. With the focus on ", ...(isImage ? ["the picture, ", ...keys("arrows"), " move the query",
        ...(has_class ? [" (up from the first row to [class], or ", ...keys("c"), ")"] : [])] : ["a row of words, ", ...keys("←", "→"), " move along it"]),
      "; on the large matrix ", ...keys("↑", "↓"), " move the query, ", ...keys("←", "→"), " the key. ",
      ...keys("Enter"), " or ", ...keys("Space"), " lock and let go, ", ...keys("Esc"), " lets go, ",
      ...keys("[", "]"), " or ", ...keys("Page Up", "Page Down"), " change the layer, ",
      ...keys("1"), "–", ...keys("9"), " pick a head, ", ...keys("0"), " the mean, ", ...keys("h", "H"), " the next and the previous head, ",
      ...keys("i", "I"), ` the next and the previous ${kindOf}, `, ...keys("s"), " changes the scale",
      ...(hasScores ? [", ", ...keys("m"), " what is shown of the mask"] : []), ...(isImage ? [", ", ...keys("x"), " switches the control"] : []), "."),
    h("p", {}, "Predict first (", ...keys("p"), "): the numbers are covered, and you mark the keys that you expect to get most of the query's weight, by a click or with ",
      "the arrows and ", ...keys("Space"), ". ", ...keys("r"), " reveals, ", ...keys("Esc"), " gives up."),
    needsPython("Python reads what you choose: ", h("code", {}, "widget.selection"), " and ", h("code", {}, "widget.selected_weights"),
      ". Python counts from 0, this picture from 1. Nothing else here needs it."));
}

/** All elements of a view. @param {Data} data @param {Words} say @param {string} unique @param {{ element: HTMLElement }} table */
export function partsOf(data, say, unique, table) {
  const { isImage, hasScores, facts: { has_class } } = data;
  const id = `live-${unique}`;
  const controls = controlsOf(data, say);
  const live = liveLine(id);
  const image = imageOf(data, id);
  const queries = stripOf("queries", id, "Queries (Q): who looks");
  const keysRow = stripOf("keys-row", id, "Keys (K): who is looked at, and the number that each gets");
  const scale = legend();
  const matrix = surfaceOf("canvas", "matrix", id, "matrix of attention");
  const matrixTitle = h("div", { class: "headroom-title" });
  const matrixBox = h("div", { class: "headroom-matrix" }, matrixTitle, matrix,
    h("span", { class: "headroom-note" }, "Rows are queries (Q), columns keys (K)."), ...(isImage ? [] : [scale.element]));
  const heads = headsOf(data, unique);
  const renormalised = h("p", { "data-part": "renormalised" });
  const covered = h("p", { "data-part": "covered" }, "Matrices, numbers and table are covered until you reveal.");
  const left = h("div", { class: "headroom-left" }, ...(has_class ? [image.classCell] : []), image.picture, ...(isImage ? [scale.element] : []));
  const root = h("div", { class: `headroom-widget headroom-attention-explorer headroom-of-${say.kindOf}`, role: "group", "aria-label": "Attention explorer" },
    controls.element,
    ...(isImage ? [image.digits] : [queries.box, keysRow.box]),
    h("div", { class: "headroom-body" }, ...(isImage ? [left] : []), matrixBox, heads.element),
    covered, live.element, ...(hasScores ? [renormalised] : []), ...(isImage ? [image.bars] : []), table.element, helpOf(data, say));
  return { root, controls, live, image, queries, keysRow, scale, matrix, matrixTitle, matrixBox, heads, renormalised, covered };
}
