"""Layer normalisation. Ba, Kiros & Hinton 2016, "Layer Normalization"."""

import torch
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """Each token brought to mean 0 and variance 1 over its own features, then scaled by γ and shifted by β.

    Args:
        d_model: width of the tokens.
        eps: added to the variance, so that a token whose features are all equal does not divide by 0.

    Source: Ba et al. 2016, section 3.1, equation 3, with the affine map of section 3; the variance is the
    biased one (divided by `d_model`).
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """`x`: `(..., d_model)`; so is the result."""
        mean = x.mean(dim=-1, keepdim=True)  # (..., 1): one mean per token
        variance = (x - mean).square().mean(dim=-1, keepdim=True)
        normalized = (x - mean) / torch.sqrt(variance + self.eps)
        return self.gamma * normalized + self.beta
