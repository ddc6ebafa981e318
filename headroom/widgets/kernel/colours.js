// @ts-check
/* Colours: the map for amounts, and those of the theme. */
/** @import { Rgb } from "../types" */

// Matplotlib's cividis at 16 even steps, the course's map for amounts: even in lightness, same to colour-blind readers.
export const CIVIDIS = (
  "00224e 002e6c 1e3a6f 35456c 47516c 575d6d 666970 757575 " +
  "848279 948e77 a59c74 b7a96e c8b866 dbc75a eed649 fee838"
).split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

/** The colour of a fraction 0…1 as [red, green, blue], each 0…255. @param {number} fraction */
export function colour(fraction) {
  const place = Math.min(1, Math.max(0, fraction)) * (CIVIDIS.length - 1);
  const below = Math.min(CIVIDIS.length - 2, Math.floor(place));
  return CIVIDIS[below].map((from, i) => Math.round(from + (place - below) * (CIVIDIS[below + 1][i] - from)));
}

/** [red, green, blue] as CSS writes it. @param {Rgb} rgb */
export function css([r, g, b]) {
  return `rgb(${r} ${g} ${b})`;
}

/** Black or white, whichever is easier to read on [red, green, blue]: the contrast is at least 4.5 (WCAG 2.2, 1.4.3).
 * @param {Rgb} rgb */
export function inkOn(rgb) {
  const [r, g, b] = rgb.map((value) => (value / 255 <= 0.04045 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

/** The family's colours as the theme has them now: { q, k, v, text }. @param {Element} root */
export function themeColours(root) {
  const style = getComputedStyle(root);
  /** @param {string} name */
  const get = (name) => style.getPropertyValue(`--headroom-${name}`).trim();
  return { q: get("q"), k: get("k"), v: get("v"), text: style.color };
}
