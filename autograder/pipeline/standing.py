"""Where each student stands in a lab: graded, in whole or in part, or not, or not handed in. Every list says it so."""

import os
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Base, Grade, Gradebook, Notebook, SubmittedNotebook
from sqlalchemy import select

from autograder.pipeline.feedback import has_no_score, is_whole, score_shown
from autograder.pipeline.intake import meant, strangers, unusable

GRADED, IN_PART, NOT_GRADED, NOT_HANDED_IN = "graded", "graded in part", "not graded", "not handed in"
NEXT = "What went wrong stands above; the next run takes it up again."


@dataclass(frozen=True)
class Standing:
    """A student's standing in a lab; what is not known, or does not apply, is None or "".

    Args:
        student: the name of their folder.
        state: GRADED, IN_PART where somebody is still to give points by hand, NOT_GRADED or NOT_HANDED_IN.
        why: why it is not graded, as a sentence.
        raw: points before a penalty.
        penalty: points that are taken for handing in late.
        score: points.
        by_hand: whether more is to be graded by hand.
        ungraded: points that nobody has given or refused yet; they are no part of `score`.
        read: the file that was taken for the notebook, if its name is not the lab's.
        handed_in: when (UTC).
        due: until when it was due (UTC), an extension included.
        late: seconds between the two.
        pages: the feedback pages that there are to be.
        stale: those of them that are missing, or show another score.
    """

    student: str
    state: str
    why: str = ""
    raw: float | None = None
    penalty: float | None = None
    score: float | None = None
    by_hand: bool = False
    ungraded: float = 0.0
    read: str = ""
    handed_in: datetime | None = None
    due: datetime | None = None
    late: float = 0.0
    pages: tuple[Path, ...] = ()
    stale: tuple[Path, ...] = ()


@dataclass
class _Notebook:
    """What the gradebook has of one notebook of a submission.

    Args:
        points: before the penalty.
        penalty: points that are taken for handing in late.
        ungraded: points that nobody has given or refused yet.
        by_hand: whether cells are still to be graded by hand.
    """

    points: float = 0.0
    penalty: float = 0.0
    ungraded: float = 0.0
    by_hand: bool = False

    @property
    def shown(self) -> tuple[float, float]:
        """What its feedback page says: the score, and what is ungraded."""
        return round(max(0.0, self.points - self.penalty), 2), self.ungraded


def submitted(course: Path, lab: str) -> list[str]:
    """The students who handed in a lab, whatever it is: also a file or a pipe in the place of its folder."""
    everybody = (course / "submitted").iterdir() if (course / "submitted").is_dir() else ()
    return sorted(folder.name for folder in everybody if os.path.lexists(folder / lab))


def handed_in(course: Path, lab: str) -> dict[str, str]:
    """Who handed in a lab, and why that cannot be graded, as a sentence: "" where it can."""
    names = sorted(path.stem for path in (course / "solutions" / lab).glob("*.ipynb"))

    def why_not(student: str) -> str:
        if why := unusable(student):
            return why
        folder = course / "submitted" / student / lab
        if not names or meant(folder, names):
            return ""
        wanted = " or ".join(f"{name}.ipynb" for name in names)
        if others := strangers(folder):
            return f"There is {' and '.join(map(repr, others))} in it: the file is to be called {wanted}."
        return f"There is no {wanted} in it."

    return {student: why_not(student) for student in submitted(course, lab)}


