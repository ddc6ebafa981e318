"""Collecting from an exchange in which everybody may write: whose a submission is, and what of it is taken."""

import getpass
import logging
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there is no exchange on Windows", allow_module_level=True)

from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange import ExchangeFactory
from nbgrader.utils import notebook_hash
from traitlets.config import Config

from autograder.pipeline import intake
from autograder.pipeline.configuration import configure
from autograder.pipeline.exchange import CollectOwn, ReleaseOwn
from tests import small_course

ME = getpass.getuser()


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "exchange" / "course" / "inbound").mkdir(parents=True)
    (tmp_path / "exchange").chmod(0o777)
    return small_course.make(tmp_path, monkeypatch)


def submit(course: Path, student: str, clock: str, text: str = "{}") -> Path:
    folder = course / "exchange" / "course" / "inbound" / f"{student}+lab1+2026-11-20 {clock} UTC+x1"
    folder.mkdir()
    (folder / "first.ipynb").write_text(text)
    (folder / "timestamp.txt").write_text(f"2026-11-20 {clock} UTC")
    return folder


def exchange(course: Path) -> Config:
    """The course's configuration, with an exchange of its own."""
    config = Config()
    configure(config, course)
    config.CourseDirectory.merge({"course_id": "course", "assignment_id": "lab1"})
    config.CourseDirectory.db_url = f"sqlite:///{course}/gradebook.db"
    config.Exchange.root = str(course / "exchange")
    return config


def collect(course: Path, student: str = "*", **settings: object) -> dict[str, str]:
    """Collect as the course's configuration has it; what lies in submitted/ then."""
    config = exchange(course)
    config.CourseDirectory.student_id = student
    config.ExchangeCollect.merge(settings)
    made = ExchangeFactory(config=config).Collect(coursedir=CourseDirectory(config=config), config=config)
    assert isinstance(made, CollectOwn)
    made.start()
    files = [path for path in (course / "submitted").rglob("*") if path.is_file() and path.name != "timestamp.txt"]
    return {path.relative_to(course / "submitted").as_posix(): path.read_text() for path in files}


