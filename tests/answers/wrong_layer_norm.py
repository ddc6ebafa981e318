"""Wrong answers to lab 4, written as students write them; `answers` names their mistakes, or none that is on a list."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers


class Base(nn.Module):
    """The frame: parameters as the task has them, `forward` wrong in each class."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps


def moments(x, dim):
    return x.mean(dim, keepdim=True), x.var(dim, keepdim=True, unbiased=False)


@answers("LayerNorm", "unbiased")
class TorchVarAsItComes(Base):
    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + self.eps) + self.beta


@answers("LayerNorm", "eps_outside")
class StdPlusEps(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / (var.sqrt() + self.eps) + self.beta


@answers("LayerNorm", "unbiased", "eps_outside")
class Annotated(Base):
    """The unbiased standard deviation plus ε."""

    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.beta


@answers("LayerNorm", "no_eps")
class NoEps(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / var.sqrt() + self.beta


@answers("LayerNorm", "no_root")
class DividedByVariance(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / (var + self.eps) + self.beta


@answers("LayerNorm", "not_divided")
class OnlyCentred(Base):
    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) + self.beta


@answers("LayerNorm", "fixed_eps")
class EpsHardCoded(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + 1e-5) + self.beta


@answers("LayerNorm", "over_batch")
class OverBatch(Base):
    def forward(self, x):
        mean, var = moments(x, 0)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "over_tokens")
class OverTokens(Base):
    def forward(self, x):
        mean, var = moments(x, -2)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "over_tokens_and_features")
class OverTokensAndFeatures(Base):
    def forward(self, x):
        mean, var = moments(x, tuple(range(1, x.dim())))
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "over_everything")
class OverEverything(Base):
    def forward(self, x):
        return self.gamma * (x - x.mean()) / torch.sqrt(x.var(correction=0) + self.eps) + self.beta


@answers("LayerNorm", "not_centred")
class NotCentred(Base):
    def forward(self, x):
        return self.gamma * x / torch.sqrt(moments(x, -1)[1] + self.eps) + self.beta


@answers("LayerNorm", "root_mean_square")
class RootMeanSquare(Base):
    def forward(self, x):
        return self.gamma * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) + self.beta


@answers("LayerNorm", "beta_scaled")
class BetaInside(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * ((x - mean) / torch.sqrt(var + self.eps) + self.beta)


@answers("LayerNorm", "no_affine")
class NoAffine(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return (x - mean) / torch.sqrt(var + self.eps)


@answers("LayerNorm", "no_gamma")
class NoGamma(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "no_beta")
class NoBeta(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps)


@answers("LayerNorm", "detached")
class Detached(Base):
    def forward(self, x):
        mean, var = moments(x.detach(), -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "unregistered")
class PlainTensors(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta, self.eps = torch.ones(d_model), torch.zeros(d_model), eps

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "start")
class StartsAtZero(Base):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.gamma = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "overwritten")
class SubtractsInPlace(Base):
    def forward(self, x):
        var = x.var(-1, correction=0, keepdim=True)
        x -= x.mean(-1, keepdim=True)
        x /= torch.sqrt(var + self.eps)
        return self.gamma * x + self.beta


@answers("LayerNorm", "no_keepdim")
class AxisGone(Base):
    def forward(self, x):
        return self.gamma * (x - x.mean(-1)) / torch.sqrt(x.var(-1, correction=0) + self.eps) + self.beta


@answers("LayerNorm", "exchanged")
class Exchanged(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.beta * (x - mean) / torch.sqrt(var + self.eps) + self.gamma


@answers("LayerNorm", "other_default")
class AnotherDefault(Base):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "over_tokens")
class AxisOne(Base):
    def forward(self, x):
        mean, var = moments(x, 1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm", "over_tokens_and_features")
class LastTwoAxes(Base):
    def forward(self, x):
        mean, var = moments(x, (-2, -1))
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


# --- two at once ---


@answers("LayerNorm", "unbiased", "over_everything")
class UnbiasedOverEverything(Base):
    def forward(self, x):
        return self.gamma * (x - x.mean()) / torch.sqrt(x.var() + self.eps) + self.beta


@answers("LayerNorm", "unbiased", "beta_scaled")
class UnbiasedBetaInside(Base):
    def forward(self, x):
        return self.gamma * ((x - x.mean(-1, True)) / torch.sqrt(x.var(-1, keepdim=True) + self.eps) + self.beta)


@answers("LayerNorm", "no_root", "no_affine")
class NoRootNoAffine(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return (x - mean) / (var + self.eps)


@answers("LayerNorm", "root_mean_square", "no_beta")
class RmsNorm(Base):
    """RMSNorm as language models have it: no centring, no shift."""

    def forward(self, x):
        return self.gamma * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


# --- on no list ---


@answers("LayerNorm")
class Identity(Base):
    def forward(self, x):
        return x


@answers("LayerNorm")
class Real(Base):
    """Somebody else's answer."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.gamma, self.beta, self.eps)


@answers("LayerNorm")
class MedianCentred(Base):
    def forward(self, x):
        return self.gamma * (x - x.median(-1, True).values) / torch.sqrt(moments(x, -1)[1] + self.eps) + self.beta


@answers("LayerNorm")
class MeanDeviation(Base):
    def forward(self, x):
        c = x - x.mean(-1, keepdim=True)
        return self.gamma * c / (c.abs().mean(-1, keepdim=True) + self.eps) + self.beta


@answers("LayerNorm")
class EpsInsideSquared(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps**2) + self.beta


@answers("LayerNorm")
class MinMax(Base):
    def forward(self, x):
        low, high = x.amin(-1, True), x.amax(-1, True)
        return self.gamma * (x - low) / (high - low + self.eps) + self.beta


@answers("LayerNorm")
class Clipped(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * ((x - mean) / torch.sqrt(var + self.eps)).clamp(-1.5, 1.5) + self.beta


@answers("LayerNorm")
class ThreeAxesOnly(Base):
    def forward(self, x):
        _batch, _tokens, _d_model = x.shape
        mean, var = moments(x, 2)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm")
class DividedByOneMore(Base):
    def forward(self, x):
        c = x - x.mean(-1, True)
        variance = c.pow(2).sum(-1, True) / (x.size(-1) + 1)
        return self.gamma * c / torch.sqrt(variance + self.eps) + self.beta


@answers("LayerNorm")
class GammaTwice(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma**2 * (x - mean) / torch.sqrt(var + self.eps) + self.beta


@answers("LayerNorm")
class OtherMeansInASquare(Base):
    """Where there are as many tokens as features, a mean without its axis broadcasts over the wrong one."""

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        if x.dim() == 2 and x.size(0) == x.size(1):
            mean = mean.squeeze(-1)
        return self.gamma * (x - mean) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + self.eps) + self.beta
