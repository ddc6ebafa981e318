"""Wrong masks, written as students write them; `answers` names their mistakes, or none that is on a list."""

import numpy as np
import torch

from tests.answers import answers

# --- padding_mask ---


@answers("padding_mask", "mask_inverted")
def true_where_padding(lengths, n_tokens):
    """As torch.nn.MultiheadAttention wants it."""
    return (torch.arange(n_tokens) >= lengths[:, None])[:, None, None, :]


@answers("padding_mask", "one_too_many")
def up_to_and_with(lengths, n_tokens):
    return (torch.arange(n_tokens) <= lengths.unsqueeze(1)).unsqueeze(1).unsqueeze(1)


@answers("padding_mask", "one_too_few")
def counted_from_one(lengths, n_tokens):
    return (torch.arange(1, n_tokens + 1) < lengths[:, None])[:, None, None]


@answers("padding_mask", "filler_first")
def right_aligned(lengths, n_tokens):
    mask = torch.zeros(len(lengths), 1, 1, n_tokens, dtype=torch.bool)
    for i, length in enumerate(lengths.tolist()):
        mask[i, :, :, n_tokens - length :] = True
    return mask


@answers("padding_mask", "two_axes")
def batch_and_tokens(lengths, n_tokens):
    return torch.arange(n_tokens).expand(len(lengths), n_tokens) < lengths.unsqueeze(1)


@answers("padding_mask", "two_axes")
def one_axis_short(lengths, n_tokens):
    return (torch.arange(n_tokens)[None, :] < lengths[:, None]).unsqueeze(1)


@answers("padding_mask", "mask_on_queries")
def unsqueezed_at_the_end(lengths, n_tokens):
    real = torch.arange(n_tokens) < lengths[:, None]
    return real.unsqueeze(1).unsqueeze(-1)


@answers("padding_mask", "on_both")
def outer_product(lengths, n_tokens):
    real = torch.arange(n_tokens) < lengths[:, None]
    return (real[:, :, None] & real[:, None, :]).unsqueeze(1)


@answers("padding_mask", "longest")
def from_the_lengths_alone(lengths, n_tokens):
    return (torch.arange(int(lengths.max())) < lengths[:, None])[:, None, None, :]


@answers("padding_mask", "numbers")
def ones_and_zeros(lengths, n_tokens):
    mask = torch.zeros(len(lengths), n_tokens)
    for row, length in zip(mask, lengths, strict=True):
        row[:length] = 1
    return mask[:, None, None, :]


@answers("padding_mask", "numbers")
def integers(lengths, n_tokens):
    return (torch.arange(n_tokens) < lengths[:, None]).long()[:, None, None]


@answers("padding_mask", "to_be_added")
def minus_infinity(lengths, n_tokens):
    mask = torch.zeros(lengths.size(0), 1, 1, n_tokens)
    return mask.masked_fill((torch.arange(n_tokens) >= lengths[:, None])[:, None, None], float("-inf"))


@answers("padding_mask", "to_be_added")
def minus_a_billion(lengths, n_tokens):
    real = (torch.arange(n_tokens) < lengths[:, None]).to(torch.get_default_dtype())
    return ((1.0 - real) * -1e9)[:, None, None, :]


@answers("padding_mask", "overwritten")
def lengths_counted_down(lengths, n_tokens):
    mask = torch.zeros(len(lengths), 1, 1, n_tokens, dtype=torch.bool)
    for place in range(n_tokens):
        mask[:, 0, 0, place] = lengths > 0
        lengths -= 1
    return mask


# two at once


@answers("padding_mask", "mask_inverted", "two_axes")
def key_padding_mask(lengths, n_tokens):
    return torch.arange(n_tokens)[None] >= lengths[:, None]


@answers("padding_mask", "one_too_many", "mask_on_queries")
def too_many_on_the_queries(lengths, n_tokens):
    return (torch.arange(n_tokens) <= lengths[:, None])[:, None, :, None]


@answers("padding_mask", "mask_inverted", "one_too_few")
def inverted_one_off(lengths, n_tokens):
    return (torch.arange(n_tokens) > lengths[:, None] - 2)[:, None, None, :]


@answers("padding_mask", "two_axes", "numbers")
def float_batch_and_tokens(lengths, n_tokens):
    return (torch.arange(n_tokens) < lengths[:, None]).float().double()


@answers("padding_mask", "longest", "two_axes")
def torch_pad_sequence(lengths, n_tokens):
    ones = [torch.ones(int(n), dtype=torch.bool) for n in lengths]
    return torch.nn.utils.rnn.pad_sequence(ones, batch_first=True, padding_value=False)


# on no list


@answers("padding_mask")
def everything_is_real(lengths, n_tokens):
    return torch.ones(len(lengths), 1, 1, n_tokens, dtype=torch.bool)


@answers("padding_mask")
def one_length_for_all(lengths, n_tokens):
    return (torch.arange(n_tokens) < lengths[0]).expand(len(lengths), 1, 1, n_tokens)


@answers("padding_mask")
def only_the_last_real_one(lengths, n_tokens):
    return (torch.arange(n_tokens) == lengths[:, None] - 1)[:, None, None, :]


@answers("padding_mask")
def lengths_sorted(lengths, n_tokens):
    return (torch.arange(n_tokens) < lengths.sort(descending=True).values[:, None])[:, None, None, :]


@answers("padding_mask")
def squares(lengths, n_tokens):
    """Right in use, but it is not the shape that was asked for."""
    real = torch.arange(n_tokens) < lengths[:, None]
    return real[:, None, None, :].expand(-1, 1, n_tokens, n_tokens)


