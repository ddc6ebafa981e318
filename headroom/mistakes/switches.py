"""Mistakes that can be switched on in a whole model.

    wrong = broken(pretrained_vit(), "unscaled", "no_residual")

A mistake is a class of a few lines, and what it overrides is what the wrong code does otherwise. `broken` copies the
model and gives parts of the copy a class in which the mistake's methods come before the right ones. No function is
replaced, so nothing outside of the copy changes: the model that was copied stays right, and so does every other.
"""

import copy
import inspect

from torch import Tensor, nn

from headroom.mistakes import wrong_attention, wrong_layers
from headroom.mistakes.switch import Switch, become, becomes, check_exclusive, kind, on_part
from headroom.reference import (
    CPVT,
    PVT,
    CachedCrossAttention,
    CachedSelfAttention,
    ConvNet,
    CrossAttention,
    Decoder,
    DecoderBlock,
    DecoderCache,
    Encoder,
    EncoderBlock,
    FeedForward,
    LayerNorm,
    LearnedPositionalEncoding,
    MultiHeadSelfAttention,
    PatchEmbedding,
    PositionalEncoding,
    RotarySelfAttention,
    Swin,
    Transformer,
    ViT,
)
from headroom.reference.swin import WindowedStage


def broken(model: nn.Module, *names: str) -> nn.Module:
    """A copy of a reference model with these mistakes switched on: it runs, shows its attention and trains as before.

    Its parameters have the model's names, so that weights load from one to the other, except that `unregistered` hides
    some of them. A broken `Transformer` decodes without a cache: a mistake may let an earlier token see later ones, and
    then the keys that were kept are not those that its training had.

    Args:
        model: any of `headroom.reference`: a whole model, such as `ViT` and `Transformer`, or one of its parts.
        names: of `MISTAKES`; in any order.

    Raises:
        ValueError: there is no such mistake, it does not apply to this model, or two of them exclude each other.
    """
    chosen = [switch for switch in MISTAKES.values() if switch.name in names]
    for name in names:
        if name not in MISTAKES or not MISTAKES[name].applies(model):
            fault = "is not a known mistake" if name not in MISTAKES else f"cannot be made in a {kind(model).__name__}"
            possible = [switch.name for switch in MISTAKES.values() if switch.applies(model)]
            raise ValueError(f"{name!r} {fault}; those that can be made there: {', '.join(possible) or 'none'}")
    check_exclusive(chosen)
    wrong = copy.deepcopy(model)
    for switch in chosen:
        for part in switch.parts(wrong):
            switch.make(part)
    for part in wrong.modules():
        if kind(part) is Transformer:
            become(part, WithoutCache)
    return wrong


class WithoutCache(Transformer):
    """A Transformer that decodes by computing all tokens anew at every step; the cache keeps their ids alone."""

    def decode(
        self, target: Tensor, memory: Tensor, source_mask: Tensor | None = None, cache: DecoderCache | None = None
    ) -> Tensor:
        new = target.size(1)
        if cache is not None:
            ids = target[:, None, :, None]  # (batch, 1, tokens, 1): as keys, so that the cache counts and selects them
            target = cache.layers[0][0].append(ids, ids)[0][:, 0, :, 0]
        return super().decode(target, memory, source_mask)[:, -new:]


# --- The list ----------------------------------------------------------------------------------------------------

SELF_ATTENTION = (MultiHeadSelfAttention, RotarySelfAttention, CachedSelfAttention)
ATTENTION = (*SELF_ATTENTION, CrossAttention, CachedCrossAttention)
POSITIONS = (PositionalEncoding, LearnedPositionalEncoding)
NORM = (LayerNorm,)
BLOCKS = (EncoderBlock, DecoderBlock)
STACKS = (Encoder, Decoder, WindowedStage)


def _several_heads(attention: MultiHeadSelfAttention, model: nn.Module) -> bool:
    return attention.n_heads > 1


def _takes_masks(attention: nn.Module, model: nn.Module) -> bool:
    return any("mask" in name for name in inspect.signature(model.forward).parameters)


def _has_class(part: nn.Module, model: nn.Module) -> bool:
    return getattr(model, "class_token", None) is not None


