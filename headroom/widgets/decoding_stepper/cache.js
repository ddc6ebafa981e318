// @ts-check
/* The cache: what the model has, and what it saves. */
import { h } from "../kernel/elements.js";
import { number, visible } from "../kernel/words.js";
import { count, whole } from "./words.js";
/** @import { Answers } from "./answers.js" */
/** @import { Parts } from "./parts.js" */
/** @import { Words } from "./words.js" */
/** @import { DecodingStepper as T } from "../types" */

export class Cache {
  /** @param {Answers} answers @param {Words} say @param {Parts} parts @param {(part: string, ...made: unknown[]) => boolean} stale */
  constructor(answers, say, parts, stale) {
    this.answers = answers;
    this.say = say;
    this.parts = parts;
    this.stale = stale;
  }
  /** @param {T.Shown} view */
  paint(view) {
    const { say, stale, answers: { facts: { n_layers, bos, eos, continues, sources } }, parts: { cache } } = this;
    const { which, step, prefix, beam, now } = view;
    const source = sources[which].words;
    if (!stale("cache", which, step, prefix, beam && now.beams)) return;
    // The tokens that the model has read; an ended hypothesis is fed its end again until all have ended.
    const written = [...prefix, ...Array(Math.max(0, step - prefix.length)).fill(eos)].map((token) => say.name(token));
    const given = bos === null ? [...source.map(visible), ...written] : [say.name(bos), ...written];
    const fresh = step === 0;
    const old = continues && fresh ? 0 : given.length - 1;
    /** @param {string} text @param {string} sign @param {boolean} isNew */
    const cell = (text, sign, isNew) => h("span", { class: `headroom-kv${isNew ? " headroom-is-new" : ""}` }, h("b", {}, sign), h("span", {}, text),
      h("span", { class: "headroom-k" }, "K"), h("span", { class: "headroom-v" }, "V"));
    const lines = Array.from({ length: n_layers }, (_, layer) => h("div", { class: "headroom-layer" },
      h("span", { class: "headroom-note" }, `Layer ${layer + 1}, ${continues ? "all" : "written"} tokens: ${count(given.length, "position")}, ${old} reused, ${given.length - old} computed`),
      h("div", { class: "headroom-cells" }, ...given.map((name, i) => cell(name, i < old ? "=" : "+", i >= old))),
      ...(continues ? [] : [h("span", { class: "headroom-note" }, `Layer ${layer + 1}, source: ${count(source.length, "position")}, ${fresh ? "all computed now (+)" : "all reused (=) since step 1"}`)])));
    cache.replaceChildren(...lines,
      h("p", { class: "headroom-note" }, `+ computed in this step, = reused.${beam && now.beams > 1 ? ` Each of the ${now.beams} hypotheses has such a cache; when one goes on in two ways, its cache is copied.` : ""}`));
    this.paintCost(view);
  }
  /** Multiply-adds with the cache and without. @param {T.Shown} _ */
  paintCost({ which, step, beam, now }) {
    const { answers, parts: { cost } } = this;
    const times = beam ? now.beams : 1;
    const { costs } = answers.facts.sources[which];
    const at = Math.min(step, costs.length - 1);
    const [with_, without] = costs[at].map((one) => one * times);
    const [soFar, soFarWithout] = [0, 1].map((i) => costs.slice(0, at + 1).reduce((sum, one) => sum + one[i], 0) * times);
    /** @param {string} text @param {number} value */
    const bar = (text, value) => {
      const fill = h("span");
      fill.style.width = `${(100 * value) / without}%`;
      return h("div", { class: "headroom-cost" }, h("span", {}, text), h("span", { class: "headroom-bar" }, fill), h("span", { class: "headroom-value" }, whole(value)));
    };
    cost.replaceChildren(h("span", {}, `Multiply-adds of the ${answers.facts.continues ? "model" : "decoder"} in this step${times > 1 ? `, for ${times} hypotheses` : ""}:`),
      bar("with the cache", with_), bar("without", without),
      h("span", {}, step === 0 ? "In the first step there is nothing to reuse: the cache is being filled." : `Without it this step costs ${number(without / with_, 1)} times as much; all steps so far together, ${number(soFarWithout / soFar, 1)} times (${whole(soFarWithout)} against ${whole(soFar)}).`));
  }
}
