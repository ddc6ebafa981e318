// @ts-check
/* The front end of headroom.widgets.DigitPad.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-digit-pad              the root of one view; a page may hold many
 *   canvas[data-part=pad]            the page to draw on: takes pointer, focus and keys. With r its
 *                                    getBoundingClientRect(), pixel (x, y), counted from 0, lies around
 *                                    r.left + (x + 0.5) * r.width / 28, r.top + (y + 0.5) * r.height / 28
 *   canvas[data-part=seen]           the 28 × 28 pixels that the model sees
 *   [data-part=pen], [data-part=eraser], [data-part=undo], [data-part=clear]    <button>s
 *   [data-part=example-select]       <select>, value: "" (an empty page) or example from 0
 *   [data-part=centred-box], [data-part=overlay-box]    <input type=checkbox>
 *   [data-part=layer-range]          <input type=range>, value: layer from 1
 *   [data-part=head-select]          <select>, value: "mean" or head from 0
 *   [data-part=mistake-select]       <select>, value: "" or a mistake's name (only where some apply)
 *   [data-part=reading]              what one model reads; the second is that of the model with the mistake. Within it:
 *                                    [data-part=guess], [data-part=doubts] with a [data-digit] each, canvas[data-part=map],
 *                                    [data-part=map-note]
 *   [data-part=status]               what keeps the answer from coming, in a sentence; hidden when nothing does
 *   [data-part=live], [data-part=legend], [data-part=table], [data-part=keys], [data-part=python]    as in every widget
 *   data-example, data-layer, data-head, data-overlay, data-centred, data-mistake, data-strokes, data-points, data-guess
 *   and data-fresh ("true": the answer belongs to what is drawn) on the root: what is shown now, from 0
 */
import { prepare } from "../kernel/canvas.js";
import { choices, guardKeys, repaint } from "../kernel/choices.js";
import { themeColours } from "../kernel/colours.js";
import { attentionKeys, bind } from "../kernel/controls.js";
import { h, tableView, uniqueName, write } from "../kernel/elements.js";
import { clamp, cycle } from "../kernel/numbers.js";
import { frontEnd, isLost } from "../kernel/python.js";
import { capital, number } from "../kernel/words.js";
import { BOX, FINE, SIDE, WIDE } from "./ink.js";
import { Page } from "./page.js";
import { greyPicture, paintMap, paintPage } from "./paint.js";
import { LEAP, partsOf } from "./parts.js";
import { Questions } from "./questions.js";
import { readerOf } from "./reader.js";
import { isFresh, mapOf, ranked, sayMap, sayModel, sure, tables, titleOf } from "./words.js";
/** @import { On, View as Given, DigitPad as T } from "../types" */

const STEP = 1; // pixels that a key moves the pen

class View {
  /** @param {Given<T.Traits>} _ @param {AbortSignal} signal */
  constructor({ model, el }, signal) {
    this.model = model;
    this.names = model.get("_choices");
    this.signal = signal;
    this.facts = model.get("_facts");
    this.n = model.get("_examples").byteLength / (SIDE * SIDE);
    const unique = uniqueName();
    this.table = tableView(() => tables(this.facts, this.shown), "Table of probabilities and weights");
    this.reader = readerOf(model);
    this.parts = partsOf(this.facts, this.n, unique, this.table, this.reader !== null);
    const { root, pad, controls } = this.parts;
    el.append(h("div", { class: "headroom-frame" }, root));

    this.schedule = repaint(() => this.paint(), { model, names: [...this.names, "_answer"], canvases: [pad, root], signal });
    this.choice = choices(model, this.names, { schedule: this.schedule, signal });
    const { centred, overlay, layer, head, mistake } = controls;
    this.showChoices = bind([centred, overlay, layer, head, mistake], this.choice, signal);
    this.questions = new Questions(model, unique, this.schedule, () => this.page.pixels, this.reader);
    this.page = new Page(model, { schedule: this.schedule, ask: () => this.questions.ask(), send: () => this.questions.send() });
    this.cursor = { x: SIDE / 2, y: SIDE / 2, shown: false };
    this.told = ""; // what the keys did to the pen
    this.pictures = { page: greyPicture(WIDE), seen: greyPicture(SIDE) };
    this.heed();
    this.listenToPad();
    this.listenToTools();
    guardKeys(root, signal, (event) => this.press(event));
    this.shown = this.see();
    this.paint();
  }

