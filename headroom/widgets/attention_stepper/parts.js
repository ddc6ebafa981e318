// @ts-check
/* The elements of one view. */
import { button, field, keys } from "../kernel/controls.js";
import { h, legend, liveLine, needsPython } from "../kernel/elements.js";
import { capital } from "../kernel/words.js";
import { STEPS, upTo } from "./data.js";
import { plain } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { Words } from "./words.js" */
/** @import { Side, AttentionStepper as T } from "../types" */

const TEMPERATURES = [-4, 4]; // powers of 2 that the range reaches
export const CELL = 36; // width of a cell, in pixels, where there is room

/** @param {Data} data @param {Words} words */
function controlsOf({ facts, root }, words) {
  const querySelect = h("select", { "data-part": "query-select" },
    ...upTo(facts.n_queries).map((i) => h("option", { value: i }, facts.queries ? `${i + 1} ${words.wordOf("queries", i)}` : `query ${i + 1}`)));
  const [back, next, edit, reset] = [button("back", "← Back"), button("next", "Next →"), button("edit", "Change the numbers"), button("reset", "Reset")];
  const stepRange = h("input", { type: "range", "data-part": "step-range", min: 1, max: STEPS.length, step: 1, "aria-label": "Step" });
  const stepOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const scaledBox = h("input", { type: "checkbox", "data-part": "scaled-box" });
  const temperatureRange = h("input", { type: "range", "data-part": "temperature-range", min: TEMPERATURES[0], max: TEMPERATURES[1], step: 0.5 });
  const temperatureOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const element = h("div", { class: "headroom-controls" }, field("Query", querySelect),
    h("span", { class: "headroom-pair" }, back, stepRange, next, stepOutput), edit);
  const changes = h("fieldset", { "data-part": "changes" }, h("legend", {}, "Change the numbers"),
    h("div", { class: "headroom-controls" }, h("label", {}, scaledBox, h("span", {}, `divide by √d_k = ${plain(root)}`)),
      field("Temperature", temperatureRange, temperatureOutput), reset),
    h("p", { class: "headroom-note" }, "Scores and mask change in their columns below: type a score, or go up and down from it with the arrows (", h("kbd", {}, "↑"), " ", h("kbd", {}, "↓"), ")."));
  const editedNote = h("p", { "data-part": "edited" });
  return { element, querySelect, back, next, edit, reset, stepRange, stepOutput, scaledBox, temperatureRange, temperatureOutput, changes, editedNote };
}

/** What is said of the student's tensors. @param {T.Facts} facts */
function checksOf(facts) {
  const checks = facts.check.map((one) => {
    const show = one.ok ? [] : [h("button", { type: "button", "aria-label": `Show where the ${one.stage} first differ` }, "Show it")];
    return { ...one, show: show[0], element: h("li", {}, h("b", {}, one.ok ? "✓ " : "✗ "), `${one.says} `, ...show) };
  });
  const check = h("ul", { "data-part": "check", "aria-label": "Your tensors" }, ...checks.map((one) => one.element));
  return { checks, check };
}

/** The row in numbers. A column appears with its step; what the student gave stands beside the right number.
 * @param {Data} data @param {Words} words @param {string} id */
function ledgerOf({ facts, yours }, words, id) {
  /** @param {string} text @param {string} below */
  const sub = (text, below) => [text, h("sub", {}, below)];
  const raised = h("sup", {}, "score");
  /** @type {T.Column[]} */
  const ALL_COLUMNS = [
    { spot: "dots", from: 0, title: ["q · k"] },
    { spot: "scores", from: 1, title: ["score: ÷ √", ...sub("d", "k")] },
    { spot: "scores", from: 1, title: ["yours"], whose: "yours" },
    { spot: "masked", from: 2, title: ["after the mask"] },
    { spot: "powers", from: 3, title: ["e", raised] },
    { spot: "weights", from: 3, title: ["weight: ÷ sum"] },
    { spot: "weights", from: 3, title: ["yours"], whose: "yours" },
    { spot: "weights", from: 3, title: ["the model's"], whose: "model" },
  ];
  const COLUMNS = ALL_COLUMNS.filter(({ spot, whose }) => whose !== "yours" || spot in yours);
  const heads = COLUMNS.map(({ title }) => h("th", { scope: "col" }, ...title));
  const lines = upTo(facts.n_keys).map((key) => {
    const cells = COLUMNS.map(({ spot, whose }) => {
      const text = h("span");
      const element = h("td", { "data-key": key, "data-spot": spot, role: "gridcell", class: whose ? "headroom-beside" : false, tabindex: whose ? false : -1 }, text);
      return { text, element };
    });
    const scoreInput = h("input", { type: "number", step: "any", "data-part": "score-input", "aria-label": `Score with ${words.sayKey(key)}` });
    const maskBox = h("input", { type: "checkbox", "data-part": "mask-box", "aria-label": `${capital(words.sayKey(key))} may be attended to` });
    cells[1].element.append(scoreInput);
    cells[COLUMNS.findIndex(({ spot }) => spot === "masked")].element.prepend(maskBox);
    const sign = h("b");
    const head = h("th", { scope: "row", "data-key": key }, sign, h("span", {}, facts.keys ? `${key + 1} ${words.wordOf("keys", key)}` : `key ${key + 1}`));
    return { key, cells, scoreInput, maskBox, head, sign, element: h("tr", {}, head, ...cells.map((one) => one.element)) };
  });
  const totals = COLUMNS.map(() => h("td", { role: "gridcell" }));
  const foot = h("tr", {}, h("th", { scope: "row" }, "sum"), ...totals);
  const ledger = h("table", { "data-part": "ledger", role: "grid", "aria-label": "The row in numbers", "aria-describedby": id },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "key"), ...heads)), h("tbody", {}, ...lines.map((one) => one.element)), h("tfoot", {}, foot));
  return { columns: COLUMNS, heads, lines, totals, foot, ledger, raised };
}

