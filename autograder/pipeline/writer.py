"""Puts what workers answer into the gradebook and the course's folders, as nbgrader would have. Nothing else does."""

import shutil
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nbgrader.api import Base
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import rmtree
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from traitlets.config import Config

from autograder.pipeline.by_hand import Answers, answers, keep_or_take_back
from autograder.pipeline.course import STATE, Failed, in_short
from autograder.pipeline.parcel import Part, Rows, parts_of_lab, put_rows, rows_of_submission, set_row
from autograder.pipeline.turns import Turn

T = TypeVar("T")
WAITS = (0.5, 1, 2, 5, 10, 20, 30)  # seconds until the gradebook is tried again
FULL = {sqlite3.SQLITE_FULL, "53100"}  # what SQLite and PostgreSQL call a full disk
LEAST = 1 << 20  # bytes that are free on a disk that is not full
FRESH = f"{STATE}/fresh-{{}}"  # in the course folder, where a folder is written before it takes the old one's place

MADE = {  # by grading, in each table; the rest of a row is written by hand
    "submitted_notebook": ("late_submission_penalty",),
    "grade": ("auto_score", "needs_manual_grade"),
    "comment": ("auto_comment",),
}


class Writer:
    """Writes results one after the other. What it is told again, it writes again: the same rows, the same files.

    Args:
        course: its folder.
        config: what nbgrader_config.py says.
        say: called with a sentence when it waits for another process.
        warn: called with a sentence when the gradebook cannot be written for a while.
    """

    def __init__(self, course: Path, config: Config, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self.course, self._say, self._warn = course, say, warn
        directory = CourseDirectory(config=config)
        self._engine = create_engine(directory.db_url, poolclass=NullPool)
        self._converters = {
            "autograded": Autograde(directory, config=config),
            "feedback": GenerateFeedback(directory, config=config),
        }
        for old in course.glob(FRESH.format("*")):  # of one that was killed
            shutil.rmtree(old, ignore_errors=True)

    def rows(self, lab: str, student: str) -> Rows:
        """What the gradebook knows of a submission."""

        def read() -> Rows:
            with self._engine.connect() as connection:
                return rows_of_submission(connection, lab, student)

        return tried(read, self.course, self._warn)

    def write(self, lab: str, student: str, about: dict[str, Any], contents: list[bytes]) -> None:
        """Put in one result.

        Args:
            lab: the lab that was graded.
            student: whose.
            about: the worker's answer, which is `ok`.
            contents: of the answer's files.

        Raises:
            Failed: the gradebook cannot be written, although it was tried for a minute where the disk is not full; or
                it no longer knows these cells.
            OSError: a folder cannot be.
        """
        turn = Turn(self.course, f"{student}, {lab}", self._say)
        try:
            files: dict[str, dict[str, bytes]] = defaultdict(dict)
            for name, data in zip(about["files"], contents, strict=True):
                area, _, within = name.partition("/")
                files[area][within] = data
            tried(lambda: self._record(lab, student, about["rows"], files["autograded"]), self.course, self._warn)
            for area, converter in self._converters.items():
                self._replace(area, Path(student, lab), files[area])
                converter.set_permissions(lab, student)
            for notebook in {Path(name).stem for name in files["autograded"] if name.endswith(".ipynb")}:
                name = f"{lab}/{student}-{notebook}.md"
                note = self.course / "integrity" / name
                if name in files["integrity"]:
                    note.parent.mkdir(parents=True, exist_ok=True)
                    note.write_bytes(files["integrity"][name])
                else:
                    note.unlink(missing_ok=True)
        finally:
            turn.close()

    def _record(self, lab: str, student: str, rows: Rows, graded_files: dict[str, bytes]) -> None:
        """Write the rows of a submission in one transaction, as far as grading makes them; what is by hand stays.

        Points by hand for an answer that has changed do not: see `by_hand`.
        """
        tables, graded = Base.metadata.tables, _parts(rows)
        with self._engine.begin() as connection:
            known_rows = rows_of_submission(connection, lab, student)
            new = not known_rows["submitted_assignment"]
            known_parts = dict.fromkeys(parts_of_lab(connection, lab)) if new else _parts(known_rows)
            if not (known_parts.keys() == graded.keys() if new else known_parts.keys() <= graded.keys()):
                raise Failed(f"{lab} was changed while it was graded; the next run grades it again.")
            if not known_rows["student"]:
                put_rows(connection, {"student": rows["student"]})
            if new:
                put_rows(connection, {name: of_table for name, of_table in rows.items() if name != "student"})
                return
            (handed_in,), (known,) = rows["submitted_assignment"], known_rows["submitted_assignment"]
            set_row(connection, tables["submitted_assignment"], known["id"], timestamp=handed_in["timestamp"])
            for part, row in known_parts.items():
                assert row is not None
                made = {name: graded[part][name] for name in MADE[part[0]]}
                set_row(connection, tables[part[0]], row["id"], **made)
            for path in (self.course / "autograded" / student / lab).glob("*.ipynb"):
                now = graded_files.get(f"{student}/{lab}/{path.name}", b"")
                keep_or_take_back(connection, lab, student, path.stem, partial(_answers, path), partial(answers, now))

    def _replace(self, area: str, within: Path, files: dict[str, bytes]) -> None:
        """Have a folder hold these files and nothing else: those that it held, or all of them, whatever happens."""
        fresh, target = self.course / FRESH.format(area), self.course / area / within
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        for name, data in files.items():
            path = fresh / Path(name).relative_to(within)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if target.exists():
            rmtree(str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.rename(target)


def tried(do: Callable[[], T], course: Path, warn: Callable[[str], None]) -> T:
    """Do something with the gradebook, again and again where it is gone or locked; a full disk stays full.

    Args:
        do: what can be done again if it broke off.
        course: the course folder.
        warn: called with a sentence before each wait.

    Raises:
        Failed: it was tried for a minute, or the disk is full.
    """
    for wait in (*WAITS, None):
        try:
            return do()
        except DBAPIError as problem:
            why = in_short(problem)
            if full := _is_full(problem, course):
                why += ": make room"
            if wait is None or full:
                raise Failed(f"The gradebook cannot be used: {why}. The same command goes on from there.") from problem
            warn(f"The gradebook cannot be used ({why}); next attempt in {wait} s.")
        time.sleep(wait)
    raise AssertionError


def _is_full(problem: DBAPIError, course: Path) -> bool:
    """Whether there is no room on a disk: the database's, as it says itself, or the course folder's."""
    codes = (getattr(problem.orig, name, None) for name in ("sqlite_errorcode", "sqlstate"))
    return not FULL.isdisjoint(codes) or shutil.disk_usage(course).free < LEAST


def _answers(path: Path) -> Answers:
    """The answers in a file of autograded/."""
    return answers(path.read_bytes()) if path.is_file() else {}


def _parts(rows: Rows) -> dict[Part, dict[str, Any]]:
    """The rows of a submission that grading writes, by what they are about."""
    notebooks = {row["id"]: row["notebook_id"] for row in rows["submitted_notebook"]}
    parts: dict[Part, dict[str, Any]] = {
        ("submitted_notebook", row["notebook_id"], ""): row for row in rows["submitted_notebook"]
    }
    return parts | {
        (name, notebooks[row["notebook_id"]], row["cell_id"]): row
        for name in ("grade", "comment")
        for row in rows[name]
    }
