"""What today's language models changed in the block of 2017, one part at a time.

Touvron et al. 2023, "LLaMA: Open and Efficient Foundation Language Models", section 2.2; grouped queries as in Llama 2.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from headroom.reference.attention import Attention
from headroom.reference.cache import KeyValueCache
from headroom.reference.language_model import LanguageModel
from headroom.reference.multihead import check_heads
from headroom.reference.norm import RMSNorm
from headroom.reference.rotary import check_width, rotate


class SwiGLU(nn.Module):
    """A feed-forward network with a gate: W_down (silu(W_gate x) · W_up x), `(..., d_model)` → `(..., d_model)`.

    Three matrices in place of two: with `d_ff` two thirds as large, it has as many weights as `FeedForward`.

    Source: Shazeer 2020, "GLU Variants Improve Transformer", equation 6.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))  # silu(a) = a · sigmoid(a)


class GroupedQueryAttention(nn.Module):
    """Rotary self-attention in which several heads of queries share one head of keys and values.

    The cache holds `n_groups` heads in place of `n_heads`. With as many groups as heads it is multi-head attention,
    with one group multi-query attention.

    Args:
        d_model, n_heads: width of the tokens and number of heads of queries.
        n_groups: number of heads of keys and values; divides `n_heads`. Each serves the same number of heads in a row.

    Raises:
        ValueError: `d_model` does not divide into `n_heads` equal heads of even width, or these into `n_groups`.

    Source: Ainslie et al. 2023, "GQA: Training … from Multi-Head Checkpoints", section 2.2.
    """

    def __init__(self, d_model: int, n_heads: int, n_groups: int):
        super().__init__()
        check_heads(d_model, n_heads)
        if n_groups < 1 or n_heads % n_groups:
            raise ValueError(f"n_heads={n_heads} does not divide into n_groups={n_groups} equal groups")
        self.d_head = d_model // n_heads
        check_width(self.d_head)
        self.n_shared = n_heads // n_groups  # heads of queries that share keys and values
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, n_groups * self.d_head, bias=False)
        self.w_v = nn.Linear(d_model, n_groups * self.d_head, bias=False)
        self.attend = Attention()
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None) -> Tensor:
        """As of `RotarySelfAttention`; a cache keeps keys and values `(batch, groups, tokens, d_head)`."""
        start = len(cache) if cache is not None else 0  # the position of the first new token
        q, k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        q, k = rotate(q, start), rotate(k, start)  # (batch, heads, tokens, d_head), (batch, groups, tokens, d_head)
        if cache is not None:
            k, v = cache.append(k, v)  # (batch, groups, all tokens, d_head)
        k, v = (kept.repeat_interleave(self.n_shared, dim=1) for kept in (k, v))  # (batch, heads, all tokens, d_head)
        return self.w_o(self.attend(q, k, v, mask).transpose(1, 2).flatten(2))


def llama(
    n_vocabulary: int, d_model: int, n_layers: int, n_heads: int, n_groups: int, d_ff: int, max_tokens: int
) -> LanguageModel:
    """A `LanguageModel` with four parts exchanged: RMSNorm, rotary positions, grouped queries, SwiGLU.

    Ids `(batch, tokens)` → logits `(batch, tokens, n_vocabulary)`.

    Args: as of `LanguageModel` and `GroupedQueryAttention`; `d_ff` is two thirds of what it is there, for equal size.

    Source: Touvron et al. 2023, section 2.2.
    """
    return LanguageModel(
        n_vocabulary,
        d_model,
        n_layers,
        n_heads,
        d_ff,
        max_tokens,
        positions=None,
        norm=RMSNorm,
        attention=lambda d_model, n_heads, _dropout: GroupedQueryAttention(d_model, n_heads, n_groups),
        feed_forward=SwiGLU,
    )
