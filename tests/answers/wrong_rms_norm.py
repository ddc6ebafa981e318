"""Wrong answers to lab 4's second part, as students write them; `answers` names their mistakes, or none on a list."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers


class Base(nn.Module):
    """The frame: the parameter as the task has it, `forward` wrong in each class."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.eps = eps


def mean_square(x, dim=-1):
    return x.pow(2).mean(dim, keepdim=True)


@answers("RMSNorm", "centred")
class LayerNormWithoutShift(Base):
    def forward(self, x):
        variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
        return self.gamma * (x - mean) / torch.sqrt(variance + self.eps)


@answers("RMSNorm", "centred")
class CentredFirst(Base):
    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return self.gamma * x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm", "variance")
class DividedByStandardDeviation(Base):
    def forward(self, x):
        return self.gamma * x / torch.sqrt(x.var(-1, correction=0, keepdim=True) + self.eps)


@answers("RMSNorm", "only_centred_above")
class CentredNumerator(Base):
    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) / torch.sqrt(mean_square(x) + self.eps)


@answers("RMSNorm", "squared_mean")
class SquareOfTheMean(Base):
    def forward(self, x):
        return self.gamma * x / torch.sqrt(x.mean(-1, keepdim=True) ** 2 + self.eps)


@answers("RMSNorm", "summed")
class SumOfSquares(Base):
    def forward(self, x):
        return self.gamma * x / torch.sqrt((x * x).sum(-1, keepdim=True) + self.eps)


@answers("RMSNorm", "unbiased")
class OneLess(Base):
    def forward(self, x):
        return self.gamma * x / torch.sqrt((x * x).sum(-1, keepdim=True) / (x.size(-1) - 1) + self.eps)


@answers("RMSNorm", "eps_outside")
class RootPlusEps(Base):
    def forward(self, x):
        return self.gamma * x / (mean_square(x).sqrt() + self.eps)


@answers("RMSNorm", "no_eps")
class NoEps(Base):
    def forward(self, x):
        return self.gamma * x / mean_square(x).sqrt()


@answers("RMSNorm", "no_root")
class MeanSquareItself(Base):
    def forward(self, x):
        return self.gamma * x / (mean_square(x) + self.eps)


@answers("RMSNorm", "not_divided")
class OnlyScaled(Base):
    def forward(self, x):
        return self.gamma * x


@answers("RMSNorm", "fixed_eps")
class EpsHardCoded(Base):
    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x) + 1e-5)


@answers("RMSNorm", "other_default")
class AnotherDefault(Base):
    def __init__(self, d_model, eps=1e-6):
        super().__init__(d_model, eps)

    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm", "over_batch")
class OverBatch(Base):
    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x, 0) + self.eps)


@answers("RMSNorm", "over_tokens")
class OverTokens(Base):
    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x, -2) + self.eps)


@answers("RMSNorm", "over_tokens")
class AxisOne(Base):
    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x, 1) + self.eps)


@answers("RMSNorm", "over_tokens_and_features")
class OverTokensAndFeatures(Base):
    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x, tuple(range(1, x.dim()))) + self.eps)


@answers("RMSNorm", "over_tokens_and_features")
class LastTwoAxes(Base):
    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x, (-2, -1)) + self.eps)


@answers("RMSNorm", "over_everything")
class OverEverything(Base):
    def forward(self, x):
        return self.gamma * x / torch.sqrt((x**2).mean() + self.eps)


@answers("RMSNorm", "gain_first")
class GainFirst(Base):
    def forward(self, x):
        x = self.gamma * x
        return x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm", "no_gamma")
class GainForgotten(Base):
    def forward(self, x):
        return x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm", "detached")
class Detached(Base):
    def forward(self, x):
        with torch.no_grad():
            root = torch.sqrt(mean_square(x) + self.eps)
        return self.gamma * x / root


@answers("RMSNorm", "no_keepdim")
class AxisGone(Base):
    def forward(self, x):
        return self.gamma * x / torch.sqrt(x.pow(2).mean(-1) + self.eps)


@answers("RMSNorm", "overwritten")
class DividesInPlace(Base):
    def forward(self, x):
        x /= torch.sqrt(mean_square(x) + self.eps)
        return self.gamma * x


@answers("RMSNorm", "start")
class StartsAtZero(Base):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.gamma = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm", "unregistered")
class PlainTensor(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.eps = torch.ones(d_model), eps

    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm", "nothing_learned")
class NoGain(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm", "shift_added")
class WithShift(Base):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x) + self.eps) + self.beta


# --- two at once ---


@answers("RMSNorm", "summed", "eps_outside")
class LengthPlusEps(Base):
    def forward(self, x):
        return self.gamma * x / (x.norm(dim=-1, keepdim=True) + self.eps)


@answers("RMSNorm", "centred", "eps_outside")
class StandardDeviationPlusEps(Base):
    def forward(self, x):
        return self.gamma * (x - x.mean(-1, True)) / (x.std(-1, correction=0, keepdim=True) + self.eps)


@answers("RMSNorm", "no_root", "no_gamma")
class NoRootNoGain(Base):
    def forward(self, x):
        return x / (mean_square(x) + self.eps)


@answers("RMSNorm", "over_everything", "no_eps")
class OverEverythingNoEps(Base):
    def forward(self, x):
        return self.gamma * x / (x**2).mean().sqrt()


@answers("RMSNorm", "not_divided", "no_gamma")
class Identity(Base):
    def forward(self, x):
        return x


# --- on no list ---


@answers("RMSNorm")
class Real(Base):
    """Somebody else's answer."""

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.gamma, self.eps)


@answers("RMSNorm")
class RealModule(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.inner = nn.RMSNorm(d_model, eps)

    def forward(self, x):
        return self.inner(x)


@answers("RMSNorm")
class MeanSize(Base):
    def forward(self, x):
        return self.gamma * x / (x.abs().mean(-1, keepdim=True) + self.eps)


@answers("RMSNorm")
class LargestIsOne(Base):
    def forward(self, x):
        return self.gamma * x / (x.abs().amax(-1, keepdim=True) + self.eps)


@answers("RMSNorm")
class EpsSquared(Base):
    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x) + self.eps**2)


@answers("RMSNorm")
class OneMore(Base):
    """γ stored as its distance from 1, and started there."""

    def forward(self, x):
        return (1 + self.gamma) * x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm")
class GainTwice(Base):
    def forward(self, x):
        return self.gamma**2 * x * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm")
class Clipped(Base):
    def forward(self, x):
        return self.gamma * (x * torch.rsqrt(mean_square(x) + self.eps)).clamp(-1.0, 1.0)


@answers("RMSNorm")
class ThreeAxesOnly(Base):
    def forward(self, x):
        _batch, _tokens, _d_model = x.shape
        return self.gamma * x * torch.rsqrt(mean_square(x, 2) + self.eps)


@answers("RMSNorm")
class SizesOnly(Base):
    def forward(self, x):
        return self.gamma * x.abs() * torch.rsqrt(mean_square(x) + self.eps)


@answers("RMSNorm")
class HalfOfTheFeatures(Base):
    def forward(self, x):
        return self.gamma * x * torch.rsqrt(mean_square(x[..., : x.size(-1) // 2]) + self.eps)


@answers("RMSNorm")
class CubeRoot(Base):
    def forward(self, x):
        return self.gamma * x / (mean_square(x) + self.eps) ** (1 / 3)
