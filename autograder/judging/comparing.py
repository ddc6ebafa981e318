"""Results and gradients of the student's code beside the right ones."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import probe
from autograder.exercise import Case, Inputs, Weights
from autograder.judging.asking import Run, Trial
from autograder.judging.replies import Arrays

ROUNDING = 1e-4  # of the largest number: no difference that is smaller shows at first sight
Parts = tuple[Tensor, ...]  # of an answer: one tensor, or several
Reading = list[Weights]  # a way to read the student's parameters: for each case, the weights by role


@dataclass(frozen=True, eq=False)
class Comparison:
    """What agrees with the right answers, under the likeliest reading of the student's parameters.

    Attributes:
        run: what is compared.
        expected: for each case, the parts of the right answer; None where there is none.
        right: for each case, whether the student's output is the expected one.
        readings: those that are tried for every known mistake, the likeliest first.
        possible: those that are followed stage by stage.
    """

    run: Run
    expected: tuple[Parts | None, ...]
    right: tuple[bool, ...]
    readings: tuple[Reading, ...]
    possible: tuple[Reading, ...]

    @property
    def trial(self) -> Trial:
        return self.run.trial

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.run.trial.cases

    @property
    def reading(self) -> Reading:
        """The likeliest."""
        return self.readings[0]

    @property
    def missing(self) -> frozenset[str]:
        """The roles without which there is no right answer, and which are not found among the parameters."""
        return self.trial.exercise.needs - self.reading[0].keys()


def computed(trial: Trial, i: int, weights: Weights, function: Callable[..., Any], *switches: frozenset[str]) -> Parts:
    """The parts of what the exercise's reference or variation gives for case i; in turns, where it has any."""
    case, inputs = trial.cases[i], trial.inputs[i]
    if case.steps is None:
        return as_parts(function(case.build, inputs, weights, *switches))
    outputs, state = [], None
    for turn, piece in enumerate(inputs[0].split(case.steps, dim=1)):
        drifted = {role: weight * case.drift**turn for role, weight in weights.items()}
        output, state = function(case.build, (piece, *inputs[1:], state), drifted, *switches)
        outputs.append(output)
    return (torch.cat(outputs, dim=1),)


def calls(case: Case, inputs: Inputs) -> list[Inputs]:
    """What the exercise's steps get in each call of a case; in turns, the new tokens and all earlier ones."""
    if case.steps is None:
        return [inputs]
    x, *others = inputs
    ends = itertools.accumulate(case.steps)
    return [(x[:, end - n : end], x[:, : end - n], *others) for n, end in zip(case.steps, ends, strict=True)]


def as_parts(answer: Any) -> Parts:
    """An answer as a tuple, whether it is one tensor or several."""
    return answer if isinstance(answer, tuple) else (answer,)


def as_arrays(parts: Parts) -> Arrays:
    """The numbers of each part, without gradients."""
    return tuple(part.detach().numpy() for part in parts)


def reference(trial: Trial, i: int, weights: Weights) -> Parts | None:
    """The parts of the right answer to case i, differentiable; None if these weights allow none."""
    exercise = trial.exercise
    if exercise.reference is None or not exercise.needs <= weights.keys():
        return None
    try:
        answer = computed(trial, i, weights, exercise.reference)
    except Exception:  # these weights may have any shape
        return None
    return answer if shapes(answer) == trial.shapes(i) else None


def shapes(answer: Parts) -> tuple[tuple[int, ...], ...]:
    """The shape of each part."""
    return tuple(tuple(part.shape) for part in answer)


# --- Results -----------------------------------------------------------------------------------------------------


def agrees(run: Run, i: int, answer: Parts | None) -> bool:
    """Whether the student's output of case i equals `answer`."""
    outputs = run.outcomes[i].output
    if answer is None or outputs is None or len(outputs) != len(answer):
        return False
    return all(near(run.trial, i, got, part.detach().numpy()) for got, part in zip(outputs, answer, strict=True))


def near(trial: Trial, i: int, got: np.ndarray, expected: np.ndarray, dtype: str = "") -> bool:
    """Whether an array of case i equals what is expected: numbers, shape, and what kind of numbers they are.

    `dtype`: in which it was computed, if not in the case's own.
    """
    if got.shape != expected.shape or got.dtype.kind != expected.dtype.kind:
        return False
    if expected.dtype.kind != "f":
        return np.array_equal(got, expected)
    size = max(1e-3, largest(expected))
    close = np.abs(got - expected) <= _tolerance(trial, i, expected, dtype) * size
    return bool(close.all()) or bool(np.all(close | (got == expected) | (np.isnan(got) & np.isnan(expected))))


def _tolerance(trial: Trial, i: int, expected: np.ndarray, dtype: str = "") -> float:
    case = trial.cases[i]
    return trial.exercise.tolerance(case, expected) * (20.0 if (dtype or case.dtype) == "float32" else 1.0)


