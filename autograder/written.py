"""Texts of token ids that a student's code writes: where they go wrong first, and what those places have in common."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

MIN_ROWS, MANY_ROWS = 4, 12  # of ids, to say what all wrong ones have in common, and what has much to be so by chance


@dataclass(frozen=True)
class Written:
    """A result of token ids, a row for each text, of one case.

    Attributes:
        got, right: the student's, and the right one.
        begun: how many ids of each row were given.
        marks: the ids that were given by name, such as that of the end.
        before: ids that were given, for each row, and are no part of it.
    """

    got: np.ndarray
    right: np.ndarray
    begun: int
    marks: Mapping[str, int]
    before: np.ndarray

    def earlier(self, row: int, place: int) -> list[int]:
        """The right ids before a place, with those that were given."""
        return [*self.before[row].tolist(), *self.right[row, :place].tolist()]


def _is_constant(ids: np.ndarray) -> bool:
    return bool((ids == ids[0]).all())


def first_wrong(name: str, seen: Sequence[Written]) -> Iterator[str]:
    """What the first wrong ids of all wrong rows have in common, each as a sentence without its end."""
    rows = list[tuple[Written, int, int, int, int]]()
    for case in seen:  # a row may be too short or too long besides, as others are
        off = np.array([g != r for g, r in zip(case.got.T, case.right.T, strict=False)], bool).T
        rows += [
            (case, row, place := int(off[row].argmax()), int(case.got[row, place]), int(case.right[row, place]))
            for row in map(int, np.flatnonzero(off.any(-1)))
        ]
    if len(rows) < MIN_ROWS or len({id(case) for case, *_ in rows}) < 2:
        return
    fits = all(case.got.shape == case.right.shape for case in seen)
    row_of = f"wrong row of {name}" if fits else f"row of {name} with a wrong id"
    if all(_is_constant(case.got[row]) and not _is_constant(case.right[row]) for case, row, *_ in rows):
        yield f"Each {row_of} holds one id again and again"
    begins = [(case.got[row], case.before[row]) for case, row, *_ in rows]
    begins = [(got[: len(given)], given[: len(got)]) for got, given in begins]
    if sum(len(given) for _, given in begins) >= MANY_ROWS and all(
        np.array_equal(*pair) and len(pair[0]) for pair in begins
    ):
        yield f"Each {row_of} begins with the ids that were given"
    for words, ours, theirs in (("later", slice(1, None), slice(-1)), ("earlier", slice(-1), slice(1, None))):
        pairs = [(case.got[row, ours], case.right[row, theirs]) for case, row, *_ in rows]
        moved = fits and all(map(np.array_equal, *zip(*pairs, strict=True)))
        if moved and sum(len(got) for got, _ in pairs) >= MANY_ROWS:
            yield f"Each {row_of} holds the right ids, one place {words}"
    for mark in rows[0][0].marks:
        ends = [case.marks.get(mark) for case, *_ in rows]
        stands = [got == end for (*_, got, _), end in zip(rows, ends, strict=True)]
        should = [right == end for (*_, right), end in zip(rows, ends, strict=True)]
        if all(stands):
            yield f"Each {row_of} goes wrong first with `{mark}`, where another id is right"
        elif all(should):
            yield f"Each {row_of} goes wrong first where `{mark}` is right"
        elif all(a or b for a, b in zip(stands, should, strict=True)):
            yield f"Each {row_of} goes wrong first with `{mark}`, or where `{mark}` is right"
    before = [(right, case.earlier(row, place)) for case, row, place, _, right in rows]
    if all(right in earlier[-1:] for right, earlier in before):
        yield f"Each {row_of} goes wrong first where the same id is right again"
    elif len(rows) >= MANY_ROWS and all(right in earlier for right, earlier in before):
        yield f"Each {row_of} goes wrong first where an id is right that has come before"
    places = {place - case.begun for case, _, place, *_ in rows}
    if places == {0}:
        yield f"In each {row_of}, already the first id {'that is added ' * any(c.begun for c, *_ in rows)}is wrong"
    elif len(places) == 1 and (place := places.pop()) > 0 and not any(case.begun for case, *_ in rows):
        right = "id is" if place == 1 else f"{place} ids are"
        yield f"In each {row_of}, the first {right} right, and the next is wrong"
