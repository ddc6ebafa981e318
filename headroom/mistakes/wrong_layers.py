"""Everything around attention, wrong in one step each: positions, norms, blocks, images and the loss."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from headroom.mistakes.switch import become
from headroom.reference import (
    CrossAttention,
    Decoder,
    DecoderBlock,
    DropPath,
    Encoder,
    EncoderBlock,
    FeedForward,
    KeyValueCache,
    LayerNorm,
    PatchEmbedding,
    PositionalEncoding,
    Transformer,
    ViT,
)
from headroom.reference.patches import check_images, count_patches
from headroom.reference.swin import WindowedStage

# --- Positions ---------------------------------------------------------------------------------------------------


class NoPositions(nn.Module):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return x


class ByBatch(nn.Module):
    table: Tensor

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        place = torch.arange(x.size(0), device=x.device) % self.table.size(0)  # a batch may be longer than the table
        return x + self.table[place, None]  # (batch, 1, d_model)


class ClassWithoutPosition(nn.Module):
    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return torch.cat([x[:, :1], super().forward(x)[:, 1:]], dim=1)


def floor(positions: PositionalEncoding) -> None:
    """A table whose exponent is 0 in every column."""
    table = positions.table
    angle = torch.arange(len(table)).to(table)[:, None]
    positions.table = torch.where(torch.arange(table.size(1), device=table.device) % 2 == 0, angle.sin(), angle.cos())


# --- LayerNorm ---------------------------------------------------------------------------------------------------


class NormSteps(LayerNorm):
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


class OverBatch(NormSteps):
    axes = (0,)


class OverTokens(NormSteps):
    axes = (-2,)


class OverTokensAndFeatures(NormSteps):
    axes = (-2, -1)


class Unbiased(NormSteps):
    correction = 1


class NotCentred(NormSteps):
    def normalize(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().normalize(x, torch.zeros_like(mean), variance)


class RootMeanSquare(NormSteps):
    def normalize(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return super().normalize(x, torch.zeros_like(mean), x.square().mean(self.axes, keepdim=True))


class NoRoot(NormSteps):
    def root(self, variance: Tensor) -> Tensor:
        return variance + self.eps


class EpsOutside(NormSteps):
    def root(self, variance: Tensor) -> Tensor:
        return torch.sqrt(variance) + self.eps


class NoEps(NormSteps):
    def root(self, variance: Tensor) -> Tensor:
        return torch.sqrt(variance)


class Skipped(NormSteps):
    def forward(self, x: Tensor) -> Tensor:
        return x


# --- Blocks ------------------------------------------------------------------------------------------------------


class BlockSteps(nn.Module):
    """The blocks' `forward` in steps that a mistake can replace. On its own it computes the same."""

    # Both kinds of blocks have these, …
    norm_1: nn.Module
    norm_2: nn.Module
    feed_forward: FeedForward
    pre_norm: bool
    # … encoder blocks these, …
    attention: nn.Module
    drop_path: DropPath
    # … and decoder blocks these.
    self_attention: nn.Module
    cross_attention: CrossAttention
    norm_3: nn.Module

    def forward(self, x: Tensor, *given: Any) -> Tensor:
        return (self.decode if isinstance(self, DecoderBlock) else self.encode)(x, *given)

    def encode(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        x = self.branch(x, self.norm_1, lambda read: self.attention(read, mask))
        return self.branch(x, self.norm_2, self.feed_forward)

    def decode(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: tuple[KeyValueCache, KeyValueCache] | None = None,
    ) -> Tensor:
        own, crossed = cache if cache is not None else (None, None)
        x = self.branch(x, self.norm_1, lambda read: self.self_attention(read, mask, own))
        x = self.branch(x, self.norm_2, lambda read: self.cross_attention(read, memory, memory_mask, crossed))
        return self.branch(x, self.norm_3, self.feed_forward)

    def branch(self, x: Tensor, norm: nn.Module, compute: Callable[[Tensor], Tensor]) -> Tensor:
        read = norm(x) if self.pre_norm else x
        wrote = compute(read)
        x = self.join(x, read, self.drop_path(wrote) if isinstance(self, EncoderBlock) else wrote)
        return x if self.pre_norm else norm(x)

    def join(self, x: Tensor, read: Tensor, wrote: Tensor) -> Tensor:
        return x + wrote


class ResidualOfNorm(BlockSteps):
    def join(self, x: Tensor, read: Tensor, wrote: Tensor) -> Tensor:
        return read + wrote


class NoResidual(BlockSteps):
    def join(self, x: Tensor, read: Tensor, wrote: Tensor) -> Tensor:
        return wrote


class NoFeedForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def repeat_block(stack: Encoder | Decoder | WindowedStage) -> None:
    stack.blocks = nn.ModuleList([stack.blocks[0]] * len(stack.blocks))


# --- Images, and the loss ----------------------------------------------------------------------------------------


class PlainReshape(PatchEmbedding):
    def forward(self, images: Tensor) -> Tensor:
        check_images(images, self.channels)
        rows, columns = count_patches(images, self.patch_size)
        return self.projection(images.reshape(len(images), rows * columns, -1))


class ViTSteps(ViT):
    """`ViT.forward` with a step that a mistake can replace. On its own it computes the same."""

    def forward(self, images: Tensor) -> Tensor:
        check_images(images, self.embed.channels, self.image_size)
        patches = self.embed(images)
        assert self.class_token is not None  # the switch asks for it
        x = self.with_class(self.class_token.expand(len(images), -1, -1), patches)
        return self.head(self.encoder(self.positions(x))[:, 0])

    def with_class(self, class_token: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([class_token, patches], dim=1)


class NoClassToken(ViTSteps):
    def with_class(self, class_token: Tensor, patches: Tensor) -> Tensor:
        return patches


class ClassAtTheEnd(ViTSteps):
    def with_class(self, class_token: Tensor, patches: Tensor) -> Tensor:
        return torch.cat([patches, class_token], dim=1)


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(dim=-1)


class SoftmaxOfDecoder(Transformer):
    def decode(self, *given: Any, **options: Any) -> Tensor:
        return super().decode(*given, **options).softmax(dim=-1)


def softmax_twice(model: nn.Module) -> None:
    if isinstance(model, Transformer):  # its logits may be scaled after the head
        become(model, SoftmaxOfDecoder)
    else:
        become(model.get_submodule("head"), Softmax)
