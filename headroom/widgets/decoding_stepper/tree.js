// @ts-check
/* Beam search: the tree of hypotheses. */
import { h, write } from "../kernel/elements.js";
import { logarithm } from "./words.js";
/** @import { Answers } from "./answers.js" */
/** @import { Parts } from "./parts.js" */
/** @import { Words } from "./words.js" */
/** @import { DecodingStepper as T } from "../types" */

const SVG = "http://www.w3.org/2000/svg";
const NODE = { width: 58, height: 36, across: 73, down: 42 }; // of the tree, in pixels

/** @param {number} level @param {number} row @param {boolean} lost */
const placeOf = (level, row, lost) => [level * NODE.across + 4, row * NODE.down + (lost ? 12 : 4)];

export class Tree {
  /** @param {Answers} answers @param {Words} say @param {Parts} parts @param {(part: string, ...made: unknown[]) => boolean} stale */
  constructor(answers, say, parts, stale) {
    this.answers = answers;
    this.say = say;
    this.parts = parts;
    this.stale = stale;
    /** @type {T.Node[]} */
    this.nodes = [];
  }
  /** All hypotheses of a search; which are shown, and how, changes from step to step. @param {T.Level[]} levels */
  buildTree(levels) {
    const { tree } = this.parts;
    const most = Math.max(...levels.map(({ kept, dropped }) => kept.length + dropped.length));
    const [width, height] = [levels.length * NODE.across, most * NODE.down + 12];
    const svg = document.createElementNS(SVG, "svg");
    for (const [one, value] of Object.entries({ width, height, "aria-hidden": true })) svg.setAttribute(one, String(value));
    this.nodes = levels.flatMap(({ kept, dropped }, level) => [...kept, ...dropped].map((one, row) => this.nodeOf(levels, level, row, one, svg)));
    const inner = h("div", { class: "headroom-inner" }, svg, ...this.nodes.map(({ element }) => element));
    Object.assign(inner.style, { width: `${width}px`, height: `${height}px` });
    tree.replaceChildren(inner);
  }
  /** @param {T.Shown} _ @param {T.Beam} beam @param {{ from: number, width: number }} room */
  paint({ which, step, now }, { levels, rank }, { from: left, width: room }) {
    const { say, stale, parts: { tree, treeTitle, treeNote } } = this;
    if (stale("tree", which, now.beams)) this.buildTree(levels);
    const shown = levels.slice(0, step + 2);
    const front = new Set(); // the front-runner's line
    for (let level = shown.length - 1, at = 0; level >= 0; level--) {
      front.add(`${level}:${at}`);
      at = shown[level].kept[at].parent;
    }
    for (const { level, row, lost, one, element, sign, curve } of this.nodes) {
      const line = !lost && front.has(`${level}:${row}`);
      const here = !lost && level === step && row === rank;
      element.hidden = level > step + 1;
      element.className = `headroom-node${lost ? " headroom-lost" : ""}${here ? " headroom-is-now" : ""}`;
      write(sign, lost ? "×" : `${line ? "★" : ""}${one.ended ? "■" : ""}`);
      curve?.setAttribute("class", level > step + 1 ? "headroom-later" : lost ? "headroom-lost" : line ? "headroom-front" : "");
    }
    // Scrolled by hand: scrollIntoView would move the page.
    const [from, to] = [step * NODE.across, (step + 2) * NODE.across + 12];
    if (room && (to > left + room || from < left)) tree.scrollLeft = Math.min(from, to - room);
    write(treeTitle, `Hypotheses after step ${step + 1}: the best ${now.beams} go on`);
    write(treeNote, `Each carries its last token and the log-probability of the whole. The frame is around the hypothesis whose step is shown; ★ the line of the front-runner, ■ ended, × dropped (of those, the best ${now.beams} of each step).`);
    const kept = shown[shown.length - 1].kept.map((one, i) => `${i + 1} “${say.textOf(one.prefix)}” ${logarithm(one.score)}`).join(", ");
    tree.setAttribute("aria-label", `Tree of hypotheses. After step ${step + 1}: ${kept}. Left and right go to another step, up and down to another hypothesis.`);
  }
  /** A hypothesis, with the line that leads to it. @param {T.Level[]} levels @param {number} level @param {number} row @param {T.Hypothesis} one @param {SVGElement} svg @returns {T.Node} */
  nodeOf(levels, level, row, one, svg) {
    const { answers, say } = this;
    const { kept } = levels[level];
    const lost = row >= kept.length;
    const [x, y] = placeOf(level, row, lost);
    let curve = null;
    if (level) {
      const [px, py] = placeOf(level - 1, one.parent, false);
      const [x1, y1, y2] = [px + NODE.width, py + NODE.height / 2, y + NODE.height / 2];
      curve = document.createElementNS(SVG, "path");
      curve.setAttribute("d", `M${x1} ${y1}C${x1 + 8} ${y1} ${x - 8} ${y2} ${x} ${y2}`);
      svg.append(curve);
    }
    const over = !lost && one.ended && level && levels[level - 1].kept[one.parent].ended; // it had ended before
    const { bos, tokens } = answers.facts;
    const word = level === 0 ? (bos === null ? "…" : tokens[bos]) : over ? "" : say.name(one.prefix[one.prefix.length - 1]);
    const sign = h("b");
    const element = h("div", { "data-level": level, ...(lost ? { "data-dropped": row - kept.length } : { "data-rank": row }), "data-score": one.score },
      h("span", {}, sign, word), h("span", { class: "headroom-value" }, logarithm(one.score)));
    Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` });
    return { level, row, lost, one, element, sign, curve };
  }
}
