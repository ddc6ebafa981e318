"""What handing in late costs: the policy, extensions for single students, and penalties that follow both.

A penalty depends on the score, the due date and an extension, and each of these may change after grading. So penalties
are computed anew, from what the gradebook knows, whenever scores are shown; nothing is run for that.
"""

import csv
import math
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from nbgrader.api import Base, Gradebook
from nbgrader.plugins import LateSubmissionPlugin
from nbgrader.preprocessors import AssignLatePenalties
from sqlalchemy import select
from traitlets import Enum, Float
from traitlets.config import Config

from autograder.pipeline.course import Failed
from autograder.pipeline.intake import moment
from autograder.pipeline.people import delimiter

EXTENSIONS = "extensions.csv"  # in the course folder
COLUMNS = ("student", "lab", "until")
SECONDS = {"hour": 3600, "day": 86400}


class LatePolicy(LateSubmissionPlugin):
    """nbgrader's penalties, and a share of what was earned for each hour or day that has begun."""

    percent = Float(0.0, min=0.0, max=100.0, help="of what was earned, for each hour or day that has begun").tag(
        config=True
    )
    per = Enum(("hour", "day"), "day", help="what is counted").tag(config=True)
    grace_minutes = Float(0.0, min=0.0, help="minutes after the due date that are not late").tag(config=True)
    most_percent = Float(100.0, min=0.0, max=100.0, help="of what was earned, however late").tag(config=True)
    least_points = Float(0.0, min=0.0, help="below which no penalty takes a score").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        """The points that are taken from a notebook; None where it is not late.

        Args:
            student_id: whose it is.
            score: what it earned.
            total_seconds_late: seconds after the due date, the student's extension included.
        """
        late = total_seconds_late - 60 * self.grace_minutes
        if late <= 0:
            return None
        if self.penalty_method != "none" or not self.percent:
            return super().late_submission_penalty(student_id, score, late)
        share = min(self.percent * math.ceil(late / SECONDS[self.per]), self.most_percent) / 100
        return round(max(0.0, min(score * share, score - self.least_points)), 2)


def extensions(course: Path, labs: Iterable[str]) -> dict[tuple[str, str], datetime] | None:
    """Until when (UTC) single students may hand in, by student and lab; None where the course has no such file.

    Args:
        course: its folder.
        labs: those that there are.

    Raises:
        Failed: a line of the file that cannot be understood.
    """
    path = course / EXTENSIONS
    if not path.exists():
        return None
    until_when: dict[tuple[str, str], datetime] = {}
    known = sorted(labs)
    try:
        text = path.read_text(encoding="utf-8-sig")
        table = csv.DictReader(text.splitlines(keepends=True), delimiter=delimiter(text), strict=True)
        if not {*COLUMNS} <= {*(table.fieldnames or ())}:
            raise Failed(f"{EXTENSIONS}: its first line is to be {','.join(COLUMNS)}")
        rows = [(table.line_num, row) for row in table]
    except UnicodeDecodeError as problem:
        line = path.read_bytes()[: problem.start].count(b"\n") + 1
        raise Failed(f"{EXTENSIONS}, line {line}: it is not UTF-8; spreadsheets call that CSV UTF-8.") from None
    except csv.Error as problem:
        raise Failed(f"{EXTENSIONS} is no CSV file: {problem}.") from None
    for line, row in rows:
        student, lab, until = ((row[name] or "").strip() for name in COLUMNS)
        where = f"{EXTENSIONS}, line {line}"
        if lab not in known:
            raise Failed(f"{where}: there is no lab {lab!r}; there are {', '.join(known)}.")
        try:
            until_when[student, lab] = moment(until)
        except ValueError:
            raise Failed(
                f"{where}: until {until!r} is no time; such as 2026-12-03 23:59 Europe/Berlin, or UTC"
            ) from None
    return until_when


def renew(
    gradebook: Gradebook,
    config: Config,
    course: Path,
    labs: Iterable[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Give the gradebook the extensions of the course's file, and each late notebook its penalty as it is now.

    Args:
        gradebook: which is open.
        config: what nbgrader_config.py says.
        course: the course folder.
        labs: which; all if empty.
        say: called with a line for each extension of somebody who is not known.

    Raises:
        Failed: a line of extensions.csv that cannot be understood.
    """
    # Any: to a type checker the rows hold SQLAlchemy's columns, in truth their values.
    assignments: list[Any] = list(gradebook.assignments)
    granted = extensions(course, [assignment.name for assignment in assignments])
    known = {student.id for student in gradebook.students}
    for student, lab in granted or ():
        if student not in known and not (course / "submitted" / student).exists():
            say(f"{EXTENSIONS}: nobody is called {student!r} ({lab}).")
    rows = Base.metadata.tables["submitted_notebook"]
    assigning = AssignLatePenalties(config=config)
    assigning.init_plugin()
    penalties = select(rows.c.assignment_id).where(rows.c.late_submission_penalty.is_not(None))
    fined = set(gradebook.db.execute(penalties).scalars())
    for assignment in assignments:
        if labs and assignment.name not in labs:
            continue
        for submission in assignment.submissions:
            if assignment.duedate is None:
                submission.extension = None  # nbgrader would add it to nothing
            elif granted is not None:
                until = granted.get((submission.student_id, assignment.name))
                submission.extension = until - assignment.duedate if until else None
            late = submission.total_seconds_late
            if late > 0 or submission.id in fined:
                for notebook in submission.notebooks:
                    notebook.late_submission_penalty = _penalty(assigning, notebook, late) if late > 0 else None
    gradebook.db.commit()


def _penalty(assigning: AssignLatePenalties, notebook: Any, late: float) -> float | None:
    """As `AssignLatePenalties` has it."""
    plugin: Any = assigning.plugin_inst
    penalty = plugin.late_submission_penalty(notebook.student.id, notebook.score, late)
    return None if penalty is None else assigning._check_late_penalty(notebook, penalty)  # pyright: ignore[reportPrivateUsage]  # nbgrader's own bounds


def how_late(seconds: float) -> str:
    """A time in words: "2 d 3 h", "5 min"."""
    minutes = math.ceil(seconds / 60)
    days, hours = minutes // 1440, minutes // 60 % 24
    if not days and not hours:
        return f"{minutes} min"
    return " ".join(f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h")) if count)
