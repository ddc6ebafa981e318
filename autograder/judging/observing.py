"""What can be seen of wrong results that nothing explains: by inputs, relations and sizes, and on the way to them."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import location, reading, relations
from autograder.covering import Sizes
from autograder.exercise import Case, Weights
from autograder.judging.asking import Description, Trial, call, describe, leaf
from autograder.judging.comparing import Comparison, as_arrays, as_parts, differing, largest, near, reference, shapes
from autograder.judging.matching import compare, role_names, too_few, unread, unusual_sum
from autograder.judging.repeating import Repetition
from autograder.judging.replies import Arrays
from autograder.judging.wording import capitalised

MAX_CASES, MAX_KINDS = 2, 3  # cases of each kind in which is asked how the result depends on its inputs; kinds
MAX_NUMBERS, MAX_LARGEST = 5_000, 99  # in the inputs of such a case: how many, and the largest of them
MAX_DRAWN_ANEW = 8  # times, where it should go wrong at some sizes and does not
MANY_TO_ONE = 5  # parts that are nearly right, for each case that is not
KINDS = {"f": "floating-point", "b": "True and False"}  # of numbers; which dtype is a matter of the default
NEARLY = 0.1  # of the gap of what is wrong: what is right should be much closer
MAX_GUESSES = 3  # at which sizes the code goes wrong


def observe(comparison: Comparison, repetition: Repetition) -> list[str]:
    """Say what can be seen of wrong results, the most telling first, as sentences without their ends."""
    views = (_by_parameters, _by_shape, _almost, _with_and_without, _by_call)
    by_chance = _by_chance(comparison)
    sentences = by_chance + [sentence for view in views for sentence in view(comparison)]
    if not by_chance:  # which breaks the relations and differs from call to call, as what is kept does
        sentences += _broken_relations(comparison) if not repetition.unsteady else []
        differing = (*repetition.unsteady.values(), *repetition.conditions)
        sentences += [capitalised(sentence) for sentence in differing][:1]
    labels = [case.label for case, right in zip(comparison.cases, comparison.right, strict=True) if not right]
    only_these = f"Only these cases are wrong: {'; '.join(labels)}"
    if len(labels) < len(comparison.cases) / 4:
        sentences.append(only_these)
    sentences += relations.looks(_beside_expected(comparison), comparison.trial.exercise.parts)
    if not sentences and len(labels) <= len(comparison.cases) / 2:
        sentences.append(only_these)
    return list(dict.fromkeys(sentences))


def _beside_expected(comparison: Comparison) -> list[tuple[Arrays, Arrays, list[np.ndarray]]]:
    """Of every case in float64 with a result in the right shape: it, the right one, and where they differ."""
    run, trial = comparison.run, comparison.trial
    compared = []
    for i in _comparable(comparison):
        outputs, expected = run.outcomes[i].output or (), as_arrays(comparison.expected[i] or ())
        off = [
            np.zeros(part.shape, bool) if near(trial, i, got, part) else differing(got, part)
            for got, part in zip(outputs, expected, strict=True)
        ]
        compared.append((outputs, expected, off))
    return compared


def _comparable(comparison: Comparison) -> list[int]:
    """The cases in float64 with a result in the right shape."""
    run, cases = comparison.run, comparison.cases
    with_result = [i for i, answer in enumerate(comparison.expected) if answer and run.outcomes[i].output]
    return [i for i in with_result if run.fits(i) and cases[i].dtype == "float64"]


def _by_chance(comparison: Comparison) -> list[str]:
    """That every wrong result came about with random numbers."""
    pairs = zip(comparison.run.outcomes, comparison.right, strict=True)
    wrong = [outcome for outcome, right in pairs if not right and outcome.output is not None]
    drawn = bool(wrong) and all("random numbers" in outcome.settings for outcome in wrong)
    return ["Your code draws random numbers"] if drawn else []


def _by_parameters(comparison: Comparison) -> list[str]:
    """That the registered parameters hold fewer numbers than their roles need, or as many as no roles together have.

    A right answer may leave biases out, and keep its parameters in any layout: neither changes what a sum may be.
    """
    run, needs = comparison.run, comparison.trial.exercise.needs
    if any(comparison.right) or not run.parameters[0]:
        return []
    label = comparison.cases[0].label
    if comparison.missing and (few := too_few(comparison)):
        has, wanted = few
        return [f"Your parameters have too few numbers for {role_names(run, needs)}: {has:,}, not {wanted:,} ({label})"]
    if sums := unusual_sum(comparison):
        has, wanted, label = sums
        return [f"Your parameters hold {has:,} numbers in all, those of the definition {wanted:,} ({label})"]
    return []


def _by_shape(comparison: Comparison) -> list[str]:
    """How the shape of every result of one part that does not fit differs from the right one."""
    run, parts = comparison.run, comparison.trial.exercise.parts or ("the result",)
    right_shape = any(run.fits(i) and not right for i, right in enumerate(comparison.right))
    for n, name in enumerate(parts):
        seen = [
            (outputs[n], answer[n].detach().numpy())
            for outputs, answer in zip((outcome.output for outcome in run.outcomes), comparison.expected, strict=True)
            if outputs and answer and n < len(outputs) and outputs[n].shape != tuple(answer[n].shape)
        ]
        if len(seen) > 1:
            got, expected = (array.shape for array in seen[0])
            if not right_shape and (how := relations.reshaped(seen)):
                return [f"{capitalised(name) if name == 'the result' else name} {how}"]
            return [f"The shape of {name} is {got} where {expected} is right"]
    return []


def _almost(comparison: Comparison) -> list[str]:
    """That wrong results hold the right numbers: all as another kind of number, or most but for their last digits."""
    gaps, kinds, n_others = list[float](), dict[str, str](), 0
    for i, answer in enumerate(comparison.expected):
        outputs = comparison.run.outcomes[i].output
        if comparison.right[i] or comparison.cases[i].dtype != "float64":
            continue
        if answer is None or outputs is None or not comparison.run.fits(i):
            return []
        for got, part in zip(outputs, answer, strict=True):
            expected = part.detach().numpy()
            if differing(got, expected).any():
                n_others += 1
                break
            if got.dtype.kind != expected.dtype.kind:
                kinds[KINDS.get(got.dtype.kind, got.dtype.name)] = expected.dtype.name
            elif not near(comparison.trial, i, got, expected):
                off = np.abs(got.astype(float) - expected)
                gaps.append(float(off[np.isfinite(off)].max(initial=0.0)) / max(1e-3, largest(expected)))
    if kinds and not n_others:
        return [f"The numbers are right, but {got} where they should be {wanted}" for got, wanted in kinds.items()][:1]
    if not any(gaps) or n_others > len(gaps) / MANY_TO_ONE:
        return []
    most = "In most of the wrong cases, every" if n_others else "Every"
    return [f"{most} number is right to {int(-np.log10(max(gaps)))} digits, and no further"]


def _with_and_without(comparison: Comparison) -> list[str]:
    """An optional input, such as a mask, without which all is right, or with which all is."""
    most = max(len(case.inputs) for case in comparison.cases)
    inputs = [(*case.inputs, *[None] * (most - len(case.inputs))) for case in comparison.cases]
    for n in range(most):
        with_it = [comparison.right[i] for i, given in enumerate(inputs) if given[n] is not None]
        without = [comparison.right[i] for i, given in enumerate(inputs) if given[n] is None]
        if len(with_it) < 2 or len(without) < 2 or all(with_it) == all(without):
            continue
        numbers = any(isinstance(given[n], int | float) for given in inputs)
        if numbers and not any(len(case.inputs) > n and case.inputs[n] is None for case in comparison.cases):
            continue  # a number that is left out has a value all the same
        right, word, wrong = (without, "without", with_it) if all(without) else (with_it, "with", without)
        other, n_wrong = "with" if word == "without" else "without", wrong.count(False)
        name = comparison.run.input_name(n)
        return [f"All {len(right)} cases {word} {name} are right, and {n_wrong} of {len(wrong)} {other} it are not"]
    return []


CALLS = {  # of a text in several calls: the number of a call, and how many tokens it brings
    "later calls that bring several tokens": lambda number, length: number > 0 and length > 1,
    "later calls that bring one token": lambda number, length: number > 0 and length == 1,
    "the third call and those after it": lambda number, length: number > 1,
    "the second call and those after it": lambda number, length: number > 0,
    "calls that bring several tokens": lambda number, length: length > 1,
}


def _by_call(comparison: Comparison) -> list[str]:
    """Which calls go wrong, where a text comes in several and all others are right."""
    seen = list[tuple[int, int, bool]]()
    for i, (case, answer) in enumerate(zip(comparison.cases, comparison.expected, strict=True)):
        outputs = comparison.run.outcomes[i].output
        if case.steps is None or answer is None or outputs is None or not comparison.run.fits(i):
            continue
        ends = np.cumsum(case.steps)
        for number, (end, length) in enumerate(zip(ends, case.steps, strict=True)):
            pieces = [
                (got[:, end - length : end], part.detach().numpy()[:, end - length : end])
                for got, part in zip(outputs, answer, strict=True)
            ]
            seen.append((number, length, all(near(comparison.trial, i, *piece) for piece in pieces)))
    wrong = [(number, length) for number, length, right in seen if not right]
    for words, holds in CALLS.items():
        such = [right for number, length, right in seen if holds(number, length)]
        if wrong and len(such) < len(seen) and all(holds(*call) for call in wrong):
            return [f"Only {words} go wrong ({such.count(False)} of {len(such)})"]
    return []


# --- Relations between inputs and results ------------------------------------------------------------------------


def _broken_relations(comparison: Comparison) -> list[str]:
    """Relations that the right answer has for the inputs of several cases, and the student's code has not."""
    run, trial = comparison.run, comparison.trial
    tried = list[tuple[int, relations.Relation, list[bool | None]]]()
    for i in _to_relate(comparison):
        inputs, weights = trial.cases[i].inputs, _any_weights(comparison, i)
        before = _right_answer(comparison, i, inputs, weights)
        if before is None:
            continue
        for relation in relations.relations(inputs, {n: run.input_name(n) for n in range(len(inputs))}):
            after = _right_answer(comparison, i, relation.inputs, weights)
            if after is not None and any(must_hold := relation.holds(before, after)):
                tried.append((i, relation, must_hold))
    if not tried:
        return []
    requests = [run.request(i) | {"inputs": list(relation.inputs)} for i, relation, _ in tried]
    replies = trial.replies({"do": "look", "cases": requests}, len(requests))
    broken, kept = dict[tuple[bool, str], int](), set[str]()
    where = ", in the cases that are wrong" if any(comparison.right) else ""
    for (i, relation, must_hold), reply in zip(tried, replies, strict=True):
        words = relation.words + where if relation.changes else relation.words
        after, before = trial.outcome(reply).output, run.outcomes[i].output
        if after is None or before is None or not len(after) == len(before) == len(must_hold):
            continue
        names = trial.exercise.parts if len(must_hold) > 1 else ("",)
        parts = zip(names, relation.holds(before, after), must_hold, strict=True)
        holds = [(relations.of_part(words, name), held) for name, held, must in parts if must]
        for said in {said for said, held in holds if held is False}:
            key = relation.weak, said
            broken[key] = broken.get(key, 0) + 1
        if relation.changes:  # that nothing changes is said only if it is so everywhere
            kept |= {said for said, held in holds if held is not False}
    often = [key for key, count in broken.items() if count > 1 and key[1] not in kept]
    any_numbers = bool(_by_parameters(comparison))  # those that no role has were drawn as if they had one
    return [words for weak, words in sorted(often, key=lambda key: key[0]) if not (weak and any_numbers)]


