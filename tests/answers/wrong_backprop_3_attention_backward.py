"""Wrong `attention_backward`, as students write them; `answers` names their mistakes, or none that is on a list."""

import math

import numpy as np
import torch

from tests.answers import answers


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
