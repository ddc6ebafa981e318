"""Normalisation: of a token over its own features, and, for the comparison, of a feature over all tokens."""

import torch
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """Each token brought to mean 0 and variance 1 over its own features, then scaled by γ and shifted by β.

    Args:
        d_model: width of the tokens.
        eps: added to the variance, so that a token whose features are all equal does not divide by 0.

    Source: Ba, Kiros & Hinton 2016, "Layer Normalization", section 3.1, equation 3, with the affine map of section 3;
    the variance is the biased one (divided by `d_model`).
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """`x`: `(..., d_model)`; so is the result."""
        centred = x - x.mean(dim=-1, keepdim=True)  # one mean per token
        variance = centred.square().mean(dim=-1, keepdim=True)  # (..., 1)
        normalized = centred * torch.rsqrt(variance + self.eps)  # 1 / √…: a division per token
        return self.gamma * normalized + self.beta


class RMSNorm(nn.Module):
    """Each token divided by the root of its mean square, then scaled by γ: LayerNorm without centring and shift.

    Args:
        d_model: width of the tokens.
        eps: added to the mean square.

    Source: Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", equation 4.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """`x`: `(..., d_model)`; so is the result."""
        mean_square = x.square().mean(dim=-1, keepdim=True)  # (..., 1)
        return self.gamma * (x * torch.rsqrt(mean_square + self.eps))


class BatchNorm(nn.Module):
    """Each feature brought to mean 0 and variance 1 over all tokens of the batch, then scaled by γ and shifted by β.

    Here to be compared: what it does to a token depends on the other tokens and sequences beside it, padding included.
    In eval mode it uses the running averages that it kept while training.

    Args:
        d_model: width of the tokens.
        eps: added to the variance.
        momentum: the share of a batch in the running averages.

    Source: Ioffe & Szegedy 2015, "Batch Normalization", algorithms 1 and 2.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, d_model: int, eps: float = 1e-5, momentum: float = 0.1):
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_variance", torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """`x`: `(..., d_model)`; so is the result."""
        if self.training:
            features = x.flatten(end_dim=-2)  # (batch · tokens, d_model)
            mean, variance = features.mean(dim=0), features.var(dim=0, correction=0)  # (d_model,): one per feature
            with torch.no_grad():
                unbiased = variance * len(features) / max(1, len(features) - 1)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_variance.lerp_(unbiased, self.momentum)
        else:
            mean, variance = self.running_mean, self.running_variance
        normalized = (x - mean) / torch.sqrt(variance + self.eps)
        return self.gamma * normalized + self.beta
