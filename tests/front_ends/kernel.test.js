import assert from "node:assert/strict";
import test from "node:test";
import { attentionKeys, headEntries, nextHead } from "../../headroom/widgets/kernel/controls.js";
import { choices, guardKeys } from "../../headroom/widgets/kernel/choices.js";
import { clamp, cycle, decode } from "../../headroom/widgets/kernel/numbers.js";
import { capital, list, number, sayHead, visible } from "../../headroom/widgets/kernel/words.js";
import { colour, inkOn } from "../../headroom/widgets/kernel/colours.js";
import { frontEnd, isLost } from "../../headroom/widgets/kernel/python.js";

test("heads go round, their mean between the last and the first", () => {
  const seen = [null];
  for (let i = 0; i < 4; i++) seen.push(nextHead(seen.at(-1), 1, 3));
  assert.deepEqual(seen, [null, 0, 1, 2, null]);
  assert.equal(nextHead(null, -1, 3), 2);
  assert.deepEqual(headEntries(2).map(({ value }) => value), [null, 0, 1]);
});

test("keys step through layers without going round, and pick heads", () => {
  let now = { layer: 1, head: null };
  const choice = { now: () => now, point() {}, choose(changes) { now = { ...now, ...changes }; } };
  const keys = attentionKeys(choice, { n_layers: 2, n_heads: 3 });
  keys["]"]();
  assert.equal(now.layer, 1);
  keys.PageUp();
  keys.PageUp();
  assert.equal(now.layer, 0);
  keys[3]();
  assert.equal(now.head, 2);
  keys.h();
  assert.equal(now.head, null);
  assert.equal(keys[4], undefined);
});

test("a notebook gets no key that is pressed in a widget, but for Tab, saving and Shift+Enter", () => {
  const root = new globalThis.EventTarget();
  const [taken, heard] = [[], []];
  guardKeys(root, new globalThis.AbortController().signal, ({ key }) => taken.push(key) && key === "h");
  const press = (key, held = {}) => {
    const event = Object.assign(new globalThis.Event("keydown", { cancelable: true }), { key, getModifierState: () => false, ...held });
    event.stopPropagation = () => { event.kept = true; };
    root.dispatchEvent(event);
    if (!event.kept) heard.push(key);
    return event.defaultPrevented;
  };
  assert.deepEqual([press("b"), press("h"), press("m", { ctrlKey: true })], [false, true, false]); // b and Ctrl-M are JupyterLab's
  assert.deepEqual([taken, heard], [["b", "h"], []]);
  assert.deepEqual([press("Tab"), press("s", { metaKey: true })], [false, false]);
  assert.deepEqual([taken, heard], [["b", "h"], ["Tab", "s"]]);
  press("Enter", { shiftKey: true });
  assert.deepEqual([taken, heard], [["b", "h"], ["Tab", "s", "Enter"]]);
  press("[", { ctrlKey: true, altKey: true, getModifierState: (/** @type {string} */ name) => name === "AltGraph" });
  assert.deepEqual(taken, ["b", "h", "["]); // as keyboards write it that have it on AltGr
});

test("arithmetic", () => {
  assert.deepEqual([clamp(-1, 0, 2), clamp(3, 0, 2), cycle(2, 1, 3), cycle(0, -1, 3)], [0, 2, 0, 2]);
  const bytes = new Uint8Array(new ArrayBuffer(9), 1);
  new DataView(bytes.buffer, 1).setFloat64(0, 1.5, true); // at an odd place
  assert.deepEqual([...decode(Float64Array, new DataView(bytes.buffer, 1))], [1.5]);
});

test("words", () => {
  assert.equal(number(-1.234), "−1.23");
  assert.deepEqual([list(["a"]), list(["a", "b"]), list(["a", "b", "c"])], ["a", "a and b", "a, b and c"]);
  assert.deepEqual([capital("head"), sayHead(0), sayHead(null), visible(" ")], ["Head", "head 1", "mean of heads", "␣"]);
  assert.deepEqual(["", " ", " get", "\n        ", "a b", "end "].map(visible), ["␣", "␣", "␣get", "⏎␣×8", "a b", "end␣"]);
});

test("ink on every colour of the map for amounts has a contrast of at least 4.5", () => {
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (let i = 0; i <= 100; i++) {
    const behind = luminance(colour(i / 100));
    const ink = inkOn(colour(i / 100)) === "#000" ? 0 : 1;
    assert.ok((Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05) >= 4.5);
  }
});

/** A notebook in JupyterLab whose one output shows the model "shown", and models of it as anywidget hands them over. */
function notebook() {
  const signal = () => {
    const slots = [];
    return { connect: (slot) => slots.push(slot), disconnect: (slot) => slots.splice(slots.indexOf(slot), 1), emit: (told) => slots.forEach((slot) => slot(null, told)) };
  };
  const models = [];
  const view = { "application/vnd.jupyter.widget-view+json": { model_id: "shown" } };
  const sessionContext = { session: { kernel: { id: "first" } }, statusChanged: signal(), connectionStatusChanged: signal(), kernelChanged: signal() };
  const saved = {};
  const model = { cells: [{}, { outputs: { toJSON: () => [{}, { data: view }] } }], setMetadata: (name, value) => (saved[name] = value) };
  const live = () => models.filter((one) => one.comm_live).map((one) => one.model_id);
  const widget_manager = { get_state_sync: live, context: { saveState: signal(), sessionContext, model } };
  const add = (model_id) => {
    const layout = { model_id: `layout of ${model_id}`, comm_live: true };
    const whole = {
      model_id, comm_live: true, widget_manager, taken: [], sent: [],
      _pending_msgs: 0, _msg_buffer: null, _buffered_state_diff: {}, _expectedEchoMsgIds: new Map(),
      get: (name) => (name === "layout" ? layout : `own ${name}`),
      set: () => whole,
      set_state: (state) => whole.taken.push(state),
      save_changes: () => whole.sent.push(whole._buffered_state_diff),
    };
    models.push(whole, layout);
    frontEnd(class {}).initialize({ model: whole });
    return whole;
  };
  return { add, saved, sessionContext, saveState: widget_manager.context.saveState };
}

