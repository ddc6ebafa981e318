// @ts-check
/* Controls: elements that say what is chosen and change it, and what several widgets build from them. */
import { cycle, clamp } from "./numbers.js";
import { h, write } from "./elements.js";
/** @import { Attributes, Child, Choice, Control, Entry, Steps } from "../types" */

/** A control with its name. @param {string} text @param {...Child} inputs */
export function field(text, ...inputs) {
  return h("label", {}, h("span", {}, text), ...inputs);
}

/** @param {string} part @param {string} text @param {Attributes} [attributes] */
export function button(part, text, attributes = {}) {
  return h("button", { type: "button", "data-part": part, ...attributes }, text);
}

/** Keys as they stand in a sentence, a space between them. @param {...string} all */
export function keys(...all) {
  return all.flatMap((text, i) => [...(i ? [" "] : []), h("kbd", {}, text)]);
}

/** A menu of what one choice may be; entries with a group stand under its name, in the order of the groups' first ones.
 * @template {string} Name @template Value
 * @param {string} part @param {Name} name of the choice @param {Entry<Value>[]} entries
 * @param {Attributes & { none?: string }} [attributes] `none` is the value, in the page, of the entry that stands for null
 * @returns {Control<Record<Name, Value>, HTMLSelectElement>} */
export function menu(part, name, entries, { none = "", ...attributes } = {}) {
  const groups = [...new Set(entries.map(({ group }) => group))];
  const ordered = groups.flatMap((group) => entries.filter((one) => one.group === group));
  /** @param {Entry<Value>} _ */
  const option = ({ value, text }) => h("option", { value: value === null ? none : String(value) }, text);
  const input = h("select", { "data-part": part, ...attributes }, ...groups.flatMap((group) => {
    const options = entries.filter((one) => one.group === group).map(option);
    return group === undefined ? options : [h("optgroup", { label: group }, ...options)];
  }));
  return {
    input,
    event: "change",
    read: () => /** @type {Record<Name, Value>} */ ({ [name]: ordered[input.selectedIndex].value }),
    show: (now) => (input.selectedIndex = ordered.findIndex(({ value }) => value === now[name])),
  };
}

/** A box to tick, and its label. @template {string} Name @param {string} part @param {Name} name of the choice
 * @param {string} text @param {Attributes} [attributes]
 * @returns {Control<Record<Name, boolean>, HTMLInputElement> & { label: HTMLElement }} */
export function checkbox(part, name, text, attributes = {}) {
  const input = h("input", { type: "checkbox", "data-part": part, ...attributes });
  return {
    input,
    event: "change",
    label: h("label", {}, input, h("span", {}, text)),
    read: () => /** @type {Record<Name, boolean>} */ ({ [name]: input.checked }),
    show: (now) => (input.checked = now[name]),
  };
}

/** The slider of the layers, from 1 to `n`, and its label.
 * @param {number} n @returns {Control<{ layer: number }, HTMLInputElement> & { label: HTMLElement }} */
export function layerSlider(n) {
  const input = h("input", { type: "range", "data-part": "layer-range", min: 1, max: n, step: 1, disabled: n === 1 });
  const output = h("span", { class: "headroom-value", "aria-hidden": "true" });
  return {
    input,
    event: "input",
    label: field("Layer", input, output),
    read: () => ({ layer: Number(input.value) - 1 }),
    show({ layer }) {
      input.value = String(layer + 1);
      input.setAttribute("aria-valuetext", `layer ${layer + 1} of ${n}`);
      write(output, `${layer + 1} of ${n}`);
    },
  };
}

/** The heads as entries of a menu, their mean first. @param {number} n @param {string} [mean] @param {(head: number) => string} [name]
 * @returns {Entry<number | null>[]} */
export function headEntries(n, mean = "mean", name = (head) => String(head + 1)) {
  return [{ value: null, text: mean }, ...Array.from({ length: n }, (_, value) => ({ value, text: name(value) }))];
}

/** Let each control change its choice; returns what sets them all to what is chosen.
 * @template Now @param {Control<NoInfer<Now>>[]} controls @param {Choice<Now>} choice @param {AbortSignal} signal */
export function bind(controls, choice, signal) {
  for (const { input, event, read } of controls) input.addEventListener(event, () => choice.choose(read()), { signal });
  return (/** @type {Now} */ now) => {
    for (const control of controls) control.show(now);
  };
}

/** The head that is `by` further; the mean of all (null) comes before the first and after the last.
 * @param {number | null} head @param {number} by @param {number} n */
export function nextHead(head, by, n) {
  const next = cycle(head === null ? 0 : head + 1, by, n + 1);
  return next === 0 ? null : next - 1;
}

/** What the keys do that go from one layer, head or sample to another, in every widget that has them.
 * @template {Steps} Now @param {Choice<Now>} choice @param {{ n_layers: number, n_heads: number }} _ @returns {Record<string, () => unknown>} */
export function attentionKeys(choice, { n_layers, n_heads }) {
  /** @param {Partial<Steps>} changes */
  const choose = (changes) => choice.choose(/** @type {Partial<Now>} */ (changes));
  /** @param {number} by */
  const layer = (by) => choose({ layer: clamp(choice.now().layer + by, 0, n_layers - 1) });
  /** @param {number} by */
  const head = (by) => choose({ head: nextHead(choice.now().head, by, n_heads) });
  /** @type {Record<string, () => unknown>} */
  const actions = {
    "[": () => layer(-1),
    "]": () => layer(1),
    PageUp: () => layer(-1),
    PageDown: () => layer(1),
    h: () => head(1),
    H: () => head(-1),
    0: () => choose({ head: null }),
  };
  for (let nth = 1; nth <= Math.min(9, n_heads); nth++) actions[nth] = () => choose({ head: nth - 1 });
  return actions;
}
