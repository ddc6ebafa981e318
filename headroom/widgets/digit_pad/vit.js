// @ts-check
/* The course's Vision Transformer in the browser, for pages without Python: what headroom/reference/vit.py computes for
 * one image, in steps that a mistake can replace. Tokens are rows of float64. */
import { decode } from "../kernel/numbers.js";
/** @import { DigitPad as T } from "../types" */
/** @typedef {Float64Array<ArrayBuffer>} Row */
/** @typedef {Row[]} Rows */
/** @typedef {Record<string, Row>} Weights by their names in the state_dict */

/** @param {ArrayLike<number>} values */
export function softmax(values) {
  const powers = new Float64Array(values.length);
  let [most, total] = [-Infinity, 0];
  for (let i = 0; i < values.length; i++) most = Math.max(most, values[i]);
  for (let i = 0; i < values.length; i++) total += powers[i] = Math.exp(values[i] - most);
  for (let i = 0; i < values.length; i++) powers[i] /= total;
  return powers;
}

/** @param {Rows} rows */
export function transpose(rows) {
  return Array.from(rows[0], (_, column) => Float64Array.from(rows, (row) => row[column]));
}

/** Rows, all of one width, one after the other. @param {Rows} rows */
function join(rows) {
  const { length: width } = rows[0];
  const all = new Float64Array(rows.length * width);
  rows.forEach((row, i) => all.set(row, i * width));
  return all;
}

/** The same numbers in rows of another width. @param {Rows} rows @param {number} width */
export function reshape(rows, width) {
  const all = join(rows);
  return Array.from({ length: all.length / width }, (_, i) => all.subarray(i * width, (i + 1) * width));
}

/** @param {Rows} x @param {Rows} y */
function sum(x, y) {
  return x.map((row, i) => row.map((value, j) => value + y[i][j]));
}

/** `x Wᵀ + b` for each row, as `nn.Linear`. @param {Rows} x @param {Row} weight @param {Row} bias */
function linear(x, weight, bias) {
  return x.map((row) => {
    const { length: inputs } = row;
    const out = bias.slice();
    let o = 0;
    for (; o + 3 < out.length; o += 4) {
      // Four sums that do not wait for each other, for each number that is read.
      let [a, b, c, d] = [0, 0, 0, 0];
      const [first, second, third] = [o * inputs, (o + 1) * inputs, (o + 2) * inputs];
      const fourth = (o + 3) * inputs;
      for (let i = 0; i < inputs; i++) {
        const value = row[i];
        a += weight[first + i] * value;
        b += weight[second + i] * value;
        c += weight[third + i] * value;
        d += weight[fourth + i] * value;
      }
      out[o] += a;
      out[o + 1] += b;
      out[o + 2] += c;
      out[o + 3] += d;
    }
    for (; o < out.length; o++) {
      for (let i = 0, at = o * inputs; i < inputs; i++) out[o] += weight[at + i] * row[i];
    }
    return out;
  });
}

/** x Φ(x), with the error function to 1.5e-7: Abramowitz & Stegun 1964, formula 7.1.26. @param {number} x */
function gelu(x) {
  const z = Math.abs(x) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * z);
  const rest = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-z * z);
  return x * (x < 0 ? rest / 2 : 1 - rest / 2);
}

/** The right steps. A mistake is some of them written otherwise, as in headroom/mistakes/. */
export class ViT {
  /** @param {T.Facts} facts @param {Weights} weights */
  constructor({ n_layers, n_heads, side, eps }, weights) {
    this.n_layers = n_layers;
    this.n_heads = n_heads;
    this.side = side; // patches along each side
    this.eps = eps;
    this.weights = weights;
  }
  /** Logits, and attention weights by layer and head, a row for each query.
   * @param {ArrayLike<number>} pixels bytes, row by row */
  read(pixels) {
    const { weights: w } = this;
    /** @type {Rows[][]} */
    const maps = [];
    const patches = linear(this.cut(Float64Array.from(pixels, (byte) => byte / 255)), w["embed.projection.weight"], w["embed.projection.bias"]);
    let x = this.positions(this.withClass(w.class_token, patches));
    for (let layer = 0; layer < this.n_layers; layer++) x = this.block(x, `encoder.blocks.${this.blockOf(layer)}.`, maps);
    const [head] = linear([this.finalNorm(x)[0]], w["head.weight"], w["head.bias"]);
    return { logits: this.head(head), maps };
  }

  // ------------------------------------------------ images
  /** @param {Row} image */
  cut(image) {
    const width = Math.sqrt(image.length);
    const size = width / this.side;
    return Array.from({ length: this.side ** 2 }, (_, patch) => Float64Array.from({ length: size ** 2 }, (_value, i) => {
      const y = Math.floor(patch / this.side) * size + Math.floor(i / size);
      return image[y * width + (patch % this.side) * size + (i % size)];
    }));
  }
  /** @param {Row} token @param {Rows} patches */
  withClass(token, patches) {
    return [token, ...patches];
  }
  /** @param {Row} logits */
  head(logits) {
    return logits;
  }

