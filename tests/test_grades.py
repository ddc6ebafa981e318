"""What is written into the gradebook of one check, and which rows and columns grades.csv has."""

import csv
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.v4 import new_notebook, new_output
from nbgrader.api import Comment, Gradebook, SolutionCell
from nbgrader.utils import compute_checksum

from autograder.pipeline.execute import SCORES
from autograder.pipeline.grades import QuotedExport, SaveJudgedGrades
from tests import small_course
from tests.small_course import book, give, hand_in
from tests.test_submission import released_cell
from tests.test_teaching import exported, policy


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


@pytest.fixture
def gradebook(course: Path) -> Iterator[Gradebook]:
    give(course, "ann", None)
    with book(course) as opened:
        yield opened


def saved(gradebook: Gradebook, cell: NotebookNode, shares: dict[str, float] | None) -> tuple[float | None, bool]:
    """What the gradebook has of a check afterwards: the score, and whether somebody is to look at it."""
    saver = SaveJudgedGrades()
    vars(saver).update(gradebook=gradebook, notebook_id="first", assignment_id="lab1", student_id="ann")
    resources = ResourcesDict()
    resources[SCORES] = shares
    saver._add_score(cell, resources)
    grade: Any = gradebook.find_grade("check", "first", "lab1", "ann")
    return grade.auto_score, grade.needs_manual_grade


def check(*outputs: NotebookNode) -> NotebookNode:
    cell = released_cell("check", "check(A)", grade=True, locked=True, points=10.0)
    cell.metadata.nbgrader["cell_type"] = "code"
    cell.outputs = [*outputs]
    return cell


@pytest.mark.parametrize(("share", "points"), [(1.0, 10.0), (0.0, 0.0), (1 / 3, 3.33), (0.6, 6.0)])
def test_a_share_becomes_points_with_two_decimals(gradebook: Gradebook, share: float, points: float) -> None:
    assert saved(gradebook, check(), {"check": share}) == (points, False)


def test_points_given_by_hand_for_a_check_are_to_be_looked_at_again(gradebook: Gradebook) -> None:
    grade: Any = gradebook.find_grade("check", "first", "lab1", "ann")
    grade.manual_score = 4.0
    gradebook.db.commit()
    assert saved(gradebook, check(), {"check": 0.5}) == (5.0, True)


def test_tests_of_another_kind_keep_nbgraders_rule_and_earn_nothing_where_it_raises(gradebook: Gradebook) -> None:
    """A cell that shows more than its points would leave the submission ungraded."""
    two = [new_output("execute_result", {"text/plain": text}, execution_count=1) for text in ("12.0", "3.0")]
    assert saved(gradebook, check(two[1]), {})[0] == 3.0
    assert saved(gradebook, check(two[0]), {})[0] == 0.0
    assert saved(gradebook, check(new_output("error", ename="E", evalue="", traceback=[])), None)[0] == 0.0
    assert saved(gradebook, check(), None)[0] == 10.0


def test_nothing_is_left_that_was_said_of_a_cell_that_is_gone(gradebook: Gradebook) -> None:
    """As where a blank answer was handed in first, and then a file that cannot be read."""
    about: Any = gradebook.find_notebook("first", "lab1")
    with gradebook.db.no_autoflush:
        gradebook.db.add(Comment(cell=SolutionCell(name="gone", notebook=about), notebook=about.submissions[0]))
    gradebook.db.commit()
    resources, url = ResourcesDict(), str(gradebook.engine.url)
    resources["nbgrader"] = {"notebook": "first", "assignment": "lab1", "student": "ann", "db_url": url}
    blank = [released_cell(name, "", solution=True, checksum="") for name in ("answer", "gone")]
    for cell in blank:
        cell.metadata.nbgrader.checksum = compute_checksum(cell)

    def noted(*cells: NotebookNode) -> list[str | None]:
        SaveJudgedGrades().preprocess(new_notebook(cells=[*cells]), resources)
        gradebook.db.expire_all()
        rows: Any = [gradebook.find_comment(name, "first", "lab1", "ann") for name in ("answer", "gone")]
        return [row.auto_comment for row in rows]

    assert noted(*blank) == ["No response.", "No response."]
    assert noted(blank[0]) == ["No response.", None]


# --- grades.csv -------------------------------------------------------------------------------------------------------


def test_a_table_of_some_labs_and_students_is_written_if_that_is_asked_for(course: Path) -> None:
    give(course, "ann", 5.0)
    hand_in(course, "ben")
    (course / "submitted" / "ann" / "lab2").mkdir()
    (course / "submitted" / "ann" / "lab2" / "second.ipynb").write_text("{}")
    with book(course) as gradebook:
        gradebook.add_student("ben")
    everything = {("lab1", "ann"), ("lab1", "ben"), ("lab2", "ann"), ("lab2", "ben")}
    for labs, students in (([], []), (["lab2"], []), ([], ["ben"]), (["lab1"], ["ann"])):
        parent = SimpleNamespace(coursedir=SimpleNamespace(root=str(course), course_id="course"), config=policy())
        export = QuotedExport()
        vars(export)["parent"] = export._trait_values["parent"] = parent
        export.to, export.assignment, export.student = str(course / "some.csv"), labs, students
        with book(course) as gradebook:
            export.export(gradebook)
        with (course / "some.csv").open(encoding="utf-8", newline="") as file:
            rows = {(row["assignment"], row["student_id"]) for row in csv.DictReader(file)}
        assert rows == {
            (lab, student)
            for lab, student in everything
            if lab in (labs or [lab]) and student in (students or [student])
        }


def test_the_table_says_who_a_student_is_and_nothing_of_what_is_not_known(course: Path) -> None:
    give(course, "ann", 5.0)
    hand_in(course, "ben", "Untitled.ipynb")
    with book(course) as gradebook:
        gradebook.update_or_create_student("ann", first_name="Ann", last_name="=Ek", email="ann@uni.example")
    rows = exported(course, policy())
    assert [*rows["lab1", "ann"]] == [
        *("assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score"),
        *("late_submission_penalty", "score", "max_score", "ungraded", "status"),
    ], "which other programs read"
    ann, ben = rows["lab1", "ann"], rows["lab1", "ben"]
    assert (ann["last_name"], ann["first_name"], ann["email"]) == ("'=Ek", "Ann", "ann@uni.example")
    assert (ann["raw_score"], ann["score"], ann["max_score"], ann["ungraded"]) == ("5.0", "5.0", "10.0", "0.0")
    unknown = ("raw_score", "late_submission_penalty", "score", "ungraded", "timestamp", "last_name")
    assert {ben[name] for name in unknown} == {""} and ben["max_score"] == "10.0"
