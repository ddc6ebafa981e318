"""Wrong `masked_attention`: the program as given, half mended, and mended wrongly.

`…_as_given` is the broken program of the lab, with both of its slips.
"""

import math

import torch

from tests.answers import answers


@answers("masked_attention", "future_seen", "on_queries")
def attention_as_given(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    real = torch.arange(tokens) < lengths[:, None]
    scores = scores.masked_fill(~real[:, :, None], -1e9)
    if causal:
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(diagonal=1)
        scores.masked_fill(future, -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def masked(q, k, v, lengths, causal, hide=-1e9, hide_future=None, keys=None, diagonal=1, scale=True):
    """The frame: what is hidden, and with what, is wrong in each function."""
    tokens = q.size(1)
    scores = q @ k.mT / (math.sqrt(q.size(-1)) if scale else 1.0)
    real = torch.arange(tokens) < lengths[:, None]
    scores = scores.masked_fill(real[:, None, :].logical_not() if keys is None else ~keys(real), hide)
    if causal:
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(diagonal)
        scores = scores.masked_fill(future, hide if hide_future is None else hide_future)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "on_queries")
def rows_hidden(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None])


@answers("masked_attention", "on_queries")
def rows_hidden_to_infinity(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None], hide=-math.inf)


@answers("masked_attention", "on_queries")
def rows_hidden_with_two_fills(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None], hide_future=-math.inf)


@answers("masked_attention", "future_seen")
def thrown_away(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    real = torch.arange(tokens) < lengths[:, None]
    scores = scores.masked_fill(~real[:, None, :], -1e9)
    if causal:
        scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "on_both")
def rows_and_columns(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None] & real[:, None, :])


@answers("masked_attention", "on_both")
def rows_and_columns_to_infinity(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None] & real[:, None, :], hide=-math.inf)


@answers("masked_attention", "padding_ignored")
def padding_thrown_away(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    real = torch.arange(tokens) < lengths[:, None]
    scores.masked_fill(~real[:, None, :], -1e9)
    if causal:
        scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "either")
def one_or_the_other(q, k, v, lengths, causal):
    tokens = q.size(1)
    hidden = (torch.arange(tokens) >= lengths[:, None])[:, None, :]
    if causal:
        hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    weights = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(hidden, -math.inf).softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "one_more")
def up_to_and_including(q, k, v, lengths, causal):
    return masked(q, k, v, lengths + 1, causal)


@answers("masked_attention", "real_inverted")
def real_ones_hidden(*inputs):
    return masked(*inputs, keys=lambda real: ~real[:, None, :], hide=-math.inf)


@answers("masked_attention", "itself_hidden")
def diagonal_hidden(*inputs):
    return masked(*inputs, hide=-math.inf, diagonal=0)


@answers("masked_attention", "next_seen")
def one_diagonal_too_many(*inputs):
    return masked(*inputs, hide=-math.inf, diagonal=2)


@answers("masked_attention", "future_inverted")
def lower_triangle_hidden(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    scores = scores.masked_fill(torch.arange(tokens) >= lengths[:, None, None], -math.inf)
    if causal:
        scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).tril(), -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "always")
def causal_always(q, k, v, lengths, causal):
    return masked(q, k, v, lengths, True)


@answers("masked_attention", "future_after")
def triangle_after_softmax(q, k, v, lengths, causal):
    _, weights = masked(q, k, v, lengths, False)
    weights = weights.tril() if causal else weights
    return weights @ v, weights


@answers("masked_attention", "mask_after")
def both_after_softmax(q, k, v, lengths, causal):
    weights = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)
    weights = weights * (torch.arange(q.size(1)) < lengths[:, None])[:, None]
    weights = weights.tril() if causal else weights
    return weights @ v, weights


@answers("masked_attention", "filled_with_0")
def zeros(*inputs):
    return masked(*inputs, hide=0.0)


@answers("masked_attention", "unscaled")
def root_lost(*inputs):
    return masked(*inputs, scale=False)


