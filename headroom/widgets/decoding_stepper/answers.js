// @ts-check
/* What the model has answered, by the prefix that it was asked for; and what is written with it: choosing, drawing and
 * searching. */
import { decode } from "../kernel/numbers.js";
import { visible } from "../kernel/words.js";
/** @import { Model, DecodingStepper as T } from "../types" */

/** @type {(keyof T.Traits)[]} */
export const DATA = ["_facts", "_prefixes", "_logits", "_attention", "_seeds", "_noise"];

/** The logarithms of the probabilities, as numbers of 64 bits. @param {Float32Array} its */
export function logShares(its) {
  const most = its.reduce((a, b) => Math.max(a, b));
  const below = Array.from(its, (logit) => logit - most);
  const total = Math.log(below.reduce((sum, one) => sum + Math.exp(one), 0));
  return below.map((one) => one - total);
}

/** @param {ArrayLike<number>} values */
function largest(values) {
  return Array.from(values).reduce((best, value, i, all) => (value > all[best] ? i : best), 0);
}

/** As torch.multinomial: the largest probability / noise, with exponential noise. @param {Float32Array} its @param {number} temperature @param {Float32Array} numbers */
function draw(its, temperature, numbers) {
  return largest(logShares(its.map((logit) => logit / temperature)).map((one, i) => one - Math.log(numbers[i])));
}

