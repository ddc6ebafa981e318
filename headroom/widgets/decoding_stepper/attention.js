// @ts-check
/* Where the steps look: a Transformer in the source, by cross-attention, a language model in all that stands before. */
import { bitmap, prepare } from "../kernel/canvas.js";
import { colour, css, inkOn } from "../kernel/colours.js";
import { h, write } from "../kernel/elements.js";
import { pairs } from "../kernel/numbers.js";
import { number, sayHead } from "../kernel/words.js";
/** @import { Answers } from "./answers.js" */
/** @import { Parts } from "./parts.js" */
/** @import { Words } from "./words.js" */
/** @import { Colours, DecodingStepper as T } from "../types" */

const ROW_HEIGHT = 17; // of the alignment, in pixels

export class Attention {
  /** @param {Answers} answers @param {Words} say @param {Parts} parts @param {(part: string, ...made: unknown[]) => boolean} stale */
  constructor(answers, say, parts, stale) {
    this.answers = answers;
    this.say = say;
    this.parts = parts;
    this.stale = stale;
    /** @type {{ sign: HTMLElement, value: HTMLElement, element: HTMLElement }[]} */
    this.chips = []; // of the tokens that are looked at
  }
  /** @param {T.Shown} _ */
  paintCharacters({ words, candidates: known, now, step, token }) {
    const { say, stale, parts: { characters, scaleLegend, alignment } } = this;
    const weights = known?.weights;
    const best = weights ? weights.indexOf(weights.reduce((a, b) => Math.max(a, b))) : -1;
    const high = weights ? weights[best] : 1;
    if (stale("characters", words)) {
      this.chips = words.map((word, i) => {
        const [sign, value] = [h("b"), h("span", { class: "headroom-value" })];
        return { sign, value, element: h("span", { class: "headroom-chip", "data-token": i }, sign, h("span", {}, word), value) };
      });
      characters.replaceChildren(...this.chips.map((chip) => chip.element));
    }
    this.chips.forEach(({ element, sign, value }, i) => {
      const rgb = weights ? colour(weights[i] / high) : null;
      element.style.background = rgb ? css(rgb) : "";
      element.style.color = rgb ? inkOn(rgb) : "";
      element.classList.toggle("headroom-is-k", i === best);
      write(sign, i === best ? "K" : "");
      write(value, weights ? number(weights[i]) : "–");
    });
    const text = `${say.answers.facts.continues ? "Text so far" : "Source"}: ${words.join("")}`;
    characters.setAttribute("aria-label", weights
      ? `${text}. Step ${step + 1} looks most at ${say.key} ${best + 1}, ${words[best]}, weight ${number(weights[best])}. The table has all numbers.` : text);
    scaleLegend.set(0, high, `Each step's weights go from 0 to their own largest; layer ${now.layer + 1}, ${sayHead(now.head)}.`);
    alignment.setAttribute("aria-label", `Weights of the steps so far: ${step + 1} rows, ${words.length} ${say.key}s across. The row of this step${token === null ? "" : `, which writes ${say.sayToken(token)},`} is framed.`);
  }
  /** @param {T.Shown} view @param {Colours} colours */
  paintAlignment(view, colours) {
    const { say, answers, parts: { alignment } } = this;
    const { which, words, now, step, steps, path, token } = view;
    const available = alignment.clientWidth;
    const left = 62;
    const w = Math.min(22, (available - left - 2) / words.length);
    const [top, ht] = [w >= 8 ? 18 : 4, ROW_HEIGHT];
    alignment.style.height = `${top + Math.max(steps, 1) * ht + 3}px`;
    const { context } = prepare(alignment);
    const all = [...path.slice(0, step), token]; // an ended hypothesis has fewer than the step would have
    const shown = all.length - (view.candidates ? 0 : 1);
    if (shown) {
      const picture = bitmap(shown, words.length, (row) => {
        const values = new Float32Array(words.length); // an earlier step of a language model had fewer to look at
        values.set(answers.weights(which, path.slice(0, row), now.layer, now.head) ?? []);
        return { values, low: 0, high: values.reduce((a, b) => Math.max(a, b)) };
      }, alignment);
      context.drawImage(picture, left, top, words.length * w, shown * ht);
    }
    context.fillStyle = context.strokeStyle = colours.text;
    context.lineWidth = 0.5;
    context.strokeRect(left, top, words.length * w, Math.max(steps, 1) * ht);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "center";
    if (w >= 8 && words.every((word) => [...word].length === 1)) words.forEach((word, i) => context.fillText(word, left + (i + 0.5) * w, top - 9));
    context.textAlign = "right";
    const row = all.length - 1;
    all.forEach((one, i) => {
      context.font = `${i === row ? "bold " : ""}12px system-ui, sans-serif`;
      if (one !== null) context.fillText(say.name(one), left - 6, top + (i + 0.5) * ht);
    });
    for (const [style, thick] of pairs(["#fff", 4], [colours.q, 2])) {
      context.strokeStyle = style;
      context.lineWidth = thick;
      context.strokeRect(left, top + row * ht, words.length * w, ht);
    }
    context.font = "bold 11px system-ui, sans-serif";
    context.textAlign = "left";
    context.fillStyle = colours.text;
    context.fillText("Q", 1, top + (row + 0.5) * ht);
    Object.assign(alignment.dataset, { top, rowHeight: ht });
  }
}
