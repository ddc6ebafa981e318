"""A grid of tokens cut into windows, and who may attend to whom in them. Liu et al. 2021 (Swin), section 3.2."""

import math

import torch
from torch import Tensor


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
