"""The words that the steps of a right answer are written in, and those that wrong answers may be made of.

Each is a plain function. Its annotations say of what kind an argument is, so that edits know what may stand there;
its docstring is what a sentence to the student calls it: a noun, and after a semicolon what happens to several things
when it is done to them besides. None knows of any exercise.
"""

import math
from collections.abc import Callable
from typing import Any

from autograder.diagnosis.vocabulary import axes, layers, layout, masks, numbers
from autograder.diagnosis.vocabulary.axes import (
    largest,
    logarithms,
    mean,
    mean_without_axis,
    normalise,
    size,
    softmax,
    total,
    transpose,
)
from autograder.diagnosis.vocabulary.kinds import Bias, Mask
from autograder.diagnosis.vocabulary.layers import linear, merge_heads, split_heads
from autograder.diagnosis.vocabulary.layout import (
    after,
    alternate,
    arange,
    at_ids,
    at_places,
    column,
    flat_windows,
    for_heads_and_queries,
    for_queries,
    looked_up,
    rows,
    windows,
    without_first,
    without_last,
)
from autograder.diagnosis.vocabulary.masks import hide, if_asked
from autograder.diagnosis.vocabulary.numbers import at_most, cos, exp, gelu, less, sin, square, unlike

__all__ = [
    "FAMILIES",
    "FUNCTIONS",
    "INF",
    "KINDS",
    "NOUNS",
    "VERBS",
    "Bias",
    "Mask",
    "after",
    "alternate",
    "arange",
    "at_ids",
    "at_most",
    "at_places",
    "column",
    "cos",
    "exp",
    "flat_windows",
    "for_heads_and_queries",
    "for_queries",
    "gelu",
    "hide",
    "if_asked",
    "largest",
    "less",
    "linear",
    "logarithms",
    "looked_up",
    "mean",
    "mean_without_axis",
    "merge_heads",
    "normalise",
    "rows",
    "sin",
    "size",
    "softmax",
    "split_heads",
    "square",
    "total",
    "transpose",
    "unlike",
    "windows",
    "without_first",
    "without_last",
]

INF = math.inf
FINITE = 1e9  # what many write for infinity: the same, but where nothing is left to see
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: function
    for module in (numbers, axes, masks, layers, layout)
    for name, function in vars(module).items()
    if getattr(function, "__module__", "") == module.__name__ and not name.startswith("_")
}
KINDS: dict[str, tuple[str, ...]] = {
    name: tuple(kind for argument, kind in function.__annotations__.items() if argument not in ("return", "parts"))
    for name, function in FUNCTIONS.items()
}
NOUNS: dict[str, str] = {name: (function.__doc__ or "").split(";")[0] for name, function in FUNCTIONS.items()}
VERBS: dict[str, str] = {name: (function.__doc__ or "").split("; ")[-1] for name, function in FUNCTIONS.items()}

# Functions that stand in for one another, in the order of their arguments.
FAMILIES = (
    ("add", "subtract", "multiply", "divide"),
    ("add", "at_least"),
    ("divide", "floor_divide"),
    ("matmul", "multiply"),
    ("mean", "total", "largest", "median", "mean_by_one_less", "mean_by_one_more", "mean_without_axis"),
    ("total", "total_without_axis", "root_of_squares"),
    ("square", "absolute"),
    ("sin", "cos"),
    ("gelu", "relu", "gelu_by_tanh", "gelu_by_sigmoid", "gelu_without_root", "silu", "hardswish", "sigmoid", "tanh"),
    ("transpose", "axes_reversed", "read_on"),
    ("linear", "linear_turned"),
    tuple(name for name in FUNCTIONS if name.startswith("normalise")),
    tuple(name for name in FUNCTIONS if name.startswith("split_")),
    tuple(name for name in FUNCTIONS if name.startswith("merge_")),
    tuple(name for name in FUNCTIONS if name.startswith("hide")),
    ("alternate", "side_by_side"),
    ("at_ids", "mean_of_entries"),
    ("after", "before"),
    ("rows", "last_rows", "row_for_all"),
    ("without_last", "without_first"),
    ("less", "at_most", "greater", "at_least_as", "equal"),
    ("for_heads_and_queries", "for_queries", "for_heads_and_keys"),
    tuple(name for name in FUNCTIONS if name.startswith("windows")),
    tuple(name for name in FUNCTIONS if name.startswith("flat_")),
    (*(name for name in FUNCTIONS if name.startswith("softmax")), "exponentials", "sigmoids", "shares", "hardest"),
)
