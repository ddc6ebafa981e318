"""Submissions that are collected again, over what was put into submitted/ by hand; and what `collect` says of them."""

import os
import zipfile
from pathlib import Path

import pytest

from autograder.pipeline import intake, lms_submissions
from autograder.pipeline.course import Failed
from autograder.pipeline.lms_submissions import collect
from tests import small_course
from tests.test_lms import CANVAS, MOODLE_PEOPLE, PLAIN, enrolled, there, zipped

DAN, ZOE = "müllerdand_101_555_first.ipynb", "oharazoë_LATE_102_556_first.ipynb"
IN_MOODLE = 'Dan "D." Müller_9001_assignsubmission_file_/first.ipynb'
TIME = "2026-11-23 18:00:00 UTC"


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return small_course.make(tmp_path, monkeypatch)


def collected(course: Path, files: dict[str, bytes], hour: int = 9) -> tuple[list[str], list[str]]:
    """What was left out, and what was said."""
    told: list[str] = []
    source = zipped(course / "export.zip", files, (2026, 11, 22, hour, 0, 0))
    return collect(course, "lab1", source, told.append), told


def stamp(course: Path, student: str) -> Path:
    return course / "submitted" / student / "lab1" / intake.STAMP


# --- What lies in submitted/ already ----------------------------------------------------------------------------------


def test_an_export_of_canvas_that_is_collected_again_changes_nothing(course: Path) -> None:
    enrolled(course, CANVAS)
    files = {DAN: b"dan's", ZOE: b"zoe's", "oharazoë_LATE_102_557_data.csv": b"1,2"}
    _, told = collected(course, files)
    assert "LATE, but not when: zoe" in told[-1]
    stamp(course, "zoe").write_text(TIME)
    (stamp(course, "zoe").parent / ".ipynb_checkpoints").mkdir()
    (stamp(course, "zoe").parent / ".ipynb_checkpoints" / "first.ipynb").write_text("as it was looked at")
    before = {path: path.stat().st_mtime_ns for path in (course / "submitted").rglob("*")}
    left, told = collected(course, files)
    assert {path: path.stat().st_mtime_ns for path in (course / "submitted").rglob("*")} == before
    assert stamp(course, "zoe").read_text() == TIME and not left
    assert told == [
        "lab1: no submissions taken, 2 there already. submitted/ has those of 2 of 3 students in the roster."
    ]


@pytest.mark.parametrize("written", [TIME, "on Monday"])
def test_what_has_a_time_stays_where_canvas_brings_another_file_without_one(course: Path, written: str) -> None:
    """It may have come by mail, later; that it is the earlier one, nothing says."""
    enrolled(course, CANVAS)
    collected(course, {DAN: b"first", ZOE: b"zoe's"})
    (stamp(course, "dan").parent / "first.ipynb").write_text("by mail")
    stamp(course, "dan").write_text(written)
    left, told = collected(course, {DAN: b"second", ZOE: b"zoe's"})
    assert there(course)["dan/lab1/first.ipynb"] == "by mail" and stamp(course, "dan").read_text() == written
    assert left == [
        "dan: the export does not say when this was handed in, and submitted/ has other files with a timestamp.txt, "
        "which stay; to have the export's, delete submitted/dan/lab1 and collect again"
    ]
    assert told[-1] == "What is left out can be put into submitted/STUDENT/lab1 by hand."


@pytest.mark.parametrize("name", [DAN, IN_MOODLE])
def test_what_is_replaced_is_said(course: Path, name: str) -> None:
    enrolled(course, CANVAS)
    collected(course, {name: b"first"})
    left, told = collected(course, {name: b"second"}, hour=10)
    assert there(course) == {"dan/lab1/first.ipynb": "second"} and not left
    assert told == [
        "lab1: 1 submission taken, 0 there already. submitted/ has those of 1 of 3 students in the roster.",
        "Replaced in submitted/, which held other files: dan.",
    ]


