"""Reads what is known of a class: the gradebook, the graded notebooks, the journal, the integrity notes."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Base, Gradebook
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import create_engine, select
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from autograder.pipeline import labs
from autograder.pipeline.cells import checked_name
from autograder.pipeline.course import Failed, configuration, in_short
from autograder.pipeline.integrity import SaveIntegrityNote
from autograder.pipeline.journal import Journal
from autograder.pipeline.people import whole_name
from autograder.pipeline.recorded import recorded
from autograder.pipeline.texts import how_many, printable

OWN = "cells of one's own"  # what the report calls a student's own cells


@dataclass(frozen=True)
class Check:
    """What was said of one answer.

    Attributes:
        share: of the points, from 0 to 1; what an instructor gave counts.
        passed, attempted: as of `Verdict`.
        in_short: as of `Verdict`.
        mistakes: those that were named: title, and a sentence.
        judged: whether it gave results to be judged; an older grader didn't say, and this counts as yes.
    """

    share: float
    passed: bool
    attempted: bool
    in_short: str
    mistakes: dict[str, str]
    judged: bool = True


@dataclass(frozen=True)
class HandIn:
    """What a student handed in for a lab last, and what was named before.

    Attributes:
        checks: by exercise; none where an older grader graded it.
        attempts: for each hand-in that was graded, the last one included, the mistakes' titles by exercise.
        cells: the texts of the student's code cells by name.
        note: the integrity note; "" where there is none.
        page: the feedback page, as a path within the course; "" where there is none.
    """

    checks: dict[str, Check]
    attempts: list[dict[str, list[str]]]
    cells: dict[str, str]
    note: str = ""
    page: str = ""


@dataclass(frozen=True)
class Lab:
    """A lab that somebody handed in.

    Attributes:
        name: its folder's.
        title: its first heading.
        exercises: points by exercise, in the order of the lab.
        given: the texts of the code cells by name, as they are released and in the model answer.
        handed_in: by student.
    """

    name: str
    title: str
    exercises: dict[str, float]
    given: list[dict[str, str]]
    handed_in: dict[str, HandIn] = field(default_factory=dict[str, HandIn])


@dataclass(frozen=True)
class Class:
    """All of it: labs by their names' order, and everybody whom the gradebook knows, with a name to show."""

    labs: list[Lab]
    students: dict[str, str]


def gather(course: Path, say: Callable[[str], None]) -> Class:
    """Read what is known of a class.

    Args:
        course: the course folder, in which something was graded.
        say: called with a line as the reading of a lab begins.

    Raises:
        Failed: nothing was graded yet, or the gradebook cannot be read.
    """
    directory = CourseDirectory(config=configuration(course))
    known = [lab for lab in labs.names(course) if any((course / "autograded").glob(f"*/{lab}/*.ipynb"))]
    if not known:
        raise Failed("There is nothing to report: grade something first, with make grade.")
    journal = Journal(course)
    try:
        Gradebook(directory.db_url).close()  # which says what is wrong with one of an older nbgrader
        with create_engine(directory.db_url, poolclass=NullPool).connect() as connection:
            found = [_lab(course, lab, connection, journal, say) for lab in known]
            students = _students(connection)
    except SQLAlchemyError as problem:
        raise Failed(f"The gradebook cannot be used ({in_short(problem)}).") from problem
    others = {student for lab in found for student in lab.handed_in} - students.keys()
    return Class(found, dict(sorted((students | {one: one for one in others}).items())))


def _lab(course: Path, name: str, connection: Connection, journal: Journal, say: Callable[[str], None]) -> Lab:
    """A lab, with what was handed in for it."""
    exercises: dict[str, float] = {}
    given: list[dict[str, str]] = []
    title = name
    for area in ("solutions", "labs"):
        texts: dict[str, str] = {}
        for path in sorted((course / area / name).glob("*.ipynb")):
            notebook: Any = nbformat.read(path, as_version=4)
            texts |= _texts(notebook.cells)
            if area == "solutions":
                exercises |= {
                    checked: float(cell.metadata.nbgrader.points)
                    for cell in notebook.cells
                    if (checked := checked_name(cell))
                }
                heading = re.search(r"^# (.+)$", notebook.cells[0].source, re.MULTILINE) if notebook.cells else None
                title = heading[1] if heading else title
        given.append(texts)
    lab = Lab(name, title, exercises, given)
    points = _points(connection, name)
    folders = sorted((course / "autograded").glob(f"*/{name}"))
    say(f"{name}: reading {how_many(len(folders), 'hand-in')} ...")
    for folder in folders:
        student = folder.parent.name
        lab.handed_in[student] = _hand_in(course, folder, points.get(student, {}), journal.attempts(name, student))
    return lab


