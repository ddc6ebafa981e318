"""At which sizes a student's code goes wrong, where it is right at all others: said only once it has been tried."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autograder import location
from autograder.covering import Sizes, changed
from autograder.exercise import Case
from autograder.judging.asking import Trial
from autograder.judging.comparing import Comparison, as_arrays, largest
from autograder.judging.narrowing import comparable, compared, places
from autograder.judging.repeating import Repetition
from autograder.relations import listed, verb_for

MAX_DRAWN_ANEW = 8  # times, where it should go wrong at some sizes and does not
NEARLY = 0.1  # of the gap of what is wrong: what is right should be much closer
MAX_GUESSES = 3  # at which sizes the code goes wrong


def locate(comparison: Comparison, repetition: Repetition) -> str:
    """At which sizes the code goes wrong, where it is right at all others: tried on further ones, then said.

    A sentence without its end, which tells the parts of a result apart where they go wrong at sizes of their own. It
    claims no more than was tried, and not that all goes wrong there: cases with other axes, which name no sizes, are
    left out of it, and what differs when calls are made again is added.
    """
    if repetition.idle or _has_other_reasons(comparison):
        return ""
    usual = _usual_axes(comparison)
    others = any(_axes(case) not in usual for case in comparison.cases)
    count = next(iter(usual))[:1] if others and len(usual) == 1 else ()
    tried = "Of all sizes that were tried" + "".join(f" for an input of {n_axes} axes" for n_axes in count)
    again = (*repetition.unsteady.values(), *repetition.conditions)
    if where := _where(comparison):
        return f"{tried}, it goes wrong {f'where {where}; {again[0]}' if again else f'only where {where}'}"
    if again:
        return ""
    of_parts = dict[str, list[str]]()  # what goes wrong there
    for n, name in enumerate(comparison.trial.exercise.parts):
        if not all(_right(comparison, n)):
            of_parts.setdefault(_where(comparison, n), []).append(name)
    if not of_parts or "" in of_parts:
        return ""
    (where, names), *further = of_parts.items()
    if not further and len(names) == len(comparison.trial.exercise.parts):
        return f"{tried}, it goes wrong only where {where}"
    sentences = [
        f"{listed(names)} {verb_for(names, 'goes')} wrong only where {where}" for where, names in of_parts.items()
    ]
    return f"{tried}, {', and '.join(sentences)}"


def _where(comparison: Comparison, part: int | None = None) -> str:
    """What holds of all sizes at which the code goes wrong, or one part of what it returns, and of no other.

    What is tried for a guess that does not hold is taken into account by the next.
    """
    trial, axes = comparison.trial, comparison.trial.exercise.axes
    sets = [case.sizes for case in trial.cases if case.sizes is not None]
    of_cases = _right(comparison, part)
    wrong = [not of_cases[i] for i, case in enumerate(trial.cases) if case.sizes is not None]
    guessed = set[tuple[str, bool]]()
    for _ in range(MAX_GUESSES):
        limits = (
            location.from_on(name, least)
            for name, sizes, right, wrong_at in location.limits(axes, sets, wrong)
            if (least := _limit(comparison, part, name, sizes, right, wrong_at)) is not None
        )
        guesses = itertools.chain(limits, location.found(axes, sets, wrong))
        where = next((guess for guess in guesses if (guess.words, guess.seldom_right) not in guessed), None)
        if where is None:
            return ""
        guessed.add((where.words, where.seldom_right))
        further = location.further(axes, where, sets)
        if not further or not _explains_others(comparison, of_cases, where):
            continue
        right = _right_where_luck_is_out(trial, part, where, further)
        if len(right) < len(further):
            continue
        gone_wrong = [not is_right for is_right in right]
        if where.fits(further, gone_wrong):
            return where.words
        sets, wrong = [*sets, *further], [*wrong, *gone_wrong]
    return ""


def _right(comparison: Comparison, part: int | None) -> list[bool]:
    """Whether each case is right; of one part of what is returned, whether that is, however the others are."""
    right = list(comparison.right)
    if part is None:
        return right
    for i, outcome in enumerate(comparison.run.outcomes):
        if outcome.output and comparison.expected[i] and comparison.run.fits(i):
            right[i] = right[i] or not places(comparison, i)[part].any()
    return right


def _explains_others(comparison: Comparison, of_cases: Sequence[bool], where: location.Where) -> bool:
    """Whether each wrong case that is not drawn for sizes may have some of which `where` holds, if they can be told.

    `of_cases`: whether each case is right.
    """
    trial, usual = comparison.trial, _usual_axes(comparison)

    def form_of(sizes: Sizes) -> list[int]:
        try:
            return form(trial.exercise.of(sizes, np.random.default_rng(0)))
        except Exception:  # sizes that do not go together
            return []

    others = (
        location.likely(trial.exercise.axes, form_of, form(case))
        for case, right in zip(comparison.cases, of_cases, strict=True)
        if case.sizes is None and not right and _axes(case) in usual
    )
    return all(any(location.may_hold(where, sizes) for sizes in likely) for likely in others if likely)


def form(case: Case) -> list[int]:
    """The numbers that a case is built and called with, the shapes of its arrays but for masks, and what is given."""
    given = [-1 if value is None else -2 for value in case.inputs]
    return [*(n for value in (*(case.build or ()), *case.inputs) for n in _numbers(value)), *given]


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict):  # of which something is made
        for item in value.values():
            yield from _numbers(item)
    elif isinstance(value, np.ndarray):
        yield from value.shape if value.dtype != bool else ()
    elif isinstance(value, int):
        yield int(value)


def _has_other_reasons(comparison: Comparison) -> bool:
    """Whether there is more to it than the sizes that are drawn.

    So it is where a case that has not been drawn raises another error, or comes out otherwise than all that are drawn
    for its criterion; where one with other axes, such as none in front, is wrong; and where what counts as right is
    nearly as far off as what does not.
    """
    raised = {
        (case.sizes is not None, outcome.error.type)
        for case, outcome in zip(comparison.cases, comparison.run.outcomes, strict=True)
        if outcome.error
    }
    if any(not drawn and (True, kind) not in raised for drawn, kind in raised):
        return True
    usual = _usual_axes(comparison)
    others = [comparison.right[i] for i, case in enumerate(comparison.cases) if _axes(case) not in usual]
    if not all(others) or _right_by_tolerance(comparison):
        return True
    of_tag: dict[tuple[str, bool], set[bool]] = {}  # of each criterion, what becomes of drawn cases, and of the others
    for case, right in zip(comparison.cases, comparison.right, strict=True):
        of_tag.setdefault((case.tag, case.sizes is not None), set()).add(right)
    return any(
        len(all_drawn := of_tag.get((tag, True), set())) == 1 and found - all_drawn
        for (tag, drawn), found in of_tag.items()
        if not drawn
    )


def _usual_axes(comparison: Comparison) -> set[tuple[int, ...]]:
    """How many axes the arrays of the cases have that are drawn."""
    return {_axes(case) for case in comparison.cases if case.sizes is not None}


def _axes(case: Case) -> tuple[int, ...]:
    """How many axes each array of a case has, but for masks."""
    given = (value for value in case.inputs if isinstance(value, np.ndarray) and value.dtype != bool)
    return tuple(value.ndim for value in given)


def _right_by_tolerance(comparison: Comparison) -> bool:
    """Whether something that counts as right is nearly as far off as something that does not."""
    gaps: tuple[list[float], list[float]] = [], []  # of what is wrong, and of what is right
    for i in comparable(comparison):
        outputs, expected = comparison.run.outcomes[i].output or (), as_arrays(comparison.expected[i] or ())
        pairs = [(got.astype(float), part.astype(float)) for got, part in zip(outputs, expected, strict=True)]
        gap = max(largest(got - part) / max(1e-3, largest(part)) for got, part in pairs)
        gaps[comparison.right[i]].append(gap if np.isfinite(gap) else np.inf)
    return max(gaps[True], default=0.0) > NEARLY * min(gaps[False], default=np.inf)


def _right_where_luck_is_out(trial: Trial, part: int | None, where: location.Where, sets: list[Sizes]) -> list[bool]:
    """Whether the code is right at each of these sizes; nothing where no object can be built for them.

    Where it should go wrong and does not, that may be luck, as where the likeliest token is the same: it is drawn anew.
    """
    right = _right_at(trial, part, sets)
    if not all(is_right or where.holds(sizes) for is_right, sizes in zip(right, sets, strict=False)):
        return right
    for _ in range(MAX_DRAWN_ANEW):
        lucky = [n for n, is_right in enumerate(right) if is_right and where.holds(sets[n])]
        if not lucky:
            break
        for n, is_right in zip(lucky, _right_at(trial, part, [sets[n] for n in lucky]), strict=False):
            right[n] = is_right
    return right


def _limit(
    comparison: Comparison, part: int | None, name: str, sizes: Mapping[str, Any], right: int, wrong: int
) -> int | None:
    """The least size of an axis from which on these sizes go wrong, by halving; None where it is not for that axis."""
    trial, axes = comparison.trial, comparison.trial.exercise.axes

    def is_right(value: int) -> bool | None:
        other = changed(axes, sizes, {name: value})
        return _right_at(trial, part, [other]) == [True] if other else None

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


def _right_at(trial: Trial, part: int | None, sets: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Whether the code is right in further cases of these sizes; nothing where no object can be built for them."""
    further = compared(trial, [trial.exercise.of(sizes, trial.rng) for sizes in sets])
    return [] if further is None else _right(further, part)
