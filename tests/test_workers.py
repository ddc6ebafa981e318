"""Grading by workers: what is written of it, and what the journal keeps."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbgrader.api
import pytest
from nbgrader.api import Base, Gradebook
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool
from traitlets.config import Config

from autograder.pipeline import grading, parcel, writer
from autograder.pipeline.course import Failed
from autograder.pipeline.journal import FILE, PARTS, Journal
from autograder.pipeline.worker import Died
from autograder.pipeline.writer import Writer

# --- Gradebook and folders ------------------------------------------------------------------------------------------


class Postgresql:
    """A PostgreSQL server with an empty database, in a folder of its own; no port, only a socket there."""

    def __init__(self, folder: str) -> None:
        programs = [*map(Path, os.environ.get("PATH", "").split(os.pathsep))]
        programs += [*Path("/usr/lib/postgresql").glob("*/bin")]
        initdb = next((one / "initdb" for one in programs if (one / "initdb").is_file()), None)
        if initdb is None or importlib.util.find_spec("psycopg") is None:
            pytest.skip("there is no PostgreSQL (Debian's postgresql, and the extra `grade`)")
        user = "postgres" if os.geteuid() == 0 else None  # it does not run as root
        if user:
            shutil.chown(folder, user)
        self.how: dict[str, Any] = {"user": user, "cwd": folder, "stdout": subprocess.DEVNULL}
        self.how["stderr"] = subprocess.DEVNULL
        data = f"{folder}/data"
        subprocess.run([initdb, "-D", data, "-U", "postgres", "--auth=trust", "-N"], check=True, **self.how)
        self.command = [initdb.with_name("postgres"), "-D", data, "-k", folder, "-h", "", "-F"]
        self.url = f"postgresql+psycopg://postgres@/postgres?host={folder}"
        self.start()

    def start(self) -> None:
        self.server = subprocess.Popen(self.command, **self.how)
        for attempt in range(600):
            try:
                create_engine(self.url, poolclass=NullPool).connect().close()
                return
            except OperationalError:
                assert attempt < 599 and self.server.poll() is None
                time.sleep(0.1)

    def stop(self) -> None:
        self.server.send_signal(signal.SIGINT)  # with SIGTERM, it would wait for connections to be closed
        self.server.wait()


@pytest.fixture
def postgresql() -> Iterator[Postgresql]:
    with tempfile.TemporaryDirectory(prefix="headroom-pg-", dir="/tmp") as folder:
        server = Postgresql(folder)
        yield server
        server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A gradebook with a lab of one check and one answer."""
    monkeypatch.setattr(nbgrader.api, "get_alembic_version", lambda: "any")  # which starts a program to find out
    url = f"sqlite:///{tmp_path}/book.db"
    return with_a_lab(request.getfixturevalue("postgresql").url if request.param == "postgresql" else url)


def with_a_lab(url: str) -> str:
    with Gradebook(url, "course") as book:
        book.add_assignment("lab1", course_id="course")
        book.add_notebook("first", "lab1")
        book.add_grade_cell("check", "first", "lab1", max_score=10, cell_type="code")
        book.add_solution_cell("answer", "first", "lab1")
        book.add_source_cell("check", "first", "lab1", cell_type="code", source="check(A)", locked=True)
        book.add_source_cell("answer", "first", "lab1", cell_type="code", source="")
    return url


def rows(url: str, student: str = "ann") -> parcel.Rows:
    with create_engine(url).connect() as connection:
        return parcel.rows_of_submission(connection, "lab1", student)


def graded_elsewhere(
    tmp_path: Path, url: str, score: float, student: str = "ann", when: str | None = "2026-01-02 03:04:05 UTC"
) -> parcel.Rows:
    """The rows of a submission after another gradebook, that of a worker, took its score."""
    other = f"sqlite:///{tmp_path / 'worker.db'}"
    (tmp_path / "worker.db").unlink(missing_ok=True)
    with create_engine(url).connect() as connection:
        lab = parcel.rows_of_lab(connection, "lab1", tmp_path / "labs" / "lab1")
    Gradebook(other, "course").close()
    with create_engine(other).begin() as connection:
        parcel.put_rows(connection, {name: found for name, found in lab.items() if name != "course"})
        if (mine := rows(url, student))["submitted_assignment"]:
            parcel.put_rows(connection, mine)
    with Gradebook(other, "course") as book:
        book.update_or_create_student(student)
        with book.db.no_autoflush:
            book.update_or_create_submission("lab1", student, timestamp=when)
        grade: Any = book.find_grade("check", "first", "lab1", student)
        grade.auto_score, grade.needs_manual_grade = score, grade.manual_score is not None
        comment: Any = book.find_comment("answer", "first", "lab1", student)
        comment.auto_comment = "No response."
        book.db.commit()
    return rows(other, student)


