// @ts-check
/* Encodings: how positions become rows of numbers, and how alike two rows are. */
/** @import { Point, PositionExplorer as T } from "../types" */

/** ω_i = base^(−2i / width): how far pair i turns from one position to the next, in radians. @param {number} width @param {number} base */
export function frequencies(width, base) {
  return Float64Array.from({ length: Math.ceil(width / 2) }, (_, i) => base ** ((-2 * i) / width));
}

/** The sin-cos row of any position: sin(p ω_i), cos(p ω_i), …; an odd width ends on a sine. @param {number} position @param {Float64Array} omegas @param {Float64Array} out */
export function sinCosRow(position, omegas, out) {
  for (let i = 0; i < omegas.length; i++) {
    out[2 * i] = Math.sin(position * omegas[i]);
    if (2 * i + 1 < out.length) out[2 * i + 1] = Math.cos(position * omegas[i]);
  }
  return out;
}

/** A query or key as rotary positions turn it: each pair of its numbers by p ω_i. @param {T.Row} vector @param {number} position @param {Float64Array} omegas @param {Float64Array} out */
export function turnedRow(vector, position, omegas, out) {
  for (let i = 0; i < omegas.length; i++) {
    const [sin, cos] = [Math.sin(position * omegas[i]), Math.cos(position * omegas[i])];
    const [first, second] = [vector[2 * i], vector[2 * i + 1]];
    out[2 * i] = first * cos - second * sin;
    out[2 * i + 1] = first * sin + second * cos;
  }
  return out;
}

/** @param {T.Row} a @param {T.Row} b */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** The similarity of every two positions `(n, n)`; NaN: there is none. @param {T.Encoding} _ @param {T.Measure} measure */
export function allSimilarities({ n, rows, keys, scale }, measure) {
  const values = new Float64Array(n * n).fill(NaN);
  /** @param {T.Row[]} list */
  const sizes = (list) => list.map((row) => (measure === "dot" ? 1 : Math.sqrt(dot(row, row))));
  const [rowSizes, keySizes] = [sizes(rows), rows === keys ? null : sizes(keys)];
  const factor = measure === "dot" ? scale : 1;
  for (let p = 0; p < rows.length; p++) {
    for (let other = rows === keys ? p : 0; other < keys.length; other++) {
      const value = (dot(rows[p], keys[other]) * factor) / (rowSizes[p] * (keySizes ?? rowSizes)[other]);
      values[p * n + other] = value;
      if (rows === keys) values[other * n + p] = value;
    }
  }
  return values;
}

/** What similarities come to by distance: index n − 1 + distance. @param {Float64Array} values @param {T.Encoding} _ */
export function byDistance(values, { n, rows, keys }) {
  const span = 2 * n - 1;
  const [sum, count] = [new Float64Array(span), new Float64Array(span)];
  const [least, most] = [new Float64Array(span).fill(Infinity), new Float64Array(span).fill(-Infinity)];
  for (let p = 0; p < rows.length; p++) {
    for (let other = 0; other < keys.length; other++) {
      const [value, at] = [values[p * n + other], n - 1 + other - p];
      if (value !== value) continue;
      sum[at] += value;
      count[at] += 1;
      if (value < least[at]) least[at] = value;
      if (value > most[at]) most[at] = value;
    }
  }
  const seen = [...count.keys()].filter((at) => count[at]);
  const low = seen.reduce((a, at) => Math.min(a, least[at]), Infinity);
  const high = seen.reduce((a, at) => Math.max(a, most[at]), -Infinity);
  return { values, count, least, most, mean: sum.map((total, at) => total / count[at]), low: seen.length ? low : 0, high: seen.length ? high : 1 };
}

/** One encoding: rows of queries, and of keys, which only with rotary positions are others.
 * @param {T.Kind} kind @param {T.Table | undefined} table the rows, unless a formula makes them
 * @param {{ n: number, width: number, base: number, query: T.Row, key: T.Row }} _ @returns {T.Encoding} */
export function encodingOf(kind, table, { n, width, base, query, key }) {
  const omegas = frequencies(width, base);
  const total = table ? table.shape[0] : Infinity; // how many rows exist
  /** @param {T.Row} vector @param {number} p */
  const made = (vector, p) => (kind === "rotary" ? turnedRow : sinCosRowOf)(vector, p, omegas, new Float64Array(width));
  /** @param {T.Table} one @param {number} p @returns {T.Row} */
  const given = ({ values }, p) => values.subarray(p * width, (p + 1) * width);
  const rows = Array.from({ length: Math.min(n, total) }, (_, p) => (table ? given(table, p) : made(query, p)));
  const keys = kind === "rotary" ? rows.map((_, p) => made(key, p)) : rows;
  /** @param {number} p */
  const row = (p) => rows[p] ?? (!table ? made(query, p) : p >= 0 && p < total ? given(table, p) : null);
  const most = kind === "sin-cos" ? 1 : rows.reduce((top, one) => Math.max(top, ...Array.from(one, Math.abs)), 0);
  return {
    kind, width, n, rows, keys, row, total,
    omegas: table ? null : omegas, // null: no formula's
    key: kind === "rotary" ? (p) => keys[p] ?? made(key, p) : row,
    limit: most || 1, // the largest size of a number: the ends of the colours
    scale: kind === "rotary" ? 1 / Math.sqrt(width) : 1,
    /** One number of a formula, also between two positions. @param {number} p @param {number} j */
    between: (p, j) => {
      const angle = p * omegas[j >> 1];
      if (kind === "sin-cos") return j % 2 ? Math.cos(angle) : Math.sin(angle);
      const [first, second] = [query[j & ~1], query[j | 1]];
      return j % 2 ? first * Math.sin(angle) + second * Math.cos(angle) : first * Math.cos(angle) - second * Math.sin(angle);
    },
    similarities: {}, pictures: {}, fits: {},
  };
}

/** @type {typeof turnedRow} */
const sinCosRowOf = (_, position, omegas, out) => sinCosRow(position, omegas, out);

/** A pair as a point, counter-clockwise with the position: sin-cos (cosine, sine), rotary (first, second).
 * @param {T.Encoding} _ @param {T.Row | null} row @param {number} pair @returns {Point | null} */
export function pairAt({ kind, width }, row, pair) {
  if (!row || 2 * pair + 1 >= width) return null;
  return kind === "rotary" ? [row[2 * pair], row[2 * pair + 1]] : [row[2 * pair + 1], row[2 * pair]];
}
