"""Rosters and submissions as Canvas and Moodle have them: what comes in, and what stays out."""

import csv
import errno
import io
import os
import stat
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autograder.__main__ import main
from autograder.pipeline import intake, people
from autograder.pipeline.course import Failed
from autograder.pipeline.lms_scores import fill
from autograder.pipeline.lms_submissions import collect
from autograder.pipeline.texts import letters
from tests import small_course
from tests.small_course import book, give

CANVAS = '''\
Student,ID,SIS User ID,SIS Login ID,Section,lab1 (4711),Final Score
    Points Possible,,,,,10,(read only)
"Müller, Dan ""D.""",101,u-1,dan,"A, 1",,
"O'Hara, Zoë",102,u-2,zoe,A,3,
"von der Berg, Anna Maria",103,u-3,anna,A,,
"Student, Test",104,,,A,,
'''
MOODLE_PEOPLE = '''\
First name,Last name,ID number,Email address,Groups
"Dan ""D.""",Müller,dan,dan@uni.example,
Zoë,O'Hara,zoe,zoe@uni.example,
Anna Maria,von der Berg,,anna@uni.example,"1, 2"
'''

PLAIN = "student_id;last_name;first_name\ndan;Müller;Dan\nzoe;O'Hara;Zoë\n"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


def enrolled(course: Path, text: str, encoding: str = "utf-8") -> dict[str, people.Person]:
    (course / "class.csv").write_text(text, encoding=encoding)
    with book(course) as gradebook:
        people.enrol(gradebook, course / "class.csv")
        return {one.id: one for one in people.Class(gradebook).everybody}


def zipped(path: Path, files: dict[str, bytes], when: tuple[int, ...] = (2026, 11, 22, 9, 30, 0)) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, when), data)
    return path


def there(course: Path) -> dict[str, str]:
    files = [path for path in (course / "submitted").rglob("*") if path.is_file() and path.name != intake.STAMP]
    return {path.relative_to(course / "submitted").as_posix(): path.read_text() for path in files}


# --- The roster -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("text", [CANVAS, MOODLE_PEOPLE, PLAIN])
def test_a_roster_is_read_as_it_comes(course: Path, text: str, encoding: str) -> None:
    found = enrolled(course, text, encoding)
    assert {*found} == ({"dan", "zoe"} if text == PLAIN else {"dan", "zoe", "anna"})
    assert (found["dan"].last_name, found["zoe"].first_name) == ("Müller", "Zoë")
    if text == CANVAS:
        assert found["dan"].first_name == 'Dan "D."' and found["dan"].lms_user_id == "101"
    if text == MOODLE_PEOPLE:
        assert found["anna"].last_name == "von der Berg", "called by their e-mail address"


def test_a_roster_that_is_read_again_keeps_scores_and_forgets_nobody(course: Path) -> None:
    give(course, "dan", 7.0)
    enrolled(course, PLAIN)
    found = enrolled(course, "student_id,last_name\ndan,Maier\n")
    assert {*found} == {"dan", "zoe"} and found["dan"].last_name == "Maier" and found["dan"].first_name == "Dan"
    with book(course) as gradebook:
        assert gradebook.find_submission("lab1", "dan").score == 7.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("colour,size\nred,3\n", "None of the columns colour, size says what a student is called"),
        ("student_id\n../evil\n", "no folder can be called '../evil'"),
        ("student_id\na/b\n", "no folder can be called 'a/b'"),
        ('student_id\n"a"";alert(1);"""\n', "no folder can be called"),
        ("student_id,email\nann,a@x\nann,b@x\n", "two students are called 'ann'"),
        ("student_id,last_name\n,Maier\n", "has no student_id, login or e-mail"),
        ("student_id\n", "lists nobody"),
    ],
)
def test_a_roster_that_cannot_be_used_says_why(course: Path, text: str, said: str) -> None:
    with pytest.raises(Failed, match=said):
        enrolled(course, text)


def test_a_name_that_the_output_cannot_hold_ends_nothing(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (course / "class.csv").write_text("student_id\nłukasz\n", encoding="utf-8")
    monkeypatch.chdir(course)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(told := io.BytesIO(), encoding="cp1252"))
    assert main(["roster", "class.csv"]) == 0
    sys.stdout.flush()
    assert rb"as \u0142ukasz" in told.getvalue()


