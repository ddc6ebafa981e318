"""What does exactly what the student's code did: known mistakes, a small change of the right answer, unused inputs."""

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from autograder import diagnosis
from autograder.exercise import FINITELY, Evidence, Mistake
from autograder.judging.asking import Parameters
from autograder.judging.comparing import (
    Comparison,
    Parts,
    Reading,
    agrees,
    all_gradient_gaps,
    calls,
    computed,
    gradient_gaps,
    near,
    reference,
    shapes,
)
from autograder.judging.matching import MAX_DIAGNOSED, by_name, likely, unread
from autograder.judging.repeating import Repetition
from autograder.judging.responding import Response, respond
from autograder.judging.wording import as_code

ALONE = 0.25  # of the wrong cases, of which one of two mistakes explains so many
MIN_AGREEING = 4  # cases without which a reading of parameters that is only likely needs an explanation
MAX_CHOICES = 16  # of plain values for parameters without effect
RAISES: Parts = ()  # in place of an answer: an error of the same kind
MISFITS = {"RuntimeError", "IndexError", "ValueError", "AxisError"}  # the last is NumPy's IndexError


@dataclass(frozen=True, eq=False)
class Cause:
    """What gives in every case what the student's code gives.

    Attributes:
        mistakes: known ones, or one that describes what was found by trying.
        answers: for each case, what the mistakes give; `RAISES` where that is an error, None where it was not tried.
        slips: of each slip in the code, the criteria that it breaks by itself; empty where nobody said.
    """

    mistakes: tuple[Mistake, ...]
    answers: tuple[Parts | None, ...]
    slips: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why results are wrong.

    Attributes:
        cause: None where nothing was found, or nothing is to be found.
        response: to changed inputs and parameters, where it was tried.
        uses_all: whether the result depends on every input and parameter that it should depend on.
    """

    cause: Cause | None
    response: Response | None
    uses_all: bool


def recognise_signs(comparison: Comparison, *, beside_results: bool = False) -> tuple[Mistake, ...]:
    """The known mistakes that show in something other than outputs.

    `beside_results`: only those that would show if all results were right, as what an error tells does not.
    """
    run = comparison.run
    evidence = Evidence(
        cases=comparison.cases,
        parameters=tuple(p for name, (p, _) in run.parameters[0].items() if name not in run.adopted),
        loose=run.description.loose,
        right=frozenset(i for i, agreeing in enumerate(comparison.right) if agreeing or beside_results),
        errors=() if beside_results else tuple(outcome.error.message for outcome in run.outcomes if outcome.error),
        changed=tuple(changed for changed in run.changed if changed is not None),
        starts=_starts(comparison),
        mappable=not run.adopted and all(answer is not None for answer in comparison.expected),
    )
    return tuple(m for m in comparison.trial.exercise.mistakes if m.sign and m.sign(evidence))


def _starts(comparison: Comparison) -> dict[str, np.ndarray]:
    """From what the roles of case 0 start: the parameters' numbers are drawn, so each tells where it lies.

    Only roles that are nothing else than numbers of parameters: not the sum of two, nor 1 more than one.
    """
    sent = [(t.detach().numpy(), p.start) for p, t in comparison.run.parameters[0].values() if p.start is not None]
    if not any(start.size for _, start in sent):
        return {}
    numbers, starts = (np.concatenate([np.ravel(array) for array in arrays]) for arrays in zip(*sent, strict=True))
    order = numbers.argsort()
    found = dict[str, np.ndarray]()
    for role, weight in comparison.reading[0].items():
        values = weight.detach().numpy()
        places = order[np.searchsorted(numbers, values, sorter=order).clip(max=len(numbers) - 1)]
        if np.array_equal(numbers[places], values):
            found[role] = starts[places]
    return found


def explain(
    comparison: Comparison, repetition: Repetition, signs: tuple[Mistake, ...], gaps: Mapping[int, list[str]]
) -> Explanation:
    """Look for what explains wrong results, or gradients that differ (`gaps`).

    Outputs say nothing where the weights could not be set: then a sign is the explanation.
    """
    all_right = all(comparison.right)
    explained = signs and any(answer is None for answer in comparison.expected)
    if comparison.trial.exercise.reference is None or explained or (all_right and not any(gaps.values())):
        return Explanation(None, None, all_right)
    unchanged = right_but_for_sizes(comparison)
    cause = known_mistakes(comparison, unchanged) or (None if unchanged else _small_change(comparison, repetition))
    if cause and all(cause.slips):
        return Explanation(cause, None, all_right)
    # Of two slips no case may have the right shape, though cases of each have it: what they leave unused still counts.
    response = respond(comparison, any_shape=cause is not None and len(cause.slips) > 1)
    idle = response.idle if response else []
    if cause is None and (cause := _without_effect(comparison, idle)):
        idle = []
    return Explanation(cause, response, not idle and (response is not None or cause is not None))


def confirmed(comparison: Comparison) -> Comparison:
    """The same under the reading of the parameters that comes nearest, where they cannot be told apart.

    Only where no known mistake explains what is returned, and where some results are right under that reading, or all
    of them are explained; else the comparison as it is.
    """
    if not unread(comparison) or known_mistakes(comparison, right_but_for_sizes(comparison)):
        return comparison
    other = likely(comparison)
    if other is None:
        return comparison
    enough = sum(other.right) >= MIN_AGREEING or known_mistakes(other, None) or _small_change(other, Repetition({}))
    return other if enough else comparison


# --- Known mistakes ----------------------------------------------------------------------------------------------


def known_mistakes(comparison: Comparison, unchanged: tuple[Parts | None, ...] | None) -> Cause | None:
    """The known mistakes, alone or two together, that do exactly what the student's code did.

    unchanged: what `right_but_for_sizes` gives; a mistake that changes nothing of it is not the reason.
    """
    if all(comparison.right) and any(outcome.backward_error for outcome in comparison.run.outcomes):
        return None  # what is wrong with the gradient is what was raised
    known = [mistake for mistake in comparison.trial.exercise.mistakes if mistake.computed]
    alone = [(mistake,) for mistake in known]
    pairs = [(a, b) for a, b in itertools.combinations(known, 2) if not a.excludes(b)]
    outputs_only: Cause | None = None
    for weights in comparison.readings:
        # Other readings than the likeliest are tried for one mistake at a time: two can look like a misread one.
        together = pairs if weights is comparison.reading else []
        if together and all(comparison.right):  # what shows in no result can only go with what shows in none either
            first = next((i for i, case in enumerate(comparison.cases) if case.dtype == "float64"), 0)
            silent = [
                mistake.key
                for mistake in known
                if any(_gives(comparison, first, frozenset({key}), weights) for key in mistake.ways)
            ]
            together = [(a, b) for a, b in pairs if a.key in silent and b.key in silent]
        finite = alone if weights is comparison.reading and comparison.trial.exercise.hides else []
        for group, switches in itertools.chain(_ways(alone), _ways(finite, FINITELY), _ways(together)):
            answers = _reproduced(comparison, switches, weights)
            if answers is None or (unchanged and _equal(answers, unchanged)):
                continue
            shown = group if len(group) < 2 or _apart(comparison, group, weights) else _as_one(group)
            cause = Cause(shown, answers, tuple(mistake.costs for mistake in group))
            if not any(all_gradient_gaps(comparison.run, answers).values()):
                return cause
            outputs_only = outputs_only or cause  # another group may agree in the gradients too
    if outputs_only is None and unchanged and any(unchanged) and (mistake := _other_size(comparison)):
        return Cause((mistake,), unchanged, ((),))
    return outputs_only


def _apart(comparison: Comparison, group: tuple[Mistake, ...], weights: Reading) -> bool:
    """Whether one of two mistakes explains many wrong cases by itself: else what is said of each need not hold."""
    wrong = [i for i, case in enumerate(comparison.cases) if not comparison.right[i] and case.dtype == "float64"]
    keys = [key for mistake in group for key in mistake.ways]
    alone = sum(any(_gives(comparison, i, frozenset({key}), weights) for key in keys) for i in wrong)
    return alone >= ALONE * len(wrong)


def _as_one(group: tuple[Mistake, ...]) -> tuple[Mistake, ...]:
    """Mistakes that explain nothing but together, with a sentence that says so in place of what each does."""
    sentence = (
        "Correct code with both mistakes gives exactly what yours gives, and with one of them it hardly ever does."
    )
    return tuple(replace(mistake, sentence=sentence) for mistake in group)


def _ways(groups: Iterable[tuple[Mistake, ...]], *besides: str) -> Iterator[tuple[tuple[Mistake, ...], frozenset[str]]]:
    """The ways in which mistakes are made together, as switches, with what is switched on besides."""
    for group in groups:
        for keys in itertools.product(*(mistake.ways for mistake in group)):
            yield group, frozenset({*keys, *besides})


def right_but_for_sizes(comparison: Comparison) -> tuple[Parts | None, ...] | None:
    """What the right steps give with parameters of the student's sizes, where some results are wrong and that is why.

    Where the right steps raise as the student's code does, that counts too: what comes after is never reached. What
    changes neither result nor gradient is not the reason then.
    """
    if all(comparison.right):
        return None
    answers = _reproduced(comparison, frozenset(), comparison.reading)
    return None if answers is None or any(all_gradient_gaps(comparison.run, answers).values()) else answers


def _equal(first: tuple[Parts | None, ...], other: tuple[Parts | None, ...]) -> bool:
    """Whether answers are the same in every case."""

    def near_enough(a: Tensor, b: Tensor) -> bool:
        return torch.allclose(a.double(), b.double(), equal_nan=True)

    pairs = zip(first, other, strict=True)
    return all(a is b or (a and b and shapes(a) == shapes(b) and all(map(near_enough, a, b))) for a, b in pairs)


def _other_size(comparison: Comparison) -> Mistake | None:
    """The mistake of a layer that has another size than the task says; None if all have the right one."""
    run, roles_of = comparison.run, comparison.trial.exercise.roles
    if roles_of is None:
        return None
    for i in [i for i, right in enumerate(comparison.right) if not right]:
        roles = roles_of(comparison.cases[i].build)
        placed = {name: weight for name, weight in comparison.reading[i].items() if name in roles}
        if odd := [weight for name, weight in placed.items() if tuple(weight.shape) != tuple(roles[name].shape)]:
            first = [weight.flatten()[0] for weight in odd if weight.numel()]  # its number tells where a role lies
            names = [name for name, (_, t) in run.parameters[i].items() if any(bool((t == n).any()) for n in first)]
            what, has = as_code(names) if names else "a layer", "has another size"
            if len(names) > 1:
                has = "have other sizes"
            sentence = "Apart from that, what your code returns is what it should be."
            look = "Follow the constructor's arguments to the layers: which of them does each size come from?"
            return Mistake(diagnosis.KEY, f"{what} {has} than the task says", sentence, look)
    return None


def _gives(comparison: Comparison, i: int, switches: frozenset[str], weights: Reading) -> bool | None:
    """Whether mistakes switched on give what the student's code gives in case i; None: they raise."""
    run, altered = comparison.run, comparison.trial.exercise.altered
    with torch.no_grad(), contextlib.suppress(Exception):  # the student's parameters may be of any shape
        return agrees(run, i, computed(comparison.trial, i, weights[i], altered, switches))
    return None


