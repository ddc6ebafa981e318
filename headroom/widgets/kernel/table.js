// @ts-check
/* Tables of numbers. */
import { h } from "./elements.js";

/** A table with a name for each column and each line. @param {string} caption
 * @param {string[]} columns an empty name: a cell that is no head
 * @param {{ name: string, cells: string[] }[]} lines */
export function numbersTable(caption, columns, lines) {
  return h("table", {}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, ...columns.map((name) => (name ? h("th", { scope: "col" }, name) : h("td"))))),
    h("tbody", {}, ...lines.map(({ name, cells }) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((text) => h("td", {}, text))))));
}

/** The columns of a table that is laid out like an image: "column 1", …, after an empty one for the rows' names. @param {number} n */
export function columnsOf(n) {
  return ["", ...Array.from({ length: n }, (_, i) => `column ${i + 1}`)];
}
