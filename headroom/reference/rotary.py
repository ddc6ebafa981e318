"""Rotary positions: a query and a key are turned by where they stand, and their product sees only how far apart.

Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding".
"""

import torch
from torch import Tensor

from headroom.reference.cache import KeyValueCache
from headroom.reference.multihead import MultiHeadSelfAttention
from headroom.reference.positional import sinusoidal_encoding


class RotarySelfAttention(MultiHeadSelfAttention):
    """Self-attention that turns queries and keys by their position, and needs no other positions.

    Args: as of `MultiHeadSelfAttention`.

    Raises:
        ValueError: `d_model` does not divide into `n_heads` equal heads of even width.

    Source: Su et al. 2021, section 3.2.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__(d_model, n_heads, dropout)
        check_width(d_model // n_heads)

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None) -> Tensor:
        """As of `CachedSelfAttention`, `(batch, tokens, d_model)` in and out; a cache keeps the turned keys."""
        start = len(cache) if cache is not None else 0  # the position of the first new token
        q, k, v = (self.split_heads(w(x)) for w in (self.w_q, self.w_k, self.w_v))  # (batch, heads, tokens, d_head)
        q, k = rotate(q, start), rotate(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        heads = self.attend(q, k, v, mask)
        return self.w_o(self.merge_heads(heads))


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
    check_width(d_head)
    table = sinusoidal_encoding(start + n_tokens, d_head)[start:].to(x)  # (tokens, d_head)
    sin, cos = table[:, 0::2], table[:, 1::2]  # (tokens, d_head / 2) each
    first, second = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([first * cos - second * sin, first * sin + second * cos], dim=-1)
    return turned.flatten(-2)


def check_width(d_head: int) -> None:
    """Raise ValueError unless the features of a head go in pairs."""
    if d_head % 2:
        raise ValueError(f"rotary positions turn pairs of features: d_head={d_head} must be even")
