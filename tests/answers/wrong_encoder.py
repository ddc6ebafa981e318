"""Wrong answers to lab 5, written as students write them; `answers` names their mistakes, or none that is on a list."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_encoder import EncoderBlock, FeedForward, LayerNorm, MultiHeadSelfAttention

# --- FeedForward -------------------------------------------------------------------------------------------------


class Maps(nn.Module):
    """The frame: two maps as the task has them, `forward` wrong in each class."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.shrink = nn.Linear(d_ff, d_model)


@answers("FeedForward", "unregistered")
class MapsInAList(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.layers = [nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@answers("FeedForward", "unregistered")
class BareTensors(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W1, self.b1 = torch.randn(d_model, d_ff), torch.zeros(d_ff)
        self.W2, self.b2 = torch.randn(d_ff, d_model), torch.zeros(d_model)

    def forward(self, x):
        return F.gelu(x @ self.W1 + self.b1) @ self.W2 + self.b2


@answers("FeedForward", "overwritten")
class ClampedFirst(Maps):
    def forward(self, x):
        hidden = self.shrink(F.gelu(self.expand(x)))
        x *= 0  # to save memory
        return hidden


@answers("FeedForward", "over_tokens")
class TransposedFirst(Maps):
    def forward(self, x):
        return self.shrink(F.gelu(self.expand(x.transpose(-1, -2)))).transpose(-1, -2)


@answers("FeedForward", "over_tokens")
class ConvolvedAsItIs(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(d_model, d_ff, 1), nn.Conv1d(d_ff, d_model, 1)

    def forward(self, x):
        return self.conv2(F.gelu(self.conv1(x)))


@answers("FeedForward", "no_activation")
class TwoMaps(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model))


@answers("FeedForward", "relu")
class OriginalPaper(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.fc2(self.relu(self.fc1(x)))


@answers("FeedForward", "silu")
class Swish(Maps):
    def forward(self, x):
        return self.shrink(F.silu(self.expand(x)))


@answers("FeedForward", "silu")
class Squashed(Maps):
    def forward(self, x):
        return self.shrink(torch.tanh(self.expand(x)))


@answers("FeedForward", "silu")
class SoftmaxInside(Maps):
    def forward(self, x):
        return self.shrink(self.expand(x).softmax(dim=-1))


@answers("FeedForward", "approximate")
class TanhFormula(Maps):
    def forward(self, x):
        h = self.expand(x)
        return self.shrink(0.5 * h * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (h + 0.044715 * h**3))))


@answers("FeedForward", "approximate")
class SigmoidFormula(Maps):
    def forward(self, x):
        h = self.expand(x)
        return self.shrink(h * torch.sigmoid(1.702 * h))


@answers("FeedForward", "activation_last")
class BentAtTheEnd(Maps):
    def forward(self, x):
        return F.gelu(self.shrink(self.expand(x)))


@answers("FeedForward", "activation_first")
class BentAtTheStart(Maps):
    def forward(self, x):
        return self.shrink(self.expand(F.gelu(x)))


@answers("FeedForward", "activation_twice")
class BentTwice(Maps):
    def forward(self, x):
        x = F.gelu(self.expand(x))
        x = F.gelu(self.shrink(x))
        return x


@answers("FeedForward", "not_narrowed")
class StillWide(Maps):
    def forward(self, x):
        return F.gelu(self.expand(x))


@answers("FeedForward", "no_bias")
class WithoutBiases(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff, bias=False), nn.GELU(), nn.Linear(d_ff, d_model, bias=False))


@answers("FeedForward", "no_bias")
class OneBias(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff, bias=False), nn.GELU(), nn.Linear(d_ff, d_model))


@answers("FeedForward", "other_width")
class FourTimes(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))


@answers("FeedForward", "inner_residual")
class AddsX(Maps):
    def forward(self, x):
        return x + self.shrink(F.gelu(self.expand(x)))


@answers("FeedForward", "relu", "other_width")
class PaperSizes(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))


@answers("FeedForward", "relu", "inner_residual")
class ReluAndResidual(Maps):
    def forward(self, x):
        return self.shrink(torch.relu(self.expand(x))) + x


@answers("FeedForward", "overwritten", "inner_residual")
class AddsIntoX(Maps):
    def forward(self, x):
        hidden = self.expand(x.clone())
        x += self.shrink(F.gelu(hidden))
        return x


