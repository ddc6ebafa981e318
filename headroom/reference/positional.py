"""Telling tokens where they are: sin-cos encodings, of a line and of a grid, and learned ones."""

import torch
from torch import Tensor, nn


def sinusoidal_encoding(n_tokens: int, d_model: int) -> Tensor:
    """The sin-cos table: a clock with one pair of hands per frequency, read at every position.

    Column 2i holds sin(p · ω_i) and column 2i+1 cos(p · ω_i), with ω_i = 10000^(−2i / d_model): the
    wavelengths grow from 2π to nearly 10000 · 2π. An odd `d_model` ends on a sine without its cosine.

    Args:
        n_tokens: number of positions p = 0 … n_tokens − 1.
        d_model: width of the table.

    Returns:
        `(n_tokens, d_model)`, in the default dtype.

    Source: Vaswani et al. 2017, section 3.5.
    """
    position = torch.arange(n_tokens, dtype=torch.get_default_dtype())[:, None]  # (n_tokens, 1)
    two_i = torch.arange(0, d_model, 2)  # 0, 2, 4, …: the even columns
    angle = position * 10000.0 ** (-two_i / d_model)  # (n_tokens, ceil(d_model / 2))
    table = position.new_empty(n_tokens, d_model)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : d_model // 2]
    return table


def sinusoidal_encoding_2d(rows: int, columns: int, d_model: int) -> Tensor:
    """The sin-cos table of a grid: half of the width says the row, the other half the column.

    Args:
        rows, columns: size of the grid of patches.
        d_model: width of the table; divisible by 4, so that every sine in either half has its cosine.

    Returns:
        `(rows · columns, d_model)`, row by row, as `patchify` orders the patches.

    Raises:
        ValueError: `d_model` is not divisible by 4.

    Source: as in He et al. 2022, "Masked Autoencoders Are Scalable Vision Learners", appendix A.1.
    """
    if d_model % 4:
        raise ValueError(f"d_model={d_model} must be divisible by 4: a sine and a cosine for rows and for columns")
    row = sinusoidal_encoding(rows, d_model // 2)[:, None].expand(-1, columns, -1)  # (rows, columns, d_model / 2)
    column = sinusoidal_encoding(columns, d_model // 2)[None].expand(rows, -1, -1)
    return torch.cat([row, column], dim=-1).flatten(0, 1)


class PositionalEncoding(nn.Module):
    """Adds the sin-cos table to the tokens. Nothing in it is trained.

    Args:
        d_model: width of the tokens.
        max_tokens: the longest sequence it serves.

    Source: Vaswani et al. 2017, section 3.5.
    """

    table: Tensor

    def __init__(self, d_model: int, max_tokens: int = 1000):
        super().__init__()
        # A buffer: moves with the module to another device, but is no parameter.
        self.register_buffer("table", sinusoidal_encoding(max_tokens, d_model), persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x + table, from position `start` on. `x`: `(batch, tokens, d_model)`; so is the result.

        ValueError if that goes past `max_tokens`.
        """
        check_length(x, self.table, start)
        return x + self.table[start : start + x.size(1)]


class LearnedPositionalEncoding(nn.Module):
    """Adds a trained vector per position.

    Args:
        d_model: width of the tokens.
        max_tokens: the longest sequence it serves; there is no vector for a later position.
        std: the standard deviation of the numbers that the vectors start with.

    Source: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning"; Dosovitskiy et al. 2021 (ViT).
    """

    def __init__(self, d_model: int, max_tokens: int, std: float = 0.02):
        super().__init__()
        self.table = nn.Parameter(std * torch.randn(max_tokens, d_model))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """x + table, from position `start` on. `x`: `(batch, tokens, d_model)`; so is the result.

        ValueError if that goes past `max_tokens`.
        """
        check_length(x, self.table, start)
        return x + self.table[start : start + x.size(1)]


def check_length(x: Tensor, table: Tensor, start: int = 0) -> None:
    """Raise ValueError if the tokens of `x`, the first at position `start`, go past the rows of `table`."""
    if start + x.size(1) > table.size(0):
        first = f" from position {start} on" if start else ""
        raise ValueError(f"x has {x.size(1)} tokens{first}, the table only max_tokens={table.size(0)} positions")