def standings(course: Path, gradebook: Gradebook, lab: str) -> list[Standing]:
    """The standing of everybody who is in the gradebook or handed something in, by name.

    Args:
        course: the course folder.
        gradebook: which is open, and knows the lab. Its penalties are to be renewed before (see `late.renew`).
        lab: the lab.
    """
    tables = Base.metadata.tables
    of_notebooks = select(
        tables["submitted_notebook"].c.assignment_id,
        tables["notebook"].c.name,
        tables["submitted_notebook"].c.late_submission_penalty,
    ).join_from(tables["submitted_notebook"], tables["notebook"])
    # Any: to a type checker the rows hold SQLAlchemy's columns, in truth their values.
    rows: list[Any] = gradebook.assignment_submissions(lab)
    names = {row.id: row.student_id for row in rows}
    of_students = {student: defaultdict[str, _Notebook](_Notebook) for student in names.values()}
    for submission, name, penalty in gradebook.db.execute(of_notebooks):
        if submission in names:
            of_students[names[submission]][name].penalty = penalty or 0.0
    notebooks: list[Any] = list(gradebook.find_assignment(lab).notebooks)
    for notebook in notebooks:
        for about in gradebook.notebook_submission_dicts(notebook.name, lab):
            of_students[about["student"]][notebook.name].points = about["score"]
    tables_of: tuple[Any, ...] = (SubmittedNotebook, Notebook, Grade)
    handed, notebook, given = tables_of
    to_grade = select(handed.assignment_id, notebook.name, given, given.max_score).where(given.needs_manual_grade)
    to_grade = to_grade.join(handed, given.notebook_id == handed.id).join(notebook, notebook.id == handed.notebook_id)
    for submission, name, grade, most in gradebook.db.execute(to_grade):
        if submission in names:
            record = of_students[names[submission]][name]
            record.by_hand = True
            record.ungraded += most if has_no_score(grade) else 0.0
    graded = {str(row.student_id): _graded(course, lab, row, of_students[row.student_id]) for row in rows}
    there = handed_in(course, lab)
    everybody = sorted({*there, *(str(student.id) for student in gradebook.students)})
    return [_standing(student, there.get(student), graded.get(student)) for student in everybody]


def _standing(student: str, why: str | None, graded: Standing | None) -> Standing:
    """What is so of a student.

    Args:
        student: who.
        why: why what they handed in cannot be graded, as a sentence; "" where it can, None where there is nothing.
        graded: where they stand if nothing keeps them from it; None if there is no grade.
    """
    if why:
        return Standing(student, NOT_GRADED, why)
    if graded:
        return graded
    return Standing(student, NOT_HANDED_IN) if why is None else Standing(student, NOT_GRADED, NEXT)


def _graded(course: Path, lab: str, row: Any, of_notebooks: defaultdict[str, _Notebook]) -> Standing | None:
    """The standing of a student of whom the gradebook has a submission; None if nothing of it was graded."""
    student = row.student_id
    folder = course / "autograded" / student / lab
    names = sorted(path.stem for path in folder.glob("*.ipynb") if path.stat().st_size)
    if not names:
        return None
    files = meant(course / "submitted" / student / lab, names)
    raw = sum(notebook.points for notebook in of_notebooks.values())
    penalty = sum(notebook.penalty for notebook in of_notebooks.values())
    ungraded = sum((notebook.ungraded for notebook in of_notebooks.values()), 0.0)
    pages = {name: course / "feedback" / student / lab / f"{name}.html" for name in names}
    return Standing(
        student,
        IN_PART if ungraded else GRADED,
        raw=raw,
        penalty=penalty,
        score=max(0.0, raw - penalty),
        by_hand=any(notebook.by_hand for notebook in of_notebooks.values()),
        ungraded=ungraded,
        read=", ".join(repr(file) for name, file in files.items() if file != f"{name}.ipynb"),
        handed_in=row.timestamp,
        due=row.duedate,
        late=row.total_seconds_late,
        pages=tuple(pages.values()),
        stale=tuple(
            page for name, page in pages.items() if not is_whole(page) or score_shown(page) != of_notebooks[name].shown
        ),
    )


def released(course: Path, gradebook: Gradebook, exchange: Path | None = None) -> list[str]:
    """The labs that students have been given: those with a due date, a hand-in, or a folder in the exchange.

    Args:
        course: the course folder.
        gradebook: which is open.
        exchange: the folder in which nbgrader releases this course's labs, if there is one.
    """
    given = {entry.name for entry in os.scandir(exchange)} if exchange and exchange.is_dir() else set[str]()
    assignments: list[Any] = list(gradebook.assignments)  # Any: see above
    return [
        assignment.name
        for assignment in assignments
        if assignment.duedate
        or assignment.name in given
        or assignment.submissions
        or submitted(course, assignment.name)
    ]
