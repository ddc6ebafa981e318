"""The Transformer itself, one idea per file, each readable on its own."""

from headroom.reference.attention import attention_output, causal_mask, padding_mask, scaled_dot_product_attention
from headroom.reference.cache import DecoderCache, KeyValueCache
from headroom.reference.decoder import Decoder, DecoderBlock
from headroom.reference.decoding import beam_decode, greedy_decode, sample_decode
from headroom.reference.encoder import DropPath, Encoder, EncoderBlock, FeedForward
from headroom.reference.loss import cross_entropy
from headroom.reference.multihead import MultiHeadAttention, MultiHeadSelfAttention
from headroom.reference.norm import BatchNorm, LayerNorm, RMSNorm
from headroom.reference.positional import (
    LearnedPositionalEncoding,
    PositionalEncoding,
    sinusoidal_encoding,
    sinusoidal_encoding_2d,
)
from headroom.reference.rotary import rotate
from headroom.reference.schedule import cosine_schedule, inverse_square_root_schedule, paper_learning_rate
from headroom.reference.transformer import Transformer
from headroom.reference.vit import PatchEmbedding, ViT, attention_rollout, patchify

__all__ = [
    "BatchNorm",
    "Decoder",
    "DecoderBlock",
    "DecoderCache",
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "FeedForward",
    "KeyValueCache",
    "LayerNorm",
    "LearnedPositionalEncoding",
    "MultiHeadAttention",
    "MultiHeadSelfAttention",
    "PatchEmbedding",
    "PositionalEncoding",
    "RMSNorm",
    "Transformer",
    "ViT",
    "attention_output",
    "attention_rollout",
    "beam_decode",
    "causal_mask",
    "cosine_schedule",
    "cross_entropy",
    "greedy_decode",
    "inverse_square_root_schedule",
    "padding_mask",
    "paper_learning_rate",
    "patchify",
    "rotate",
    "sample_decode",
    "scaled_dot_product_attention",
    "sinusoidal_encoding",
    "sinusoidal_encoding_2d",
]
