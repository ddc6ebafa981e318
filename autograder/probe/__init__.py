"""The half of a check that runs where the student's code lives: it does what it is asked and knows no answers.

A request names a function or a class, arguments, weights and inputs; the reply says what came out: plain arrays,
names and shapes, or how it failed. What it returns is evidence, not truth: the judge believes none of it that it has
not compared with what it knows.

The files of this package stand alone (standard library, NumPy, torch), so that they can be sent into a kernel where
nothing else of the grader exists: `autograder.pipeline.kernel_side` makes a package of them there that has another
name. So they import one another, and nothing else of the project, by relative imports.
"""

from .calls import STILL_EMPTY, answer, other, weighted
from .guards import Forbidden, exact, kernels, registered, without_compiler
from .stand_ins import MADE, made, models, state
from .wire import (
    DTYPES,
    MAX_AXES,
    MAX_HEADER,
    MAX_LINES,
    MAX_MESSAGE,
    MAX_NAME,
    MAX_NAMES,
    MAX_PARTS,
    TOO_SLOW,
    pack,
    unpack,
)

__all__ = [
    "DTYPES",
    "MADE",
    "MAX_AXES",
    "MAX_HEADER",
    "MAX_LINES",
    "MAX_MESSAGE",
    "MAX_NAME",
    "MAX_NAMES",
    "MAX_PARTS",
    "STILL_EMPTY",
    "TOO_SLOW",
    "Forbidden",
    "answer",
    "exact",
    "kernels",
    "made",
    "models",
    "other",
    "pack",
    "registered",
    "state",
    "unpack",
    "weighted",
    "without_compiler",
]
