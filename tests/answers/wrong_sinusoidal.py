"""Wrong answers to lab 3, written as students write them. `mistakes` holds the keys that the judge must name.

Empty: not on any list; it must still fail.
"""

import math

import torch
from torch import nn

from tests.answers.right_sinusoidal import slices


def wrong(*mistakes):
    def mark(answer):
        answer.mistakes = mistakes
        return answer

    return mark


def fill(position, div, d_model):
    pe = torch.zeros(len(position), d_model)
    pe[:, 0::2] = torch.sin(position * div)
    pe[:, 1::2] = torch.cos(position * div)[:, : d_model // 2]
    return pe


def steps(n_tokens):
    return torch.arange(n_tokens, dtype=torch.get_default_dtype()).unsqueeze(1)


# --- the table: one known mistake each ---


@wrong("doubled")
def two_times_two_i(n_tokens, d_model):
    return fill(steps(n_tokens), 10000 ** (-2 * torch.arange(0, d_model, 2) / d_model), d_model)


@wrong("halved")
def i_over_d(n_tokens, d_model):
    return fill(steps(n_tokens), 10000 ** (-torch.arange((d_model + 1) // 2) / d_model), d_model)


@wrong("own_cosine")
def cosine_exponent(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    for i in range(d_model):
        angle = steps(n_tokens)[:, 0] / 10000 ** (i / d_model)
        pe[:, i] = torch.sin(angle) if i % 2 == 0 else torch.cos(angle)
    return pe


@wrong("floored")
def integer_division(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    for i in range(d_model):
        angle = steps(n_tokens)[:, 0] / 10000 ** (i // d_model)
        pe[:, i] = torch.sin(angle) if i % 2 == 0 else torch.cos(angle)
    return pe


@wrong("concatenated")
def halves(n_tokens, d_model):
    angle = steps(n_tokens) * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :d_model]


@wrong("swapped")
def cosine_first(n_tokens, d_model):
    angle = steps(n_tokens) * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.cos(), angle.sin()], -1).flatten(1)[:, :d_model]


@wrong("no_cosine")
def only_sines(n_tokens, d_model):
    return torch.sin(steps(n_tokens) * 10000.0 ** (-(torch.arange(d_model) // 2 * 2) / d_model))


@wrong("from_one")
def starts_at_one(n_tokens, d_model):
    return slices(n_tokens + 1, d_model)[1:]


@wrong("inverted")
def multiplied(n_tokens, d_model):
    return fill(steps(n_tokens), 10000 ** (torch.arange(0, d_model, 2) / d_model), d_model)


@wrong("base")
def thousand(n_tokens, d_model):
    return fill(steps(n_tokens), 1000 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@wrong("spread")
def to_the_last(n_tokens, d_model):
    pairs = (d_model + 1) // 2
    return fill(steps(n_tokens), torch.exp(-math.log(10000) * torch.arange(pairs) / max(pairs - 1, 1)), d_model)


@wrong("odd")
def odd_crashes(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    angle = steps(n_tokens) * torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(angle)
    pe[:, 1::2] = torch.cos(angle)
    return pe


@wrong("odd")
def odd_column_missing(n_tokens, d_model):
    return slices(n_tokens, d_model // 2 * 2) if d_model % 2 else slices(n_tokens, d_model)


@wrong("odd")
def odd_column_empty(n_tokens, d_model):
    pe = slices(n_tokens, d_model)
    if d_model % 2:
        pe[:, -1] = 0
    return pe


@wrong("base")
def hundred_thousand(n_tokens, d_model):
    return fill(steps(n_tokens), 100_000 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@wrong("own_cosine")
def two_j(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    angle = steps(n_tokens) / 10000 ** (2 * torch.arange(d_model) / d_model)
    pe[:, 0::2], pe[:, 1::2] = torch.sin(angle[:, 0::2]), torch.cos(angle[:, 1::2])
    return pe


# --- two at once ---


@wrong("doubled", "concatenated")
def doubled_halves(n_tokens, d_model):
    angle = steps(n_tokens) * 10000 ** (-2 * torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :d_model]


@wrong("odd", "halved")
def halved_and_odd(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    angle = steps(n_tokens) / 10000 ** (torch.arange((d_model + 1) // 2) / d_model)
    pe[:, 0::2] = torch.sin(angle)
    pe[:, 1::2] = torch.cos(angle)
    return pe


@wrong("floored", "from_one")
def floored_from_one(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    for p in range(n_tokens):
        for i in range(0, d_model, 2):
            pe[p, i] = math.sin((p + 1) / 10000 ** (2 * i // (2 * d_model)))
            if i + 1 < d_model:
                pe[p, i + 1] = math.cos((p + 1) / 10000 ** (2 * i // (2 * d_model)))
    return pe


# --- the table: on no list ---


@wrong()
def all_zero(n_tokens, d_model):
    return torch.zeros(n_tokens, d_model)


@wrong()
def random_table(n_tokens, d_model):
    return torch.rand(n_tokens, d_model) * 2 - 1


@wrong()
def ramp(n_tokens, d_model):
    return (steps(n_tokens) / n_tokens).expand(n_tokens, d_model)


@wrong()
def relative_position(n_tokens, d_model):
    return fill(steps(n_tokens) / n_tokens, 10000 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@wrong()
def transposed(n_tokens, d_model):
    return slices(n_tokens, d_model).T


@wrong()
def batched(n_tokens, d_model):
    return slices(n_tokens, d_model)[None]


@wrong()
def as_numpy(n_tokens, d_model):
    return slices(n_tokens, d_model).numpy()


@wrong()
def degrees(n_tokens, d_model):
    return fill(steps(n_tokens) * math.pi / 180, 10000 ** (-torch.arange(0, d_model, 2) / d_model), d_model)


@wrong()
def rounded(n_tokens, d_model):
    return (slices(n_tokens, d_model) * 100).round() / 100


@wrong()
def nothing(n_tokens, d_model):
    slices(n_tokens, d_model)


# --- the module ---


class Base(nn.Module):
    mistakes: tuple[str, ...] = ()

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", slices(max_tokens, d_model))


class Trained(nn.Module):
    mistakes = ("trained",)

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.pe = nn.Parameter(slices(max_tokens, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class InPlace(Base):
    mistakes = ("overwritten",)

    def forward(self, x):
        x += self.pe[: x.size(1)]
        return x


class ByBatch(Base):
    mistakes = ("by_batch",)

    def forward(self, x):
        return x + self.pe[: x.size(0)].unsqueeze(1)


class WholeTable(Base):
    mistakes = ("whole_table",)

    def forward(self, x):
        return x + self.pe


class LastRows(Base):
    mistakes = ("last_rows",)

    def forward(self, x):
        return x + self.pe[-x.size(1) :]


class AddedTwice(Base):
    mistakes = ("twice",)

    def forward(self, x):
        return x + (x + self.pe[: x.size(1)])


class OnlyPositions(Base):
    mistakes = ("not_added",)

    def forward(self, x):
        return self.pe[: x.size(1)].expand(x.shape)


class ScaledByRoot(Base):
    mistakes = ("scaled",)

    def forward(self, x):
        return x * math.sqrt(x.size(-1)) + self.pe[: x.size(1)]


class RowsOfBatch(Base):
    mistakes = ("by_batch",)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class BareRows(Base):
    mistakes = ("not_added",)

    def forward(self, x):
        return self.pe[: x.size(1)]


class OddFails(nn.Module):
    mistakes = ("odd",)

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", odd_crashes(max_tokens, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class FromOne(nn.Module):
    mistakes = ("from_one",)

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", starts_at_one(max_tokens, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class ByBatchDoubled(nn.Module):
    mistakes = ("by_batch", "doubled")

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", two_times_two_i(max_tokens, d_model))

    def forward(self, x):
        return x + self.pe[: x.size(0), None]


class Forgets(Base):
    def forward(self, x):
        return x


class Subtracted(Base):
    def forward(self, x):
        return x - self.pe[: x.size(1)]


class Halved(Base):
    def forward(self, x):
        return x + 0.5 * self.pe[: x.size(1)]


class Cut(Base):
    """No gradient reaches x."""

    def forward(self, x):
        return x.detach() + self.pe[: x.size(1)]
