// @ts-check
/* The numbers that one widget was given, and questions about them. Tokens count from 0, [class] included: [class], then the
 * patches row by row. */
import { bitmap } from "../kernel/canvas.js";
import { decode } from "../kernel/numbers.js";
import { outlineOf } from "./outline.js";
/** @import { Canvas, Model, AttentionExplorer as T } from "../types" */

export const CLASS_TOKEN = "[class]";
/** @type {(keyof T.Now)[]} */
const ROW = ["sample", "layer", "head", "query", "control"]; // what says whose row of numbers is shown

/** The weights that scores make without a mask. @param {Float32Array} scores */
export function softmax(scores) {
  const most = scores.reduce((a, b) => Math.max(a, b));
  const powers = scores.map((score) => Math.exp(score - most));
  const total = powers.reduce((a, b) => a + b);
  return powers.map((power) => power / total);
}

export class Data {
  /** @param {Model<T.Traits>} model */
  constructor(model) {
    this.facts = model.get("_facts");
    const { n_layers, n_heads, sizes, has_class, largest } = this.facts;
    this.n = sizes.length;
    this.isImage = "rows" in this.facts;
    this.first = has_class ? 1 : 0; // of the patches
    this.weights = decode(Uint16Array, model.get("_attention")); // round(65535 * weight)
    this.scores = decode(Float32Array, model.get("_scores"));
    this.mask = decode(Uint8Array, model.get("_mask"));
    this.images = decode(Uint8Array, model.get("_pixels"));
    this.hasScores = this.scores.length > 0;
    this.starts = [0]; // of each sample's weights; divided by layers and heads, of its mask
    for (const [queries, keys] of sizes) this.starts.push(this.starts[this.starts.length - 1] + n_layers * n_heads * queries * keys);
    /** @type {Partial<Record<T.Show, T.Limits>>} */
    this.extents = { weights: [0, largest] };
    /** @type {Map<string, Canvas>} */
    this.pictures = new Map(); // of whole heads
    /** @type {Map<number, Path2D>} */
    this.outlines = new Map();
  }

  // Python and the traits name a patch by its number among the patches; in here all tokens count, [class] included.
  /** @param {T.Token} name */
  token(name) {
    return name === CLASS_TOKEN ? 0 : name + this.first;
  }
  /** @param {T.Token | null} name */
  tokenOrNone(name) {
    return name === null ? null : this.token(name);
  }
  /** @param {number} token @returns {T.Token} */
  name(token) {
    return this.isImage && token < this.first ? CLASS_TOKEN : token - this.first;
  }

  /** @param {number} sample @param {number} query @param {number} key */
  may(sample, query, key) {
    const { n_layers, n_heads, sizes } = this.facts;
    return !this.mask.length || this.mask[this.starts[sample] / (n_layers * n_heads) + query * sizes[sample][1] + key] === 1;
  }
  /** The numbers of one query, written into `out`; head null: the mean of the heads. `kind` as the trait `show`.
   * @param {Float32Array} out @param {T.Show} kind @param {T.Place} _ @param {number} query */
  fillRow(out, kind, { sample, layer, head }, query) {
    const { n_heads, sizes } = this.facts;
    const [queries, keys] = sizes[sample];
    out.fill(0);
    const [from, to] = head === null ? [0, n_heads] : [head, head + 1];
    for (let one = from; one < to; one++) {
      const start = this.starts[sample] + ((layer * n_heads + one) * queries + query) * keys;
      if (kind === "weights") for (let key = 0; key < keys; key++) out[key] += this.weights[start + key];
      else if (kind === "scores") for (let key = 0; key < keys; key++) out[key] += this.scores[start + key];
      else softmax(this.scores.subarray(start, start + keys)).forEach((weight, key) => (out[key] += weight));
    }
    const divide = (to - from) * (kind === "weights" ? 65535 : 1);
    for (let key = 0; key < keys; key++) out[key] /= divide;
    return out;
  }
  /** @param {T.Show} kind @param {T.Place} place @param {number} query */
  row(kind, place, query) {
    return this.fillRow(new Float32Array(this.facts.sizes[place.sample][1]), kind, place, query);
  }

