"""What can be seen of wrong results that nothing explains: by inputs, relations and sizes, and on the way to them."""

import functools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import options, reading, relations, written
from autograder.exercise import Case, Weights
from autograder.judging.asking import leaf
from autograder.judging.comparing import (
    Comparison,
    as_arrays,
    as_parts,
    differing,
    largest,
    near,
    reference,
    shapes,
)
from autograder.judging.depending import by_gradients
from autograder.judging.matching import role_names, too_few, unread, unusual_sum
from autograder.judging.narrowing import Narrowed, as_far_off, comparable, narrow, options_of, places
from autograder.judging.repeating import Repetition
from autograder.judging.replies import Arrays
from autograder.judging.wording import capitalised

MAX_CASES, MAX_KINDS = 2, 4  # cases of each kind in which is asked how the result depends on its inputs; kinds
MAX_NUMBERS, MAX_LARGEST = 5_000, 99  # in the inputs of such a case: how many, and the largest of them
MAX_LISTED = 4  # wrong cases beside what they have in common
MANY_TO_ONE = 5  # parts that are nearly right, for each case that is not
BY_LUCK = 0.2  # how likely it may be that cases that go wrong for another reason have, or lack, the same input
KINDS = {"f": "floating-point", "b": "True and False"}  # of numbers; which dtype is a matter of the default


def observe(comparison: Comparison, repetition: Repetition) -> list[str]:
    """Say what can be seen of wrong results, the most telling first, as sentences without their ends."""
    varies = bool(repetition.unsteady or repetition.conditions)
    by_chance = _by_chance(comparison) if varies else []  # a DataLoader draws a number that changes nothing
    sentences = by_chance + [s for view in (_by_parameters, _by_shape, _almost) for s in view(comparison)]
    with_and_without = _with_and_without(comparison)
    narrowed = Narrowed() if by_chance or varies else narrow(comparison, closely=bool(with_and_without))
    sentences += [narrowed.sentence] if narrowed.sentence else with_and_without
    sentences += _by_call(comparison)
    if not by_chance:  # which breaks the relations and differs from call to call, as what is kept does
        sentences += _broken_relations(comparison) if not repetition.unsteady else []
        differing = (*repetition.unsteady.values(), *repetition.conditions)
        sentences += [capitalised(sentence) for sentence in differing][:1]
    labels = [case.label for case, right in zip(comparison.cases, comparison.right, strict=True) if not right]
    counted = [label + f" ({n} of these)" * (n > 1) for label, n in Counter(labels).items()]
    only_these = f"Only these cases are wrong: {'; '.join(counted)}"
    few = MAX_LISTED if narrowed.sentence else len(labels)
    if len(labels) < len(comparison.cases) / 4 and len(labels) <= few and not narrowed.closely:
        sentences.append(only_these)
    wrong_shape = any(
        outcome.output is not None and not comparison.run.fits(i) for i, outcome in enumerate(comparison.run.outcomes)
    )
    steady = functools.partial(as_far_off, comparison)
    parts = comparison.trial.exercise.parts
    for name, seen in _written(comparison).items():
        sentences += written.first_wrong(name, seen)
    sentences += relations.looks(_beside_expected(comparison), parts, wrong_shape, steady)
    sentences += by_gradients(comparison)
    if not sentences and len(labels) <= len(comparison.cases) / 2:
        sentences.append(only_these)
    if not sentences and comparison.run.parameters[0]:
        sentences += _by_their_sum(comparison)
    return list(dict.fromkeys(sentences))


def _beside_expected(comparison: Comparison) -> list[tuple[Arrays, Arrays, list[np.ndarray]]]:
    """Of every case in float64 with a result in the right shape: it, the right one, and where they differ."""
    run, compared = comparison.run, []
    for i in comparable(comparison):
        outputs, expected = run.outcomes[i].output or (), as_arrays(comparison.expected[i] or ())
        compared.append((outputs, expected, places(comparison, i)))
    return compared


def _written(comparison: Comparison) -> dict[str, list[written.Written]]:
    """Of each part that holds token ids in rows: what it is, in every case with as many rows as there should be."""
    run, cases, found = comparison.run, comparison.cases, dict[str, list[written.Written]]()
    compared = list[tuple[int, Arrays, Arrays]]()
    for i, answer in enumerate(() if unread(comparison) else comparison.expected):
        outputs, expected = run.outcomes[i].output or (), as_arrays(answer or ())
        if outputs and expected and [got.shape[:-1] for got in outputs] == [part.shape[:-1] for part in expected]:
            compared.append((i, outputs, expected))
    for n, name in enumerate(comparison.trial.exercise.parts or ("the result",)):
        if not all(
            got[n].dtype.kind == right[n].dtype.kind == "i" and right[n].ndim == 2 for _, got, right in compared
        ):
            continue
        texts = [_text(cases[i], right[n]) for i, _, right in compared]
        pairs = [(text, right[n]) for text, (_, _, right) in zip(texts, compared, strict=True)]
        begins = all(np.array_equal(text, rows[:, : text.shape[1]]) for text, rows in pairs)
        follows = not begins and any(text.shape != rows.shape for text, rows in pairs)
        for text, (i, got, right) in zip(texts, compared, strict=True):
            given = zip(run.outcomes[i].arguments, cases[i].inputs, strict=False)
            marks = {mark: value for mark, value in given if type(value) is int}
            begun, before = text.shape[1] if begins else 0, text if follows else text[:, :0]
            found.setdefault(name, []).append(written.Written(got[n], right[n], begun, marks, before))
    return found


