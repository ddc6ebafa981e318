/* Patch attention: the front end of headroom.widgets.PatchAttention.
 *
 * A plain ES module, loaded by anywidget as it stands: no build step, no dependency, no request. It takes
 * everything from the model once, and from then on paints without asking Python.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-patch-attention        the root of one view; a page may hold many
 *   canvas[data-part=image]          the picture; takes the focus and the keys. It holds exactly the grid of patches:
 *                                    with r its getBoundingClientRect(), patch (row, column), counted from 0, lies around
 *                                    x = r.left + (column + 0.5) * r.width / columns, y = r.top + (row + 0.5) * r.height / rows
 *   canvas[data-part=class]          the [class] token's own cell, above the picture (absent without such a token)
 *   [data-part=live]                 the sentence that says what is shown (aria-live=polite)
 *   [data-part=image-select]         <select>, value: image from 0
 *   [data-part=layer-range]          <input type=range>, value: layer from 1
 *   [data-part=head]                 <input type=radio>, value: "mean" or head from 0; its label holds a small map
 *   [data-part=scale-select]         <select>, value: "row" or "all"
 *   [data-part=control-box]          <input type=checkbox>; [data-part=control-select]: which other image, from 0
 *   [data-part=legend], [data-part=row] (canvas of bars), [data-part=table] and [data-part=keys] (<details>)
 *   data-image, data-layer, data-head, data-query, data-locked, data-control on the root: what is shown now, from 0
 *
 * Indices count from 0 in code and in Python, from 1 in everything that a reader sees.
 */

const CLASS_TOKEN = "[class]";
const CHOICES = ["image", "layer", "head", "query", "locked", "control", "scale"];
const HOVER_REST_MS = 300; // a hovered query goes to Python after the pointer has rested this long, or left

// Matplotlib's cividis at 16 even steps, the course's map for amounts: even in lightness, same to colour-blind readers.
const CIVIDIS = (
  "00224e 002e6c 1e3a6f 35456c 47516c 575d6d 666970 757575 " +
  "848279 948e77 a59c74 b7a96e c8b866 dbc75a eed649 fee838"
).split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

/** The colour of a fraction 0…1 as [red, green, blue], each 0…255. */
function colour(fraction) {
  const place = Math.min(1, Math.max(0, fraction)) * (CIVIDIS.length - 1);
  const below = Math.min(CIVIDIS.length - 2, Math.floor(place));
  return CIVIDIS[below].map((from, i) => from + (place - below) * (CIVIDIS[below + 1][i] - from));
}
const css = ([r, g, b]) => `rgb(${Math.round(r)} ${Math.round(g)} ${Math.round(b)})`;

/** Make an element: h("p", { "data-part": "live" }, "text", child, …). */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// ---------------------------------------------------------------- the numbers

/** The attention and images of one widget, and questions about them. Bytes arrive as DataViews. */
function readData(model) {
  const facts = model.get("_facts");
  const { n_layers, n_heads, tokens, has_class, height, width } = facts;
  const bytes = (view) => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength); // aligned copy
  const u16 = new Uint16Array(bytes(model.get("_attention"))); // round(65535 * weight)
  const pixels = new Uint8Array(bytes(model.get("_pixels")));
  const firstPatch = has_class ? 1 : 0; // tokens: [class], then the patches row by row

  const outlines = new Map();
  return {
    ...facts,
    firstPatch,
    largest: u16.reduce((most, value) => Math.max(most, value), 0) / 65535,
    /** Which token a query is. */
    token: (query) => (query === CLASS_TOKEN ? 0 : query + firstPatch),
    /** The weights of one query over all tokens; head null: the mean of the heads. */
    row(image, layer, head, query) {
      const row = new Float32Array(tokens);
      const heads = head === null ? [...Array(n_heads).keys()] : [head];
      for (const one of heads) {
        const start = (((image * n_layers + layer) * n_heads + one) * tokens + this.token(query)) * tokens;
        for (let key = 0; key < tokens; key++) row[key] += u16[start + key] / 65535 / heads.length;
      }
      return row;
    },
    pixels: (image) => pixels.subarray(image * height * width, (image + 1) * height * width),
    /** The digit's outline as a path in pixel coordinates: colours below it stay as the legend has them. */
    outline(image) {
      if (!outlines.has(image)) outlines.set(image, traceOutline(this.pixels(image), width, height));
      return outlines.get(image);
    },
  };
}

