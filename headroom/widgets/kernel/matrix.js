// @ts-check
/* Matrices: where the cells of one that is drawn lie. Its canvas tells, so that whoever points at it can ask. */
import { onPointer } from "./choices.js";
/** @import { Canvas, Grid } from "../types" */

/** Say on a canvas where its cells lie. @param {Canvas} canvas @param {Partial<Grid> & { step?: number }} grid */
export function tellGrid(canvas, grid) {
  for (const [name, value] of Object.entries(grid)) canvas.dataset[name] = value.toFixed(3);
}

/** Where a canvas says that its cells lie. @param {Canvas} canvas @returns {Grid} */
export function gridOf({ dataset: { left, top, cellWidth, cellHeight } }) {
  return { left: Number(left), top: Number(top), cellWidth: Number(cellWidth), cellHeight: Number(cellHeight) };
}

/** The cell at a point of the canvas, in CSS pixels from its corner; null: outside of the cells.
 * @param {Grid} grid @param {number} x @param {number} y @param {number} rows @param {number} columns */
export function cellAt({ left, top, cellWidth, cellHeight }, x, y, rows, columns) {
  const [row, column] = [Math.floor((y - top) / cellHeight), Math.floor((x - left) / cellWidth)];
  return row >= 0 && column >= 0 && row < rows && column < columns ? { row, column } : null;
}

/** The cell under the pointer; null: none. @param {Canvas} canvas @param {MouseEvent} event @param {number} rows @param {number} columns
 * @param {(all: DOMRect) => Grid} [where] where the cells lie, unless the canvas says it */
export function cellUnder(canvas, event, rows, columns, where = () => gridOf(canvas)) {
  const all = canvas.getBoundingClientRect();
  return cellAt(where(all), event.clientX - all.left, event.clientY - all.top, rows, columns);
}

/** Call `point` with what the pointer is at, and with null when it has left; call `click` with what is clicked.
 * @template At @param {HTMLElement} element @param {AbortSignal} signal @param {(event: MouseEvent) => At | null} at
 * @param {{ point: (at: At | null) => void, click?: (at: At) => void }} what */
export function surface(element, signal, at, { point, click }) {
  onPointer(element, signal, (event) => {
    const found = at(event);
    if (found !== null) point(found);
  }, () => point(null));
  if (click) {
    element.addEventListener("click", (event) => {
      const found = at(event);
      if (found !== null) click(found);
    }, { signal });
  }
}
