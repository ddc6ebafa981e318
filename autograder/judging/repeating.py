"""The same calls once more, under conditions that must not matter: what differs then is noted as a sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from autograder import probe
from autograder.exercise import Case
from autograder.judging.asking import Run, fits_in_one
from autograder.judging.comparing import (
    Comparison,
    all_gradient_gaps,
    as_arrays,
    gradients,
    largest,
    near,
    reference,
    same_shapes,
    within,
)
from autograder.judging.replies import Arrays, Outcome, StudentError
from autograder.judging.wording import as_code, difference

Call = tuple[int | None, dict[str, Any]]  # the case, None for one of other inputs; and what is requested
NARROW = {"float16", "bfloat16", "float32"}  # dtypes that no part of a result in float64 may have

SETTINGS = {  # that a call has left otherwise → a sentence
    "device": "PyTorch's default device is another after the call",
    "dtype": "PyTorch's default dtype is another after the call",
    "gradients": "gradients stay switched off after the call",
    "seed": "PyTorch's random numbers are seeded, for the whole program",
}


@dataclass(frozen=True)
class Repetition:
    """What differs when the same calls are made again.

    Attributes:
        unsteady: cases that come out otherwise when called again, each with a sentence.
        conditions: under which results differ, as sentences.
        in_training: whether one of them is training mode.
    """

    unsteady: Mapping[int, str]
    conditions: tuple[str, ...] = ()
    in_training: bool = False

    def steadily(self, right: Sequence[bool]) -> list[bool]:
        """Which cases count as right: those that come out right whenever they are called."""
        return [agrees and i not in self.unsteady for i, agrees in enumerate(right)]


Look = tuple[list[Call], dict[str, Any]]  # calls that are made again, and how, as the probe takes it


def repeat(comparison: Comparison) -> Repetition:
    """Make the same calls under conditions that must not matter.

    One object is called again and again, from the smallest case to the largest, each time with other inputs first, and
    back in training mode, with inputs that are not contiguous. Where that shows nothing, none of these matters; else
    each is tried alone. Another object begins with the largest, which it has met with other weights before.
    """
    order = _called_again(comparison)
    if not order:
        return Repetition({})
    back, found = order[::-1], Repetition({})
    looks: dict[str, Look] = {
        "all at once": _look(comparison, back, order, training=True, strided=True, shared=True),
        "largest first": _with_other_weights_first(comparison, _look(comparison, back, training=True, shared=True)),
    }
    of_torch = comparison.trial.exercise.library == "torch"
    if of_torch:
        looks |= {"in float32": _in_float32(comparison, order), "in float64": _in_float64(comparison, order)}
        modules = [i for i in order[:1] if comparison.cases[i].build is not None]
        looks |= {"moved": _look(comparison, modules, device="meta")}
    looks |= {"gradients": _with_gradients(comparison, order)}
    made = _Looks(comparison, looks)
    conditions = list[str]()
    if differing := made.differing("all at once") or made.differing("largest first"):
        found = _each_alone(comparison, back, order)
        conditions += found.conditions
        in_time = any(error is None or error.type != probe.TOO_SLOW for error in differing.values())
        if in_time and not found.unsteady and not conditions:  # else the machine was busy
            conditions.append("called again, in training mode and then in evaluation mode, it gives a different result")
    if shared := comparison.run.description.shared:  # what one object is given or made, the next one has
        return replace(found, conditions=(f"all objects of your class share `{shared}`",))
    conditions += _of_first_calls(comparison, conditions)
    if not any(comparison.run.changed):  # which may be all that is behind it
        conditions += _beside_the_result(comparison, made.seen("all at once"))
    if of_torch:
        if not found.unsteady:  # else what differs there may be what is kept
            differ = _differ_in_float32(comparison, made.seen("in float32"))
            conditions += differ or _differ_in_float64(comparison, made.seen("in float64"))
        conditions += [sentence for i, outcome in made.seen("moved") for sentence in _of_module(comparison, i, outcome)]
    if not found.in_training:  # else the gradients are those of another result
        conditions += _gradients_in_training(comparison, made.seen("gradients"))
    return replace(found, conditions=tuple(conditions))


def _called_again(comparison: Comparison) -> list[int]:
    """The cases that are called again, the smallest first: all that are right, and of the others one of each kind.

    Points are for what is right steadily; of what is wrong anyway, a few show as well as all whether it stays the same.
    """
    outcomes, cases, kinds = comparison.run.outcomes, comparison.cases, set[str]()
    order = [i for i, outcome in enumerate(outcomes) if outcome.output is not None and not cases[i].once]
    chosen = list[int]()
    for i in sorted(order, key=lambda i: _n_numbers(cases[i])):
        if comparison.right[i] or cases[i].tag not in kinds:
            chosen.append(i)
        if not comparison.right[i]:
            kinds.add(cases[i].tag)
    return chosen


def _each_alone(comparison: Comparison, back: list[int], order: list[int]) -> Repetition:
    """What differs when the same calls are made again, one condition after the other."""
    looks: dict[str, Look] = {
        "there and back": _look(comparison, back, order, shared=True),
        "back": _look(comparison, back, shared=True),
        "strided": _look(comparison, order, strided=True),
        "training": _look(comparison, order, training=True),
    }
    cases, made = comparison.cases, _Looks(comparison, looks)
    unsteady, conditions = dict[int, str](), list[str]()
    again = made.differing("there and back")
    draws = any("random numbers" in outcome.settings for _, outcome in made.seen("there and back"))
    for i, error in (again | made.differing("back") | again).items():
        kept = cases[i].build is None and not any(comparison.run.changed)
        why = ": it draws random numbers" if draws else ": something is kept from one call to the next" if kept else ""
        in_turn = cases[i].steps is not None
        how = "with two texts in turn, each continued in two ways" if in_turn else "called again after other calls"
        unsteady[i] = f"{how}, it {difference(error)}{why} ({cases[i].label})"
    # Each text by itself is right: what two in turn show is a matter of the contract.
    conditions += [unsteady.pop(i) for i in list(unsteady) if cases[i].steps is not None][:1]
    alone = not again  # what is kept from call to call shows in the others, too
    for i, error in made.differing("strided").items() if alone else ():
        how = "where an input is not contiguous in memory, as a transposed one is, it"
        conditions.append(f"{how} {difference(error)} ({cases[i].label})")
    in_training = made.differing("training") if alone else {}
    conditions += [f"in training mode it {difference(error)} ({cases[i].label})" for i, error in in_training.items()]
    return Repetition(unsteady, tuple(conditions), bool(in_training))


def _of_first_calls(comparison: Comparison, before: Sequence[str]) -> list[str]:
    """What the first calls have shown: a changed input, a changed setting, or, if nothing else, another dtype."""
    run, sentences, changes = comparison.run, list[str](), False
    for case, outcome, changed, expected in zip(
        comparison.cases, run.outcomes, run.changed, comparison.expected, strict=True
    ):
        keeps_dtype = case.single and case.dtype == "float64" and _has_floats(case)
        narrower = NARROW & {*outcome.dtypes} if keeps_dtype else set[str]()
        if changed and not changes:
            changes = True
            sentences.append(f"{changed} is changed by the call ({case.label})")
        if (left := _setting_left(outcome)) and not sentences:
            sentences.append(f"{left} ({case.label})")
        if narrower and not before and not sentences:
            sentences.append(f"float64 in, {min(narrower)} out ({case.label})")
        if (ids := _no_ids(outcome, expected)) and not before and not sentences:
            sentences.append(f"what should be int64 is {ids} ({case.label})")
    return sentences


def _setting_left(outcome: Outcome) -> str:
    """A setting that a call has left otherwise, as a sentence; "" where there is none."""
    return next((sentence for name, sentence in SETTINGS.items() if name in outcome.settings), "")


def _no_ids(outcome: Outcome, expected: Any) -> str:
    """The dtype of a part of the result that should be int64, as ids are, and is not; "" where there is none."""
    if outcome.output is None or expected is None:
        return ""
    pairs = zip(outcome.dtypes, as_arrays(expected), strict=False)
    found = next((dtype for dtype, right in pairs if right.dtype == np.int64 and dtype != "int64"), "")
    return "floating-point" if found.startswith("float") else found  # which one is a matter of the default


def _beside_the_result(comparison: Comparison, seen: Sequence[tuple[int, Outcome]]) -> list[str]:
    """What calls that are made again have done beside their results: to inputs, parameters, and earlier results."""
    sentences = list[str]()
    for i, outcome in seen:
        label = comparison.cases[i].label
        if outcome.changed is not None and not sentences:
            name = comparison.run.input_name(outcome.changed)
            first = _Looks(comparison, {"first": _look(comparison, [i])}).seen("first")
            how = "where no gradients are asked for" if first[0][1].changed is not None else "when it is made again"
            sentences.append(f"{name} is changed by the call {how} ({label})")
        if outcome.moved:
            sentences.append(f"`{outcome.moved}` has other numbers after a call ({label})")
        if outcome.rewritten:
            sentences.append(f"what one call has returned is changed by the next ({label})")
    return sentences


def _look(comparison: Comparison, order: Sequence[int], there: Sequence[int] = (), **how: Any) -> Look:
    """The cases called in this order.

    What is called on the way `there`, before that, is called in evaluation mode, and has a call with other inputs
    before it, which leaves the weights alone; its inputs are tensors of their own, or one that is kept from the call
    before would be filled anew with them. The last of them of each kind is called so once more at the end, where they
    are not, for what knows a tensor again by its place, and what it has no mask for has none before it, either.
    """
    run = comparison.run
    singly = [(i, run.request(i) | {"training": False}) for i in there]
    # A cached first call shows only if the next call differs from it.
    twice = sorted((_with_others_first(run, i, request) for i, request in singly), key=_alike)
    doubled = [call for first, (i, request) in twice for call in (first, (i, request | {"anew": True}))]
    largest_of_kind = {run.trial.cases[i].tag: _with_others_first(run, i, request, False) for i, request in singly}
    calls: list[Call] = [*((i, run.request(i)) for i in order)]
    calls += [call for calls_of_kind in largest_of_kind.values() for call in calls_of_kind]
    return (doubled if fits_in_one([request for _, request in doubled + calls]) else singly) + calls, how


class _Looks:
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
            if outcome.output is None or not _same(self._comparison, i, outcome.output, first):
                differing.setdefault(i, outcome.error)
        return differing


def _with_other_weights_first(comparison: Comparison, look: Look) -> Look:
    """A look whose first call has been made with other weights before, as between two steps of training."""
    (calls, how), run = look, comparison.run
    i, request = calls[0]
    assert i is not None
    if not request.get("weights") or run.trial.cases[i].steps is not None:
        return look
    others = {name: -weight for name, weight in request["weights"].items()}
    return [(None, request | {"weights": others}), *calls], how


def _with_others_first(run: Run, i: int, request: dict[str, Any], masked: bool = True) -> list[Call]:
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


def _same(comparison: Comparison, i: int, again: Arrays, first: Arrays, dtype: str = "") -> bool:
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


def _with_gradients(comparison: Comparison, order: list[int]) -> Look:
    """The smallest right case of each kind that was differentiated, again, on an object in training mode."""
    of_kind = dict[str, int]()
    for i in order:
        if comparison.cases[i].build is not None and comparison.right[i] and comparison.trial.cotangents[i] is not None:
            of_kind.setdefault(comparison.cases[i].tag, i)
    return [(i, comparison.run.request(i) | {"training": True}) for i in of_kind.values()], {"do": "run"}


def _gradients_in_training(comparison: Comparison, seen: Sequence[tuple[int, Outcome]]) -> list[str]:
    """Whose gradients are others in training mode: of the first such case."""
    run = comparison.run
    for i, outcome in seen:
        again = replace(run, outcomes=(*run.outcomes[:i], outcome, *run.outcomes[i + 1 :]))
        first, now = gradients(run, i), gradients(again, i)
        limit = 1e-5 * max(1e-3, max((largest(g) for g in first.values() if g is not None), default=0.0))
        names = [name for name, gradient in first.items() if not _close(gradient, now[name], limit)]
        if names and not any(all_gradient_gaps(run, comparison.expected).values()):  # or they may be right there alone
            return [f"in training mode the gradient of {as_code(names)} differs ({comparison.cases[i].label})"]
    return []


def _close(one: np.ndarray | None, other: np.ndarray | None, limit: float) -> bool:
    """Whether two gradients are the same; none is 0."""
    first, second = (0.0 if gradient is None else gradient for gradient in (one, other))
    same = one is None or other is None or one.shape == other.shape
    return same and within(np.asarray(first), np.asarray(second), limit)


def _in_float32(comparison: Comparison, order: list[int]) -> Look:
    """The right cases in float32, on the object as it was built."""
    chosen = [i for i in order if _in_double(comparison, i)]
    return [(i, comparison.run.request(i) | {"dtype": "float32"}) for i in chosen], {"shared": True}


def _in_float64(comparison: Comparison, order: list[int]) -> Look:
    """The smallest right case of each kind in float64, where PyTorch's default is float32, as for who leaves it so.

    What is made without a dtype is made in all of a kind.
    """
    of_kind = dict[str, int]()
    for i in order:
        if _in_double(comparison, i) and _has_floats(comparison.cases[i]):
            of_kind.setdefault(comparison.cases[i].tag, i)
    return _look(comparison, [*of_kind.values()], default="float32", shared=True)


def _in_double(comparison: Comparison, i: int) -> bool:
    """Whether a case is right in float64, and would be in float32."""
    case = comparison.cases[i]
    return case.single and case.dtype == "float64" and comparison.right[i]


def _differ_in_float32(comparison: Comparison, seen: Sequence[tuple[int, Outcome]]) -> list[str]:
    """What differs in float32: results must be float32 and much the same, and the default dtype stay what it is."""
    sentences = []
    for i, outcome in seen:
        first, label = comparison.run.outcomes[i].output, comparison.cases[i].label
        assert first is not None
        if left := _setting_left(outcome):
            sentences.append(f"{left} ({label})")
        elif outcome.output is None:
            sentences.append(f"in float32 it {difference(outcome.error)} ({label})")
        elif _has_floats(comparison.cases[i]) and "float64" in outcome.dtypes:
            sentences.append(f"float32 in, float64 out ({label})")
        elif not _same(comparison, i, outcome.output, first, "float32") and _survives_float32(comparison, i):
            sentences.append(f"in float32 the result is far off ({label})")
    return sentences


def _differ_in_float64(comparison: Comparison, seen: Sequence[tuple[int, Outcome]]) -> list[str]:
    """What differs in float64 where PyTorch's default is float32: the first such case."""
    for i, outcome in seen:
        first, label = comparison.run.outcomes[i].output, comparison.cases[i].label
        assert first is not None
        if left := _setting_left(outcome):
            return [f"{left} ({label})"]
        if outcome.output is None:
            return [f"in float64, where PyTorch's default is float32, it {difference(outcome.error)} ({label})"]
        if narrower := NARROW & {*outcome.dtypes}:
            return [f"float64 in, {min(narrower)} out ({label})"]
        if not _same(comparison, i, outcome.output, first, "float32"):
            return [f"in float64, where PyTorch's default is float32, the result is far off ({label})"]
    return []


