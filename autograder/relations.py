"""What a right answer does when its inputs change, and what can be seen in wrong numbers: sentences without a name.

Where no known mistake and no search explains a result, how it depends on its inputs still says much: whether a sample
looks at the other samples of its batch, a token at later ones, whether a mask changes anything. Nothing here knows an
exercise. A relation is only asked about where the right answer has it for the same inputs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
Inputs = tuple[Any, ...]
SAME, OTHER = 1e-7, 1e-4  # relative: up to which two results are the same, and from which they are not


@dataclass(frozen=True)
class Relation:
    """A change of the inputs, and what it must do to the result.

    Attributes:
        words: what is true of code that breaks it, as a sentence without its end.
        inputs: after the change.
        wanted: what becomes of a part of the result: None where the relation says nothing of a part.
        seen: the part of a changed result that is compared with that.
        changes: whether it is the other way round: the result must become another.
        weak: whether it says little, and comes after all others.
    """

    words: str
    inputs: Inputs
    wanted: Callable[[np.ndarray], np.ndarray | None] = lambda part: part
    seen: Callable[[np.ndarray], np.ndarray] = lambda part: part
    changes: bool = False
    weak: bool = False

    def holds(self, before: Arrays, after: Arrays) -> list[bool | None]:
        """For each part, whether it does what it must: None where that cannot be told."""
        told = list[bool | None]()
        for old, new in zip(before, after, strict=True):
            wanted = self.wanted(old) if old.shape == new.shape else None
            if wanted is None or not wanted.size:
                told.append(None)
                continue
            how = _distance(wanted, self.seen(new))
            same = True if how <= SAME else False if how >= OTHER else None
            told.append(None if same is None else same is not self.changes)
        return told


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference, relative to the largest value; infinite where only one is finite."""
    one, other = one.astype(float), other.astype(float)
    finite = np.isfinite(one) & np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite], equal_nan=True):
        return np.inf
    size = max(1e-3, np.abs(one[finite]).max(initial=0.0), np.abs(other[finite]).max(initial=0.0))
    return float(np.abs(one - other)[finite].max(initial=0.0) / size)


def relations(inputs: Inputs, names: Mapping[int, str]) -> Iterator[Relation]:
    """All that can be asked about these inputs; `names`: what the task calls the arrays among them, by place."""
    arrays = {i: value for i, value in enumerate(inputs) if isinstance(value, np.ndarray)}
    first = next((value for value in arrays.values() if value.ndim > 1 and value.dtype != bool), None)
    if first is not None:
        yield from _of_samples(inputs, arrays, first)
        yield from _of_tokens(inputs, arrays, first)
    for i, value in arrays.items():
        if value.dtype.kind == "f":
            other = {i: _another(value)}
            yield Relation(f"The result does not depend on {names[i]}", _with(inputs, other), changes=True)
        if value.dtype == bool and value.any() and not value.all():
            said = f"Turning round what {names[i]} allows and hides changes nothing in the result"
            yield Relation(said, _with(inputs, {i: ~value}), changes=True)
            said = f"What {names[i]} hides changes nothing: the result is the same where it allows everything"
            yield Relation(said, _with(inputs, {i: np.ones_like(value)}), changes=True)
    for i, value in arrays.items():
        if value.dtype.kind != "f":
            continue
        twice = _with(inputs, {i: 2 * value})
        said = f"Twice {names[i]} should give twice the result, and does not"
        yield Relation(said, twice, lambda part: _floats(2 * part), weak=True)
        said = f"Twice {names[i]} should give the same result, and does not"
        yield Relation(said, twice, _floats, weak=True)
        said = f"One more in all numbers of {names[i]} should give the same result, and does not"
        yield Relation(said, _with(inputs, {i: value + 1}), _floats, weak=True)


def _of_samples(inputs: Inputs, arrays: Mapping[int, np.ndarray], first: np.ndarray) -> Iterator[Relation]:
    n = len(first)
    if n < 2 or (first.ndim < 3 and first.dtype.kind == "f"):
        return
    ours = {i: value for i, value in arrays.items() if value.ndim > 1 and len(value) == n}
    others = {i: np.concatenate([a[:1], _another(a[1:])]) for i, a in ours.items() if a.dtype != bool}
    yield Relation(
        "One sample's result depends on the other samples of the batch",
        _with(inputs, others),
        lambda part: part[:1] if part.ndim and len(part) == n else None,
        lambda part: part[:1],
    )
    yield Relation(
        "When the samples of the batch change places, their results do not change places with them",
        _with(inputs, {i: a[::-1].copy() for i, a in ours.items()}),
        lambda part: part[::-1] if part.ndim and len(part) == n else None,
    )


