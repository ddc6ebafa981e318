"""Wrong feed-forward networks, as students write them; `answers` names their mistakes, or none that is on a list."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers


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
