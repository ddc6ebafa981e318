// @ts-check
/* What is shown, in words. */
import { numbersTable } from "../kernel/table.js";
import { capital, number } from "../kernel/words.js";
import { MOVED, NORMS } from "./data.js";
/** @import { Data } from "./data.js" */
/** @import { NormExplorer as T } from "../types" */

const ROUNDING = 1e-14; // what is left of a mean that is 0

/** A number of any size in few characters. @param {number} value @param {number} [digits] */
export function amount(value, digits = 2) {
  const size = Math.abs(value) < ROUNDING ? 0 : Math.abs(value);
  if (size > 0 && (size < 0.5 * 10 ** -digits || size >= 1e4)) return value.toExponential(1).replace("e+", "e").replaceAll("-", "−");
  return number(size && value, size >= 100 ? Math.min(digits, 1) : digits);
}

/** @param {number} n @param {string} one @param {string} [many] */
export function count(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}

/** @param {number} eps */
export function sayEps(eps) {
  const power = Math.log10(eps);
  if (Math.abs(power - Math.round(power)) > 1e-9) return eps < 0.01 || eps >= 100 ? eps.toExponential(1).replace("-", "−").replace("e+", "e") : amount(eps);
  return power < -3 ? `1e−${Math.round(-power)}` : String(Number(eps.toPrecision(3)));
}

