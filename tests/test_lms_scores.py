"""Scores go into the tables of an LMS, and everything else comes back as it was."""

import csv
import io
from datetime import datetime
from pathlib import Path

import pytest

from autograder.pipeline.course import Failed
from autograder.pipeline.lms_scores import fill
from autograder.pipeline.lms_submissions import collect
from tests import small_course
from tests.small_course import book, due, give
from tests.test_lms import CANVAS, MOODLE_PEOPLE, PLAIN, enrolled, filled, there, zipped

MOODLE_WORKSHEET = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments
Participant 9001,"Dan ""D."" Müller",dan@uni.example,Submitted,,10.00,-,
Participant 9002,Zoë O'Hara,zoe@uni.example,Submitted,,10.00,-,"well, done"
Participant 9003,Anna Maria von der Berg,anna@uni.example,No submission,,10.00,-,
"""


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("roster", "name", "email", "score"),
    [
        (MOODLE_PEOPLE, "Mal Lory", "dan@evil.example", ""),  # attack: an address that begins as somebody else's
        (MOODLE_PEOPLE, "Zoë O'Hara", "mal@evil.example", ""),  # or their name
        (MOODLE_PEOPLE, "Mal Lory", "Dan@Uni.example", "8.5"),
        (PLAIN, "D. M.", "dan@uni.example", "8.5"),  # whose address the roster does not know
    ],
)
def test_an_address_that_is_not_the_rosters_is_nobodys(
    course: Path, roster: str, name: str, email: str, score: str
) -> None:
    enrolled(course, roster)
    give(course, "dan", 8.5)
    give(course, "zoe", 1.0)
    (row,) = filled(course, f"Full name,Email address\n{name},{email}\n", ["lab1"])
    assert row["lab1"] == score


def test_a_login_is_whose_it_is_whatever_the_address(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    give(course, "dan", 8.5)
    rows = filled(course, "Username,Email address\ndan,new@uni.example\nzoe,dan@uni.example\n", ["lab1"])
    assert [row["lab1"] for row in rows] == ["8.5", ""]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_scores_go_into_canvas_own_table(course: Path, encoding: str) -> None:
    """Round trip: every other field as it was, umlauts, commas and quotes included."""
    enrolled(course, CANVAS)
    give(course, "dan", 8.5)
    give(course, "anna", 0.0)
    rows = filled(course, CANVAS, [], encoding)
    before = list(csv.DictReader(io.StringIO(CANVAS)))
    assert [row.pop("lab1 (4711)") for row in rows] == ["10", "8.5", "3", "0", ""], "zoe's stays: nothing was handed in"
    for row in before:
        del row["lab1 (4711)"]
    assert rows == before


def test_a_lab_without_a_column_gets_one_with_its_points(course: Path) -> None:
    text = CANVAS.replace("lab1 (4711)", "Quiz 1 (9)")
    enrolled(course, text)
    give(course, "dan", 8.5)
    rows = filled(course, text, ["lab1"])
    assert [row["lab1"] for row in rows] == ["10", "8.5", "", "", ""] and rows[2]["Quiz 1 (9)"] == "3"


def test_scores_after_penalties_go_into_moodles_worksheet(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    give(course, "dan", 10.0, hours_late=1)
    give(course, "zoe", 4.0)
    due(course, datetime(2026, 11, 22, 12, 0))
    with (course / "nbgrader_config.py").open("a") as config:
        config.write("\nc.AssignLatePenalties.plugin_class = 'autograder.pipeline.late.LatePolicy'\n")
        config.write("c.LatePolicy.percent = 10\n")
    rows = filled(course, MOODLE_WORKSHEET, ["lab1"])
    assert [row["Grade"] for row in rows] == ["9", "4", ""]
    assert rows[1]["Feedback comments"] == "well, done" and rows[0]["Full name"] == 'Dan "D." Müller'
    with book(course) as gradebook:
        gradebook.update_or_create_assignment("lab2", duedate=datetime(2026, 12, 1))
    with pytest.raises(Failed, match="worksheet of one lab: name it, one of lab1, lab2"):
        filled(course, MOODLE_WORKSHEET, [])


def test_a_worksheet_may_be_in_german(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    give(course, "dan", 8.5)
    text = MOODLE_WORKSHEET.replace("Identifier,Full name,Email address", "ID,Vollständiger Name,E-Mail-Adresse")
    text = text.replace("Grade,Maximum Grade", "Bewertung,Bestwertung").replace("10.00", '"7,50"')
    told: list[str] = []
    (course / "export.csv").write_text(text, encoding="utf-8")
    assert fill(course, course / "export.csv", ["lab1"], None, told.append) == []
    with (course / "export-scores.csv").open(encoding="utf-8", newline="") as file:
        assert [row["Bewertung"] for row in csv.DictReader(file)] == ["8.5", "", ""]
    assert told[0] == "lab1: 1 scores in the column 'Bewertung'"
    assert told[1].strip().startswith("The table has 7,50 points as the maximum, and the lab has 10.")


@pytest.mark.parametrize("column", ["lab1", "lab1 (4711)", " lab1 "])
def test_a_labs_column_is_that_of_its_whole_name(course: Path, column: str) -> None:
    enrolled(course, PLAIN)
    give(course, "dan", 8.5)
    text = f"student_id,lab1 bonus (4712),lab10,my lab1 (4713),{column}\ndan,1,2,3,\n"
    (row,) = filled(course, text, ["lab1"])
    assert [*row.values()] == ["dan", "1", "2", "3", "8.5"]


def test_scores_that_may_still_rise_are_counted(course: Path) -> None:
    enrolled(course, PLAIN)
    give(course, "dan", 8.5)
    give(course, "zoe", None)
    told: list[str] = []
    (course / "export.csv").write_text(PLAIN, encoding="utf-8")
    assert fill(course, course / "export.csv", ["lab1"], None, told.append) == []
    assert told == [
        "lab1: 2 scores in the column 'lab1'",
        "    1 of them may still rise: answers in the students' own words are not graded yet.",
        f"Written to {course / 'export-scores.csv'}",
    ]


def test_a_lab_that_the_gradebook_does_not_know_is_made_first(course: Path) -> None:
    enrolled(course, PLAIN)
    (course / "solutions" / "lab3").mkdir()
    (course / "solutions" / "lab3" / "third.ipynb").touch()
    (course / "export.csv").write_text(PLAIN, encoding="utf-8")
    with pytest.raises(Failed, match=r"lab3.*: make labs tells the gradebook\."):
        fill(course, course / "export.csv", ["lab3"], None, print)


def test_another_maximum_in_the_lms_is_said(course: Path) -> None:
    enrolled(course, CANVAS)
    give(course, "dan", 8.5)
    for text, labs, said in (
        (CANVAS.replace(",10,", ",7.50,"), [], "7.50"),
        (MOODLE_WORKSHEET.replace("10.00", '"100,00"'), ["lab1"], "100,00"),
        (CANVAS, [], ""),
        (MOODLE_WORKSHEET, ["lab1"], ""),
    ):
        told: list[str] = []
        (course / "export.csv").write_text(text, encoding="utf-8")
        fill(course, course / "export.csv", labs, None, told.append)
        assert any(f"has {said} points as the maximum, and the lab has 10" in line for line in told) == bool(said)


# As Canvas and Moodle write them today: a row on how grades are posted, several sections, columns that are computed; a
# worksheet with all that an assignment can have, lines that end as on Windows, and numbers as in German.
CANVAS_OF_TODAY = """\
Student,ID,SIS User ID,SIS Login ID,Section,lab1 (4711),Quizzes Current Points,Current Grade
,,,,,Manual Posting,,
    Points Possible,,,,,10,(read only),(read only)
