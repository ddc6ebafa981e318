"""Right answers to lab 6's two masks in the styles that people write. Every function here earns full marks."""

import numpy as np
import torch
from torch.nn.functional import one_hot

from tests.answers import answers

# --- padding_mask ---


@answers("padding_mask")
def compared(lengths, n_tokens):
    real = torch.arange(n_tokens) < lengths[:, None]
    return real[:, None, None, :]


@answers("padding_mask")
def unsqueezed(lengths, n_tokens):
    positions = torch.arange(n_tokens, device=lengths.device).unsqueeze(0)
    mask = lengths.unsqueeze(1) > positions
    return mask.unsqueeze(1).unsqueeze(2)


@answers("padding_mask")
def row_by_row(lengths, n_tokens):
    mask = torch.zeros(len(lengths), 1, 1, n_tokens, dtype=torch.bool)
    for i, length in enumerate(lengths):
        mask[i, :, :, :length] = True
    return mask


@answers("padding_mask")
def lists(lengths, n_tokens):
    rows = [[j < n for j in range(n_tokens)] for n in lengths.tolist()]
    return torch.tensor(rows).view(len(rows), 1, 1, n_tokens)


@answers("padding_mask")
def padding_inverted_twice(lengths, n_tokens):
    filler = torch.arange(n_tokens)[None].expand(lengths.shape[0], -1) >= lengths[:, None]
    return ~filler[:, None, None]


@answers("padding_mask")
def in_numpy(lengths, n_tokens):
    real = np.arange(n_tokens) < lengths.numpy().reshape(-1, 1)
    return torch.from_numpy(real[:, np.newaxis, np.newaxis])


@answers("padding_mask")
def broadcast_at_once(lengths, n_tokens):
    return lengths.view(-1, 1, 1, 1) - 1 >= torch.arange(n_tokens)


@answers("padding_mask")
def counted(lengths, n_tokens):
    """Ones summed up along the tokens: 1, 2, 3, … up to the length."""
    ones = torch.ones(lengths.numel(), n_tokens)
    return (ones.cumsum(1) <= lengths.reshape(-1, 1)).reshape(-1, 1, 1, n_tokens)


@answers("padding_mask")
def rows_of_a_triangle(lengths, n_tokens):
    triangle = torch.ones(n_tokens + 1, n_tokens).tril(-1).bool()
    return triangle[lengths][:, None, None, :]


@answers("padding_mask")
def ends_marked(lengths, n_tokens):
    """A 1 where the filler begins, summed up to 1 from there on."""
    print("lengths", lengths)
    begins = one_hot(lengths, n_tokens + 1)
    return (begins.cumsum(-1)[:, :n_tokens] == 0)[:, None, None]


# --- causal_mask ---


@answers("causal_mask")
def triangle(n_tokens):
    return torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()


@answers("causal_mask")
def tril_of_floats(n_tokens):
    return torch.tril(torch.ones(n_tokens, n_tokens)).bool()


@answers("causal_mask")
def not_above(n_tokens):
    return ~torch.triu(torch.ones((n_tokens, n_tokens), dtype=torch.bool), diagonal=1)


@answers("causal_mask")
def positions_compared(n_tokens):
    i = torch.arange(n_tokens)
    return i[:, None] >= i[None, :]


@answers("causal_mask")
def loops(n_tokens):
    mask = torch.zeros(n_tokens, n_tokens, dtype=torch.bool)
    for i in range(n_tokens):
        for j in range(i + 1):
            mask[i, j] = True
    return mask


@answers("causal_mask")
def comprehension(n_tokens):
    return torch.tensor([[key <= query for key in range(n_tokens)] for query in range(n_tokens)])


@answers("causal_mask")
def indices(n_tokens):
    mask = torch.full((n_tokens, n_tokens), False)
    rows, columns = torch.tril_indices(n_tokens, n_tokens)
    mask[rows, columns] = True
    return mask


@answers("causal_mask")
def numpy_triangle(n_tokens):
    return torch.from_numpy(np.tri(n_tokens, dtype=bool))


@answers("causal_mask")
def from_an_additive_one(n_tokens):
    """Where the mask that other libraries add is 0."""
    added = torch.triu(torch.full((n_tokens, n_tokens), float("-inf")), diagonal=1)
    return added == 0


@answers("causal_mask")
def summed_identity(n_tokens):
    return torch.eye(n_tokens).flip(1).cumsum(1).flip(1).gt(0)


@answers("causal_mask")
def stacked_padding(n_tokens):
    """Row i is the padding mask of a text of i + 1 tokens."""
    rows = [torch.arange(n_tokens) < length for length in range(1, n_tokens + 1)]
    return torch.stack(rows, dim=0)
