"""At which values of its options a student's code goes wrong: said only once other values have been tried."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograder import options, probe
from autograder.exercise import Case, Exercise, without_numbers
from autograder.judging.asking import Description, Trial, call, describe
from autograder.judging.comparing import Comparison, as_arrays, off
from autograder.judging.matching import compare, unread
from autograder.options import Condition, Options

MAX_ROUNDS = 3  # in which it may go wrong where it should: it may be right by luck, as where all is kept
MAX_WRONG, MAX_OTHERS = 3, 5  # cases in which an option gets another value
NEVER_WRONG = 0.25  # of the values that an option was given: at so many it may go right, for another reason
BY_LUCK = 0.01  # how likely it may be that all wrong cases have something in common
MAX_CONDITIONS = 12  # to try


@dataclass(frozen=True)
class Narrowed:
    """Where the code goes wrong.

    Attributes:
        sentence: without its end; "" where nothing can be said.
        closely: whether it goes wrong in all cases, or nearly all, of which that is said.
    """

    sentence: str = ""
    closely: bool = False


@dataclass(frozen=True)
class Tried:
    """What came of a further case.

    Attributes:
        options: of its call.
        right: whether the result was.
        place: of the option that got another value; None where none did.
    """

    options: Options
    right: bool
    place: int | None = None


def drawn_anew(trial: Trial) -> list[Case | None]:
    """The cases, with other numbers; None for what is visible, and so is always the same, or too large to repeat."""
    cases = trial.exercise.tried(trial.rng)
    return [None if case.visible or case.once else case for case in cases]


def as_far_off(comparison: Comparison, least: float) -> bool:
    """Whether as much is off when numbers are drawn anew; not where that is not tried.

    More than a share of at least so much in each part that is wrong; where that is 0, at the same places.
    """
    wrong = [i for i in comparable(comparison) if not comparison.right[i]]
    if all(case.build is None and {*map(type, case.inputs)} <= {*options.PLAIN} for case in comparison.cases):
        return True  # nothing is drawn
    fresh = drawn_anew(comparison.trial)
    again = ((i, case) for i, case in enumerate(fresh) if case and i in wrong)
    pairs = [(i, case) for i, case in again if _outline(case) == _outline(comparison.cases[i])]
    others = compared(comparison.trial, [case for _, case in pairs]) if pairs else None
    if others is None or len(comparable(others)) < len(pairs):
        return False
    beside = [
        pair for n, (i, _) in enumerate(pairs) for pair in zip(places(comparison, i), places(others, n), strict=True)
    ]
    if least:
        return all(new.mean() > least for old, new in beside if old.any())
    return all(np.array_equal(old, new) for old, new in beside)


def places(comparison: Comparison, i: int) -> list[np.ndarray]:
    """Where each part of the result of case i is off."""
    outputs, expected = comparison.run.outcomes[i].output or (), as_arrays(comparison.expected[i] or ())
    return [off(comparison.trial, i, got, part) for got, part in zip(outputs, expected, strict=True)]


def comparable(comparison: Comparison) -> list[int]:
    """The cases in float64 with a result in the right shape; none where what is right can only be guessed."""
    run, cases = comparison.run, comparison.cases
    if unread(comparison):
        return []
    with_result = [i for i, answer in enumerate(comparison.expected) if answer and run.outcomes[i].output]
    return [i for i in with_result if run.fits(i) and cases[i].dtype == "float64"]


def _outline(case: Case) -> Any:
    return without_numbers((case.build, case.inputs))


def compared(trial: Trial, cases: Sequence[Case]) -> Comparison | None:
    """What the code does in further cases, beside the right answers; None where no object can be built for them."""
    other = Trial.of(trial.exercise, trial.ask, cases, trial.rng)
    description = describe(other)
    return compare(call(other, description, description.parameters)) if isinstance(description, Description) else None


def defaults(exercise: Exercise) -> dict[int, Any]:
    """The values of the arguments that a call may leave out, by place, as far as the right answer's steps tell."""
    steps = exercise.steps or exercise.varied
    parameters = inspect.signature(steps).parameters.values() if steps else ()
    own = [p for p in parameters if p.kind is p.POSITIONAL_ONLY]
    return {n: p.default for n, p in enumerate(own) if p.default is not p.empty}


def options_of(comparison: Comparison) -> tuple[list[Options], dict[int, str]]:
    """The options of each case, and what they are called; nothing where they have no names."""
    sets = options.read([case.inputs for case in comparison.cases], defaults(comparison.trial.exercise))
    names = {n: comparison.run.input_name(n) for n in sets[0]}
    return (sets, names) if all(name.startswith("`") for name in names.values()) else ([{} for _ in sets], {})


def too_slow(comparison: Comparison) -> bool:
    """Whether the code was stopped."""
    return any(error.type == probe.TOO_SLOW for error in comparison.run.errors)


def narrow(comparison: Comparison, *, closely: bool) -> Narrowed:
    """The condition on options that holds of all wrong cases; of hardly any others if `closely`.

    The simplest, where further cases show that nothing else goes wrong. Nothing is said where two that are alike simple
    come out the same in all of them.
    """
    wrong = [not right for right in comparison.right]
    if too_slow(comparison) or sum(wrong) < 2 or all(wrong) or not all(comparison.expected):
        return Narrowed()
    sets, names = options_of(comparison)
    kinds = list(options.simple(sets, names, defaults(comparison.trial.exercise))) if names else []
    for conditions in options.fitting(kinds, sets, wrong):
        confirmed = _Further(comparison, sets, conditions[:MAX_CONDITIONS]).confirmed()
        if confirmed and any(set(other.places) != set(confirmed[0].places) for other in confirmed):
            return Narrowed()
        if confirmed:
            return _said(confirmed[0], sets, sum(wrong))
    around = [] if closely else options.around(kinds, sets, wrong)
    needed = _Further(comparison, sets, around[:MAX_CONDITIONS]).needed()
    each = {condition.places: condition for condition in reversed(needed)}  # of each option, what holds of fewest
    if not 1 <= len(each) <= 2:
        return Narrowed()
    first, *others = (each[place] for place in sorted(each))
    return _said(first.joined(others[0]) if others else first, sets, sum(wrong))