"Müller, Dan ""D."", Jr.",101,"u,1",dan,"A, 1 and B",,17.5,A−
"O'Hara, Zoë",102,u-2,zoe,A,3,9,
"Student, Test",104,,b6f0,A,,,
"""
MOODLE_OF_TODAY = (
    "Identifier,Full name,ID number,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
    "Last modified (submission),Online text,Last modified (grade),Feedback comments\r\n"
    'Participant 9001,"Dan ""D."", Jr. Müller",dan,dan@uni.example,"Submitted for grading, late",,"10,00",Yes,'
    '"Friday, 20 November 2026, 9:30 AM","one\r\ntwo",-,"<p>""good""</p>"\r\n'
    'Participant 9002,Zoë O\'Hara,zoe,zoe@uni.example,No submission,,"10,00",Yes,-,,-,\r\n'
)


@pytest.mark.parametrize(("text", "column"), [(CANVAS_OF_TODAY, "lab1 (4711)"), (MOODLE_OF_TODAY, "Grade")])
def test_everything_else_comes_back_as_it_was(course: Path, text: str, column: str) -> None:
    enrolled(course, CANVAS_OF_TODAY)
    give(course, "dan", 8.5)
    rows = filled(course, text, ["lab1"])
    before = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row[column] for row in rows if "Dan" in "".join(row.values())] == ["8.5"]
    assert [{**row, column: ""} for row in rows] == [{**row, column: ""} for row in before]
    others = [n for n, row in enumerate(before) if "Dan" not in "".join(row.values())]
    assert [rows[n] for n in others] == [before[n] for n in others]


def test_moodle_puts_the_group_before_the_name(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enrolled(course, MOODLE_PEOPLE)
    name = "Gruppe 1-b-Anna Maria von der Berg_9003_assignsubmission_file_/first.ipynb"
    assert collect(course, "lab1", zipped(course / "a.zip", {name: b"anna's"}), print) == []
    assert there(course) == {"anna/lab1/first.ipynb": "anna's"}
    assert "anna: what stands before the name, 'Gruppe 1-b', is taken for a group." in capsys.readouterr().out


def test_a_score_without_a_row_is_named(course: Path) -> None:
    enrolled(course, PLAIN)
    give(course, "eve", 5.0)
    (course / "export.csv").write_text(PLAIN)
    assert fill(course, course / "export.csv", ["lab1"], course / "out.csv", print) == ["eve (no row)"]


def test_what_is_said_of_scores_is_said_of_those_that_were_written(course: Path) -> None:
    """Two students of one name in a table that knows nothing else of them: neither gets a score, and both are named."""
    enrolled(course, "student_id,first_name,last_name\ndan,Dan,Müller\nann,Anna,Weber\nanna,Anna,Weber\n")
    give(course, "dan", 8.5)
    for student in ("ann", "anna"):
        give(course, student, None)
    (course / "export.csv").write_text("Full name,Grade\nDan Müller,\nAnna Weber,\nAnna Weber,\n", encoding="utf-8")
    told: list[str] = []
    left = fill(course, course / "export.csv", ["lab1"], course / "out.csv", told.append)
    assert left == ["ann (2 rows may be meant)", "anna (2 rows may be meant)"]
    assert told == ["lab1: 1 scores in the column 'lab1'", f"Written to {course / 'out.csv'}"]