# --- Submissions in -------------------------------------------------------------------------------------------------

FROM_CANVAS = {
    "müllerdand_101_555_first.ipynb": b"old",
    "müllerdand_101_555_first-1.ipynb": b"new",
    "müllerdand_101_555_data.csv": b"1,2",
    "oharazoë_LATE_102_556_My first (2).ipynb": b"zoe's",
    "somebodyelse_999_557_first.ipynb": b"whose?",
}
FROM_MOODLE = {
    'Dan "D." Müller_9001_assignsubmission_file_/first.ipynb': b"dan's",
    "Zoë O'Hara_9002_assignsubmission_file_first.ipynb": b"zoe's",
    "Anna Maria von der Berg_9003_assignsubmission_file_/first (1).ipynb": b"anna's",
    "Anna Maria von der Berg_9003_assignsubmission_file_/more/data.csv": b"3",
    "Some Body_9004_assignsubmission_file_/first.ipynb": b"whose?",
}


@pytest.mark.parametrize("as_folder", [False, True])
def test_an_export_of_canvas(course: Path, as_folder: bool) -> None:
    enrolled(course, CANVAS)
    source = zipped(course / "submissions.zip", FROM_CANVAS)
    if as_folder:
        zipfile.ZipFile(source).extractall(course / "export")
        source = course / "export"
    told: list[str] = []
    left = collect(course, "lab1", source, told.append)
    assert there(course) == {
        "dan/lab1/first.ipynb": "new",
        "dan/lab1/data.csv": "1,2",
        "zoe/lab1/first.ipynb": "zoe's",
    }
    assert left == ["somebodyelse: nobody in the roster goes by this name (somebodyelse_999_…)"]
    assert told[:2] == [
        "zoe: 'My first (2).ipynb' is taken for first.ipynb.",
        "lab1: 2 submissions taken, 0 there already. submitted/ has those of 2 of 3 students in the roster.",
    ], "and nothing of first-1.ipynb, which is Canvas's own name for a second attempt"
    assert "LATE, but not when: zoe" in told[2]
    assert not list((course / "submitted").rglob(intake.STAMP)), "times in Canvas's zip are those of the export"