def _reproduced(comparison: Comparison, switches: frozenset[str], weights: Reading) -> tuple[Parts | None, ...] | None:
    """What mistakes switched on give in every case, if that is what the student's code did; else None.

    Outputs, shapes and errors must be the same; where all outputs are right, the gradients must be the same.
    """
    run, trial = comparison.run, comparison.trial
    if not trial.exercise.alters:
        return None
    answers: list[Parts | None] = [None] * len(trial.cases)
    reproduced = False
    chosen = [i for i, case in enumerate(trial.cases) if case.dtype == "float64"]
    # What was returned says more than what was raised, so those cases come first; of these, what is wrong and small.
    chosen.sort(key=lambda i: (run.outcomes[i].error is not None, comparison.right[i], len(weights[i])))
    # One forward pass rules most mistakes out.
    if chosen and run.outcomes[chosen[0]].error is None and _gives(comparison, chosen[0], switches, weights) is False:
        return None
    for i in chosen:
        error = run.outcomes[i].error
        try:
            answer = computed(trial, i, weights[i], trial.exercise.altered, switches)
        except Exception as raised:  # the student's parameters may be of any shape: most mistakes do not fit them
            # Where other cases came out the same, raising too is agreement; alone, it takes the same sizes.
            if error is None or not _same_kind(error.type, type(raised).__name__):
                return None
            if not (reproduced or _sizes(error.message) == _sizes(str(raised)) != []):
                return None
            answers[i] = RAISES
            continue
        misfit = error is not None and error.type == "RuntimeError"  # torch's own
        if misfit and reproduced and shapes(answer) != trial.shapes(i):
            answers[i] = RAISES
            continue  # a result that does not fit: what else is done with it may well raise
        if not agrees(run, i, answer) or (all(comparison.right) and gradient_gaps(run, i, answer)):
            return None
        answers[i] = answer
        reproduced = True
    given = [run.outcomes[i].output or () for i, answer in enumerate(answers) if answer]
    if given and not any(np.isfinite(part).any() for parts in given for part in parts):
        return None  # whatever ends in NaN everywhere agrees with whatever else does
    return tuple(answers)