@answers("masked_attention", "overwritten")
def scales_q_in_place(q, k, v, lengths, causal):
    q /= math.sqrt(q.size(-1))
    return masked(q, k, v, lengths, causal, scale=False)


@answers("masked_attention", "future_seen", "padding_ignored")
def no_mask_at_all(q, k, v, lengths, causal):
    weights = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)
    return weights @ v, weights


@answers("masked_attention", "future_seen", "on_both")
def rows_columns_and_future(q, k, v, lengths, causal):
    return masked(q, k, v, lengths, False, keys=lambda real: real[:, :, None] & real[:, None, :])


@answers("masked_attention", "on_queries", "future_after")
def rows_hidden_triangle_after(q, k, v, lengths, causal):
    _, weights = masked(q, k, v, lengths, False, keys=lambda real: real[:, :, None])
    weights = weights.tril() if causal else weights
    return weights @ v, weights


@answers("masked_attention")
def weak_fill(*inputs):
    return masked(*inputs, hide=-5.0)


@answers("masked_attention")
def output_alone(*inputs):
    return masked(*inputs)[0]


@answers("masked_attention")
def exchanged_results(*inputs):
    output, weights = masked(*inputs)
    return weights, output


@answers("masked_attention")
def longest_length_for_all(q, k, v, lengths, causal):
    return masked(q, k, v, lengths.max().expand_as(lengths), causal, diagonal=2)


@answers("masked_attention")
def shortest_length_for_all(q, k, v, lengths, causal):
    return masked(q, k, v, lengths.min().expand_as(lengths), causal)


@answers("masked_attention")
def padding_at_the_front(q, k, v, lengths, causal):
    return masked(q, k, v, lengths, causal, keys=lambda real: real.flip(-1)[:, None, :], hide=-1e9)


@answers("masked_attention")
def padded_rows_emptied(*inputs):
    output, weights = masked(*inputs)
    real = (torch.arange(inputs[0].size(1)) < inputs[3][:, None])[..., None]
    return output * real, weights * real


@answers("masked_attention")
def scaled_by_tokens(q, k, v, lengths, causal):
    return masked(q * math.sqrt(q.size(-1) / q.size(1)), k, v, lengths, causal)


@answers("masked_attention", "next_seen")
def one_future_token(*inputs):
    return masked(*inputs, diagonal=2)


@answers("masked_attention")
def queries_for_keys(q, k, v, lengths, causal):
    return masked(k, q, v, lengths, causal)


@answers("masked_attention")
def even_weights(q, k, v, lengths, causal):
    return masked(torch.zeros_like(q), k, v, lengths, causal)


@answers("masked_attention")
def lowered_by_100(q, k, v, lengths, causal):
    places = torch.arange(q.size(1))
    hidden = (places >= lengths[:, None])[:, None, :].expand(-1, q.size(1), -1)
    hidden = hidden | (places > places[:, None]) if causal else hidden
    weights = (q @ k.mT / math.sqrt(q.size(-1)) - 100.0 * hidden).softmax(-1)
    return weights @ v, weights


@answers("masked_attention")
def filled_with_minus_100(*inputs):
    return masked(*inputs, hide=-100.0)


@answers("masked_attention")
def overflows_above(q, k, v, lengths, causal):
    places = torch.arange(q.size(1))
    keep = (places < lengths[:, None])[:, None, :].expand(-1, q.size(1), -1)
    keep = keep & (places <= places[:, None]) if causal else keep
    powers = (q @ k.mT / math.sqrt(q.size(-1))).exp().masked_fill(~keep, 0.0)
    weights = powers / powers.sum(-1, keepdim=True)
    return weights @ v, weights


@answers("masked_attention")
def over_the_queries(q, k, v, lengths, causal):
    """Where a key is hidden from all queries, its column is a plain mean."""
    places = torch.arange(q.size(1))
    keep = (places < lengths[:, None])[:, None, :].expand(-1, q.size(1), -1)
    keep = keep & (places <= places[:, None]) if causal else keep
    weights = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~keep, -1e9).softmax(1)
    return weights @ v, weights
