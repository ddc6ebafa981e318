// @ts-check
/* The front end of headroom.widgets.DecodingStepper.
 *
 * What the model answers depends on the prefix alone, and every answer that Python has computed is here, by its prefix:
 * choosing, drawing and searching happen in this file. Where an answer is missing, Python computes it; until then a
 * sentence says so.
 *
 * Hooks that stay (for tests, styles and other code)
 *   .headroom-decoding-stepper       the root of one view; a page may hold many
 *   [data-part=source-select]        <select>, value: the text
 *   [data-part=own-text], [data-part=read]      <input type=text> for a text of one's own, and its <button>
 *   [data-part=problem]              why a text cannot be read, or what is waited for
 *   [data-part=method-select]        <select>, value: "greedy", "sampling" or "beam"
 *   [data-part=temperature-range], [data-part=seed-input], [data-part=again]   sampling; [data-part=beams-range]: beam search
 *   [data-part=first], [data-part=back], [data-part=next], [data-part=last]    <button>s; [data-part=step-range], from 1
 *   [data-part=written]              the text so far; takes the focus and the arrow keys; its tokens are [data-step], from 0
 *   [data-part=candidate]            <button> of a candidate: data-token (its name), data-share, data-kept (beam search)
 *   [data-part=undo]                 <button>: back to the model's own choices
 *   [data-part=layer-range], [data-part=head-select]   whose cross-attention
 *   [data-part=characters]           the source; each character is a [data-token], from 0
 *   canvas[data-part=alignment]      a row of weights for each step so far
 *   [data-part=tree]                 beam search; takes the focus and the arrow keys; its hypotheses are [data-level][data-rank]
 *   [data-part=cache], [data-part=cost], [data-part=legend], [data-part=live], [data-part=table], [data-part=keys] (<details>)
 *   data-source, data-method, data-step, … on the root: what is shown now, from 0; data-steps: how many there are;
 *   data-prefix: the text before this step; data-candidate: the token that it writes; data-complete: whether all is known
 */
import {
  bitmap, choices, colour, css, cycle, decode, guardKeys, h, inkOn, legend, liveLine, needsPython, number, pairs, prepare,
  repaint, sayHead, tableView, targetOf, themeColours, uniqueName, visible, write,
} from "./shared.js";
/** @import { Child, Colours, Model, On, View, DecodingStepper as T } from "./types" */

/** @type {(keyof T.Now)[]} */
const CHOICES = ["source", "method", "temperature", "seed", "beams", "step", "hypothesis", "taken", "layer", "head"];
/** @type {(keyof T.Traits)[]} */
const DATA = ["_facts", "_prefixes", "_logits", "_attention", "_seeds", "_noise"];
const SVG = "http://www.w3.org/2000/svg";
/** @type {T.Method[]} */
const METHODS = ["greedy", "sampling", "beam"]; // in the menu's order
const ROWS = 6; // candidates that have a row of their own
const PATIENCE_MS = 2500; // then what waits for Python says that it needs it
const ROW_HEIGHT = 17; // of the alignment, in pixels
const NODE = { width: 58, height: 36, across: 73, down: 42 }; // of the tree, in pixels

// ---------------------------------------------------------------- what the model has answered

/** @param {Model<T.Traits>} model */
function readAnswers(model) {
  const facts = model.get("_facts");
  const { n_layers, n_heads, max_tokens, tokens, eos, sources } = facts;
  const n_target = tokens.length;
  const [logits, attention] = [decode(Float32Array, model.get("_logits")), decode(Uint16Array, model.get("_attention"))];
  const [seeds, noise] = [model.get("_seeds"), decode(Float32Array, model.get("_noise"))];
  /** @type {Map<string, { logits: number, attention: number }>} */
  const places = new Map(); // "text:prefix" → where its numbers start
  let start = 0;
  model.get("_prefixes").forEach(([which, ...prefix], i) => {
    places.set(`${which}:${prefix}`, { logits: i * n_target, attention: start });
    start += n_layers * n_heads * sources[which].words.length;
  });
  /** @param {number} which @param {T.Prefix} prefix */
  const place = (which, prefix) => places.get(`${which}:${prefix}`);
  /** @param {T.Prefix} prefix */
  const ended = (prefix) => prefix.at(-1) === eos;

  /** @param {number} which @param {T.Prefix} prefix */
  function logitsOf(which, prefix) {
    const at = place(which, prefix);
    return at ? logits.subarray(at.logits, at.logits + n_target) : null;
  }
  /** The logarithms of the probabilities, as numbers of 64 bits. @param {Float32Array} its */
  function logShares(its) {
    const most = its.reduce((a, b) => Math.max(a, b));
    const below = Array.from(its, (logit) => logit - most);
    const total = Math.log(below.reduce((sum, one) => sum + Math.exp(one), 0));
    return below.map((one) => one - total);
  }
  /** Where the step after a prefix looks; head null: the mean of the heads. @param {number} which @param {T.Prefix} prefix @param {number} layer @param {number | null} head */
  function weights(which, prefix, layer, head) {
    const keys = sources[which].words.length;
    const out = new Float32Array(keys);
    const at = place(which, prefix);
    if (!at) return null;
    const [from, to] = head === null ? [0, n_heads] : [head, head + 1];
    for (let one = from; one < to; one++) {
      const first = at.attention + (layer * n_heads + one) * keys;
      for (let key = 0; key < keys; key++) out[key] += attention[first + key] / 65535 / (to - from);
    }
    return out;
  }
  /** What decides the draw of a step: see `draw`. @param {number} seed @param {number} step */
  function noiseOf(seed, step) {
    const at = seeds.indexOf(seed);
    return at < 0 ? null : noise.subarray((at * max_tokens + step) * n_target, (at * max_tokens + step + 1) * n_target);
  }
  /** @param {ArrayLike<number>} values */
  const largest = (values) => Array.from(values).reduce((best, value, i, all) => (value > all[best] ? i : best), 0);
  /** As torch.multinomial: the largest probability / noise, with exponential noise. @param {Float32Array} its @param {number} temperature @param {Float32Array} numbers */
  const draw = (its, temperature, numbers) => largest(logShares(its.map((logit) => logit / temperature)).map((one, i) => one - Math.log(numbers[i])));

  /** What greedy decoding or sampling writes: { tokens, own (what the model would write), missing (what it would need to go on) }. @param {number} which @param {T.Now} _ @returns {{ tokens: T.Prefix, own: number[], missing: T.Seen["missing"] }} */
  function written(which, { method, temperature, seed, taken }) {
    const decided = new Map(taken.map(([step, token]) => [step, tokens.indexOf(token)]));
    /** @type {[T.Prefix, number[]]} */
    const [path, own] = [[], []];
    while (path.length < max_tokens && !ended(path)) {
      const step = path.length;
      const known = logitsOf(which, path);
      const numbers = method === "sampling" ? noiseOf(seed, step) : null;
      if (!known || (method === "sampling" && !numbers)) return { tokens: path, own, missing: known ? "noise" : "logits" };
      const its = numbers ? draw(known, temperature, numbers) : largest(known);
      own.push(its);
      path.push(decided.get(step) ?? its);
    }
    return { tokens: path, own, missing: null };
  }
  /** Beam search: a level for each length, { kept, dropped }, the likeliest first; dropped: the best of those that were. @param {number} which @param {number} width */
  function search(which, width) {
    /** @type {T.Level[]} */
    const levels = [{ kept: [{ prefix: [], score: 0, parent: 0, ended: false }], dropped: [] }];
    while (levels.length <= max_tokens && !levels[levels.length - 1].kept.every((one) => one.ended)) {
      /** @type {T.Hypothesis[]} */
      const ways = [];
      for (const [parent, one] of levels[levels.length - 1].kept.entries()) {
        if (one.ended) { // goes on as it is, at no cost
          ways.push({ ...one, parent });
          continue;
        }
        const its = logitsOf(which, one.prefix);
        if (!its) return { levels, missing: true };
        logShares(its).forEach((more, token) => ways.push({ prefix: [...one.prefix, token], score: one.score + more, parent, ended: token === eos }));
      }
      ways.sort((a, b) => b.score - a.score);
      levels.push({ kept: ways.slice(0, width), dropped: ways.slice(width, 2 * width) });
    }
    return { levels, missing: false };
  }
  /** @type {Map<string, T.Search>} */
  const searched = new Map();
  return {
    ...facts, ended, logitsOf, logShares, weights, noiseOf, written,
    /** @param {number} which @param {number} width */
    search(which, width) {
      const name = `${which}:${width}`;
      const known = searched.get(name) ?? search(which, width);
      searched.set(name, known);
      return known;
    },
    /** @param {string} text */
    which: (text) => sources.findIndex((source) => source.text === text),
  };
}

