// @ts-check
/* Numbers and names as readers see them. Indices count from 0 in code and in Python, from 1 in words. */

/** A number as readers see it: two digits after the point, a minus sign and no hyphen. @param {number} value */
export function number(value, digits = 2) {
  return value.toFixed(digits).replace("-", "−");
}

/** A text with a capital in front. @param {string} text */
export function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

/** Things in a sentence: "a", "a and b", "a, b and c". @param {string[]} parts */
export function list(parts) {
  return parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

/** A token as readers see it: spaces at its ends get a sign, many of them with their number, and line breaks too. @param {string} word */
export function visible(word) {
  const sign = (/** @type {string} */ space) => space.replace(/ {3,}/g, (run) => `␣×${run.length}`).replaceAll(" ", "␣").replaceAll("\n", "⏎");
  return word ? word.replace(/^\s+|\s+$/g, sign) : "␣";
}

/** A head in words; null: the mean of all. @param {number | null} head */
export function sayHead(head) {
  return head === null ? "mean of heads" : `head ${head + 1}`;
}
