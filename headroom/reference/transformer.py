"""The whole Transformer: an encoder reads the source, a decoder writes the target. Vaswani et al. 2017, section 3."""

import math
from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from headroom.reference.attention import causal_mask
from headroom.reference.cache import CachedSelfAttention, DecoderCache
from headroom.reference.decoder import Decoder
from headroom.reference.encoder import Encoder
from headroom.reference.initialise import glorot
from headroom.reference.multihead import MultiHeadSelfAttention
from headroom.reference.norm import LayerNorm
from headroom.reference.positional import PositionalEncoding
from headroom.reference.rotary import RotarySelfAttention


class Transformer(nn.Module):
    """Token ids in, logits of the next token out.

    Args:
        n_source, n_target: sizes of the source's and of the target's vocabulary.
        d_model, n_layers, n_heads, d_ff: width; blocks in the encoder and as many in the decoder; heads;
            feed-forward width.
        max_tokens: the longest source or target.
        dropout: on the embedded tokens, and in every block.
        share_source_target: one embedding matrix for both vocabularies, which then are the same.
        share_target_output: the output layer's matrix is the target's embedding matrix (Press & Wolf 2017).
        scale: what brings a matrix that does both jobs to the size that each needs: `"emb"` multiplies embedded tokens
            by √d_model (section 3.4 of the paper), `"prj"` the logits by 1/√d_model, `"none"` neither.
        pre_norm, norm: of every block.
        rotary: whether self-attention turns queries and keys by their position, in place of the sin-cos table.

    Raises:
        ValueError: a vocabulary is shared but differs in size, `scale` is none of the three, `n_heads` does not
            divide `d_model`.

    Source: Vaswani et al. 2017, sections 3.1, 3.4 and 3.5; linear maps start as in `glorot`.
    """

    def __init__(
        self,
        n_source: int,
        n_target: int,
        d_model: int = 64,
        n_layers: int = 2,
        n_heads: int = 4,
        d_ff: int = 128,
        max_tokens: int = 100,
        dropout: float = 0.0,
        *,
        share_source_target: bool = False,
        share_target_output: bool = False,
        scale: Literal["emb", "prj", "none"] = "emb",
        pre_norm: bool = True,
        norm: Callable[[int], nn.Module] = LayerNorm,
        rotary: bool = False,
    ):
        super().__init__()
        if share_source_target and n_source != n_target:
            raise ValueError(f"n_source={n_source} and n_target={n_target} must be equal to share one embedding")
        if scale not in ("emb", "prj", "none"):
            raise ValueError(f'scale={scale!r} must be "emb", "prj" or "none"')
        self.embed_source = nn.Embedding(n_source, d_model)
        self.embed_target = self.embed_source if share_source_target else nn.Embedding(n_target, d_model)
        self.positions = None if rotary else PositionalEncoding(d_model, max_tokens)
        self.dropout = nn.Dropout(dropout)
        reads, writes = (RotarySelfAttention,) * 2 if rotary else (MultiHeadSelfAttention, CachedSelfAttention)
        self.encoder = Encoder(n_layers, d_model, n_heads, d_ff, dropout, pre_norm=pre_norm, norm=norm, attention=reads)
        self.decoder = Decoder(
            n_layers, d_model, n_heads, d_ff, dropout, pre_norm=pre_norm, norm=norm, attention=writes
        )
        self.head = nn.Linear(d_model, n_target, bias=False)
        self.embedding_scale = math.sqrt(d_model) if scale == "emb" else 1.0
        self.logit_scale = 1 / math.sqrt(d_model) if scale == "prj" else 1.0
        glorot(self)
        for embedding in (self.embed_source, self.embed_target):
            # An embedded token enters the blocks with features of variance 1, unless nothing is scaled.
            nn.init.normal_(embedding.weight, std=1.0 if scale == "prj" else 1 / math.sqrt(d_model))
        if share_target_output:
            self.head.weight = self.embed_target.weight

    def forward(self, source: Tensor, target: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Logits of the token that follows each target token, for all of them at once (teacher forcing).

        Padding at the end of a target needs no mask: no earlier token may look there, and the loss leaves it out.

        Args:
            source: token ids `(batch, source_tokens)`.
            target: token ids `(batch, tokens)`, from the start token on.
            source_mask: bool, broadcastable to `(batch, heads, tokens, source_tokens)`: see `padding_mask`.

        Returns:
            logits `(batch, tokens, n_target)`.

        Raises:
            ValueError: a sequence is longer than `max_tokens`, a token id is not in its vocabulary, or the mask's
                shape does not fit.
            TypeError: the mask is not bool.
        """
        return self.decode(target, self.encode(source, source_mask), source_mask)

    def encode(self, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        """Token ids `(batch, source_tokens)` → the memory `(batch, source_tokens, d_model)`."""
        return self.encoder(self._embed(source, self.embed_source), source_mask)

    def decode(
        self, target: Tensor, memory: Tensor, source_mask: Tensor | None = None, cache: DecoderCache | None = None
    ) -> Tensor:
        """Logits `(batch, tokens, n_target)` for target tokens, given the memory; with a cache, only for new tokens."""
        start = len(cache) if cache is not None else 0
        mask = causal_mask(start + target.size(1), target.device)[start:]  # (tokens, all tokens)
        x = self._embed(target, self.embed_target, start)  # (batch, tokens, d_model)
        x = self.decoder(x, memory, mask, source_mask, cache)
        return self.head(x) * self.logit_scale

    def _embed(self, ids: Tensor, embedding: nn.Embedding, start: int = 0) -> Tensor:
        """Token ids `(batch, tokens)`, the first at position `start`, → `(batch, tokens, d_model)`."""
        known = embedding.num_embeddings
        if ids.numel() and not 0 <= ids.min() <= ids.max() < known:
            raise ValueError(f"token ids {ids.min()} … {ids.max()}: the vocabulary of {known} has 0 … {known - 1}")
        x = embedding(ids) * self.embedding_scale
        return self.dropout(x if self.positions is None else self.positions(x, start))
