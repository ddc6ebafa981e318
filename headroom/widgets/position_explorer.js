// @ts-check
/* The front end of headroom.widgets.PositionExplorer.
 *
 * Positions p, pairs i and dimensions 2i, 2i + 1 count from 0, on the screen too: they are the formula's.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-position-explorer      the root of one view; a page may hold many
 *   canvas[data-part=table-picture]  the table, positions down, dimensions across; takes the focus and the keys
 *   canvas[data-part=matrix]         the similarity of every two positions; takes the focus and the keys
 *   canvas[data-part=profile]        the similarity by distance; data-step: pixels from one distance to the next
 *   canvas[data-part=wave]           the chosen dimension over the positions; data-step: as above
 *                                    on these four data-left, -top, -cell-width, -cell-height say where cells or points lie
 *   canvas[data-part=circle]         the chosen pair as a point, at the position and at the shifted one
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=kind]                 <input type=radio>, value: "sin-cos", "learned", "rotary" or "yours"
 *   [data-part=base-range]           <input type=range>, value: log10 of the base
 *   [data-part=width-range], [data-part=count-range], [data-part=position-range], [data-part=dimension-range],
 *   [data-part=shift-range]          <input type=range>, value: the number itself
 *   [data-part=measure-select]       <select>, value: "dot" or "cosine"
 *   [data-part=distance], [data-part=rotation], [data-part=comparison]   what the pictures come to, in numbers
 *   [data-part=show-difference]      <button>: go to the first number in which yours and sin-cos differ
 *   [data-part=table], [data-part=keys] (<details>)
 *   data-kind, data-position, data-dimension, data-shift, data-base, … on the root: what is shown now
 */
import {
  bitmap, choices, decode, guardKeys, h, legend, liveLine, needsPython, number, onPointer, pairs, prepare, repaint, tableView, uniqueName,
} from "./shared.js";
/** @import { Canvas, Child, Model, On, Pen, Point, View, PositionExplorer as T } from "./types" */

/** @type {(keyof T.Now)[]} */
const CHOICES = ["kind", "position", "dimension", "shift", "base", "d_model", "n_positions", "measure", "locked"];
/** @type {("_yours" | "_yours_facts")[]} */
const SENT_AGAIN = ["_yours", "_yours_facts"]; // when the reader's function has made another table
/** @type {Record<T.Kind, string>} */
const NAMES = { "sin-cos": "Sin-cos", learned: "Learned", rotary: "Rotary", yours: "Yours" };
const SAME = 1e-4; // share of all differences that float32 may blur
const ROTATION = 1 - 1e-6; // how well a rotation fits, in float32
const TABLE_DIGITS = 6;

// ---------------------------------------------------------------- the numbers

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
function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** The encodings that a widget was given or computes. What was computed last is kept. @param {Model<T.Traits>} model */
function readData(model) {
  const facts = model.get("_facts");
  /** @type {Partial<Record<T.Kind, T.Table>>} */
  const tables = {};
  if ("shape" in facts.learned) tables.learned = { values: decode(Float32Array, model.get("_learned")), ...facts.learned };
  const [q, k] = [decode(Float32Array, model.get("_q")), decode(Float32Array, model.get("_k"))];
  let revision = 0; // of yours
  const readYours = () => {
    const told = model.get("_yours_facts");
    if ("shape" in told) tables.yours = { values: decode(Float32Array, model.get("_yours")), ...told };
    revision += 1;
  };
  readYours();
  /** @type {T.Kind[]} */
  const known = ["sin-cos", "learned", "rotary", "yours"];
  const kinds = known.filter((kind) => kind in tables || kind === "sin-cos" || kind === "rotary");
  /** @param {T.Kind} kind @param {number} dModel */
  const widthOf = (kind, dModel) => tables[kind]?.shape[1] ?? (kind === "rotary" && q.length ? q.length : dModel);

  /** @type {Map<string, unknown>} */
  const kept = new Map();
  /** What is asked for by name, or made and kept; the oldest of many goes. @template Made @param {string} name @param {() => Made} make @returns {Made} */
  function keep(name, make) {
    const found = /** @type {Made} */ (kept.get(name) ?? make());
    kept.delete(name);
    kept.set(name, found);
    if (kept.size > 12) kept.delete([...kept.keys()][0]);
    return found;
  }

  /** One encoding for a state: rows of queries, and of keys, which only with rotary positions are others. @param {T.Kind} kind @param {T.Now} _ @returns {T.Encoding} */
  function encoding(kind, { base, d_model, n_positions: n }) {
    const width = widthOf(kind, d_model);
    const table = tables[kind];
    return keep([kind, table ? "" : base, width, n, kind === "yours" ? revision : ""].join(), () => {
      const omegas = frequencies(width, base);
      const [query, key] = q.length ? [q, k] : [new Float32Array(width).fill(1), new Float32Array(width).fill(1)];
      /** @param {T.Row} vector @param {number} p @param {Float64Array} [out] */
      const made = (vector, p, out = new Float64Array(width)) => (kind === "rotary" ? turnedRow(vector, p, omegas, out) : sinCosRow(p, omegas, out));
      /** @param {T.Row} vector */
      const all = (vector) => Array.from({ length: n }, (_, p) => made(vector, p));
      const total = table ? table.shape[0] : Infinity; // how many rows exist
      /** @param {T.Table} one @param {number} p */
      const given = ({ values }, p) => values.subarray(p * width, (p + 1) * width);
      /** @type {T.Row[]} */
      const rows = table ? Array.from({ length: Math.min(n, total) }, (_, p) => given(table, p)) : all(query);
      const keys = kind === "rotary" ? all(key) : rows;
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
    });
  }

  /** How alike two positions are; NaN where one has no row, or a row without direction has a cosine. @param {T.Encoding} one @param {T.Measure} measure @param {number} p @param {number} other */
  function similarity(one, measure, p, other) {
    const [a, b] = [one.row(p), one.key(other)];
    if (!a || !b) return NaN;
    return measure === "dot" ? dot(a, b) * one.scale : dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  }

  /** All of them `(n, n)`, their extent, and what they come to by distance: index n − 1 + distance. @param {T.Encoding} one @param {T.Measure} measure */
  function similarities(one, measure) {
    return (one.similarities[measure] ??= (() => {
      const { n, rows, keys, scale } = one;
      const values = new Float64Array(n * n).fill(NaN);
      /** @param {T.Row[]} list */
      const sizes = (list) => list.map((row) => (measure === "dot" ? 1 : Math.sqrt(dot(row, row))));
      const [rowSizes, keySizes] = [sizes(rows), rows === keys ? null : sizes(keys)];
      const factor = measure === "dot" ? scale : 1;
      const span = 2 * n - 1;
      const [sum, count] = [new Float64Array(span), new Float64Array(span)];
      const [least, most] = [new Float64Array(span).fill(Infinity), new Float64Array(span).fill(-Infinity)];
      for (let p = 0; p < rows.length; p++) {
        for (let other = rows === keys ? p : 0; other < keys.length; other++) {
          const value = (dot(rows[p], keys[other]) * factor) / (rowSizes[p] * (keySizes ?? rowSizes)[other]);
          values[p * n + other] = value;
          if (rows === keys) values[other * n + p] = value;
        }
      }
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
    })());
  }

  /** A pair as a point, counter-clockwise with the position: sin-cos (cosine, sine), rotary (first, second). 
   * @param {T.Encoding} _ @param {T.Row | null} row @param {number} pair @returns {Point | null} */
  function point({ kind, width }, row, pair) {
    if (!row || 2 * pair + 1 >= width) return null;
    return kind === "rotary" ? [row[2 * pair], row[2 * pair + 1]] : [row[2 * pair + 1], row[2 * pair]];
  }

  /** The one rotation that best takes every position's pair to the pair `shift` positions on: its angle, and how well it
   * fits, from 0 to 1: a rotation exactly (2 a·b against a² + b², a the turned pair and b the other, over all positions). @param {T.Encoding} one @param {number} pair @param {number} shift */
  function fit(one, pair, shift) {
    let [along, across, before, after] = [0, 0, 0, 0];
    for (let p = Math.max(0, -shift); p < one.rows.length && p + shift < one.rows.length; p++) {
      const [a, b] = [point(one, one.rows[p], pair), point(one, one.rows[p + shift], pair)];
      if (!a || !b) continue;
      along += a[0] * b[0] + a[1] * b[1];
      across += a[0] * b[1] - a[1] * b[0];
      before += a[0] ** 2 + a[1] ** 2;
      after += b[0] ** 2 + b[1] ** 2;
    }
    return { angle: Math.atan2(across, along), fits: (2 * Math.hypot(along, across)) / (before + after) };
  }
  /** How many pairs one rotation each takes a shift further. @param {T.Encoding} one @param {number} shift */
  function turning(one, shift) {
    return (one.fits[shift] ??= Array.from({ length: one.width >> 1 }, (_, pair) => fit(one, pair, shift)).filter((its) => its.fits > ROTATION).length);
  }

  /** Where yours and sin-cos differ by more than rounding, row by row. @param {number} base */
  function differences(base) {
    const { yours } = tables;
    return yours && keep(`differences ${base} ${revision}`, () => {
      const { shape: [rows, width], values } = yours;
      const omegas = frequencies(width, base);
      const right = new Float64Array(width);
      /** @type {{ position: number, dimension: number, yours: number, right: number } | null} */
      let first = null;
      let [count, most] = [0, 0];
      for (let p = 0; p < rows; p++) {
        sinCosRow(p, omegas, right);
        for (let j = 0; j < width; j++) {
          const off = Math.abs(values[p * width + j] - right[j]);
          if (off > most) most = off;
          if (off <= 3e-6 * (1 + p * omegas[j >> 1])) continue; // float32 rounds large angles
          count += 1;
          first ??= { position: p, dimension: j, yours: values[p * width + j], right: right[j] };
        }
      }
      return { rows, width, first, count, most };
    });
  }

  /** One pixel a number; rows that do not exist are grey. @param {T.Encoding} one */
  function tablePicture(one) {
    const none = new Float64Array(one.width).fill(NaN);
    return (one.pictures.table ??= bitmap(one.n, one.width, (p) => ({ values: one.rows[p] ?? none, low: -one.limit, high: one.limit })));
  }
  /** @param {T.Encoding} one @param {T.Measure} measure */
  function matrixPicture(one, measure) {
    const { values, low, high } = similarities(one, measure);
    return (one.pictures[measure] ??= bitmap(one.n, one.n, (p) => ({ values: values.subarray(p * one.n, (p + 1) * one.n), low, high })));
  }

  return { facts, tables, kinds, q, widthOf, readYours, encoding, similarity, similarities, point, fit, turning, differences, tablePicture, matrixPicture };
}