/** A sum, written out: a button for each of its terms. @param {string} part @param {number} size @param {string} name @returns {T.Chips} */
function chips(part, size, name) {
  const all = upTo(size).map((i) => {
    const [label, text, beside] = [h("span", { class: "headroom-note" }), h("span"), h("span", { class: "headroom-note" })];
    return { label, text, beside, element: h("button", { type: "button", class: "headroom-chip", "data-chip": i, tabindex: -1 }, label, text, beside) };
  });
  const [lead, end] = [h("p"), h("p")];
  const row = h("div", { class: "headroom-chips", role: "group", "aria-label": name }, ...all.map((one) => one.element));
  return { lead, end, all, row, element: h("div", { "data-part": part }, lead, row, end) };
}

/** @param {T.Facts} _ @param {string} id */
function matricesOf({ n_queries, n_keys, d_k, d_v }, id) {
  const LETTERS = { q: "Q", k: "K", v: "V", s: "", o: "" };
  /** @type {[T.Letter, number, number, Side, string][]} */
  const shapes = [
    ["q", n_queries, d_k, "queries", "Q, the queries"], ["k", n_keys, d_k, "keys", "K, the keys"], ["s", n_queries, n_keys, "queries", "scores"],
    ["v", n_keys, d_v, "keys", "V, the values"], ["o", n_queries, d_v, "queries", "output"],
  ];
  return shapes.map(([name, rows, columns, side, text]) => {
    const canvas = h("canvas", { "data-part": name, tabindex: 0, role: "application", "aria-roledescription": "matrix", "aria-describedby": id });
    const title = h("span", {}, text);
    const badge = LETTERS[name] ? [h("b", { class: `headroom-letter headroom-letter-${name}`, "aria-hidden": "true" }, LETTERS[name]), " "] : [];
    const box = h("div", { class: "headroom-matrix" }, h("div", { class: "headroom-title" }, ...badge, title), canvas);
    box.style.flex = `${columns} 1 ${Math.min(70 + CELL * columns, 250)}px`;
    box.style.maxWidth = `${Math.max(150, 80 + (CELL + 6) * columns)}px`;
    return { name, rows, columns, side, canvas, title, box };
  });
}

function helpOf() {
  return h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Pointer: a number under it lights up where it comes from and where it goes; a click holds on, a second click or ", ...keys("Esc"),
      " lets go. A click on another row of Q, of the scores or of the output follows that query."),
    h("p", {}, "Keys: ", ...keys("[", "]"), " or ", ...keys("Page Up", "Page Down"), " go a step back and forward, ", ...keys("q", "Q"), " to the next and the previous query. In the numbers of the row, ",
      ...keys("↑", "↓"), " go from key to key, ", ...keys("←", "→"), " from column to column, and ", ...keys("→"), " past the last takes the next step. ",
      "In a matrix the arrows move through its cells; up and down in Q, in the scores and in the output change the query. Along the terms of a sum ",
      ...keys("←", "→"), " move. ", ...keys("Enter"), " or ", ...keys("Space"), " hold on, ", ...keys("Esc"), " lets go."),
    h("p", {}, "Numbers are rounded for reading; the arithmetic is exact to 15 digits."),
    needsPython("Python reads what you choose: ", h("code", {}, "widget.selection"), " and ", h("code", {}, "widget.row"),
      ", all numbers of the row; ", h("code", {}, "widget.differences"), " says where your tensors differ. Python counts from 0, this picture from 1. Nothing else here needs it."));
}

/** All elements of a view. @param {Data} data @param {Words} words @param {string} unique @param {{ element: HTMLElement }} table */
export function partsOf(data, words, unique, table) {
  const { facts, facts: { d_k, d_v, n_keys } } = data;
  const id = `live-${unique}`;
  const live = liveLine(id);
  const { element: controls, changes, editedNote, ...inputs } = controlsOf(data, words);
  const { checks, check } = checksOf(facts);
  const { ledger, ...row } = ledgerOf(data, words, id);
  const working = chips("working", Math.max(d_k, n_keys), "Terms of the sum");
  const outcome = chips("output", d_v, "Entries of the output");
  const matrices = matricesOf(facts, id);
  const [entryLegend, scoreLegend] = [legend(), legend()];
  const root = h("div", { class: "headroom-widget headroom-attention-stepper", role: "group", "aria-label": "Attention stepper" },
    controls, changes, live.element, ...(checks.length ? [check] : []),
    h("div", { class: "headroom-body" }, h("div", { class: "headroom-scroll-x" }, ledger), editedNote, h("div", { class: "headroom-right" }, working.element, outcome.element)),
    h("div", { class: "headroom-matrices" }, ...matrices.map(({ box }) => box)),
    h("div", { class: "headroom-legends" }, entryLegend.element, scoreLegend.element), table.element, helpOf());
  return { root, live, ...inputs, changes, editedNote, checks, check, ledger, ...row, working, outcome, matrices, entryLegend, scoreLegend };
}
