"""The student's parameters matched with the roles of the task: the reading under which most cases come out right."""

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autograder import reading, relations
from autograder.exercise import Roles, Weights
from autograder.judging.asking import Run, call
from autograder.judging.comparing import Comparison, Parts, Reading, agrees, computed, reference

MAX_READINGS = 150  # ways to read a student's parameters that are tried for a right answer
MAX_FOLLOWED = 30  # of these, how many are followed stage by stage
MAX_DIAGNOSED = 3  # of these, how many are tried for every known mistake
MAX_TAKEN = 6  # choices among the parts of a result that has too many


def compare(run: Run) -> Comparison:
    """Choose the reading of the student's parameters under which most cases come out right.

    By names and shapes first; where none of these fits a telling case, by what each parameter does.
    """
    exercise, count = run.trial.exercise, len(run.trial.cases)
    most, chosen = -1, Comparison(run, (None,) * count, (False,) * count, ([{}] * count,), ())
    if exercise.reference is None:
        return chosen
    options = [list(by_name(run, i)) for i in range(count)]
    readings: list[Reading] = [list(weights) for weights in zip(*options, strict=False)]
    fitting: list[Reading] = []
    if exercise.roles is not None:
        roles = [exercise.roles(case.build) for case in run.trial.cases]
        if (telling := _telling_case(run, roles)) is not None:
            fitting, readings = _fitting(run, telling, roles, readings)
    for weights in fitting or readings:
        expected, right = _under(run, weights, most)
        if sum(right) > most:
            others = [other for other in readings[:MAX_DIAGNOSED] if _differs(other, weights)]
            most = sum(right)
            chosen = Comparison(run, expected, right, (weights, *others), tuple(readings[:MAX_FOLLOWED]))
        if all(right):
            break
    return chosen


def _under(run: Run, weights: Reading, most: int) -> tuple[tuple[Parts | None, ...], tuple[bool, ...]]:
    """The right answers under a reading, and which cases agree; only the first, once no more than `most` can agree."""
    expected, right = list[Parts | None](), list[bool]()
    for i, by_role in enumerate(weights):
        if sum(right) + len(weights) - i <= most:
            break
        expected.append(reference(run.trial, i, by_role))
        right.append(agrees(run, i, expected[-1]))
    return tuple(expected), tuple(right)


def _differs(other: Reading, chosen: Reading) -> bool:
    """Whether two readings differ in more than one case, which a single odd size may leave open."""
    return sum(a is not b for a, b in zip(other, chosen, strict=True)) > 1


def by_name(run: Run, i: int) -> Iterator[Weights]:
    """The ways to read the parameters of case i by their names and shapes, as far as these make sense."""
    mappings, build = run.trial.exercise.mappings, run.trial.cases[i].build
    with contextlib.suppress(Exception):  # a student's parameters may have any shape: most readings do not fit
        yield from itertools.islice(mappings(run.parameters[i], build), MAX_READINGS)


# --- By what parameters do ---------------------------------------------------------------------------------------


def _telling_case(run: Run, roles: Sequence[Roles], *, one_head: bool = False) -> int | None:
    """The case that tells most about parameters: several layers, heads, groups of them and tokens; or but one head.

    It has no mask, no outlier and few numbers, and none of its tensors has the size of a role by chance, as four biases
    of four numbers have that of a map: with other sizes it has not.
    """
    cases = run.trial.cases
    sizes = [{math.prod(role.shape) for role in of_case.values()} for of_case in roles]
    fits = [{name: t.numel() in sizes[i] for name, (_, t) in run.parameters[i].items()} for i in range(len(cases))]
    unlike = {name for of_case in fits for name, fit in of_case.items() if not fit}

    def tells(i: int) -> tuple[Any, ...]:
        several = any(role.layer > 0 for role in roles[i].values())
        heads = all(side[0] > 1 for role in roles[i].values() for side in role.sides if len(side) > 1)
        arrays = [value for value in cases[i].inputs if isinstance(value, np.ndarray)]
        masked = any(value.dtype == bool for value in arrays)
        size = sum(tensor.numel() for _, tensor in run.parameters[i].values())
        chance = any(fit and name in unlike for name, fit in fits[i].items())
        tokens = all(min(value.shape[1:], default=1) > 1 for value in arrays)
        return cases[i].drift == 1, cases[i].single, several, heads != one_head, not masked, tokens, not chance, -size

    usable = [i for i, case in enumerate(cases) if case.dtype == "float64" and run.parameters[i]]
    return max(usable, key=tells, default=None)