// ---------------------------------------------------------------- words

/** @param {string} text */
const minus = (text) => text.replace("-", "−");
/** @param {number} value */
const whole = (value) => minus(Math.round(value).toLocaleString("en"));
/** Few digits for large numbers, more for small ones. @param {number} value */
function short(value) {
  if (!Number.isFinite(value)) return "undefined";
  const size = Math.abs(value);
  return number(value, size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 || size === 0 ? 3 : 4);
}
/** @param {number} value */
const long = (value) => (Number.isFinite(value) ? number(value, TABLE_DIGITS) : "–");
/** @param {number} base */
const sayBase = (base) => (base >= 1000 ? whole(base) : String(Number(base.toPrecision(4))));
/** @param {number} radians */
function sayTurn(radians) {
  const degrees = (radians * 180) / Math.PI;
  const size = Math.abs(degrees);
  const says = `${minus(size >= 0.1 || size === 0 ? degrees.toFixed(1) : degrees.toPrecision(2))}°`;
  return size >= 360 ? `${says} (${number(size / 360)} turns)` : says;
}
/** @param {number} omega */
function sayLength(omega) {
  const length = (2 * Math.PI) / omega;
  return length < 1000 ? number(length, 1) : whole(length);
}
/** @param {number} count @param {string} what */
const plural = (count, what) => `${whole(count)} ${what}${count === 1 ? "" : "s"}`;

// ---------------------------------------------------------------- one view

