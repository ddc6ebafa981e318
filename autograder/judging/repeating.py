"""The same calls once more, under conditions that must not matter: what differs then is noted as a sentence."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from autograder import probe
from autograder.exercise import Case
from autograder.judging.comparing import (
    Comparison,
    agrees,
    all_gradient_gaps,
    as_arrays,
    gradients,
    largest,
    reference,
    within,
)
from autograder.judging.looks import (
    Look,
    Looks,
    has_a_one,
    look,
    same,
    with_other_weights_first,
    with_others_first,
)
from autograder.judging.replies import Outcome
from autograder.judging.wording import as_code, difference

OTHER_WHOLE = {"int8", "int16", "int32", "uint8"}  # dtypes that no part of a result may have where int64 is asked for
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
        idle: whether nothing depends on a parameter: which of the others has which role is a guess, then.
    """

    unsteady: Mapping[int, str]
    conditions: tuple[str, ...] = ()
    in_training: bool = False
    idle: bool = False

    def steadily(self, right: Sequence[bool]) -> list[bool]:
        """Which cases count as right: those that come out right whenever they are called."""
        return [agrees and i not in self.unsteady for i, agrees in enumerate(right)]


def repeat(comparison: Comparison) -> Repetition:
    """Make the same calls under conditions that must not matter.

    One object is called again and again, from the smallest case to the largest, each time with other inputs first, and
    back in training mode, with inputs that are not contiguous. Where that shows nothing, none of these matters; else
    each is tried alone. Another object of each kind with several cases begins with its largest; one has met that with
    other weights before.
    """
    order = _called_again(comparison)
    if not order:
        return Repetition({})
    back, found = order[::-1], Repetition({})
    looks: dict[str, Look] = {
        "all at once": look(comparison, back, order, training=True, strided=True, shared=True, drawn=True),
        "largest first": with_other_weights_first(
            comparison, look(comparison, _in_company(comparison, back), training=True, shared=True)
        ),
    }
    of_torch = comparison.trial.exercise.library == "torch"
    if of_torch:
        looks |= {"in float32": _in_float32(comparison, order), "in float64": _in_float64(comparison, order)}
        modules = [i for i in order[:1] if comparison.cases[i].build is not None]
        looks |= {"moved": look(comparison, modules, device="meta")}
    looks |= {"gradients": _with_gradients(comparison, order)}
    made = Looks(comparison, looks)
    conditions = list[str]()
    if differing := made.differing("all at once") or made.differing("largest first"):
        found = _each_alone(comparison, back, order)
        conditions += found.conditions
        in_time = any(error is None or error.type != probe.TOO_SLOW for error in differing.values())
        if in_time and not found.unsteady and not conditions:  # else the machine was busy
            conditions.append("called again, in training mode and then in evaluation mode, it gives a different result")
    if shared := comparison.run.description.shared:  # what one object is given or made, the next one has
        return replace(found, conditions=(f"objects that are built alike share `{shared}`",))
    conditions += _of_first_calls(comparison, conditions)
    if not any(comparison.run.changed):  # which may be all that is behind it
        conditions += _beside_the_result(comparison, made.seen("all at once"))
    if of_torch:
        if not found.unsteady:  # else what differs there may be what is kept
            differ = _differ_in_float32(comparison, made.seen("in float32"))
            conditions += differ or _differ_in_float64(comparison, made.seen("in float64"))
        conditions += [sentence for i, outcome in made.seen("moved") for sentence in _of_module(comparison, i, outcome)]
        idle = _idle(comparison)
        conditions += [f"nothing depends on `{name}`, which is among the parameters" for name in idle[:1]]
        found = replace(found, idle=bool(idle))
    if not found.in_training:  # else the gradients are those of another result
        conditions += _gradients_in_training(comparison, made.seen("gradients"))
    if (kept := comparison.run.description.kept) and (conditions or found.unsteady):
        conditions.insert(0, f"building one object changes what the next one finds in `{kept}`")
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


def _in_company(comparison: Comparison, back: list[int]) -> list[int]:
    """The first case, and those whose object has others: of a single one, there is no larger that could come first."""
    objects = [_object(comparison.cases[i]) for i in back]
    return [i for i, own in zip(back, objects, strict=True) if i == back[0] or objects.count(own) > 1]