def _to_relate(comparison: Comparison) -> list[int]:
    """Wrong cases whose inputs are worth changing: of each kind, those of most different sizes."""
    outcomes, cases = comparison.run.outcomes, comparison.cases
    usable = [
        i
        for i, case in enumerate(cases)
        if case.dtype == "float64" and case.steps is None and not comparison.right[i] and not _huge(case)
        if outcomes[i].output is not None and all(np.isfinite(part).all() for part in outcomes[i].output or ())
    ]
    usable.sort(key=lambda i: (min(_sides(cases[i]), default=0) < 2, -len(set(_sides(cases[i])))))
    kinds = dict[tuple[int, ...], list[int]]()  # without a mask, and with one of so many axes
    for i in usable:
        given = cases[i].inputs
        masks = (value for value in given if value is None or (isinstance(value, np.ndarray) and value.dtype == bool))
        kinds.setdefault(tuple(0 if mask is None else mask.ndim for mask in masks), []).append(i)
    return [i for alike in list(kinds.values())[:MAX_KINDS] for i in alike[:MAX_CASES]]


def _huge(case: Case) -> bool:
    """Whether a case is too large, or its numbers are, to ask about it again and again."""
    given = [value for value in case.inputs if isinstance(value, np.ndarray)]
    size = max((largest(array) for array in given if array.dtype.kind == "f"), default=0)
    return sum(array.size for array in given) > MAX_NUMBERS or size > MAX_LARGEST


