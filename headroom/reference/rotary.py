"""Rotary positions: a query and a key are turned by where they stand, and their product sees only how far apart.

Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
"""

import torch
from torch import Tensor

from headroom.reference.positional import sinusoidal_encoding


def rotate(x: Tensor, start: int = 0) -> Tensor:
    """Turn each pair of features (2i, 2i+1) of the token at position p by the angle p · ω_i.

    The frequencies ω_i = 10000^(−2i / d_head) are those of the sin-cos table, and so are the sines and cosines.

    Args:
        x: queries or keys, `(..., tokens, d_head)`; `d_head` is even.
        start: the position of the first token.

    Returns:
        The same shape; every pair keeps its length.

    Raises:
        ValueError: `d_head` is odd.

    Source: Su et al. 2021, equations 14–15 and 34.
    """
    n_tokens, d_head = x.shape[-2:]
    if d_head % 2:
        raise ValueError(f"rotary positions turn pairs of features: d_head={d_head} must be even")
    table = sinusoidal_encoding(start + n_tokens, d_head)[start:].to(x)  # (tokens, d_head)
    sin, cos = table[:, 0::2], table[:, 1::2]  # (tokens, d_head / 2) each
    first, second = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)
    return turned.flatten(-2)
