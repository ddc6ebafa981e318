"""Right answers to lab 4's second part in the styles that people write. Every class here earns full marks."""

import math

import torch
from torch import nn

from tests.answers import answers


@answers("RMSNorm")
class MeanOfSquares(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        mean_square = x.square().mean(dim=-1, keepdim=True)
        return self.gamma * x / torch.sqrt(mean_square + self.eps)


@answers("RMSNorm")
class Rsqrt(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.double()).type_as(x) * self.weight


@answers("RMSNorm")
class ByTheNorm(MeanOfSquares):
    """The length of a vector is √d times its root mean square."""

    def forward(self, x):
        d = x.size(-1)
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x * math.sqrt(d) / torch.sqrt(length**2 + d * self.eps) * self.gamma


@answers("RMSNorm")
class VariancePlusSquaredMean(MeanOfSquares):
    def forward(self, x):
        var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        return self.gamma * (x / (var + mean**2 + self.eps) ** 0.5)


@answers("RMSNorm")
class Einsum(MeanOfSquares):
    def forward(self, x):
        squares = torch.einsum("...i,...i->...", x, x) / x.shape[-1]
        return torch.einsum("...i,...,i->...i", x, 1 / torch.sqrt(squares + self.eps), self.gamma)


@answers("RMSNorm")
class FeatureByFeature(MeanOfSquares):
    def forward(self, x):
        total = torch.zeros_like(x[..., 0])
        for i in range(x.shape[-1]):
            total = total + x[..., i] ** 2
        root = (total / x.shape[-1] + self.eps).sqrt()
        return torch.stack([self.gamma[i] * x[..., i] / root for i in range(x.shape[-1])], dim=-1)


@answers("RMSNorm")
class NamesOfItsOwn(nn.Module):
    """Another name, axes of length 1 in front, and a print."""

    def __init__(self, features, epsilon=1e-5):
        super().__init__()
        self.register_parameter("amplitude", nn.Parameter(torch.full((1, 1, features), 1.0)))
        self.epsilon = epsilon

    def forward(self, inputs):
        print(inputs.shape)
        flat = inputs.reshape(-1, inputs.shape[-1])
        out = flat / ((flat * flat).sum(1, keepdim=True) / flat.shape[1] + self.epsilon).sqrt()
        return (out * self.amplitude.reshape(-1)).reshape(inputs.shape)


@answers("RMSNorm")
class TokenByToken(MeanOfSquares):
    def forward(self, x):
        rows = [t / ((t @ t) / len(t) + self.eps).sqrt() for t in x.reshape(-1, x.size(-1))]
        return torch.stack(rows).view_as(x) * self.gamma


@answers("RMSNorm")
class ScaledByADiagonal(MeanOfSquares):
    def forward(self, x):
        y = x.div((x**2).mean(-1).add(self.eps).pow(0.5).unsqueeze(-1))
        return y @ torch.diag(self.gamma)


@answers("RMSNorm")
class ThroughExpAndLog(MeanOfSquares):
    def forward(self, x):
        return self.gamma * x * torch.exp(-0.5 * torch.log(torch.mean(x * x, -1, True) + self.eps))
