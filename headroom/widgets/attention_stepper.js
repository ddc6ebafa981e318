// @ts-check
/* The front end of headroom.widgets.AttentionStepper.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-attention-stepper      the root of one view; a page may hold many
 *   [data-part=query-select]         <select>, value: query from 0
 *   [data-part=back], [data-part=next]   <button>s; [data-part=step-range]: <input type=range>, value: step from 1
 *   [data-part=edit]                 <button>: opens [data-part=changes], which holds
 *   [data-part=scaled-box], [data-part=temperature-range] (log2), [data-part=reset]
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=check]                what is said of the student's tensors (absent without them)
 *   [data-part=edited]               says that numbers are the reader's own (hidden when none is)
 *   [data-part=ledger]               the row in numbers, a key a line: td[data-spot=dots | scores | masked | powers |
 *                                    weights][data-key], from 0; while changing, input[data-part=score-input] and
 *                                    input[data-part=mask-box] in it
 *   [data-part=working]              the step written out; its terms are button[data-chip], from 0
 *   [data-part=output]               the output's entries, button[data-chip], from 0
 *   canvas[data-part=q | k | v | s | o]   the matrices; data-left, -top, -cell-width, -cell-height: where the cells lie
 *   [data-part=table], [data-part=keys] (<details>)
 *   data-query, data-step, data-spot, data-key, data-entry, data-locked, … on the root: what is shown, from 0;
 *   data-changed: whether some numbers are the reader's own
 */
import {
  bitmap, capital, choices, colour, decode, guardKeys, h, inkOn, legend, list, liveLine, needsPython, number,
  onPointer, penOf, prepare, repaint, tableView, targetOf, themeColours, uniqueName, visible, write,
} from "./shared.js";
/** @import { Canvas, Child, Colours, Model, On, Pen, Side, View, AttentionStepper as T } from "./types" */

/** @type {T.Step[]} */
const STEPS = ["compare", "scale", "mask", "softmax", "mix"];
/** @type {(keyof T.Now)[]} */
const CHOICES = ["query", "step", "spot", "key", "entry", "locked", "editing", "temperature", "scaled", "flipped", "edited"];
/** @type {("spot" | "key" | "entry")[]} */
const AIMED = ["spot", "key", "entry"]; // what says at what the reader points
/** @type {T.Stage[]} */
const SPOTS = ["dots", "scores", "masked", "weights"]; // what each of the first four steps makes
/** @type {T.Changes} */
const UNTOUCHED = { temperature: 1, scaled: true, flipped: [], edited: [] };
/** @type {Record<T.Given, T.Step>} */
const STEP_OF = { scores: "scale", weights: "softmax", output: "mix" }; // where a stage of the comparison is seen
const TEMPERATURES = [-4, 4]; // powers of 2 that the range reaches
const SCORE_STEP = 0.25; // what an arrow key adds to a score
const CELL = 36; // width of a cell, in pixels, where there is room
const NUMBERED = 33; // the narrowest cell that holds a number
const LABELLED = 9; // the narrowest cell whose row and column carry their names
const LARGEST_POWER = 20; // beyond, the softmax is shown as it is computed: with the largest score taken off first

// ---------------------------------------------------------------- the numbers

/** What one widget was given, and the arithmetic on it: all in double precision, as Python's. @param {Model<T.Traits>} model */
function readData(model) {
  const facts = model.get("_facts");
  const { n_queries, n_keys, d_k, d_v, given } = facts;
  /** @param {Float64Array} all @param {...[number, number]} shapes */
  const cut = (all, ...shapes) => {
    let at = 0;
    return shapes.map(([rows, columns]) => ({ rows, columns, values: all.subarray(at, (at += rows * columns)) }));
  };
  const [q, k, v] = cut(decode(Float64Array, model.get("_numbers")), [n_queries, d_k], [n_keys, d_k], [n_keys, d_v]);
  const mask = decode(Uint8Array, model.get("_mask"));
  /** @type {[number, number][]} */
  const shapes = given.map((stage) => [n_queries, stage === "output" ? d_v : n_keys]);
  const theirs = cut(decode(Float64Array, model.get("_yours")), ...shapes);
  /** @type {Partial<Record<T.Stage | "output", Float64Array>>} */
  const yours = Object.fromEntries(given.map((stage, i) => [stage, theirs[i].values]));
  const root = Math.sqrt(d_k);

  const dots = new Float64Array(n_queries * n_keys);
  for (let i = 0; i < n_queries; i++)
    for (let j = 0; j < n_keys; j++)
      for (let c = 0; c < d_k; c++) dots[i * n_keys + j] += q.values[i * d_k + c] * k.values[j * d_k + c];

  /** Every step for every query, with the reader's changes. @param {T.Changes} _ */
  function compute({ temperature, scaled, flipped, edited }) {
    const scores = dots.map((dot) => (scaled ? dot / root : dot));
    for (const [query, key, value] of edited) scores[query * n_keys + key] = value;
    const may = mask.slice();
    for (const [query, key] of flipped) may[query * n_keys + key] ^= 1;
    const masked = scores.map((score, at) => (may[at] ? score : -Infinity));
    const [powers, weights] = [new Float64Array(masked.length), new Float64Array(masked.length)];
    const [output, sums, shifts] = [new Float64Array(n_queries * d_v), new Float64Array(n_queries), new Float64Array(n_queries)];
    for (let i = 0; i < n_queries; i++) {
      const row = masked.subarray(i * n_keys, (i + 1) * n_keys);
      const most = Math.max(...row);
      shifts[i] = Math.abs(most) / temperature > LARGEST_POWER && most > -Infinity ? most : 0;
      const shares = row.map((score) => Math.exp((score - most) / temperature)); // NaN where nothing may be attended to
      const total = shares.reduce((a, b) => a + b);
      for (let j = 0; j < n_keys; j++) {
        powers[i * n_keys + j] = Math.exp((row[j] - shifts[i]) / temperature);
        sums[i] += powers[i * n_keys + j];
        weights[i * n_keys + j] = shares[j] / total;
        for (let c = 0; c < d_v; c++) output[i * d_v + c] += weights[i * n_keys + j] * v.values[j * d_v + c];
      }
    }
    return { dots, scores, may, masked, powers, sums, shifts, weights, output };
  }
  let last = { name: "", ...compute(UNTOUCHED) };
  const untouched = last;
  /** @param {T.Changes} now */
  const stages = (now) => {
    const name = JSON.stringify([now.temperature, now.scaled, now.flipped, now.edited]);
    if (last.name !== name) last = { name, ...compute(now) };
    return last;
  };
  return { ...facts, q, k, v, mask, yours, root, stages, untouched };
}

// ---------------------------------------------------------------- one view

