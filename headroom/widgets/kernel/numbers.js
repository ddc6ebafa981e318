// @ts-check
/* Bytes from Python, and small arithmetic. */
/** @import { Bytes, NumberType } from "../types" */

/** Bytes from Python, a DataView somewhere in a message, as numbers: `decode(Uint16Array, model.get("_attention"))`.
 * Copied only where they do not start at a multiple of their size.
 * @template Numbers @param {NumberType<Numbers>} Type @param {Bytes} view */
export function decode(Type, view) {
  const { buffer, byteOffset, byteLength } = view;
  if (byteOffset % Type.BYTES_PER_ELEMENT === 0) return new Type(buffer, byteOffset, byteLength / Type.BYTES_PER_ELEMENT);
  return new Type(buffer.slice(byteOffset, byteOffset + byteLength));
}

/** The index that is `step` further, the first following the last. @param {number} value @param {number} step @param {number} size */
export function cycle(value, step, size) {
  return (value + step + size) % size;
}

/** Pairs as a list of pairs, so that each half keeps its type. @template A, B @param {...[A, B]} all */
export function pairs(...all) {
  return all;
}

/** @param {number} value @param {number} low @param {number} high */
export function clamp(value, low, high) {
  return Math.min(high, Math.max(low, value));
}
