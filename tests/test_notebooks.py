"""Every notebook of the course: stored clean, formatted, linked to what exists, and running without a complaint."""

import functools
import json
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from browser import copy_course
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headroom import notebooks

REPOSITORY = Path(__file__).resolve().parents[1]
STORED = [path.relative_to(REPOSITORY).as_posix() for path in notebooks.find(REPOSITORY)]
LECTURES = [name for name in STORED if name.startswith("lectures/")]
EXECUTED = [name for name in STORED if name.startswith(("lectures/", "solutions/"))]
LONGEST_CELL = 20
CELL_SECONDS = 600

every_stored = pytest.mark.parametrize("name", STORED)
every_lecture = pytest.mark.parametrize("name", LECTURES)
every_executed = pytest.mark.parametrize("name", EXECUTED)


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(REPOSITORY / name, as_version=4)


@functools.cache
def course() -> Path:
    return copy_course(Path(tempfile.mkdtemp(prefix="headroom-executed-")) / "headroom")


@functools.cache
def executed(name: str) -> nbformat.NotebookNode:
    """Run a notebook in a clean kernel, in a copy of the course, once per session; errors stay in its outputs."""
    notebook = read(name)
    folder = (course() / name).parent
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


# --- The checks: each returns what is wrong, so that they can be tried on notebooks that are wrong ------------------


def long_cells(notebook: nbformat.NotebookNode) -> list[str]:
    return [
        f"cell {cell.id} has {len(cell.source.splitlines())} lines"
        for cell in notebook.cells
        if cell.cell_type == "code" and len(cell.source.splitlines()) > LONGEST_CELL
    ]


def complaints(notebook: nbformat.NotebookNode) -> list[str]:
    """Errors, and anything on the error stream: a progress bar in a notebook is a widget and never goes there."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                found.append(f"cell {cell.id} raised {output.ename}: {output.evalue}")
            elif output.output_type == "stream" and output.name == "stderr":
                found.append(f"cell {cell.id} wrote to stderr: {output.text}")
    return found


class _Images(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open_figures = 0
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "figure":
            self.open_figures += 1
        if tag == "img":
            if not (dict(attrs).get("alt") or "").strip():
                self.wrong.append("an <img> without alt text")
            elif not self.open_figures:
                self.wrong.append("an <img> outside of a <figure>")

    def handle_endtag(self, tag: str) -> None:
        if tag == "figure":
            self.open_figures -= 1


def speechless_figures(notebook: nbformat.NotebookNode) -> list[str]:
    """Figures that a blind reader gets nothing from: JupyterLab passes no alt text along with a bare image."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            bare = [kind for kind in data if kind.startswith("image/")]
            if bare:
                found.append(f"cell {cell.id} shows a bare {bare[0]}: use headroom.figures.show(fig, alt=...)")
            images = _Images()
            images.feed("".join(data.get("text/html", "")))
            found += [f"cell {cell.id}: {wrong}" for wrong in images.wrong]
    return found


