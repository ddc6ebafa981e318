"""The course that is graded: where its exercises are, and what its notebooks may import while they are graded.

The engine knows none. A course says so in the `pyproject.toml` of its folder, and its labs lie below:

    [tool.autograder]
    exercises = "exercises"         # the module or package that holds them; the only key that is needed
    importable = ["plots.py"]       # files and folders, from there, that graded notebooks may import: nothing secret
    warm = ["plots"]                # of these, the modules that every kernel has imported before it starts
    stored = "plots:tidy"           # a function from a lab's text to that in which the course stores it
    students = ["README.md"]        # files and folders that `student-copy` gives to students, beside labs/
    environment = "plots:variables" # a function from the course's folder to the variables that nbgrader runs with
    taught = "plots:section"        # a function from an exercise and a mistake's title, or "", to the section of a
                                    # lecture that treats it, or "": for the report on a class
    noted = "plots:note"            # a function that `check` calls with the course's folder and the verdict, where no
                                    # grader calls it: to keep a student's own progress
"""

import functools
import importlib
import os
import pkgutil
import sys
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.exercise import Exercise

TABLE = "[tool.autograder]"
VARIABLE = "AUTOGRADER_COURSE"  # names the folder of a course for notebooks that do not lie in it
INSTALLED = Path(__file__).resolve().parents[1]


class NoCourse(LookupError):
    """What says where the exercises are is missing or wrong. The text says what to do."""


@dataclass(frozen=True)
class Course:
    """A course, as its folder's pyproject.toml describes it. The keys are explained at the top of this file."""

    folder: Path
    exercises: str
    importable: tuple[str, ...] = ()
    warm: tuple[str, ...] = ()
    students: tuple[str, ...] = ()
    stored: str = ""
    environment: str = ""
    taught: str = ""
    noted: str = ""

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages whose parts are not all for students: what a notebook imports of them is noted."""
        parted = (Path(name).parts for name in self.importable)
        return tuple(sorted({self.exercises.partition(".")[0], *(parts[0] for parts in parted if len(parts) > 1)}))

    def find(self, name: str) -> "Exercise":
        """The exercise called `name`; LookupError naming those that exist."""
        known = _exercises(self)
        if name not in known:
            raise LookupError(f"no exercise is called {name!r}; there are {', '.join(known)}")
        return known[name]

    def load(self) -> None:
        """Import the exercises, which is done else when the first is looked for.

        Raises:
            NoCourse: as of `module`, or two have one name.
        """
        _exercises(self)

    def function(self, path: str) -> Callable[..., Any]:
        """The function that a key such as `stored` names as "module:function"."""
        module, _, name = path.partition(":")
        with self._first_on_path():
            return getattr(importlib.import_module(module), name)

    def module(self) -> ModuleType:
        """The module or package of the exercises.

        Raises:
            NoCourse: there is none, or another one of that name was imported before.
        """
        top = self.exercises.partition(".")[0]
        own = next((path for path in (self.folder / top, self.folder / f"{top}.py") if path.exists()), None)
        with self._first_on_path():
            try:
                found = importlib.import_module(self.exercises)
            except ModuleNotFoundError as missing:
                if missing.name is None or not f"{self.exercises}.".startswith(f"{missing.name}."):
                    raise  # an import of the exercises' own
                raise NoCourse(
                    f"{self.folder / 'pyproject.toml'} names {self.exercises!r}, which is not there"
                ) from None
        file = Path(found.__file__ or "").resolve()
        if own is not None and top != __package__ and not file.is_relative_to(self.folder):
            raise NoCourse(f"{self.exercises!r} of {self.folder} is hidden by {file}: give it a name of its own")
        return found

    @contextmanager
    def _first_on_path(self) -> Generator[None]:
        sys.path.insert(0, str(self.folder))
        try:
            yield
        finally:
            sys.path.remove(str(self.folder))


def course_of(start: Path | None = None) -> Course:
    """The course that a folder or file belongs to: the nearest one, from there upwards, that has the table.

    Where there is none, the one that AUTOGRADER_COURSE names; else that with which this package was installed.

    Args:
        start: the present folder if None.

    Raises:
        NoCourse: there is none, or its table is wrong.
    """
    start = (Path.cwd() if start is None else start).resolve()
    named = os.environ.get(VARIABLE)
    for folder in (start, *start.parents, Path(named).resolve() if named else INSTALLED):
        if course := _read(folder):
            return course
    raise NoCourse(f"No pyproject.toml in {start} or above it has {TABLE}, and {VARIABLE} names no folder with one.")


def collected(module: ModuleType) -> dict[str, "Exercise"]:
    """The exercises that a module, or the modules of a package, define, by name.

    Raises:
        NoCourse: two have one name.
    """
    from autograder.exercise import Exercise  # only now: it needs PyTorch

    files = [module]
    for file in pkgutil.iter_modules(getattr(module, "__path__", ())):
        files.append(importlib.import_module(f"{module.__name__}.{file.name}"))
    found: dict[str, Exercise] = {}
    for value in (value for file in files for value in vars(file).values() if isinstance(value, Exercise)):
        if found.setdefault(value.name, value) is not value:
            raise NoCourse(f"two exercises of {module.__name__} are called {value.name!r}")
    return found


@functools.cache
def _exercises(course: Course) -> dict[str, "Exercise"]:
    return collected(course.module())


def _read(folder: Path) -> Course | None:
    """The course of exactly this folder; None where it has no table."""
    path = folder / "pyproject.toml"
    return _named(path, path.read_bytes()) if path.is_file() else None


@functools.lru_cache(maxsize=8)
def _named(path: Path, text: bytes) -> Course | None:
    """The course of a pyproject.toml with this text; None where it has no table."""
    if TABLE.encode() not in text:
        return None
    table: dict[str, Any] = tomllib.loads(text.decode()).get("tool", {}).get("autograder", {})
    lists = {field.name: field.default == () for field in fields(Course)[1:]}
    for key, value in table.items():
        if key not in lists:
            raise NoCourse(f"{path}: {TABLE} has no key {key!r}; there are {', '.join(lists)}")
        if not isinstance(value, list if lists[key] else str):
            raise NoCourse(f"{path}: {key} is to be a {'list' if lists[key] else 'text'}")
    if "exercises" not in table:
        raise NoCourse(f'{path}: {TABLE} does not say in which module the exercises are, as exercises = "…"')
    values: dict[str, Any] = {key: tuple(value) if lists[key] else value for key, value in table.items()}
    return Course(path.parent, **values)
