"""Wrong attention functions, as students write them; `answers` names their mistakes, or none that is on a list."""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers


def scored(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def finished(scores, v, mask=None, fill=float("-inf")):
    if mask is not None:
        scores = scores.masked_fill(~mask, fill)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "unscaled")
def scaling_forgotten(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = F.softmax(scores, dim=-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "by_d_k")
def too_flat(q, k, v, mask=None):
    return finished(q @ k.mT / q.size(-1), v, mask)


@answers("scaled_dot_product_attention", "precedence")
def half_for_a_root(q, k, v, mask=None):
    return finished(q @ k.mT / k.size(-1) ** 1 / 2, v, mask)


@answers("scaled_dot_product_attention", "floored_root")
def cut_root(q, k, v, mask=None):
    return finished(q @ k.mT / int(q.size(-1) ** 0.5), v, mask)


@answers("scaled_dot_product_attention", "by_n_keys")
def by_tokens(q, k, v, mask=None):
    return finished(q @ k.mT / math.sqrt(k.size(-2)), v, mask, -1e9)


@answers("scaled_dot_product_attention", "by_n_keys")
def by_axis_1_of_q(q, k, v, mask=None):
    return finished(q @ k.mT / math.sqrt(q.size(1)), v, mask)


@answers("scaled_dot_product_attention", "multiplied")
def scaled_the_wrong_way(q, k, v, mask=None):
    return finished(q @ k.mT * math.sqrt(q.size(-1)), v, mask)


@answers("scaled_dot_product_attention", "transposed")
def keys_ask(q, k, v, mask=None):
    return finished(k @ q.mT / math.sqrt(q.size(-1)), v, mask)


@answers("scaled_dot_product_attention", "queries_twice")
def queries_ask_queries(q, k, v, mask=None):
    return finished(scored(q, q), v, mask)


@answers("scaled_dot_product_attention", "keys_twice")
def keys_ask_keys(q, k, v, mask=None):
    return finished(scored(k, k), v, mask)


@answers("scaled_dot_product_attention", "no_transpose")
def transpose_forgotten(q, k, v, mask=None):
    return finished(q @ k / math.sqrt(q.size(-1)), v, mask)


@answers("scaled_dot_product_attention", "viewed")
def keys_reshaped(q, k, v, mask=None):
    return finished(q @ k.reshape(*k.shape[:-2], k.size(-1), k.size(-2)) / math.sqrt(q.size(-1)), v, mask)


@answers("scaled_dot_product_attention", "fixed_axes")
def three_axes_only(q, k, v, mask=None):
    return finished(torch.matmul(q, k.transpose(2, 1)) / math.sqrt(k.size(-1)), v, mask)


@answers("scaled_dot_product_attention", "reversed_axes")
def keys_dot_t(q, k, v, mask=None):
    return finished(q @ k.T / math.sqrt(q.size(-1)), v, mask)


@answers("scaled_dot_product_attention", "scaled_after")
def weights_scaled(q, k, v, mask=None):
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(-1) / math.sqrt(q.size(-1))
    return weights @ v, weights


@answers("scaled_dot_product_attention", "columns")
def softmax_minus_2(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = F.softmax(scores, dim=-2)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "columns")
def softmax_minus_2_a_billion(q, k, v, mask=None):
    """A column in which nothing may be seen is a plain mean then, not NaN."""
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -1e9)
    weights = F.softmax(scores, dim=-2)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "columns")
def softmax_dim_1(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = F.softmax(scores, dim=1)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "over_batch")
def softmax_dim_0(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = F.softmax(scores, dim=0)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "over_batch")
def softmax_without_a_dim(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = F.softmax(scores)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "no_softmax")
def scores_as_weights(q, k, v, mask=None):
    weights = scored(q, k)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "no_maximum")
def naive_softmax(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    powers = torch.exp(scores)
    weights = powers / powers.sum(dim=-1, keepdim=True)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "weights_transposed")
def given_not_taken(q, k, v, mask=None):
    weights = finished(scored(q, k), v, mask)[1]
    return weights.transpose(-2, -1) @ v, weights


