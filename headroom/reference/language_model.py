"""A language model: the decoder alone, without a memory to look at, asked for the next token at every position.

Radford et al. 2019, "Language Models are Unsupervised Multitask Learners" (GPT-2).
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from headroom.reference.attention import causal_mask
from headroom.reference.cache import CachedSelfAttention, KeyValueCache
from headroom.reference.causal import CausalBlock
from headroom.reference.encoder import FeedForward
from headroom.reference.initialise import glorot
from headroom.reference.norm import LayerNorm
from headroom.reference.positional import LearnedPositionalEncoding
from headroom.reference.sampling import sample_next


class LanguageModel(nn.Module):
    """Token ids in, logits of the next token out.

    Args:
        n_vocabulary, d_model, n_layers, n_heads, d_ff: size of the vocabulary, width, blocks, heads, inner width.
        max_tokens: the longest sequence.
        dropout: on the embedded tokens, and on what each branch adds to them, while training.
        positions: what tells tokens where they are, a function of `d_model` and `max_tokens`; None: the attention does.
        tied: whether the output layer's matrix is the embedding matrix (Press & Wolf 2017).
        pre_norm, norm, attention, feed_forward: of every block, as of `CausalBlock`.

    Raises: ValueError as the attention.

    Source: Radford et al. 2019, section 2.3; linear maps start as in `glorot`, embeddings as there.
    """

    def __init__(
        self,
        n_vocabulary: int,
        d_model: int = 64,
        n_layers: int = 2,
        n_heads: int = 4,
        d_ff: int = 256,
        max_tokens: int = 128,
        dropout: float = 0.0,
        *,
        positions: Callable[[int, int], nn.Module] | None = LearnedPositionalEncoding,
        tied: bool = True,
        pre_norm: bool = True,
        norm: Callable[[int], nn.Module] = LayerNorm,
        attention: Callable[[int, int, float], nn.Module] = CachedSelfAttention,
        feed_forward: Callable[[int, int], nn.Module] | None = FeedForward,
    ):
        super().__init__()
        self.max_tokens = max_tokens
        self.embed = nn.Embedding(n_vocabulary, d_model)
        self.positions = positions(d_model, max_tokens) if positions is not None else None
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            CausalBlock(
                d_model,
                n_heads,
                d_ff,
                dropout,
                pre_norm=pre_norm,
                norm=norm,
                attention=attention,
                feed_forward=feed_forward,
            )
            for _ in range(n_layers)
        )
        self.norm = norm(d_model) if pre_norm else nn.Identity()
        self.head = nn.Linear(d_model, n_vocabulary, bias=False)
        glorot(self)
        nn.init.normal_(self.embed.weight, std=0.02)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids: Tensor, cache: Sequence[KeyValueCache] | None = None) -> Tensor:
        """Logits of the token that follows each token.

        Args:
            ids: token ids `(batch, tokens)`; with a cache, only those that are not in it yet.
            cache: one for each block, as `[KeyValueCache() for _ in model.blocks]`.

        Returns: logits `(batch, tokens, n_vocabulary)`.

        Raises: ValueError if the sequence, with what is in the cache, is longer than `max_tokens`.
        """
        start = len(cache[0]) if cache is not None else 0
        end = start + ids.size(1)
        if end > self.max_tokens:
            raise ValueError(f"a sequence of {end} tokens is longer than max_tokens={self.max_tokens}")
        mask = causal_mask(end, ids.device)[start:]  # (tokens, all tokens)
        x = self.embed(ids)  # (batch, tokens, d_model)
        x = self.dropout(x if self.positions is None else self.positions(x, start))
        for number, block in enumerate(self.blocks):
            x = block(x, mask, None if cache is None else cache[number])
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(
        self,
        ids: Tensor,
        n_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Go on writing, one token a step, with a cache.

        Args:
            ids, n_tokens: how the texts begin, token ids `(batch, tokens)`, and how many tokens to write.
            temperature, top_k, top_p, generator: as of `sample_next`.

        Returns: the token ids written, `(batch, n_tokens)`, each drawn as by `sample_next`.

        Raises: ValueError as `forward` and `sample_next`, or if `n_tokens` is less than 1.
        """
        if n_tokens < 1:
            raise ValueError(f"n_tokens={n_tokens} must be at least 1")
        cache = [KeyValueCache() for _ in self.blocks]
        new, written = ids, []
        for _ in range(n_tokens):
            logits = self(new, cache)  # (batch, new tokens, n_vocabulary)
            new = sample_next(logits[:, -1], temperature, top_k, top_p, generator)[:, None]  # (batch, 1)
            written.append(new)
        return torch.cat(written, dim=1)
