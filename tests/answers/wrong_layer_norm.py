"""Wrong answers to lab 4, written as students write them. `mistakes` holds the keys that the judge must name.

Empty: not on any list; it must still fail.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Base(nn.Module):
    """The frame: parameters as the task has them, `forward` wrong in each class."""

    mistakes: tuple[str, ...] = ()

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps


def moments(x, dim):
    return x.mean(dim, keepdim=True), x.var(dim, keepdim=True, unbiased=False)


class TorchVarAsItComes(Base):
    mistakes = ("unbiased",)

    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + self.eps) + self.beta


class StdPlusEps(Base):
    mistakes = ("eps_outside",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / (var.sqrt() + self.eps) + self.beta


class Annotated(Base):
    """The unbiased standard deviation plus ε."""

    mistakes = ("unbiased", "eps_outside")

    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.beta


class NoEps(Base):
    mistakes = ("no_eps",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / var.sqrt() + self.beta


class DividedByVariance(Base):
    mistakes = ("no_root",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / (var + self.eps) + self.beta


class OnlyCentred(Base):
    mistakes = ("not_divided",)

    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) + self.beta


class EpsHardCoded(Base):
    mistakes = ("fixed_eps",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + 1e-5) + self.beta


class OverBatch(Base):
    mistakes = ("over_batch",)

    def forward(self, x):
        mean, var = moments(x, 0)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class OverTokens(Base):
    mistakes = ("over_tokens",)

    def forward(self, x):
        mean, var = moments(x, -2)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class OverTokensAndFeatures(Base):
    mistakes = ("over_tokens_and_features",)

    def forward(self, x):
        mean, var = moments(x, tuple(range(1, x.dim())))
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class OverEverything(Base):
    mistakes = ("over_everything",)

    def forward(self, x):
        return self.gamma * (x - x.mean()) / torch.sqrt(x.var(correction=0) + self.eps) + self.beta


class NotCentred(Base):
    mistakes = ("not_centred",)

    def forward(self, x):
        return self.gamma * x / torch.sqrt(moments(x, -1)[1] + self.eps) + self.beta


class RootMeanSquare(Base):
    mistakes = ("root_mean_square",)

    def forward(self, x):
        return self.gamma * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) + self.beta


class BetaInside(Base):
    mistakes = ("beta_scaled",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * ((x - mean) / torch.sqrt(var + self.eps) + self.beta)


class NoAffine(Base):
    mistakes = ("no_affine",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return (x - mean) / torch.sqrt(var + self.eps)


class NoGamma(Base):
    mistakes = ("no_gamma",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return (x - mean) / torch.sqrt(var + self.eps) + self.beta


class NoBeta(Base):
    mistakes = ("no_beta",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps)


class Detached(Base):
    mistakes = ("detached",)

    def forward(self, x):
        mean, var = moments(x.detach(), -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class PlainTensors(nn.Module):
    mistakes = ("unregistered",)

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta, self.eps = torch.ones(d_model), torch.zeros(d_model), eps

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class StartsAtZero(Base):
    mistakes = ("start",)

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.gamma = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class SubtractsInPlace(Base):
    mistakes = ("overwritten",)

    def forward(self, x):
        var = x.var(-1, correction=0, keepdim=True)
        x -= x.mean(-1, keepdim=True)
        x /= torch.sqrt(var + self.eps)
        return self.gamma * x + self.beta


class AxisGone(Base):
    mistakes = ("no_keepdim",)

    def forward(self, x):
        return self.gamma * (x - x.mean(-1)) / torch.sqrt(x.var(-1, correction=0) + self.eps) + self.beta


class Exchanged(Base):
    mistakes = ("exchanged",)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.beta * (x - mean) / torch.sqrt(var + self.eps) + self.gamma


class AnotherDefault(Base):
    mistakes = ("other_default",)

    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)

    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class AxisOne(Base):
    mistakes = ("over_tokens",)

    def forward(self, x):
        mean, var = moments(x, 1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class LastTwoAxes(Base):
    mistakes = ("over_tokens_and_features",)

    def forward(self, x):
        mean, var = moments(x, (-2, -1))
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


# --- two at once ---


class UnbiasedOverEverything(Base):
    mistakes = ("unbiased", "over_everything")

    def forward(self, x):
        return self.gamma * (x - x.mean()) / torch.sqrt(x.var() + self.eps) + self.beta


class UnbiasedBetaInside(Base):
    mistakes = ("unbiased", "beta_scaled")

    def forward(self, x):
        return self.gamma * ((x - x.mean(-1, True)) / torch.sqrt(x.var(-1, keepdim=True) + self.eps) + self.beta)


class NoRootNoAffine(Base):
    mistakes = ("no_root", "no_affine")

    def forward(self, x):
        mean, var = moments(x, -1)
        return (x - mean) / (var + self.eps)


class RmsNorm(Base):
    """RMSNorm as language models have it: no centring, no shift."""

    mistakes = ("root_mean_square", "no_beta")

    def forward(self, x):
        return self.gamma * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


# --- on no list ---


class Identity(Base):
    def forward(self, x):
        return x


class Real(Base):
    """Somebody else's answer."""

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.gamma, self.beta, self.eps)


class MedianCentred(Base):
    def forward(self, x):
        return self.gamma * (x - x.median(-1, True).values) / torch.sqrt(moments(x, -1)[1] + self.eps) + self.beta


class MeanDeviation(Base):
    def forward(self, x):
        c = x - x.mean(-1, keepdim=True)
        return self.gamma * c / (c.abs().mean(-1, keepdim=True) + self.eps) + self.beta


class EpsInsideSquared(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps**2) + self.beta


class MinMax(Base):
    def forward(self, x):
        low, high = x.amin(-1, True), x.amax(-1, True)
        return self.gamma * (x - low) / (high - low + self.eps) + self.beta


class Clipped(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma * ((x - mean) / torch.sqrt(var + self.eps)).clamp(-1.5, 1.5) + self.beta


class ThreeAxesOnly(Base):
    def forward(self, x):
        _batch, _tokens, _d_model = x.shape
        mean, var = moments(x, 2)
        return self.gamma * (x - mean) / torch.sqrt(var + self.eps) + self.beta


class DividedByOneMore(Base):
    def forward(self, x):
        c = x - x.mean(-1, True)
        variance = c.pow(2).sum(-1, True) / (x.size(-1) + 1)
        return self.gamma * c / torch.sqrt(variance + self.eps) + self.beta


class GammaTwice(Base):
    def forward(self, x):
        mean, var = moments(x, -1)
        return self.gamma**2 * (x - mean) / torch.sqrt(var + self.eps) + self.beta
