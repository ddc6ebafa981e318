"""Wrong decoder blocks, written as students write them; `answers` names their mistakes."""

import torch
from torch import nn

from tests.answers import answers
from tests.answers.right_decoder import Block, Cross, FeedForward, LayerNorm, MultiHeadSelfAttention
from tests.answers.wrong_decoder_1_cross_attention import (
    ExponentialsOverflow,
    Inverted,
    NearlyHidden,
    NotMixed,
    OnQueries,
    causal,
)


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
