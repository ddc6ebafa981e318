"""The Vision Transformer: an image is a short sequence of patches, and the encoder is the Transformer's.

Dosovitskiy et al. 2021, "An Image Is Worth 16x16 Words", section 3.1.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from headroom.reference.encoder import Encoder
from headroom.reference.initialise import glorot
from headroom.reference.patches import check_images, count_patches, patches_of
from headroom.reference.positional import LearnedPositionalEncoding


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images into square patches, row by row, each flattened.

    Args:
        images: `(batch, channels, height, width)`.
        patch_size: side of a patch in pixels; divides height and width.

    Returns:
        `(batch, patches, channels · patch_size²)`, with `patches = height/patch_size · width/patch_size`.

    Raises:
        ValueError: the image does not divide into patches.

    Source: Dosovitskiy et al. 2021, section 3.1: x ∈ ℝ^(H×W×C) becomes x_p ∈ ℝ^(N×(P²·C)); here a
    patch holds channel after channel.
    """
    rows, columns = count_patches(images, patch_size)
    batch, channels = images.shape[:2]
    x = images.reshape(batch, channels, rows, patch_size, columns, patch_size)
    x = x.permute(0, 2, 4, 1, 3, 5)  # (batch, rows, columns, channels, patch_size, patch_size)
    return x.reshape(batch, rows * columns, channels * patch_size**2)


class PatchEmbedding(nn.Module):
    """One linear map from a patch's pixels to a token.

    Args:
        patch_size: side of a patch.
        channels: 1 for grey, 3 for colour; in `pvt.py`, the width of tokens on a grid.
        d_model: width of the tokens that come out.

    Source: Dosovitskiy et al. 2021, equation 1, without [class] and positions.
    """

    def __init__(self, patch_size: int, channels: int, d_model: int):
        super().__init__()
        self.patch_size = patch_size
        self.channels = channels
        self.projection = nn.Linear(channels * patch_size**2, d_model)

    def forward(self, images: Tensor) -> Tensor:
        """`(batch, channels, height, width)` → `(batch, patches, d_model)`. ValueError if the shape does not fit."""
        check_images(images, self.channels)
        return self.projection(patchify(images, self.patch_size))

    def as_convolution(self) -> nn.Conv2d:
        """The same map, with a copy of its weights, as a convolution whose kernel and stride are one patch.

        Each row of the linear map is one kernel. The result, `(batch, d_model, rows, columns)`, is a grid of tokens;
        `.flatten(2).mT` makes it what `forward` returns.
        """
        convolution = nn.Conv2d(self.channels, self.projection.out_features, self.patch_size, stride=self.patch_size)
        weight = self.projection.weight.detach()  # (d_model, channels · patch_size²)
        convolution.weight = nn.Parameter(weight.reshape(convolution.weight.shape).clone())
        convolution.bias = nn.Parameter(self.projection.bias.detach().clone())
        return convolution


class ViT(nn.Module):
    """Patches → tokens, a [class] token in front, positions added, an encoder, and a linear head on [class].

    Args:
        image_size: side of the square image in pixels.
        patch_size: side of a patch; divides `image_size`.
        channels: 1 for grey, 3 for colour.
        n_classes: number of logits.
        d_model, n_layers, n_heads, d_ff: width, depth, heads and feed-forward width of the encoder.
        dropout, drop_path: regularisation inside the blocks, active only while training.
        pooling: what the head reads: `"class"`, a token of its own, or `"mean"`, the mean of all patches; then there is
            no [class] token.

    Raises:
        ValueError: `patch_size` does not divide `image_size`, `n_heads` does not divide `d_model`, or there is no such
            `pooling`.

    Source: Dosovitskiy et al. 2021, equations 1–4; mean pooling: their appendix D.3. Linear maps start as in `glorot`.
    """

    def __init__(
        self,
        image_size: int = 28,
        patch_size: int = 7,
        channels: int = 1,
        n_classes: int = 10,
        d_model: int = 64,
        n_layers: int = 2,
        n_heads: int = 4,
        d_ff: int = 128,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        pooling: Literal["class", "mean"] = "class",
    ):
        super().__init__()
        if pooling not in ("class", "mean"):
            raise ValueError(f'pooling={pooling!r} must be "class" or "mean"')
        self.image_size = image_size
        n_tokens = patches_of(image_size, patch_size) + (pooling == "class")
        self.embed = PatchEmbedding(patch_size, channels, d_model)
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, d_model)) if pooling == "class" else None
        self.positions = LearnedPositionalEncoding(d_model, max_tokens=n_tokens)
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, dropout, drop_path)
        self.head = nn.Linear(d_model, n_classes)
        glorot(self)

    def forward(self, images: Tensor) -> Tensor:
        """Logits `(batch, n_classes)` for images `(batch, channels, image_size, image_size)`.

        Raises:
            ValueError: the images have another shape.
        """
        check_images(images, self.embed.channels, self.image_size)
        x = self.embed(images)  # (batch, patches, d_model)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)  # (batch, 1 + patches, d_model)
        x = self.encoder(self.positions(x))
        return self.head(x.mean(dim=1) if self.class_token is None else x[:, 0])  # (batch, n_classes)

    def new_head(self, n_classes: int) -> None:
        """Replace the head by one of zeros for other classes, and keep the encoder.

        Source: Dosovitskiy et al. 2021, section 3.2.
        """
        self.head = nn.Linear(self.head.in_features, n_classes).to(self.head.weight)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
