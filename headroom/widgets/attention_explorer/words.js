// @ts-check
/* What is shown, in words. */
import { capital, list, number, sayHead, visible } from "../kernel/words.js";
import { columnsOf, numbersTable } from "../kernel/table.js";
import { CLASS_TOKEN } from "./data.js";
/** @import { Data } from "./data.js" */
/** @import { Side, AttentionExplorer as T } from "../types" */

export const KINDS = { weights: "weight", unmasked: "weight without the mask", scores: "score" };
export const TITLES = { weights: "Weights", unmasked: "Weights without the mask", scores: "Scores" };

/** Indices from the largest number down. @param {Float32Array} row */
export function byWeight(row) {
  return [...row.keys()].sort((a, b) => row[b] - row[a]);
}

/** 1st, 2nd, 3rd, 4th, 11th. @param {number} rank */
export function ordinal(rank) {
  const teens = rank % 100 > 10 && rank % 100 < 14;
  return `${rank}${["th", "st", "nd", "rd"][teens ? 0 : rank % 10] ?? "th"}`;
}

export class Words {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.kindOf = data.isImage ? "image" : "sequence";
  }
  /** A text's words. @param {number} sample @param {Side} side */
  of(sample, side) {
    return this.data.facts[side][sample].map(visible);
  }
  /** @param {number} i */
  sample(i) {
    const { isImage, facts: { labels, crossed } } = this.data;
    if (isImage) return `image ${i + 1}` + (labels ? ` (a ${labels[i]})` : "");
    const all = this.of(i, crossed ? "keys" : "queries");
    const text = all.join(all.every((word) => [...word].length === 1) ? "" : " ").replaceAll("␣", " ");
    return `sequence ${i + 1}: ${text.length > 32 ? `${text.slice(0, 30)}…` : text}`;
  }
  /** @param {number} sample @param {Side} side @param {number} which */
  token(sample, side, which) {
    const { isImage, first, facts: { columns } } = this.data;
    if (!isImage) return `${side === "queries" ? "query" : "key"} ${which + 1} “${this.of(sample, side)[which]}”`;
    const patch = which - first;
    return patch < 0 ? CLASS_TOKEN : `patch row ${Math.floor(patch / columns) + 1}, column ${(patch % columns) + 1}`;
  }
  /** @param {number} image */
  prediction(image) {
    const { predictions, labels } = this.data.facts;
    if (!predictions) return labels ? `Label: ${labels[image]}.` : "";
    const best = predictions[image].reduce((most, p, i, all) => (p > all[most] ? i : most), 0);
    const says = `The model says ${best} (${number(predictions[image][best])})`;
    if (!labels) return `${says}.`;
    return `${says}, ${best === labels[image] ? "right" : "wrong"}: the label is ${labels[image]}.`;
  }

  /** The sentence. @param {T.Now} now @param {Float32Array} row */
  all(now, row) {
    const { sample, layer, head, locked, control, show, phase } = now;
    const [query, key] = [this.data.token(now.query), this.data.tokenOrNone(now.key)];
    const place = `${capital(this.kindOf)} ${sample + 1}, layer ${layer + 1}, ${sayHead(head)}`;
    const asks = this.token(sample, "queries", query);
    if (phase === "marking") return `${place}. ${this.marking(now, asks, key)}`;
    /** @param {number} one */
    const say = (one) => this.token(sample, "keys", one);
    const [best, second] = byWeight(row);
    const verdict = phase === "revealed" ? `${this.verdict(now)} ` : "";
    const then = second === undefined ? "" : `, then ${say(second)} (${number(row[second])})`;
    const most = show === "scores" ? `has its highest score with ${say(best)}` : `gives most ${KINDS[show]} to ${say(best)}`;
    let text = `${verdict}${place}: ${asks} ${most} (${number(row[best])})${then}.`;
    if (key !== null) {
      const hidden = this.data.may(sample, query, key) ? "" : ", which the mask hides";
      text += ` Pointing at ${say(key)}${hidden}: ${KINDS[show]} ${number(row[key], 3)}.`;
    }
    if (control !== null) text += ` Control: these weights belong to image ${control + 1}, not to the one drawn.`;
    return locked ? `${text} Locked.` : text;
  }
  /** What the reader is to do who predicts. @param {T.Now} _ @param {string} asks @param {number | null} key */
  marking({ sample, marks }, asks, key) {
    const marked = marks.length ? `Marked: ${list(marks.map((one) => this.token(sample, "keys", this.data.token(one))))}.` : "Nothing is marked yet.";
    const cursor = key === null ? "" : ` The next mark: ${this.token(sample, "keys", key)}.`;
    return `Predict: to which keys does ${asks} give most weight? Mark them, then reveal. ${marked}${cursor}`;
  }
  /** How close the reader's marks are to where the weight is. @param {T.Now} now */
  verdict(now) {
    const { sample } = now;
    const query = this.data.token(now.query);
    const row = this.data.row("weights", { ...now, sample: now.control ?? sample }, query);
    const marks = now.marks.map((one) => this.data.token(one));
    const order = byWeight(row);
    /** @param {number[]} tokens */
    const sum = (tokens) => tokens.reduce((total, one) => total + row[one], 0);
    const allowed = order.filter((key) => this.data.may(sample, query, key)).length;
    const [got, possible] = [sum(marks), sum(order.slice(0, marks.length))];
    const even = Math.min(1, marks.length / allowed);
    const share = possible > even ? (got - even) / (possible - even) : 1; // 0: no better than marking blindly
    const word = share >= 0.9 ? "Very close" : share >= 0.6 ? "Close" : share >= 0.25 ? "Partly" : "It looks elsewhere";
    const best = this.token(sample, "keys", order[0]);
    const rank = Math.min(...marks.map((one) => order.indexOf(one))) + 1;
    const single = marks.length === 1;
    const many = single ? "key" : `${marks.length} keys`;
    const top = marks.includes(order[0])
      ? `The key that gets most, ${best}, is ${single ? "yours" : "among them"}.`
      : `Most goes to ${best} (${number(row[order[0]])}); ${single ? "yours" : "the best of yours"} comes ${ordinal(rank)}.`;
    return `${word}: the ${many} you marked ${single ? "gets" : "get"} ${number(got)} of the weight, the best ${many} possible ${number(possible)}, ` +
      `an even share would be ${number(even)}. ${top}`;
  }
  /** What the mask does to a row, in numbers. @param {T.Now} now */
  mask(now) {
    if (now.head === null) return "Choose one head to see what the mask does to its numbers: a mean of heads is no softmax.";
    const query = this.data.token(now.query);
    const before = this.data.row("unmasked", now, query);
    const after = this.data.row("weights", now, query);
    const keys = [...before.keys()];
    const left = keys.filter((key) => this.data.may(now.sample, query, key));
    const hidden = keys.length - left.length;
    if (!hidden) return "The mask hides nothing from this query: its weights are the same with and without.";
    const share = left.reduce((sum, key) => sum + before[key], 0);
    const best = byWeight(after)[0];
    /** @param {number} value */
    const three = (value) => number(value, 3);
    /** @param {number} some */
    const count = (some) => (some === 1 ? "1 key" : `${some} keys`);
    return `Without the mask, the softmax gives ${three(share)} to the ${count(left.length)} that this query may attend to, and ${three(1 - share)} to the ` +
      `${count(hidden)} that it may not (×). The mask sets the hidden scores to −∞; every weight left is divided by ${three(share)}, so that they sum to 1 again: ` +
      `${this.token(now.sample, "keys", best)}: ${three(before[best])} / ${three(share)} = ${three(after[best])}.`;
  }

  /** The same numbers as a table. @param {T.Now} now */
  table(now) {
    const { data, data: { first, facts: { rows, columns, has_class } } } = this;
    const { sample, layer, head, control } = now;
    const query = data.token(now.query);
    const from = { ...now, sample: control ?? sample };
    const row = data.row("weights", from, query);
    const whose = control === null ? "" : ` (control: image ${control + 1}'s weights)`;
    const caption = `Weights of ${this.token(sample, "queries", query)}: ${this.kindOf} ${sample + 1}, layer ${layer + 1}, ${sayHead(head)}${whose}`;
    /** @param {number} value */
    const three = (value) => number(value, 3);
    if (data.isImage) {
      const lines = Array.from({ length: rows }, (_, r) => ({ name: `row ${r + 1}`, cells: Array.from(row.subarray(first + r * columns, first + (r + 1) * columns), three) }));
      return numbersTable(caption, columnsOf(columns), [...(has_class ? [{ name: CLASS_TOKEN, cells: [three(row[0])] }] : []), ...lines]);
    }
    const more = data.hasScores ? [data.row("scores", from, query), data.row("unmasked", from, query)] : [];
    return numbersTable(caption, ["key", "weight", ...(data.hasScores ? ["score", "without the mask", "may attend"] : [])],
      [...row.keys()].map((one) => ({
        name: this.token(sample, "keys", one),
        cells: [row, ...more].map((its) => three(its[one])).concat(data.hasScores ? [data.may(sample, query, one) ? "yes" : "no"] : []),
      })));
  }
}
