// @ts-check
/* The step and the output, written out. */
import { write } from "../kernel/elements.js";
import { capital } from "../kernel/words.js";
import { SPOTS, agree, cell, cutEntry, owned } from "./data.js";
import { plain, say, temperatureOf, weight } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { Words } from "./words.js" */
/** @import { AttentionStepper as T } from "../types" */

/** @param {T.Chips} part @param {boolean} locked @param {number} size @param {(i: number) => T.Chip} fill @param {number} lit */
function writeChips(part, locked, size, fill, lit) {
  part.row.hidden = size === 0;
  part.all.forEach(({ label, text, beside, element }, i) => {
    element.hidden = i >= size;
    if (i >= size) return;
    const { name, value, more = "", spoken } = fill(i);
    write(label, name);
    write(text, value);
    write(beside, more);
    beside.hidden = !more;
    element.setAttribute("aria-label", spoken ?? `${name}: ${value}${more ? `, ${more}` : ""}`);
    element.classList.toggle("headroom-spot", i === lit);
    element.setAttribute("aria-pressed", String(i === lit && locked));
    element.tabIndex = i === Math.min(Math.max(lit, 0), size - 1) ? 0 : -1;
  });
}

/** The step, written out. @param {T.Chips} working @param {T.Shown} view @param {Data} data @param {Words} words */
export function writeWorking(working, view, data, words) {
  const { q, k, v, facts: { n_keys, d_k, d_v } } = data;
  const { now, stages, query, step, row, spot, key } = view;
  const [dot, score, masked, share] = SPOTS.map((name) => row(stages[name])[key]);
  const entry = cutEntry(view.entry, step === "mix" ? d_v : d_k);
  const name = words.sayKey(key);
  const own = owned(now, query, key);
  const T = now.temperature;
  const shift = stages.shifts[query];
  if (step === "compare") {
    write(working.lead, `q · k with ${name}: each entry of the query times the same entry of the key.`);
    writeChips(working, now.locked, d_k, (c) => ({ name: String(c + 1), value: `${say(cell(q, query, c))} × ${say(cell(k, key, c))} = ${say(cell(q, query, c) * cell(k, key, c))}` }),
      spot === "q" || spot === "k" ? entry : -1);
    write(working.end, `Their sum is the dot product: ${say(dot)}.`);
  } else if (step === "scale") {
    write(working.lead, `The score of ${name}: ` + (own !== undefined ? `you set it to ${say(own)}; the model's is ${say(data.untouched.scores[query * n_keys + key])}.`
      : now.scaled ? `${say(dot)} ÷ √${d_k} = ${say(dot)} ÷ ${plain(data.root)} = ${say(score)}.` : `${say(dot)}, not divided.`));
    writeChips(working, now.locked, 0, () => ({ name: "", value: "" }), -1);
    write(working.end, "");
  } else if (step === "mask") {
    write(working.lead, masked === -Infinity ? `${capital(words.quoted("queries", query))} may not attend to ${name}: its score ${say(score)} becomes −∞, and e to the power of −∞ is 0.`
      : `${capital(words.quoted("queries", query))} may attend to ${name}: its score stays ${say(score)}.`);
    writeChips(working, now.locked, 0, () => ({ name: "", value: "" }), -1);
    write(working.end, "");
  } else if (step === "softmax") {
    write(working.lead, `e to the power of each score${T === 1 ? "" : ` ÷ ${temperatureOf(T)}`}` +
      (shift ? `, after ${say(shift)} is taken off all of them: that changes no weight, and keeps the numbers small.` : "."));
    writeChips(working, now.locked, n_keys, (j) => ({ name: words.wordOf("keys", j), value: `${say(row(stages.powers)[j])}` }), key);
    write(working.end, `Their sum is ${say(stages.sums[query])}. The weight of ${name}: ${say(row(stages.powers)[key])} ÷ ${say(stages.sums[query])} = ${weight(share)}.`);
  } else {
    const total = stages.output[query * d_v + entry];
    write(working.lead, `Entry ${entry + 1} of the output: each weight times entry ${entry + 1} of its value.`);
    writeChips(working, now.locked, n_keys, (j) => ({
      name: words.wordOf("keys", j),
      value: `${weight(row(stages.weights)[j])} × ${say(cell(v, j, entry))} = ${say(row(stages.weights)[j] * cell(v, j, entry))}`,
    }), spot === "output" ? -1 : key);
    write(working.end, `Their sum is entry ${entry + 1} of the output: ${say(total)}.`);
  }
}

/** The output of the query. @param {T.Chips} outcome @param {T.Shown} _ @param {Data} data @param {Words} words */
export function writeOutcome(outcome, { now, stages, query, step, spot, entry, changed }, data, words) {
  const { yours, facts: { d_v } } = data;
  outcome.element.hidden = step !== "mix";
  if (outcome.element.hidden) return;
  write(outcome.lead, `The output of ${words.quoted("queries", query)}:`);
  writeChips(outcome, now.locked, d_v, (c) => {
    const index = query * d_v + c;
    const right = stages.output[index];
    const mine = yours.output?.[index];
    const same = mine !== undefined && agree("output", mine, right, true);
    const more = changed ? `the model's: ${say(data.untouched.output[index])}` : mine === undefined ? "" : `yours: ${same ? "=" : "≠"} ${say(mine)}`;
    return { name: String(c + 1), value: say(right), more, spoken: `entry ${c + 1}: ${say(right)}${more ? `, ${more.replace("≠", "differs,")}` : ""}` };
  }, spot === "output" || spot === "v" ? cutEntry(entry, d_v) : -1);
  write(outcome.end, "");
}