/** @param {View<T.Traits>} _ */
function render({ model, el }) {
  const data = readData(model);
  const { facts, kinds } = data;
  const unique = uniqueName();
  const ended = new AbortController(); // ends every listener with the view
  const { signal } = ended;
  /** @param {number} value @param {number} low @param {number} high */
  const within = (value, low, high) => Math.min(high, Math.max(low, value));

  /** @param {T.Now} now */
  const isScore = (now) => now.kind === "rotary" && now.measure === "dot";
  /** @param {T.Kind} kind @param {T.Measure} measure */
  const measureName = (kind, measure) => (measure === "cosine" ? "cosine" : kind === "rotary" ? "score" : "dot product");
  /** @param {T.Encoding} _ @param {number} j */
  const sayWhich = ({ kind, width }, j) => {
    if (kind === "sin-cos") return `the ${j % 2 ? "cosine" : "sine"} of pair ${j >> 1}`;
    return `the ${j % 2 ? "second" : "first"} of pair ${j >> 1}${j % 2 === 0 && j + 1 === width ? ", which has no second" : ""}`;
  };
  /** @param {T.Encoding} one @param {number} p */
  const sayMissing = (one, p) => {
    const rows = data.tables[one.kind]?.rows ?? 0;
    if (rows > one.total && p >= one.total) return `Of its ${rows} rows the first ${one.total} are shown here: position ${p} is not among them.`;
    return `The ${one.kind === "yours" ? "table of yours" : "learned table"} has ${plural(rows, "row")}: there is none for position ${minus(String(p))}.`;
  };

  /** @param {T.Now} now @param {T.Encoding} one */
  function sayAll(now, one) {
    const { position: p, dimension: j, shift, measure, locked } = now;
    const [pair, target] = [j >> 1, p + shift];
    const start = `${NAMES[now.kind]}, position ${p}, dimension ${j}`;
    const end = locked ? " Locked." : "";
    const row = one.row(p);
    if (!row) return `${start}: ${sayMissing(one, p)}${end}`;
    const holds = now.kind === "rotary" ? `${start}, ${sayWhich(one, j)} of the turned query: ${short(row[j])}.` : `${start}, ${sayWhich(one, j)}: ${short(row[j])}.`;
    const wave = one.omegas ? ` It repeats every ${sayLength(one.omegas[pair])} positions.` : "";
    if (!one.row(target)) return `${holds} ${sayMissing(one, target)}${end}`;
    const alike = short(data.similarity(one, measure, p, target));
    const turn = one.omegas ? `, turns the pair by ${sayTurn(one.omegas[pair] * shift)};` : ":";
    const them = now.kind === "rotary" ? `the query at ${p} and the key at ${target} have` : "the two positions have";
    return `${holds}${wave} The shift by ${minus(String(shift))}, to position ${minus(String(target))}${turn} ${them} the ${measureName(now.kind, measure)} ${alike}.${end}`;
  }

  /** Whether pairs of positions that are equally far apart are equally similar. @param {T.Now} now @param {T.Encoding} one */
  function sayDistance(now, one) {
    const { shift, n_positions: n, measure } = now;
    const { count, least, most, low, high } = data.similarities(one, measure);
    const at = n - 1 + shift;
    const what = measureName(now.kind, measure);
    const apart = `(p, p ${shift < 0 ? "−" : "+"} ${Math.abs(shift)})`;
    if (!count[at]) return `No two rows of this table are positions ${apart}.`;
    if (count[at] === 1) return `Only one pair of positions is ${apart}; its ${what} is ${short(most[at])}.`;
    const same = most[at] - least[at] <= SAME * (high - low);
    const many = `${whole(count[at])} pairs of positions ${apart}`;
    if (same) return `All ${many} have the same ${what}, ${short(most[at])}: it tells how far apart they are, not where they stand.`;
    return `The ${many} have different ${what}s, from ${short(least[at])} to ${short(most[at])}: it depends on where they stand.`;
  }

  /** The shift as a rotation of the chosen pair, in numbers. @param {T.Now} now @param {T.Encoding} one */
  function sayRotation(now, one) {
    const { position: p, dimension: j, shift } = now;
    const [pair, target] = [j >> 1, p + shift];
    const [from, to] = [data.point(one, one.row(p), pair), data.point(one, one.row(target), pair)];
    if (2 * pair + 1 >= one.width) return [`Dimension ${j} is the last of an odd width: it has no partner to turn with.`];
    if (!from || !to) return [sayMissing(one, from ? target : p)];
    /** @param {number} value */
    const four = (value) => number(value, 4);
    if (one.omegas) {
      const angle = one.omegas[pair] * shift;
      const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
      const names = now.kind === "sin-cos" ? ["cosine", "sine"] : ["first", "second"];
      /** @param {number} value */
      const times = (value) => (value < 0 ? `(${four(value)})` : four(value));
      return [
        `Pair ${pair} turns by ω = ${one.omegas[pair].toPrecision(4)} radians a position, so a shift by ${minus(String(shift))} is a turn by ` +
          `${minus(String(shift))} · ω = ${sayTurn(angle)}, from whatever position it starts. In numbers, from ${p} to ${minus(String(target))}:`,
        `${names[0]}: ${times(from[0])} · cos − ${times(from[1])} · sin = ${times(from[0])} · ${times(cos)} − ${times(from[1])} · ${times(sin)} = ${four(from[0] * cos - from[1] * sin)}`,
        `${names[1]}: ${times(from[0])} · sin + ${times(from[1])} · cos = ${times(from[0])} · ${times(sin)} + ${times(from[1])} · ${times(cos)} = ${four(from[0] * sin + from[1] * cos)}`,
      ];
    }
    const turned = Math.atan2(from[0] * to[1] - from[1] * to[0], from[0] * to[0] + from[1] * to[1]);
    const { angle, fits } = data.fit(one, pair, shift);
    const [all, exact] = [one.width >> 1, data.turning(one, shift)];
    const best = fits > ROTATION ? `One rotation, by ${sayTurn(angle)}, does that from every position.`
      : `No rotation does that from every position: the best one, by ${sayTurn(angle)}, fits to ${number(100 * fits, 1)} %.`;
    return [
      `From position ${p} to ${target} pair ${pair} turns by ${sayTurn(turned)}, and its length goes from ${short(Math.hypot(...from))} to ${short(Math.hypot(...to))}. ${best}`,
      `Of ${plural(all, "pair")}, ${exact === 0 ? "none is" : exact === 1 ? "one is" : exact === all ? "all are" : `${exact} are`} turned by one rotation each.`,
    ];
  }

  /** Yours beside sin-cos. @param {T.Now} _ */
  function sayComparison({ base, n_positions: n, d_model }) {
    const [{ yours }, found] = [data.tables, data.differences(base)];
    if (!yours || !found) return "";
    const { shape, trouble, function: made } = yours;
    const { rows, width, first, count, most } = found;
    const size = `${rows} positions × ${width} dimensions`;
    const late = made && (shape[0] !== n || shape[1] !== d_model)
      ? ` Yours is the last table that your function has made, of ${size}: Python makes the next.` : "";
    const wrong = trouble ? ` In Python, ${trouble}.` : "";
    if (!first) return `Yours is the sin-cos table of base ${sayBase(base)}: in all ${size} the two differ by at most ${most.toExponential(0).replace("-", "−")}, which is rounding.${late}${wrong}`;
    return `Yours differs from sin-cos with base ${sayBase(base)} first at position ${first.position}, dimension ${first.dimension}: yours is ${long(first.yours)}, sin-cos ${long(first.right)}. ` +
      `Of ${whole(rows * width)} numbers ${whole(count)} differ, at most by ${short(most)}.${late}${wrong}`;
  }

  // ------------------------------------------------ the parts
  /** @param {string} text @param {...Child} inputs */
  const field = (text, ...inputs) => h("label", {}, h("span", {}, text), ...inputs);
  /** A native slider with its number beside it: `set` says where it stands, within which limits, and what that means. @param {string} part @param {string} text @param {number} [step] */
  function slider(part, text, step = 1) {
    const input = h("input", { type: "range", "data-part": `${part}-range`, step });
    const output = h("span", { class: "headroom-value", "aria-hidden": "true" });
    return {
      input,
      label: field(text, input, output),
      /** @param {number} value @param {number} low @param {number} high @param {string} says */
      set(value, low, high, says) {
        [input.min, input.max, input.value] = [low, high, value].map(String);
        input.setAttribute("aria-valuetext", says);
        if (output.textContent !== says) output.textContent = says;
      },
    };
  }
  const base = slider("base", "Base", 0.05);
  const width = slider("width", "Width d_model", 2);
  const count = slider("count", "Positions");
  const position = slider("position", "Position p");
  const dimension = slider("dimension", "Dimension");
  const shift = slider("shift", "Shift");
  const measureSelect = h("select", { "data-part": "measure-select" }, h("option", { value: "dot" }, "dot product"), h("option", { value: "cosine" }, "cosine"));

  const id = `live-${unique}`;
  const live = liveLine(id);
  /** @param {string} part @param {string} description */
  const surface = (part, description) =>
    h("canvas", { "data-part": part, tabindex: 0, role: "application", "aria-roledescription": description, "aria-describedby": id });
  /** @param {string} part */
  const drawing = (part) => h("canvas", { "data-part": part, role: "img" });
  /** @param {string} part */
  const paragraph = (part) => h("p", { "data-part": part, class: "headroom-said" });

  const tiles = kinds.map((kind) => {
    const input = h("input", { type: "radio", "data-part": "kind", name: `kind-${unique}`, value: kind });
    const [map, line] = [h("canvas", { "aria-hidden": "true", class: "headroom-small-table" }), h("canvas", { "aria-hidden": "true", class: "headroom-small-line" })];
    const value = h("span", { class: "headroom-value" });
    return { kind, input, map, line, value, label: h("label", { class: "headroom-tile" }, map, line, input, h("span", {}, NAMES[kind]), value) };
  });
  const tilesTitle = h("legend");
  const kindsField = h("fieldset", { "data-part": "kinds" }, tilesTitle, h("div", { class: "headroom-tiles" }, ...tiles.map((tile) => tile.label)));

  const tableCanvas = surface("table-picture", "picture of a table");
  const matrixCanvas = surface("matrix", "matrix of similarities");
  const profile = drawing("profile");
  const wave = drawing("wave");
  const circle = drawing("circle");
  const [tableLegend, matrixLegend] = [legend(), legend()];
  const titles = Array.from({ length: 5 }, () => h("div", { class: "headroom-title" }));
  const distance = paragraph("distance");
  const rotation = h("div", { "data-part": "rotation", class: "headroom-said" });
  const comparison = paragraph("comparison");
  const showDifference = h("button", { type: "button", "data-part": "show-difference" }, "Go to the first difference");
  const comparisonBox = h("div", { class: "headroom-comparison" }, comparison, showDifference);
  const table = tableView(() => fillTable(shown()), "Table of numbers");

  /** @param {string} text */
  const kbd = (text) => h("kbd", {}, text);
  const isFunction = data.tables.yours?.function;
  const help = h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Positions, pairs and dimensions count from 0, as in the formula: pair i, of the dimensions 2i and 2i + 1, turns by base", h("sup", {}, "−2i / d_model"), " radians a position."),
    h("p", {}, "Pointer: a cell of the table is a position and a dimension, a cell of the matrix a position (down) and the one that it is compared with (across), ",
      "a place below the matrix is a distance, one on the wave a position; a click locks, a second click lets go. With the focus on the table or the matrix, ",
      kbd("↑"), " ", kbd("↓"), " change the position (", kbd("Page Up"), " ", kbd("Page Down"), " by ten), ", kbd("←"), " ", kbd("→"), " the dimension or, on the matrix, the shift, ",
      kbd("s"), " ", kbd("S"), " the shift, ", kbd("["), " ", kbd("]"), " the width, ", kbd("−"), " ", kbd("+"), " the base, ", kbd("k"), " ", kbd("K"), " the kind, ",
      kbd("m"), " the measure; ", kbd("Enter"), " or ", kbd("Space"), " lock and let go, ", kbd("Esc"), " lets go."),
    h("p", {}, data.q.length ? "Rotary: the query and the key are yours." : "Rotary: the query and the key are all ones, so that the score is √d_model · the mean cosine of all turns."),
    needsPython("Python reads what you choose: ", h("code", {}, "widget.selection"), " and ", h("code", {}, "widget.table"), ". ",
      isFunction ? "Your function runs in Python: without it yours keeps its last size. Nothing else here needs it." : "Nothing else here needs it."));

  /** @param {string} part @param {...Child} children */
  const view = (part, ...children) => h("div", { class: `headroom-view headroom-view-${part}` }, ...children);
  const root = h("div", { class: "headroom-widget headroom-position-explorer", role: "group", "aria-label": "Position explorer" },
    kindsField,
    h("div", { class: "headroom-controls" }, base.label, width.label, count.label, position.label, dimension.label, shift.label, field("Similarity", measureSelect)),
    h("div", { class: "headroom-views" },
      view("table", titles[0], tableCanvas, tableLegend.element),
      view("matrix", titles[1], matrixCanvas, matrixLegend.element),
      view("wave", titles[2], wave),
      view("profile", titles[3], profile, distance),
      view("circle", titles[4], h("div", { class: "headroom-turn" }, circle, rotation))),
    live.element, ...(kinds.includes("yours") ? [comparisonBox] : []), table.element, help);
  el.append(h("div", { class: "headroom-frame" }, root));

  // ------------------------------------------------ choosing
  const canvases = [tableCanvas, matrixCanvas, profile, wave, circle, kindsField, root];
  const schedule = repaint(() => paint(), { model, names: [...CHOICES, ...SENT_AGAIN], canvases, signal });
  for (const name of SENT_AGAIN) model.on(`change:${name}`, data.readYours);
  signal.addEventListener("abort", () => SENT_AGAIN.forEach((name) => model.off(`change:${name}`, data.readYours)));
  const choice = choices(model, CHOICES, { schedule, also: follow, signal });

  /** What is shown: the choice, kept to what exists while Python's changes arrive one by one. */
  function shown() {
    const now = choice.now();
    fitIn(now, now);
    return now;
  }
  /** Brings position, shift and dimension of `now` into range, and what it had to change into `changes`. @param {T.Now} now @param {Partial<T.Now>} changes */
  function fitIn(now, changes) {
    const last = now.n_positions - 1;
    /** @param {T.Size} name @param {number} value */
    const set = (name, value) => now[name] !== value && (changes[name] = now[name] = value);
    set("position", within(now.position, 0, last));
    set("shift", within(now.shift, -last, last));
    set("dimension", within(now.dimension, 0, data.widthOf(now.kind, now.d_model) - 1));
  }
  /** What follows from a choice; Python does the same. @param {Partial<T.Now>} changes */
  function follow(changes) {
    fitIn({ ...choice.now(), ...changes }, changes);
  }
  /** @param {Partial<T.Now>} at */
  function click(at) {
    const again = model.get("locked") && CHOICES.every((name) => !(name in at) || at[name] === model.get(name));
    choice.choose({ ...at, locked: !again });
  }

  // ------------------------------------------------ painting a state
  // Everything is measured and painted before any text changes: a change in between would make the browser lay out anew.
  function paint() {
    const now = shown();
    const one = data.encoding(now.kind, now);
    const style = getComputedStyle(root);
    const colours = { text: style.color, mark: style.getPropertyValue("--headroom-mark").trim(), line: style.getPropertyValue("--headroom-line").trim() };
    for (const tile of tiles) paintTile(tile, now, colours);
    paintTable(now, one, colours);
    paintMatrix(now, one, colours);
    paintProfile(now, one, colours);
    paintWave(now, one, colours);
    paintCircle(now, one, colours);
    writeTexts(now, one);
  }

  /** A frame around what is chosen, solid; around what it is compared with, dashed. It lies outside: a row may be thinner
   * than a line is thick. @param {Pen} context @param {number} x @param {number} y @param {number} w @param {number} height @param {boolean} dashed @param {T.Colours} colours @param {number} [thick] */
  function paintPlace(context, x, y, w, height, dashed, colours, thick = 2) {
    [x, y, w, height] = [x - 0.75 * thick, y - 0.75 * thick, w + 1.5 * thick, height + 1.5 * thick];
    context.setLineDash([]);
    context.lineWidth = 2 * thick;
    context.strokeStyle = dashed ? "#000" : "#fff";
    context.strokeRect(x, y, w, height);
    context.lineWidth = thick;
    context.strokeStyle = dashed ? "#fff" : colours.mark;
    if (dashed) context.setLineDash([5, 3]);
    context.strokeRect(x, y, w, height);
    context.setLineDash([]);
  }
  /** @param {Pen} context @param {Point} from @param {Point} to @param {string} colour @param {number} thick @param {number[]} [dash] */
  function paintLine(context, from, to, colour, thick, dash = []) {
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
    context.setLineDash([]);
  }
  /** The chosen position: a filled disc; the shifted one: a ring. @param {Pen} context @param {number} x @param {number} y @param {boolean} ring @param {T.Colours} colours @param {number} [size] */
  function paintDot(context, x, y, ring, colours, size = 5) {
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.fillStyle = ring ? "#fff" : colours.mark;
    context.fill();
    context.lineWidth = 2;
    context.strokeStyle = ring ? "#000" : "#fff";
    context.stroke();
  }
  const FONT = "11px system-ui, sans-serif";
  /** @param {Pen} context @param {string} text @param {number} x @param {number} y @param {{ align?: CanvasTextAlign, base?: CanvasTextBaseline, bold?: boolean }} [_] */
  function write(context, text, x, y, { align = "center", base: line = "middle", bold = false } = {}) {
    context.font = `${bold ? "bold " : ""}${FONT}`;
    context.textAlign = align;
    context.textBaseline = line;
    context.fillText(text, x, y);
  }
  /** Every so many numbers from `low` to `high`, so that `room` pixels lie between two. @param {number} low @param {number} high @param {number} step @param {number} room */
  function ticks(low, high, step, room) {
    const every = [1, 2, 5, 10, 20, 50, 100].find((many) => many * step >= room) ?? 200;
    const first = Math.ceil(low / every) * every;
    return Array.from({ length: Math.floor((high - first) / every) + 1 }, (_, i) => first + i * every);
  }
  /** @param {Canvas} canvas @param {Record<string, number>} laid */
  const lay = (canvas, laid) => Object.entries(laid).forEach(([name, value]) => (canvas.dataset[name] = value.toFixed(3)));

  /** @param {Pen} context @param {Canvas} picture @param {number} x @param {number} y @param {number} w @param {number} height */
  function paintCells(context, picture, x, y, w, height) {
    context.imageSmoothingEnabled = w < picture.width || height < picture.height;
    context.drawImage(picture, x, y, w, height);
  }
  /** @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
  function paintTable(now, one, colours) {
    const { position: p, dimension: j, n_positions: n } = now;
    const { context, width: wide, height } = prepare(tableCanvas);
    const [left, top] = [26, 10];
    const [w, ht] = [(wide - left - 3) / one.width, (height - top - 18) / n];
    lay(tableCanvas, { left, top, cellWidth: w, cellHeight: ht });
    paintCells(context, data.tablePicture(one), left, top, one.width * w, n * ht);
    const target = p + now.shift;
    if (target >= 0 && target < n) paintPlace(context, left, top + target * ht, one.width * w, ht, true, colours);
    paintPlace(context, left, top + p * ht, one.width * w, ht, false, colours);
    context.lineWidth = 1;
    context.strokeStyle = "#fff";
    context.strokeRect(left + j * w, top, w, n * ht);
    context.fillStyle = colours.text;
    write(context, "▼", left + (j + 0.5) * w, top - 5, { bold: true });
    for (const at of ticks(0, n - 1, ht, 14)) write(context, `${at}`, left - 6, top + (at + 0.5) * ht, { align: "right", bold: at === p });
    for (const at of ticks(0, one.width - 1, w, 24)) write(context, `${at}`, left + (at + 0.5) * w, height - 8, { bold: at === j });
  }
  /** @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
  function paintMatrix(now, one, colours) {
    const { position: p, n_positions: n, measure } = now;
    const { context, width: wide, height } = prepare(matrixCanvas);
    const [left, top] = [26, 10];
    const cell = Math.min(wide - left - 3, height - top - 18) / n;
    lay(matrixCanvas, { left, top, cellWidth: cell, cellHeight: cell });
    paintCells(context, data.matrixPicture(one, measure), left, top, n * cell, n * cell);
    const target = p + now.shift;
    const has = one.rows.length;
    const [from, to] = [Math.max(0, -now.shift), Math.min(has, has - now.shift)]; // all pairs that are as far apart
    /** @param {number} row */
    const at = (row) => /** @type {Point} */ ([left + (row + now.shift) * cell, top + row * cell]);
    if (from < to) for (const [style, thick] of pairs(["#000", 2.5], ["#fff", 1.2])) paintLine(context, at(from), at(to), style, thick);
    if (target >= 0 && target < n) paintPlace(context, left + target * cell, top, cell, n * cell, true, colours);
    paintPlace(context, left, top + p * cell, n * cell, cell, false, colours);
    context.fillStyle = colours.text;
    for (const nth of ticks(0, n - 1, cell, 20)) {
      write(context, `${nth}`, left - 6, top + (nth + 0.5) * cell, { align: "right", bold: nth === p });
      write(context, `${nth}`, left + (nth + 0.5) * cell, top + n * cell + 10, { bold: nth === target });
    }
  }
  /** The plane of a drawing: left, right, floor, ceiling and the values at the last two, with a line at 0. @param {Pen} context @param {T.Plane} _ @param {T.Colours} colours */
  function paintPlane(context, { left, right, floor, ceiling, low, high }, colours) {
    /** @param {number} value */
    const y = (value) => floor - ((value - low) / (high - low || 1)) * (floor - ceiling);
    context.fillStyle = colours.text;
    for (const value of [low, high]) write(context, number(value).replace(/\.?0+$/, ""), left - 5, y(value), { align: "right" });
    if (low < 0 && high > 0) paintLine(context, [left, y(0)], [right, y(0)], colours.line, 1);
    return y;
  }
  /** @param {Pen} context @param {number[][]} points @param {string} colour @param {number} thick @param {number[]} [dash] */
  function trace(context, points, colour, thick, dash = []) {
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.setLineDash(dash);
    context.beginPath();
    let pen = false; // a gap where there is no number
    for (const [x, y] of points) {
      if (y === y) pen ? context.lineTo(x, y) : context.moveTo(x, y);
      pen = y === y;
    }
    context.stroke();
    context.setLineDash([]);
  }
  /** @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
  function paintProfile(now, one, colours) {
    const { shift: apart, n_positions: n, measure } = now;
    const { context, width: wide, height } = prepare(profile);
    const { mean, least, most, count: many, low, high } = data.similarities(one, measure);
    const [left, right, floor, ceiling] = [46, wide - 6, height - 18, 8];
    const step = (right - left) / (2 * n - 2);
    lay(profile, { left, step });
    const y = paintPlane(context, { left, right, floor, ceiling, low, high }, colours);
    /** @param {number} at */
    const x = (at) => left + at * step;
    const seen = [...mean.keys()].filter((at) => many[at]);
    context.beginPath(); // from the least to the most of each distance
    for (const at of seen) context.lineTo(x(at), y(most[at]));
    for (const at of seen.toReversed()) context.lineTo(x(at), y(least[at]));
    context.closePath();
    context.globalAlpha = 0.3;
    context.fillStyle = colours.text;
    context.fill();
    context.globalAlpha = 1;
    trace(context, Array.from(mean, (value, at) => [x(at), y(value)]), colours.text, 1.5);
    const at = n - 1 + apart;
    paintLine(context, [x(at), ceiling], [x(at), floor], colours.mark, 1.5, [5, 3]);
    if (many[at]) paintDot(context, x(at), y(mean[at]), true, colours, 4);
    context.fillStyle = colours.text;
    for (const far of ticks(1 - n, n - 1, step, 34)) write(context, minus(String(far)), x(n - 1 + far), height - 8, { bold: far === apart });
  }
  /** @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
  function paintWave(now, one, colours) {
    const { position: p, dimension: j, shift: by, n_positions: n } = now;
    const { context, width: wide, height } = prepare(wave);
    const [left, right, floor, ceiling] = [46, wide - 8, height - 18, 8];
    const step = (right - left) / (n - 1);
    lay(wave, { left, step });
    const y = paintPlane(context, { left, right, floor, ceiling, low: -one.limit, high: one.limit }, colours);
    /** @param {number} at */
    const x = (at) => left + at * step;
    const partner = j % 2 ? j - 1 : j + 1;
    /** @param {number} which */
    const points = (which) => (one.omegas
      ? Array.from({ length: Math.ceil(right - left) }, (_, i) => [left + i, y(one.between(i / step, which))])
      : one.rows.map((row, at) => [x(at), y(row[which])]));
    if (partner < one.width) trace(context, points(partner), colours.text, 1, [3, 3]);
    trace(context, points(j), colours.text, 1.8);
    if (step >= 6) {
      context.fillStyle = colours.text;
      one.rows.forEach((row, at) => {
        context.beginPath();
        context.arc(x(at), y(row[j]), 2.2, 0, 2 * Math.PI);
        context.fill();
      });
    }
    const target = p + by;
    for (const [at, ring] of pairs([target, true], [p, false])) {
      if (at < 0 || at >= n) continue;
      paintLine(context, [x(at), ceiling], [x(at), floor], colours.mark, 1.5, ring ? [5, 3] : []);
      const row = one.row(at);
      if (row) paintDot(context, x(at), y(row[j]), ring, colours);
    }
    context.fillStyle = colours.text;
    for (const at of ticks(0, n - 1, step, 24)) write(context, `${at}`, x(at), height - 8, { bold: at === p || at === target });
  }
  /** @param {T.Now} now @param {T.Encoding} one @param {T.Colours} colours */
  function paintCircle(now, one, colours) {
    const { position: p, dimension: j, shift: by } = now;
    const pair = j >> 1;
    const { context, width: wide, height } = prepare(circle);
    const [cx, cy, reach] = [wide / 2, height / 2, Math.max(1, Math.min(wide, height) / 2 - 24)]; // at least 1: a hidden canvas has no size
    const all = one.rows.map((row) => data.point(one, row, pair)).filter((point) => point !== null);
    const [from, to] = [data.point(one, one.row(p), pair), data.point(one, one.row(p + by), pair)];
    const longest = Math.max(...all.map(([x, y]) => Math.hypot(x, y)), from ? Math.hypot(...from) : 0, to ? Math.hypot(...to) : 0) || 1;
    /** @type {(point: Point) => Point} */
    const place = ([x, y]) => [cx + (x / longest) * reach, cy - (y / longest) * reach];
    paintLine(context, [cx - reach - 8, cy], [cx + reach + 8, cy], colours.line, 1);
    paintLine(context, [cx, cy - reach - 8], [cx, cy + reach + 8], colours.line, 1);
    context.beginPath();
    context.arc(cx, cy, reach, 0, 2 * Math.PI);
    context.strokeStyle = colours.line;
    context.stroke();
    context.fillStyle = colours.text;
    context.globalAlpha = 0.45;
    for (const point of all) {
      context.beginPath();
      context.arc(...place(point), 1.8, 0, 2 * Math.PI);
      context.fill();
    }
    context.globalAlpha = 1;
    if (from && to && by && one.omegas) paintArc(context, cx, cy, reach * 0.45, Math.atan2(from[1], from[0]), one.omegas[pair] * by, colours);
    for (const [point, ring] of pairs([to, true], [from, false])) {
      if (!point) continue;
      paintLine(context, [cx, cy], place(point), colours.mark, 2, ring ? [5, 3] : []);
      paintDot(context, ...place(point), ring, colours);
    }
    context.fillStyle = colours.text;
    const directions = [from, to].map((point) => (point ? Math.atan2(point[1], point[0]) : 0));
    if (from && to) { // two names that would lie on each other move apart
      const gap = ((directions[1] - directions[0] + 3 * Math.PI) % (2 * Math.PI)) - Math.PI;
      const apart = Math.max(0, 0.25 - Math.abs(gap) / 2) * (gap < 0 ? -1 : 1);
      directions[0] -= apart;
      directions[1] += apart;
    }
    pairs([from, p], [to, p + by]).forEach(([point, at], which) => {
      if (!point || (which && by === 0)) return;
      const far = Math.hypot(...point) / longest * reach + 15;
      const [x, y] = [cx + far * Math.cos(directions[which]), cy - far * Math.sin(directions[which])];
      write(context, minus(String(at)), within(x, 9, wide - 9), within(y, 8, height - 8), { bold: true });
    });
  }
  /** The turn from one to the other, with an arrow's head; more than once around is drawn once. @param {Pen} context @param {number} cx @param {number} cy @param {number} size @param {number} start @param {number} turn @param {T.Colours} colours */
  function paintArc(context, cx, cy, size, start, turn, colours) {
    const end = start + within(turn, -2 * Math.PI, 2 * Math.PI);
    context.strokeStyle = context.fillStyle = colours.text;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(cx, cy, size, -start, -end, turn > 0); // the screen's y points down
    context.stroke();
    if (Math.abs(turn) * size < 6) return;
    const [x, y] = [cx + size * Math.cos(end), cy - size * Math.sin(end)];
    const along = turn > 0 ? -end - Math.PI / 2 : -end + Math.PI / 2;
    context.beginPath();
    context.moveTo(x + 5 * Math.cos(along), y + 5 * Math.sin(along));
    for (const side of [2.4, -2.4]) context.lineTo(x + 5 * Math.cos(along + side), y + 5 * Math.sin(along + side));
    context.fill();
  }
  /** One kind small: its table, and how alike the chosen position and every other are. @param {{ kind: T.Kind, map: Canvas, line: Canvas }} _ @param {T.Now} now @param {T.Colours} colours */
  function paintTile({ kind, map, line }, now, colours) {
    const { position: p, shift: by, n_positions: n, measure } = now;
    const one = data.encoding(kind, now);
    const small = prepare(map);
    paintCells(small.context, data.tablePicture(one), 0, 0, small.width, small.height);
    const ht = small.height / n;
    if (p + by >= 0 && p + by < n) paintPlace(small.context, 0, (p + by) * ht, small.width, ht, true, colours, 1.2);
    paintPlace(small.context, 0, p * ht, small.width, ht, false, colours, 1.2);
    const { context, width: wide, height } = prepare(line);
    const alike = Array.from({ length: n }, (_, other) => data.similarity(one, measure, p, other));
    const numbers = alike.filter((value) => value === value);
    if (!numbers.length) return;
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    /** @param {number} value */
    const y = (value) => height - 5 - ((value - low) / (high - low || 1)) * (height - 10);
    /** @param {number} at */
    const x = (at) => 5 + (at * (wide - 10)) / (n - 1);
    trace(context, alike.map((value, at) => [x(at), y(value)]), colours.text, 1.4);
    for (const [at, ring] of pairs([p + by, true], [p, false])) if (alike[at] === alike[at] && at in alike) paintDot(context, x(at), y(alike[at]), ring, colours, 3.5);
  }

  /** @param {Node} node @param {string} text */
  const put = (node, text) => node.textContent !== text && (node.textContent = text);
  /** @param {T.Now} now @param {T.Encoding} one */
  function writeTexts(now, one) {
    const { kind, position: p, dimension: j, shift: by, n_positions: n, measure } = now;
    const [pair, target] = [j >> 1, p + by];
    for (const name of CHOICES) root.setAttribute(`data-${name.replace("_", "-")}`, String(now[name]));
    const [lowest, highest] = facts.bases;
    base.set(Math.log10(now.base), Math.log10(lowest), Math.log10(highest), sayBase(now.base));
    width.set(now.d_model, 2, facts.max_d_model, String(now.d_model));
    count.set(n, 2, facts.max_positions, String(n));
    position.set(p, 0, n - 1, String(p));
    dimension.set(j, 0, one.width - 1, String(j));
    shift.set(by, 1 - n, n - 1, `${by > 0 ? "+" : ""}${minus(String(by))}`);
    measureSelect.value = measure;

    const what = measureName(kind, measure);
    put(tilesTitle, `The same position in ${plural(kinds.length, "encoding")}: ${p}, compared with ${minus(String(target))}`);
    for (const { kind: its, input, value, label } of tiles) {
      const other = data.encoding(its, now);
      const missing = [p, target].find((at) => !other.row(at));
      const says = missing === undefined ? `${measureName(its, measure)} ${short(data.similarity(other, measure, p, target))}` : `no row ${missing}`;
      input.checked = its === kind;
      label.classList.toggle("headroom-chosen", its === kind);
      input.setAttribute("aria-label", `${NAMES[its]}, ${says}`);
      put(value, says);
    }
    const whose = kind === "rotary" ? "The query, turned" : NAMES[kind];
    put(titles[0], `${whose}: ${one.rows.length} positions × ${one.width} dimensions`);
    put(titles[1], isScore(now) ? "Scores: query at p (down), key at p′ (across)" : `Similarity of two positions: ${what}`);
    put(titles[2], `Dimension ${j} over the positions${2 * pair + 1 < one.width ? ` (dashed: ${j % 2 ? j - 1 : j + 1})` : ""}`);
    put(titles[3], `${what[0].toUpperCase()}${what.slice(1)} by distance p′ − p`);
    put(titles[4], one.omegas ? `Pair ${pair}: a shift by ${minus(String(by))} is a turn by ${sayTurn(one.omegas[pair] * by)}` : `Pair ${pair} at positions ${p} and ${minus(String(target))}`);

    const { low, high } = data.similarities(one, measure);
    tableLegend.set(-one.limit, one.limit, `Colours of the table${one.rows.length < n ? "; grey: no row" : ""}.`);
    matrixLegend.set(low, high, `Colours of the ${what}s; the line marks all pairs that are as far apart.`);
    tableCanvas.setAttribute("aria-label", `${titles[0].textContent}. Up and down change the position, left and right the dimension, Enter locks.`);
    matrixCanvas.setAttribute("aria-label", `${titles[1].textContent}, ${n} by ${n}. Up and down change the position, left and right the shift, Enter locks.`);
    const [said, turns] = [sayDistance(now, one), sayRotation(now, one)];
    profile.setAttribute("aria-label", `${titles[3].textContent}: the mean as a line, from least to most as a band. ${said}`);
    wave.setAttribute("aria-label", `${titles[2].textContent}. ${one.omegas ? `A wave ${sayLength(one.omegas[pair])} positions long.` : "Numbers, not a formula's wave."}`);
    circle.setAttribute("aria-label", `${titles[4].textContent}. ${turns[0]}`);
    put(distance, said);
    if (rotation.textContent !== turns.join("")) rotation.replaceChildren(...turns.map((text) => h("p", {}, text)));
    live.say(sayAll(now, one));
    if (kinds.includes("yours")) {
      put(comparison, sayComparison(now));
      showDifference.hidden = !data.differences(now.base)?.first;
    }
    table.update();
  }

  /** @param {T.Now} now */
  function fillTable(now) {
    const { kind, position: p, dimension: j, n_positions: n, measure } = now;
    const one = data.encoding(kind, now);
    const pair = [j & ~1, j | 1].filter((at) => at < one.width);
    const what = measureName(kind, measure);
    /** @param {string} text */
    const column = (text) => h("th", { scope: "col" }, text);
    /** @param {number} value */
    const cell = (value) => h("td", {}, long(value));
    const lines = Array.from({ length: n }, (_, at) => {
      const row = one.row(at);
      return h("tr", {}, h("th", { scope: "row" }, String(at)), ...pair.map((which) => cell(row ? row[which] : NaN)), cell(data.similarity(one, measure, p, at)));
    });
    const caption = `${NAMES[kind]}${kind === "rotary" ? ", the turned query" : ""}: pair ${j >> 1} at every position, and the ${what} of position ${p} with each`;
    return h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, column("position"), ...pair.map((which) => column(`dimension ${which}`)), column(`${what} with ${p}`))), h("tbody", {}, ...lines));
  }

  // ------------------------------------------------ pointer
  const leave = () => choice.point(null);
  /** @param {HTMLElement} element @param {(event: MouseEvent) => Partial<T.Now> | null} at @param {HTMLElement | null} [focus] */
  function surfaceOf(element, at, focus = null) {
    onPointer(element, signal, (event) => { const place = at(event); if (place) choice.point(place); }, leave);
    element.addEventListener("click", (event) => {
      const place = at(event);
      if (!place) return;
      click(place);
      focus?.focus({ preventScroll: true });
    }, { signal });
  }
  /** @param {Canvas} canvas @param {() => number[]} sizes @param {(row: number, column: number) => Partial<T.Now>} name */
  const inCells = (canvas, sizes, name) => (/** @type {MouseEvent} */ event) => {
    const r = canvas.getBoundingClientRect();
    const [left, top, cellWidth, cellHeight] = ["left", "top", "cellWidth", "cellHeight"].map((what) => Number(canvas.dataset[what]));
    const [row, column] = [Math.floor((event.clientY - r.top - top) / cellHeight), Math.floor((event.clientX - r.left - left) / cellWidth)];
    const [rows, columns] = sizes();
    return row >= 0 && column >= 0 && row < rows && column < columns ? name(row, column) : null;
  };
  /** @param {Canvas} canvas @param {(at: number, n: number) => Partial<T.Now>} name */
  const along = (canvas, name) => (/** @type {MouseEvent} */ event) => {
    const [left, step] = [Number(canvas.dataset.left), Number(canvas.dataset.step)];
    return name(Math.round((event.clientX - canvas.getBoundingClientRect().left - left) / step), model.get("n_positions"));
  };
  const sizeOfTable = () => [model.get("n_positions"), data.widthOf(model.get("kind"), model.get("d_model"))];
  const sizeOfMatrix = () => [model.get("n_positions"), model.get("n_positions")];
  surfaceOf(tableCanvas, inCells(tableCanvas, sizeOfTable, (row, column) => ({ position: row, dimension: column })), tableCanvas);
  surfaceOf(matrixCanvas, inCells(matrixCanvas, sizeOfMatrix, (row, column) => ({ position: row, shift: column - row })), matrixCanvas);
  surfaceOf(profile, along(profile, (at, n) => ({ shift: within(at, 0, 2 * n - 2) - (n - 1) })));
  surfaceOf(wave, along(wave, (at, n) => ({ position: within(at, 0, n - 1) })));

  /** @type {On} */
  const on = (target, type, handle) => target.addEventListener(type, handle, { signal });
  /** @param {number} exponent */
  const nearest = (exponent) => within(Number((10 ** exponent).toPrecision(3)), ...facts.bases);
  on(base.input, "input", () => choice.choose({ base: nearest(Number(base.input.value)) }));
  /** @type {[ReturnType<typeof slider>, T.Size][]} */
  const sliders = [[width, "d_model"], [count, "n_positions"], [position, "position"], [dimension, "dimension"], [shift, "shift"]];
  for (const [slide, name] of sliders) {
    on(slide.input, "input", () => choice.choose({ [name]: Number(slide.input.value) }));
  }
  on(measureSelect, "change", () => choice.choose({ measure: measureSelect.selectedIndex ? "cosine" : "dot" }));
  for (const { kind, input } of tiles) on(input, "change", () => choice.choose({ kind }));
  on(showDifference, "click", () => {
    const first = data.differences(model.get("base"))?.first;
    if (!first) return;
    const n = Math.max(model.get("n_positions"), first.position + 1);
    choice.choose({ kind: "yours", n_positions: n, position: first.position, dimension: first.dimension, locked: true });
  });

  // ------------------------------------------------ keys
  /** @param {string} pressed @param {EventTarget} place */
  function press(pressed, place) {
    const now = shown();
    /** @param {T.Size} name @param {number} by @param {number} [low] @param {number} [high] */
    const step = (name, by, low = -Infinity, high = Infinity) => choice.choose({ [name]: within(now[name] + by, low, high) });
    /** @param {number} by */
    const move = (by) => step("position", by, 0, now.n_positions - 1);
    /** @param {number} by */
    const moveShift = (by) => step("shift", by, 1 - now.n_positions, now.n_positions - 1);
    /** @param {number} by */
    const across = (by) => (place === matrixCanvas ? moveShift(by) : step("dimension", by, 0, data.widthOf(now.kind, now.d_model) - 1));
    /** @param {number} by */
    const stepKind = (by) => choice.choose({ kind: kinds[(kinds.indexOf(now.kind) + by + kinds.length) % kinds.length] });
    /** @param {number} by */
    const stepBase = (by) => choice.choose({ base: nearest(Math.round((Math.log10(now.base) + by) * 20) / 20) });
    const lock = () => choice.choose({ locked: !now.locked });
    /** @type {Record<string, () => unknown>} */
    const actions = {
      ArrowUp: () => move(-1),
      ArrowDown: () => move(1),
      PageUp: () => move(-10),
      PageDown: () => move(10),
      ArrowLeft: () => across(-1),
      ArrowRight: () => across(1),
      s: () => moveShift(1),
      S: () => moveShift(-1),
      "[": () => step("d_model", -2, 2, facts.max_d_model),
      "]": () => step("d_model", 2, 2, facts.max_d_model),
      "-": () => stepBase(-0.05),
      "+": () => stepBase(0.05),
      k: () => stepKind(1),
      K: () => stepKind(-1),
      m: () => choice.choose({ measure: now.measure === "dot" ? "cosine" : "dot" }),
      Enter: lock,
      " ": lock,
    };
    actions[pressed]?.();
    return pressed in actions;
  }
  guardKeys(root, signal, (event) => {
    if (event.key === "Escape") {
      choice.choose({ locked: false });
      return true;
    }
    return (event.target === tableCanvas || event.target === matrixCanvas) && press(event.key, event.target);
  });

  paint();
  return () => ended.abort();
}

export default { render };
