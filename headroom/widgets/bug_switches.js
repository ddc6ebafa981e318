// @ts-check
/* The front end of headroom.widgets.BugSwitches.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-bug-switches           the root of one view; a page may hold many
 *   [data-part=switch]               <input type=checkbox>, value: a mistake's name
 *   [data-part=off]                  <button>: all off
 *   [data-part=what]                 what each mistake that is on does
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=numbers]              <table>: as it is, with the mistakes, difference; its rows carry data-number
 *   [data-part=sample-select], [data-part=part-select], [data-part=head-select]   <select>; head: "mean" or from 0
 *   [data-part=layer-range]          <input type=range>, value: layer from 1
 *   [data-part=example]              what the model says to the example, with and without the mistakes
 *   canvas[data-part=healthy], canvas[data-part=broken]   attention, queries down, keys across; they take the focus and
 *                                    the keys; data-left, -top, -cell: where their cells lie
 *   [data-part=legend], [data-part=table]
 *   [data-part=gradients]            <table> of bars: a row for each part of the model, data-gradient its name
 *   data-on (names joined with +), data-sample, data-part-shown, data-layer, data-head, data-query, data-key on the root
 */
import {
  bitmap, capital, choices, cycle, decode, guardKeys, h, legend, list, liveLine, needsPython, number, onPointer,
  paintBand, paintNames, penOf, prepare, repaint, sayHead, tableView, themeColours, uniqueName, visible,
} from "./shared.js";
/** @import { Canvas, Child, Colours, Model, Numbers, On, Side, View, BugSwitches as T } from "./types" */

/** @type {(keyof T.Now)[]} */
const CHOICES = ["on", "sample", "part", "layer", "head", "query", "key"];
const LABELLED = 11; // smallest cell, in pixels, whose row and column carry their words
const SUMS_OFF = 0.005; // a row of weights sums to 1, or to something else by more than this

// ---------------------------------------------------------------- the numbers

/** @param {Model<T.Traits>} model */
function readData(model) {
  const facts = model.get("_facts");
  const { n_layers, n_heads, parts, mistakes } = facts;
  const isImage = facts.kind === "image";
  const patches = isImage ? facts.rows * facts.columns : 0;
  /** @param {string} name */
  const result = (name) => (name in model.get("_attention") ? model.get("_results")[name] : undefined);

  /** @type {Map<string, Uint16Array>} */
  const decoded = new Map();
  /** All weights of a combination, decoded once: what was computed does not change. @param {string} name */
  function numbers(name) {
    const all = decoded.get(name) ?? decode(Uint16Array, model.get("_attention")[name]);
    decoded.set(name, all);
    return all;
  }
  /** @param {string} name @param {T.Part} part */
  const looks = (name, part) => result(name)?.looks[part];
  /** Queries and keys of each example, of a combination whose weights are drawn. @param {string} name @param {T.Part} part */
  function sizes(name, part) {
    const found = looks(name, part);
    if (!found) throw new Error(`no weights of “${name}”`);
    return found.sizes;
  }
  /** @param {string} name @param {T.Part} part @param {number} sample */
  function start(name, part, sample) {
    let at = 0;
    for (const kind of parts) {
      const its = sizes(name, kind);
      for (let one = 0; one < its.length; one++) {
        if (kind === part && one === sample) return at;
        at += n_layers * n_heads * its[one][0] * its[one][1];
      }
    }
    return at;
  }
  /** A query's weights; head null: the mean of the heads. @param {string} name @param {T.Place} _ @param {number} query */
  function row(name, { part, sample, layer, head }, query) {
    const [queries, keys] = sizes(name, part)[sample];
    const [all, from] = [numbers(name), start(name, part, sample)];
    const heads = head === null ? [...Array(n_heads).keys()] : [head];
    const out = new Float32Array(keys);
    for (const one of heads) {
      const at = from + ((layer * n_heads + one) * queries + query) * keys;
      for (let key = 0; key < keys; key++) out[key] += all[at + key];
    }
    for (let key = 0; key < keys; key++) out[key] /= heads.length * 65535;
    return out;
  }
  /** All rows of one head. @param {string} name @param {T.Place} where */
  function rows(name, where) {
    return Array.from({ length: sizes(name, where.part)[where.sample][0] }, (_, query) => row(name, where, query));
  }

  /** The tokens of an axis, in words. Of the healthy model, or in the order that a mistake leaves. @param {string} name @param {T.Place} _ @param {Side} side */
  function words(name, { part, sample }, side) {
    const shown = facts.shown[sample];
    if (!isImage) {
      const target = part === "cross" ? shown.next : shown.given;
      if (part === "encoder") return shown.read;
      if (side === "queries" || part === "decoder") return target;
      return result(name)?.own_keys ? shown.given : shown.read;
    }
    const tokens = sizes("", part)[sample][1];
    const front = patches ? tokens - patches : 0;
    const names = Array.from({ length: tokens }, (_, i) => (i < front ? ["[class]", "[distillation]"][i] : String(i - front + 1)));
    return order(name, part, sample, side).map((token) => names[token]);
  }
  /** Which token of the healthy model stands at each place. @param {string} name @param {T.Part} part @param {number} sample @param {Side} side */
  function order(name, part, sample, side) {
    const size = sizes("", part)[sample][side === "queries" ? 0 : 1];
    const all = [...Array(size).keys()];
    const { no_class, class_last } = result(name) ?? {};
    if (no_class) return all.slice(1);
    return class_last ? [...all.slice(1), 0] : all;
  }
  /** The place of a healthy model's token; −1 where there is none. @param {string} name @param {T.Now} now @param {Side} side @param {number} token */
  function place(name, now, side, token) {
    if (isImage) return order(name, now.part, now.sample, side).indexOf(token);
    const size = sizes(name, now.part)[now.sample][side === "queries" ? 0 : 1];
    return token < size ? token : -1;
  }
  /** @param {string} name @param {T.Now} now @param {Side} side @param {number} at */
  const token = (name, now, side, at) => (isImage ? order(name, now.part, now.sample, side)[at] : at);

  return {
    ...facts, isImage, patches, result, looks, sizes, row, rows, words, place, token,
    healthy: () => model.get("_results")[""],
    pixels: decode(Uint8Array, model.get("_pixels")),
    /** @param {string[]} on */
    combination: (on) => mistakes.filter(({ name }) => on.includes(name)).map(({ name }) => name).join("+"),
    mistake: Object.fromEntries(mistakes.map((one) => [one.name, one])),
  };
}