export class Answers {
  /** @param {Model<T.Traits>} model */
  constructor(model) {
    this.model = model;
    this.version = 0;
    this.from = DATA.map((name) => model.get(name)); // that this was read from
    this.facts = model.get("_facts");
    const { n_layers, n_heads, tokens } = this.facts;
    this.logits = decode(Float32Array, model.get("_logits"));
    this.attention = decode(Uint16Array, model.get("_attention"));
    this.seeds = model.get("_seeds");
    this.noise = decode(Float32Array, model.get("_noise"));
    /** @type {Map<string, { logits: number, attention: number }>} */
    this.places = new Map(); // "text:prefix" → where its numbers start
    let start = 0;
    for (const [i, [which, ...prefix]] of model.get("_prefixes").entries()) {
      this.places.set(`${which}:${prefix}`, { logits: i * tokens.length, attention: start });
      start += n_layers * n_heads * this.keysOf(which, prefix);
    }
    /** @type {Map<string, T.Search>} */
    this.searched = new Map();
  }
  /** Read what Python has sent meanwhile. */
  refresh() {
    const { model, from, version } = this;
    if (DATA.some((name, i) => model.get(name) !== from[i])) Object.assign(this, new Answers(model), { version: version + 1 });
  }
  /** @param {string} text */
  which(text) {
    return this.facts.sources.findIndex((source) => source.text === text);
  }
  /** @param {number} which @param {T.Prefix} prefix */
  place(which, prefix) {
    return this.places.get(`${which}:${prefix}`);
  }
  /** How many tokens there are to look at after a prefix. @param {number} which @param {T.Prefix} prefix */
  keysOf(which, prefix) {
    const { continues, sources } = this.facts;
    return sources[which].words.length + (continues ? prefix.length : 0);
  }
  /** @param {T.Prefix} prefix */
  ended(prefix) {
    return prefix.at(-1) === this.facts.eos;
  }
  /** @param {number} which @param {T.Prefix} prefix */
  logitsOf(which, prefix) {
    const { logits } = this;
    const at = this.place(which, prefix);
    return at ? logits.subarray(at.logits, at.logits + this.facts.tokens.length) : null;
  }
  /** Where the step after a prefix looks; head null: the mean of the heads. @param {number} which @param {T.Prefix} prefix @param {number} layer @param {number | null} head */
  weights(which, prefix, layer, head) {
    const { attention, facts: { n_heads } } = this;
    const keys = this.keysOf(which, prefix);
    const out = new Float32Array(keys);
    const at = this.place(which, prefix);
    if (!at) return null;
    const [from, to] = head === null ? [0, n_heads] : [head, head + 1];
    for (let one = from; one < to; one++) {
      const first = at.attention + (layer * n_heads + one) * keys;
      for (let key = 0; key < keys; key++) out[key] += attention[first + key] / 65535 / (to - from);
    }
    return out;
  }
  /** What decides the draw of a step: see `draw`. @param {number} seed @param {number} step */
  noiseOf(seed, step) {
    const { seeds, noise, facts: { max_tokens, tokens } } = this;
    const at = seeds.indexOf(seed);
    const from = (at * max_tokens + step) * tokens.length;
    return at < 0 ? null : noise.subarray(from, from + tokens.length);
  }
  /** What greedy decoding or sampling writes: { tokens, own (what the model would write), missing (what it would need to go on) }. @param {number} which @param {T.Now} _ @returns {{ tokens: T.Prefix, own: number[], missing: T.Seen["missing"] }} */
  written(which, { method, temperature, seed, taken }) {
    const { max_tokens, tokens } = this.facts;
    const decided = new Map(taken.map(([step, token]) => [step, tokens.indexOf(token)]));
    /** @type {[T.Prefix, number[]]} */
    const [path, own] = [[], []];
    while (path.length < max_tokens && !this.ended(path)) {
      const step = path.length;
      const known = this.logitsOf(which, path);
      const numbers = method === "sampling" ? this.noiseOf(seed, step) : null;
      if (!known || (method === "sampling" && !numbers)) return { tokens: path, own, missing: known ? "noise" : "logits" };
      const its = numbers ? draw(known, temperature, numbers) : largest(known);
      own.push(its);
      path.push(decided.get(step) ?? its);
    }
    return { tokens: path, own, missing: null };
  }
  /** Beam search, of which what is known is kept. @param {number} which @param {number} width */
  search(which, width) {
    const name = `${which}:${width}`;
    const known = this.searched.get(name) ?? this.searchAnew(which, width);
    this.searched.set(name, known);
    return known;
  }
  /** Beam search: a level for each length, { kept, dropped }, the likeliest first; dropped: the best of those that were. @param {number} which @param {number} width */
  searchAnew(which, width) {
    const { max_tokens, eos } = this.facts;
    /** @type {T.Level[]} */
    const levels = [{ kept: [{ prefix: [], score: 0, parent: 0, ended: false }], dropped: [] }];
    while (levels.length <= max_tokens && !levels[levels.length - 1].kept.every((one) => one.ended)) {
      /** @type {T.Hypothesis[]} */
      const ways = [];
      for (const [parent, one] of levels[levels.length - 1].kept.entries()) {
        if (one.ended) { // goes on as it is, at no cost
          ways.push({ ...one, parent });
          continue;
        }
        const its = this.logitsOf(which, one.prefix);
        if (!its) return { levels, missing: true };
        const more = logShares(its);
        const best = [...more.keys()].sort((a, b) => more[b] - more[a]).slice(0, 2 * width); // no others are shown
        best.forEach((token) => ways.push({ prefix: [...one.prefix, token], score: one.score + more[token], parent, ended: token === eos }));
      }
      ways.sort((a, b) => b.score - a.score);
      levels.push({ kept: ways.slice(0, width), dropped: ways.slice(width, 2 * width) });
    }
    return { levels, missing: false };
  }
  /** What is shown, worked out: everything that follows from the choices. @param {T.Now} now */
  look(now) {
    const which = this.which(now.source);
    const seen = now.method === "beam" ? this.lookAtBeams(now, which) : this.lookAtText(now, which);
    const logits = this.logitsOf(which, seen.prefix);
    const weights = this.weights(which, seen.prefix, now.layer, now.head);
    const { continues, sources, tokens } = this.facts;
    const words = [...sources[which].words, ...(continues ? seen.prefix.map((token) => tokens[token]) : [])].map(visible);
    /** @type {T.Shown} */
    const view = { now, which, words, ...seen, candidates: null };
    if (logits && weights) {
      const logs = logShares(logits);
      const plain = logs.map(Math.exp); // at temperature 1
      const shares = now.method === "sampling" ? logShares(logits.map((one) => one / now.temperature)).map(Math.exp) : plain;
      const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]);
      if (view.beam && view.token === null && view.beam.levels[view.step + 1]) view.token = order[0]; // all its ways are dropped
      view.candidates = { logits, logShares: logs, plain, shares, order, weights };
    }
    return view;
  }
  /** The same for one text, without what follows from its prefix. @param {T.Now} now @param {number} which @returns {T.Seen} */
  lookAtText(now, which) {
    const { tokens, own, missing } = this.written(which, now);
    const steps = tokens.length + (missing ? 1 : 0);
    const step = Math.min(now.step, steps - 1);
    return { steps, step, complete: !missing, path: tokens, missing, prefix: tokens.slice(0, step), token: tokens[step] ?? null, own: own[step] ?? null, beam: null };
  }
  /** The same for beam search. @param {T.Now} now @param {number} which @returns {T.Seen} */
  lookAtBeams(now, which) {
    const { levels, missing } = this.search(which, now.beams);
    const steps = levels.length - 1 + (missing ? 1 : 0);
    const step = Math.min(now.step, steps - 1);
    const { kept } = levels[step];
    const winner = levels[levels.length - 1].kept[0].prefix;
    /** @param {T.Hypothesis} _ */
    const leads = ({ prefix }) => String(prefix) === String(winner.slice(0, step));
    const rank = now.hypothesis !== null && now.hypothesis < kept.length ? now.hypothesis : Math.max(0, kept.findIndex(leads));
    const hypothesis = kept[rank];
    const over = hypothesis.ended; // nothing is written any more: its last step is shown
    const prefix = over ? hypothesis.prefix.slice(0, -1) : hypothesis.prefix;
    const children = (levels[step + 1]?.kept ?? []).map((one, its) => ({ ...one, rank: its })).filter((one) => one.parent === rank);
    const child = (leads(hypothesis) && children.find((one) => String(one.prefix) === String(winner.slice(0, step + 1)))) || children[0] || null;
    const token = over ? this.facts.eos : child ? child.prefix[child.prefix.length - 1] : null;
    return { steps, step, complete: !missing, path: prefix, missing: null, prefix, token, own: null, beam: { levels, rank, hypothesis, over, children, child } };
  }
}
