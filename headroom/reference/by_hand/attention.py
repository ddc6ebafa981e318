"""Scaled dot-product attention. Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1."""

import math

import numpy as np

from headroom.reference.by_hand.arguments import check_floats, check_shape
from headroom.reference.by_hand.softmax import masked_softmax, softmax_backward


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, valid_lengths: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """out = weights v with weights = softmax(q kᵀ / √d_head): every query takes a weighted mean of the values.

    Args:
        q: queries `(batch, ..., n_queries, d_head)`; before the queries there may be heads.
        k: keys `(batch, ..., n_keys, d_head)`.
        v: values `(batch, ..., n_keys, d_value)`.
        valid_lengths: int `(batch,)` or `(batch, n_queries)`, how many of the keys count; None: all.

    Returns:
        out `(batch, ..., n_queries, d_value)` and weights `(batch, ..., n_queries, n_keys)`.

    Raises:
        TypeError: q, k or v that are not floating, valid lengths that are not integers.
        ValueError: shapes that do not fit, valid lengths outside of 1 … n_keys.

    Source: Vaswani et al. 2017, equation 1.
    """
    check_floats(q=q, k=k, v=v)
    check_shapes(q, k, v)
    scores = q @ k.swapaxes(-2, -1) / math.sqrt(q.shape[-1])  # (batch, ..., n_queries, n_keys)
    weights = masked_softmax(scores, valid_lengths)
    return weights @ v, weights


def attention_backward(
    d_out: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The forward's lines in reverse order, a product a b giving d_a = d_out bᵀ and d_b = aᵀ d_out:

    out = weights v gives d_weights = d_out vᵀ and d_v = weightsᵀ d_out; the softmax gives d_scores;
    scores = q kᵀ / √d_head gives d_q = d_scores k / √d_head and d_k = d_scoresᵀ q / √d_head.

    No valid lengths are asked for: a key that was hidden has weight 0, and with it gradient 0.

    Args:
        d_out: `(batch, ..., n_queries, d_value)`.
        q, k, v: as the forward got them.
        weights: `(batch, ..., n_queries, n_keys)`, as the forward returned them.

    Returns:
        d_q, d_k, d_v, shaped as q, k and v.

    Source: the chain rule on Vaswani et al. 2017, equation 1; Dao et al. 2022, "FlashAttention", appendix B.2.
    """
    check_floats(d_out=d_out, q=q, k=k, v=v, weights=weights)
    check_shapes(q, k, v)
    check_shape("d_out", d_out, (*q.shape[:-1], v.shape[-1]))
    d_weights = d_out @ v.swapaxes(-2, -1)  # (batch, ..., n_queries, n_keys)
    d_v = weights.swapaxes(-2, -1) @ d_out  # (batch, ..., n_keys, d_value)
    d_scores = softmax_backward(d_weights, weights) / math.sqrt(q.shape[-1])
    d_q = d_scores @ k  # (batch, ..., n_queries, d_head)
    d_k = d_scores.swapaxes(-2, -1) @ q  # (batch, ..., n_keys, d_head)
    return d_q, d_k, d_v


def check_shapes(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
    """ValueError unless queries and keys are equally wide, keys and values equally many, all in equal batches."""
    if q.shape[:-2] != k.shape[:-2] or q.shape[-1] != k.shape[-1] or k.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"q, k and v have shapes {q.shape}, {k.shape} and {v.shape}; they must be (batch, ..., n_queries, d_head), "
            "(batch, ..., n_keys, d_head) and (batch, ..., n_keys, d_value)"
        )
