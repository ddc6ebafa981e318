"""A real JupyterLab in a real browser: what tests/test_browser.py and whoever wants to look at a notebook drive.

    with chromium() as browser, lab_server(course) as server:
        lab = Lab(browser, server)
        lab.open_notebook("lectures/00_start_here.ipynb")
        lab.run_all(timeout=120)
        lab.screenshot("start")        # written when HEADROOM_SCREENSHOTS names a folder

The server is the course's own launcher, on a copy of the course and with a home folder of its own, so that nothing in
the repository changes. Tests take the fixtures `browser`, `course_copy`, `server` and `lab` from conftest.py.
"""

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import nbformat
from playwright.sync_api import Browser, Locator, expect, sync_playwright
from playwright.sync_api import TimeoutError as TooLate

REPOSITORY = Path(__file__).resolve().parents[1]
COURSE_PARTS = ("lectures", "solutions", "labs", "jupyter", "nbgrader_config.py")
TOKEN = "headroom-tests"
expect.set_options(timeout=20_000)  # a busy machine is slow, not wrong
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

KERNEL_READY = """async () => {
    const session = window.jupyterapp?.shell.currentWidget?.sessionContext;
    if (!session?.isReady || !session.session?.kernel) return false;
    await session.ready;
    const kernel = session.session.kernel;
    await kernel.info;
    return kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""


def chromium_path() -> str | None:
    """Return where Chromium is, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium without a window; it ends with the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


# Has a notebook's kernel print the most memory that it ever had, in MiB; None where the system does not tell.
PEAK_MEMORY = """
import pathlib
status = pathlib.Path("/proc/self/status")
print(int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024 if status.exists() else None)
"""


def copy_course(target: Path) -> Path:
    """Copy what a student opens (notebooks and configuration, not the packages) to `target` and return it."""
    for name in COURSE_PARTS:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__"))
        elif source.is_file():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