def whole_gradebook(url: str) -> dict[str, list[Any]]:
    """All rows of a gradebook but for their keys: each as what it and all that it refers to is called."""
    tables = Base.metadata.sorted_tables
    with create_engine(url, poolclass=NullPool).connect() as connection:
        rows = {table.name: [dict(row) for row in connection.execute(table.select()).mappings()] for table in tables}
    names: dict[str, str] = {}
    for table, found in rows.items():
        for row in found:
            if row.get("id") and row["id"] not in names and table != "student":  # whose key is what they are called
                about = {
                    key: names.get(value, value) for key, value in row.items() if key.endswith("_id") or key == "name"
                }
                names[row["id"]] = f"{table} {json.dumps(about, sort_keys=True)}"
    return {
        table: sorted(
            json.dumps({key: names.get(value, value) for key, value in row.items()}, default=str) for row in found
        )
        for table, found in rows.items()
    }


FILES = {
    "autograded/ann/lab1/first.ipynb": b"graded",
    "autograded/ann/lab1/data/numbers.csv": b"1,2",
    "feedback/ann/lab1/first.html": b"<html></html>",
    "integrity/lab1/ann-first.md": b"note",
}


def folders(course: Path) -> dict[str, Any]:
    """What autograded/, feedback/ and integrity/ hold: names and modes, and what the notes say."""
    found = {}
    for area in ("autograded", "feedback", "integrity"):
        for path in (one for one in (course / area).rglob("*") if one.is_file()):
            same = path.read_text() if area == "integrity" else None
            found[path.relative_to(course).as_posix()] = (path.stat().st_mode & 0o777, same)
    return found


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def put(
    course: Path, url: str, score: float, files: dict[str, bytes], when: str | None = "2026-01-02 03:04:05 UTC"
) -> None:
    config = Config()
    config.CourseDirectory.root, config.CourseDirectory.course_id = str(course), "course"
    config.CourseDirectory.db_url = url
    about = {"rows": graded_elsewhere(course, url, score, when=when), "files": list(files)}
    Writer(course, config, print, print).write("lab1", "ann", about, list(files.values()))


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
def test_what_is_written_twice_is_there_once_and_what_is_by_hand_stays(url: str, tmp_path: Path) -> None:
    course = tmp_path
    put(course, url, 4.0, FILES)
    once = rows(url)
    put(course, url, 4.0, FILES)
    assert rows(url) == once
    (grade,) = once["grade"]
    assert (grade["auto_score"], grade["needs_manual_grade"]) == (4.0, False)
    assert once["submitted_assignment"][0]["timestamp"] == "2026-01-02T03:04:05"
    assert once["comment"][0]["auto_comment"] == "No response."
    with Gradebook(url, "course") as book:
        found: Any = book.find_grade("check", "first", "lab1", "ann")
        found.manual_score = 7.0
        book.db.commit()
    fewer = {name: data for name, data in FILES.items() if "integrity" not in name and "data" not in name}
    put(course, url, 5.0, fewer, when=None)
    assert rows(url)["submitted_assignment"][0]["timestamp"] is None, "which handed-in files no longer say"
    (grade,) = rows(url)["grade"]
    assert (grade["auto_score"], grade["manual_score"], grade["needs_manual_grade"]) == (5.0, 7.0, True)
    assert {*folders(course)} == {*fewer}
    assert os.name == "nt" or (course / "autograded/ann/lab1/first.ipynb").stat().st_mode & 0o777 == 0o444


def test_a_gradebook_that_is_gone_for_a_moment_is_tried_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [OperationalError("", {}, Exception("gone")), OperationalError("", {}, Exception("gone"))]
    record = Writer._record

    def sometimes(*arguments: Any) -> None:
        record(*arguments)
        if failures:
            raise failures.pop()

    monkeypatch.setattr(Writer, "_record", sometimes)
    monkeypatch.setattr(writer, "WAITS", (0, 0, 0))
    put(tmp_path, url, 4.0, FILES)
    assert failures == []
    assert [grade["auto_score"] for grade in rows(url)["grade"]] == [4.0]
    failures.extend([OperationalError("", {}, Exception("gone"))] * 4)
    with pytest.raises(Failed, match="cannot be used"):
        put(tmp_path, url, 5.0, FILES)


def test_a_full_disk_is_said_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody makes room within a minute."""
    url, said, waited = f"sqlite:///{tmp_path / 'gradebook.db'}", [], []
    Base.metadata.create_all(create_engine(url))
    monkeypatch.setattr(writer.time, "sleep", waited.append)
    engine = create_engine(url)

    def full() -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            connection.exec_driver_sql("CREATE TABLE more (text)")

    with pytest.raises(Failed, match=r"cannot be used: database or disk is full: make room\. The same command goes on"):
        writer.tried(full, tmp_path, said.append)
    assert (said, waited) == ([], [])


def test_grades_csv_is_written_once_more_where_the_gradebook_was_gone(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without nbgrader's traceback; what went wrong twice is said in a sentence."""
    statuses = [1, 0, 1, 1]

    def nbgrader(*_: Any, quiet: bool, failed: Any) -> int:
        if status := statuses.pop(0):
            failed("Traceback …\nsqlalchemy.exc.OperationalError: gone\n(Background on this error at: …)")
        return status

    monkeypatch.setattr(grading, "nbgrader", nbgrader)
    grading._export(tmp_path, url, print)
    assert statuses == [1, 1]
    with pytest.raises(Failed, match=r"^grades\.csv could not be written: sqlalchemy.exc.OperationalError: gone\. The"):
        grading._export(tmp_path, url, print)
    assert not any(capsys.readouterr())


