"""Wrong answers to lab 7, written as students write them; `answers` names their mistakes, or none that is on a list.

None of this is made from the exercises' own `variation`.
"""

import functools

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from headroom.reference import ViT
from tests.answers import answers
from tests.answers.right_vit import (
    Convolution,
    EncoderBlock,
    LayerNorm,
    LinearOfPatches,
    Plain,
    reshape_permute,
    shipped,
)

# --- patchify: one known mistake each ---


def cut_as(pattern):
    """patchify by einops, in whatever order the pattern says."""

    def cut(images, patch_size):
        return rearrange(images, pattern, p1=patch_size, p2=patch_size)

    return cut


@answers("patchify", "plain_reshape")
def reshaped(images, patch_size):
    b, c, h, w = images.shape
    return images.reshape(b, (h // patch_size) * (w // patch_size), c * patch_size**2)


@answers("patchify", "plain_reshape")
def six_axes_and_no_permute(images, patch_size):
    b, c, h, w = images.shape
    x = images.view(b, c, h // patch_size, patch_size, w // patch_size, patch_size)
    return x.reshape(b, -1, c * patch_size * patch_size)


@answers("patchify", "strided")
def size_before_number(images, patch_size):
    b, c, h, w = images.shape
    x = images.view(b, c, patch_size, h // patch_size, patch_size, w // patch_size)
    return x.permute(0, 3, 5, 1, 2, 4).reshape(b, -1, c * patch_size**2)


@answers("patchify", "column_major")
def columns_outside(images, patch_size):
    patches = []
    for x in range(0, images.shape[3], patch_size):
        for y in range(0, images.shape[2], patch_size):
            patches.append(images[:, :, y : y + patch_size, x : x + patch_size].flatten(1))
    return torch.stack(patches, dim=1)


@answers("patchify", "transposed")
def permute_with_5_before_3(images, patch_size):
    b, c, h, w = images.shape
    x = images.reshape(b, c, h // patch_size, patch_size, w // patch_size, patch_size)
    return x.permute(0, 2, 4, 1, 5, 3).flatten(3).flatten(1, 2)


@answers("patchify", "channels_last")
def as_vit_pytorch(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (h w) (p1 p2 c)")(images, patch_size)


@answers("patchify", "channels_between")
def channels_in_the_middle(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (h w) (p1 c p2)")(images, patch_size)


@answers("patchify", "channels_mixed")
def unfolded_and_reshaped(images, patch_size):
    b, c = images.shape[:2]
    x = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return x.reshape(b, -1, c * patch_size**2)


@answers("patchify", "channels_apart")
def a_token_per_channel(images, patch_size):
    x = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return x.reshape(images.shape[0], -1, patch_size**2)


@answers("patchify", "one_channel")
def grey_only(images, patch_size):
    b, _, h, w = images.shape
    x = images[:, 0].reshape(b, h // patch_size, patch_size, w // patch_size, patch_size)
    return x.transpose(2, 3).reshape(b, -1, patch_size**2)


@answers("patchify", "square_assumed")
def height_twice(images, patch_size):
    b, c, h, _ = images.shape
    n = h // patch_size
    x = images.reshape(b, c, n, patch_size, n, patch_size).permute(0, 2, 4, 1, 3, 5)
    return x.reshape(b, n * n, c * patch_size**2)


@answers("patchify", "detached")
def from_data(images, patch_size):
    return reshape_permute(images.data, patch_size)


@answers("patchify", "not_flattened")
def squares(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (h w) c p1 p2")(images, patch_size)


@answers("patchify", "grid_kept")
def a_grid_of_patches(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b h w (c p1 p2)")(images, patch_size)


@answers("patchify", "patches_last")
def unfold_as_it_comes(images, patch_size):
    return F.unfold(images, patch_size, stride=patch_size)


@answers("patchify", "patches_first")
def stacked_in_front(images, patch_size):
    rows = images.split(patch_size, dim=2)
    return torch.stack([patch.flatten(1) for row in rows for patch in row.split(patch_size, dim=3)])


# --- two at once ---


@answers("patchify", "column_major", "transposed")
def width_before_height(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (w h) (c p2 p1)")(images, patch_size)


@answers("patchify", "patches_last", "channels_last")
def keras_and_unfold(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (p1 p2 c) (h w)")(images, patch_size)


@answers("patchify", "column_major", "channels_last")
def loop_over_columns_of_pictures(images, patch_size):
    return cut_as("b c (h p1) (w p2) -> b (w h) (p1 p2 c)")(images, patch_size)


# --- patchify: mistakes on no list ---


@answers("patchify")
def unchanged(images, patch_size):
    return images


@answers("patchify")
def zeros(images, patch_size):
    return torch.zeros_like(reshape_permute(images, patch_size))


@answers("patchify")
def mirrored(images, patch_size):
    return reshape_permute(images.flip(-1), patch_size)


@answers("patchify")
def from_the_end(images, patch_size):
    return reshape_permute(images, patch_size).flip(1)


@answers("patchify")
def first_patch_for_all(images, patch_size):
    patches = reshape_permute(images, patch_size)
    return patches[:, :1].expand_as(patches)


@answers("patchify")
def batch_scrambled(images, patch_size):
    """The batch is merged with the rows of patches and cut again in another order."""
    x = cut_as("b c (h p1) (w p2) -> (h w b) (c p1 p2)")(images, patch_size)
    return x.reshape(images.shape[0], -1, x.shape[-1])


@answers("patchify")
def centred(images, patch_size):
    patches = reshape_permute(images, patch_size)
    return patches - patches.mean(-1, keepdim=True)


@answers("patchify")
def half_a_step(images, patch_size):
    windows = F.unfold(images, patch_size, stride=max(1, patch_size // 2)).transpose(1, 2)
    count = reshape_permute(images, patch_size).shape[1]
    return windows[:, :count]


@answers("patchify")
def averaged(images, patch_size):
    """The mean of each patch, repeated to the right width."""
    patches = reshape_permute(images, patch_size)
    return patches.mean(-1, keepdim=True).expand_as(patches)


@answers("patchify")
def rounded(images, patch_size):
    return reshape_permute(images, patch_size).round()


# --- PatchEmbedding: one known mistake each ---


class Cut(nn.Module):
    """A right embedding in steps, so that each class below changes one of them."""

    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.patch_size = patch_size
        self.projection = nn.Linear(channels * patch_size**2, d_model)

    def cut(self, images):
        return reshape_permute(images, self.patch_size)

    def forward(self, images):
        return self.projection(self.cut(images))


@answers("PatchEmbedding", "unregistered")
class MapInAList(Cut):
    def __init__(self, patch_size, channels, d_model):
        nn.Module.__init__(self)
        self.patch_size = patch_size
        self.maps = [nn.Linear(channels * patch_size**2, d_model)]

    def forward(self, images):
        return self.maps[0](self.cut(images))


@answers("PatchEmbedding", "made_anew")
class MadeInForward(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.sizes = (channels * patch_size**2, d_model)
        self.patch_size = patch_size

    def forward(self, images):
        return nn.Linear(*self.sizes)(reshape_permute(images, self.patch_size))


@answers("PatchEmbedding", "plain_reshape")
class Strips(Cut):
    def cut(self, images):
        return reshaped(images, self.patch_size)


@answers("PatchEmbedding", "strided")
class SizeBeforeNumber(Cut):
    def cut(self, images):
        return size_before_number(images, self.patch_size)


@answers("PatchEmbedding", "column_major")
class ConvolutionTurned(Convolution):
    def forward(self, x):
        return self.proj(x).transpose(2, 3).flatten(2).transpose(1, 2)


@answers("PatchEmbedding", "transposed")
class EachPatchTurned(Cut):
    def cut(self, images):
        return permute_with_5_before_3(images, self.patch_size)


@answers("PatchEmbedding", "channels_last")
class ChannelsLast(Cut):
    def cut(self, images):
        return as_vit_pytorch(images, self.patch_size)


@answers("PatchEmbedding", "channels_between")
class ChannelsBetween(Cut):
    def cut(self, images):
        return channels_in_the_middle(images, self.patch_size)


@answers("PatchEmbedding", "channels_mixed")
class ChannelsInFront(Cut):
    def cut(self, images):
        return unfolded_and_reshaped(images, self.patch_size)


@answers("PatchEmbedding", "channels_apart")
class TokensOfOneChannel(Cut):
    def __init__(self, patch_size, channels, d_model):
        super().__init__(patch_size, 1, d_model)

    def cut(self, images):
        return a_token_per_channel(images, self.patch_size)


@answers("PatchEmbedding", "one_channel")
class ReadsOneChannel(Cut):
    def __init__(self, patch_size, channels, d_model):
        super().__init__(patch_size, 1, d_model)

    def cut(self, images):
        return grey_only(images, self.patch_size)


@answers("PatchEmbedding", "square_assumed")
class SquaresOnly(Cut):
    def cut(self, images):
        return height_twice(images, self.patch_size)


@answers("PatchEmbedding", "detached")
class CutUnderNoGrad(Cut):
    def cut(self, images):
        with torch.no_grad():
            return super().cut(images)


@answers("PatchEmbedding", "no_bias")
class WeightAlone(Cut):
    def forward(self, images):
        return self.cut(images) @ self.projection.weight.T


@answers("PatchEmbedding", "no_bias")
class MapWithoutBias(nn.Module):
    """The paper leaves the bias out; the task's formula has one."""

    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.cut = nn.Unfold(patch_size, stride=patch_size)
        self.embed = nn.Linear(channels * patch_size**2, d_model, bias=False)

    def forward(self, images):
        return self.embed(self.cut(images).permute(0, 2, 1))


@answers("PatchEmbedding", "unregistered")
class BiasIsNoParameter(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p = patch_size
        self.E = nn.Parameter(torch.randn(channels * patch_size**2, d_model))
        self.b = torch.zeros(d_model)

    def forward(self, images):
        return reshape_permute(images, self.p) @ self.E + self.b


@answers("PatchEmbedding")
class BiasIsABuffer(Cut):
    def __init__(self, patch_size, channels, d_model):
        super().__init__(patch_size, channels, d_model)
        del self.projection.bias
        self.projection.register_buffer("bias", torch.zeros(d_model))


@answers("PatchEmbedding", "grid_kept")
class GridOfTokens(Convolution):
    def forward(self, x):
        return self.proj(x)


@answers("PatchEmbedding", "patches_last")
class FlattenedOnly(Convolution):
    def forward(self, x):
        return self.proj(x).flatten(2)


@answers("PatchEmbedding", "grid_reshaped")
class GridReshaped(Convolution):
    def forward(self, x):
        x = self.proj(x)
        return x.reshape(x.shape[0], -1, x.shape[1])


@answers("PatchEmbedding", "overlapping")
class StrideForgotten(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.proj = nn.Conv2d(channels, d_model, patch_size)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


@answers("PatchEmbedding", "overlapping", "patches_last")
class ConvolutionAsItComes(StrideForgotten):
    def forward(self, x):
        return self.proj(x).flatten(2)


@answers("PatchEmbedding", "plain_reshape", "no_bias")
class StripsTimesWeight(Strips):
    def forward(self, images):
        return self.cut(images) @ self.projection.weight.mT


# --- PatchEmbedding: mistakes on no list ---


@answers("PatchEmbedding")
class WithRelu(Cut):
    def forward(self, images):
        return super().forward(images).relu()


@answers("PatchEmbedding")
class WithNorm(Cut):
    def forward(self, images):
        return F.layer_norm(super().forward(images), (self.projection.out_features,))


@answers("PatchEmbedding")
class ScaledByWidth(Cut):
    def forward(self, images):
        return super().forward(images) * self.projection.out_features**0.5


@answers("PatchEmbedding")
class Mirrored(Cut):
    def cut(self, images):
        return super().cut(images.flip(-2))


@answers("PatchEmbedding")
class AddsItsNumber(Cut):
    """A position of its own making: the number of the patch."""

    def forward(self, images):
        x = super().forward(images)
        return x + torch.arange(x.size(1), dtype=x.dtype)[:, None]


@answers("PatchEmbedding")
class BiasTwice(Cut):
    def forward(self, images):
        return super().forward(images) + self.projection.bias


@answers("PatchEmbedding")
class MeanOverPatches(Cut):
    def forward(self, images):
        x = super().forward(images)
        return x.mean(1, keepdim=True).expand_as(x)


@answers("PatchEmbedding")
class PaddedConvolution(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.proj = nn.Conv2d(channels, d_model, patch_size, patch_size, padding=1)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


@answers("PatchEmbedding")
class SinglePatchSqueezed(Cut):
    """Right, but where an image has a single patch, it is no sequence any more."""

    def forward(self, images):
        x = super().forward(images)
        return x.squeeze(1)


@answers("PatchEmbedding")
class SqueezedWhereAlone(Cut):
    def forward(self, images):
        x = super().forward(images)
        return x.squeeze(0) if x.size(1) == 1 else x


@answers("PatchEmbedding")
class BytesExpected(Cut):
    def forward(self, images):
        return super().forward(images / 255)


# --- ViT: one known mistake each ---


class Steps(Plain):
    """A right ViT in steps, so that each class below changes one of them."""

    def prepend(self, x):
        return torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)

    def tokens(self, images):
        return self.prepend(self.embed(images)) + self.positions

    def encode(self, x):
        for block in self.blocks:
            x = block(x)
        return x

    def read(self, x):
        return x[:, 0]

    def forward(self, images):
        return self.head(self.read(self.norm(self.encode(self.tokens(images)))))


@answers("ViT", "unregistered")
class BlocksInAList(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


@answers("ViT", "unregistered")
class ClassIsAPlainTensor(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        width = self.class_token.size(-1)
        del self.class_token
        self.class_token = torch.randn(1, 1, width)


@answers("ViT", "no_embedding_bias")
class HeadWithoutBias(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.head = nn.Linear(self.head.in_features, self.head.out_features, bias=False)


@answers("ViT", "no_embedding_bias")
class PatchesWithoutBias(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.embed.projection.bias = None


@answers("ViT", "frozen")
class FixedPositions(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.positions = nn.Parameter(torch.randn_like(self.positions), requires_grad=False)


@answers("ViT", "not_expanded")
class OneClassForTheBatch(Steps):
    def prepend(self, x):
        return torch.cat([self.class_token, x], dim=1)


@answers("ViT", "hard_coded")
class SeventeenPositions(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff)
        self.positions = nn.Parameter(0.02 * torch.randn(17, d_model))


@answers("ViT", "hard_coded")
class TenClasses(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, 10, d_model, n_layers, n_heads, d_ff)


@answers("ViT", "no_class_token")
class PatchesOnly(nn.Module):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.embed = LinearOfPatches(patch_size, channels, d_model)
        self.positions = nn.Parameter(0.02 * torch.randn((image_size // patch_size) ** 2, d_model))
        self.blocks = nn.Sequential(*[EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers)])
        self.norm = LayerNorm(d_model)
        self.head = nn.Linear(d_model, n_classes)

    def read(self, x):
        return x[:, 0]

    def forward(self, images):
        return self.head(self.read(self.norm(self.blocks(self.embed(images) + self.positions))))


@answers("ViT", "class_at_the_end")
class Appended(Steps):
    def prepend(self, x):
        return torch.cat([x, self.class_token.expand(len(x), -1, -1)], dim=1)


@answers("ViT", "class_last")
class AppendedAndReadThere(Appended):
    def read(self, x):
        return x[:, -1]


@answers("ViT")
class ClassInABuffer(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        width = self.class_token.size(-1)
        del self.class_token
        self.register_buffer("class_token", torch.zeros(1, 1, width))


@answers("ViT", "class_constant")
class ZerosInFront(Steps):
    def prepend(self, x):
        return F.pad(x, (0, 0, 1, 0))


@answers("ViT", "no_positions")
class PositionsForgotten(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images))


@answers("ViT", "no_positions")
class SumThrownAway(Steps):
    def tokens(self, images):
        x = self.prepend(self.embed(images))
        x + self.positions
        return x


@answers("ViT", "class_without_position")
class AddedBeforePrepended(Steps):
    def __init__(self, image_size, patch_size, *sizes):
        super().__init__(image_size, patch_size, *sizes)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (image_size // patch_size) ** 2, sizes[2]))

    def tokens(self, images):
        return self.prepend(self.embed(images) + self.positions)


@answers("ViT", "class_without_position")
class FirstRowUnused(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images) + self.positions[1:])


@answers("ViT", "by_batch")
class PositionOfTheImage(Steps):
    def tokens(self, images):
        x = self.prepend(self.embed(images))
        return x + self.positions[torch.arange(x.size(0))].unsqueeze(1)


@answers("ViT", "one_position")
class OnePositionForAll(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.positions = nn.Parameter(torch.randn(1, 1, self.positions.size(-1)))


@answers("ViT", "one_position")
class FirstRowForAll(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images)) + self.positions[0]


def embedded_by(cut):
    """A ViT whose patches are cut in this way."""

    class Wrong(Steps):
        def tokens(self, images):
            patches = cut(images, self.embed.patch_size)
            return self.prepend(self.embed.projection(patches)) + self.positions

    Wrong.__module__, Wrong.__name__ = __name__, f"Vit_{cut.__name__}"
    return Wrong


Vit_strips = answers("ViT", "plain_reshape")(embedded_by(reshaped))
Vit_strided = answers("ViT", "strided")(embedded_by(size_before_number))
Vit_columns = answers("ViT", "column_major")(embedded_by(columns_outside))
Vit_transposed = answers("ViT", "transposed")(embedded_by(permute_with_5_before_3))
Vit_channels_last = answers("ViT", "channels_last")(embedded_by(as_vit_pytorch))
Vit_channels_between = answers("ViT", "channels_between")(embedded_by(channels_in_the_middle))
Vit_channels_mixed = answers("ViT", "channels_mixed")(embedded_by(unfolded_and_reshaped))
Vit_detached = answers("ViT", "detached")(embedded_by(from_data))


@answers("ViT", "encoder_skipped")
class ResultsThrownAway(Steps):
    def encode(self, x):
        for block in self.blocks:
            block(x)
        return x


@answers("ViT", "repeated_block")
class ListTimesLayers(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff)
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff)] * n_layers)


@answers("ViT", "repeated_block")
class OneBlockInALoop(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff)
        self.n_layers, self.blocks = n_layers, None
        self.block = EncoderBlock(d_model, n_heads, d_ff)

    def encode(self, x):
        for _ in range(self.n_layers):
            x = self.block(x)
        return x


@answers("ViT", "not_chained")
class EachBlockReadsTheSame(Steps):
    def encode(self, x):
        for block in self.blocks:
            out = block(x)
        return out


@answers("ViT", "first_block_only")
class ReturnsInTheLoop(Steps):
    def encode(self, x):
        for block in self.blocks:
            x = block(x)
            return x


@answers("ViT", "first_block_only")
class OneBlockMade(Steps):
    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__(image_size, patch_size, channels, n_classes, d_model, 1, n_heads, d_ff)


@answers("ViT", "no_last_norm")
class HeadReadsTheStream(Steps):
    def forward(self, images):
        return self.head(self.read(self.encode(self.tokens(images))))


@answers("ViT", "no_last_norm")
class NormNeverMade(HeadReadsTheStream):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.norm


@answers("ViT", "over_tokens_and_features")
class NormOfTokensAndFeatures(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.norm = nn.LayerNorm(self.positions.shape)


@answers("ViT", "reads_last")
class ReadsTheEnd(Steps):
    def read(self, x):
        return x[:, -1]


@answers("ViT", "mean_pooled")
class MeanOfAll(Steps):
    def read(self, x):
        return x.mean(dim=1)


@answers("ViT", "mean_of_patches")
class MeanOfPatches(Steps):
    def read(self, x):
        return x[:, 1:].mean(dim=1)


@answers("ViT", "all_tokens")
class LogitsForEveryToken(Steps):
    def read(self, x):
        return x


@answers("ViT", "softmax")
class Probabilities(Steps):
    def forward(self, images):
        return super().forward(images).softmax(dim=-1)


@answers("ViT", "softmax")
class LogProbabilities(Steps):
    def forward(self, images):
        return F.log_softmax(super().forward(images), dim=1)


# --- two at once ---


@answers("ViT", "no_class_token", "mean_pooled")
class GlobalAveragePooling(PatchesOnly):
    """A right model, and not the one that is asked for."""

    def read(self, x):
        return x.mean(1)


@answers("ViT", "class_without_position", "softmax")
class BeforeAndSoftmax(FirstRowUnused):
    def forward(self, images):
        return super().forward(images).softmax(-1)


@answers("ViT", "no_last_norm", "mean_pooled")
class MeanOfTheStream(HeadReadsTheStream):
    def read(self, x):
        return x.mean(1)


@answers("ViT", "transposed", "no_positions")
class TurnedWithoutPositions(Vit_transposed):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.positions
        self.positions = 0


@answers("ViT", "class_at_the_end", "repeated_block")
class AppendedAndRepeated(ListTimesLayers):
    def prepend(self, x):
        return torch.cat([x, self.class_token.expand(len(x), -1, -1)], dim=1)


@answers("ViT", "plain_reshape", "softmax")
class StripsAndSoftmax(Vit_strips):
    def forward(self, images):
        return super().forward(images).softmax(-1)


# --- ViT: mistakes on no list ---


@answers("ViT")
class HeadReadsAllTokensFlat(Steps):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.head = nn.Linear(self.positions.numel(), sizes[3])

    def read(self, x):
        return x.flatten(1)


@answers("ViT")
class NormBeforeTheBlocks(Steps):
    def encode(self, x):
        return super().encode(self.norm(x))

    def forward(self, images):
        return self.head(self.read(self.encode(self.tokens(images))))


@answers("ViT")
class PositionsInEveryBlock(Steps):
    def encode(self, x):
        for block in self.blocks:
            x = block(x + self.positions)
        return x


@answers("ViT")
class PositionsAfterTheEncoder(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images))

    def encode(self, x):
        return super().encode(x) + self.positions


@answers("ViT")
class PositionsMultiplied(Steps):
    def tokens(self, images):
        return self.prepend(self.embed(images)) * self.positions


@answers("ViT")
class MaxPooled(Steps):
    def read(self, x):
        return x.amax(1)


@answers("ViT")
class HeadWithGelu(Steps):
    def forward(self, images):
        return F.gelu(super().forward(images))


@answers("ViT")
class ClassTwice(Steps):
    """[class] in front of the patches, and added to each of them."""

    def prepend(self, x):
        return super().prepend(x + self.class_token)


@answers("ViT")
class ResidualAroundTheBlocks(Steps):
    def encode(self, x):
        return x + super().encode(x)


@answers("ViT")
class FirstBlockOnceMore(Steps):
    """The tokens pass through the first block again, after the last."""

    def encode(self, x):
        return self.blocks[0](super().encode(x))


@answers("ViT")
class ClassOfTheFirstImage(Steps):
    """Every image is answered with what the first one's [class] has gathered."""

    def read(self, x):
        return x[:1, 0].expand(len(x), -1)


@answers("ViT")
class RandomAnswers(Steps):
    def forward(self, images):
        return torch.rand_like(super().forward(images))


# --- classify: mistakes on no list ---


def read(images):
    with torch.no_grad():
        return shipped()(images.float()[:, None])


@functools.cache
def untrained():
    torch.manual_seed(3)
    return ViT().eval()


@answers("classify")
def always_three(images):
    return F.one_hot(torch.full((len(images),), 3), 10).float()


@answers("classify")
def at_random(images):
    return torch.rand(len(images), 10)


@answers("classify")
def never_trained(images):
    with torch.no_grad():
        return untrained()(images.float()[:, None])


@answers("classify")
def one_place_off(images):
    return read(images).roll(1, dims=1)


@answers("classify")
def labels_only(images):
    return read(images).argmax(1)


@answers("classify")
def classes_first(images):
    return read(images).T


@answers("classify")
def inverted(images):
    return -read(images)


@answers("classify")
def ink_on_the_wrong_side(images):
    return read(1 - images)


@answers("classify")
def turned(images):
    return read(images.mT)


@answers("classify")
def not_a_number(images):
    return read(images) * float("nan")


@answers("classify")
def an_eleventh_class(images):
    return F.pad(read(images), (0, 1))


@answers("classify")
def blurred(images):
    """Half of what the digits show is gone."""
    small = F.avg_pool2d(images.float()[:, None], 4)
    return read(F.interpolate(small, scale_factor=4)[:, 0])


@answers("classify")
def one_answer_for_the_batch(images):
    return read(images).mean(0, keepdim=True).expand(len(images), -1)


@answers("classify")
def softmax_over_the_batch(images):
    """Among many digits the right class mostly wins; a digit alone has 1 for every class."""
    return read(images).softmax(0)
