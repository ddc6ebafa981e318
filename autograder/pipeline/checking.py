"""Checks one notebook for whoever has no nbgrader round around it: the grader's own verdicts, in the terminal."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat import NotebookNode
from nbgrader import utils
from traitlets.config import Config

from autograder.course import course_of
from autograder.pipeline.cells import checked_name
from autograder.pipeline.course import Failed
from autograder.pipeline.execute import JudgedExecute
from autograder.pipeline.submission import Unreadable, read

if TYPE_CHECKING:
    from autograder.verdict import Verdict

CELL_SECONDS, NOTEBOOK_SECONDS = 300, 900.0


def check_notebook(path: Path) -> bool:
    """Run a lab's notebook and print the verdict of each of its checks; the file stays as it is.

    Args:
        path: the notebook, filled in or not.

    Returns:
        whether every check passed.

    Raises:
        Failed: the file cannot be read, or holds no check.
    """
    try:
        notebook = read(path)
    except (Unreadable, OSError) as problem:
        raise Failed(f"{path} cannot be checked: {problem}.") from None
    checks = [name for cell in notebook.cells if (name := checked_name(cell))]
    if not checks:
        raise Failed(f"{path} holds no check: it is no lab, or its check cells are gone.")
    try:
        course = course_of(path)
        for name in checks:
            course.find(name)
    except LookupError as unknown:
        raise Failed(f"{path} cannot be checked: {unknown}.") from None
    judged: list[tuple[Verdict, float]] = []

    def say(cell: NotebookNode, verdict: "Verdict") -> None:
        points = float(cell.metadata.nbgrader.points)
        judged.append((verdict, points))
        print(f"\n{verdict.text()}", flush=True)

    print(f"Running {path.name}: {len(checks)} {'check' if len(checks) == 1 else 'checks'} …", flush=True)
    with tempfile.TemporaryDirectory(prefix="headroom-check-", ignore_cleanup_errors=True) as private:
        config = Config()
        if os.name != "nt":  # files of our own as channels: no network, and no warning about one
            config.KernelManager.transport, config.KernelManager.ip = "ipc", f"{private}/s"
        execute = JudgedExecute(timeout=CELL_SECONDS, total_timeout=NOTEBOOK_SECONDS, isolated=False, config=config)
        execute.course, execute.on_verdict = course, say
        os.environ |= {name: private for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")}
        execute.preprocess(notebook, {"metadata": {"path": str(path.parent)}})
    got, most = sum(p * v.score for v, p in judged), sum(p for _, p in judged)
    by_hand = sum(c.metadata.nbgrader.points for c in notebook.cells if utils.is_grade(c) and utils.is_solution(c))
    more = f"; {by_hand:g} more are given by hand, for the answer in your own words" if by_hand else ""
    print(f"\n{got:g} of {most:g} points{more}.")
    return all(verdict.passed for verdict, _ in judged)