  // ------------------------------------------------ what others change
  heed() {
    const { model, page, questions, signal } = this;
    const changed = () => {
      if (!page.own) this.liftPen();
      page.changed();
    };
    const recentred = () => {
      page.develop();
      if (!isFresh(model.get("_answer"), page.pixels, model.get("mistake") ?? null)) questions.ask();
    };
    const broken = () => { // Python reads again by itself
      if (this.reader) questions.ask();
    };
    /** @type {[`change:${keyof T.Traits}`, () => void][]} */
    const heeded = [["change:_answer", () => questions.heard()], ["change:_drawing", changed], ["change:example", changed],
      ["change:centred", recentred], ["change:mistake", broken]];
    for (const [event, handle] of heeded) {
      model.on(event, handle);
      signal.addEventListener("abort", () => model.off(event, handle));
    }
    signal.addEventListener("abort", () => {
      page.finish();
      questions.stopWaiting();
      model.save_changes();
    });
  }

  // ------------------------------------------------ painting a state
  /** @returns {T.Shown} */
  see() {
    const now = this.choice.now();
    const answer = this.model.get("_answer");
    const { pixels } = this.page;
    const models = (pixels && answer.models) || [];
    // A second model that does not answer yet has its place already.
    const shown = now.mistake === null ? models.slice(0, 1) : answer.mistake === now.mistake ? models : [models[0], undefined];
    const drawable = now.overlay ? shown.filter((one) => one?.attention !== undefined) : [];
    const largest = Math.max(0, ...drawable.flatMap((one) => [...mapOf(this.facts, one, now.layer, now.head).patches]));
    return { now, shown, fresh: isFresh(answer, pixels, now.mistake), drawable, colours: themeColours(this.parts.root), largest };
  }

  paint() {
    const { parts, page, pictures } = this;
    const view = this.shown = this.see();
    const { now, shown, drawable } = view;
    this.questions.watch(view.fresh);
    parts.readings[1].element.hidden = now.mistake === null;
    parts.root.setAttribute("data-overlay", String(now.overlay));
    parts.readings.forEach(({ mapBox }, i) => (mapBox.hidden = !drawable.some((one) => one === shown[i])));
    parts.scale.element.hidden = !drawable.length;
    paintPage(parts.pad, pictures.page((at) => (page.ink[at] * 255 + 0.5) | 0), page, this.cursor, this.model.get("centred"));
    const { pixels } = page;
    const { context, width } = prepare(parts.seen);
    context.drawImage(pictures.seen((at) => (pixels ? pixels[at] : 0)), 0, 0, width, width);
    for (const one of drawable) paintMap(parts.readings[shown.indexOf(one)].map, this.facts, one, view, this.model.get("_answer").pixels);
    this.write();
  }

