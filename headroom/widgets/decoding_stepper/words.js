// @ts-check
/* What is shown, in words. */
import { h } from "../kernel/elements.js";
import { numbersTable } from "../kernel/table.js";
import { number, sayHead, visible } from "../kernel/words.js";
/** @import { Answers } from "./answers.js" */
/** @import { DecodingStepper as T } from "../types" */

/** A probability as readers see it: three digits, and powers of ten where these would say 0.000. @param {number} value */
export function share(value) {
  if (value === 0 || value >= 0.0005) return number(value, 3);
  const [digit, power] = value.toExponential(0).split("e-");
  return `${digit}·10⁻${[...power].map((one) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(one)]).join("")}`;
}

/** A log-probability; of a certainty it is 0, not −0.00. @param {number} value @param {number} [digits] */
export function logarithm(value, digits = 2) {
  return number(Math.abs(value) < 0.5 / 10 ** digits ? 0 : value, digits);
}

/** @param {number} n @param {string} what */
export function count(n, what) {
  return `${n} ${what}${n === 1 ? "" : "s"}`;
}

/** @param {number} value */
export function whole(value) {
  return value.toLocaleString("en");
}

/** Whether the reader took the token of this step. @param {T.Shown} _ */
export function taken({ now, step, beam }) {
  return !beam && now.taken.some(([at]) => at === step);
}

export class Words {
  /** @param {Answers} answers */
  constructor(answers) {
    this.answers = answers;
  }
  /** @param {number} token */
  name(token) {
    const { answers } = this;
    return visible(answers.facts.tokens[token]);
  }
  /** @param {number} token */
  special(token) {
    return token < this.answers.facts.special;
  }
  /** What a step looks at. */
  get key() {
    return this.answers.facts.continues ? "token" : "character";
  }
  /** @param {T.Prefix} prefix */
  textOf(prefix) {
    const { answers } = this;
    return prefix.filter((token) => !this.special(token)).map((token) => answers.facts.tokens[token]).join("");
  }
  /** @param {number} token */
  sayToken(token) {
    const { answers } = this;
    return (token === answers.facts.eos ? "<eos> (the end)" : this.special(token) ? answers.facts.tokens[token] : `“${this.name(token)}”`);
  }
  /** @param {T.Prefix} prefix */
  sayPrefix(prefix) {
    return (prefix.length ? `After “${this.textOf(prefix)}”` : "At the beginning");
  }
  /** @param {T.Shown} view */
  sayAll(view) {
    const { answers } = this;
    const { now, beam, step, steps, prefix, token, complete } = view;
    const how = {
      greedy: "greedy", sampling: `sampling at temperature ${number(now.temperature, 1)} with seed ${now.seed}`,
      beam: `beam search with ${now.beams} ${now.beams === 1 ? "hypothesis" : "hypotheses"}`,
    }[now.method];
    const place = `Step ${step + 1} of ${complete ? steps : `at least ${steps}`}, ${how}. `;
    if (!view.candidates) return `${place}What follows “${this.textOf(prefix)}” has not been computed.`;
    const { shares, order, weights } = view.candidates;
    const [first, second] = order;
    const likeliest = `the likeliest is ${this.sayToken(first)} (${share(shares[first])}), then ${this.sayToken(second)} (${share(shares[second])})`;
    let text = place;
    if (beam) {
      const { score } = beam.hypothesis;
      const whose = `Hypothesis ${beam.rank + 1}, “${this.textOf(beam.hypothesis.prefix)}”, has log-probability ${logarithm(score)}`;
      const n = beam.children.length;
      const kept = !beam.levels[step + 1] ? "which are kept needs Python" : `${n || "none"} of its continuations ${n > 1 ? "are" : "is"} kept`;
      text += beam.over ? `${whose} and has ended: it goes on as it is.` : `${whose}; next, ${likeliest}; ${kept}.`;
    } else {
      text += `${this.sayPrefix(prefix)}, ${likeliest}; `;
      if (token === null) text += "what is drawn needs Python.";
      else if (view.own !== null && taken(view)) text += `you take ${this.sayToken(token)} (${share(shares[token])}) in place of ${this.sayToken(view.own)}.`;
      else text += `${this.sayToken(token)} is ${now.method === "sampling" ? "drawn" : "written"}.`;
    }
    const best = weights.indexOf(weights.reduce((a, b) => Math.max(a, b)));
    text += ` This step looks most at ${this.key} ${best + 1}, “${view.words[best]}” (${number(weights[best])}; layer ${now.layer + 1}, ${sayHead(now.head)}).`;
    if (complete && step === steps - 1) {
      const winner = beam?.levels[beam.levels.length - 1].kept[0];
      const all = winner?.prefix ?? view.path;
      const done = answers.ended(all) || answers.facts.eos === null ? "Finished" : `Stopped after ${steps} tokens without an end`;
      text += ` ${done}: “${this.textOf(all)}”${winner ? `, log-probability ${logarithm(winner.score)}` : ""}.`;
    }
    return text;
  }
  /** The candidates and the weights of a step, as tables. @param {T.Shown} view */
  tables(view) {
    const { answers, answers: { facts: { n_heads } } } = this;
    const { now, which, words, beam, step, candidates: known } = view;
    if (!known) return h("p", {}, "Not computed yet.");
    const noise = now.method === "sampling" ? answers.noiseOf(now.seed, step) : null;
    const columns = ["token", "logit", "probability", ...(noise ? [`at temperature ${number(now.temperature, 1)}`, "random number", "probability / number"] : []), ...(beam ? ["log P of the whole"] : []), "written?"];
    const first = numbersTable(`Candidates of step ${step + 1}, after “${this.textOf(view.prefix)}”`, columns, known.order.map((one) => ({ name: this.name(one), cells: [
      number(known.logits[one], 3), share(known.plain[one]),
      ...(noise ? [share(known.shares[one]), number(noise[one], 3), share(known.shares[one] / noise[one])] : []),
      ...(beam ? [logarithm(beam.hypothesis.score + known.logShares[one], 3)] : []),
      one === view.token ? (taken(view) ? "you take it" : "yes") : "no"] })));
    const heads = [...Array(n_heads).keys()];
    const rows = heads.map((head) => answers.weights(which, view.prefix, now.layer, head) ?? new Float32Array(words.length));
    const second = numbersTable(`${answers.facts.continues ? "Attention" : "Cross-attention"} of step ${step + 1}, layer ${now.layer + 1}`, [this.key, "mean", ...heads.map((head) => `head ${head + 1}`)], words.map((word, i) => ({
      name: `${i + 1} “${word}”`, cells: [rows.reduce((sum, row) => sum + row[i], 0) / n_heads, ...rows.map((row) => row[i])].map((value) => number(value, 3)),
    })));
    return h("div", {}, first, second);
  }
}
