// @ts-check
/* What is written, and the candidates for the next token. */
import { h, write } from "../kernel/elements.js";
import { number } from "../kernel/words.js";
import { logarithm, share, taken } from "./words.js";
/** @import { Answers } from "./answers.js" */
/** @import { Parts } from "./parts.js" */
/** @import { Words } from "./words.js" */
/** @import { DecodingStepper as T } from "../types" */

const ROWS = 6; // candidates that have a row of their own

/** The candidates that have a row: the likeliest, and the one that is written. @param {number[]} order @param {number | null} token */
function rowsOf(order, token) {
  const rows = order.slice(0, ROWS);
  if (token !== null && !rows.includes(token)) rows[rows.length - 1] = token;
  return rows;
}

/** What is said of a candidate, and its sign. @param {number} one @param {T.Shown} view */
function signOf(one, view) {
  const { now, beam, token, own } = view;
  const written = one === token;
  if (beam) {
    if (beam.over) return { sign: written ? "■" : "", says: "" };
    const child = beam.children.find(({ prefix }) => prefix.at(-1) === one);
    return child ? { sign: `${child.rank + 1}`, says: `kept as hypothesis ${child.rank + 1}` } : { sign: "×", says: "dropped" };
  }
  if (written) return { sign: "▸", says: taken(view) ? "you take it" : now.method === "sampling" ? "drawn" : "written" };
  return { sign: "", says: one === own ? "the model's choice" : "" };
}

export class Candidates {
  /** @param {Answers} answers @param {Words} say @param {Parts} parts @param {(part: string, ...made: unknown[]) => boolean} stale */
  constructor(answers, say, parts, stale) {
    this.answers = answers;
    this.say = say;
    this.parts = parts;
    this.stale = stale;
  }
  /** @param {T.Shown} _ */
  paintWritten({ path, step, token, beam, now }) {
    const { say, answers, stale, parts: { writtenRow } } = this;
    if (!stale("written", path.slice(0, step), step, token, beam || now.taken)) return;
    const { bos, tokens } = answers.facts;
    const before = h("span", { class: "headroom-chip" }, h("span", {}, bos === null ? now.source : tokens[bos]));
    const shown = [...path.slice(0, step), ...(token === null ? [] : [token])];
    const chips = shown.map((one, i) => {
      const yours = !beam && now.taken.some(([at]) => at === i);
      const here = i === Math.min(step, shown.length - 1) && token !== null; // an ended hypothesis shows its last step
      return h("span", { class: `headroom-chip${here ? " headroom-is-now" : ""}`, "data-step": i }, h("b", {}, (here ? "▸" : "") + (yours ? "you" : "")), h("span", {}, say.name(one)));
    });
    if (token === null) chips.push(h("span", { class: "headroom-chip headroom-is-now" }, h("span", {}, "?")));
    writtenRow.replaceChildren(before, ...chips);
    writtenRow.setAttribute("aria-label", `Written so far: ${say.textOf(shown) || "nothing"}. Arrow keys go a step back and forward.`);
  }
  /** @param {T.Shown} view */
  paintCandidates(view) {
    const { answers, stale, parts: { candidatesTitle, candidates, undo, others } } = this;
    const { now, beam, token, candidates: known } = view;
    if (!stale("candidates", view.which, view.prefix, token, view.step, beam?.rank, now.method, now.temperature, now.seed, now.beams, now.taken, !known)) return;
    const temperature = now.method === "sampling" ? ` at temperature ${number(now.temperature, 1)}` : "";
    write(candidatesTitle, beam?.over ? "Candidates of the step that ended this hypothesis" : `Candidates for the next token${temperature}`);
    undo.hidden = beam !== null || !now.taken.length;
    if (!known) {
      candidates.replaceChildren(h("p", {}, "Not computed yet."));
      others.hidden = true;
      return;
    }
    const { shares, order } = known;
    const rows = rowsOf(order, token);
    const focused = [...candidates.children].findIndex((one) => one === document.activeElement);
    const kept = focused < 0 ? null : candidates.children[focused].getAttribute("data-token");
    const buttons = rows.map((one) => this.buttonOf(one, view, known));
    candidates.replaceChildren(...buttons);
    if (kept !== null) buttons[rows.findIndex((one) => answers.facts.tokens[one] === kept)]?.focus({ preventScroll: true });
    const rest = order.filter((one) => !rows.includes(one));
    others.hidden = false;
    write(others, (rest.length ? `The other ${rest.length} together: ${share(rest.reduce((sum, one) => sum + shares[one], 0))}. ` : "") +
      (temperature ? "The thin line marks the probability at temperature 1. " : "") + (beam ? "Log P is that of the whole hypothesis." : "Choose one to see what would follow."));
  }
  /** A candidate's row. @param {number} one @param {T.Shown} view @param {T.Candidates} known */
  buttonOf(one, view, { shares, plain, logShares }) {
    const { answers, say } = this;
    const { now, beam, token } = view;
    const child = beam ? beam.children.find(({ prefix }) => prefix.at(-1) === one) : null;
    const { sign, says } = signOf(one, view);
    const total = beam && !beam.over ? ` log-probability ${logarithm(beam.hypothesis.score + logShares[one])}` : "";
    const fill = h("span");
    const bar = h("span", { class: "headroom-bar" }, fill);
    fill.style.width = `${100 * shares[one]}%`;
    if (now.method === "sampling") {
      const mark = h("i");
      mark.style.left = `${100 * plain[one]}%`;
      bar.append(mark);
    }
    return h("button", {
      type: "button", "data-part": "candidate", "data-token": answers.facts.tokens[one], "data-share": shares[one], "data-kept": child ? child.rank : null,
      "aria-pressed": beam ? null : String(one === token), "aria-disabled": beam && !child ? "true" : null,
      "aria-label": `${say.sayToken(one)}, probability ${share(shares[one])}${total ? `,${total}` : ""}${says ? `, ${says}` : ""}`,
      title: beam ? null : one === token ? null : `Take ${say.sayToken(one)} and let the model go on from there`,
    }, h("b", {}, sign), h("span", { class: "headroom-token" }, say.name(one)), bar, h("span", { class: "headroom-value" }, share(shares[one])),
    h("span", { class: "headroom-says" }, [total.trim().replace("log-probability", "log P"), says].filter(Boolean).join(", ")));
  }
}
