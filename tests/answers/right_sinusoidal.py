"""Right answers to lab 3 in the styles that people write. Everything here earns full marks."""

import math

import numpy as np
import torch
from torch import nn

from tests.answers import answers


@answers("sinusoidal_encoding")
def slices(n_tokens, d_model):
    pe = torch.zeros(n_tokens, d_model)
    pos = torch.arange(n_tokens).unsqueeze(1)
    div = 10000 ** (torch.arange(0, d_model, 2) / d_model)
    pe[:, 0::2] = torch.sin(pos / div)
    pe[:, 1::2] = torch.cos(pos / div[: d_model // 2])
    return pe


@answers("sinusoidal_encoding")
def exp_of_log(n_tokens, d_model):
    position = torch.arange(n_tokens, dtype=torch.float).unsqueeze(1)
    div_term = torch.exp(torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model))
    pe = torch.zeros(n_tokens, d_model)
    pe[:, 0::2] = torch.sin(position * div_term)
    pe[:, 1::2] = torch.cos(position * div_term)[:, : pe[:, 1::2].shape[1]]
    return pe


@answers("sinusoidal_encoding")
def stack_and_flatten(n_tokens, d_model):
    pairs = (d_model + 1) // 2
    omega = torch.pow(10000.0, -2 * torch.arange(pairs) / d_model)
    angle = torch.outer(torch.arange(n_tokens).to(omega.dtype), omega)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d_model]


@answers("sinusoidal_encoding")
def double_loop(n_tokens, d_model):
    table = torch.empty(n_tokens, d_model)
    for p in range(n_tokens):
        for j in range(d_model):
            angle = p / 10000 ** (2 * (j // 2) / d_model)
            table[p, j] = math.sin(angle) if j % 2 == 0 else math.cos(angle)
    return table


@answers("sinusoidal_encoding")
def cosine_as_shifted_sine(n_tokens, d_model):
    column = torch.arange(d_model)
    rate = 10000.0 ** (-(column - column % 2) / d_model)
    return torch.sin(torch.arange(n_tokens)[:, None] * rate + (column % 2) * (math.pi / 2))


@answers("sinusoidal_encoding")
def through_numpy(n_tokens, d_model):
    i = np.arange(d_model)[None, :]
    angle = np.arange(n_tokens)[:, None] / np.power(10000, (2 * (i // 2)) / np.float64(d_model))
    angle[:, 0::2] = np.sin(angle[:, 0::2])
    angle[:, 1::2] = np.cos(angle[:, 1::2])
    return torch.tensor(angle, dtype=torch.float32)


@answers("sinusoidal_encoding")
def complex_numbers(n_tokens, d_model):
    omega = torch.logspace(0, -4 * (2 * ((d_model + 1) // 2) - 2) / d_model, (d_model + 1) // 2)
    turning = torch.polar(torch.ones(n_tokens, len(omega)), torch.arange(n_tokens)[:, None] * omega)
    print("frequencies", len(omega))
    return torch.view_as_real(turning).flip(-1).reshape(n_tokens, -1)[:, :d_model]


@answers("sinusoidal_encoding")
def where_even(n_tokens, d_model):
    angle = torch.arange(n_tokens)[:, None] * 10000.0 ** (-(torch.arange(d_model) // 2 * 2) / d_model)
    return torch.where(torch.arange(d_model) % 2 == 0, angle.sin(), angle.cos())


@answers("PositionalEncoding")
class Buffer(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("pe", slices(max_tokens, d_model).unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


@answers("PositionalEncoding")
class PlainAttribute(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        self.table = double_loop(max_len, d_model)

    def forward(self, x):
        return x + self.table[: x.shape[1]].to(x)


@answers("PositionalEncoding")
class OnTheFly(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        return x.add(where_even(x.size(1), self.d_model).to(dtype=x.dtype, device=x.device))


@answers("PositionalEncoding")
class Loop(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("rows", cosine_as_shifted_sine(max_tokens, d_model), persistent=False)

    def forward(self, x):
        result = torch.empty_like(x)
        for t in range(x.size(1)):
            result[:, t] = x[:, t] + self.rows[t]
        return result


@answers("PositionalEncoding")
class ByLookup(nn.Module):
    """The rows are looked up by position, as those of an embedding, and the table moves with nothing."""

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("table", stack_and_flatten(max_tokens, d_model), persistent=False)

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
        return x + nn.functional.embedding(positions, self.table).to(x.dtype)


@answers("PositionalEncoding")
class KeptByLength(nn.Module):
    """A table for each length that was asked for, made when it first is."""

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.d_model, self.rows = d_model, {}

    def forward(self, x):
        _, tokens, _ = x.shape
        if tokens not in self.rows:
            self.rows[tokens] = double_loop(tokens, self.d_model).tolist()
        return torch.add(x, x.new_tensor(self.rows[tokens]))


@answers("PositionalEncoding")
class MadeOnEachCall(nn.Module):
    """No table is kept: the rows that are needed are made of whatever comes."""

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        return x + exp_of_log(x.shape[1], self.d_model).to(x)


@answers("PositionalEncoding")
class WithABatchAxis(nn.Module):
    """The buffer has an axis for the batch, and is not saved."""

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("table", stack_and_flatten(max_tokens, d_model)[None], persistent=False)

    def forward(self, x):
        return torch.add(x, self.table.narrow(1, 0, x.shape[1]))