def _sides(case: Case) -> list[int]:
    """All sizes of a case's arrays."""
    return [n for value in case.inputs if isinstance(value, np.ndarray) for n in value.shape]


def _any_weights(comparison: Comparison, i: int) -> Weights:
    """The student's weights by role, or, where these cannot be read, others of the right shapes."""
    weights, exercise = comparison.reading[i], comparison.trial.exercise
    if reference(comparison.trial, i, weights) is None and exercise.roles is not None:
        roles = exercise.roles(comparison.cases[i].build)
        return {name: reading.numbers(name, role.shape) for name, role in roles.items()}
    return weights


def _right_answer(comparison: Comparison, i: int, inputs: Sequence[Any], weights: Weights) -> Arrays | None:
    """What the reference gives for other inputs of case i; None where it gives nothing in the right shape."""
    function = comparison.trial.exercise.reference
    if function is None:
        return None
    try:
        with torch.no_grad():
            answer = as_parts(function(comparison.cases[i].build, tuple(map(leaf, inputs)), weights))
    except Exception:  # these inputs may make no sense
        return None
    return as_arrays(answer) if shapes(answer) == comparison.trial.shapes(i) else None


# --- Sizes -------------------------------------------------------------------------------------------------------


def locate(comparison: Comparison) -> str:
    """At which sizes the code goes wrong, where it is right at all others: tried on further ones, then said."""
    if _has_other_reasons(comparison):
        return ""
    trial, axes = comparison.trial, comparison.trial.exercise.axes
    drawn = [i for i, case in enumerate(trial.cases) if case.sizes is not None]
    sets = [case.sizes for case in trial.cases if case.sizes is not None]
    wrong = [not comparison.right[i] for i in drawn]
    limits = (
        location.from_on(name, least)
        for name, sizes, right, wrong_at in location.limits(axes, sets, wrong)
        if (least := _limit(comparison, name, sizes, right, wrong_at)) is not None
    )
    guesses = itertools.chain(limits, location.found(axes, sets, wrong))
    for where in itertools.islice(guesses, MAX_GUESSES):
        further = location.further(axes, where, sets)
        if not further:
            continue
        if _just_there(trial, where, further):
            return where.words
    return ""


