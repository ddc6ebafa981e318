"""Where a student stands in a lab: what was graded, penalties as they are now, and what was put away meanwhile."""

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from autograder.pipeline import late
from autograder.pipeline.late import LatePolicy
from autograder.pipeline.standing import GRADED, NOT_GRADED, released, standings
from tests import small_course
from tests.small_course import DUE, book, due, give
from tests.test_round import PAGE


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


def test_a_penalty_takes_no_score_below_0_in_the_list_nor_on_the_page(course: Path) -> None:
    give(course, "ann", 5.0)
    page = course / "feedback" / "ann" / "lab1" / "first.html"
    page.parent.mkdir(parents=True)
    page.write_text(PAGE.format("0.0"))
    with book(course) as gradebook:
        notebook: Any = gradebook.find_submission_notebook("first", "lab1", "ann")
        notebook.late_submission_penalty = 7.0
        gradebook.db.commit()
        (ann,) = standings(course, gradebook, "lab1")
    assert (ann.raw, ann.penalty, ann.score, ann.stale) == (5.0, 7.0, 0.0, ())


def test_a_lab_whose_hand_ins_were_put_away_was_given_out_all_the_same(course: Path) -> None:
    give(course, "ann", 5.0)
    with book(course) as gradebook:
        shutil.rmtree(course / "submitted")
        assert released(course, gradebook) == ["lab1"]


def test_what_cannot_be_graded_any_more_is_said_whatever_was_graded_before(course: Path) -> None:
    give(course, "ann", 5.0)
    give(course, "ben", 5.0)
    for student, name in (("ann", "Untitled.ipynb"), ("ben", "first (1).ipynb")):
        folder = course / "submitted" / student / "lab1"
        (folder / "first.ipynb").rename(folder / name)
    with book(course) as gradebook:
        ann, ben = standings(course, gradebook, "lab1")
    assert (ann.state, ann.score) == (NOT_GRADED, None) and ann.why.startswith("There is 'Untitled.ipynb' in it")
    assert (ben.state, ben.score, ben.read) == (GRADED, 5.0, "'first (1).ipynb'")


def test_penalties_are_renewed_of_the_labs_that_are_asked_for(course: Path) -> None:
    due(course, DUE)
    give(course, "ann", 10.0, hours_late=1)
    config = Config(LatePolicy={"percent": 10}, AssignLatePenalties={"plugin_class": LatePolicy})
    with book(course) as gradebook:
        for labs, penalty in ((["lab2"], 0.0), (["lab1"], 1.0)):
            late.renew(gradebook, config, course, labs)
            (ann,) = standings(course, gradebook, "lab1")
            assert ann.penalty == penalty


def test_extensions_may_begin_with_what_excel_puts_before_utf8(course: Path) -> None:
    (course / "extensions.csv").write_text("student,lab,until\nann,lab1,2026-11-23 12:00\n", encoding="utf-8-sig")
    assert late.extensions(course, ["lab1"]) == {("ann", "lab1"): datetime(2026, 11, 23, 12)}
