"""Wrong answers to lab 9, written as students write them; `answers` names their mistakes, or none that is on a list."""

import math

import numpy as np
import torch

from tests.answers import answers

# --- softmax_backward ---


@answers("softmax_backward", "no_row_term")
def own_weight_only(d_weights, weights):
    return weights * d_weights


@answers("softmax_backward", "diagonal")
def as_for_a_sigmoid(d_weights, weights):
    return d_weights * weights * (1 - weights)


@answers("softmax_backward", "plus")
def plus_the_row(d_weights, weights):
    return weights * (d_weights + (d_weights * weights).sum(axis=-1, keepdims=True))


@answers("softmax_backward", "row_term_only")
def the_row_alone(d_weights, weights):
    return -weights * (d_weights * weights).sum(axis=-1, keepdims=True)


@answers("softmax_backward", "no_weight")
def weight_forgotten(d_weights, weights):
    return d_weights - np.sum(d_weights * weights, axis=-1, keepdims=True)


@answers("softmax_backward", "unweighted")
def plain_sum(d_weights, weights):
    return weights * (d_weights - d_weights.sum(axis=-1, keepdims=True))


@answers("softmax_backward", "plain_mean")
def centred(d_weights, weights):
    return weights * (d_weights - d_weights.mean(axis=-1, keepdims=True))


@answers("softmax_backward", "mean")
def mean_of_products(d_weights, weights):
    return weights * (d_weights - np.mean(weights * d_weights, axis=-1, keepdims=True))


@answers("softmax_backward", "over_queries")
def axis_minus_2(d_weights, weights):
    return weights * (d_weights - (d_weights * weights).sum(axis=-2, keepdims=True))


@answers("softmax_backward", "over_queries")
def axis_1(d_weights, weights):
    return weights * (d_weights - (d_weights * weights).sum(axis=1, keepdims=True))


@answers("softmax_backward", "over_queries")
def axis_0(d_weights, weights):
    return weights * (d_weights - (d_weights * weights).sum(axis=0, keepdims=True))


@answers("softmax_backward", "over_everything")
def one_sum(d_weights, weights):
    return weights * (d_weights - np.sum(d_weights * weights))


@answers("softmax_backward", "no_keepdims")
def axis_gone(d_weights, weights):
    return weights * (d_weights - (d_weights * weights).sum(axis=-1))


@answers("softmax_backward", "softmax_again")
def of_the_weights(d_weights, weights):
    powers = np.exp(weights - weights.max(axis=-1, keepdims=True))
    shares = powers / powers.sum(axis=-1, keepdims=True)
    return shares * (d_weights - (d_weights * shares).sum(axis=-1, keepdims=True))


@answers("softmax_backward", "overwritten")
def in_place(d_weights, weights):
    d_weights -= (d_weights * weights).sum(axis=-1, keepdims=True)
    d_weights *= weights
    return d_weights


# two at once


@answers("softmax_backward", "no_weight", "over_everything")
def weight_and_axis_forgotten(d_weights, weights):
    return d_weights - (d_weights * weights).sum()


@answers("softmax_backward", "plus", "over_queries")
def plus_the_column(d_weights, weights):
    return weights * (d_weights + (d_weights * weights).sum(axis=-2, keepdims=True))


@answers("softmax_backward", "mean", "no_weight")
def less_its_mean(d_weights, weights):
    return d_weights - (d_weights * weights).mean(axis=-1, keepdims=True)


# on no list


@answers("softmax_backward")
def handed_on(d_weights, weights):
    return d_weights


@answers("softmax_backward")
def zeros(d_weights, weights):
    return np.zeros_like(weights)


@answers("softmax_backward")
def weights_squared(d_weights, weights):
    return weights * d_weights - weights**2 * (d_weights * weights).sum(axis=-1, keepdims=True)


@answers("softmax_backward")
def divided_by_the_weights(d_weights, weights):
    with np.errstate(divide="ignore", invalid="ignore"):
        return (d_weights - (d_weights * weights).sum(axis=-1, keepdims=True)) / weights


@answers("softmax_backward")
def for_a_cross_entropy(d_weights, weights):
    """What was said less what was right: another function's backward."""
    return weights - (d_weights == d_weights.max(axis=-1, keepdims=True))


@answers("softmax_backward")
def with_autograd(d_weights, weights):
    scores = torch.tensor(np.log(weights), requires_grad=True)
    scores.softmax(dim=-1).backward(torch.tensor(d_weights))
    return scores.grad.numpy()


@answers("softmax_backward")
def sign_turned(d_weights, weights):
    return weights * ((d_weights * weights).sum(axis=-1, keepdims=True) - d_weights)


