"""What a right answer does when its inputs change, and what can be seen in wrong numbers: sentences without a name.

Where no known mistake and no search explains a result, how it depends on its inputs still says much: whether a sample
looks at the other samples of its batch, a token at later ones, whether a mask changes anything. Nothing here knows an
exercise. A relation is only asked about where the right answer has it for the same inputs.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
Inputs = tuple[Any, ...]
SAME, OTHER = 1e-7, 1e-4  # relative: up to which two results are the same, and from which they are not
NEARLY_ALL = 0.8  # of the values of a result
MOSTLY = 0.05  # of the way from the right numbers to others that is left
PLURAL = {"is": "are", "has": "have", "holds": "hold", "lacks": "lack", "goes": "go"}


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
        of_place: whether one index of an input is changed: not asked where results are whole numbers, which few changes
            reach, and said of some cases alone.
    """

    words: str
    inputs: Inputs
    wanted: Callable[[np.ndarray], np.ndarray | None] = lambda part: part
    seen: Callable[[np.ndarray], np.ndarray] = lambda part: part
    changes: bool = False
    weak: bool = False
    of_place: bool = False

    def holds(self, before: Arrays, after: Arrays) -> list[bool | None]:
        """For each part, whether it does what it must: None where that cannot be told."""
        holds = list[bool | None]()
        for old, new in zip(before, after, strict=True):
            wanted = self.wanted(old) if old.shape == new.shape else None
            if wanted is None or not wanted.size:
                holds.append(None)
                continue
            how = _distance(wanted, self.seen(new))
            same = True if how <= SAME else False if how >= OTHER else None
            holds.append(None if same is None else same is not self.changes)
        return holds


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    """The largest difference, relative to the largest value; infinite where only one is finite."""
    first, second = first.astype(float), second.astype(float)
    finite = np.isfinite(first) & np.isfinite(second)
    if not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return np.inf
    size = max(1e-3, np.abs(first[finite]).max(initial=0.0), np.abs(second[finite]).max(initial=0.0))
    return float(np.abs(first - second)[finite].max(initial=0.0) / size)


def relations(inputs: Inputs, names: Mapping[int, str]) -> Iterator[Relation]:
    """All that can be asked about these inputs; `names`: what the task calls the arrays among them, by place."""
    arrays = {i: value for i, value in enumerate(inputs) if isinstance(value, np.ndarray)}
    first = next((value for value in arrays.values() if value.ndim > 1 and value.dtype != bool), None)
    if first is not None:
        yield from _of_samples(inputs, arrays, first)
        yield from _of_tokens(inputs, names, arrays, first)
    for i, value in arrays.items():
        if value.dtype.kind == "f":
            other = {i: _another(value)}
            yield Relation(f"The result does not depend on {names[i]}", _with(inputs, other), changes=True)
        if value.dtype == bool and value.any() and not value.all():
            words = f"Inverting {names[i]} does not change the result"
            yield Relation(words, _with(inputs, {i: ~value}), changes=True)
            words = f"{names[i]} hides nothing: the result is the same when it allows everything"
            yield Relation(words, _with(inputs, {i: np.ones_like(value)}), changes=True)
    for i, value in arrays.items():
        if value.dtype.kind != "f":
            continue
        twice = _with(inputs, {i: 2 * value})
        words = f"With {names[i]} twice as large, the result should be twice as large, but is not"
        yield Relation(words, twice, lambda part: _floats(2 * part), weak=True)
        words = f"With {names[i]} twice as large, the result should be the same, but is not"
        yield Relation(words, twice, _floats, weak=True)
        words = f"Adding 1 to all numbers of {names[i]} should not change the result, but does"
        yield Relation(words, _with(inputs, {i: value + 1}), _floats, weak=True)
    yield from _of_places(inputs, names, arrays)


