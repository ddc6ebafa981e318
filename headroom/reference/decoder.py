"""The Transformer decoder: blocks that attend to the target so far and to the encoder's memory.

Vaswani et al. 2017, section 3.1, with pre-norm as in `encoder.py`.
"""

from typing import Any

import torch
from torch import Tensor, nn

from headroom.reference.cache import DecoderCache, KeyValueCache
from headroom.reference.encoder import FeedForward
from headroom.reference.multihead import MultiHeadAttention, MultiHeadSelfAttention
from headroom.reference.norm import LayerNorm


class DecoderBlock(nn.Module):
    """Three branches around the residual stream: self-attention, cross-attention to the memory, feed-forward.

    Args:
        d_model, n_heads: width of the tokens and number of heads; `n_heads` divides `d_model`.
        d_ff: width inside the feed-forward network.
        dropout: on attention weights and on the feed-forward's output.
        pre_norm: whether a branch normalises what it reads, or the sum is normalised after it (as in the 2017 paper).
        norm: which normalisation.
        rotary: whether self-attention turns queries and keys by their position.

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
        pre_norm: bool = True,
        norm: type[nn.Module] = LayerNorm,
        rotary: bool = False,
    ):
        super().__init__()
        self.norm_1 = norm(d_model)
        self.self_attention = MultiHeadSelfAttention(d_model, n_heads, dropout, rotary)
        self.norm_2 = norm(d_model)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, dropout)
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
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Pre-norm: x + branch(norm(x)) three times. Post-norm: norm(x + branch(x)).

        Args:
            x: target tokens `(batch, tokens, d_model)`; with a cache, only those that are not in it yet.
            memory: the encoder's tokens `(batch, source_tokens, d_model)`; the encoder has normalised them.
            mask: bool, broadcastable to `(batch, heads, tokens, all tokens)`, usually causal; True = may attend.
            memory_mask: bool, broadcastable to `(batch, heads, tokens, source_tokens)`, usually hides padding.
            cache: of self-attention, and of cross-attention, which computes the memory's keys and values only once.

        Returns:
            the same shape as `x`, the weights of self-attention `(batch, heads, tokens, all tokens)` and those of
            cross-attention `(batch, heads, tokens, source_tokens)`.
        """
        own, crossed = cache if cache is not None else (None, None)
        in_cache = crossed is not None and len(crossed) > 0  # the memory's keys and values
        new_memory = None if in_cache else memory
        if self.pre_norm:
            attended, own_weights = self.self_attention(self.norm_1(x), mask, True, own)
            x = x + attended
            attended, cross_weights = self.cross_attention(self.norm_2(x), new_memory, memory_mask, True, crossed)
            x = x + attended
            x = x + self.feed_forward(self.norm_3(x))
        else:
            attended, own_weights = self.self_attention(x, mask, True, own)
            x = self.norm_1(x + attended)
            attended, cross_weights = self.cross_attention(x, new_memory, memory_mask, True, crossed)
            x = self.norm_2(x + attended)
            x = self.norm_3(x + self.feed_forward(x))
        return x, own_weights, cross_weights


class Decoder(nn.Module):
    """`n_layers` blocks; pre-norm, a last norm after them.

    Args:
        n_layers: number of blocks.
        d_model, n_heads, d_ff, **options: as of `DecoderBlock`, for every block.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, n_layers: int, d_model: int, n_heads: int, d_ff: int, **options: Any):
        super().__init__()
        self.blocks = nn.ModuleList(DecoderBlock(d_model, n_heads, d_ff, **options) for _ in range(n_layers))
        norm = options.get("norm", LayerNorm)
        self.norm = norm(d_model) if options.get("pre_norm", True) else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Decode `x`; arguments as of `DecoderBlock.forward`.

        Returns:
            the same shape as `x`, the weights of self-attention `(batch, layers, heads, tokens, all tokens)` and those
            of cross-attention `(batch, layers, heads, tokens, source_tokens)`.
        """
        own, crossed = [], []
        caches = cache.layers if cache is not None else [None] * len(self.blocks)
        for block, layer_cache in zip(self.blocks, caches, strict=True):
            x, own_weights, cross_weights = block(x, memory, mask, memory_mask, layer_cache)
            own.append(own_weights)
            crossed.append(cross_weights)
        return self.norm(x), torch.stack(own, dim=1), torch.stack(crossed, dim=1)
