// @ts-check
/* The elements of one view. */
import { field, headEntries, keys, layerSlider, menu } from "../kernel/controls.js";
import { h, legend, liveLine, needsPython } from "../kernel/elements.js";
import { capital } from "../kernel/words.js";
/** @import { Data } from "./data.js" */
/** @import { Words } from "./words.js" */
/** @import { Entry, BugSwitches as T } from "../types" */

/** @type {Record<T.Part, string>} */
const PARTS = { encoder: "encoder: the source looks at itself", decoder: "decoder: what is written looks at itself", cross: "cross: what is written looks at the source" };

/** A bar of the healthy model or of the one with the mistakes. @param {string} kind */
export function bar(kind) {
  return h("div", { class: `headroom-bar headroom-of-${kind}` });
}

/** @param {T.Mistake[]} mistakes */
function switchesOf(mistakes) {
  const boxes = mistakes.map((mistake) => {
    const input = h("input", { type: "checkbox", "data-part": "switch", value: mistake.name });
    return { ...mistake, input, label: h("label", {}, input, h("span", {}, mistake.title)) };
  });
  const groups = [...new Set(mistakes.map(({ group }) => group))].map((group) =>
    h("fieldset", { class: "headroom-group" }, h("legend", {}, group), ...boxes.filter((one) => one.group === group).map(({ label }) => label)));
  const off = h("button", { type: "button", "data-part": "off" }, "Switch all off");
  const switches = h("div", { class: "headroom-switches", role: "group", "aria-label": "Mistakes to switch on" }, h("div", { class: "headroom-columns" }, ...groups));
  const what = h("div", { "data-part": "what" });
  return { boxes, off, switches, what };
}

/** @param {Data} data @param {Words} words */
function numbersOf({ isImage, facts: { n } }, { things }) {
  const numbersBody = h("tbody");
  const withHead = h("th", { scope: "col" });
  const numbersTable = h("table", { "data-part": "numbers" },
    h("caption", {}, `On all ${n} ${things}${isImage ? "" : "; right: every character, written freely"}`),
    h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "as it is"), withHead, h("th", { scope: "col" }, "difference"))), numbersBody);
  return { numbersBody, withHead, numbersTable };
}

/** @param {Data} data @param {Words} words */
function controlsOf({ isImage, hasWeights, facts: { n_layers, n_heads, parts, shown } }, words) {
  const sample = menu("sample-select", "sample", shown.map((_, value) => ({ value, text: capital(words.sample(value)) })));
  /** @type {Entry<T.Part>[]} */
  const entries = parts.map((value) => ({ value, text: isImage ? "self-attention" : PARTS[value] ?? value }));
  const part = menu("part-select", "part", entries);
  const layer = layerSlider(n_layers);
  const head = menu("head-select", "head", headEntries(n_heads, "mean of heads", (i) => `head ${i + 1}`), { none: "mean" });
  const element = h("div", { class: "headroom-controls" }, field("Example", sample.input),
    ...(parts.length > 1 ? [field("Attention", part.input)] : []),
    ...(hasWeights ? [layer.label, field("Head", head.input)] : []));
  return { controls: [sample, part, layer, head], element };
}

/** The two matrices of weights. @param {Data} data @param {string} id */
function panelsOf({ isImage, hasWeights, facts: { columns } }, id) {
  /** @param {string} part */
  const surface = (part) => h("canvas", { "data-part": part, tabindex: 0, role: "application", "aria-roledescription": "matrix of attention", "aria-describedby": id });
  const panels = ["healthy", "broken"].map((which) => {
    const [canvas, title, note] = [surface(which), h("div", { class: "headroom-title" }), h("p", { class: "headroom-note" })];
    return { which, canvas, title, note, element: h("div", { class: "headroom-panel" }, title, canvas, note) };
  });
  const scaleLegend = legend();
  const weights = hasWeights
    ? [h("div", { class: "headroom-panels" }, ...panels.map(({ element }) => element)), scaleLegend.element,
      h("span", { class: "headroom-note" }, "Rows are queries (Q), columns keys (K).", isImage && columns ? " Patches are numbered row by row." : "")]
    : [h("p", { class: "headroom-note" }, "This model has no attention weights of the form (images, layers, heads, queries, keys), so none are drawn.")];
  return { panels, scaleLegend, weights };
}