  /** The smallest and the largest number of any sample, layer and head. @param {T.Show} kind @returns {T.Limits} */
  extent(kind) {
    const { n_layers, n_heads, sizes } = this.facts;
    const known = this.extents[kind];
    if (known) return known;
    let [low, high] = kind === "scores" ? [Infinity, -Infinity] : [0, 0];
    for (let sample = 0; sample < sizes.length; sample++)
      for (let layer = 0; layer < n_layers; layer++)
        for (let head = 0; head < n_heads; head++)
          for (let query = 0; query < sizes[sample][0]; query++)
            for (const value of this.row(kind, { sample, layer, head }, query)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    return (this.extents[kind] = [low, high]);
  }
  /** Lowest and highest colour of a row. @param {T.Show} kind @param {T.Scale} scale @param {Float32Array} values @returns {T.Limits} */
  limits(kind, scale, values) {
    if (scale === "all") return this.extent(kind);
    let [low, high] = kind === "scores" ? [Infinity, -Infinity] : [0, 0];
    for (let key = 0; key < values.length; key++) {
      if (values[key] < low) low = values[key];
      if (values[key] > high) high = values[key];
    }
    return [low, high];
  }

  /** One head as a picture, one pixel a cell. A layer's heads are painted once: going back and forth between layers, or
   * along the queries, repeats nothing. @param {T.Show} kind @param {T.Place} place @param {T.Scale} scale */
  picture(kind, place, scale) {
    const { sample, layer, head } = place;
    const name = [kind, sample, layer, head, scale].join();
    const found = this.pictures.get(name) ?? this.paintPicture(kind, place, scale);
    this.pictures.delete(name);
    this.pictures.set(name, found); // last used, last out
    if (this.pictures.size > 4 * (this.facts.n_heads + 1)) this.pictures.delete([...this.pictures.keys()][0]);
    return found;
  }
  /** @param {T.Show} kind @param {T.Place} place @param {T.Scale} scale */
  paintPicture(kind, place, scale) {
    const { sample } = place;
    const [queries, keys] = this.facts.sizes[sample];
    const values = new Float32Array(keys);
    const hides = kind === "weights" && this.mask.length > 0;
    return bitmap(queries, keys, (query) => {
      this.fillRow(values, kind, place, query);
      const [low, high] = this.limits(kind, scale, values);
      for (let key = 0; hides && key < keys; key++) if (!this.may(sample, query, key)) values[key] = NaN;
      return { values, low, high };
    });
  }

  /** @param {number} image */
  pixels(image) {
    const size = this.facts.width * this.facts.height * this.facts.channels;
    return this.images.subarray(image * size, (image + 1) * size);
  }
  /** An image's outline, in pixels of the image: colours below it stay as the legend has them. @param {number} image */
  outline(image) {
    let path = this.outlines.get(image);
    if (!path) {
      const { width, height, channels } = this.facts;
      path = new Path2D();
      for (const [from, to] of outlineOf(this.pixels(image), width, height, channels)) {
        path.moveTo(...from);
        path.lineTo(...to);
      }
      this.outlines.set(image, path);
    }
    return path;
  }
  /** The image whose weights a control shows first: one of another class, if there is one. @param {number} image */
  otherImage(image) {
    const { n, facts: { labels } } = this;
    const rest = Array.from({ length: n }, (_, i) => (image + 1 + i) % n).filter((i) => i !== image);
    return (labels && rest.find((i) => labels[i] !== labels[image])) ?? rest[0] ?? image;
  }
  /** The patch one step away; [class] sits above the first row. @param {number} from @param {number} down @param {number} right */
  stepped(from, down, right) {
    const { first, facts: { rows, columns, has_class } } = this;
    if (from < first) return down > 0 ? first : from;
    const [r, c] = [Math.floor((from - first) / columns) + down, ((from - first) % columns) + right];
    if (r < 0 && has_class) return 0;
    return first + Math.min(rows - 1, Math.max(0, r)) * columns + Math.min(columns - 1, Math.max(0, c));
  }

  /** Add to some changes what follows from them; Python does the same. @param {T.Now} before @param {Partial<T.Now>} changes */
  follow(before, changes) {
    const { sample, control } = { ...before, ...changes };
    if (control === sample) changes.control = this.n === 1 ? null : (sample + 1) % this.n;
    if (!this.isImage && "sample" in changes) { // another sequence may be shorter
      const [asking, asked] = this.facts.sizes[sample];
      const { query, key } = { ...before, ...changes };
      changes.query = this.name(Math.min(this.token(query), asking - 1));
      changes.key = typeof key === "number" ? this.name(Math.min(this.token(key), asked - 1)) : null;
    }
    // A prediction is about one row of numbers: another row, another prediction.
    const moved = ROW.some((one) => one in changes && changes[one] !== before[one]);
    if (moved && before.marks.length) changes.marks = [];
    if (moved && before.phase === "revealed") changes.phase = "marking";
  }
}
