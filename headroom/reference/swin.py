"""Attention within windows, and windows that shift from block to block, so that all of the image meets.

Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows".
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headroom.reference.encoder import Encoder
from headroom.reference.initialise import glorot
from headroom.reference.multihead import MultiHeadAttention
from headroom.reference.patches import PatchEmbedding, add_border, check_images, to_grid, to_tokens
from headroom.reference.windows import merge_windows, neighbours, split_windows


class WindowAttention(MultiHeadAttention):
    """Self-attention of each window to itself, with a trained bias on the scores for each distance down and across.

    Args:
        d_model, n_heads, dropout: as of `MultiHeadAttention`.
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
        # From −(window − 1) to window − 1, down and across. There are no other positions, and few epochs to find them:
        # they start with deviation 1, where the paper's start with 0.02.
        self.bias = nn.Parameter(torch.randn(n_heads, 2 * window - 1, 2 * window - 1))
        place = torch.cartesian_prod(torch.arange(window), torch.arange(window))  # (window², 2): row and column
        apart = place[:, None] - place + window - 1  # (window², window², 2): a row and a column of the bias
        self.register_buffer("apart", apart, persistent=False)
        self.register_buffer("mask", neighbours(side, window, shift)[:, None], persistent=False)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """x `(batch, side², d_model)`; so is the result. The weights are `(batch, windows, heads, window², window²)`.

        `mask`: bool, broadcastable to the weights, True = may attend; beside the one that keeps strangers apart.
        """
        grid = x.unflatten(1, (self.side, self.side)).roll((-self.shift, -self.shift), dims=(1, 2))
        x = split_windows(grid, self.window)  # (batch, windows, window², d_model)
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(2, 3) for w in (self.w_q, self.w_k, self.w_v))
        # q, k, v: (batch, windows, heads, window², d_head)
        bias = self.bias[:, self.apart[..., 0], self.apart[..., 1]]  # (heads, window², window²)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) + bias
        may = self.mask if mask is None else self.mask & mask
        weights = scores.masked_fill(~may, float("-inf")).softmax(dim=-1)
        heads = F.dropout(weights, self.dropout, self.training) @ v
        x = self.w_o(heads.transpose(2, 3).flatten(-2))  # (batch, windows, window², d_model)
        grid = merge_windows(x, self.side).roll((self.shift, self.shift), dims=(1, 2))
        return (grid.flatten(1, 2), weights) if return_weights else grid.flatten(1, 2)


class Swin(nn.Module):
    """Two encoders of windowed blocks, the second on a grid of half the side and on tokens of twice the width.

    Grids of 8 × 8 patches and then 4 × 4: the image gets a border of paper that makes its 28 pixels 32.

    Args:
        image_size: side of the square image in pixels.
        patch_size: side of the first stage's patches.
        channels: 1 for grey, 3 for colour.
        n_classes: number of logits.
        d_model: width of the first stage; each stage doubles it. `d_ff` is twice the width.
        n_layers, n_heads: blocks and heads of each stage.
        window: side of a window; every second block's are shifted by half of it, unless one window covers the grid.

    Raises:
        ValueError: a grid does not divide into windows, or a stage's width into heads.

    Source: Liu et al. 2021, section 3.1. Their patch merging is a patch embedding of the last stage's grid.
    """

    def __init__(
        self,
        image_size: int = 28,
        patch_size: int = 4,
        channels: int = 1,
        n_classes: int = 10,
        d_model: int = 24,
        n_layers: Sequence[int] = (2, 2),
        n_heads: Sequence[int] = (2, 4),
        window: int = 4,
    ):
        super().__init__()
        self.image_size = image_size
        self.channels = channels
        self.merges, self.encoders, self.sides = nn.ModuleList(), nn.ModuleList(), list[int]()
        self.coarsest = patch_size * 2 ** (len(n_layers) - 1)  # pixels under a token of the last stage
        side = math.ceil(image_size / self.coarsest) * self.coarsest
        for depth, heads in zip(n_layers, n_heads, strict=True):
            side //= patch_size
            self.sides.append(side)
            self.merges.append(PatchEmbedding(patch_size, channels, d_model))
            encoder = Encoder(depth, d_model, heads, 2 * d_model)
            for layer, block in enumerate(encoder.blocks):
                shift = window // 2 if layer % 2 and side > window else 0
                block.attention = WindowAttention(d_model, heads, side, window, shift)
            self.encoders.append(encoder)
            channels, d_model, patch_size = d_model, 2 * d_model, 2
        self.head = nn.Linear(channels, n_classes)
        glorot(self)

    def forward(self, images: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Logits for a batch of images.

        Args:
            images: `(batch, channels, image_size, image_size)`.
            return_attention: also return each stage's weights `(batch, layers, windows, heads, window², window²)`.

        Returns:
            logits `(batch, n_classes)`, or that and a list of weights, one for each stage.

        Raises:
            ValueError: the images have another shape.
        """
        check_images(images, self.channels, self.image_size)
        grid, attention = add_border(images, self.coarsest), []
        for merge, encoder, side in zip(self.merges, self.encoders, self.sides, strict=True):
            x, weights = encoder(merge(grid))  # (batch, side², d_model)
            attention.append(weights)
            grid = to_grid(x, side)
        logits = self.head(to_tokens(grid).mean(dim=1))
        return (logits, attention) if return_attention else logits
