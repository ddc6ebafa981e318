"""Mistakes that can be switched on in a whole model.

    wrong = broken(pretrained_vit(), "unscaled", "no_residual")

A mistake is a class of a few lines, and what it overrides is what the wrong code does otherwise. `broken` copies the
model and gives parts of the copy a class in which the mistake's methods come before the right ones. No function is
replaced, so nothing outside of the copy changes: the model that was copied stays right, and so does every other.
"""

import copy
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headroom.mistakes.catalogue import fact
from headroom.reference import (
    CPVT,
    PVT,
    ConvNet,
    Decoder,
    DecoderBlock,
    DecoderCache,
    DropPath,
    Encoder,
    EncoderBlock,
    FeedForward,
    KeyValueCache,
    LayerNorm,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    MultiHeadSelfAttention,
    PatchEmbedding,
    PositionalEncoding,
    Swin,
    Transformer,
    ViT,
    causal_mask,
    rotate,
)
from headroom.reference.patches import check_images, count_patches

HIDDEN = -1e9  # a hidden score: finite, so that a query from which a mistake hides every key gets even weights, no NaN

Make = Callable[[Any], None]  # a mistake in a part of a model


@dataclass(frozen=True)
class Switch:
    """A mistake that can be switched on.

    Attributes:
        fact: what is known of it, by its name in `headroom.mistakes`.
        group: the part of the model that it is about, such as "Attention".
        slot: two mistakes of one slot exclude each other: they are two wrong versions of the same line.
        kinds: classes of the parts of a model in which it can be made; exactly these, not what is derived from them.
        make: makes it in such a part.
        possible: whether it would change anything in this part of this model.
    """

    fact: str
    group: str
    slot: str
    kinds: tuple[type[nn.Module], ...]
    make: Make
    possible: Callable[[Any, nn.Module], bool] = lambda part, model: True

    @property
    def name(self) -> str:
        """By which `broken` knows it."""
        return fact(self.fact).key

    @property
    def title(self) -> str:
        """What it is called."""
        return fact(self.fact).title

    @property
    def sentence(self) -> str:
        """What the wrong code does."""
        return fact(self.fact).sentence

    def applies(self, model: nn.Module) -> bool:
        """Whether `model` has a part in which this mistake can be made."""
        return bool(self.parts(model))

    def parts(self, model: nn.Module) -> list[nn.Module]:
        """The parts of `model`, or the model itself, in which this mistake can be made."""
        return [part for part in model.modules() if _kind(part) in self.kinds and self.possible(part, model)]