def test_an_export_of_moodle(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    left = collect(course, "lab1", zipped(course / "submissions.zip", FROM_MOODLE), print)
    assert there(course) == {
        "dan/lab1/first.ipynb": "dan's",
        "zoe/lab1/first.ipynb": "zoe's",
        "anna/lab1/first.ipynb": "anna's",
        "anna/lab1/more/data.csv": "3",
    }
    assert [line.split(":")[0] for line in left] == ["Some Body"]
    when, remarks = intake.handed_in_at(course / "submitted" / "dan" / "lab1")
    assert when == datetime(2026, 11, 22, 9, 30).astimezone(UTC).replace(tzinfo=None) and remarks == []


def test_a_folder_in_the_place_of_the_time_ends_nothing(course: Path) -> None:
    """Attack: what the grader writes itself could not be written, and the rest of the class was left out."""
    enrolled(course, MOODLE_PEOPLE)
    name = next(one for one in FROM_MOODLE if one.startswith("Dan"))
    mine = {name: b"dan's", f"{name.rpartition('/')[0]}/Timestamp.TXT/x.txt": b"x"}
    left = collect(course, "lab1", zipped(course / "all.zip", FROM_MOODLE | mine), print)
    assert there(course)["zoe/lab1/first.ipynb"] == "zoe's" and there(course)["dan/lab1/first.ipynb"] == "dan's"
    assert any("does not say when something was handed in" in line for line in left)


def test_the_latest_wins_over_what_is_there_already(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    name = next(iter(FROM_MOODLE))
    collect(course, "lab1", zipped(course / "b.zip", {name: b"second"}, (2026, 11, 22, 10, 0, 0)), print)
    left = collect(course, "lab1", zipped(course / "a.zip", {name: b"first"}, (2026, 11, 21, 10, 0, 0)), print)
    assert there(course) == {"dan/lab1/first.ipynb": "second"} and "handed in later, at" in left[0]
    assert collect(course, "lab1", zipped(course / "c.zip", {name: b"third"}, (2026, 11, 23, 9, 0, 0)), print) == []
    assert there(course) == {"dan/lab1/first.ipynb": "third"}


@pytest.mark.parametrize(("one", "other"), [("राम", "रोमी"), ("สมชาย", "สมชัย"), ("דָּן", "דן")])
def test_names_that_differ_by_a_vowel_sign_are_two(one: str, other: str) -> None:
    assert letters(one) != letters(other) and letters("Zoe\u0301 A.") == letters("zo\u00e9-a")


def test_two_of_one_name_are_mistaken_for_nobody(course: Path) -> None:
    enrolled(course, "student_id,first_name,last_name\nkim1,Kim,Lee\nkim2,Kim,Lee\nbo,Bo,Ek\n")
    files = {"Kim Lee_1_assignsubmission_file_/first.ipynb": b"1", "Bo Ek_2_assignsubmission_file_/first.ipynb": b"2"}
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert {*there(course)} == {"bo/lab1/first.ipynb"} and left == [
        "Kim Lee: 2 students in the roster go by this name: kim1, kim2 (Kim Lee_1_…)"
    ]


@pytest.mark.parametrize(
    ("roster", "dan", "names"),
    [
        (
            MOODLE_PEOPLE,
            'Dan "D." Müller_9001_assignsubmission_file_/',
            ("Zoë O'Hara_9002_assignsubmission_file_/", "Zoë O'Hara_9099_assignsubmission_file_/"),
        ),
        (PLAIN, "müllerdan_101_555_", ("oharazoë_102_556_", "oharazoë_199_900_")),
    ],
)
def test_who_takes_anothers_name_does_not_take_the_others_place(
    course: Path, roster: str, dan: str, names: tuple[str, str]
) -> None:
    enrolled(course, roster)
    files = {f"{names[0]}first.ipynb": b"zoe's", f"{names[1]}first.ipynb": b"evil", f"{dan}first.ipynb": b"dan's"}
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course) == {"dan/lab1/first.ipynb": "dan's"}
    assert left == ["zoe: 2 users of the LMS go by this name, and it does not say which is meant"]


@pytest.mark.parametrize("forged", ["x_102_9_first.ipynb", "O'Hara Zoë_9_9_first.ipynb", "oharazoë_102_9_first.ipynb"])
def test_a_file_called_as_canvas_calls_anothers_stays_in_its_folder(course: Path, forged: str) -> None:
    enrolled(course, CANVAS)
    files = {"dan/first.ipynb": b"dan's", f"dan/{forged}": b"evil", "zoe/first.ipynb": b"zoe's"}
    collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course)["zoe/lab1/first.ipynb"] == "zoe's"


def test_a_file_called_as_canvas_calls_anothers_in_no_ones_folder_is_nobodys(course: Path) -> None:
    enrolled(course, CANVAS)
    files = {"gone/x_102_9_first.ipynb": b"evil", "zoe/first.ipynb": b"zoe's", "dan/first.ipynb": b"dan's"}
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course) == {"dan/lab1/first.ipynb": "dan's", "zoe/lab1/first.ipynb": "zoe's"}
    assert left == ["gone: nobody in the roster goes by this name"]


@pytest.mark.parametrize("roster", [CANVAS, PLAIN])
@pytest.mark.parametrize("number", ["102", "5"])
def test_a_file_called_as_moodle_calls_anothers_is_its_owners_in_canvas(course: Path, roster: str, number: str) -> None:
    """Attack: somebody else's name, and even their number in Canvas, within the name of a file of one's own."""
    enrolled(course, roster)
    forged = f"müllerdand_101_555_z-oharazoë_{number}_assignsubmission_file_first.ipynb"
    forged = forged if roster == CANVAS else forged.replace("müllerdand", "müllerdan")
    for zoes in ({"oharazoë_102_556_first.ipynb": b"zoe's"}, {"somebodyelse_999_557_first.ipynb": b"whose?"}):
        collect(course, "lab1", zipped(course / "a.zip", {forged: b"dan's"} | zoes), print)
        assert there(course) == {"dan/lab1/first.ipynb": "dan's", "zoe/lab1/first.ipynb": "zoe's"}


