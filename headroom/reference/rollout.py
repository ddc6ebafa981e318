"""Attention followed through the layers. Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers"."""

import torch
from torch import Tensor


def attention_rollout(attention: Tensor) -> Tensor:
    """How much of each input token reaches each output token, if only attention and residuals moved it.

    Row 0 says what [class] has gathered, if there is one. With mean pooling the head reads the mean of all tokens, and
    so the mean of all rows, `rollout.mean(dim=1)`, says how much of each patch it has read.

    Args:
        attention: weights `(batch, layers, heads, tokens, tokens)`.

    Returns:
        `(batch, tokens, tokens)`, rows summing to 1: heads averaged, half of each layer the residual path.

    Source: Abnar & Zuidema 2020, section 3.
    """
    layers = attention.mean(dim=2)  # (batch, layers, tokens, tokens)
    identity = torch.eye(layers.size(-1), device=attention.device, dtype=attention.dtype)
    rollout = identity.expand_as(layers[:, 0])
    for layer in (0.5 * layers + 0.5 * identity).unbind(dim=1):
        rollout = layer @ rollout
    return rollout
