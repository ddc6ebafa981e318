"""Options: plain values that code is called with, such as `top_p`. Which condition on them holds of what goes wrong?

What a condition is worth shows when an option gets another value and all else stays: this file says which values to
try; `autograder.judging.narrowing` tries them.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Options = Mapping[int, Any]  # of one call: numbers, None, True and False, by their places among the arguments
PLAIN = (int, float, bool, type(None))
ENDS = 0, 1  # values at which a number's meaning changes
MAX_VALUES = 12  # to try for one option
MOST = 3 / 4  # of the calls of which a condition holds: so many should go wrong
MAX_SHARE = 2 / 3  # of the cases of which a condition may hold: what holds of nearly all says little


@dataclass(frozen=True)
class Condition:
    """Something that holds of the options of some calls.

    Attributes:
        words: ends a sentence that begins with "where".
        holds: whether it does.
        places: of the options that it is about.
    """

    words: str
    holds: Callable[[Options], bool]
    places: tuple[int, ...]

    def joined(self, other: "Condition") -> "Condition":
        """That both hold."""
        words = f"{self.words} and {other.words}"
        return Condition(words, lambda o: self.holds(o) and other.holds(o), self.places + other.places)


def completed(inputs: Sequence[Any], defaults: Mapping[int, Any], most: int) -> list[Any]:
    """The arguments of a call, with defaults for those that are left out, as far as they are known."""
    end = next((n for n in range(len(inputs), most) if n not in defaults), most)
    return [*inputs, *(defaults[n] for n in range(len(inputs), end))]


def read(calls: Sequence[Sequence[Any]], defaults: Mapping[int, Any]) -> list[Options]:
    """The options of each call: the arguments that are plain values in all of them, and not the same in all."""
    most = max(map(len, calls), default=0)
    full = [completed(inputs, defaults, most) for inputs in calls]
    least = min(map(len, full), default=0)
    places = [n for n in range(least) if all(type(inputs[n]) in PLAIN for inputs in full)]
    places = [n for n in places if len({inputs[n] for inputs in full}) > 1]
    return [{n: inputs[n] for n in places} for inputs in full]


def simple(sets: Sequence[Options], names: Mapping[int, str], defaults: Mapping[int, Any]) -> Iterator[Condition]:
    """What may make a difference to a call, of each option the simplest first.

    Args:
        sets: the options of each call that was tried.
        names: of the options.
        defaults: their values where they are left out.
    """
    for n, name in names.items():
        seen = {options[n] for options in sets}
        if None in seen:
            yield Condition(f"{name} is given", lambda o, n=n: o[n] is not None, (n,))
            yield Condition(f"{name} is not given", lambda o, n=n: o[n] is None, (n,))
        if any(type(value) is bool for value in seen):
            yield Condition(f"{name} is True", lambda o, n=n: o[n] is True, (n,))
            yield Condition(f"{name} is False", lambda o, n=n: o[n] is False, (n,))
            continue
        numbers, default = _numbers(seen), defaults.get(n)
        for v in _named(numbers, default):
            yield Condition(f"{name} = {shown(v)}", lambda o, n=n, v=v: o[n] == v, (n,))
        for v in _marks(numbers, default):
            yield Condition(f"{name} < {shown(v)}", lambda o, n=n, v=v: o[n] is not None and o[n] < v, (n,))
            yield Condition(f"{name} > {shown(v)}", lambda o, n=n, v=v: o[n] is not None and o[n] > v, (n,))
        for v in _marks(numbers, default) if None not in seen else ():
            yield Condition(f"{name} ≠ {shown(v)}", lambda o, n=n, v=v: o[n] != v, (n,))


def shown(value: Any) -> str:
    """A value as it stands in a sentence."""
    return f"{value:g}" if type(value) is float else str(value)


def _numbers(seen: set[Any]) -> list[Any]:
    return sorted(value for value in seen if value is not None and type(value) is not bool)


def _marks(numbers: Sequence[Any], default: Any) -> list[Any]:
    """The numbers at which the meaning of an option changes; another limit, between two that were tried, is a guess."""
    marks = dict.fromkeys([default, *ENDS] if type(default) in (int, float) else ENDS)
    return [v for v in marks if numbers and numbers[0] <= v <= numbers[-1]]


def _named(numbers: Sequence[Any], default: Any) -> list[Any]:
    """The numbers that may be the one at which something happens: those, and of whole numbers each."""
    whole = all(type(number) is int for number in numbers)
    return [*dict.fromkeys([*_marks(numbers, default), *(numbers if whole else ())])]


def fitting(kinds: Sequence[Condition], sets: Sequence[Options], wrong: Sequence[bool]) -> Iterator[list[Condition]]:
    """The conditions that hold of all calls that went wrong, and of hardly another: single ones, then two together.

    Of hardly another, for a call may come out right by luck.
    """
    held = {kind: [kind.holds(options) for options in sets] for kind in kinds}
    needed = [kind for kind, own in held.items() if _covers(own, wrong) and not all(own)]
    yield [kind for kind in needed if _tightly(held[kind], wrong)]
    pairs = [(kind, other) for kind, other in itertools.combinations(needed, 2) if kind.places != other.places]
    both = {pair: [a and b for a, b in zip(held[pair[0]], held[pair[1]], strict=True)] for pair in pairs}
    tight = [pair for pair, own in both.items() if _tightly(own, wrong)]
    yield [kind.joined(other) for kind, other in sorted(tight, key=lambda pair: sum(both[pair]))]


def around(kinds: Sequence[Condition], sets: Sequence[Options], wrong: Sequence[bool]) -> list[Condition]:
    """The conditions without which nothing went wrong: those that hold of fewest calls first."""
    counts = dict[Condition, int]()
    for kind in kinds:
        held = [kind.holds(options) for options in sets]
        if _covers(held, wrong) and sum(held) <= len(sets) / 2:
            counts[kind] = sum(held)
    return sorted(counts, key=lambda kind: counts[kind])


def _covers(held: Sequence[bool], wrong: Sequence[bool]) -> bool:
    return all(h for h, w in zip(held, wrong, strict=True) if w)


def _tightly(held: Sequence[bool], wrong: Sequence[bool]) -> bool:
    return sum(held) <= MAX_SHARE * len(held) and sum(wrong) >= MOST * sum(held)


def values(place: int, sets: Sequence[Options], default: Any, rng: np.random.Generator) -> list[Any]:
    """Values of one option to try, none of them beyond those of the calls: what is beyond may not be allowed."""
    seen = {options[place] for options in sets}
    numbers, none = _numbers(seen), [None] * (None in seen)
    if not numbers:
        return [*none, *(value for value in (True, False) if value in seen)]
    marks, named = _marks(numbers, default), _named(numbers, default)
    if all(type(number) is int for number in numbers):
        chosen = sorted({v + step for v in named for step in (-1, 0, 1) if numbers[0] <= v + step <= numbers[-1]})
    else:
        chosen = [*marks, *_between(numbers, marks, rng)]
    if len(chosen) > MAX_VALUES:
        others = [value for value in chosen if value not in marks]
        chosen = [*marks, *rng.permutation(others)[: MAX_VALUES - len(marks)].tolist()]
    return none + chosen


def _between(numbers: Sequence[float], marks: Sequence[float], rng: np.random.Generator) -> Iterator[float]:
    """New numbers: in the gaps next to the marks, and in some others."""
    gaps = list(itertools.pairwise(numbers))
    beside = [gap for gap in gaps if set(gap) & set(marks)]
    others = [gap for gap in gaps if gap not in beside]
    for i in rng.permutation(len(others))[: MAX_VALUES // 3]:
        beside.append(others[i])
    for low, high in beside if math.isfinite(numbers[0]) and math.isfinite(numbers[-1]) else ():
        yield float(rng.uniform(low, high))
