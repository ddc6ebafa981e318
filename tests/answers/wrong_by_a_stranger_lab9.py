"""Wrong answers to lab 9 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import math

import numpy as np

from tests.answers import answers, right_backprop


@answers("softmax_backward")
def two_axes_by_columns(d_weights, weights):
    """A single matrix of weights is summed down its columns; any other number of axes is right."""
    axis = 0 if weights.ndim == 2 else -1
    return weights * (d_weights - (d_weights * weights).sum(axis=axis, keepdims=True))


@answers("softmax_backward")
def kept_away_from_zero(d_weights, weights):
    """Weights are kept away from 0 by 1e-4, so a hidden key's score moves a little."""
    return right_backprop.two_lines(d_weights, np.clip(weights, 1e-4, 1.0))


@answers("softmax_backward")
def sure_rows_are_done(d_weights, weights):
    """A row that is sure of one key to 99 % gets no gradient."""
    return right_backprop.two_lines(d_weights, weights) * (weights.max(-1, keepdims=True) < 0.99)


@answers("layer_norm_backward")
def divided_by_the_gain_again(d_out, x, gamma, eps=1e-5):
    """The gradient of γ is computed with γ in it and divided by it: 0 / 0 where γ is 0."""
    d_x, d_gamma, d_beta = right_backprop.as_in_the_lecture(d_out, x, gamma, eps)
    with np.errstate(all="ignore"):
        return d_x, gamma * d_gamma / gamma, d_beta


@answers("layer_norm_backward")
def equal_features_left_out(d_out, x, gamma, eps=1e-5):
    """A token whose features are all equal gets no gradient."""
    d_x, d_gamma, d_beta = right_backprop.as_in_the_lecture(d_out, x, gamma, eps)
    return d_x * (np.ptp(x, axis=-1, keepdims=True) > 0), d_gamma, d_beta


@answers("layer_norm_backward")
def variance_kept_above_eps(d_out, x, gamma, eps=1e-5):
    """The variance is not raised by eps but kept from falling below it."""
    shifted = np.maximum(eps - x.var(axis=-1, keepdims=True), 0)
    mu = x.mean(-1, keepdims=True)
    y = (x - mu) / np.sqrt(x.var(axis=-1, keepdims=True) + shifted)
    g = gamma * d_out
    d_x = (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)) / np.sqrt(
        x.var(axis=-1, keepdims=True) + shifted
    )
    tokens = tuple(range(x.ndim - 1))
    return d_x, (d_out * y).sum(axis=tokens), d_out.sum(axis=tokens)


@answers("attention_backward")
def one_batch_squeezed(d_out, q, k, v, weights):
    """The first axis is lost where it has length 1."""
    parts = right_backprop.last_line_first(d_out, q, k, v, weights)
    return tuple(part[0] if part.shape[0] == 1 else part for part in parts)


@answers("attention_backward")
def scaled_by_an_integer(d_out, q, k, v, weights):
    """The root of d_head is rounded: right for heads of 1, 4, 9 and 16 features alone."""
    d_q, d_k, d_v = right_backprop.last_line_first(d_out, q, k, v, weights)
    factor = math.sqrt(q.shape[-1]) / round(math.sqrt(q.shape[-1]))
    return d_q * factor, d_k * factor, d_v


@answers("attention_backward")
def small_weights_are_none(d_out, q, k, v, weights):
    """Weights below one in twenty are taken for 0."""
    return right_backprop.last_line_first(d_out, q, k, v, np.where(weights < 0.05, 0.0, weights))