def _text(case: Case, rows: np.ndarray) -> np.ndarray:
    """The input that is a text for each row of a result, which may begin with it or follow on it; else nothing."""
    texts = [value for value in case.inputs if isinstance(value, np.ndarray) and value.dtype.kind == "i"]
    return next((ids for ids in texts if ids.ndim == 2 and len(ids) == len(rows)), rows[:, :0])


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
    return _by_their_sum(comparison)


def _by_their_sum(comparison: Comparison) -> list[str]:
    """That the parameters hold as many numbers as no roles together have."""
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
        if len(seen) > 1 or (seen and list(comparison.right).count(False) == 1):
            got, expected = (array.shape for array in seen[0])
            if not right_shape and (how := relations.reshaped(seen)):
                verb, _, rest = how.partition(" ")
                return [relations.as_sentence(f"{name} {relations.verb(name, verb)} {rest}")]
            return [f"The shape of {name} is {got} where {expected} is right"]
    return []


def _almost(comparison: Comparison) -> list[str]:
    """That wrong results hold the right numbers: all as another kind of number, or nearly, measured by the largest."""
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
    where, most = f"In {'most of ' if n_others else ''}the wrong cases", 10.0 ** -int(-np.log10(max(gaps)))
    return [f"{where}, no number is off by more than {most:g} of the largest"]


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
        if (len(wrong) / (len(wrong) + len(right))) ** n_wrong > BY_LUCK:
            continue
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
        whole = any(part.dtype.kind != "f" for part in before)
        changed, after = inputs, before
        for relation in relations.relations(inputs, {n: run.input_name(n) for n in range(len(inputs))}):
            if relation.of_place and whole:
                continue
            if relation.inputs is not changed:  # several relations may ask about one change
                changed, after = relation.inputs, _right_answer(comparison, i, relation.inputs, weights)
            if after is not None and any(must_hold := relation.holds(before, after)):
                tried.append((i, relation, must_hold))
    if not tried:
        return []
    requests = [run.request(i) | {"inputs": list(relation.inputs)} for i, relation, _ in tried]
    replies = trial.replies({"do": "look", "cases": requests}, len(requests))
    about, broken, kept = dict[str, relations.Relation](), dict[str, list[int]](), set[str]()  # broken in which cases
    where = ", in the cases that are wrong" if any(comparison.right) else ""
    for (i, relation, must_hold), reply in zip(tried, replies, strict=True):
        words = relation.words + where if relation.changes and not relation.of_place else relation.words
        after, before = trial.outcome(reply).output, run.outcomes[i].output
        if after is None or before is None or not len(after) == len(before) == len(must_hold):
            continue
        names = trial.exercise.parts if len(must_hold) > 1 else ("",)
        parts = zip(names, relation.holds(before, after), must_hold, strict=True)
        holds = [(relations.of_part(words, name), held) for name, held, must in parts if must]
        for said in {said for said, held in holds if held is False}:
            about.setdefault(said, relation)
            broken.setdefault(said, []).append(i)
        if relation.changes:  # that nothing changes is said only if it is so everywhere
            kept |= {said for said, held in holds if held is not False}
    often = [words for words, those in broken.items() if len(those) > 1 and words not in kept]
    any_numbers = bool(_by_parameters(comparison))  # those that no role has were drawn as if they had one
    said = sorted((words for words in often if not (about[words].weak and any_numbers)), key=lambda w: about[w].weak)
    full = (w if about[w].of_place else _with_options(comparison, w, broken[w]) for w in said)
    return [words for words in full if words]


def _with_options(comparison: Comparison, words: str, those: Sequence[int]) -> str:
    """What is said of a relation that some cases break, with the option on which it depends; "" where that is unclear.

    The right answer may have the relation only because of an option: with a `top_k` of 1, scaling changes nothing.
    """
    sets, names = options_of(comparison)
    if not names:
        return words
    kinds = {_kind(comparison.cases[i], names) for i in those}
    alike = [i for i in _relatable(comparison) if _kind(comparison.cases[i], names) in kinds]
    must_hold = {i: held for i in alike if (held := _must_hold(comparison, i, words)) is not None}
    if all(must_hold.values()):
        return words
    for n, name in names.items():
        value = sets[those[0]][n]
        with_it = [held for i, held in must_hold.items() if sets[i][n] == value]
        if with_it and all(with_it) and all(sets[i][n] == value for i in those):
            return f"{words} (tried with {name} = {options.shown(value)})"
    return ""


