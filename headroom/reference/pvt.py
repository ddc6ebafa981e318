"""The Pyramid Vision Transformer: fine patches first, and attention that can afford them.

Wang et al. 2021, "Pyramid Vision Transformer: A Versatile Backbone for Dense Prediction without Convolutions".
"""

import math
from collections.abc import Sequence

from torch import Tensor, nn

from headroom.reference.encoder import Encoder
from headroom.reference.initialise import glorot
from headroom.reference.multihead import CrossAttention
from headroom.reference.norm import LayerNorm
from headroom.reference.patches import add_border, check_images, to_grid, to_tokens
from headroom.reference.positional import LearnedPositionalEncoding
from headroom.reference.vit import PatchEmbedding


class SpatialReductionAttention(CrossAttention):
    """Every token asks, but only one for each square of `reduction`² tokens answers: R² times fewer scores.

    What answers is the square put through one linear map, a patch embedding of the grid of tokens (a convolution with
    stride R is the same), and a norm.

    Args:
        d_model, n_heads, dropout: as of `MultiHeadSelfAttention`.
        side: the tokens form a grid of side × side.
        reduction: R, the side of a square; divides `side`. With 1, this is self-attention.

    Raises:
        ValueError: the grid does not divide into squares.

    Source: Wang et al. 2021, section 3.3, equations 1–4.
    """

    def __init__(self, d_model: int, n_heads: int, side: int, reduction: int, dropout: float = 0.0):
        super().__init__(d_model, n_heads, dropout)
        if side % reduction:
            raise ValueError(f"a grid of side={side} does not divide into squares of reduction={reduction}")
        self.side = side
        self.reduction = reduction
        if reduction > 1:
            self.reduce = PatchEmbedding(reduction, d_model, d_model)
            self.norm = LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x`: `(batch, side², d_model)`, and so is the result; `mask` as of `CrossAttention`, n_keys = (side / R)²."""
        if self.reduction == 1:
            return super().forward(x, x, mask)
        memory = self.norm(self.reduce(to_grid(x, self.side)))  # (batch, (side / R)², d_model)
        return super().forward(x, memory, mask)


class PVT(nn.Module):
    """Three encoders, each on a grid of half the side and on wider tokens; the mean of the last ones goes to the head.

    A stage starts as a ViT does, with a patch embedding and positions, and takes the last stage's grid for its image.
    Grids of 8 × 8 patches, 4 × 4 and 2 × 2: the image gets a border of paper that makes its 28 pixels 32.

    Args:
        image_size: side of the square image in pixels.
        patch_size: side of the first stage's patches.
        channels: 1 for grey, 3 for colour.
        n_classes: number of logits.
        widths, n_layers, n_heads: `d_model`, blocks and heads of each stage; `d_ff` is twice the width.
        reductions: R of each stage's attention, fewer as the grid shrinks.

    Raises:
        ValueError: a stage's heads do not divide its width, or its R not its grid.

    Source: Wang et al. 2021, sections 3.1–3.4. Their last stage has a [class] token; here the mean stands for it.
    """

    def __init__(
        self,
        image_size: int = 28,
        patch_size: int = 4,
        channels: int = 1,
        n_classes: int = 10,
        widths: Sequence[int] = (32, 48, 64),
        n_layers: Sequence[int] = (1, 1, 1),
        n_heads: Sequence[int] = (2, 3, 4),
        reductions: Sequence[int] = (4, 2, 1),
    ):
        super().__init__()
        self.image_size = image_size
        self.channels = channels
        self.coarsest = patch_size * 2 ** (len(widths) - 1)  # pixels under a token of the last stage
        side = math.ceil(image_size / self.coarsest) * self.coarsest // patch_size
        self.stages = nn.ModuleList()
        for width, depth, heads, reduction in zip(widths, n_layers, n_heads, reductions, strict=True):
            self.stages.append(PyramidStage(side, patch_size, channels, width, depth, heads, reduction))
            side, patch_size, channels = side // 2, 2, width
        self.head = nn.Linear(widths[-1], n_classes)
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


class PyramidStage(nn.Module):
    """One stage: `(batch, channels, height, width)` → a grid of tokens `(batch, d_model, side, side)`."""

    def __init__(
        self, side: int, patch_size: int, channels: int, d_model: int, n_layers: int, n_heads: int, reduction: int
    ):
        super().__init__()
        self.side = side
        self.embed = PatchEmbedding(patch_size, channels, d_model)
        # Many small patches look alike: their places start louder than a ViT's.
        self.positions = LearnedPositionalEncoding(d_model, max_tokens=side**2, std=0.5)

        def attention(d_model: int, n_heads: int, dropout: float) -> nn.Module:
            return SpatialReductionAttention(d_model, n_heads, side, reduction, dropout)

        self.encoder = Encoder(n_layers, d_model, n_heads, 2 * d_model, attention=attention)

    def forward(self, grid: Tensor) -> Tensor:
        return to_grid(self.encoder(self.positions(self.embed(grid))), self.side)
