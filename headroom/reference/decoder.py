"""The Transformer decoder: blocks that attend to the target so far and to the encoder's memory.

Vaswani et al. 2017, section 3.1, with pre-norm as in `encoder.py`.
"""

from collections.abc import Callable

from torch import Tensor, nn

from headroom.reference.cache import CachedCrossAttention, CachedSelfAttention, DecoderCache, KeyValueCache
from headroom.reference.encoder import FeedForward
from headroom.reference.norm import LayerNorm


class DecoderBlock(nn.Module):
    """Three branches around the residual stream: self-attention, cross-attention to the memory, feed-forward.

    Args:
        d_model, n_heads: width of the tokens and number of heads; `n_heads` divides `d_model`.
        d_ff: width inside the feed-forward network.
        dropout: on attention weights and on the feed-forward's output.
        pre_norm: whether a branch normalises what it reads, or the sum is normalised after it (as in the 2017 paper).
        norm: which normalisation.
        attention: which self-attention: `CachedSelfAttention` or `RotarySelfAttention`.

    Raises:
        ValueError: as `MultiHeadSelfAttention`.

    Source: Vaswani et al. 2017, section 3.1; pre-norm: Xiong et al. 2020, table 1.
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
    ):
        super().__init__()
        self.norm_1 = norm(d_model)
        self.self_attention = attention(d_model, n_heads, dropout)
        self.norm_2 = norm(d_model)
        self.cross_attention = CachedCrossAttention(d_model, n_heads, dropout)
        self.norm_3 = norm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.pre_norm = pre_norm

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: tuple[KeyValueCache, KeyValueCache] | None = None,
    ) -> Tensor:
        """Pre-norm: x + branch(norm(x)) three times. Post-norm: norm(x + branch(x)).

        Args:
            x: target tokens `(batch, tokens, d_model)`, and so is the result; with a cache, only those that are not in
                it yet.
            memory: the encoder's tokens `(batch, source_tokens, d_model)`; the encoder has normalised them.
            mask: bool, broadcastable to `(batch, heads, tokens, all tokens)`, usually causal; True = may attend.
            memory_mask: bool, broadcastable to `(batch, heads, tokens, source_tokens)`, usually hides padding.
            cache: of self-attention, and of cross-attention, which computes the memory's keys and values only once.
        """
        own, crossed = cache if cache is not None else (None, None)
        if self.pre_norm:
            x = x + self.self_attention(self.norm_1(x), mask, own)
            x = x + self.cross_attention(self.norm_2(x), memory, memory_mask, crossed)
            return x + self.feed_forward(self.norm_3(x))
        x = self.norm_1(x + self.self_attention(x, mask, own))
        x = self.norm_2(x + self.cross_attention(x, memory, memory_mask, crossed))
        return self.norm_3(x + self.feed_forward(x))


class Decoder(nn.Module):
    """`n_layers` blocks; pre-norm, a last norm after them.

    Args:
        n_layers: number of blocks.
        d_model, n_heads, d_ff, dropout, pre_norm, norm, attention: of every block, as of `DecoderBlock`.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        *,
        pre_norm: bool = True,
        norm: Callable[[int], nn.Module] = LayerNorm,
        attention: Callable[[int, int, float], nn.Module] = CachedSelfAttention,
    ):
        super().__init__()
        self.blocks = nn.ModuleList(
            DecoderBlock(d_model, n_heads, d_ff, dropout, pre_norm=pre_norm, norm=norm, attention=attention)
            for _ in range(n_layers)
        )
        self.norm = norm(d_model) if pre_norm else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Decode `x`, `(batch, tokens, d_model)`, in and out; arguments as of `DecoderBlock.forward`."""
        caches = cache.layers if cache is not None else [None] * len(self.blocks)
        for block, layer_cache in zip(self.blocks, caches, strict=True):
            x = block(x, memory, mask, memory_mask, layer_cache)
        return self.norm(x)