def _fitting(
    run: Run, telling: int, roles: Sequence[Roles], readings: list[Reading]
) -> tuple[list[Reading], list[Reading]]:
    """The readings under which a telling case comes out right, and all readings.

    Where there is none by names and shapes, one by what parameters do is added to both.
    """

    def right_answer(weights: Reading) -> Parts | None:
        return reference(run.trial, telling, weights[telling])

    fitting = [weights for weights in readings if agrees(run, telling, right_answer(weights))]
    if fitting:
        return fitting, readings
    complete = readings and right_answer(readings[0]) is not None
    unsaid = bool(reading.unsaid(run.parameters[telling], roles[telling]))
    unsaid = unsaid or bool(readings and _untold(run, telling, readings[0][telling], roles[telling]))
    named = bool(readings) and not unsaid and _all_placed(run, telling, readings[0][telling])
    if named and not complete and _as_wide(readings[0][telling], roles[telling]):
        return [], readings  # the roles that are missing are nowhere
    weights = _by_effect(run, telling, roles, not complete or unsaid, named)
    if weights is None:
        return [], readings
    if right_answer(weights) is not None:
        return [weights], [weights, *readings]
    return [], [*readings[:1], weights, *readings[1:]]  # some roles are not there at all


def _all_placed(run: Run, i: int, weights: Weights) -> bool:
    """Whether every number among the parameters of case i has a role."""
    return _n_without_role(run, i, weights) <= 0


def _n_without_role(run: Run, i: int, weights: Weights) -> int:
    """How many of the numbers among the parameters of case i have no role in a reading."""
    held = sum(tensor.numel() for _, tensor in run.parameters[i].values())
    return held - sum(tensor.numel() for tensor in weights.values() if tensor.requires_grad)


def _untold(run: Run, i: int, weights: Weights, roles: Roles) -> set[str]:
    """The roles of case i that get made-up numbers, or none, while as many of the student's are left over."""
    left = _n_without_role(run, i, weights)
    without = {name for name in roles if name not in weights or not weights[name].requires_grad}
    return {name for name in without if weights and math.prod(roles[name].shape) <= left}


def _as_wide(weights: Weights, roles: Roles) -> bool:
    """Whether every tensor has the shape of its role."""
    return all(name in roles and tuple(tensor.shape) == tuple(roles[name].shape) for name, tensor in weights.items())


def likely(comparison: Comparison) -> Comparison | None:
    """The same under the reading under which a telling case comes nearest; None where there is none.

    Whether it is the right one, only results that agree can tell, or an explanation of all.
    """
    run, exercise = comparison.run, comparison.trial.exercise
    if exercise.roles is None:
        return None
    roles = [exercise.roles(case.build) for case in run.trial.cases]
    # Of a single head, nothing mixes up the place; where there are no heads, that is the same case.
    for telling in dict.fromkeys(_telling_case(run, roles, one_head=one_head) for one_head in (False, True)):
        if telling is not None and (weights := _by_effect(run, telling, roles, False, False, reading.LIKE)):
            expected, right = _under(run, weights, -1)
            return replace(comparison, expected=expected, right=right, readings=(weights,), possible=(weights,))
    return None


def _by_effect(
    run: Run, i: int, roles: Sequence[Roles], guessed: bool, named: bool, near: float = reading.EXACT
) -> Reading | None:
    """The reading, of all cases, that what the parameters of case i do leaves; None if there is none.

    guessed: names and shapes leave it open, so that what known mistakes would do is tried as well; named: every number
    has a role by its name; near: as `reading.by_effect` has it.
    """
    trial, exercise = run.trial, run.trial.exercise
    assert exercise.reference is not None
    (shape,) = trial.shapes(i)

    def measured(numbers: Mapping[str, np.ndarray]) -> tuple[np.ndarray, reading.Gradients] | None:
        other = {"weights": dict(numbers), "cotangents": [reading.cotangent(shape).numpy()], "watch": False}
        (reply,) = trial.replies({"do": "run", "cases": [run.request(i) | other]}, 1)
        outcome = trial.outcome(reply)
        if outcome.output is None or outcome.weight_gradients is None:
            return None
        return outcome.output[0], outcome.weight_gradients

    def answers_of(function: Callable[..., Any], *switches: frozenset[str]) -> reading.Answers:
        return lambda weights: computed(trial, i, weights, function, *switches)[0]

    answers = [answers_of(exercise.reference)]
    if guessed and exercise.alters:
        known = (mistake for mistake in exercise.mistakes if mistake.computed)
        answers += [answers_of(exercise.altered, frozenset({key})) for mistake in known for key in mistake.ways]
    recipe = reading.by_effect(run.parameters[i], roles[i], measured, answers, named=named, near=near)
    if recipe is None:
        return None
    weights = [_read(recipe, run, j, roles[j]) for j in range(len(trial.cases))]
    return weights if weights[i] else None


