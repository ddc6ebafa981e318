"""What runs over axes, or exchanges them: reductions, the softmax, normalisations."""

from __future__ import annotations  # annotations stay the names of their kinds

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor

from autograder.diagnosis.vocabulary.kinds import Axes, Axis


def size(x: Tensor, axis: Axis) -> int:
    """a size"""
    return x.size(axis)


def _reduced(function: Callable[..., Tensor], x: Tensor, axes: Axes) -> Tensor:
    """Over one axis it stays, with length 1; over all (None) or the leading ones ("leading") none stays.

    "tokens" is the last axis but one, "sentence" the last two: of a token alone, both are the last.
    """
    if axes in ("tokens", "sentence"):
        axes = -1 if x.dim() == 1 else -2 if axes == "tokens" else (-2, -1)
    if axes is None:
        return function(x, tuple(range(x.dim())), False)
    if axes == "leading":
        return function(x, tuple(range(x.dim() - 1)), False) if x.dim() > 1 else x
    return function(x, axes, True)


def mean(x: Tensor, axes: Axes) -> Tensor:
    """the mean; are averaged"""
    return _reduced(lambda x, a, keep: x.mean(a, keepdim=keep), x, axes)


def total(x: Tensor, axes: Axes) -> Tensor:
    """the sum; are summed up"""
    return _reduced(lambda x, a, keep: x.sum(a, keepdim=keep), x, axes)


def largest(x: Tensor, axes: Axes) -> Tensor:
    """the largest value"""
    return _reduced(lambda x, a, keep: x.amax(a, keepdim=keep), x, axes)


def median(x: Tensor, axes: Axis) -> Tensor:
    """the median"""
    return x.median(axes, keepdim=True).values


def root_of_squares(x: Tensor, axes: Axes) -> Tensor:
    """the root of the sum of squares"""
    return _reduced(lambda x, a, keep: (x * x).sum(a, keepdim=keep).sqrt(), x, axes)


def _one_off(by: int) -> Callable[[Tensor, Axes], Tensor]:
    def corrected(x: Tensor, axes: Axes) -> Tensor:
        summed = total(x, axes)
        return summed / (x.numel() / summed.numel() + by)

    return corrected


def mean_by_one_less(x: Tensor, axes: Axes) -> Tensor:
    """a sum divided by one less than the number of terms"""
    return _one_off(-1)(x, axes)


def mean_by_one_more(x: Tensor, axes: Axes) -> Tensor:
    """a sum divided by one more than the number of terms"""
    return _one_off(1)(x, axes)


def mean_without_axis(x: Tensor, axes: Axes) -> Tensor:
    """a mean whose axis is gone"""
    return x.mean(axes)  # pyright: ignore[reportArgumentType, reportCallIssue]


def total_without_axis(x: Tensor, axes: Axes) -> Tensor:
    """a sum whose axis is gone"""
    return x.sum(axes)  # pyright: ignore[reportArgumentType, reportCallIssue]


def transpose(x: Tensor, a: Axis, b: Axis) -> Tensor:
    """the transposition; are transposed"""
    return x.transpose(a, b)


def axes_reversed(x: Tensor, a: Axis, b: Axis) -> Tensor:
    """`.T`, which reverses every axis"""
    return x.permute(*reversed(range(x.dim())))


def read_on(x: Tensor, a: Axis, b: Axis) -> Tensor:
    """a reshape, which does not exchange rows and columns,"""
    return x.reshape(*x.shape[:-2], x.shape[-1], x.shape[-2])


def misread(x: Tensor) -> Tensor:
    """a reshape in place of an exchange of two axes; are reshaped where two axes should change places"""
    return x.reshape(*x.shape[:-2], x.shape[-1], x.shape[-2]).mT


def softmax(x: Tensor, axis: Axis) -> Tensor:
    """the softmax; are put through a softmax"""
    return x.softmax(axis)


def softmax_of_all(x: Tensor, axis: Axis) -> Tensor:
    """one softmax over both of the last axes together"""
    return x.flatten(-2).softmax(-1).view(x.shape)


