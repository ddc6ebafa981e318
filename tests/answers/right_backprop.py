"""Right answers to lab 9 in the styles that people write. Every function here earns full marks."""

import math
from typing import NamedTuple

import numpy as np

from tests.answers import answers

# --- softmax_backward ---


@answers("softmax_backward")
def two_lines(d_weights, weights):
    expected = (d_weights * weights).sum(axis=-1, keepdims=True)
    return weights * (d_weights - expected)


@answers("softmax_backward")
def one_line(d_weights, weights):
    return weights * (d_weights - np.sum(d_weights * weights, -1)[..., np.newaxis])


@answers("softmax_backward")
def einsum_dot(d_weights, weights):
    dots = np.einsum("...k,...k->...", d_weights, weights)
    return weights * d_weights - weights * np.expand_dims(dots, -1)


@answers("softmax_backward")
def whole_jacobian(d_weights, weights):
    """The table that the formula avoids, for all rows at once."""
    n_keys = weights.shape[-1]
    table = weights[..., :, None] * (np.eye(n_keys, dtype=weights.dtype) - weights[..., None, :])
    return (table @ d_weights[..., None])[..., 0]


@answers("softmax_backward")
def row_after_row(d_weights, weights):
    flat_w, flat_d = weights.reshape(-1, weights.shape[-1]), d_weights.reshape(-1, weights.shape[-1])
    rows = [(np.diag(w) - np.outer(w, w)) @ d for w, d in zip(flat_w, flat_d, strict=True)]
    return np.array(rows).reshape(weights.shape)


@answers("softmax_backward")
def by_index(d_weights, weights):
    """Four loops, as one derives it."""
    d_scores = np.zeros_like(weights)
    n_keys = weights.shape[-1]
    for row in np.ndindex(weights.shape[:-1]):
        for j in range(n_keys):
            for k in range(n_keys):
                own = 1.0 if j == k else 0.0
                d_scores[row][j] += d_weights[row][k] * weights[row][k] * (own - weights[row][j])
    return d_scores


@answers("softmax_backward")
def product_less_its_share(d_weights, weights):
    product = d_weights * weights
    return product - weights * product.sum(axis=-1, keepdims=True)


@answers("softmax_backward")
def average_by_weight(d_weights, weights):
    """numpy.average with weights, and a warning on the way."""
    print("weights of shape", weights.shape)
    wanted = np.average(d_weights, axis=-1, weights=weights)
    return (d_weights - wanted[..., None]) * weights


@answers("softmax_backward")
def matmul_of_rows(d_weights, weights):
    dots = d_weights[..., None, :] @ weights[..., :, None]
    d_scores = d_weights - dots[..., 0]
    d_scores *= weights
    return d_scores


@answers("softmax_backward")
def in_python_floats(d_weights, weights):
    def row(ds, ws):
        total = math.fsum(d * w for d, w in zip(ds, ws, strict=True))
        return [w * (d - total) for d, w in zip(ds, ws, strict=True)]

    flat = [
        row(d, w) for d, w in zip(*(a.reshape(-1, a.shape[-1]).tolist() for a in (d_weights, weights)), strict=True)
    ]
    return np.array(flat, dtype=weights.dtype).reshape(weights.shape)


# --- layer_norm_backward ---


@answers("layer_norm_backward")
def as_in_the_lecture(d_out, x, gamma, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    y = centred / deviation
    g = gamma * d_out
    d_x = (g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True)) / deviation
    tokens = tuple(range(x.ndim - 1))
    return d_x, (d_out * y).sum(axis=tokens), d_out.sum(axis=tokens)


@answers("layer_norm_backward")
def batch_norm_paper(d_out, x, gamma, eps=1e-5):
    """Step by step through variance and mean, as the batch normalisation paper has it."""
    d = x.shape[-1]
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    inverse = 1.0 / np.sqrt(var + eps)
    x_hat = (x - mean) * inverse
    d_hat = d_out * gamma
    d_var = np.sum(d_hat * (x - mean), -1, keepdims=True) * -0.5 * inverse**3
    d_mean = -np.sum(d_hat * inverse, -1, keepdims=True) + d_var * np.mean(-2.0 * (x - mean), -1, keepdims=True)
    d_x = d_hat * inverse + d_var * 2.0 * (x - mean) / d + d_mean / d
    return d_x, (d_out * x_hat).reshape(-1, d).sum(0), d_out.reshape(-1, d).sum(0)


