"""Linear maps, and heads: how they are split off and put together again."""

from __future__ import annotations  # annotations stay the names of their kinds

import torch.nn.functional as F
from torch import Tensor

from autograder.diagnosis.vocabulary.kinds import Bias, Size, Weight


def linear(x: Tensor, weight: Weight, bias: Bias) -> Tensor:
    """the map"""
    return F.linear(x, weight, bias)


def linear_turned(x: Tensor, weight: Weight, bias: Bias) -> Tensor:
    """the transposed map"""
    return x @ weight if bias is None else x @ weight + bias


def split_heads(x: Tensor, n_heads: Size) -> Tensor:
    """the split into heads"""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def split_by_view(x: Tensor, n_heads: Size) -> Tensor:
    """a split that reads the memory on, across tokens,"""
    return x.reshape(x.size(0), n_heads, x.size(1), -1)


def split_in_turns(x: Tensor, n_heads: Size) -> Tensor:
    """a split that gives the features to the heads in turns"""
    return x.unflatten(-1, (-1, n_heads)).movedim(-1, 1)


def split_untransposed(x: Tensor, n_heads: Size) -> Tensor:
    """a split that leaves the heads behind the tokens"""
    return x.unflatten(-1, (n_heads, -1))


def merge_heads(x: Tensor) -> Tensor:
    """the merging of the heads"""
    return x.transpose(1, 2).flatten(2)


def merge_by_reshape(x: Tensor) -> Tensor:
    """a merging that reads the memory on, across tokens,"""
    return x.reshape(x.size(0), x.size(2), -1)


def merge_in_turns(x: Tensor) -> Tensor:
    """a merging that takes the features of the heads in turns"""
    return x.permute(0, 2, 3, 1).flatten(2)


def merge_untransposed(x: Tensor) -> Tensor:
    """a merging of each token's place with the heads behind it"""
    return x.flatten(2)


def merge_reversed(x: Tensor) -> Tensor:
    """a merging in the reverse order of the heads"""
    return merge_heads(x.flip(1))


def merge_by_mean(x: Tensor) -> Tensor:
    """a mean over the heads"""
    return x.mean(1).repeat(1, 1, x.size(1))


def merge_of_first(x: Tensor) -> Tensor:
    """the first head in the place of every head"""
    return x[:, 0].repeat(1, 1, x.size(1))


def merge_first_alone(x: Tensor) -> Tensor:
    """the first head, with zeros for all others,"""
    return F.pad(x[:, 0], (0, x.size(3) * (x.size(1) - 1)))
