"""Right answers to lab 4 in the styles that people write. Every class here earns full marks."""

import torch
from torch import nn

from tests.answers import answers


@answers("LayerNorm")
class TwoPass(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        mu = x.mean(-1, keepdim=True)
        var = ((x - mu) ** 2).mean(-1, keepdim=True)
        return self.gamma * (x - mu) / (var + self.eps) ** 0.5 + self.beta


@answers("LayerNorm")
class VarUnbiasedFalse(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return (x - x.mean(-1, True)) * torch.rsqrt(
            x.var(-1, unbiased=False, keepdim=True) + self.eps
        ) * self.weight + (self.bias)


@answers("LayerNorm")
class VarMean(TwoPass):
    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(self.beta, (x - mean) / torch.sqrt(var + self.eps), self.gamma)


@answers("LayerNorm")
class MeanOfSquares(TwoPass):
    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        var = (x * x).mean(dim=-1, keepdim=True) - mean * mean
        return self.gamma * ((x - mean) / torch.sqrt(var.clamp(min=0) + self.eps)) + self.beta


@answers("LayerNorm")
class StdCorrected(TwoPass):
    """The unbiased standard deviation, put right by hand."""

    def forward(self, x):
        d = x.shape[-1]
        var = x.std(-1, keepdim=True) ** 2 * (d - 1) / d
        return (x - x.mean(-1, keepdim=True)) / (var + self.eps).sqrt() * self.gamma + self.beta


@answers("LayerNorm")
class Sums(TwoPass):
    def forward(self, x):
        d = x.shape[-1]
        centred = x - x.sum(-1)[..., None] / d
        variance = torch.einsum("...i,...i->...", centred, centred)[..., None] / d
        return centred / torch.sqrt(variance + self.eps) * self.gamma + self.beta


@answers("LayerNorm")
class Welford(TwoPass):
    """One feature at a time, mean and sum of squares updated as they come."""

    def forward(self, x):
        mean, m2 = torch.zeros_like(x[..., 0]), torch.zeros_like(x[..., 0])
        for i in range(x.shape[-1]):
            delta = x[..., i] - mean
            mean = mean + delta / (i + 1)
            m2 = m2 + delta * (x[..., i] - mean)
        variance = m2 / x.shape[-1]
        return self.gamma * (x - mean.unsqueeze(-1)) / (variance.unsqueeze(-1) + self.eps).sqrt() + self.beta


@answers("LayerNorm")
class NamesOfItsOwn(nn.Module):
    """Parameters named otherwise and with axes of length 1 in front; prints on the way."""

    def __init__(self, features, epsilon=1e-5):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(1, 1, features))
        self.b_2 = nn.Parameter(torch.zeros(1, 1, features))
        self.epsilon = epsilon

    def forward(self, inputs):
        print(inputs.shape)
        flat = inputs.reshape(-1, inputs.shape[-1])
        std = torch.sqrt(flat.var(1, correction=0) + self.epsilon)
        out = ((flat.T - flat.mean(1)) / std).T
        return (out * self.a_2.flatten() + self.b_2.flatten()).view_as(inputs)


@answers("LayerNorm")
class ParametersWithoutNames(nn.Module):
    """Told apart only by the values that they start from."""

    def __init__(self, n, eps=1e-5):
        super().__init__()
        self.p = nn.ParameterList([torch.zeros(n), torch.ones(n)])
        self.eps = eps

    def forward(self, x):
        var, mean = torch.var_mean(x, -1, keepdim=True, unbiased=False)
        return self.p[0] + self.p[1] * (x - mean) / torch.sqrt(var + self.eps)


@answers("LayerNorm")
class InFloat32Inside(TwoPass):
    """Computes in at least float32 and returns the dtype that came in."""

    def forward(self, x):
        y = x.to(torch.promote_types(x.dtype, torch.float32))
        y = y - y.mean(-1, keepdim=True)
        y = y / (y.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()
        return (self.gamma * y + self.beta).to(x.dtype)
