"""Calls that are made again under other conditions: which, and how their results are held against the first ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autograder import probe
from autograder.exercise import Case
from autograder.judging.asking import Run, fits_in_one
from autograder.judging.comparing import Comparison, as_arrays, largest, near, same_shapes
from autograder.judging.replies import Arrays, Outcome, StudentError

Call = tuple[int | None, dict[str, Any]]  # the case, None for one of other inputs; and what is requested
Look = tuple[list[Call], dict[str, Any]]  # calls that are made again, and how, as the probe takes it


def look(comparison: Comparison, order: Sequence[int], there: Sequence[int] = (), **how: Any) -> Look:
    """The cases called in this order.

    What is called on the way `there`, before that, is called in evaluation mode, and has a call with other inputs
    before it, which leaves the weights alone; its inputs are tensors of their own, or one that is kept from the call
    before would be filled anew with them. The last of them of each kind is called so once more at the end, where they
    are not, for what knows a tensor again by its place, and what it has no mask for has none before it, either.
    """
    run = comparison.run
    singly = [(i, run.request(i) | {"training": False}) for i in there]
    # A cached first call shows only if the next call differs from it.
    twice = sorted((with_others_first(run, i, request) for i, request in singly), key=_alike)
    doubled = [call for first, (i, request) in twice for call in (first, (i, request | {"anew": True}))]
    largest_of_kind = {run.trial.cases[i].tag: with_others_first(run, i, request, False) for i, request in singly}
    calls: list[Call] = [*((i, run.request(i)) for i in order)]
    calls += [call for calls_of_kind in largest_of_kind.values() for call in calls_of_kind]
    return (doubled if fits_in_one([request for _, request in doubled + calls]) else singly) + calls, how


class Looks:
    """Looks that are made at once; those that this was too much for are made one by one, when they are wanted."""

    def __init__(self, comparison: Comparison, looks: Mapping[str, Look]) -> None:
        self._comparison, self._looks = comparison, looks
        self._asked = {
            name: {"do": "look", "cases": [request for _, request in calls], **how}
            for name, (calls, how) in looks.items()
        }
        outcomes = comparison.trial.outcomes_of_each([*self._asked.values()])
        self._outcomes = dict(zip(looks, outcomes, strict=True))

    def seen(self, name: str) -> list[tuple[int, Outcome]]:
        """What came of the calls of a look, with their cases."""
        trial, calls, outcomes = self._comparison.trial, self._looks[name][0], self._outcomes[name]
        if outcomes is None:
            replies = trial.replies(self._asked[name], len(calls)) if calls else []
            outcomes = self._outcomes[name] = [*map(trial.outcome, replies)]
        return [(i, outcome) for (i, _), outcome in zip(calls, outcomes, strict=True) if i is not None]

    def differing(self, name: str) -> dict[int, StudentError | None]:
        """The cases whose results are not what they were, and what they raised."""
        outcomes = self._comparison.run.outcomes
        differing: dict[int, StudentError | None] = {}
        for i, outcome in self.seen(name):
            first = outcomes[i].output
            assert first is not None  # or it would not be called again
            if outcome.output is None or not same(self._comparison, i, outcome.output, first):
                differing.setdefault(i, outcome.error)
        cases = self._comparison.cases
        return dict(sorted(differing.items(), key=lambda of_case: has_a_one(cases[of_case[0]])))


def has_a_one(case: Case) -> bool:
    """Whether a case has a size of 1, with which much stays the same: then another is the better example."""
    return any(1 in value.shape for value in case.inputs if isinstance(value, np.ndarray))


def with_other_weights_first(comparison: Comparison, look: Look) -> Look:
    """A look whose first call has been made with other weights before, as between two steps of training."""
    (calls, how), run = look, comparison.run
    i, request = calls[0]
    assert i is not None
    if not request.get("weights") or run.trial.cases[i].steps is not None:
        return look
    others = {name: -weight for name, weight in request["weights"].items()}
    return [(None, request | {"weights": others}), *calls], how


def with_others_first(run: Run, i: int, request: dict[str, Any], masked: bool = True) -> list[Call]:
    """The same call with other inputs, and one that leaves the weights as that call has left them.

    masked: the first has a mask where the second has none.
    """
    case = run.trial.cases[i]
    keeps = {"weights": {}} if "weights" in request and case.steps is None else {}
    others = [probe.other(value) for value in case.inputs]
    sizes_alone = bool(others) and all(type(value) is int for value in others)
    if sizes_alone:  # of what is made of them, one that is twice as wide
        others = [*others[:-1], 2 * others[-1]]
    elif case.steps is None and masked:
        others = _masked(run, i, others)
    return [(None, request | {"inputs": others}), (i, request | keeps)]


def _alike(calls: Sequence[Call]) -> bool:
    """Whether all arrays of two calls are the same, as those of a single token are in any order."""
    theirs, own = (request["inputs"] for _, request in calls)
    pairs = zip(theirs, own, strict=False)
    return len(theirs) == len(own) and all(np.array_equal(a, b) for a, b in pairs if isinstance(a, np.ndarray))


def _masked(run: Run, i: int, inputs: list[Any]) -> list[Any]:
    """The inputs of case i with a mask that hides the last key wherever other cases have one and this has none."""
    own = run.trial.cases[i].inputs
    for n in range(max(len(case.inputs) for case in run.trial.cases)):
        if n < len(own) and own[n] is not None:
            continue
        shapes = (_mask_shape(case.inputs, own, n) for case in run.trial.cases)
        shape = next(filter(None, shapes), None)
        if shape is None:
            return inputs
        mask = np.ones(shape, dtype=bool)
        if shape[-1] > 1:
            mask[..., -1] = False
        inputs = [*inputs[:n], mask, *inputs[n + 1 :]]
    return inputs


def _mask_shape(theirs: Sequence[Any], own: Sequence[Any], n: int) -> tuple[int, ...] | None:
    """The shape that their mask, input n, would have with one's own inputs; None where that cannot be told.

    It can be where the lengths of their tensors tell which axis of the mask is which.
    """
    mask = theirs[n] if n < len(theirs) else None
    if not isinstance(mask, np.ndarray) or mask.dtype != bool:
        return None
    lengths = {1: 1}
    for there, here in zip(theirs, own, strict=False):
        if there is mask or not isinstance(there, np.ndarray) or not isinstance(here, np.ndarray):
            continue
        if there.ndim != here.ndim or len({*there.shape}) < there.ndim:
            return None
        for one, other in zip(there.shape, here.shape, strict=True):
            if lengths.setdefault(one, other) != other:
                return None
    return tuple(lengths[length] for length in mask.shape) if lengths.keys() >= {*mask.shape} else None


def same(comparison: Comparison, i: int, again: Arrays, first: Arrays, dtype: str = "") -> bool:
    """Whether two results of case i agree, whatever they are: the expected shape has a tolerance of its own."""
    if not same_shapes(again, first):
        return False
    if comparison.run.fits(i):
        pairs = zip(again, first, strict=True)
        different = [(a, b) for a, b in pairs if not near(comparison.trial, i, a, b, dtype)]
        off = _off_by_a_little(comparison, i) if different else 0.0
        return not different or (off > 0 and all(np.allclose(a, b, 0.0, 3 * off, equal_nan=True) for a, b in different))
    return all(np.allclose(a, b, 1e-4, 1e-4, equal_nan=True) for a, b in zip(again, first, strict=True))


def _off_by_a_little(comparison: Comparison, i: int) -> float:
    """By how much a result that is nearly right is off; 0 where it is right, or far off.

    What is imprecise amplifies rounding: two results of it may lie as far apart as each is from the right one.
    """
    expected, first = comparison.expected[i], comparison.run.outcomes[i].output
    if comparison.right[i] or expected is None or first is None or not same_shapes(first, as_arrays(expected)):
        return 0.0
    pairs = [(got.astype(float), right.astype(float)) for got, right in zip(first, as_arrays(expected), strict=True)]
    gap = max(largest(got - right) if np.isfinite(got - right).all() else np.inf for got, right in pairs)
    return gap if gap < 0.01 * max(largest(right) for _, right in pairs) else 0.0
