"""What other images show where digits are read wrong: changed ones, and some of those to train on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from autograder.exercise import Call
from autograder.exercises.misread import CLEAR, confidence, percent
from headroom.data import embedded_digits

SOME = 60  # digits with which each change is tried first
MOVES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))
Images = np.ndarray
Change = tuple[str, str, Callable[[Images], Images]]  # what is changed; as if what were otherwise; how


def moved(images: Images) -> Images:
    """Four in five stand a pixel beside their place."""
    return np.stack([np.roll(image, MOVES[i % len(MOVES)], (0, 1)) for i, image in enumerate(images)])


def paler(rng: np.random.Generator, n: int) -> np.ndarray:
    """By what n images are multiplied, to be paler by an amount of their own."""
    return rng.uniform(0.85, 1.0, (n, 1, 1)).astype(np.float32)


def _shifted(down: int, right: int) -> Change:
    def way(n: int, there: str, back: str) -> list[str]:
        return [there if n > 0 else back] if n else []

    by = " and ".join(way(down, "down", "up") + way(right, "right", "left"))
    back = " and ".join(way(-down, "down", "up") + way(-right, "right", "left"))
    size = max(abs(down), abs(right))
    return (
        f"the images moved {by} by {size} pixels",
        f"they were moved {back} on the way",
        lambda x: np.roll(x, (down, right), (1, 2)),
    )


def _patches(images: Images, size: int, order: tuple[int, ...]) -> Images:
    """The axes of patches (grid rows, rows in a patch, grid columns, columns in a patch) in another order."""
    n = 28 // size
    return images.reshape(-1, n, size, n, size).transpose(0, *(1 + axis for axis in order)).reshape(-1, 28, 28)


MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's pixels, by which many normalise
NORMALISED = f"(x − {MEAN}) / {DEVIATION}"
TURNED: tuple[Change, ...] = (
    ("the images transposed", "rows and columns were exchanged on the way", lambda x: x.transpose(0, 2, 1)),
    ("the images mirrored left to right", "they were mirrored so on the way", lambda x: x[:, :, ::-1]),
    ("the images mirrored top to bottom", "they were mirrored so on the way", lambda x: x[:, ::-1]),
    ("the images turned by half", "they were turned so on the way", lambda x: x[:, ::-1, ::-1]),
    (
        "the images turned a quarter to the left",
        "they were turned to the right on the way",
        lambda x: np.rot90(x, 1, (1, 2)),
    ),
    (
        "the images turned a quarter to the right",
        "they were turned to the left on the way",
        lambda x: np.rot90(x, -1, (1, 2)),
    ),
)
PIXELS: tuple[Change, ...] = (
    ("the images inverted (1 − x)", "ink and paper were exchanged on the way", lambda x: 1 - x),
    *(
        change
        for n in (4, 10, 255)
        for change in (
            (f"the pixels multiplied by {n}", "the model got pixel values that are too small", lambda x, n=n: n * x),
            (f"the pixels divided by {n}", "the model got pixel values that are too large", lambda x, n=n: x / n),
        )
    ),
    (
        f"the pixels mapped by {DEVIATION}x + {MEAN}",
        f"they were normalised, {NORMALISED}, for a model that was trained without that",
        lambda x: DEVIATION * x + MEAN,
    ),
    (
        f"the pixels normalised, {NORMALISED},",
        "the model was trained with pixels normalised so, and got others",
        lambda x: (x - MEAN) / DEVIATION,
    ),
    (
        "the pixels mapped by (x + 1) / 2",
        "the model got pixels from −1 to 1, and was trained with 0 to 1",
        lambda x: (x + 1) / 2,
    ),
    (
        "the pixels mapped by 2x − 1",
        "the model got pixels from 0 to 1, and was trained with −1 to 1",
        lambda x: 2 * x - 1,
    ),
    (
        "the images made black and white (pixels of 0 or 1)",
        "shades of grey were lost on the way",
        lambda x: (x > 0.5).astype(np.float32),
    ),
)
IN_PATCHES: tuple[Change, ...] = tuple(
    change
    for size in (4, 7, 14)
    for change in (
        (
            f"the grid of {size} × {size}-pixel patches transposed",
            "patches were read column by column",
            partial(_patches, size=size, order=(2, 1, 0, 3)),
        ),
        (
            f"each patch of {size} × {size} pixels transposed",
            "rows and columns were exchanged within patches",
            partial(_patches, size=size, order=(0, 3, 2, 1)),
        ),
    )
)
SHIFTED = tuple(_shifted(y, x) for n in (2, 4) for y in (-n, 0, n) for x in (-n, 0, n) if y or x)
CHANGES: tuple[Change, ...] = (*TURNED, *PIXELS, *IN_PATCHES, *SHIFTED)


def _averaged(images: Images, size: int) -> Images:
    n = 28 // size
    means = images.reshape(-1, n, size, n, size).mean((2, 4))
    return means.repeat(size, 1).repeat(size, 2)


def _without(images: Images, rows: slice, columns: slice) -> Images:
    images = images.copy()
    images[:, rows, columns] = 0
    return images


EVERY, FIRST, LAST = slice(None), slice(14), slice(14, None)
KEEPS: tuple[tuple[str, tuple[Callable[[Images], Images], ...]], ...] = (  # what is said where no result is another
    (
        "The results stay the same where the quarters of each image change places: "
        "where a part lies makes no difference, as without positions",
        (lambda x: np.roll(x, 14, 1), lambda x: np.roll(x, 14, 2)),
    ),
    *(
        (
            f"The results stay the same where each block of {n} × {n} pixels is given its mean: "
            "what is finer does not reach the model",
            (partial(_averaged, size=n),),
        )
        for n in (7, 4, 2)
    ),
    *(
        (
            f"The results stay the same where the {half} of each image is left empty: it is not looked at",
            (partial(_without, rows=rows, columns=columns),),
        )
        for half, rows, columns in (
            ("upper half", FIRST, EVERY),
            ("lower half", LAST, EVERY),
            ("left half", EVERY, FIRST),
            ("right half", EVERY, LAST),
        )
    ),
)


def remarks(images: Images, labels: np.ndarray, logits: np.ndarray, call: Call) -> str:
    """A sentence or two on what other images show, where too few of these are read right; "" where they show nothing.

    Args:
        images: that were read wrong, `(n, 28, 28)`.
        labels: what they are.
        logits: what came of them, finite.
        call: has images read.
    """

    def read(*stacks: Images) -> list[np.ndarray | None]:
        return [_logits(got, len(x)) for got, x in zip(call([(_plain(x),) for x in stacks]), stacks, strict=True)]

    def right(got: np.ndarray | None, of: np.ndarray) -> float:
        return 0.0 if got is None else float((got.argmax(1) == of).mean())

    share, few = right(logits, labels), images[:SOME]
    kept = [change for _, changes in KEEPS for change in changes]
    first, *others = read(few, *(how(few) for *_, how in CHANGES), *(how(few) for how in kept))
    if first is None:
        return ""
    among = int((logits[:SOME].argmax(1) == labels[:SOME]).sum())
    own = round(SOME * right(first, labels[:SOME]))
    if own >= CLEAR * SOME and among <= own - SOME / 4:
        return f"Without the others, {own} of the first {SOME} are read right; among them, {among} of these"
    if share < CLEAR:
        shares = [right(got, labels[:SOME]) for got in others[: len(CHANGES)]]
        best = sorted(range(len(CHANGES)), key=lambda i: -shares[i])[:2]
        likely = [i for i in best if shares[i] >= CLEAR - 0.1]
        tried = [
            (right(got, labels), i)
            for got, i in zip(read(*(CHANGES[i][2](images) for i in likely)), likely, strict=True)
        ]
        if tried and max(tried)[0] >= max(CLEAR, share + 0.1):
            by, i = max(tried)
            what, as_if, _ = CHANGES[i]
            return f"With {what} before `classify` gets them, {percent(by)} are read right: as if {as_if}"
    if (spread := first.std(0).max()) > 0 and len(np.unique(first, axis=0)) == SOME:  # no mere decisions
        same = [got is not None and np.abs(got - first).max() <= 1e-3 * spread for got in others[len(CHANGES) :]]
        for sentence, changes in KEEPS:
            if all([same.pop(0) for _ in changes]):
                return sentence
    return _of_training(logits, labels, share, read, right)


def _of_training(logits: np.ndarray, labels: np.ndarray, share: float, read: Any, right: Any) -> str:
    """What the logits hold all the same, or how many of the digits to train on are read right."""
    if share < 0.5 and (held := _fitted(logits, labels)) >= CLEAR:
        return (
            f"A linear map of these logits, fitted to half of the digits, reads {percent(held)} of the other half: the "
            "model tells them apart, but its logits do not say which is which. Was its last layer trained?"
        )
    spread = logits.std(0).max()
    if share < 0.2 and spread > 1e-3 and confidence(logits) < 0.4:  # so unsure is none that has learned
        flat = f"The logits hardly differ from digit to digit (standard deviation {spread:.2g} at most): w"
        return (flat if spread < 0.5 else "W") + "as this model trained, and to the end?"
    if share <= 0.125:  # 2.5 standard deviations more than by guessing
        return ""
    digits = embedded_digits()
    images, of = digits.train_images[:, 0].numpy(), digits.train_labels.numpy()
    spread_out = np.arange(0, len(of), max(1, len(of) // 300))[:300]
    own, of, n = images[spread_out], of[spread_out], len(spread_out)
    first, plain, checked = (
        right(got, digits.train_labels.numpy()[:n] if i == 0 else of)
        for i, got in enumerate(read(images[:n], own, moved(own) * paler(np.random.default_rng(0), n)))
    )
    said = f"Of {n} of the digits to train on, {percent(plain)} are read right"
    if first >= plain + 0.15:
        return f"{said}, of the first {n} of them {percent(first)}: was it trained on a part of them only?"
    if plain <= share + 0.04:
        return f"{said}: {'hardly' if plain > share else 'no'} more than of the check's"
    if plain >= CLEAR and checked <= plain - 0.08:
        return (
            f"{said} as they are, and {percent(checked)} when they are moved by a pixel and paler, as the check's are"
        )
    if min(plain, checked) >= share + 0.06:
        return (
            f"{said}, moved and paler as the check's are {percent(checked)}: new digits are read less well than those"
        )
    return ""


def _fitted(logits: np.ndarray, labels: np.ndarray) -> float:
    """The share of digits that a linear map of the logits reads, each half by the map that fits the other."""
    scale = logits.std(0)
    columns = np.hstack([(logits - logits.mean(0)) / np.where(scale > 0, scale, 1), np.ones((len(labels), 1))])
    hits, wanted = [], np.eye(10)[labels]
    if not np.isfinite(columns).all():
        return 0.0
    for own, other in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
        fitted = np.linalg.lstsq(columns[own], wanted[own], rcond=None)[0]
        hits.append((columns[other] @ fitted).argmax(1) == labels[other])
    return float(np.concatenate(hits).mean())


def _plain(images: Images) -> Images:
    return np.ascontiguousarray(images, dtype=np.float32)


def _logits(got: Any, n: int) -> np.ndarray | None:
    """What came of n images, if it is logits of ten classes."""
    if got is None or got.shape != (n, 10):
        return None
    logits = np.asarray(got, dtype=float)
    return logits if np.isfinite(logits).all() else None
