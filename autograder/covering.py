"""Which sizes to try: a few sets of sizes that between them cover what a size can be, drawn from declared axes.

Code that is right for some sizes only is the commonest mistake that nobody sees: `squeeze` at a batch of one, a table
of 50 rows, two widths that happen to be equal. An exercise declares its axes by name; which cases follow is a rule.
"""

import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Sizes = dict[str, Any]  # by the names of the axes: an int for an Axis, one of its values for a Choice
CANDIDATES = 600  # sets of sizes to choose from


@dataclass(frozen=True)
class Axis:
    """A size that a case may choose.

    Attributes:
        name: as the task's text has it, such as "tokens".
        least, most: between which it is ordinarily drawn.
        long: a size beyond the tables and loops that people write for fixed sizes; 0 where there is no such thing.
        longest: a size beyond tables that are written in the hope that they will do. It takes too long to be tried in
            every way, as `long` is: see the function `longest`. 0 where there is no such thing.
        build: whether it is fixed when an object is built. The others change from call to call.
        told: whether the task has it, so that a verdict may speak of it.
    """

    name: str
    least: int = 1
    most: int = 6
    long: int = 0
    longest: int = 0
    build: bool = False
    told: bool = True


def sequence_length(name: str) -> Axis:
    """A number of tokens. Code often has a table for 64, 128 or 256 of them."""
    return Axis(name, long=70, longest=300)


@dataclass(frozen=True)
class Choice:
    """Something else that a case chooses, such as the kind of mask. Each value is tried; `told` is as for an `Axis`."""

    name: str
    values: tuple[Any, ...]
    build: bool = False
    told: bool = True


@dataclass(frozen=True)
class Derived:
    """A size that follows from others, such as d_model = heads · d_head; it may equal another axis, too."""

    name: str
    of: Callable[[Sizes], int]
    build: bool = False


@dataclass(frozen=True)
class Only:
    """What holds of all sets of sizes, such as tokens ≤ max_tokens."""

    holds: Callable[[Sizes], bool]


Size = Axis | Choice | Derived
Declared = Size | Only


def possible(everything: tuple[Declared, ...]) -> list[Sizes]:
    """Many sets of sizes, always the same for the same axes."""
    rng = np.random.default_rng(0)
    declared = tuple(axis for axis in everything if not isinstance(axis, Only))
    rules = [axis for axis in everything if isinstance(axis, Only)]
    drawn = (_drawn(declared, rng) for _ in range(CANDIDATES))
    return [sizes for sizes in drawn if all(rule.holds(sizes) for rule in rules)]


@functools.cache
def covering(everything: tuple[Declared, ...]) -> tuple[Mapping[str, Any], ...]:
    """Sets of sizes, always the same for the same axes.

    Between them each axis is 1 in one where no other is, larger than all others in one, long in one where none is 1,
    equal to each other axis in one and different from it in one, as far as the declared ranges allow; all are 1 in
    one, or, where that may not be, every two that may. Each is even in one and odd in one. Each value of a choice
    occurs, with each value of each other choice, and with something long. One way to build an object serves for calls
    of all kinds: short, long, each axis 1, each choice. Two axes that are declared alike, one after the other, such as
    rows and columns, are exchanged in one. The first two sets of that object come once more at the end: other numbers
    of the same shape.

    Args:
        everything: the axes of an exercise. A `Derived` one stands after those that it follows from.
    """
    declared = tuple(axis for axis in everything if not isinstance(axis, Only))
    candidates = possible(everything)
    chosen: list[Sizes] = []
    seen: set[tuple[Any, ...]] = set()
    main: tuple[Any, ...] | None = None
    features = [_features(declared, sizes) for sizes in candidates]
    if not any(("all one",) in has for has in features):
        features = [has | _both_one(declared, sizes) for has, sizes in zip(features, candidates, strict=True)]
    builds = [_build(declared, sizes) for sizes in candidates]
    # Of equal ones, that with fewest sizes of 1, which hide mistakes from each other; then the smallest.
    likely = [(-sum(n == 1 for n in sizes.values()), -_product(sizes)) for sizes in candidates]
    while True:
        gains = [len(has - seen) for has in features]
        if main is None:  # an object of ordinary sizes, as different as they can be
            gains = [_ordinary(declared, sizes) for sizes in candidates]
        best = max(range(len(candidates)), key=lambda i: (gains[i], likely[i]))
        if not gains[best]:
            break
        if main is None:
            main = builds[best]
            for i, build in enumerate(builds):  # also ask that calls of this one object cover as much
                if build == main:
                    features[i] = features[i] | {("one object", *f) for f in features[i] if _of_calls(declared, f)}
        chosen.append(candidates[best])
        seen |= features[best]
    parities = [_parities(declared, sizes) for sizes in candidates]
    missing = frozenset[tuple[str, int]]().union(*parities).difference(*(_parities(declared, one) for one in chosen))
    while missing:
        best = max(range(len(candidates)), key=lambda i: (len(parities[i] & missing), likely[i]))
        chosen.append(candidates[best])
        missing -= parities[best]
    ours = [sizes for sizes in chosen if _build(declared, sizes) == main]
    return (*chosen, *_exchanged(everything, chosen), *ours[:2])


def _exchanged(everything: tuple[Declared, ...], chosen: list[Sizes]) -> list[Sizes]:
    """For every two axes that are declared alike, one after the other: a set in which they differ, exchanged."""
    alike = [
        (one.name, other.name)
        for one, other in itertools.pairwise(everything)
        if isinstance(one, Axis) and isinstance(other, Axis) and one == replace(other, name=one.name) and not one.build
    ]
    found = list[Sizes]()
    for one, other in alike:
        unlike = (sizes for sizes in chosen if sizes[one] != sizes[other] and min(sizes[one], sizes[other]) > 1)
        turned = (changed(everything, sizes, {one: sizes[other], other: sizes[one]}) for sizes in unlike)
        found += [sizes for sizes in turned if sizes][:1]
    return found