export class Words {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.shape = `${count(data.samples, "sample")} × ${count(data.tokens, "token")} × ${count(data.features, "feature")}`;
  }
  /** @param {T.Place} _ */
  word({ sample, token }) {
    const { words } = this.data;
    return words ? ` “${words[sample][token]}”` : "";
  }
  /** @param {T.Place} place */
  token(place) {
    return `sample ${place.sample + 1}, token ${place.token + 1}${this.word(place)}`;
  }
  /** @param {T.Place} place */
  place(place) {
    return `${this.token(place)}, feature ${place.feature + 1}`;
  }
  /** @param {T.Place} _ */
  inPython({ sample, token, feature }) {
    return `[${sample}, ${token}, ${feature}]`;
  }
  /** @param {T.Norm} norm @param {T.Place} place @param {T.Statistics} _ */
  group(norm, place, { mean, variance }) {
    const { samples, tokens, features, several } = this.data;
    if (norm === "none") return "No norm: every number stays what it is.";
    if (norm === "BatchNorm") {
      const where = samples === 1 ? `all ${count(tokens, "token")}` : `all ${count(tokens, "token")} of all ${count(samples, "sample")}`;
      return `It shares mean ${amount(mean)} and variance ${amount(variance)} with feature ${place.feature + 1} of ${where}: ${count(several, "number")}.`;
    }
    const whose = `the ${count(features, "feature")} of its own token`;
    if (norm === "RMSNorm") return `It shares the mean square ${amount(variance)} with ${whose}.`;
    return `It shares mean ${amount(mean)} and variance ${amount(variance)} with ${whose}.`;
  }
  /** @param {T.Norm} norm */
  groups(norm) {
    const { features, several } = this.data;
    if (norm === "BatchNorm") return `${count(features, "mean")}: one for each feature`;
    return `${count(several, norm === "RMSNorm" ? "mean square" : "mean")}: one for each token`;
  }
  /** Where outputs have changed: { n, text, short }. @param {number[]} changed */
  changed(changed) {
    const { data, data: { tokens, size } } = this;
    const n = changed.length;
    if (!n) return { n, text: `no output changes by ${MOVED} or more`, short: "none changes" };
    const places = changed.map((one) => data.place(one));
    const inTokens = new Set(places.map(({ sample, token }) => sample * tokens + token)).size;
    const inSamples = new Set(places.map(({ sample }) => sample)).size;
    const where = inTokens === 1 ? `all in ${this.token(places[0])}`
      : `in ${inTokens} tokens of ${inSamples === 1 ? `sample ${places[0].sample + 1}` : `${inSamples} samples`}`;
    return { n, text: `${n} of ${count(size, "output")} ${n === 1 ? "changes" : "change"}, ${where}`, short: `${n} of ${size} change, ${where}` };
  }
  /** @param {T.Look} _ */
  all({ now, place, value, result, stats, edited, changed }) {
    const becomes = now.norm === "none" ? amount(value) : `${amount(value)} becomes ${amount(result)}`;
    const parts = [`${now.norm === "none" ? "No norm" : now.norm}. ${capital(this.place(place))}: ${becomes}.`];
    if (now.norm !== "none") parts.push(this.group(now.norm, place, stats));
    if (edited.length) parts.push(`Since the start, ${count(edited.length, "number")} of x changed, and ${this.changed(changed[now.norm]).text}.`);
    if (now.locked) parts.push("Locked: the arrow keys change it.");
    return parts.join(" ");
  }
  /** Mean, variance, ε and the chosen number, calculated. @param {T.Look} _ */
  calculation({ now, place, value, result, stats: { mean, variance } }) {
    const { data } = this;
    const { norm, eps, affine } = now;
    if (norm === "none") return [this.group(norm, place, { mean, variance })];
    const [scale, shift] = [affine && data.gamma?.[place.feature], affine && norm !== "RMSNorm" && data.beta?.[place.feature]];
    const top = norm === "RMSNorm" ? amount(value) : `(${amount(value)} − ${mean < 0 ? `(${amount(mean)})` : amount(mean)})`;
    const more = (typeof scale === "number" ? ` · γ ${amount(scale)}` : "") + (typeof shift === "number" ? ` + β ${shift < 0 ? `(${amount(shift)})` : amount(shift)}` : "");
    const what = norm === "RMSNorm" ? "mean square" : "variance";
    const sum = `${top} / √(${amount(variance)} + ${sayEps(eps)})${more} = ${amount(result, 3)}`;
    const left = variance / (variance + eps);
    const role = variance === 0 ? `The ${what} is 0: without ε this would be 0 / 0.`
      : left > 0.995 ? `ε is ${amount((100 * eps) / variance)} % of the ${what}: too little to matter.`
      : `ε is ${amount((100 * eps) / variance, eps > variance ? 0 : 1)} % of the ${what}, and so the ${what} becomes ${amount(left)}, not 1` +
        `${more ? ", before γ and β" : ""}: numbers as small as these stay small.`;
    return [sum, role];
  }
  /** @param {T.Now} now @param {T.Difference} _ */
  compared(now, { where, out, largest }) {
    const { data, data: { size, theirs } } = this;
    const ours = now.norm === "none" ? "x as it is" : `${now.norm} with ε = ${sayEps(now.eps)}`;
    const notes = [
      ...(data.module.overwrites ? ["It also changes the tensor that it is given, which belongs to the caller."] : []),
      ...(data.module.running && now.norm === "BatchNorm" ? ["It is in eval mode, where BatchNorm uses the running averages that it kept and not this batch's mean and variance."] : []),
    ];
    if (!where.length) return [`Your module agrees with ${ours} on the x it started from: the largest difference is ${amount(largest)}.`, ...notes].join(" ");
    const place = data.place(where[0]);
    const other = NORMS.find((norm) => norm !== now.norm && !data.differing(now, norm).where.length);
    if (other) notes.unshift(other === "none" ? "It returns x as it is." : `It agrees with ${other} instead.`);
    return [`Your module differs from ${ours} in ${where.length} of ${count(size, "output")} (✗). The first: ${this.place(place)}, in Python ${this.inPython(place)}: ` +
      `yours ${amount(theirs[where[0]], 4)}, ours ${amount(out[where[0]], 4)}.`, ...notes].join(" ");
  }
  /** x and its norms as a table; of many tokens, only the chosen one's. @param {T.Look} _ */
  table({ x, outs, now, place }) {
    const { data, data: { size } } = this;
    const few = size <= 200;
    const shown = few ? data.all : data.members("LayerNorm", data.at(now));
    /** @param {number} value */
    const six = (value) => number(value, 6);
    const caption = `x and its norms, ε = ${sayEps(now.eps)}` + (few ? "" : `: ${this.token(place)} (choose another to see its numbers)`);
    return numbersTable(caption, ["sample, token, feature", "x", ...NORMS.slice(1)], shown.map((one) => {
      const { sample, token, feature } = data.place(one);
      return { name: `${sample + 1}, ${token + 1}, ${feature + 1}`, cells: [x, ...NORMS.slice(1).map((norm) => outs[norm])].map((its) => six(its[one])) };
    }));
  }
}
