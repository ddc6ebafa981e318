// @ts-check
/* What the pictures are drawn with: lines, dots, frames, numbers along an axis. */
import { number } from "../kernel/words.js";
/** @import { Canvas, Pen, Point, PositionExplorer as T } from "../types" */

const FONT = "11px system-ui, sans-serif";

/** A frame around what is chosen, solid; around what it is compared with, dashed. It lies outside: a row may be thinner
 * than a line is thick. @param {Pen} context @param {number} x @param {number} y @param {number} w @param {number} height @param {boolean} dashed @param {T.Colours} colours @param {number} [thick] */
export function paintPlace(context, x, y, w, height, dashed, colours, thick = 2) {
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
export function paintLine(context, from, to, colour, thick, dash = []) {
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
export function paintDot(context, x, y, ring, colours, size = 5) {
  context.beginPath();
  context.arc(x, y, size, 0, 2 * Math.PI);
  context.fillStyle = ring ? "#fff" : colours.mark;
  context.fill();
  context.lineWidth = 2;
  context.strokeStyle = ring ? "#000" : "#fff";
  context.stroke();
}

/** @param {Pen} context @param {string} text @param {number} x @param {number} y @param {{ align?: CanvasTextAlign, base?: CanvasTextBaseline, bold?: boolean }} [_] */
export function write(context, text, x, y, { align = "center", base: line = "middle", bold = false } = {}) {
  context.font = `${bold ? "bold " : ""}${FONT}`;
  context.textAlign = align;
  context.textBaseline = line;
  context.fillText(text, x, y);
}

/** Every so many numbers from `low` to `high`, so that `room` pixels lie between two. @param {number} low @param {number} high @param {number} step @param {number} room */
export function ticks(low, high, step, room) {
  const every = [1, 2, 5, 10, 20, 50, 100].find((many) => many * step >= room) ?? 200;
  const first = Math.ceil(low / every) * every;
  return Array.from({ length: Math.floor((high - first) / every) + 1 }, (_, i) => first + i * every);
}

/** @param {Pen} context @param {Canvas} picture @param {number} x @param {number} y @param {number} w @param {number} height */
export function paintCells(context, picture, x, y, w, height) {
  context.imageSmoothingEnabled = w < picture.width || height < picture.height;
  context.drawImage(picture, x, y, w, height);
}

/** The plane of a drawing: left, right, floor, ceiling and the values at the last two, with a line at 0. @param {Pen} context @param {T.Plane} _ @param {T.Colours} colours */
export function paintPlane(context, { left, right, floor, ceiling, low, high }, colours) {
  /** @param {number} value */
  const y = (value) => floor - ((value - low) / (high - low || 1)) * (floor - ceiling);
  context.fillStyle = colours.text;
  for (const value of [low, high]) write(context, number(value).replace(/\.?0+$/, ""), left - 5, y(value), { align: "right" });
  if (low < 0 && high > 0) paintLine(context, [left, y(0)], [right, y(0)], colours.line, 1);
  return y;
}

/** @param {Pen} context @param {number[][]} points @param {string} colour @param {number} thick @param {number[]} [dash] */
export function trace(context, points, colour, thick, dash = []) {
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
