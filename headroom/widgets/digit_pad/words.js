// @ts-check
/* What the models read and where they look, in numbers and in words. */
import { columnsOf, numbersTable } from "../kernel/table.js";
import { decode } from "../kernel/numbers.js";
import { capital, number, sayHead } from "../kernel/words.js";
/** @import { DigitPad as T } from "../types" */

/** Indices from the largest value down. @param {ArrayLike<number>} values */
export function ranked(values) {
  return Array.from(values, (_, i) => i).sort((i, j) => values[j] - values[i]);
}

/** One model's attention: of each patch, and of [class] itself where there is one.
 * @param {T.Facts} facts @param {T.Reading} _ @param {number} layer @param {number | null} head */
export function mapOf({ n_layers, n_heads, side }, { attention }, layer, head) {
  const all = decode(Float32Array, attention);
  const tokens = all.length / (n_layers * n_heads); // a mistake may have left [class] out
  const row = new Float32Array(tokens);
  const heads = head === null ? [...Array(n_heads).keys()] : [head];
  for (const one of heads) for (let token = 0; token < tokens; token++) row[token] += all[(layer * n_heads + one) * tokens + token] / heads.length;
  return tokens > side * side ? { patches: row.subarray(1), own: row[0] } : { patches: row, own: null };
}

/** Whether an answer is that of what is drawn and chosen.
 * @param {T.Answer} answer @param {Uint8Array | null} pixels @param {string | null} mistake */
export function isFresh(answer, pixels, mistake) {
  if (!pixels) return true;
  if (!answer.pixels || (mistake !== null && answer.mistake !== mistake)) return false;
  return decode(Uint8Array, answer.pixels).every((value, at) => value === pixels[at]);
}

/** @param {number} digit */
const a = (digit) => `${digit === 8 ? "an" : "a"} ${digit}`;

/** @param {T.Facts} facts @param {number} i */
export function sayExample({ labels }, i) {
  return labels ? `${a(labels[i])} (example ${i + 1})` : `example ${i + 1}`;
}

/** How sure a model is that gives its best guess the probability `p`. @param {number} p */
export function sure(p) {
  return p >= 0.95 ? "sure" : p >= 0.75 ? "fairly sure" : p >= 0.5 ? "unsure" : "guessing";
}

/** @param {T.Facts} facts @param {string | null} name */
export function titleOf({ mistakes }, name) {
  return mistakes.find(([one]) => one === name)?.[2];
}

/** @param {T.Reading} _ */
function sayGuess({ probabilities }) {
  const [first, second] = ranked(probabilities);
  const best = `${a(first)} (${sure(probabilities[first])}, ${number(probabilities[first])})`;
  const next = number(probabilities[second]);
  return next === number(0) ? best : `${best}, then ${a(second)} (${next})`;
}

/** What one model reads, in a clause; the second has a mistake.
 * @param {T.Facts} facts @param {T.Reading | T.Failure} reading @param {number} i @param {string | null} mistake */
export function sayModel(facts, reading, i, mistake) {
  const who = i ? `With the mistake “${titleOf(facts, mistake)}” it` : "The model";
  return reading.error !== undefined ? `${who} gives no answer: ${reading.error}` : `${who} reads ${sayGuess(reading)}.`;
}

/** Where one model looks. @param {T.Facts} facts @param {T.Reading} reading @param {T.Now} _ */
export function sayMap(facts, reading, { layer, head }) {
  const { patches, own } = mapOf(facts, reading, layer, head);
  const best = ranked(patches)[0];
  const rest = own === null ? "" : `; ${number(own)} goes to [class]`;
  const where = `patch row ${Math.floor(best / facts.side) + 1}, column ${(best % facts.side) + 1}`;
  return `${capital(reading.reader)}, layer ${layer + 1}, ${sayHead(head)}: most weight on ${where} (${number(patches[best])})${rest}.`;
}

/** The probabilities, and each model's map, as tables. @param {T.Facts} facts @param {T.Shown} _ */
export function tables(facts, { now, shown, drawable }) {
  const { side } = facts;
  /** @param {number | undefined} value */
  const three = (value) => (value === undefined ? "–" : number(value, 3));
  const names = ["the model", ...(now.mistake === null ? [] : ["with the mistake"])];
  const digits = Array.from({ length: 10 }, (_, digit) => ({
    name: String(digit), cells: names.map((_name, i) => three(shown[i]?.probabilities?.[digit])),
  }));
  const all = document.createDocumentFragment();
  all.append(numbersTable("Probability of each digit", ["digit", ...names], digits));
  for (const reading of drawable) {
    const { patches, own } = mapOf(facts, reading, now.layer, now.head);
    const whose = reading === shown[0] ? "the model" : "the model with the mistake";
    const rows = Array.from({ length: side }, (_, r) => ({ name: `row ${r + 1}`, cells: Array.from(patches.subarray(r * side, (r + 1) * side), three) }));
    const caption = `Weights in ${whose}: ${reading.reader}, layer ${now.layer + 1}, ${sayHead(now.head)}`;
    all.append(numbersTable(caption, columnsOf(side), [...(own === null ? [] : [{ name: "[class]", cells: [three(own)] }]), ...rows]));
  }
  return all;
}
