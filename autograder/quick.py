"""A question in few lines: one right answer and some cases, for whoever has no time for a list of mistakes.

    @question((np.array([1.0, 4.0, 2.0, 6.0]), 2), lambda rng: (rng.normal(size=9), 3))
    def moving_average(x, width):
        "An array of the means of `width` neighbours."
        return np.convolve(x, np.ones(width) / width, "valid")

`check(moving_average)` then judges what a student wrote under this name.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.diagnosis import read
from autograder.exercise import Case, Criterion, Exercise, Inputs, Weights, in_numpy

Given = tuple[Any, ...] | Callable[[np.random.Generator], tuple[Any, ...]]


def question(*cases: Given, search: bool = False, **more: Any) -> Callable[[Callable[..., Any]], Exercise]:
    """Make an exercise of the function below: the right answer, under the name that the student uses.

    The first line of its docstring says what it returns. Students write NumPy where the cases hold NumPy arrays, or
    plain numbers and lists only, and PyTorch where one holds a tensor. 10 % of the points are for a result of the right
    shape, 10 % for arguments that stay as they are and the same result again, with PyTorch 10 % for the gradients, and
    the rest for the values. Whole numbers, floats and truth values are not taken for each other.

    Args:
        cases: the arguments of a call each. A tuple is shown to students; a function of a random generator that returns
            one is not, and has other numbers at each check.
        search: the function is written in the words of `autograder.diagnosis.vocabulary`, straight on, over tensors,
            and all its arguments stand before a `/`, each with its type. Then small changes of it are searched for one
            that does what a wrong answer does, and that is said.
        more: fields of `Exercise` that shall be otherwise, such as `mistakes` or `axes`.

    Raises:
        TypeError, ValueError: the function or a case is not as described; when the question is made.
    """
    if not cases:
        raise ValueError("a question needs a case: a tuple of arguments, or a function of a generator that returns one")

    def make(function: Callable[..., Any]) -> Exercise:
        name = function.__name__
        if not (function.__doc__ or "").strip():
            raise ValueError(f"{name} needs a docstring whose first line says what it returns")
        first = inspect.cleandoc(function.__doc__ or "").split("\n")[0].rstrip(".")
        in_torch = any(isinstance(value, Tensor) for given in cases for value in _drawn(given))
        if search:
            _refuse_unsearchable(function)
        reference = _of_tensors(function) if in_torch or search else in_numpy(function)

        def answer(case: Case) -> Any:
            leaves = tuple(torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in case.inputs)
            try:
                found = reference(None, leaves, {})
            except Exception as problem:
                raise ValueError(f"{name} gives no array, tensor or number for {case.label}: {problem}") from problem
            if not all(isinstance(part, Tensor) for part in _parts(found)):
                raise TypeError(f"{name} gives no tensor for {case.label}, but {type(found).__name__}")
            return found

        def drawn(rng: np.random.Generator) -> list[Case]:
            made = [_case(function, number, given, rng) for number, given in enumerate(cases, 1)]
            smooth = [in_torch and all(part.is_floating_point() for part in _parts(answer(case))) for case in made]
            return [replace(case, differentiate=is_smooth) for case, is_smooth in zip(made, smooth, strict=True)]

        def shape(case: Case) -> tuple[Any, ...]:
            found = answer(case)
            return tuple(tuple(part.shape) for part in found) if isinstance(found, tuple) else tuple(found.shape)

        tried = drawn(np.random.default_rng(0))
        for case in tried:
            shape(case)  # which raises here what it would raise at a check
        several = answer(tried[0])
        gradients = any(case.differentiate for case in tried)
        exercise = Exercise(
            name=name,
            returns=first[0].lower() + first[1:],
            shape=shape,
            criteria=(
                Criterion("shape", "runs, and the result has the right shape", 0.1),
                Criterion("values", "the values", 0.7 if gradients else 0.8),
                *([Criterion("gradients", "the gradients", 0.1)] if gradients else []),
                Criterion("contract", "the arguments stay as they are, and the same call gives the same result", 0.1),
            ),
            mistakes=(),
            cases=drawn,
            reference=reference,
            parts=tuple(f"result {n}" for n, _ in enumerate(several, 1)) if isinstance(several, tuple) else (),
            steps=function if search else None,
            library="torch" if in_torch else "numpy",
        )
        return replace(exercise, **more)

    return make


def _parts(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _drawn(given: Given, rng: np.random.Generator | None = None) -> tuple[Any, ...]:
    values = given(rng or np.random.default_rng(0)) if callable(given) else given
    if not isinstance(values, tuple):
        raise TypeError(f"a case is a tuple of arguments, as in (x,); this is {type(values).__name__}")
    return values


def _case(function: Callable[..., Any], number: int, given: Given, rng: np.random.Generator) -> Case:
    """A case as the judge has it: arrays of float64, int64 or bool."""
    inputs = tuple(map(_plain, _drawn(given, rng)))
    try:
        named = inspect.signature(function).bind(*inputs).arguments
    except TypeError as problem:
        raise TypeError(f"case {number} does not fit {function.__name__}: {problem}") from None
    values = ", ".join(
        f"{name} of shape {value.shape}" if isinstance(value, np.ndarray) else f"{name} = {value!r}"
        for name, value in named.items()
    )
    return Case("values", f"case {number}: {values}", inputs, visible=not callable(given))


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().numpy()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.astype({"f": np.float64, "i": np.int64, "u": np.int64}.get(value.dtype.kind, value.dtype))
    if isinstance(value, dict):
        raise TypeError("an argument may be an array, a tensor, a number, a string, a list of these, or None")
    return value


def _of_tensors(function: Callable[..., Any]) -> Callable[[Any, Inputs, Weights], Any]:
    @functools.wraps(function)
    def reference(build: None, inputs: Inputs, weights: Weights) -> Any:
        return function(*inputs)

    return reference


def _refuse_unsearchable(function: Callable[..., Any]) -> None:
    """Refuse what the search could not read."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.POSITIONAL_ONLY or parameter.annotation is parameter.empty:
            how = f"{function.__name__}({parameter.name}: Tensor, …, /)"
            raise TypeError(f"with search=True, each argument has its type and stands before a `/`: {how}")
    try:
        read(function)
    except Exception as problem:
        raise TypeError(
            f"with search=True, {function.__name__} may hold assignments and a return in the words of "
            f"autograder.diagnosis.vocabulary only: {problem}"
        ) from problem
