"""Keys and values kept from one decoding step to the next. Shazeer 2019, "Fast Transformer Decoding", section 2.4."""

import torch
from torch import Tensor


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