def test_what_reads_as_an_export_of_either_is_neithers(course: Path) -> None:
    enrolled(course, PLAIN)
    files = {"oharazoë_102_556_z-Dan Müller_5_assignsubmission_file_first.ipynb": b"whose?"}
    with pytest.raises(Failed, match="do not say whether Canvas or Moodle made it"):
        collect(course, "lab1", zipped(course / "a.zip", files), print)


@pytest.mark.parametrize(
    "forged",
    [
        "Zoë O'Hara_77_assignsubmission_file_Dan_9_assignsubmission_file_/first.ipynb",
        "Dan_9_assignsubmission_file_x-Zoë O'Hara_77_assignsubmission_file_first.ipynb",
    ],
)
def test_a_name_in_moodle_that_may_end_in_two_places_is_nobodys(course: Path, forged: str) -> None:
    """Attack: a name of one's own that begins as somebody else's folder, or such a name for a file."""
    enrolled(course, MOODLE_PEOPLE)
    files = {forged: b"evil", next(iter(FROM_MOODLE)): b"dan's"}
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course) == {"dan/lab1/first.ipynb": "dan's"}
    assert left == [f"{forged}: nothing says where the student's name ends and the file's begins"]


def test_a_name_in_canvas_that_may_end_in_two_places_is_whose_number_is_known(course: Path) -> None:
    files = {
        "müllerdand_101_555_02_first.ipynb": b"dan's",  # a file called 02_first.ipynb
        "oharazoë_102_103_556_first.ipynb": b"evil",  # somebody who goes by "O'Hara Zoë_102", and is Anna
        "vonderberganna_LATE_103_text.html": b"anna's",
    }
    enrolled(course, CANVAS)
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course) == {"dan/lab1/first.ipynb": "dan's", "anna/lab1/text.html": "anna's"}
    assert [line.split(":")[0] for line in left] == ["oharazoë_102_103_556_first.ipynb"]


def test_a_file_of_somebody_unknown_is_nobodys_even_if_it_is_called_as_canvas_calls_anothers(course: Path) -> None:
    """Attack: Dan's number, and a later submission's, in the name of a file of one who is not in the roster yet."""
    forged = "zedlate_77_102_x_101_999999_first.ipynb"
    files = {"müllerdand_101_555_first.ipynb": b"dan's", forged: b"evil", f"LATE_{forged}": b"evil"}
    enrolled(course, CANVAS)
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course) == {"dan/lab1/first.ipynb": "dan's"}
    assert sorted(line.split(":")[0] for line in left) == [f"LATE_{forged}", forged]


def test_who_has_a_login_is_somebody_whatever_the_name(course: Path) -> None:
    """Attack: the name of Canvas's row of points, or of its test student, for oneself."""
    text = CANVAS + "Points Possible,105,u-5,mal,A,,\n" + '"Student, Test",106,u-6,tess,A,,\n'
    assert {"mal", "tess"} <= set(enrolled(course, text))
    without = CANVAS + "Points Possible,107,,,A,,\n"  # nor has everybody a login
    rows = filled(course, without.replace("lab1 (4711)", "Quiz"), ["lab1"])
    assert [row["lab1"] for row in rows if row["ID"] == "107"] == [""]
    rows = filled(course, text.replace("lab1 (4711)", "Quiz"), ["lab1"])
    assert [row["lab1"] for row in rows if row["SIS Login ID"] == "mal"] == [""]
    told: list[str] = []
    (course / "export.csv").write_text(text.replace("mal,A,,", "mal,A,7,"), encoding="utf-8")
    fill(course, course / "export.csv", ["lab1"], None, told.append)
    assert not any("points as the maximum" in line for line in told)


def test_two_rows_for_one_student_get_no_score(course: Path) -> None:
    """Attack: somebody else's name, so that a row of one's own is taken for theirs."""
    enrolled(course, PLAIN)
    give(course, "dan", 8.5)
    text = "Identifier,Full name,Status,Grade,Maximum Grade\n1,Dan Müller,,,10\n2,Zoë O'Hara,,,10\n3,Dan Müller,,,10\n"
    (course / "export.csv").write_text(text)
    assert fill(course, course / "export.csv", ["lab1"], course / "out.csv", print) == ["dan (2 rows may be meant)"]
    assert (course / "out.csv").read_text().splitlines() == text.splitlines()


