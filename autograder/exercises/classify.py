"""classify: how well the trained model reads digits that it never had (lab 7)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.exercise import Call, Case, Criterion, Exercise
from autograder.exercises import digits_tried, misread
from autograder.exercises.data import unseen_digits

DRAWN = 900  # of the judge's 1,000 digits: so many that the draw moves the accuracy by a few tenths of a point
ALONE = 12  # of them, asked about once more


def cases(rng: np.random.Generator) -> list[Case]:
    """All digits that were drawn, and the first few of them once more, each alone.

    Each is paler by an amount of its own, so that none can be looked up; four in five stand a pixel beside their place,
    the same ones at every check, so that no luck is in it.
    """
    images, labels = unseen_digits()
    chosen = rng.choice(len(images), DRAWN, replace=False)
    images = digits_tried.moved(images)[chosen] * digits_tried.paler(rng, DRAWN)
    labels = labels[chosen]

    def case(label: str, part: slice) -> Case:
        return Case("ninety", label, (images[part],), dtype="float32", answer=labels[part])

    return [case(f"{DRAWN} digits", slice(DRAWN)), *(case(f"digit {i} alone", slice(i, i + 1)) for i in range(ALONE))]


Cases = tuple[Case, ...]
Outputs = tuple[np.ndarray | None, ...]


def _read_right(cases: Cases, outputs: Outputs) -> tuple[int, float, str]:
    """How many digits are read right, the share of those alone that are read as among the others, and a note.

    A digit alone is read by its ten logits where the batch axis is missing, too: another criterion is about the shape.
    """
    among, *alone = outputs
    if among is None or among.shape != (DRAWN, 10):
        return 0, 0.0, "there are no logits of ten classes for every digit"
    if any(own is None or own.shape not in ((1, 10), (10,)) for own in alone):
        return 0, 0.0, "there are no logits of ten classes for a digit alone"
    if (logits := _logits(outputs)) is None:
        return 0, 0.0, "the logits hold NaN or infinity"
    among, alone = logits
    read, labels = among.argmax(1), cases[0].answer
    right = int((read == labels).sum())
    same = float(np.mean(alone.argmax(1) == read[:ALONE]))
    return right, same, f"{misread.percent(right / DRAWN)} of {DRAWN} digits are read right"


def _logits(outputs: Outputs) -> tuple[np.ndarray, np.ndarray] | None:
    """The logits of all digits, and of those alone; None where some are missing, or no numbers."""
    among, *alone = outputs
    if among is None or among.shape != (DRAWN, 10) or any(own is None or own.size != 10 for own in alone):
        return None
    both = np.asarray(among, dtype=float), np.stack([np.asarray(own, dtype=float).reshape(10) for own in alone])
    return both if all(np.isfinite(some).all() for some in both) else None


LEVELS = (90, 95, 97)


def _at_least(percent: int) -> Callable[[Cases, tuple[Any, ...]], tuple[bool, str]]:
    def measure(cases: Cases, outputs: tuple[Any, ...]) -> tuple[bool, str]:
        right, same, note = _read_right(cases, outputs)
        enough = 100 * right >= percent * DRAWN
        if enough and 100 * same < percent:
            return False, f"{note}, but {misread.otherwise_alone(round(ALONE * (1 - same)), ALONE)}"
        return enough, note if percent == LEVELS[0] or not enough else ""

    return measure


def _remarks(cases: Cases, outputs: tuple[Any, ...], call: Call) -> str:
    """What stands out in the results, and, where that explains nothing, what other images show."""
    if (logits := _logits(outputs)) is None:
        return ""
    note = _read_right(cases, outputs)[-1]
    clause, explained = misread.stands_out(*logits, cases[0].answer)
    more = "" if explained else digits_tried.remarks(cases[0].inputs[0], cases[0].answer, logits[0], call)
    return f"{note}{clause}. {more}" if more else f"{note}{clause}"


CLASSIFY = Exercise(
    name="classify",
    returns="a tensor of logits, (batch, 10)",
    shape=lambda case: (len(case.answer), 10),
    criteria=(
        Criterion("shape", "runs, and the result has the shape (batch, 10)", 0.1),
        Criterion("ninety", f"reads at least {LEVELS[0]} % of the check's digits", 0.4, _at_least(LEVELS[0])),
        Criterion("ninety_five", f"reads at least {LEVELS[1]} % of them", 0.3, _at_least(LEVELS[1])),
        Criterion("ninety_seven", f"reads at least {LEVELS[2]} % of them", 0.2, _at_least(LEVELS[2])),
    ),
    mistakes=(),
    cases=cases,
    reference=None,
    remarks=_remarks,
    seconds=30.0,
)
