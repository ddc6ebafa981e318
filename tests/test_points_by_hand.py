"""Points that somebody gave by hand, when what was handed in is graded again, by make grade or by nbgrader."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from autograder.pipeline import submission
from autograder.pipeline.by_hand import answers
from autograder.pipeline.integrity import UNSEEN
from autograder.pipeline.standing import GRADED, IN_PART, standings
from autograder.pipeline.writer import Writer
from tests import small_course
from tests.small_course import book, hand_in
from tests.test_markup import PNG
from tests.test_workers import graded_elsewhere

GRADED_FILE = "autograded/ann/lab1/first.ipynb"
Regrade = Callable[..., None]


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course with a lab that has a check of 10 points, and an answer in prose for 3."""
    course = small_course.make(tmp_path, monkeypatch)
    with book(course) as gradebook:
        gradebook.add_grade_cell("prose", "first", "lab1", max_score=3, cell_type="markdown")
        gradebook.add_solution_cell("prose", "first", "lab1")
        gradebook.add_source_cell("prose", "first", "lab1", cell_type="markdown", source="")
    hand_in(course, "ann")
    return course


def notebook(text: str, picture: str = "", **about: bool) -> bytes:
    """A graded notebook with an answer."""
    cell = new_markdown_cell(text)
    cell.metadata["nbgrader"] = {"grade_id": "prose", "grade": True, "solution": True, "points": 3}
    if picture:
        cell.attachments = {"a.png": {"image/png": picture}}
    return nbformat.writes(new_notebook(cells=[cell], metadata=about)).encode()


def by_make_grade(course: Path, text: str, picture: str = "", **about: bool) -> None:
    """As make grade writes it when a worker has graded it."""
    url = f"sqlite:///{course}/gradebook.db"
    rows = graded_elsewhere(course, url, 4.0)
    for row in rows["grade"]:
        if row["auto_score"] is None or row["manual_score"] is not None:  # nbgrader's rule
            row.update(
                auto_score=None if text else 0.0, needs_manual_grade=bool(text) or row["manual_score"] is not None
            )
    config = Config(CourseDirectory={"root": str(course), "course_id": "course", "db_url": url})
    answer = {"rows": rows, "files": [GRADED_FILE]}
    Writer(course, config, print, print).write("lab1", "ann", answer, [notebook(text, picture, **about)])


def by_nbgrader(course: Path, text: str, picture: str = "", **about: bool) -> None:
    """As nbgrader's own commands do it, up to what runs in the unit."""
    graded = notebook(text, picture, **about).decode()
    path = course / GRADED_FILE

    def in_the_unit(request: dict[str, Any]) -> str:
        with book(course) as gradebook:
            check: Any = gradebook.find_grade("check", "first", "lab1", "ann")
            check.auto_score, check.needs_manual_grade = 4.0, False
            grade: Any = gradebook.find_grade("prose", "first", "lab1", "ann")
            grade.auto_score = None if text else 0.0
            grade.needs_manual_grade = bool(text) or grade.manual_score is not None
            gradebook.db.commit()
        return graded

    with book(course) as gradebook, gradebook.db.no_autoflush:  # as nbgrader's own loop does, before it exports
        gradebook.update_or_create_student("ann")
        gradebook.update_or_create_submission("lab1", "ann")
    exporter = submission.SubmissionExporter()
    taken: Any = SimpleNamespace(root=str(course), submitted_directory="copy", files={("lab1", "ann"): {"first": "x"}})
    taken.folder = lambda lab, student: course / "submitted" / student / lab
    exporter._course, exporter._graded = taken, in_the_unit
    exporter._remember([path])
    path.unlink(missing_ok=True)
    named = {"assignment": "lab1", "student": "ann", "notebook": "first", "db_url": f"sqlite:///{course}/gradebook.db"}
    written, _ = exporter.from_filename(str(path), {"nbgrader": named})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written, encoding="utf-8")


def give(course: Path, points: float) -> None:
    """As Formgrader does it."""
    with book(course) as gradebook:
        grade: Any = gradebook.find_grade("prose", "first", "lab1", "ann")
        grade.manual_score, grade.extra_credit, grade.needs_manual_grade = points, 1.0, False
        gradebook.db.commit()


