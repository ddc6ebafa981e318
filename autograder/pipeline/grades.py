"""Writes what the judge said into the gradebook."""

import functools
from typing import Any

import nbgrader.api
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.preprocessors import SaveAutoGrades

from autograder.pipeline.execute import SCORES

# nbgrader opens the gradebook nine times for each submission, each time with an engine of its own, for which SQLAlchemy
# compiles every query anew: a sixth of the time of grading. One engine for each gradebook keeps them; nbgrader closes
# its connections as before.
nbgrader.api.create_engine = functools.cache(nbgrader.api.create_engine)


class SaveJudgedGrades(SaveAutoGrades):
    """nbgrader's SaveAutoGrades, with the scores of checks taken from the judge instead of from outputs.

    Every other cell keeps nbgrader's rule. Where that rule raises, because a cell shows more than its points or nothing
    that can be read, the cell earns nothing instead of leaving the submission ungraded.
    """

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