def _survives_float32(comparison: Comparison, i: int) -> bool:
    """Whether the right answer to case i is the same in float32.

    It is not where two nearly equal numbers are normalised, for example: then nobody's result is.
    """
    trial = comparison.trial
    inputs = tuple(_single(value) for value in trial.inputs[i])
    narrow = replace(trial, inputs=(*trial.inputs[:i], inputs, *trial.inputs[i + 1 :]))
    answer = reference(narrow, i, {role: _single(weight) for role, weight in comparison.reading[i].items()})
    first = comparison.run.outcomes[i].output
    return answer is None or first is None or _same(comparison, i, as_arrays(answer), first)


def _single(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


def _of_module(comparison: Comparison, i: int, outcome: Outcome) -> list[str]:
    """What is wrong with what hangs on a module: parameters without a task, or what does not move with it.

    The latter shows on a device that computes nothing.
    """
    run, sentences, error = comparison.run, list[str](), outcome.error
    if run.parameters[i] and not comparison.trial.exercise.needs:
        sentences.append(f"`{next(iter(run.parameters[i]))}` is among the parameters")
    unset = (name for name, (p, _) in run.parameters[i].items() if p.start is not None and np.isnan(p.start).any())
    sentences += [f"`{name}` starts from numbers that were never set" for name in unset][:1]
    sentences += [f"nothing depends on `{name}`, which is among the parameters" for name in _idle(comparison)[:1]]
    if error and all(word in error.message for word in ("device", "cpu", "meta")):
        sentences.append("a tensor stays where it was when a model with this module in it is moved with `.to(device)`")
    return sentences


def _idle(comparison: Comparison) -> list[str]:
    """Parameters that no gradient reaches in any case, where all gradients that are wanted come out right."""
    run = comparison.run
    reached = dict[str, bool]()
    for outcome, right in zip(run.outcomes, comparison.right, strict=True):
        for name, gradient in (outcome.weight_gradients or {}).items() if right else ():
            reached[name] = reached.get(name, False) or gradient is not None
    idle = [name for name, is_reached in reached.items() if not is_reached]
    return idle if idle and not any(all_gradient_gaps(run, comparison.expected).values()) else []


def _has_floats(case: Case) -> bool:
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in case.inputs)


def _n_numbers(case: Case) -> int:
    """How much there is to compute, roughly: which of two cases is the larger."""
    return sum(
        value.size if isinstance(value, np.ndarray) else value if type(value) is int else 0 for value in case.inputs
    )