@answers("FeedForward")
class Identity(Maps):
    def forward(self, x):
        return x


@answers("FeedForward")
class OneMapOnly(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.map = nn.Linear(d_model, d_model)

    def forward(self, x):
        return F.gelu(self.map(x))


@answers("FeedForward")
class TiedMaps(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.map, self.bias = nn.Linear(d_model, d_ff), nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return F.gelu(self.map(x)) @ self.map.weight + self.bias


@answers("FeedForward")
class NormedInside(Maps):
    def forward(self, x):
        return self.shrink(F.layer_norm(F.gelu(self.expand(x)), (self.expand.out_features,)))


@answers("FeedForward")
class WideConvolution(nn.Module):
    """A kernel of width 3: a token hears of its neighbours."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.conv1 = nn.Conv1d(d_model, d_ff, 3, padding=1)
        self.conv2 = nn.Conv1d(d_ff, d_model, 3, padding=1)

    def forward(self, x):
        return self.conv2(F.gelu(self.conv1(x.transpose(-1, -2)))).transpose(-1, -2)


@answers("FeedForward")
class AlwaysDrops(Maps):
    def forward(self, x):
        return F.dropout(self.shrink(F.gelu(self.expand(x))), 0.5)


@answers("FeedForward")
class MeanOfTokens(Maps):
    def forward(self, x):
        return self.shrink(F.gelu(self.expand(x))).mean(0, keepdim=True).expand_as(x)


@answers("FeedForward")
class Gated(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.expand, self.gate = nn.Linear(d_model, d_ff), nn.Linear(d_model, d_ff)
        self.shrink = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.shrink(F.gelu(self.gate(x)) * self.expand(x))


@answers("FeedForward")
class Halved(Maps):
    def forward(self, x):
        return 0.5 * self.shrink(F.gelu(self.expand(x)))


@answers("FeedForward")
class DetachedHidden(Maps):
    """Right outputs; the first map never learns."""

    def forward(self, x):
        return self.shrink(F.gelu(self.expand(x)).detach())


@answers("FeedForward")
class ThreeAxesOnly(Maps):
    def forward(self, x):
        batch, tokens, d_model = x.shape
        return self.shrink(F.gelu(self.expand(x.view(batch * tokens, d_model)))).view(batch, tokens, d_model)


# --- EncoderBlock ------------------------------------------------------------------------------------------------


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


@answers("EncoderBlock")
class Nothing(Block):
    def forward(self, x, mask=None):
        return x


@answers("EncoderBlock")
class ThirdNorm(Block):
    """A norm inside and one at the block's end."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.norm_3 = LayerNorm(d_model)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return self.norm_3(x + self.feed_forward(self.norm_2(x)))


@answers("EncoderBlock")
class AttendsTwice(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class AcrossTheBatch(Block):
    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x).transpose(0, 1)).transpose(0, 1)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class HalfTheSum(Block):
    def forward(self, x, mask=None):
        x = (x + self.attention(self.norm_1(x), mask)) / 2
        return (x + self.feed_forward(self.norm_2(x))) / 2


@answers("EncoderBlock")
class MultipliesTheStream(Block):
    def forward(self, x, mask=None):
        x = x * self.attention(self.norm_1(x), mask)
        return x * self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class RootMeanSquares(Block):
    """RMSNorm: nothing is centred."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.norm_1, self.norm_2 = nn.RMSNorm(d_model), nn.RMSNorm(d_model)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class DropsWhenUsed(Block):
    def forward(self, x, mask=None):
        x = x + F.dropout(self.attention(self.norm_1(x), mask), 0.3)
        return x + F.dropout(self.feed_forward(self.norm_2(x)), 0.3)


@answers("EncoderBlock")
class ReturnsThePair(Block):
    """The tokens and what attention added; the task asks for the tokens alone."""

    def forward(self, x, mask=None):
        a = self.attention(self.norm_1(x), mask)
        x = x + a
        return x + self.feed_forward(self.norm_2(x)), a


@answers("EncoderBlock")
class MaskedTokens(Block):
    """The padded tokens are set to 0, and still attended to."""

    def forward(self, x, mask=None):
        n = self.norm_1(x)
        if mask is not None and mask.shape[2] == 1:
            n = n * mask[:, 0, 0, :, None]
        x = x + self.attention(n)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class WrittenOverInside(Block):
    """In place on a copy: the outputs are right, and backward fails."""

    def forward(self, x, mask=None):
        x = x.clone()
        x += self.attention(self.norm_1(x), mask)
        x += self.feed_forward(self.norm_2(x))
        return x


class OwnAttention(MultiHeadSelfAttention):
    """The given attention with a fill, or a softmax, of its own."""

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, self.fill)
        return self.w_o((self.weights(scores) @ v).transpose(1, 2).flatten(-2))

    fill = float("-inf")

    def weights(self, scores):
        return scores.softmax(-1)


class FilledWithMinus100(OwnAttention):
    fill = -100.0


class SoftmaxThatOverflows(OwnAttention):
    def weights(self, scores):
        return scores.exp() / scores.exp().sum(-1, keepdim=True)


class WithAttention(EncoderBlock):
    """A right block around the attention that its subclass names."""

    kind = OwnAttention

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.attention = self.kind(d_model, n_heads)


@answers("EncoderBlock")
class NearlyHidden(WithAttention):
    """Scores below −100 are possible, and then what is hidden wins."""

    kind = FilledWithMinus100


@answers("EncoderBlock")
class ExponentialsOverflow(WithAttention):
    kind = SoftmaxThatOverflows


@answers("EncoderBlock")
class PyTorchsLayer(nn.TransformerEncoderLayer):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff, 0.0, "gelu", batch_first=True, norm_first=True)

    def forward(self, x, mask=None):
        if mask is not None:
            mask = (~mask).expand(len(x), self.self_attn.num_heads, x.size(1), -1).flatten(0, 1)
        return super().forward(x, src_mask=mask)


# --- Encoder -----------------------------------------------------------------------------------------------------


class Stack(nn.Module):
    """The frame: blocks and a norm as the task has them, `forward` or the blocks wrong in each class."""

    block = EncoderBlock

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList(self.block(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


@answers("Encoder", "unregistered")
class BlocksInAList(Stack):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(0, d_model, n_heads, d_ff)
        self.layers = [EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers)]

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


@answers("Encoder", "overwritten")
class BlocksInPlace(Stack):
    block = PlusEquals


@answers("Encoder", "repeated_block")
class ListTimesN(Stack):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(0, d_model, n_heads, d_ff)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff)] * n_layers)


@answers("Encoder", "repeated_block")
class OneBlockInALoop(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.n_layers = n_layers
        self.block = EncoderBlock(d_model, n_heads, d_ff)
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for _ in range(self.n_layers):
            x = self.block(x, mask)
        return self.norm(x)


@answers("Encoder", "repeated_block")
class AlwaysTheFirst(Stack):
    def forward(self, x, mask=None):
        for _ in self.blocks:
            x = self.blocks[0](x, mask)
        return self.norm(x)


@answers("Encoder", "no_last_norm")
class BlocksOnly(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList(EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers))

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return x


@answers("Encoder", "no_last_norm")
class NormThrownAway(Stack):
    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        self.norm(x)
        return x


@answers("Encoder", "norm_first")
class NormAtTheStart(Stack):
    def forward(self, x, mask=None):
        x = self.norm(x)
        for block in self.blocks:
            x = block(x, mask)
        return x


@answers("Encoder", "norm_each")
class NormInTheLoop(Stack):
    def forward(self, x, mask=None):
        for block in self.blocks:
            x = self.norm(block(x, mask))
        return x


@answers("Encoder", "same_input")
class InputToAll(Stack):
    def forward(self, x, mask=None):
        for block in self.blocks:
            out = block(x, mask)
        return self.norm(out)


@answers("Encoder", "first_to_all")
class FirstToAll(Stack):
    def forward(self, x, mask=None):
        out = x = self.blocks[0](x, mask)
        for block in self.blocks[1:]:
            out = block(x, mask)
        return self.norm(out)


@answers("Encoder", "reversed")
class FromTheTop(Stack):
    def forward(self, x, mask=None):
        for block in reversed(self.blocks):
            x = block(x, mask)
        return self.norm(x)


@answers("Encoder", "one_too_few")
class StopsEarly(Stack):
    def forward(self, x, mask=None):
        for i in range(len(self.blocks) - 1):
            x = self.blocks[i](x, mask)
        return self.norm(x)


@answers("Encoder", "one_too_few")
class StartsLate(Stack):
    def forward(self, x, mask=None):
        for i in range(1, len(self.blocks)):
            x = self.blocks[i](x, mask)
        return self.norm(x)


@answers("Encoder", "other_number")
class AlwaysSix(Stack):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(6, d_model, n_heads, d_ff)


@answers("Encoder", "outer_residual")
class ResidualAroundAll(Stack):
    def forward(self, x, mask=None):
        start = x
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x + start)


@answers("Encoder", "mask_ignored")
class NobodyIsMasked(Stack):
    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


@answers("Encoder", "mask_first_only")
class MaskForTheFirst(Stack):
    def forward(self, x, mask=None):
        for i, block in enumerate(self.blocks):
            x = block(x, mask if i == 0 else None)
        return self.norm(x)


@answers("Encoder", "mask_inverted")
class InvertedForAll(Stack):
    block = MaskTurnedRound


@answers("Encoder", "post_norm")
class StackOfPostNorm(Stack):
    block = PaperOf2017


@answers("Encoder", "residual_of_norm")
class StackOfLostStreams(Stack):
    block = SumsOfNorms


@answers("Encoder", "no_residual_2")
class StackWithHalfTheSums(Stack):
    block = SecondSumForgotten


@answers("Encoder", "shared_norm")
class StackOfSharedNorms(Stack):
    block = OneNormTwice


@answers("Encoder", "relu")
class StackOfRelus(Stack):
    block = ReluInside


@answers("Encoder", "silu")
class StackOfSwish(Stack):
    block = SwishInside


@answers("Encoder", "other_width")
class StackOfWide(Stack):
    block = WideInside


@answers("Encoder", "post_norm", "no_last_norm")
class Original(Stack):
    block = PaperOf2017

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return x


@answers("Encoder", "repeated_block", "no_last_norm")
class OneBlockNoNorm(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff)] * n_layers)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return x


@answers("Encoder", "mask_ignored", "residual_of_norm")
class UnmaskedLostStreams(Stack):
    block = SumsOfNorms

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


@answers("Encoder", "reversed", "mask_first_only")
class BackwardsAndOneMask(Stack):
    def forward(self, x, mask=None):
        for block in reversed(self.blocks):
            x, mask = block(x, mask), None
        return self.norm(x)


@answers("Encoder")
class PassesThrough(Stack):
    def forward(self, x, mask=None):
        return x


@answers("Encoder")
class OnlyTheNorm(Stack):
    def forward(self, x, mask=None):
        return self.norm(x)


@answers("Encoder")
class SumOfAll(Stack):
    def forward(self, x, mask=None):
        return self.norm(sum(block(x, mask) for block in self.blocks))


@answers("Encoder")
class SharedAttention(Stack):
    """One attention serves all layers."""

    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__(n_layers, d_model, n_heads, d_ff)
        for block in self.blocks:
            block.attention = self.blocks[0].attention


@answers("Encoder")
class TwiceThrough(Stack):
    def forward(self, x, mask=None):
        for block in [*self.blocks, *self.blocks]:
            x = block(x, mask)
        return self.norm(x)


@answers("Encoder")
class MeanOfStates(Stack):
    def forward(self, x, mask=None):
        states = []
        for block in self.blocks:
            x = block(x, mask)
            states.append(x)
        return self.norm(torch.stack(states).mean(0))


@answers("Encoder")
class NormWithoutNumbers(Stack):
    """The last norm has no γ and β that are used."""

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return F.layer_norm(x, x.shape[-1:])


@answers("Encoder")
class CutOff(Stack):
    """Right outputs; no gradient gets past the last block."""

    def forward(self, x, mask=None):
        for block in self.blocks[:-1]:
            x = block(x, mask)
        return self.norm(self.blocks[-1](x.detach(), mask))


@answers("Encoder")
class ReturnsStates(Stack):
    def forward(self, x, mask=None):
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1], mask))
        return self.norm(states[-1]), states


@answers("Encoder")
class CopiesMadeInForward(Stack):
    """Deep copies of one block: the same numbers in every layer, at every call."""

    def forward(self, x, mask=None):
        for i, _ in enumerate(self.blocks):
            block = copy.deepcopy(self.blocks[0])
            x = block(x, mask) * (i + 1)
        return self.norm(x)
