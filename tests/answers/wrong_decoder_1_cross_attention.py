"""Wrong cross-attention, written as students write it; `answers` names its mistakes."""

import math

import torch
from torch import nn

from tests.answers import answers
from tests.answers.right_decoder import Cross, attention, merge_heads, split_heads


def causal(n_tokens):
    return torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()


class Base(Cross):
    """The frame: four maps, `sources` says what goes into them, `look` how they attend."""

    def sources(self, x, memory):
        return x, memory, memory

    def maps(self):
        return self.w_q, self.w_k, self.w_v

    def look(self, q, k, v, mask):
        return attention(q, k, v, mask)[0]

    def forward(self, x, memory, mask=None):
        made = (w(t) for w, t in zip(self.maps(), self.sources(x, memory), strict=True))
        q, k, v = (split_heads(t, self.n_heads) for t in made)
        return self.w_o(merge_heads(self.look(q, k, v, mask)))


@answers("CrossAttention", "own_memory")
class AsInSelfAttention(Base):
    def sources(self, x, memory):
        return x, x, x


@answers("CrossAttention", "memory_asks")
class MemoryAsks(Base):
    def sources(self, x, memory):
        return memory, x, x


@answers("CrossAttention", "memory_alone")
class MemoryAlone(Base):
    def sources(self, x, memory):
        return memory, memory, memory


@answers("CrossAttention", "keys_from_x")
class KeysFromTheTarget(Base):
    def sources(self, x, memory):
        return x, x, memory


@answers("CrossAttention", "values_from_x")
class ValuesFromTheTarget(Base):
    def sources(self, x, memory):
        return x, memory, x


@answers("CrossAttention", "causal_memory")
class CausalInside(Base):
    def look(self, q, k, v, mask):
        past = torch.tril(torch.ones(q.size(2), k.size(2))).bool()
        return attention(q, k, v, past if mask is None else past & mask)[0]


@answers("CrossAttention", "view_split")
class StraightView(Base):
    def forward(self, x, memory, mask=None):
        b, d = x.size(0), x.size(2) // self.n_heads
        q = self.w_q(x).view(b, self.n_heads, -1, d)
        k = self.w_k(memory).view(b, self.n_heads, -1, d)
        v = self.w_v(memory).view(b, self.n_heads, -1, d)
        return self.w_o(merge_heads(attention(q, k, v, mask)[0]))


@answers("CrossAttention", "no_transpose")
class NotTransposed(Base):
    def forward(self, x, memory, mask=None):
        b, t, d_model = x.shape
        q = self.w_q(x).view(b, t, self.n_heads, -1)
        k = self.w_k(memory).view(b, memory.size(1), self.n_heads, -1)
        v = self.w_v(memory).view(b, memory.size(1), self.n_heads, -1)
        return self.w_o(attention(q, k, v, mask)[0].reshape(b, t, d_model))


@answers("CrossAttention", "view_transposed")
class ViewTransposed(Base):
    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.n_heads) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        return self.w_o(attention(q, k, v, mask)[0].transpose(1, 2).view(*x.shape))


@answers("CrossAttention", "view_merge")
class MergedAsTheyLie(Base):
    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.n_heads) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        return self.w_o(attention(q, k, v, mask)[0].reshape(*x.shape))


@answers("CrossAttention", "interleaved")
class HeadsLast(Base):
    def forward(self, x, memory, mask=None):
        def split(t):
            return t.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2)

        q, k, v = split(self.w_q(x)), split(self.w_k(memory)), split(self.w_v(memory))
        return self.w_o(merge_heads(attention(q, k, v, mask)[0]))


@answers("CrossAttention", "residual")
class AddsX(Cross):
    def forward(self, x, memory, mask=None):
        return x + super().forward(x, memory, mask)


@answers("CrossAttention", "no_output")
class NotMixed(Base):
    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.n_heads) for t in (self.w_q(x), self.w_k(memory), self.w_v(memory)))
        return merge_heads(attention(q, k, v, mask)[0])


@answers("CrossAttention", "shared_qkv")
class OneMapForThree(Base):
    def maps(self):
        return self.w_q, self.w_q, self.w_q


@answers("CrossAttention", "shared_kv")
class KeysAsValues(Base):
    def maps(self):
        return self.w_q, self.w_k, self.w_k


@answers("CrossAttention", "shared_qk")
class OneMapForTwo(Base):
    def maps(self):
        return self.w_q, self.w_q, self.w_v


class OwnScores(Base):
    def scale(self, q):
        return math.sqrt(q.size(-1))

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, float("-inf"))

    def look(self, q, k, v, mask):
        scores = q @ k.mT / self.scale(q)
        if mask is not None:
            scores = self.hide(scores, mask)
        return scores.softmax(dim=-1) @ v


@answers("CrossAttention", "unscaled")
class Unscaled(OwnScores):
    def scale(self, q):
        return 1


@answers("CrossAttention", "by_d_head")
class ByDHead(OwnScores):
    def scale(self, q):
        return q.size(-1)


@answers("CrossAttention", "by_d_model")
class ByDModel(OwnScores):
    def scale(self, q):
        return math.sqrt(q.size(-1) * self.n_heads)


@answers("CrossAttention", "columns")
class OverQueries(OwnScores):
    def look(self, q, k, v, mask):
        scores = q @ k.mT / self.scale(q)
        if mask is not None:
            scores = self.hide(scores, mask)
        return scores.softmax(dim=2) @ v


