// @ts-check
/* What is shown, in words. */
import { capital, list, number, sayHead, visible } from "../kernel/words.js";
/** @import { Data } from "./data.js" */
/** @import { Side, BugSwitches as T } from "../types" */

export const SUMS_OFF = 0.005; // a row of weights sums to 1, or to something else by more than this
const WAITING = "This combination has not been computed, and that needs Python. Python is asked; if no answer comes, no kernel is running: run the cell that made this widget.";

/** @param {unknown} value */
export function isNumber(value) {
  return typeof value === "number";
}

/** About three digits, whatever the size. @param {T.Result["loss"]} value */
export function short(value) {
  if (!isNumber(value)) return "not a number";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-4) return value.toExponential(1).replace("e+", "e").replaceAll("-", "−");
  return number(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : size >= 0.01 ? 3 : 4);
}

/** @param {number} share */
export function percent(share) {
  return `${number(100 * share, 1)} %`;
}

/** @param {number} whole */
export function count(whole) {
  return String(whole).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @param {string} text */
export function quote(text) {
  return text === "" ? "nothing" : `“${text}”`;
}

export class Words {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
    this.things = data.isImage ? "images" : "texts";
  }
  /** @param {number} i */
  sample(i) {
    const { isImage, facts: { shown } } = this.data;
    return isImage ? `image ${i + 1} (class ${shown[i].target})` : `text ${i + 1}: ${shown[i].text}`;
  }
  /** @param {string[]} on */
  titles(on) {
    const { mistakes } = this.data.facts;
    return list(mistakes.filter(({ name }) => on.includes(name)).map(({ title }) => title));
  }
  /** @param {number} i */
  patch(i) {
    const { columns } = this.data.facts;
    return `patch row ${Math.floor(i / columns) + 1}, column ${(i % columns) + 1}`;
  }
  /** @param {string} name @param {T.Now} now @param {Side} side @param {number} token */
  token(name, now, side, token) {
    const { data, data: { isImage } } = this;
    const at = data.place(name, now, side, token);
    if (at < 0) return "–";
    const word = data.words(name, now, side)[at];
    if (isImage) return /^\d+$/.test(word) && data.facts.columns ? this.patch(Number(word) - 1) : word;
    return `${side === "queries" ? "query" : "key"} ${at + 1} “${visible(word)}”`;
  }
  /** @param {T.Now} now */
  all(now) {
    const { data, things, data: { isImage, facts: { n } } } = this;
    const healthy = data.healthy();
    const name = data.combination(now.on);
    if (!now.on.length) {
      return `No mistake is switched on. The model gets ${healthy.right} of ${n} ${things} right (${percent(healthy.accuracy)}), with a loss of ${short(healthy.loss)}.${this.pointed(now, name)}`;
    }
    const wrong = data.result(name);
    const who = capital(this.titles(now.on));
    if (!wrong) return `${who}: ${WAITING}`;
    const lost = healthy.right - wrong.right;
    const difference = lost === 0 ? "as many as without" : `${Math.abs(lost)} ${lost > 0 ? "fewer" : "more"} than without`;
    const guess = isImage && wrong.accuracy <= 1.5 / data.facts.n_classes && healthy.accuracy > 3 / data.facts.n_classes ? ", about what guessing gets" : "";
    return `${who}: ${wrong.right} of ${n} ${things} right (${percent(wrong.accuracy)}), ${difference}${guess}. ` +
      `The loss is ${short(wrong.loss)} in place of ${short(healthy.loss)}, the gradient's norm ${short(wrong.gradient)} in place of ${short(healthy.gradient)}.${this.pointed(now, name)}`;
  }
  /** The two weights at which the reader points. @param {T.Now} now @param {string} name */
  pointed(now, name) {
    const { data, data: { hasWeights } } = this;
    if (!hasWeights) return "";
    const asks = this.token("", now, "queries", now.query);
    const asked = this.token("", now, "keys", now.key);
    /** @param {string} which */
    const weight = (which) => {
      if (!data.looks(which, now.part)) return null;
      const [query, key] = [data.place(which, now, "queries", now.query), data.place(which, now, "keys", now.key)];
      return query < 0 || key < 0 ? null : number(data.row(which, now, query)[key], 3);
    };
    const [right, wrong] = [weight(""), now.on.length ? weight(name) : null];
    if (right === null) return "";
    const beside = !now.on.length ? "" : wrong === null ? ", and there is no such weight with the mistake" : `, with the mistake ${wrong}`;
    return ` Layer ${now.layer + 1}, ${sayHead(now.head)}: ${asks} gives ${asked} the weight ${right}${beside}.`;
  }
  /** @param {T.Now} _ */
  example({ sample, on }) {
    const { data, data: { isImage, facts: { shown } } } = this;
    const { target, text } = shown[sample];
    /** @param {T.Result} result */
    const says = (result) => (result.predictions[sample] === null ? "nothing: its numbers are not numbers (NaN)"
      : isImage ? `${result.predictions[sample]}` : quote(String(result.predictions[sample])));
    /** @param {T.Result} result */
    const judged = (result) => (result.predictions[sample] === target ? "right" : "wrong");
    const verb = isImage ? "says" : "writes";
    const [healthy, wrong] = [data.healthy(), data.result(data.combination(on))];
    const whose = isImage ? `Example ${sample + 1} is of class ${target}.` : `${quote(text)} should become ${quote(String(target))}.`;
    const beside = !on.length || !wrong ? "" : ` With the ${on.length > 1 ? "mistakes" : "mistake"} it ${verb} ${says(wrong)}, ${judged(wrong)}.`;
    return `${whose} The model ${verb} ${says(healthy)}, ${judged(healthy)}.${beside}`;
  }
  /** @param {T.Result} result */
  gradients(result) {
    const { data } = this;
    const none = data.facts.gradients.filter((part) => result.gradients[part] === null);
    const missing = data.facts.gradients.filter((part) => !(part in result.gradients));
    /** @param {string[]} all */
    const few = (all) => (all.length > 6 ? `${all.slice(0, 5).join("; ")}; and ${all.length - 5} more` : all.join("; "));
    return (none.length ? `No gradient reaches ${few(none)}. ` : "") +
      (missing.length ? `Not among the model's own parameters, so never trained: ${few(missing)}.` : "");
  }
  /** @param {string} name @param {T.Part} part */
  looks(name, part) {
    const { data } = this;
    const looks = data.looks(name, part);
    if (!looks) return "Its weights are not numbers (NaN): something was divided by 0, or has grown beyond all bounds.";
    const { largest, lowest_sum, highest_sum, moved } = looks;
    const wide = Math.max(Math.abs(lowest_sum - 1), Math.abs(highest_sum - 1)) > SUMS_OFF;
    return `A query's largest weight is ${number(largest)} on average. ` +
      (wide ? `Rows sum to ${number(lowest_sum)} up to ${number(highest_sum)}, and not to 1. ` : "Every row sums to 1. ") +
      (name !== "" && moved !== null ? `${percent(moved)} of the weight lies elsewhere.` : "");
  }
}