def _of_places(inputs: Inputs, names: Mapping[int, str], arrays: Mapping[int, np.ndarray]) -> Iterator[Relation]:
    """One index along one of the last two axes of an input: at an end, or as another input says, such as `length`."""
    told = {names[i].strip("`"): value for i, value in enumerate(inputs) if type(value) is int and value > 0}
    for i, value in arrays.items():
        for axis in (-2, -1) if value.dtype.kind == "f" and value.ndim > 1 else ():
            inner = {name: at for name, at in told.items() if at < value.shape[axis] - 1}
            for name, at in {"0": 0, "-1": -1, **inner}.items():
                there = (..., at, slice(None)) if axis == -2 else (..., at)
                new = value.copy()
                new[there] = _another(value)[there]
                what = f"In some cases a change of `{names[i].strip('`')}[..., {name}{', :' * (axis == -2)}]` alone"
                changed = _with(inputs, {i: new})
                words = f"{what} does not change the result, but should"
                yield Relation(words, changed, changes=True, weak=True, of_place=True)
                words = f"{what} changes the result, but should not"
                yield Relation(words, changed, weak=True, of_place=True)


def _of_samples(inputs: Inputs, arrays: Mapping[int, np.ndarray], first: np.ndarray) -> Iterator[Relation]:
    n = len(first)
    if n < 2:
        return
    one, several = ("sample", "samples of the batch") if first.ndim > 2 or first.dtype.kind != "f" else ("row", "rows")
    ours = {i: value for i, value in arrays.items() if value.ndim > 1 and len(value) == n}
    others = {i: np.concatenate([a[:1], _another(a[1:])]) for i, a in ours.items() if a.dtype != bool}
    yield Relation(
        f"One {one}'s result depends on the other {several}",
        _with(inputs, others),
        lambda part: part[:1] if part.ndim and len(part) == n else None,
        lambda part: part[:1],
    )
    yield Relation(
        f"When the {several} are reordered, the results are not reordered in the same way",
        _with(inputs, {i: a[::-1].copy() for i, a in ours.items()}),
        lambda part: part[::-1] if part.ndim and len(part) == n else None,
    )


def _of_tokens(
    inputs: Inputs, names: Mapping[int, str], arrays: Mapping[int, np.ndarray], first: np.ndarray
) -> Iterator[Relation]:
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
        for i, value in arrays.items():
            words = f"Reordering the tokens of {names[i]} should not change the result, but does"
            if value is not first:
                yield Relation(words, _with(inputs, {i: turned[i]}))
        tokens_of = f" of {listed([names[i] for i in turned])}" if len(turned) > 1 else ""
        yield Relation(
            f"When the tokens{tokens_of} are reordered, the results are not reordered in the same way",
            _with(inputs, turned),
            lambda part: np.flip(part, axis) if along(part, slice(None)) is not None else None,
        )


def of_part(words: str, name: str) -> str:
    """A sentence on "the result" as one on a part of it, or, if that has no name, as it is."""
    if not name:
        return words
    said = words.replace("The result", "the result", 1).replace("the result", name)
    if name.endswith("s"):
        said = said.replace(f"{name} does", f"{name} do").replace(f"{name} is", f"{name} are")
        said = said.replace("but is not", "but are not") if f"{name} should" in said else said
    return as_sentence(said)


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


def reshaped(seen: Sequence[tuple[np.ndarray, np.ndarray]]) -> str:
    """What all results that do not fit have done to the right shape, as the end of a sentence; often nothing.

    Args:
        seen: of each, the result and the right one.
    """
    for words, shape_of, restored in _reshapings({expected.ndim for _, expected in seen}):
        if all(got.shape == shape_of(expected.shape) for got, expected in seen):
            same = all(
                np.allclose(restored(got, expected.shape), expected, 1e-4, 1e-6, equal_nan=True)
                for got, expected in seen
                if expected.dtype.kind == "f" and got.dtype.kind == "f"
            )
            return f"{words}; its numbers are right" if same and seen[0][0].dtype.kind == "f" else words
    return ""


