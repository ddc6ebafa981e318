// @ts-check
/* What becomes of a widget in JupyterLab when the Python behind it is gone: after a restart of the kernel, or in a
 * notebook that is opened again. It says so, goes on working, and is saved as long as an output shows it. A connection
 * that is lost and comes back changes nothing. */
import { h, write } from "./elements.js";
/** @import { JupyterModel, Model, View, WidgetManager } from "../types" */

const ENDED = ["restarting", "autorestarting", "terminating", "dead"]; // what a kernel's status is when its variables go
const LOST = "The Python behind this widget is gone. What it has sent is still here; new answers, and telling other cells what you choose, need it. Run this cell again to bring it back.";
const STATE = "application/vnd.jupyter.widget-state+json";
const VIEW = "application/vnd.jupyter.widget-view+json";
const OURS = Symbol.for("headroom.widgets"); // the models of all these front ends that a manager has: each has its own copy of this file

/** The model as JupyterLab has it; null in another page. anywidget hands over some of its functions only, but `set`
 * returns the model itself. @template T @param {Model<T>} model @returns {JupyterModel | null} */
function jupyterModel(model) {
  const whole = /** @type {any} */ (model).set({});
  return whole?.widget_manager?.context?.sessionContext ? whole : null;
}

/** Whether the Python behind a model is known to be gone. @template T @param {Model<T>} model */
export function isLost(model) {
  return jupyterModel(model)?.comm_live === false;
}

/** What anywidget calls: once for each model, and once for each view of it.
 * @template T @param {new (given: View<T>, signal: AbortSignal) => unknown} ViewOfIt `signal` ends every listener with the view */
export function frontEnd(ViewOfIt) {
  return {
    /** @param {{ model: Model<T>, signal?: AbortSignal }} given */
    initialize({ model, signal }) {
      const whole = jupyterModel(model);
      if (!whole) return;
      loseWithKernel(whole, signal);
      keepInFile(whole, signal);
      keepWhenReconnected(whole, signal);
    },
    /** @param {View<T>} given */
    render(given) {
      const ended = new AbortController();
      new ViewOfIt(given, ended.signal);
      sayWhenLost(given, ended.signal);
      return () => ended.abort();
    },
  };
}

/** JupyterLab notices a restart by itself, but not that a kernel died, was shut down or was exchanged.
 * @param {JupyterModel} whole @param {AbortSignal} [signal] */
function loseWithKernel(whole, signal) {
  const { sessionContext } = whole.widget_manager.context;
  const kernel = sessionContext.session?.kernel?.id;
  const onStatus = (/** @type {unknown} */ _, /** @type {string} */ status) => {
    if (ENDED.includes(status)) whole.comm_live = false;
  };
  const onKernel = () => {
    if (sessionContext.session?.kernel?.id !== kernel) whole.comm_live = false;
  };
  sessionContext.statusChanged.connect(onStatus);
  sessionContext.kernelChanged.connect(onKernel);
  signal?.addEventListener("abort", () => {
    sessionContext.statusChanged.disconnect(onStatus);
    sessionContext.kernelChanged.disconnect(onKernel);
  });
}

/** JupyterLab saves the state of models that have Python behind them, and of no others: those that an output shows are
 * added here, so that saving after a restart does not leave an output that names no model.
 * @param {JupyterModel} whole @param {AbortSignal} [signal] */
function keepInFile(whole, signal) {
  const manager = whole.widget_manager;
  const first = !manager[OURS];
  const ours = manager[OURS] ??= new Set();
  ours.add(whole);
  signal?.addEventListener("abort", () => ours.delete(whole));
  if (!first) return;
  manager.context.saveState.connect((_, state) => {
    const lost = state === "started" ? [...ours].filter((one) => !one.comm_live) : [];
    if (!lost.length) return;
    const shown = shownModels(manager);
    const added = lost.filter((one) => shown.has(one.model_id)).flatMap((one) => [one, one.get("layout")]);
    for (const one of added) one.comm_live = true; // for the manager's own way of writing a state
    try {
      manager.context.model.setMetadata("widgets", { [STATE]: manager.get_state_sync({ drop_defaults: true }) });
    } finally {
      for (const one of added) one.comm_live = false;
    }
  });
}

/** JupyterLab asks Python for all states when a lost connection is back. What comes is older than what the reader has
 * chosen meanwhile, and would take its place; what Python changed meanwhile comes anyway: the server keeps its messages.
 * What was on its way to Python may be lost, though, and ipywidgets would wait for its end for ever: then all that the
 * reader has chosen is sent again.
 * @param {JupyterModel} whole @param {AbortSignal} [signal] */
function keepWhenReconnected(whole, signal) {
  const { connectionStatusChanged } = whole.widget_manager.context.sessionContext;
  const sent = () => [...whole._expectedEchoMsgIds.values()].join();
  /** @type {string | null} */
  let underWay = null; // what had been sent last when the connection came back, and was not answered
  const onConnection = (/** @type {unknown} */ _, /** @type {string} */ status) => {
    if (status === "connected") underWay = whole._pending_msgs > 0 ? sent() : null;
  };
  connectionStatusChanged.connect(onConnection);
  signal?.addEventListener("abort", () => connectionStatusChanged.disconnect(onConnection));
  const set = whole.set_state.bind(whole);
  whole.set_state = (state) => {
    if (!("_model_name" in state)) return set(state); // a change names what has changed only
    if (whole._pending_msgs === 0 || underWay !== sent()) return; // the connection took it along
    const own = [...whole._expectedEchoMsgIds.keys()];
    set(Object.fromEntries(Object.entries(state).filter(([name]) => !own.includes(name))));
    [whole._pending_msgs, whole._msg_buffer] = [0, null];
    for (const name of own) whole._buffered_state_diff[name] = whole.get(name);
    whole.save_changes();
  };
}

/** The models that the notebook's outputs show. @param {WidgetManager} manager */
function shownModels(manager) {
  const outputs = [...manager.context.model.cells].flatMap((cell) => cell.outputs?.toJSON() ?? []);
  return new Set(outputs.map(({ data }) => data?.[VIEW]?.model_id));
}

/** A line above everything else, as soon as the Python behind the widget is gone.
 * @template T @param {View<T>} _ @param {AbortSignal} signal */
function sayWhenLost({ model, el }, signal) {
  const line = h("p", { "data-part": "lost", role: "status", hidden: true });
  el.querySelector(".headroom-widget")?.prepend(line);
  const say = () => {
    line.hidden = !isLost(model);
    write(line, line.hidden ? "" : LOST);
  };
  const later = () => void setTimeout(say, 0); // `keepInFile` sets it and takes it back
  model.on("comm_live_update", later);
  signal.addEventListener("abort", () => model.off("comm_live_update", later));
  say();
}
