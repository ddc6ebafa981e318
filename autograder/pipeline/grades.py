"""Writes what the judge said into the gradebook, and the gradebook into grades.csv."""

import csv
import functools
import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbgrader.api
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.plugins import CsvExportPlugin
from nbgrader.preprocessors import SaveAutoGrades

from autograder.pipeline.course import exchange
from autograder.pipeline.execute import SCORES
from autograder.pipeline.files import replacing
from autograder.pipeline.late import renew
from autograder.pipeline.standing import released, standings
from autograder.pipeline.texts import in_table, listed

# nbgrader opens the gradebook nine times for each submission, each time with an engine of its own, for which SQLAlchemy
# compiles every query anew: a sixth of the time of grading. One engine for each gradebook keeps them; nbgrader closes
# its connections as before.
nbgrader.api.create_engine = functools.cache(nbgrader.api.create_engine)


class SaveJudgedGrades(SaveAutoGrades):
    """nbgrader's SaveAutoGrades, with the scores of checks taken from the judge instead of from outputs.

    Every other cell keeps nbgrader's rule. Where that rule raises, because a cell shows more than its points or nothing
    that can be read, the cell earns nothing instead of leaving the submission ungraded. What nbgrader noted of a cell
    that is not in the notebook any more goes: it is about an earlier one.
    """

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        nb, resources = super().preprocess(nb, resources)
        there = {cell.metadata.get("nbgrader", {}).get("grade_id") for cell in nb.cells}
        with nbgrader.api.Gradebook(self.db_url) as gradebook:
            rows: Any = gradebook.find_submission_notebook(self.notebook_id, self.assignment_id, self.student_id)
            if gone := [row for row in rows.comments if row.auto_comment is not None and row.name not in there]:
                for row in gone:
                    row.auto_comment = None
                gradebook.db.commit()
        return nb, resources

    def _add_score(self, cell: NotebookNode, resources: ResourcesDict) -> None:
        grade_id = cell.metadata.nbgrader["grade_id"]
        share = (resources.get(SCORES) or {}).get(grade_id)
        if share is None:
            try:
                return super()._add_score(cell, resources)
            except (KeyError, ValueError) as error:
                self.log.warning("Cell %s has no score by nbgrader's rule, so it gets 0: %s", grade_id, error)
                share = 0.0
        # Any: to a type checker a row holds SQLAlchemy's columns, in truth their values.
        grade: Any = self.gradebook.find_grade(grade_id, self.notebook_id, self.assignment_id, self.student_id)
        grade.auto_score = round(share * float(cell.metadata.nbgrader["points"]), 2)
        grade.needs_manual_grade = grade.manual_score is not None
        self.gradebook.db.commit()


class QuotedExport(CsvExportPlugin):
    """nbgrader's CSV export, with a row for each student and each lab that students have been given.

    `status` is one of graded, graded in part (`ungraded` points are still to be given by hand), not graded and not
    handed in; only the first two have a score. Penalties for being late follow due dates and extensions as they are
    now. Times say that they are in UTC. Texts are quoted, and nothing is a spreadsheet's formula.
    """

    def export(self, gradebook: nbgrader.api.Gradebook) -> None:
        columns = ["assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score"]
        columns += ["late_submission_penalty", "score", "max_score", "ungraded", "status"]
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, columns, lineterminator="\n")
        table.writeheader()
        parent: Any = self.parent  # nbgrader's export command
        course = Path(parent.coursedir.root)
        renew(gradebook, parent.config, course)
        people = {str(student.id): student for student in gradebook.students}
        for lab in released(course, gradebook, exchange(parent.config) / "outbound"):
            if lab not in (self.assignment or [lab]):
                continue
            assignment: Any = gradebook.find_assignment(lab)
            for standing in standings(course, gradebook, lab):
                if standing.student not in (self.student or [standing.student]):
                    continue
                person = people.get(standing.student)
                row = {name: getattr(person, name, None) for name in ("last_name", "first_name", "email")}
                row |= {
                    "assignment": lab,
                    "duedate": _in_utc(standing.due or assignment.duedate),
                    "timestamp": _in_utc(standing.handed_in),
                    "student_id": listed(standing.student),
                    "raw_score": standing.raw,
                    "late_submission_penalty": standing.penalty,
                    "score": standing.score,
                    "max_score": assignment.max_score,
                    "ungraded": standing.ungraded if standing.score is not None else None,
                    "status": standing.state,
                }
                table.writerow({name: in_table(value) for name, value in row.items()})
        with replacing(Path(self.to or "grades.csv")) as part:
            part.write_text(text.getvalue(), encoding="utf-8")


def _in_utc(time: datetime | None) -> datetime | None:
    """A time as the gradebook keeps it, with the zone that it is meant in: "2026-11-22 12:00:00+00:00"."""
    return time and time.replace(tzinfo=UTC)
