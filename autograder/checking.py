"""`check`, as a student calls it in a notebook: probe and judge in one process."""

import contextlib
import os
import traceback
from typing import Any

import torch

from autograder import probe
from autograder.course import course_of
from autograder.judge import judge
from autograder.verdict import Verdict


class _Plain:
    """An exception that a notebook shows as its message alone: the frames are the grader's own, and help nobody."""

    def _render_traceback_(self) -> list[str]:
        """What IPython asks for instead of a traceback: lines."""
        return str(self).splitlines()


class CheckFailed(_Plain, AssertionError):
    """Raised by `check` while nbgrader runs the notebook without this project's grader, so that it sees the failure."""


class CheckInterrupted(_Plain, KeyboardInterrupt):
    """Raised by `check` when it is interrupted; the cells that wait behind it are not run."""


def check(written: Any) -> Verdict:
    """Judge a function or class that you wrote, as often as you like.

    Args:
        written: the function or class itself, under the name that the task gives: `check(LayerNorm)`.

    Returns:
        the verdict: what holds, what does not, which known mistake it is. The grader gives the same one.

    Raises:
        TypeError: `written` is not a function or a class.
        LookupError: no exercise of the course has its name; or there is no course (see `autograder.course`).
        CheckFailed: the answer is not right, and nbgrader is validating or grading the notebook.
        CheckInterrupted: it was interrupted; the message says where your code was.
    """
    name = getattr(written, "__name__", None)
    if name is None or not callable(written):
        raise TypeError(f"check({written!r}): give it the function or class itself, such as check(LayerNorm)")
    try:
        course = course_of()
        verdict = judge(course.find(name), lambda request: probe.answer(request, written))
    except KeyboardInterrupt as stop:
        raise CheckInterrupted(f"Interrupted while {name} was being checked, at {_place(stop)}") from None
    if "NBGRADER_VALIDATING" in os.environ or "NBGRADER_EXECUTION" in os.environ:
        if not verdict.passed:
            raise CheckFailed(verdict.text())
    elif course.noted:
        with contextlib.suppress(Exception):  # the verdict is what was asked for
            course.function(course.noted)(course.folder, verdict)
    return verdict


def _place(stop: BaseException) -> str:
    """The innermost line that belongs neither to this package nor to torch."""
    ours = tuple(os.path.dirname(os.path.abspath(path)) for path in (__file__, torch.__file__))
    frames = [frame for frame in traceback.extract_tb(stop.__traceback__) if not frame.filename.startswith(ours)]
    if not frames:
        return "a line of the check's own"
    return f"line {frames[-1].lineno}, in {frames[-1].name}: {frames[-1].line or ''}".removesuffix(": ")
