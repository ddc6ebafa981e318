"""What the exercises share that are written in NumPy: backwards of softmax, LayerNorm and attention (lab 9)."""

import numpy as np

from autograder.exercise import Case
from autograder.exercises.known import operations, overwritten
from headroom.reference import by_hand

# What others have that does the differentiating, or the layer, forwards and backwards, by what runs.
AUTOGRAD = operations("softmax|(layer|batch|group|instance|rms)_norm|attention|attn") | {"backward", "grad"}
AUTOGRAD_REASON = "The task is to write the derivative out yourself, in NumPy."

OVERWRITTEN = overwritten(
    "contract",
    look="Look for `-=`, `*=`, `/=`, `out=`, or values assigned to a part of an argument.",
    topic="sequence_loss",
)


def tolerance(case: Case, expected: np.ndarray) -> float:
    """All that is given is float64, and what is asked for is a formula."""
    return 1e-8


def shares(
    rng: np.random.Generator, shape: tuple[int, ...], hidden: str | None = None, size: float = 1.0
) -> np.ndarray:
    """Rows of weights, as a softmax gives them; some of the keys of each row can be hidden, or all but one."""
    scores = size * rng.normal(size=shape).clip(-2.0, 2.0)  # no row is nearly sure by luck
    if hidden and shape[-1] > 1:
        seen = rng.integers(1, shape[-1], (*shape[:-1], 1)) if hidden == "some" else 1
        last = np.broadcast_to(np.arange(shape[-1]) >= seen, shape)
        scores[rng.permuted(last, axis=-1)] = -np.inf  # anywhere in the row
    return by_hand.softmax(scores)


def sums_to_0(rows: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):  # infinities of two signs sum to NaN, which is not 0 either
        return bool(np.all(np.abs(rows.sum(-1)) <= 1e-4 * max(1e-3, float(np.abs(rows).max()))))
