// @ts-check
/* What one widget was given, and the arithmetic on it. Numbers count from 0, as they lie in memory. */
import { clamp, decode } from "../kernel/numbers.js";
/** @import { Model, NormExplorer as T } from "../types" */

/** @type {T.Norm[]} */
export const NORMS = ["none", "LayerNorm", "RMSNorm", "BatchNorm"];
export const MOVED = 0.001; // by how much an output must move to be marked
const SAME = 1e-5; // relative to outputs of size 1: float32 computes no better

/** The largest size of some numbers. @param {Float64Array} values */
export function reachOf(values) {
  return values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
}

export class Data {
  /** @param {Model<T.Traits>} model */
  constructor(model) {
    const { shape, words, gamma, beta, module } = model.get("_facts");
    const [samples, tokens, features] = shape;
    this.samples = samples;
    this.tokens = tokens;
    this.features = features;
    this.several = this.samples * this.tokens;
    this.size = this.several * this.features;
    this.all = [...Array(this.size).keys()];
    this.words = words;
    this.gamma = gamma;
    this.beta = beta;
    this.hasAffine = Boolean(gamma || beta);
    this.module = module; // what is known of the reader's own
    this.start = decode(Float64Array, model.get("_start"));
    this.theirs = decode(Float64Array, model.get("_theirs"));
    /** @type {Partial<Record<T.Norm, { name: string, out: Float64Array, roots: Float64Array }>>} */
    this.starting = {}; // what each norm makes of the x it started from, while ε and the rest stay
  }
  /** @param {T.Place} _ */
  at({ sample, token, feature }) {
    return (sample * this.tokens + token) * this.features + feature;
  }
  /** @param {number} one */
  place(one) {
    const { tokens, features } = this;
    return { sample: Math.floor(one / (tokens * features)), token: Math.floor(one / features) % tokens, feature: one % features };
  }
  /** Which numbers share mean and variance with one. @param {T.Norm} norm @param {number} one */
  members(norm, one) {
    const { several, features } = this;
    if (norm === "none") return [one];
    if (norm === "BatchNorm") return Array.from({ length: several }, (_, i) => i * features + (one % features));
    const first = one - (one % features);
    return Array.from({ length: features }, (_, i) => first + i);
  }
  /** Mean and variance of some numbers; RMSNorm takes no mean off, so that its variance is the mean square. @param {T.Norm} norm @param {Float64Array} x @param {number[]} group */
  statistics(norm, x, group) {
    let mean = 0, variance = 0;
    if (norm !== "RMSNorm") for (const one of group) mean += x[one] / group.length;
    for (const one of group) variance += (x[one] - mean) ** 2 / group.length;
    return { mean, variance };
  }
  /** What a norm makes of x: { out, roots }, a number each; `roots` is what it was divided by. @param {T.Norm} norm @param {Float64Array} x @param {number} eps @param {boolean} affine */
  normalise(norm, x, eps, affine) {
    const { several, features, size, gamma, beta } = this;
    const out = Float64Array.from(x);
    const roots = new Float64Array(size).fill(1);
    if (norm === "none") return { out, roots };
    const n = norm === "BatchNorm" ? features : several;
    for (let i = 0; i < n; i++) {
      const group = this.members(norm, norm === "BatchNorm" ? i : i * features);
      const { mean, variance } = this.statistics(norm, x, group);
      const root = Math.sqrt(variance + eps);
      for (const one of group) {
        const feature = one % features;
        roots[one] = root;
        out[one] = (x[one] - mean) / root;
        if (affine && gamma) out[one] *= gamma[feature];
        if (affine && beta && norm !== "RMSNorm") out[one] += beta[feature];
      }
    }
    return { out, roots };
  }
  /** A step suits the numbers around the chosen one: the power of ten between 3 and 32 % of their spread. @param {Float64Array} x @param {number} chosen */
  stepOf(x, chosen) {
    const rest = this.all.filter((one) => one !== chosen);
    const { variance } = rest.length ? this.statistics("LayerNorm", x, rest) : { variance: 0 };
    const spread = Math.sqrt(variance) || Math.abs(x[rest[0] ?? chosen]) || 1;
    return clamp(10 ** Math.floor(Math.log10(spread * 1.0001) - 0.5), 1e-9, 1e4);
  }
  /** @param {T.Norm} norm @param {T.Now} _ */
  atStart(norm, { eps, affine }) {
    const { start, starting } = this;
    const name = `${eps} ${affine}`;
    const known = starting[norm];
    return known?.name === name ? known : (starting[norm] = { name, ...this.normalise(norm, start, eps, affine) });
  }
  /** @param {Float64Array} now @param {Float64Array} then */
  moved(now, then) {
    return this.all.filter((one) => Math.abs(now[one] - then[one]) >= MOVED);
  }
  /** @param {T.Now} _ @param {T.Norm} [of] */
  differing({ norm, eps, affine }, of = norm) {
    const { start, theirs, all } = this;
    const { out, roots } = this.normalise(of, start, eps, affine);
    const most = reachOf(start);
    const where = all.filter((one) => Math.abs(out[one] - theirs[one]) > SAME * Math.max(1, Math.abs(out[one])) + (1e-6 * most) / roots[one]);
    return { where, out, largest: all.reduce((top, one) => Math.max(top, Math.abs(out[one] - theirs[one])), 0) };
  }
  /** What is shown of x. @param {T.Now} now @param {Float64Array} x @returns {T.Look} */
  look(now, x) {
    const one = this.at(now);
    const outs = /** @type {T.Look["outs"]} */ ({});
    const changed = /** @type {T.Look["changed"]} */ ({});
    for (const norm of NORMS) {
      outs[norm] = this.normalise(norm, x, now.eps, now.affine).out;
      changed[norm] = this.moved(outs[norm], this.atStart(norm, now).out);
    }
    const group = this.members(now.norm, one);
    return {
      now, x, one, outs, changed, group,
      place: this.place(one), value: x[one], result: outs[now.norm][one],
      edited: this.all.filter((i) => x[i] !== this.start[i]),
      stats: this.statistics(now.norm, x, group),
    };
  }
}