@answers("CrossAttention", "no_maximum")
class ExponentialsOverflow(OwnScores):
    def look(self, q, k, v, mask):
        scores = q @ k.mT / self.scale(q)
        e = (scores if mask is None else self.hide(scores, mask)).exp()
        return e / e.sum(-1, keepdim=True) @ v


@answers("CrossAttention", "mask_ignored")
class MaskNotPassedOn(Base):
    def look(self, q, k, v, mask):
        return attention(q, k, v)[0]


@answers("CrossAttention", "mask_after")
class WeightsTimesMask(OwnScores):
    def look(self, q, k, v, mask):
        weights = (q @ k.mT / self.scale(q)).softmax(-1)
        return (weights if mask is None else weights * mask) @ v


@answers("CrossAttention", "filled_with_0")
class ScoresTimesMask(OwnScores):
    def hide(self, scores, mask):
        return scores * mask


@answers("CrossAttention", "mask_inverted")
class Inverted(OwnScores):
    def hide(self, scores, mask):
        return scores.masked_fill(mask, float("-inf"))


@answers("CrossAttention", "mask_on_queries")
class OnQueries(OwnScores):
    def hide(self, scores, mask):
        return scores.masked_fill(~mask.transpose(-1, -2), float("-inf"))


@answers("CrossAttention", "unregistered")
class MapsInAList(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.maps = [nn.Linear(d_model, d_model) for _ in range(4)]

    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(w(t), self.n_heads) for w, t in zip(self.maps, (x, memory, memory), strict=False))
        return self.maps[3](merge_heads(attention(q, k, v, mask)[0]))


@answers("CrossAttention", "overwritten")
class MemoryShifted(Cross):
    """Prepares the memory in place, and takes it back too late."""

    def forward(self, x, memory, mask=None):
        out = super().forward(x, memory, mask)
        memory += 1.0
        return out


# two at once


@answers("CrossAttention", "own_memory", "no_output")
class OwnMemoryNotMixed(Base):
    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        return merge_heads(attention(q, k, v, mask)[0])


@answers("CrossAttention", "unscaled", "mask_ignored")
class PlainScores(OwnScores):
    def look(self, q, k, v, mask):
        return (q @ k.mT).softmax(-1) @ v


@answers("CrossAttention", "shared_kv", "residual")
class SharedAndAdded(KeysAsValues):
    def forward(self, x, memory, mask=None):
        return super().forward(x, memory, mask) + x


@answers("CrossAttention", "causal_memory", "mask_ignored")
class CausalInstead(Base):
    """The mask of the source is replaced by a causal one."""

    def look(self, q, k, v, mask):
        return attention(q, k, v, torch.tril(torch.ones(q.size(2), k.size(2))).bool())[0]


@answers("CrossAttention", "view_split", "view_merge")
class ViewsOnly(Base):
    def forward(self, x, memory, mask=None):
        b, d = x.size(0), x.size(2) // self.n_heads
        maps = ((self.w_q, x), (self.w_k, memory), (self.w_v, memory))
        q, k, v = (w(t).view(b, self.n_heads, -1, d) for w, t in maps)
        return self.w_o(attention(q, k, v, mask)[0].reshape(x.shape))


# on no list


@answers("CrossAttention")
class NearlyHidden(OwnScores):
    """Scores below −100 are possible, and then what is hidden wins."""

    def hide(self, scores, mask):
        return scores.masked_fill(~mask, -100.0)


@answers("CrossAttention")
class ReturnsX(Cross):
    def forward(self, x, memory, mask=None):
        return x


@answers("CrossAttention")
class MeanOfMemory(Cross):
    def forward(self, x, memory, mask=None):
        return self.w_o(self.w_v(memory).mean(1, keepdim=True)).expand_as(x)


@answers("CrossAttention")
class SumOfBoth(Base):
    """Keys and values of target and source, side by side."""

    def forward(self, x, memory, mask=None):
        return super().forward(x, torch.cat([x, memory], 1), None)


@answers("CrossAttention")
class Theirs(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, n_heads, batch_first=True)

    def forward(self, x, memory, mask=None):
        return self.inner(x, memory, memory, None if mask is None else ~mask[:, 0, 0])[0]


@answers("CrossAttention")
class OneHeadOnly(Cross):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, 1)


@answers("CrossAttention")
class WithWeights(Base):
    def forward(self, x, memory, mask=None):
        return super().forward(x, memory, mask), None


@answers("CrossAttention")
class MemoryDetached(Base):
    def sources(self, x, memory):
        return x, memory.detach(), memory.detach()


@answers("CrossAttention")
class SigmoidWeights(OwnScores):
    def look(self, q, k, v, mask):
        scores = q @ k.mT / self.scale(q)
        return torch.sigmoid(scores if mask is None else self.hide(scores, mask)) @ v


@answers("CrossAttention")
class HardChoice(OwnScores):
    def look(self, q, k, v, mask):
        scores = q @ k.mT / self.scale(q)
        best = (scores if mask is None else self.hide(scores, mask)).argmax(-1)
        return torch.gather(v, 2, best[..., None].expand(-1, -1, -1, v.size(-1)))


@answers("CrossAttention")
class MemoryReversed(Base):
    """Nothing changes without a mask: the memory is a set. With one, the wrong tokens are hidden."""

    def sources(self, x, memory):
        return x, memory.flip(1), memory.flip(1)


@answers("CrossAttention")
class ValuesNotProjected(Base):
    def forward(self, x, memory, mask=None):
        q, k, v = (split_heads(t, self.n_heads) for t in (self.w_q(x), self.w_k(memory), memory))
        return self.w_o(merge_heads(attention(q, k, v, mask)[0]))
