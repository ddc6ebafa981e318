"""The course folder, and nbgrader run in it as its own command."""

import os
import subprocess
import sys
from pathlib import Path

from headroom.lab import STATE, private_environment


class Failed(Exception):
    """A command that did not do what it was asked for. The text says what to do."""


def course_root(start: Path) -> Path:
    """The nearest folder, from `start` upwards, that holds nbgrader_config.py and solutions/.

    Raises:
        Failed: there is none.
    """
    for folder in (start, *start.parents):
        if (folder / "nbgrader_config.py").is_file() and (folder / "solutions").is_dir():
            return folder
    raise Failed(f"There is no nbgrader_config.py beside a solutions/ in {start} or above it.")


def nbgrader(course: Path, *arguments: str, quiet: bool = False) -> int:
    """Run an nbgrader command with the course's configuration, and return its exit status.

    Nothing is written into the home folder. What it logs goes to the terminal; if quiet, only when it fails.
    """
    state = course / STATE
    state.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=course,
        env={**os.environ, **private_environment(state, course / "jupyter")},
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if quiet and done.returncode:
        print(done.stdout, file=sys.stderr)
    return done.returncode
