"""Wrong answers whose tensors hold less than a role, or more: what is wrong with them is named all the same."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_vit import reshape_permute
from tests.answers.right_with_other_layouts import attend, cut, glue, number
from tests.answers.right_with_regrouped_layouts import (
    BiasesInMatrices,
    BiasInTheLayer,
    BothInOneVector,
    GainByGain,
    HalfBlock,
    InOneVector,
    LinearForEachNumber,
    NumberByNumber,
    RowByRow,
    SecondFirst,
    with_one,
)


@answers("FeedForward", "relu")
class UnitsWithRelu(LinearForEachNumber):
    def forward(self, x):
        for name, size in (("hidden", self.sizes[1]), ("output", self.sizes[0])):
            x = torch.cat([getattr(self, f"{name}{i}")(x) for i in range(size)], -1)
            x = F.relu(x) if name == "hidden" else x
        return x


@answers("FeedForward", "approximate")
class LayersWithTanh(BiasInTheLayer):
    def forward(self, x):
        return self.two(with_one(F.gelu(self.one(with_one(x, last=False)), approximate="tanh")))


@answers("FeedForward", "no_activation")
class VectorWithoutGelu(SecondFirst):
    def forward(self, x):
        d_model, d_ff = self.shape
        c, b, v, w = self.numbers.split((d_model, d_ff, d_model * d_ff, d_model * d_ff))
        return F.linear(x @ w.view(d_model, d_ff) + b, v.view(d_model, d_ff), c)


@answers("FeedForward", "no_bias")
class VectorWithoutBias(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.shape, self.numbers = (d_model, d_ff), number(2 * d_model * d_ff)

    def forward(self, x):
        w, v = self.numbers.chunk(2)
        return F.gelu(x @ w.view(self.shape)) @ v.view(self.shape).T


@answers("FeedForward")
class ScaledUnits(LinearForEachNumber):
    def forward(self, x):
        return super().forward(x) * 1.1


@answers("MultiHeadSelfAttention", "mask_ignored")
class RowsWithoutMask(RowByRow):
    def forward(self, x, mask=None):
        return super().forward(x)


@answers("MultiHeadSelfAttention", "unscaled")
class BiasesUnscaled(BiasesInMatrices):
    def maps(self, x, memory):
        q, *others = super().maps(x, memory)
        return q * (self.d_model // self.n_heads) ** 0.5, *others


@answers("MultiHeadSelfAttention", "unscaled")
class VectorUnscaled(InOneVector):
    def maps(self, x, memory):
        q, *others = super().maps(x, memory)
        return q * (self.d_model // self.n_heads) ** 0.5, *others


@answers("MultiHeadSelfAttention")
class VectorForTwoMaps(nn.Module):
    """Keys serve as values too: one map is missing."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_model, self.theta = n_heads, d_model, number(3 * d_model**2)

    def forward(self, x, mask=None):
        q, k, o = self.theta.view(3, self.d_model, self.d_model)
        keys = cut(x @ k, self.n_heads)
        return glue(attend(cut(x @ q, self.n_heads), keys, keys, mask)) @ o


@answers("LayerNorm", "unbiased")
class NumbersOverOneLess(NumberByNumber):
    def forward(self, x):
        y = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + self.eps).sqrt()
        return y * torch.stack([*self.up]) + torch.cat([*self.by])


@answers("LayerNorm", "no_root")
class VectorWithoutRoot(BothInOneVector):
    def forward(self, x):
        shift, scale = self.both.chunk(2)
        centred = x - x.mean(-1, keepdim=True)
        return scale * centred / (centred.square().mean(-1, keepdim=True) + self.eps) + shift


@answers("RMSNorm", "eps_outside")
class GainsWithEpsOutside(GainByGain):
    def forward(self, x):
        return torch.cat([*self.gains]) * x / (x.square().mean(-1, keepdim=True).sqrt() + self.eps)


@answers("PatchEmbedding", "no_bias")
class FiltersWithoutBias(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p = patch_size
        self.rows = nn.ParameterList(number(channels * patch_size**2) for _ in range(d_model))

    def forward(self, images):
        return torch.stack([reshape_permute(images, self.p) @ row for row in self.rows], -1)


@answers("PatchEmbedding")
class MatrixWithPatchesLast(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p, self.map = patch_size, number(channels * patch_size**2 + 1, d_model)

    def forward(self, images):
        return (with_one(reshape_permute(images, self.p)) @ self.map).mT


@answers("EncoderBlock", "post_norm")
class HalfBlockPostNorm(HalfBlock):
    def forward(self, x, mask=None):
        x = self.first(x + self.part(x, mask))
        return self.second(x + self.net(x))
