"""A real JupyterLab in a real browser: what tests/test_browser.py and whoever wants to look at a notebook drive.

    with chromium() as browser, lab_server(course) as server:
        lab = Lab(browser, server)
        lab.open_notebook("lectures/00_start_here.ipynb")
        lab.run_all(timeout=120)
        lab.screenshot("start")        # written when HEADROOM_SCREENSHOTS names a folder

The server is the course's own launcher, on a copy of the course and with a home folder of its own, so that nothing in
the repository changes. Tests take the fixtures `browser`, `course_copy`, `server` and `lab` from conftest.py.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Locator, expect, sync_playwright
from playwright.sync_api import TimeoutError as TooLate

REPOSITORY = Path(__file__).resolve().parents[1]
COURSE_PARTS = ("lectures", "solutions", "labs", "jupyter", "nbgrader_config.py")
TOKEN = "headroom-tests"
TALL = 2000  # pixels of a window that holds the largest widget
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

# What may never come (a kernel that is started anew never tells what it was) is waited for until it is asked again.
KERNEL_READY = """async () => {
    const session = window.jupyterapp?.shell.currentWidget?.sessionContext;
    if (!session?.isReady || !session.session?.kernel) return false;
    const kernel = session.session.kernel;
    const late = new Promise((done) => setTimeout(() => done(false), 5000));
    if (!(await Promise.race([session.ready.then(() => kernel.info), late]))) return false;
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
    """Run `python -m headroom lab` on `course` with the home folder `home`; it is ended at the block's end.

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
            preexec_fn=None if sys.platform == "win32" else _hear_interrupts,
        )
    try:
        yield Server(_address(process, log_path, timeout), course, home, process, log_path)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _hear_interrupts() -> None:
    """As a program in a terminal does; what a shell has started in the background is deaf to Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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
        self.page.goto(
            f"{self.server.address}/lab/workspaces/{name}/tree/{path}?token={TOKEN}&reset", timeout=timeout * 1000
        )
        self.wait_for_kernel(timeout)

    def open_start(self, timeout: float = 240) -> None:
        """Open the address that the launcher opens, and wait until the kernel answers."""
        self.page.goto(f"{self.server.address}/?token={TOKEN}", timeout=timeout * 1000)
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
                const late = new Promise((done) => setTimeout(done, 5000));
                if (index >= 0) await Promise.race([notebook.scrollToItem(index, 'start'), late]);
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

    def click_in(self, tab: str, what: Locator, timeout: float = 240, shows: Locator | None = None) -> None:
        """Click something in a tab, which may be behind another, or be put there before the click arrives.

        What the click `shows` may be put behind another tab too, for the same reason: then once more.
        """
        deadline = time.monotonic() + timeout
        while True:
            self.bring_to_front(tab, what, timeout)
            try:
                what.click(timeout=5_000)
                if shows:
                    expect(shows).to_be_visible(timeout=5_000)
                return
            except (TooLate, AssertionError):
                if time.monotonic() > deadline:
                    raise

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
        """Write a picture of the window when the environment variable HEADROOM_SCREENSHOTS names a folder.

        The window is made taller for it: a notebook scrolls within the page, so what is below would be cut off.
        """
        folder, size = os.environ.get("HEADROOM_SCREENSHOTS"), self.page.viewport_size
        if folder and size:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.set_viewport_size({"width": size["width"], "height": TALL})
            self.page.wait_for_timeout(1000)  # it is laid out and drawn anew
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))
            self.page.set_viewport_size(size)

    def close(self) -> None:
        """Close the tab."""
        self.page.close()
