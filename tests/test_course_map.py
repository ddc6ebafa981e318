"""The map of the course agrees with the notebooks, and the README's picture with the map."""

import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from PIL import Image

from headroom import notebooks
from headroom.course import COURSE, FURTHER
from headroom.course_map import (
    BY_NAME,
    PICTURE,
    STORED,
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
