// @ts-check
/* The front end of headroom.widgets.AttentionExplorer.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-attention-explorer     the root of one view; a page may hold many
 *   canvas[data-part=image]          an image's patches; takes the focus and the keys. It holds exactly the grid: with r
 *                                    its getBoundingClientRect(), patch (row, column), counted from 0, lies around
 *                                    x = r.left + (column + 0.5) * r.width / columns, y = r.top + (row + 0.5) * r.height / rows
 *   canvas[data-part=class]          the [class] token's own cell, above the picture (absent without such a token)
 *   [data-part=queries], [data-part=keys-row]   a text's words; each is a [data-token], from 0
 *   canvas[data-part=matrix]         the chosen head, queries down, keys across; data-left, -top, -cell-width, -cell-height: where its cells lie
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=sample-select]        <select>, value: sequence or image from 0
 *   [data-part=layer-range]          <input type=range>, value: layer from 1
 *   [data-part=head]                 <input type=radio>, value: "mean" or head from 0; its label holds small pictures
 *   [data-part=scale-select]         <select>, value: "row" or "all"
 *   [data-part=show-select]          <select>, value: "weights", "unmasked" or "scores" (only with scores)
 *   [data-part=control-box]          <input type=checkbox>; [data-part=control-select]: which other image, from 0
 *   [data-part=matrices-box]         <input type=checkbox> (only with images)
 *   [data-part=predict], [data-part=reveal]     <button>s
 *   [data-part=legend], [data-part=row] (canvas of bars, only with images), [data-part=table], [data-part=keys] (<details>)
 *   data-sample, data-layer, data-head, data-query, data-key, data-locked, data-control, data-phase, … on the root: what
 *   is shown now, from 0
 */
import { choices, guardKeys, repaint } from "../kernel/choices.js";
import { inkOn, colour, css, themeColours } from "../kernel/colours.js";
import { attentionKeys, bind } from "../kernel/controls.js";
import { h, tableView, uniqueName, write } from "../kernel/elements.js";
import { cellUnder, surface } from "../kernel/matrix.js";
import { clamp, cycle } from "../kernel/numbers.js";
import { frontEnd } from "../kernel/python.js";
import { capital, number, sayHead } from "../kernel/words.js";
import { CLASS_TOKEN, Data } from "./data.js";
import { paintBars, paintClass, paintMatrix, paintPatches, paintPlain, paintTile } from "./paint.js";
import { partsOf } from "./parts.js";
import { KINDS, TITLES, Words } from "./words.js";
/** @import { On, View as Given, AttentionExplorer as T } from "../types" */

/** @type {T.Show[]} */
const SHOWS = ["weights", "unmasked", "scores"]; // in the menu's order
/** @type {Record<string, [down: number, right: number]>} */
const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

class View {
  /** @param {Given<T.Traits>} _ @param {AbortSignal} signal */
  constructor({ model, el }, signal) {
    this.model = model;
    this.names = model.get("_choices");
    this.signal = signal;
    this.data = new Data(model);
    this.say = new Words(this.data);
    this.table = tableView(() => this.say.table(this.choice.now()), "Table of weights");
    this.parts = partsOf(this.data, this.say, uniqueName(), this.table);
    const { root, controls, image, heads, matrix } = this.parts;
    el.append(h("div", { class: "headroom-frame" }, root));

    const canvases = [image.picture, image.bars, heads.element, matrix, root];
    this.schedule = repaint(() => this.paint(), { model, names: this.names, canvases, signal });
    this.choice = choices(model, this.names, { schedule: this.schedule, also: (changes) => this.data.follow(this.choice.now(), changes), signal });
    const { sample, layer, scale, show, matrices } = controls;
    this.showChoices = bind([sample, layer, scale, show, matrices], this.choice, signal);
    this.listenToControls();
    this.listenToPictures();
    guardKeys(root, signal, (event) => this.press(event));
    this.paint();
  }
  /** @type {On} */
  on(target, type, handle) {
    target.addEventListener(type, handle, { signal: this.signal });
  }

