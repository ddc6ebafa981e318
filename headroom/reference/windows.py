"""A grid of tokens cut into windows, and attention within them. Liu et al. 2021 (Swin), section 3.2."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headroom.reference.attention import Attention
from headroom.reference.multihead import MultiHeadSelfAttention


def split_windows(grid: Tensor, window: int) -> Tensor:
    """Cut a grid of tokens into square windows, row by row.

    Args:
        grid: `(batch, rows, columns, d_model)`.
        window: side of a window in tokens; divides rows and columns.

    Returns:
        `(batch, windows, window², d_model)`.

    Raises:
        ValueError: the grid does not divide into windows.

    Source: Liu et al. 2021, section 3.2, "Self-attention in non-overlapped windows".
    """
    rows, columns = grid.shape[1:3]
    if rows % window or columns % window:
        raise ValueError(f"a grid of {rows}×{columns} tokens does not divide into windows of window={window}")
    x = grid.unflatten(2, (-1, window)).unflatten(1, (-1, window))  # (batch, down, window, across, window, d_model)
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def merge_windows(windows: Tensor, rows: int) -> Tensor:
    """`split_windows` undone: `(batch, windows, window², d_model)` → `(batch, rows, columns, d_model)`.

    Source: Liu et al. 2021, section 3.2.
    """
    window = math.isqrt(windows.size(2))
    x = windows.unflatten(2, (window, window)).unflatten(1, (rows // window, -1))
    return x.transpose(2, 3).flatten(3, 4).flatten(1, 2)


def neighbours(side: int, window: int, shift: int) -> Tensor:
    """Who may attend to whom in the windows of a grid that was rolled by `shift`, up and to the left.

    What leaves the grid at one edge comes in at the other, into a window with strangers. Neighbours lie less than a
    window apart in the image, along rows and along columns.

    Args:
        side: the grid is side × side, and either one window or at least two across.
        window: side of a window in tokens; divides `side`.
        shift: 0 … window − 1; 0 if one window is all.

    Returns:
        bool `(windows, window², window²)`; all True if shift = 0.

    Source: Liu et al. 2021, section 3.2, "Efficient batch computation for shifted configuration", figure 4.
    """
    origin = torch.arange(side).roll(-shift)  # the row (and column) of the image that each one of the grid comes from
    places = torch.stack(torch.meshgrid(origin, origin, indexing="ij"), dim=-1)  # (side, side, 2)
    places = split_windows(places[None], window)[0]  # (windows, window², 2)
    apart = (places[:, :, None] - places[:, None, :]).abs().amax(dim=-1)
    return apart < window


class BiasedAttention(Attention):
    """`Attention` with a bias on every score: softmax(q kᵀ / √d_k + bias) v. Liu et al. 2021, equation 4."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        hidden = bias.masked_fill(~mask, float("-inf"))  # the kernel adds it to the scores
        return F.scaled_dot_product_attention(q, k, v, hidden, self.dropout if self.training else 0.0)

    def weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, bias: Tensor) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + bias
        return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


class WindowAttention(MultiHeadSelfAttention):
    """Self-attention of each window to itself, with a trained bias on the scores for each distance down and across.

    Args:
        d_model, n_heads, dropout: as of `MultiHeadSelfAttention`.
        side: the tokens form a grid of side × side.
        window: side of a window; divides `side`.
        shift: how far the windows are moved, down and to the right.

    Raises:
        ValueError: the grid does not divide into windows.

    Source: Liu et al. 2021, section 3.2, equation 4.
    """

    apart: Tensor
    mask: Tensor

    def __init__(self, d_model: int, n_heads: int, side: int, window: int, shift: int = 0, dropout: float = 0.0):
        super().__init__(d_model, n_heads, dropout)
        if side % window:
            raise ValueError(f"a grid of side={side} does not divide into windows of window={window}")
        self.side, self.window, self.shift = side, window, shift
        self.attend = BiasedAttention(dropout)
        # From −(window − 1) to window − 1, down and across. There are no other positions, and few epochs to find them:
        # they start with deviation 1, where the paper's start with 0.02.
        self.bias = nn.Parameter(torch.randn(n_heads, 2 * window - 1, 2 * window - 1))
        place = torch.cartesian_prod(torch.arange(window), torch.arange(window))  # (window², 2): row and column
        apart = place[:, None] - place + window - 1  # (window², window², 2): a row and a column of the bias
        self.register_buffer("apart", apart, persistent=False)
        self.register_buffer("mask", neighbours(side, window, shift)[:, None], persistent=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x`: `(batch, side², d_model)`; so is the result. Weights are `(batch, windows, heads, window², window²)`.

        `mask`: bool, broadcastable to the weights, True = may attend; beside the one that keeps strangers apart.
        """
        grid = x.unflatten(1, (self.side, self.side)).roll((-self.shift, -self.shift), dims=(1, 2))
        x = split_windows(grid, self.window)  # (batch, windows, window², d_model)
        q, k, v = (self.split_heads(w(x)) for w in (self.w_q, self.w_k, self.w_v))
        # q, k, v: (batch, windows, heads, window², d_head)
        bias = self.bias[:, self.apart[..., 0], self.apart[..., 1]]  # (heads, window², window²)
        heads = self.attend(q, k, v, self.mask if mask is None else self.mask & mask, bias)
        x = self.w_o(self.merge_heads(heads))  # (batch, windows, window², d_model)
        grid = merge_windows(x, self.side).roll((self.shift, self.shift), dims=(1, 2))
        return grid.flatten(1, 2)