def _has_other_reasons(comparison: Comparison) -> bool:
    """Whether there is more to it than the sizes that are drawn.

    So it is where a case that has not been drawn raises another error, or comes out otherwise than all that are drawn
    for its criterion; where some with other axes, such as none in front, are right and others wrong; and where what
    counts as right is nearly as far off as what does not.
    """
    raised = {
        (case.sizes is not None, outcome.error.type)
        for case, outcome in zip(comparison.cases, comparison.run.outcomes, strict=True)
        if outcome.error
    }
    if any(not drawn and (True, kind) not in raised for drawn, kind in raised):
        return True
    usual = {_axes(case) for case in comparison.cases if case.sizes is not None}
    others = {comparison.right[i] for i, case in enumerate(comparison.cases) if _axes(case) not in usual}
    if len(others) > 1 or _right_by_tolerance(comparison):
        return True
    of_tag: dict[tuple[str, bool], set[bool]] = {}  # of each criterion, what becomes of drawn cases, and of the others
    for case, right in zip(comparison.cases, comparison.right, strict=True):
        of_tag.setdefault((case.tag, case.sizes is not None), set()).add(right)
    return any(
        len(all_drawn := of_tag.get((tag, True), set())) == 1 and found - all_drawn
        for (tag, drawn), found in of_tag.items()
        if not drawn
    )