def _reshapings(several: set[int]) -> Iterator[tuple[str, Callable[..., Any], Callable[..., np.ndarray]]]:
    """Ways to come to another shape from one of so many axes: in words, what becomes of it, and the way back."""

    def back(got: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return got.reshape(shape)

    n_axes = min(several)

    def axis(i: int) -> str:
        return "first" if i == 0 else "last" if i == n_axes - 1 else ("second", "third", "fourth", "fifth")[i - 1]

    def dropped(shape: tuple[int, ...], i: int) -> tuple[int, ...] | None:
        return (*shape[:i], *shape[i + 1 :]) if shape[i] == 1 else None

    for i in range(n_axes if len(several) == 1 else 0):  # before what comes to the same shape then
        yield f"lacks its {axis(i)} axis where that has length 1", lambda s, i=i: dropped(s, i), back
    if max(several) > 2:
        yield "has all its axes but the last merged into one", lambda s: (math.prod(s[:-1]), s[-1]), back
    if min(several) > 1:
        yield "has all its axes merged into one", lambda s: (math.prod(s),), back
        yield (
            "has its last two axes exchanged",
            lambda s: (*s[:-2], s[-1], s[-2]),
            lambda got, shape: got.swapaxes(-1, -2),
        )
    if len(several) > 1:
        return
    for i in range(n_axes - 1):
        merged = f"has its {axis(i)} two axes" if i == 0 else f"has its {axis(i)} and {axis(i + 1)} axis"
        yield f"{merged} merged into one", lambda s, i=i: (*s[:i], s[i] * s[i + 1], *s[i + 2 :]), back
    for i in range(n_axes + 1):
        where = "at the end" if i == n_axes else "in front" if i == 0 else f"before the {axis(i)}"
        yield f"has an axis of length 1 too many, {where}", lambda s, i=i: (*s[:i], 1, *s[i:]), back
    for i, j in itertools.combinations(range(n_axes), 2):
        yield (
            f"has its {axis(i)} and {axis(j)} axis exchanged",
            lambda s, i=i, j=j: tuple(s[{i: j, j: i}.get(n, n)] for n in range(len(s))),
            lambda got, shape, i=i, j=j: got.swapaxes(i, j),
        )
    nan = lambda got, shape: np.full(shape, np.nan)  # noqa: E731  # there is no way back
    for i in range(n_axes):
        yield f"lacks the {axis(i)} axis of the right one", lambda s, i=i: (*s[:i], *s[i + 1 :]), nan
        for by, words in ((-1, "one too few"), (1, "one too many")):
            yield f"has {words} along its {axis(i)} axis", lambda s, i=i, by=by: (*s[:i], s[i] + by, *s[i + 1 :]), nan
        yield f"has length 1 along its {axis(i)} axis", lambda s, i=i: (*s[:i], 1, *s[i + 1 :]), nan


def looks(
    pairs: Sequence[tuple[Arrays, Arrays, Sequence[np.ndarray]]],
    parts: Sequence[str],
    wrong_shape: bool = False,
    steady: Callable[[float], bool] = lambda least: True,
) -> Iterator[str]:
    """What can be said of wrong results, each as a sentence without its end; nothing, often.

    Args:
        pairs: of every case with a result in the right shape: the student's, the right one, and for each part where
            they differ.
        parts: their names, where there are several.
        wrong_shape: whether there are results of another shape besides.
        steady: whether more than a share differs when numbers are drawn anew, or, if that is 0, the same places.
    """
    wrong = [pair for pair in pairs if any(off.any() for off in pair[2])]
    if len(wrong) < 2:
        return
    if len(parts) > 1 and not wrong_shape:
        bad = [name for n, name in enumerate(parts) if any(off[n].any() for _, _, off in pairs)]
        if len(bad) < len(parts):
            good = [name for name in parts if name not in bad]
            yield as_sentence(
                f"{listed(good)} {verb_for(good, 'is')} right in every case, {listed(bad)} {verb_for(bad, 'is')} not"
            )
    seen = list[str]()
    for n in range(len(wrong[0][0])):
        those = [(g[n], e[n], off[n]) for g, e, off in wrong if off[n].any()]
        name = parts[n] if len(parts) > 1 else "the result"
        if len(those) > 1:
            numbers, be = ("only the numbers of ", "are") if wrong_shape else ("", verb(name, "is"))
            seen += _of_part(name, those, f"Where {numbers}{name} {be} wrong", steady)
    yield from sorted(seen, key=lambda sentence: " off" in sentence)  # how much is wrong says least


def _of_part(
    name: str,
    those: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
    where_wrong: str,
    steady: Callable[[float], bool],
) -> Iterator[str]:
    """The same of one part, over all cases where it is wrong: (got, expected, off). `where_wrong`: in words."""
    broken = [(g, e) for g, e, _ in those if g.dtype.kind == "f" and not np.isfinite(g[np.isfinite(e)]).all()]
    if len(broken) > 1:
        yield f"In {len(broken)} cases, {name} {verb(name, 'holds')} NaN or ∞ where there should be numbers"
    for (axis, which), at in itertools.product({0: "first", -2: "last but one", -1: "last"}.items(), (0, -1)):
        if place := _only_at(those, axis, at):  # as code: what an axis is called differs from task to task
            where = f"`[{'..., ' * (axis < 0)}{at}{', :' * (axis == -2)}]` is {place}"
            yield f"{where_wrong}, along its {which} axis only {where}{' as a whole' * (place == 'right')}"
    summed = all(e.ndim and e.dtype.kind == "f" and np.allclose(e.sum(-1), 1, atol=1e-6) for _, e, _ in those)
    if summed and not all(np.allclose(g.sum(-1), 1, atol=1e-4) for g, _, _ in those):
        across = all(g.ndim > 1 and np.allclose(g.sum(-2), 1, atol=1e-6) for g, _, _ in those)
        yield f"Each row of {name} should sum to 1; {'here each column does' if across else 'some do not'}"
    floats = [(g, e, off) for g, e, off in those if g.dtype.kind == e.dtype.kind == "f"]
    several = len(floats) == len(those) and all(g.size > 1 for g, _, _ in floats)
    far = max(_distance(e, g) for g, e, _ in those)
    slight = far < OTHER  # so that the right numbers themselves would pass for what has this or that done to them
    if not slight and all(_rows_reordered(g, e) for g, e, _ in those):
        yield f"{where_wrong}, its rows are the right ones in another order"
    elif not slight and len(floats) == len(those) and (function := _of_the_right_one(floats, where_wrong)):
        yield function
    elif not slight and several and (pattern := _pattern(name, floats, where_wrong)):
        yield pattern
    else:
        share = [float(off.mean()) for _, _, off in those]
        which = ""
        if min(share) == 1:
            which = "every value is"
        elif min(share) > NEARLY_ALL:
            which = "nearly every value is" if steady(NEARLY_ALL) else ""
        elif max(share) < 0.5:
            which = "less than half of its values are" if steady(0.0) else ""
        pronoun = "their" if verb(name, "is") == "are" else "its"
        near = f", by {far:.1g} of the largest value at most" if far < 0.05 else ""
        if near or (which and any(e.ndim for _, e, _ in those)):
            yield f"{where_wrong}, {which or pronoun + ' values are'} off{near}"


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "the exponential of": np.exp,
    "the logarithm of": np.log,
    "the square of": np.square,
    "the root of": np.sqrt,
    "1 divided by": np.reciprocal,
    "the absolute value of": np.abs,
}


