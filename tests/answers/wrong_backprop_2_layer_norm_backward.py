"""Wrong `layer_norm_backward`, as students write them; `answers` names their mistakes, or none that is on a list."""

import numpy as np
import torch

from tests.answers import answers


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