def stands(course: Path) -> tuple[str, float | None, float, bool]:
    with book(course) as gradebook:
        (ann,) = standings(course, gradebook, "lab1")
    return ann.state, ann.score, ann.ungraded, ann.by_hand


@pytest.mark.parametrize("regrade", [by_make_grade, by_nbgrader])
def test_points_by_hand_stay_until_the_answer_is_another(course: Path, regrade: Regrade) -> None:
    regrade(course, "because")
    assert stands(course) == (IN_PART, 4.0, 3.0, True)
    give(course, 2.0)
    regrade(course, "because")
    assert stands(course) == (GRADED, 7.0, 0.0, False), "with the point beside, that is extra credit"
    regrade(course, "because of that")
    assert stands(course) == (IN_PART, 4.0, 3.0, True)
    give(course, 2.0)
    regrade(course, "because of that", picture=PNG)
    assert stands(course) == (IN_PART, 4.0, 3.0, True)
    give(course, 2.0)
    regrade(course, "")
    assert stands(course) == (GRADED, 4.0, 0.0, False), "an answer left empty earns nothing, and nobody is asked"


@pytest.mark.parametrize("regrade", [by_make_grade, by_nbgrader])
@pytest.mark.parametrize("gone", [True, False])
def test_points_by_hand_stay_where_the_answer_is_not_known_and_this_is_said(
    course: Path, regrade: Regrade, gone: bool
) -> None:
    """Its folder was removed, or grading was broken off before it was read."""
    regrade(course, "because")
    give(course, 2.0)
    if gone:
        (course / GRADED_FILE).unlink()
    regrade(course, "because", **({} if gone else {UNSEEN: True}))
    assert stands(course) == (GRADED, 7.0, 0.0, True)


def test_nbgraders_own_command_sees_the_submissions_that_can_be_graded(
    course: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with the notebooks of its lab; of the others it is said why they are left out."""
    monkeypatch.setattr(submission, "MAX_NOTEBOOKS", 1)
    hand_in(course, "b*d")
    hand_in(course, "cleo", "Untitled.ipynb")
    (hand_in(course, "dan") / "second.ipynb").write_text("{}")
    with book(course) as gradebook:
        gradebook.add_notebook("second", "lab1")
    directory = CourseDirectory(
        root=str(course), db_url=f"sqlite:///{course}/gradebook.db", assignment_id="lab1", parent=None
    )
    converter = Autograde(directory)
    found = {name: str(course / "submitted" / name / "lab1") for name in ("ann", "b*d", "cleo", "dan")}
    converter.assignments = {folder: [f"{folder}/first.ipynb"] for folder in found.values()}
    exporter = submission.SubmissionExporter()
    exporter.log = logging.getLogger(__name__)
    taken = exporter._take_in(converter)
    folders = {
        Path(folder).parent.name: [Path(path).name for path in paths] for folder, paths in converter.assignments.items()
    }
    assert folders == {"ann": ["first.ipynb"], "dan": ["first.ipynb"]} and converter.coursedir is taken
    assert all(str(path).startswith(str(course / ".headroom")) for path in converter.assignments)
    assert [record.message for record in caplog.records] == [
        "'b*d', lab1 is not graded. nbgrader takes the folder's name for a pattern, because of *, ? or [. Rename it.",
        "'cleo', lab1 is not graded. There is no first or second.ipynb in it.",
    ]
    converter.coursedir, converter.assignments = directory, {found["cleo"]: [f"{found['cleo']}/Untitled.ipynb"]}
    with pytest.raises(NbGraderException, match=r"There is no first or second\.ipynb in it"):
        exporter._take_in(converter)
    taken.close()


@pytest.mark.parametrize("data", [b"", b"7", b"[]", b'{"metadata": {}, "cells": [{}]}', b"[" * 100_000])
def test_of_what_is_no_graded_notebook_no_answer_is_known(data: bytes) -> None:
    assert answers(data) == {}
