// @ts-check
/* The elements of one view. */
import { button, field, headEntries, keys, layerSlider, menu } from "../kernel/controls.js";
import { h, legend, liveLine, needsPython } from "../kernel/elements.js";
/** @import { Child, Entry, DecodingStepper as T } from "../types" */
/** @typedef {ReturnType<typeof partsOf>} Parts */

/** @param {string} part @param {number} min @param {number} max @param {number} [step] */
const range = (part, min, max, step = 1) => h("input", { type: "range", "data-part": part, min, max, step });
const output = () => h("span", { class: "headroom-value", "aria-hidden": "true" });
/** @param {...Child} parts */
const pair = (...parts) => h("span", { class: "headroom-pair" }, ...parts);
/** @param {string} text */
const title = (text) => h("div", { class: "headroom-title" }, text);

/** What is decoded, and how. @param {T.Facts} facts */
function inputsOf({ max_source, max_beams }) {
  const sourceSelect = h("select", { "data-part": "source-select" });
  const ownText = h("input", { type: "text", "data-part": "own-text", maxlength: max_source, size: 18, autocomplete: "off", spellcheck: "false" });
  const readButton = button("read", "Read it");
  const problem = h("p", { "data-part": "problem", role: "status" });
  /** @type {Entry<T.Method>[]} */
  const methods = [{ value: "greedy", text: "greedy: the likeliest" }, { value: "sampling", text: "sampling: drawn" }, { value: "beam", text: "beam search" }];
  const method = menu("method-select", "method", methods);
  const temperatureRange = range("temperature-range", 0.1, 3, 0.1);
  const temperatureOutput = output();
  const seedInput = h("input", { type: "number", "data-part": "seed-input", min: 0, step: 1 });
  const againButton = button("again", "Draw again");
  const beamsRange = range("beams-range", 1, max_beams);
  const beamsOutput = output();
  const sampling = pair(field("Temperature", temperatureRange, temperatureOutput), field("Seed", seedInput), againButton);
  const beaming = field("Hypotheses", beamsRange, beamsOutput);
  return { sourceSelect, ownText, readButton, problem, method, temperatureRange, temperatureOutput, seedInput, againButton, beamsRange, beamsOutput, sampling, beaming };
}

function stepsOf() {
  const stepButtons = { first: button("first", "⇤", { "aria-label": "First step" }), back: button("back", "← Back"), next: button("next", "Next →"), last: button("last", "⇥", { "aria-label": "Last step" }) };
  const stepRange = range("step-range", 1, 1);
  const stepOutput = output();
  return { stepButtons, stepRange, stepOutput };
}

function helpOf() {
  return h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, ...keys("←", "→"), " go a step back and forward, ", ...keys("Home", "End"), " to the first and the last. ",
      "In the tree ", ...keys("↑", "↓"), " choose a hypothesis. A candidate is a button: ", ...keys("Tab"), " to it and ", ...keys("Enter"), " or a click takes it in place of the model's, and the model goes on from there; ",
      "in beam search it leads to that hypothesis. ", ...keys("u"), " or ", ...keys("Esc"), " goes back to the model's choices, ", ...keys("m"), " to the next method, ", ...keys("r"), " draws again, ",
      ...keys("[", "]"), " change the layer, ", ...keys("1"), "–", ...keys("9"), " pick a head, ", ...keys("0"), " the mean, ", ...keys("h", "H"), " the next and the previous head. A click on a written token or on a row of the picture goes to its step."),
    h("p", {}, "Sampling: every candidate draws a random number from an exponential distribution, and the largest probability / number wins; a candidate wins with just its probability. ",
      "The seed fixes the numbers, so that a draw can be repeated. At a low temperature the probabilities move to the likeliest, at a high one they even out."),
    needsPython("What has been computed is here, and plays without Python: the greedy text, all beams, the continuations of each step's first candidates, and draws at temperature 1. A text of your own, and a continuation that was never computed, need Python. It reads what you choose: ",
      h("code", {}, "widget.selection"), ", ", h("code", {}, "widget.decoded"), ", ", h("code", {}, "widget.probabilities"), " and ", h("code", {}, "widget.selected_weights"), ". Python counts from 0, this picture from 1."));
}

/** All elements of a view. @param {T.Facts} facts @param {string} unique @param {{ element: HTMLElement }} table */
export function partsOf(facts, unique, table) {
  const [inputs, steps] = [inputsOf(facts), stepsOf()];
  const id = `live-${unique}`;
  const live = liveLine(id);
  /** @param {"div"} tag @param {string} part @param {string} description */
  const surface = (tag, part, description) =>
    h(tag, { "data-part": part, tabindex: 0, role: "application", "aria-roledescription": description, "aria-describedby": id });
  const writtenRow = surface("div", "written", "decoding steps");
  const candidates = h("div", { class: "headroom-candidates" });
  const others = h("p", { class: "headroom-note" });
  const undo = button("undo", "Back to the model's choices");
  const candidatesTitle = title("");
  const layer = layerSlider(facts.n_layers);
  const head = menu("head-select", "head", headEntries(facts.n_heads, "mean of heads", (i) => `head ${i + 1}`), { none: "mean" });
  const characters = h("div", { "data-part": "characters", role: "img" });
  const alignment = h("canvas", { "data-part": "alignment", role: "img" });
  const scaleLegend = legend();
  const tree = surface("div", "tree", "tree of hypotheses");
  const treeTitle = title("");
  const treeNote = h("p", { class: "headroom-note" });
  const treeBox = h("div", { class: "headroom-tree" }, treeTitle, tree, treeNote);
  const cache = h("div", { "data-part": "cache" });
  const cost = h("div", { "data-part": "cost" });
  const root = h("div", { class: `headroom-widget headroom-decoding-stepper${facts.continues ? " headroom-continues" : ""}`, role: "group", "aria-label": "Decoding stepper" },
    h("div", { class: "headroom-controls" }, field("Text", inputs.sourceSelect), pair(field("Your own", inputs.ownText), inputs.readButton)),
    inputs.problem,
    h("div", { class: "headroom-controls" }, field("Method", inputs.method.input), inputs.sampling, inputs.beaming),
    h("div", { class: "headroom-controls" }, pair(...Object.values(steps.stepButtons)), field("Step", steps.stepRange, steps.stepOutput)),
    h("div", { class: "headroom-written" }, h("span", { class: "headroom-note" }, "Written so far; ▸ is written in this step"), writtenRow),
    live.element,
    h("div", { class: "headroom-body" },
      h("div", {}, candidatesTitle, candidates, others, undo),
      h("div", {}, title(facts.continues ? "Attention: where this step looks in the text so far" : "Cross-attention: where this step looks in the source"),
        h("div", { class: "headroom-controls" }, layer.label, field("Head", head.input)),
        characters, alignment, scaleLegend.element)),
    treeBox,
    h("div", { class: "headroom-cache" }, title(`The cache: which keys (K) and values (V) the ${facts.continues ? "model" : "decoder"} has`), cache, cost),
    table.element, helpOf());
  return { root, live, ...inputs, ...steps, writtenRow, candidates, others, undo, candidatesTitle, layer, head, characters, alignment, scaleLegend, tree, treeTitle, treeNote, treeBox, cache, cost };
}
