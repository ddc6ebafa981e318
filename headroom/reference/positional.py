"""Telling tokens where they are: sinusoidal and learned positional encodings."""

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


class PositionalEncoding(nn.Module):
    """Adds the sin-cos table to the tokens. Nothing in it is trained.

    Args:
        d_model: width of the tokens.
        max_tokens: the longest sequence it serves.

    Source: Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, d_model: int, max_tokens: int = 1000):
        super().__init__()
        # A buffer: moves with the module to another device, but is no parameter.
        self.register_buffer("table", sinusoidal_encoding(max_tokens, d_model), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """x + table. `x`: `(batch, tokens, d_model)`; so is the result. ValueError if longer than `max_tokens`."""
        check_length(x, self.table)
        return x + self.table[: x.size(1)]


class LearnedPositionalEncoding(nn.Module):
    """Adds a trained vector per position.

    Args:
        d_model: width of the tokens.
        max_tokens: the longest sequence it serves; there is no vector for a later position.

    Source: Gehring et al. 2017, "Convolutional Sequence to Sequence Learning"; Dosovitskiy et al. 2021 (ViT).
    """

    def __init__(self, d_model: int, max_tokens: int):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_tokens, d_model))

    def forward(self, x: Tensor) -> Tensor:
        """x + table. `x`: `(batch, tokens, d_model)`; so is the result. ValueError if longer than `max_tokens`."""
        check_length(x, self.table)
        return x + self.table[: x.size(1)]


def check_length(x: Tensor, table: Tensor) -> None:
    """Raise a plain sentence if `x` has more tokens than `table` has rows."""
    if x.size(1) > table.size(0):
        raise ValueError(f"x has {x.size(1)} tokens, the table only max_tokens={table.size(0)} positions")