_LIST = (
    Switch(
        "multi_head_self_attention.unscaled",
        "Attention",
        "scale",
        ATTENTION,
        on_part("attend", wrong_attention.Unscaled),
    ),
    Switch(
        "multi_head_self_attention.by_d_head",
        "Attention",
        "scale",
        ATTENTION,
        on_part("attend", wrong_attention.ByDHead),
    ),
    Switch(
        "multi_head_self_attention.by_d_model",
        "Attention",
        "scale",
        ATTENTION,
        on_part("attend", wrong_attention.ByDModel),
        _several_heads,
    ),
    Switch(
        "multi_head_self_attention.scaled_after",
        "Attention",
        "scale",
        ATTENTION,
        on_part("attend", wrong_attention.ScaledAfter),
    ),
    Switch(
        "attention_scores.transposed",
        "Attention",
        "scores",
        SELF_ATTENTION,
        on_part("attend", wrong_attention.Transposed),
    ),
    Switch(
        "scaled_dot_product_attention.columns",
        "Attention",
        "softmax",
        ATTENTION,
        on_part("attend", wrong_attention.Columns),
    ),
    Switch(
        "multi_head_self_attention.over_heads",
        "Attention",
        "softmax",
        ATTENTION,
        on_part("attend", wrong_attention.OverHeads),
    ),
    Switch(
        "scaled_dot_product_attention.q_for_v", "Attention", "project", SELF_ATTENTION, becomes(wrong_attention.QForV)
    ),
    Switch("scaled_dot_product_attention.k_for_v", "Attention", "project", ATTENTION, becomes(wrong_attention.KForV)),
    Switch("project_qkv.shared_qk", "Attention", "project", ATTENTION, becomes(wrong_attention.SharedQK)),
    Switch("project_qkv.shared_qkv", "Attention", "project", ATTENTION, becomes(wrong_attention.SharedQKV)),
    Switch(
        "multi_head_self_attention.sliced",
        "Attention",
        "project",
        ATTENTION,
        becomes(wrong_attention.Sliced),
        _several_heads,
    ),
    Switch("multi_head_self_attention.unregistered", "Attention", "registered", ATTENTION, wrong_attention.unregister),
    Switch(
        "multi_head_self_attention.view_split",
        "Attention",
        "split",
        ATTENTION,
        becomes(wrong_attention.ViewSplit),
        _several_heads,
    ),
    Switch(
        "multi_head_self_attention.view_merge",
        "Attention",
        "merge",
        ATTENTION,
        becomes(wrong_attention.ViewMerge),
        _several_heads,
    ),
    Switch(
        "multi_head_self_attention.averaged",
        "Attention",
        "merge",
        ATTENTION,
        becomes(wrong_attention.Averaged),
        _several_heads,
    ),
    Switch("multi_head_self_attention.no_output", "Attention", "output", ATTENTION, becomes(wrong_attention.NoOutput)),
    Switch(
        "scaled_dot_product_attention.mask_ignored",
        "Masks",
        "mask",
        ATTENTION,
        on_part("attend", wrong_attention.MaskIgnored),
        _takes_masks,
    ),
    Switch(
        "scaled_dot_product_attention.mask_after",
        "Masks",
        "mask",
        ATTENTION,
        on_part("attend", wrong_attention.MaskAfter),
        _takes_masks,
    ),
    Switch(
        "scaled_dot_product_attention.filled_with_0",
        "Masks",
        "mask",
        ATTENTION,
        on_part("attend", wrong_attention.FilledWith0),
        _takes_masks,
    ),
    Switch(
        "scaled_dot_product_attention.mask_inverted",
        "Masks",
        "mask",
        ATTENTION,
        on_part("attend", wrong_attention.MaskInverted),
        _takes_masks,
    ),
    Switch(
        "scaled_dot_product_attention.mask_on_queries",
        "Masks",
        "mask",
        SELF_ATTENTION,
        on_part("attend", wrong_attention.MaskOnQueries),
        _takes_masks,
    ),
    Switch(
        "model.no_causal_mask",
        "Masks",
        "mask",
        (DecoderBlock,),
        on_part("self_attention.attend", wrong_attention.MaskIgnored),
        _takes_masks,
    ),
    Switch(
        "model.causal_memory",
        "Masks",
        "mask",
        (DecoderBlock,),
        on_part("cross_attention.attend", wrong_attention.CausalMemory),
        _takes_masks,
    ),
    Switch(
        "model.own_memory",
        "Masks",
        "memory",
        (DecoderBlock,),
        on_part("cross_attention", wrong_attention.OwnMemory),
        tokens="own_keys",
    ),
    Switch("model.no_positions", "Positions", "rows", POSITIONS, becomes(wrong_layers.NoPositions)),
    Switch("positional_encoding.by_batch", "Positions", "rows", POSITIONS, becomes(wrong_layers.ByBatch)),
    Switch("sinusoidal_encoding.floored", "Positions", "exponent", (PositionalEncoding,), wrong_layers.floor),
    Switch(
        "vit.class_without_position",
        "Positions",
        "rows",
        (LearnedPositionalEncoding,),
        becomes(wrong_layers.ClassWithoutPosition),
        _has_class,
    ),
    Switch("layer_norm.over_batch", "LayerNorm", "axis", NORM, becomes(wrong_layers.OverBatch)),
    Switch("layer_norm.over_tokens", "LayerNorm", "axis", NORM, becomes(wrong_layers.OverTokens)),
    Switch(
        "layer_norm.over_tokens_and_features", "LayerNorm", "axis", NORM, becomes(wrong_layers.OverTokensAndFeatures)
    ),
    Switch("layer_norm.root_mean_square", "LayerNorm", "centre", NORM, becomes(wrong_layers.RootMeanSquare)),
    Switch("layer_norm.not_centred", "LayerNorm", "centre", NORM, becomes(wrong_layers.NotCentred)),
    Switch("layer_norm.unbiased", "LayerNorm", "variance", NORM, becomes(wrong_layers.Unbiased)),
    Switch("layer_norm.eps_outside", "LayerNorm", "root", NORM, becomes(wrong_layers.EpsOutside)),
    Switch("layer_norm.no_eps", "LayerNorm", "root", NORM, becomes(wrong_layers.NoEps)),
    Switch("layer_norm.no_root", "LayerNorm", "root", NORM, becomes(wrong_layers.NoRoot)),
    Switch(
        "encoder_block.residual_of_norm",
        "Blocks",
        "residual",
        BLOCKS,
        becomes(wrong_layers.ResidualOfNorm),
        lambda block, model: block.pre_norm,
    ),
    Switch("model.no_residual", "Blocks", "residual", BLOCKS, becomes(wrong_layers.NoResidual)),
    Switch("model.no_feed_forward", "Blocks", "feed_forward", (FeedForward,), becomes(wrong_layers.NoFeedForward)),
    Switch(
        "vit.repeated_block",
        "Blocks",
        "blocks",
        STACKS,
        wrong_layers.repeat_block,
        lambda stack, model: len(stack.blocks) > 1,
    ),
    Switch(
        "model.no_final_norm",
        "Blocks",
        "final_norm",
        STACKS,
        on_part("norm", wrong_layers.Skipped),
        lambda stack, model: kind(stack.norm) is LayerNorm,
    ),
    Switch("model.plain_reshape", "Images", "patches", (PatchEmbedding,), becomes(wrong_layers.PlainReshape)),
    Switch(
        "model.no_class_token",
        "Images",
        "class",
        (ViT,),
        becomes(wrong_layers.NoClassToken),
        _has_class,
        tokens="no_class",
    ),
    Switch(
        "vit.class_at_the_end",
        "Images",
        "class",
        (ViT,),
        becomes(wrong_layers.ClassAtTheEnd),
        _has_class,
        tokens="class_last",
    ),
    Switch(
        "model.softmax_twice",
        "Loss",
        "softmax_twice",
        (ViT, CPVT, PVT, Swin, ConvNet, Transformer),
        wrong_layers.softmax_twice,
    ),
)

MISTAKES: dict[str, Switch] = {switch.name: switch for switch in _LIST}