@answers("padding_mask")
def first_token_hidden(lengths, n_tokens):
    places = torch.arange(n_tokens)
    return ((places > 0) & (places < lengths[:, None]))[:, None, None, :]


@answers("padding_mask")
def at_least_one_real(lengths, n_tokens):
    return (torch.arange(n_tokens) < lengths.clamp(min=1)[:, None])[:, None, None, :]


@answers("padding_mask")
def heads_first(lengths, n_tokens):
    return (torch.arange(n_tokens) < lengths[:, None])[None, :, None, :]


@answers("padding_mask")
def as_an_array(lengths, n_tokens):
    return (np.arange(n_tokens) < lengths.numpy()[:, None])[:, None, None, :]


@answers("padding_mask")
def a_fraction(lengths, n_tokens):
    return (torch.linspace(0, 1, n_tokens) < (lengths / n_tokens)[:, None])[:, None, None, :]


@answers("padding_mask")
def no_empty_ones(lengths, n_tokens):
    if (lengths == 0).any():
        raise ValueError("every sequence needs a token")
    return (torch.arange(n_tokens) < lengths[:, None])[:, None, None, :]


# --- causal_mask ---


@answers("causal_mask", "no_self")
def below_the_diagonal(n_tokens):
    return torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril(diagonal=-1)


@answers("causal_mask", "no_self")
def triu_without_diagonal(n_tokens):
    """The upper triangle, diagonal included, is hidden."""
    return torch.triu(torch.ones(n_tokens, n_tokens), diagonal=0) == 0


@answers("causal_mask", "one_ahead")
def diagonal_one(n_tokens):
    return torch.tril(torch.ones(n_tokens, n_tokens, dtype=torch.bool), diagonal=1)


@answers("causal_mask", "transposed")
def upper_triangle(n_tokens):
    return torch.ones(n_tokens, n_tokens).triu().bool()


@answers("causal_mask", "transposed")
def comparison_turned(n_tokens):
    i = torch.arange(n_tokens)
    return i.unsqueeze(1) <= i.unsqueeze(0)


@answers("causal_mask", "mask_inverted")
def true_where_hidden(n_tokens):
    return torch.triu(torch.ones(n_tokens, n_tokens, dtype=torch.bool), diagonal=1)


@answers("causal_mask", "everything")
def thrown_away(n_tokens):
    mask = torch.ones(n_tokens, n_tokens, dtype=torch.bool)
    mask.tril()
    return mask


@answers("causal_mask", "axes_in_front")
def four_axes(n_tokens):
    return torch.ones(1, 1, n_tokens, n_tokens).tril().bool()


@answers("causal_mask", "axes_in_front")
def three_axes(n_tokens):
    return torch.ones(n_tokens, n_tokens).tril().bool().unsqueeze(0)


@answers("causal_mask", "numbers")
def floats(n_tokens):
    return torch.tril(torch.ones(n_tokens, n_tokens))


@answers("causal_mask", "numbers")
def bytes_(n_tokens):
    return torch.tril(torch.ones(n_tokens, n_tokens, dtype=torch.uint8))


@answers("causal_mask", "to_be_added")
def as_in_torch_transformer(n_tokens):
    return torch.nn.Transformer.generate_square_subsequent_mask(n_tokens)


@answers("causal_mask", "to_be_added")
def large_negative(n_tokens):
    return torch.triu(torch.full((n_tokens, n_tokens), -1e9), diagonal=1)


@answers("causal_mask", "one_ahead", "axes_in_front")
def ahead_with_axes(n_tokens):
    return torch.ones(n_tokens, n_tokens).tril(1).bool()[None, None]


@answers("causal_mask", "mask_inverted", "numbers")
def hidden_is_one(n_tokens):
    return torch.triu(torch.ones(n_tokens, n_tokens), 1)


@answers("causal_mask", "transposed", "to_be_added")
def added_transposed(n_tokens):
    return torch.full((n_tokens, n_tokens), float("-inf")).tril(-1).nan_to_num(nan=0.0, neginf=float("-inf"))


# on no list


@answers("causal_mask")
def itself_alone(n_tokens):
    return torch.eye(n_tokens, dtype=torch.bool)


@answers("causal_mask")
def two_back(n_tokens):
    """A window: a token sees itself and the two before it."""
    i = torch.arange(n_tokens)
    distance = i[:, None] - i
    return (distance >= 0) & (distance <= 2)


@answers("causal_mask")
def other_diagonal(n_tokens):
    return torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril().flip(0)


@answers("causal_mask")
def one_wider(n_tokens):
    return torch.ones(n_tokens + 1, n_tokens + 1, dtype=torch.bool).tril()


@answers("causal_mask")
def one_row(n_tokens):
    return torch.ones(n_tokens, dtype=torch.bool)


@answers("causal_mask")
def nothing_to_see(n_tokens):
    return torch.zeros(n_tokens, n_tokens, dtype=torch.bool)


@answers("causal_mask")
def first_sees_all(n_tokens):
    mask = torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()
    mask[0] = True
    return mask


@answers("causal_mask")
def never_the_first(n_tokens):
    mask = torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()
    mask[1:, 0] = False
    return mask


@answers("causal_mask")
def both_sides_of_one(n_tokens):
    ones = torch.ones(n_tokens, n_tokens, dtype=torch.bool)
    return ones.tril(1) & ones.triu(-1)


@answers("causal_mask")
def a_list_of_lists(n_tokens):
    return [[key <= query for key in range(n_tokens)] for query in range(n_tokens)]


@answers("padding_mask")
def none_where_nothing_is_padded(lengths, n_tokens):
    real = torch.arange(n_tokens) < lengths[:, None]
    return None if real.all() else real[:, None, None, :]
