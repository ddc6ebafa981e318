"""Wrong `attention_scores`, as students write them; `answers` names their mistakes, or none that is on a list."""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers


@answers("attention_scores", "unscaled")
def not_divided(q, k):
    return q @ k.transpose(-2, -1)


@answers("attention_scores", "by_d_k")
def divided_by_d_k(q, k):
    return torch.matmul(q, k.mT) / q.size(-1)


@answers("attention_scores", "precedence")
def half_for_a_root(q, k):
    return q @ k.mT / q.size(-1) ** 1 / 2


@answers("attention_scores", "precedence")
def half_for_a_root_in_brackets(q, k):
    return q @ k.mT / (q.size(-1) ** 1 / 2)


@answers("attention_scores", "by_d_k")
def both_sides_divided(q, k):
    root = math.sqrt(q.size(-1))
    return (q / root) @ (k / root).transpose(-2, -1)


@answers("attention_scores", "floored_root")
def a_whole_root(q, k):
    return q @ k.transpose(-2, -1) / int(math.sqrt(q.size(-1)))


@answers("attention_scores", "floored_root")
def floor_division(q, k):
    return q @ k.transpose(-2, -1) / (q.size(-1) ** 0.5 // 1)


@answers("attention_scores", "by_n_keys")
def root_of_the_keys(q, k):
    scores = q @ k.mT
    return scores / math.sqrt(scores.size(-1))


@answers("attention_scores", "by_n_keys")
def root_of_the_queries(q, k):
    return q @ k.mT / q.shape[-2] ** 0.5


@answers("attention_scores", "by_n_keys")
def root_of_axis_1(q, k):
    return q @ k.mT / q.shape[1] ** 0.5


@answers("attention_scores", "multiplied")
def times_the_root(q, k):
    return q @ k.mT * q.shape[-1] ** 0.5


@answers("attention_scores", "transposed")
def keys_times_queries(q, k):
    return k @ q.transpose(-2, -1) / math.sqrt(k.size(-1))


@answers("attention_scores", "queries_twice")
def q_with_q(q, k):
    return q @ q.transpose(-2, -1) / math.sqrt(q.size(-1))


@answers("attention_scores", "keys_twice")
def k_with_k(q, k):
    return k @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


@answers("attention_scores", "no_transpose")
def as_they_come(q, k):
    return q @ k / math.sqrt(q.size(-1))


@answers("attention_scores", "viewed")
def viewed(q, k):
    return q @ k.view(*k.shape[:-2], k.size(-1), k.size(-2)) / math.sqrt(q.size(-1))


@answers("attention_scores", "fixed_axes")
def axes_1_and_2(q, k):
    return q @ k.transpose(1, 2) / math.sqrt(q.size(-1))


@answers("attention_scores", "reversed_axes")
def dot_t(q, k):
    return q @ k.T / math.sqrt(q.size(-1))


@answers("attention_scores", "softmax_too")
def weights_already(q, k):
    return (q @ k.mT / math.sqrt(q.size(-1))).softmax(dim=-1)


@answers("attention_scores", "detached")
def numbers_only(q, k):
    return (q.data @ k.data.mT) / math.sqrt(q.size(-1))


@answers("attention_scores", "overwritten")
def queries_divided_in_place(q, k):
    q /= math.sqrt(q.size(-1))
    return q @ k.mT


# two at once


@answers("attention_scores", "unscaled", "transposed")
def keys_times_queries_undivided(q, k):
    return k @ q.mT


@answers("attention_scores", "by_d_k", "fixed_axes")
def axes_1_and_2_by_d_k(q, k):
    return q @ k.transpose(1, 2) / q.size(-1)


@answers("attention_scores", "unscaled", "softmax_too")
def undivided_weights(q, k):
    return torch.softmax(q @ k.mT, -1)


# on no list


@answers("attention_scores")
def cosines(q, k):
    return F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT


@answers("attention_scores")
def by_the_length_of_q(q, k):
    return q @ k.mT / q.norm()


@answers("attention_scores")
def distances(q, k):
    return -torch.cdist(q, k) / math.sqrt(q.size(-1))


@answers("attention_scores")
def root_of_everything(q, k):
    return q @ k.mT / math.sqrt(q.numel())


@answers("attention_scores")
def absolute(q, k):
    return (q @ k.mT).abs() / math.sqrt(q.size(-1))


@answers("attention_scores")
def centred(q, k):
    """A softmax would not notice; these are not the scores."""
    scores = q @ k.mT / math.sqrt(q.size(-1))
    return scores - scores.amax(dim=-1, keepdim=True)


@answers("attention_scores")
def natural_logarithm(q, k):
    return q @ k.mT / math.log(q.size(-1) + 1)


@answers("attention_scores")
def only_the_first_sample(q, k):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    return scores[:1].expand_as(scores) if q.dim() == 3 else scores


@answers("attention_scores")
def in_half_precision(q, k):
    return (q.half() @ k.half().mT / math.sqrt(q.size(-1))).to(q.dtype)


@answers("attention_scores")
def flattened(q, k):
    """Queries and keys of all samples meet."""
    return q.reshape(-1, q.size(-1)) @ k.reshape(-1, k.size(-1)).T / math.sqrt(q.size(-1))


@answers("attention_scores")
def eight_for_every_width(q, k):
    return q @ k.mT / 8