@answers("softmax_backward")
def first_row_for_all(d_weights, weights):
    rows, wanted = weights.reshape(-1, weights.shape[-1]), d_weights.reshape(-1, weights.shape[-1])
    expected = wanted[0] @ rows[0]
    return weights * (d_weights - expected)


@answers("softmax_backward")
def off_diagonal_twice(d_weights, weights):
    return weights * (d_weights - 2 * (d_weights * weights).sum(axis=-1, keepdims=True))


@answers("softmax_backward")
def hidden_get_a_little(d_weights, weights):
    weights = np.maximum(weights, 1e-3)
    return weights * (d_weights - (d_weights * weights).sum(axis=-1, keepdims=True))


# --- layer_norm_backward ---


def normalized(x, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return centred / deviation, deviation


def through(g, y, deviation):
    return (g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True)) / deviation


def over_tokens(array):
    return array.sum(axis=tuple(range(array.ndim - 1)))


@answers("layer_norm_backward", "constants")
def moments_as_constants(d_out, x, gamma, eps=1e-5):
    y, deviation = normalized(x, eps)
    return gamma * d_out / deviation, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "no_mean_term")
def mean_forgotten(d_out, x, gamma, eps=1e-5):
    y, deviation = normalized(x, eps)
    g = gamma * d_out
    d_x = (g - y * (g * y).mean(axis=-1, keepdims=True)) / deviation
    return d_x, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "no_variance_term")
def deviation_forgotten(d_out, x, gamma, eps=1e-5):
    y, deviation = normalized(x, eps)
    g = gamma * d_out
    return (g - g.mean(axis=-1, keepdims=True)) / deviation, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "sums")
def sums_for_means(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    g = gamma * d_out
    d_x = (g - g.sum(axis=-1, keepdims=True) - y * (g * y).sum(axis=-1, keepdims=True)) / s
    return d_x, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "over_tokens")
def means_over_axis_minus_2(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    g = gamma * d_out
    d_x = (g - g.mean(axis=-2, keepdims=True) - y * (g * y).mean(axis=-2, keepdims=True)) / s
    return d_x, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "over_tokens")
def as_in_batch_norm(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    g = gamma * d_out
    d_x = (g - g.mean(axis=0) - y * (g * y).mean(axis=0)) / s
    return d_x, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "over_everything")
def means_over_everything(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    g = gamma * d_out
    return (g - g.mean() - y * (g * y).mean()) / s, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "raw_x")
def x_in_the_last_term(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    g = gamma * d_out
    d_x = (g - g.mean(axis=-1, keepdims=True) - y * (g * x).mean(axis=-1, keepdims=True)) / s
    return d_x, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "gamma_outside")
def gamma_at_the_end(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return gamma * through(d_out, y, s), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "no_gamma")
def gamma_forgotten(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(d_out, y, s), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "no_deviation")
def not_divided(d_out, x, gamma, eps=1e-5):
    y, _ = normalized(x, eps)
    return through(gamma * d_out, y, 1.0), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "by_variance")
def divided_by_the_variance(d_out, x, gamma, eps=1e-5):
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    y = (x - mean) / np.sqrt(variance + eps)
    return through(gamma * d_out, y, variance + eps), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "unbiased")
def ddof_1(d_out, x, gamma, eps=1e-5):
    s = np.sqrt(x.var(axis=-1, ddof=1, keepdims=True) + eps)
    y = (x - x.mean(axis=-1, keepdims=True)) / s
    return through(gamma * d_out, y, s), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "no_eps")
def eps_forgotten(d_out, x, gamma, eps=1e-5):
    with np.errstate(divide="ignore", invalid="ignore"):
        s = x.std(axis=-1, keepdims=True)
        y = (x - x.mean(axis=-1, keepdims=True)) / s
        return through(gamma * d_out, y, s), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "eps_outside")
def std_plus_eps(d_out, x, gamma, eps=1e-5):
    s = x.std(axis=-1, keepdims=True) + eps
    y = (x - x.mean(axis=-1, keepdims=True)) / s
    return through(gamma * d_out, y, s), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "fixed_eps")
def eps_not_passed_on(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x)
    return through(gamma * d_out, y, s), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "x_for_y")
