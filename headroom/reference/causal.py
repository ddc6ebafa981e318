"""The block of a decoder that has no encoder: self-attention that never looks ahead. Radford et al. 2019 (GPT-2)."""

from collections.abc import Callable

from torch import Tensor, nn

from headroom.reference.cache import CachedSelfAttention, KeyValueCache
from headroom.reference.encoder import EncoderBlock, FeedForward
from headroom.reference.norm import LayerNorm


class CausalBlock(EncoderBlock):
    """An `EncoderBlock` whose earlier tokens may come from a cache: a `DecoderBlock` without its memory.

    Args: as of `EncoderBlock`, and
        dropout: on the output of either branch, while training.
        feed_forward: which feed-forward network: a function of `d_model` and `d_ff`; None: the block is attention only.

    Source: Radford et al. 2019, section 2.3.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        *,
        pre_norm: bool = True,
        norm: Callable[[int], nn.Module] = LayerNorm,
        attention: Callable[[int, int, float], nn.Module] = CachedSelfAttention,
        feed_forward: Callable[[int, int], nn.Module] | None = FeedForward,
    ):
        super().__init__(d_model, n_heads, d_ff, pre_norm=pre_norm, norm=norm, attention=attention)
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = feed_forward(d_model, d_ff) if feed_forward else None
        if not feed_forward:
            self.norm_2 = nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None) -> Tensor:
        """`x`: `(batch, tokens, d_model)`, the tokens not in the cache yet; so is the result; `mask` as there."""
        if self.pre_norm:
            x = x + self.dropout(self.attention(self.norm_1(x), mask, cache))
            return x + self.dropout(self.feed_forward(self.norm_2(x))) if self.feed_forward else x
        x = self.norm_1(x + self.dropout(self.attention(x, mask, cache)))
        return self.norm_2(x + self.dropout(self.feed_forward(x))) if self.feed_forward else x