  // ------------------------------------------------ choosing
  /** Pointed at: `{ query }`, `{ key }` or both, as tokens. @param {T.At} at */
  named({ query, key = null }) {
    const { data } = this;
    return { ...(query === undefined ? {} : { query: data.name(query) }), key: key === null ? null : data.name(key) };
  }
  /** While predicting, only keys are pointed at, to be marked. @param {T.At | null} at */
  point(at) {
    if (at === null) return this.choice.point(null);
    if (this.model.get("phase") !== "marking") this.choice.point(this.named(at));
  }
  /** @param {T.At} at */
  click(at) {
    const { model, choice } = this;
    const { phase } = choice.now();
    if (phase === "marking" && typeof at.key === "number") return this.mark(this.data.name(at.key));
    const to = this.named(at);
    const again = model.get("locked") && (to.query ?? model.get("query")) === model.get("query") && to.key === (model.get("key") ?? null);
    choice.choose({ ...to, locked: phase === "marking" ? false : !again });
  }
  /** @param {T.Token} one */
  mark(one) {
    const marks = this.model.get("marks");
    this.choice.choose({ key: one, marks: marks.includes(one) ? marks.filter((other) => other !== one) : [...marks, one] });
  }
  predict() {
    const off = this.model.get("phase") === "off";
    this.choice.choose(off ? { phase: "marking", marks: [], key: null, locked: false, show: "weights" } : { phase: "off", marks: [], key: null });
  }
  reveal() {
    if (this.model.get("phase") === "marking" && this.model.get("marks").length) this.choice.choose({ phase: "revealed", key: null });
  }
  listenToControls() {
    const { choice, parts: { controls, heads } } = this;
    this.on(controls.controlBox, "change", () => choice.choose({ control: controls.controlBox.checked ? controls.control.read().control : null }));
    this.on(controls.control.input, "change", () => choice.choose(controls.control.read()));
    this.on(controls.predict, "click", () => this.predict());
    this.on(controls.reveal, "click", () => this.reveal());
    for (const { head, input } of heads.tiles) this.on(input, "change", () => choice.choose({ head }));
  }

