// @ts-check
/* The known mistakes in the browser's Vision Transformer: those of headroom/mistakes/, by their names there, each the
 * steps that the wrong code takes. The batch is one image. tests/test_digit_pad.py holds all of them against Python's. */
import { ViT, reshape, softmax, transpose } from "./vit.js";
/** @typedef {Partial<ViT> & ThisType<ViT>} Steps */

const { prototype: right } = ViT;

/** @type {Record<string, Steps>} */
export const MISTAKES = {
  // Attention
  unscaled: { divisor: () => 1 },
  by_d_head: { divisor: (width) => width },
  by_d_model: { divisor(width) { return Math.sqrt(this.n_heads * width); } },
  scaled_after: {
    divisor: () => 1,
    weigh(scores) {
      // One head's width: the scores no longer tell it.
      const root = Math.sqrt(this.weights.class_token.length / this.n_heads);
      return right.weigh.call(this, scores).map((rows) => rows.map((row) => row.map((weight) => weight / root)));
    },
  },
  transposed: { compare(q, k) { return right.compare.call(this, k, q); } },
  columns: { weigh: (scores) => scores.map((rows) => transpose(transpose(rows).map(softmax))) },
  over_heads: {
    weigh(scores) {
      const pairs = transpose(scores.map((rows) => reshape(rows, rows.length ** 2)[0])).map(softmax); // a row for each pair of tokens
      return transpose(pairs).map((row) => reshape([row], scores[0].length));
    },
  },
  q_for_v: { maps: () => ["w_q", "w_k", "w_q"] },
  k_for_v: { maps: () => ["w_q", "w_k", "w_k"] },
  shared_qk: { maps: () => ["w_q", "w_q", "w_v"] },
  shared_qkv: { maps: () => ["w_q", "w_q", "w_q"] },
  sliced: {
    project(x, at) {
      if (at.endsWith("w_o")) return right.project.call(this, x, at);
      const { [`${at}.weight`]: weight, [`${at}.bias`]: bias } = this.weights;
      const width = bias.length / this.n_heads;
      return x.map((row) => Float64Array.from(bias, (start, o) => {
        const first = Math.floor(o / width) * width; // of the head's own features
        let total = start;
        for (let i = first; i < first + width; i++) total += weight[o * row.length + i] * row[i];
        return total;
      }));
    },
  },
  unregistered: {}, // it is never trained, and computes the same
  view_split: {
    splitHeads(x) {
      const rows = reshape(x, x[0].length / this.n_heads);
      return Array.from({ length: this.n_heads }, (_, h) => rows.slice(h * x.length, (h + 1) * x.length));
    },
  },
  view_merge: { mergeHeads: (heads) => reshape(heads.flat(), heads.length * heads[0][0].length) },
  averaged: {
    mergeHeads(heads) {
      const mean = heads[0].map((row, token) => row.map((_, i) => heads.reduce((total, rows) => total + rows[token][i], 0) / heads.length));
      return right.mergeHeads.call(this, heads.map(() => mean));
    },
  },
  no_output: { mix: (merged) => merged },
  // Positions
  no_positions: { positions: (x) => x },
  by_batch: { positions(x) { return x.map((row) => this.place(row, 0)); } },
  class_without_position: { positions(x) { return x.map((row, token) => (token ? this.place(row, token) : row)); } },
  // LayerNorm
  over_batch: { normalized(x) { return x.map((row) => row.map((value) => this.normalize(Float64Array.of(value))[0])); } },
  over_tokens: { normalized(x) { return transpose(transpose(x).map((column) => this.normalize(column))); } },
  over_tokens_and_features: { normalized(x) { return reshape([this.normalize(reshape(x, x.length * x[0].length)[0])], x[0].length); } },
  root_mean_square: { meanOf: () => 0, varianceOf: (values) => values.reduce((total, value) => total + value ** 2, 0) / values.length },
  not_centred: { meanOf: () => 0 },
  unbiased: { varianceOf(values) { return right.varianceOf.call(this, values) * values.length / (values.length - 1); } },
  eps_outside: { root(variance) { return Math.sqrt(variance) + this.eps; } },
  no_eps: { root: Math.sqrt },
  no_root: { root(variance) { return variance + this.eps; } },
  // Blocks
  residual_of_norm: { join(_x, read, wrote) { return right.join.call(this, read, read, wrote); } },
  no_residual: { join: (_x, _read, wrote) => wrote },
  no_feed_forward: { feedForward: (x) => x.map((row) => new Float64Array(row.length)) },
  repeated_block: { blockOf: () => 0 },
  no_final_norm: { finalNorm: (x) => x },
  // Images and the loss
  plain_reshape: { cut(image) { return reshape([image], image.length / this.side ** 2); } },
  no_class_token: { withClass: (_token, patches) => patches },
  class_at_the_end: { withClass: (token, patches) => [...patches, token] },
  softmax_twice: { head: softmax },
};

/** The model with a mistake; null: as it is. @param {ViT} model @param {string | null} name @returns {ViT} */
export function withMistake(model, name) {
  return name === null ? model : Object.assign(Object.create(model), MISTAKES[name]);
}
