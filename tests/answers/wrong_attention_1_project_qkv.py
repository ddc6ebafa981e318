"""Wrong `project_qkv`, as students write them; `answers` names their mistakes, or none that is on a list."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers


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
