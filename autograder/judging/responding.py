"""What changes of inputs and parameters do to the student's result."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import points, probe
from autograder.judging.asking import Run
from autograder.judging.comparing import Comparison, gradients, largest, leaves, same_shapes
from autograder.judging.replies import Arrays

# By how much a number is changed to see what that does. The small one is for what is in doubt: it crosses fewer kinks,
# but rounding to float32 is as large.
NUDGES = 1e-3, 1e-5
FAR = 0.3, 3.0  # what shows even where results are rounded as coarsely as bfloat16 is, means of many among them
ROUNDING = 1e-10  # of the largest number of a result, which what is added and taken off again leaves
STEADY = 0.25  # by which share two slopes may differ that two nudges show, else neither is one: results are rounded
MAX_CHANGED = 150  # inputs and parameters; where there are more, none is changed


@dataclass(frozen=True)
class Response:
    """How the result depends on inputs and parameters.

    Attributes:
        idle: the names of those that should matter and do not.
        astray: the names of those that should matter whose gradient is not what a change of them does.
        flat: all of these, where each has a gradient of 0 or none; all that should matter, where each has one of 0 or
            none and does matter, as where results are rounded.
    """

    idle: list[str]
    astray: list[str]
    flat: list[str]


def respond(comparison: Comparison, *, any_shape: bool) -> Response | None:
    """Change each input and parameter a little, in a case of the weightiest criterion; None if nothing can be tried.

    A result of another shape than the right one will do only if `any_shape`; its gradients are not compared.
    """
    run, trial = comparison.run, comparison.trial
    if (i := _case_to_try(comparison, any_shape)) is None:
        return None
    by_name, result = leaves(run, i), run.outcomes[i].output
    if result is None or len(by_name) > MAX_CHANGED or not any(np.isfinite(part).any() for part in result):
        return None
    cotangents = trial.cotangents[i] or [np.ones(shape) for shape in trial.shapes(i)]
    matters, rng = _should_matter(comparison, i, by_name, cotangents), np.random.default_rng(0)
    steps = {name: rng.normal(size=leaf.shape) for name, leaf in by_name.items()}
    reported = gradients(run, i) if run.fits(i) and trial.cotangents[i] is not None else {}
    # Where the right answer is unknown, all should matter; what never does, as a bias of the keys, leaves rounding.
    rounding = 0.0 if comparison.expected[i] is None else ROUNDING
    idle, astray, slopes = list[str](), [*by_name], {name: list[float]() for name in by_name}
    for nudge in NUDGES:
        results = _around(run, i, {name: (by_name[name], nudge * steps[name]) for name in astray})
        if not all(part and same_shapes(part, result) for pair in results.values() for part in pair):
            return None
        if nudge == NUDGES[0]:
            idle = [name for name, (up, down) in results.items() if name in matters and _same(up, down, rounding)]
            for by in FAR:
                far = _around(run, i, {name: (by_name[name], by * steps[name]) for name in idle})
                idle = [name for name, pair in far.items() if _same(*pair, rounding)]
        for name, (up, down) in results.items():
            slopes[name].append(_slope(cotangents, up, down) / (2 * nudge))
        astray = [
            name
            for name, (up, _) in results.items()
            if reported and name in matters and all(part.dtype.kind == "f" for part in up)
            if not _agrees(slopes[name][-1], reported.get(name), steps[name])
        ]
    astray = [name for name in astray if abs(np.subtract(*slopes[name])) <= STEADY * max(map(abs, slopes[name]))]
    flat = [name for name in by_name if (own := reported.get(name)) is None or not own.any()] if reported else []
    if not astray and matters <= {*flat}:  # what is rounded changes by nothing or far too much
        return Response(idle, [], [name for name in flat if name in matters and name not in idle])
    return Response(idle, astray, astray if {*astray} <= {*flat} else [])


def _around(run: Run, i: int, changes: dict[str, tuple[Tensor, np.ndarray]]) -> dict[str, tuple[Arrays, Arrays]]:
    """The results of case i with each of some inputs and parameters changed, upwards and downwards; () for none.

    Args:
        run: the answer's.
        i: the case.
        changes: for each name, what is changed, and by how much.
    """
    requests = [_changed(run, i, leaf, sign * change) for leaf, change in changes.values() for sign in (1, -1)]
    replies = run.trial.replies({"do": "run", "cases": requests}, len(requests)) if requests else []
    outputs = [run.trial.outcome(reply).output or () for reply in replies]
    return {name: (up, down) for name, up, down in zip(changes, outputs[::2], outputs[1::2], strict=True)}


def _case_to_try(comparison: Comparison, any_shape: bool) -> int | None:
    """A case of the weightiest criterion, if possible one whose result has the right shape and is differentiated."""
    run, trial = comparison.run, comparison.trial
    weightiest = max((c for c in trial.exercise.criteria if c.key not in points.ALONE), key=lambda c: c.share)
    usable = [
        i
        for i, case in enumerate(trial.cases)
        if case.tag == weightiest.key and case.dtype == "float64" and leaves(run, i)
        if run.fits(i) or (any_shape and run.outcomes[i].output is not None)
    ]
    return min(usable, key=lambda i: (not run.fits(i), trial.cotangents[i] is None, i), default=None)


def _should_matter(
    comparison: Comparison, i: int, by_name: dict[str, Tensor], cotangents: list[np.ndarray]
) -> set[str]:
    """The names of the inputs and parameters that the right answer to case i depends on; all if it is unknown."""
    parts = zip(comparison.expected[i] or (), cotangents, strict=False)
    pairs = [(part, torch.from_numpy(c)) for part, c in parts if part.requires_grad]
    if not pairs:
        return set(by_name)
    total, wanted = probe.weighted(pairs), [*by_name.values()]
    of_each = torch.autograd.grad(total, wanted, retain_graph=True, allow_unused=True, materialize_grads=True)
    return {name for name, gradient in zip(by_name, of_each, strict=True) if largest(gradient.numpy()) > 1e-9}


def _same(first: Arrays, second: Arrays, rounding: float) -> bool:
    """Whether results are the same but for rounding, as a share of the largest number."""
    pairs = zip(first, second, strict=True)
    return all(np.allclose(a, b, 0.0, rounding * max(1e-3, largest(a)), equal_nan=True) for a, b in pairs)


def _slope(cotangents: list[np.ndarray], up: Arrays, down: Arrays) -> float:
    """By how much two results differ, in sum, weighted as the gradients are."""
    return sum(float((c * (a - b)).sum()) for c, a, b in zip(cotangents, up, down, strict=True))


def _agrees(slope: float, gradient: np.ndarray | None, step: np.ndarray) -> bool:
    """Whether a gradient is what a small step has shown; no gradient is one of zero."""
    along = 0.0 if gradient is None else float((gradient * step).sum())
    return abs(slope - along) <= 0.01 * max(abs(slope), abs(along), 1e-2)


def _changed(run: Run, i: int, leaf: Tensor, change: np.ndarray) -> dict[str, Any]:
    """The request of case i with one input or parameter changed."""
    request, case = run.request(i) | {"watch": False}, run.trial.cases[i]
    request.pop("cotangents", None)
    inputs = zip(case.inputs, run.trial.inputs[i], strict=True)
    request["inputs"] = [value + change if own is leaf else value for value, own in inputs]
    if case.build is not None and run.trial.exercise.needs:
        request["weights"] = {
            name: tensor.detach().numpy() + (change if tensor is leaf else 0.0)
            for name, (_, tensor) in run.parameters[i].items()
        }
    return request


def hands_back_inputs(comparison: Comparison) -> bool:
    """Whether the student's code hands back what it was given, in each case that it gets wrong."""
    outcomes = comparison.run.outcomes
    wrong = [
        i
        for i, case in enumerate(comparison.cases)
        if case.dtype == "float64" and not comparison.right[i] and outcomes[i].output
    ]
    return bool(wrong) and all(
        any(
            isinstance(given, np.ndarray) and given.shape == part.shape and np.array_equal(given, part)
            for given in comparison.cases[i].inputs
        )
        for i in wrong
        for part in outcomes[i].output or ()
    )