def differing(got: np.ndarray, expected: np.ndarray, tolerance: float = ROUNDING) -> np.ndarray:
    """Where two arrays of one shape differ by more than a share of the largest number."""
    got, expected = got.astype(float), expected.astype(float)
    with np.errstate(invalid="ignore"):
        close = (np.abs(got - expected) <= tolerance * max(1e-3, largest(expected))) | (got == expected)
    return ~close & ~(np.isnan(got) & np.isnan(expected))


def off(trial: Trial, i: int, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where an array of case i differs from what is expected; at first sight, if it is another kind of number."""
    if near(trial, i, got, expected):
        return np.zeros(expected.shape, bool)
    same_kind = got.dtype.kind == expected.dtype.kind
    return differing(got, expected, _tolerance(trial, i, expected) if same_kind else ROUNDING)


def largest(values: np.ndarray) -> float:
    """The largest magnitude among those that are finite."""
    size = float(np.abs(values).max(initial=0.0))
    return size if math.isfinite(size) else float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def within(one: np.ndarray, other: np.ndarray, limit: float) -> bool:
    """Whether two arrays differ by no more than a limit; NaN is the same as NaN."""
    return bool((np.abs(one - other) <= limit).all()) or np.allclose(one, other, rtol=0, atol=limit, equal_nan=True)


def same_shapes(first: Arrays, second: Arrays) -> bool:
    """Whether two results have as many parts, of the same shapes."""
    return [part.shape for part in first] == [part.shape for part in second]


# --- Gradients ---------------------------------------------------------------------------------------------------


def leaves(run: Run, i: int) -> dict[str, Tensor]:
    """What the result of case i may be differentiated by: inputs, by the names they have in the student's code,
    and then parameters."""
    arguments, parameters, by_name = run.outcomes[i].arguments, run.parameters[i], dict[str, Tensor]()
    clear = len({*arguments, *parameters}) == len(arguments) + len(parameters)  # else one name would stand for two
    for n, value in enumerate(run.trial.inputs[i]):
        if isinstance(value, Tensor) and value.requires_grad:
            name = arguments[n] if clear and n < len(arguments) else f"argument {n + 1}"
            while name in by_name or name in parameters:  # Attack: a parameter that is called so, too
                name = f"the {name}"
            by_name[name] = value
    if run.trial.exercise.needs:
        by_name |= {name: tensor for name, (_, tensor) in parameters.items()}
    return by_name


def gradients(run: Run, i: int) -> dict[str, np.ndarray | None]:
    """The student's gradients of case i, by the names that `leaves` gives."""
    outcome, names = run.outcomes[i], list(leaves(run, i))
    of_inputs = dict(zip(names, outcome.input_gradients or (), strict=False))
    of_weights = outcome.weight_gradients or {}
    return {name: (of_weights if name in run.parameters[i] else of_inputs).get(name) for name in names}


def gradients_of(run: Run, i: int, answer: Parts) -> dict[str, np.ndarray] | None:
    """The gradients of `answer` to case i, by the names that `leaves` gives; None if they were not asked for."""
    cotangents = run.trial.cotangents[i]
    if cotangents is None or shapes(answer) != run.trial.shapes(i):
        return None
    by_name = leaves(run, i)
    pairs = [(p, torch.from_numpy(c)) for p, c in zip(answer, cotangents, strict=True) if p.requires_grad]
    if not pairs:  # what a known mistake gives may have no gradient at all
        wanted = (None,) * len(by_name)
    else:
        total = probe.weighted(pairs)
        wanted = torch.autograd.grad(total, list(by_name.values()), allow_unused=True, retain_graph=True)
    return {n: np.zeros(by_name[n].shape) if g is None else g.numpy() for n, g in zip(by_name, wanted, strict=True)}


def gradient_gaps(run: Run, i: int, answer: Parts) -> list[str] | None:
    """Names of the inputs and parameters whose gradient differs from that of `answer`; None if not asked for."""
    if (right := gradients_of(run, i, answer)) is None:
        return None
    got = gradients(run, i)
    tolerance = 1e-5 * max(1e-3, max(map(largest, right.values())))
    gaps = []
    for name, expected in right.items():
        gradient = got.get(name)
        gradient = np.zeros(expected.shape) if gradient is None else gradient
        if gradient.shape != expected.shape or not within(gradient, expected, tolerance):
            gaps.append(name)
    return gaps


def all_gradient_gaps(run: Run, answers: Sequence[Parts | None]) -> dict[int, list[str]]:
    """By case that agrees with its answer and was differentiated: whose gradients differ."""
    gaps = {}
    for i, answer in enumerate(answers):
        if answer is None or not agrees(run, i, answer):
            continue
        if (names := gradient_gaps(run, i, answer)) is not None:
            gaps[i] = names
    return gaps
