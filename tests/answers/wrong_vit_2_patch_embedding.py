"""Wrong patch embeddings, as students write them; `answers` names their mistakes, or none that is on a list.

None of this is made from the exercise's own `variation`.
"""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_vit import Convolution, reshape_permute
from tests.answers.wrong_vit_1_patchify import (
    a_token_per_channel,
    as_vit_pytorch,
    channels_in_the_middle,
    grey_only,
    height_twice,
    permute_with_5_before_3,
    reshaped,
    size_before_number,
    unfolded_and_reshaped,
)

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
