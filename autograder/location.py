"""Where code goes wrong that is right elsewhere: at which sizes, said only after it has been tried on others.

The right answer has no small change that is wrong for a batch of one alone, so the search for such changes is silent
about `squeeze()`, a table of 50 rows, or a mask that is read for the first text only. The sizes are not.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autograder.covering import Axis, Choice, Declared, Derived, Only, Sizes, possible

MAX_VALUES = 6  # of an axis, which may be the one size that code was written for
MAX_SEEN = 200  # sets from which they are chosen
MAX_LIKELY = 500  # sets of sizes that a case may have
UNLIKE = 3, 5, 11, 7, 17, 13, 19  # sizes of which none is the sum of two others
SELDOM = 0.25  # of the results where a choice is what makes them wrong, those that are right by luck
MIN_ELSEWHERE = 3  # results that are right where it is another choice
MAX_TRIED = 4  # further sets of sizes of each kind: where it should go wrong, and where not


@dataclass(frozen=True)
class Where:
    """Something that holds of some sets of sizes: `words` end a sentence that begins with "where"."""

    words: str
    holds: Callable[[Mapping[str, Any]], bool]
    single: bool = False  # of one axis or choice
    parts: tuple["Where", ...] = ()  # what must hold together
    seldom_right: bool = False  # whether a result may come out right where it holds

    def fits(self, sets: Sequence[Mapping[str, Any]], wrong: Sequence[bool]) -> bool:
        """Whether it holds where results are wrong and nowhere else, or nowhere else but seldom."""
        held = [bool(self.holds(sizes)) for sizes in sets]
        if not self.seldom_right:
            return held == list(wrong)
        right = sum(h and not w for h, w in zip(held, wrong, strict=True))
        return all(h for h, w in zip(held, wrong, strict=True) if w) and right <= SELDOM * sum(held)


def found(
    everything: tuple[Declared, ...], sets: Sequence[Mapping[str, Any]], wrong: Sequence[bool]
) -> Iterator[Where]:
    """What holds of all sets of sizes that went wrong, and of no other: the simplest first, often nothing."""
    if all(wrong) or not any(wrong):
        return
    kinds = list(_simple(everything))
    held = {kind: [bool(kind.holds(sizes)) for sizes in sets] for kind in kinds}
    for kind in kinds:
        if held[kind] == list(wrong):
            yield kind
    within = [
        k for k in kinds if k.single and any(held[k]) and all(w for h, w in zip(held[k], wrong, strict=True) if h)
    ]
    for place, other in itertools.combinations(within, 2):
        if [a or b for a, b in zip(held[place], held[other], strict=True)] == list(wrong):
            yield Where(f"{place.words} or {other.words}", lambda s, a=place, b=other: a.holds(s) or b.holds(s))
    # What holds of every set, such as that an axis is longer than 1 which is never 1, is no condition.
    around = [k for k in kinds if not all(held[k]) and all(h for h, w in zip(held[k], wrong, strict=True) if w)]
    for place, other in itertools.combinations(around, 2):
        if [a and b for a, b in zip(held[place], held[other], strict=True)] == list(wrong):
            words = f"{place.words} and {other.words}"
            yield Where(words, lambda s, a=place, b=other: a.holds(s) and b.holds(s), parts=(place, other))
    for a, b in itertools.permutations(_told(everything), 2):
        at_least = Where(f"{a} ≥ {b}", lambda sizes, a=a, b=b: sizes[a] >= sizes[b])
        if at_least.fits(sets, wrong):
            yield at_least
    # Of what is given or not, all cases with it and without it are counted elsewhere.
    for kind in _of_choices([axis for axis in everything if isinstance(axis, Choice) and None not in axis.values]):
        often = replace(kind, seldom_right=True)
        if sum(not kind.holds(sizes) for sizes in sets) >= MIN_ELSEWHERE and often.fits(sets, wrong):
            yield often


def limits(
    everything: tuple[Declared, ...], sets: Sequence[Mapping[str, Any]], wrong: Sequence[bool]
) -> Iterator[tuple[str, Mapping[str, Any], int, int]]:
    """An axis, sizes that went wrong, how large it was at most where all was right, and at least where it was not.

    Only where the former is the smaller, and larger than 1.
    """
    for name in (axis.name for axis in everything if isinstance(axis, Axis) and axis.told):
        right = [sizes[name] for sizes, is_wrong in zip(sets, wrong, strict=True) if not is_wrong]
        gone = [sizes for sizes, is_wrong in zip(sets, wrong, strict=True) if is_wrong]
        least = min(gone, key=lambda sizes: sizes[name], default=None)
        if right and least is not None and 1 < max(right) < least[name]:
            yield name, least, max(right), least[name]


def may_hold(where: Where, sizes: Mapping[str, Any]) -> bool:
    """Whether it may hold of sizes of which some are not known, and None."""
    try:
        return all(may_hold(part, sizes) for part in where.parts) if where.parts else where.holds(sizes)
    except TypeError:  # None is not larger than anything
        return True


def from_on(name: str, least: int) -> Where:
    """That an axis is at least so long."""
    return Where(f"{name} ≥ {least}", lambda sizes: sizes[name] >= least)


def likely(
    everything: tuple[Declared, ...], form_of: Callable[[Sizes], Sequence[int]], wanted: Sequence[int]
) -> list[Sizes]:
    """All sets of sizes that come to wanted numbers; none where so many axes are declared that few are read off.

    Where no set does, as where a case has a size that is never drawn: what can be read off all the same, the rest None;
    of a choice, too, where no value of it gives the numbers that do not hang on the axes.

    Args:
        everything: what is declared.
        form_of: the numbers to which a set of sizes comes; none where its sizes do not go together.
        wanted: those of the sets that are sought.
    """
    axes = [axis for axis in everything if isinstance(axis, Axis)]
    choices = [axis for axis in everything if isinstance(axis, Choice)]
    found, partly, unlikely = list[Sizes](), list[Sizes](), list[Sizes]()
    if len(axes) > len(UNLIKE):
        return found
    numbers = range(1, max(wanted, default=0) + 1)
    factors = [n for n in numbers if any(number % n == 0 for number in wanted)]
    for chosen in itertools.product(*(choice.values for choice in choices)):
        fixed: Sizes = {choice.name: value for choice, value in zip(choices, chosen, strict=True)}
        # An axis whose number comes out as it is can be read off; of the others, all are tried.
        unlike = [
            dict(zip((axis.name for axis in axes), order, strict=False)) for order in (UNLIKE, UNLIKE[1:] + UNLIKE[:1])
        ]
        complete = [_completed(everything, fixed | sizes) for sizes in unlike]
        shown = [form_of(sizes) for sizes in complete]
        if any(len(form) != len(wanted) for form in shown):
            continue
        fits = all(want == one for one, other, want in zip(*shown, wanted, strict=True) if one == other)
        read = dict.fromkeys(name for name in complete[0] if name not in fixed)
        for name in read:
            pair = tuple(sizes[name] for sizes in complete)
            place = next((n for n, both in enumerate(zip(*shown, strict=True)) if both == pair), None)
            if place is not None:
                read[name] = wanted[place]
        if not fits:
            unlikely.append(dict.fromkeys(fixed) | read)
            continue
        partly.append(fixed | read)
        rest = [axis.name for axis in axes if read[axis.name] is None]
        among = numbers if len(numbers) ** len(rest) <= MAX_LIKELY else factors
        if len(among) ** len(rest) > MAX_LIKELY:
            continue
        for values in itertools.product(among, repeat=len(rest)):
            sizes = _completed(everything, {**fixed, **read, **dict(zip(rest, values, strict=True))})
            if form_of(sizes) == wanted:
                found.append(sizes)
    return found or partly or unlikely[:1]


def _completed(everything: tuple[Declared, ...], sizes: Sizes) -> Sizes:
    """Sizes in the order in which they are declared, with those that follow from them."""
    complete: Sizes = {}
    for axis in everything:
        if isinstance(axis, Derived):
            complete[axis.name] = axis.of(complete)
        elif not isinstance(axis, Only):
            complete[axis.name] = sizes[axis.name]
    return complete


def further(everything: tuple[Declared, ...], where: Where, sets: Sequence[Mapping[str, Any]]) -> list[Sizes]:
    """Sets of sizes that were not tried: first those where it should go wrong, then as many where it should not."""
    new = [sizes for sizes in possible(everything) if sizes not in sets]
    np.random.default_rng(1).shuffle(new)  # pyright: ignore[reportArgumentType]  # a list is shuffled as well
    new.sort(key=lambda sizes: -sum(part.holds(sizes) for part in where.parts))  # where one part holds before none
    kinds = list(_simple(everything))
    there = _diverse([sizes for sizes in new if where.holds(sizes)], kinds)
    elsewhere = _diverse([sizes for sizes in new if not where.holds(sizes)], kinds)
    return there + elsewhere if len(there) == len(elsewhere) == MAX_TRIED else []


def _diverse(sets: Sequence[Sizes], kinds: Sequence[Where]) -> list[Sizes]:
    """A few of the sets, in which as much as possible holds of one and not of another: that is no condition, then."""
    held = [{(n, bool(kind.holds(sizes))) for n, kind in enumerate(kinds)} for sizes in sets[:MAX_SEEN]]
    chosen, shown = list[int](), set[tuple[int, bool]]()
    while len(chosen) < min(MAX_TRIED, len(held)):
        best = max((i for i in range(len(held)) if i not in chosen), key=lambda i: len(held[i] - shown))
        chosen.append(best)
        shown |= held[best]
    return [sets[i] for i in chosen]


def _simple(everything: tuple[Declared, ...]) -> Iterator[Where]:
    """What may make a difference, the likeliest first."""
    declared = [axis for axis in everything if not isinstance(axis, Only) and getattr(axis, "told", True)]
    names = _told(everything)
    for name in names:
        yield Where(f"{name} = 1", lambda sizes, n=name: sizes[n] == 1, single=True)
        yield Where(f"{name} > 1", lambda sizes, n=name: sizes[n] > 1)
    for name in (axis.name for axis in declared if isinstance(axis, Derived)):  # an axis is never 0
        yield Where(f"{name} = 0", lambda sizes, n=name: sizes[n] == 0, single=True)
        yield Where(f"{name} > 0", lambda sizes, n=name: sizes[n] > 0)
    for axis in declared:
        if isinstance(axis, Axis) and axis.long:
            yield Where(
                f"{axis.name} = {axis.long}", lambda sizes, n=axis.name, long=axis.long: sizes[n] == long, single=True
            )
    yield from _of_choices(everything)
    for axis in declared:
        if isinstance(axis, Axis) and axis.least == 1:
            for value in range(2, min(axis.most, MAX_VALUES) + 1):
                yield Where(f"{axis.name} ≠ {value}", lambda sizes, n=axis.name, v=value: sizes[n] != v)
    for name in names:
        yield Where(f"{name} is odd", lambda sizes, n=name: sizes[n] % 2 == 1)
    for a, b in itertools.combinations(names, 2):
        yield Where(f"{a} = {b}", lambda sizes, a=a, b=b: sizes[a] == sizes[b])
        yield Where(f"{a} ≠ {b}", lambda sizes, a=a, b=b: sizes[a] != sizes[b])
        yield Where(f"{a} > {b}", lambda sizes, a=a, b=b: sizes[a] > sizes[b])
        yield Where(f"{b} > {a}", lambda sizes, a=a, b=b: sizes[b] > sizes[a])


def _told(everything: Sequence[Declared]) -> list[str]:
    """The names of the sizes that a verdict may speak of."""
    return [axis.name for axis in everything if not isinstance(axis, Choice | Only) and getattr(axis, "told", True)]


def _of_choices(everything: Sequence[Declared]) -> Iterator[Where]:
    """What may make a difference of what is chosen."""
    for axis in everything:
        if isinstance(axis, Choice) and axis.told:
            if None in axis.values and len(axis.values) > 2:
                article = "" if axis.name.endswith("ing") else "a "
                words = axis.name if _is_clause(axis.name) else f"there is {article}{axis.name}"
                yield Where(words, lambda sizes, n=axis.name: sizes[n] is not None, single=True)
            for value in axis.values:
                yield Where(_chosen(axis.name, value), lambda sizes, n=axis.name, v=value: sizes[n] == v, single=True)
                if value is not None and None not in axis.values and len(axis.values) > 2:
                    words = _chosen(axis.name, value, is_it=False)
                    yield Where(words, lambda sizes, n=axis.name, v=value: sizes[n] != v)


def _chosen(name: str, value: Any, *, is_it: bool = True) -> str:
    """That something is chosen, or that it is not: "top_k = 3", "scores are of ±10³", "the text comes in two calls"."""
    if value is None:
        return f"no {name}" if _is_clause(name) else f"there is no {name}"
    if isinstance(value, str) and value.startswith("of "):
        name = f"{name} are"
    elif not _is_clause(name):
        return f"{name} {'=' if is_it else '≠'} {value}"
    return f"{name if is_it else name.replace(' are', ' are not').replace(' comes', ' does not come')} {value}"


def _is_clause(name: str) -> bool:
    """Whether the name of a choice has a verb, such as "keys are hidden"."""
    return not {"are", "comes"}.isdisjoint(name.split())
