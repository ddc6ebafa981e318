"""Answers as students write them: full marks for those in `right_*.py`, none that are full for those in `wrong_*.py`.

The first right answer to an exercise is the one that the suite switches mistakes on in.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterator


def answers(exercise: str, *mistakes: str) -> Callable:
    """Mark a class or function as an answer to `exercise`; a wrong one with the keys that the judge must name.

    No keys: the mistake is on no list, and the judge must refuse the answer without a name.
    """

    def mark(answer):
        answer.exercise, answer.mistakes = exercise, mistakes
        return answer

    return mark


def found(kind: str) -> Iterator[tuple[str, object]]:
    """(exercise's name, answer) for every answer of that kind, "right" or "wrong", in the order of the files."""
    for file in pkgutil.iter_modules(__path__):
        if file.name.startswith(f"{kind}_"):
            module = importlib.import_module(f"{__name__}.{file.name}")
            for value in vars(module).values():
                if getattr(value, "__module__", "") == module.__name__ and (name := vars(value).get("exercise")):
                    yield name, value