@answers("scaled_dot_product_attention", "weights_out")
def values_forgotten(q, k, v, mask=None):
    weights = finished(scored(q, k), v, mask)[1]
    return weights, weights


@answers("scaled_dot_product_attention", "k_for_v")
def keys_averaged(q, k, v, mask=None):
    return finished(scored(q, k), k, mask)


@answers("scaled_dot_product_attention", "q_for_v")
def queries_averaged(q, k, v, mask=None):
    return finished(scored(q, k), q, mask)


@answers("scaled_dot_product_attention", "scores_returned")
def scores_as_second_result(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v, scores


@answers("scaled_dot_product_attention", "exchanged")
def weights_first(q, k, v, mask=None):
    output, weights = finished(scored(q, k), v, mask)
    return weights, output


@answers("scaled_dot_product_attention", "mask_ignored")
def mask_not_used(q, k, v, mask=None):
    return finished(scored(q, k), v)


@answers("scaled_dot_product_attention", "mask_ignored")
def masked_scores_thrown_away(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "mask_after")
def weights_masked(q, k, v, mask=None):
    weights = scored(q, k).softmax(dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "filled_with_0")
def filled_with_nothing(q, k, v, mask=None):
    return finished(scored(q, k), v, mask, fill=0.0)


@answers("scaled_dot_product_attention", "filled_with_0")
def times_the_mask(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores * mask
    return finished(scores, v)


@answers("scaled_dot_product_attention", "filled_with_0")
def a_billionth(q, k, v, mask=None):
    """1e-9 for −1e9."""
    return finished(scored(q, k), v, mask, fill=1e-9)


@answers("scaled_dot_product_attention", "filled_with_inf")
def sign_forgotten(q, k, v, mask=None):
    return finished(scored(q, k), v, mask, fill=float("inf"))


@answers("scaled_dot_product_attention", "mask_inverted")
def true_means_hide(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return finished(scores, v)


@answers("scaled_dot_product_attention", "mask_inverted")
def true_means_hide_a_billion(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(mask == 1, -1e9)
    return finished(scores, v)


@answers("scaled_dot_product_attention", "mask_inverted")
def mask_times_minus_a_billion(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores + mask * -1e9
    return finished(scores, v)


@answers("scaled_dot_product_attention", "mask_on_queries")
def rows_hidden(q, k, v, mask=None):
    return finished(scored(q, k), v, None if mask is None else mask.transpose(-2, -1))


@answers("scaled_dot_product_attention", "mask_on_queries")
def rows_hidden_a_billion(q, k, v, mask=None):
    return finished(scored(q, k), v, None if mask is None else mask.mT, fill=-1e9)


@answers("scaled_dot_product_attention", "mask_added")
def mask_added(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores + mask
    return finished(scores, v)


@answers("scaled_dot_product_attention", "own_causal")
def always_a_triangle(q, k, v, mask=None):
    if mask is not None:
        mask = torch.tril(torch.ones(q.size(-2), k.size(-2))).bool()
    return finished(scored(q, k), v, mask)


@answers("scaled_dot_product_attention", "detached")
def behind_no_grad(q, k, v, mask=None):
    with torch.no_grad():
        return finished(scored(q, k), v, mask)


@answers("scaled_dot_product_attention", "overwritten")
def divides_the_callers_queries(q, k, v, mask=None):
    q /= math.sqrt(q.size(-1))
    return finished(q @ k.mT, v, mask)


# two at once


@answers("scaled_dot_product_attention", "unscaled", "columns")
def undivided_columns(q, k, v, mask=None):
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-2)
    return weights @ v, weights


@answers("scaled_dot_product_attention", "by_d_k", "mask_after")
def too_flat_and_masked_late(q, k, v, mask=None):
    weights = (q @ k.mT / q.size(-1)).softmax(dim=-1)
    if mask is not None:
        weights = weights * mask
    return weights @ v, weights


@answers("scaled_dot_product_attention", "filled_with_0", "exchanged")
def leaking_and_exchanged(q, k, v, mask=None):
    return finished(scored(q, k), v, mask, fill=0.0)[::-1]


@answers("scaled_dot_product_attention", "mask_inverted", "k_for_v")
def inverted_keys(q, k, v, mask=None):
    return finished(scored(q, k), k, None if mask is None else ~mask)


@answers("scaled_dot_product_attention", "fixed_axes", "mask_ignored")
def three_axes_without_a_mask(q, k, v, mask=None):
    return finished(q @ k.transpose(1, 2) / math.sqrt(q.size(-1)), v)


@answers("scaled_dot_product_attention", "unscaled", "mask_inverted")
def undivided_and_inverted(q, k, v, mask=None):
    return finished(q @ k.mT, v, None if mask is None else ~mask, fill=-1e9)


# on no list


@answers("scaled_dot_product_attention")
def filled_with_minus_100(q, k, v, mask=None):
    return finished(scored(q, k), v, mask, fill=-100.0)


@answers("scaled_dot_product_attention")
def filled_with_minus_10000(q, k, v, mask=None):
    """As for half precision; scores can be lower than that."""
    return finished(scored(q, k), v, mask, fill=-1e4)


@answers("scaled_dot_product_attention")
def values_unchanged(q, k, v, mask=None):
    return v, torch.eye(v.size(-2)).expand(*v.shape[:-1], -1)


@answers("scaled_dot_product_attention")
def output_alone(q, k, v, mask=None):
    return finished(scored(q, k), v, mask)[0]


@answers("scaled_dot_product_attention")
def fused(q, k, v, mask=None):
    """Somebody else's answer."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask), finished(scored(q, k), v, mask)[1]


@answers("scaled_dot_product_attention")
def hardest_key_only(q, k, v, mask=None):
    scores = scored(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = F.one_hot(scores.argmax(-1), scores.size(-1)).to(q.dtype)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def sigmoid_gates(q, k, v, mask=None):
    weights = scored(q, k).sigmoid()
    if mask is not None:
        weights = weights * mask
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def hidden_only_a_little(q, k, v, mask=None):
    return finished(scored(q, k), v, mask, fill=-5.0)


@answers("scaled_dot_product_attention")
def unmasked_weights_returned(q, k, v, mask=None):
    return finished(scored(q, k), v, mask)[0], scored(q, k).softmax(-1)


@answers("scaled_dot_product_attention")
def dropout_left_on(q, k, v, mask=None):
    weights = F.dropout(finished(scored(q, k), v, mask)[1], 0.1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def values_masked_instead(q, k, v, mask=None):
    """The hidden keys' values set to 0: their weights stay."""
    if mask is not None and mask.size(-2) == 1:
        v = v * mask.transpose(-2, -1)
    return finished(scored(q, k), v)


@answers("scaled_dot_product_attention")
def softmax_twice(q, k, v, mask=None):
    weights = finished(scored(q, k), v, mask)[1].softmax(-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def divided_by_the_sum(q, k, v, mask=None):
    """Shares of the scores themselves."""
    scores = scored(q, k)
    if mask is not None:
        scores = scores * mask
    weights = scores / scores.sum(-1, keepdim=True)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def maximum_of_everything_in_half(q, k, v, mask=None):
    output, weights = finished(scored(q.half(), k.half()), v.half(), mask)
    return output.to(q.dtype), weights.to(q.dtype)


@answers("scaled_dot_product_attention")
def residual_added(q, k, v, mask=None):
    output, weights = finished(scored(q, k), v, mask)
    return output + v.mean(-2, keepdim=True), weights


@answers("scaled_dot_product_attention")
def mask_of_the_first_sample(q, k, v, mask=None):
    if mask is not None and mask.dim() == q.dim():
        mask = mask[:1]
    return finished(scored(q, k), v, mask)


@answers("scaled_dot_product_attention")
def masked_after_and_shared_out(q, k, v, mask=None):
    """Hidden weights set to 0 after the softmax, and the rest divided by its sum: 0/0 where a hidden key had it all."""
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ v, weights
