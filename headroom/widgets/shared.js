// @ts-check
/* What the course's widgets share. A plain ES module without imports; shared.py puts it in front of each widget's own.
 *
 * A widget's file says `import { h, colour, … } from "./shared.js";`, takes its numbers once, and paints by itself.
 * Indices count from 0 in code and in Python, from 1 in everything that a reader sees.
 */
/** @import { Attributes, Bytes, Canvas, Child, Choice, Colours, Legend, Model, Names, NumberType, Pen, PictureRow, Rect, Rgb } from "./types" */

const HOVER_REST_MS = 300; // what is hovered goes to Python after the pointer has rested this long, or left

// Matplotlib's cividis at 16 even steps, the course's map for amounts: even in lightness, same to colour-blind readers.
const CIVIDIS = (
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

// The same colours for whole matrices: one 32-bit pixel for each of 1024 fractions.
const PIXELS = new Uint32Array(1024).map((_, i) => {
  const [r, g, b] = colour(i / 1023);
  return new Uint32Array(new Uint8ClampedArray([r, g, b, 255]).buffer)[0]; // in the machine's own order of bytes
});

const HIDDEN = new Uint32Array(new Uint8ClampedArray([217, 217, 217, 255]).buffer)[0]; // as in the course's figures

/** @type {ImageData | null} */
let scratch = null; // pixels that bitmaps of one size share: thousands a second would keep the browser cleaning up

/** A picture of one pixel per number, to be drawn large. `fill(row)` → { values, low, high }: a row's numbers (`values`
 * may be the same array each time) and those of the lowest and the highest colour. NaN is grey: hidden by a mask.
 * @param {number} rows @param {number} columns @param {(row: number) => PictureRow} fill */
export function bitmap(rows, columns, fill) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  const context = penOf(canvas);
  if (scratch?.width !== columns || scratch.height !== rows) scratch = context.createImageData(columns, rows);
  const pixels = new Uint32Array(scratch.data.buffer);
  for (let row = 0, at = 0; row < rows; row++) {
    const { values, low, high } = fill(row);
    const scale = high > low ? 1023 / (high - low) : 0;
    for (let column = 0; column < columns; column++, at++) {
      const place = (values[column] - low) * scale;
      pixels[at] = place !== place ? HIDDEN : PIXELS[place < 0 ? 0 : place > 1023 ? 1023 : (place + 0.5) | 0];
    }
  }
  context.putImageData(scratch, 0, 0);
  return canvas;
}

/** Make an element: h("p", { "data-part": "live" }, "text", child, …).
 * @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {Attributes} attributes @param {...Child} children */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** A name that no other view on the page has, for ids and radio groups. */
export function uniqueName() {
  return Math.random().toString(36).slice(2);
}

/** Bytes from Python, a DataView somewhere in a message, as numbers: `decode(Uint16Array, model.get("_attention"))`.
 * Copied only where they do not start at a multiple of their size.
 * @template Numbers @param {NumberType<Numbers>} Type @param {Bytes} view */
export function decode(Type, view) {
  const { buffer, byteOffset, byteLength } = view;
  if (byteOffset % Type.BYTES_PER_ELEMENT === 0) return new Type(buffer, byteOffset, byteLength / Type.BYTES_PER_ELEMENT);
  return new Type(buffer.slice(byteOffset, byteOffset + byteLength));
}

/** What paints on a canvas. @param {Canvas} canvas */
export function penOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser does not paint on a canvas");
  return context;
}

/** Match a canvas's own pixels to the screen's, clear it, and return its context in CSS pixels. @param {Canvas} canvas */
export function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [w, ht] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== w || canvas.height !== ht) [canvas.width, canvas.height] = [w, ht];
  const context = penOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.imageSmoothingEnabled = false;
  return { context, width, height };
}

/** A frame around a rectangle: solid for a query, dashed for a key, with its letter where there is room.
 * @param {Pen} context @param {Rect} rect @param {"q" | "k"} kind @param {Colours} colours */