def test_the_latest_that_is_a_students_own_is_taken(course: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of each: somebody else's folder in a student's name, later than the true one, is said and left out."""
    caplog.set_level(logging.ERROR)
    submit(course, ME, "10:00:00", "first")
    submit(course, ME, "11:00:00", "second")
    submit(course, "ben", "12:00:00", "forged")
    (course / "exchange" / "course" / "inbound" / "ben+lab1+2026-11-20 13:00:00 UTC+x").symlink_to(course / "solutions")
    assert collect(course) == {f"{ME}/lab1/first.ipynb": "second"}
    assert [record.message for record in caplog.records].count("x") == 0
    assert sum("is left out: it belongs to" in record.message for record in caplog.records) == 2


def test_a_folder_whose_name_cannot_be_read_ends_nothing(course: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Attack: anybody can make one."""
    submit(course, ME, "10:00:00", "mine")
    for time in ("rubbish", "99999999999999999999-01-01", "\n\x1b[2J"):
        (course / "exchange" / "course" / "inbound" / f"{ME}+lab1+{time}+x1").mkdir()
    for owner in (True, False):
        assert collect(course, check_owner=owner) == {f"{ME}/lab1/first.ipynb": "mine"}
    assert caplog.text.count("its name does not say") >= 3 and "\x1b" not in caplog.text


def test_a_later_one_takes_its_place_and_where_all_are_one_user_nobody_is_left_out(course: Path) -> None:
    submit(course, ME, "10:00:00", "first")
    submit(course, "ben", "10:00:00", "ben's")
    assert collect(course, check_owner=False) == {f"{ME}/lab1/first.ipynb": "first", "ben/lab1/first.ipynb": "ben's"}
    submit(course, ME, "11:00:00", "second")
    assert collect(course, update=False)[f"{ME}/lab1/first.ipynb"] == "first"
    assert collect(course)[f"{ME}/lab1/first.ipynb"] == "second"


def test_what_came_in_time_counts_where_the_due_date_is_looked_at(course: Path) -> None:
    small_course.due(course, datetime(2026, 11, 20, 10, 30))
    for clock in ("09:00:00", "10:00:00", "11:00:00"):
        submit(course, ME, clock, clock)
    submit(course, "ben", "12:00:00", "late")
    files = collect(course, before_duedate=True, check_owner=True)
    assert files == {f"{ME}/lab1/first.ipynb": "10:00:00"}
    assert collect(course, before_duedate=False) == {f"{ME}/lab1/first.ipynb": "11:00:00"}


def test_who_has_nothing_in_time_is_not_left_out(course: Path) -> None:
    small_course.due(course, datetime(2026, 11, 20, 8, 0))
    for clock in ("09:00:00", "10:00:00"):
        submit(course, ME, clock, clock)
    assert collect(course, before_duedate=True) == {f"{ME}/lab1/first.ipynb": "10:00:00"}


@pytest.mark.parametrize("student", ["*", ME, "ben"])
def test_of_one_student_alone_is_collected_if_that_is_asked_for(course: Path, student: str) -> None:
    submit(course, ME, "10:00:00", "mine")
    assert collect(course, student) == ({} if student == "ben" else {f"{ME}/lab1/first.ipynb": "mine"})


def test_folders_that_nbgrader_does_not_copy_are_not_collected(course: Path) -> None:
    folder = submit(course, ME, "10:00:00", "mine")
    for name in ("__pycache__", "feedback", ".ipynb_checkpoints", "pictures"):
        (folder / name).mkdir()
        (folder / name / "one.txt").write_text(name)
    assert collect(course) == {f"{ME}/lab1/first.ipynb": "mine", f"{ME}/lab1/pictures/one.txt": "pictures"}


def test_links_pipes_and_what_is_too_much_stay_where_they_are(course: Path, caplog: pytest.LogCaptureFixture) -> None:
    """nbgrader copies what a link leads to, with the instructor's rights, and a pipe ends its collecting."""
    folder = submit(course, ME, "10:00:00", "mine")
    (course / "secret.txt").write_text("the answer")
    (folder / "answer.txt").symlink_to(course / "secret.txt")
    (folder / "all").symlink_to(course / "solutions")
    os.mkfifo(folder / "pipe")
    (folder / "data" / "more").mkdir(parents=True)
    (folder / "data" / "more" / "numbers.txt").write_text("1 2 3")
    with (folder / "huge.bin").open("wb") as file:
        file.truncate(10**12)
    deep = folder
    for _ in range(40):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert collect(course) == {f"{ME}/lab1/first.ipynb": "mine", f"{ME}/lab1/data/more/numbers.txt": "1 2 3"}
    assert {Path(record.message.split("'")[1]).name for record in caplog.records if "left out" in record.message} == {
        *("answer.txt", "all", "pipe", "huge.bin")
    }


def test_of_files_without_end_some_are_looked_at_and_few_are_named(
    course: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: millions of them, which would keep the collecting of all from its end."""
    monkeypatch.setattr(intake, "MAX_LOOKED_AT", 60)
    monkeypatch.setattr(intake, "MAX_FILES", 10)
    folder = submit(course, ME, "10:00:00", "mine")
    for name in ("many", "more"):
        (folder / name).mkdir()
        for i in range(50):
            (folder / name / f"{i:02}.txt").write_text(name)
    assert len(collect(course)) == 10 - 1  # beside timestamp.txt
    left_out = [record.message for record in caplog.records if "left out" in record.message]
    assert len(left_out) == intake.MAX_REMARKS + 1 and "more files are left out" in left_out[-1]
    assert "has too many files: 60 were looked at" in caplog.text


@pytest.mark.parametrize("beyond", [0, 1])
def test_as_many_files_as_are_looked_at_are_not_too_many(
    course: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    folder = submit(course, ME, "10:00:00", "mine")
    (folder / "data").mkdir()
    (folder / "empty").mkdir()
    (folder / "data" / "numbers.txt").write_text("1 2 3")
    there = len(list(folder.rglob("*")))
    monkeypatch.setattr(intake, "MAX_LOOKED_AT", there - beyond)
    collect(course)
    assert ("has too many files" in caplog.text) is bool(beyond)


def test_of_all_files_no_more_is_taken_than_a_submission_may_have(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MAX_SUM", 100)
    folder = submit(course, ME, "10:00:00", "mine")
    for name in "abc":
        (folder / f"{name}.txt").write_text(40 * name)
    assert {Path(name).name for name in collect(course)} == {"a.txt", "b.txt", "first.ipynb"}


def test_a_file_of_somebody_elses_is_not_read(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attack: a hard link to a file of the instructor's or a classmate's, which is no link to whoever reads it."""
    folder = submit(course, ME, "10:00:00", "mine")
    os.link(course / "nbgrader_config.py", folder / "theirs.txt")
    theirs, fstat = (folder / "theirs.txt").stat(), os.fstat

    def owned(descriptor: int) -> os.stat_result:
        about = fstat(descriptor)
        return os.stat_result([*about[:4], about.st_uid + (about.st_ino == theirs.st_ino), *about[5:]])

    monkeypatch.setattr(os, "fstat", owned)
    assert collect(course) == {f"{ME}/lab1/first.ipynb": "mine"}


@pytest.mark.parametrize("stamp", [b"garbage \xff", b"garbage", b"", None, "a folder"])
def test_a_stamp_that_says_no_time_ends_nothing(course: Path, stamp: bytes | str | None) -> None:
    """Attack: nbgrader reads it when the next submissions are collected, and ends there for the whole class."""
    folder = submit(course, ME, "10:00:00", "first")
    (folder / "timestamp.txt").unlink()
    if isinstance(stamp, bytes):
        (folder / "timestamp.txt").write_bytes(stamp)
    elif stamp is not None:
        (folder / "timestamp.txt").mkdir()
        (folder / "timestamp.txt" / "x").write_text("x")
    collect(course)
    kept = course / "submitted" / ME / "lab1" / "timestamp.txt"
    assert kept.read_text().startswith("2026-11-20 10:00:00")
    kept.write_bytes(b"garbage \xff")  # as an earlier version took it
    submit(course, ME, "11:00:00", "second")
    assert collect(course, update=True)[f"{ME}/lab1/first.ipynb"] == "second"
    assert kept.read_text().startswith("2026-11-20 11:00:00")


def test_a_time_that_is_not_that_of_writing_is_said(course: Path, caplog: pytest.LogCaptureFixture) -> None:
    submit(course, ME, "00:00:01").rename(
        course / "exchange" / "course" / "inbound" / f"{ME}+lab1+2020-01-01 00:00:01 UTC+x"
    )
    collect(course)
    assert "says another time than that at which it was written" in caplog.text


@pytest.mark.parametrize(("hours", "said"), [(0.5, False), (2.0, True)])
def test_a_time_may_be_an_hour_before_that_of_writing(
    course: Path, caplog: pytest.LogCaptureFixture, hours: float, said: bool
) -> None:
    """Who hands in much over a slow network is not suspected."""
    when = datetime.now(UTC) - timedelta(hours=hours)
    folder = submit(course, ME, "10:00:00")
    folder.rename(folder.with_name(f"{ME}+lab1+{when:%Y-%m-%d %H:%M:%S} UTC+x"))
    collect(course)
    assert ("says another time than that" in caplog.text) == said


def test_a_secret_that_cannot_be_read_keeps_back_no_page_but_its_own(
    course: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Attack: nbgrader reads it beside the page, where it must not lie, and ends there for the whole class.

    Who has none handed in by another way.
    """
    caplog.set_level(logging.INFO)
    secrets = {"ada": b"a secret", "ben": b"", "chloe": b"\xff\xfe", "dmitri": None, "zoe": b"another"}
    for student, secret in secrets.items():
        folder, page = (course / name / student / "lab1" for name in ("submitted", "feedback"))
        folder.mkdir(parents=True)
        page.mkdir(parents=True)
        (page / "first.html").write_text(f"the page of {student}")
        if secret is not None:
            (folder / "submission_secret.txt").write_bytes(secret)
    config = exchange(course)
    config.CourseDirectory.student_id_exclude = "eve,fay"
    for student in ("eve", "fay"):
        shutil.copytree(course / "submitted" / "ada", course / "submitted" / student)
        shutil.copytree(course / "feedback" / "ada", course / "feedback" / student)
        (course / "submitted" / student / "lab1" / "submission_secret.txt").write_text(f"of {student}")
    release = ExchangeFactory(config=config).ReleaseFeedback(coursedir=CourseDirectory(config=config), config=config)
    assert isinstance(release, ReleaseOwn)
    release.start()
    out = course / "exchange" / "course" / "feedback"
    keys = {notebook_hash(secret=secrets[name].decode(), notebook_id="first"): name for name in ("ada", "zoe")}
    assert {path.name: path.read_text() for path in out.iterdir()} == {
        f"{key}.html": f"the page of {student}" for key, student in keys.items()
    }
    assert caplog.text.count("is not released") == 2
    assert "hand feedback/STUDENT/ back in another way to 'dmitri'." in caplog.text


def test_what_goes_or_is_exchanged_between_finding_and_copying_ends_nothing(
    course: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attack: whoever may write in a folder can rename what lies in it."""
    caplog.set_level(logging.ERROR)
    find = CollectOwn.init_src
    for clock, other in (("10:00:00", None), ("11:00:00", course / "solutions")):
        folder = submit(course, ME, clock, "mine")

        def taken_away(self: CollectOwn, folder: Path = folder, other: Path | None = other) -> None:
            find(self)
            folder.rename(course / folder.name)
            if other:
                folder.symlink_to(other)

        with monkeypatch.context() as patch:
            patch.setattr(CollectOwn, "init_src", taken_away)
            assert collect(course) == {}
        assert f"{folder.name}' is left out" in caplog.text
        folder.unlink(missing_ok=True)
    folder = submit(course, ME, "12:00:00", "somebody else's")
    with monkeypatch.context() as patch:
        owners = iter([ME])  # when it is found; then another's lies in its place
        patch.setattr("autograder.pipeline.exchange._user", lambda number: next(owners, "ben"))
        assert collect(course) == {}
    assert "it belongs to 'ben' now" in caplog.text
    assert collect(course) == {f"{ME}/lab1/first.ipynb": "somebody else's"}