def _read(recipe: reading.Recipe, run: Run, i: int, roles: Roles) -> Weights:
    """The weights of case i by a recipe; none where it does not fit."""
    try:
        return recipe.read(run.parameters[i], roles)
    except Exception:  # these parameters may have any shape
        return {}


# --- What else may have been meant -------------------------------------------------------------------------------


def take_parts(run: Run) -> Run:
    """Where every result is a list or tuple of too many parts, judge those among them that fit best."""
    trial = run.trial
    n_wanted = len(trial.exercise.parts) or 1
    returned = [outcome for outcome in run.outcomes if outcome.error is None]
    if not returned or any(outcome.output is not None and len(outcome.output) == n_wanted for outcome in returned):
        return run
    most, best = 0, run
    choices = itertools.combinations(range(min(outcome.n_parts for outcome in returned)), n_wanted)
    for taken in itertools.islice(choices, MAX_TAKEN):
        other = call(trial, run.description, run.parameters, taken)
        if any(outcome.output is not None for outcome in other.outcomes):
            n_fitting = sum(other.fits(i) for i in range(len(trial.cases)))
            agreeing = 1 + n_fitting + len(trial.cases) * sum(compare(other).right)
            if agreeing > most:
                most, best = agreeing, replace(other, too_many=returned[0].type)
    return best


def adopt(comparison: Comparison) -> Comparison:
    """Where nothing is right without the tensors that are not registered, judge them as if they were."""
    run, needs = comparison.run, comparison.trial.exercise.needs
    unregistered = run.description.unregistered
    if not any(unregistered) or any(comparison.right) or not needs:
        return comparison
    parameters = tuple(own | hidden for own, hidden in zip(run.parameters, unregistered, strict=True))
    again = call(run.trial, run.description, parameters, run.taken, adopted=frozenset(unregistered[0]))
    other = compare(replace(again, too_many=run.too_many))
    if any(other.right) or (comparison.missing and not other.missing):
        return other
    return comparison


# --- What cannot be told -----------------------------------------------------------------------------------------


def unread(comparison: Comparison) -> str:
    """That the parameters cannot be told apart, if they cannot, as a part of a sentence; else nothing."""
    exercise, run = comparison.trial.exercise, comparison.run
    missing = comparison.missing
    if exercise.roles is None or (any(comparison.right) and not missing):
        return ""
    parameters, roles = run.parameters[0], exercise.roles(comparison.cases[0].build)
    if missing and not too_few(comparison):
        return f"I cannot tell which of your parameters are {role_names(run, missing)}"
    if untold := _untold(run, 0, comparison.reading[0], roles):
        return f"I cannot tell which of your parameters are {role_names(run, untold)}"
    unsaid = set() if missing else reading.unsaid(parameters, roles)
    return f"I cannot tell by their names which of your parameters are {role_names(run, unsaid)}" if unsaid else ""


def too_few(comparison: Comparison) -> tuple[int, int] | None:
    """How many numbers the parameters of the first case hold, and how many they must, where these are more."""
    exercise, parameters = comparison.trial.exercise, comparison.run.parameters[0]
    roles = exercise.roles(comparison.cases[0].build) if exercise.roles else {}
    has = sum(tensor.numel() for _, tensor in parameters.values())
    wanted = sum(math.prod(roles[name].shape) for name in exercise.needs)
    return (has, wanted) if has < wanted else None


def unusual_sum(comparison: Comparison) -> tuple[int, int, str] | None:
    """How many numbers the parameters of a case hold, where no roles together have as many, and how many all have; and
    the case's label. Then a role is missing that a right answer has, or there is something else."""
    exercise, run = comparison.trial.exercise, comparison.run
    if exercise.roles is None or run.adopted:
        return None
    for case, parameters in zip(comparison.cases, run.parameters, strict=True):
        roles, held = exercise.roles(case.build), sum(tensor.numel() for _, tensor in parameters.values())
        sizes = {name: math.prod(role.shape) for name, role in roles.items()}
        possible = 1 << sum(size for name, size in sizes.items() if name in exercise.needs)  # a bit for each sum
        for name, size in sizes.items():
            if name not in exercise.needs:
                possible |= possible << size
        if not possible >> held & 1:
            return held, sum(sizes.values()), case.label
    return None


def role_names(run: Run, names: Collection[str]) -> str:
    """Roles as the task calls them: "w_q, w_k and w_v"."""
    exercise = run.trial.exercise
    roles = exercise.roles(run.trial.cases[0].build) if exercise.roles else {}
    kinds = [role.kind for name, role in roles.items() if name in names] or sorted(names)
    shown = [re.sub(r"^(encoder\.|blocks\.|attention\.)*|(\.weight|\.table)$", "", kind) for kind in kinds]
    return relations.listed(list(dict.fromkeys(shown)))
