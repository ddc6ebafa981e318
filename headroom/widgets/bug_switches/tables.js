// @ts-check
/* Numbers side by side: with the mistakes and without them. */
import { bar } from "./parts.js";
import { h, write } from "../kernel/elements.js";
import { numbersTable } from "../kernel/table.js";
import { number, sayHead } from "../kernel/words.js";
import { SUMS_OFF, count, isNumber, percent, short } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { Words } from "./words.js" */
/** @import { Side, BugSwitches as T } from "../types" */

/** Fill the table of numbers. @param {HTMLElement} body @param {Data} data @param {T.Now} now @param {T.Result | null} wrong */
export function fillNumbers(body, data, now, wrong) {
  const lines = linesOf(data, now, wrong);
  const text = JSON.stringify(lines);
  if (body.dataset.text === text) return;
  body.dataset.text = text;
  body.replaceChildren(...lines.map(lineOf));
}

/** @param {Data} data @param {T.Now} now @param {T.Result | null} wrong */
function linesOf(data, now, wrong) {
  const healthy = data.healthy();
  const beside = now.on.length ? wrong : null;
  const [before, after] = [data.looks("", now.part), beside && (beside.looks[now.part] ?? null)];
  /** @param {unknown} a @param {unknown} b */
  const times = (a, b) => (isNumber(a) && isNumber(b) && a > 0 ? `${short(b / a)} ×` : "");
  /** @param {number} a @param {number} b @param {(size: number) => string} say */
  const less = (a, b, say) => (b > a ? "+" : b < a ? "−" : "±") + say(Math.abs(b - a));
  /** @param {T.Looks} looks */
  const sums = (looks) => (looks.highest_sum - looks.lowest_sum < SUMS_OFF ? number(looks.highest_sum) : `${number(looks.lowest_sum)} to ${number(looks.highest_sum)}`);
  /** @type {T.Line[]} */
  const lines = [
    ["accuracy", "right", percent(healthy.accuracy), beside && percent(beside.accuracy), beside && less(100 * healthy.accuracy, 100 * beside.accuracy, (d) => `${number(d, 1)} points`), [healthy.accuracy, beside?.accuracy]],
    ["loss", "loss, nats", short(healthy.loss), beside && short(beside.loss), beside && times(healthy.loss, beside.loss)],
    ["gradient", "norm of the gradient", short(healthy.gradient), beside && short(beside.gradient), beside && times(healthy.gradient, beside.gradient)],
    ["parameters", "parameters to train", count(healthy.parameters), beside && count(beside.parameters), beside && (beside.parameters === healthy.parameters ? "none" : less(healthy.parameters, beside.parameters, count))],
  ];
  if (before) {
    lines.push(["largest", "a query's largest weight, mean", number(before.largest), after && number(after.largest), after && less(before.largest, after.largest, number)],
      ["sums", "a row of weights sums to", sums(before), after && sums(after), ""]);
  }
  return lines;
}

/** @param {T.Line} _ */
function lineOf([name, title, right, broken, difference, shares]) {
  return h("tr", { "data-number": name }, h("th", { scope: "row" }, title), ...[right, broken, difference].map((text, i) => {
    const cell = h("td", {}, text || "–");
    const share = shares?.[i];
    if (share !== undefined) {
      const strip = bar(i ? "broken" : "healthy");
      strip.style.width = `${100 * share}%`;
      cell.append(h("div", { class: "headroom-track", "aria-hidden": "true" }, strip));
    }
    return cell;
  }));
}

/** Fill the bars of the gradients. @param {T.GradientParts} _ @param {Data} data @param {Words} words @param {T.Result | null} wrong @param {boolean} switched */
export function fillGradients({ ends, gradientRows, gradientNote }, data, words, wrong, switched) {
  const healthy = data.healthy();
  const beside = switched ? wrong : null;
  const all = [healthy, beside].flatMap((one) => (one ? Object.values(one.gradients) : [])).filter(isNumber).filter((one) => one > 0);
  const low = Math.floor(Math.log10(Math.min(...all, 1)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all, 1e-9))));
  /** @param {unknown} value */
  const wide = (value) => (isNumber(value) && value > 0 ? `${(100 * Math.max(0.01, (Math.log10(value) - low) / (high - low)))}%` : "0");
  /** @param {T.Result | null} result @param {string} part */
  const say = (result, part) => {
    if (!result) return "–";
    if (!(part in result.gradients)) return "not trained";
    const size = result.gradients[part];
    return size === null ? "none" : short(size);
  };
  [low, high].forEach((power, i) => write(ends[i], short(10 ** power)));
  for (const { part, right, wrong: other, before, after } of gradientRows) {
    right.style.width = wide(healthy.gradients[part]);
    other.style.width = beside ? wide(beside.gradients[part]) : "0";
    write(before, say(healthy, part));
    write(after, say(beside, part));
  }
  write(gradientNote, beside ? words.gradients(beside) : "");
  gradientNote.hidden = !gradientNote.textContent;
}

/** The weights of a query, with and without the mistakes. @param {Data} data @param {Words} words @param {T.Now} now */
export function weightsTable(data, words, now) {
  const name = data.combination(now.on);
  const beside = now.on.length && data.looks(name, now.part) ? name : null;
  /** @param {string} which @param {Side} side @param {number} token */
  const place = (which, side, token) => data.place(which, now, side, token);
  const right = data.row("", now, place("", "queries", now.query));
  const asks = beside === null ? -1 : place(beside, "queries", now.query);
  const wrong = beside === null || asks < 0 ? null : data.row(beside, now, asks);
  return numbersTable(`Weights of ${words.token("", now, "queries", now.query)}: layer ${now.layer + 1}, ${sayHead(now.head)}`, ["key", "as it is", "with the mistake"],
    [...right.keys()].map((token) => {
      const at = wrong && beside !== null ? place(beside, "keys", token) : -1;
      return { name: words.token("", now, "keys", token), cells: [number(right[token], 3), wrong && at >= 0 ? number(wrong[at], 3) : "–"] };
    }));
}
