"""Attention within windows, and windows that shift from block to block, so that all of the image meets.

Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows".
"""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from headroom.reference.encoder import EncoderBlock
from headroom.reference.initialise import glorot
from headroom.reference.norm import LayerNorm
from headroom.reference.patches import add_border, check_images, to_grid, to_tokens
from headroom.reference.vit import PatchEmbedding
from headroom.reference.windows import WindowAttention


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
        self.stages = nn.ModuleList()
        self.coarsest = patch_size * 2 ** (len(n_layers) - 1)  # pixels under a token of the last stage
        side = math.ceil(image_size / self.coarsest) * self.coarsest
        for depth, heads in zip(n_layers, n_heads, strict=True):
            side //= patch_size
            self.stages.append(WindowedStage(side, patch_size, channels, d_model, depth, heads, window))
            channels, d_model, patch_size = d_model, 2 * d_model, 2
        self.head = nn.Linear(channels, n_classes)
        glorot(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits `(batch, n_classes)` for images `(batch, channels, image_size, image_size)`.

        Raises:
            ValueError: the images have another shape.
        """
        check_images(images, self.channels, self.image_size)
        grid = add_border(images, self.coarsest)
        for stage in self.stages:
            grid = stage(grid)  # (batch, width, side, side)
        return self.head(to_tokens(grid).mean(dim=1))


class WindowedStage(nn.Module):
    """One stage: `(batch, channels, height, width)` → a grid of tokens `(batch, d_model, side, side)`.

    Every second block's windows are shifted by half of their side, unless one window covers the grid.
    """

    def __init__(
        self, side: int, patch_size: int, channels: int, d_model: int, n_layers: int, n_heads: int, window: int
    ):
        super().__init__()
        self.side = side
        self.embed = PatchEmbedding(patch_size, channels, d_model)
        self.blocks = nn.ModuleList()
        for layer in range(n_layers):
            shift = window // 2 if layer % 2 and side > window else 0

            def attention(d_model: int, n_heads: int, dropout: float, shift: int = shift) -> nn.Module:
                return WindowAttention(d_model, n_heads, side, window, shift, dropout)

            self.blocks.append(EncoderBlock(d_model, n_heads, 2 * d_model, attention=attention))
        self.norm = LayerNorm(d_model)

    def forward(self, grid: Tensor) -> Tensor:
        x = self.embed(grid)  # (batch, side², d_model)
        for block in self.blocks:
            x = block(x)
        return to_grid(self.norm(x), self.side)
