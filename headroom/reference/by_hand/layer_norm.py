"""Layer normalisation. Ba, Kiros & Hinton 2016, "Layer Normalization"."""

import numpy as np

from headroom.reference.by_hand.arguments import check_floats, check_shape


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    """out = γ y + β with y = (x − mean) / √(variance + eps), mean and variance of each token over its features.

    Args:
        x: `(..., d_model)`.
        gamma, beta: `(d_model,)`.
        eps: added to the variance, so that a token whose features are all equal does not divide by 0.

    Returns:
        out `(..., d_model)`.

    Raises:
        TypeError: an argument that is not floating.
        ValueError: gamma or beta of another width than x.

    Source: Ba et al. 2016, section 3.1, equation 3; the variance is the biased one (divided by `d_model`).
    """
    check_floats(x=x, gamma=gamma, beta=beta)
    check_shape("gamma", gamma, x.shape[-1:])
    check_shape("beta", beta, x.shape[-1:])
    y, _ = normalize(x, eps)
    return gamma * y + beta


def layer_norm_backward(
    d_out: np.ndarray, x: np.ndarray, gamma: np.ndarray, eps: float = 1e-5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """d_x = (g − mean(g) − y · mean(g · y)) / √(variance + eps) with g = γ · d_out, the means over the features.

    y depends on x in three ways: directly (g), through the mean (− mean(g)) and through the variance
    (− y · mean(g · y)). So d_x sums to 0 and, but for eps, is orthogonal to y: y cannot be moved or stretched.
    γ and β serve every token: d_gamma = Σ d_out · y and d_beta = Σ d_out over all tokens.

    Args:
        d_out: `(..., d_model)`.
        x: `(..., d_model)`, as the forward got it.
        gamma: `(d_model,)`.
        eps: as the forward got it.

    Returns:
        d_x `(..., d_model)`, d_gamma `(d_model,)`, d_beta `(d_model,)`.

    Source: the chain rule on Ba et al. 2016, equation 3; for batches, Ioffe & Szegedy 2015, "Batch Normalization",
    section 3.
    """
    check_floats(d_out=d_out, x=x, gamma=gamma)
    check_shape("d_out", d_out, x.shape)
    check_shape("gamma", gamma, x.shape[-1:])
    y, deviation = normalize(x, eps)
    g = gamma * d_out  # (..., d_model): d_y
    through_mean = g.mean(axis=-1, keepdims=True)  # (..., 1)
    through_variance = y * (g * y).mean(axis=-1, keepdims=True)  # (..., d_model)
    d_x = (g - through_mean - through_variance) / deviation
    tokens = tuple(range(x.ndim - 1))  # every axis but the features
    return d_x, (d_out * y).sum(axis=tokens), d_out.sum(axis=tokens)


def normalize(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """y = (x − mean) / √(variance + eps), `(..., d_model)`, and that root, `(..., 1)`."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)  # (..., 1)
    deviation = np.sqrt(variance + eps)
    return centred / deviation, deviation
