// @ts-check
/* What is shown, in words. */
import { numbersTable } from "../kernel/table.js";
import { capital, number } from "../kernel/words.js";
import { ROTATION } from "./data.js";
import { pairAt } from "./encodings.js";
/** @import { Data } from "./data.js" */
/** @import { PositionExplorer as T } from "../types" */

/** @type {Record<T.Kind, string>} */
export const NAMES = { "sin-cos": "Sin-cos", learned: "Learned", rotary: "Rotary", yours: "Yours" };
const SAME = 1e-4; // share of all differences that float32 may blur
const TABLE_DIGITS = 6;

/** @param {string} text */
export const minus = (text) => text.replace("-", "−");
/** @param {number} value */
export const whole = (value) => minus(Math.round(value).toLocaleString("en"));
/** Few digits for large numbers, more for small ones. @param {number} value */
export function short(value) {
  if (!Number.isFinite(value)) return "undefined";
  const size = Math.abs(value);
  return number(value, size >= 100 ? 1 : size >= 10 ? 2 : size >= 0.1 || size === 0 ? 3 : 4);
}
/** @param {number} value */
export const long = (value) => (Number.isFinite(value) ? number(value, TABLE_DIGITS) : "–");
/** @param {number} base */
export const sayBase = (base) => (base >= 1000 ? whole(base) : String(Number(base.toPrecision(4))));
/** @param {number} radians */
export function sayTurn(radians) {
  const degrees = (radians * 180) / Math.PI;
  const size = Math.abs(degrees);
  const says = `${minus(size >= 0.1 || size === 0 ? degrees.toFixed(1) : degrees.toPrecision(2))}°`;
  return size >= 360 ? `${says} (${number(size / 360)} turns)` : says;
}
/** @param {number} omega */
export function sayLength(omega) {
  const length = (2 * Math.PI) / omega;
  return length < 1000 ? number(length, 1) : whole(length);
}
/** @param {number} count @param {string} what */
export const plural = (count, what) => `${whole(count)} ${what}${count === 1 ? "" : "s"}`;

/** @param {T.Now} now */
export function isScore(now) {
  return now.kind === "rotary" && now.measure === "dot";
}

/** @param {T.Kind} kind @param {T.Measure} measure */
export function measureName(kind, measure) {
  return (measure === "cosine" ? "cosine" : kind === "rotary" ? "score" : "dot product");
}

/** @param {T.Encoding} _ @param {number} j */
export function sayWhich({ kind, width }, j) {
  if (kind === "sin-cos") return `the ${j % 2 ? "cosine" : "sine"} of pair ${j >> 1}`;
  return `the ${j % 2 ? "second" : "first"} of pair ${j >> 1}${j % 2 === 0 && j + 1 === width ? ", which has no second" : ""}`;
}

export class Words {
  /** @param {Data} data */
  constructor(data) {
    this.data = data;
  }
  /** @param {T.Encoding} one @param {number} p */
  missing(one, p) {
    const { data } = this;
    const rows = data.tables[one.kind]?.rows ?? 0;
    if (rows > one.total && p >= one.total) return `Of its ${rows} rows the first ${one.total} are shown here: position ${p} is not among them.`;
    return `The ${one.kind === "yours" ? "table of yours" : "learned table"} has ${plural(rows, "row")}: there is none for position ${minus(String(p))}.`;
  }
  /** @param {T.Now} now @param {T.Encoding} one */
  all(now, one) {
    const { data } = this;
    const { position: p, dimension: j, shift, measure, locked } = now;
    const [pair, target] = [j >> 1, p + shift];
    const start = `${NAMES[now.kind]}, position ${p}, dimension ${j}`;
    const end = locked ? " Locked." : "";
    const row = one.row(p);
    if (!row) return `${start}: ${this.missing(one, p)}${end}`;
    const holds = now.kind === "rotary" ? `${start}, ${sayWhich(one, j)} of the turned query: ${short(row[j])}.` : `${start}, ${sayWhich(one, j)}: ${short(row[j])}.`;
    const wave = one.omegas ? ` It repeats every ${sayLength(one.omegas[pair])} positions.` : "";
    if (!one.row(target)) return `${holds} ${this.missing(one, target)}${end}`;
    const alike = short(data.similarity(one, measure, p, target));
    const turn = one.omegas ? `, turns the pair by ${sayTurn(one.omegas[pair] * shift)};` : ":";
    const them = now.kind === "rotary" ? `the query at ${p} and the key at ${target} have` : "the two positions have";
    return `${holds}${wave} The shift by ${minus(String(shift))}, to position ${minus(String(target))}${turn} ${them} the ${measureName(now.kind, measure)} ${alike}.${end}`;
  }
  /** Whether pairs of positions that are equally far apart are equally similar. @param {T.Now} now @param {T.Encoding} one */
  distance(now, one) {
    const { data } = this;
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
  rotation(now, one) {
    const { data } = this;
    const { position: p, dimension: j, shift } = now;
    const [pair, target] = [j >> 1, p + shift];
    const [from, to] = [pairAt(one, one.row(p), pair), pairAt(one, one.row(target), pair)];
    if (2 * pair + 1 >= one.width) return [`Dimension ${j} is the last of an odd width: it has no partner to turn with.`];
    if (!from || !to) return [this.missing(one, from ? target : p)];
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
  comparison({ base, n_positions: n, d_model }) {
    const { data } = this;
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
  /** What stands above each picture. @param {T.Now} now @param {T.Encoding} one */
  titles(now, one) {
    const { kind, position: p, dimension: j, shift: by, measure } = now;
    const [pair, target] = [j >> 1, p + by];
    const what = measureName(kind, measure);
    const whose = kind === "rotary" ? "The query, turned" : NAMES[kind];
    return [
      `${whose}: ${one.rows.length} positions × ${one.width} dimensions`,
      isScore(now) ? "Scores: query at p (down), key at p′ (across)" : `Similarity of two positions: ${what}`,
      `Dimension ${j} over the positions${2 * pair + 1 < one.width ? ` (dashed: ${j % 2 ? j - 1 : j + 1})` : ""}`,
      `${capital(what)} by distance p′ − p`,
      one.omegas ? `Pair ${pair}: a shift by ${minus(String(by))} is a turn by ${sayTurn(one.omegas[pair] * by)}` : `Pair ${pair} at positions ${p} and ${minus(String(target))}`,
    ];
  }
  /** The chosen pair at every position, and how alike each is to the chosen one. @param {T.Now} now */
  table(now) {
    const { data } = this;
    const { kind, position: p, dimension: j, n_positions: n, measure } = now;
    const one = data.encoding(kind, now);
    const pair = [j & ~1, j | 1].filter((at) => at < one.width);
    const what = measureName(kind, measure);
    const caption = `${NAMES[kind]}${kind === "rotary" ? ", the turned query" : ""}: pair ${j >> 1} at every position, and the ${what} of position ${p} with each`;
    return numbersTable(caption, ["position", ...pair.map((which) => `dimension ${which}`), `${what} with ${p}`], Array.from({ length: n }, (_, at) => {
      const row = one.row(at);
      return { name: String(at), cells: [...pair.map((which) => (row ? row[which] : NaN)), data.similarity(one, measure, p, at)].map(long) };
    }));
  }
}
