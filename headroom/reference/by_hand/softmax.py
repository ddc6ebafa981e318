"""The softmax, and the softmax that looks at the first few keys only.

Bridle 1990, "Training Stochastic Model Recognition Algorithms as Networks"; valid lengths as in Zhang et al.,
"Dive into Deep Learning", section 11.3.2.
"""

import numpy as np

from headroom.reference.by_hand.arguments import check_floats, check_indices, check_shape


def softmax(scores: np.ndarray) -> np.ndarray:
    """weights_j = exp(s_j) / Σ_k exp(s_k): positive, and each row sums to 1.

    Args:
        scores: `(..., n_keys)`; −inf gives a weight of exactly 0.

    Returns:
        weights `(..., n_keys)`.

    Source: Bridle 1990.
    """
    check_floats(scores=scores)
    highest = scores.max(axis=-1, keepdims=True)  # (..., 1): taken off every score, it cancels, and exp stays ≤ 1
    exponentials = np.exp(scores - highest)  # (..., n_keys)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def softmax_backward(d_weights: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """d_s_j = w_j (d_w_j − Σ_k d_w_k w_k): what a score does to its own weight, less what it takes from the others'.

    The derivative of weight k by score j is w_k (1 − w_j) for k = j and −w_k w_j for the others; summed over k with
    d_w_k, only the two terms above remain. Each row of d_scores sums to 0: one number added to all scores is no change.

    It is the masked softmax's backward too: where the weight is 0, so is the gradient.

    Args:
        d_weights: `(..., n_keys)`.
        weights: `(..., n_keys)`, what `softmax` or `masked_softmax` returned.

    Returns:
        d_scores `(..., n_keys)`.

    Source: the chain rule on Bridle 1990; Dao et al. 2022, "FlashAttention", appendix B.2.
    """
    check_floats(d_weights=d_weights, weights=weights)
    check_shape("d_weights", d_weights, weights.shape)
    expected = (d_weights * weights).sum(axis=-1, keepdims=True)  # (..., 1): the mean of d_weights, by weight
    return weights * (d_weights - expected)


def masked_softmax(scores: np.ndarray, valid_lengths: np.ndarray | None = None) -> np.ndarray:
    """The softmax over the first keys of each row; later keys get a weight of exactly 0.

    Args:
        scores: `(batch, ..., n_queries, n_keys)`; between batch and queries there may be heads.
        valid_lengths: int, how many keys count: `(batch,)` for all queries of a sequence, or `(batch, n_queries)` for
            each query. 1, 2, … n_queries in every row is the causal mask. None: all keys count.

    Returns:
        weights, of the scores' shape.

    Raises:
        TypeError: scores that are not floating, valid lengths that are not integers.
        ValueError: valid lengths of another shape, or outside of 1 … n_keys. A query without any key has no softmax:
            "Dive into Deep Learning" spreads its weights evenly over keys that are not there; here it is an error.

    Source: Zhang et al., "Dive into Deep Learning", section 11.3.2.1; its −10⁶ is −inf here.
    """
    check_floats(scores=scores)
    if valid_lengths is None:
        return softmax(scores)
    return softmax(np.where(valid_keys(valid_lengths, scores.shape), scores, -np.inf))


def valid_keys(valid_lengths: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The valid lengths as a mask: True = may attend.

    Args:
        valid_lengths: int `(batch,)` or `(batch, n_queries)`.
        shape: the scores', `(batch, ..., n_queries, n_keys)`.

    Returns:
        bool `(batch, ..., 1 or n_queries, n_keys)`, broadcastable to the scores.

    Raises: as `masked_softmax`.
    """
    if len(shape) < 3:
        raise ValueError(f"scores have shape {shape}; with valid_lengths it must be (batch, ..., n_queries, n_keys)")
    batch, n_queries, n_keys = shape[0], shape[-2], shape[-1]
    check_indices("valid_lengths", valid_lengths, n_keys + 1, f"n_keys={n_keys}", first=1)
    if valid_lengths.shape not in ((batch,), (batch, n_queries)):
        raise ValueError(
            f"valid_lengths has shape {valid_lengths.shape}; for scores of shape {shape} it must be "
            f"(batch,) = ({batch},) or (batch, n_queries) = ({batch}, {n_queries})"
        )
    per_query = valid_lengths.reshape(batch, -1)  # (batch, 1 or n_queries)
    between = [1] * (len(shape) - 3)  # one for the heads, if there are any
    return np.arange(n_keys) < per_query.reshape(batch, *between, per_query.shape[1], 1)
