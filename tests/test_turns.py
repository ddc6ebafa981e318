"""Graders at the same time: each submission is taken up by one process after the other, and whole or not at all."""

import logging
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_notebook

from autograder.pipeline.feedback import is_whole
from autograder.pipeline.integrity import DONE
from autograder.pipeline.submission import is_graded
from autograder.pipeline.turns import Turn, take_turns


@pytest.mark.skipif(sys.platform == "win32", reason="there are no turns on Windows")
@pytest.mark.parametrize("killed", [True, False])
def test_one_waits_until_the_other_lets_go_or_dies(tmp_path: Path, killed: bool) -> None:
    ready, ready_end = os.pipe()
    end, end_end = os.pipe()
    if not (other := os.fork()):
        turn = Turn(tmp_path, "ann, lab1", print)
        os.write(ready_end, b".")
        os.read(end, 1)
        if killed:
            os.kill(os.getpid(), 9)
        turn.close()
        time.sleep(60)
    os.read(ready, 1)
    said: list[str] = []
    Turn(tmp_path, "ben, lab1", said.append).close()
    assert said == []
    threading.Timer(0.5, os.write, (end_end, b".")).start()
    before = time.monotonic()
    Turn(tmp_path, "ann, lab1", said.append).close()
    assert said == ["Another process is at work on ann, lab1; this one waits for it."]
    assert time.monotonic() - before > 0.4
    if not killed:
        os.kill(other, 9)
    os.waitpid(other, 0)


class Loop:
    """What `take_turns` needs of nbgrader's converter."""

    def __init__(self, course: Path, extension: str) -> None:
        self.coursedir = SimpleNamespace(root=str(course), notebook_id="*")
        self.log, self.exporter = logging.getLogger(__name__), SimpleNamespace(file_extension=extension)
        self.notebooks = ["submitted/ann/lab1/first.ipynb"]
        self.raises: list[Exception] = []

    def _format_dest(self, assignment_id: str, student_id: str) -> str:
        return f"{self.coursedir.root}/made/{student_id}/{assignment_id}"

    def init_destination(self, assignment_id: str, student_id: str) -> bool:
        return not Path(self._format_dest(assignment_id, student_id)).exists()

    def convert_notebooks(self) -> None:
        for problem in self.raises:
            raise problem


def looped(course: Path, extension: str, is_done: Any, at_the_end: Any = lambda: None) -> Any:
    loop: Any = Loop(course, extension)
    take_turns(loop, is_done, at_the_end)
    return loop


@pytest.mark.parametrize("written", ["", "nothing", "half", "whole", "another"])
def test_what_was_broken_off_begins_again(tmp_path: Path, written: str) -> None:
    """nbgrader takes a folder that is there for a submission that is done, whatever is in it."""
    folder = tmp_path / "made" / "ann" / "lab1"
    folder.mkdir(parents=True)
    if written:
        notebook = new_notebook(metadata={DONE: True} if written in ("whole", "another") else {})
        nbformat.write(notebook, folder / f"{'other' if written == 'another' else 'first'}.ipynb")
        page = {"nothing": "", "half": "<html><p>", "whole": "<html></html>", "another": "<html></html>"}[written]
        (folder / f"{'other' if written == 'another' else 'first'}.html").write_text(page)
    if written == "nothing":
        (folder / "first.ipynb").write_text("")
    for extension, is_done in ((".ipynb", is_graded), (".html", is_whole)):
        kept = looped(tmp_path, extension, is_done)
        kept.coursedir.notebook_id = "first"  # nbgrader then looks at the file itself, and others may be there
        assert kept.init_destination("lab1", "ann") is False
        kept.convert_notebooks()
    for extension, is_done in ((".ipynb", is_graded), (".html", is_whole)):
        loop = looped(tmp_path, extension, is_done)
        assert loop.init_destination("lab1", "ann") == (written != "whole")
        loop.convert_notebooks()


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"metadata": 3}', '{"nbformat": 4, "metadata": []}', "\udcff"])
def test_a_file_that_is_no_notebook_is_no_graded_one(tmp_path: Path, text: str) -> None:
    file = tmp_path / "first.ipynb"
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert not is_graded(file) and not is_graded(tmp_path / "none.ipynb")


def test_the_turn_ends_with_the_loop_whatever_ends_that(tmp_path: Path) -> None:
    ended: list[int] = []
    loop = looped(tmp_path, ".html", is_whole, lambda: ended.append(1))
    loop.raises.append(KeyError())
    loop.init_destination("lab1", "ann")
    with pytest.raises(KeyError):
        loop.convert_notebooks()
    assert ended == [1]
    said: list[str] = []
    if os.name == "posix":
        if not (other := os.fork()):
            Turn(tmp_path, "ann, lab1", said.append)
            os._exit(len(said))
        assert os.waitpid(other, 0)[1] == 0
