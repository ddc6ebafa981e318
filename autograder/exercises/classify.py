"""classify: how well the trained model reads digits that it never had (lab 7)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from autograder.exercise import Case, Criterion, Exercise
from autograder.exercises.data import unseen_digits

DRAWN = 900  # of the judge's 1,000 digits: so many that the draw moves the accuracy by a few tenths of a point
ALONE = 12  # of them, asked about once more
MOVES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))


def cases(rng: np.random.Generator) -> list[Case]:
    """All digits that were drawn, and the first few of them once more, each alone.

    Each is paler by an amount of its own, so that none can be looked up; four in five stand a pixel beside their place,
    the same ones at every check, so that no luck is in it.
    """
    images, labels = unseen_digits()
    images = np.stack([np.roll(image, MOVES[i % len(MOVES)], (0, 1)) for i, image in enumerate(images)])
    chosen = rng.choice(len(images), DRAWN, replace=False)
    images = images[chosen] * rng.uniform(0.85, 1.0, (DRAWN, 1, 1)).astype(np.float32)
    labels = labels[chosen]

    def case(label: str, part: slice) -> Case:
        return Case("ninety", label, (images[part],), dtype="float32", answer=labels[part])

    return [case(f"{DRAWN} digits", slice(DRAWN)), *(case(f"digit {i} alone", slice(i, i + 1)) for i in range(ALONE))]


def _read_right(cases: tuple[Case, ...], outputs: tuple[np.ndarray | None, ...]) -> tuple[int, float, str]:
    """How many digits are read right, the share of those alone that are read as among the others, and a sentence that
    says what stands out."""
    if any(o is None or o.shape != (len(c.answer), 10) for c, o in zip(cases, outputs, strict=True)):
        return 0, 0.0, "there are no logits of ten classes for every digit"
    logits, *alone = (np.asarray(output, dtype=float) for output in outputs)
    if not all(np.isfinite(some).all() for some in (logits, *alone)):
        return 0, 0.0, "the logits hold NaN or infinity"
    labels, read = cases[0].answer, logits.argmax(1)
    right = int((read == labels).sum())
    same = float(np.mean([scores.argmax() == among for scores, among in zip(alone, read, strict=False)]))
    note = f"{1000 * right // len(labels) / 10:.1f} % of {len(labels)} digits are read right"  # never rounded up
    if len(set(read.tolist())) == 1:
        note += f": every digit is called a {read[0]}"
    elif (off := next((k for k in range(1, 10) if ((read - k) % 10 == labels).mean() > 0.5), None)) is not None:
        note += f": a 0 is called a {off}, so the logits do not stand in the order of the labels"
    elif (logits.argmin(1) == labels).mean() > 0.5:
        note += ", and most have their lowest logit at the right class"
    elif right < 0.2 * len(labels):
        note += ", which is guessing: was this model trained, and to the end?"
    elif same < 1:
        note += f", but {round(ALONE * (1 - same))} of {ALONE} are read otherwise when they come alone"
    return right, same, note


LEVELS = (90, 95, 97)


def _at_least(percent: int) -> Callable[[tuple[Case, ...], tuple[Any, ...]], tuple[bool, str]]:
    def measure(cases: tuple[Case, ...], outputs: tuple[Any, ...]) -> tuple[bool, str]:
        right, same, note = _read_right(cases, outputs)
        holds = 100 * right >= percent * DRAWN and 100 * same >= percent
        return holds, note if percent == LEVELS[0] or not holds else ""

    return measure


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
    seconds=30.0,
)
