"""What is kept of a verdict for whoever counts them: in a graded notebook, and in the journal.

A check's output in autograded/ has it in its metadata, where the grader alone writes: what a student's cell shows loses
its metadata, and what stands in a check cell is the grader's.
"""

import json
from typing import TYPE_CHECKING, Any

from autograder.pipeline.cells import is_check
from autograder.pipeline.texts import encodable

if TYPE_CHECKING:
    from autograder.verdict import Verdict

KEY = "autograder"  # in the metadata of an output
LONGEST = 500  # characters of a text that is kept


def record(verdict: "Verdict") -> dict[str, Any]:
    """The metadata of the output that shows a verdict."""
    mistakes = [
        {"key": mistake.key, "title": _kept(mistake.title), "sentence": _kept(mistake.sentence)}
        for mistake in verdict.mistakes
    ]
    kept = {"exercise": verdict.exercise, "score": verdict.score, "passed": verdict.passed}
    kept |= {"judged": bool(verdict.results)}
    return {KEY: kept | {"attempted": verdict.attempted, "in_short": _kept(verdict.in_short), "mistakes": mistakes}}


def _kept(text: str) -> str:
    """A text that can be written, and is not too long."""
    return encodable(text[:LONGEST])


def recorded(notebook: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What was kept of the verdicts in a graded notebook, by the exercise's name, with the `grade_id` of its check."""
    of_exercises: dict[str, dict[str, Any]] = {}
    for cell in notebook["cells"]:
        for output in cell["outputs"] if is_check(cell) else ():
            if kept := output.get("metadata", {}).get(KEY):
                of_exercises[kept["exercise"]] = kept | {"grade_id": cell["metadata"]["nbgrader"]["grade_id"]}
    return of_exercises


def verdicts(files: dict[str, bytes]) -> dict[str, Any]:
    """What the journal keeps of the verdicts in a worker's files: share of the points and mistakes, by exercise.

    Args:
        files: contents by path within the course's folder.
    """
    of_exercises: dict[str, Any] = {}
    for name, data in files.items():
        if name.startswith("autograded/") and name.endswith(".ipynb"):
            try:
                notebook = recorded(json.loads(data))
            except (ValueError, LookupError, TypeError, AttributeError):  # not as the grader writes them: none is known
                continue
            for exercise, kept in notebook.items():
                of_exercises[exercise] = {
                    "score": kept["score"],
                    "mistakes": [mistake["title"] for mistake in kept["mistakes"]],
                }
    return of_exercises
