"""Wrong cross-attention, decoder blocks and caches, written as students write them; `answers` names their mistakes."""

import math

import torch
from torch import nn

from tests.answers import answers
from tests.answers.right_decoder import (
    Block,
    Cached,
    Cross,
    FeedForward,
    LayerNorm,
    MultiHeadSelfAttention,
    attention,
    merge_heads,
    split_heads,
)


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


# --- CrossAttention ---


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


# --- DecoderBlock ---


@answers("DecoderBlock", "own_memory")
class CrossToItself(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        y = self.norm_2(x)
        x = x + self.cross_attention(y, y, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "own_memory")
class CrossToTheStream(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), x, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "memory_asks")
class ArgumentsExchanged(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(memory, self.norm_2(x), memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "no_cross_attention")
class AnEncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attention = MultiHeadSelfAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("DecoderBlock", "no_cross_attention")
class CrossNotCalled(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "no_self_attention")
class SelfNotCalled(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "no_feed_forward")
class NetworkNotCalled(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        return x + self.cross_attention(self.norm_2(x), memory, memory_mask)


@answers("DecoderBlock", "cross_first")
class CrossFirst(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.cross_attention(self.norm_1(x), memory, memory_mask)
        x = x + self.self_attention(self.norm_2(x), mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "feed_forward_first")
class NetworkInTheMiddle(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.feed_forward(self.norm_2(x))
        return x + self.cross_attention(self.norm_3(x), memory, memory_mask)


@answers("DecoderBlock", "no_causal_mask")
class MaskForgotten(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x))
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "always_causal")
class MaskOfItsOwn(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, causal(x.size(1)), memory_mask)


@answers("DecoderBlock", "memory_mask_ignored")
class MemoryMaskForgotten(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), memory)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "masks_exchanged")
class MasksExchanged(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, memory_mask, mask)


@answers("DecoderBlock", "causal_memory")
class OneMaskForBoth(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, mask)


@answers("DecoderBlock", "memory_mask_on_both")
class MemoryMaskForBoth(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, memory_mask, memory_mask)


@answers("DecoderBlock", "memory_normed")
class MemoryNormalised(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), self.norm_2(memory), memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "no_residual")
class NoSums(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.self_attention(self.norm_1(x), mask)
        x = self.cross_attention(self.norm_2(x), memory, memory_mask)
        return self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "no_residual_1")
