"""Hiding what may not be seen, and what becomes of masks."""

from __future__ import annotations  # annotations stay the names of their kinds

import torch
from torch import Tensor

from autograder.diagnosis.vocabulary.kinds import Fill, Mask, Number


def hide(x: Tensor, mask: Mask, fill: Fill) -> Tensor:
    """the masking"""
    return x if mask is None else x.masked_fill(~mask, fill)


def hide_by_adding(x: Tensor, mask: Mask, fill: Fill) -> Tensor:
    """an addition to what is hidden, which hides nothing for good,"""
    return x if mask is None else x + (~mask) * fill


def hide_by_adding_mask(x: Tensor, mask: Mask, fill: Fill) -> Tensor:
    """an addition of the mask, as 0 and 1,"""
    return x if mask is None else x + mask


def hide_the_future(x: Tensor, mask: Mask, fill: Fill) -> Tensor:
    """a causal mask of its own wherever there is a mask"""
    return x if mask is None else x.masked_fill(~_lower(x), fill)


def hide_the_future_always(x: Tensor, mask: Mask, fill: Fill) -> Tensor:
    """a causal mask, whether one is asked for or not,"""
    return hide(x, _lower(x) if mask is None else mask & _lower(x), fill)


def hide_the_future_unmasked(x: Tensor, mask: Mask, fill: Fill) -> Tensor:
    """a causal mask where no mask is given"""
    return hide(x, _lower(x) if mask is None else mask, fill)


def hide_by_multiplying(x: Tensor, mask: Mask, fill: Fill) -> Tensor:
    """a multiplication by the mask"""
    return x if mask is None else x * mask


def multiply_by_mask(x: Tensor, mask: Mask) -> Tensor:
    """a multiplication by the mask; are multiplied by the mask"""
    return x if mask is None else x * mask


def shares_of_visible(x: Tensor, mask: Mask) -> Tensor:
    """a division by the sum of what is visible; are multiplied by the mask, and each row divided by its new sum"""
    return x if mask is None else x * mask / (x * mask).sum(-1, keepdim=True)


def _lower(x: Tensor) -> Tensor:
    return torch.ones(x.shape[-2:], dtype=torch.bool).tril()


def if_asked(mask: Mask, asked: Number) -> Mask:
    """a mask where it is asked for"""
    return mask if mask is None or asked else torch.ones_like(mask)


def inverted(mask: Mask) -> Mask:
    """the mask is inverted"""
    return None if mask is None else ~mask


def mask_transposed(mask: Mask) -> Mask:
    """rows and columns of the mask have changed places"""
    return None if mask is None else mask.mT


def mask_of_first(mask: Mask) -> Mask:
    """the mask of the first sample is used for all"""
    return mask[:1] if mask is not None and mask.dim() > 2 else mask


def mask_of_first_query(mask: Mask) -> Mask:
    """the first row of the mask is used for every query"""
    return None if mask is None else mask[..., :1, :]


def mask_of_last_query(mask: Mask) -> Mask:
    """the last row of the mask is used for every query"""
    return None if mask is None else mask[..., -1:, :]


def mask_squeezed(mask: Mask) -> Mask:
    """the mask loses its axes of length 1"""
    return None if mask is None else mask.squeeze()


def mask_with_axis(mask: Mask) -> Mask:
    """the mask gets one more axis"""
    return None if mask is None else mask.unsqueeze(1)