def _same_kind(first: str, second: str) -> bool:
    """Whether two types of exception say the same: what doesn't fit together raises one of these."""
    return first == second or {first, second} <= MISFITS


def _sizes(message: str) -> list[str]:
    """The numbers in an error message: of two errors about shapes that do not fit, what they have in common."""
    return re.findall(r"\d+", message.split("\n")[0])


# --- Changes that nobody listed ----------------------------------------------------------------------------------


def _small_change(comparison: Comparison, repetition: Repetition) -> Cause | None:
    """The small change of the exercise's steps that does what the code did."""
    run, trial, steps = comparison.run, comparison.trial, comparison.trial.exercise.steps
    chosen = [i for i, case in enumerate(trial.cases) if case.dtype == "float64" and case.drift == 1]
    if steps is None or any(outcome.backward_error for outcome in run.outcomes) or comparison.missing:
        return None
    given = {i: calls(trial.cases[i], trial.inputs[i]) for i in chosen}
    if not all(len(given[i]) == 1 or run.fits(i) for i in chosen):
        return None  # which call went wrong cannot be told
    gaps = all_gradient_gaps(run, comparison.expected)
    if any(gaps.get(i) for i in chosen if len(given[i]) > 1):
        return None  # nor which call's gradient did
    if all(comparison.right[i] for i in chosen) and not any(gaps.get(i) for i in chosen):
        return None  # what is wrong shows in other cases only

    def observed(i: int, call: int) -> diagnosis.Observed:
        output, lengths = run.outcomes[i].output, trial.cases[i].steps or ()
        if output is not None and len(lengths) > 1:
            output = tuple(np.split(part, np.cumsum(lengths)[:-1], axis=1)[call] for part in output)
        return diagnosis.Observed(
            diagnosis.bound(steps, trial.cases[i].build, given[i][call], comparison.reading[i]),
            output,
            lambda n, part: near(trial, i, (output or ())[n], part.detach().numpy()),
            lambda answer: len(lengths) > 1 or not gradient_gaps(run, i, answer),
        )

    tried = [(i, call) for i in chosen for call in _telling_calls(len(given[i]))]
    change = diagnosis.explain(diagnosis.read(steps), [observed(i, call) for i, call in tried])
    if change is None:
        return None
    answers: list[Parts | None] = [None] * len(trial.cases)
    for (i, _), answer in zip(tried, change.answers, strict=True):
        answers[i] = answer if len(given[i]) == 1 else None
    how = "this change" if len(change.edits) == 1 else "these two changes"
    when = "every time that it is called first" if repetition.unsteady else "in every case"
    sentence = f"With {how}, correct code gives exactly what yours gives {when}."
    look = f"Compare how your code computes {change.where} with what the task says."
    mistake = Mistake(diagnosis.KEY, change.name, sentence, look)
    return Cause((mistake,), tuple(answers), ((),) * len(change.edits))


