"""What grades the course: `check` tells a student what holds, what does not, and which mistake it is.

A check has two halves. The probe (`autograder.probe`) runs the student's code and returns plain arrays; the judge
(`autograder.judge`) holds the answers and never runs student code. In a notebook both run in one process; under
grading only bytes cross between them.
"""

import os
from typing import Any

from autograder import probe
from autograder.exercises import find
from autograder.judge import judge
from autograder.verdict import Verdict

__all__ = ["CheckFailed", "Verdict", "check"]


class CheckFailed(AssertionError):
    """Raised by `check` while nbgrader runs the notebook without this project's grader, so that it sees the failure."""


def check(written: Any) -> Verdict:
    """Judge a function or class that you wrote, as often as you like.

    Args:
        written: the function or class itself, under the name that the task gives: `check(LayerNorm)`.

    Returns:
        the verdict: what holds, what does not, which known mistake it is. The grader gives the same one.

    Raises:
        TypeError: `written` is not a function or a class.
        LookupError: no exercise has its name.
        CheckFailed: the answer is not right, and nbgrader is validating or grading the notebook.
    """
    name = getattr(written, "__name__", None)
    if name is None or not callable(written):
        raise TypeError(f"check({written!r}): give it the function or class itself, such as check(LayerNorm)")
    verdict = judge(find(name), lambda request: probe.answer(request, written))
    if not verdict.passed and ("NBGRADER_VALIDATING" in os.environ or "NBGRADER_EXECUTION" in os.environ):
        raise CheckFailed(verdict.text())
    return verdict
