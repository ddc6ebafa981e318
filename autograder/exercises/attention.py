"""What the exercises on attention share: queries, keys and masks to try, tokens of extreme scores, some mistakes."""

import numpy as np

from autograder.exercise import Case, Mistake
from autograder.exercises.known import mistake, operations, overwritten

# Functions of torch that are the whole of attention.
FORBIDDEN = operations("attention|attn") | {"multi_head_attention_forward"}


def queries_and_keys(
    rng: np.random.Generator, lead: tuple[int, ...], n_queries: int, n_keys: int, d_k: int, size: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys of any number of leading axes; of size 1, the softmax of their scores is no choice of one."""
    return rng.normal(0.0, size, (*lead, n_queries, d_k)), rng.normal(0.0, size, (*lead, n_keys, d_k))


def said(lead: tuple[int, ...], n_queries: int, n_keys: int, d_k: int) -> str:
    """Their sizes, for a label."""
    front = {0: "no leading axes", 1: f"batch {lead[0]}" if lead else ""}.get(len(lead), f"leading axes {lead}")
    return f"{front}, {n_queries} queries, {n_keys} keys, d_k {d_k}"


def extreme(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Tokens whose queries and keys have scores of about ±10⁵, whatever the maps.

    There exp overflows unless each row's maximum is taken off, and a token that sees few keys has only scores below
    −10⁴: a hidden score of −100 or −10⁴ would win. To be tried in float64 only (`Case.single`).
    """
    return rng.normal(0.0, 200.0, shape)


def tolerance(case: Case, expected: np.ndarray) -> float:
    """Of code that computes in float32 inside, scores of ±10⁵ are right to a hundredth only."""
    return 1e-5 if case.single else 1e-3


def masked(kind: str, batch: int, queries: int, keys: int, rng: np.random.Generator) -> np.ndarray:
    """A mask in which each query sees a key; of padding, the first text or the last is the longest.

    Filler follows a text, or precedes it. `"both"`: padding that follows, and causal. `"for all"`: one axis, as all
    queries of all texts see the same keys.
    """
    if kind == "for all":
        return masked("random", 1, 1, keys, rng)[0, 0]
    if kind == "causal":
        return np.tril(np.ones((queries, keys), dtype=bool))
    if kind == "both":
        real = np.arange(keys) < rng.integers(1, keys + 1, batch)[:, None, None]
        return real & masked("causal", batch, queries, keys, rng)
    if kind == "padding":
        lengths = np.sort(rng.integers(1, keys + 1, batch))[:: int(rng.choice([-1, 1]))]
        places = np.arange(keys)[:: int(rng.choice([-1, 1]))]
        return places < lengths[:, None, None]
    may = rng.random((batch, queries, keys)) < 0.5
    return may | (np.arange(keys) == rng.integers(keys, size=(batch, queries, 1)))


OVERWRITTEN = overwritten("contract")


def detached(change: str) -> Mistake:
    return mistake(
        "project_qkv.detached",
        "Look for `detach`, `no_grad`, `.data`, `.item()`, `.numpy()` or a new tensor made of an old one's numbers.",
        change=change,
        costs=("gradients",),
    )