/** Marching squares: the line along which an image crosses half of its brightness. */
function traceOutline(pixels, width, height, level = 127.5) {
  const path = new Path2D();
  const at = (x, y) => (x < 0 || y < 0 || x >= width || y >= height ? 0 : pixels[y * width + x]);
  for (let y = -1; y < height; y++) {
    for (let x = -1; x < width; x++) {
      // Four neighbouring pixel centres, clockwise; where two neighbours lie on different sides, the line crosses.
      const corners = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1]];
      const crossings = [];
      corners.forEach(([x0, y0], i) => {
        const [x1, y1] = corners[(i + 1) % 4];
        const [a, b] = [at(x0, y0), at(x1, y1)];
        if (a > level === b > level) return;
        const share = (level - a) / (b - a);
        crossings.push([x0 + share * (x1 - x0) + 0.5, y0 + share * (y1 - y0) + 0.5]);
      });
      for (let i = 0; i + 1 < crossings.length; i += 2) {
        path.moveTo(...crossings[i]);
        path.lineTo(...crossings[i + 1]);
      }
    }
  }
  return path;
}

// ---------------------------------------------------------------- painting

/** Match a canvas's own pixels to the screen's, clear it, and return its context in CSS pixels. */
function prepare(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  const [w, ht] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== ht) [canvas.width, canvas.height] = [w, ht];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** One token's cell. */
function paintCell(context, { x, y, w, h: height }, weight, top) {
  context.fillStyle = css(colour(weight / top));
  context.fillRect(x, y, w, height);
  context.strokeStyle = "rgb(255 255 255 / 0.35)";
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, w - 1, height - 1);
}

/** A cell's weight as a number, with a rim of the cell's colour: the digit's outline may pass behind it. */
function paintNumber(context, { x, y, w, h: height }, weight, top) {
  const [r, g, b] = colour(weight / top);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "bottom";
  context.lineJoin = "round";
  context.lineWidth = 3;
  context.strokeStyle = css([r, g, b]);
  context.strokeText(weight.toFixed(2), x + w - 11, y + height - 10);
  context.fillStyle = 0.3 * r + 0.59 * g + 0.11 * b > 115 ? "#000" : "#fff";
  context.fillText(weight.toFixed(2), x + w - 11, y + height - 10);
}

/** A frame around a cell: solid with a Q for the query, dashed with a K for the key that gets most. */
function paintFrame(context, { x, y, w, h: ht }, kind, colours, lettered) {
  const thick = lettered ? 4 : 2;
  const inset = thick / 2 + (kind === "k" ? thick : 0); // both stay visible on one cell
  context.lineJoin = "miter";
  const rect = [x + inset, y + inset, w - 2 * inset, ht - 2 * inset];
  context.setLineDash([]);
  context.strokeStyle = kind === "q" ? "#fff" : "#000";
  context.lineWidth = thick + 2;
  context.strokeRect(...rect);
  context.strokeStyle = colours[kind];
  context.lineWidth = thick;
  if (kind === "k") context.setLineDash(lettered ? [7, 4] : [3, 2]);
  context.strokeRect(...rect);
  context.setLineDash([]);
  if (!lettered) return;
  const size = Math.min(16, w / 2.4);
  const [tx, ty] = kind === "q" ? [x, y] : [x + w - size, y];
  context.fillStyle = colours[kind];
  context.fillRect(tx, ty, size, size);
  context.fillStyle = kind === "q" ? "#fff" : "#000";
  context.font = `bold ${Math.round(size * 0.75)}px system-ui, sans-serif`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(kind.toUpperCase(), tx + size / 2, ty + size / 2 + 0.5);
}