  write() {
    const { parts, page, shown: view, questions: { late } } = this;
    this.writeControls();
    this.writeSeen();
    view.shown.concat([undefined, undefined]).slice(0, 2).forEach((answer, i) => this.writeReading(answer, i));
    parts.scale.set(0, view.largest, `Weight of a patch, up to the largest that is shown${view.drawable.length > 1 ? " in either map" : ""}.`);
    const old = view.shown[0] ? " What stands here was read from an earlier drawing or with another choice." : "";
    const busy = `Python has not answered for a second: it is busy with another cell, or it is not running. Draw on; it will be asked for the newest drawing.${old}`;
    write(parts.status, !late ? "" : isLost(this.model) ? old.trim() : busy);
    parts.status.hidden = !parts.status.textContent;
    if (!page.stroke || this.cursor.shown) parts.live.say(this.say()); // not while the pointer draws: it would never stop talking
    this.table.update();
  }
  writeControls() {
    const { parts: { root, controls, buttons }, page, shown: { now, fresh } } = this;
    const strokes = page.all();
    for (const one of this.names) root.setAttribute(`data-${one}`, String(now[one] ?? "none"));
    root.setAttribute("data-strokes", String(strokes.length));
    root.setAttribute("data-points", String(strokes.reduce((sum, one) => sum + (one.length - 1) / 2, 0)));
    root.setAttribute("data-fresh", String(fresh));
    this.showChoices(now);
    controls.example.show(now);
    buttons.pen.setAttribute("aria-pressed", String(page.tool === "pen"));
    buttons.eraser.setAttribute("aria-pressed", String(page.tool === "eraser"));
    buttons.undo.disabled = !page.before.length && !strokes.length;
    buttons.clear.disabled = now.example === null && !strokes.length;
  }
  writeSeen() {
    const { parts: { seen, seenNote }, page, shown: { now } } = this;
    const zoom = page.placing ? FINE / page.placing.step : 1;
    const treated = now.centred && !page.isAsItCame ? `, the drawing made ${number(zoom)} times as large to fit ${BOX} × ${BOX}, its centre of mass in the middle.` : ", as drawn.";
    write(seenNote, `What the model sees: ${SIDE} × ${SIDE} pixels${page.pixels ? treated : ", all paper."}`);
    seen.setAttribute("aria-label", seenNote.textContent);
  }
  /** @param {T.Reading | T.Failure | undefined} answer @param {number} i */
  writeReading(answer, i) {
    const { parts, page, facts, shown: { now } } = this;
    const { root, readings: { [i]: one } } = parts;
    write(one.title, i ? `With the mistake: ${titleOf(facts, now.mistake)}` : `What ${this.reader ? "the" : "your"} ${now.mistake === null ? "" : "correct "}model reads`);
    write(one.what, i && now.mistake !== null ? facts.mistakes.find(([name]) => name === now.mistake)?.[3] ?? "" : "");
    const values = answer?.probabilities;
    const best = values ? ranked(values)[0] : -1;
    if (!i) root.setAttribute("data-guess", values ? String(best) : "none");
    write(one.big, values ? String(best) : "–");
    write(one.guess, values ? `${capital(sure(values[best]))}: ${number(values[best])}` : answer?.error ?? (page.pixels ? "No answer yet." : "Nothing is drawn."));
    one.rows.forEach(({ fill, value, element }, digit) => {
      fill.style.transform = `scaleX(${values ? values[digit] : 0})`;
      element.classList.toggle("headroom-best", digit === best);
      write(value, values ? number(values[digit]) : "–");
    });
    one.element.classList.toggle("headroom-old", this.questions.late && !!values);
    if (!now.overlay || answer?.attention === undefined) return;
    write(one.mapNote, sayMap(facts, answer, now));
    one.map.setAttribute("aria-label", `Attention over ${facts.side} × ${facts.side} patches. ${one.mapNote.textContent}`);
  }
  say() {
    const { facts, told, page: { pixels }, shown: { now, shown, drawable } } = this;
    const nothing = `Nothing is drawn. Draw a digit${this.n ? ", or start from one of the menu" : ""}.`;
    const read = shown.map((one, i) => (one ? sayModel(facts, one, i, now.mistake) : "")).filter(Boolean);
    const rest = pixels ? [...read, ...drawable.map((one) => sayMap(facts, one, now))] : [nothing];
    return [told, ...(rest.length ? rest : ["The drawing has not been read yet."])].filter(Boolean).join(" ");
  }