def _centred(rows: np.ndarray) -> np.ndarray:
    return rows - rows.mean(-1, keepdims=True)


def _softmax(rows: np.ndarray) -> np.ndarray:
    shares = np.exp(rows - rows.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


OF_ROWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "the softmax of the right one": _softmax,
    "the logarithm of the softmax of the right one": lambda rows: np.log(_softmax(rows)),
    "the right one less its mean": _centred,
    "the right one brought to mean 0 and variance 1": lambda rows: _centred(rows) / rows.std(-1, keepdims=True),
    "the right one divided by its sum": lambda rows: rows / rows.sum(-1, keepdims=True),
    "the right one divided by its length": lambda rows: rows / np.linalg.norm(rows, axis=-1, keepdims=True),
    "the right one sorted": lambda rows: np.sort(rows, axis=-1),
    "the right one sorted downwards": lambda rows: -np.sort(-rows, axis=-1),
    "the right one from right to left": lambda rows: rows[..., ::-1],
    "the right one added up from left to right": lambda rows: rows.cumsum(-1),
}


def _of_the_right_one(those: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], where_wrong: str) -> str:
    """The function of the right numbers that all wrong ones of a part are; "" if there is none."""
    pairs = [(g[off].astype(float), e[off].astype(float)) for g, e, off in those]
    with np.errstate(all="ignore"):
        for words, function in FUNCTIONS.items():
            if all(np.allclose(got, function(expected), 1e-6, 1e-9, equal_nan=True) for got, expected in pairs):
                return f"{where_wrong}, every number is {words} the right one"
        for words, function in OF_ROWS.items():
            in_rows = all(e.ndim and e.shape[-1] > 1 for _, e, _ in those) and any(e.shape[-1] > 2 for _, e, _ in those)
            if in_rows and all(_in_place_of(got, function(e), e) for got, e, _ in those):
                return f"{where_wrong}, each row is {words}"
    return ""


