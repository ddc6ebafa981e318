"""Wrong answers to lab 3, written as students write them; `answers` names their mistakes, or none that is on a list."""

import math

import torch
from torch import nn

from tests.answers import answers, right_sinusoidal
from tests.answers.right_sinusoidal import slices


def fill(position, div, d_model):
    pe = torch.zeros(len(position), d_model)
    pe[:, 0::2] = torch.sin(position * div)
    pe[:, 1::2] = torch.cos(position * div)[:, : d_model // 2]
    return pe


def steps(n_tokens):
    return torch.arange(n_tokens, dtype=torch.get_default_dtype()).unsqueeze(1)


# --- the table: one known mistake each ---


@answers("sinusoidal_encoding", "doubled")
def two_times_two_i(n_tokens, d_model):
    return fill(steps(n_tokens), 10000 ** (-2 * torch.arange(0, d_model, 2) / d_model), d_model)


@answers("sinusoidal_encoding", "halved")
def i_over_d(n_tokens, d_model):
    return fill(steps(n_tokens), 10000 ** (-torch.arange((d_model + 1) // 2) / d_model), d_model)


@answers("sinusoidal_encoding", "own_cosine")
def cosine_exponent(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    for i in range(d_model):
        angle = steps(n_tokens)[:, 0] / 10000 ** (i / d_model)
        pe[:, i] = torch.sin(angle) if i % 2 == 0 else torch.cos(angle)
    return pe


@answers("sinusoidal_encoding", "floored")
def integer_division(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    for i in range(d_model):
        angle = steps(n_tokens)[:, 0] / 10000 ** (i // d_model)
        pe[:, i] = torch.sin(angle) if i % 2 == 0 else torch.cos(angle)
    return pe


@answers("sinusoidal_encoding", "concatenated")
def halves(n_tokens, d_model):
    angle = steps(n_tokens) * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :d_model]


@answers("sinusoidal_encoding", "swapped")
def cosine_first(n_tokens, d_model):
    angle = steps(n_tokens) * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.cos(), angle.sin()], -1).flatten(1)[:, :d_model]


@answers("sinusoidal_encoding", "no_cosine")
def only_sines(n_tokens, d_model):
    return torch.sin(steps(n_tokens) * 10000.0 ** (-(torch.arange(d_model) // 2 * 2) / d_model))


@answers("sinusoidal_encoding", "from_one")
def starts_at_one(n_tokens, d_model):
    return slices(n_tokens + 1, d_model)[1:]


@answers("sinusoidal_encoding", "inverted")
def multiplied(n_tokens, d_model):
    return fill(steps(n_tokens), 10000 ** (torch.arange(0, d_model, 2) / d_model), d_model)


@answers("sinusoidal_encoding", "base")
def thousand(n_tokens, d_model):
    return fill(steps(n_tokens), 1000 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@answers("sinusoidal_encoding", "spread")
def to_the_last(n_tokens, d_model):
    pairs = (d_model + 1) // 2
    return fill(steps(n_tokens), torch.exp(-math.log(10000) * torch.arange(pairs) / max(pairs - 1, 1)), d_model)


@answers("sinusoidal_encoding", "odd")
def odd_crashes(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    angle = steps(n_tokens) * torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(angle)
    pe[:, 1::2] = torch.cos(angle)
    return pe


@answers("sinusoidal_encoding", "odd")
def odd_column_missing(n_tokens, d_model):
    return slices(n_tokens, d_model // 2 * 2) if d_model % 2 else slices(n_tokens, d_model)


@answers("sinusoidal_encoding", "odd")
def odd_column_empty(n_tokens, d_model):
    pe = slices(n_tokens, d_model)
    if d_model % 2:
        pe[:, -1] = 0
    return pe


@answers("sinusoidal_encoding", "base")
def hundred_thousand(n_tokens, d_model):
    return fill(steps(n_tokens), 100_000 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@answers("sinusoidal_encoding", "own_cosine")
def two_j(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    angle = steps(n_tokens) / 10000 ** (2 * torch.arange(d_model) / d_model)
    pe[:, 0::2], pe[:, 1::2] = torch.sin(angle[:, 0::2]), torch.cos(angle[:, 1::2])
    return pe


# --- two at once ---


@answers("sinusoidal_encoding", "doubled", "concatenated")
def doubled_halves(n_tokens, d_model):
    angle = steps(n_tokens) * 10000 ** (-2 * torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :d_model]


@answers("sinusoidal_encoding", "odd", "halved")
def halved_and_odd(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    angle = steps(n_tokens) / 10000 ** (torch.arange((d_model + 1) // 2) / d_model)
    pe[:, 0::2] = torch.sin(angle)
    pe[:, 1::2] = torch.cos(angle)
    return pe


@answers("sinusoidal_encoding", "floored", "from_one")
def floored_from_one(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    for p in range(n_tokens):
        for i in range(0, d_model, 2):
            pe[p, i] = math.sin((p + 1) / 10000 ** (2 * i // (2 * d_model)))
            if i + 1 < d_model:
                pe[p, i + 1] = math.cos((p + 1) / 10000 ** (2 * i // (2 * d_model)))
    return pe


# --- the table: on no list ---


@answers("sinusoidal_encoding")
def all_zero(n_tokens, d_model):
    return torch.zeros(n_tokens, d_model)


@answers("sinusoidal_encoding")
def random_table(n_tokens, d_model):
    return torch.rand(n_tokens, d_model) * 2 - 1


@answers("sinusoidal_encoding")
def ramp(n_tokens, d_model):
    return (steps(n_tokens) / n_tokens).expand(n_tokens, d_model)


@answers("sinusoidal_encoding")
def relative_position(n_tokens, d_model):
    return fill(steps(n_tokens) / n_tokens, 10000 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@answers("sinusoidal_encoding")
def transposed(n_tokens, d_model):
    return slices(n_tokens, d_model).T


@answers("sinusoidal_encoding")
def batched(n_tokens, d_model):
    return slices(n_tokens, d_model)[None]


@answers("sinusoidal_encoding")
def as_numpy(n_tokens, d_model):
    return slices(n_tokens, d_model).numpy()


@answers("sinusoidal_encoding")
def degrees(n_tokens, d_model):
    return fill(steps(n_tokens) * math.pi / 180, 10000 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@answers("sinusoidal_encoding")
def base_9999(n_tokens, d_model):
    return fill(steps(n_tokens), 9999 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@answers("sinusoidal_encoding")
def rounded(n_tokens, d_model):
    return (slices(n_tokens, d_model) * 100).round() / 100


@answers("sinusoidal_encoding")
def nothing(n_tokens, d_model):
    slices(n_tokens, d_model)


# --- the module ---


class Base(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", slices(max_tokens, d_model))


@answers("PositionalEncoding", "trained")
class Trained(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.pe = nn.Parameter(slices(max_tokens, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(1)]


@answers("PositionalEncoding", "overwritten")
class InPlace(Base):
    def forward(self, x):
        x += self.pe[: x.size(1)]
        return x


@answers("PositionalEncoding", "by_batch")
class ByBatch(Base):
    def forward(self, x):
        return x + self.pe[: x.size(0)].unsqueeze(1)


@answers("PositionalEncoding", "whole_table")
class WholeTable(Base):
    def forward(self, x):
        return x + self.pe


@answers("PositionalEncoding", "last_rows")
class LastRows(Base):
    def forward(self, x):
        return x + self.pe[-x.size(1) :]


@answers("PositionalEncoding", "twice")
class AddedTwice(Base):
    def forward(self, x):
        return x + (x + self.pe[: x.size(1)])


@answers("PositionalEncoding", "not_added")
class OnlyPositions(Base):
    def forward(self, x):
        return self.pe[: x.size(1)].expand(x.shape)


@answers("PositionalEncoding", "scaled")
class ScaledByRoot(Base):
    def forward(self, x):
        return x * math.sqrt(x.size(-1)) + self.pe[: x.size(1)]


@answers("PositionalEncoding", "by_batch")
class RowsOfBatch(Base):
    def forward(self, x):
        return x + self.pe[: x.size(0)]


@answers("PositionalEncoding", "not_added")
class BareRows(Base):
    def forward(self, x):
        return self.pe[: x.size(1)]


@answers("PositionalEncoding", "odd")
class OddFails(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", odd_crashes(max_tokens, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(1)]


@answers("PositionalEncoding", "from_one")
class FromOne(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", starts_at_one(max_tokens, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(1)]


@answers("PositionalEncoding", "by_batch", "doubled")
class ByBatchDoubled(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", two_times_two_i(max_tokens, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(0), None]


@answers("PositionalEncoding")
class Base9999(Base):
    def __init__(self, d_model, max_tokens):
        super().__init__(d_model, max_tokens)
        self.pe = base_9999(max_tokens, d_model)


@answers("PositionalEncoding")
class Forgets(Base):
    def forward(self, x):
        return x


@answers("PositionalEncoding")
class Subtracted(Base):
    def forward(self, x):
        return x - self.pe[: x.size(1)]


@answers("PositionalEncoding")
class Halved(Base):
    def forward(self, x):
        return x + 0.5 * self.pe[: x.size(1)]


@answers("PositionalEncoding")
class Cut(Base):
    """No gradient reaches x."""

    def forward(self, x):
        return x.detach() + self.pe[: x.size(1)]


@answers("PositionalEncoding")
class FrozenParameter(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.pe = nn.Parameter(right_sinusoidal.exp_of_log(max_tokens, d_model), requires_grad=False)

    def forward(self, x):
        return x + self.pe[: x.size(1)].type_as(x)


@answers("PositionalEncoding")
class Embedding(nn.Module):
    """A frozen embedding layer, asked for the positions 0, 1, 2, …"""

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.rows = nn.Embedding.from_pretrained(right_sinusoidal.stack_and_flatten(max_tokens, d_model), freeze=True)

    def forward(self, x):
        return x + self.rows(torch.arange(x.size(1), device=x.device))