  // ------------------------------------------------ painting a state
  /** @returns {T.Shown} */
  see() {
    const { data } = this;
    const now = this.choice.now();
    const from = { ...now, sample: now.control ?? now.sample };
    const [query, key] = [data.token(now.query), data.tokenOrNone(now.key)];
    const row = data.row(now.show, from, query);
    const best = row.indexOf(row.reduce((a, b) => Math.max(a, b)));
    const limits = data.limits(now.show, now.scale, row);
    const marking = now.phase === "marking";
    return {
      now, from, query, key, row, best, limits, marking,
      aim: marking ? key : key ?? best,
      marks: now.marks.map((one) => data.token(one)),
      fraction: (value) => (limits[1] > limits[0] ? (value - limits[0]) / (limits[1] - limits[0]) : 0),
      colours: themeColours(this.parts.root),
    };
  }
  // Everything is measured and painted before any text changes: a change in between would make the browser lay out anew.
  paint() {
    const { data, say, parts, parts: { image, heads, matrixBox }, table } = this;
    const { isImage } = data;
    const view = this.see();
    const { now, marking } = view;
    if (!isImage) this.fillStrips(now.sample);
    matrixBox.hidden = marking || (isImage && !now.matrices);
    heads.element.hidden = table.element.hidden = marking;
    parts.scale.element.hidden = image.bars.hidden = parts.renormalised.hidden = marking;
    parts.covered.hidden = !marking;
    parts.root.setAttribute("data-matrices", String(now.matrices));
    for (const tile of heads.tiles) tile.small.hidden = isImage && !now.matrices;

    if (isImage) {
      paintPlain(image.digit, data, now.sample);
      if (now.control !== null) paintPlain(image.sourceDigit, data, now.control);
      paintPatches(image.picture, data, view);
      if (data.facts.has_class) paintClass(image.classCanvas, view);
    }
    if (!marking) {
      if (!matrixBox.hidden) paintMatrix(parts.matrix, data, say, view);
      for (const tile of heads.tiles) paintTile(tile, data, view);
      if (isImage) paintBars(image.bars, data, view);
    }
    if (isImage) this.writeImage(view);
    else this.writeStrips(view);
    this.write(view);
  }
  /** @param {T.Shown} view */
  write(view) {
    const { data, say, parts, parts: { root, controls } } = this;
    const { now, row, limits, marking } = view;
    for (const one of this.names) root.setAttribute(`data-${one}`, String(now[one] ?? "none"));
    this.showChoices(now);
    controls.show.input.disabled = now.phase !== "off";
    controls.predict.setAttribute("aria-pressed", String(now.phase !== "off"));
    controls.reveal.hidden = !marking;
    controls.reveal.disabled = !now.marks.length;
    this.writeMatrices(view);
    const least = now.show === "scores" ? "its lowest score" : "0";
    parts.scale.set(...limits, now.scale === "all"
      ? `One scale for all: up to the largest ${now.show === "scores" ? "score" : "weight"} of any ${say.kindOf}, layer and head.`
      : `Row scale: each query's row goes from ${least} to its own largest number.`);
    parts.live.say(say.all(now, row));
    if (data.hasScores) write(parts.renormalised, say.mask(now));
    if (!marking) this.table.update();
  }
  /** @param {T.Shown} _ */
  writeMatrices({ now: { show, layer, head }, from, query }) {
    const { data, parts: { matrix, matrixTitle, heads } } = this;
    write(matrixTitle, `${TITLES[show]}, layer ${layer + 1}, ${sayHead(head)}`);
    const [asking, asked] = data.facts.sizes[from.sample];
    matrix.setAttribute("aria-label", `${TITLES[show]} of layer ${layer + 1}, ${sayHead(head)}: ${asking} queries down, ${asked} keys across. ` +
      "Arrow keys move query and key, Enter locks them.");
    write(heads.title, `Layer ${layer + 1}: the same query in every head`);
    for (const { head: its, input, most, label } of heads.tiles) {
      const top = data.row(show, { ...from, head: its }, query).reduce((a, b) => Math.max(a, b));
      input.checked = its === head;
      label.classList.toggle("headroom-chosen", its === head);
      input.setAttribute("aria-label", `${sayHead(its)}, largest ${KINDS[show]} ${number(top)}`);
      write(most, `max ${number(top)}`);
    }
  }
  /** @param {T.Shown} _ */
  writeImage({ now: { sample, control, layer, head }, query, row, best, marking }) {
    const { data, say, parts: { image, controls } } = this;
    const { rows, columns, has_class } = data.facts;
    const shown = control ?? data.otherImage(sample);
    controls.controlBox.checked = control !== null;
    controls.control.input.disabled = data.n === 1;
    for (const one of controls.control.input.options) one.disabled = Number(one.value) === sample;
    controls.control.show({ control: shown });
    image.digit.setAttribute("aria-label", capital(say.sample(sample)));
    write(image.digitNote, `Image ${sample + 1}. ${say.prediction(sample)}`);
    image.source.hidden = control === null;
    if (control !== null) {
      image.sourceDigit.setAttribute("aria-label", capital(say.sample(control)));
      write(image.sourceNote, `Control: weights from ${say.sample(control)}, drawn over image ${sample + 1}.`);
    }
    const coloured = marking ? "Its weights are covered" : `Coloured by the weights that ${say.token(sample, "queries", query)} gives`;
    image.picture.setAttribute("aria-label", `${capital(say.sample(sample))} in ${rows} rows and ${columns} columns of patches. ${coloured}. ` +
      (marking ? "Arrow keys move, Space marks." : "Arrow keys move the query, Enter locks it."));
    if (has_class) image.classCanvas.setAttribute("aria-label", `[class] token${marking ? "" : `: weight ${number(row[0])}`}${query === 0 ? ", the query" : ""}`);
    if (marking) return;
    image.bars.setAttribute("aria-label",
      `Bars: the numbers of ${say.token(sample, "queries", query)} in layer ${layer + 1}, ${sayHead(head)}, for all ${row.length} tokens; ` +
      `largest ${number(row[best])} at ${say.token(sample, "keys", best)}; the dashed line is an even share, ${number(1 / row.length, 3)}. The table below has the numbers.`);
  }

