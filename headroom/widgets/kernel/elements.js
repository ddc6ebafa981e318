// @ts-check
/* Elements of the page that several widgets have. */
import { CIVIDIS, css } from "./colours.js";
import { number } from "./words.js";
/** @import { Attributes, Child, Legend } from "../types" */

/** Make an element: h("p", { "data-part": "live" }, "text", child, …).
 * @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {Attributes} attributes @param {...Child} children */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** A name that no other view on the page has, for ids and radio groups. */
export function uniqueName() {
  return Math.random().toString(36).slice(2);
}

/** Give a node its text, only where it has another: what does not change need not be laid out, or spoken, anew. @param {Node} node @param {string} text */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The element in which something has happened. @param {Event} event */
export function targetOf(event) {
  return /** @type {HTMLElement} */ (event.target);
}

/** A colour bar with three numbers, as `say` writes them, and a note below: { element, set(low, high, note, say) }. @returns {Legend} */
export function legend() {
  const numbers = [0, 1, 2].map(() => h("span"));
  const note = h("span", { class: "headroom-note" });
  const ramp = h("div", { class: "headroom-ramp", "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${CIVIDIS.map(css).join(", ")})`;
  const element = h("div", { "data-part": "legend" }, ramp, h("div", { class: "headroom-ticks" }, ...numbers), note);
  return {
    element,
    set(low, high, text, say = number) {
      [low, (low + high) / 2, high].forEach((value, i) => write(numbers[i], say(value)));
      write(note, text);
    },
  };
}

/** The sentence that says what is shown, spoken when it changes: { element, say(text) }. @param {string} id */
export function liveLine(id) {
  const element = h("p", { "data-part": "live", id, "aria-live": "polite" });
  return {
    element,
    /** @param {string} text */
    say(text) {
      write(element, text);
    },
  };
}

/** The same numbers as a table, folded away and filled only while open: { element, update() }. @param {() => Node} fill @param {string} name */
export function tableView(fill, name) {
  const body = h("div", { class: "headroom-scroll", tabindex: 0, role: "region", "aria-label": name });
  const element = h("details", { "data-part": "table" }, h("summary", {}, "Show as table"), body);
  const update = () => element.open && body.replaceChildren(fill());
  element.addEventListener("toggle", update);
  return { element, update };
}

/** Whether Python may be behind this page; behind an exported one there is none. */
export function hasPython() {
  return document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]') === null;
}

/** A paragraph that says what needs Python; in an exported page, where there is none, it says so first. @param {...Child} children */
export function needsPython(...children) {
  const missing = !hasPython() ? ["There is no Python behind this page: what you see goes on working, but what you choose goes nowhere. "] : [];
  return h("p", { "data-part": "python" }, ...missing, ...children);
}

/** Whether what a part is made of is another than when it was asked last, so that the part must be made again. */
export function memory() {
  /** @type {Record<string, string>} */
  const known = {};
  return (/** @type {string} */ part, /** @type {unknown[]} */ ...made) => {
    const before = known[part];
    known[part] = JSON.stringify(made);
    return known[part] !== before;
  };
}