/** @param {T.Facts} _ @param {string} things what the examples are */
function gradientsOf({ n, gradients }, things) {
  const gradientRows = gradients.map((part) => {
    const [right, wrong] = [bar("healthy"), bar("broken")];
    const [before, after] = [h("td", { class: "headroom-value" }), h("td", { class: "headroom-value" })];
    const element = h("tr", { "data-gradient": part }, h("th", { scope: "row" }, part), h("td", { class: "headroom-bars", "aria-hidden": "true" }, right, wrong), before, after);
    return { part, right, wrong, before, after, element };
  });
  const gradientNote = h("p", { "data-part": "gradient-note" });
  const ends = [h("span"), h("span")];
  const gradientsTable = h("table", { "data-part": "gradients" },
    h("caption", {}, `Norm of the gradient, by part of the model: one backward pass on all ${n} ${things}`),
    h("thead", {}, h("tr", {}, h("td"), h("td", { class: "headroom-ends", "aria-hidden": "true" }, ...ends), h("th", { scope: "col" }, "as it is"), h("th", { scope: "col" }, "with it"))),
    h("tbody", {}, ...gradientRows.map(({ element }) => element)));
  const gradientsKey = h("div", { class: "headroom-note headroom-key", "aria-hidden": "true" }, bar("healthy"), "as it is", bar("broken"), "with the mistake; the scale is logarithmic");
  return { gradientRows, gradientNote, ends, gradientsTable, gradientsKey };
}

function helpOf() {
  const computed = h("span");
  const help = h("details", { "data-part": "keys" }, h("summary", {}, "What is computed, keys, pointer and Python"),
    h("p", {}, "A mistake is switched on in a copy of the model, with the weights that it has. A model that is trained with the mistake from the start may learn to live with it, ",
      "so what you see here is what the mistake does to this model, not what it costs a model that grows up with it. Two mistakes of the same line exclude each other: the later one takes its place. ", computed),
    h("p", {}, "Checkboxes: ", ...keys("Tab"), " moves, ", ...keys("Space"), " switches. With the focus on a picture of attention: ", ...keys("↑", "↓"), " move the query, ", ...keys("←", "→"),
      " the key, ", ...keys("[", "]"), " or ", ...keys("Page Up", "Page Down"), " change the layer, ", ...keys("h", "H"), " the next and the previous head, ", ...keys("1"), "–", ...keys("9"), " pick a head, ", ...keys("0"), " the mean of heads, ",
      ...keys("i", "I"), " the next and the previous example, ", ...keys("Esc"), " switches all off. The pointer points at a query and a key."),
    needsPython("Python reads what you choose: ", h("code", {}, "widget.selection"), ", and the numbers: ", h("code", {}, "widget.results"),
      ". Python counts from 0, this picture from 1. Combinations that have not been computed yet need Python; nothing else here does."));
  return { computed, help };
}

/** All elements of a view. @param {Data} data @param {Words} words @param {string} unique @param {{ element: HTMLElement }} table */
export function partsOf(data, words, unique, table) {
  const { isImage, hasWeights, facts } = data;
  const id = `live-${unique}`;
  const live = liveLine(id);
  const { switches, ...switching } = switchesOf(facts.mistakes);
  const { numbersTable, ...numbers } = numbersOf(data, words);
  const { controls, element } = controlsOf(data, words);
  const digit = h("canvas", { "data-part": "digit", role: "img" });
  const example = h("span", { "data-part": "example" });
  const exampleBox = h("div", { class: "headroom-example" }, ...(isImage ? [digit] : []), example);
  const { weights, ...matrices } = panelsOf(data, id);
  const { gradientsTable, gradientsKey, ...gradients } = gradientsOf(facts, words.things);
  const { computed, help } = helpOf();
  const root = h("div", { class: "headroom-widget headroom-bug-switches", role: "group", "aria-label": "Bug switches" },
    h("div", { class: "headroom-controls headroom-top" }, h("span", { class: "headroom-title" }, "Switch mistakes on"), switching.off), switches, switching.what, live.element,
    h("div", { class: "headroom-wide" }, numbersTable), element, exampleBox, ...weights, ...(hasWeights ? [table.element] : []),
    h("div", { class: "headroom-wide" }, gradientsTable), gradientsKey, gradients.gradientNote, help);
  return { root, live, controls, digit, example, computed, ...switching, ...numbers, ...matrices, ...gradients };
}
