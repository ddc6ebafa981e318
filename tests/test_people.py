"""Who is in the class: whom a name means, or why nobody; and Canvas's test student, who is nobody."""

from pathlib import Path

import pytest

from autograder.__main__ import main
from autograder.pipeline import people
from tests import small_course
from tests.small_course import book, give
from tests.test_lms import MOODLE_PEOPLE, enrolled, filled


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


def test_two_names_of_the_same_words_are_mistaken_for_neither(course: Path) -> None:
    enrolled(course, "student_id,first_name,last_name\na,Anna Maria,Berg\nb,Maria Anna,Berg\n")
    with book(course) as gradebook:
        roster = people.Class(gradebook)
    assert roster.find(people.Person("", "Anna Maria", "Berg")) == "a"
    assert roster.find(someone := people.Person("", "Anna Berg Maria")) is None
    assert roster.why_not(someone) == "2 students in the roster go by this name: a, b"


def test_why_an_address_means_nobody_is_said(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    with book(course) as gradebook:
        roster = people.Class(gradebook)
    someone = people.Person("", "Zoë", "O'Hara", "zoe@elsewhere.example")
    assert roster.why_not(someone) == "zoe goes by this name in the roster, with another e-mail address"


@pytest.mark.parametrize("login", ["", "3f9a0bd0e1", "0123456789abcdef0123456789abcdef01234567"])
def test_canvas_test_student_is_left_out_and_that_is_said(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], login: str
) -> None:
    text = 'Student,ID,SIS User ID,SIS Login ID\nPoints Possible,,,\n"Ek, Ann",1,u-1,ann\n'
    text += f'"Student, Test",99,,{login}\n'
    (course / "class.csv").write_text(text)
    monkeypatch.chdir(course)
    assert main(["roster", "class.csv"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Canvas's test student is left out: Student, Test, 99{', ' * bool(login)}{login}",
        "1 student of this file is in the gradebook, as ann",
    ]
    give(course, "ann", 7.0)
    assert [row["lab1"] for row in filled(course, text, ["lab1"])] == ["10", "7", ""]
