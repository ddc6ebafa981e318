"""What of a lab is to be graded, and why: what nobody graded yet, what changed since, what was asked for."""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import find_all_files
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool
from traitlets.config import Config

from autograder.pipeline.cells import checked_in
from autograder.pipeline.intake import handed_in_at, meant
from autograder.pipeline.integrity import earlier_prints
from autograder.pipeline.journal import FILES, Journal, digest
from autograder.pipeline.parcel import (
    Rows,
    notebooks_of,
    pack,
    rows_of_lab,
    snapshot,
    students_of,
    without_time,
)
from autograder.pipeline.submission import is_graded

OF_LATENESS = ("LatePolicy", "LateSubmissionPlugin", "AssignLatePenalties")  # whose settings grade nothing
NAMED = 5  # students, in a line that says who is graded again


class Plan:
    """A lab, who handed it in, and for whom it is to be graded.

    Args:
        course: the course folder.
        config: what its nbgrader_config.py says.
        lab: the lab, which the gradebook knows.
        students: whose submissions can be graded.
        versions: those of the grader, as of `worker.versions`.
    """

    def __init__(self, course: Path, config: Config, lab: str, students: list[str], versions: dict[str, str]) -> None:
        self.course, self.lab, self.students = course, lab, students
        self.todo: list[str] = []  # students
        directory = CourseDirectory(config=config)
        with create_engine(directory.db_url, poolclass=NullPool).connect() as connection:
            self._rows = rows_of_lab(connection, lab, course / directory.release_directory / lab)
            self.notebooks = notebooks_of(connection, lab)
            self._in_gradebook = students_of(connection, lab)
        source = course / directory.source_directory / lab
        config_text = (course / "nbgrader_config.py").read_text(encoding="utf-8")
        paths = sorted(Path(name) for name in find_all_files(str(source), [*directory.ignore, "*.ipynb"]))
        beside = {path.relative_to(source).as_posix(): path.read_bytes() for path in paths}
        about = {"config": config_text, "rows": self._rows, "beside": list(beside)}
        self.packed = pack(about | {"released": earlier_prints(course, lab)}, beside.values())
        hashes = {name: digest(data) for name, data in beside.items()}
        self._of = {
            "source": digest({"cells": _content(self._rows), "beside": hashes}),
            "grader": digest({"versions": versions, "config": _decisive(config_text)}),
        }

    def includes(self, name: str) -> set[str]:
        """The students whose submissions belong to a student, a lab or an exercise of this name."""
        graded = {row["name"] for row in self._rows["base_cell"] if row["type"] == "GradeCell"}
        checks = (row["source"] for row in self._rows["source_cell"] if row["name"] in graded)
        checked = {checked_in(source) for source in checks}
        return set(self.students) if name == self.lab or name in checked else {name} & set(self.students)

    def look(self, journal: Journal, chosen: set[str], say: Callable[[str], None]) -> None:
        """Find out who is to be graded, and say why others than those who never were."""
        again: dict[str, list[str]] = defaultdict(list)
        self.todo = []
        for student in self.students:
            why = "this was asked for" if student in chosen else self._why_again(journal, student)
            if why is None:
                continue
            self.todo.append(student)
            if why:
                again[why].append(student)
        for why, students in again.items():
            who = ", ".join(students) if len(students) <= NAMED else f"{len(students)} submissions"
            say(f"{self.lab}: graded again, because {why}: {who}")

    def _why_again(self, journal: Journal, student: str) -> str | None:
        """Why a submission is graded again; "" if it never was, None if it is left as it is."""
        if not self.is_there(student) or journal.broken_off(self.lab, student):
            return ""
        if journal.knows(self.lab, student):
            return journal.why_again(self.lab, student, self.of(self.snapshot(student))) or None
        # Graded by nbgrader's own commands: its own rule.
        before, now = (handed_in_at(self.course / area / student / self.lab)[0] for area in ("autograded", "submitted"))
        return "it was handed in again" if before and now and now > before else None

    def _graded(self, student: str, notebook: str) -> bool:
        return is_graded(self.course / "autograded" / student / self.lab / f"{notebook}.ipynb")

    def is_there(self, student: str) -> bool:
        """Whether a submission has its grade, and all of its notebooks that are graded are whole."""
        names = meant(self.folder(student), self.notebooks)
        return student in self._in_gradebook and all(self._graded(student, name) for name in names)

    def folder(self, student: str) -> Path:
        """Where a submission lies."""
        return self.course / "submitted" / student / self.lab

    def snapshot(self, student: str) -> bytes:
        """A submission as it is now."""
        return snapshot(self.folder(student), self.notebooks)

    def of(self, submission: bytes) -> dict[str, str]:
        """A hash for each of what decides a grade."""
        return self._of | {"submission": digest(submission)}

    def files_of(self, submission: bytes) -> dict[str, str]:
        """A hash of its files, by which the journal tells attempts apart: the time of handing in is not in it."""
        return {FILES: digest(without_time(submission))}

    def request(self, student: str, submission: bytes, rows: Rows, seed: int) -> bytes:
        """What a worker is asked, as `worker.Desk` says."""
        return pack({"lab": self.lab, "student": student, "seed": seed, "rows": rows}, [self.packed, submission])


def _decisive(config: str) -> str:
    """What of nbgrader_config.py may decide what a check gives: not what being late costs, and no comment."""
    tree = ast.parse(config)
    tree.body = [line for line in tree.body if not re.match(rf"c\.({'|'.join(OF_LATENESS)})\.", ast.unparse(line))]
    return ast.unparse(tree)


def _content(rows: Rows) -> list[str]:
    """What the rows of a lab say, without the keys and the order that a gradebook gives them."""
    names = {row["id"]: row["name"] for table in ("notebook", "base_cell") for row in rows[table]}
    tables = rows.keys() - {"assignment", "course"}
    return sorted(
        json.dumps([table, {key: names.get(value, "") if key.endswith("id") else value for key, value in row.items()}])
        for table in tables
        for row in rows[table]
    )