def _axes(case: Case) -> tuple[int, ...]:
    """How many axes each array of a case has, but for masks."""
    given = (value for value in case.inputs if isinstance(value, np.ndarray) and value.dtype != bool)
    return tuple(value.ndim for value in given)


def _right_by_tolerance(comparison: Comparison) -> bool:
    """Whether something that counts as right is nearly as far off as something that does not."""
    gaps: tuple[list[float], list[float]] = [], []  # of what is wrong, and of what is right
    for i in _comparable(comparison):
        outputs, expected = comparison.run.outcomes[i].output or (), as_arrays(comparison.expected[i] or ())
        pairs = [(got.astype(float), part.astype(float)) for got, part in zip(outputs, expected, strict=True)]
        gap = max(largest(got - part) / max(1e-3, largest(part)) for got, part in pairs)
        gaps[comparison.right[i]].append(gap if np.isfinite(gap) else np.inf)
    return max(gaps[True], default=0.0) > NEARLY * min(gaps[False], default=np.inf)


def _just_there(trial: Trial, where: location.Where, sets: list[Sizes]) -> bool:
    """Whether the code goes wrong at those of these sizes of which `where` holds, and at no other.

    Where it should and does not, that may be luck, as where the likeliest token is the same: it is drawn anew.
    """
    right = _right_at(trial, sets)
    if len(right) != len(sets) or not all(r or where.holds(sizes) for r, sizes in zip(right, sets, strict=True)):
        return False
    lucky = [sizes for sizes, is_right in zip(sets, right, strict=True) if is_right and where.holds(sizes)]
    for _ in range(MAX_DRAWN_ANEW):
        if not lucky:
            break
        lucky = [sizes for sizes, is_right in zip(lucky, _right_at(trial, lucky), strict=True) if is_right]
    return not lucky


def _limit(comparison: Comparison, name: str, sizes: Mapping[str, Any], right: int, wrong: int) -> int | None:
    """The least size of an axis from which on these sizes go wrong, by halving; None where it is not for that axis."""
    trial, axes = comparison.trial, comparison.trial.exercise.axes

    def is_right(value: int) -> bool | None:
        other = location.changed(axes, sizes, name, value)
        return _right_at(trial, [other]) == [True] if other else None

    if not is_right(right):
        return None
    while wrong - right > 1:
        middle = (right + wrong) // 2
        match is_right(middle):
            case True:
                right = middle
            case False:
                wrong = middle
            case None:
                return None
    return wrong if is_right(wrong + 1) is False else None