def test_a_number_without_end_and_a_name_in_no_encoding_end_nothing(course: Path) -> None:
    enrolled(course, CANVAS)
    files = {f"zz_1_{'9' * 5000}_x.ipynb": b"1", "dan/first.ipynb": b"dan's"}
    collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course) == {"dan/lab1/first.ipynb": "dan's"}
    source = zipped(course / "b.zip", {"dan/fürst.ipynb": b"1"})
    source.write_bytes(source.read_bytes().replace("ü".encode(), b"\xff\xfe"))
    with pytest.raises(Failed, match="no zip that can be read"):
        collect(course, "lab1", source, print)


def test_a_known_number_in_the_lms_counts_more_than_a_name(course: Path) -> None:
    enrolled(course, CANVAS)
    files = {"oharazoë_102_556_first.ipynb": b"zoe's", "oharazoë_199_900_first.ipynb": b"evil"}
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course) == {"zoe/lab1/first.ipynb": "zoe's"}
    assert left == ["oharazoë: zoe goes by this name in the roster, with another number in the LMS (oharazoë_199_…)"]


@pytest.mark.parametrize("first", ["müllerdand_LATE_101_555_", 'Dan "D." Müller_9001_assignsubmission_file_/'])
def test_nobody_says_themselves_when_they_handed_in(course: Path, first: str) -> None:
    enrolled(course, CANVAS)
    files = {f"{first}first.ipynb": b"dan's", f"{first}Timestamp.txt": b"2026-01-01 00:00 UTC"}
    left = collect(course, "lab1", zipped(course / "a.zip", files, (1980, 1, 1, 0, 0, 0)), print)
    assert there(course) == {"dan/lab1/first.ipynb": "dan's"} and "does not say when" in left[0]
    assert intake.handed_in_at(course / "submitted" / "dan" / "lab1") == (None, [])


