// @ts-check
/* What one widget was given, and the arithmetic on it: all in double precision, as Python's. */
import { decode } from "../kernel/numbers.js";
/** @import { Model, AttentionStepper as T } from "../types" */

/** @type {T.Step[]} */
export const STEPS = ["compare", "scale", "mask", "softmax", "mix"];
/** @type {T.Stage[]} */
export const SPOTS = ["dots", "scores", "masked", "weights"]; // what each of the first four steps makes
/** @type {T.Changes} */
export const UNTOUCHED = { temperature: 1, scaled: true, flipped: [], edited: [] };
const LARGEST_POWER = 20; // beyond, the softmax is shown as it is computed: with the largest score taken off first

/** @param {number} n */
export function upTo(n) {
  return [...Array(n).keys()];
}

/** Whether some numbers are the reader's own. @param {T.Changes} _ */
export function isEdited({ temperature, scaled, flipped, edited }) {
  return temperature !== 1 || !scaled || flipped.length > 0 || edited.length > 0;
}

/** @param {T.Matrix} matrix @param {number} row @param {number} column */
export function cell(matrix, row, column) {
  return matrix.values[row * matrix.columns + column];
}

/** @param {number} entry @param {number} size */
export function cutEntry(entry, size) {
  return Math.min(entry, size - 1);
}

/** @param {T.Now} now @param {number} query @param {number} key */
export function owned(now, query, key) {
  return now.edited.find(([i, j]) => i === query && j === key)?.[2];
}

/** As Python's comparison does. @param {T.Stage | "output"} stage @param {number} mine @param {number} right @param {unknown} may */
export function agree(stage, mine, right, may) {
  return mine === right || Math.abs(mine - right) <= 1e-4 * Math.max(1, Math.abs(right)) || (stage === "scores" && !may && mine <= -1e4);
}

/** Matrices that lie in a row of numbers. @param {Float64Array} all @param {...[number, number]} shapes @returns {T.Matrix[]} */
function cut(all, ...shapes) {
  let at = 0;
  return shapes.map(([rows, columns]) => ({ rows, columns, values: all.subarray(at, (at += rows * columns)) }));
}

export class Data {
  /** @param {Model<T.Traits>} model */
  constructor(model) {
    const facts = this.facts = model.get("_facts");
    const { n_queries, n_keys, d_k, d_v, given } = facts;
    const [q, k, v] = cut(decode(Float64Array, model.get("_numbers")), [n_queries, d_k], [n_keys, d_k], [n_keys, d_v]);
    this.q = q;
    this.k = k;
    this.v = v;
    this.mask = decode(Uint8Array, model.get("_mask"));
    /** @type {[number, number][]} */
    const shapes = given.map((stage) => [n_queries, stage === "output" ? d_v : n_keys]);
    const theirs = cut(decode(Float64Array, model.get("_yours")), ...shapes);
    /** @type {Partial<Record<T.Stage | "output", Float64Array>>} */
    this.yours = Object.fromEntries(given.map((stage, i) => [stage, theirs[i].values]));
    this.root = Math.sqrt(d_k);
    this.dots = this.products();
    this.last = { name: "", ...this.compute(UNTOUCHED) };
    this.untouched = this.last;
  }
  products() {
    const { q, k, facts: { n_queries, n_keys, d_k } } = this;
    const dots = new Float64Array(n_queries * n_keys);
    for (let i = 0; i < n_queries; i++)
      for (let j = 0; j < n_keys; j++)
        for (let c = 0; c < d_k; c++) dots[i * n_keys + j] += q.values[i * d_k + c] * k.values[j * d_k + c];
    return dots;
  }
  /** @param {T.Changes} now */
  stages(now) {
    const name = JSON.stringify([now.temperature, now.scaled, now.flipped, now.edited]);
    if (this.last.name !== name) this.last = { name, ...this.compute(now) };
    return this.last;
  }
  /** Every step for every query, with the reader's changes. @param {T.Changes} _ */
  compute({ temperature, scaled, flipped, edited }) {
    const { dots, mask, v, root } = this;
    const { n_queries, n_keys, d_v } = this.facts;
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
  /** What is shown: the reader's choice, and what it means where the reader chose nothing. @param {T.Now} now */
  look(now) {
    const { n_keys } = this.facts;
    const stages = this.stages(now);
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
}
