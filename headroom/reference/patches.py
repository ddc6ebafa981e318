"""Patches and the grid on which they lie: another way to cut them, to a grid and back, borders and checks."""

import torch.nn.functional as F
from torch import Tensor


def patchify_unfold(images: Tensor, patch_size: int) -> Tensor:
    """`patchify` by torch's sliding window, moved a whole patch at a time.

    Arguments, errors and result, `(batch, patches, channels · patch_size²)`, as there.

    Source: Dosovitskiy et al. 2021, section 3.1.
    """
    count_patches(images, patch_size)
    return F.unfold(images, kernel_size=patch_size, stride=patch_size).transpose(1, 2)


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


def patches_of(image_size: int, patch_size: int) -> int:
    """How many patches of `patch_size` × `patch_size` pixels a square image of `image_size` × `image_size` has.

    Raises:
        ValueError: they do not cover it exactly.
    """
    if image_size % patch_size:
        raise ValueError(f"image_size={image_size} does not divide into patches of patch_size={patch_size}")
    return (image_size // patch_size) ** 2


def check_images(images: Tensor, channels: int, size: int | None = None) -> None:
    """Raise ValueError unless `images` is `(batch, channels, size, size)`, or of any size if none is given."""
    sides = "height, width" if size is None else f"{size}, {size}"
    if images.dim() != 4 or images.size(1) != channels or (size and images.shape[2:] != (size, size)):
        raise ValueError(f"images has shape {tuple(images.shape)}; it must be (batch, {channels}, {sides})")