def test_a_name_that_no_disk_takes_costs_that_file_alone(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    dan, zoe, _ = (name.partition("/")[0] for name in list(FROM_MOODLE)[:3])
    files = {f"{dan}/first.ipynb": b"dan's", f"{dan}/{'é' * 128}": b"", zoe: b"zoe's"}
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert there(course) == {"dan/lab1/first.ipynb": "dan's", "zoe/lab1/first.ipynb": "zoe's"}
    assert "no file can be called so" in left[0]


def test_a_disk_that_takes_nothing_is_no_damaged_zip(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enrolled(course, PLAIN)

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(Failed, match=r"first\.ipynb cannot be written: No space left"):
        collect(course, "lab1", zipped(course / "a.zip", {"dan/first.ipynb": b"1"}), print)


@pytest.mark.parametrize(
    "name",
    [
        "../../evil",
        "/etc/evil",
        "a/../../evil",
        "..\\..\\evil",
        "C:\\evil",
        "C:evil",
        ".evil",
        "\x1b[2J",
        "x/" * 40 + "x",
    ],
)
def test_nothing_is_written_outside_of_a_students_folder(course: Path, name: str) -> None:
    enrolled(course, MOODLE_PEOPLE)
    before = {*course.parent.rglob("*")}
    top = 'Dan "D." Müller_9001_assignsubmission_file_/'
    files = {top + "first.ipynb": b"dan's", top + name: b"evil", name: b"evil"}
    left = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert len(left) >= 1 and "\x1b" not in "".join(left)
    new = {one for one in {*course.parent.rglob("*")} - before if one.is_file() and one.name != "a.zip"}
    assert all(one.is_relative_to(course / "submitted" / "dan" / "lab1") for one in new)
    assert "first.ipynb" in {one.name for one in new} and not any("evil" in one.name for one in new)


def test_bombs_links_and_damage_cost_their_own_submission_alone(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enrolled(course, MOODLE_PEOPLE)
    monkeypatch.setattr(intake, "MAX_FILE", 1000)
    dan, zoe, anna = (name.partition("/")[0].removesuffix("first.ipynb") for name in list(FROM_MOODLE)[:3])
    source = course / "a.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{dan}/first.ipynb", b"0" * 10**6)
        link = zipfile.ZipInfo(f"{zoe}link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr(f"{zoe}first.ipynb", b"zoe's")
        archive.writestr(zipfile.ZipInfo(f"{anna}/first.ipynb"), b"anna's own words")
    source.write_bytes(source.read_bytes().replace(b"anna's own words", b"anna's owm words"))
    left = collect(course, "lab1", source, print)
    assert there(course) == {"zoe/lab1/first.ipynb": "zoe's"}
    assert [line.split(":")[0] for line in left] == ["anna", "dan"] and "too large" in left[1]


def test_what_cannot_be_collected_says_why(course: Path) -> None:
    source = zipped(course / "a.zip", FROM_CANVAS)
    with pytest.raises(Failed, match="knows no students: python -m autograder roster"):
        collect(course, "lab1", source, print)
    enrolled(course, PLAIN)
    with pytest.raises(Failed, match="There is no lab lab9"):
        collect(course, "lab9", source, print)
    with pytest.raises(Failed, match="no zip that can be read"):
        collect(course, "lab1", course / "class.csv", print)
    with pytest.raises(Failed, match="no submission of anybody in the roster"):
        collect(course, "lab1", zipped(course / "b.zip", {"x_9_9_first.ipynb": b""}), print)


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_a_link_in_submitted_is_not_followed(course: Path) -> None:
    enrolled(course, PLAIN)
    (course / "elsewhere").mkdir()
    (course / "submitted").mkdir()
    (course / "submitted" / "dan").symlink_to(course / "elsewhere")
    left = collect(course, "lab1", zipped(course / "a.zip", {"dan/first.ipynb": b"1"}), print)
    assert left == ["dan: submitted/dan is a link"] and not list((course / "elsewhere").iterdir())


# --- Scores out -----------------------------------------------------------------------------------------------------


def filled(course: Path, text: str, labs: list[str], encoding: str = "utf-8") -> list[dict[str, str]]:
    (course / "export.csv").write_text(text, encoding=encoding)
    fill(course, course / "export.csv", labs, None, print)
    with (course / "export-scores.csv").open(encoding=encoding, newline="") as file:
        return list(csv.DictReader(file))


def test_a_name_that_is_html_is_none_in_the_gradebook(course: Path) -> None:
    """Attack: it runs in whoever opens nbgrader's pages; scores still find the row that has it."""
    table = '"Student",ID,SIS Login ID\n"Lory, <img src=x onerror=alert(1)>",101,mal\n'
    found = enrolled(course, table)["mal"]
    assert (found.last_name, found.first_name) == ("Lory", "_img src=x onerror=alert(1)_")
    with book(course) as gradebook:
        assert people.Class(gradebook).find(people.Person("", "<img src=x onerror=alert(1)>", "Lory")) == "mal"


def test_what_is_encrypted_costs_its_own_submission_alone(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    source = zipped(course / "a.zip", dict(list(FROM_MOODLE.items())[:2]))
    data = bytearray(source.read_bytes())
    data[6] |= 1  # in the header of the first member, and in the list of all
    data[data.index(b"PK\1\2") + 8] |= 1
    source.write_bytes(data)
    (left,) = collect(course, "lab1", source, print)
    assert left.startswith("dan: ") and "cannot be read" in left
    assert there(course) == {"zoe/lab1/first.ipynb": "zoe's"}


@pytest.mark.parametrize(("bound", "most"), [("MAX_FILES", 1), ("MAX_SUM", 100)])
def test_a_submission_of_more_than_it_may_be_costs_itself_alone(
    course: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    enrolled(course, MOODLE_PEOPLE)
    monkeypatch.setattr(intake, bound, most)
    dan, zoe = list(FROM_MOODLE)[:2]
    files = {dan: b"x" * 60, dan.replace("first.ipynb", "more.txt"): b"x" * 60, zoe: b"zoe's"}
    (left,) = collect(course, "lab1", zipped(course / "a.zip", files), print)
    assert left.startswith("dan: ") and ("too large" in left or "more than 1 files" in left)
    assert there(course) == {"zoe/lab1/first.ipynb": "zoe's"}