// ---------------------------------------------------------------- one view

/** @param {View<T.Traits>} _ */
function render({ model, el }) {
  const data = readData(model);
  const { n, n_layers, n_heads, isImage, parts, shown, mistakes } = data;
  const unique = uniqueName();
  const ended = new AbortController(); // ends every listener with the view
  const { signal } = ended;
  const hasWeights = parts.length > 0;

  // ------------------------------------------------ words
  const things = isImage ? "images" : "texts";
  /** @type {Partial<Record<T.Part, string>>} */
  const PARTS = isImage ? { encoder: "self-attention" }
    : { encoder: "encoder: the source looks at itself", decoder: "decoder: what is written looks at itself", cross: "cross: what is written looks at the source" };
  /** @param {unknown} value */
  const isNumber = (value) => typeof value === "number";
  /** About three digits, whatever the size. @param {T.Result["loss"]} value */
  function short(value) {
    if (!isNumber(value)) return "not a number";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e5 || size < 1e-4) return value.toExponential(1).replace("e+", "e").replaceAll("-", "−");
    return number(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : size >= 0.01 ? 3 : 4);
  }
  /** @param {number} share */
  const percent = (share) => `${number(100 * share, 1)} %`;
  /** @param {number} whole */
  const count = (whole) => String(whole).replace(/\B(?=(\d{3})+$)/g, ",");
  /** @param {string} text */
  const quote = (text) => (text === "" ? "nothing" : `“${text}”`);
  /** @param {string} text */
  const withCode = (text) => text.split("`").map((piece, i) => (i % 2 ? h("code", {}, piece) : piece));
  /** @param {number} i */
  const saySample = (i) => (isImage ? `image ${i + 1} (class ${shown[i].target})` : `text ${i + 1}: ${shown[i].text}`);
  /** @param {string[]} on */
  const titles = (on) => list(mistakes.filter(({ name }) => on.includes(name)).map(({ title }) => title));
  /** @param {number} i */
  const sayPatch = (i) => `patch row ${Math.floor(i / data.columns) + 1}, column ${(i % data.columns) + 1}`;
  /** @param {string} name @param {T.Now} now @param {Side} side @param {number} token */
  function sayToken(name, now, side, token) {
    const at = data.place(name, now, side, token);
    if (at < 0) return "–";
    const word = data.words(name, now, side)[at];
    if (isImage) return /^\d+$/.test(word) && data.columns ? sayPatch(Number(word) - 1) : word;
    return `${side === "queries" ? "query" : "key"} ${at + 1} “${visible(word)}”`;
  }
  const waiting = "This combination has not been computed, and that needs Python. Python is asked; if no answer comes, no kernel is running: run the cell that made this widget.";

  /** @param {T.Now} now */
  function sayAll(now) {
    const healthy = data.healthy();
    const name = data.combination(now.on);
    if (!now.on.length) {
      return `No mistake is switched on. The model gets ${healthy.right} of ${n} ${things} right (${percent(healthy.accuracy)}), with a loss of ${short(healthy.loss)}.${sayPointed(now, name)}`;
    }
    const wrong = data.result(name);
    const who = capital(titles(now.on));
    if (!wrong) return `${who}: ${waiting}`;
    const lost = healthy.right - wrong.right;
    const difference = lost === 0 ? "as many as without" : `${Math.abs(lost)} ${lost > 0 ? "fewer" : "more"} than without`;
    const guess = isImage && wrong.accuracy <= 1.5 / data.n_classes && healthy.accuracy > 3 / data.n_classes ? ", about what guessing gets" : "";
    return `${who}: ${wrong.right} of ${n} ${things} right (${percent(wrong.accuracy)}), ${difference}${guess}. ` +
      `The loss is ${short(wrong.loss)} in place of ${short(healthy.loss)}, the gradient's norm ${short(wrong.gradient)} in place of ${short(healthy.gradient)}.${sayPointed(now, name)}`;
  }
  /** The two weights at which the reader points. @param {T.Now} now @param {string} name */
  function sayPointed(now, name) {
    if (!hasWeights) return "";
    const asks = sayToken("", now, "queries", now.query);
    const asked = sayToken("", now, "keys", now.key);
    /** @param {string} which */
    const weight = (which) => {
      if (!data.looks(which, now.part)) return null;
      const [query, key] = [data.place(which, now, "queries", now.query), data.place(which, now, "keys", now.key)];
      return query < 0 || key < 0 ? null : number(data.row(which, now, query)[key], 3);
    };
    const [right, wrong] = [weight(""), now.on.length ? weight(name) : null];
    if (right === null) return "";
    const beside = !now.on.length ? "" : wrong === null ? ", and there is no such weight with the mistake" : `, with the mistake ${wrong}`;
    return ` Layer ${now.layer + 1}, ${sayHead(now.head)}: ${asks} gives ${asked} the weight ${right}${beside}.`;
  }
  /** @param {T.Now} _ */
  function sayExample({ sample, on }) {
    const { target, text } = shown[sample];
    /** @param {T.Result} result */
    const says = (result) => (result.predictions[sample] === null ? "nothing: its numbers are not numbers (NaN)"
      : isImage ? `${result.predictions[sample]}` : quote(String(result.predictions[sample])));
    /** @param {T.Result} result */
    const judged = (result) => (result.predictions[sample] === target ? "right" : "wrong");
    const verb = isImage ? "says" : "writes";
    const [healthy, wrong] = [data.healthy(), data.result(data.combination(on))];
    const whose = isImage ? `Example ${sample + 1} is of class ${target}.` : `${quote(text)} should become ${quote(String(target))}.`;
    const beside = !on.length || !wrong ? "" : ` With the ${on.length > 1 ? "mistakes" : "mistake"} it ${verb} ${says(wrong)}, ${judged(wrong)}.`;
    return `${whose} The model ${verb} ${says(healthy)}, ${judged(healthy)}.${beside}`;
  }
  /** @param {T.Result} result */
  function sayGradients(result) {
    const none = data.gradients.filter((part) => result.gradients[part] === null);
    const missing = data.gradients.filter((part) => !(part in result.gradients));
    /** @param {string[]} all */
    const few = (all) => (all.length > 6 ? `${all.slice(0, 5).join("; ")}; and ${all.length - 5} more` : all.join("; "));
    return (none.length ? `No gradient reaches ${few(none)}. ` : "") +
      (missing.length ? `Not among the model's own parameters, so never trained: ${few(missing)}.` : "");
  }

  // ------------------------------------------------ the parts
  /** @param {string | number} value @param {string} text */
  const option = (value, text) => h("option", { value }, text);
  /** @param {string} text @param {...Child} inputs */
  const field = (text, ...inputs) => h("label", {}, h("span", {}, text), ...inputs);
  const boxes = mistakes.map((mistake) => {
    const input = h("input", { type: "checkbox", "data-part": "switch", value: mistake.name });
    return { ...mistake, input, label: h("label", {}, input, h("span", {}, mistake.title)) };
  });
  const groups = [...new Set(mistakes.map(({ group }) => group))].map((group) =>
    h("fieldset", { class: "headroom-group" }, h("legend", {}, group), ...boxes.filter((one) => one.group === group).map(({ label }) => label)));
  const off = h("button", { type: "button", "data-part": "off" }, "Switch all off");
  const switches = h("div", { class: "headroom-switches", role: "group", "aria-label": "Mistakes to switch on" }, h("div", { class: "headroom-columns" }, ...groups));
  const what = h("div", { "data-part": "what" });

  const id = `live-${unique}`;
  const live = liveLine(id);
  const numbersBody = h("tbody");
  const withHead = h("th", { scope: "col" });
  const numbersTable = h("table", { "data-part": "numbers" },
    h("caption", {}, `On all ${n} ${things}${isImage ? "" : "; right: every character, written freely"}`),
    h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "as it is"), withHead, h("th", { scope: "col" }, "difference"))), numbersBody);

  const sampleSelect = h("select", { "data-part": "sample-select" }, ...shown.map((_, i) => option(i, capital(saySample(i)))));
  const partSelect = h("select", { "data-part": "part-select" }, ...parts.map((part) => option(part, PARTS[part] ?? part)));
  const layerRange = h("input", { type: "range", "data-part": "layer-range", min: 1, max: n_layers, step: 1, disabled: n_layers === 1 });
  const layerOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const headSelect = h("select", { "data-part": "head-select" }, option("mean", "mean of heads"), ...[...Array(n_heads).keys()].map((i) => option(i, `head ${i + 1}`)));
  const controls = h("div", { class: "headroom-controls" }, field("Example", sampleSelect),
    ...(parts.length > 1 ? [field("Attention", partSelect)] : []),
    ...(hasWeights ? [field("Layer", layerRange, layerOutput), field("Head", headSelect)] : []));
  const digit = h("canvas", { "data-part": "digit", role: "img" });
  const example = h("span", { "data-part": "example" });
  const exampleBox = h("div", { class: "headroom-example" }, ...(isImage ? [digit] : []), example);

  /** @param {string} part */
  const surface = (part) => h("canvas", { "data-part": part, tabindex: 0, role: "application", "aria-roledescription": "matrix of attention", "aria-describedby": id });
  const panels = ["healthy", "broken"].map((which) => {
    const [canvas, title, note] = [surface(which), h("div", { class: "headroom-title" }), h("p", { class: "headroom-note" })];
    return { which, canvas, title, note, element: h("div", { class: "headroom-panel" }, title, canvas, note) };
  });
  const scaleLegend = legend();
  const weights = hasWeights
    ? [h("div", { class: "headroom-panels" }, ...panels.map(({ element }) => element)), scaleLegend.element,
      h("span", { class: "headroom-note" }, "Rows are queries (Q), columns keys (K).", isImage && data.columns ? " Patches are numbered row by row." : "")]
    : [h("p", { class: "headroom-note" }, "This model has no attention weights of the form (images, layers, heads, queries, keys), so none are drawn.")];

  /** @param {string} kind */
  const bar = (kind) => h("div", { class: `headroom-bar headroom-of-${kind}` });
  const gradientRows = data.gradients.map((part) => {
    const [right, wrong] = [bar("healthy"), bar("broken")];
    const [before, after] = [h("td", { class: "headroom-value" }), h("td", { class: "headroom-value" })];
    const element = h("tr", { "data-gradient": part }, h("th", { scope: "row" }, part), h("td", { class: "headroom-bars", "aria-hidden": "true" }, right, wrong), before, after);
    return { part, right, wrong, before, after, element };
  });
  const gradientNote = h("p", { "data-part": "gradient-note" });
  const ends = [h("span"), h("span")];
  const gradientsTable = h("table", { "data-part": "gradients" },
    h("caption", {}, `Norm of the gradient, by part of the model: one backward pass on all ${n} ${things}`),
    h("thead", {}, h("tr", {}, h("td"), h("td", { class: "headroom-ends", "aria-hidden": "true" }, ...ends), h("th", { scope: "col" }, "as it is"), h("th", { scope: "col" }, "with it"))),
    h("tbody", {}, ...gradientRows.map(({ element }) => element)));
  const gradientsKey = h("div", { class: "headroom-note headroom-key", "aria-hidden": "true" }, bar("healthy"), "as it is", bar("broken"), "with the mistake; the scale is logarithmic");

  const table = tableView(() => fillTable(choice.now()), "Table of weights");
  /** @param {...string} all */
  const keys = (...all) => all.flatMap((text, i) => [...(i ? [" "] : []), h("kbd", {}, text)]);
  const computed = h("span");
  const help = h("details", { "data-part": "keys" }, h("summary", {}, "What is computed, keys, pointer and Python"),
    h("p", {}, "A mistake is switched on in a copy of the model, with the weights that it has. A model that is trained with the mistake from the start may learn to live with it, ",
      "so what you see here is what the mistake does to this model, not what it costs a model that grows up with it. Two mistakes of the same line exclude each other: the later one takes its place. ", computed),
    h("p", {}, "Checkboxes: ", ...keys("Tab"), " moves, ", ...keys("Space"), " switches. With the focus on a picture of attention: ", ...keys("↑", "↓"), " move the query, ", ...keys("←", "→"),
      " the key, ", ...keys("[", "]"), " or ", ...keys("Page Up", "Page Down"), " change the layer, ", ...keys("h", "H"), " the next and the previous head, ", ...keys("0"), " the mean of heads, ",
      ...keys("i", "I"), " the next and the previous example, ", ...keys("Esc"), " switches all off. The pointer points at a query and a key."),
    needsPython("Python reads what you choose: ", h("code", {}, "widget.selection"), ", and the numbers: ", h("code", {}, "widget.results"),
      ". Python counts from 0, this picture from 1. Combinations that have not been computed yet need Python; nothing else here does."));

  const root = h("div", { class: "headroom-widget headroom-bug-switches", role: "group", "aria-label": "Bug switches" },
    h("div", { class: "headroom-controls headroom-top" }, h("span", { class: "headroom-title" }, "Switch mistakes on"), off), switches, what, live.element,
    h("div", { class: "headroom-wide" }, numbersTable), controls, exampleBox, ...weights, ...(hasWeights ? [table.element] : []),
    h("div", { class: "headroom-wide" }, gradientsTable), gradientsKey, gradientNote, help);
  el.append(h("div", { class: "headroom-frame" }, root));

  // ------------------------------------------------ choosing
  const schedule = repaint(() => paint(), { model, names: [...CHOICES, "_results", "_attention"], canvases: [root], signal });
  const choice = choices(model, CHOICES, { schedule, also: follow, signal });

  /** Query and key exist in what is shown; Python does the same. @param {Partial<T.Now>} changes */
  function follow(changes) {
    if (!hasWeights || !("sample" in changes || "part" in changes)) return;
    const now = { ...choice.now(), ...changes };
    const [queries, keyed] = data.sizes("", now.part)[now.sample];
    changes.query = Math.min(now.query, queries - 1);
    changes.key = Math.min(now.key, keyed - 1);
  }
  /** @param {{ name: string, slot: string, input: HTMLInputElement }} _ */
  function switchOn({ name, slot, input }) {
    const others = choice.now().on.filter((one) => one !== name && !(input.checked && data.mistake[one].slot === slot));
    choice.choose({ on: input.checked ? [...others, name] : others });
  }

  // ------------------------------------------------ painting a state
  let painted = ""; // what the checkboxes and the gradients show
  function paint() {
    const now = choice.now();
    const name = data.combination(now.on);
    const result = data.result(name) ?? null;
    const known = `${name} ${result !== null} ${Object.keys(model.get("_results")).length}`;
    if (hasWeights) paintPanels(now, result && name);
    if (isImage) paintDigit(now.sample);
    for (const one of CHOICES) root.setAttribute(one === "part" ? "data-part-shown" : `data-${one}`, one === "on" ? name : String(now[one] ?? "mean"));
    sampleSelect.value = String(now.sample);
    partSelect.value = now.part;
    layerRange.value = String(now.layer + 1);
    layerRange.setAttribute("aria-valuetext", `layer ${now.layer + 1} of ${n_layers}`);
    layerOutput.textContent = `${now.layer + 1} of ${n_layers}`;
    headSelect.value = String(now.head ?? "mean");
    example.textContent = sayExample(now);
    if (isImage) digit.setAttribute("aria-label", capital(saySample(now.sample)));
    live.say(sayAll(now));
    fillNumbers(now, result);
    if (painted !== known) {
      painted = known;
      for (const { name: one, input } of boxes) input.checked = now.on.includes(one);
      off.disabled = !now.on.length;
      what.replaceChildren(...(now.on.length
        ? mistakes.filter((one) => now.on.includes(one.name)).map((one) => h("p", {}, h("b", {}, `${capital(one.title)}. `), ...withCode(one.what)))
        : [h("p", {}, "Each mistake is made in a copy of the model, and beside it you see the model as it is.")]));
      withHead.textContent = now.on.length > 1 ? "with the mistakes" : "with the mistake";
      fillGradients(result, now.on.length > 0);
      const singles = mistakes.filter((one) => data.result(one.name)).length;
      computed.textContent = `Computed so far: ${singles} of ${mistakes.length} single mistakes, and ${Object.keys(model.get("_results")).length - 1 - singles} combinations.`;
    }
    if (hasWeights) table.update();
  }

  // ---- attention
  /** @param {T.Now} now @param {string | null} name */
  function paintPanels(now, name) {
    const shownNow = panels.map(({ which }) => (which === "healthy" ? "" : now.on.length ? name : null));
    const colours = themeColours(root);
    const matrices = shownNow.map((one) => (one !== null && data.looks(one, now.part) ? data.rows(one, now) : null));
    const high = matrices.reduce((most, rows) => (rows ?? []).reduce((top, row) => row.reduce((a, b) => Math.max(a, b), top), most), 0);
    panels.forEach(({ canvas }, i) => {
      const [one, matrix] = [shownNow[i], matrices[i]];
      canvas.hidden = !matrix;
      if (one !== null && matrix) paintMatrix(canvas, one, now, matrix, high, colours);
    });
    panels.forEach(({ which, canvas, title, note }, i) => { // texts after pictures: a change in between would lay out anew
      title.textContent = which === "healthy" ? "As it is" : now.on.length ? `With the ${now.on.length > 1 ? "mistakes" : "mistake"}: ${titles(now.on)}` : "With a mistake";
      const one = shownNow[i];
      note.textContent = one !== null ? sayLooks(one, now.part) : now.on.length ? "Not computed yet." : "Switch one on, and its attention stands here.";
      canvas.setAttribute("aria-label", `${title.textContent}: weights of layer ${now.layer + 1}, ${sayHead(now.head)}. Arrow keys move query and key.`);
    });
    scaleLegend.set(0, high, "Both pictures have one scale, up to the largest weight in them.");
  }
  /** @param {string} name @param {T.Part} part */
  function sayLooks(name, part) {
    const looks = data.looks(name, part);
    if (!looks) return "Its weights are not numbers (NaN): something was divided by 0, or has grown beyond all bounds.";
    const { largest, lowest_sum, highest_sum, moved } = looks;
    const wide = Math.max(Math.abs(lowest_sum - 1), Math.abs(highest_sum - 1)) > SUMS_OFF;
    return `A query's largest weight is ${number(largest)} on average. ` +
      (wide ? `Rows sum to ${number(lowest_sum)} up to ${number(highest_sum)}, and not to 1. ` : "Every row sums to 1. ") +
      (name !== "" && moved !== null ? `${percent(moved)} of the weight lies elsewhere.` : "");
  }
  /** @param {Canvas} canvas @param {string} name @param {T.Now} now @param {Numbers[]} matrix @param {number} high @param {Colours} colours */
  function paintMatrix(canvas, name, now, matrix, high, colours) {
    const [queries, keyed] = [matrix.length, matrix[0].length];
    /** @type {Side[]} */
    const sides = ["queries", "keys"];
    const words = sides.map((side) => data.words(name, now, side).map(visible));
    const available = canvas.clientWidth;
    const measure = penOf(canvas);
    measure.font = "bold 12px system-ui, sans-serif";
    const widest = words.map((all) => Math.min(66, Math.max(...all.map((word) => measure.measureText(word).width))));
    let [left, top] = [widest[0] + 20, widest[1] + 18];
    if ((available - left - 3) / keyed < LABELLED) [left, top] = [18, 18]; // no room for words: only Q and K stand at the edges
    const cell = Math.min(26, (available - left - 3) / keyed, 420 / queries);
    canvas.style.height = `${Math.ceil(top + queries * cell + 3)}px`;
    for (const [side, value] of Object.entries({ left, top, cell })) canvas.dataset[side] = value.toFixed(3);
    const { context } = prepare(canvas);
    context.imageSmoothingEnabled = cell < 1;
    context.drawImage(bitmap(queries, keyed, (query) => ({ values: matrix[query], low: 0, high })), left, top, keyed * cell, queries * cell);
    const [query, key] = [data.place(name, now, "queries", now.query), data.place(name, now, "keys", now.key)];
    if (query >= 0) paintBand(context, left, top + query * cell, keyed * cell, cell, "q", colours);
    if (key >= 0) paintBand(context, left + key * cell, top, cell, queries * cell, "k", colours);
    const [rows, columns] = cell >= LABELLED && left > 18 ? words : [[], []];
    const named = { query: query >= 0 ? query : null, key: key >= 0 ? key : null };
    paintNames(context, { rows, columns, ...named, left, top, cell, longest: 9, colours });
  }
  /** @param {number} sample */
  function paintDigit(sample) {
    const { width, height, channels } = data;
    digit.style.aspectRatio = `${width} / ${height}`;
    const plain = document.createElement("canvas");
    [plain.width, plain.height] = [width, height];
    const image = penOf(plain).createImageData(width, height);
    const from = sample * width * height * channels;
    for (let i = 0; i < width * height; i++) {
      for (let c = 0; c < 3; c++) image.data[4 * i + c] = data.pixels[from + i * channels + (channels === 3 ? c : 0)];
      image.data[4 * i + 3] = 255;
    }
    penOf(plain).putImageData(image, 0, 0);
    const { context, width: w, height: ht } = prepare(digit);
    context.drawImage(plain, 0, 0, w, ht);
  }

  // ---- numbers
  /** @param {T.Now} now @param {T.Result | null} wrong */
  function fillNumbers(now, wrong) {
    const healthy = data.healthy();
    const beside = now.on.length ? wrong : null;
    const [before, after] = [data.looks("", now.part), beside && (beside.looks[now.part] ?? null)];
    /** @param {unknown} a @param {unknown} b */
    const times = (a, b) => (isNumber(a) && isNumber(b) && a > 0 ? `${short(b / a)} ×` : "");
    /** @param {number} a @param {number} b @param {(size: number) => string} say */
    const less = (a, b, say) => (b > a ? "+" : b < a ? "−" : "±") + say(Math.abs(b - a));
    /** @param {T.Looks} looks */
    const sums = (looks) => (looks.highest_sum - looks.lowest_sum < SUMS_OFF ? number(looks.highest_sum) : `${number(looks.lowest_sum)} to ${number(looks.highest_sum)}`);
    /** @type {T.Line[]} */
    const lines = [
      ["accuracy", "right", percent(healthy.accuracy), beside && percent(beside.accuracy), beside && less(100 * healthy.accuracy, 100 * beside.accuracy, (d) => `${number(d, 1)} points`), [healthy.accuracy, beside?.accuracy]],
      ["loss", "loss, nats", short(healthy.loss), beside && short(beside.loss), beside && times(healthy.loss, beside.loss)],
      ["gradient", "norm of the gradient", short(healthy.gradient), beside && short(beside.gradient), beside && times(healthy.gradient, beside.gradient)],
      ["parameters", "parameters to train", count(healthy.parameters), beside && count(beside.parameters), beside && (beside.parameters === healthy.parameters ? "none" : less(healthy.parameters, beside.parameters, count))],
    ];
    if (before) {
      lines.push(["largest", "a query's largest weight, mean", number(before.largest), after && number(after.largest), after && less(before.largest, after.largest, number)],
        ["sums", "a row of weights sums to", sums(before), after && sums(after), ""]);
    }
    /** @param {T.Line} _ */
    const cells = ([name, title, right, broken, difference, shares]) => {
      return h("tr", { "data-number": name }, h("th", { scope: "row" }, title), ...[right, broken, difference].map((text, i) => {
        const cell = h("td", {}, text || "–");
        const share = shares?.[i];
        if (share !== undefined) {
          const strip = bar(i ? "broken" : "healthy");
          strip.style.width = `${100 * share}%`;
          cell.append(h("div", { class: "headroom-track", "aria-hidden": "true" }, strip));
        }
        return cell;
      }));
    };
    const text = JSON.stringify(lines);
    if (numbersBody.dataset.text === text) return;
    numbersBody.dataset.text = text;
    numbersBody.replaceChildren(...lines.map(cells));
  }
  /** @param {T.Result | null} wrong @param {boolean} switched */
  function fillGradients(wrong, switched) {
    const healthy = data.healthy();
    const beside = switched ? wrong : null;
    const all = [healthy, beside].flatMap((one) => (one ? Object.values(one.gradients) : [])).filter(isNumber).filter((one) => one > 0);
    const low = Math.floor(Math.log10(Math.min(...all, 1)));
    const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...all, 1e-9))));
    /** @param {unknown} value */
    const wide = (value) => (isNumber(value) && value > 0 ? `${(100 * Math.max(0.01, (Math.log10(value) - low) / (high - low)))}%` : "0");
    /** @param {T.Result | null} result @param {string} part */
    const say = (result, part) => {
      if (!result) return "–";
      if (!(part in result.gradients)) return "not trained";
      const size = result.gradients[part];
      return size === null ? "none" : short(size);
    };
    [low, high].forEach((power, i) => (ends[i].textContent = short(10 ** power)));
    for (const { part, right, wrong: other, before, after } of gradientRows) {
      right.style.width = wide(healthy.gradients[part]);
      other.style.width = beside ? wide(beside.gradients[part]) : "0";
      before.textContent = say(healthy, part);
      after.textContent = say(beside, part);
    }
    gradientNote.textContent = beside ? sayGradients(beside) : "";
    gradientNote.hidden = !gradientNote.textContent;
  }
  /** @param {T.Now} now */
  function fillTable(now) {
    const name = data.combination(now.on);
    const beside = now.on.length && data.looks(name, now.part) ? name : null;
    /** @param {string} which @param {Side} side @param {number} token */
    const place = (which, side, token) => data.place(which, now, side, token);
    const right = data.row("", now, place("", "queries", now.query));
    const asks = beside === null ? -1 : place(beside, "queries", now.query);
    const wrong = beside === null || asks < 0 ? null : data.row(beside, now, asks);
    /** @param {string} text */
    const column = (text) => h("th", { scope: "col" }, text);
    return h("table", {},
      h("caption", {}, `Weights of ${sayToken("", now, "queries", now.query)}: layer ${now.layer + 1}, ${sayHead(now.head)}`),
      h("thead", {}, h("tr", {}, column("key"), column("as it is"), column("with the mistake"))),
      h("tbody", {}, ...[...right.keys()].map((token) => {
        const at = wrong && beside !== null ? place(beside, "keys", token) : -1;
        return h("tr", {}, h("th", { scope: "row" }, sayToken("", now, "keys", token)), h("td", {}, number(right[token], 3)), h("td", {}, wrong && at >= 0 ? number(wrong[at], 3) : "–"));
      })));
  }

  // ------------------------------------------------ pointer and keys
  /** @param {string} which */
  const shownIn = (which) => (which === "healthy" ? "" : data.combination(choice.now().on));
  for (const { which, canvas } of hasWeights ? panels : []) {
    /** @param {MouseEvent} event */
    const at = (event) => {
      const now = choice.now();
      const r = canvas.getBoundingClientRect();
      const [left, top, cell] = ["left", "top", "cell"].map((side) => Number(canvas.dataset[side]));
      const [query, key] = [Math.floor((event.clientY - r.top - top) / cell), Math.floor((event.clientX - r.left - left) / cell)];
      const name = shownIn(which);
      const [queries, keyed] = data.sizes(name, now.part)[now.sample];
      if (query < 0 || key < 0 || query >= queries || key >= keyed) return null;
      return { query: data.token(name, now, "queries", query), key: data.token(name, now, "keys", key) };
    };
    onPointer(canvas, signal, (event) => { const place = at(event); if (place) choice.point(place); }, () => choice.point(null));
    canvas.addEventListener("click", (event) => {
      const place = at(event);
      if (place) choice.choose(place);
      canvas.focus({ preventScroll: true });
    }, { signal });
  }
  /** @type {On} */
  const on = (target, type, handle) => target.addEventListener(type, handle, { signal });
  for (const one of boxes) on(one.input, "change", () => switchOn(one));
  on(off, "click", () => choice.choose({ on: [] }));
  on(sampleSelect, "change", () => choice.choose({ sample: Number(sampleSelect.value) }));
  on(partSelect, "change", () => choice.choose({ part: parts[partSelect.selectedIndex] }));
  on(layerRange, "input", () => choice.choose({ layer: Number(layerRange.value) - 1 }));
  on(headSelect, "change", () => choice.choose({ head: headSelect.value === "mean" ? null : Number(headSelect.value) }));

  /** @param {string} pressed */
  function press(pressed) {
    const now = choice.now();
    const { query, key, layer, head, sample } = now;
    const [queries, keyed] = data.sizes("", now.part)[sample];
    /** @param {number} at @param {number} step @param {number} size */
    const along = (at, step, size) => Math.min(size - 1, Math.max(0, at + step));
    /** @param {number} by */
    const stepLayer = (by) => choice.choose({ layer: along(layer, by, n_layers) });
    /** @param {number} by */
    const stepHead = (by) => {
      const next = cycle(head === null ? 0 : head + 1, by, n_heads + 1); // 0: the mean
      choice.choose({ head: next === 0 ? null : next - 1 });
    };
    /** @type {Record<string, () => unknown>} */
    const actions = {
      ArrowUp: () => choice.choose({ query: along(query, -1, queries) }),
      ArrowDown: () => choice.choose({ query: along(query, 1, queries) }),
      ArrowLeft: () => choice.choose({ key: along(key, -1, keyed) }),
      ArrowRight: () => choice.choose({ key: along(key, 1, keyed) }),
      "[": () => stepLayer(-1),
      "]": () => stepLayer(1),
      PageUp: () => stepLayer(-1),
      PageDown: () => stepLayer(1),
      h: () => stepHead(1),
      H: () => stepHead(-1),
      0: () => choice.choose({ head: null }),
      i: () => choice.choose({ sample: cycle(sample, 1, shown.length) }),
      I: () => choice.choose({ sample: cycle(sample, -1, shown.length) }),
    };
    actions[pressed]?.();
    return pressed in actions;
  }
  guardKeys(root, signal, (event) => {
    if (event.key === "Escape") {
      choice.choose({ on: [] });
      return true;
    }
    return panels.some(({ canvas }) => canvas === event.target) && press(event.key);
  });

  paint();
  return () => ended.abort();
}

export default { render };
