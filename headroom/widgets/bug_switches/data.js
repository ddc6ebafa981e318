// @ts-check
/* What the models did: results and weights of each combination of mistakes. Tokens count from 0, as in the healthy model. */
import { decode } from "../kernel/numbers.js";
/** @import { Model, Side, BugSwitches as T } from "../types" */

export class Data {
  /** @param {Model<T.Traits>} model */
  constructor(model) {
    this.model = model;
    this.facts = model.get("_facts");
    this.isImage = this.facts.kind === "image";
    this.patches = this.isImage ? this.facts.rows * this.facts.columns : 0;
    this.hasWeights = this.facts.parts.length > 0;
    this.pixels = decode(Uint8Array, model.get("_pixels"));
    /** @type {Map<string, Uint16Array>} */
    this.decoded = new Map();
  }
  /** What came out of a combination; undefined: it has not been computed. @param {string} name */
  result(name) {
    return name in this.model.get("_attention") ? this.model.get("_results")[name] : undefined;
  }
  healthy() {
    return this.model.get("_results")[""];
  }
  /** The name of what is on. @param {string[]} on */
  combination(on) {
    return this.facts.mistakes.filter(({ name }) => on.includes(name)).map(({ name }) => name).join("+");
  }
  /** All weights of a combination, decoded once: what was computed does not change. @param {string} name */
  numbers(name) {
    const { decoded, model } = this;
    const all = decoded.get(name) ?? decode(Uint16Array, model.get("_attention")[name]);
    decoded.set(name, all);
    return all;
  }
  /** @param {string} name @param {T.Part} part */
  looks(name, part) {
    return this.result(name)?.looks[part];
  }
  /** Queries and keys of each example, of a combination whose weights are drawn. @param {string} name @param {T.Part} part */
  sizes(name, part) {
    const found = this.looks(name, part);
    if (!found) throw new Error(`no weights of “${name}”`);
    return found.sizes;
  }
  /** @param {string} name @param {T.Part} part @param {number} sample */
  start(name, part, sample) {
    const { n_layers, n_heads, parts } = this.facts;
    let at = 0;
    for (const kind of parts) {
      const its = this.sizes(name, kind);
      for (let one = 0; one < its.length; one++) {
        if (kind === part && one === sample) return at;
        at += n_layers * n_heads * its[one][0] * its[one][1];
      }
    }
    return at;
  }
  /** A query's weights; head null: the mean of the heads. @param {string} name @param {T.Place} _ @param {number} query */
  row(name, { part, sample, layer, head }, query) {
    const { n_heads } = this.facts;
    const [queries, keys] = this.sizes(name, part)[sample];
    const [all, from] = [this.numbers(name), this.start(name, part, sample)];
    const heads = head === null ? [...Array(n_heads).keys()] : [head];
    const out = new Float32Array(keys);
    for (const one of heads) {
      const at = from + ((layer * n_heads + one) * queries + query) * keys;
      for (let key = 0; key < keys; key++) out[key] += all[at + key];
    }
    for (let key = 0; key < keys; key++) out[key] /= heads.length * 65535;
    return out;
  }
  /** All rows of one head. @param {string} name @param {T.Place} where */
  rows(name, where) {
    return Array.from({ length: this.sizes(name, where.part)[where.sample][0] }, (_, query) => this.row(name, where, query));
  }
  /** The tokens of an axis, in words. Of the healthy model, or in the order that a mistake leaves. @param {string} name @param {T.Place} _ @param {Side} side */
  words(name, { part, sample }, side) {
    const { isImage, patches, facts } = this;
    const shown = facts.shown[sample];
    if (!isImage) {
      const target = part === "cross" ? shown.next : shown.given;
      if (part === "encoder") return shown.read;
      if (side === "queries" || part === "decoder") return target;
      return this.result(name)?.own_keys ? shown.given : shown.read;
    }
    const tokens = this.sizes("", part)[sample][1];
    const front = patches ? tokens - patches : 0;
    const names = Array.from({ length: tokens }, (_, i) => (i < front ? ["[class]", "[distillation]"][i] : String(i - front + 1)));
    return this.order(name, part, sample, side).map((token) => names[token]);
  }
  /** Which token of the healthy model stands at each place. @param {string} name @param {T.Part} part @param {number} sample @param {Side} side */
  order(name, part, sample, side) {
    const size = this.sizes("", part)[sample][side === "queries" ? 0 : 1];
    const all = [...Array(size).keys()];
    const { no_class, class_last } = this.result(name) ?? {};
    if (no_class) return all.slice(1);
    return class_last ? [...all.slice(1), 0] : all;
  }
  /** The place of a healthy model's token; −1 where there is none. @param {string} name @param {T.Now} now @param {Side} side @param {number} token */
  place(name, now, side, token) {
    if (this.isImage) return this.order(name, now.part, now.sample, side).indexOf(token);
    const size = this.sizes(name, now.part)[now.sample][side === "queries" ? 0 : 1];
    return token < size ? token : -1;
  }
  /** @param {string} name @param {T.Now} now @param {Side} side @param {number} at */
  token(name, now, side, at) {
    return this.isImage ? this.order(name, now.part, now.sample, side)[at] : at;
  }
}