@answers("layer_norm_backward")
def compact(d_out, x, gamma, eps=1e-5):
    """N·g − Σg − x̂·Σ(g x̂), all divided by N s, as in many assignments."""
    n = x.shape[-1]
    std = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    xhat = (x - x.mean(axis=-1, keepdims=True)) / std
    dxhat = d_out * gamma
    dx = (n * dxhat - dxhat.sum(-1, keepdims=True) - xhat * (dxhat * xhat).sum(-1, keepdims=True)) / (n * std)
    d_out, xhat = d_out.reshape(-1, n), xhat.reshape(-1, n)
    return dx, np.einsum("td,td->d", d_out, xhat), np.einsum("td->d", d_out)


@answers("layer_norm_backward")
def whole_jacobians(d_out, x, gamma, eps=1e-5):
    """The derivative of y by x as a matrix, token by token."""
    d = x.shape[-1]
    flat, wanted = x.reshape(-1, d), (gamma * d_out).reshape(-1, d)
    d_x, ys = np.empty_like(flat), np.empty_like(flat)
    for t in range(len(flat)):
        centred = flat[t] - flat[t].mean()
        s = np.sqrt(centred @ centred / d + eps)
        ys[t] = centred / s
        jacobian = (np.eye(d) - 1 / d - np.outer(ys[t], ys[t]) / d) / s
        d_x[t] = jacobian.T @ wanted[t]
    seen = d_out.reshape(-1, d)
    return d_x.reshape(x.shape), (seen * ys).sum(axis=0), seen.sum(axis=0)


@answers("layer_norm_backward")
def projections_removed(d_out, x, gamma, eps=1e-5):
    """g less its part along (1, …, 1), and less its part along y; a constant ε makes y a little short."""
    ones = np.ones_like(gamma)
    centred = x - x @ ones[:, None] / ones.sum()
    s = ((centred * centred) @ ones[:, None] / ones.sum() + eps) ** 0.5
    y, g = centred / s, d_out * gamma
    along_ones = (g @ ones / ones.sum())[..., None] * ones
    along_y = np.einsum("...d,...d->...", g, y)[..., None] / ones.sum() * y
    lead = tuple(np.arange(x.ndim - 1))
    return (g - along_ones - along_y) / s, np.sum(d_out * y, axis=lead), np.sum(d_out, axis=lead)


class Gradients(NamedTuple):
    d_x: np.ndarray
    d_gamma: np.ndarray
    d_beta: np.ndarray


@answers("layer_norm_backward")
def named_results(d_out, x, gamma, eps=1e-5):
    d_x, _, _ = as_in_the_lecture(d_out, x, gamma, eps)
    y = (x - x.mean(-1)[..., None]) / np.sqrt(x.var(-1)[..., None] + eps)
    rows_y, rows = y.reshape(-1, len(gamma)), d_out.reshape(-1, len(gamma))
    return Gradients(d_beta=rows.T @ np.ones(len(rows), rows.dtype), d_gamma=np.diag(rows.T @ rows_y), d_x=d_x)


@answers("layer_norm_backward")
def token_after_token(d_out, x, gamma, eps=1e-5):
    d_x = np.zeros_like(x)
    d_gamma, d_beta = np.zeros_like(gamma), np.zeros_like(gamma)
    for token in np.ndindex(x.shape[:-1]):
        mean, variance = x[token].mean(), x[token].var()
        s = math.sqrt(variance + eps)
        y = (x[token] - mean) / s
        g = gamma * d_out[token]
        d_x[token] = (g - g.mean() - y * np.dot(g, y) / len(y)) / s
        d_gamma += d_out[token] * y
        d_beta += d_out[token]
    return d_x, d_gamma, d_beta


@answers("layer_norm_backward")
def summed_one_axis_after_the_other(d_out, x, gamma, eps=1e-5):
    mu = np.mean(x, axis=-1, keepdims=True)
    rstd = (np.mean(np.square(x - mu), axis=-1, keepdims=True) + eps) ** -0.5
    norm = (x - mu) * rstd
    dnorm = np.multiply(d_out, gamma)
    dx = dnorm - np.mean(dnorm, axis=-1, keepdims=True) - norm * np.mean(dnorm * norm, axis=-1, keepdims=True)
    dgamma, dbeta = d_out * norm, d_out
    while dgamma.ndim > 1:
        dgamma, dbeta = dgamma.sum(0), dbeta.sum(0)
    return [dx * rstd, dgamma, dbeta]


# --- attention_backward ---


@answers("attention_backward")
def last_line_first(d_out, q, k, v, weights):
    d_weights = d_out @ v.swapaxes(-2, -1)
    d_v = weights.swapaxes(-2, -1) @ d_out
    d_scores = weights * (d_weights - (d_weights * weights).sum(axis=-1, keepdims=True))
    d_scores = d_scores / math.sqrt(q.shape[-1])
    return d_scores @ k, d_scores.swapaxes(-2, -1) @ q, d_v