  // ---- a text
  /** @param {number} sample */
  fillStrips(sample) {
    const { queries, keysRow } = this.parts;
    for (const part of [queries, keysRow]) {
      if (part.sample === sample) continue;
      const side = part === queries ? "queries" : "keys";
      part.sample = sample;
      part.chips = this.say.of(sample, side).map((word, i) => {
        const value = h("span", { class: "headroom-value" });
        const sign = h("b");
        return { value, sign, element: h("span", { class: "headroom-chip", "data-token": i }, sign, h("span", {}, word), ...(side === "keys" ? [value] : [])) };
      });
      part.element.replaceChildren(...part.chips.map((chip) => chip.element));
    }
  }
  /** @param {T.Shown} _ */
  writeStrips({ now, query, row, aim, marks, marking, fraction }) {
    const { data, say, parts: { queries, keysRow } } = this;
    queries.chips.forEach(({ element, sign }, one) => {
      element.classList.toggle("headroom-is-q", one === query);
      write(sign, one === query ? "Q" : "");
    });
    keysRow.chips.forEach(({ element, sign, value }, one) => {
      const hidden = !data.may(now.sample, query, one);
      const grey = !marking && hidden && now.show === "weights";
      const rgb = marking ? null : grey ? [217, 217, 217] : colour(fraction(row[one]));
      element.style.background = rgb ? css(rgb) : "";
      element.style.color = rgb ? inkOn(rgb) : "";
      element.classList.toggle("headroom-is-k", one === aim);
      write(sign, (one === aim ? "K" : "") + (marks.includes(one) ? "?" : ""));
      write(value, marking ? "" : (hidden ? "× " : "") + number(row[one]));
    });
    queries.element.setAttribute("aria-label", `Queries: ${say.of(now.sample, "queries").join(" ")}. Arrow keys move the query.`);
    keysRow.element.setAttribute("aria-label", `Keys: ${say.of(now.sample, "keys").join(" ")}. Arrow keys move ${marking ? "and Space marks" : "the key"}.`);
  }

  // ------------------------------------------------ pointer
  /** @param {HTMLElement} element @param {(event: MouseEvent) => T.At | null} at @param {HTMLElement} [focus] */
  listen(element, at, focus = element) {
    surface(element, this.signal, at, {
      point: (found) => this.point(found),
      click: (found) => {
        this.click(found);
        focus.focus({ preventScroll: true });
      },
    });
  }
  listenToPictures() {
    const { model, data, parts: { image, queries, keysRow, matrix, heads } } = this;
    const { rows, columns } = data.facts;
    // While predicting, a click on a patch marks it as a key.
    /** @param {number} one @returns {T.At} */
    const asked = (one) => (model.get("phase") === "marking" ? { key: one } : { query: one });
    this.listen(image.picture, (event) => {
      const r = image.picture.getBoundingClientRect();
      const column = clamp(Math.floor(((event.clientX - r.left) / r.width) * columns), 0, columns - 1);
      const row = clamp(Math.floor(((event.clientY - r.top) / r.height) * rows), 0, rows - 1);
      return asked(data.first + row * columns + column);
    });
    this.listen(image.classCanvas, () => asked(0), image.picture);
    for (const part of [queries, keysRow]) {
      this.listen(part.element, ({ target }) => {
        const chip = part.chips.findIndex(({ element }) => element.contains(/** @type {Node} */ (target)));
        return chip < 0 ? null : part === queries ? { query: chip } : { key: chip };
      });
    }
    const size = () => data.facts.sizes[model.get("control") ?? model.get("sample")];
    /** @param {{ row: number, column: number } | null} cell */
    const named = (cell) => cell && { query: cell.row, key: cell.column };
    this.listen(matrix, (event) => named(cellUnder(matrix, event, ...size())));
    for (const { small } of heads.tiles) { // a click chooses the head, as a click anywhere on the tile does
      surface(small, this.signal, (event) => {
        const [asking, keyed] = size();
        return named(cellUnder(small, event, asking, keyed, (r) => ({ left: 0, top: 0, cellWidth: r.width / keyed, cellHeight: r.height / asking })));
      }, { point: (found) => this.point(found) });
    }
  }

