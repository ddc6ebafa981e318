// @ts-check
/* The row in numbers. */
import { write } from "../kernel/elements.js";
import { agree, owned } from "./data.js";
import { say, temperatureOf } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { AttentionStepper as T } from "../types" */

/** Fill the row in numbers. @param {T.Ledger} parts @param {T.Shown} view @param {Data} data */
export function writeLedger(parts, view, data) {
  const { now, stages, query, row, at, spot, key, changed } = view;
  const { columns, heads, lines, totals, foot, raised } = parts;
  columns.forEach(({ spot: its, from, whose }, c) => {
    const hidden = at < from || (whose === "yours" && changed) || (whose === "model" && !changed);
    heads[c].hidden = totals[c].hidden = hidden;
    for (const { cells } of lines) cells[c].element.hidden = hidden;
    const digits = its === "weights" ? 3 : 2;
    for (const line of lines) writeCell(line, c, columns[c], view, data);
    const sum = its === "powers" ? stages.sums[query] : row(stages[its]).reduce((a, b) => a + b);
    write(totals[c], (its === "powers" || its === "weights") && !whose ? say(sum, digits) : "");
  });
  const exponent = (stages.shifts[query] ? `score − ${say(stages.shifts[query])}`.replace("− −", "+ ") : "score") +
    (now.temperature === 1 ? "" : ` ÷ ${temperatureOf(now.temperature)}`);
  raised.textContent = exponent;
  foot.hidden = at < 3;
  const ofKey = !["q", "output"].includes(spot);
  lines.forEach(({ key: j, element, sign }) => {
    const lit = ofKey && j === key;
    element.classList.toggle("headroom-is-k", lit);
    write(sign, lit ? "K " : "");
  });
  // One cell is the way in with Tab; the arrows do the rest.
  const newest = columns.findLastIndex(({ from, whose }) => !whose && from <= at);
  const column = columns.findIndex(({ spot: its, whose, from }) => !whose && its === spot && from <= at);
  const way = lines[key].cells[column < 0 ? newest : column].element;
  for (const { cells } of lines) for (const { element } of cells) if (element.hasAttribute("tabindex")) element.tabIndex = element === way ? 0 : -1;
}

/** @param {T.Line} _ @param {number} c @param {T.Column} column @param {T.Shown} view @param {Data} data */
function writeCell({ key: j, cells, scoreInput, maskBox }, c, { spot: its, whose }, { now, stages, query, spot, key }, data) {
  const index = query * data.facts.n_keys + j;
  const right = stages[its][index];
  const { text, element } = cells[c];
  const digits = its === "weights" ? 3 : 2;
  let shown = say(right, digits);
  if (whose === "model") shown = say(data.untouched.weights[index], digits);
  if (whose === "yours") {
    const mine = data.yours[its]?.[index] ?? NaN;
    shown = `${agree(its, mine, right, stages.may[index]) ? "=" : "≠"} ${say(mine, digits)}`;
    element.classList.toggle("headroom-differs", shown[0] === "≠");
  }
  if (its === "masked") shown = `${stages.may[index] ? "" : "× "}${shown}`;
  const input = now.editing && its === "scores" && !whose;
  write(text, input ? "" : shown);
  if (its === "weights" && !whose) element.style.setProperty("--headroom-share", `${Number.isNaN(right) ? 0 : (100 * right).toFixed(1)}%`);
  if (its === "scores" && !whose) {
    scoreInput.hidden = !input;
    // What the reader is typing stays as it is typed.
    if ((scoreInput.value === "" || Number(scoreInput.value) !== right) && document.activeElement !== scoreInput) scoreInput.value = String(Number(right.toFixed(3)));
    element.classList.toggle("headroom-own", owned(now, query, j) !== undefined);
  }
  if (its === "masked") {
    maskBox.hidden = !now.editing;
    maskBox.checked = stages.may[index] === 1;
    element.classList.toggle("headroom-own", now.flipped.some(([i, one]) => i === query && one === j));
  }
  element.classList.toggle("headroom-spot", !whose && its === spot && j === key);
}
