"""Which numbers of the inputs the wrong results depend on, where the right ones do not, or the other way round."""

from collections.abc import Iterator

import numpy as np

from autograder.judging.comparing import Comparison, gradients, gradients_of, largest

Reached = list[tuple[np.ndarray, np.ndarray]]  # of each case, such as where a gradient arrives, and where one should
PLACES = tuple((axis, at) for axis in (-2, -1, 0) for at in (0, -1, 1, -2))


def by_gradients(comparison: Comparison) -> Iterator[str]:
    """Of each input, where in all wrong results a gradient arrives that should not, or none that should.

    Sentences without their ends. What is said of a gradient holds of any code: a result may depend on a number and its
    gradient be 0 all the same.
    """
    run, reached = comparison.run, dict[str, Reached]()
    for i, answer in enumerate(comparison.expected):
        if comparison.right[i] or comparison.cases[i].dtype != "float64" or answer is None:
            continue
        if (wanted := gradients_of(run, i, answer)) is None:
            continue
        outcome = run.outcomes[i]
        if not run.fits(i) or outcome.input_gradients is None or outcome.backward_error:
            return
        got = gradients(run, i)
        for name, right in wanted.items():
            if name in run.parameters[i]:
                continue
            own = got.get(name)
            own = np.zeros(right.shape) if own is None else own
            if own.shape == right.shape:
                reached.setdefault(name, []).append((_other_than_0(own), _other_than_0(right)))
    for name, cases in reached.items():
        if len(cases) > 1:
            yield from _said(name, cases)


def _other_than_0(gradient: np.ndarray) -> np.ndarray:
    return ~(np.abs(gradient) <= 1e-12 * largest(gradient))


def _said(name: str, cases: Reached) -> Iterator[str]:
    """What all cases have in common for one input."""
    if all((got & ~right).any() for got, right in cases):
        if at := _place([(got & ~right, right) for got, right in cases]):
            yield f"A gradient reaches `{name}{at}`, which should get none"
        elif all(right.any() for _, right in cases):
            yield f"A gradient reaches numbers of `{name}` that should get none"
    if all((right & ~got).any() for got, right in cases):
        if at := _place([(right & ~got, got) for got, right in cases]):
            yield f"In the wrong cases no gradient reaches `{name}{at}`"
        elif all(got.any() for got, _ in cases):
            yield f"In the wrong cases no gradient reaches some numbers of `{name}`"


def _place(cases: Reached) -> str:
    """One index along an axis, in code, to which the first arrays are confined, and at which the others are False."""
    for axis, at in PLACES:
        lengths = [only.shape[axis] if only.ndim >= max(1, -axis) else 0 for only, _ in cases]
        if min(lengths) < 2 or max(lengths) < 3:  # of two, the first is the last but one
            continue
        if all(_confined(only, nowhere, axis, at) for only, nowhere in cases):
            return f"[{'..., ' * (axis < 0)}{at}{', :' * (axis == -2)}]"
    return ""


def _confined(only: np.ndarray, nowhere: np.ndarray, axis: int, at: int) -> bool:
    here, rest = only.take(at, axis), np.delete(only, at, axis)
    return bool(here.any()) and not rest.any() and not nowhere.take(at, axis).any()