def test_gradebooks_that_differ_in_who_has_which_score_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nbgrader.api, "get_alembic_version", lambda: "any")
    books = []
    for name, scores in (("one", {"ann": 1.0, "ben": 2.0}), ("other", {"ann": 2.0, "ben": 1.0})):
        with Gradebook(with_a_lab(f"sqlite:///{tmp_path}/{name}.db"), "course") as book:
            for student, score in scores.items():
                book.update_or_create_student(student)
                with book.db.no_autoflush:
                    book.update_or_create_submission("lab1", student)
                grade: Any = book.find_grade("check", "first", "lab1", student)
                grade.auto_score = score
                book.db.commit()
        books.append(whole_gradebook(f"sqlite:///{tmp_path}/{name}.db"))
    assert books[0] != books[1]


# --- The journal ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("Traceback …\n    TypeError: no such argument\n\n[ERROR] There was an error\n", "TypeError: no such argument"),
        (
            "RuntimeError: the kernel did not start\nnbgrader.converters.base.NbGraderException: see above\n",
            "RuntimeError: the kernel did not start",
        ),
        ("Killed\n\n", "Killed"),
        ("", "it said nothing"),
    ],
)
def test_what_went_wrong_is_told_by_the_error_itself(log: str, reason: str) -> None:
    assert grading._reason(log) == reason


def test_the_journal_says_what_changed_and_outlives_a_broken_line(tmp_path: Path) -> None:
    of = {part: part for part in PARTS}
    journal = Journal(tmp_path)
    assert not journal.knows("lab1", "ann") and not journal.broken_off("lab1", "ann")
    journal.add("lab1", "ann", of, 1, {"Softmax": {"score": 0.5, "mistakes": ["no root"]}})
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"lab": "lab1", "stud')
    Journal(tmp_path).add("lab1", "ben", of, 2, {})
    Journal(tmp_path).begin("lab1", "cleo")
    assert Journal(tmp_path).broken_off("lab1", "cleo") and not Journal(tmp_path).knows("lab1", "cleo")
    for who in ("ann", "ben"):
        assert Journal(tmp_path).knows("lab1", who) and not Journal(tmp_path).broken_off("lab1", who)
        assert Journal(tmp_path).why_again("lab1", who, of) == ""
    for part, said in PARTS.items():
        assert Journal(tmp_path).why_again("lab1", "ann", of | {part: "new"}) == said


def test_the_journal_keeps_what_was_said_of_each_thing_handed_in_once(tmp_path: Path) -> None:
    of = {part: part for part in PARTS}
    first, again, last = ({"Softmax": {"score": score, "mistakes": []}} for score in (0.1, 0.2, 1.0))
    journal = Journal(tmp_path)
    journal.add("lab1", "ann", of, 1, first)
    journal.add("lab1", "ann", of | {"grader": "new"}, 2, again)  # graded again, the same hand-in
    journal.add("lab1", "ann", of | {"submission": "new"}, 3, last)
    with (tmp_path / FILE).open("ab") as file:  # as an older version wrote it
        file.write(json.dumps({"lab": "lab1", "student": "ann", "of": of | {"submission": "old"}}).encode() + b"\n")
    assert Journal(tmp_path).attempts("lab1", "ann") == [again, last]
    assert Journal(tmp_path).attempts("lab1", "ben") == []


def test_the_hidden_cases_of_each_submission_are_drawn_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    class Asked:
        course, lab, todo = tmp_path, "lab1", ["ann", "ben"]

        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: seeds.append(arguments[-1]) or b"" if name == "request" else {}

    @contextmanager
    def answers(jobs: Any, *_: Any) -> Iterator[Any]:
        yield ((known, Died(str(request()))) for known, request in jobs), lambda: 1

    (tmp_path / ".headroom").mkdir()
    made = type("made", (), {"__init__": lambda self, *_: None, "rows": lambda self, *_: {}})
    for name, value in {"_answers": answers, "Writer": made, "versions": lambda course: {}}.items():
        monkeypatch.setattr(grading, name, value)
    plan: Any = Asked()
    for _ in range(2):
        grading._grade_and_write([plan], Journal(tmp_path), Config(), True, 1, None)
    assert len({*seeds}) == 4 and all(seed > 2**32 for seed in seeds)
