"""Logits to draw a token from, and a top_p, for which rounding does not decide what is kept (lab 10)."""

import numpy as np


def logits_of(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """No two of a row nearer to each other than float32 tells, and no row in the order of the vocabulary."""
    batch, n = shape
    gaps = (rng.uniform(0.15, 0.9, shape) * min(1.0, 9 / n)).cumsum(axis=1)  # so that the last still count
    rows = rng.permuted(gaps, axis=1)
    for row in rows:
        while n > 2 and (np.all(np.diff(row) > 0) or np.all(np.diff(row) < 0)):
            rng.shuffle(row)
    return rows - rng.uniform(0.0, 2.0, (batch, 1))


def top_p_between(rng: np.random.Generator, logits: np.ndarray, temperature: float, top_k: int | None) -> float:
    """A top_p that lies well between two sums of the likeliest tokens in every row, with or without top_k."""
    scores = np.sort(logits / temperature, axis=1)[:, ::-1]
    candidates = np.linspace(0.5, 0.93, 87)
    sums = np.concatenate([_sums(scores), _sums(scores[:, :top_k])], axis=1).ravel()
    margins = np.abs(sums[:, None] - candidates).min(axis=0)
    best = np.argsort(margins)[-4:]
    return round(float(candidates[rng.choice(best)]), 2)


def _sums(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True)).cumsum(axis=1)
