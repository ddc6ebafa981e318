"""Right answers to lab 1 in the styles that people write. Every function here earns full marks."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers

# --- project_qkv ---


@answers("project_qkv")
def three_products(x, w_q, w_k, w_v):
    return x @ w_q, x @ w_k, x @ w_v


@answers("project_qkv")
def matmul_by_name(x, w_q, w_k, w_v):
    queries = torch.matmul(x, w_q)
    keys = torch.matmul(x, w_k)
    values = torch.matmul(x, w_v)
    print(queries.shape, keys.shape, values.shape)
    return queries, keys, values


@answers("project_qkv")
def einsum_letters(x, w_q, w_k, w_v):
    return tuple(torch.einsum("btd,dk->btk", x, w) for w in (w_q, w_k, w_v))


@answers("project_qkv")
def functional_linear(x, w_q, w_k, w_v):
    """F.linear wants (out, in)."""
    return F.linear(x, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)


@answers("project_qkv")
def one_wide_map(x, w_q, w_k, w_v):
    """All three maps side by side, one product, cut apart again."""
    w = torch.cat([w_q, w_k, w_v], dim=1)
    return torch.split(x @ w, [w_q.size(1), w_k.size(1), w_v.size(1)], dim=-1)


@answers("project_qkv")
def token_by_token(x, w_q, w_k, w_v):
    projected = []
    for w in (w_q, w_k, w_v):
        sentences = []
        for sentence in x:
            sentences.append(torch.stack([token @ w for token in sentence]))
        projected.append(torch.stack(sentences))
    q, k, v = projected
    return q, k, v


@answers("project_qkv")
def rows_of_a_long_matrix(x, w_q, w_k, w_v):
    batch, tokens, d_model = x.shape
    flat = x.reshape(batch * tokens, d_model)

    def project(w):
        return flat.mm(w).view(batch, tokens, -1)

    return project(w_q), project(w_k), project(w_v)


@answers("project_qkv")
def batched_products(x, w_q, w_k, w_v):
    return tuple(torch.bmm(x, w.expand(x.size(0), -1, -1)) for w in (w_q, w_k, w_v))


@answers("project_qkv")
def sums_of_products(x, w_q, w_k, w_v):
    """Broadcast to (batch, tokens, d_model, d_k), then summed over d_model."""
    q = (x.unsqueeze(-1) * w_q).sum(-2)
    k = (x.unsqueeze(-1) * w_k).sum(dim=-2)
    v = torch.sum(x[..., None] * w_v, 2)
    return q, k, v


@answers("project_qkv")
def tensordots(x, w_q, w_k, w_v):
    return torch.tensordot(x, w_q, dims=1), torch.tensordot(x, w_k, dims=1), torch.tensordot(x, w_v, dims=([2], [0]))


class Projected(NamedTuple):
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor


@answers("project_qkv")
def named_results(x, w_q, w_k, w_v):
    return Projected(q=x @ w_q, v=x @ w_v, k=x @ w_k)


@answers("project_qkv")
def transposed_twice(x, w_q, w_k, w_v):
    return [(w.T @ x.transpose(1, 2)).transpose(1, 2) for w in (w_q, w_k, w_v)]


# --- attention_scores ---


@answers("attention_scores")
def product_and_root(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


@answers("attention_scores")
def einsum_scores(q, k):
    return torch.einsum("...qd,...kd->...qk", q, k) * q.shape[-1] ** -0.5


@answers("attention_scores")
def queries_scaled_first(q, k):
    return (q / q.shape[-1] ** 0.5).matmul(k.mT)


@answers("attention_scores")
def fourth_roots(q, k):
    """As fused kernels do it: half of the division on each side."""
    fourth_root = q.size(-1) ** 0.25
    return (q / fourth_root) @ (k / fourth_root).swapaxes(-1, -2)


@answers("attention_scores")
def row_by_row(q, k):
    rows = [(q[..., i : i + 1, :] * k).sum(-1) for i in range(q.size(-2))]
    return torch.stack(rows, dim=-2) / torch.sqrt(torch.tensor(float(q.size(-1))))


@answers("attention_scores")
def broadcast_and_sum(q, k):
    d_k = k.shape[-1]
    dots = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(dim=-1)
    return dots.div(math.sqrt(d_k))


@answers("attention_scores")
def transposed_at_the_end(q, k):
    return (k @ q.transpose(-1, -2)).transpose(-1, -2) / math.sqrt(k.size(-1))


@answers("attention_scores")
def as_one_batch(q, k):
    lead = q.shape[:-2]
    flat_q = q.reshape(-1, q.size(-2), q.size(-1))
    flat_k = k.reshape(-1, k.size(-2), k.size(-1))
    scores = torch.bmm(flat_q, flat_k.permute(0, 2, 1)) * (1.0 / math.sqrt(q.size(-1)))
    return scores.reshape(*lead, q.size(-2), k.size(-2))


@answers("attention_scores")
def root_as_a_tensor(q, k):
    scale = torch.tensor(q.size(-1), dtype=q.dtype).rsqrt()
    scores = torch.matmul(q, k.movedim(-1, -2))
    scores *= scale
    return scores


@answers("attention_scores")
def feature_by_feature(q, k):
    total = 0.0
    for c in range(q.shape[-1]):
        total = total + q[..., :, None, c] * k[..., None, :, c]
    return total / q.shape[-1] ** 0.5


# --- scaled_dot_product_attention ---


@answers("scaled_dot_product_attention")
def as_in_the_lecture(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def einsum_and_a_billion(q, k, v, mask=None):
    scores = torch.einsum("...id,...jd->...ij", q, k) / k.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = F.softmax(scores, dim=-1)
    return torch.einsum("...ij,...jd->...id", weights, v), weights


@answers("scaled_dot_product_attention")
def softmax_by_hand(q, k, v, mask=None):
    scores = (q * q.size(-1) ** -0.5) @ k.mT
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    scores = scores - scores.max(dim=-1, keepdim=True).values
    powers = torch.exp(scores)
    attn = powers / powers.sum(-1, keepdim=True)
    return attn.matmul(v), attn


@answers("scaled_dot_product_attention")
def added_bias(q, k, v, mask=None):
    bias = 0.0
    if mask is not None:
        bias = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, float("-inf"))
    weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(k.size(-1)) + bias, -1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def minus_a_billion_where_hidden(q, k, v, mask=None):
    scores = torch.matmul(q, k.transpose(-2, -1)) / torch.sqrt(torch.tensor(float(q.size(-1))))
    if mask is not None:
        scores = scores + (1.0 - mask.to(scores.dtype)) * -1e9
    weights = nn.Softmax(dim=-1)(scores)
    return torch.matmul(weights, v), weights


@answers("scaled_dot_product_attention")
def query_by_query(q, k, v, mask=None):
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    if mask is not None:
        mask = mask.expand(*q.shape[:-1], n_keys)
    outputs, rows = [], []
    for i in range(n_queries):
        dots = (q[..., i : i + 1, :] * k).sum(-1) / math.sqrt(q.shape[-1])
        if mask is not None:
            dots = dots.masked_fill(~mask[..., i, :], -torch.inf)
        row = dots.softmax(-1)
        rows.append(row)
        outputs.append((row[..., None] * v).sum(-2))
    return torch.stack(outputs, -2), torch.stack(rows, -2)


@answers("scaled_dot_product_attention")
def logsumexp_of_the_row(q, k, v, mask=None):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), -math.inf)
    weights = (scores - scores.logsumexp(dim=-1, keepdim=True)).exp()
    return (weights @ v, weights)


@answers("scaled_dot_product_attention")
def masked_before_the_scaling(q, k, v, mask=None):
    dots = q @ k.swapaxes(-2, -1)
    if mask is not None:
        dots = dots.masked_fill(~mask, torch.finfo(dots.dtype).min)
    weights = (dots / math.sqrt(q.size(-1))).softmax(-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def masked_in_place(q, k, v, mask=None):
    """In place, but on a tensor of its own."""
    scores = q @ k.transpose(-2, -1)
    scores /= math.sqrt(q.size(-1))
    if mask is not None:
        scores.masked_fill_(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def helper_scores(queries, keys):
    return torch.matmul(queries, keys.transpose(-1, -2)) / math.sqrt(keys.size(-1))


@answers("scaled_dot_product_attention")
def with_helpers(query, key, value, mask=None, dropout=None):
    """A helper, other names, another argument that nobody passes."""
    logits = helper_scores(query, key)
    if mask is not None:
        logits = logits.masked_fill(torch.logical_not(mask), -1e9)
    p_attn = logits.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return [torch.matmul(p_attn, value), p_attn]


@answers("scaled_dot_product_attention")
def only_the_softmax_in_float32(q, k, v, mask=None):
    """As half-precision models do it."""
    scores = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(torch.float32).min)
    weights = scores.float().softmax(dim=-1).to(q.dtype)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def key_by_key(q, k, v, mask=None):
    """The mean as it comes, one key at a time, as FlashAttention keeps it."""
    best = torch.full((*q.shape[:-1], 1), -math.inf, dtype=q.dtype)
    total, mixed, columns = torch.zeros_like(best), 0.0, []
    for j in range(k.size(-2)):
        score = (q * k[..., j : j + 1, :]).sum(-1, keepdim=True) / math.sqrt(q.size(-1))
        if mask is not None:
            may = mask.expand(*q.shape[:-1], k.size(-2))[..., j : j + 1]
            score = score.masked_fill(~may, -1e9)
        columns.append(score)
        higher = torch.maximum(best, score)
        keep, new = (best - higher).exp(), (score - higher).exp()
        total, mixed, best = total * keep + new, mixed * keep + new * v[..., j : j + 1, :], higher
    return mixed / total, (torch.cat(columns, -1) - best).exp() / total
