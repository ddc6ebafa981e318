"""What the report's page and its CSV files show of a class, and where they have it from."""

import csv
import io
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_notebook, new_output
from sqlalchemy import create_engine

from autograder.pipeline.course import Failed
from autograder.pipeline.recorded import record
from autograder.report import findings, gather, page
from autograder.report.findings import find
from autograder.report.gather import Class, HandIn, Lab
from autograder.report.likeness import WHOLE, Group, alike
from autograder.report.page import MEMBERS, html, tables
from autograder.verdict import Result, Verdict
from tests import small_course
from tests.pages import words
from tests.test_report import LONG, OTHER, Tags, check, hand_in, sample, section
from tests.test_submission import released_cell


def shown(of: Class) -> str:
    """The words of the page, with a blank wherever a tag was."""
    return " ".join(words(html(find(of, section)).replace("<", " <")).split())


# --- The page ---------------------------------------------------------------------------------------------------------


def test_the_page_counts_the_class_and_lists_who_has_stopped_and_who_never_began() -> None:
    text = shown(sample())
    assert "13 students, 21 hand-ins to 2 labs, as graded on" in text
    assert "3 stopped 0 groups nearly the same 0 integrity notes" in text
    assert "s00 Lab 1 · One 40 % Lab 2 · Two no mask; no root" in text
    assert "Never handed in anything: Zoe Z.." in text
    assert "mask 6 12 6 of 12" in text and "median 85 %" in text


def test_sections_beyond_the_first_are_named_in_a_line() -> None:
    lab = Lab("lab01", "Lab 1", {f"e{n}": 1.0 for n in range(6)}, [{}, {}])
    for student in ("ann", "ben"):
        lab.handed_in[student] = hand_in(**{name: check(0.5, f"no {name}") for name in lab.exercises})
    text = shown(Class([lab], {}))
    assert (
        "Then: about e3 (2); about e4 (2); about e5 (2)." in text and text.count("2 of 2 students") == page.FIRST == 3
    )


def test_how_often_somebody_handed_in_and_what_was_not_attempted_is_said() -> None:
    of = sample()
    of.labs[0].handed_in["s03"] = hand_in(mask=check(0.0, attempted=False), root=check(1.0))
    text = shown(of)
    assert "s06 10 of 10, hand-in 2" in text and "s08 10 of 10 10 of 10" in text
    assert "mask 6 11 1 not attempted" in text and "zoe" not in text and "Zoe Z. – –" in text


def test_points_lead_to_the_page_that_explains_them() -> None:
    of = sample()
    given = of.labs[0].handed_in["s00"]
    of.labs[0].handed_in["s00"] = HandIn(given.checks, given.attempts, {}, page="feedback/s00/lab01/a b.html")
    links = [about["href"] for tag, about in Tags(html(find(of, section))).seen if tag == "a"]
    assert [link for link in links if not link.startswith("#")] == ["../feedback/s00/lab01/a%20b.html"] * 2


def test_notes_and_likeness_are_shown_with_what_they_are_about() -> None:
    lab = Lab("lab01", "Lab 1", {"mask": 1.0}, [{"answer": LONG + "\n"}, {"setup": "import torch"}])
    for student in ("ann", "bob", "cem"):
        cells = {"answer": OTHER, "setup": "import torch"} if student != "cem" else {}
        note = "# head\n\n- **cell 3** opened \\'x\\'\n      + a\n- **cell 4** forked\n" if student == "bob" else ""
        lab.handed_in[student] = HandIn({"mask": check(1.0)}, [{}], cells, note)
    of = Class([lab], {"ann": "Ann Ek"})
    found, text = find(of), shown(of)
    assert "Ann Ek, bob · Lab 1: the same program in all that they wrote" in text
    assert "# setup" not in text and text.count("# answer") == 2, "what the lab gives is nobody's"
    assert "1 group nearly the same 1 integrity note scores" in text and "bob · Lab 1 # head" in text
    rows = tables(found)
    assert rows["notes"] == [{"lab": "lab01", "student": "bob", "note": "cell 3 opened 'x'; cell 4 forked"}]
    assert [(row["group"], row["student"], row["what"]) for row in rows["alike"]] == [
        (1, "ann", WHOLE),
        (1, "bob", WHOLE),
    ]


@pytest.mark.parametrize(
    ("what", "likeness", "said"),
    [
        (WHOLE, 1.0, "the same program in all that they wrote, but for names, comments and texts"),
        ("answer", 1.0, "the same program in this cell, but for names, comments and texts"),
        ("answer", 0.71, "71% of what is unusual in this cell is the same"),
    ],
)
def test_how_alike_two_are_is_said(what: str, likeness: float, said: str) -> None:
    assert page._said(Group(what, ("ann", "bob"), likeness, 50)) == said