/** @param {View<T.Traits>} _ */
function render({ model, el }) {
  const data = readData(model);
  const { n_queries, n_keys, d_k, d_v, q, k, v, yours, root: rootOfWidth } = data;
  const unique = uniqueName();
  const ended = new AbortController(); // ends every listener with the view
  const { signal } = ended;
  /** @param {number} n */
  const upTo = (n) => [...Array(n).keys()];

  // ------------------------------------------------ words and numbers
  /** @param {Side} side @param {number} i */
  const wordOf = (side, i) => (data[side] ? visible(data[side][i]) : String(i + 1));
  /** @param {Side} side @param {number} i */
  const quoted = (side, i) => (data[side] ? `“${wordOf(side, i)}”` : `${side === "keys" ? "key" : "query"} ${i + 1}`);
  /** @param {number} j */
  const sayKey = (j) => `key ${j + 1}` + (data.keys ? ` “${wordOf("keys", j)}”` : "");
  /** @param {number} i */
  const sayQuery = (i) => `query ${i + 1}` + (data.queries ? ` “${wordOf("queries", i)}”` : "");
  /** A number to read: two digits after the point, three for a weight; very large ones in powers of ten. @param {number} value @param {number} [digits] */
  function say(value, digits = 2) {
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (Math.abs(value) >= 1e5) return value.toExponential(2).replace("e+", " · 10^").replace("-", "−");
    return number(Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value, digits); // no −0.00
  }
  /** @param {number} value */
  const weight = (value) => say(value, 3);
  /** @param {number} value */
  const plain = (value) => say(value).replace(/\.?0+$/, ""); // 2, 1.41
  /** @param {number} value */
  const temperatureOf = (value) => say(value, value < 1 ? 3 : 1).replace(/\.?0+$/, "");
  /** @param {T.Changes} _ */
  const isEdited = ({ temperature, scaled, flipped, edited }) => temperature !== 1 || !scaled || flipped.length > 0 || edited.length > 0;

  /** What is shown: the reader's choice, and what it means where the reader chose nothing. @param {T.Now} now */
  function see(now) {
    const stages = data.stages(now);
    const { query, step } = now;
    const at = STEPS.indexOf(step);
    /** @type {T.Shown["row"]} */
    const row = (values) => /** @type {typeof values} */ (values.subarray(query * n_keys, (query + 1) * n_keys));
    const ranked = row(stages[SPOTS[Math.min(at, 2)]]);
    const best = ranked.reduce((most, value, j) => (value > ranked[most] ? j : most), 0);
    return {
      now, stages, query, step, row, best,
      at,
      spot: now.spot ?? (step === "mix" ? "output" : SPOTS[at]),
      key: Math.min(now.key ?? best, n_keys - 1),
      entry: now.entry ?? 0,
      changed: isEdited(now),
    };
  }
  /** @param {T.Matrix} matrix @param {number} row @param {number} column */
  const cell = (matrix, row, column) => matrix.values[row * matrix.columns + column];
  /** @param {number} entry @param {number} size */
  const cutEntry = (entry, size) => Math.min(entry, size - 1);

  /** @param {T.Shown} _ */
  function sayStep({ stages, query, step, row, best, at, now }) {
    const who = quoted("queries", query);
    const numbered = `Step ${at + 1} of ${STEPS.length}, ${step}:`;
    if (step === "compare") {
      return `${numbered} the query of ${who} meets every key in a dot product, q · k. The largest is with ${sayKey(best)}: ${say(row(stages.dots)[best])}.`;
    }
    if (step === "scale") {
      const divide = `by √d_k = √${d_k} = ${plain(rootOfWidth)}`;
      return now.scaled
        ? `${numbered} each dot product is divided ${divide}. The largest score is with ${sayKey(best)}: ${say(row(stages.scores)[best])}.`
        : `${numbered} here each dot product would be divided ${divide}; you have switched that off. The largest score is with ${sayKey(best)}: ${say(row(stages.scores)[best])}.`;
    }
    const may = row(stages.may);
    const hidden = may.reduce((count, yes) => count + (yes ? 0 : 1), 0);
    if (hidden === n_keys) return `${numbered} the mask hides every key from ${who}: a softmax over nothing has no meaning, and gives NaN.`;
    if (step === "mask") {
      return hidden
        ? `${numbered} ${hidden} of ${n_keys} keys are hidden from ${who} (×): their scores become −∞.`
        : `${numbered} nothing is hidden from ${who}; every score stays.`;
    }
    const most = `${sayKey(best)} (${weight(row(stages.weights)[best])})`;
    const soften = now.temperature === 1 ? "e to the power of each score" : `e to the power of each score divided by the temperature ${temperatureOf(now.temperature)}`;
    if (step === "softmax") return `${numbered} ${soften}, divided by the sum of all. The weights sum to 1; most goes to ${most}.`;
    return `${numbered} the output of ${who} is the sum of all values, each times its weight. Most comes from ${most}.`;
  }
  /** What the reader points at, and where it comes from or goes. @param {T.Shown} view */
  function saySpot(view) {
    const { now, stages, query, row, spot, key, at } = view;
    if (now.spot === null) return "";
    const entry = cutEntry(view.entry, spot === "v" || spot === "output" ? d_v : d_k);
    /** @param {T.Stage} name */
    const value = (name) => row(stages[name])[key];
    const [nth, its] = [`entry ${entry + 1}`, quoted("keys", key)];
    /** @type {Record<T.Spot, () => string>} */
    const pairs = {
      q: () => `${nth} of the query, ${say(cell(q, query, entry))}, takes part in every score of this row.`,
      k: () => `${nth} of ${sayKey(key)}, ${say(cell(k, key, entry))}: times ${nth} of the query, ${say(cell(q, query, entry))}, it adds ` +
        `${say(cell(q, query, entry) * cell(k, key, entry))} to the dot product.`,
      v: () => `${nth} of the value of ${its}, ${say(cell(v, key, entry))}` + (at < 4 ? ", which waits for step 5."
        : `: times the weight ${weight(value("weights"))}, it adds ${say(value("weights") * cell(v, key, entry))} to ${nth} of the output.`),
      dots: () => `q · k with ${sayKey(key)}, ${say(value("dots"))}: row ${query + 1} of Q times row ${key + 1} of K.`,
      scores: () => `the score with ${sayKey(key)}, ${say(value("scores"))}: ${say(value("dots"))} divided by ${plain(rootOfWidth)}.`,
      masked: () => `the score with ${sayKey(key)} after the mask, ${say(value("masked"))}.`,
      powers: () => `e to the power of the score with ${sayKey(key)}, ${say(value("powers"))}.`,
      weights: () => `the weight of ${sayKey(key)}, ${weight(value("weights"))}: the share in which row ${key + 1} of V enters the output.`,
      output: () => `${nth} of the output, ${say(stages.output[query * d_v + entry])}: the weights times column ${entry + 1} of V.`,
    };
    if (spot === "scores" && (!now.scaled || owned(now, query, key) !== undefined)) {
      return ` Pointing at the score with ${sayKey(key)}, ${say(value("scores"))}${owned(now, query, key) === undefined ? ", not divided." : ", which you set."}`;
    }
    return ` Pointing at ${pairs[spot]()}`;
  }
  /** @param {T.Now} now @param {number} query @param {number} key */
  const owned = (now, query, key) => now.edited.find(([i, j]) => i === query && j === key)?.[2];
  /** @param {T.Shown} _ */
  function sayChanges({ now, query }) {
    const parts = [];
    if (!now.scaled) parts.push(`no division by √d_k`);
    for (const [i, j, value] of now.edited) {
      if (i === query) parts.push(`score with ${quoted("keys", j)} ${say(value)} in place of ${say(data.untouched.scores[i * n_keys + j])}`);
    }
    for (const [i, j] of now.flipped) {
      if (i === query) parts.push(`${quoted("keys", j)} ${data.mask[i * n_keys + j] ? "hidden" : "shown"}`);
    }
    if (now.temperature !== 1) parts.push(`temperature ${temperatureOf(now.temperature)}`);
    const others = [...now.edited, ...now.flipped].filter(([i]) => i !== query).length;
    if (others) parts.push(`${others} ${others === 1 ? "change" : "changes"} in other rows`);
    return `These are your numbers now, not the model's: ${list(parts)}.${data.given.length ? " The comparison with your tensors waits until you reset." : ""}`;
  }

  // ------------------------------------------------ the parts
  /** @param {string} text @param {...Child} inputs */
  const field = (text, ...inputs) => h("label", {}, h("span", {}, text), ...inputs);
  /** @param {string} part @param {...Child} text */
  const button = (part, ...text) => h("button", { type: "button", "data-part": part }, ...text);
  const querySelect = h("select", { "data-part": "query-select" },
    ...upTo(n_queries).map((i) => h("option", { value: i }, data.queries ? `${i + 1} ${wordOf("queries", i)}` : `query ${i + 1}`)));
  const [back, next, edit, reset] = [button("back", "← Back"), button("next", "Next →"), button("edit", "Change the numbers"), button("reset", "Reset")];
  const stepRange = h("input", { type: "range", "data-part": "step-range", min: 1, max: STEPS.length, step: 1, "aria-label": "Step" });
  const stepOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const scaledBox = h("input", { type: "checkbox", "data-part": "scaled-box" });
  const temperatureRange = h("input", { type: "range", "data-part": "temperature-range", min: TEMPERATURES[0], max: TEMPERATURES[1], step: 0.5 });
  const temperatureOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const controls = h("div", { class: "headroom-controls" }, field("Query", querySelect),
    h("span", { class: "headroom-pair" }, back, stepRange, next, stepOutput), edit);
  const changes = h("fieldset", { "data-part": "changes" }, h("legend", {}, "Change the numbers"),
    h("div", { class: "headroom-controls" }, h("label", {}, scaledBox, h("span", {}, `divide by √d_k = ${plain(rootOfWidth)}`)),
      field("Temperature", temperatureRange, temperatureOutput), reset),
    h("p", { class: "headroom-note" }, "Scores and mask change in their columns below: type a score, or go up and down from it with the arrows (", h("kbd", {}, "↑"), " ", h("kbd", {}, "↓"), ")."));
  const editedNote = h("p", { "data-part": "edited" });

  const id = `live-${unique}`;
  const live = liveLine(id);

  const checks = data.check.map((one) => {
    const show = one.ok ? [] : [h("button", { type: "button", "aria-label": `Show where the ${one.stage} first differ` }, "Show it")];
    return { ...one, show: show[0], element: h("li", {}, h("b", {}, one.ok ? "✓ " : "✗ "), `${one.says} `, ...show) };
  });
  const check = h("ul", { "data-part": "check", "aria-label": "Your tensors" }, ...checks.map((one) => one.element));

  // The row in numbers. A column appears with its step; what the student gave stands beside the right number.
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
  const lines = upTo(n_keys).map((key) => {
    const cells = COLUMNS.map(({ spot, whose }) => {
      const text = h("span");
      const element = h("td", { "data-key": key, "data-spot": spot, role: "gridcell", class: whose ? "headroom-beside" : false, tabindex: whose ? false : -1 }, text);
      return { text, element };
    });
    const scoreInput = h("input", { type: "number", step: "any", "data-part": "score-input", "aria-label": `Score with ${sayKey(key)}` });
    const maskBox = h("input", { type: "checkbox", "data-part": "mask-box", "aria-label": `${capital(sayKey(key))} may be attended to` });
    cells[1].element.append(scoreInput);
    cells[COLUMNS.findIndex(({ spot }) => spot === "masked")].element.prepend(maskBox);
    const sign = h("b");
    const head = h("th", { scope: "row", "data-key": key }, sign, h("span", {}, data.keys ? `${key + 1} ${wordOf("keys", key)}` : `key ${key + 1}`));
    return { key, cells, scoreInput, maskBox, head, sign, element: h("tr", {}, head, ...cells.map((one) => one.element)) };
  });
  const totals = COLUMNS.map(() => h("td", { role: "gridcell" }));
  const foot = h("tr", {}, h("th", { scope: "row" }, "sum"), ...totals);
  const ledger = h("table", { "data-part": "ledger", role: "grid", "aria-label": "The row in numbers", "aria-describedby": id },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "key"), ...heads)), h("tbody", {}, ...lines.map((one) => one.element)), h("tfoot", {}, foot));

  /** @param {string} part @param {number} size @param {string} name */
  const chips = (part, size, name) => {
    const all = upTo(size).map((i) => {
      const [label, text, beside] = [h("span", { class: "headroom-note" }), h("span"), h("span", { class: "headroom-note" })];
      return { label, text, beside, element: h("button", { type: "button", class: "headroom-chip", "data-chip": i, tabindex: -1 }, label, text, beside) };
    });
    const [lead, end] = [h("p"), h("p")];
    const row = h("div", { class: "headroom-chips", role: "group", "aria-label": name }, ...all.map((one) => one.element));
    return { lead, end, all, row, element: h("div", { "data-part": part }, lead, row, end) };
  };
  const working = chips("working", Math.max(d_k, n_keys), "Terms of the sum");
  const outcome = chips("output", d_v, "Entries of the output");

  const LETTERS = { q: "Q", k: "K", v: "V", s: "", o: "" };
  /** @type {[T.Letter, number, number, Side, string][]} */
  const shapes = [
    ["q", n_queries, d_k, "queries", "Q, the queries"], ["k", n_keys, d_k, "keys", "K, the keys"], ["s", n_queries, n_keys, "queries", "scores"],
    ["v", n_keys, d_v, "keys", "V, the values"], ["o", n_queries, d_v, "queries", "output"],
  ];
  const matrices = shapes.map(([name, rows, columns, side, text]) => {
    const canvas = h("canvas", { "data-part": name, tabindex: 0, role: "application", "aria-roledescription": "matrix", "aria-describedby": id });
    const title = h("span", {}, text);
    const badge = LETTERS[name] ? [h("b", { class: `headroom-letter headroom-letter-${name}`, "aria-hidden": "true" }, LETTERS[name]), " "] : [];
    const box = h("div", { class: "headroom-matrix" }, h("div", { class: "headroom-title" }, ...badge, title), canvas);
    box.style.flex = `${columns} 1 ${Math.min(70 + CELL * columns, 250)}px`;
    box.style.maxWidth = `${Math.max(150, 80 + (CELL + 6) * columns)}px`;
    return { name, rows, columns, side, canvas, title, box };
  });
  const [entryLegend, scoreLegend] = [legend(), legend()];
  const table = tableView(() => fillTable(see(choice.now())), "Table of all numbers");

  /** @param {string} text */
  const kbd = (text) => h("kbd", {}, text);
  const help = h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Pointer: a number under it lights up where it comes from and where it goes; a click holds on, a second click or ", kbd("Esc"),
      " lets go. A click on another row of Q, of the scores or of the output follows that query."),
    h("p", {}, "Keys: ", kbd("["), " ", kbd("]"), " or ", kbd("Page Up"), " ", kbd("Page Down"), " go a step back and forward, ", kbd("q"), " ", kbd("Q"), " to the next and the previous query. In the numbers of the row, ",
      kbd("↑"), " ", kbd("↓"), " go from key to key, ", kbd("←"), " ", kbd("→"), " from column to column, and ", kbd("→"), " past the last takes the next step. ",
      "In a matrix the arrows move through its cells; up and down in Q, in the scores and in the output change the query. Along the terms of a sum ",
      kbd("←"), " ", kbd("→"), " move. ", kbd("Enter"), " or ", kbd("Space"), " hold on, ", kbd("Esc"), " lets go."),
    h("p", {}, "Numbers are rounded for reading; the arithmetic is exact to 15 digits."),
    needsPython("Python reads what you choose: ", h("code", {}, "widget.selection"), " and ", h("code", {}, "widget.row"),
      ", all numbers of the row; ", h("code", {}, "widget.differences"), " says where your tensors part. Python counts from 0, this picture from 1. Nothing else here needs it."));

  const root = h("div", { class: "headroom-widget headroom-attention-stepper", role: "group", "aria-label": "Attention stepper" },
    controls, changes, live.element, ...(checks.length ? [check] : []),
    h("div", { class: "headroom-body" }, h("div", { class: "headroom-scroll-x" }, ledger), editedNote, h("div", { class: "headroom-right" }, working.element, outcome.element)),
    h("div", { class: "headroom-matrices" }, ...matrices.map(({ box }) => box)),
    h("div", { class: "headroom-legends" }, entryLegend.element, scoreLegend.element), table.element, help);
  el.append(h("div", { class: "headroom-frame" }, root));

  // ------------------------------------------------ choosing
  const canvases = matrices.map(({ canvas }) => canvas);
  const schedule = repaint(() => paint(), { model, names: CHOICES, canvases: [...canvases, root], signal });
  const choice = choices(model, CHOICES, { schedule, signal });

  /** @type {(at: T.At) => Pick<T.Now, "spot" | "key" | "entry">} */
  const place = ({ spot, key: j = null, entry = null }) => ({ spot, key: j, entry });
  /** @param {T.At | null} at */
  const point = (at) => choice.point(at === null ? null : place(at));
  /** @param {T.At} at */
  function hold(at) {
    const to = place(at);
    const same = AIMED.every((name) => (model.get(name) ?? null) === to[name]);
    choice.choose({ ...to, ...(at.query === undefined ? {} : { query: at.query }), locked: !(same && model.get("locked")) });
  }
  /** To another step: the key stays, the kind of number becomes that step's. @param {number} to */
  function go(to) {
    const step = STEPS[Math.min(STEPS.length - 1, Math.max(0, to))];
    if (step !== choice.now().step) choice.choose({ step, spot: null, entry: null });
  }
  /** @param {number} by */
  const stepBy = (by) => go(STEPS.indexOf(choice.now().step) + by);
  /** @param {number} query @param {number} key @param {number} value */
  function setScore(query, key, value) {
    const others = choice.now().edited.filter(([i, j]) => i !== query || j !== key);
    choice.choose({ edited: [...others, [query, key, value]], spot: "scores", key, entry: null });
  }
  /** @param {number} query @param {number} key */
  function flip(query, key) {
    const { flipped } = choice.now();
    const others = flipped.filter(([i, j]) => i !== query || j !== key);
    choice.choose({ flipped: others.length < flipped.length ? others : [...flipped, [query, key]], spot: "masked", key, entry: null });
  }

  // ------------------------------------------------ painting a state

  function paint() {
    const view = see(choice.now());
    paintMatrices({ ...view, colours: themeColours(root) });
    writeControls(view);
    writeLedger(view);
    writeWorking(view);
    writeOutcome(view);
    live.say(`${sayStep(view)}${saySpot(view)}${view.now.locked ? " Held." : ""}`);
    table.update();
  }

  /** @param {T.Shown} _ */
  function writeControls({ now, at, step, changed }) {
    for (const name of CHOICES) root.setAttribute(`data-${name}`, typeof now[name] === "object" ? JSON.stringify(now[name] ?? "none").replaceAll('"', "") : String(now[name]));
    root.setAttribute("data-changed", String(changed));
    querySelect.value = String(now.query);
    stepRange.value = String(at + 1);
    stepRange.setAttribute("aria-valuetext", `step ${at + 1} of ${STEPS.length}, ${step}`);
    write(stepOutput, `${at + 1} of ${STEPS.length}: ${step}`);
    // Not `disabled`: a button that had the focus would drop it, and the next key would reach the notebook.
    back.setAttribute("aria-disabled", String(at === 0));
    next.setAttribute("aria-disabled", String(at === STEPS.length - 1));
    edit.setAttribute("aria-pressed", String(now.editing));
    changes.hidden = !now.editing;
    scaledBox.checked = now.scaled;
    temperatureRange.value = String(Math.log2(now.temperature));
    temperatureRange.setAttribute("aria-valuetext", temperatureOf(now.temperature));
    write(temperatureOutput, temperatureOf(now.temperature));
    reset.setAttribute("aria-disabled", String(!changed));
    editedNote.hidden = !changed;
    check.hidden = changed;
    if (changed) write(editedNote, sayChanges(see(now)));
  }

  // ---- the row in numbers
  /** @param {T.Shown} _ */
  function writeLedger({ now, stages, query, row, at, spot, key, changed }) {
    COLUMNS.forEach(({ spot: its, from, whose }, c) => {
      const hidden = at < from || (whose === "yours" && changed) || (whose === "model" && !changed);
      heads[c].hidden = totals[c].hidden = hidden;
      for (const { cells } of lines) cells[c].element.hidden = hidden;
      const digits = its === "weights" ? 3 : 2;
      lines.forEach(({ key: j, cells, scoreInput, maskBox }) => {
        const index = query * n_keys + j;
        const right = stages[its][index];
        const { text, element } = cells[c];
        const bar = its === "weights" && !whose;
        let shown = say(right, digits);
        if (whose === "model") shown = say(data.untouched.weights[index], digits);
        if (whose === "yours") {
          const mine = yours[its]?.[index] ?? NaN;
          shown = `${agree(its, mine, right, stages.may[index]) ? "=" : "≠"} ${say(mine, digits)}`;
          element.classList.toggle("headroom-differs", shown[0] === "≠");
        }
        if (its === "masked") shown = `${stages.may[index] ? "" : "× "}${shown}`;
        const input = now.editing && its === "scores" && !whose;
        write(text, input ? "" : shown);
        if (bar) element.style.setProperty("--headroom-share", `${Number.isNaN(right) ? 0 : (100 * right).toFixed(1)}%`);
        if (its === "scores" && !whose) {
          scoreInput.hidden = !input;
          // What the reader is typing stays as it is typed.
          if ((scoreInput.value === "" || Number(scoreInput.value) !== right) && document.activeElement !== scoreInput) scoreInput.value = String(Number(right.toFixed(3)));
          element.classList.toggle("headroom-own", owned(now, query, j) !== undefined);
        }
        if (its === "masked") {
          maskBox.hidden = !now.editing;
          maskBox.checked = stages.may[index] === 1;
          element.classList.toggle("headroom-own", now.flipped.some(([i, one]) => i === query && one === j));
        }
        element.classList.toggle("headroom-spot", !whose && its === spot && j === key);
      });
      const sum = its === "powers" ? stages.sums[query] : row(stages[its]).reduce((a, b) => a + b);
      write(totals[c], (its === "powers" || its === "weights") && !whose ? say(sum, digits) : "");
    });
    const exponent = (stages.shifts[query] ? `score − ${say(stages.shifts[query])}`.replace("− −", "+ ") : "score") +
      (now.temperature === 1 ? "" : ` ÷ ${temperatureOf(now.temperature)}`);
    raised.textContent = exponent;
    foot.hidden = at < 3;
    const ofKey = !["q", "output"].includes(spot);
    lines.forEach(({ key: j, element, sign }) => {
      const lit = ofKey && j === key;
      element.classList.toggle("headroom-is-k", lit);
      write(sign, lit ? "K " : "");
    });
    // One cell is the way in with Tab; the arrows do the rest.
    const newest = COLUMNS.findLastIndex(({ from, whose }) => !whose && from <= at);
    const column = COLUMNS.findIndex(({ spot: its, whose, from }) => !whose && its === spot && from <= at);
    const way = lines[key].cells[column < 0 ? newest : column].element;
    for (const { cells } of lines) for (const { element } of cells) if (element.hasAttribute("tabindex")) element.tabIndex = element === way ? 0 : -1;
  }
  /** As Python's comparison does. @param {T.Stage | "output"} stage @param {number} mine @param {number} right @param {unknown} may */
  const agree = (stage, mine, right, may) =>
    mine === right || Math.abs(mine - right) <= 1e-4 * Math.max(1, Math.abs(right)) || (stage === "scores" && !may && mine <= -1e4);

  // ---- the step, written out
  /** @param {T.Chips} part @param {number} size @param {(i: number) => T.Chip} fill @param {number} lit */
  function writeChips(part, size, fill, lit) {
    part.row.hidden = size === 0;
    part.all.forEach(({ label, text, beside, element }, i) => {
      element.hidden = i >= size;
      if (i >= size) return;
      const { name, value, more = "", spoken } = fill(i);
      write(label, name);
      write(text, value);
      write(beside, more);
      beside.hidden = !more;
      element.setAttribute("aria-label", spoken ?? `${name}: ${value}${more ? `, ${more}` : ""}`);
      element.classList.toggle("headroom-spot", i === lit);
      element.setAttribute("aria-pressed", String(i === lit && Boolean(choice.now().locked)));
      element.tabIndex = i === Math.min(Math.max(lit, 0), size - 1) ? 0 : -1;
    });
  }
  /** @param {T.Shown} view */
  function writeWorking(view) {
    const { now, stages, query, step, row, spot, key } = view;
    const [dot, score, masked, share] = SPOTS.map((name) => row(stages[name])[key]);
    const entry = cutEntry(view.entry, step === "mix" ? d_v : d_k);
    const name = sayKey(key);
    const own = owned(now, query, key);
    const T = now.temperature;
    const shift = stages.shifts[query];
    if (step === "compare") {
      write(working.lead, `q · k with ${name}: each entry of the query times the same entry of the key.`);
      writeChips(working, d_k, (c) => ({ name: String(c + 1), value: `${say(cell(q, query, c))} × ${say(cell(k, key, c))} = ${say(cell(q, query, c) * cell(k, key, c))}` }),
        spot === "q" || spot === "k" ? entry : -1);
      write(working.end, `Their sum is the dot product: ${say(dot)}.`);
    } else if (step === "scale") {
      write(working.lead, `The score of ${name}: ` + (own !== undefined ? `you set it to ${say(own)}; the model's is ${say(data.untouched.scores[query * n_keys + key])}.`
        : now.scaled ? `${say(dot)} ÷ √${d_k} = ${say(dot)} ÷ ${plain(rootOfWidth)} = ${say(score)}.` : `${say(dot)}, not divided.`));
      writeChips(working, 0, () => ({ name: "", value: "" }), -1);
      write(working.end, "");
    } else if (step === "mask") {
      write(working.lead, masked === -Infinity ? `${capital(quoted("queries", query))} may not attend to ${name}: its score ${say(score)} becomes −∞, and e to the power of −∞ is 0.`
        : `${capital(quoted("queries", query))} may attend to ${name}: its score stays ${say(score)}.`);
      writeChips(working, 0, () => ({ name: "", value: "" }), -1);
      write(working.end, "");
    } else if (step === "softmax") {
      write(working.lead, `e to the power of each score${T === 1 ? "" : ` ÷ ${temperatureOf(T)}`}` +
        (shift ? `, after ${say(shift)} is taken off all of them: that changes no weight, and keeps the numbers small.` : "."));
      writeChips(working, n_keys, (j) => ({ name: wordOf("keys", j), value: `${say(row(stages.powers)[j])}` }), key);
      write(working.end, `Their sum is ${say(stages.sums[query])}. The weight of ${name}: ${say(row(stages.powers)[key])} ÷ ${say(stages.sums[query])} = ${weight(share)}.`);
    } else {
      const total = stages.output[query * d_v + entry];
      write(working.lead, `Entry ${entry + 1} of the output: each weight times entry ${entry + 1} of its value.`);
      writeChips(working, n_keys, (j) => ({
        name: wordOf("keys", j),
        value: `${weight(row(stages.weights)[j])} × ${say(cell(v, j, entry))} = ${say(row(stages.weights)[j] * cell(v, j, entry))}`,
      }), spot === "output" ? -1 : key);
      write(working.end, `Their sum is entry ${entry + 1} of the output: ${say(total)}.`);
    }
  }
  /** @param {T.Shown} _ */
  function writeOutcome({ stages, query, step, spot, entry, changed }) {
    outcome.element.hidden = step !== "mix";
    if (outcome.element.hidden) return;
    write(outcome.lead, `The output of ${quoted("queries", query)}:`);
    writeChips(outcome, d_v, (c) => {
      const index = query * d_v + c;
      const right = stages.output[index];
      const mine = yours.output?.[index];
      const same = mine !== undefined && agree("output", mine, right, true);
      const more = changed ? `the model's: ${say(data.untouched.output[index])}` : mine === undefined ? "" : `yours: ${same ? "=" : "≠"} ${say(mine)}`;
      return { name: String(c + 1), value: say(right), more, spoken: `entry ${c + 1}: ${say(right)}${more ? `, ${more.replace("≠", "differs,")}` : ""}` };
    }, spot === "output" || spot === "v" ? cutEntry(entry, d_v) : -1);
    write(outcome.end, "");
  }

  // ---- the matrices
  /** Where what is pointed at comes from and goes to: [matrix, row or null for all, column or null for all]. @param {T.Shown} _ */
  function lights({ query, spot, key, entry }) {
    const ofValue = cutEntry(entry, d_v);
    /** @type {T.Light[]} */
    const whole = [["q", query, null], ["k", key, null]];
    /** @type {Partial<Record<T.Spot, T.Light[]>>} */
    const all = {
      q: [["q", query, null], ["q", query, entry], ["k", null, entry], ["s", query, null]],
      k: [...whole, ["q", query, entry], ["k", key, entry], ["s", query, key]],
      v: [["v", key, null], ["v", key, ofValue], ["s", query, key], ["o", query, ofValue]],
      weights: [...whole, ["s", query, key], ["v", key, null], ["o", query, null]],
      output: [["q", query, null], ["s", query, null], ["v", null, ofValue], ["o", query, ofValue]],
    };
    return all[spot] ?? [...whole, ["s", query, key]];
  }
  /** @param {T.Shown} _ @returns {[Float64Array, string]} */
  function shownScores({ stages, at }) {
    if (at >= 3) return [stages.weights, "weights, after the softmax"];
    if (at === 2) return [stages.masked, "scores, after the mask (× hidden)"];
    return at === 1 ? [stages.scores, "scores"] : [stages.dots, "dot products Q Kᵀ"];
  }
  /** @param {Float64Array} values @returns {[low: number, high: number]} */
  function extent(values, signed = false) {
    const finite = values.filter(Number.isFinite);
    if (signed) {
      const most = Math.max(0, ...finite.map(Math.abs));
      return [-most, most];
    }
    return finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 0];
  }
  /** @param {T.Painted} view */
  function paintMatrices(view) {
    const { stages, at, query, now } = view;
    const [scores, text] = shownScores(view);
    const entries = [q, k, v].map(({ values }) => extent(values, true)[1]);
    /** @type {[low: number, high: number]} */
    const scale = [-Math.max(...entries), Math.max(...entries)];
    /** @type {[low: number, high: number]} */
    const own = at >= 3 ? [0, extent(scores)[1]] : extent(scores);
    const lit = lights(view);
    const values = { q: q.values, k: k.values, v: v.values, s: scores, o: stages.output };
    const laid = matrices.map((one) => ({ one, ...lay(one) }));
    const common = Math.min(...laid.map(({ w }) => w)); // without numbers, all cells are of one size
    for (const { one, left, w } of laid) {
      const waits = one.name === "o" && at < 4;
      paintMatrix(one, view, values[one.name], one.name === "s" ? own : scale, lit.filter(([name]) => name === one.name), {
        left, w: common < NUMBERED && w < CELL ? common : w, waits, crossed: one.name === "s" && at >= 2,
      });
      const shape = `${one.rows} × ${one.columns}`;
      const what = { q: "Q, the queries", k: "K, the keys", v: "V, the values", s: text, o: waits ? "output, empty until step 5" : "output" }[one.name];
      write(one.title, one.name === "s" || one.name === "o" ? `${what}` : what.slice(3));
      const moves = { q: "up and down the query, left and right its entries", k: "up and down the key, left and right its entries", v: "up and down the value, left and right its entries",
        s: "up and down the query, left and right the key", o: "up and down the query, left and right the entry" }[one.name];
      one.canvas.setAttribute("aria-label", `${capital(what)}, ${shape} (rows × columns). Row ${"qso".includes(one.name) ? query + 1 : view.key + 1} is lit. Arrow keys: ${moves}.`);
    }
    entryLegend.set(...scale, "Q, K, V and the output share one scale.");
    scoreLegend.set(...own, `${capital(text)}: one scale for all rows.${now.temperature !== 1 && at >= 3 ? ` Temperature ${temperatureOf(now.temperature)}.` : ""}`);
  }
  /** @param {string} word */
  const cut = (word) => (word.length > 9 ? `${word.slice(0, 8)}…` : word);
  /** The room that names take, in pixels. @param {Canvas} canvas @param {Side} side @param {number} size */
  function widest(canvas, side, size) {
    const context = penOf(canvas);
    context.font = "bold 12px system-ui, sans-serif"; // as wide as a name becomes when its row is lit
    return Math.ceil(Math.min(64, Math.max(...upTo(size).map((i) => context.measureText(cut(wordOf(side, i))).width)))) + 8;
  }
  /** Where a matrix's cells start, and how wide they may be. @param {T.Picture} _ */
  function lay({ canvas, side, rows, columns }) {
    const left = widest(canvas, side, rows);
    return { left, w: Math.min(CELL + 6, (canvas.clientWidth - left - 3) / columns) };
  }
  /** @param {T.Picture} one @param {T.Painted} view @param {Float64Array} values @param {[low: number, high: number]} scale @param {T.Light[]} lit @param {T.Laid} laid */
  function paintMatrix({ name, rows, columns, side, canvas }, view, values, [low, high], lit, { left, w, waits, crossed }) {
    const { colours, query, stages } = view;
    const ht = Math.max(14, Math.min(22, w));
    const labelled = w >= LABELLED;
    const words = name === "s" && data.keys;
    const top = !labelled ? 6 : words ? widest(canvas, "keys", columns) : 18;
    const height = Math.ceil(top + rows * ht + 4);
    if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
    for (const [what, value] of Object.entries({ left, top, cellWidth: w, cellHeight: ht })) canvas.dataset[what] = value.toFixed(3);
    const { context } = prepare(canvas);
    const numbered = w >= NUMBERED && !waits;
    /** @param {number} i @param {number} j */
    const crosses = (i, j) => crossed && !stages.may[i * columns + j];
    /** @param {number} i @param {number} j */
    const hidden = (i, j) => waits || crosses(i, j) || !Number.isFinite(values[i * columns + j]);
    const cells = bitmap(rows, columns, (i) => ({ values: upTo(columns).map((j) => (hidden(i, j) ? NaN : values[i * columns + j])), low, high }));
    context.drawImage(cells, left, top, columns * w, rows * ht);
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = "11px system-ui, sans-serif";
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        if (!numbered && !crosses(i, j)) continue;
        const value = values[i * columns + j];
        context.fillStyle = hidden(i, j) ? "#000" : inkOn(colour(high > low ? (value - low) / (high - low) : 0));
        context.fillText(crosses(i, j) ? "×" : say(value), left + (j + 0.5) * w, top + (i + 0.5) * ht + 0.5, w);
      }
    }
    context.beginPath(); // thin lines between the cells
    for (let i = 1; i < rows; i++) context.rect(left, top + i * ht - 0.25, columns * w, 0.5);
    for (let j = 1; j < columns; j++) context.rect(left + j * w - 0.25, top, 0.5, rows * ht);
    context.fillStyle = "rgb(255 255 255 / 0.6)";
    context.fill();
    /** @param {number} i */
    const rowLit = (i) => lit.some(([, row]) => row === i);
    /** @param {number} j */
    const columnLit = (j) => lit.some(([, , column]) => column === j);
    context.fillStyle = colours.text;
    /** @param {boolean} bold */
    const font = (bold) => (context.font = `${bold ? "bold " : ""}12px system-ui, sans-serif`);
    for (let i = 0; i < rows; i++) {
      context.textAlign = "right";
      font(rowLit(i));
      context.fillText(cut(wordOf(side, i)), left - 5, top + (i + 0.5) * ht, 64);
    }
    for (let j = 0; labelled && j < columns; j++) {
      font(columnLit(j));
      context.save();
      context.translate(left + (j + 0.5) * w, top - 5);
      if (words) context.rotate(-Math.PI / 2);
      else context.translate(0, -5);
      context.textAlign = words ? "left" : "center";
      if (words || w >= 17 || j % 5 === 4 || columnLit(j)) context.fillText(words ? cut(wordOf("keys", j)) : String(j + 1), 0, 0);
      context.restore();
    }
    // Wide bands first, so that a single cell's frame stays on top.
    /** @param {T.Light} _ */
    const wide = ([, row, column]) => (row === null || column === null ? 0 : 1);
    for (const [, row, column] of [...lit].sort((a, b) => wide(a) - wide(b))) {
      const [x, y] = [left + (column === null ? 0 : column * w), top + (row === null ? 0 : row * ht)];
      paintLit(context, x, y, column === null ? columns * w : w, row === null ? rows * ht : ht, name, colours);
    }
    if (!lit.length && "qso".includes(name)) paintLit(context, left, top + query * ht, columns * w, ht, name, colours, true);
  }
  /** A frame around cells: queries solid blue, keys dashed orange, values dotted green, scores and output plain. @param {Pen} context @param {number} x @param {number} y @param {number} w @param {number} height @param {T.Letter} name @param {Colours} colours @param {boolean} [thin] */
  function paintLit(context, x, y, w, height, name, colours, thin = false) {
    const kind = name === "s" || name === "o" ? null : name;
    /** @param {string} style @param {number} width @param {number[]} [dash] */
    const line = (style, width, dash = []) => {
      context.setLineDash(dash);
      context.strokeStyle = style;
      context.lineWidth = width;
      context.strokeRect(x, y, w, height);
    };
    if (thin) return line(colours.text, 1);
    line("#fff", 6);
    line("#000", kind ? 4 : 2.5);
    if (kind) line(colours[kind], 3, { q: [], k: [7, 4], v: [3, 3] }[kind]);
    context.setLineDash([]);
  }

  /** @param {T.Shown} _ */
  function fillTable({ stages, query }) {
    /** @param {string} text */
    const head = (text) => h("th", { scope: "col" }, text);
    /** @param {string} caption @param {Side} side @param {number} rows @param {number} columns @param {Float64Array} values @param {(i: number) => string} names @param {number} [digits] */
    const numbers = (caption, side, rows, columns, values, names, digits = 3) => h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, h("td"), ...upTo(columns).map((j) => head(names(j))))),
      h("tbody", {}, ...upTo(rows).map((i) => h("tr", {}, h("th", { scope: "row" }, side === "keys" ? sayKey(i) : sayQuery(i)),
        ...upTo(columns).map((j) => h("td", {}, say(values[i * columns + j], digits)))))));
    /** @param {number} c */
    const entry = (c) => `entry ${c + 1}`;
    return h("div", {}, h("p", {}, `The query that is followed: ${sayQuery(query)}.`),
      numbers("Q, the queries", "queries", n_queries, d_k, q.values, entry), numbers("K, the keys", "keys", n_keys, d_k, k.values, entry),
      numbers("V, the values", "keys", n_keys, d_v, v.values, entry),
      numbers("Dot products Q Kᵀ", "queries", n_queries, n_keys, stages.dots, sayKey), numbers("Scores", "queries", n_queries, n_keys, stages.scores, sayKey),
      numbers("Scores after the mask", "queries", n_queries, n_keys, stages.masked, sayKey), numbers("Weights", "queries", n_queries, n_keys, stages.weights, sayKey),
      numbers("Output", "queries", n_queries, d_v, stages.output, entry));
  }

  // ------------------------------------------------ pointer
  const leave = () => point(null);
  const scoreSpot = () => SPOTS[Math.min(STEPS.indexOf(choice.now().step), 3)];
  /** The cell of a matrix as what is pointed at. @param {T.Picture} _ */
  function inMatrix({ name, rows, columns, canvas }) {
    return (/** @type {MouseEvent} */ event) => {
      const r = canvas.getBoundingClientRect();
      /** @param {string} what */
      const laid = (what) => Number(canvas.dataset[what]);
      const [row, column] = [Math.floor((event.clientY - r.top - laid("top")) / laid("cellHeight")), Math.floor((event.clientX - r.left - laid("left")) / laid("cellWidth"))];
      if (row < 0 || row >= rows || column >= columns) return null;
      return spotOf(name, row, Math.max(0, column));
    };
  }
  /** @param {T.Letter} name @param {number} row @param {number} column @returns {T.At | null} */
  function spotOf(name, row, column) {
    if (name === "k" || name === "v") return { spot: name, key: row, entry: column };
    if (name === "o" && choice.now().step !== "mix") return null;
    return { query: row, ...(name === "s" ? { spot: scoreSpot(), key: column } : { spot: name === "q" ? "q" : "output", entry: column }) };
  }
  for (const one of matrices) {
    const at = inMatrix(one);
    onPointer(one.canvas, signal, (event) => {
      const found = at(event);
      // Another query's row is followed only when it is clicked: the row that is being worked through stays in place.
      if (found && (found.query === undefined || found.query === choice.now().query)) point(found);
    }, leave);
    on(one.canvas, "click", (event) => {
      const found = at(event);
      if (found) hold(found);
      one.canvas.focus({ preventScroll: true });
    });
  }
  /** @type {On} */
  function on(target, type, handle) {
    target.addEventListener(type, handle, { signal });
  }
  /** @param {Element} target */
  const ledgerSpot = (target) => {
    const line = lines.find(({ element }) => element.contains(target));
    const column = line ? line.cells.findIndex(({ element }) => element.contains(target)) : -1;
    return line && (column >= 0 || line.head.contains(target)) ? { spot: column < 0 ? scoreSpot() : COLUMNS[column].spot, key: line.key } : null;
  };
  /** @type {(part: T.Chips) => (target: Element) => T.At | null} */
  const chipSpot = (part) => (target) => {
    const i = part.all.findIndex(({ element }) => element.contains(target));
    if (i < 0) return null;
    if (part === outcome) return { spot: "output", entry: i };
    const view = see(choice.now());
    if (view.step === "compare") return { spot: "k", key: view.key, entry: i };
    return view.step === "mix" ? { spot: "v", key: i, entry: cutEntry(view.entry, d_v) } : { spot: "powers", key: i };
  };
  /** @type {[HTMLElement, (target: Element) => T.At | null][]} */
  const rows = [[ledger, ledgerSpot], [working.row, chipSpot(working)], [outcome.row, chipSpot(outcome)]];
  for (const [element, at] of rows) {
    onPointer(element, signal, (event) => { const found = at(targetOf(event)); if (found) point(found); }, leave);
    on(element, "focusin", (event) => { // to have the focus is to be pointed at
      const found = at(targetOf(event));
      if (found && !choice.now().locked && targetOf(event).matches(":focus-visible")) choice.choose(place(found));
    });
    on(element, "click", (event) => {
      const found = !targetOf(event).closest("input") && at(targetOf(event));
      if (found) hold(found);
    });
  }

  on(querySelect, "change", () => choice.choose({ query: Number(querySelect.value), spot: null, key: null, entry: null, locked: false }));
  on(back, "click", () => stepBy(-1));
  on(next, "click", () => stepBy(1));
  on(stepRange, "input", () => go(Number(stepRange.value) - 1));
  on(edit, "click", () => choice.choose({ editing: !choice.now().editing }));
  on(scaledBox, "change", () => choice.choose({ scaled: scaledBox.checked }));
  on(temperatureRange, "input", () => choice.choose({ temperature: 2 ** Number(temperatureRange.value) }));
  on(reset, "click", () => choice.choose(UNTOUCHED));
  for (const { key: j, scoreInput, maskBox } of lines) {
    on(scoreInput, "input", () => {
      if (scoreInput.value !== "" && Number.isFinite(Number(scoreInput.value))) setScore(choice.now().query, j, Number(scoreInput.value));
    });
    on(scoreInput, "blur", () => schedule()); // an empty field shows its number again
    on(maskBox, "change", () => flip(choice.now().query, j));
  }
  for (const one of checks) {
    if (one.ok) continue;
    const { stage, show, query, column } = one;
    on(show, "click", () => choice.choose({
      query, step: STEP_OF[stage], spot: stage, key: stage === "output" ? null : column, entry: stage === "output" ? column : null, locked: true,
    }));
  }

  // ------------------------------------------------ keys
  /** @type {Record<string, number[]>} */
  const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  /** @param {number} value @param {number} size */
  const clamp = (value, size) => Math.min(size - 1, Math.max(0, value));
  /** @param {T.Picture} one @param {number[]} _ */
  function inCanvas(one, [down, right]) {
    const view = see(choice.now());
    const rowNow = "qso".includes(one.name) ? view.query : view.key;
    const columnNow = one.name === "s" ? view.key : cutEntry(view.entry, one.columns);
    const found = spotOf(one.name, clamp(rowNow + down, one.rows), clamp(columnNow + right, one.columns));
    if (found) choice.choose({ ...place(found), ...(found.query === undefined ? {} : { query: found.query }) });
  }
  /** @param {HTMLElement} td @param {number[]} _ */
  function inLedger(td, [down, right]) {
    const j = clamp(Number(td.dataset.key) + down, n_keys);
    const cells = lines[j].cells.map((one) => one.element);
    const columns = upTo(COLUMNS.length).filter((c) => !COLUMNS[c].whose);
    const from = columns.findIndex((c) => COLUMNS[c].spot === td.dataset.spot);
    const to = clamp(from + right, columns.length);
    if (COLUMNS[columns[to]].from > see(choice.now()).at) { // past the last column that is there: the next step
      stepBy(1);
      paint();
    } else if (right > 0 && to === from) stepBy(1); // the last column: to the output
    cells[columns[to]].focus();
    choice.choose(place({ spot: COLUMNS[columns[to]].spot, key: j }));
  }
  /** @param {T.Chips} part @param {HTMLElement} chip @param {number[]} _ */
  function inChips(part, chip, [down, right]) {
    const shown = part.all.filter(({ element }) => !element.hidden);
    const to = shown[clamp(Number(chip.dataset.chip) + down + right, shown.length)].element;
    to.focus();
    const found = chipSpot(part)(to);
    if (found) choice.choose(place(found));
  }
  guardKeys(root, signal, (event) => {
    const [pressed, target] = [event.key, targetOf(event)];
    if (pressed === "Escape") {
      choice.choose({ locked: false, spot: null, key: null, entry: null });
      return true;
    }
    const typed = lines.find(({ scoreInput }) => scoreInput === target);
    if (typed && (pressed === "ArrowUp" || pressed === "ArrowDown")) {
      const value = Number(typed.scoreInput.value) + (pressed === "ArrowUp" ? SCORE_STEP : -SCORE_STEP);
      typed.scoreInput.value = String(value);
      setScore(choice.now().query, typed.key, value);
      return true;
    }
    const matrix = matrices.find(({ canvas }) => canvas === target);
    const td = target.matches("td[data-spot]") ? target : null;
    const part = target.matches("[data-chip]") ? (outcome.row.contains(target) ? outcome : working) : null;
    if (!matrix && !td && !part) return false;
    if (pressed === "[" || pressed === "PageUp") stepBy(-1);
    else if (pressed === "]" || pressed === "PageDown") stepBy(1);
    else if (pressed === "q" || pressed === "Q") {
      choice.choose({ query: (choice.now().query + (pressed === "q" ? 1 : n_queries - 1)) % n_queries });
    } else if (pressed in ARROWS) {
      if (matrix) inCanvas(matrix, ARROWS[pressed]);
      else if (td) inLedger(td, ARROWS[pressed]);
      else if (part) inChips(part, target, ARROWS[pressed]);
    } else if ((pressed === "Enter" || pressed === " ") && !part) choice.choose({ locked: !choice.now().locked }); // a chip is a button
    else return false;
    return true;
  });

  paint();
  return () => ended.abort();
}

export default { render };
