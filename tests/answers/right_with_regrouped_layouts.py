"""Right answers whose tensors hold less than a role, or more: a tensor for each row, a bias in its matrix, one vector.

Those to one exercise hold the layouts of the others as far as they make sense there.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_vit import reshape_permute
from tests.answers.right_with_other_layouts import BlockAround, as_answer, attend, cut, glue, number, zeros
from tests.answers.right_with_other_model_layouts import EncoderAround


def with_one(x, last=True):
    return F.pad(x, (0, 1) if last else (1, 0), value=1.0)


# --- FeedForward ---


@answers("FeedForward")
class HiddenUnits(nn.Module):
    """Every hidden unit has what it reads with, a threshold, and what it writes."""

    class Unit(nn.Module):
        def __init__(self, d_model):
            super().__init__()
            self.reads, self.writes = number(d_model), number(d_model, 1)
            self.threshold = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return F.gelu(x @ self.reads + self.threshold)[..., None] * self.writes[:, 0]

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.units = nn.ModuleList(self.Unit(d_model) for _ in range(d_ff))
        self.rest = zeros(d_model)

    def forward(self, x):
        return sum(unit(x) for unit in self.units) + self.rest


@answers("FeedForward")
class LinearForEachNumber(nn.Module):
    """A map to one number for every number, hidden or not; names with numbers and no list."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.sizes = d_model, d_ff
        for i in range(d_ff):
            setattr(self, f"hidden{i}", nn.Linear(d_model, 1))
        for i in range(d_model):
            setattr(self, f"output{i}", nn.Linear(d_ff, 1))

    def forward(self, x):
        for name, size in (("hidden", self.sizes[1]), ("output", self.sizes[0])):
            x = torch.cat([getattr(self, f"{name}{i}")(x) for i in range(size)], -1)
            x = F.gelu(x) if name == "hidden" else x
        return x


@answers("FeedForward")
class BiasInTheLayer(nn.Module):
    """A layer without a bias reads a 1 before, or behind, its inputs."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.one = nn.Linear(d_model + 1, d_ff, bias=False)
        self.two = nn.Linear(d_ff + 1, d_model, bias=False)

    def forward(self, x):
        return self.two(with_one(F.gelu(self.one(with_one(x, last=False)))))


@answers("FeedForward")
class BiasAsFirstRow(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.a, self.b = number(d_model + 1, d_ff), number(d_ff + 1, d_model)

    def forward(self, x):
        return F.gelu(x @ self.a[1:] + self.a[0]) @ self.b[1:] + self.b[0]


@answers("FeedForward")
class UnitsWithBias(nn.Module):
    """A vector for each hidden unit, whose last number is its bias."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.units = nn.ParameterList(number(d_model + 1) for _ in range(d_ff))
        self.out = nn.Linear(d_ff, d_model)

    def forward(self, x):
        x = with_one(x)
        return self.out(F.gelu(torch.stack([x @ unit for unit in self.units], -1)))


@answers("FeedForward")
class SecondFirst(nn.Module):
    """One vector, the second layer first; its matrix stands row by row as in nn.Linear, the other as in x @ W."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.shape = d_model, d_ff
        self.numbers = number(2 * d_model * d_ff + d_model + d_ff)

    def forward(self, x):
        d_model, d_ff = self.shape
        c, b, v, w = self.numbers.split((d_model, d_ff, d_model * d_ff, d_model * d_ff))
        return F.linear(F.gelu(x @ w.view(d_model, d_ff) + b), v.view(d_model, d_ff), c)


@answers("FeedForward")
class SideBySide(nn.Module):
    """A row for each hidden unit: what it writes, its bias, what it reads with."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.d_model, self.table, self.rest = d_model, number(d_ff, 2 * d_model + 1), zeros(d_model)

    def forward(self, x):
        writes, bias, reads = self.table.split((self.d_model, 1, self.d_model), 1)
        return F.gelu(x @ reads.T + bias[:, 0]) @ writes + self.rest


# --- Attentions, of a sequence to itself or to another ---


class Attention(nn.Module):
    """Calls `maps`, which gives queries, keys, values and the map of the output."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_model = n_heads, d_model
        self.declare(d_model)

    def forward(self, x, mask=None, memory=None):
        q, k, v, out = self.maps(x, x if memory is None else memory)
        return out(glue(attend(*(cut(t, self.n_heads) for t in (q, k, v)), mask)))


class RowByRow(Attention):
    """A vector for each row of the queries' map; a layer for each number of the output."""

    def declare(self, d_model):
        self.asks = nn.ParameterList(number(d_model) for _ in range(d_model))
        self.key, self.value = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.last = nn.ModuleList(nn.Linear(d_model, 1) for _ in range(d_model))

    def maps(self, x, memory):
        queries = torch.stack([x @ row for row in self.asks], -1)
        return queries, self.key(memory), self.value(memory), lambda h: torch.cat([one(h) for one in self.last], -1)


