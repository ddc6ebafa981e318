"""Wrong answers in layouts, and by names, that no list foresees: what is wrong with them is named all the same."""

import torch
import torch.nn.functional as F
from torch import nn

from headroom import reference
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


@answers("EncoderBlock")
class NormsInATable(reference.EncoderBlock):
    """A row of gamma and one of beta for each norm."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        del self.norm_1, self.norm_2
        self.gamma, self.beta = nn.Parameter(torch.ones(2, d_model)), nn.Parameter(torch.zeros(2, d_model))

    def norm(self, x, row):
        root = (x.var(-1, keepdim=True) + 1e-5).sqrt()
        return (x - x.mean(-1, keepdim=True)) / root * self.gamma[row] + self.beta[row]

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm(x, 0), mask)
        return x + self.feed_forward(self.norm(x, 1))


@answers("EncoderBlock")
class NormsInOneTable(NormsInATable):
    """All of them in one, by a name that says nothing."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        del self.gamma, self.beta
        self.rows = nn.Parameter(torch.tensor([0.0, 1.0, 1.0, 0.0])[:, None].repeat(1, d_model))

    @property
    def gamma(self):
        return self.rows[1:3]

    @property
    def beta(self):
        return self.rows[::3]


@answers("EncoderBlock")
class MapsInTheBlock(nn.Module):
    """One map for queries, keys and values, and the one after the heads, without a module around them."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.ln1, self.ln2 = nn.LayerNorm(d_model, eps=1e-6), nn.LayerNorm(d_model, eps=1e-6)
        self.mlp, self.n_heads = reference.FeedForward(d_model, d_ff), n_heads

    def forward(self, x, mask=None):
        q, k, v = (cut(t, self.n_heads) for t in self.qkv(self.ln1(x)).chunk(3, -1))
        x = x + self.proj(glue(attend(q, k, v, mask)))
        return x + self.mlp(self.ln2(x))


@answers("EncoderBlock")
class HeadsInTheBlock(reference.EncoderBlock):
    """A map and a bias for each head, side by side, and scores that are divided by the root of d_model."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        del self.attention
        size = n_heads, d_model, d_model // n_heads
        self.Wq, self.Wk, self.Wv = (nn.Parameter(torch.randn(size) / d_model) for _ in range(3))
        self.bq, self.bk, self.bv = (nn.Parameter(torch.zeros(size[::2])) for _ in range(3))
        self.Wo, self.bo = nn.Parameter(torch.randn(size).mT / d_model), nn.Parameter(torch.zeros(d_model))

    def forward(self, x, mask=None):
        z = self.norm_1(x)[:, None]
        q, k, v = (z @ w + b[:, None] for w, b in ((self.Wq, self.bq), (self.Wk, self.bk), (self.Wv, self.bv)))
        q = q / self.Wq.shape[0] ** 0.5
        y = attend(q, k, v, mask)
        x = x + (y @ self.Wo).sum(1) + self.bo
        return x + self.feed_forward(self.norm_2(x))
