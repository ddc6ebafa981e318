"""Where code goes wrong that is right elsewhere: at which sizes, said only after it has been tried on others.

The right answer has no small change that is wrong for a batch of one alone, so the search for such changes is silent
about `squeeze()`, a table of 50 rows, or a mask that is read for the first text only. The sizes are not.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograder.covering import Axis, Choice, Declared, Only, Sizes, possible

MAX_TRIED = 4  # further sets of sizes of each kind: where it should go wrong, and where not


@dataclass(frozen=True)
class Where:
    """Something that holds of some sets of sizes: `words` end a sentence that begins with "where"."""

    words: str
    holds: Callable[[Mapping[str, Any]], bool]


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
    within = [k for k in kinds if any(held[k]) and all(w for h, w in zip(held[k], wrong, strict=True) if h)]
    for one, other in itertools.combinations(within, 2):
        if [a or b for a, b in zip(held[one], held[other], strict=True)] == list(wrong):
            yield Where(f"{one.words} or {other.words}", lambda s, a=one, b=other: a.holds(s) or b.holds(s))


def further(everything: tuple[Declared, ...], where: Where, sets: Sequence[Mapping[str, Any]]) -> list[Sizes]:
    """Sets of sizes that were not tried: first those where it should go wrong, then as many where it should not."""
    new = [sizes for sizes in possible(everything) if sizes not in sets]
    np.random.default_rng(1).shuffle(new)  # pyright: ignore[reportArgumentType]  # a list is shuffled as well
    there = [sizes for sizes in new if where.holds(sizes)][:MAX_TRIED]
    elsewhere = [sizes for sizes in new if not where.holds(sizes)][:MAX_TRIED]
    return there + elsewhere if len(there) == len(elsewhere) == MAX_TRIED else []


def _simple(everything: tuple[Declared, ...]) -> Iterator[Where]:
    """What may make a difference, the likeliest first."""
    declared = [one for one in everything if not isinstance(one, Only)]
    names = [one.name for one in declared if not isinstance(one, Choice)]
    for name in names:
        yield Where(f"{name} = 1", lambda sizes, n=name: sizes[n] == 1)
    for one in declared:
        if isinstance(one, Axis) and one.long:
            yield Where(f"{one.name} = {one.long}", lambda sizes, n=one.name, long=one.long: sizes[n] == long)
    for one in declared:
        if isinstance(one, Choice):
            if None in one.values and len(one.values) > 2:
                yield Where(f"there is a {one.name}", lambda sizes, n=one.name: sizes[n] is not None)
            for value in one.values:
                said = f"there is no {one.name}" if value is None else f"{one.name} = {value}"
                yield Where(said, lambda sizes, n=one.name, v=value: sizes[n] == v)
    for name in names:
        yield Where(f"{name} is odd", lambda sizes, n=name: sizes[n] % 2 == 1)
    for a, b in itertools.combinations(names, 2):
        yield Where(f"{a} = {b}", lambda sizes, a=a, b=b: sizes[a] == sizes[b])
        yield Where(f"{a} ≠ {b}", lambda sizes, a=a, b=b: sizes[a] != sizes[b])
        yield Where(f"{a} > {b}", lambda sizes, a=a, b=b: sizes[a] > sizes[b])
        yield Where(f"{b} > {a}", lambda sizes, a=a, b=b: sizes[b] > sizes[a])