export function paintFrame(context, { x, y, w, h: height }, kind, colours, letter = "") {
  const thick = letter ? 4 : 2;
  const inset = thick / 2 + (kind === "k" ? thick : 0); // both stay visible on one cell
  if (w <= 2 * inset || height <= 2 * inset) return;
  /** @type {[number, number, number, number]} */
  const rect = [x + inset, y + inset, w - 2 * inset, height - 2 * inset];
  context.lineJoin = "miter";
  context.setLineDash([]);
  context.strokeStyle = kind === "q" ? "#fff" : "#000";
  context.lineWidth = thick + 2;
  context.strokeRect(...rect);
  context.strokeStyle = colours[kind];
  context.lineWidth = thick;
  if (kind === "k") context.setLineDash(letter ? [7, 4] : [3, 2]);
  context.strokeRect(...rect);
  context.setLineDash([]);
  if (!letter) return;
  const size = Math.min(16, w / 2.4);
  const [tx, ty] = kind === "q" ? [x, y] : [x + w - size, y];
  context.fillStyle = colours[kind];
  context.fillRect(tx, ty, size, size);
  context.fillStyle = kind === "q" ? "#fff" : "#000";
  context.font = `bold ${Math.round(size * 0.75)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(letter, tx + size / 2, ty + size / 2 + 0.5);
}

/** The frame of a row or a column of a matrix, drawn around it: cells may be smaller than a line is thick.
 * @param {Pen} context @param {number} x @param {number} y @param {number} w @param {number} height @param {"q" | "k"} kind @param {Colours} colours */
export function paintBand(context, x, y, w, height, kind, colours) {
  context.lineWidth = 4;
  context.strokeStyle = kind === "q" ? "#fff" : "#000";
  context.strokeRect(x, y, w, height);
  context.lineWidth = 2;
  context.strokeStyle = colours[kind];
  if (kind === "k") context.setLineDash([5, 3]);
  context.strokeRect(x, y, w, height);
  context.setLineDash([]);
}

/** What stands along a matrix of square cells: the words of its rows and columns (none where there is no room), cut to
 * `longest` letters, and Q and K at the chosen ones (null: none is chosen). @param {Pen} context @param {Names} names */
export function paintNames(context, { rows, columns, query, key, left, top, cell, longest, colours }) {
  /** @param {string} word */
  const cut = (word) => (word.length > longest ? `${word.slice(0, longest - 1)}…` : word);
  /** @param {boolean} yes */
  const bold = (yes) => (context.font = `${yes ? "bold " : ""}12px system-ui, sans-serif`);
  context.fillStyle = colours.text;
  context.textBaseline = "middle";
  context.textAlign = "right";
  rows.forEach((word, i) => {
    bold(i === query);
    context.fillText(cut(word), left - 15, top + (i + 0.5) * cell);
  });
  columns.forEach((word, i) => {
    bold(i === key);
    context.save();
    context.translate(left + (i + 0.5) * cell, top - 15);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(cut(word), 0, 0);
    context.restore();
  });
  bold(true);
  context.textAlign = "center";
  if (query !== null) context.fillText("Q", left - 8, top + (query + 0.5) * cell);
  if (key !== null) context.fillText("K", left + (key + 0.5) * cell, top - 8);
}

/** The family's colours as the theme has them now: { q, k, v, text }. @param {Element} root */
export function themeColours(root) {
  const style = getComputedStyle(root);
  /** @param {string} name */
  const get = (name) => style.getPropertyValue(`--headroom-${name}`).trim();
  return { q: get("q"), k: get("k"), v: get("v"), text: style.color };
}

/** A colour bar with three numbers and a note below: { element, set(low, high, note) }. @returns {Legend} */
export function legend() {
  const numbers = [0, 1, 2].map(() => h("span"));
  const note = h("span", { class: "headroom-note" });
  const ramp = h("div", { class: "headroom-ramp", "aria-hidden": "true" });
  ramp.style.background = `linear-gradient(to right, ${CIVIDIS.map(css).join(", ")})`;
  const element = h("div", { "data-part": "legend" }, ramp, h("div", { class: "headroom-ticks" }, ...numbers), note);
  return {
    element,
    set(low, high, text) {
      [low, (low + high) / 2, high].forEach((value, i) => (numbers[i].textContent = number(value)));
      note.textContent = text;
    },
  };
}

/** Pairs as a list of pairs, so that each half keeps its type. @template A, B @param {...[A, B]} all */
export function pairs(...all) {
  return all;
}

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

/** A token as readers see it: one that is a space gets a sign. @param {string} word */
export function visible(word) {
  return word.trim() ? word : "␣";
}

/** A head in words; null: the mean of all. @param {number | null} head */
export function sayHead(head) {
  return head === null ? "mean of heads" : `head ${head + 1}`;
}

/** The index that is `step` further, the first following the last. @param {number} value @param {number} step @param {number} size */
export function cycle(value, step, size) {
  return (value + step + size) % size;
}

/** Give a node its text, only where it has another: what does not change need not be laid out, or spoken, anew. @param {Node} node @param {string} text */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The sentence that says what is shown, spoken when it changes: { element, say(text) }. @param {string} id */
export function liveLine(id) {
  const element = h("p", { "data-part": "live", id, "aria-live": "polite" });
  return {
    element,
    /** @param {string} text */
    say(text) {
      write(element, text);
    },
  };
}

/** The same numbers as a table, folded away and filled only while open: { element, update() }. @param {() => Node} fill @param {string} name */
export function tableView(fill, name) {
  const body = h("div", { class: "headroom-scroll", tabindex: 0, role: "region", "aria-label": name });
  const element = h("details", { "data-part": "table" }, h("summary", {}, "Show as table"), body);
  const update = () => element.open && body.replaceChildren(fill());
  element.addEventListener("toggle", update);
  return { element, update };
}

/** A paragraph that says what needs Python; in an exported page, where there is none, it says so first. @param {...Child} children */
export function needsPython(...children) {
  const exported = document.querySelector('script[type="application/vnd.jupyter.widget-state+json"]') !== null;
  const missing = exported ? ["There is no Python behind this page: what you see goes on working, but what you choose goes nowhere. "] : [];
  return h("p", { "data-part": "python" }, ...missing, ...children);
}

/** Keep the keys from the notebook, where `b` would add a cell and `dd` delete one. Tab leaves the widget, saving stays
 * what it is everywhere, and `press(event)` answers whether it took the key.
 * @param {HTMLElement} root @param {AbortSignal} signal @param {(event: KeyboardEvent) => boolean} press */
export function guardKeys(root, signal, press) {
  root.addEventListener("keydown", (event) => {
    const command = (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
    if (event.key === "Tab" || (command && event.key.toLowerCase() === "s")) return;
    event.stopPropagation();
    if (!command && press(event)) event.preventDefault();
  }, { signal });
}

/** Repaint for whatever changes the picture from outside: Python, another view, size, zoom, theme. Many changes, one
 * painting: at most once a frame. Returns `schedule`; `signal` ends it all.
 * @template T @param {() => void} paint
 * @param {{ model: Model<T>, names: (keyof T & string)[], canvases: Element[], signal: AbortSignal }} what */
export function repaint(paint, { model, names, canvases, signal }) {
  let frame = 0; // none is waited for
  const schedule = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      paint();
    });
  };
  for (const name of names) model.on(`change:${name}`, schedule);
  const sizes = new ResizeObserver(schedule);
  for (const canvas of canvases) sizes.observe(canvas);
  window.addEventListener("resize", schedule, { signal }); // zooming changes devicePixelRatio
  const theme = new MutationObserver(schedule);
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  signal.addEventListener("abort", () => {
    cancelAnimationFrame(frame);
    sizes.disconnect();
    theme.disconnect();
    for (const name of names) model.off(`change:${name}`, schedule);
  });
  return schedule;
}

/** What the reader chooses. What is pointed at is shown at once and sent later, so that neither Python nor another view
 * is flooded; what is chosen is sent once it is painted. While `locked`, pointing changes nothing.
 *
 * now()             the state that is shown: the model's, with what is pointed at in its place
 * point(changes)    the pointer is there; `null`: it has left
 * choose(changes)   the reader decided; `also(changes)` may add what follows from it
 * @template T @template {keyof T & string} K @param {Model<T>} model @param {K[]} names
 * @param {{ schedule: () => void, also?: (changes: Partial<Pick<T, K>>) => void, signal: AbortSignal }} what
 * @returns {Choice<Pick<T, K>>}
 */
export function choices(model, names, { schedule, also = () => {}, signal }) {
  /** @param {Partial<Pick<T, K>>} changes */
  const entries = (changes) => /** @type {[K, T[K]][]} */ (Object.entries(changes));
  /** @type {Partial<Pick<T, K>>} */
  let pointed = {};
  /** @type {ReturnType<typeof setTimeout> | null} */
  let resting = null; // the timer of a pointing that has not been sent
  const send = () => {
    if (resting === null) return;
    stop();
    for (const [name, value] of entries(pointed)) model.set(name, value);
    model.save_changes();
  };
  let unsaved = false;
  const save = () => {
    if (unsaved) model.save_changes();
    unsaved = false;
  };
  const now = () => /** @type {Pick<T, K>} */ ({ ...Object.fromEntries(names.map((name) => [name, model.get(name) ?? null])), ...pointed });
  const stop = () => {
    if (resting !== null) clearTimeout(resting);
    resting = null;
  };
  signal.addEventListener("abort", () => {
    send();
    save();
  });
  return {
    now,
    point(changes) {
      if (changes === null) {
        send();
        pointed = {};
      } else {
        const shown = now();
        if (("locked" in shown && shown.locked) || entries(changes).every(([name, value]) => shown[name] === value)) return;
        pointed = { ...pointed, ...changes };
        stop();
        resting = setTimeout(send, HOVER_REST_MS);
      }
      schedule();
    },
    choose(changes) {
      stop();
      const all = { ...pointed, ...changes }; // what is seen is what is sent
      pointed = {};
      also(all);
      for (const [name, value] of entries(all)) model.set(name, value);
      schedule();
      // After the frame: what JupyterLab does when the kernel gets busy would hold up the painting.
      if (!unsaved) requestAnimationFrame(() => setTimeout(save, 0));
      unsaved = true;
    },
  };
}

/** The element in which something has happened. @param {Event} event */
export function targetOf(event) {
  return /** @type {HTMLElement} */ (event.target);
}

/** Call `at(event)` when the pointer has moved: browsers repeat its last move when the page scrolls under it.
 * @param {HTMLElement} element @param {AbortSignal} signal @param {(event: PointerEvent) => void} at @param {() => void} leave */
export function onPointer(element, signal, at, leave) {
  let last = "";
  element.addEventListener("pointermove", (event) => {
    const here = `${event.clientX} ${event.clientY}`;
    if (here !== last) at(event);
    last = here;
  }, { signal });
  element.addEventListener("pointerleave", leave, { signal });
}
