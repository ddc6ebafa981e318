"""Every notebook of the course: stored clean, formatted, linked to what exists, and running without a complaint."""

import functools
import re
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

import nbformat
import pytest

from autograder.pipeline.cells import checked_name
from headroom import notebooks
from tests.browser import copy_course
from tests.notebook_checks import (
    REPOSITORY,
    broken_links,
    complaints,
    exchanged_axes,
    glossary,
    letters,
    long_cells,
    miscoloured,
    read,
    run_watched,
    speechless_figures,
    too_large,
    unknown_axes,
)
from tests.quotes import ill_formed, misquoted

STORED = [path.relative_to(REPOSITORY).as_posix() for path in notebooks.find(REPOSITORY)]
LECTURES = [name for name in STORED if name.startswith("lectures/")]
SOLUTIONS = [name for name in STORED if name.startswith("solutions/")]
LABS = [name for name in STORED if name.startswith("labs/")]

every_stored = pytest.mark.parametrize("name", STORED)
every_lecture = pytest.mark.parametrize("name", LECTURES)


def every_executed(names: list[str]) -> pytest.MarkDecorator:
    """Each notebook as `make test` runs it, at the small scale of headroom/scale.py, and as a reader does."""
    small = [pytest.param(name, "small", id=f"{name}-small") for name in names]
    full = [pytest.param(name, "full", id=f"{name}-full", marks=pytest.mark.full) for name in names]
    return pytest.mark.parametrize(("name", "scale"), small + full)


@functools.cache
def course() -> Path:
    return copy_course(Path(tempfile.mkdtemp(prefix="headroom-executed-")) / "headroom")


@functools.cache
def executed(name: str, scale: str) -> nbformat.NotebookNode:
    """Run a notebook in a clean kernel, in a copy of the course, once per session; errors stay in its outputs.

    What its shapes were found to be is in its metadata: `shapes_compared` and `shapes_wrong`; also its `peak_memory`.
    """
    return run_watched(read(name), (course() / name).parent, scale)


# --- The course ------------------------------------------------------------------------------------------------------


def test_the_course_has_its_first_notebook() -> None:
    assert "lectures/00_start_here.ipynb" in STORED


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


@every_executed(LECTURES + SOLUTIONS)
def test_runs_from_top_to_bottom_without_a_complaint(name: str, scale: str) -> None:
    assert complaints(executed(name, scale)) == []


@every_stored
def test_quoted_numbers_stand_in_their_text(name: str) -> None:
    assert ill_formed(read(name)) == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.full) for name in LECTURES])
def test_quoted_numbers_are_printed_at_full_scale(name: str) -> None:
    assert misquoted(executed(name, "full")) == []


@every_executed(LECTURES + SOLUTIONS)
def test_fits_into_a_laptop(name: str, scale: str) -> None:
    assert too_large(executed(name, scale)) == []


@every_executed(LECTURES + SOLUTIONS)
def test_every_figure_has_a_description(name: str, scale: str) -> None:
    assert speechless_figures(executed(name, scale)) == []


@every_executed(LECTURES)
def test_every_figure_says_what_it_counts_and_what_its_colours_are(name: str, scale: str) -> None:
    assert executed(name, scale).metadata.figures_wrong == []


def test_text_leads(capsys: pytest.CaptureFixture) -> None:
    """Each lecture begins and ends in words. How much text there is for how much code is reported, not judged."""
    rows = []
    for name in LECTURES:
        cells = read(name).cells
        assert (cells[0].cell_type, cells[-1].cell_type) == ("markdown", "markdown"), name
        words = sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
        code = [len(cell.source.splitlines()) for cell in cells if cell.cell_type == "code"]
        kinds = "".join("c" if cell.cell_type == "code" else "t" for cell in cells if "ask(" not in cell.source)
        run = max(map(len, kinds.split("t")))
        rows.append(
            f"{name:45} {words:5} words, {sum(code):4} lines of code: {words / sum(code):4.1f} to one; "
            f"cells of {statistics.median(code):g} lines, at most {max(code)}; at most {run} without a word between"
        )
    with capsys.disabled():
        print("", *rows, sep="\n")


@every_lecture
def test_shapes_have_the_names_of_the_glossary(name: str) -> None:
    assert unknown_axes(read(name)) == []


def test_letters_that_come_back_are_in_the_glossary() -> None:
    used = defaultdict(set)
    for name in LECTURES:
        for cell in read(name).cells:
            for letter in letters(cell.source) if cell.cell_type == "markdown" else ():
                used[letter].add(name)
    missing = {
        letter: sorted(names) for letter, names in used.items() if len(names) > 1 and letter not in glossary().letters
    }
    assert missing == {}
    assert sorted(glossary().letters - set(used)) == [], "in the glossary, and in no lecture"


@every_stored
def test_queries_keys_and_values_have_their_colours(name: str) -> None:
    assert miscoloured(read(name)) == []


@every_stored
def test_rows_of_a_map_are_queries(name: str) -> None:
    assert exchanged_axes(read(name)) == []


@every_executed(LECTURES + SOLUTIONS)
def test_shapes_are_what_their_lines_say(name: str, scale: str) -> None:
    about = executed(name, scale).metadata
    assert about.shapes_wrong == []
    lines = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "code")
    stated = re.findall(r"^\w[\w, ]* = [^\n]*#[^\n]*\([^()\n]*,[^()\n]*\)", lines, re.MULTILINE)
    assert about.shapes_compared >= min(5, len(stated) // 2), "the watch has seen too few"


def verdicts(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What each check says, by the name of what it checks."""
    return {
        name: "".join(output.data["text/plain"] for output in cell.outputs if "data" in output)
        for cell in notebook.cells
        if (name := checked_name(cell))
    }


@every_executed(SOLUTIONS)
def test_every_check_of_a_solved_lab_passes(name: str, scale: str) -> None:
    said = verdicts(executed(name, scale))
    assert said
    if scale == "small" and "classify" in said:  # lab 7's model has learned little, and only that may be said of it
        lines = re.findall(r"^  ([✓✗]) +\d+ of +\d+ %  (.*)$", said["classify"], re.MULTILINE)
        assert len(lines) == 4 and lines[0][0] == "✓", said["classify"]
        assert all(title.startswith("reads at least") for mark, title in lines if mark == "✗"), said["classify"]
        assert not re.search("Recognised|Your code stopped at", said.pop("classify"))
    assert all(text.startswith("✓") for text in said.values()), "\n\n".join(said.values())


@every_executed(SOLUTIONS)
def test_a_solved_lab_shows_its_rewards(name: str, scale: str) -> None:
    """A lab's last pictures catch what goes wrong in them, and print it: nothing else would tell."""
    printed = "".join(
        output.get("text", "")
        for cell in executed(name, scale).cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    assert not re.search(r"No (picture|training|page)|yet \(", printed), printed


@pytest.mark.parametrize("name", LABS)
def test_an_unsolved_lab_runs_to_its_end_and_says_what_is_to_be_done(name: str) -> None:
    notebook = executed(name, "small")
    assert complaints(notebook) == []
    said = verdicts(notebook)
    assert said
    for text in said.values():
        broken = text.startswith("✗") and "Recognised" in text and "lab08" in name  # which hands out broken programs
        assert broken or "not attempted yet" in text, text
