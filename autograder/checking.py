"""`check`, as a student calls it in a notebook: probe and judge in one process."""

import contextlib
import inspect
import linecache
import os
import re
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from autograder import probe
from autograder.course import course_of
from autograder.judge import judge
from autograder.verdict import Verdict

OLD = "the last run of the cell that defines it ended in an error, so the version before was judged"
UNCHANGED = "the cell that defines it has not run since your last check (after a change, run it first)"
PATIENCE = 10.0  # seconds after which a check says that it is still at work

_refused: dict[str, Any] = {}  # by name, what was not right at the last check


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
    course = course_of()
    exercise = course.find(name)
    still = f"Still checking {name}: what does not end is stopped after {exercise.seconds:g} s of computing, or by ■."
    # The output as it is now: what is printed while the student's code runs is its own.
    waiting = threading.Timer(PATIENCE, print, (still,), {"file": sys.stdout, "flush": True})
    waiting.daemon = True
    waiting.start()
    try:
        verdict = judge(exercise, lambda request: probe.answer(request, written))
    except KeyboardInterrupt as stop:
        raise CheckInterrupted(f"Interrupted while {name} was being checked, at {_place(stop)}") from None
    finally:
        waiting.cancel()
    if "NBGRADER_VALIDATING" in os.environ or "NBGRADER_EXECUTION" in os.environ:
        if not verdict.passed:
            raise CheckFailed(verdict.text())
    elif course.noted:
        with contextlib.suppress(Exception):  # the verdict is what was asked for
            course.function(course.noted)(course.folder, verdict)
    old, unchanged = _is_old(name, written), _refused.pop(name, None) is written
    if not verdict.passed:
        _refused[name] = written
    if old or (unchanged and not verdict.passed):
        verdict = replace(verdict, headline=f"{OLD if old else UNCHANGED}: {verdict.headline}")
    return verdict


def _is_old(name: str, written: Any) -> bool:
    """Whether the notebook has tried to define `name` anew since, in a cell that did not come so far.

    So it is if `written` is from a cell, and the newest cell with `def NAME` or `class NAME` is another one.
    """
    with contextlib.suppress(Exception):  # whatever the student's class holds
        shell = sys.modules["IPython"].get_ipython()
        cells: list[str] = shell.history_manager.input_hist_parsed
        defining = re.compile(rf"^(async )?(def|class) {name}\b", re.MULTILINE)
        newest = next(cell for cell in reversed(cells) if defining.search(cell))
        from_cells = {*_files(written)} & {*cells}
        return bool(from_cells) and newest not in from_cells
    return False


def _files(written: Any) -> Iterator[str]:
    """The files, or notebook's cells, that a function or a class's methods are written in, as the history has them."""
    for member in vars(written).values() if inspect.isclass(written) else [written]:
        if code := getattr(inspect.unwrap(member), "__code__", None):
            yield "".join(linecache.getlines(code.co_filename)).rstrip("\n")


def _place(stop: BaseException) -> str:
    """The innermost line that belongs neither to this package nor to torch."""
    ours = tuple(os.path.dirname(os.path.abspath(path)) for path in (__file__, torch.__file__))
    frames = [frame for frame in traceback.extract_tb(stop.__traceback__) if not frame.filename.startswith(ours)]
    if not frames:
        return "a line of the check's own"
    return f"line {frames[-1].lineno}, in {frames[-1].name}: {frames[-1].line or ''}".removesuffix(": ")