def test_a_time_written_by_hand_stays_where_moodle_brings_the_same_files(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    collected(course, {IN_MOODLE: b"dan's"}, hour=9)
    stamp(course, "dan").write_text("2026-11-21 18:00:00 UTC")
    left, told = collected(course, {IN_MOODLE: b"dan's"}, hour=9)
    assert stamp(course, "dan").read_text() == "2026-11-21 18:00:00 UTC" and not left
    assert told[0].startswith("dan: the same files are in submitted/; their timestamp.txt stays, not 2026-11-22")
    stamp(course, "dan").unlink()
    _, told = collected(course, {IN_MOODLE: b"dan's"}, hour=9)
    assert told[0].startswith("dan: the same files are in submitted/, and get the time 2026-11-22")
    assert stamp(course, "dan").read_text().startswith("2026-11-22")


def test_a_file_that_was_mended_by_hand_stays_where_moodle_brings_the_same_hand_in(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    collected(course, {IN_MOODLE: b"broken"})
    (stamp(course, "dan").parent / "first.ipynb").write_text("mended")
    (left,), _ = collected(course, {IN_MOODLE: b"broken"})
    assert there(course) == {"dan/lab1/first.ipynb": "mended"}
    assert left.startswith("dan: what lies in submitted/ differs, and was handed in at the same time, at 2026-11-22")


def test_a_file_that_was_renamed_by_hand_stays_where_canvas_brings_the_same_hand_in(course: Path) -> None:
    enrolled(course, CANVAS)
    wrong = DAN.replace("first", "second")
    collected(course, {wrong: b"dan's"})
    (old,) = (course / "submitted" / "dan" / "lab1").glob("second*")
    old.rename(old.with_name("first.ipynb"))
    left, told = collected(course, {wrong: b"dan's"})
    assert there(course) == {"dan/lab1/first.ipynb": "dan's"} and not left
    assert told[0] == "dan: the same files are in submitted/dan/lab1, under other names, and stay as they are."


def test_a_file_that_its_student_renamed_takes_the_place_of_the_same_under_a_wrong_name(course: Path) -> None:
    enrolled(course, CANVAS)
    collected(course, {DAN.replace("first", "second"): b"dan's"})
    left, told = collected(course, {DAN: b"dan's"})
    assert there(course) == {"dan/lab1/first.ipynb": "dan's"} and not left
    assert told[-1] == "Replaced in submitted/, which held other files: dan."


def test_a_time_that_comes_with_a_students_folder_counts(course: Path) -> None:
    enrolled(course, PLAIN)
    collected(course, {"dan/first.ipynb": b"second", f"dan/{intake.STAMP}": TIME.encode()})
    (left,), _ = collected(course, {"dan/first.ipynb": b"first", f"dan/{intake.STAMP}": b"2026-11-23 17:00:00 UTC"})
    assert there(course) == {"dan/lab1/first.ipynb": "second"} and "handed in later" in left


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_a_link_is_not_the_same_file_as_what_it_leads_to(course: Path) -> None:
    enrolled(course, PLAIN)
    collected(course, {"dan/first.ipynb": b"dan's"})
    path = course / "submitted" / "dan" / "lab1" / "first.ipynb"
    path.rename(course / "elsewhere")
    path.symlink_to(course / "elsewhere")
    _, told = collected(course, {"dan/first.ipynb": b"dan's"})
    assert not path.is_symlink() and told[-1] == "Replaced in submitted/, which held other files: dan."


def test_a_zip_that_knows_no_times_brings_none(course: Path) -> None:
    """What programs write into one that do not know is the year in which zips begin."""
    enrolled(course, MOODLE_PEOPLE)
    source = zipped(course / "export.zip", {IN_MOODLE: b"dan's"}, (1980, 1, 1, 0, 0, 0))
    assert collect(course, "lab1", source, print) == []
    assert there(course) == {"dan/lab1/first.ipynb": "dan's"} and not stamp(course, "dan").exists()


# --- What is said -----------------------------------------------------------------------------------------------------


def test_a_file_is_said_to_be_taken_only_if_it_was(course: Path) -> None:
    enrolled(course, MOODLE_PEOPLE)
    of_dan, of_zoe = IN_MOODLE.partition("/")[0], "Zoë O'Hara_9002_assignsubmission_file_"
    _, told = collected(
        course,
        {
            f"{of_dan}/first (1).ipynb": b"1",
            f"{of_dan}/first.ipynb": b"2",
            f"{of_zoe}/first.ipynb": b"1",
            f"{of_zoe}/first (1).ipynb": b"2",
        },
    )
    assert told[:2] == [
        "dan: first.ipynb is taken, and not 'first (1).ipynb'.",
        "zoe: 'first (1).ipynb' is taken for first.ipynb, and not 'first.ipynb'.",
    ]
    assert there(course) == {"dan/lab1/first.ipynb": "2", "zoe/lab1/first.ipynb": "2"}


def test_files_that_are_taken_for_no_notebook_are_said(course: Path) -> None:
    enrolled(course, CANVAS)
    _, told = collected(course, {"müllerdand_101_555_f.ipynb": b"", "oharazoë_102_556_solution.pdf": b""})
    assert told[:2] == [
        "dan: There is 'f.ipynb' in it: the file is to be called first.ipynb.",
        "zoe: There is no first.ipynb in it.",
    ]


def test_what_is_not_called_as_the_rest_is_said(course: Path) -> None:
    enrolled(course, CANVAS)
    left, _ = collected(course, {DAN: b"1", ZOE: b"2", "old/dan.txt": b"", "notes.txt": b""})
    assert left == [f"{name}: not called as the other files of this export are" for name in ("old", "notes.txt")]


@pytest.mark.parametrize(
    "in_canvas",
    ["Smith, Jr., Robert", "Smith, Robert Jr.", "Smith Jr., Robert", "Smith, Robert, Jr.", "Robert Smith Jr."],
)
@pytest.mark.parametrize("in_moodle", ["Robert Smith, Jr.", "Robert Smith Jr.", "Robert Jr. Smith"])
def test_a_suffix_of_a_name_may_stand_anywhere(course: Path, in_canvas: str, in_moodle: str) -> None:
    found = enrolled(course, f'Student,ID,SIS Login ID\n"{in_canvas}",101,rob\n"Smith, Robert",102,bob\n')
    if in_canvas == "Smith, Jr., Robert":
        assert (found["rob"].last_name, found["rob"].first_name) == ("Smith, Jr.", "Robert")
    left, _ = collected(course, {f"{in_moodle}_9_assignsubmission_file_/first.ipynb": b"rob's"})
    assert there(course) == {"rob/lab1/first.ipynb": "rob's"} and not left


def test_what_a_mac_adds_to_a_zip_does_not_say_who_made_the_export(course: Path) -> None:
    """More of it than of the files themselves, each in a folder."""
    enrolled(course, CANVAS)
    added = {f"__MACOSX/{n}/._{DAN}": b"" for n in range(3)} | {"__MACOSX/._x": b"", ".DS_Store": b""}
    collected(course, {DAN: b"1"} | added)
    assert there(course) == {"dan/lab1/first.ipynb": "1"}


@pytest.mark.parametrize("as_folder", [False, True])
def test_an_export_of_too_many_files_is_refused(course: Path, monkeypatch: pytest.MonkeyPatch, as_folder: bool) -> None:
    enrolled(course, PLAIN)
    source = zipped(course / "export.zip", {"dan/first.ipynb": b"1", "dan/a.txt": b"", "dan/b.txt": b""})
    if as_folder:
        zipfile.ZipFile(source).extractall(course / "export")
        source = course / "export"
    monkeypatch.setattr(lms_submissions, "MAX_MEMBERS", 2)
    with pytest.raises(Failed, match="has more than 2 files"):
        collect(course, "lab1", source, print)
    monkeypatch.setattr(lms_submissions, "MAX_MEMBERS", 3)
    assert collect(course, "lab1", source, print) == []


def test_who_is_late_is_said_where_no_time_says_how_much(course: Path) -> None:
    enrolled(course, CANVAS)
    _, told = collected(course, {ZOE: b"1", DAN: b"2"})
    assert told[-1].startswith("Canvas says LATE, but not when: zoe. submitted/STUDENT/lab1/timestamp.txt can say it.")
    stamp(course, "zoe").write_text(TIME)
    _, told = collected(course, {ZOE: b"1", DAN: b"2"})
    assert not any("LATE" in line for line in told)


def test_of_the_class_are_counted_those_who_are_in_it(course: Path) -> None:
    """Somebody else's folder, as of a trial of the instructor's own, is none of theirs."""
    enrolled(course, CANVAS)
    (course / "submitted" / "trial" / "lab1").mkdir(parents=True)
    _, told = collected(course, {DAN: b"1"})
    assert told[0].endswith("submitted/ has those of 1 of 3 students in the roster.")
