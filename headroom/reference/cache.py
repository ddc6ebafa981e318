"""Keys and values kept from one decoding step to the next. Shazeer 2019, "Fast Transformer Decoding", section 2.4."""

import torch
from torch import Tensor

from headroom.reference.multihead import CrossAttention, MultiHeadSelfAttention


class KeyValueCache:
    """The keys and values that one attention layer has computed so far.

    A causal decoder never changes its mind about an earlier token: its key and its value stay what they were. Keeping
    them, each step computes one token in place of all.

    Attributes:
        keys, values: `(batch, heads, tokens, d_head)`, or None while empty.

    Source: Shazeer 2019, section 2.4.1.
    """

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def __len__(self) -> int:
        """The number of tokens kept."""
        return 0 if self.keys is None else self.keys.size(-2)

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Keep those of new tokens, `(batch, heads, new tokens, d_head)`. Returns all, the new ones last."""
        if self.keys is not None and self.values is not None:
            keys = torch.cat([self.keys, keys], dim=-2)
            values = torch.cat([self.values, values], dim=-2)
        self.keys, self.values = keys, values
        return keys, values

    def kept(self) -> tuple[Tensor, Tensor]:
        """The keys and values of all tokens so far; ValueError if there are none."""
        if self.keys is None or self.values is None:
            raise ValueError("the cache is empty: there are no keys and values to attend to")
        return self.keys, self.values

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order, `(new batch,)`: beam search drops beams and doubles others."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]


class CachedSelfAttention(MultiHeadSelfAttention):
    """Self-attention whose earlier tokens may come from a cache.

    Args, and Raises: as of `MultiHeadSelfAttention`.

    Source: as `KeyValueCache`.
    """

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None) -> Tensor:
        """Let every token of `x` attend to every token of the cache and of `x`, whose keys and values are appended.

        Args:
            x: `(batch, tokens, d_model)`, the new tokens; so is the result.
            mask: bool, broadcastable to `(batch, heads, tokens, all tokens)`; True = may attend.
            cache: of earlier calls; None: there were none, and nothing is kept.
        """
        q, k, v = (self.split_heads(w(x)) for w in (self.w_q, self.w_k, self.w_v))  # (batch, heads, tokens, d_head)
        if cache is not None:
            k, v = cache.append(k, v)  # (batch, heads, all tokens, d_head)
        heads = self.attend(q, k, v, mask)
        return self.w_o(self.merge_heads(heads))


class CachedCrossAttention(CrossAttention):
    """Cross-attention that computes the memory's keys and values only once.

    Args, and Raises: as of `MultiHeadSelfAttention`.

    Source: as `KeyValueCache`.
    """

    def forward(
        self, x: Tensor, memory: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None
    ) -> Tensor:
        """As of `CrossAttention`, `(batch, n_queries, d_model)` in and out; a filled cache stands for the memory."""
        if cache is None:
            return super().forward(x, memory, mask)
        if not len(cache):
            cache.append(self.split_heads(self.w_k(memory)), self.split_heads(self.w_v(memory)))
        heads = self.attend(self.split_heads(self.w_q(x)), *cache.kept(), mask)
        return self.w_o(self.merge_heads(heads))


class DecoderCache:
    """The caches of a decoder: for each layer, one for self-attention and one for cross-attention.

    The first holds `(batch, heads, target tokens so far, d_head)`, the second `(batch, heads, source_tokens, d_head)`.

    Source: as `KeyValueCache`.
    """

    def __init__(self, n_layers: int) -> None:
        self.layers = [(KeyValueCache(), KeyValueCache()) for _ in range(n_layers)]

    def __len__(self) -> int:
        """The number of target tokens decoded so far."""
        return len(self.layers[0][0])

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in every layer."""
        for layer in self.layers:
            for cache in layer:
                cache.select(rows)