/** The digit's outline over a grid of patches at x, y of the given width. */
function paintOutline(context, data, image, x, y, width) {
  const zoom = width / data.width;
  context.save();
  context.translate(x, y);
  context.scale(zoom, zoom);
  context.lineCap = "round";
  for (const [style, thick] of [["#000", 3.5], ["#fff", 1.8]]) {
    context.strokeStyle = style;
    context.lineWidth = (thick * Math.min(1, Math.max(0.5, width / 250))) / zoom;
    context.stroke(data.outline(image));
  }
  context.restore();
}

/** A plain digit, as the model sees it. */
function paintDigit(canvas, data, image) {
  [canvas.width, canvas.height] = [data.width, data.height];
  const context = canvas.getContext("2d");
  const frame = context.createImageData(data.width, data.height);
  data.pixels(image).forEach((value, i) => frame.data.set([value, value, value, 255], 4 * i));
  context.putImageData(frame, 0, 0);
}

// ---------------------------------------------------------------- one view

function render({ model, el }) {
  const data = readData(model);
  const { n_images, n_layers, n_heads, tokens, rows, columns, has_class, firstPatch, labels, predictions } = data;
  const unique = Math.random().toString(36).slice(2); // radio groups and ids must not meet another view's
  const ended = new AbortController(); // ends every listener with the view

  // What this view shows is the model's choice, but for a hovered query: that stays here while the pointer
  // moves, so that neither Python nor another view of the same widget is flooded.
  let hovered = null;
  let resting = null; // the timer of an unsent hover
  const shown = () => ({
    image: model.get("image"),
    layer: model.get("layer"),
    head: model.get("head") ?? null,
    query: hovered ?? model.get("query"),
    locked: model.get("locked"),
    control: model.get("control") ?? null,
    scale: model.get("scale"),
  });

  // ------------------------------------------------ words
  const sayImage = (i) => `image ${i + 1}` + (labels ? ` (a ${labels[i]})` : "");
  const sayHead = (head) => (head === null ? "mean of heads" : `head ${head + 1}`);
  const sayPatch = (i) => `patch row ${Math.floor(i / columns) + 1}, column ${(i % columns) + 1}`;
  const sayToken = (token) => (token < firstPatch ? CLASS_TOKEN : sayPatch(token - firstPatch));
  const sayQuery = (query) => sayToken(data.token(query));
  const number = (weight) => weight.toFixed(2);
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  function sayPrediction(image) {
    if (!predictions) return labels ? `Label: ${labels[image]}.` : "";
    const best = predictions[image].reduce((most, p, i, all) => (p > all[most] ? i : most), 0);
    const says = `The model says ${best} (${number(predictions[image][best])})`;
    if (!labels) return `${says}.`;
    return `${says}, ${best === labels[image] ? "right" : "wrong"}: the label is ${labels[image]}.`;
  }
  function sayAll({ image, layer, head, query, locked, control }, row) {
    const order = [...row.keys()].sort((a, b) => row[b] - row[a]);
    const [first, second] = order.map((token) => `${sayToken(token)} (${number(row[token])})`);
    const then = second ? `, then ${second}` : "";
    let text = `Image ${image + 1}, layer ${layer + 1}, ${sayHead(head)}: ${sayQuery(query)} gives most weight to ${first}${then}.`;
    if (control !== null) text += ` Control: these weights belong to image ${control + 1}, not to the digit drawn.`;
    if (locked) text += " Locked.";
    return text;
  }

  // ------------------------------------------------ the parts
  const option = (value, text) => h("option", { value }, text);
  const images = [...Array(n_images).keys()];
  const imageSelect = h("select", { "data-part": "image-select" }, ...images.map((i) => option(i, capital(sayImage(i)))));
  const layerRange = h("input", { type: "range", "data-part": "layer-range", min: 1, max: n_layers, step: 1, disabled: n_layers === 1 });
  const layerOutput = h("span", { class: "headroom-value", "aria-hidden": "true" });
  const scaleSelect = h("select", { "data-part": "scale-select" }, option("row", "each row its own"), option("all", "one for all rows"));
  const controlBox = h("input", { type: "checkbox", "data-part": "control-box", disabled: n_images === 1 });
  const controlSelect = h("select", { "data-part": "control-select", "aria-label": "Image that the control takes its weights from" },
    ...images.map((i) => option(i, sayImage(i))));

  const digit = h("canvas", { "data-part": "digit", role: "img" });
  const digitNote = h("span", { "data-part": "prediction" });
  const sourceDigit = h("canvas", { "data-part": "control-digit", role: "img" });
  const sourceNote = h("span", { "data-part": "control-note" });
  const source = h("span", { class: "headroom-digit headroom-control" }, sourceDigit, sourceNote);

  const classCanvas = h("canvas", { "data-part": "class", role: "img" });
  const classCell = h("div", { class: "headroom-class" }, classCanvas,
    h("span", { class: "headroom-note" }, "the [class] token, which is no part of the image"));
  const picture = h("canvas", { "data-part": "image", tabindex: 0, role: "application", "aria-roledescription": "picture of attention",
    "aria-describedby": `live-${unique}` });
  picture.style.aspectRatio = `${data.width} / ${data.height}`;
  classCanvas.style.width = `calc(100% / ${columns})`;
  classCanvas.style.aspectRatio = `${data.width / columns} / ${data.height / rows}`;

  const legendNumbers = [0, 0.5, 1].map(() => h("span"));
  const legendNote = h("span", { class: "headroom-note" });
  const bar = h("div", { class: "headroom-ramp", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${CIVIDIS.map(css).join(", ")})`;
  const legend = h("div", { "data-part": "legend" }, bar, h("div", { class: "headroom-ticks" }, ...legendNumbers), legendNote);

  const smallMaps = [null, ...Array(n_heads).keys()].map((head) => {
    const input = h("input", { type: "radio", "data-part": "head", name: `head-${unique}`, value: head ?? "mean" });
    const canvas = h("canvas", { "aria-hidden": "true" });
    const most = h("span", { class: "headroom-value" });
    const name = head === null ? "mean" : `head ${head + 1}`;
    return { head, input, canvas, most, label: h("label", { class: "headroom-map" }, input, canvas, h("span", {}, name), most) };
  });
  const headsTitle = h("legend");
  const heads = h("fieldset", { "data-part": "heads" }, headsTitle, h("div", { class: "headroom-maps" }, ...smallMaps.map((m) => m.label)));

  heads.style.setProperty("--headroom-map", smallMaps.length > 6 ? "84px" : "130px"); // few heads: larger maps

  const live = h("p", { "data-part": "live", id: `live-${unique}`, "aria-live": "polite" });
  const bars = h("canvas", { "data-part": "row", role: "img" });
  const tableBody = h("div", { class: "headroom-scroll", tabindex: 0, role: "region", "aria-label": "Table of weights" });
  const table = h("details", { "data-part": "table" }, h("summary", {}, "Show as table"), tableBody);
  const key = (text) => h("kbd", {}, text);
  const keys = h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, "Pointer: a patch under it is the query; a click locks it, a second click lets it go. The picture has the focus: ",
      key("arrows"), " move the query", ...(has_class ? [" (up from the first row to [class], or ", key("c"), ")"] : []), ", ",
      key("Enter"), " or ", key("Space"), " lock it and let it go, ", key("Esc"), " lets it go, ",
      key("["), " ", key("]"), " or ", key("Page Up"), " ", key("Page Down"), " change the layer, ",
      key("1"), "–", key("9"), " pick a head, ", key("0"), " the mean, ", key("h"), " ", key("H"), " the next and the previous head, ",
      key("i"), " ", key("I"), " the next and the previous image, ", key("s"), " changes the scale, ", key("x"), " switches the control."),
    h("p", {}, "Python reads what you choose: ", h("code", {}, "widget.selection"), " and ", h("code", {}, "widget.selected_weights"),
      ". Python counts from 0, this picture from 1."));

  const field = (text, ...inputs) => h("label", {}, h("span", {}, text), ...inputs);
  const root = h("div", { class: "headroom-widget headroom-patch-attention", role: "group", "aria-label": "Patch attention" },
    h("div", { class: "headroom-controls" },
      field("Image", imageSelect), field("Layer", layerRange, layerOutput), field("Scale", scaleSelect),
      h("span", { class: "headroom-pair" }, h("label", {}, controlBox, h("span", {}, "Control: weights of")), controlSelect)),
    h("div", { class: "headroom-digits" }, h("span", { class: "headroom-digit" }, digit, digitNote), source),
    h("div", { class: "headroom-body" },
      h("div", { class: "headroom-left" }, ...(has_class ? [classCell] : []), picture, legend), heads),
    live, bars, table, keys);
  // Container queries need a parent to measure: the layout follows the widget's own width, not the window's.
  el.append(h("div", { class: "headroom-frame" }, root));

  // ------------------------------------------------ painting a state
  function paint() {
    const now = shown();
    const { image, layer, head, query, control, scale } = now;
    const from = control ?? image; // whose attention is drawn
    const row = data.row(from, layer, head, query);
    const top = scale === "all" ? data.largest : Math.max(...row);
    const best = row.indexOf(Math.max(...row));
    const style = getComputedStyle(root);
    const colours = { q: style.getPropertyValue("--headroom-q"), k: style.getPropertyValue("--headroom-k"), text: style.color };

    for (const [name, value] of Object.entries(now)) root.setAttribute(`data-${name}`, String(value ?? "none"));

    // Controls
    imageSelect.value = image;
    layerRange.value = layer + 1;
    layerRange.setAttribute("aria-valuetext", `layer ${layer + 1} of ${n_layers}`);
    layerOutput.textContent = `${layer + 1} of ${n_layers}`;
    scaleSelect.value = scale;
    controlBox.checked = control !== null;
    controlSelect.disabled = n_images === 1;
    for (const one of controlSelect.options) one.disabled = Number(one.value) === image;
    controlSelect.value = control ?? otherImage(image);

    // The digits themselves
    paintDigit(digit, data, image);
    digit.setAttribute("aria-label", capital(sayImage(image)));
    digitNote.textContent = `Image ${image + 1}. ${sayPrediction(image)}`;
    source.hidden = control === null;
    if (control !== null) {
      paintDigit(sourceDigit, data, control);
      sourceDigit.setAttribute("aria-label", capital(sayImage(control)));
      sourceNote.textContent = `Control: weights from ${sayImage(control)}, drawn over image ${image + 1}.`;
    }

    // The picture
    const { context, width, height } = prepare(picture);
    const [w, ht] = [width / columns, height / rows];
    const cell = (patch) => ({ x: (patch % columns) * w, y: Math.floor(patch / columns) * ht, w, h: ht });
    const numbers = w >= 40 && ht >= 40;
    for (let patch = 0; patch < rows * columns; patch++) paintCell(context, cell(patch), row[patch + firstPatch], top);
    paintOutline(context, data, image, 0, 0, width);
    if (best >= firstPatch) paintFrame(context, cell(best - firstPatch), "k", colours, true);
    if (query !== CLASS_TOKEN) paintFrame(context, cell(query), "q", colours, true);
    for (let patch = 0; numbers && patch < rows * columns; patch++) {
      paintNumber(context, cell(patch), row[patch + firstPatch], top);
    }
    picture.setAttribute("aria-label",
      `${capital(sayImage(image))} in ${rows} rows and ${columns} columns of patches, coloured by the weights that ${sayQuery(query)} gives. ` +
      "Arrow keys move the query, Enter locks it.");
    if (has_class) {
      const { context: own, width: cw, height: ch } = prepare(classCanvas);
      const all = { x: 0, y: 0, w: cw, h: ch };
      paintCell(own, all, row[0], top);
      if (best === 0) paintFrame(own, all, "k", colours, true);
      if (query === CLASS_TOKEN) paintFrame(own, all, "q", colours, true);
      if (numbers) paintNumber(own, all, row[0], top);
      classCanvas.setAttribute("aria-label", `[class] token: weight ${number(row[0])}${query === CLASS_TOKEN ? ", the query" : ""}`);
    }

    // Legend
    [0, top / 2, top].forEach((value, i) => (legendNumbers[i].textContent = number(value)));
    legendNote.textContent = scale === "all"
      ? "One scale for all: up to the largest weight of any image, layer and head."
      : "Row scale: up to this row's own largest weight.";

    // Heads
    headsTitle.textContent = `Layer ${layer + 1}: the same query in every head`;
    for (const map of smallMaps) {
      const its = data.row(from, layer, map.head, query);
      const most = Math.max(...its);
      map.input.checked = map.head === head;
      map.input.setAttribute("aria-label", `${map.head === null ? "mean of heads" : sayHead(map.head)}, largest weight ${number(most)}`);
      map.most.textContent = `max ${number(most)}`;
      paintSmall(map.canvas, its, scale === "all" ? data.largest : most, { image, query, colours });
    }

    // Row, sentence, table
    paintBars(row, top, now, best, colours);
    const text = sayAll(now, row);
    if (live.textContent !== text) live.textContent = text;
    if (table.open) fillTable(row, now);
  }

  /** One head's map: [class] above the patches, as in the large picture. */
  function paintSmall(canvas, row, top, { image, query, colours }) {
    const gap = has_class ? 4 : 0;
    canvas.style.aspectRatio = `${columns} / ${rows + firstPatch * 1.15}`;
    const { context, width } = prepare(canvas);
    const w = width / columns;
    const ht = (width * data.height) / data.width / rows;
    const yImage = firstPatch * (ht + gap);
    const cell = (token) => {
      if (token < firstPatch) return { x: 0, y: 0, w, h: ht };
      const patch = token - firstPatch;
      return { x: (patch % columns) * w, y: yImage + Math.floor(patch / columns) * ht, w, h: ht };
    };
    for (let token = 0; token < tokens; token++) paintCell(context, cell(token), row[token], top);
    paintOutline(context, data, image, 0, yImage, width);
    paintFrame(context, cell(data.token(query)), "q", colours, false);
  }

  /** The row as bars: [class], then the patches, a gap after each row of the image. */
  function paintBars(row, top, { query, head, layer }, best, colours) {
    const { context, width, height } = prepare(bars);
    const [left, floor, ceiling] = [38, height - 18, 16];
    const gap = Math.min(10, (width - left) / tokens / 2);
    const gaps = has_class ? rows : rows - 1;
    const w = (width - left - 4 - gaps * gap) / tokens;
    const y = (weight) => floor - (weight / top) * (floor - ceiling);
    const x = (token) => {
      const group = token < firstPatch ? 0 : Math.floor((token - firstPatch) / columns) + firstPatch;
      return left + token * w + group * gap;
    };
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = colours.text;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of [0, top]) context.fillText(number(value), left - 5, y(value));
    const asked = data.token(query);
    for (let token = 0; token < tokens; token++) {
      const height = Math.max(1, floor - y(row[token]));
      context.fillStyle = colours.k;
      context.fillRect(x(token), floor - height, Math.max(1, w - 1), height);
      context.strokeStyle = colours.text;
      context.lineWidth = 0.75;
      if (w > 5) context.strokeRect(x(token), floor - height, Math.max(1, w - 1), height);
    }
    // What a query that does not care would give to each token.
    context.strokeStyle = colours.text;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(left, y(1 / tokens));
    context.lineTo(width - 2, y(1 / tokens));
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = colours.text;
    context.textBaseline = "top";
    context.textAlign = "center";
    if (has_class) context.fillText(CLASS_TOKEN, Math.max(x(0) + w / 2, 22), floor + 4);
    for (let r = 0; r < rows; r++) {
      const token = firstPatch + r * columns;
      context.fillText(columns * w > 34 ? `row ${r + 1}` : `${r + 1}`, x(token) + (columns * w) / 2, floor + 4);
    }
    context.textBaseline = "bottom";
    const mark = (token, letter) => context.fillText(letter, x(token) + w / 2, y(row[token]) - 2);
    context.font = "bold 11px system-ui, sans-serif";
    if (asked === best) mark(best, "Q K");
    else {
      mark(best, "K");
      mark(asked, "Q");
    }
    bars.setAttribute("aria-label",
      `Bars: the weights that ${sayQuery(query)} gives in layer ${layer + 1}, ${sayHead(head)}, to all ${tokens} tokens; ` +
      `largest ${number(row[best])} at ${sayToken(best)}; the dashed line is an even share, ${(1 / tokens).toFixed(3)}. The table below has the numbers.`);
  }

  function fillTable(row, { query, image, layer, head, control }) {
    const weight = (token) => h("td", {}, row[token].toFixed(3));
    const whose = control === null ? "" : ` (control: image ${control + 1}'s weights)`;
    const body = h("table", {},
      h("caption", {}, `Weights of ${sayQuery(query)}: image ${image + 1}, layer ${layer + 1}, ${sayHead(head)}${whose}`),
      h("thead", {}, h("tr", {}, h("td"), ...Array.from({ length: columns }, (_, c) => h("th", { scope: "col" }, `column ${c + 1}`)))),
      h("tbody", {},
        ...(has_class ? [h("tr", {}, h("th", { scope: "row" }, CLASS_TOKEN), weight(0))] : []),
        ...Array.from({ length: rows }, (_, r) => h("tr", {}, h("th", { scope: "row" }, `row ${r + 1}`),
          ...Array.from({ length: columns }, (_, c) => weight(firstPatch + r * columns + c))))));
    tableBody.replaceChildren(body);
  }

  // Many changes, one painting: at most once a frame.
  let frame = null;
  function schedule() {
    frame ??= requestAnimationFrame(() => {
      frame = null;
      paint();
    });
  }

  // ------------------------------------------------ choosing
  function otherImage(image) {
    const rest = images.map((i) => (image + 1 + i) % n_images).filter((i) => i !== image);
    return (labels && rest.find((i) => labels[i] !== labels[image])) ?? rest[0] ?? image;
  }

  /** Make a choice, here and in Python. */
  function choose(changes) {
    clearTimeout(resting);
    resting = null;
    if (hovered !== null && !("query" in changes)) changes.query = hovered; // what is seen is what is sent
    hovered = null;
    const image = changes.image ?? model.get("image");
    const control = "control" in changes ? changes.control : model.get("control");
    if (control === image) changes.control = n_images === 1 ? null : (image + 1) % n_images; // as in Python
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
    schedule();
  }

  function hover(query) {
    if (model.get("locked") || query === shown().query) return;
    hovered = query;
    clearTimeout(resting);
    resting = setTimeout(() => settle(), HOVER_REST_MS);
    schedule();
  }
  /** Send a hovered query that has not been sent; the pointer may still be there. */
  function settle() {
    if (resting === null) return;
    clearTimeout(resting);
    resting = null;
    model.set("query", hovered);
    model.save_changes();
  }

  const patchAt = (event) => {
    const box = picture.getBoundingClientRect();
    const clamp = (value, size) => Math.min(size - 1, Math.max(0, Math.floor(value)));
    const column = clamp(((event.clientX - box.left) / box.width) * columns, columns);
    return clamp(((event.clientY - box.top) / box.height) * rows, rows) * columns + column;
  };

  const on = (target, type, handle) => target.addEventListener(type, handle, { signal: ended.signal });
  let last = null; // browsers repeat a pointer's last move when the page scrolls under it: that is not a hover
  for (const [canvas, queryAt] of [[picture, patchAt], [classCanvas, () => CLASS_TOKEN]]) {
    on(canvas, "pointermove", (event) => {
      const here = `${event.clientX} ${event.clientY}`;
      if (here === last) return;
      last = here;
      hover(queryAt(event));
    });
    on(canvas, "pointerleave", () => {
      settle();
      hovered = null;
      schedule();
    });
    on(canvas, "click", (event) => {
      const query = queryAt(event);
      const again = model.get("locked") && query === model.get("query");
      choose({ query, locked: !again });
      picture.focus({ preventScroll: true });
    });
  }

  on(imageSelect, "change", () => choose({ image: Number(imageSelect.value) }));
  on(layerRange, "input", () => choose({ layer: Number(layerRange.value) - 1 }));
  on(scaleSelect, "change", () => choose({ scale: scaleSelect.value }));
  const controlled = () => choose({ control: controlBox.checked ? Number(controlSelect.value) : null });
  on(controlBox, "change", controlled);
  on(controlSelect, "change", () => choose({ control: Number(controlSelect.value) }));
  for (const map of smallMaps) on(map.input, "change", () => choose({ head: map.head }));
  on(table, "toggle", schedule);

  // ------------------------------------------------ keys
  /** The query one step away; [class] sits above the first row. */
  function stepped(query, down, right) {
    if (query === CLASS_TOKEN) return down > 0 ? 0 : CLASS_TOKEN;
    const [r, c] = [Math.floor(query / columns) + down, (query % columns) + right];
    if (r < 0 && has_class) return CLASS_TOKEN;
    return Math.min(rows - 1, Math.max(0, r)) * columns + Math.min(columns - 1, Math.max(0, c));
  }
  const cycle = (value, step, size) => (value + step + size) % size;

  function press(name) {
    const { query, layer, head, locked, image, control, scale } = shown();
    const stepLayer = (by) => choose({ layer: Math.min(n_layers - 1, Math.max(0, layer + by)) });
    const stepHead = (by) => {
      const next = cycle(head === null ? 0 : head + 1, by, n_heads + 1); // 0: the mean
      choose({ head: next === 0 ? null : next - 1 });
    };
    const lock = () => choose({ locked: !locked });
    const actions = {
      ArrowUp: () => choose({ query: stepped(query, -1, 0) }),
      ArrowDown: () => choose({ query: stepped(query, 1, 0) }),
      ArrowLeft: () => choose({ query: stepped(query, 0, -1) }),
      ArrowRight: () => choose({ query: stepped(query, 0, 1) }),
      Enter: lock,
      " ": lock,
      "[": () => stepLayer(-1),
      "]": () => stepLayer(1),
      PageUp: () => stepLayer(-1),
      PageDown: () => stepLayer(1),
      h: () => stepHead(1),
      H: () => stepHead(-1),
      0: () => choose({ head: null }),
      i: () => choose({ image: cycle(image, 1, n_images) }),
      I: () => choose({ image: cycle(image, -1, n_images) }),
      s: () => choose({ scale: scale === "row" ? "all" : "row" }),
      x: () => n_images > 1 && choose({ control: control === null ? otherImage(image) : null }),
    };
    if (has_class) actions.c = () => choose({ query: CLASS_TOKEN });
    for (let digit = 1; digit <= Math.min(9, n_heads); digit++) actions[digit] = () => choose({ head: digit - 1 });
    actions[name]?.();
    return name in actions;
  }

  on(root, "keydown", (event) => {
    const command = (event.ctrlKey || event.metaKey || event.altKey) && !event.getModifierState("AltGraph");
    // The notebook must not take these keys as its own. Tab leaves the widget; saving stays what it is everywhere.
    if (event.key === "Tab" || (command && event.key.toLowerCase() === "s")) return;
    event.stopPropagation();
    if (command) return;
    if (event.key === "Escape") {
      choose({ locked: false });
      event.preventDefault();
    } else if (event.target === picture && press(event.key)) {
      event.preventDefault();
    }
  });

  // ------------------------------------------------ whatever changes the picture from outside
  for (const name of CHOICES) model.on(`change:${name}`, schedule); // Python, or another view of this widget
  const sizes = new ResizeObserver(schedule);
  for (const canvas of [picture, bars, heads]) sizes.observe(canvas);
  on(window, "resize", schedule); // zooming changes devicePixelRatio
  const theme = new MutationObserver(schedule);
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name", "class"] });

  paint();

  return () => {
    settle();
    ended.abort();
    sizes.disconnect();
    theme.disconnect();
    cancelAnimationFrame(frame);
    for (const name of CHOICES) model.off(`change:${name}`, schedule);
  };
}

export default { render };
