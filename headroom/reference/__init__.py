"""The Transformer itself, one idea per file, each readable on its own."""

from headroom.reference.attention import causal_mask, padding_mask, scaled_dot_product_attention
from headroom.reference.encoder import DropPath, Encoder, EncoderBlock, FeedForward
from headroom.reference.multihead import MultiHeadSelfAttention
from headroom.reference.norm import LayerNorm
from headroom.reference.positional import LearnedPositionalEncoding, PositionalEncoding, sinusoidal_encoding
from headroom.reference.vit import PatchEmbedding, ViT, attention_rollout, patchify

__all__ = [
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "FeedForward",
    "LayerNorm",
    "LearnedPositionalEncoding",
    "MultiHeadSelfAttention",
    "PatchEmbedding",
    "PositionalEncoding",
    "ViT",
    "attention_rollout",
    "causal_mask",
    "padding_mask",
    "patchify",
    "scaled_dot_product_attention",
    "sinusoidal_encoding",
]