def _object(case: Case) -> tuple[Any, str]:
    """What the probe tells objects apart by."""
    return case.build, "" if case.build is None else case.dtype


def _each_alone(comparison: Comparison, back: list[int], order: list[int]) -> Repetition:
    """What differs when the same calls are made again, one condition after the other."""
    looks: dict[str, Look] = {
        "there and back": look(comparison, back, order, shared=True),
        "back": look(comparison, back, shared=True),
        "strided": look(comparison, order, strided=True),
        "training": look(comparison, order, training=True),
        "once more": look(comparison, order, drawn=True),
        "twice more": look(comparison, order),
    }
    cases, made = comparison.cases, Looks(comparison, looks)
    again = made.differing("there and back")
    draws = any("random numbers" in outcome.settings for _, outcome in made.seen("there and back"))
    unsteady, conditions = _at_every_call(comparison, made, draws), list[str]()
    unlike = {} if unsteady else again | made.differing("back") | again  # else no other condition need be the reason
    singly = next((i for i in unlike if cases[i].steps is None), None)
    called_again = "called after other calls" if singly is None else _called_how(comparison, singly)
    for i, error in unlike.items():
        kept = cases[i].build is None and not any(comparison.run.changed)
        why = ": it draws random numbers" if draws else ": something is kept from one call to the next" if kept else ""
        in_turn = cases[i].steps is not None
        how = "with two texts in turn, each continued in two ways" if in_turn else called_again
        what = f"{how}, it {difference(error)}{why}"
        if error is not None and error.message == probe.STILL_EMPTY:
            what = error.message
        unsteady[i] = f"{what} ({cases[i].label})"
    # Each text by itself is right: what two in turn show is a matter of the contract.
    conditions += [unsteady.pop(i) for i in list(unsteady) if cases[i].steps is not None][:1]
    alone = not again and not unsteady  # what is kept from call to call shows in the others, too
    for i, error in made.differing("strided").items() if alone else ():
        how = "where an input is not contiguous in memory, as a transposed one is, it"
        conditions.append(f"{how} {difference(error)} ({cases[i].label})")
    in_training = made.differing("training") if alone else {}
    if in_training and _right_in_training(comparison, made, in_training):
        conditions.append("in training mode it is right, in evaluation mode it is not")
    conditions += [f"in training mode it {difference(error)} ({cases[i].label})" for i, error in in_training.items()]
    return Repetition(unsteady, tuple(conditions), bool(in_training))


def _right_in_training(comparison: Comparison, made: Looks, differing: Collection[int]) -> bool:
    """Whether all is right in training mode, and what comes out otherwise there is wrong in evaluation mode."""
    run, seen = comparison.run, dict(made.seen("training"))
    there = replace(run, outcomes=tuple(seen.get(i, outcome) for i, outcome in enumerate(run.outcomes)))
    wrong_elsewhere = not any(comparison.right[i] for i in differing)
    return wrong_elsewhere and all(agrees(there, i, comparison.expected[i]) for i in seen)


def _at_every_call(comparison: Comparison, made: Looks, draws: bool) -> dict[int, str]:
    """The cases that give another result at every call, just as it was made before, each with a sentence.

    What is random in PyTorch is the same at every call that the probe makes, but where it has drawn some before.
    """
    first, twice, sentences = comparison.run.outcomes, dict(made.seen("twice more")), dict[int, str]()
    for i, once in made.seen("once more"):
        results = [outcome.output for outcome in (first[i], once, twice[i])]
        pairs = [(a, b) for a, b in itertools.combinations(results, 2) if a is not None and b is not None]
        unlike = [not same(comparison, i, b, a) for a, b in pairs]
        if len(pairs) == 3 and (all(unlike) or (draws and unlike == [True, False, True])):
            why = ": it draws random numbers" if draws else ""
            sentences[i] = f"called again and again, it gives different results{why} ({comparison.cases[i].label})"
    return sentences