def _right_at(trial: Trial, sets: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Whether the code is right in further cases of these sizes; nothing where no object can be built for them."""
    cases = [trial.exercise.of(sizes, trial.rng) for sizes in sets]
    other = Trial.of(trial.exercise, trial.ask, cases, trial.rng)
    description = describe(other)
    if not isinstance(description, Description):
        return []
    return list(compare(call(other, description, description.parameters)).right)


# --- The way to the result ---------------------------------------------------------------------------------------


def follow_stages(comparison: Comparison, i: int) -> str:
    """How far on the way to the answer of case i the student's code comes, as a sentence.

    The stages are looked for among all that it computes. Not every way of writing it passes through each of them,
    so what counts is the last one found; and of the readings of its parameters, the one that leads farthest.
    """
    trial, stages_of = comparison.trial, comparison.trial.exercise.stages
    if stages_of is None or not comparison.possible or unread(comparison):
        return ""
    (reply,) = trial.replies({"do": "run", "cases": [comparison.run.request(i) | {"trace": True}]}, 1)
    traced = trial.outcome(reply).traced
    if traced is None:
        return ""
    traced = np.sort(traced[np.isfinite(traced)], axis=None)
    wrong = _wrong_parts(comparison, i)  # what is computed on the way may be right, and what is returned not
    ways = list[dict[str, bool]]()  # for each reading: which stages are found
    for weights in comparison.possible:
        if not _uses_all(comparison, i, weights[i]):
            continue
        try:
            every = stages_of(trial.cases[i].build, trial.inputs[i], weights[i])
        except Exception:  # a reading that does not fit
            continue
        stages = {name: value for name, value in every.items() if name not in wrong}
        given = [tensor for tensor in (*trial.inputs[i], *weights[i].values()) if isinstance(tensor, Tensor)]
        ways.append(_found(stages, given, traced))
    return _stages_found(comparison, i, max(ways, key=_reached)) if ways else ""


def _wrong_parts(comparison: Comparison, i: int) -> list[str]:
    """The names of what case i returns and is wrong."""
    outputs, answer = comparison.run.outcomes[i].output, comparison.expected[i]
    parts = zip(comparison.trial.exercise.parts, outputs or (), as_arrays(answer or ()), strict=False)
    return [name for name, got, part in parts if not near(comparison.trial, i, got, part)]


def _found(stages: Mapping[str, Tensor], given: Sequence[Tensor], traced: np.ndarray) -> dict[str, bool]:
    """Which stages are among the traced numbers; those that only put together what was there before are left out."""
    known = [tensor.detach().double().numpy().ravel() for tensor in given]
    found = dict[str, bool]()
    for name, value in stages.items():
        array = value.detach().numpy()
        if array.dtype.kind != "f" or not known or not _among(array, np.sort(np.concatenate(known))):
            found[name] = _among(array, traced)
        known.append(array.ravel().astype(float))
    return found


def _reached(stages: dict[str, bool]) -> int:
    """How many stages there are up to the last one that is found."""
    return max((n for n, found in enumerate(stages.values(), 1) if found), default=0)


def _stages_found(comparison: Comparison, i: int, stages: dict[str, bool]) -> str:
    """The stages up to which the student's code comes, as a sentence."""
    reached, names = _reached(stages), list(stages)
    computed = [name for name, found in stages.items() if found]
    beginning = f"Your code computes {relations.listed(computed)} as it should; " if computed else ""
    if reached == len(names):
        return f"{beginning}what goes wrong comes after that."
    parameters = comparison.run.parameters[i]
    if not computed and any(
        tensor.dim() > 1 and not name.endswith("weight") for name, (_, tensor) in parameters.items()
    ):
        return ""  # a bare matrix may be meant either way round
    return capitalised(f"{beginning}nothing that {'it' if computed else 'your code'} computes equals {names[reached]}.")


def _uses_all(comparison: Comparison, i: int, weights: Weights) -> bool:
    """Whether a reading of case i has a role for each number of the student's parameters."""
    own = sum(tensor.numel() for _, tensor in comparison.run.parameters[i].values())
    in_roles = sum(weight.numel() for weight in weights.values() if weight.requires_grad)
    return not comparison.trial.exercise.needs or own == in_roles


def _among(values: np.ndarray, sorted_numbers: np.ndarray) -> bool:
    """Whether each of the finite values is one of the numbers, to seven digits."""
    sought = values[np.isfinite(values)]
    tolerance = 1e-7 * max(1e-3, largest(sought))
    at = np.searchsorted(sorted_numbers, sought - tolerance)
    inside = at < len(sorted_numbers)
    return bool(inside.all() and np.all(sorted_numbers[at] <= sought + tolerance))
