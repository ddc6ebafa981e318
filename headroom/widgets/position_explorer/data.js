// @ts-check
/* The encodings that a widget was given or computes. What was computed last is kept. */
import { bitmap } from "../kernel/canvas.js";
import { decode } from "../kernel/numbers.js";
import { allSimilarities, byDistance, dot, encodingOf, frequencies, pairAt, sinCosRow } from "./encodings.js";
/** @import { Model, PositionExplorer as T } from "../types" */

export const ROTATION = 1 - 1e-6; // how well a rotation fits, in float32

export class Data {
  /** @param {Model<T.Traits>} model */
  constructor(model) {
    this.model = model;
    this.facts = model.get("_facts");
    /** @type {Partial<Record<T.Kind, T.Table>>} */
    this.tables = {};
    if ("shape" in this.facts.learned) this.tables.learned = { values: decode(Float32Array, model.get("_learned")), ...this.facts.learned };
    this.q = decode(Float32Array, model.get("_q"));
    this.k = decode(Float32Array, model.get("_k"));
    this.revision = 0; // of yours
    this.readYours();
    /** @type {T.Kind[]} */
    const known = ["sin-cos", "learned", "rotary", "yours"];
    this.kinds = known.filter((kind) => kind in this.tables || kind === "sin-cos" || kind === "rotary");
    /** @type {Map<string, unknown>} */
    this.kept = new Map();
  }
  readYours() {
    const { model } = this;
    const shape = model.get("_yours_facts");
    if ("shape" in shape) this.tables.yours = { values: decode(Float32Array, model.get("_yours")), ...shape };
    this.revision += 1;
  }
  /** @param {T.Kind} kind @param {number} dModel */
  widthOf(kind, dModel) {
    return this.tables[kind]?.shape[1] ?? (kind === "rotary" && this.q.length ? this.q.length : dModel);
  }
  /** One encoding for a state. @param {T.Kind} kind @param {T.Now} _ @returns {T.Encoding} */
  encoding(kind, { base, d_model, n_positions: n }) {
    const { tables: { [kind]: table }, q, k } = this;
    const width = this.widthOf(kind, d_model);
    return this.keep([kind, table ? "" : base, width, n, kind === "yours" ? this.revision : ""].join(), () => {
      const ones = new Float32Array(width).fill(1);
      return encodingOf(kind, table, { n, width, base, query: q.length ? q : ones, key: q.length ? k : ones });
    });
  }
  /** What is asked for by name, or made and kept; the oldest of many goes. @template Made @param {string} name @param {() => Made} make @returns {Made} */
  keep(name, make) {
    const { kept } = this;
    const found = /** @type {Made} */ (kept.get(name) ?? make());
    kept.delete(name);
    kept.set(name, found);
    if (kept.size > 12) kept.delete([...kept.keys()][0]);
    return found;
  }
  /** How alike two positions are; NaN where one has no row, or a row without direction has a cosine. @param {T.Encoding} one @param {T.Measure} measure @param {number} p @param {number} other */
  similarity(one, measure, p, other) {
    const [a, b] = [one.row(p), one.key(other)];
    if (!a || !b) return NaN;
    return measure === "dot" ? dot(a, b) * one.scale : dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  }
  /** All of them `(n, n)`, their extent, and what they come to by distance: index n − 1 + distance. @param {T.Encoding} one @param {T.Measure} measure */
  similarities(one, measure) {
    return (one.similarities[measure] ??= byDistance(allSimilarities(one, measure), one));
  }
  /** The one rotation that best takes every position's pair to the pair `shift` positions on: its angle, and how well it
   * fits, from 0 to 1: a rotation exactly (2 a·b against a² + b², a the turned pair and b the other, over all positions). @param {T.Encoding} one @param {number} pair @param {number} shift */
  fit(one, pair, shift) {
    let [along, across, before, after] = [0, 0, 0, 0];
    for (let p = Math.max(0, -shift); p < one.rows.length && p + shift < one.rows.length; p++) {
      const [a, b] = [pairAt(one, one.rows[p], pair), pairAt(one, one.rows[p + shift], pair)];
      if (!a || !b) continue;
      along += a[0] * b[0] + a[1] * b[1];
      across += a[0] * b[1] - a[1] * b[0];
      before += a[0] ** 2 + a[1] ** 2;
      after += b[0] ** 2 + b[1] ** 2;
    }
    return { angle: Math.atan2(across, along), fits: (2 * Math.hypot(along, across)) / (before + after) };
  }
  /** How many pairs one rotation each takes a shift further. @param {T.Encoding} one @param {number} shift */
  turning(one, shift) {
    return (one.fits[shift] ??= Array.from({ length: one.width >> 1 }, (_, pair) => this.fit(one, pair, shift)).filter((its) => its.fits > ROTATION).length);
  }
  /** Where yours and sin-cos differ by more than rounding, row by row. @param {number} base */
  differences(base) {
    const { tables, revision } = this;
    const { yours } = tables;
    return yours && this.keep(`differences ${base} ${revision}`, () => {
      const { shape: [rows, width], values } = yours;
      const omegas = frequencies(width, base);
      const right = new Float64Array(width);
      /** @type {{ position: number, dimension: number, yours: number, right: number } | null} */
      let first = null;
      let [count, most] = [0, 0];
      for (let p = 0; p < rows; p++) {
        sinCosRow(p, omegas, right);
        for (let j = 0; j < width; j++) {
          const off = Math.abs(values[p * width + j] - right[j]);
          if (off > most) most = off;
          if (off <= 3e-6 * (1 + p * omegas[j >> 1])) continue; // float32 rounds large angles
          count += 1;
          first ??= { position: p, dimension: j, yours: values[p * width + j], right: right[j] };
        }
      }
      return { rows, width, first, count, most };
    });
  }
  /** One pixel a number; rows that do not exist are grey. @param {T.Encoding} one */
  tablePicture(one) {
    const none = new Float64Array(one.width).fill(NaN);
    return (one.pictures.table ??= bitmap(one.n, one.width, (p) => ({ values: one.rows[p] ?? none, low: -one.limit, high: one.limit })));
  }
  /** @param {T.Encoding} one @param {T.Measure} measure */
  matrixPicture(one, measure) {
    const { values, low, high } = this.similarities(one, measure);
    return (one.pictures[measure] ??= bitmap(one.n, one.n, (p) => ({ values: values.subarray(p * one.n, (p + 1) * one.n), low, high })));
  }
}
