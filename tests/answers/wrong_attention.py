"""Wrong answers to lab 1, written as students write them; `answers` names their mistakes, or none that is on a list."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers

# --- project_qkv ---


@answers("project_qkv", "w_transposed")
def maps_as_in_nn_linear(x, w_q, w_k, w_v):
    return x @ w_q.T, x @ w_k.T, x @ w_v.T


@answers("project_qkv", "w_transposed")
def linear_without_the_transpose(x, w_q, w_k, w_v):
    return F.linear(x, w_q), F.linear(x, w_k), F.linear(x, w_v)


@answers("project_qkv", "w_left")
def maps_first(x, w_q, w_k, w_v):
    return w_q @ x, w_k @ x, w_v @ x


@answers("project_qkv", "w_left")
def maps_first_transposed(x, w_q, w_k, w_v):
    return tuple(w.T @ x for w in (w_q, w_k, w_v))


@answers("project_qkv", "shared_qkv")
def one_map_for_all(x, w_q, w_k, w_v):
    q = k = v = x @ w_q
    return q, k, v


@answers("project_qkv", "shared_qk")
def keys_copied_from_the_queries(x, w_q, w_k, w_v):
    q = x @ w_q
    k = x @ w_q
    v = x @ w_v
    return q, k, v


@answers("project_qkv", "k_for_v")
def values_with_w_k(x, w_q, w_k, w_v):
    return x @ w_q, x @ w_k, x @ w_k


@answers("project_qkv", "q_for_v")
def values_with_w_q(x, w_q, w_k, w_v):
    return x @ w_q, x @ w_k, x @ w_q


@answers("project_qkv", "x_for_v")
def values_not_projected(x, w_q, w_k, w_v):
    return x @ w_q, x @ w_k, x


@answers("project_qkv", "exchanged_qk")
def keys_first(x, w_q, w_k, w_v):
    return x @ w_k, x @ w_q, x @ w_v


@answers("project_qkv", "exchanged_kv")
def values_second(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    return q, v, k


@answers("project_qkv", "chained")
def x_written_over(x, w_q, w_k, w_v):
    q = x = x @ w_q
    k = x = x @ w_k
    v = x @ w_v
    return q, k, v


@answers("project_qkv", "scaled_q")
def divided_here(x, w_q, w_k, w_v):
    return x @ w_q / math.sqrt(w_q.size(1)), x @ w_k, x @ w_v


@answers("project_qkv", "detached")
def with_numpy(x, w_q, w_k, w_v):
    arrays = [tensor.detach().numpy() for tensor in (x, w_q, w_k, w_v)]
    return tuple(torch.from_numpy(arrays[0] @ w) for w in arrays[1:])


@answers("project_qkv", "detached")
def under_no_grad(x, w_q, w_k, w_v):
    with torch.no_grad():
        return x @ w_q, x @ w_k, x @ w_v


@answers("project_qkv", "overwritten")
def maps_turned_over_in_place(x, w_q, w_k, w_v):
    return F.linear(x, w_q.t_()), F.linear(x, w_k.t_()), F.linear(x, w_v.t_())


# two at once


@answers("project_qkv", "k_for_v", "scaled_q")
def values_with_w_k_and_divided(x, w_q, w_k, w_v):
    q = (x @ w_q) / w_q.shape[-1] ** 0.5
    k = x @ w_k
    return q, k, k


@answers("project_qkv", "w_transposed", "exchanged_qk")
def transposed_and_exchanged(x, w_q, w_k, w_v):
    return x @ w_k.T, x @ w_q.T, x @ w_v.T


@answers("project_qkv", "shared_qk", "exchanged_kv")
def shared_and_exchanged(x, w_q, w_k, w_v):
    return x @ w_q, x @ w_v, x @ w_q


# on no list


@answers("project_qkv")
def all_three_are_x(x, w_q, w_k, w_v):
    return x, x, x


@answers("project_qkv")
def only_the_queries(x, w_q, w_k, w_v):
    return x @ w_q


@answers("project_qkv")
def in_one_tensor(x, w_q, w_k, w_v):
    return torch.cat([x @ w_q, x @ w_k, x @ w_v], dim=-1)


@answers("project_qkv")
def new_layers(x, w_q, w_k, w_v):
    """Layers of its own, with random weights."""
    d_model = x.size(-1)
    layers = [nn.Linear(d_model, w.size(1), dtype=x.dtype) for w in (w_q, w_k, w_v)]
    return tuple(layer(x) for layer in layers)


@answers("project_qkv")
def layers_given_the_numbers(x, w_q, w_k, w_v):
    """The outputs are right; the maps hear nothing of the gradient."""
    projected = []
    for w in (w_q, w_k, w_v):
        layer = nn.Linear(*w.shape, bias=False)
        layer.weight.data = w.data.T
        projected.append(layer(x))
    return tuple(projected)


@answers("project_qkv")
def with_a_nonlinearity(x, w_q, w_k, w_v):
    return torch.relu(x @ w_q), torch.relu(x @ w_k), torch.relu(x @ w_v)


@answers("project_qkv")
def the_first_sentence_for_all(x, w_q, w_k, w_v):
    q, k, v = (x[:1] @ w for w in (w_q, w_k, w_v))
    return tuple(t.expand(x.size(0), -1, -1) for t in (q, k, v))


@answers("project_qkv")
def reshaped_to_fit(x, w_q, w_k, w_v):
    """Whatever the shapes say, `reshape` makes it run."""
    return tuple((x.transpose(0, 1).reshape(-1, x.size(-1)) @ w).reshape(*x.shape[:-1], -1) for w in (w_q, w_k, w_v))


@answers("project_qkv")
def averaged_over_tokens(x, w_q, w_k, w_v):
    mean = x.mean(dim=1, keepdim=True).expand_as(x)
    return x @ w_q, x @ w_k, mean @ w_v


@answers("project_qkv")
def softmaxed_queries(x, w_q, w_k, w_v):
    return (x @ w_q).softmax(-1), x @ w_k, x @ w_v


@answers("project_qkv")
def rounded(x, w_q, w_k, w_v):
    return tuple(torch.round(x @ w, decimals=3) for w in (w_q, w_k, w_v))


# --- attention_scores ---


@answers("attention_scores", "unscaled")
def not_divided(q, k):
    return q @ k.transpose(-2, -1)


@answers("attention_scores", "by_d_k")
def divided_by_d_k(q, k):
    return torch.matmul(q, k.mT) / q.size(-1)


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


# --- scaled_dot_product_attention ---


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
