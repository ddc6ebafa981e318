"""The course folder, and nbgrader run in it as its own command."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from autograder.course import Course, course_of
from autograder.kernels.launch import exposed

if TYPE_CHECKING:  # which takes a second, and not all commands need it
    from nbgrader.api import Gradebook

STATE = ".headroom"  # in the course folder: what is kept there for the next command
FULL = ("database or disk is full", "No space left on device")  # how SQLite and the system say it


class Failed(Exception):
    """A command that did not do what it was asked for. The text says what to do."""


def in_short(problem: Exception) -> str:
    """What a gradebook's database says, without the query and the link that SQLAlchemy adds."""
    return str(getattr(problem, "orig", None) or problem).strip().partition("\n")[0]


def course_root(start: Path) -> Path:
    """The nearest folder, from `start` upwards, that holds nbgrader_config.py and solutions/.

    Raises:
        Failed: there is none.
    """
    for folder in (start, *start.parents):
        if (folder / "nbgrader_config.py").is_file() and (folder / "solutions").is_dir():
            return folder
    raise Failed(f"There is no nbgrader_config.py beside a solutions/ in {start} or above it.")


def state(course: Path) -> Path:
    """The folder `STATE` of a course, which is made where there is none."""
    folder = course / STATE
    folder.mkdir(exist_ok=True)
    return folder


def configuration(course: Path) -> Config:
    """What the course's nbgrader_config.py says."""
    return Config(PyFileConfigLoader("nbgrader_config.py", path=str(course)).load_config())


def gradebook(course: Path) -> "Gradebook":
    """The course's gradebook, made where there is none."""
    from nbgrader.api import Gradebook
    from nbgrader.coursedir import CourseDirectory

    directory = CourseDirectory(config=configuration(course))
    return Gradebook(directory.db_url, directory.course_id)


def exchange(config: Config) -> Path:
    """This course's part of nbgrader's exchange."""
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.exchange.default import Exchange

    return Path(Exchange(config=config).root, CourseDirectory(config=config).course_id)


def within_reach(config: Config) -> str | None:
    """What of a course kernels could read, because of where it lies, as a sentence with what to do; None if nothing."""
    from nbgrader.coursedir import CourseDirectory

    database = CourseDirectory(config=config).db_url.removeprefix("sqlite:///")
    for what, path, setting in (
        ("exchange", exchange(config), "c.Exchange.root"),
        ("gradebook", Path(database), "c.CourseDirectory.db_url"),
    ):
        if path.exists() and exposed(path):
            return f"the {what} lies in {path}, among what kernels must read; put it elsewhere, with {setting}"
    return None


def environment(about: Course, folder: Path) -> dict[str, str]:
    """The variables with which a program that uses nbgrader is started.

    Args:
        about: the course, which may have some of its own (see `autograder.course`).
        folder: the course's folder, or one that stands in for it.
    """
    # nbgrader starts `alembic` by name, so this Python's own scripts come first.
    variables = {"PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])}
    return {**os.environ, **variables, **(about.function(about.environment)(folder) if about.environment else {})}


def nbgrader(
    course: Path,
    *arguments: str,
    quiet: bool = False,
    about: Course | None = None,
    log: Callable[[str], None] | None = None,
    failed: Callable[[str], None] = lambda text: print(text, file=sys.stderr),
) -> int:
    """Run an nbgrader command with the course's configuration, and return its exit status.

    The course may say in which `environment` (see `autograder.course`). What it logs goes to the terminal; if quiet,
    line by line to `log`, and all of it to `failed` when it fails.

    Raises:
        Failed: the disk is full, and it was to be quiet.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "nbgrader", *arguments],
        cwd=course,
        env=environment(about or course_of(course), course),
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet else None,
        text=True,
    ) as running:
        lines = []
        for line in running.stdout or ():  # None unless quiet
            lines.append(line)
            if log:
                log(line)
    if quiet and running.returncode:
        text = "".join(lines)
        if any(sign in text for sign in FULL):  # for which nbgrader advises to upgrade the gradebook
            raise Failed(f"The disk that holds {course} is full: make room, and run the same command again.")
        failed(text)
    return running.returncode
