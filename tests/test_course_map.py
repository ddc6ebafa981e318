"""The map of the course agrees with the notebooks, and the README's picture with the map."""

import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from matplotlib.text import Annotation
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image

from headroom import notebooks
from headroom.course import COURSE, FURTHER, needed
from headroom.course_map import (
    BY_NAME,
    PICTURE,
    STORED,
    Length,
    Piece,
    contents,
    course_map,
    drawn_from,
    existing,
    length,
    minutes,
)

REPOSITORY = Path(__file__).resolve().parents[1]


def stored(piece: Piece) -> nbformat.NotebookNode:
    path = piece.notebook(REPOSITORY)
    assert path is not None
    return nbformat.read(path, as_version=4)


def test_every_notebook_is_on_the_map() -> None:
    mapped = {piece.notebook(REPOSITORY) for piece in COURSE}
    on_disk = {path for path in notebooks.find(REPOSITORY) if "solutions" not in path.parts}
    assert on_disk == mapped


def test_nothing_needs_what_comes_later() -> None:
    lectures = [piece for piece in COURSE if not piece.is_lab]
    assert [int(piece.name) for piece in lectures] == list(range(15))
    for piece in COURSE:
        needed = [BY_NAME[name] for name in piece.needs]
        assert not any(one.is_lab for one in needed)
        assert all(COURSE.index(one) < COURSE.index(piece) for one in needed)
    assert len({piece.place for piece in lectures}) == len(lectures), "two boxes lie on one another"


def before(piece: Piece) -> set[str]:
    """What comes before it on the map, however far."""
    return {name for need in piece.needs for name in (need, *before(BY_NAME[need]))}


LECTURES = [piece for piece in COURSE if not piece.is_lab]


@pytest.mark.parametrize("piece", COURSE, ids=lambda piece: piece.name)
def test_lectures_that_the_first_cell_names_come_before_it_on_the_map(piece: Piece) -> None:
    first = stored(piece).cells[0].source
    named = {int(number) for number in re.findall(r"/(\d\d)_\w+\.ipynb", first)}
    for low, high in re.findall(r"\blectures? (\d+)(?: (?:and|to) (\d+))?\b", first):
        named |= {*range(int(low), int(high or low) + 1)}
    earlier = {f"{number:02}" for number in named if piece.is_lab or number < int(piece.name)}
    assert earlier <= before(piece)


@pytest.mark.parametrize("piece", LECTURES, ids=lambda piece: piece.name)
def test_a_lecture_takes_as_long_as_it_says(piece: Piece) -> None:
    cells = stored(piece).cells
    core, further = length(stored(piece))
    beside = f"; the folded parts take {further.minutes} more" if further.minutes else ""
    assert f"About {core.minutes} minutes{beside}." in cells[0].source


@pytest.mark.parametrize("piece", LECTURES, ids=lambda piece: piece.name)
def test_a_lectures_core_path_is_short_and_asks_for_predictions(piece: Piece) -> None:
    core, _ = length(stored(piece))
    assert core.words <= 2200 and core.lines <= 150 and core.questions >= (3 if piece.needs else 1)


@pytest.mark.parametrize("piece", LECTURES, ids=lambda piece: piece.name)
def test_what_is_beside_the_core_path_is_folded(piece: Piece) -> None:
    beside = [cell for cell in stored(piece).cells if cell.source.startswith(FURTHER)]
    assert all(cell.metadata.get("jp-MarkdownHeadingCollapsed") for cell in beside)
    assert all("\n" not in cell.source for cell in beside), "what stands in the heading's own cell is not folded"


def test_the_list_leads_to_every_notebook_and_never_asks_for_one_that_does_not_exist(tmp_path) -> None:
    text = contents(REPOSITORY)
    for piece in existing(REPOSITORY):
        [target] = re.findall(rf"\[{piece.called} · [^]]+\]\(([^)]+)\)", text)
        assert (REPOSITORY / "lectures" / target).is_file()
    there = {piece.called.lower() for piece in existing(REPOSITORY)}
    for row in text.splitlines()[2:]:
        needs = row.split("|")[-2].strip()
        assert needs == "nothing" or set(needs.split(", ")) <= there
    assert len(contents(tmp_path).splitlines()) == 2, "where nothing exists, nothing is listed"


def test_the_map_shows_every_lecture_and_lab_and_its_minutes() -> None:
    fig = course_map(REPOSITORY)
    shown = " ".join(text.get_text() for text in fig.axes[0].texts)
    for piece in COURSE:
        assert piece.title in shown
        assert minutes(piece, REPOSITORY), f"the first cell of {piece.called} does not say how long it takes"
    plt.close(fig)


def test_the_map_leaves_out_a_lab_whose_folder_is_gone(tmp_path: Path) -> None:
    dropped = next(piece for piece in COURSE if piece.is_lab)
    for folder in ("lectures", "labs"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=shutil.ignore_patterns(f"{dropped.name}_*"))
    fig = course_map(tmp_path)
    shown = " ".join(text.get_text() for text in fig.axes[0].texts)
    assert f"· {dropped.title}" not in shown
    n_labs = sum(piece.is_lab for piece in COURSE) - 1
    assert f"and {n_labs} labs" in fig.get_suptitle()
    plt.close(fig)


def test_the_readmes_picture_is_the_map_as_it_is_now() -> None:
    with Image.open(REPOSITORY / PICTURE) as picture:
        drawn = picture.text[STORED]
    assert drawn == drawn_from(REPOSITORY), "a notebook came or changed its minutes; run: python -m headroom map"
    assert PICTURE.as_posix() in (REPOSITORY / "README.md").read_text(encoding="utf-8")


