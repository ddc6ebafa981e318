"""Wrong `softmax_backward`, as students write them; `answers` names their mistakes, or none that is on a list."""

import numpy as np
import torch

from tests.answers import answers


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