def _must_hold(comparison: Comparison, i: int, words: str) -> bool | None:
    """Whether the right answer to case i has the relation of which these are the words; None if it cannot be asked.

    What says that something changes is as it is: it is said of the wrong cases.
    """
    trial, run = comparison.trial, comparison.run
    inputs, weights = trial.cases[i].inputs, _any_weights(comparison, i)
    before = _right_answer(comparison, i, inputs, weights)
    for relation in relations.relations(inputs, {n: run.input_name(n) for n in range(len(inputs))}):
        names = trial.exercise.parts if before and len(before) > 1 else ("",)
        for n, name in enumerate(names):
            if before is None or relation.changes or relations.of_part(relation.words, name) != words:
                continue
            after = _right_answer(comparison, i, relation.inputs, weights)
            return None if after is None else relation.holds(before, after)[n]
    return None


def _to_relate(comparison: Comparison) -> list[int]:
    """Wrong cases whose inputs are worth changing: of each kind, those of most different sizes."""
    outcomes, cases = comparison.run.outcomes, comparison.cases
    usable = [
        i
        for i in _relatable(comparison)
        if not comparison.right[i] and outcomes[i].output is not None
        if all(np.isfinite(part).all() for part in outcomes[i].output or ())
    ]
    usable.sort(key=lambda i: (min(_sides(cases[i]), default=0) < 2, -len(set(_sides(cases[i])))))
    kinds = dict[tuple[int, ...], list[int]]()
    for i in usable:
        kinds.setdefault(_kind(cases[i]), []).append(i)
    return [i for alike in list(kinds.values())[:MAX_KINDS] for i in alike[:MAX_CASES]]


def _relatable(comparison: Comparison) -> list[int]:
    """The cases whose inputs can be changed."""
    cases = enumerate(comparison.cases)
    return [i for i, case in cases if case.dtype == "float64" and case.steps is None and not _huge(case)]


def _kind(case: Case, besides: Collection[int] = ()) -> tuple[int, ...]:
    """The axes of the first input, and of masks, where there are any, `besides` those at some places."""
    given = [value for n, value in enumerate(case.inputs) if n not in besides]
    masks = (value for value in given if value is None or (isinstance(value, np.ndarray) and value.dtype == bool))
    of_masks = (0 if mask is None else mask.ndim for mask in masks)
    return (np.ndim(given[0]) if given and isinstance(given[0], np.ndarray) else 0, *of_masks)


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
    as_named = [weights for weights in comparison.possible if _as_named(comparison, i, weights[i])]
    for weights in as_named or comparison.possible:
        if not _uses_all(comparison, i, weights[i]) or _made_up(comparison, weights[i]):
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
    beginning = f"Your code computes the numbers of {relations.listed(computed)}; " if computed else ""
    if reached == len(names):
        return f"{beginning}what goes wrong is where they stand, or comes after that."
    parameters = comparison.run.parameters[i]
    if not computed and any(
        tensor.dim() > 1 and not name.endswith("weight") for name, (_, tensor) in parameters.items()
    ):
        return ""  # a bare matrix may be meant either way round
    missing = f"those of {names[reached]} it does not compute, or not all of them" if computed else ""
    return capitalised(f"{beginning}{missing or f'nothing that your code computes equals {names[reached]}'}.")


def _uses_all(comparison: Comparison, i: int, weights: Weights) -> bool:
    """Whether a reading of case i has a role for each number of the student's parameters."""
    own = sum(tensor.numel() for _, tensor in comparison.run.parameters[i].values())
    in_roles = sum(weight.numel() for weight in weights.values() if weight.requires_grad)
    return not comparison.trial.exercise.needs or own == in_roles


def _as_named(comparison: Comparison, i: int, weights: Weights) -> bool:
    """Whether in a reading of case i each parameter that is called as a role is that role."""
    named = ((weights[name], own) for name, (_, own) in comparison.run.parameters[i].items() if name in weights)
    return all(torch.equal(weight, own) for weight, own in named)


def _made_up(comparison: Comparison, weights: Weights) -> bool:
    """Whether a reading gives a role numbers that are not the student's."""
    return any(not weights[name].requires_grad for name in comparison.trial.exercise.needs & weights.keys())


def _among(values: np.ndarray, sorted_numbers: np.ndarray) -> bool:
    """Whether each of the finite values is one of the numbers, to seven digits."""
    sought = values[np.isfinite(values)]
    tolerance = 1e-7 * max(1e-3, largest(sought))
    at = np.searchsorted(sorted_numbers, sought - tolerance)
    inside = at < len(sorted_numbers)
    return bool(inside.all() and np.all(sorted_numbers[at] <= sought + tolerance))
