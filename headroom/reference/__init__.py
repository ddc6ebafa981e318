"""The Transformer itself, one idea per file, each readable on its own."""

from headroom.reference.attention import Attention, causal_mask, padding_mask, scaled_dot_product_attention
from headroom.reference.cache import CachedCrossAttention, CachedSelfAttention, DecoderCache, KeyValueCache
from headroom.reference.causal import CausalBlock
from headroom.reference.cnn import ConvNet
from headroom.reference.cpvt import CPVT, PositionEncodingGenerator
from headroom.reference.decoder import Decoder, DecoderBlock
from headroom.reference.decoding import beam_decode, greedy_decode, sample_decode
from headroom.reference.deit import DeiT, hard_distillation_loss, soft_distillation_loss
from headroom.reference.encoder import DropPath, Encoder, EncoderBlock, FeedForward
from headroom.reference.heads import ablate, induction_score, patch, previous_token_score
from headroom.reference.initialise import glorot
from headroom.reference.language_model import LanguageModel
from headroom.reference.loss import cross_entropy
from headroom.reference.maps import attention_maps
from headroom.reference.modern import GroupedQueryAttention, SwiGLU, llama
from headroom.reference.multihead import CrossAttention, MultiHeadSelfAttention
from headroom.reference.ngram import NGram
from headroom.reference.norm import BatchNorm, LayerNorm, RMSNorm
from headroom.reference.patches import patchify_unfold
from headroom.reference.positional import (
    LearnedPositionalEncoding,
    PositionalEncoding,
    sinusoidal_encoding,
    sinusoidal_encoding_2d,
)
from headroom.reference.pvt import PVT, SpatialReductionAttention
from headroom.reference.rollout import attention_rollout
from headroom.reference.rotary import RotarySelfAttention, rotate
from headroom.reference.sampling import next_probabilities, next_token_loss, sample_next, surprise
from headroom.reference.schedule import cosine_schedule, inverse_square_root_schedule, paper_learning_rate
from headroom.reference.swin import Swin
from headroom.reference.transformer import Transformer
from headroom.reference.vit import PatchEmbedding, ViT, patchify
from headroom.reference.windows import WindowAttention, merge_windows, neighbours, split_windows

__all__ = [
    "CPVT",
    "PVT",
    "Attention",
    "BatchNorm",
    "CachedCrossAttention",
    "CachedSelfAttention",
    "CausalBlock",
    "ConvNet",
    "CrossAttention",
    "Decoder",
    "DecoderBlock",
    "DecoderCache",
    "DeiT",
    "DropPath",
    "Encoder",
    "EncoderBlock",
    "FeedForward",
    "GroupedQueryAttention",
    "KeyValueCache",
    "LanguageModel",
    "LayerNorm",
    "LearnedPositionalEncoding",
    "MultiHeadSelfAttention",
    "NGram",
    "PatchEmbedding",
    "PositionEncodingGenerator",
    "PositionalEncoding",
    "RMSNorm",
    "RotarySelfAttention",
    "SpatialReductionAttention",
    "SwiGLU",
    "Swin",
    "Transformer",
    "ViT",
    "WindowAttention",
    "ablate",
    "attention_maps",
    "attention_rollout",
    "beam_decode",
    "causal_mask",
    "cosine_schedule",
    "cross_entropy",
    "glorot",
    "greedy_decode",
    "hard_distillation_loss",
    "induction_score",
    "inverse_square_root_schedule",
    "llama",
    "merge_windows",
    "neighbours",
    "next_probabilities",
    "next_token_loss",
    "padding_mask",
    "paper_learning_rate",
    "patch",
    "patchify",
    "patchify_unfold",
    "previous_token_score",
    "rotate",
    "sample_decode",
    "sample_next",
    "scaled_dot_product_attention",
    "sinusoidal_encoding",
    "sinusoidal_encoding_2d",
    "soft_distillation_loss",
    "split_windows",
    "surprise",
]
