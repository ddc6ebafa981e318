"""The models that vit.js computes where there is no Python, and their weights as it takes them."""

from typing import Any

import torch
from torch import nn

from headroom.reference import (
    Attention,
    DropPath,
    Encoder,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LearnedPositionalEncoding,
    MultiHeadSelfAttention,
    PatchEmbedding,
    ViT,
)

MOST_WEIGHTS = 100_000  # 400 kB
PARTS = {
    ViT,
    PatchEmbedding,
    LearnedPositionalEncoding,
    Encoder,
    nn.ModuleList,
    EncoderBlock,
    LayerNorm,
    MultiHeadSelfAttention,
    Attention,
    FeedForward,
    DropPath,
    nn.Linear,
    nn.GELU,
    nn.Dropout,
}


def layout(model: nn.Module) -> dict[str, Any]:
    """What vit.js has to know of a model besides its weights: the names and sizes of its tensors, and LayerNorm's ε.

    No tensors, if it cannot compute this model: one that is no `ViT` with [class], has other parts, or is too large.
    """
    nothing: dict[str, Any] = {"tensors": [], "eps": 0.0}
    if not isinstance(model, ViT) or model.class_token is None or {type(part) for part in model.modules()} - PARTS:
        return nothing
    sizes = {name: one.numel() for name, one in model.state_dict().items()}
    if sum(sizes.values()) > MOST_WEIGHTS:
        return nothing
    return {"tensors": [list(pair) for pair in sizes.items()], "eps": model.encoder.norm.eps}


def weights(model: nn.Module) -> bytes:
    """All tensors of a model's state, one after the other, as little-endian float32."""
    flat = torch.cat([one.detach().flatten().float().cpu() for one in model.state_dict().values()])
    return flat.numpy().astype("<f4").tobytes()