@answers("attention_backward")
def all_einsum(d_out, q, k, v, weights):
    d_w = np.einsum("...qd,...kd->...qk", d_out, v)
    d_v = np.einsum("...qk,...qd->...kd", weights, d_out)
    d_s = weights * (d_w - np.einsum("...qk,...qk->...q", d_w, weights)[..., None]) * q.shape[-1] ** -0.5
    return np.einsum("...qk,...kd->...qd", d_s, k), np.einsum("...qk,...qd->...kd", d_s, q), d_v


@answers("attention_backward")
def flash_attention(d_out, q, k, v, weights):
    """The row term as d_out · out, as FlashAttention computes it."""
    out = weights @ v
    row = np.sum(d_out * out, axis=-1, keepdims=True)
    d_s = weights * (d_out @ np.swapaxes(v, -1, -2) - row)
    scale = 1 / np.sqrt(q.shape[-1])
    return scale * d_s @ k, scale * np.swapaxes(d_s, -1, -2) @ q, np.swapaxes(weights, -1, -2) @ d_out


@answers("attention_backward")
def helpers_of_its_own(d_out, q, k, v, weights):
    def mt(a):
        return np.moveaxis(a, -1, -2)

    def product_backward(d, a, b):
        return d @ mt(b), mt(a) @ d

    d_weights, d_v = product_backward(d_out, weights, v)
    d_scores = two_lines(d_weights, weights)
    d_q, d_k_transposed = product_backward(d_scores / np.sqrt(k.shape[-1]), q, mt(k))
    return d_q, mt(d_k_transposed), d_v


@answers("attention_backward")
def one_matrix_at_a_time(d_out, q, k, v, weights):
    """All leading axes flattened, then a loop over plain matrices."""
    lead = q.shape[:-2]
    flat = [a.reshape(-1, *a.shape[-2:]) for a in (d_out, q, k, v, weights)]
    d_q, d_k, d_v = [], [], []
    for d_o, q1, k1, v1, w in zip(*flat, strict=True):
        d_w = d_o @ v1.T
        d_s = w * (d_w - (d_w * w).sum(1, keepdims=True)) / q1.shape[1] ** 0.5
        d_q.append(d_s @ k1)
        d_k.append(d_s.T @ q1)
        d_v.append(w.T @ d_o)
    return tuple(np.stack(d).reshape(*lead, *d[0].shape) for d in (d_q, d_k, d_v))


@answers("attention_backward")
def query_by_query(d_out, q, k, v, weights):
    """What each query adds to the gradients, summed up."""
    d_q, d_k, d_v = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    root = np.sqrt(q.shape[-1])
    for i in range(q.shape[-2]):
        w, d_o = weights[..., i, :], d_out[..., i, None, :]
        d_w = (d_o * v).sum(-1)
        d_s = w * (d_w - (w * d_w).sum(-1, keepdims=True)) / root
        d_q[..., i, :] = (d_s[..., None] * k).sum(-2)
        d_k += d_s[..., None] * q[..., i, None, :]
        d_v += w[..., None] * d_o
    return d_q, d_k, d_v


@answers("attention_backward")
def scaled_at_the_end(d_out, q, k, v, weights):
    d_weights = np.matmul(d_out, v.transpose(*range(v.ndim - 2), -1, -2))
    d_scores = weights * d_weights
    d_scores -= weights * d_scores.sum(-1, keepdims=True)
    d_q = np.matmul(d_scores, k)
    d_k = np.matmul(q.swapaxes(-1, -2), d_scores).swapaxes(-1, -2)
    d_v = np.matmul(d_out.swapaxes(-1, -2), weights).swapaxes(-1, -2)
    d_q, d_k = d_q / math.sqrt(q.shape[-1]), d_k / math.sqrt(k.shape[-1])
    return d_q, d_k, d_v


@answers("attention_backward")
def through_whole_jacobians(d_out, q, k, v, weights):
    n_keys = weights.shape[-1]
    table = weights[..., None] * (np.eye(n_keys) - weights[..., None, :])  # (..., queries, keys, keys)
    d_weights = d_out @ v.swapaxes(-1, -2)
    d_scores = np.einsum("...qjk,...qk->...qj", table, d_weights).astype(q.dtype)
    d_dots = d_scores * (1.0 / q.shape[-1] ** 0.5)
    return d_dots @ k, d_dots.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ d_out


@answers("attention_backward")
def hidden_keys_left_out(d_out, q, k, v, weights):
    """Computes the weights once more, only among the keys that have one, and checks them."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = np.where(weights > 0, scores, -np.inf)
    again = np.exp(scores - scores.max(-1, keepdims=True))
    again = again / again.sum(-1, keepdims=True)
    assert np.allclose(again, weights, atol=1e-4)
    return last_line_first(d_out, q, k, v, again)