def broken(model: nn.Module, *names: str) -> nn.Module:
    """A copy of a reference model with these mistakes switched on: it runs, returns attention and trains as before.

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
            fault = "is not a known mistake" if name not in MISTAKES else f"cannot be made in a {_kind(model).__name__}"
            possible = [switch.name for switch in MISTAKES.values() if switch.applies(model)]
            raise ValueError(f"{name!r} {fault}; those that can be made there: {', '.join(possible) or 'none'}")
    for switch in chosen:
        for other in chosen:
            if switch is not other and switch.slot == other.slot:
                raise ValueError(
                    f"{switch.name!r} and {other.name!r} exclude each other: both change the same line; choose one"
                )
    wrong = copy.deepcopy(model)
    for switch in chosen:
        for part in switch.parts(wrong):
            switch.make(part)
    for part in wrong.modules():
        if _kind(part) is Transformer:
            _become(part, _WithoutCache)
    return wrong


def _become(part: nn.Module, wrong: type) -> None:
    """Give `part` a class of its own, in which the methods of `wrong` come before its own; once is enough."""
    kind = type(part)
    if issubclass(kind, wrong):
        return
    part.__class__ = type(f"{kind.__name__}_{wrong.__name__.strip('_')}", (wrong, kind), {"__module__": __name__})


def _becomes(wrong: type) -> Make:
    return lambda part: _become(part, wrong)


def _kind(part: nn.Module) -> type[nn.Module]:
    """The class that a part had before any mistake."""
    return next(one for one in type(part).__mro__ if one.__module__ != __name__)


class _WithoutCache(Transformer):
    """A Transformer that decodes by computing all tokens anew at every step; the cache keeps their ids alone."""

    def decode(
        self, target: Tensor, memory: Tensor, source_mask: Tensor | None = None, cache: DecoderCache | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        new = target.size(1)
        if cache is not None:
            ids = target[:, None, :, None]  # (batch, 1, tokens, 1): as keys, so that the cache counts and selects them
            target = cache.layers[0][0].append(ids, ids)[0][:, 0, :, 0]
        logits, own, crossed = super().decode(target, memory, source_mask)
        return logits[:, -new:], own[..., -new:, :], crossed[..., -new:, :]


# --- Attention ---------------------------------------------------------------------------------------------------


class _AttentionSteps(MultiHeadAttention):
    """`MultiHeadAttention.forward` in steps that a mistake can replace. On its own it computes the same."""

    axis = -1

    def forward(self, x: Tensor, *given: Any, **options: Any) -> Tensor | tuple[Tensor, Tensor]:
        if isinstance(self, MultiHeadSelfAttention):
            return self.attend(x, x, *given, **options)
        return self.attend(x, *given, **options)

    def attend(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None = None,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        start = len(cache) if cache is not None else 0
        turn = rotate if self.rotary else lambda heads, start: heads
        q = turn(self.split_heads(self.queries(x)), start)
        if memory is not None:
            k, v = turn(self.split_heads(self.keys(memory)), start), self.split_heads(self.values(memory))
            if cache is not None:
                k, v = cache.append(k, v)
        elif cache is not None:
            k, v = cache.kept()
        else:
            raise ValueError("there is neither a memory nor a cache to attend to")
        weights = self.weigh(self.compare(q, k), mask)  # (batch, heads, n_queries, n_keys)
        heads = F.dropout(weights, self.dropout, self.training) @ v
        output = self.mix(self.merge_heads(heads))
        return (output, weights) if return_weights else output

    def queries(self, x: Tensor) -> Tensor:
        return self.project(x, self.w_q)

    def keys(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_k)

    def values(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_v)

    def project(self, x: Tensor, linear: nn.Linear) -> Tensor:
        return linear(x)

    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / self.divisor(q.size(-1))

    def divisor(self, d_head: int) -> float:
        return math.sqrt(d_head)

    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is not None:
            scores = scores.masked_fill(~mask, HIDDEN)
        return scores.softmax(self.axis)

    def mix(self, merged: Tensor) -> Tensor:
        return self.w_o(merged)


class _Unscaled(_AttentionSteps):
    def divisor(self, d_head: int) -> float:
        return 1.0


class _ByDHead(_AttentionSteps):
    def divisor(self, d_head: int) -> float:
        return d_head


class _ByDModel(_AttentionSteps):
    def divisor(self, d_head: int) -> float:
        return math.sqrt(self.n_heads * d_head)


class _ScaledAfter(_Unscaled):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, mask) / math.sqrt(self.w_q.out_features // self.n_heads)


class _Transposed(_AttentionSteps):
    def compare(self, q: Tensor, k: Tensor) -> Tensor:
        return super().compare(k, q)


class _Columns(_AttentionSteps):
    axis = -2


class _OverHeads(_AttentionSteps):
    axis = -3


class _QForV(_AttentionSteps):
    def values(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_q)


class _KForV(_AttentionSteps):
    def values(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_k)


class _SharedQK(_AttentionSteps):
    def keys(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_q)


class _SharedQKV(_SharedQK):
    def values(self, memory: Tensor) -> Tensor:
        return self.project(memory, self.w_q)


class _Sliced(_AttentionSteps):
    def project(self, x: Tensor, linear: nn.Linear) -> Tensor:
        own = linear.weight.unflatten(0, (self.n_heads, -1)).unflatten(-1, (self.n_heads, -1))
        blocks = torch.stack([own[h, :, h] for h in range(self.n_heads)])  # (heads, d_head, d_head): the rest is unused
        slices = x.unflatten(-1, (self.n_heads, -1))  # (batch, tokens, heads, d_head)
        return torch.einsum("bthi,hoi->btho", slices, blocks).flatten(-2) + linear.bias


class _ViewSplit(_AttentionSteps):
    def split_heads(self, x: Tensor) -> Tensor:
        batch, tokens, d_model = x.shape
        return x.reshape(batch, self.n_heads, tokens, d_model // self.n_heads)


class _ViewMerge(_AttentionSteps):
    def merge_heads(self, x: Tensor) -> Tensor:
        batch, heads, tokens, d_head = x.shape
        return x.reshape(batch, tokens, heads * d_head)


class _Averaged(_AttentionSteps):
    def merge_heads(self, x: Tensor) -> Tensor:
        return x.mean(dim=1).repeat(1, 1, self.n_heads)  # the mean for every head, so that W_O keeps its shape


class _NoOutput(_AttentionSteps):
    def mix(self, merged: Tensor) -> Tensor:
        return merged


def _unregister(attention: MultiHeadAttention) -> None:
    """Keep the three maps in a plain list, of which the module knows nothing."""
    object.__setattr__(attention, "maps", [attention.w_q, attention.w_k, attention.w_v])
    del attention.w_q, attention.w_k, attention.w_v
    _become(attention, _Unregistered)


class _Unregistered(_AttentionSteps):
    maps: list[nn.Linear]
    w_q = property(lambda self: self.maps[0])
    w_k = property(lambda self: self.maps[1])
    w_v = property(lambda self: self.maps[2])


# --- Masks -------------------------------------------------------------------------------------------------------


class _MaskIgnored(_AttentionSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, None)


class _MaskAfter(_AttentionSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = super().weigh(scores, None)
        return weights if mask is None else weights * mask


class _FilledWith0(_AttentionSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores if mask is None else scores.masked_fill(~mask, 0.0), None)


class _MaskInverted(_AttentionSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, None if mask is None else ~mask)


class _MaskOnQueries(_AttentionSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return super().weigh(scores, None if mask is None else mask.transpose(-2, -1))


class _CausalMemory(_AttentionSteps):
    def weigh(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        earlier = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()  # (tokens, source_tokens)
        return super().weigh(scores, earlier if mask is None else mask & earlier)


class _OwnMemory(_AttentionSteps):
    def attend(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None = None,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        start = len(cache) if cache is not None else 0
        mask = causal_mask(start + x.size(1), x.device)[start:]  # the padding mask is the source's, and does not fit
        return super().attend(x, x, mask, return_weights, cache)


def _on_part(name: str, wrong: type) -> Make:
    """Make the mistake in the part of this name of a block."""
    return lambda block: _become(getattr(block, name), wrong)


# --- Positions ---------------------------------------------------------------------------------------------------


class _NoPositions(nn.Module):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x


class _ByBatch(nn.Module):
    table: Tensor

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        place = torch.arange(x.size(0), device=x.device) % self.table.size(0)  # a batch may be longer than the table
        return x + self.table[place, None]  # (batch, 1, d_model)


class _ClassWithoutPosition(nn.Module):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return torch.cat([x[:, :1], super().forward(x)[:, 1:]], dim=1)


def _floor(positions: PositionalEncoding) -> None:
    """A table whose exponent is 0 in every column."""
    table = positions.table
    angle = torch.arange(len(table)).to(table)[:, None]
    positions.table = torch.where(torch.arange(table.size(1), device=table.device) % 2 == 0, angle.sin(), angle.cos())


# --- LayerNorm ---------------------------------------------------------------------------------------------------


class _NormSteps(LayerNorm):
    """`LayerNorm.forward` in steps that a mistake can replace. On its own it computes the same."""

    axes: tuple[int, ...] = (-1,)
    correction = 0

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(self.axes, keepdim=True)
        variance = x.var(self.axes, keepdim=True, correction=self.correction)
        return self.gamma * self.normalize(x, mean, variance) + self.beta

    def normalize(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return (x - mean) / self.root(variance)

    def root(self, variance: Tensor) -> Tensor:
        return torch.sqrt(variance + self.eps)


class _OverBatch(_NormSteps):
    axes = (0,)


class _OverTokens(_NormSteps):
    axes = (-2,)


class _OverTokensAndFeatures(_NormSteps):
    axes = (-2, -1)


class _Unbiased(_NormSteps):
    correction = 1


class _NotCentred(_NormSteps):
    def normalize(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().normalize(x, torch.zeros_like(mean), variance)


class _RootMeanSquare(_NormSteps):
    def normalize(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().normalize(x, torch.zeros_like(mean), x.square().mean(self.axes, keepdim=True))


class _NoRoot(_NormSteps):
    def root(self, variance: Tensor) -> Tensor:
        return variance + self.eps


class _EpsOutside(_NormSteps):
    def root(self, variance: Tensor) -> Tensor:
        return torch.sqrt(variance) + self.eps


class _NoEps(_NormSteps):
    def root(self, variance: Tensor) -> Tensor:
        return torch.sqrt(variance)


class _Skipped(_NormSteps):
    def forward(self, x: Tensor) -> Tensor:
        return x


# --- Blocks ------------------------------------------------------------------------------------------------------


class _BlockSteps(nn.Module):
    """The blocks' `forward` in steps that a mistake can replace. On its own it computes the same."""

    # Both kinds of blocks have these, …
    norm_1: nn.Module
    norm_2: nn.Module
    feed_forward: FeedForward
    pre_norm: bool
    # … encoder blocks these, …
    attention: MultiHeadSelfAttention
    drop_path: DropPath
    # … and decoder blocks these.
    self_attention: MultiHeadSelfAttention
    cross_attention: MultiHeadAttention
    norm_3: nn.Module

    def forward(self, x: Tensor, *given: Any) -> tuple[Tensor, ...]:
        return (self.decode if isinstance(self, DecoderBlock) else self.encode)(x, *given)

    def encode(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x, weights = self.branch(x, self.norm_1, lambda read: self.attention(read, mask, True))
        x, _ = self.branch(x, self.norm_2, lambda read: (self.feed_forward(read), None))
        return x, weights

    def decode(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: tuple[KeyValueCache, KeyValueCache] | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        own, crossed = cache if cache is not None else (None, None)
        new_memory = None if crossed is not None and len(crossed) else memory
        x, weights = self.branch(x, self.norm_1, lambda read: self.self_attention(read, mask, True, own))
        cross = self.cross_attention
        x, looked = self.branch(x, self.norm_2, lambda read: cross(read, new_memory, memory_mask, True, crossed))
        x, _ = self.branch(x, self.norm_3, lambda read: (self.feed_forward(read), None))
        return x, weights, looked

    def branch(self, x: Tensor, norm: nn.Module, compute: Callable[[Tensor], Any]) -> tuple[Tensor, Any]:
        read = norm(x) if self.pre_norm else x
        wrote, weights = compute(read)
        x = self.join(x, read, self.drop_path(wrote) if isinstance(self, EncoderBlock) else wrote)
        return (x if self.pre_norm else norm(x)), weights

    def join(self, x: Tensor, read: Tensor, wrote: Tensor) -> Tensor:
        return x + wrote


class _ResidualOfNorm(_BlockSteps):
    def join(self, x: Tensor, read: Tensor, wrote: Tensor) -> Tensor:
        return read + wrote


class _NoResidual(_BlockSteps):
    def join(self, x: Tensor, read: Tensor, wrote: Tensor) -> Tensor:
        return wrote


class _NoFeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def _repeat_block(stack: Encoder | Decoder) -> None:
    stack.blocks = nn.ModuleList([stack.blocks[0]] * len(stack.blocks))


# --- Images, and the loss ----------------------------------------------------------------------------------------


class _PlainReshape(PatchEmbedding):
    def forward(self, images: Tensor) -> Tensor:
        check_images(images, self.channels)
        rows, columns = count_patches(images, self.patch_size)
        return self.projection(images.reshape(len(images), rows * columns, -1))


class _ViTSteps(ViT):
    """`ViT.forward` with a step that a mistake can replace. On its own it computes the same."""

    def forward(self, images: Tensor, return_attention: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        check_images(images, self.embed.channels, self.image_size)
        patches = self.embed(images)
        assert self.class_token is not None  # see `_has_class`
        x = self.with_class(self.class_token.expand(len(images), -1, -1), patches)
        x, attention = self.encoder(self.positions(x))
        logits = self.head(x[:, 0])
        return (logits, attention) if return_attention else logits

    def with_class(self, class_token: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([class_token, patches], dim=1)


class _NoClassToken(_ViTSteps):
    def with_class(self, class_token: Tensor, patches: Tensor) -> Tensor:
        return patches


class _ClassAtTheEnd(_ViTSteps):
    def with_class(self, class_token: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([patches, class_token], dim=1)


class _Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(dim=-1)


class _SoftmaxOfDecoder(Transformer):
    def decode(self, *given: Any, **options: Any) -> tuple[Tensor, Tensor, Tensor]:
        logits, own, crossed = super().decode(*given, **options)
        return logits.softmax(dim=-1), own, crossed


def _softmax_twice(model: nn.Module) -> None:
    if isinstance(model, Transformer):  # its logits may be scaled after the head
        _become(model, _SoftmaxOfDecoder)
    else:
        _become(model.get_submodule("head"), _Softmax)


# --- The list ----------------------------------------------------------------------------------------------------

ATTENTION = (MultiHeadAttention, MultiHeadSelfAttention)
SELF_ATTENTION = (MultiHeadSelfAttention,)
POSITIONS = (PositionalEncoding, LearnedPositionalEncoding)
NORM = (LayerNorm,)
BLOCKS = (EncoderBlock, DecoderBlock)
STACKS = (Encoder, Decoder)


def _several_heads(attention: MultiHeadAttention, model: nn.Module) -> bool:
    return attention.n_heads > 1


def _takes_masks(attention: nn.Module, model: nn.Module) -> bool:
    return any("mask" in name for name in inspect.signature(model.forward).parameters)


def _has_class(part: nn.Module, model: nn.Module) -> bool:
    return isinstance(model, ViT) and model.class_token is not None


_LIST = (
    Switch(
        "multi_head_self_attention.unscaled",
        "Attention",
        "scale",
        ATTENTION,
        _becomes(_Unscaled),
    ),
    Switch(
        "multi_head_self_attention.by_d_head",
        "Attention",
        "scale",
        ATTENTION,
        _becomes(_ByDHead),
    ),
    Switch(
        "multi_head_self_attention.by_d_model",
        "Attention",
        "scale",
        ATTENTION,
        _becomes(_ByDModel),
        _several_heads,
    ),
    Switch(
        "multi_head_self_attention.scaled_after",
        "Attention",
        "scale",
        ATTENTION,
        _becomes(_ScaledAfter),
    ),
    Switch(
        "attention_scores.transposed",
        "Attention",
        "scores",
        SELF_ATTENTION,
        _becomes(_Transposed),
    ),
    Switch(
        "scaled_dot_product_attention.columns",
        "Attention",
        "softmax",
        ATTENTION,
        _becomes(_Columns),
    ),
    Switch(
        "multi_head_self_attention.over_heads",
        "Attention",
        "softmax",
        ATTENTION,
        _becomes(_OverHeads),
    ),
    Switch(
        "scaled_dot_product_attention.q_for_v",
        "Attention",
        "project",
        SELF_ATTENTION,
        _becomes(_QForV),
    ),
    Switch(
        "scaled_dot_product_attention.k_for_v",
        "Attention",
        "project",
        ATTENTION,
        _becomes(_KForV),
    ),
    Switch(
        "project_qkv.shared_qk",
        "Attention",
        "project",
        ATTENTION,
        _becomes(_SharedQK),
    ),
    Switch(
        "project_qkv.shared_qkv",
        "Attention",
        "project",
        ATTENTION,
        _becomes(_SharedQKV),
    ),
    Switch(
        "multi_head_self_attention.sliced",
        "Attention",
        "project",
        ATTENTION,
        _becomes(_Sliced),
        _several_heads,
    ),
    Switch(
        "multi_head_self_attention.unregistered",
        "Attention",
        "registered",
        ATTENTION,
        _unregister,
    ),
    Switch(
        "multi_head_self_attention.view_split",
        "Attention",
        "split",
        ATTENTION,
        _becomes(_ViewSplit),
        _several_heads,
    ),
    Switch(
        "multi_head_self_attention.view_merge",
        "Attention",
        "merge",
        ATTENTION,
        _becomes(_ViewMerge),
        _several_heads,
    ),
    Switch(
        "multi_head_self_attention.averaged",
        "Attention",
        "merge",
        ATTENTION,
        _becomes(_Averaged),
        _several_heads,
    ),
    Switch(
        "multi_head_self_attention.no_output",
        "Attention",
        "output",
        ATTENTION,
        _becomes(_NoOutput),
    ),
    Switch(
        "scaled_dot_product_attention.mask_ignored",
        "Masks",
        "mask",
        ATTENTION,
        _becomes(_MaskIgnored),
        _takes_masks,
    ),
    Switch(
        "scaled_dot_product_attention.mask_after",
        "Masks",
        "mask",
        ATTENTION,
        _becomes(_MaskAfter),
        _takes_masks,
    ),
    Switch(
        "scaled_dot_product_attention.filled_with_0",
        "Masks",
        "mask",
        ATTENTION,
        _becomes(_FilledWith0),
        _takes_masks,
    ),
    Switch(
        "scaled_dot_product_attention.mask_inverted",
        "Masks",
        "mask",
        ATTENTION,
        _becomes(_MaskInverted),
        _takes_masks,
    ),
    Switch(
        "scaled_dot_product_attention.mask_on_queries",
        "Masks",
        "mask",
        SELF_ATTENTION,
        _becomes(_MaskOnQueries),
        _takes_masks,
    ),
    Switch(
        "model.no_causal_mask",
        "Masks",
        "mask",
        (DecoderBlock,),
        _on_part("self_attention", _MaskIgnored),
        _takes_masks,
    ),
    Switch(
        "model.causal_memory",
        "Masks",
        "mask",
        (DecoderBlock,),
        _on_part("cross_attention", _CausalMemory),
        _takes_masks,
    ),
    Switch(
        "model.own_memory",
        "Masks",
        "memory",
        (DecoderBlock,),
        _on_part("cross_attention", _OwnMemory),
    ),
    Switch(
        "model.no_positions",
        "Positions",
        "rows",
        POSITIONS,
        _becomes(_NoPositions),
    ),
    Switch(
        "positional_encoding.by_batch",
        "Positions",
        "rows",
        POSITIONS,
        _becomes(_ByBatch),
    ),
    Switch(
        "sinusoidal_encoding.floored",
        "Positions",
        "exponent",
        (PositionalEncoding,),
        _floor,
    ),
    Switch(
        "vit.class_without_position",
        "Positions",
        "rows",
        (LearnedPositionalEncoding,),
        _becomes(_ClassWithoutPosition),
        _has_class,
    ),
    Switch(
        "layer_norm.over_batch",
        "LayerNorm",
        "axis",
        NORM,
        _becomes(_OverBatch),
    ),
    Switch(
        "layer_norm.over_tokens",
        "LayerNorm",
        "axis",
        NORM,
        _becomes(_OverTokens),
    ),
    Switch(
        "layer_norm.over_tokens_and_features",
        "LayerNorm",
        "axis",
        NORM,
        _becomes(_OverTokensAndFeatures),
    ),
    Switch(
        "layer_norm.root_mean_square",
        "LayerNorm",
        "centre",
        NORM,
        _becomes(_RootMeanSquare),
    ),
    Switch(
        "layer_norm.not_centred",
        "LayerNorm",
        "centre",
        NORM,
        _becomes(_NotCentred),
    ),
    Switch(
        "layer_norm.unbiased",
        "LayerNorm",
        "variance",
        NORM,
        _becomes(_Unbiased),
    ),
    Switch(
        "layer_norm.eps_outside",
        "LayerNorm",
        "root",
        NORM,
        _becomes(_EpsOutside),
    ),
    Switch(
        "layer_norm.no_eps",
        "LayerNorm",
        "root",
        NORM,
        _becomes(_NoEps),
    ),
    Switch(
        "layer_norm.no_root",
        "LayerNorm",
        "root",
        NORM,
        _becomes(_NoRoot),
    ),
    Switch(
        "encoder_block.residual_of_norm",
        "Blocks",
        "residual",
        BLOCKS,
        _becomes(_ResidualOfNorm),
        lambda block, model: block.pre_norm,
    ),
    Switch(
        "model.no_residual",
        "Blocks",
        "residual",
        BLOCKS,
        _becomes(_NoResidual),
    ),
    Switch(
        "model.no_feed_forward",
        "Blocks",
        "feed_forward",
        (FeedForward,),
        _becomes(_NoFeedForward),
    ),
    Switch(
        "vit.repeated_block",
        "Blocks",
        "blocks",
        STACKS,
        _repeat_block,
        lambda stack, model: len(stack.blocks) > 1,
    ),
    Switch(
        "model.no_final_norm",
        "Blocks",
        "final_norm",
        STACKS,
        _on_part("norm", _Skipped),
        lambda stack, model: _kind(stack.norm) is LayerNorm,
    ),
    Switch(
        "model.plain_reshape",
        "Images",
        "patches",
        (PatchEmbedding,),
        _becomes(_PlainReshape),
    ),
    Switch(
        "model.no_class_token",
        "Images",
        "class",
        (ViT,),
        _becomes(_NoClassToken),
        _has_class,
    ),
    Switch(
        "vit.class_at_the_end",
        "Images",
        "class",
        (ViT,),
        _becomes(_ClassAtTheEnd),
        _has_class,
    ),
    Switch(
        "model.softmax_twice",
        "Loss",
        "softmax_twice",
        (ViT, CPVT, PVT, Swin, ConvNet, Transformer),
        _softmax_twice,
    ),
)

MISTAKES: dict[str, Switch] = {switch.name: switch for switch in _LIST}