def softmax_of_everything(x: Tensor, axis: Axis) -> Tensor:
    """one softmax over everything at once"""
    return x.flatten().softmax(-1).view(x.shape)


def softmax_unshifted(x: Tensor, axis: Axis) -> Tensor:
    """a softmax whose exponentials can overflow"""
    return x.exp() / x.exp().sum(axis, keepdim=True)


def softmax_shifted_by_one(x: Tensor, axis: Axis) -> Tensor:
    """a softmax that takes one maximum, that of everything, off every row"""
    return (x - x.max()).exp() / (x - x.max()).exp().sum(axis, keepdim=True)


def exponentials(x: Tensor, axis: Axis) -> Tensor:
    """exponentials that are not divided by their sum"""
    return x.exp()


def sigmoids(x: Tensor, axis: Axis) -> Tensor:
    """a sigmoid of each number by itself"""
    return x.sigmoid()


def shares(x: Tensor, axis: Axis) -> Tensor:
    """a division by the sum of the row, without exponentials"""
    return x / x.sum(axis, keepdim=True)


def hardest(x: Tensor, axis: Axis) -> Tensor:
    """a choice of the largest one alone"""
    return F.one_hot(x.argmax(axis), x.size(axis)).to(x.dtype).movedim(-1, axis)


def logarithms(x: Tensor, axis: Axis) -> Tensor:
    """the logarithm of the softmax"""
    return x.log_softmax(axis)


def normalise(x: Tensor, axes: Axes) -> Tensor:
    """the normalisation; are brought to mean 0 and variance 1"""
    return _normalised(x, axes, 1e-5)


def normalise_uncentred(x: Tensor, axes: Axes) -> Tensor:
    """a normalisation that takes no mean off"""
    return x / (x.square().mean(axes, keepdim=True) + 1e-5).sqrt()  # pyright: ignore


def normalise_unbiased(x: Tensor, axes: Axes) -> Tensor:
    """a normalisation by the unbiased variance"""
    return (x - x.mean(axes, keepdim=True)) / (x.var(axes, keepdim=True) + 1e-5).sqrt()  # pyright: ignore


def normalise_outside(x: Tensor, axes: Axes) -> Tensor:
    """a normalisation that adds ε to the deviation, outside the root"""
    centred = without_mean(x, axes)
    return centred / (centred.square().mean(axes, keepdim=True).sqrt() + 1e-5)  # pyright: ignore


def normalise_plainly(x: Tensor, axes: Axes) -> Tensor:
    """a normalisation without ε"""
    return _normalised(x, axes, 0.0)


def normalise_by_a_tenth(x: Tensor, axes: Axes) -> Tensor:
    """a normalisation with an ε of 1e-6"""
    return _normalised(x, axes, 1e-6)


def normalise_by_a_thousandth(x: Tensor, axes: Axes) -> Tensor:
    """a normalisation with an ε of 1e-8"""
    return _normalised(x, axes, 1e-8)


def normalise_by_a_hundredfold(x: Tensor, axes: Axes) -> Tensor:
    """a normalisation with an ε of 1e-3"""
    return _normalised(x, axes, 1e-3)


def normalise_by_a_thousandfold(x: Tensor, axes: Axes) -> Tensor:
    """a normalisation with an ε of 1e-2"""
    return _normalised(x, axes, 1e-2)


def _normalised(x: Tensor, axes: Axes, eps: float) -> Tensor:
    centred = without_mean(x, axes)
    return centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt()  # pyright: ignore


def without_mean(x: Tensor, axes: Axes) -> Tensor:
    """a centring; have their mean taken off"""
    return x - mean(x, axes)


def without_largest(x: Tensor, axes: Axes) -> Tensor:
    """a shift by the largest; have their largest value taken off"""
    return x - largest(x, axes)


def unit_length(x: Tensor, axes: Axes) -> Tensor:
    """a scaling to length 1; are brought to length 1"""
    return x / root_of_squares(x, axes)