/** A probability as readers see it: three digits, and powers of ten where these would say 0.000. @param {number} value */
function share(value) {
  if (value === 0 || value >= 0.0005) return number(value, 3);
  const [digit, power] = value.toExponential(0).split("e-");
  return `${digit}·10⁻${[...power].map((one) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(one)]).join("")}`;
}

/** A log-probability; of a certainty it is 0, not −0.00. @param {number} value @param {number} [digits] */
function logarithm(value, digits = 2) {
  return number(Math.abs(value) < 0.5 / 10 ** digits ? 0 : value, digits);
}

// ---------------------------------------------------------------- one view

/** @param {View<T.Traits>} _ */
function render({ model, el }) {
  let answers = readAnswers(model);
  let version = 0; // of the answers
  let read = DATA.map((name) => model.get(name)); // that `answers` were read from
  const { n_layers, n_heads, max_beams, max_source } = answers;
  const unique = uniqueName();
  const ended = new AbortController(); // ends every listener with the view
  const { signal } = ended;

  /** What is shown, worked out: everything that follows from the choices. @param {T.Now} now */
  function look(now) {
    const which = answers.which(now.source);
    const seen = now.method === "beam" ? lookAtBeams(now, which) : lookAtText(now, which);
    const logits = answers.logitsOf(which, seen.prefix);
    const weights = answers.weights(which, seen.prefix, now.layer, now.head);
    /** @type {T.Shown} */
    const view = { now, which, words: answers.sources[which].words.map(visible), ...seen, candidates: null };
    if (logits && weights) {
      const logShares = answers.logShares(logits);
      const plain = logShares.map(Math.exp); // at temperature 1
      const shares = now.method === "sampling" ? answers.logShares(logits.map((one) => one / now.temperature)).map(Math.exp) : plain;
      const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a]);
      if (view.beam && view.token === null && view.beam.levels[view.step + 1]) view.token = order[0]; // all its ways are dropped
      view.candidates = { logits, logShares, plain, shares, order, weights };
    }
    return view;
  }
  /** The same for one text, without what follows from its prefix. @param {T.Now} now @param {number} which @returns {T.Seen} */
  function lookAtText(now, which) {
    const { tokens, own, missing } = answers.written(which, now);
    const steps = tokens.length + (missing ? 1 : 0);
    const step = Math.min(now.step, steps - 1);
    return { steps, step, complete: !missing, path: tokens, missing, prefix: tokens.slice(0, step), token: tokens[step] ?? null, own: own[step] ?? null, beam: null };
  }
  /** The same for beam search. @param {T.Now} now @param {number} which @returns {T.Seen} */
  function lookAtBeams(now, which) {
    const { levels, missing } = answers.search(which, now.beams);
    const steps = levels.length - 1 + (missing ? 1 : 0);
    const step = Math.min(now.step, steps - 1);
    const { kept } = levels[step];
    const winner = levels[levels.length - 1].kept[0].prefix;
    /** @param {T.Hypothesis} _ */
    const leads = ({ prefix }) => String(prefix) === String(winner.slice(0, step));
    const rank = now.hypothesis !== null && now.hypothesis < kept.length ? now.hypothesis : Math.max(0, kept.findIndex(leads));
    const hypothesis = kept[rank];
    const over = hypothesis.ended; // nothing is written any more: its last step is shown
    const prefix = over ? hypothesis.prefix.slice(0, -1) : hypothesis.prefix;
    const children = (levels[step + 1]?.kept ?? []).map((one, its) => ({ ...one, rank: its })).filter((one) => one.parent === rank);
    const child = (leads(hypothesis) && children.find((one) => String(one.prefix) === String(winner.slice(0, step + 1)))) || children[0] || null;
    const token = over ? answers.eos : child ? child.prefix[child.prefix.length - 1] : null;
    return { steps, step, complete: !missing, path: prefix, missing: null, prefix, token, own: null, beam: { levels, rank, hypothesis, over, children, child } };
  }

  // ------------------------------------------------ words
  /** @param {number} token */
  const name = (token) => visible(answers.tokens[token]);
  /** @param {number} token */
  const special = (token) => /^<.+>$/.test(answers.tokens[token]);
  /** @param {T.Prefix} prefix */
  const textOf = (prefix) => prefix.filter((token) => !special(token)).map((token) => answers.tokens[token]).join("");
  /** @param {number} token */
  const sayToken = (token) => (token === answers.eos ? "<eos> (the end)" : special(token) ? answers.tokens[token] : `“${name(token)}”`);
  /** @param {T.Prefix} prefix */
  const sayPrefix = (prefix) => (prefix.length ? `After “${textOf(prefix)}”` : "At the beginning");
  /** @param {number} n @param {string} what */
  const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  /** @param {number} value */
  const whole = (value) => value.toLocaleString("en");

  /** @param {T.Shown} view */
  function sayAll(view) {
    const { now, beam, step, steps, prefix, token, complete } = view;
    const how = {
      greedy: "greedy", sampling: `sampling at temperature ${number(now.temperature, 1)} with seed ${now.seed}`,
      beam: `beam search with ${now.beams} ${now.beams === 1 ? "hypothesis" : "hypotheses"}`,
    }[now.method];
    const place = `Step ${step + 1} of ${complete ? steps : `at least ${steps}`}, ${how}. `;
    if (!view.candidates) return `${place}What follows “${textOf(prefix)}” has not been computed.`;
    const { shares, order, weights } = view.candidates;
    const [first, second] = order;
    const likeliest = `the likeliest is ${sayToken(first)} (${share(shares[first])}), then ${sayToken(second)} (${share(shares[second])})`;
    let text = place;
    if (beam) {
      const { score } = beam.hypothesis;
      const whose = `Hypothesis ${beam.rank + 1}, “${textOf(beam.hypothesis.prefix)}”, has log-probability ${logarithm(score)}`;
      const n = beam.children.length;
      const kept = !beam.levels[step + 1] ? "which are kept needs Python" : `${n || "none"} of its continuations ${n > 1 ? "are" : "is"} kept`;
      text += beam.over ? `${whose} and has ended: it goes on as it is.` : `${whose}; next, ${likeliest}; ${kept}.`;
    } else {
      text += `${sayPrefix(prefix)}, ${likeliest}; `;
      if (token === null) text += "what is drawn needs Python.";
      else if (view.own !== null && taken(view)) text += `you take ${sayToken(token)} (${share(shares[token])}) in place of ${sayToken(view.own)}.`;
      else text += `${sayToken(token)} is ${now.method === "sampling" ? "drawn" : "written"}.`;
    }
    const best = weights.indexOf(weights.reduce((a, b) => Math.max(a, b)));
    text += ` This step looks most at character ${best + 1}, “${view.words[best]}” (${number(weights[best])}; layer ${now.layer + 1}, ${sayHead(now.head)}).`;
    if (complete && step === steps - 1) {
      const winner = beam?.levels[beam.levels.length - 1].kept[0];
      const all = winner?.prefix ?? view.path;
      const done = answers.ended(all) ? "Finished" : `Stopped after ${steps} tokens without an end`;
      text += ` ${done}: “${textOf(all)}”${winner ? `, log-probability ${logarithm(winner.score)}` : ""}.`;
    }
    return text;
  }
  /** @param {T.Shown} _ */
  const taken = ({ now, step, beam }) => !beam && now.taken.some(([at]) => at === step);

  // ------------------------------------------------ the parts
  /** @param {string | number} value @param {string} text */
  const option = (value, text) => h("option", { value }, text);
  /** @param {string} part @param {string} text @param {string | null} [label] */
  const button = (part, text, label = null) => h("button", { type: "button", "data-part": part, "aria-label": label }, text);
  /** @param {string} part @param {number} min @param {number} max @param {number} [step] */
  const range = (part, min, max, step = 1) => h("input", { type: "range", "data-part": part, min, max, step });
  const output = () => h("span", { class: "headroom-value", "aria-hidden": "true" });
  /** @param {string} text @param {...Child} inputs */
  const field = (text, ...inputs) => h("label", {}, h("span", {}, text), ...inputs);
  /** @param {...Child} parts */
  const pair = (...parts) => h("span", { class: "headroom-pair" }, ...parts);
  /** @param {string} text */
  const title = (text) => h("div", { class: "headroom-title" }, text);

  const sourceSelect = h("select", { "data-part": "source-select" });
  const ownText = h("input", { type: "text", "data-part": "own-text", maxlength: max_source, size: 18, autocomplete: "off", spellcheck: "false" });
  const readButton = button("read", "Read it");
  const problem = h("p", { "data-part": "problem", role: "status" });
  const methodSelect = h("select", { "data-part": "method-select" },
    option("greedy", "greedy: the likeliest"), option("sampling", "sampling: drawn"), option("beam", "beam search"));
  const temperatureRange = range("temperature-range", 0.1, 3, 0.1);
  const temperatureOutput = output();
  const seedInput = h("input", { type: "number", "data-part": "seed-input", min: 0, step: 1 });
  const againButton = button("again", "Draw again");
  const beamsRange = range("beams-range", 1, max_beams);
  const beamsOutput = output();
  const sampling = pair(field("Temperature", temperatureRange, temperatureOutput), field("Seed", seedInput), againButton);
  const beaming = field("Hypotheses", beamsRange, beamsOutput);

  const stepButtons = { first: button("first", "⇤", "First step"), back: button("back", "← Back"), next: button("next", "Next →"), last: button("last", "⇥", "Last step") };
  const stepRange = range("step-range", 1, 1);
  const stepOutput = output();

  const id = `live-${unique}`;
  const live = liveLine(id);
  /** @param {"div"} tag @param {string} part @param {string} description */
  const surface = (tag, part, description) =>
    h(tag, { "data-part": part, tabindex: 0, role: "application", "aria-roledescription": description, "aria-describedby": id });
  const writtenRow = surface("div", "written", "decoding steps");
  const candidates = h("div", { class: "headroom-candidates" });
  const others = h("p", { class: "headroom-note" });
  const undo = button("undo", "Back to the model's choices");
  const candidatesTitle = title("");

  const layerRange = range("layer-range", 1, n_layers);
  layerRange.disabled = n_layers === 1;
  const layerOutput = output();
  const headSelect = h("select", { "data-part": "head-select" }, option("mean", "mean of heads"),
    ...Array.from({ length: n_heads }, (_, head) => option(head, `head ${head + 1}`)));
  const characters = h("div", { "data-part": "characters", role: "img" });
  const alignment = h("canvas", { "data-part": "alignment", role: "img" });
  const scaleLegend = legend();

  const tree = surface("div", "tree", "tree of hypotheses");
  const treeTitle = title("");
  const treeNote = h("p", { class: "headroom-note" });
  const treeBox = h("div", { class: "headroom-tree" }, treeTitle, tree, treeNote);
  const cache = h("div", { "data-part": "cache" });
  const cost = h("div", { "data-part": "cost" });
  const table = tableView(() => fillTable(look(choice.now())), "Tables of candidates and weights");

  /** @param {string} text */
  const kbd = (text) => h("kbd", {}, text);
  const help = h("details", { "data-part": "keys" }, h("summary", {}, "Keys, pointer and Python"),
    h("p", {}, kbd("←"), " ", kbd("→"), " go a step back and forward, ", kbd("Home"), " ", kbd("End"), " to the first and the last. ",
      "In the tree ", kbd("↑"), " ", kbd("↓"), " choose a hypothesis. A candidate is a button: ", kbd("Tab"), " to it and ", kbd("Enter"), " or a click takes it in place of the model's, and the model goes on from there; ",
      "in beam search it leads to that hypothesis. ", kbd("u"), " or ", kbd("Esc"), " goes back to the model's choices, ", kbd("m"), " to the next method, ", kbd("r"), " draws again, ",
      kbd("["), " ", kbd("]"), " change the layer, ", kbd("1"), "–", kbd("9"), " pick a head, ", kbd("0"), " the mean, ", kbd("h"), " ", kbd("H"), " the next and the previous head. A click on a written token or on a row of the picture goes to its step."),
    h("p", {}, "Sampling: every candidate draws a random number from an exponential distribution, and the largest probability / number wins; a candidate wins with just its probability. ",
      "The seed fixes the numbers, so that a draw can be repeated. At a low temperature the probabilities move to the likeliest, at a high one they even out."),
    needsPython("What has been computed is here, and plays without Python: the greedy text, all beams, the continuations of each step's first candidates, and draws at temperature 1. A text of your own, and a continuation that was never computed, need Python. It reads what you choose: ",
      h("code", {}, "widget.selection"), ", ", h("code", {}, "widget.decoded"), ", ", h("code", {}, "widget.probabilities"), " and ", h("code", {}, "widget.selected_weights"), ". Python counts from 0, this picture from 1."));

  const root = h("div", { class: "headroom-widget headroom-decoding-stepper", role: "group", "aria-label": "Decoding stepper" },
    h("div", { class: "headroom-controls" }, field("Text", sourceSelect), pair(field("Your own", ownText), readButton)),
    problem,
    h("div", { class: "headroom-controls" }, field("Method", methodSelect), sampling, beaming),
    h("div", { class: "headroom-controls" }, pair(stepButtons.first, stepButtons.back, stepButtons.next, stepButtons.last), field("Step", stepRange, stepOutput)),
    h("div", { class: "headroom-written" }, h("span", { class: "headroom-note" }, "Written so far; ▸ is written in this step"), writtenRow),
    live.element,
    h("div", { class: "headroom-body" },
      h("div", {}, candidatesTitle, candidates, others, undo),
      h("div", {}, title("Cross-attention: where this step looks in the source"),
        h("div", { class: "headroom-controls" }, field("Layer", layerRange, layerOutput), field("Head", headSelect)),
        characters, alignment, scaleLegend.element)),
    treeBox,
    h("div", { class: "headroom-cache" }, title("The cache: which keys (K) and values (V) the decoder has"), cache, cost),
    table.element, help);
  el.append(h("div", { class: "headroom-frame" }, root));

  // ------------------------------------------------ choosing
  const schedule = repaint(() => paint(), { model, names: [...CHOICES, ...DATA, "_asked", "_problem"], canvases: [alignment, root], signal });
  const choice = choices(model, CHOICES, { schedule, also: follow, signal });

  /** What follows from a choice; Python does the same. @param {Partial<T.Now>} changes */
  function follow(changes) {
    const now = { ...choice.now(), ...changes };
    if ("source" in changes || now.method === "beam") if (now.taken.length) now.taken = changes.taken = [];
    if (now.hypothesis !== null && (now.method !== "beam" || "source" in changes || "beams" in changes)) now.hypothesis = changes.hypothesis = null;
    const view = look(now);
    if (view.complete && view.step !== now.step) changes.step = view.step; // else Python knows how many there are
    if (view.beam && now.hypothesis !== null && now.hypothesis >= view.beam.levels[view.step].kept.length) changes.hypothesis = null;
  }
  /** To another step; in beam search along the line of the hypothesis that is shown. @param {number} step */
  function go(step) {
    const view = look(choice.now());
    const to = Math.min(view.steps - 1, Math.max(0, step));
    if (to === view.step) return;
    const { beam } = view;
    if (!beam || model.get("hypothesis") === null || Math.abs(to - view.step) > 1) return choice.choose({ step: to, hypothesis: null });
    choice.choose({ step: to, hypothesis: to < view.step ? beam.hypothesis.parent : beam.child?.rank ?? null });
  }
  /** To a hypothesis; for one of the last level, to the step that wrote it. @param {number} level @param {number} rank */
  function goTo(level, rank) {
    const { beam, steps } = look(choice.now());
    const one = beam?.levels[level].kept[rank];
    if (one) choice.choose(level < steps ? { step: level, hypothesis: rank } : { step: steps - 1, hypothesis: one.parent });
  }
  /** @param {number} token */
  function take(token) {
    const view = look(choice.now());
    const { beam } = view;
    if (beam) {
      const child = beam.children.find(({ prefix }) => prefix.at(-1) === token);
      if (child && view.step + 1 < view.steps) goTo(view.step + 1, child.rank);
      return;
    }
    const before = view.now.taken.filter(([at]) => at < view.step);
    const own = token === view.own || (token === view.token && taken(view)); // chosen again: let go
    choice.choose({ taken: own ? before : [...before, [view.step, answers.tokens[token]]] });
  }
  function ask() {
    const text = ownText.value.trim();
    if (!text) return tell("There is nothing to read yet: write a date, such as 4 March 2021.");
    if (answers.which(text) >= 0) {
      tell("");
      return choice.choose({ source: text, step: 0 });
    }
    model.set("_problem", "");
    model.set("_asked", text);
    model.save_changes();
    schedule();
  }
  /** @param {string} sentence */
  function tell(sentence) {
    model.set("_problem", sentence);
    model.save_changes();
    schedule();
  }
  const drawAgain = () => choice.choose({ seed: model.get("seed") + 1 });

  // ------------------------------------------------ painting a state
  /** @type {string | null} */
  let waitsFor = null; // what Python has been asked for
  let since = 0;
  function paint() {
    if (DATA.some((one, i) => model.get(one) !== read[i])) {
      answers = readAnswers(model);
      read = DATA.map((one) => model.get(one));
      version++;
    }
    const now = choice.now();
    if (answers.which(now.source) < 0) return; // it is on its way
    const view = look(now);
    // Everything is measured before anything is written: a change in between would make the browser lay out anew.
    const treeRoom = view.beam ? { from: tree.scrollLeft, width: tree.clientWidth } : { from: 0, width: 0 };
    paintAlignment(view, themeColours(root));
    for (const one of CHOICES) root.setAttribute(`data-${one}`, one === "taken" ? JSON.stringify(now.taken) : String(now[one] ?? "none"));
    const facts = { step: view.step, steps: view.steps, prefix: textOf(view.prefix), candidate: view.token === null ? "none" : answers.tokens[view.token], complete: view.complete };
    for (const [one, value] of Object.entries(facts)) root.setAttribute(`data-${one}`, String(value));
    paintControls(view);
    paintProblem(view);
    paintWritten(view);
    paintCandidates(view);
    paintCharacters(view);
    if (view.beam && treeBox.hidden) schedule(); // its width, and so what of it is in sight, is known in the next frame
    treeBox.hidden = !view.beam;
    if (view.beam) paintTree(view, view.beam, treeRoom);
    paintCache(view);
    live.say(sayAll(view));
    table.update();
  }
  /** @type {Record<string, string>} */
  const painted = {};
  /** Whether a part must be painted again: not if what it is made of is what it was. @param {string} part @param {...unknown} made */
  function stale(part, ...made) {
    const now = JSON.stringify([version, ...made]);
    const other = painted[part] !== now;
    painted[part] = now;
    return other;
  }

  /** @param {T.Shown} _ */
  function paintControls({ now, step, steps: n, complete, beam }) {
    const texts = answers.sources.map(({ text }) => text);
    if ([...sourceSelect.options].map((one) => one.value).join("\n") !== texts.join("\n")) sourceSelect.replaceChildren(...texts.map((text) => option(text, text)));
    sourceSelect.value = now.source;
    methodSelect.value = now.method;
    sampling.hidden = now.method !== "sampling";
    beaming.hidden = !beam;
    temperatureRange.value = String(now.temperature);
    write(temperatureOutput, number(now.temperature, 1));
    temperatureRange.setAttribute("aria-valuetext", number(now.temperature, 1));
    if (document.activeElement !== seedInput) seedInput.value = String(now.seed);
    beamsRange.value = String(now.beams);
    write(beamsOutput, `${now.beams} of up to ${max_beams}`);
    beamsRange.setAttribute("aria-valuetext", `${now.beams}`);
    stepRange.max = String(n);
    stepRange.value = String(step + 1);
    stepRange.disabled = n === 1;
    const of = `${step + 1} of ${complete ? n : `at least ${n}`}`;
    write(stepOutput, of);
    stepRange.setAttribute("aria-valuetext", `step ${of}`);
    for (const [one, off] of pairs([stepButtons.first, step === 0], [stepButtons.back, step === 0], [stepButtons.next, step === n - 1], [stepButtons.last, step === n - 1])) {
      // A button that is switched off would lose the focus, and the keys with it.
      one.setAttribute("aria-disabled", String(off));
    }
    layerRange.value = String(now.layer + 1);
    layerRange.setAttribute("aria-valuetext", `layer ${now.layer + 1} of ${n_layers}`);
    write(layerOutput, `${now.layer + 1} of ${n_layers}`);
    headSelect.value = String(now.head ?? "mean");
  }
  /** @param {T.Shown} _ */
  function paintProblem({ complete, beam, missing, path, now }) {
    const asked = model.get("_asked");
    /** @type {string | null} */
    let wanted = null;
    if (asked) wanted = `the text “${asked}”`;
    else if (!complete) wanted = beam ? "a hypothesis of this search" : missing === "noise" ? `the random numbers of seed ${now.seed}` : `what follows “${textOf(path)}”`;
    if (wanted !== waitsFor) {
      waitsFor = wanted;
      since = performance.now();
      if (wanted) setTimeout(() => signal.aborted || schedule(), PATIENCE_MS + 50);
    }
    let text = model.get("_problem");
    if (wanted) {
      text = performance.now() - since < PATIENCE_MS ? `Python is asked for ${wanted}.`
        : `This needs Python, which has not answered: ${wanted} was never computed. Run the cell that shows this again.`;
    }
    problem.hidden = !text;
    write(problem, text ? text[0].toUpperCase() + text.slice(1) + (/[.!?”]$/.test(text) ? "" : ".") : "");
  }
  /** @param {T.Shown} _ */
  function paintWritten({ path, step, token, beam, now }) {
    if (!stale("written", path.slice(0, step), step, token, beam || now.taken)) return;
    const bos = h("span", { class: "headroom-chip" }, h("span", {}, answers.tokens[answers.bos]));
    const shown = [...path.slice(0, step), ...(token === null ? [] : [token])];
    const chips = shown.map((one, i) => {
      const yours = !beam && now.taken.some(([at]) => at === i);
      const here = i === Math.min(step, shown.length - 1) && token !== null; // an ended hypothesis shows its last step
      return h("span", { class: `headroom-chip${here ? " headroom-is-now" : ""}`, "data-step": i }, h("b", {}, (here ? "▸" : "") + (yours ? "you" : "")), h("span", {}, name(one)));
    });
    if (token === null) chips.push(h("span", { class: "headroom-chip headroom-is-now" }, h("span", {}, "?")));
    writtenRow.replaceChildren(bos, ...chips);
    writtenRow.setAttribute("aria-label", `Written so far: ${textOf(shown) || "nothing"}. Arrow keys go a step back and forward.`);
  }
  /** The candidates that have a row: the likeliest, and the one that is written. @param {number[]} order @param {number | null} token */
  function rowsOf(order, token) {
    const rows = order.slice(0, ROWS);
    if (token !== null && !rows.includes(token)) rows[rows.length - 1] = token;
    return rows;
  }
  /** @param {T.Shown} view */
  function paintCandidates(view) {
    const { now, beam, token, own, candidates: known } = view;
    if (!stale("candidates", view.which, view.prefix, token, view.step, beam?.rank, now.method, now.temperature, now.seed, now.beams, now.taken, !known)) return;
    const temperature = now.method === "sampling" ? ` at temperature ${number(now.temperature, 1)}` : "";
    write(candidatesTitle, beam?.over ? "Candidates of the step that ended this hypothesis" : `Candidates for the next token${temperature}`);
    undo.hidden = beam !== null || !now.taken.length;
    if (!known) {
      candidates.replaceChildren(h("p", {}, "Not computed yet."));
      others.hidden = true;
      return;
    }
    const { shares, plain, order, logShares } = known;
    const rows = rowsOf(order, token);
    const focused = [...candidates.children].findIndex((one) => one === document.activeElement);
    const kept = focused < 0 ? null : candidates.children[focused].getAttribute("data-token");
    const buttons = rows.map((one) => {
      const child = beam ? beam.children.find(({ prefix }) => prefix.at(-1) === one) : null;
      const yours = one === token && taken(view);
      const sign = beam ? (beam.over ? (one === token ? "■" : "") : child ? `${child.rank + 1}` : "×") : one === token ? "▸" : "";
      let says = beam ? (beam.over ? "" : child ? `kept as hypothesis ${child.rank + 1}` : "dropped") : one === token ? (yours ? "you take it" : now.method === "sampling" ? "drawn" : "written") : "";
      if (one === own && one !== token) says = "the model's choice";
      const total = beam && !beam.over ? ` log-probability ${logarithm(beam.hypothesis.score + logShares[one])}` : "";
      const fill = h("span");
      const bar = h("span", { class: "headroom-bar" }, fill);
      fill.style.width = `${100 * shares[one]}%`;
      if (temperature) {
        const mark = h("i");
        mark.style.left = `${100 * plain[one]}%`;
        bar.append(mark);
      }
      return h("button", {
        type: "button", "data-part": "candidate", "data-token": answers.tokens[one], "data-share": shares[one], "data-kept": child ? child.rank : null,
        "aria-pressed": beam ? null : String(one === token), "aria-disabled": beam && !child ? "true" : null,
        "aria-label": `${sayToken(one)}, probability ${share(shares[one])}${total ? `,${total}` : ""}${says ? `, ${says}` : ""}`,
        title: beam ? null : one === token ? null : `Take ${sayToken(one)} and let the model go on from there`,
      }, h("b", {}, sign), h("span", { class: "headroom-token" }, name(one)), bar, h("span", { class: "headroom-value" }, share(shares[one])),
      h("span", { class: "headroom-says" }, [total.trim().replace("log-probability", "log P"), says].filter(Boolean).join(", ")));
    });
    candidates.replaceChildren(...buttons);
    if (kept !== null) buttons[rows.findIndex((one) => answers.tokens[one] === kept)]?.focus({ preventScroll: true });
    const rest = order.filter((one) => !rows.includes(one));
    others.hidden = false;
    write(others, (rest.length ? `The other ${rest.length} together: ${share(rest.reduce((sum, one) => sum + shares[one], 0))}. ` : "") +
      (temperature ? "The thin line marks the probability at temperature 1. " : "") + (beam ? "Log P is that of the whole hypothesis." : "Choose one to see what would follow."));
  }

  // ---- cross-attention
  /** @type {{ sign: HTMLElement, value: HTMLElement, element: HTMLElement }[]} */
  let chips = []; // of the source's characters
  /** @param {T.Shown} _ */
  function paintCharacters({ words, candidates: known, now, step, token }) {
    const weights = known?.weights;
    const best = weights ? weights.indexOf(weights.reduce((a, b) => Math.max(a, b))) : -1;
    const high = weights ? weights[best] : 1;
    if (stale("characters", words)) {
      chips = words.map((word, i) => {
        const [sign, value] = [h("b"), h("span", { class: "headroom-value" })];
        return { sign, value, element: h("span", { class: "headroom-chip", "data-token": i }, sign, h("span", {}, word), value) };
      });
      characters.replaceChildren(...chips.map((chip) => chip.element));
    }
    chips.forEach(({ element, sign, value }, i) => {
      const rgb = weights ? colour(weights[i] / high) : null;
      element.style.background = rgb ? css(rgb) : "";
      element.style.color = rgb ? inkOn(rgb) : "";
      element.classList.toggle("headroom-is-k", i === best);
      write(sign, i === best ? "K" : "");
      write(value, weights ? number(weights[i]) : "–");
    });
    characters.setAttribute("aria-label", weights
      ? `Source: ${words.join("")}. Step ${step + 1} looks most at character ${best + 1}, ${words[best]}, weight ${number(weights[best])}. The table has all numbers.` : `Source: ${words.join("")}`);
    scaleLegend.set(0, high, `Each step's weights go from 0 to their own largest; layer ${now.layer + 1}, ${sayHead(now.head)}.`);
    alignment.setAttribute("aria-label", `Weights of the steps so far: ${step + 1} rows, ${words.length} characters across. The row of this step${token === null ? "" : `, which writes ${sayToken(token)},`} is framed.`);
  }
  /** @param {T.Shown} view @param {Colours} colours */
  function paintAlignment(view, colours) {
    const { which, words, now, step, steps, path, token } = view;
    const available = alignment.clientWidth;
    const left = 62;
    const w = Math.min(22, (available - left - 2) / words.length);
    const [top, ht] = [w >= 8 ? 18 : 4, ROW_HEIGHT];
    alignment.style.height = `${top + Math.max(steps, 1) * ht + 3}px`;
    const { context } = prepare(alignment);
    const all = [...path.slice(0, step), token]; // an ended hypothesis has fewer than the step would have
    const shown = all.length - (view.candidates ? 0 : 1);
    if (shown) {
      const picture = bitmap(shown, words.length, (row) => {
        const values = answers.weights(which, path.slice(0, row), now.layer, now.head) ?? new Float32Array(words.length);
        return { values, low: 0, high: values.reduce((a, b) => Math.max(a, b)) };
      });
      context.drawImage(picture, left, top, words.length * w, shown * ht);
    }
    context.fillStyle = context.strokeStyle = colours.text;
    context.lineWidth = 0.5;
    context.strokeRect(left, top, words.length * w, Math.max(steps, 1) * ht);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "center";
    if (w >= 8) words.forEach((word, i) => context.fillText(word, left + (i + 0.5) * w, top - 9));
    context.textAlign = "right";
    const row = all.length - 1;
    all.forEach((one, i) => {
      context.font = `${i === row ? "bold " : ""}12px system-ui, sans-serif`;
      if (one !== null) context.fillText(name(one), left - 6, top + (i + 0.5) * ht);
    });
    for (const [style, thick] of pairs(["#fff", 4], [colours.q, 2])) {
      context.strokeStyle = style;
      context.lineWidth = thick;
      context.strokeRect(left, top + row * ht, words.length * w, ht);
    }
    context.font = "bold 11px system-ui, sans-serif";
    context.textAlign = "left";
    context.fillStyle = colours.text;
    context.fillText("Q", 1, top + (row + 0.5) * ht);
    Object.assign(alignment.dataset, { top, rowHeight: ht });
  }

  // ---- beam search
  /** @type {T.Node[]} */
  let nodes = []; // of the tree: { level, row, lost, one, element, sign, curve }
  /** All hypotheses of a search; which are shown, and how, changes from step to step. @param {T.Level[]} levels */
  function buildTree(levels) {
    const most = Math.max(...levels.map(({ kept, dropped }) => kept.length + dropped.length));
    const [width, height] = [levels.length * NODE.across, most * NODE.down + 12];
    /** @param {number} level @param {number} row @param {boolean} lost */
    const at = (level, row, lost) => [level * NODE.across + 4, row * NODE.down + (lost ? 12 : 4)];
    const svg = document.createElementNS(SVG, "svg");
    for (const [one, value] of Object.entries({ width, height, "aria-hidden": true })) svg.setAttribute(one, String(value));
    nodes = levels.flatMap(({ kept, dropped }, level) => [...kept, ...dropped].map((one, row) => {
      const lost = row >= kept.length;
      const [x, y] = at(level, row, lost);
      let curve = null;
      if (level) {
        const [px, py] = at(level - 1, one.parent, false);
        const [x1, y1, y2] = [px + NODE.width, py + NODE.height / 2, y + NODE.height / 2];
        curve = document.createElementNS(SVG, "path");
        curve.setAttribute("d", `M${x1} ${y1}C${x1 + 8} ${y1} ${x - 8} ${y2} ${x} ${y2}`);
        svg.append(curve);
      }
      const over = !lost && one.ended && level && levels[level - 1].kept[one.parent].ended; // it had ended before
      const word = level === 0 ? answers.tokens[answers.bos] : over ? "" : name(one.prefix[one.prefix.length - 1]);
      const sign = h("b");
      const element = h("div", { "data-level": level, ...(lost ? { "data-dropped": row - kept.length } : { "data-rank": row }), "data-score": one.score },
        h("span", {}, sign, word), h("span", { class: "headroom-value" }, logarithm(one.score)));
      Object.assign(element.style, { left: `${x}px`, top: `${y}px`, width: `${NODE.width}px`, height: `${NODE.height}px` });
      return { level, row, lost, one, element, sign, curve };
    }));
    const inner = h("div", { class: "headroom-inner" }, svg, ...nodes.map(({ element }) => element));
    Object.assign(inner.style, { width: `${width}px`, height: `${height}px` });
    tree.replaceChildren(inner);
  }
  /** @param {T.Shown} _ @param {T.Beam} beam @param {{ from: number, width: number }} room */
  function paintTree({ which, step, now }, { levels, rank }, { from: left, width: room }) {
    if (stale("tree", which, now.beams)) buildTree(levels);
    const shown = levels.slice(0, step + 2);
    const front = new Set(); // the front-runner's line
    for (let level = shown.length - 1, at = 0; level >= 0; level--) {
      front.add(`${level}:${at}`);
      at = shown[level].kept[at].parent;
    }
    for (const { level, row, lost, one, element, sign, curve } of nodes) {
      const line = !lost && front.has(`${level}:${row}`);
      const here = !lost && level === step && row === rank;
      element.hidden = level > step + 1;
      element.className = `headroom-node${lost ? " headroom-lost" : ""}${here ? " headroom-is-now" : ""}`;
      write(sign, lost ? "×" : `${line ? "★" : ""}${one.ended ? "■" : ""}`);
      curve?.setAttribute("class", level > step + 1 ? "headroom-later" : lost ? "headroom-lost" : line ? "headroom-front" : "");
    }
    // Scrolled by hand: scrollIntoView would move the page.
    const [from, to] = [step * NODE.across, (step + 2) * NODE.across + 12];
    if (room && (to > left + room || from < left)) tree.scrollLeft = Math.min(from, to - room);
    write(treeTitle, `Hypotheses after step ${step + 1}: the best ${now.beams} go on`);
    write(treeNote, `Each carries its last token and the log-probability of the whole. The frame is around the hypothesis whose step is shown; ★ the line of the front-runner, ■ ended, × dropped (of those, the best ${now.beams} of each step).`);
    const kept = shown[shown.length - 1].kept.map((one, i) => `${i + 1} “${textOf(one.prefix)}” ${logarithm(one.score)}`).join(", ");
    tree.setAttribute("aria-label", `Tree of hypotheses. After step ${step + 1}: ${kept}. Left and right go to another step, up and down to another hypothesis.`);
  }

  // ---- the cache
  /** @param {T.Shown} view */
  function paintCache(view) {
    const { which, step, prefix, beam, now, words } = view;
    if (!stale("cache", which, step, prefix, beam && now.beams)) return;
    // The tokens that the decoder has read; an ended hypothesis is fed its end again until all have ended.
    const given = [answers.bos, ...prefix, ...Array(Math.max(0, step - prefix.length)).fill(answers.eos)];
    const fresh = step === 0;
    /** @param {string} text @param {string} sign @param {boolean} isNew */
    const cell = (text, sign, isNew) => h("span", { class: `headroom-kv${isNew ? " headroom-is-new" : ""}` }, h("b", {}, sign), h("span", {}, text),
      h("span", { class: "headroom-k" }, "K"), h("span", { class: "headroom-v" }, "V"));
    const lines = Array.from({ length: n_layers }, (_, layer) => h("div", { class: "headroom-layer" },
      h("span", { class: "headroom-note" }, `Layer ${layer + 1}, written tokens: ${count(given.length, "position")}, ${given.length - 1} reused, 1 computed`),
      h("div", { class: "headroom-cells" }, ...given.map((token, i) => cell(name(token), i === given.length - 1 ? "+" : "=", i === given.length - 1))),
      h("span", { class: "headroom-note" }, `Layer ${layer + 1}, source: ${count(words.length, "position")}, ${fresh ? "all computed now (+)" : "all reused (=) since step 1"}`)));
    cache.replaceChildren(...lines,
      h("p", { class: "headroom-note" }, `+ computed in this step, = reused.${beam && now.beams > 1 ? ` Each of the ${now.beams} hypotheses has such a cache; when one goes on in two ways, its cache is copied.` : ""}`));
    const times = beam ? now.beams : 1;
    const { costs } = answers.sources[which];
    const at = Math.min(step, costs.length - 1);
    const [with_, without] = costs[at].map((one) => one * times);
    const [soFar, soFarWithout] = [0, 1].map((i) => costs.slice(0, at + 1).reduce((sum, one) => sum + one[i], 0) * times);
    /** @param {string} text @param {number} value */
    const bar = (text, value) => {
      const fill = h("span");
      fill.style.width = `${(100 * value) / without}%`;
      return h("div", { class: "headroom-cost" }, h("span", {}, text), h("span", { class: "headroom-bar" }, fill), h("span", { class: "headroom-value" }, whole(value)));
    };
    cost.replaceChildren(h("span", {}, `Multiply-adds of the decoder in this step${times > 1 ? `, for ${times} hypotheses` : ""}:`),
      bar("with the cache", with_), bar("without", without),
      h("span", {}, fresh ? "In the first step there is nothing to reuse: the cache is being filled." : `Without it this step costs ${number(without / with_, 1)} times as much; all steps so far together, ${number(soFarWithout / soFar, 1)} times (${whole(soFarWithout)} against ${whole(soFar)}).`));
  }

  /** @param {T.Shown} view */
  function fillTable(view) {
    const { now, which, words, beam, step, candidates: known } = view;
    /** @param {string} text */
    const column = (text) => h("th", { scope: "col" }, text);
    /** @param {string} text @param {string[]} cells */
    const line = (text, cells) => h("tr", {}, h("th", { scope: "row" }, text), ...cells.map((one) => h("td", {}, one)));
    if (!known) return h("p", {}, "Not computed yet.");
    const noise = now.method === "sampling" ? answers.noiseOf(now.seed, step) : null;
    const first = h("table", {}, h("caption", {}, `Candidates of step ${step + 1}, after “${textOf(view.prefix)}”`),
      h("thead", {}, h("tr", {}, ...["token", "logit", "probability", ...(noise ? [`at temperature ${number(now.temperature, 1)}`, "random number", "probability / number"] : []), ...(beam ? ["log P of the whole"] : []), "written?"].map(column))),
      h("tbody", {}, ...known.order.map((one) => line(name(one), [number(known.logits[one], 3), share(known.plain[one]),
        ...(noise ? [share(known.shares[one]), number(noise[one], 3), share(known.shares[one] / noise[one])] : []),
        ...(beam ? [logarithm(beam.hypothesis.score + known.logShares[one], 3)] : []),
        one === view.token ? (taken(view) ? "you take it" : "yes") : "no"]))));
    const heads = [...Array(n_heads).keys()];
    const rows = heads.map((head) => answers.weights(which, view.prefix, now.layer, head) ?? new Float32Array(words.length));
    const second = h("table", {}, h("caption", {}, `Cross-attention of step ${step + 1}, layer ${now.layer + 1}`),
      h("thead", {}, h("tr", {}, column("character"), column("mean"), ...heads.map((head) => column(`head ${head + 1}`)))),
      h("tbody", {}, ...words.map((word, i) => line(`${i + 1} “${word}”`, [rows.reduce((sum, row) => sum + row[i], 0) / n_heads, ...rows.map((row) => row[i])].map((value) => number(value, 3))))));
    return h("div", {}, first, second);
  }

  // ------------------------------------------------ pointer
  /** @type {On} */
  const on = (target, type, handle) => target.addEventListener(type, handle, { signal });
  on(sourceSelect, "change", () => {
    if (model.get("_problem")) tell("");
    choice.choose({ source: sourceSelect.value, step: 0 });
  });
  on(readButton, "click", ask);
  on(methodSelect, "change", () => choice.choose({ method: METHODS[methodSelect.selectedIndex] }));
  on(temperatureRange, "input", () => choice.choose({ temperature: Number(temperatureRange.value) }));
  on(seedInput, "input", () => Number.isSafeInteger(seedInput.valueAsNumber) && seedInput.valueAsNumber >= 0 && choice.choose({ seed: seedInput.valueAsNumber }));
  on(againButton, "click", drawAgain);
  on(beamsRange, "input", () => choice.choose({ beams: Number(beamsRange.value) }));
  on(stepRange, "input", () => go(Number(stepRange.value) - 1));
  const jumps = { first: () => go(0), back: () => go(Number(root.dataset.step) - 1), next: () => go(Number(root.dataset.step) + 1), last: () => go(Infinity) };
  on(stepButtons.first, "click", jumps.first);
  on(stepButtons.back, "click", jumps.back);
  on(stepButtons.next, "click", jumps.next);
  on(stepButtons.last, "click", jumps.last);
  on(undo, "click", () => {
    choice.choose({ taken: [] });
    writtenRow.focus({ preventScroll: true }); // the button goes
  });
  on(layerRange, "input", () => choice.choose({ layer: Number(layerRange.value) - 1 }));
  on(headSelect, "change", () => choice.choose({ head: headSelect.value === "mean" ? null : Number(headSelect.value) }));
  on(candidates, "click", (event) => {
    const row = targetOf(event).closest("[data-part=candidate]");
    if (row) take(answers.tokens.indexOf(row.getAttribute("data-token") ?? ""));
  });
  on(writtenRow, "click", (event) => {
    const chip = targetOf(event).closest("[data-step]");
    if (chip) go(Number(chip.getAttribute("data-step")));
  });
  on(alignment, "click", (event) => {
    const row = Math.floor((event.clientY - alignment.getBoundingClientRect().top - Number(alignment.dataset.top)) / Number(alignment.dataset.rowHeight));
    if (row >= 0 && row <= Number(root.dataset.step)) go(row);
  });
  on(tree, "click", (event) => {
    const node = targetOf(event).closest("[data-rank]");
    if (node) goTo(Number(node.getAttribute("data-level")), Number(node.getAttribute("data-rank")));
  });

  // ------------------------------------------------ keys
  /** @param {string} pressed @param {EventTarget} target */
  function press(pressed, target) {
    const { head, layer, method, taken: changed, hypothesis } = choice.now();
    /** @param {number} by */
    const stepLayer = (by) => choice.choose({ layer: Math.min(n_layers - 1, Math.max(0, layer + by)) });
    /** @param {number} by */
    const stepHead = (by) => {
      const next = cycle(head === null ? 0 : head + 1, by, n_heads + 1); // 0: the mean
      choice.choose({ head: next === 0 ? null : next - 1 });
    };
    /** @param {number} by */
    const another = (by) => {
      const { step, beam } = look(choice.now());
      if (beam) goTo(step, beam.rank + by);
    };
    const undone = () => {
      if (changed.length) choice.choose({ taken: [] });
      else if (hypothesis !== null) choice.choose({ hypothesis: null });
    };
    /** @type {Record<string, () => unknown>} */
    const actions = {
      ArrowLeft: jumps.back, ArrowRight: jumps.next, Home: jumps.first, End: jumps.last,
      "[": () => stepLayer(-1), "]": () => stepLayer(1), h: () => stepHead(1), H: () => stepHead(-1), 0: () => choice.choose({ head: null }),
      m: () => choice.choose({ method: METHODS[cycle(METHODS.indexOf(method), 1, 3)] }),
      u: undone, Escape: undone,
    };
    if (method === "sampling") actions.r = drawAgain;
    if (target === tree) Object.assign(actions, { ArrowUp: () => another(-1), ArrowDown: () => another(1) });
    for (let digit = 1; digit <= Math.min(9, n_heads); digit++) actions[digit] = () => choice.choose({ head: digit - 1 });
    actions[pressed]?.();
    return pressed in actions;
  }
  guardKeys(root, signal, (event) => {
    if (event.target === ownText && event.key === "Enter") {
      ask();
      return true;
    }
    return !targetOf(event).matches("input, select, summary") && press(event.key, targetOf(event));
  });

  paint();
  return () => ended.abort();
}

export default { render };
