"""Wrong encoder blocks, written as students write them; `answers` names their mistakes."""

import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_encoder import EncoderBlock, FeedForward, LayerNorm, MultiHeadSelfAttention
from tests.answers.wrong_encoder_1_feed_forward import (
    AddsX,
    BentAtTheEnd,
    FourTimes,
    OriginalPaper,
    Swish,
    TanhFormula,
    TwoMaps,
    WithoutBiases,
)


class Block(nn.Module):
    """The frame: the parts of a block as the task has them, `forward` wrong in each class."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1 = LayerNorm(d_model)
        self.attention = MultiHeadSelfAttention(d_model, n_heads)
        self.norm_2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)


@answers("EncoderBlock", "unregistered")
class PartsInADict(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.parts = {
            "norm_1": LayerNorm(d_model),
            "attention": MultiHeadSelfAttention(d_model, n_heads),
            "norm_2": LayerNorm(d_model),
            "feed_forward": FeedForward(d_model, d_ff),
        }

    def forward(self, x, mask=None):
        x = x + self.parts["attention"](self.parts["norm_1"](x), mask)
        return x + self.parts["feed_forward"](self.parts["norm_2"](x))


@answers("EncoderBlock", "unregistered")
class MapsOfTheNetworkInAList(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attention = MultiHeadSelfAttention(d_model, n_heads)
        self.ffn = [nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)]

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        h = self.norm_2(x)
        for layer in self.ffn:
            h = layer(h)
        return x + h


@answers("EncoderBlock", "overwritten")
class PlusEquals(Block):
    def forward(self, x, mask=None):
        x += self.attention(self.norm_1(x), mask)
        x += self.feed_forward(self.norm_2(x))
        return x


@answers("EncoderBlock", "overwritten")
class FirstInPlace(Block):
    def forward(self, x, mask=None):
        h = x.add_(self.attention(self.norm_1(x), mask))
        return h + self.feed_forward(self.norm_2(h))


@answers("EncoderBlock", "post_norm")
class PaperOf2017(Block):
    def forward(self, x, mask=None):
        x = self.norm_1(x + self.attention(x, mask))
        return self.norm_2(x + self.feed_forward(x))


@answers("EncoderBlock", "post_norm_1")
class FirstHalfPost(Block):
    def forward(self, x, mask=None):
        x = self.norm_1(x + self.attention(x, mask))
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "post_norm_2")
class SecondHalfPost(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return self.norm_2(x + self.feed_forward(x))


@answers("EncoderBlock", "residual_of_norm")
class SumsOfNorms(Block):
    def forward(self, x, mask=None):
        x = self.norm_1(x)
        x = x + self.attention(x, mask)
        x = self.norm_2(x)
        return x + self.feed_forward(x)


@answers("EncoderBlock", "residual_of_norm_1")
class FirstSumOfNorm(Block):
    def forward(self, x, mask=None):
        n = self.norm_1(x)
        x = n + self.attention(n, mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "residual_of_norm_2")
class SecondSumOfNorm(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        x = self.norm_2(x)
        return x + self.feed_forward(x)


@answers("EncoderBlock", "no_residual")
class ChainOfParts(Block):
    def forward(self, x, mask=None):
        return self.feed_forward(self.norm_2(self.attention(self.norm_1(x), mask)))


@answers("EncoderBlock", "no_residual_1")
class FirstSumForgotten(Block):
    def forward(self, x, mask=None):
        x = self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "no_residual_2")
class SecondSumForgotten(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "unnormalised")
class NoNorms(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention, self.feed_forward = MultiHeadSelfAttention(d_model, n_heads), FeedForward(d_model, d_ff)

    def forward(self, x, mask=None):
        x = x + self.attention(x, mask)
        return x + self.feed_forward(x)


@answers("EncoderBlock", "unnormalised_1")
class FirstNormUnused(Block):
    def forward(self, x, mask=None):
        n = self.norm_1(x)  # noqa: F841
        x = x + self.attention(x, mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "unnormalised_2")
class OnlyOneNorm(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.attention, self.feed_forward = MultiHeadSelfAttention(d_model, n_heads), FeedForward(d_model, d_ff)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm(x), mask)
        return x + self.feed_forward(x)


@answers("EncoderBlock", "norm_on_branch")
class NormsOutside(Block):
    def forward(self, x, mask=None):
        x = x + self.norm_1(self.attention(x, mask))
        return x + self.norm_2(self.feed_forward(x))


@answers("EncoderBlock", "norm_on_branch_1")
class FirstNormOutside(Block):
    def forward(self, x, mask=None):
        x = x + self.norm_1(self.attention(x, mask))
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "norm_on_branch_2")
class SecondNormOutside(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.norm_2(self.feed_forward(x))


@answers("EncoderBlock", "shared_norm")
class OneNormTwice(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention, self.feed_forward = MultiHeadSelfAttention(d_model, n_heads), FeedForward(d_model, d_ff)
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm(x), mask)
        return x + self.feed_forward(self.norm(x))


@answers("EncoderBlock", "shared_norm")
class CopiedLine(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_1(x))


@answers("EncoderBlock", "stale")
class NormedOnce(Block):
    def forward(self, x, mask=None):
        n = self.norm_1(x)
        x = x + self.attention(n, mask)
        return x + self.feed_forward(n)


@answers("EncoderBlock", "parallel")
class SideBySide(Block):
    def forward(self, x, mask=None):
        return x + self.attention(self.norm_1(x), mask) + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "reads_branch")
class ReadsAttention(Block):
    def forward(self, x, mask=None):
        attended = self.attention(self.norm_1(x), mask)
        x = x + attended
        return x + self.feed_forward(self.norm_2(attended))


@answers("EncoderBlock", "old_residual")
class BackToTheInput(Block):
    def forward(self, x, mask=None):
        h = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(h))


@answers("EncoderBlock", "exchanged")
class ThinksFirst(Block):
    def forward(self, x, mask=None):
        x = x + self.feed_forward(self.norm_2(x))
        return x + self.attention(self.norm_1(x), mask)


@answers("EncoderBlock", "no_attention")
class NeverListens(Block):
    def forward(self, x, mask=None):
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "no_feed_forward")
class NeverThinks(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm, self.attention = LayerNorm(d_model), MultiHeadSelfAttention(d_model, n_heads)

    def forward(self, x, mask=None):
        return x + self.attention(self.norm(x), mask)


@answers("EncoderBlock", "no_affine")
class PlainNorms(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attention, self.feed_forward = MultiHeadSelfAttention(d_model, n_heads), FeedForward(d_model, d_ff)

    def forward(self, x, mask=None):
        x = x + self.attention(F.layer_norm(x, x.shape[-1:]), mask)
        return x + self.feed_forward(F.layer_norm(x, x.shape[-1:]))


@answers("EncoderBlock", "one_head")
class OneHead(Block):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, 1, d_ff)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "mask_ignored")
class MaskForgotten(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "mask_inverted")
class MaskTurnedRound(Block):
    def forward(self, x, mask=None):
        hidden = None if mask is None else ~mask
        x = x + self.attention(self.norm_1(x), hidden)
        return x + self.feed_forward(self.norm_2(x))


class WithNetwork(EncoderBlock):
    """A right block around the feed-forward network that its subclass names."""

    network = None

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.feed_forward = self.network(d_model, d_ff)


@answers("EncoderBlock", "no_activation")
class LinearInside(WithNetwork):
    network = TwoMaps


@answers("EncoderBlock", "relu")
class ReluInside(WithNetwork):
    network = OriginalPaper


@answers("EncoderBlock", "silu")
class SwishInside(WithNetwork):
    network = Swish


@answers("EncoderBlock", "activation_last")
class BentAtTheEndInside(WithNetwork):
    network = BentAtTheEnd


@answers("EncoderBlock", "no_bias")
class WithoutBiasesInside(WithNetwork):
    network = WithoutBiases


@answers("EncoderBlock", "approximate")
class TanhInside(WithNetwork):
    network = TanhFormula


@answers("EncoderBlock", "other_width")
class WideInside(WithNetwork):
    network = FourTimes


@answers("EncoderBlock", "inner_residual")
class TwoResiduals(WithNetwork):
    network = AddsX


@answers("EncoderBlock", "post_norm", "relu")
class VaswaniAtAll(WithNetwork):
    network = OriginalPaper

    def forward(self, x, mask=None):
        x = self.norm_1(x + self.attention(x, mask))
        return self.norm_2(x + self.feed_forward(x))


@answers("EncoderBlock", "post_norm", "mask_ignored")
class PostNormUnmasked(Block):
    def forward(self, x, mask=None):
        x = self.norm_1(x + self.attention(x))
        return self.norm_2(x + self.feed_forward(x))


@answers("EncoderBlock", "residual_of_norm_1", "no_residual_2")
class BothSumsWrong(Block):
    def forward(self, x, mask=None):
        n = self.norm_1(x)
        x = n + self.attention(n, mask)
        return self.feed_forward(self.norm_2(x))


@answers("EncoderBlock", "shared_norm", "mask_ignored")
class OneNormUnmasked(OneNormTwice):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm(x))
        return x + self.feed_forward(self.norm(x))


@answers("EncoderBlock", "overwritten", "residual_of_norm")
class SumsOfNormsInPlace(Block):
    def forward(self, x, mask=None):
        x.copy_(self.norm_1(x))
        x = x + self.attention(x, mask)
        x = self.norm_2(x)
        return x + self.feed_forward(x)


@answers("EncoderBlock", "other_width", "unnormalised_2")
class WideAndBare(WideInside):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(x)