def broken_links(notebook: nbformat.NotebookNode, folder: Path) -> list[str]:
    """Links and images in the text whose target, a path within the course, does not exist."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        text = re.sub(r"```.*?```|`[^`\n]*`", "", cell.source, flags=re.DOTALL)
        targets = re.findall(r"\]\(\s*<?([^)\s>]+)", text) + re.findall(r"""(?:href|src)\s*=\s*["']([^"']+)""", text)
        for target in targets:
            path = unquote(target.split("#")[0])
            outside = re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("attachment:")
            if path and not outside and not (folder / path).exists():
                found.append(f"cell {cell.id} links to {target}, which does not exist")
    return found


# --- The checks, held against what is wrong --------------------------------------------------------------------------


def test_cleaning_takes_everything_that_running_leaves_and_nothing_else() -> None:
    solution = {"grade": False, "grade_id": "a", "locked": False, "schema_version": 3, "solution": True, "task": False}
    cell = new_code_cell("1 + 1", id="keep-me", execution_count=3, outputs=[new_output("stream", text="2")])
    cell.metadata = {"nbgrader": solution, "tags": ["x"], "execution": {"iopub.status.busy": "now"}, "scrolled": True}
    dirty = new_notebook(cells=[cell, new_markdown_cell("text")], metadata={"widgets": {}, "toc": 1})
    dirty.cells[1].id = "keep-me"
    stored = notebooks.clean(json.dumps(dirty))
    result = nbformat.reads(stored, as_version=4)
    assert result.cells[0].source == "1 + 1"
    assert (result.cells[0].outputs, result.cells[0].execution_count) == ([], None)
    assert result.cells[0].metadata == {"nbgrader": solution, "tags": ["x"]}
    assert set(result.metadata) == {"kernelspec", "language_info"}
    assert result.cells[0].id == "keep-me", "a cell's id is stable"
    assert result.cells[1].id != "keep-me", "ids are unique"
    assert notebooks.clean(stored) == stored


def test_the_checks_find_what_is_wrong(tmp_path: Path) -> None:
    bare = new_output("display_data", {"image/png": "AAAA"})
    silent = new_output("display_data", {"text/html": '<figure><img src="data:,"></figure>'})
    loose = new_output("display_data", {"text/html": '<img src="data:," alt="a line">'})
    right = new_output("display_data", {"text/html": '<figure><img src="data:," alt="a line"></figure>'})
    for output, expected in [(bare, 1), (silent, 1), (loose, 1), (right, 0)]:
        assert len(speechless_figures(new_notebook(cells=[new_code_cell("f", outputs=[output])]))) == expected
    error = new_output("error", ename="ValueError", evalue="no", traceback=[])
    warning = new_output("stream", name="stderr", text="UserWarning: old")
    said = new_output("stream", name="stdout", text="fine")
    assert len(complaints(new_notebook(cells=[new_code_cell("f", outputs=[error, warning, said])]))) == 2
    assert long_cells(new_notebook(cells=[new_code_cell("a\n" * (LONGEST_CELL + 1))]))
    (tmp_path / "here.ipynb").touch()
    linked = new_markdown_cell("[a](./here.ipynb#top) [b](gone.ipynb) <img src='gone.png'> [c](https://x.org) `[d](e)`")
    assert len(broken_links(new_notebook(cells=[linked]), tmp_path)) == 2


def test_a_progress_bar_is_a_widget_and_not_a_complaint() -> None:
    """What lets `complaints` be strict: in a kernel, tqdm.auto writes nothing to the error stream."""
    cells = [new_code_cell("from tqdm.auto import tqdm\nfor _ in tqdm(range(3)):\n    pass")]
    notebook = new_notebook(cells=[*cells, new_code_cell("import warnings\nwarnings.warn('old')")])
    ran = NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3").execute()
    assert "application/vnd.jupyter.widget-view+json" in ran.cells[0].outputs[0].data
    assert len(complaints(ran)) == 1, "the warning in the second cell, and it alone"


# --- The course ------------------------------------------------------------------------------------------------------


def test_the_course_has_its_first_notebook() -> None:
    assert "lectures/00_start_here.ipynb" in STORED


@every_stored
def test_stored_clean(name: str) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    assert text == notebooks.clean(text), f"run: python -m headroom clean {name}"


@every_stored
def test_formatted_and_linted(name: str) -> None:
    for command in (["format", "--check", "--diff"], ["check"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, name], cwd=REPOSITORY, capture_output=True, text=True
        )
        assert ran.returncode == 0, f"run: make format\n{ran.stdout}{ran.stderr}"


@every_stored
def test_nothing_is_left_to_do(name: str) -> None:
    left = [cell.id for cell in read(name).cells if re.search(r"\b(TODO|FIXME|XXX)\b", cell.source)]
    assert left == []


@every_stored
def test_links_lead_somewhere(name: str) -> None:
    assert broken_links(read(name), (REPOSITORY / name).parent) == []


@every_lecture
def test_cells_are_short(name: str) -> None:
    assert long_cells(read(name)) == []


@every_executed
def test_runs_from_top_to_bottom_without_a_complaint(name: str) -> None:
    assert complaints(executed(name)) == []


@every_executed
def test_every_figure_has_a_description(name: str) -> None:
    assert speechless_figures(executed(name)) == []
