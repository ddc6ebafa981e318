"""Points that somebody gave by hand, when a submission is graded again: they stay where the answer is the same.

nbgrader keeps them whatever the answer has become, and marks all of them. Points for a check that were given instead of
the judge's stay as nbgrader has it: what earned them is in other cells.
"""

import json
from collections.abc import Callable
from typing import Any

from nbgrader.api import Base
from sqlalchemy import Connection, select
from sqlalchemy.orm import Session, scoped_session

from autograder.pipeline.integrity import UNSEEN

Answers = dict[str, Any]  # text and pictures, by grade_id


def answers(graded: bytes) -> Answers:
    """The answers that are graded by hand in a file of autograded/; none where it is not known what they were."""
    try:
        notebook = json.loads(graded)
        if UNSEEN in notebook["metadata"]:
            return {}
        return {
            about["grade_id"]: ("".join(cell["source"]), cell.get("attachments"))
            for cell in notebook["cells"]
            if (about := cell["metadata"].get("nbgrader", {})).get("grade") and about.get("solution")
        }
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):  # not as the grader writes them
        return {}


def keep_or_take_back(
    gradebook: Connection | scoped_session[Session],
    lab: str,
    student: str,
    notebook: str,
    before: Callable[[], Answers],
    now: Callable[[], Answers],
) -> None:
    """Have each answer that has changed wait for points again, and none that is the same.

    Args:
        gradebook: in which a submission was just graded again, and its points by hand are as they were.
        lab: the lab.
        student: whose submission.
        notebook: one of its notebooks.
        before: the answers to which the points were given. Neither is asked for where there are no such points.
        now: those that it has.
    """
    names = ("assignment", "submitted_assignment", "submitted_notebook", "notebook", "base_cell", "grade")
    one, submission, part, released, cell, grade = (Base.metadata.tables[name] for name in names)
    given = (
        select(grade.c.id, cell.c.name, grade.c.auto_score)
        .join(part, grade.c.notebook_id == part.c.id)
        .join(submission, part.c.assignment_id == submission.c.id)
        .join(one, submission.c.assignment_id == one.c.id)
        .join(released, part.c.notebook_id == released.c.id)
        .join(cell, grade.c.cell_id == cell.c.id)
        .where(one.c.name == lab, submission.c.student_id == student, released.c.name == notebook)
        .where(grade.c.manual_score.is_not(None))
    )
    if not (rows := gradebook.execute(given).all()):
        return
    those_before, those_now = before(), now()
    for key, name, auto_score in rows:
        earlier, later = those_before.get(name), those_now.get(name)
        if earlier is None or later is None:
            continue
        row: dict[str, Any] = {"needs_manual_grade": False}
        if earlier != later:
            row = {"manual_score": None, "extra_credit": None, "needs_manual_grade": auto_score is None}
        gradebook.execute(grade.update().where(grade.c.id == key).values(row))
