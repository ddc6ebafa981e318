"""Who is in the class: whom a name means, or why nobody; and Canvas's test student, who is nobody."""

from pathlib import Path

import pytest

from autograder.__main__ import main
from autograder.pipeline import people
from autograder.pipeline.course import Failed
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


# As the tables are headed that Canvas and Moodle, in English and in German, export, and as people write them.
HEADED = {
    "nbgrader": "student_id,first_name,last_name,email",
    "Canvas": "SIS Login ID,First name,Last name,Email",
    "Canvas without logins": "SIS User ID,First name,Surname,Email",
    "Moodle": "Username,First name,Last name,Email address",
    "Moodle in German": "Anmeldename,Vorname,Nachname,E-Mail-Adresse",
    "Moodle with numbers": "ID number,First name,Surname,E-mail",
    "Moodle in German with numbers": "ID-Nummer,Vorname,Nachname,E-Mail",
    "by hand": "Student,First Name,Last Name,e-mail",
    "by hand, with numbers": "id,vorname,nachname,email",
}


@pytest.mark.parametrize("headed", HEADED)
@pytest.mark.parametrize("between", [",", ";", "\t"])
def test_a_table_of_each_lms_is_read_in_each_language(course: Path, headed: str, between: str) -> None:
    text = f"{HEADED[headed]}\nann,Ann,Ek,ann@uni.example\n".replace(",", between)
    ann = enrolled(course, text)["ann"]
    assert (ann.first_name, ann.last_name, ann.email) == ("Ann", "Ek", "ann@uni.example")


@pytest.mark.parametrize("headed", ["Full name", "Vollständiger Name", "Name"])
def test_a_name_in_one_column_is_parted(course: Path, headed: str) -> None:
    found = enrolled(course, f'Username,{headed}\nann,Ann Maria Ek\nbo,"Ma, Bo"\n')
    assert [(one.first_name, one.last_name) for one in (found["ann"], found["bo"])] == [
        ("Ann Maria", "Ek"),
        ("Bo", "Ma"),
    ]


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("SIS User ID,SIS Login ID,ID\nu-1,ann,101\n", "ann"),
        ("ID number,Username\n7,ann\n", "ann"),
        ("ID number,Username\nann,\n", "ann"),
        ("Email address,Full name\nann@uni.example,Ann Ek\n", "ann"),
    ],
)
def test_a_login_is_what_a_student_is_called_and_what_else_there_is_where_there_is_none(
    course: Path, text: str, called: str
) -> None:
    assert [*enrolled(course, text)] == [called]


def test_what_is_too_large_for_the_list_of_a_class_is_not_read(course: Path) -> None:
    with (course / "class.csv").open("wb") as file:
        file.truncate(people.MAX_TABLE + 1)
    with pytest.raises(Failed, match="is larger than 20 MB: it is no list of a class"):
        people.read_table(course / "class.csv")
    with pytest.raises(Failed, match="cannot be read: No such file"):
        people.read_table(course / "gone.csv")