  // ------------------------------------------------ positions
  /** @param {Rows} x */
  positions(x) {
    return x.map((row, token) => this.place(row, token));
  }
  /** @param {Row} row @param {number} position */
  place(row, position) {
    const { "positions.table": table } = this.weights;
    return row.map((value, i) => value + table[position * row.length + i]);
  }

  // ------------------------------------------------ blocks
  /** @param {number} layer */
  blockOf(layer) {
    return layer;
  }
  /** @param {Rows} x @param {string} at where its weights are @param {Rows[][]} maps takes the attention's weights */
  block(x, at, maps) {
    let read = this.norm(x, `${at}norm_1`);
    const attended = this.join(x, read, this.attention(read, `${at}attention.`, maps));
    read = this.norm(attended, `${at}norm_2`);
    return this.join(attended, read, this.feedForward(read, `${at}feed_forward.`));
  }
  /** @param {Rows} x @param {Rows} _read @param {Rows} wrote */
  join(x, _read, wrote) {
    return sum(x, wrote);
  }
  /** @param {Rows} x @param {string} at */
  feedForward(x, at) {
    const { weights: w } = this;
    const wide = linear(x, w[`${at}expand.weight`], w[`${at}expand.bias`]).map((row) => row.map(gelu));
    return linear(wide, w[`${at}shrink.weight`], w[`${at}shrink.bias`]);
  }
  /** @param {Rows} x */
  finalNorm(x) {
    return this.norm(x, "encoder.norm");
  }

  // ------------------------------------------------ LayerNorm
  /** @param {Rows} x @param {string} at */
  norm(x, at) {
    const { [`${at}.gamma`]: gamma, [`${at}.beta`]: beta } = this.weights;
    return this.normalized(x).map((row) => row.map((value, i) => gamma[i] * value + beta[i]));
  }
  /** Numbers that share a mean and a variance are normalised together. @param {Rows} x */
  normalized(x) {
    return x.map((row) => this.normalize(row));
  }
  /** @param {Row} values */
  normalize(values) {
    const mean = this.meanOf(values);
    const root = this.root(this.varianceOf(values));
    return values.map((value) => (value - mean) / root);
  }
  /** @param {Row} values */
  meanOf(values) {
    return values.reduce((a, b) => a + b) / values.length;
  }
  /** @param {Row} values */
  varianceOf(values) {
    const mean = values.reduce((a, b) => a + b) / values.length;
    return values.reduce((total, value) => total + (value - mean) ** 2, 0) / values.length;
  }
  /** @param {number} variance */
  root(variance) {
    return Math.sqrt(variance + this.eps);
  }

  // ------------------------------------------------ attention
  /** @param {Rows} x @param {string} at @param {Rows[][]} maps */
  attention(x, at, maps) {
    const [q, k, v] = this.maps().map((name) => this.splitHeads(this.project(x, `${at}${name}`)));
    const weights = this.weigh(q.map((head, h) => this.compare(head, k[h])));
    maps.push(weights);
    const heads = weights.map((rows, h) => linear(rows, join(transpose(v[h])), new Float64Array(v[h][0].length)));
    return this.mix(this.mergeHeads(heads), `${at}w_o`);
  }
  /** The maps that make queries, keys and values. */
  maps() {
    return ["w_q", "w_k", "w_v"];
  }
  /** @param {Rows} x @param {string} at */
  project(x, at) {
    return linear(x, this.weights[`${at}.weight`], this.weights[`${at}.bias`]);
  }
  /** @param {Rows} x @returns {Rows[]} */
  splitHeads(x) {
    const width = x[0].length / this.n_heads;
    return Array.from({ length: this.n_heads }, (_, h) => x.map((row) => row.subarray(h * width, (h + 1) * width)));
  }
  /** One head's scores. @param {Rows} q @param {Rows} k */
  compare(q, k) {
    const divisor = this.divisor(q[0].length);
    return linear(q, join(k), new Float64Array(k.length)).map((row) => row.map((dot) => dot / divisor));
  }
  /** @param {number} width of a head */
  divisor(width) {
    return Math.sqrt(width);
  }
  /** All heads' weights from their scores. @param {Rows[]} scores @returns {Rows[]} */
  weigh(scores) {
    return scores.map((rows) => rows.map(softmax));
  }
  /** @param {Rows[]} heads @returns {Rows} */
  mergeHeads(heads) {
    return heads[0].map((_, token) => join(heads.map((rows) => rows[token])));
  }
  /** @param {Rows} merged @param {string} at */
  mix(merged, at) {
    return this.project(merged, at);
  }
}

/** Weights from Python: float32 numbers one after the other, in the order of `tensors`.
 * @param {T.Facts} facts @param {import("../types").Bytes} bytes @returns {Weights} */
export function weightsOf({ tensors }, bytes) {
  const all = decode(Float32Array, bytes);
  let at = 0;
  return Object.fromEntries(tensors.map(([name, size]) => [name, Float64Array.from(all.subarray(at, (at += size)))]));
}
