"""The exercises, by the name of what the student writes: each file of this folder defines one or more."""

import importlib
import pkgutil

from autograder.exercise import Exercise

_FILES = [importlib.import_module(f"{__name__}.{file.name}") for file in pkgutil.iter_modules(__path__)]

EXERCISES: dict[str, Exercise] = {
    value.name: value for file in _FILES for value in vars(file).values() if isinstance(value, Exercise)
}


def find(name: str) -> Exercise:
    """The exercise called `name`; LookupError naming those that exist."""
    if name not in EXERCISES:
        raise LookupError(f"no exercise is called {name!r}; there are {', '.join(EXERCISES)}")
    return EXERCISES[name]
