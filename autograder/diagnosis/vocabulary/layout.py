"""Tables, rows, axes in front, images cut into squares."""

from __future__ import annotations  # annotations stay the names of their kinds

import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.diagnosis.vocabulary.kinds import Size, Start, Step


def arange(start: Start, end: Size, step: Step) -> Tensor:
    """counting"""
    return torch.arange(start, start + end, step, dtype=torch.get_default_dtype())


def column(x: Tensor) -> Tensor:
    """a column"""
    return x[:, None]


def alternate(a: Tensor, b: Tensor, width: Size) -> Tensor:
    """columns taken in turns"""
    b = F.pad(b, (0, 1)) if b.shape[-1] == a.shape[-1] - 1 else b
    return torch.stack((a, b), -1).flatten(-2)[..., :width]


def side_by_side(a: Tensor, b: Tensor, width: Size) -> Tensor:
    """two blocks of columns side by side"""
    return torch.cat((a, b), -1)[..., :width]


def after(earlier: Tensor, new: Tensor) -> Tensor:
    """the joining of new tokens to earlier ones"""
    return torch.cat((earlier, new), -2)


def before(earlier: Tensor, new: Tensor) -> Tensor:
    """new tokens in front of earlier ones"""
    return torch.cat((new, earlier), -2)


def looked_up(table: Tensor, ids: Tensor) -> Tensor:
    """the look-up"""
    return table[ids]


def at_ids(x: Tensor, ids: Tensor) -> Tensor:
    """the choice of one entry by its id"""
    return x.gather(-1, ids[..., None])[..., 0]


def mean_of_entries(x: Tensor, ids: Tensor) -> Tensor:
    """a mean over all entries, whatever the id"""
    return x.mean(-1)


def at_places(x: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """the choice of one entry of each row"""
    return x[..., queries.long(), keys.long()]


def without_last(x: Tensor) -> Tensor:
    """a cut of the last place; lose their last place"""
    return x[:, :-1]


def without_first(x: Tensor) -> Tensor:
    """a cut of the first place; lose their first place"""
    return x[:, 1:]


def rows(x: Tensor, count: Size) -> Tensor:
    """the first rows"""
    return x[:count]


def last_rows(x: Tensor, count: Size) -> Tensor:
    """the last rows"""
    return x[-count:]


def row_for_all(x: Tensor, count: Size) -> Tensor:
    """one row, the last, for all"""
    return x[count - 1 : count].expand(count, -1)


def first_of_batch(x: Tensor) -> Tensor:
    """the first sample for all; have the first sample in the place of every sample"""
    return x[:1].expand_as(x) if x.dim() > 2 else x


def reversed_rows(x: Tensor) -> Tensor:
    """a reversal of the rows; are in reverse order"""
    return x.flip(-2)


def for_heads_and_queries(x: Tensor) -> Tensor:
    """the axes for heads and queries"""
    return x[:, None, None, :]


def for_queries(x: Tensor) -> Tensor:
    """one axis for the queries, and none for the heads"""
    return x[:, None, :]


def for_heads_and_keys(x: Tensor) -> Tensor:
    """the axes in another order"""
    return x[:, None, :, None]


def squeeze(x: Tensor) -> Tensor:
    """a `squeeze`; lose their axes of length 1"""
    return x.squeeze()


def windows(images: Tensor, side: Size) -> Tensor:
    """the cutting into squares"""
    return images.unfold(2, side, side).unfold(3, side, side)  # (batch, channels, rows, columns, side, side)


def windows_by_columns(images: Tensor, side: Size) -> Tensor:
    """a cutting that takes the squares column by column"""
    return windows(images, side).transpose(2, 3)


def windows_turned(images: Tensor, side: Size) -> Tensor:
    """a cutting that reads the pixels of a square column by column"""
    return windows(images, side).transpose(4, 5)


def windows_mirrored(images: Tensor, side: Size) -> Tensor:
    """a cutting of squares that are mirrored"""
    return windows(images, side).flip(-1)


def windows_upside_down(images: Tensor, side: Size) -> Tensor:
    """a cutting of squares that stand on their heads"""
    return windows(images, side).flip(-2)


def windows_from_the_end(images: Tensor, side: Size) -> Tensor:
    """a cutting that begins with the last square"""
    return windows(images, side).flip(2, 3)


def windows_of_grey(images: Tensor, side: Size) -> Tensor:
    """a cutting of the channels' mean"""
    return windows(images.mean(1, keepdim=True).expand_as(images), side)


def windows_of_reversed_channels(images: Tensor, side: Size) -> Tensor:
    """a cutting of the channels in reverse order"""
    return windows(images.flip(1), side)


def windows_in_strides(images: Tensor, side: Size) -> Tensor:
    """a cutting that takes pixels from all over the image together"""
    batch, channels, height, width = images.shape
    strided = images.reshape(batch, channels, side, height // side, side, width // side)
    return strided.permute(0, 1, 3, 5, 2, 4)


def flat_windows(x: Tensor) -> Tensor:
    """the flattening of each square"""
    return x.movedim(1, 3).flatten(3).flatten(1, 2)


def flat_with_channels_last(x: Tensor) -> Tensor:
    """a flattening that puts the channels of a pixel side by side"""
    return x.movedim(1, 5).flatten(3).flatten(1, 2)


def flat_with_channels_between(x: Tensor) -> Tensor:
    """a flattening that puts the channels between the rows of pixels"""
    return x.movedim(1, 4).flatten(3).flatten(1, 2)


def flat_channels_apart(x: Tensor) -> Tensor:
    """a flattening that makes each channel a sequence of its own"""
    return x.flatten(4).flatten(1, 3)
