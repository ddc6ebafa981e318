"""The course folder, and nbgrader run in it as its own command."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from autograder.course import Course, course_of


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


def nbgrader(course: Path, *arguments: str, quiet: bool = False, about: Course | None = None) -> int:
    """Run an nbgrader command with the course's configuration, and return its exit status.

    The course may say in which `environment` (see `autograder.course`). What it logs goes to the terminal; if quiet,
    only when it fails.
    """
    about = about or course_of(course)
    # nbgrader starts `alembic` by name, so this Python's own scripts come first.
    variables = {"PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])}
    if about.environment:
        variables |= about.function(about.environment)(course)
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=course,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
        check=False,
    )
    if quiet and done.returncode:
        print(done.stdout, file=sys.stderr)
    return done.returncode