def test_of_a_large_group_some_are_shown() -> None:
    lab = Lab("lab01", "Lab 1", {}, [{}])
    students = tuple(f"s{n}" for n in range(MEMBERS + 2))
    lab.handed_in.update({student: HandIn({}, [{}], {"answer": "x" * 10_000}) for student in students})
    codes = page._codes(lab, Group("answer", students, 1.0, 50))
    assert [student for student, _ in codes] == [*students[:MEMBERS]]
    assert all(len(text) < 7000 and "characters are left out" in text for _, text in codes)


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([0.0, 0.05, 0.1, 0.55, 0.99, 1.0], [2, 1, 0, 0, 0, 1, 0, 0, 0, 2]),
        ([], [0] * 10),
        ([1.2, -0.1], [1, *[0] * 8, 1]),
    ],
)
def test_shares_are_counted_by_tenths(values: list[float], counts: list[int]) -> None:
    assert page._histogram(values) == counts


@pytest.mark.parametrize(
    ("correlation", "words"),
    [
        (0.41, "does well elsewhere"),
        (0.39, "loosely"),
        (0.21, "loosely"),
        (0.19, "says little"),
        (-0.19, "says little"),
        (-0.21, "worse here: look at the task"),
    ],
)
def test_a_correlation_is_said_in_words(correlation: float, words: str) -> None:
    assert words in findings._in_words(correlation, [0.0, 1.0])


def test_nothing_in_the_csv_files_is_computed() -> None:
    text = page._csv([{"mistake": "=1+1", "now": 2}, {"mistake": 'a, "b"', "now": 0}])
    assert [*csv.reader(io.StringIO(text))] == [["mistake", "now"], ["'=1+1", "2"], ['a, "b"', "0"]]
    assert page._csv([]) == ""


def test_three_of_a_small_class_are_found_and_what_two_have_is_enough() -> None:
    cells = {name: {"answer": LONG} for name in ("ann", "bob", "cem")}
    assert [one.students for one in alike(cells, [])] == [("ann", "bob", "cem")]


@pytest.mark.parametrize("makers", [1, 2])
def test_what_one_alone_does_is_nothing_to_teach_again(makers: int) -> None:
    lab = Lab("lab01", "Lab 1", {"mask": 6.0}, [{}])
    for n in range(4):
        lab.handed_in[f"s{n}"] = hand_in(mask=check(0.5, "no mask") if n < makers else check(1.0))
    assert [one.section for one in find(Class([lab], {}), section).again] == ["Lecture 2"] * (makers > 1)


def test_who_stopped_is_said_to_have_left_with_what_was_not_attempted() -> None:
    of = sample()
    of.labs[0].handed_in["s01"] = hand_in(mask=check(0.0, attempted=False), root=check(1.0))
    (stopped,) = (one for one in find(of).stopped if one.student == "s01")
    assert stopped.left_with == ["mask: not attempted"] and stopped.share == pytest.approx(0.4)


# --- Where it is from -------------------------------------------------------------------------------------------------


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


def test_before_anything_is_graded_that_is_said(course: Path) -> None:
    small_course.hand_in(course, "ann")
    with pytest.raises(Failed, match=r"nothing to report: grade something first, with make grade\."):
        gather.gather(course, print)


@pytest.mark.parametrize(("by_hand", "share"), [(None, 0.4), (7.0, 0.7), (0.0, 0.0)])
def test_points_given_by_hand_count_more_than_the_judges(course: Path, by_hand: float | None, share: float) -> None:
    small_course.give(course, "ann", 4.0)
    with small_course.book(course) as gradebook:
        grade: Any = gradebook.find_grade("check", "first", "lab1", "ann")
        grade.manual_score = by_hand
        gradebook.db.commit()
    with create_engine(f"sqlite:///{course}/gradebook.db").connect() as connection:
        assert gather._points(connection, "lab1") == {"ann": {"check": share}}


@pytest.mark.parametrize("known", [True, False])
def test_the_last_hand_in_is_one_of_the_attempts_and_counted_once(tmp_path: Path, known: bool) -> None:
    """The journal has it, unless nbgrader's own commands graded it."""
    verdict = Verdict("A", "no.", (Result("a", 1.0, False),), mistakes=())
    cell = released_cell("check", "check(A)", grade=True, locked=True, points=1.0)
    cell.outputs = [new_output("display_data", {"text/plain": ""}, metadata=record(verdict))]
    own = released_cell("answer", "def a(): ...", solution=True)
    folder = tmp_path / "autograded" / "ann" / "lab1"
    folder.mkdir(parents=True)
    nbformat.write(new_notebook(cells=[own, cell]), folder / "first.ipynb")
    (folder / "cut.ipynb").write_text('{"cells": [')
    for name in ("integrity/lab1/ann-first.md", "feedback/ann/lab1/first.html"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(name)
    before = [{"A": {"score": 0.0, "mistakes": ["no root"]}}] + [{"A": {"score": 0.0, "mistakes": []}}] * known
    found = gather._hand_in(tmp_path, folder, {"check": 0.25}, before)
    assert found.attempts == [{"A": ["no root"]}, {"A": []}]
    assert found.checks["A"].share == 0.25 and found.checks["A"].judged and not found.checks["A"].passed
    assert found.cells == {"answer": "def a(): ..."}
    assert found.note == "integrity/lab1/ann-first.md" and found.page == "feedback/ann/lab1/first.html"