  // ------------------------------------------------ keys
  /** @param {EventTarget | null} place @param {[down: number, right: number]} _ */
  arrow(place, [down, right]) {
    const { data, choice, parts: { image, matrix, queries } } = this;
    const now = choice.now();
    const [query, key] = [data.token(now.query), data.tokenOrNone(now.key)];
    const [asking, keyed] = data.facts.sizes[now.sample];
    /** @param {"query" | "key"} side @param {number} one */
    const move = (side, one) => choice.choose({ [side]: data.name(one) });
    if (place === image.picture) {
      if (now.phase === "marking") move("key", key === null ? data.first : data.stepped(key, down, right));
      else choice.choose({ query: data.name(data.stepped(query, down, right)), key: null });
    } else if (place === matrix ? down : place === queries.element) move("query", clamp(query + down + right, 0, asking - 1));
    else move("key", key === null ? 0 : clamp(key + down + right, 0, keyed - 1));
  }
  lock() {
    const { locked, phase, key } = this.choice.now();
    if (phase !== "marking") this.choice.choose({ locked: !locked });
    else if (key !== null) this.mark(key);
  }
  /** @returns {Record<string, () => unknown>} */
  actions() {
    const { choice, data, data: { n, isImage, hasScores, facts } } = this;
    const { sample, control, scale, show, phase } = choice.now();
    const toClass = () => choice.choose(phase === "marking" ? { key: CLASS_TOKEN } : { query: CLASS_TOKEN, key: null });
    return {
      ...attentionKeys(choice, facts),
      Enter: () => this.lock(),
      " ": () => this.lock(),
      i: () => choice.choose({ sample: cycle(sample, 1, n) }),
      I: () => choice.choose({ sample: cycle(sample, -1, n) }),
      s: () => choice.choose({ scale: scale === "row" ? "all" : "row" }),
      p: () => this.predict(),
      r: () => this.reveal(),
      ...(isImage ? { x: () => n > 1 && choice.choose({ control: control === null ? data.otherImage(sample) : null }) } : {}),
      ...(facts.has_class ? { c: toClass } : {}),
      ...(hasScores ? { m: () => phase === "off" && choice.choose({ show: SHOWS[cycle(SHOWS.indexOf(show), 1, 3)] }) } : {}),
    };
  }
  /** @param {KeyboardEvent} event */
  press({ key, target }) {
    const { choice, model, parts: { image, matrix, queries, keysRow } } = this;
    if (key === "Escape") {
      choice.choose(model.get("phase") === "marking" ? { phase: "off", marks: [], key: null } : { locked: false, key: null });
      return true;
    }
    if (![image.picture, matrix, queries.element, keysRow.element].some((one) => one === target)) return false;
    if (key in ARROWS) this.arrow(target, ARROWS[key]);
    else {
      const action = this.actions()[key];
      if (!action) return false;
      action();
    }
    return true;
  }
}

export default frontEnd(View);
