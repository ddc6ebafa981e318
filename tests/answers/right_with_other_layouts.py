"""Right answers in layouts, and by names, that no list foresees: what a parameter is shows in what it does."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_encoder import FeedForward, LayerNorm


def attend(q, k, v, mask=None):
    """(…, tokens, d_head) three times, and a mask that broadcasts to the scores."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    return scores.softmax(-1) @ v


def cut(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def glue(x):
    return x.transpose(1, 2).flatten(-2)


def number(*shape):
    return nn.Parameter(torch.randn(*shape) / math.sqrt(shape[-1]))


def zeros(*shape):
    return nn.Parameter(torch.zeros(*shape))


def normalized(x, gain, shift):
    centred = x - x.mean(-1, keepdim=True)
    return gain * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() + shift


# --- Attentions, of a sequence to itself or to another ---


class FusedAndProj(nn.Module):
    """One map for q, k and v; names as in nanoGPT."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.c_attn = nn.Linear(d_model, 3 * d_model)
        self.c_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (cut(t, self.h) for t in self.c_attn(x).chunk(3, -1))
        return self.c_proj(glue(attend(q, k, v, mask)))


class FusedHeadByHead(nn.Module):
    """Rows of the fused map stand head by head: k, q and v of head 0, then of head 1."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.thing = nn.Linear(d_model, 3 * d_model, bias=False)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        k, q, v = self.thing(x).unflatten(-1, (self.h, -1)).transpose(1, 2).chunk(3, -1)
        return self.proj(glue(attend(q, k, v, mask)))


class PerHead(nn.Module):
    """A module for each head; nothing is called what it is."""

    class One(nn.Module):
        def __init__(self, d_model, d_head):
            super().__init__()
            self.c = nn.Linear(d_model, d_head)
            self.a = nn.Linear(d_model, d_head)
            self.b = nn.Linear(d_model, d_head)

        def forward(self, x, memory, mask):
            return attend(self.a(x), self.b(memory), self.c(memory), mask)

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.all = nn.ModuleList(self.One(d_model, d_model // n_heads) for _ in range(n_heads))
        self.thing = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None, memory=None):
        mask = None if mask is None else mask[:, 0]
        memory = x if memory is None else memory
        return self.thing(torch.cat([one(x, memory, mask) for one in self.all], -1))


class PerHeadNamed(nn.Module):
    """A module for each head with q, k and v, no biases in them, and an output map for each head."""

    class Head(nn.Module):
        def __init__(self, d_model, d_head):
            super().__init__()
            self.q = nn.Linear(d_model, d_head, bias=False)
            self.k = nn.Linear(d_model, d_head, bias=False)
            self.v = nn.Linear(d_model, d_head, bias=False)
            self.back = nn.Linear(d_head, d_model, bias=False)

        def forward(self, x, mask):
            return self.back(attend(self.q(x), self.k(x), self.v(x), mask))

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = nn.ModuleList(self.Head(d_model, d_model // n_heads) for _ in range(n_heads))
        self.bias = zeros(d_model)

    def forward(self, x, mask=None):
        mask = None if mask is None else mask[:, 0]
        return sum(head(x, mask) for head in self.heads) + self.bias


class RawPerHead(nn.Module):
    """Raw parameters (heads, d_model, d_head), a bias for each head and feature."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.W_Q, self.W_K, self.W_V = (number(n_heads, d_model, d_head) for _ in range(3))
        self.b_Q, self.b_K, self.b_V = (zeros(n_heads, 1, d_head) for _ in range(3))
        self.W_O, self.b_O = number(n_heads, d_head, d_model), zeros(d_model)

    def forward(self, x, mask=None, memory=None):
        memory = x if memory is None else memory
        q = torch.einsum("btd,hde->bhte", x, self.W_Q) + self.b_Q
        k = torch.einsum("btd,hde->bhte", memory, self.W_K) + self.b_K
        v = torch.einsum("btd,hde->bhte", memory, self.W_V) + self.b_V
        return torch.einsum("bhte,hed->btd", attend(q, k, v, mask), self.W_O) + self.b_O


class RawNameless(nn.Module):
    """The same without names or biases, (heads, d_head, d_model), the output map as (d_model, heads, d_head)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.m = nn.ParameterList([number(n_heads, d_head, d_model) for _ in range(3)])
        self.n = number(d_model, n_heads, d_head)

    def forward(self, x, mask=None, memory=None):
        memory = x if memory is None else memory
        v, q, k = (torch.einsum("btd,hed->bhte", t, m) for t, m in zip((memory, x, memory), self.m, strict=True))
        return torch.einsum("bhte,dhe->btd", attend(q, k, v, mask), self.n)


class BiasApart(nn.Module):
    """The biases stand beside their maps: bq, bk, bv, bo."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.bq, self.bk, self.bv, self.bo = (zeros(d_model) for _ in range(4))

    def forward(self, x, mask=None, memory=None):
        memory = x if memory is None else memory
        q, k, v = self.wq(x) + self.bq, self.wk(memory) + self.bk, self.wv(memory) + self.bv
        return self.wo(glue(attend(*(cut(t, self.n_heads) for t in (q, k, v)), mask))) + self.bo


class InLists(nn.Module):
    """Lists of parameters; x @ W + b, declared as o, v, k, q."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.weights = nn.ParameterList(number(d_model, d_model) for _ in range(4))
        self.biases = nn.ParameterList(zeros(d_model) for _ in range(4))

    def forward(self, x, mask=None, memory=None):
        memory = x if memory is None else memory
        q, k, v = (
            cut(t @ self.weights[i] + self.biases[i], self.n_heads) for t, i in ((x, 3), (memory, 2), (memory, 1))
        )
        return glue(attend(q, k, v, mask)) @ self.weights[0] + self.biases[0]


class OneBigTensor(nn.Module):
    """All four maps in one tensor (4, d_model, d_model), all four biases in another."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w, self.b = number(4, d_model, d_model), zeros(4, d_model)

    def forward(self, x, mask=None):
        q, k, v = (cut(x @ self.w[i] + self.b[i], self.n_heads) for i in range(3))
        return glue(attend(q, k, v, mask)) @ self.w[3] + self.b[3]


class AnyNames(nn.Module):
    """Four linear maps whose names say nothing, used in an order of their own; a tensor that nothing uses."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.thing, self.a, self.stuff, self.b1 = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None, memory=None):
        memory = x if memory is None else memory
        q, k, v = (
            cut(self.stuff(x), self.n_heads),
            cut(self.thing(memory), self.n_heads),
            cut(self.b1(memory), self.n_heads),
        )
        return self.a(glue(attend(q, k, v, mask)))


class Stacked(nn.Module):
    """Four matrices in one tensor and four biases in another, which start from random numbers too."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.w, self.b = n_heads, number(4, d_model, d_model), number(4, d_model)

    def forward(self, x, mask=None):
        q, k, v = (cut(x @ w + b, self.n_heads) for w, b in zip(self.w[:3], self.b[:3], strict=True))
        return glue(attend(q, k, v, mask)) @ self.w[3] + self.b[3]


SELF = (
    FusedAndProj, FusedHeadByHead, PerHead, PerHeadNamed, RawPerHead, RawNameless, BiasApart, InLists, OneBigTensor,
    AnyNames, Stacked,
)  # fmt: skip
FROM_MEMORY = (PerHead, RawPerHead, RawNameless, BiasApart, InLists, AnyNames)


def as_answer(space, exercise, name, base, **members):
    """A class of the module whose names are `space`, marked as an answer."""
    made = type(name, base if isinstance(base, tuple) else (base,), {"__module__": space["__name__"], **members})
    space[name] = answers(exercise)(made)
    return made


def of_memory(attention):
    def forward(self, x, memory, mask=None):
        return attention.forward(self, x, mask, memory)

    return forward


for style in SELF:
    as_answer(globals(), "MultiHeadSelfAttention", f"Self{style.__name__}", style)
for style in FROM_MEMORY:
    as_answer(globals(), "CrossAttention", f"Cross{style.__name__}", style, forward=of_memory(style))


@answers("CrossAttention")
class CrossFused(nn.Module):
    """Values and keys in one map, per head: the values first."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.ask = nn.Linear(d_model, d_model)
        self.read = nn.Linear(d_model, 2 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask=None):
        v, k = self.read(memory).unflatten(-1, (self.h, -1)).transpose(1, 2).chunk(2, -1)
        return self.proj(glue(attend(cut(self.ask(x), self.h), k, v, mask)))


# --- FeedForward and LayerNorm ---


@answers("FeedForward")
class ShortNames(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.b, self.W, self.c, self.E = zeros(d_ff), number(d_ff, d_model), zeros(d_model), number(d_model, d_ff)

    def forward(self, x):
        return F.gelu(x @ self.E + self.b) @ self.W + self.c


@answers("FeedForward")
class BiasesApart(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner, self.outer = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)
        self.list = nn.ParameterList([zeros(d_model), zeros(1, d_ff)])

    def forward(self, x):
        return self.outer(F.gelu(self.inner(x) + self.list[1].squeeze(0))) + self.list[0]


@answers("FeedForward")
class BothInOneOrientation(nn.Module):
    """The second matrix is stored as (d_model, d_ff) too, and transposed when it is used."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.thing = nn.ParameterList(number(d_model, d_ff) for _ in range(2))
        self.one, self.two = zeros(d_ff), zeros(d_model)

    def forward(self, x):
        return F.gelu(x @ self.thing[1] + self.one) @ self.thing[0].T + self.two


@answers("LayerNorm")
class AnyNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.thing, self.b1, self.eps = nn.Parameter(torch.zeros(d_model)), nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.b1 * centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt() + self.thing


@answers("LayerNorm")
class ListNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.p, self.eps = nn.ParameterList([torch.ones(d_model), torch.zeros(d_model)]), eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.p[0] * centred * (centred.square().mean(-1, keepdim=True) + self.eps).rsqrt() + self.p[1]


@answers("LayerNorm")
class OneTensorNorm(nn.Module):
    """γ and β as the rows of one tensor; `b` scales and `a` shifts, in y = a + b x."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.rows, self.eps = nn.Parameter(torch.stack([torch.zeros(d_model), torch.ones(d_model)])), eps

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        a, b = self.rows
        return a + b * centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt()


# --- Blocks ---


class BlockAround(nn.Module):
    """A block around an attention; the feed-forward network and the norms have names of their own."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.first, self.second = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.part = self.attention(d_model, n_heads)
        self.net = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        x = x + self.part(self.first(x), mask)
        return x + self.net(self.second(x))


for style in SELF:
    as_answer(globals(), "EncoderBlock", f"BlockAround{style.__name__}", BlockAround, attention=style)


@answers("EncoderBlock")
class FusedInTheBlock(nn.Module):
    """One map for q, k and v in the block itself; a bias apart from its map."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model, bias=False)
        self.proj_bias = zeros(d_model)
        self.ln1, self.ln2 = LayerNorm(d_model), LayerNorm(d_model)
        self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x, mask=None):
        q, k, v = (cut(t, self.n_heads) for t in self.qkv(self.ln1(x)).chunk(3, -1))
        x = x + self.proj(glue(attend(q, k, v, mask))) + self.proj_bias
        return x + self.down(F.gelu(self.up(self.ln2(x))))


@answers("EncoderBlock")
class EverythingBare(nn.Module):
    """No layer at all: x @ W + b, gains and shifts of the norms, by letters."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.n_heads = n_heads
        self.a, self.b, self.c, self.d = (number(d_model, d_model) for _ in range(4))
        self.e, self.f, self.g, self.h = (zeros(d_model) for _ in range(4))
        self.i, self.j = nn.Parameter(torch.ones(d_model)), zeros(d_model)
        self.k, self.l = zeros(d_model), nn.Parameter(torch.ones(d_model))
        self.m, self.n, self.o, self.p = number(d_model, d_ff), zeros(d_ff), number(d_ff, d_model), zeros(d_model)

    def forward(self, x, mask=None):
        n = normalized(x, self.i, self.k)
        q, k, v = n @ self.c + self.f, n @ self.a + self.e, n @ self.b + self.h
        heads = attend(*(cut(t, self.n_heads) for t in (q, k, v)), mask)
        x = x + glue(heads) @ self.d + self.g
        return x + F.gelu(normalized(x, self.l, self.j) @ self.m + self.n) @ self.o + self.p


@answers("EncoderBlock")
class HeadsInTheBlock(nn.Module):
    """Lists of maps, one for each head, in the block."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        d_head = d_model // n_heads
        self.asks = nn.ModuleList(nn.Linear(d_model, d_head) for _ in range(n_heads))
        self.answers = nn.ModuleList(nn.Linear(d_model, d_head) for _ in range(n_heads))
        self.says = nn.ModuleList(nn.Linear(d_model, d_head) for _ in range(n_heads))
        self.mixer = nn.Linear(d_model, d_model)
        self.norms = nn.ModuleList([LayerNorm(d_model), LayerNorm(d_model)])
        self.feed = FeedForward(d_model, d_ff)

    def forward(self, x, mask=None):
        n, mask = self.norms[0](x), None if mask is None else mask[:, 0]
        heads = [attend(q(n), k(n), v(n), mask) for q, k, v in zip(self.asks, self.answers, self.says, strict=True)]
        x = x + self.mixer(torch.cat(heads, -1))
        return x + self.feed(self.norms[1](x))