def _called_how(comparison: Comparison, i: int) -> str:
    """After what case i comes out otherwise: other calls, or a change of its parameters; and if so in one mode only."""
    run, after_calls = comparison.run, "called after other calls"
    request = run.request(i)
    if not request.get("weights"):
        return after_calls
    other_weights, _ = with_other_weights_first(comparison, ([(i, request)], {}))
    ways = {
        after_calls: with_others_first(run, i, request),
        "called again with other numbers in its parameters, as after a step of training": other_weights,
    }
    for words, calls in ways.items():
        made = Looks(comparison, {str(mode): (calls, {"shared": True, "training": mode}) for mode in (False, True)})
        if made.differing("False"):
            return words if made.differing("True") else f"in evaluation mode, {words}"
    return after_calls


def _of_first_calls(comparison: Comparison, before: Sequence[str]) -> list[str]:
    """What the first calls have shown: a changed input, a changed setting, or, if nothing else, another dtype."""
    run, sentences, changes = comparison.run, list[str](), False
    for case, outcome, changed in zip(comparison.cases, run.outcomes, run.changed, strict=True):
        keeps_dtype = case.single and case.dtype == "float64" and _has_floats(case)
        narrower = NARROW & {*outcome.dtypes} if keeps_dtype else set[str]()
        whole = {*outcome.dtypes} & OTHER_WHOLE if "int64" in comparison.trial.exercise.returns else set[str]()
        if changed and not changes:
            changes = True
            sentences.append(f"{changed} is changed by the call ({case.label})")
        if (left := _setting_left(outcome)) and not sentences:
            sentences.append(f"{left} ({case.label})")
        if narrower and not before and not sentences:
            sentences.append(f"float64 in, {min(narrower)} out ({case.label})")
        if whole and not sentences:
            sentences.append(f"{min(whole)} where int64 is asked for ({case.label})")
    return sentences


def _setting_left(outcome: Outcome) -> str:
    """A setting that a call has left otherwise, as a sentence; "" where there is none."""
    return next((sentence for name, sentence in SETTINGS.items() if name in outcome.settings), "")


def _beside_the_result(comparison: Comparison, seen: Sequence[tuple[int, Outcome]]) -> list[str]:
    """What calls that are made again have done beside their results: to inputs, parameters, and earlier results."""
    sentences = list[str]()
    for i, outcome in sorted(seen, key=lambda of_case: has_a_one(comparison.cases[of_case[0]])):
        label = comparison.cases[i].label
        if outcome.changed is not None and not sentences:
            name = comparison.run.input_name(outcome.changed)
            first = Looks(comparison, {"first": look(comparison, [i])}).seen("first")
            how = "where no gradients are asked for" if first[0][1].changed is not None else "when it is made again"
            sentences.append(f"{name} is changed by the call {how} ({label})")
        if outcome.moved:
            sentences.append(f"`{outcome.moved}` has other numbers after a call ({label})")
        if outcome.rewritten:
            sentences.append(f"what one call has returned is changed by the next ({label})")
    return sentences


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
    return look(comparison, [*of_kind.values()], default="float32", shared=True)


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
        elif not same(comparison, i, outcome.output, first, "float32") and _survives_float32(comparison, i):
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
        if not same(comparison, i, outcome.output, first, "float32"):
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
    return answer is None or first is None or same(comparison, i, as_arrays(answer), first)


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
    if error and all(word in error.message for word in ("device", "cpu", "meta")):
        sentences.append("a tensor stays where it was when a model with this module in it is moved with `.to(device)`")
    return sentences


def _idle(comparison: Comparison) -> list[str]:
    """Parameters that no gradient reaches in any case, where all gradients that are wanted come out right."""
    run = comparison.run
    reached = dict[str, bool]()
    wanted = {
        n for o, right in zip(run.outcomes, comparison.right, strict=True) if right for n in o.weight_gradients or ()
    }
    for outcome in run.outcomes:  # what no right result needs, a wrong one may
        for name, gradient in (outcome.weight_gradients or {}).items():
            reached[name] = reached.get(name, False) or gradient is not None
    idle = [name for name, is_reached in reached.items() if name in wanted and not is_reached]
    return idle if idle and not any(all_gradient_gaps(run, comparison.expected).values()) else []


def _has_floats(case: Case) -> bool:
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in case.inputs)


def _n_numbers(case: Case) -> int:
    """How much there is to compute, roughly: which of two cases is the larger."""
    return sum(
        value.size if isinstance(value, np.ndarray) else value if type(value) is int else 0 for value in case.inputs
    )