@dataclass
class Server:
    """A running JupyterLab: its address without path, its course folder, its home folder and its process."""

    address: str
    course: Path
    home: Path
    process: subprocess.Popen
    log: Path

    def interrupt(self, timeout: float = 120) -> int:
        """Press Ctrl-C and return the exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout)


def free_port() -> int:
    """Return a port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def lab_server(
    course: Path, home: Path, port: int | None = None, timeout: float = 240, instructor: bool = False
) -> Iterator[Server]:
    """Run `python -m headroom lab` on `course` with the home folder `home`; it is interrupted at the block's end.

    The server gets no variable of Jupyter's from outside, so that it is configured by the launcher alone. Its notebooks
    run at the small scale: what they reach at full scale, test_notebooks.py looks at.
    """
    home.mkdir(parents=True, exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON", "XDG_", "MPL"))}
    command = [sys.executable, "-m", "headroom", "lab", "--no-browser", "--port", str(port or free_port())]
    command += ["--instructor"] if instructor else []
    log_path = course / "server.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*command, "--LabApp.expose_app_in_browser=True"],
            cwd=course,
            env=kept | {"HOME": str(home), "JUPYTER_TOKEN": TOKEN, "HEADROOM_SCALE": "small"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Server(_address(process, log_path, timeout), course, home, process, log_path)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _address(process: subprocess.Popen, log: Path, timeout: float) -> str:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        said = log.read_text(errors="replace")
        found = re.search(r"(http://127\.0\.0\.1:\d+)/lab", said)
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not come up:\n{log.read_text(errors='replace')}")


class Lab:
    """One browser tab on a running JupyterLab, and what it complained about."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.server = server
        self.page = browser.new_page(viewport={"width": 1400, "height": 1000})
        self.errors: list[str] = []
        self.left_the_machine: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._requested)
        self.page.on("response", self._answered)

    def _heard(self, message) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _requested(self, request) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname != "127.0.0.1":
            self.left_the_machine.append(request.url)

    def _answered(self, response) -> None:
        if response.status >= 500:
            self.errors.append(f"HTTP {response.status} for {response.url}")

    def open_notebook(self, path: str, timeout: float = 240) -> None:
        """Open a notebook (path within the course) in a fresh workspace and wait until its kernel answers."""
        name = re.sub(r"\W", "-", path)
        self.page.goto(f"{self.server.address}/lab/workspaces/{name}/tree/{path}?token={TOKEN}&reset")
        self.wait_for_kernel(timeout)

    def open_start(self, timeout: float = 240) -> None:
        """Open the address that the launcher opens, and wait until the kernel answers."""
        self.page.goto(f"{self.server.address}/?token={TOKEN}")
        self.wait_for_kernel(timeout)

    def wait_for_kernel(self, timeout: float = 240) -> None:
        """Wait until the open notebook's kernel is connected, idle and has said what it is."""
        self.page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden)", timeout=timeout * 1000)
        # Polled here: `wait_for_function` takes the promise of an async function for an answer.
        deadline = time.monotonic() + timeout
        while not self.page.evaluate(KERNEL_READY):
            self._no_dialog()
            if time.monotonic() > deadline:
                self.screenshot("kernel-not-ready")
                raise AssertionError(f"after {timeout} s the kernel is not ready")
            time.sleep(0.2)

    def _no_dialog(self) -> None:
        dialog = self.page.locator(".jp-Dialog")
        if dialog.count():
            self.screenshot("dialog")
            raise AssertionError(f"a dialog is in the way: {dialog.first.inner_text()}")

    def cells(self) -> list[dict]:
        """Return the open notebook's cells in nbformat's form: what the kernel has answered so far, drawn or not."""
        return self.page.evaluate(
            "() => jupyterapp.shell.currentWidget.content.widgets.map((cell) => cell.model.toJSON())"
        )

    def set_source(self, cell_id: str, source: str) -> None:
        """Replace a cell's source, as typing would."""
        found = self.page.evaluate(
            """([id, source]) => {
                const cell = jupyterapp.shell.currentWidget.content.widgets.find((cell) => cell.model.id === id);
                cell?.model.sharedModel.setSource(source);
                return Boolean(cell);
            }""",
            [cell_id, source],
        )
        if not found:
            raise AssertionError(f"the open notebook has no cell {cell_id}")

    def run_all(self, timeout: float = 300) -> list[dict]:
        """Run all cells, wait until the last has been run, and return the cells.

        A cell that raises stops the run as it does for a user; an AssertionError then says which.
        """
        # The command is not awaited: inside `evaluate` that hangs. It is polled instead.
        self.page.evaluate("() => { void jupyterapp.commands.execute('notebook:run-all-cells'); }")
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            cells = self.cells()
            code = [cell for cell in cells if cell["cell_type"] == "code" and "".join(cell["source"]).strip()]
            for cell in code:
                for output in cell["outputs"]:
                    if output["output_type"] == "error":
                        raise AssertionError(f"cell {cell['id']} raised {output['ename']}: {output['evalue']}")
            if all(cell["execution_count"] for cell in code) and self._idle():
                return cells
            self._no_dialog()
            time.sleep(0.3)
        self.screenshot("run-all-timed-out")
        waiting = [cell["id"] for cell in code if not cell["execution_count"]]
        raise AssertionError(f"after {timeout} s these cells have not been run: {waiting}")

    def run_cell(self, cell_id: str, timeout: float = 120) -> dict:
        """Run one cell as Shift-Enter does, wait for its end and return it; an error in it is an AssertionError."""
        self.cell(cell_id)
        self.page.evaluate(
            """(id) => {
                const notebook = jupyterapp.shell.currentWidget.content;
                notebook.activeCellIndex = notebook.widgets.findIndex((cell) => cell.model.id === id);
                notebook.activeCell.model.clearExecution();
                void jupyterapp.commands.execute('notebook:run-cell');
            }""",
            cell_id,
        )
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            cell = next(cell for cell in self.cells() if cell["id"] == cell_id)
            for output in cell["outputs"]:
                if output["output_type"] == "error":
                    raise AssertionError(f"cell {cell_id} raised {output['ename']}: {output['evalue']}")
            if cell["execution_count"] and self._idle():
                return cell
            self._no_dialog()
            time.sleep(0.2)
        raise AssertionError(f"after {timeout} s the cell {cell_id} has not been run")

    def _idle(self) -> bool:
        return self.page.evaluate(
            "() => jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === 'idle'"
        )

    def cell(self, cell_id: str) -> Locator:
        """Scroll a cell into view (JupyterLab draws only what is near the window) and return its element."""
        index = self.page.evaluate(
            """async (id) => {
                const notebook = jupyterapp.shell.currentWidget.content;
                const index = notebook.widgets.findIndex((cell) => cell.model.id === id);
                if (index >= 0) await notebook.scrollToItem(index, 'start');
                return index;
            }""",
            cell_id,
        )
        if index < 0:
            raise AssertionError(f"the open notebook has no cell {cell_id}")
        found = self.page.locator(
            f'.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-cell[data-windowed-list-index="{index}"]'
        )
        found.wait_for(state="attached")
        return found

    def run_command(self, command: str) -> None:
        """Run one of JupyterLab's commands, such as `nbgrader:open-formgrader`, without waiting for it."""
        self.page.evaluate("(command) => { void jupyterapp.commands.execute(command); }", command)

    def bring_to_front(self, tab: str, shown: Locator, timeout: float = 240) -> None:
        """Click a tab until something in it is to be seen.

        Once is not enough: JupyterLab, when it is slow, brings the notebook of its address to the front late.
        """
        deadline = time.monotonic() + timeout
        while not shown.is_visible():
            if time.monotonic() > deadline:
                self.screenshot("not-in-front")
                raise AssertionError(f"after {timeout} s, nothing to be seen in {tab}: {shown}")
            for handle in self.page.get_by_role("tab", name=tab, exact=True).all():
                handle.click()
            time.sleep(0.5)

    def complete(self, code: str) -> str:
        """Return what the kernel offers after `code`, as JSON."""
        return self.page.evaluate(
            """async (code) => {
                const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                const reply = await kernel.requestComplete({ code, cursor_pos: code.length });
                return JSON.stringify(reply.content);
            }""",
            code,
        )

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            self.page.keyboard.press(key)

    def screenshot(self, name: str) -> None:
        """Write a picture of the window when the environment variable HEADROOM_SCREENSHOTS names a folder."""
        folder = os.environ.get("HEADROOM_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))

    def close(self) -> None:
        """Close the tab."""
        self.page.close()


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
        # The browser tells of an opening, and the widget fills its table, only after the click has returned.
        table.evaluate(
            """(table) => {
                const told = (done) => table.addEventListener("toggle", () => done(), { once: true });
                table.toggled = new Promise(told);
            }"""
        )
        table.locator(":scope > summary").click()
        table.evaluate("(table) => table.toggled")


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
        self.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
        self.page.evaluate("() => jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.tab.open_notebook(self.path)
        try:
            self.tab.cell(shown).locator(".headroom-widget").wait_for(timeout=60_000)
        except TooLate:
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