def _of_tokens(inputs: Inputs, arrays: Mapping[int, np.ndarray], first: np.ndarray) -> Iterator[Relation]:
    axis = first.ndim - 2 if first.dtype.kind == "f" else first.ndim - 1
    tokens = first.shape[axis]
    if tokens < 2 or not axis:
        return

    def along(part: np.ndarray, which: slice) -> np.ndarray | None:
        there = part.ndim > axis and part.shape[axis] == tokens
        return part[(slice(None),) * axis + (which,)] if there else None

    def changed(which: slice) -> Inputs:
        new = dict[int, np.ndarray]()
        for i, value in arrays.items():
            if value.ndim == first.ndim and value.shape[axis] == tokens and value.dtype != bool:
                new[i] = value.copy()
                new[i][(slice(None),) * axis + (which,)] = _another(value)[(slice(None),) * axis + (which,)]
        return _with(inputs, new)

    for words, which, kept in (
        ("A token's result depends on later tokens", slice(1, None), slice(0, 1)),
        ("A token's result depends on earlier tokens", slice(0, -1), slice(-1, None)),
    ):
        yield Relation(
            words, changed(which), lambda part, k=kept: along(part, k), lambda part, k=kept: _there(along(part, k))
        )
    if all(value.ndim == first.ndim and value.dtype.kind == "f" for value in arrays.values()):
        turned = {i: np.flip(a, axis).copy() for i, a in arrays.items()}
        yield Relation(
            "When the tokens change places, their results do not change places with them",
            _with(inputs, turned),
            lambda part: np.flip(part, axis) if along(part, slice(None)) is not None else None,
        )


def _floats(part: np.ndarray) -> np.ndarray | None:
    return part if part.dtype.kind == "f" else None


def _there(part: np.ndarray | None) -> np.ndarray:
    assert part is not None  # as the part before the change was
    return part


def _another(value: np.ndarray) -> np.ndarray:
    """Other numbers of the same kind."""
    if value.dtype.kind == "f":
        return 0.3 - 0.8 * np.flip(value, -1) * np.linspace(0.6, 1.4, value.shape[-1] if value.ndim else 1)
    return np.roll(value, 1, -1)


def _with(inputs: Inputs, new: Mapping[int, np.ndarray]) -> Inputs:
    return tuple(new.get(i, value) for i, value in enumerate(inputs))


# --- What wrong numbers look like --------------------------------------------------------------------------------


def looks(pairs: Sequence[tuple[Arrays, Arrays, Sequence[np.ndarray]]], parts: Sequence[str]) -> Iterator[str]:
    """What can be said of wrong results, each as a sentence without its end; nothing, often.

    Args:
        pairs: of every case with a result in the right shape: the student's, the right one, and for each part where
            they differ.
        parts: their names, where there are several.
    """
    wrong = [pair for pair in pairs if any(off.any() for off in pair[2])]
    if len(wrong) < 2:
        return
    if len(parts) > 1:
        bad = [name for n, name in enumerate(parts) if any(off[n].any() for _, _, off in pairs)]
        if len(bad) < len(parts):
            good = [name for name in parts if name not in bad]
            yield f"{_listed(good)} {_be(good)} right in every case, {_listed(bad)} {_be(bad)} not"
    for n in range(len(wrong[0][0])):
        those = [(g[n], e[n], off[n]) for g, e, off in wrong if off[n].any()]
        name = parts[n] if len(parts) > 1 else "the result"
        if len(those) > 1:
            yield from _of_part(name, those)


def _of_part(name: str, those: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Iterator[str]:
    """The same of one part, over all cases where it is wrong: (got, expected, off)."""
    broken = [(g, e) for g, e, _ in those if g.dtype.kind == "f" and not np.isfinite(g[np.isfinite(e)]).all()]
    if len(broken) > 1:
        yield f"In {len(broken)} cases, {name} holds NaN or ∞ where the right one holds numbers"
    for axis, which in ((0, "first sample"), (-2, "first row"), (-1, "first column")):
        for at, word in ((0, which), (-1, which.replace("first", "last"))):
            if place := _only_at(those, axis, at):
                yield f"Only the {word} of {name} is {place}"
    summed = all(e.ndim and e.dtype.kind == "f" and np.allclose(e.sum(-1), 1, atol=1e-6) for _, e, _ in those)
    if summed and not all(np.allclose(g.sum(-1), 1, atol=1e-4) for g, _, _ in those):
        across = all(g.ndim > 1 and np.allclose(g.sum(-2), 1, atol=1e-6) for g, _, _ in those)
        yield f"Each row of {name} should sum to 1; {'here each column does' if across else 'some do not'}"
    if all(g.dtype.kind == "f" and np.ptp(g) == 0 and np.ptp(e) > 0 for g, e, _ in those if g.size > 1):
        yield f"All numbers of {name} are equal, and should not be"
    elif all(g.dtype.kind == "f" and np.allclose(g, -e, atol=1e-7) for g, e, _ in those):
        yield f"{name[0].upper()}{name[1:]} has the other sign"
    elif (share := [float(off.mean()) for _, _, off in those]) and min(share) == 1:
        yield f"Where {name} is wrong, every single value of it is"
    else:
        far = max(_distance(e, g) for g, e, _ in those)
        near = f", by {far:.1g} of the largest value at most" if far < 0.05 else ""
        yield f"Where {name} is wrong, from {min(share):.0%} to {max(share):.0%} of its values are{near}"


def _only_at(those: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], axis: int, at: int) -> str:
    """Whether in all cases one index along an axis is right, or wrong, and all others are not."""
    told = set[str]()
    for _, _, off in those:
        if off.ndim < 2 or off.shape[axis] < 3:
            continue
        other = tuple(a for a in range(off.ndim) if a != axis % off.ndim)
        here = np.asarray(off.any(other))
        rest = np.delete(here, at)
        told.add("wrong" if here[at] and not rest.any() else "right" if not here[at] and rest.all() else "")
    return told.pop() if len(told) == 1 and len(those) > 1 else ""


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