def gamma_times_x(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(gamma * d_out, y, s), over_tokens(d_out * x), over_tokens(d_out)


@answers("layer_norm_backward", "centred_for_y")
def gamma_times_centred(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    centred = x - x.mean(axis=-1, keepdims=True)
    return through(gamma * d_out, y, s), over_tokens(d_out * centred), over_tokens(d_out)


@answers("layer_norm_backward", "gamma_in_affine")
def g_for_d_out(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    g = gamma * d_out
    return through(g, y, s), over_tokens(g * y), over_tokens(g)


@answers("layer_norm_backward", "over_axis_0")
def first_axis_only(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(gamma * d_out, y, s), (d_out * y).sum(axis=0), d_out.sum(axis=0)


@answers("layer_norm_backward", "over_axis_0")
def tokens_but_not_batch(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(gamma * d_out, y, s), (d_out * y).sum(axis=-2), d_out.sum(axis=-2)


@answers("layer_norm_backward", "over_features")
def features_summed(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(gamma * d_out, y, s), (d_out * y).sum(axis=-1), d_out.sum(axis=-1)


@answers("layer_norm_backward", "not_summed")
def nothing_summed(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(gamma * d_out, y, s), d_out * y, d_out


@answers("layer_norm_backward", "averaged")
def averaged_over_tokens(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    tokens = tuple(range(x.ndim - 1))
    return through(gamma * d_out, y, s), (d_out * y).mean(axis=tokens), d_out.mean(axis=tokens)


@answers("layer_norm_backward", "exchanged")
def beta_first(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(gamma * d_out, y, s), over_tokens(d_out), over_tokens(d_out * y)


@answers("layer_norm_backward", "overwritten")
def centred_in_place(d_out, x, gamma, eps=1e-5):
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    x -= x.mean(axis=-1, keepdims=True)
    x /= deviation
    return through(gamma * d_out, x, deviation), over_tokens(d_out * x), over_tokens(d_out)


# two at once


@answers("layer_norm_backward", "constants", "unbiased")
def constants_with_ddof_1(d_out, x, gamma, eps=1e-5):
    s = np.sqrt(x.var(axis=-1, ddof=1, keepdims=True) + eps)
    y = (x - x.mean(axis=-1, keepdims=True)) / s
    return gamma * d_out / s, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward", "no_mean_term", "x_for_y")
def mean_forgotten_and_x(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    g = gamma * d_out
    return (g - y * (g * y).mean(axis=-1, keepdims=True)) / s, over_tokens(d_out * x), over_tokens(d_out)


@answers("layer_norm_backward", "no_gamma", "over_axis_0")
def gamma_and_batch_forgotten(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(d_out, y, s), (d_out * y).sum(axis=0), d_out.sum(axis=0)


# on no list


@answers("layer_norm_backward")
def everything_handed_on(d_out, x, gamma, eps=1e-5):
    return d_out, over_tokens(d_out), over_tokens(d_out)


@answers("layer_norm_backward")
def only_d_x(d_out, x, gamma, eps=1e-5):
    return through(gamma * d_out, *normalized(x, eps))


@answers("layer_norm_backward")
def divided_by_gamma(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(d_out / gamma, y, s), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward")
def plus_both_terms(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    g = gamma * d_out
    d_x = (g + g.mean(axis=-1, keepdims=True) + y * (g * y).mean(axis=-1, keepdims=True)) / s
    return d_x, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward")
def from_autograd(d_out, x, gamma, eps=1e-5):
    leaf, scale = torch.tensor(x, requires_grad=True), torch.tensor(gamma, requires_grad=True)
    shift = torch.zeros_like(scale, requires_grad=True)
    out = torch.nn.functional.layer_norm(leaf, scale.shape, scale, shift, eps)
    return tuple(g.numpy() for g in torch.autograd.grad(out, (leaf, scale, shift), torch.tensor(d_out)))


@answers("layer_norm_backward")
def by_the_ruler(d_out, x, gamma, eps=1e-5):
    """Measured instead of derived, with a step that is far too large."""

    def loss(x):
        return (d_out * gamma * normalized(x, eps)[0]).sum()

    d_x = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        above = x.copy()
        above[index] += 1e-2
        d_x[index] = (loss(above) - loss(x)) / 1e-2
    y, _ = normalized(x, eps)
    return d_x, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward")
def two_over_d(d_out, x, gamma, eps=1e-5):
    """The 2 of the square not cancelled by the ½ of the root."""
    y, s = normalized(x, eps)
    g = gamma * d_out
    d_x = (g - g.mean(axis=-1, keepdims=True) - 2 * y * (g * y).mean(axis=-1, keepdims=True)) / s
    return d_x, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward")
def rms_norm(d_out, x, gamma, eps=1e-5):
    """The backward of RMSNorm."""
    s = np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps)
    y, g = x / s, gamma * d_out
    return (g - y * (g * y).mean(axis=-1, keepdims=True)) / s, over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward")
def three_axes_only(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(gamma * d_out, y, s), (d_out * y).sum(axis=(0, 1)), d_out.sum(axis=(0, 1))


@answers("layer_norm_backward")
def absolute_deviation(d_out, x, gamma, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    s = np.abs(centred).mean(axis=-1, keepdims=True) + eps
    return through(gamma * d_out, centred / s, s), over_tokens(d_out * centred / s), over_tokens(d_out)


@answers("layer_norm_backward")
def difference_of_mean_squares(d_out, x, gamma, eps=1e-5):
    variance = (x * x).mean(axis=-1, keepdims=True) - x.mean(axis=-1, keepdims=True) ** 2
    s = np.sqrt(variance + eps)
    y = (x - x.mean(axis=-1, keepdims=True)) / s
    return through(gamma * d_out, y, s), over_tokens(d_out * y), over_tokens(d_out)


@answers("layer_norm_backward")
def gain_of_0_taken_for_none(d_out, x, gamma, eps=1e-5):
    y, s = normalized(x, eps)
    return through(np.where(gamma == 0, 1.0, gamma) * d_out, y, s), over_tokens(d_out * y), over_tokens(d_out)


# --- attention_backward ---


def turned(array):
    return array.swapaxes(-2, -1)


def of_softmax(d_weights, weights):
    return weights * (d_weights - (d_weights * weights).sum(axis=-1, keepdims=True))


@answers("attention_backward", "unscaled")
def root_forgotten(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights)
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "d_q_unscaled")
def root_only_in_d_k(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights)
    return d_scores @ k, turned(d_scores) @ q / math.sqrt(q.shape[-1]), turned(weights) @ d_out


@answers("attention_backward", "d_k_unscaled")
def root_only_in_d_q(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights)
    return d_scores @ k / math.sqrt(q.shape[-1]), turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "by_d_head")
def divided_twice(d_out, q, k, v, weights):
    root = math.sqrt(q.shape[-1])
    d_scores = of_softmax(d_out @ turned(v), weights) / root
    return d_scores @ k / root, turned(d_scores) @ q / root, turned(weights) @ d_out


@answers("attention_backward", "by_d_value")
def the_values_root(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights) / math.sqrt(v.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "multiplied")
def times_the_root(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights) * math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "no_softmax")
def softmax_skipped(d_out, q, k, v, weights):
    d_scores = d_out @ turned(v) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "no_row_term")
def row_term_forgotten(d_out, q, k, v, weights):
    d_scores = weights * (d_out @ turned(v)) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "diagonal")
def sigmoid_in_the_middle(d_out, q, k, v, weights):
    d_scores = (d_out @ turned(v)) * weights * (1 - weights) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "plus")
def row_term_added(d_out, q, k, v, weights):
    d_w = d_out @ turned(v)
    d_scores = weights * (d_w + (d_w * weights).sum(axis=-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "over_queries")
def row_term_over_columns(d_out, q, k, v, weights):
    d_w = d_out @ turned(v)
    d_scores = weights * (d_w - (d_w * weights).sum(axis=-2, keepdims=True)) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "over_queries")
def row_term_over_axis_1(d_out, q, k, v, weights):
    d_w = d_out @ turned(v)
    d_scores = weights * (d_w - (d_w * weights).sum(axis=1, keepdims=True)) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


def finished(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "recomputed")
def mask_forgotten(d_out, q, k, v, weights):
    scores = q @ turned(k) / math.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return finished(d_out, q, k, v, powers / powers.sum(axis=-1, keepdims=True))


@answers("attention_backward", "v_not_transposed")
def v_as_it_is(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ v, weights) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "d_v_not_transposed")
def weights_as_they_are(d_out, q, k, v, weights):
    d_q, d_k, _ = finished(d_out, q, k, v, weights) if q.shape[-2] == k.shape[-2] else (None, None, None)
    return d_q, d_k, weights @ d_out


@answers("attention_backward", "d_k_not_transposed")
def d_scores_as_they_are(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights) / math.sqrt(q.shape[-1])
    return d_scores @ k, d_scores @ q, turned(weights) @ d_out


@answers("attention_backward", "d_q_transposed")
def transposed_for_both(d_out, q, k, v, weights):
    d_scores = turned(of_softmax(d_out @ turned(v), weights) / math.sqrt(q.shape[-1]))
    return d_scores @ k, d_scores @ q, turned(weights) @ d_out


@answers("attention_backward", "own_factor")
def each_with_itself(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights) / math.sqrt(q.shape[-1])
    return d_scores @ q, turned(d_scores) @ k, turned(weights) @ d_out


@answers("attention_backward", "fixed_axes")
def axes_1_and_2(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ v.transpose(0, 2, 1), weights) / math.sqrt(q.shape[-1])
    return d_scores @ k, d_scores.transpose(0, 2, 1) @ q, weights.transpose(0, 2, 1) @ d_out


@answers("attention_backward", "fixed_axes")
def swapaxes_1_and_2(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ v.swapaxes(1, 2), weights) / math.sqrt(q.shape[-1])
    return d_scores @ k, d_scores.swapaxes(1, 2) @ q, weights.swapaxes(1, 2) @ d_out


@answers("attention_backward", "reversed_axes")
def dot_t(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ v.T, weights) / math.sqrt(q.shape[-1])
    return d_scores @ k, d_scores.T @ q, weights.T @ d_out


@answers("attention_backward", "exchanged_qk")
def d_k_first(d_out, q, k, v, weights):
    d_q, d_k, d_v = finished(d_out, q, k, v, weights)
    return d_k, d_q, d_v


@answers("attention_backward", "backwards")
def as_computed(d_out, q, k, v, weights):
    return finished(d_out, q, k, v, weights)[::-1]


@answers("attention_backward", "overwritten")
def d_out_reused(d_out, q, k, v, weights):
    q /= math.sqrt(q.shape[-1])
    d_scores = of_softmax(d_out @ turned(v), weights)
    return d_scores @ k / math.sqrt(q.shape[-1]), turned(d_scores) @ q, turned(weights) @ d_out


# two at once


@answers("attention_backward", "unscaled", "no_row_term")
def root_and_row_term_forgotten(d_out, q, k, v, weights):
    d_scores = weights * (d_out @ turned(v))
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward", "d_v_not_transposed", "unscaled")
def root_and_transpose_forgotten(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights)
    return d_scores @ k, turned(d_scores) @ q, weights @ d_out


@answers("attention_backward", "diagonal", "exchanged_qk")
def sigmoid_and_exchanged(d_out, q, k, v, weights):
    d_scores = (d_out @ turned(v)) * weights * (1 - weights) / math.sqrt(q.shape[-1])
    return turned(d_scores) @ q, d_scores @ k, turned(weights) @ d_out


# on no list


@answers("attention_backward")
def arguments_returned(d_out, q, k, v, weights):
    return q, k, v


@answers("attention_backward")
def values_only(d_out, q, k, v, weights):
    return np.zeros_like(q), np.zeros_like(k), turned(weights) @ d_out


@answers("attention_backward")
def d_v_from_the_scores(d_out, q, k, v, weights):
    d_scores = of_softmax(d_out @ turned(v), weights) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(d_scores) @ d_out


@answers("attention_backward")
def softmax_of_the_gradient(d_out, q, k, v, weights):
    d_weights = d_out @ turned(v)
    powers = np.exp(d_weights - d_weights.max(axis=-1, keepdims=True))
    d_scores = powers / powers.sum(axis=-1, keepdims=True) / math.sqrt(q.shape[-1])
    return d_scores @ k, turned(d_scores) @ q, turned(weights) @ d_out


@answers("attention_backward")
def autograd_does_it(d_out, q, k, v, weights):
    leaves = [torch.tensor(array, requires_grad=True) for array in (q, k, v)]
    scores = leaves[0] @ leaves[1].mT / math.sqrt(q.shape[-1])
    shares = scores.masked_fill(torch.tensor(weights) == 0, -math.inf).softmax(dim=-1)
    (shares @ leaves[2]).backward(torch.tensor(d_out))
    return tuple(leaf.grad.numpy() for leaf in leaves)


@answers("attention_backward")
def one_batch_for_all(d_out, q, k, v, weights):
    if q.ndim > 2:
        d_out, q, k, v, weights = (np.broadcast_to(a[:1], a.shape) for a in (d_out, q, k, v, weights))
    return finished(d_out, q, k, v, weights)


@answers("attention_backward")
def signs_turned(d_out, q, k, v, weights):
    return tuple(-d for d in finished(d_out, q, k, v, weights))


@answers("attention_backward")
def out_for_d_out(d_out, q, k, v, weights):
    return finished(weights @ v, q, k, v, weights)


@answers("attention_backward")
def averaged_over_queries(d_out, q, k, v, weights):
    d_q, d_k, d_v = finished(d_out, q, k, v, weights)
    return d_q, d_k / q.shape[-2], d_v / q.shape[-2]


@answers("attention_backward")
def in_half_precision(d_out, q, k, v, weights):
    return tuple(d.astype(q.dtype) for d in finished(*(a.astype(np.float16) for a in (d_out, q, k, v, weights))))
