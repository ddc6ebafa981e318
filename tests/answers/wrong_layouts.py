"""Wrong answers in layouts, and by names, that no list foresees: what is wrong with them is named all the same."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_encoder import LayerNorm
from tests.answers.right_with_other_layouts import (
    EverythingBare,
    FusedInTheBlock,
    PerHead,
    RawNameless,
    attend,
    cut,
    glue,
    normalized,
    number,
    zeros,
)
from tests.answers.right_with_other_model_layouts import EncoderAround, SymbolViT


@answers("MultiHeadSelfAttention", "unscaled")
class NamelessUnscaled(RawNameless):
    def forward(self, x, mask=None):
        v, q, k = (torch.einsum("btd,hed->bhte", x, m) for m in self.m)
        return torch.einsum("bhte,dhe->btd", attend(q * q.shape[-1] ** 0.5, k, v, mask), self.n)


@answers("MultiHeadSelfAttention", "mask_ignored")
class HeadsWithoutMask(PerHead):
    def forward(self, x, mask=None):
        return super().forward(x)


@answers("CrossAttention", "own_memory", "mask_ignored")
class ListsOfOwnMemory(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.a = nn.ParameterList(number(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask=None):
        q, k, v = (cut(x @ self.a[i], self.n_heads) for i in (1, 3, 0))
        return glue(attend(q, k, v)) @ self.a[2]


@answers("EncoderBlock", "post_norm")
class FusedPostNorm(FusedInTheBlock):
    def forward(self, x, mask=None):
        q, k, v = (cut(t, self.n_heads) for t in self.qkv(x).chunk(3, -1))
        x = self.ln1(x + self.proj(glue(attend(q, k, v, mask))) + self.proj_bias)
        return self.ln2(x + self.down(F.gelu(self.up(x))))


@answers("EncoderBlock", "relu")
class FusedRelu(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.c_proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.one, self.two = LayerNorm(d_model), LayerNorm(d_model)
        self.thing = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        q, k, v = (cut(t, self.n_heads) for t in self.qkv(self.one(x)).chunk(3, -1))
        x = x + self.c_proj(glue(attend(q, k, v, mask)))
        return x + self.thing(self.two(x))


@answers("Encoder", "reversed")
class BareReversed(EncoderAround):
    """Right if the last block were called the first one; but blocks stand in the order in which they are built."""

    block = EverythingBare

    def forward(self, x, mask=None):
        for step in reversed(self.steps):
            x = step(x, mask)
        return normalized(x, self.gamma, self.beta)


@answers("PatchEmbedding", "no_bias")
class SymbolIsNoParameter(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.a, self.c = number(d_model, channels, patch_size, patch_size), torch.empty(d_model)
        self.p = patch_size

    def forward(self, images):
        return F.conv2d(images, self.a, self.c.fill_(0), stride=self.p).flatten(2).mT


@answers("ViT", "unregistered")
class SymbolsWithoutC(SymbolViT):
    block = FusedInTheBlock

    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.c
        self.c = torch.zeros(sizes[3])


@answers("FeedForward", "no_bias")
class LettersWithoutBias(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.W, self.E, self.c = number(d_ff, d_model), number(d_model, d_ff), zeros(d_model)

    def forward(self, x):
        return F.gelu(x @ self.E) @ self.W + self.c