# --- How it is counted, listed and drawn ----------------------------------------------------------------------------


def written(path: Path, *cells: nbformat.NotebookNode) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("About 30 minutes.", "30"),
        ("60 to 90 minutes", "60–90"),
        ("It takes 60–90 minutes; the rest 20 minutes.", "60–90"),
        ("60-90 minutes", "60–90"),
        ("Half an hour.", ""),
    ],
)
def test_the_first_cell_says_how_long_a_piece_takes(first: str, expected: str, tmp_path: Path) -> None:
    written(tmp_path / "lectures" / "03_heads.ipynb", new_markdown_cell(first), new_markdown_cell("5 minutes"))
    assert minutes(BY_NAME["03"], tmp_path) == expected
    assert minutes(BY_NAME["04"], tmp_path) == "", "it is not there"


def test_in_place_of_what_is_not_there_stands_what_it_needs(tmp_path: Path) -> None:
    for name in (
        "lectures/06_a",
        "lectures/08_b",
        "lectures/12_c",
        "labs/lab08_d/d",
        "labs/lab05_e/e",
        "lectures/05_f",
    ):
        written(tmp_path / f"{name}.ipynb", new_markdown_cell("About 10 minutes."))
    assert [piece.name for piece in needed(BY_NAME["12"], tmp_path)] == ["06", "08"], "06 for 09, in the course's order"
    assert [piece.name for piece in needed(BY_NAME["lab08"], tmp_path)] == ["12"]
    assert needed(BY_NAME["05"], tmp_path) == []
    assert [piece.name for piece in existing(tmp_path)] == ["05", "06", "lab05", "08", "12", "lab08"]
    rows = contents(tmp_path).splitlines()[2:]
    assert rows[4] == (
        "| [Lecture 12 · Case files](../lectures/12_c.ipynb) | broken programs: symptom, search, repair, cost "
        "| 10 | lecture 6, lecture 8 |"
    )
    assert rows[0].endswith("| 10 | nothing |") and "](../labs/lab05_e/e.ipynb)" in rows[2]


def test_the_length_of_a_lecture_is_counted_apart_for_what_is_beside_its_path() -> None:
    hidden = {"jupyter": {"source_hidden": True}}
    cells = [
        new_markdown_cell("# Title\n\nThree more|words | – | $$x$$"),
        new_code_cell("a = 1\n\nb = 2\nshow(fig, alt='')"),
        new_code_cell("ask('''…''')\nask('''…''')"),
        new_code_cell("from headroom.widgets import DigitPad\nc = 3", metadata=hidden),
        new_markdown_cell(f"{FURTHER}more"),
        new_markdown_cell("### Below it\n1. Try this\n2. And that"),
        new_code_cell("d = 4"),
        new_markdown_cell("## Back on the path"),
    ]
    core, beside = length(new_notebook(cells=cells))
    assert (core.words, core.lines, core.questions, core.pauses) == (1 + 3 + 1 + 4, 3, 2, 3)
    assert (beside.words, beside.lines, beside.questions, beside.pauses) == (2 + 2 + 3 + 3, 1, 0, 2)


@pytest.mark.parametrize(
    ("words", "lines", "questions", "pauses", "expected"),
    [(0, 0, 0, 0, 0), (1, 0, 0, 0, 5), (1500, 0, 0, 0, 10), (0, 60, 0, 0, 10), (0, 0, 10, 0, 15), (0, 0, 0, 10, 15)],
)
def test_a_minute_is_150_words_or_six_lines(words: int, lines: int, questions: int, pauses: int, expected: int) -> None:
    assert Length(words, lines, questions, pauses).minutes == expected


def test_an_arrow_leads_to_each_lecture_from_what_it_needs() -> None:
    ax = course_map(REPOSITORY).axes[0]
    boxes = {}
    for patch in ax.patches:
        [inside] = [
            text.get_text()
            for text in ax.texts
            if "·" in text.get_text() and patch.contains_point(ax.transData.transform(text.get_position()))
        ]
        boxes[inside] = (patch.get_bbox(), patch.get_facecolor())
    labs = {name for name in boxes if name.startswith("Lab")}
    assert len({boxes[name][1] for name in labs}) == len({boxes[name][1] for name in set(boxes) - labs}) == 1
    called = {piece.name: f"{int(piece.name)} · {piece.title}" for piece in LECTURES}
    columns = {tuple(text.xy): tuple(text.xyann) for text in ax.texts if isinstance(text, Annotation)}
    assert len(columns) == sum(len(piece.needs) for piece in LECTURES)
    found = set()
    for end, begin in columns.items():
        near = [
            min(called, key=lambda name, at=at: distance(boxes[called[name]][0], at, labs, boxes))
            for at in (begin, end)
        ]
        found.add(tuple(near))
    assert found == {(need, piece.name) for piece in LECTURES for need in piece.needs}
    plt.close("all")


def distance(box, at: tuple[float, float], labs, boxes) -> float:
    """How far a point is from the edges of a lecture's box, or of its lab's below it."""
    below = [other for name in labs if (other := boxes[name][0]).x0 == box.x0 and other.y0 == pytest.approx(box.y1)]
    bottom = below[0].y1 if below else box.y1
    x, y = at
    return max(box.x0 - x, x - box.x1, 0) + max(box.y0 - y, y - bottom, 0)