  // ------------------------------------------------ pointer
  /** @type {On} */
  on(target, type, handle) {
    target.addEventListener(type, handle, { signal: this.signal });
  }
  listenToPad() {
    const { page, parts: { pad }, cursor } = this;
    /** @param {PointerEvent} _ @returns {[x: number, y: number]} */
    const inPixels = ({ clientX, clientY }) => {
      const r = pad.getBoundingClientRect();
      /** @param {number} value */
      const round = (value) => Math.round(clamp(value, 0, SIDE) * 100) / 100;
      return [round(((clientX - r.left) / r.width) * SIDE), round(((clientY - r.top) / r.height) * SIDE)];
    };
    /** @type {number | null} */
    let pointer = null; // which one is drawing: a second finger does not
    this.on(pad, "pointerdown", (event) => {
      if (pointer !== null || (event.button > 0 && event.button !== 5)) return; // 5: a pen's own eraser
      event.preventDefault();
      pad.focus({ preventScroll: true });
      pad.setPointerCapture(event.pointerId);
      [pointer, cursor.shown, this.told] = [event.pointerId, false, ""];
      page.begin(...inPixels(event), page.tool === "eraser" || event.button === 5);
    });
    this.on(pad, "pointermove", (event) => {
      if (event.pointerId !== pointer || !page.stroke) return;
      const all = event.getCoalescedEvents?.() ?? [];
      for (const one of all.length ? all : [event]) page.extend(...inPixels(one));
    });
    /** @param {PointerEvent} event */
    const lift = (event) => {
      if (event.pointerId !== pointer) return;
      pointer = null;
      page.finish();
      this.schedule();
    };
    this.on(pad, "pointerup", lift);
    this.on(pad, "pointercancel", lift);
    this.on(pad, "lostpointercapture", lift);
    this.on(pad, "blur", () => {
      page.finish();
      this.liftPen();
      this.schedule();
    });
  }
  listenToTools() {
    const { page, parts: { buttons, controls: { example } } } = this;
    this.on(buttons.pen, "click", () => this.pick("pen"));
    this.on(buttons.eraser, "click", () => this.pick("eraser"));
    this.on(buttons.undo, "click", () => page.undo());
    this.on(buttons.clear, "click", () => this.clear());
    this.on(example.input, "change", () => this.startFrom(example.read().example ?? null));
  }
  /** @param {"pen" | "eraser"} tool */
  pick(tool) {
    this.page.finish();
    this.page.tool = tool;
    this.schedule();
  }

  // ------------------------------------------------ another page
  /** The page is another one: the pen of the keys is off it, and what was said of it is over. */
  liftPen() {
    [this.cursor.shown, this.told] = [false, ""];
  }
  clear() {
    this.liftPen();
    this.page.clear();
  }
  /** @param {number | null} example */
  startFrom(example) {
    this.liftPen();
    this.page.startFrom(example);
  }

  // ------------------------------------------------ keys
  sayPen() {
    const { page: { tool, stroke }, cursor } = this;
    /** @param {number} at */
    const place = (at) => Math.floor(Math.min(at, SIDE - 1)) + 1;
    this.told = `${tool === "pen" ? "Pen" : "Eraser"} ${stroke ? "down" : "up"} at row ${place(cursor.y)}, column ${place(cursor.x)}.`;
    this.schedule();
  }
  /** @param {number[]} _ @param {number} by */
  move([right, down], by) {
    const { page, cursor } = this;
    cursor.shown = true;
    cursor.x = clamp(cursor.x + right * by, 0, SIDE);
    cursor.y = clamp(cursor.y + down * by, 0, SIDE);
    if (page.stroke) page.extend(cursor.x, cursor.y);
    this.sayPen();
  }
  lower() {
    const { page, cursor } = this;
    cursor.shown = true;
    if (page.stroke) page.finish();
    else page.begin(cursor.x, cursor.y, page.tool === "eraser");
    this.sayPen();
  }
  /** @param {number} by */
  stepExample(by) {
    const { example } = this.choice.now();
    if (this.n) this.startFrom(example === null ? (by > 0 ? 0 : this.n - 1) : cycle(example, by, this.n));
  }
  /** @returns {Record<string, () => unknown>} */
  actions() {
    const { choice, page } = this;
    const { overlay, centred } = choice.now();
    const actions = {
      ...attentionKeys(choice, this.facts),
      e: () => this.pick(page.tool === "pen" ? "eraser" : "pen"),
      u: () => page.undo(),
      Delete: () => this.clear(),
      Backspace: () => this.clear(),
      m: () => choice.choose({ centred: !centred }),
      w: () => choice.choose({ overlay: !overlay }),
    };
    return this.n ? { ...actions, i: () => this.stepExample(1), I: () => this.stepExample(-1) } : actions;
  }
  /** @param {KeyboardEvent} event */
  press({ key, shiftKey, target }) {
    if (key === "Escape") {
      this.page.finish();
      this.told = "";
      this.schedule();
      return true;
    }
    if (target !== this.parts.pad) return false;
    if (key in MOVES) this.move(MOVES[key], shiftKey ? LEAP : STEP);
    else if (key === " " || key === "Enter") this.lower();
    else {
      const action = this.actions()[key];
      if (!action) return false;
      this.told = "";
      action();
    }
    return true;
  }
}

/** @type {Record<string, number[]>} */
const MOVES = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0], Home: [-1, -1], PageUp: [1, -1], End: [-1, 1], PageDown: [1, 1] };

export default frontEnd(View);