def changed(everything: tuple[Declared, ...], sizes: Mapping[str, Any], new: Mapping[str, int]) -> Sizes | None:
    """The same sizes with some axes of another, and what follows from them; None where that may not be."""
    sizes = _consistent(everything, {**sizes, **new})
    return sizes if all(axis.holds(sizes) for axis in everything if isinstance(axis, Only)) else None


def _consistent(everything: tuple[Declared, ...], sizes: Sizes) -> Sizes:
    """Sizes of which some were changed, with those that follow from others."""
    return sizes | {axis.name: axis.of(sizes) for axis in everything if isinstance(axis, Derived)}


def longest(everything: tuple[Declared, ...]) -> Sizes | None:
    """One set of sizes more, for an object that has met many others: all axes that may be are longest.

    Each other axis is as it is least, and of the choices as many as may be are the first. None where no axis may be.
    """
    axes = [axis for axis in everything if isinstance(axis, Axis)]
    if not any(axis.longest for axis in axes):
        return None
    declared = tuple(axis for axis in everything if not isinstance(axis, Only))
    sets = covering(everything)
    ours = (sizes for sizes in sets if _build(declared, sizes) == _build(declared, sets[-1]))
    plain = {axis.name: axis.values[0] for axis in everything if isinstance(axis, Choice)}
    sizes = {**max(ours, key=lambda sizes: sum(sizes[name] == value for name, value in plain.items()))}
    return _consistent(everything, sizes | {axis.name: axis.longest or axis.least for axis in axes if not axis.build})


def _drawn(declared: tuple[Size, ...], rng: np.random.Generator) -> Sizes:
    """One set of sizes: often 1, often equal to another, at most one of them long."""
    sizes: Sizes = {}
    longest = int(rng.integers(0, 3 * len(declared)))
    for place, axis in enumerate(declared):
        if isinstance(axis, Choice):
            sizes[axis.name] = axis.values[int(rng.integers(len(axis.values)))]
        elif isinstance(axis, Derived):
            sizes[axis.name] = axis.of(sizes)
        elif axis.long and place == longest:
            sizes[axis.name] = axis.long
        else:
            others = [n for n in sizes.values() if type(n) is int and axis.least <= n <= axis.most]
            what = rng.random()
            size = int(rng.integers(axis.least, axis.most + 1))
            sizes[axis.name] = axis.least if what < 0.15 else int(rng.choice(others)) if what < 0.4 and others else size
    return sizes


def _product(sizes: Sizes) -> int:
    return math.prod(max(1, n) for n in sizes.values() if type(n) is int)


def _build(declared: tuple[Size, ...], sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(sizes[axis.name] for axis in declared if axis.build)


def _numbers(declared: tuple[Size, ...], sizes: Sizes) -> dict[str, int]:
    return {axis.name: sizes[axis.name] for axis in declared if not isinstance(axis, Choice)}


def _ordinary(declared: tuple[Size, ...], sizes: Sizes) -> int:
    """How many different sizes there are, if none is 1."""
    numbers = _numbers(declared, sizes).values()
    return len(set(numbers)) if min(numbers) > 1 else 1


def _of_calls(declared: tuple[Size, ...], feature: tuple[Any, ...]) -> bool:
    """Whether a feature is one that differs from call to call."""
    calls = {axis.name for axis in declared if not axis.build}
    return feature[0] in ("one", "long", "is") and feature[1] in calls


def _features(declared: tuple[Size, ...], sizes: Sizes) -> frozenset[tuple[Any, ...]]:
    """What a set of sizes is an example of."""
    numbers, found = _numbers(declared, sizes), set[tuple[Any, ...]]()
    long = {axis.name for axis in declared if isinstance(axis, Axis) and axis.long and sizes[axis.name] == axis.long}
    for name, size in numbers.items():
        others = [n for other, n in numbers.items() if other != name]
        if size == 1 and (not others or min(others) > 1):
            found.add(("one", name))
        if others and size > max(others):
            found.add(("largest", name))
        if name in long:
            found.add(("long", name))
            if others and min(others) > 1:
                found.add(("long among others", name))
        for other, n in numbers.items():
            if name < other and min(n, size) > 1:
                found.add(("equal" if n == size else "different", name, other))
    if set(numbers.values()) == {1}:
        found.add(("all one",))
    for axis in declared:
        if isinstance(axis, Choice):
            found.add(("is", axis.name, sizes[axis.name]))
            found |= {("is", axis.name, sizes[axis.name], name) for name in long}
    choices = [(axis.name, sizes[axis.name]) for axis in declared if isinstance(axis, Choice)]
    found |= {("both", *one, *other) for one, other in itertools.combinations(choices, 2)}
    return frozenset(found)


def _parities(declared: tuple[Size, ...], sizes: Sizes) -> frozenset[tuple[str, int]]:
    """Which sizes of more than 1 are even, and which are odd."""
    return frozenset((name, n % 2) for name, n in _numbers(declared, sizes).items() if n > 1)


def _both_one(declared: tuple[Size, ...], sizes: Sizes) -> set[tuple[Any, ...]]:
    """The pairs of sizes that are both 1."""
    ones = [name for name, n in _numbers(declared, sizes).items() if n == 1]
    return {("both one", a, b) for a, b in itertools.combinations(ones, 2)}