class FirstSumMissing(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "no_residual_2")
class SecondSumMissing(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "no_residual_3")
class ThirdSumMissing(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "residual_of_norm")
class NormOverwritesX(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm_1(x)
        x = x + self.self_attention(x, mask)
        x = self.norm_2(x)
        x = x + self.cross_attention(x, memory, memory_mask)
        x = self.norm_3(x)
        return x + self.feed_forward(x)


@answers("DecoderBlock", "residual_of_norm")
class NormOverwritesOnce(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = self.norm_2(x)
        x = x + self.cross_attention(x, memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "post_norm")
class AsIn2017(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm_1(x + self.self_attention(x, mask))
        x = self.norm_2(x + self.cross_attention(x, memory, memory_mask))
        return self.norm_3(x + self.feed_forward(x))


@answers("DecoderBlock", "no_norm")
class NormsForgotten(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(x, mask)
        x = x + self.cross_attention(x, memory, memory_mask)
        return x + self.feed_forward(x)


@answers("DecoderBlock", "no_norm")
class OneNormForgotten(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(x, memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "shared_norm")
class OneNorm(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.self_attention = MultiHeadSelfAttention(d_model, n_heads)
        self.cross_attention = Cross(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm(x), mask)
        x = x + self.cross_attention(self.norm(x), memory, memory_mask)
        return x + self.feed_forward(self.norm(x))


@answers("DecoderBlock", "shared_attention")
class OneAttention(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention = Cross(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.norm_1, self.norm_2, self.norm_3 = (LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):
        y = self.norm_1(x)
        x = x + self.attention(y, y, mask)
        x = x + self.attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


def with_cross(kind):
    """A block whose cross-attention is wrong by itself."""

    class Broken(Block):
        def __init__(self, d_model, n_heads, d_ff):
            super().__init__(d_model, n_heads, d_ff)
            self.cross_attention = kind(d_model, n_heads)

    return Broken


@answers("DecoderBlock", "no_output")
class CrossNotMixed(with_cross(NotMixed)):
    pass


@answers("DecoderBlock", "mask_inverted")
class CrossInverted(with_cross(Inverted)):
    pass


@answers("DecoderBlock", "mask_on_queries")
class CrossOnQueries(with_cross(OnQueries)):
    pass


@answers("DecoderBlock", "unregistered")
class BlockInAList(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norms = [LayerNorm(d_model) for _ in range(3)]
        self.layers = [MultiHeadSelfAttention(d_model, n_heads), Cross(d_model, n_heads), FeedForward(d_model, d_ff)]

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.layers[0](self.norms[0](x), mask)
        x = x + self.layers[1](self.norms[1](x), memory, memory_mask)
        return x + self.layers[2](self.norms[2](x))


@answers("DecoderBlock", "overwritten")
class AddsInPlace(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x += self.self_attention(self.norm_1(x), mask)
        x += self.cross_attention(self.norm_2(x), memory, memory_mask)
        x += self.feed_forward(self.norm_3(x))
        return x


# two at once


@answers("DecoderBlock", "post_norm", "cross_first")
class PostNormCrossFirst(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm_1(x + self.cross_attention(x, memory, memory_mask))
        x = self.norm_2(x + self.self_attention(x, mask))
        return self.norm_3(x + self.feed_forward(x))


@answers("DecoderBlock", "no_causal_mask", "memory_mask_ignored")
class NoMasks(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory)


@answers("DecoderBlock", "no_causal_mask", "memory_normed")
class NoMaskNormedMemory(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x))
        x = x + self.cross_attention(self.norm_2(x), self.norm_2(memory), memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock", "no_cross_attention", "residual_of_norm")
class EncoderBlockOfNorms(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm_1(x)
        x = x + self.self_attention(x, mask)
        x = self.norm_3(x)
        return x + self.feed_forward(x)


@answers("DecoderBlock", "no_residual_2", "memory_mask_ignored")
class SecondLineWrong(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = self.cross_attention(self.norm_2(x), memory)
        return x + self.feed_forward(self.norm_3(x))


# on no list


@answers("DecoderBlock")
class BlockIsIdentity(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return x


@answers("DecoderBlock")
class CrossNearlyHidden(with_cross(NearlyHidden)):
    pass


@answers("DecoderBlock")
class CrossOverflows(with_cross(ExponentialsOverflow)):
    pass


@answers("DecoderBlock")
class AllBranchesAtOnce(Block):
    """All three read the same x."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        own = self.self_attention(self.norm_1(x), mask)
        return x + own + self.cross_attention(self.norm_2(x), memory, memory_mask) + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock")
class CrossOfOneHead(Block):
    """One of the two attentions is built without `n_heads`."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.cross_attention = Cross(d_model, 1)


@answers("DecoderBlock")
class FirstXEachTime(Block):
    """Every branch is added to the x that came in."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        y = x + self.self_attention(self.norm_1(x), mask)
        y = x + self.cross_attention(self.norm_2(y), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(y))


@answers("DecoderBlock")
class ReluInside(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward.shrink(torch.relu(self.feed_forward.expand(self.norm_3(x))))


@answers("DecoderBlock")
class Halved(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + 0.5 * self.self_attention(self.norm_1(x), mask)
        x = x + 0.5 * self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + 0.5 * self.feed_forward(self.norm_3(x))


@answers("DecoderBlock")
class ReturnsWeightsToo(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, memory_mask), None


@answers("DecoderBlock")
class ReturnsMemory(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        super().forward(x, memory, mask, memory_mask)
        return memory


@answers("DecoderBlock")
class NetworkTwice(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = super().forward(x, memory, mask, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock")
class MemoryCentred(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory - memory.mean(1, keepdim=True), mask, memory_mask)


@answers("DecoderBlock")
class StreamDetached(Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x.detach() + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


# --- CachedSelfAttention ---


class Keeps(Cached):
    """The frame: `put` joins what is kept with what is new and says what to attend to and what to keep."""

    def put(self, cache, q, k, v):
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        return q, k, v, (k, v)

    def hide(self, new, every):
        return torch.ones(new, every, dtype=torch.bool).tril(every - new)

    def end(self, heads, x):
        return self.w_o(merge_heads(heads))

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        q, k, v, cache = self.put(cache, q, k, v)
        heads, _ = attention(q, k, v, self.hide(q.size(2), k.size(2)))
        return self.end(heads, x), cache


@answers("CachedSelfAttention", "recomputed")
class TokensKept(Cached):
    def forward(self, x, cache=None):
        every = x if cache is None else torch.cat([cache, x], dim=1)
        out, _ = super().forward(every)
        return out[:, -x.size(1) :], every


@answers("CachedSelfAttention", "cache_unused")
class NeverRead(Keeps):
    def put(self, cache, q, k, v):
        return q, k, v, (k, v)


@answers("CachedSelfAttention", "cache_unused")
class NeverFilled(Keeps):
    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        return q, k, v, cache


@answers("CachedSelfAttention", "only_new_kept")
class OneCallBack(Keeps):
    def put(self, cache, q, k, v):
        q, every_k, every_v, _ = super().put(cache, q, k, v)
        return q, every_k, every_v, (k, v)


@answers("CachedSelfAttention", "new_first")
class NewFirst(Keeps):
    def put(self, cache, q, k, v):
        if cache is not None:
            k, v = torch.cat([k, cache[0]], dim=2), torch.cat([v, cache[1]], dim=2)
        return q, k, v, (k, v)


@answers("CachedSelfAttention", "over_features")
class AlongFeatures(Keeps):
    def put(self, cache, q, k, v):
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=-1), torch.cat([cache[1], v], dim=-1)
        return q, k, v, (k, v)


@answers("CachedSelfAttention", "over_features")
class AlongHeads(Keeps):
    """dim=1 would be right before the heads are split."""

    def put(self, cache, q, k, v):
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
        return q, k, v, (k, v)


@answers("CachedSelfAttention", "queries_kept")
class QueriesToo(Keeps):
    def put(self, cache, q, k, v):
        if cache is not None:
            q, k, v = (torch.cat(pair, dim=2) for pair in zip(cache, (q, k, v), strict=True))
        return q, k, v, (q, k, v)


@answers("CachedSelfAttention", "exchanged")
class OutInTheOtherOrder(Keeps):
    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        return q, k, v, (v, k)


@answers("CachedSelfAttention", "over_features")
class KeysOnly(Keeps):
    def put(self, cache, q, k, v):
        if cache is not None:
            k = torch.cat([cache, k], dim=2)
        return q, k, v, k


@answers("CachedSelfAttention", "no_causal_mask")
class NoMask(Keeps):
    def hide(self, new, every):
        return None


@answers("CachedSelfAttention", "mask_from_the_first")
class PlainTril(Keeps):
    def hide(self, new, every):
        return torch.ones(new, every).tril().bool()


@answers("CachedSelfAttention", "mask_of_the_new")
class MaskOfTheNew(Keeps):
    def hide(self, new, every):
        return causal(new)


@answers("CachedSelfAttention", "no_self")
class NotItself(Keeps):
    def hide(self, new, every):
        return torch.ones(new, every, dtype=torch.bool).tril(every - new - 1)


@answers("CachedSelfAttention", "view_split")
class CachedStraightView(Keeps):
    def forward(self, x, cache=None):
        q, k, v = (w(x).view(x.size(0), self.n_heads, x.size(1), -1) for w in (self.w_q, self.w_k, self.w_v))
        q, k, v, cache = self.put(cache, q, k, v)
        heads, _ = attention(q, k, v, self.hide(q.size(2), k.size(2)))
        return self.end(heads, x), cache


@answers("CachedSelfAttention", "view_merge")
class CachedMergedAsTheyLie(Keeps):
    def end(self, heads, x):
        return self.w_o(heads.reshape(x.shape))


@answers("CachedSelfAttention", "view_transposed")
class CachedViewTransposed(Keeps):
    def end(self, heads, x):
        return self.w_o(heads.transpose(1, 2).view(*x.shape))


@answers("CachedSelfAttention", "interleaved")
class CachedHeadsLast(Keeps):
    def forward(self, x, cache=None):
        maps = (self.w_q, self.w_k, self.w_v)
        q, k, v = (w(x).unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2) for w in maps)
        q, k, v, cache = self.put(cache, q, k, v)
        heads, _ = attention(q, k, v, self.hide(q.size(2), k.size(2)))
        return self.end(heads, x), cache


@answers("CachedSelfAttention", "no_output")
class CachedNotMixed(Keeps):
    def end(self, heads, x):
        return merge_heads(heads)


@answers("CachedSelfAttention", "residual")
class CachedAddsX(Keeps):
    def end(self, heads, x):
        return x + self.w_o(merge_heads(heads))


@answers("CachedSelfAttention", "k_for_v")
class CachedKeysTwice(Keeps):
    def put(self, cache, q, k, v):
        k = k if cache is None else torch.cat([cache, k], dim=2)
        return q, k, k, k


@answers("CachedSelfAttention", "overwritten")
class CachedInPlace(Keeps):
    def forward(self, x, cache=None):
        out, cache = super().forward(x, cache)
        x.mul_(2)
        return out, cache


@answers("CachedSelfAttention", "unregistered")
class CachedPlainTensors(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.maps = {role: torch.randn(d_model, d_model) for role in "qkvo"}

    def forward(self, x, cache=None):
        q, k, v = (split_heads(x @ self.maps[role], self.n_heads) for role in "qkv")
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        mask = torch.ones(x.size(1), k.size(2), dtype=torch.bool).tril(k.size(2) - x.size(1))
        return merge_heads(attention(q, k, v, mask)[0]) @ self.maps["o"], (k, v)


# two at once


@answers("CachedSelfAttention", "only_new_kept", "no_causal_mask")
class OneCallBackNoMask(OneCallBack):
    def hide(self, new, every):
        return None


@answers("CachedSelfAttention", "recomputed", "no_output")
class TokensKeptNotMixed(CachedNotMixed):
    def forward(self, x, cache=None):
        every = x if cache is None else torch.cat([cache, x], dim=1)
        out, _ = super().forward(every)
        return out[:, -x.size(1) :], every


@answers("CachedSelfAttention", "new_first", "no_output")
class NewFirstNotMixed(NewFirst):
    def end(self, heads, x):
        return merge_heads(heads)


@answers("CachedSelfAttention", "cache_unused", "no_causal_mask")
class PlainSelfAttention(MultiHeadSelfAttention):
    """The given self-attention with a second result."""

    def forward(self, x, cache=None):
        return super().forward(x), cache


@answers("CachedSelfAttention", "exchanged", "mask_from_the_first")
class ExchangedPlainTril(OutInTheOtherOrder):
    def hide(self, new, every):
        return torch.ones(new, every).tril().bool()


# on no list


@answers("CachedSelfAttention")
class KeptForGood(Cached):
    """Kept on the module, where the next text finds it."""

    kept = None

    def forward(self, x, cache=None):
        out, self.kept = super().forward(x, self.kept)
        return out, self.kept


@answers("CachedSelfAttention")
class NoCacheReturned(Cached):
    def forward(self, x, cache=None):
        return super().forward(x, cache)[0]


@answers("CachedSelfAttention")
class ThreeResults(Cached):
    def forward(self, x, cache=None):
        out, (k, v) = super().forward(x, cache)
        return out, k, v


@answers("CachedSelfAttention")
class FirstTokenForgotten(Keeps):
    """A window that lets go of the oldest token."""

    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        return q, k, v, (k[:, :, -2:], v[:, :, -2:])


@answers("CachedSelfAttention")
class OldOnesAveraged(Keeps):
    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        return q, k, v, (k.mean(2, keepdim=True), v.mean(2, keepdim=True))


@answers("CachedSelfAttention")
class OnlyTheOld(Keeps):
    """The new tokens see the cache and not each other."""

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        if cache is None:
            return self.end(attention(q, k, v, self.hide(x.size(1), x.size(1)))[0], x), (k, v)
        heads, _ = attention(q, *cache)
        return self.end(heads, x), (torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2))


@answers("CachedSelfAttention")
class OutputsKept(Keeps):
    """What is kept are outputs, which become keys and values of later tokens."""

    def forward(self, x, cache=None):
        every = x if cache is None else torch.cat([cache, x], dim=1)
        k, v = split_heads(self.w_k(every), self.n_heads), split_heads(self.w_v(every), self.n_heads)
        q = split_heads(self.w_q(x), self.n_heads)
        out = self.end(attention(q, k, v, self.hide(q.size(2), k.size(2)))[0], x)
        return out, out if cache is None else torch.cat([cache, out], dim=1)


@answers("CachedSelfAttention")
class ReturnsEverything(Keeps):
    """The output of all tokens so far, kept and returned."""

    def forward(self, x, cache=None):
        k_v, outs = (None, []) if cache is None else cache
        out, k_v = super().forward(x, k_v)
        outs = [*outs, out]
        return torch.cat(outs, dim=1), (k_v, outs)


@answers("CachedSelfAttention")
class WindowOfThree(Keeps):
    def hide(self, new, every):
        return super().hide(new, every) & torch.ones(new, every, dtype=torch.bool).triu(every - new - 2)


@answers("CachedSelfAttention")
class KeysMixedIn(Keeps):
    """Each call adds the mean of the old keys to the new ones."""

    def put(self, cache, q, k, v):
        if cache is not None:
            k = k + cache[0].mean(2, keepdim=True)
        return super().put(cache, q, k, v)


@answers("CachedSelfAttention")
class CachedFilledWithMinus10000(Keeps):
    def weigh(self, scores, seen):
        return scores.masked_fill(~seen, -1e4).softmax(-1)

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        q, k, v, cache = self.put(cache, q, k, v)
        weights = self.weigh(q @ k.mT / math.sqrt(q.size(-1)), self.hide(q.size(2), k.size(2)))
        return self.end(weights @ v, x), cache


@answers("CachedSelfAttention")
class NotItselfAndFilled(CachedFilledWithMinus10000):
    """The first token has nothing left to see: filled with a finite number, it sees all."""

    def hide(self, new, every):
        return super().hide(new, every).tril(every - new - 1)

    def weigh(self, scores, seen):
        return scores.masked_fill(~seen, -1e9).softmax(-1)


@answers("CachedSelfAttention", "no_maximum")
class CachedNaiveSoftmax(CachedFilledWithMinus10000):
    def weigh(self, scores, seen):
        powers = scores.masked_fill(~seen, -math.inf).exp()
        return powers / powers.sum(-1, keepdim=True)


@answers("CachedSelfAttention")
class WritesIntoTheCache(Keeps):
    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        if cache is not None:
            cache[:] = [k, v]
        return q, k, v, cache or [k, v]


@answers("CachedSelfAttention")
class CachedOnTheModule(Cached):
    """Kept on the module, and forgotten when a new text begins."""

    def forward(self, x, cache=None):
        if cache is None:
            self.keys = self.values = x.new_zeros(x.size(0), self.n_heads, 0, x.size(2) // self.n_heads)
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        self.keys, self.values = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        new, every = k.size(2), self.keys.size(2)
        mask = torch.ones(new, every, dtype=torch.bool).tril(every - new)
        return self.w_o(merge_heads(attention(q, self.keys, self.values, mask)[0])), True
