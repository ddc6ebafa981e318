"""The page with the course's map, as jupyter/labextensions/headroom/ draws it, in a page without JupyterLab."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

SCRIPT = Path(__file__).resolve().parents[1] / "jupyter" / "labextensions" / "headroom" / "static" / "start.js"
# As much of JupyterLab as the script asks for. What it does to it is kept in `done`; `answer` is the server's next one.
LAB = """async () => {
    window.done = [];
    window.answer = { ok: true, told: { pieces: [], next: [], help: "" } };
    const signal = () => {
        const slots = [];
        return { connect: (slot) => slots.push(slot), emit: (told) => slots.forEach((slot) => slot(null, told)) };
    };
    class Widget {
        constructor({ node }) {
            Object.assign(this, { node, title: {}, isVisible: true, isDisposed: false });
            document.body.append(node);
        }
        addClass(name) { this.node.classList.add(name); }
        onCloseRequest() {}
        dispose() { this.isDisposed = true; this.node.remove(); }
    }
    const makeRequest = async (url) => {
        done.push(["asked", url]);
        return { ok: answer.ok, status: 404, json: async () => answer.told };
    };
    const packages = {
        "@lumino/widgets": { Widget }, "@jupyterlab/services": { ServerConnection: { makeRequest } },
        "@jupyterlab/notebook": { INotebookTracker: "notebooks" }, "@jupyterlab/launcher": { ILauncher: "launcher" },
    };
    const shared = Object.entries(packages).map(([name, given]) => [name, { 1: { get: async () => () => given } }]);
    window._JUPYTERLAB.headroom.init(Object.fromEntries(shared));
    const { default: plugin } = (await window._JUPYTERLAB.headroom.get("./extension"))();
    const commands = {};
    const app = {
        restored: Promise.resolve(), serviceManager: { serverSettings: { baseUrl: "/user/ann/" } },
        shell: {
            widgets: () => [], collapseLeft: () => done.push(["narrow"]),
            activateById: (id) => done.push(["activated", id]),
            add: (widget, area, { activate }) => {
                window.start = widget;
                done.push(["added", widget.title.label, area, activate]);
            },
        },
        commands: {
            addCommand: (name, command) => (commands[name] = command),
            execute: (name, given) => done.push([name, given]),
        },
    };
    window.notebooks = { widgetAdded: signal() };
    window.signal = signal;
    plugin.activate(app, notebooks, { add: ({ command }) => done.push(["launcher", commands[command].label]) });
    window.bring = () => commands["headroom:map"].execute();
    await new Promise((rest) => setTimeout(rest));
    return [plugin.id, plugin.autoStart, plugin.requires, plugin.optional];
}"""
# A notebook that was opened; what is done to it; whether it then counts as changed.
OPENED = """async (acts) => {
    const rest = () => new Promise((done) => setTimeout(done));
    const model = { dirty: false, metadataChanged: signal(), contentChanged: signal(), stateChanged: signal() };
    const node = document.createElement("div");
    notebooks.widgetAdded.emit({ context: { model, ready: Promise.resolve() }, node });
    await rest();
    for (const act of acts) {
        if (act === "pointerdown") node.dispatchEvent(new Event(act));
        else {
            if (act !== "widgets") model.contentChanged.emit();
            model.dirty = true;
            model.stateChanged.emit({ name: "dirty", newValue: true });
        }
        await rest();
    }
    return model.dirty;
}"""
TOLD = """async () => {
    const rest = () => new Promise((done) => setTimeout(done));
    const model = { dirty: false, metadataChanged: signal(), contentChanged: signal(), stateChanged: signal() };
    notebooks.widgetAdded.emit({ context: { model, ready: Promise.resolve() }, node: document.createElement("div") });
    await rest();
    model.metadataChanged.emit({ key: "language_info" });
    model.contentChanged.emit();
    model.dirty = true;
    model.stateChanged.emit({ name: "dirty", newValue: true });
    await rest();
    const told = model.dirty;
    model.metadataChanged.emit({ key: "authors" });
    model.contentChanged.emit();
    model.dirty = true;
    model.stateChanged.emit({ name: "dirty", newValue: true });
    await rest();
    return [told, model.dirty];
}"""


def piece(name: str, done: int, of: int, **more: Any) -> dict[str, Any]:
    """A lecture or lab as the server tells of it."""
    lab = name.startswith("lab")
    about = {"title": f"About {name}", "builds": f"what {name} builds", "minutes": "30", "needs": [], "place": None}
    about |= {} if lab else {"place": [int(name), 0]}
    return {"name": name, "lab": lab, "path": f"{name}.ipynb", "done": done, "of": of} | about | more


def opened(browser: Browser) -> tuple[Page, list[Any]]:
    """A page in which the script has begun, and what it says of itself to JupyterLab."""
    page = browser.new_page(viewport={"width": 1200, "height": 800})
    page.set_content("<body></body>")
    page.add_script_tag(path=SCRIPT)
    return page, page.evaluate(LAB)


def tell(page: Page, told: dict[str, Any] | None) -> None:
    """Have the page ask the server, which tells this; None: which refuses."""
    page.evaluate("async (told) => { answer = { ok: told !== null, told }; done.length = 0; await start.ask(); }", told)