test("a model loses its Python with its kernel", () => {
  for (const [signal, told, kernel] of [["statusChanged", "autorestarting", "first"], ["statusChanged", "dead", "first"], ["kernelChanged", {}, "second"]]) {
    const { add, sessionContext } = notebook();
    const model = add("shown");
    sessionContext.statusChanged.emit("busy");
    sessionContext.kernelChanged.emit({});
    assert.equal(isLost(model), false);
    sessionContext.session.kernel.id = kernel;
    sessionContext[signal].emit(told);
    assert.equal(isLost(model), true);
  }
});

test("a state that Python is asked for when a connection is back takes no choice's place", () => {
  const { add, sessionContext } = notebook();
  const model = add("shown");
  const everything = { _model_name: "AnyModel", _drawing: "old", _answer: "Python's" };
  model._expectedEchoMsgIds.set("_drawing", "message 1");
  sessionContext.connectionStatusChanged.emit("connected");
  model.set_state({ _answer: "new" });
  model.set_state(everything);
  assert.deepEqual(model.taken, [{ _answer: "new" }]);
  assert.deepEqual(model.sent, []);
});

test("what was under way when a connection was lost is sent again, unless it has arrived", () => {
  const everything = { _model_name: "AnyModel", _drawing: "old", _answer: "Python's" };
  for (const arrives of [false, true]) {
    const { add, sessionContext } = notebook();
    const model = add("shown");
    model._expectedEchoMsgIds.set("_drawing", "message 1");
    Object.assign(model, { _pending_msgs: 1, _msg_buffer: { _drawing: "newer" } });
    sessionContext.connectionStatusChanged.emit("connecting");
    sessionContext.connectionStatusChanged.emit("connected");
    if (arrives) model._expectedEchoMsgIds.set("_drawing", "message 2"); // its end has let the next one go
    model.set_state(everything);
    assert.deepEqual(model.sent, arrives ? [] : [{ _drawing: "own _drawing" }]);
    assert.deepEqual(model.taken, arrives ? [] : [{ _model_name: "AnyModel", _answer: "Python's" }]);
    assert.deepEqual([model._pending_msgs, model._msg_buffer], arrives ? [1, { _drawing: "newer" }] : [0, null]);
  }
});

test("a model without Python is saved while an output shows it", () => {
  const { add, saved, saveState } = notebook();
  const models = [add("shown"), add("shown no more"), add("elsewhere")];
  saveState.emit("started");
  assert.deepEqual(saved, {}); // JupyterLab's own way will do
  for (const model of models.slice(0, 2)) model.comm_live = model.get("layout").comm_live = false;
  saveState.emit("started");
  assert.deepEqual(Object.values(saved.widgets), [["shown", "layout of shown", "elsewhere", "layout of elsewhere"]]);
  assert.equal(isLost(models[0]), true);
});

test("an echo of an earlier choice does not undo what was chosen since", async () => {
  let frame;
  globalThis.requestAnimationFrame = (call) => { frame = call; };
  const [state, sent] = [{ flipped: [] }, []];
  const model = { get: (name) => state[name], set: (name, value) => { state[name] = value; }, save_changes: () => sent.push([...state.flipped]) };
  const choice = choices(model, ["flipped"], { schedule() {}, signal: new globalThis.AbortController().signal });
  const flip = (key) => choice.choose({ flipped: [...choice.now().flipped, key] });
  flip(1);
  state.flipped = []; // Python's answer to what was sent before
  flip(2);
  assert.deepEqual(choice.now().flipped, [1, 2]);
  state.flipped = [];
  frame();
  await new Promise((done) => { globalThis.setTimeout(done, 1); });
  assert.deepEqual(sent, [[1, 2]]);
  state.flipped = [1]; // and what Python changes afterwards counts
  assert.deepEqual(choice.now().flipped, [1]);
});

test("what is pointed at is sent with what is chosen", async () => {
  let frame = () => {};
  globalThis.requestAnimationFrame = (call) => { frame = call; };
  const state = { key: null, locked: false };
  const model = { get: (name) => state[name], set: (name, value) => { state[name] = value; }, save_changes() {} };
  const choice = choices(model, ["key", "locked"], { schedule() {}, signal: new globalThis.AbortController().signal });
  choice.point({ key: 2 });
  assert.deepEqual([choice.now().key, state.key], [2, null]); // shown, and not sent yet
  choice.choose({ locked: true });
  frame();
  await new Promise((done) => { globalThis.setTimeout(done, 1); });
  assert.deepEqual(state, { key: 2, locked: true });
});