def _in_place_of(got: np.ndarray, other: np.ndarray, expected: np.ndarray) -> bool:
    """Whether numbers are others in place of those that are expected, to a small part of what lies between."""
    close = np.allclose(got, other, 1e-3, 1e-6)
    return close and _distance(got, other) <= MOSTLY * _distance(expected, other)


def _pattern(name: str, those: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], where_wrong: str) -> str:
    """What all the wrong numbers of a part have in common; "" if nothing."""
    wrong = [g[off] for g, _, off in those]
    if all(np.ptp(g) == 0 and np.ptp(e) > 0 for g, e, _ in those):
        return f"All numbers of {name} are equal, and should not be"
    if all(np.allclose(g, -e, atol=1e-7) for g, e, _ in those):
        return as_sentence(f"{name} {verb(name, 'has')} the opposite sign")
    if all(np.allclose(np.sort(g, axis=None), np.sort(e, axis=None), atol=1e-7) for g, e, _ in those):
        return f"All values of {name} are there, but in the wrong places"
    values = np.concatenate(wrong)
    if values.size > 5 and np.ptp(values) < 1e-9:
        return f"{where_wrong}, every wrong value is {values[0]:.3g}"
    if all(np.array_equal(g, np.round(g)) and not np.allclose(e, np.round(e)) for g, e, _ in those):
        return f"All values of {name} are whole numbers, and should not be"
    factors = [_factor(g, e) for g, e, _ in those]
    if all(factors) and len({f"{factor:.3g}" for factor in factors}) > 1:
        shown = ", ".join(dict.fromkeys(f"{factor:.3g}" for factor in factors[:3]))
        return f"{where_wrong}, all values are the right ones times a number: {shown} …"
    return ""


def _rows_reordered(got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether what lies along the first axis is there, in another order."""
    if got.ndim < 2 or got.dtype.kind != expected.dtype.kind:
        return False
    rows = [np.round(part.reshape(len(part), -1).astype(float), 6) for part in (got, expected)]
    one, other = (part[np.lexsort(part.T)] for part in rows)
    return np.array_equal(one, other)


def _factor(got: np.ndarray, expected: np.ndarray) -> float:
    """The number by which all that is expected is multiplied; 0 if there is none."""
    factor = float((got * expected).sum() / max((expected * expected).sum(), 1e-300))
    return factor if np.isfinite(factor) and np.allclose(got, factor * expected, rtol=1e-5, atol=1e-9) else 0.0


def _only_at(those: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], axis: int, at: int) -> str:
    """Whether in all cases one index along an axis is right, or wrong, and all others are not."""
    kinds = set[str]()
    for _, _, off in those:
        if off.ndim < 2 or off.shape[axis] < 3 or (axis, off.ndim) == (0, 2):
            continue  # of two axes, the first is that of the rows
        other = tuple(a for a in range(off.ndim) if a != axis % off.ndim)
        here = np.asarray(off.any(other))
        rest = np.delete(here, at)
        kinds.add("wrong" if here[at] and not rest.any() else "right" if not here[at] and rest.all() else "")
    return kinds.pop() if len(kinds) == 1 and len(those) > 1 else ""


def listed(names: Sequence[str]) -> str:
    """Names as they stand in a sentence: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def verb_for(names: Sequence[str], singular: str) -> str:
    """A verb in the form that goes with what is named: "the share is", "the losses are", "q and k are"."""
    return verb(names[0], singular) if len(names) == 1 else PLURAL[singular]


def verb(name: str, singular: str) -> str:
    """A verb in the form that goes with one name, which may be a plural."""
    return PLURAL[singular] if name.endswith("s") else singular


def as_sentence(text: str) -> str:
    """With a capital letter at its beginning, unless it begins with a name of the student's code."""
    return f"{text[0].upper()}{text[1:]}" if text.startswith(("the ", "what ")) else text
