"""Has graders that run at the same time take turns: a submission is taken up by one process after the other.

Two may grade one course at once, as Formgrader's button does while the command line grades the whole class. nbgrader
takes a folder that is there for a submission that is done, whatever is in it, and removes it when something fails.
"""

import os
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nbgrader.converters import BaseConverter
from nbgrader.utils import rmtree

from autograder.pipeline.course import STATE, state

FILE = f"{STATE}/turns"  # in the course folder: each thing of which there are turns has one byte of it
WAIT = 0.1  # seconds between two looks whether it is one's turn


class Turn:
    """The right to do something with one thing of a course; other processes wait for it, and get it when this one ends.

    Args:
        course: its folder.
        thing: what it is called.
        say: called once with a sentence, if another process has the turn.
        file: in the course folder. A process that has a turn loses it by closing another one of the same file.
    """

    def __init__(self, course: Path, thing: str, say: Callable[[str], None], file: str = FILE) -> None:
        state(course)
        self._file = (course / file).open("ab")
        self._at = zlib.crc32(thing.encode("utf-8", "surrogateescape"))
        waiting = False
        while not self._lock():
            if not waiting:
                say(f"Another process is at work on {thing}; this one waits for it.")
            waiting = True
            time.sleep(WAIT)

    def _lock(self) -> bool:
        if sys.platform == "win32":  # where two graders at once are not provided for
            return True
        import fcntl

        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._at)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def close(self) -> None:
        """Let the next one have it."""
        self._file.close()


def take_turns(
    converter: BaseConverter,
    is_done: Callable[[Path], bool],
    at_the_end: Callable[[], None] = lambda: None,
    at_a_turn: Callable[[list[Path]], None] = lambda files: None,
) -> None:
    """Have nbgrader's loop take a submission up only while no other process does, and begin anew what was broken off.

    Args:
        converter: before it begins.
        is_done: whether a file that it is to write is there as a whole.
        at_the_end: called when it has ended.
        at_a_turn: called with the files that it is to write for a submission, before those that are there are removed.
    """
    begin, convert = converter.init_destination, converter.convert_notebooks
    held: list[Turn] = []

    def let_go() -> None:
        while held:
            held.pop().close()

    def init_destination(assignment_id: str, student_id: str) -> bool:
        let_go()
        course: Any = converter.coursedir
        held.append(Turn(Path(course.root), f"{student_id}, {assignment_id}", converter.log.warning))
        folder = Path(converter._format_dest(assignment_id, student_id))  # pyright: ignore[reportPrivateUsage]  # as nbgrader's own loop does
        files = [folder / f"{Path(path).stem}{converter.exporter.file_extension}" for path in converter.notebooks]
        at_a_turn(files)
        if folder.is_dir() and course.notebook_id == "*" and not all(map(is_done, files)):
            converter.log.warning("%s was broken off before, and begins again.", os.path.relpath(folder, course.root))
            rmtree(str(folder))
        return begin(assignment_id, student_id)

    def convert_notebooks() -> None:
        try:
            convert()
        finally:
            let_go()
            at_the_end()

    vars(converter).update(init_destination=init_destination, convert_notebooks=convert_notebooks)
