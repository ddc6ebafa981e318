// @ts-check
/* What the reader chooses, with pointer and keys; and when a view is painted anew. */
/** @import { Choice, Model } from "../types" */

const HOVER_REST_MS = 300; // what is hovered goes to Python after the pointer has rested this long, or left
const HIDDEN_MS = 200; // after which a page that takes itself apart to change its theme is whole again

/** Keep the keys from the notebook, where `b` would add a cell and `dd` delete one. Tab leaves the widget, saving and
 * Shift+Enter stay what they are everywhere, and `press(event)` answers whether it took the key.
 * @param {HTMLElement} root @param {AbortSignal} signal @param {(event: KeyboardEvent) => boolean} press */
export function guardKeys(root, signal, press) {
  root.addEventListener("keydown", (event) => {
    const command = (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
    if (event.key === "Tab" || (event.key === "Enter" && event.shiftKey) || (command && event.key.toLowerCase() === "s")) return;
    event.stopPropagation();
    if (!command && press(event)) event.preventDefault();
  }, { signal });
}

/** Repaint for whatever changes the picture from outside: Python, another view, size, zoom, theme. Many changes, one
 * painting: at most once a frame. Without a size there is nothing to paint on: it is tried once more, for JupyterLab
 * takes the size away and gives it back within a frame when it changes its theme, which no observer sees. Returns
 * `schedule`; `signal` ends it all.
 * @template T @param {() => void} paint
 * @param {{ model: Model<T>, names: (keyof T & string)[], canvases: Element[], signal: AbortSignal }} what */
export function repaint(paint, { model, names, canvases, signal }) {
  let frame = 0; // none is waited for
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let later;
  const request = (last = false) => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      clearTimeout(later);
      if (canvases.some((canvas) => canvas.clientWidth)) paint();
      else if (!last) later = setTimeout(request, HIDDEN_MS, true);
    });
  };
  const schedule = () => request();
  for (const name of names) model.on(`change:${name}`, schedule);
  const sizes = new ResizeObserver(schedule);
  for (const canvas of canvases) sizes.observe(canvas);
  window.addEventListener("resize", schedule, { signal }); // zooming changes devicePixelRatio
  const theme = new MutationObserver(schedule);
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });
  signal.addEventListener("abort", () => {
    cancelAnimationFrame(frame);
    clearTimeout(later);
    sizes.disconnect();
    theme.disconnect();
    for (const name of names) model.off(`change:${name}`, schedule);
  });
  return schedule;
}

/** What the reader chooses. What is pointed at is shown at once and sent later, so that neither Python nor another view
 * is flooded; what is chosen is sent once it is painted, and until then Python's echo of an earlier choice changes
 * nothing. While `locked`, pointing changes nothing.
 *
 * now()             the state that is shown: the model's, with what is not sent yet and what is pointed at in its place
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
  /** @type {Partial<Pick<T, K>> | null} */
  let unsent = null; // what was chosen and not sent
  const save = () => {
    if (unsent === null) return;
    for (const [name, value] of entries(unsent)) model.set(name, value); // an echo may have come between
    unsent = null;
    model.save_changes();
  };
  const now = () => /** @type {Pick<T, K>} */ ({ ...Object.fromEntries(names.map((name) => [name, model.get(name) ?? null])), ...unsent, ...pointed });
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
      if (unsent === null) requestAnimationFrame(() => setTimeout(save, 0));
      unsent = { ...unsent, ...all };
    },
  };
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
