"""Attention and masks, wrong in one step each."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headroom.mistakes.switch import become
from headroom.reference import (
    Attention,
    CrossAttention,
    KeyValueCache,
    MultiHeadSelfAttention,
    RotarySelfAttention,
    causal_mask,
    rotate,
)

# --- Attention ---------------------------------------------------------------------------------------------------

HIDDEN = -1e9  # a hidden score: finite, so that a query from which a mistake hides every key gets even weights, no NaN


class WeightSteps(Attention):
    """Equation 1 in steps that a mistake can replace. On its own it computes the same as `Attention`."""

    axis = -1

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.dropout(self.weights(q, k, v, mask), self.dropout, self.training) @ v

    def weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.weigh(self.compare(q, k), mask)  # (batch, heads, n_queries, n_keys)

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / self.divisor(q)

    def divisor(self, q: Tensor) -> float:
        return math.sqrt(q.size(-1))

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, HIDDEN)
        return scores.softmax(self.axis)


class Unscaled(WeightSteps):
    def divisor(self, q: Tensor) -> float:
        return 1.0


class ByDHead(WeightSteps):
    def divisor(self, q: Tensor) -> float:
        return q.size(-1)


class ByDModel(WeightSteps):
    def divisor(self, q: Tensor) -> float:
        return math.sqrt(q.size(1) * q.size(-1))


class ScaledAfter(Unscaled):
    def weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().weights(q, k, v, mask) / math.sqrt(q.size(-1))


class Transposed(WeightSteps):
    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return super().compare(k, q)


class Columns(WeightSteps):
    axis = -2


class OverHeads(WeightSteps):
    axis = -3


class AttentionSteps(MultiHeadSelfAttention):
    """The attentions' `forward` in steps that a mistake can replace. On its own it computes the same."""

    def forward(self, x: Tensor, *given: Any) -> Tensor:
        return self.look(x, *given) if isinstance(self, CrossAttention) else self.look(x, x, *given)

    def look(self, x: Tensor, memory: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None) -> Tensor:
        start = len(cache) if cache is not None else 0
        turn = rotate if isinstance(self, RotarySelfAttention) else lambda heads, start: heads
        q = turn(self.split_heads(self.queries(x)), start)
        if cache is not None and start and isinstance(self, CrossAttention):
            k, v = cache.kept()
        else:
            k, v = turn(self.split_heads(self.keys(memory)), start), self.split_heads(self.values(memory))
            if cache is not None:
                k, v = cache.append(k, v)
        return self.mix(self.merge_heads(self.attend(q, k, v, mask)))

    def queries(self, x: Tensor) -> Tensor:
        return self.project(x, self.w_q)

    def keys(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_k)

    def values(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_v)

    def project(self, x: Tensor, linear: nn.Linear) -> Tensor:
        return linear(x)

    def mix(self, merged: Tensor) -> Tensor:
        return self.w_o(merged)


class QForV(AttentionSteps):
    def values(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_q)


class KForV(AttentionSteps):
    def values(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_k)


class SharedQK(AttentionSteps):
    def keys(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_q)


class SharedQKV(SharedQK):
    def values(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_q)


class Sliced(AttentionSteps):
    def project(self, x: Tensor, linear: nn.Linear) -> Tensor:
        own = linear.weight.unflatten(0, (self.n_heads, -1)).unflatten(-1, (self.n_heads, -1))
        blocks = torch.stack([own[h, :, h] for h in range(self.n_heads)])  # (heads, d_head, d_head): the rest is unused
        slices = x.unflatten(-1, (self.n_heads, -1))  # (batch, tokens, heads, d_head)
        return torch.einsum("bthi,hoi->btho", slices, blocks).flatten(-2) + linear.bias


class ViewSplit(AttentionSteps):
    def split_heads(self, x: Tensor) -> Tensor:
        batch, tokens, d_model = x.shape
        return x.reshape(batch, self.n_heads, tokens, d_model // self.n_heads)


class ViewMerge(AttentionSteps):
    def merge_heads(self, x: Tensor) -> Tensor:
        batch, heads, tokens, d_head = x.shape
        return x.reshape(batch, tokens, heads * d_head)


class Averaged(AttentionSteps):
    def merge_heads(self, x: Tensor) -> Tensor:
        return x.mean(dim=1).repeat(1, 1, self.n_heads)  # the mean for every head, so that W_O keeps its shape


class NoOutput(AttentionSteps):
    def mix(self, merged: Tensor) -> Tensor:
        return merged


def unregister(attention: MultiHeadSelfAttention) -> None:
    """Keep the three maps in a plain list, of which the module knows nothing."""
    object.__setattr__(attention, "maps", [attention.w_q, attention.w_k, attention.w_v])
    del attention.w_q, attention.w_k, attention.w_v
    become(attention, Unregistered)


class Unregistered(AttentionSteps):
    maps: list[nn.Linear]
    w_q = property(lambda self: self.maps[0])
    w_k = property(lambda self: self.maps[1])
    w_v = property(lambda self: self.maps[2])


# --- Masks -------------------------------------------------------------------------------------------------------


class MaskIgnored(WeightSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, None)


class MaskAfter(WeightSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = super().weigh(scores, None)
        return weights if mask is None else weights * mask


class FilledWith0(WeightSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores if mask is None else scores.masked_fill(~mask, 0.0), None)


class MaskInverted(WeightSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, None if mask is None else ~mask)


class MaskOnQueries(WeightSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, None if mask is None else mask.transpose(-2, -1))


class CausalMemory(WeightSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        earlier = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()  # (tokens, source_tokens)
        return super().weigh(scores, earlier if mask is None else mask & earlier)


class OwnMemory(AttentionSteps):
    def look(self, x: Tensor, memory: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None) -> Tensor:
        start = len(cache) if cache is not None else 0
        mask = causal_mask(start + x.size(1), x.device)[start:]  # the padding mask is the source's, and does not fit
        return super().look(x, x, mask, cache)
