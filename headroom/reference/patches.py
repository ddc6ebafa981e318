"""An image as a sequence of patches, cut and embedded in three ways that are one.

Dosovitskiy et al. 2021, "An Image Is Worth 16x16 Words", section 3.1.
"""

import torch.nn.functional as F
from torch import Tensor, nn


def patchify(images: Tensor, patch_size: int) -> Tensor:
    """Cut images into square patches, row by row, each flattened.

    Args:
        images: `(batch, channels, height, width)`.
        patch_size: side of a patch in pixels; divides height and width.

    Returns:
        `(batch, patches, channels · patch_size²)`, with `patches = height/patch_size · width/patch_size`.

    Raises:
        ValueError: the image does not divide into patches.

    Source: Dosovitskiy et al. 2021, section 3.1: x ∈ ℝ^(H×W×C) becomes x_p ∈ ℝ^(N×(P²·C)).
    """
    rows, columns = count_patches(images, patch_size)
    batch, channels = images.shape[:2]
    x = images.reshape(batch, channels, rows, patch_size, columns, patch_size)
    x = x.permute(0, 2, 4, 1, 3, 5)  # (batch, rows, columns, channels, patch_size, patch_size)
    return x.reshape(batch, rows * columns, channels * patch_size**2)


def patchify_unfold(images: Tensor, patch_size: int) -> Tensor:
    """`patchify` by torch's sliding window, moved a whole patch at a time.

    Arguments, errors and result, `(batch, patches, channels · patch_size²)`, as there.

    Source: Dosovitskiy et al. 2021, section 3.1.
    """
    count_patches(images, patch_size)
    return F.unfold(images, kernel_size=patch_size, stride=patch_size).transpose(1, 2)


class PatchEmbedding(nn.Module):
    """One linear map from a patch's pixels to a token.

    Args:
        patch_size: side of a patch.
        channels: 1 for grey, 3 for colour, or the width of tokens that lie on a grid.
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

        A kernel is laid over a patch, multiplied and summed: that is one row of the linear map. The result stays on
        its grid, `(batch, d_model, rows, columns)`; `to_tokens` makes it what `forward` returns.
        """
        convolution = nn.Conv2d(self.channels, self.projection.out_features, self.patch_size, stride=self.patch_size)
        weight = self.projection.weight.detach()  # (d_model, channels · patch_size²)
        convolution.weight = nn.Parameter(weight.reshape(convolution.weight.shape).clone())
        convolution.bias = nn.Parameter(self.projection.bias.detach().clone())
        return convolution


def to_tokens(grid: Tensor) -> Tensor:
    """`(batch, d_model, rows, columns)` → `(batch, rows · columns, d_model)`, row by row."""
    return grid.flatten(2).transpose(1, 2)


def to_grid(tokens: Tensor, rows: int) -> Tensor:
    """`to_tokens` undone: `(batch, rows · columns, d_model)` → `(batch, d_model, rows, columns)`."""
    return tokens.transpose(1, 2).unflatten(2, (rows, -1))


def add_border(images: Tensor, multiple: int) -> Tensor:
    """Zero-pad `images` to the next multiple of `multiple` on both sides: 28 pixels become 32, of 4, 8 or 16."""
    down, across = (-size % multiple for size in images.shape[-2:])
    return F.pad(images, (across // 2, across - across // 2, down // 2, down - down // 2))


def count_patches(images: Tensor, patch_size: int) -> tuple[int, int]:
    """The rows and columns of patches in an image; ValueError if it does not divide."""
    height, width = images.shape[-2:]
    if height % patch_size or width % patch_size:
        raise ValueError(f"an image of {height}×{width} does not divide into patches of patch_size={patch_size}")
    return height // patch_size, width // patch_size


def check_images(images: Tensor, channels: int, size: int | None = None) -> None:
    """Raise ValueError unless `images` is `(batch, channels, size, size)`, or of any size if none is given."""
    sides = "height, width" if size is None else f"{size}, {size}"
    if images.dim() != 4 or images.size(1) != channels or (size and images.shape[2:] != (size, size)):
        raise ValueError(f"images has shape {tuple(images.shape)}; it must be (batch, {channels}, {sides})")
