// @ts-check
/* What is shown, in words. */
import { h } from "../kernel/elements.js";
import { numbersTable } from "../kernel/table.js";
import { list, number, visible } from "../kernel/words.js";
import { STEPS, cell, cutEntry, owned, upTo } from "./data.js";
/** @import { Data } from "./data.js" */
/** @import { Side, AttentionStepper as T } from "../types" */

/** A number to read: two digits after the point, three for a weight; very large ones in powers of ten. @param {number} value @param {number} [digits] */
export function say(value, digits = 2) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (Math.abs(value) >= 1e5) return value.toExponential(2).replace("e+", " · 10^").replace("-", "−");
  return number(Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value, digits); // no −0.00
}

/** @param {number} value */
export function weight(value) {
  return say(value, 3);
}

/** @param {number} value */
export function plain(value) {
  return say(value).replace(/\.?0+$/, ""); // 2, 1.41
}

/** @param {number} value */
export function temperatureOf(value) {
  return say(value, value < 1 ? 3 : 1).replace(/\.?0+$/, "");
}

export class Words {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
  }
  /** @param {Side} side @param {number} i */
  wordOf(side, i) {
    const { data } = this;
    return (data.facts[side] ? visible(data.facts[side][i]) : String(i + 1));
  }
  /** @param {Side} side @param {number} i */
  quoted(side, i) {
    const { data } = this;
    return (data.facts[side] ? `“${this.wordOf(side, i)}”` : `${side === "keys" ? "key" : "query"} ${i + 1}`);
  }
  /** @param {number} j */
  sayKey(j) {
    const { data } = this;
    return `key ${j + 1}` + (data.facts.keys ? ` “${this.wordOf("keys", j)}”` : "");
  }
  /** @param {number} i */
  sayQuery(i) {
    const { data } = this;
    return `query ${i + 1}` + (data.facts.queries ? ` “${this.wordOf("queries", i)}”` : "");
  }
  /** @param {T.Shown} _ */
  sayStep({ stages, query, step, row, best, at, now }) {
    const { root, facts: { n_keys, d_k } } = this.data;
    const who = this.quoted("queries", query);
    const numbered = `Step ${at + 1} of ${STEPS.length}, ${step}:`;
    if (step === "compare") {
      return `${numbered} the query of ${who} meets every key in a dot product, q · k. The largest is with ${this.sayKey(best)}: ${say(row(stages.dots)[best])}.`;
    }
    if (step === "scale") {
      const divide = `by √d_k = √${d_k} = ${plain(root)}`;
      return now.scaled
        ? `${numbered} each dot product is divided ${divide}. The largest score is with ${this.sayKey(best)}: ${say(row(stages.scores)[best])}.`
        : `${numbered} here each dot product would be divided ${divide}; you have switched that off. The largest score is with ${this.sayKey(best)}: ${say(row(stages.scores)[best])}.`;
    }
    const may = row(stages.may);
    const hidden = may.reduce((count, yes) => count + (yes ? 0 : 1), 0);
    if (hidden === n_keys) return `${numbered} the mask hides every key from ${who}: a softmax over nothing has no meaning, and gives NaN.`;
    if (step === "mask") {
      return hidden
        ? `${numbered} ${hidden} of ${n_keys} keys are hidden from ${who} (×): their scores become −∞.`
        : `${numbered} nothing is hidden from ${who}; every score stays.`;
    }
    const weights = Array.from(row(stages.weights), weight);
    const equal = weights.flatMap((one, key) => (one === weights[best] ? [this.sayKey(key)] : []));
    const most = equal.length > 1 && equal.length < 4 ? `${list(equal)} (${weights[best]} each)` : `${this.sayKey(best)} (${weights[best]})`;
    const soften = now.temperature === 1 ? "e to the power of each score" : `e to the power of each score divided by the temperature ${temperatureOf(now.temperature)}`;
    if (step === "softmax") return `${numbered} ${soften}, divided by the sum of all. The weights sum to 1; most goes to ${most}.`;
    return `${numbered} the output of ${who} is the sum of all values, each times its weight. Most comes from ${most}.`;
  }
  /** What the reader points at, and where it comes from or goes. @param {T.Shown} view */
  saySpot(view) {
    const { q, k, v } = this.data;
    const { d_k, d_v } = this.data.facts;
    const { now, stages, query, row, spot, key, at } = view;
    if (now.spot === null) return "";
    const entry = cutEntry(view.entry, spot === "v" || spot === "output" ? d_v : d_k);
    /** @param {T.Stage} name */
    const value = (name) => row(stages[name])[key];
    const [nth, its] = [`entry ${entry + 1}`, this.quoted("keys", key)];
    /** @type {Record<T.Spot, () => string>} */
    const pairs = {
      q: () => `${nth} of the query, ${say(cell(q, query, entry))}, takes part in every score of this row.`,
      k: () => `${nth} of ${this.sayKey(key)}, ${say(cell(k, key, entry))}: times ${nth} of the query, ${say(cell(q, query, entry))}, it adds ` +
        `${say(cell(q, query, entry) * cell(k, key, entry))} to the dot product.`,
      v: () => `${nth} of the value of ${its}, ${say(cell(v, key, entry))}` + (at < 4 ? ", which waits for step 5."
        : `: times the weight ${weight(value("weights"))}, it adds ${say(value("weights") * cell(v, key, entry))} to ${nth} of the output.`),
      dots: () => `q · k with ${this.sayKey(key)}, ${say(value("dots"))}: row ${query + 1} of Q times row ${key + 1} of K.`,
      scores: () => `the score with ${this.sayKey(key)}, ${say(value("scores"))}: ${say(value("dots"))} divided by ${plain(this.data.root)}.`,
      masked: () => `the score with ${this.sayKey(key)} after the mask, ${say(value("masked"))}.`,
      powers: () => `e to the power of the score with ${this.sayKey(key)}, ${say(value("powers"))}.`,
      weights: () => `the weight of ${this.sayKey(key)}, ${weight(value("weights"))}: the share in which row ${key + 1} of V enters the output.`,
      output: () => `${nth} of the output, ${say(stages.output[query * d_v + entry])}: the weights times column ${entry + 1} of V.`,
    };
    if (spot === "scores" && (!now.scaled || owned(now, query, key) !== undefined)) {
      return ` Pointing at the score with ${this.sayKey(key)}, ${say(value("scores"))}${owned(now, query, key) === undefined ? ", not divided." : ", which you set."}`;
    }
    return ` Pointing at ${pairs[spot]()}`;
  }
  /** @param {T.Shown} _ */
  sayChanges({ now, query }) {
    const { data, data: { facts: { n_keys } } } = this;
    const parts = [];
    if (!now.scaled) parts.push(`no division by √d_k`);
    for (const [i, j, value] of now.edited) {
      if (i === query) parts.push(`score with ${this.quoted("keys", j)} ${say(value)} in place of ${say(data.untouched.scores[i * n_keys + j])}`);
    }
    for (const [i, j] of now.flipped) {
      if (i === query) parts.push(`${this.quoted("keys", j)} ${data.mask[i * n_keys + j] ? "hidden" : "shown"}`);
    }
    if (now.temperature !== 1) parts.push(`temperature ${temperatureOf(now.temperature)}`);
    const others = [...now.edited, ...now.flipped].filter(([i]) => i !== query).length;
    if (others) parts.push(`${others} ${others === 1 ? "change" : "changes"} in other rows`);
    return `These are your numbers now, not the model's: ${list(parts)}.${data.facts.given.length ? " The comparison with your tensors waits until you reset." : ""}`;
  }

  /** All numbers, as tables. @param {T.Shown} _ */
  tables({ stages, query }) {
    const { q, k, v, facts: { d_v, n_keys } } = this.data;
    const [queries, keys] = [(/** @type {number} */ i) => this.sayQuery(i), (/** @type {number} */ j) => this.sayKey(j)];
    /** @param {number} c */
    const entry = (c) => `entry ${c + 1}`;
    /** @param {string} caption @param {T.Matrix} matrix @param {(i: number) => string} rows @param {(j: number) => string} columns */
    const table = (caption, matrix, rows, columns) => numbersTable(caption, ["", ...upTo(matrix.columns).map(columns)],
      upTo(matrix.rows).map((i) => ({ name: rows(i), cells: upTo(matrix.columns).map((j) => say(cell(matrix, i, j), 3)) })));
    /** @param {string} caption @param {Float64Array} values */
    const square = (caption, values) => table(caption, { rows: q.rows, columns: n_keys, values }, queries, keys);
    return h("div", {}, h("p", {}, `The query that is followed: ${this.sayQuery(query)}.`),
      table("Q, the queries", q, queries, entry), table("K, the keys", k, keys, entry), table("V, the values", v, keys, entry),
      square("Dot products Q Kᵀ", stages.dots), square("Scores", stages.scores), square("Scores after the mask", stages.masked), square("Weights", stages.weights),
      table("Output", { rows: q.rows, columns: d_v, values: stages.output }, queries, entry));
  }
}