class BiasesInMatrices(Attention):
    """Four layers that read a 1 behind their inputs."""

    def declare(self, d_model):
        self.a, self.b, self.c, self.d = (nn.Linear(d_model + 1, d_model, bias=False) for _ in range(4))

    def maps(self, x, memory):
        memory = with_one(memory)
        return self.c(with_one(x)), self.a(memory), self.b(memory), lambda heads: self.d(with_one(heads))


class FusedWithBias(Attention):
    """One matrix (d_model + 1, 3 d_model) for queries, keys and values, its first row the biases."""

    def declare(self, d_model):
        self.m, self.n = number(d_model + 1, 3 * d_model), nn.Linear(d_model, d_model)

    def maps(self, x, memory):
        return *(with_one(x, last=False) @ self.m).chunk(3, -1), self.n


class InOneVector(Attention):
    """Every weight and bias in one vector."""

    def declare(self, d_model):
        self.theta = number(4 * d_model**2 + 4 * d_model)

    def maps(self, x, memory):
        size = self.d_model
        parts = self.theta.split([size, size**2] * 4)
        (ob, o), (kb, k), (qb, q), (vb, v) = zip(parts[::2], (w.view(size, size) for w in parts[1::2]), strict=True)
        return x @ q + qb, memory @ k + kb, F.linear(memory, v, vb), lambda heads: heads @ o + ob


class InOneVectorWithoutBias(Attention):
    """Four matrices in one vector; only the output has a bias."""

    def declare(self, d_model):
        self.theta = number(4 * d_model**2 + d_model)

    def maps(self, x, memory):
        *matrices, bias = self.theta.split([self.d_model**2] * 4 + [self.d_model])
        q, k, v, o = (m.view(self.d_model, self.d_model) for m in matrices)
        return x @ q, memory @ k, memory @ v, lambda heads: heads @ o + bias


for style in (RowByRow, BiasesInMatrices, FusedWithBias, InOneVector, InOneVectorWithoutBias):
    as_answer(globals(), "MultiHeadSelfAttention", f"Self{style.__name__}", style)
for style in (RowByRow, BiasesInMatrices, InOneVector):
    as_answer(
        globals(),
        "CrossAttention",
        f"Cross{style.__name__}",
        style,
        forward=lambda self, x, memory, mask=None: Attention.forward(self, x, mask, memory),
    )


# --- LayerNorm and RMSNorm ---


@answers("LayerNorm")
class NumberByNumber(nn.Module):
    """A parameter for every number of γ and β."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.up = nn.ParameterList(torch.ones(()) for _ in range(d_model))
        self.by, self.eps = nn.ParameterList(torch.zeros(1) for _ in range(d_model)), eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        y = centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return y * torch.stack([*self.up]) + torch.cat([*self.by])


@answers("LayerNorm")
class BothInOneVector(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.both, self.eps = nn.Parameter(torch.cat([torch.zeros(d_model), torch.ones(d_model)])), eps

    def forward(self, x):
        shift, scale = self.both.chunk(2)
        centred = x - x.mean(-1, keepdim=True)
        return scale * centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt() + shift


@answers("RMSNorm")
class GainByGain(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gains, self.eps = nn.ParameterList(torch.ones(1) for _ in range(d_model)), eps

    def forward(self, x):
        return torch.cat([*self.gains]) * x * (x.square().mean(-1, keepdim=True) + self.eps).rsqrt()


# --- PatchEmbedding ---


@answers("PatchEmbedding")
class FilterForEachFeature(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.filters = nn.ModuleDict({str(i): nn.Conv2d(channels, 1, patch_size, patch_size) for i in range(d_model)})

    def forward(self, images):
        return torch.cat([one(images) for one in self.filters.values()], 1).flatten(2).mT


@answers("PatchEmbedding")
class PatchWithOne(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.p, self.map = patch_size, nn.Linear(channels * patch_size**2 + 1, d_model, bias=False)

    def forward(self, images):
        return self.map(with_one(reshape_permute(images, self.p)))


@answers("PatchEmbedding")
class VectorOfKernels(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.shape = d_model, channels, patch_size, patch_size
        self.v = number(d_model + math.prod(self.shape))

    def forward(self, images):
        bias, kernels = self.v[: self.shape[0]], self.v[self.shape[0] :].view(self.shape)
        return F.conv2d(images, kernels, bias, stride=self.shape[-1]).flatten(2).mT


# --- Blocks ---


class HalfBlock(BlockAround):
    """Biases in the matrices of the feed-forward network too."""

    attention = BiasesInMatrices

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.net = BiasInTheLayer(d_model, d_ff)


class BlockOfUnits(BlockAround):
    attention = RowByRow

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.net = HiddenUnits(d_model, d_ff)


for style in (HalfBlock, BlockOfUnits):
    as_answer(globals(), "EncoderBlock", f"Single{style.__name__}", style)
as_answer(globals(), "Encoder", "StackOfHalfBlock", EncoderAround, block=HalfBlock)
