// @ts-check
/* Pictures: histograms. */
import { prepare } from "../kernel/canvas.js";
import { amount } from "./words.js";
/** @import { Data } from "./data.js" */
/** @import { Canvas, Colours, NormExplorer as T } from "../types" */

/** How some numbers are spread, the framed ones filled; it says so to who cannot see it.
 * @param {Canvas} canvas @param {Data} data @param {Float64Array} values @param {string} when @param {T.Look} _ @param {Colours} colours */
export function paintHistogram(canvas, data, values, when, { now, group }, colours) {
  const { all, size } = data;
  const { context, width, height } = prepare(canvas);
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = (high - low) * 0.04 || Math.abs(high) * 0.5 || 1;
  [low, high] = [low - pad, high + pad];
  const bins = 16;
  /** @param {number[]} which */
  const counted = (which) => {
    const counts = new Array(bins).fill(0);
    for (const one of which) counts[Math.min(bins - 1, Math.floor(((values[one] - low) / (high - low)) * bins))]++;
    return counts;
  };
  const [everything, grouped] = [counted(all), counted(group)];
  const rare = group.length < size / 20; // too few to be seen among all: drawn as if they were all
  const [most, ofGroup] = [Math.max(...everything), Math.max(...(rare ? grouped : everything))];
  const [floor, ceiling, edge] = [height - 18, 16, 6];
  /** @param {number} value */
  const x = (value) => edge + ((value - low) / (high - low)) * (width - 2 * edge);
  const wide = (width - 2 * edge) / bins;
  for (let bin = 0; bin < bins; bin++) {
    /** @param {number} n @param {number} [of] */
    const tall = (n, of = most) => (n / of) * (floor - ceiling);
    const at = edge + bin * wide;
    context.strokeStyle = colours.text;
    context.lineWidth = 1;
    if (everything[bin]) context.strokeRect(at + 1, floor - tall(everything[bin]), wide - 2, tall(everything[bin]));
    context.fillStyle = colours.text;
    if (grouped[bin]) context.fillRect(at + 4, floor - tall(grouped[bin], ofGroup), wide - 8, tall(grouped[bin], ofGroup));
  }
  context.fillStyle = context.strokeStyle = colours.text;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  context.beginPath();
  context.moveTo(edge, floor + 0.5);
  context.lineTo(width - edge, floor + 0.5);
  context.stroke();
  context.textAlign = "left";
  context.fillText(amount(low), edge, floor + 4);
  context.textAlign = "right";
  context.fillText(amount(high), width - edge, floor + 4);
  const { mean, variance } = data.statistics("LayerNorm", values, group);
  context.textAlign = "center";
  if (low < 0 && high > 0 && x(0) > 60 && x(0) < width - 60) context.fillText("0", x(0), floor + 4);
  context.setLineDash([4, 3]);
  context.beginPath();
  context.moveTo(x(mean), ceiling - 2);
  context.lineTo(x(mean), floor);
  context.stroke();
  context.setLineDash([]);
  const what = group.length === 1 ? "the number" : `the ${group.length} framed`;
  const text = group.length === 1 ? `${when}: ${what}, ${amount(mean)}` : `${when}: ${what}: mean ${amount(mean)}, variance ${amount(variance)}`;
  const more = `${text} (filled${rare ? ", enlarged" : ""}); outlined: all ${size}`;
  context.textAlign = "left";
  context.fillText(context.measureText(more).width < width - 2 * edge ? more : text, edge, 1);
  canvas.setAttribute("aria-label", `Histogram ${when.toLowerCase()} ${now.norm === "none" ? "no norm" : now.norm}: ${size} numbers from ${amount(Math.min(...values))} to ${amount(Math.max(...values))}; ` +
    (group.length === 1 ? "no group." : `the ${group.length} that share a mean lie around ${amount(mean)} with variance ${amount(variance)}.`));
}