def _telling_calls(count: int) -> list[int]:
    """The first two calls of so many, and the last two."""
    return sorted({*range(count)[:2], *range(count)[-2:]})


def _without_effect(comparison: Comparison, idle: list[str]) -> Cause | None:
    """The mistake of not using some parameters, where all else is right."""
    run = comparison.run
    if not idle or not run.parameters[0].keys() >= set(idle):
        return None
    chosen = [i for i, case in enumerate(comparison.cases) if case.dtype == "float64" and run.outcomes[i].output]
    for choice in itertools.islice(itertools.product((0, 1), repeat=len(idle)), MAX_CHOICES):
        values = dict(zip(idle, choice, strict=True))
        plain = replace(comparison, run=replace(run, parameters=tuple(_plain(own, values) for own in run.parameters)))
        answers = {i: _first_agreeing(plain, i) for i in chosen}
        if all(answers.values()):
            has, holds = ("has", "it holds") if len(idle) == 1 else ("have", "they hold")
            sentence = f"The result is the same whatever numbers {holds}; everything else is right."
            look = "Follow each parameter from `__init__` to the line that should use it."
            mistake = Mistake(diagnosis.KEY, f"{as_code(idle)} {has} no effect", sentence, look)
            return Cause((mistake,), tuple(answers.get(i) for i in range(len(comparison.cases))), ((),))
    return None


def _plain(parameters: Parameters, values: Mapping[str, int]) -> Parameters:
    """Parameters of which some have plain values: 0 or 1, of square matrices the identity (0) or 0 (1)."""

    def of(tensor: Tensor, choice: int) -> Tensor:
        if tensor.dim() == 2 and tensor.shape[0] == tensor.shape[1]:
            return torch.zeros_like(tensor) if choice else torch.eye(len(tensor))
        return torch.ones_like(tensor) if choice else torch.zeros_like(tensor)

    return {
        name: (described, of(tensor, values[name]) if name in values else tensor)
        for name, (described, tensor) in parameters.items()
    }


def _first_agreeing(comparison: Comparison, i: int) -> Parts | None:
    """The right answer to case i under the first of the likeliest readings with which the student's agrees."""
    readings = itertools.islice(by_name(comparison.run, i), MAX_DIAGNOSED)
    answers = (reference(comparison.trial, i, weights) for weights in readings)
    return next((answer for answer in answers if agrees(comparison.run, i, answer)), None)
