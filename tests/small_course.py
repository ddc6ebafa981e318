"""A course with a gradebook, in which submissions are as if they had been graded: no kernel is started."""

import functools
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
import nbgrader.api
import pytest
from nbgrader.api import Gradebook

from tests.test_workers import with_a_lab

DUE = datetime(2026, 11, 22, 12, 0)


def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course with one lab of 10 points, and a second that nobody was given."""
    monkeypatch.setattr(nbgrader.api, "get_alembic_version", lambda: "any")  # which starts a program to find out
    (tmp_path / "gradebook.db").write_bytes(_gradebook())
    settings = {"root": str(tmp_path), "course_id": "course", "db_url": f"sqlite:///{tmp_path}/gradebook.db"}
    lines = [f"c.CourseDirectory.{name} = {value!r}" for name, value in settings.items()]
    (tmp_path / "nbgrader_config.py").write_text("\n".join(lines))
    for lab, notebook in (("lab1", "first"), ("lab2", "second")):
        (tmp_path / "solutions" / lab).mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(), tmp_path / "solutions" / lab / f"{notebook}.ipynb")
    return tmp_path


@functools.cache
def _gradebook() -> bytes:
    """The file of a gradebook with two labs, which takes longer to make than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        with_a_lab(f"sqlite:///{folder}/gradebook.db")
        with book(Path(folder)) as gradebook:
            gradebook.add_assignment("lab2", course_id="course")
        return Path(folder, "gradebook.db").read_bytes()


def book(course: Path) -> Gradebook:
    return Gradebook(f"sqlite:///{course}/gradebook.db", "course")


def hand_in(course: Path, student: str, file: str = "first.ipynb") -> Path:
    folder = course / "submitted" / student / "lab1"
    folder.mkdir(parents=True)
    (folder / file).write_text("{}")
    return folder


def give(course: Path, student: str, score: float | None, hours_late: float = 0.0) -> None:
    """As if it had been handed in and graded; None: as if somebody were still to give its points by hand."""
    hand_in(course, student)
    graded = course / "autograded" / student / "lab1"
    graded.mkdir(parents=True)
    (graded / "first.ipynb").write_text("{}")
    with book(course) as gradebook:
        gradebook.update_or_create_student(student)
        with gradebook.db.no_autoflush:
            gradebook.update_or_create_submission("lab1", student, timestamp=DUE + timedelta(hours=hours_late))
        grade: Any = gradebook.find_grade("check", "first", "lab1", student)
        grade.auto_score, grade.needs_manual_grade = score, score is None
        gradebook.db.commit()


def due(course: Path, when: datetime | None) -> None:
    with book(course) as gradebook:
        gradebook.update_or_create_assignment("lab1", duedate=when)