def _said(where: Condition, sets: Sequence[Options], n_wrong: int) -> Narrowed:
    count = sum(where.holds(own) for own in sets)
    how_often = f", in {n_wrong} of {count} cases" if n_wrong < count else ""
    sentence = f"Of all values that were tried, it goes wrong only where {where.words}{how_often}"
    return Narrowed(sentence, closely=n_wrong >= options.MOST * count)


class _Further:
    """Further cases: drawn anew, and with single options changed, in what was wrong and in others."""

    def __init__(self, comparison: Comparison, sets: Sequence[Options], conditions: Sequence[Condition]):
        self.comparison, self.sets, self.conditions = comparison, sets, conditions
        self.trial, self.given = comparison.trial, defaults(comparison.trial.exercise)
        self.most = max(len(case.inputs) for case in comparison.cases)
        self.tried = list[Tried]()

    def confirmed(self) -> list[Condition]:
        """The conditions that hold of all that goes wrong, and at most of whose values something does."""
        left = [*self.conditions]
        for _ in range(MAX_ROUNDS):
            left = self._still_left(left)
            if all(map(self._at_its_values, left)):
                break
        return [condition for condition in left if self._at_its_values(condition)]

    def needed(self) -> list[Condition]:
        """The conditions without which nothing goes wrong."""
        left = [*self.conditions]
        for _ in range(MAX_ROUNDS):
            left = self._still_left(left)
        return [condition for condition in left if not self._by_luck(condition)]

    def _still_left(self, conditions: Sequence[Condition]) -> list[Condition]:
        """Those of the conditions without which nothing goes wrong in further cases either; none if these take long."""
        if not conditions or not self._try_more(conditions):
            return []
        return [condition for condition in conditions if self._nothing_else(condition)]

    def _nothing_else(self, condition: Condition) -> bool:
        """Whether all is right where it does not hold, and enough was tried there."""
        elsewhere = [t for t in self.tried if not condition.holds(t.options)]
        moved = {t.place for t in elsewhere}
        return all(t.right for t in elsewhere) and moved >= set(condition.places)

    def _by_luck(self, condition: Condition) -> bool:
        """Whether what went wrong may have that in common by luck."""
        drawn = [t for t in self.tried if t.place is None]
        n_wrong = sum(not t.right for t in drawn) + self.comparison.right.count(False)
        share = sum(condition.holds(t.options) for t in drawn) / max(1, len(drawn))
        return share**n_wrong > BY_LUCK

    def _at_its_values(self, condition: Condition) -> bool:
        """Whether the code goes wrong at most values that an option was given of which the condition holds.

        Not at all: with a `top_k` of 1, no `top_p` matters.
        """
        there = [t for t in self.tried if condition.holds(t.options)]
        for place in condition.places:
            wrong_at = dict[Any, bool]()
            for t in there:
                if t.place == place:
                    value = t.options[place]
                    wrong_at[value] = wrong_at.get(value, False) or not t.right
            if not wrong_at or [*wrong_at.values()].count(False) > NEVER_WRONG * len(wrong_at):
                return False
        drawn = [t.right for t in there if t.place is None]
        return 2 * sum(drawn) <= len(drawn)

    def _try_more(self, conditions: Sequence[Condition]) -> bool:
        """Draw all cases anew, and give each option that matters further values: whether that could be done."""
        fresh = [case for case in drawn_anew(self.trial) if case is not None and self._is_complete(case)]
        places = sorted({n for condition in conditions for n in condition.places})
        cases: list[tuple[Case, int | None]] = [(case, None) for case in fresh]
        for n in places:
            cases += ((case, n) for case in self._with_others(n, fresh))
        comparison = compared(self.trial, [case for case, _ in cases])
        if comparison is None or too_slow(comparison):
            return False
        found = zip(cases, comparison.expected, comparison.right, strict=True)
        self.tried += [Tried(self._options(case), right, place) for (case, place), answer, right in found if answer]
        return True

    def _with_others(self, n: int, fresh: Sequence[Case]) -> Iterator[Case]:
        """Cases in which one option has another value."""
        rng, right = self.trial.rng, self.comparison.right
        wrong = [case for case, is_right in zip(self.comparison.cases, right, strict=True) if not is_right]
        wrong = [case for case in wrong if not case.once]
        for value in options.values(n, self.sets, self.given.get(n), rng):
            chosen = [wrong[i] for i in rng.permutation(len(wrong))[:MAX_WRONG]]
            chosen += [fresh[i] for i in rng.permutation(len(fresh))[:MAX_OTHERS]]
            for case in chosen:
                inputs = options.completed(case.inputs, self.given, self.most)
                if inputs[n] != value or type(inputs[n]) is not type(value):
                    inputs[n] = value
                    yield replace(case, inputs=tuple(inputs), visible=False)

    def _options(self, case: Case) -> Options:
        inputs = options.completed(case.inputs, self.given, self.most)
        return {n: inputs[n] for n in self.sets[0]}

    def _is_complete(self, case: Case) -> bool:
        return len(options.completed(case.inputs, self.given, self.most)) > max(self.sets[0])