def _hand_in(course: Path, folder: Path, points: dict[str, float], before: list[dict[str, Any]]) -> HandIn:
    """What a student handed in for a lab."""
    student, lab = folder.parent.name, folder.name
    checks: dict[str, Check] = {}
    cells: dict[str, str] = {}
    note, page = "", ""
    for path in sorted(folder.glob("*.ipynb")):
        try:
            notebook = json.loads(path.read_bytes())
            for exercise, kept in recorded(notebook).items():
                mistakes = {one["title"]: one["sentence"] for one in kept["mistakes"]}
                given = points.get(kept["grade_id"])
                share: float = kept["score"] if given is None else given
                checks[exercise] = Check(
                    share, kept["passed"], kept["attempted"], kept["in_short"], mistakes, kept.get("judged", True)
                )
            cells |= _texts(nbformat.from_dict(notebook["cells"]))
        except (ValueError, LookupError, TypeError, AttributeError):  # not yet whole: its grading was broken off
            continue
        told = course / SaveIntegrityNote.directory.default_value / lab / f"{student}-{path.stem}.md"
        note += told.read_text(encoding="utf-8") if told.exists() else ""
        shown = course / "feedback" / student / lab / f"{path.stem}.html"
        page = shown.relative_to(course).as_posix() if shown.exists() else page
    attempts = [{exercise: told["mistakes"] for exercise, told in one.items()} for one in before]
    last = {exercise: list(check.mistakes) for exercise, check in checks.items()}
    if not attempts or attempts[-1] != last:  # nbgrader's own commands graded it, and the journal does not know
        attempts.append(last)
    return HandIn(checks, attempts, cells, note, page)


def _texts(cells: Iterable[Any]) -> dict[str, str]:
    """The texts of the code cells that a student may write in, by grade_id; those of one's own together."""
    texts: dict[str, list[str]] = {}
    for cell in cells:
        about = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and not about.get("locked"):
            name = about.get("grade_id") or OWN
            texts.setdefault(name, []).append("".join(cell.source))  # one text, or lines
    return {name: "\n".join(sources) for name, sources in texts.items()}


def _points(connection: Connection, lab: str) -> dict[str, dict[str, float]]:
    """For each student, the share of the points of each graded cell by grade_id."""
    tables = ("assignment", "submitted_assignment", "submitted_notebook", "grade", "base_cell", "grade_cells")
    one, submission, notebook, grade, cell, worth = (Base.metadata.tables[name] for name in tables)
    wanted = (
        select(submission.c.student_id, cell.c.name, grade.c.auto_score, grade.c.manual_score, worth.c.max_score)
        .join(one, submission.c.assignment_id == one.c.id)
        .join(notebook, notebook.c.assignment_id == submission.c.id)
        .join(grade, grade.c.notebook_id == notebook.c.id)
        .join(cell, cell.c.id == grade.c.cell_id)
        .join(worth, worth.c.id == cell.c.id)
        .where(one.c.name == lab)
    )
    found: dict[str, dict[str, float]] = {}
    for student, name, auto, manual, most in connection.execute(wanted):
        score = auto if manual is None else manual
        if score is not None and most:
            found.setdefault(student, {})[name] = score / most
    return found


def _students(connection: Connection) -> dict[str, str]:
    """Everybody in the gradebook, with the name to show."""
    student = Base.metadata.tables["student"].c
    rows = connection.execute(select(student.id, student.first_name, student.last_name))
    return {key: whole_name(first, last) or printable(key) for key, first, last in rows}
