"""Answers as students write them: full marks for those in `right_*.py`, none that are full for those in `wrong_*.py`.

A file is for a lab, or for an exercise: `right_NAME.py`, `wrong_NAME.py`, with any further part in its name. The first
right answer to an exercise is the one that the suite switches mistakes on in.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from autograder.exercise import Exercise, Parameter


def answers(exercise: str, *mistakes: str) -> Callable:
    """Mark a class or function as an answer to `exercise`; a wrong one with the keys that the judge must name.

    No keys: the mistake is on no list, and the judge must refuse the answer without a name from it.
    """

    def mark(answer):
        answer.exercise, answer.mistakes = exercise, mistakes
        return answer

    return mark


def found(kind: str) -> Iterator[tuple[str, Any]]:
    """(exercise's name, answer) for every answer of that kind, "right" or "wrong", in the order of the files."""
    for file in pkgutil.iter_modules(__path__):
        if file.name.startswith(f"{kind}_"):
            module = importlib.import_module(f"{__name__}.{file.name}")
            for value in [*vars(module).values()]:  # a warning adds a name to them
                if getattr(value, "__module__", "") == module.__name__ and (name := vars(value).get("exercise")):
                    yield name, value


def switched(exercise: Exercise, slips: frozenset[str]):
    """The first right answer to an exercise with mistakes switched on: what a student with these would hand in."""
    base = next(answer for name, answer in found("right") if name == exercise.name)
    if not inspect.isclass(base):

        def written(*inputs):
            inputs = tuple(torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in inputs)
            answer = exercise.altered(None, inputs, {}, slips)
            if exercise.library == "torch":
                return answer
            return tuple(part.numpy() for part in answer) if isinstance(answer, tuple) else answer.numpy()

        return written

    class Written(base):
        def __init__(self, *build):
            super().__init__(*build)
            self.built_with = build

        def forward(self, *inputs):
            own = {n: (Parameter(n, tuple(p.shape), p.requires_grad), p) for n, p in self.named_parameters()}
            weights = next(exercise.mappings(own, self.built_with))
            for cache in (value for value in inputs if hasattr(value, "earlier")):  # which `altered` only reads
                cache.append(*(kept.new_zeros(*kept.shape[:2], 1, kept.shape[3]) for kept in cache.earlier))
            return exercise.altered(self.built_with, inputs, weights, slips)

    return Written
