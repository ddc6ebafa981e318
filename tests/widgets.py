"""Widgets on a page, in JupyterLab and without it: what the tests of each widget look at and press."""

import base64
import json
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import nbformat
import numpy as np
from playwright.sync_api import Browser, Locator, expect
from playwright.sync_api import TimeoutError as TooLate

from tests.browser import Lab, Server


def dequantise(buffer: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """The weights that the browser sees: the buffer of `quantise` as float32 of the given shape."""
    return (np.frombuffer(buffer, dtype="<u2").reshape(shape) / (2**16 - 1)).astype(np.float32)


CLOSED = "WebSocket is already in CLOSING or CLOSED state."  # where a message is under way when a kernel is ended


@dataclass
class Widget:
    """A widget on the page, as it stands now: JupyterLab may draw it anew when its cell has been out of sight."""

    root: Locator

    def part(self, name: str) -> Locator:
        """What carries `data-part=name`."""
        return self.root.locator(f"[data-part={name}]")

    def painted(self) -> None:
        """Wait until all that has been done so far is painted: a widget paints once a frame, not at each event."""
        self.root.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"
        )

    def open_table(self) -> Locator:
        """Open the table view, where it is closed, and return it filled."""
        table = self.part("table")
        if table.get_attribute("open") is None:
            self._toggle(table)
        return table

    def close_table(self) -> None:
        """Close the table view."""
        self._toggle(self.part("table"))

    def _toggle(self, table: Locator) -> None:
        # The browser tells of an opening, and the widget fills its table, only after the click has returned. It never
        # tells of it where JupyterLab has drawn the widget anew in between, with its table as it was.
        opened = table.get_attribute("open")
        for last in (False, True):
            if table.get_attribute("open") == opened:
                table.evaluate(
                    """(table) => {
                        table.told = false;
                        table.addEventListener("toggle", () => { table.told = true; }, { once: true });
                    }"""
                )
                table.locator(":scope > summary").click()
            try:
                return expect(table).to_have_js_property("told", True)
            except AssertionError:
                if last:
                    raise


class WidgetNotebook:
    """An open notebook whose cells have been run, some of which show a widget."""

    def __init__(self, tab: Lab, path: str) -> None:
        self.tab = tab
        self.page = tab.page
        self.path = path

    def widget(self, cell: str) -> Widget:
        """Scroll the cell into view and return the widget in its output."""
        output = self.tab.cell(cell).locator(".jp-Cell-outputWrapper")
        root = output.locator(".headroom-widget")
        try:
            root.wait_for(timeout=240_000)
        except TooLate as error:
            self.tab.screenshot("no-widget")
            shown = " | ".join(output.all_inner_texts())
            raise AssertionError(f"{cell} shows no widget but {shown!r}; errors: {self.tab.errors}") from error
        return Widget(root)

    def reopen_without_kernel(self, shown: str) -> None:
        """Save the notebook, end its kernel and open it anew; the cell `shown` has a widget then.

        If it has none, the page is loaded once more, as a reader would: JupyterLab reads the saved widgets after an
        exchange with the new kernel, and when that is interrupted, drops them without a word (`restoreWidgets`).
        """
        self.page.evaluate("() => jupyterapp.shell.currentWidget.context.save()")
        self.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.tab.open_notebook(self.path)
        self.tab.errors[:] = [error for error in self.tab.errors if error != CLOSED]  # of the page that was left
        try:
            self.tab.cell(shown).locator(".headroom-widget").wait_for(timeout=60_000)
        except TooLate:
            self.tab.errors.clear()  # of the load that was interrupted
            self.tab.open_notebook(self.path)

    def press(self, widget: Widget, part: str, *keys: str) -> None:
        """Focus a part of the widget and press keys, one after the other."""
        widget.part(part).first.focus()
        self.tab.press(*keys)

    def read(self, cell: str, until: Callable[[dict], bool] = bool, **expected) -> dict:
        """Run a cell that prints a JSON object and return it, once it holds what is expected, and `until` does.

        ipywidgets sends a change when the kernel has answered the one before, so the first answer may be early. The
        cell comes into view: ask for a widget again before you use it.
        """
        for _ in range(20):
            answer = json.loads("".join(self.tab.run_cell(cell)["outputs"][0]["text"]))
            if expected.items() <= answer.items() and until(answer):
                return answer
        raise AssertionError(f"{expected} has not reached Python: {answer}")


def place_in(canvas: Locator, row: float, column: float) -> dict:
    """Where a cell of a drawn matrix lies, as Playwright takes it; the canvas says how its cells are laid out."""
    laid = {name: float(canvas.get_attribute(f"data-{name}")) for name in ("left", "top", "cell-width", "cell-height")}
    return {
        "x": laid["left"] + (column + 0.5) * laid["cell-width"],
        "y": laid["top"] + (row + 0.5) * laid["cell-height"],
    }


@contextmanager
def widget_notebook(browser: Browser, server: Server, name: str, cells: dict[str, str]) -> Iterator[WidgetNotebook]:
    """Write a notebook, open it in a tab of its own and run it.

    Args:
        name: of the notebook's file, without its ending; each module of tests takes another.
        cells: source of each code cell by its id; common indentation is taken off.
    """
    written = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for identity, source in cells.items():
        written.cells.append(nbformat.v4.new_code_cell(textwrap.dedent(source).strip(), id=identity))
    nbformat.write(written, server.course / f"{name}.ipynb")
    tab = Lab(browser, server)
    tab.open_notebook(f"{name}.ipynb")
    tab.run_all(timeout=180)
    yield WidgetNotebook(tab, f"{name}.ipynb")
    tab.close()


# Shows a widget in a page that holds nothing else: no Jupyter, no network.
EXPORTED = """async ([esm, css, sent]) => {
    const style = document.createElement("style");
    style.textContent = css;
    document.head.append(style);
    const mark = document.createElement("script");
    mark.type = "application/vnd.jupyter.widget-state+json"; // as nbconvert writes it
    document.head.append(mark);
    const bytes = (value) => new DataView(Uint8Array.from(atob(value.base64), (one) => one.charCodeAt(0)).buffer);
    const state = JSON.parse(sent, (_, value) => (value?.base64 === undefined ? value : bytes(value)));
    const heard = {};
    const model = {
        get: (name) => state[name],
        set: (name, value) => { state[name] = value; for (const call of heard[`change:${name}`] ?? []) call(); },
        on: (name, call) => (heard[name] ??= []).push(call),
        off: () => {}, save_changes: () => {}, send: () => {},
    };
    const { default: widget } = await import(URL.createObjectURL(new Blob([esm], { type: "text/javascript" })));
    widget.render({ model, el: document.body });
}"""


def exported(widget) -> str:
    """What an exported page holds of a widget, as JSON: the third of what EXPORTED takes, after `front_end`'s two."""

    def encode(value):
        if isinstance(value, bytes | memoryview | bytearray):
            return {"base64": base64.b64encode(bytes(value)).decode()}
        raise TypeError(f"{type(value).__name__} cannot be sent to the browser")

    state = {name: value for name, value in widget.get_state().items() if name not in ("_esm", "_css")}
    return json.dumps(state, default=encode)
