"""Right cross-attention and decoder blocks in the styles that people write: each class earns full marks."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from tests.answers import answers


def attention(q, k, v, mask=None):
    """What the lab gives, down to FeedForward."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def split_heads(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(-2)


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        heads, _ = attention(q, k, v, mask)
        return self.w_o(merge_heads(heads))


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        return self.gamma * centred / torch.sqrt(variance + self.eps) + self.beta


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.shrink = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.shrink(F.gelu(self.expand(x)))


# --- CrossAttention ---


@answers("CrossAttention")
class Cross(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask=None):
        q = split_heads(self.w_q(x), self.n_heads)
        k = split_heads(self.w_k(memory), self.n_heads)
        v = split_heads(self.w_v(memory), self.n_heads)
        heads, _ = attention(q, k, v, mask)
        return self.w_o(merge_heads(heads))


@answers("CrossAttention")
class CrossDerived(MultiHeadSelfAttention):
    """The given self-attention, with a forward of its own."""

    def forward(self, x, memory, mask=None):
        b, t, d = x.shape
        s = memory.shape[1]
        q = self.w_q(x).view(b, t, self.n_heads, -1).transpose(1, 2)
        k, v = (w(memory).view(b, s, self.n_heads, -1).transpose(1, 2) for w in (self.w_k, self.w_v))
        return self.w_o(attention(q, k, v, mask)[0].transpose(1, 2).contiguous().view(b, t, d))


@answers("CrossAttention")
class CrossFusedKeysValues(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, mask=None):
        q = rearrange(self.to_q(x), "b n (h d) -> b h n d", h=self.h)
        k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.h) for t in self.to_kv(memory).chunk(2, dim=-1))
        return self.to_out(rearrange(attention(q, k, v, mask)[0], "b h n d -> b n (h d)"))


@answers("CrossAttention")
class CrossHeadByHead(nn.Module):
    """A loop over slices, masks without the axis of heads."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, memory, mask=None):
        mask = None if mask is None else mask[:, 0]
        heads = []
        queries, keys, values = (
            t.chunk(self.n_heads, -1) for t in (self.query(x), self.key(memory), self.value(memory))
        )
        for q, k, v in zip(queries, keys, values, strict=True):
            heads.append(attention(q, k, v, mask)[0])
        return self.output(torch.cat(heads, -1))


@answers("CrossAttention")
class CrossEinsum(nn.Module):
    """Everything written out, raw matrices that multiply from the right, a large negative number as the fill."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d = n_heads, d_model // n_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Parameter(torch.randn(d_model, d_model) / d_model**0.5))

    def forward(self, x, memory, mask=None):
        q = (x @ self.w_q).unflatten(2, (self.h, self.d))
        k = (memory @ self.w_k).unflatten(2, (self.h, self.d))
        v = (memory @ self.w_v).unflatten(2, (self.h, self.d))
        scores = torch.einsum("bthd,bshd->bhts", q, k) * self.d**-0.5
        if mask is not None:
            scores = torch.where(mask, scores, -1e9)
        scores = scores - scores.amax(-1, keepdim=True)
        weights = scores.exp() / scores.exp().sum(-1, keepdim=True)
        return torch.einsum("bhts,bshd->bthd", weights, v).flatten(2) @ self.w_o


@answers("CrossAttention")
class CrossModulePerHead(nn.Module):
    class Head(nn.Module):
        def __init__(self, d_model, d_head):
            super().__init__()
            self.query = nn.Linear(d_model, d_head)
            self.key = nn.Linear(d_model, d_head)
            self.value = nn.Linear(d_model, d_head)

        def forward(self, x, memory, mask):
            return attention(self.query(x), self.key(memory), self.value(memory), mask)[0]

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = nn.ModuleList([self.Head(d_model, d_model // n_heads) for _ in range(n_heads)])
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask=None):
        mask = mask.squeeze(1) if mask is not None else None
        return self.proj(torch.cat([head(x, memory, mask) for head in self.heads], dim=-1))


@answers("CrossAttention")
class CrossOneMap(nn.Module):
    """One map for the three, of which the rows that are needed are used."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_model = n_heads, d_model
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask=None):
        d = self.d_model
        q = F.linear(x, self.qkv.weight[:d], self.qkv.bias[:d])
        k, v = F.linear(memory, self.qkv.weight[d:], self.qkv.bias[d:]).split(d, dim=-1)
        q, k, v = (split_heads(t, self.n_heads) for t in (q, k, v))
        return self.out(merge_heads(attention(q, k, v, mask)[0]))


@answers("CrossAttention")
class CrossTokenByToken(Cross):
    """One query at a time; prints on the way."""

    def forward(self, x, memory, mask=None):
        k, v = split_heads(self.w_k(memory), self.n_heads), split_heads(self.w_v(memory), self.n_heads)
        rows = []
        for t in range(x.size(1)):
            q = split_heads(self.w_q(x[:, t : t + 1]), self.n_heads)
            own = mask if mask is None or mask.size(-2) == 1 else mask[..., t : t + 1, :]
            rows.append(merge_heads(attention(q, k, v, own)[0]))
            print(t, rows[-1].shape)
        return self.w_o(torch.cat(rows, dim=1))


@answers("CrossAttention")
class CrossOwnNames(nn.Module):
    """Names that say nothing."""

    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.a, self.b, self.c, self.e = (nn.Linear(d, d) for _ in range(4))

    def forward(self, target, source, mask=None):
        q, k, v = self.a(target), self.b(source), self.c(source)
        q, k, v = (t.reshape(t.size(0), t.size(1), self.h, -1).permute(0, 2, 1, 3) for t in (q, k, v))
        s = torch.matmul(q, k.mT) / q.size(-1) ** 0.5
        if mask is not None:
            s = s.masked_fill(mask.logical_not(), torch.finfo(s.dtype).min)
        return self.e((torch.softmax(s, -1) @ v).permute(0, 2, 1, 3).flatten(2))


# --- DecoderBlock ---


@answers("DecoderBlock")
class Block(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1 = LayerNorm(d_model)
        self.self_attention = MultiHeadSelfAttention(d_model, n_heads)
        self.norm_2 = LayerNorm(d_model)
        self.cross_attention = Cross(d_model, n_heads)
        self.norm_3 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


@answers("DecoderBlock")
class BlockKeywords(nn.Module):
    """Layers by kind, torch's own LayerNorm, keyword arguments, a name for every step."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attn1 = MultiHeadSelfAttention(d_model, n_heads)
        self.attn2 = Cross(d_model, n_heads)
        self.ffn = FeedForward(d_model, d_ff)
        self.ln1, self.ln2, self.ln3 = nn.LayerNorm(d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, memory, mask=None, memory_mask=None):
        normed = self.ln1(x)
        after_self = x + self.attn1(x=normed, mask=mask)
        asked = self.attn2(self.ln2(after_self), memory=memory, mask=memory_mask)
        after_cross = after_self + asked
        return after_cross + self.ffn(self.ln3(after_cross))


@answers("DecoderBlock")
class BlockLists(nn.Module):
    """A list of norms and a list of branches, walked through together."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norms = nn.ModuleList(LayerNorm(d_model) for _ in range(3))
        self.layers = nn.ModuleList(
            [MultiHeadSelfAttention(d_model, n_heads), Cross(d_model, n_heads), FeedForward(d_model, d_ff)]
        )

    def forward(self, x, memory, mask=None, memory_mask=None):
        given = [(mask,), (memory, memory_mask), ()]
        for norm, layer, arguments in zip(self.norms, self.layers, given, strict=True):
            x = x + layer(norm(x), *arguments)
        return x


@answers("DecoderBlock")
class BlockCrossForBoth(nn.Module):
    """Self-attention is cross-attention to oneself."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.own, self.src_attn = Cross(d_model, n_heads), Cross(d_model, n_heads)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.norm_own, self.norm_src, self.norm_mlp = (LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):
        y = self.norm_own(x)
        x = x + self.own(y, y, mask)
        x = x + self.src_attn(self.norm_src(x), memory, memory_mask)
        return x + self.mlp(self.norm_mlp(x))


@answers("DecoderBlock")
class BlockWithResidualClass(nn.Module):
    class Residual(nn.Module):
        def __init__(self, d_model, branch):
            super().__init__()
            self.norm, self.branch = LayerNorm(d_model), branch

        def forward(self, x, *given):
            return self.branch(self.norm(x), *given) + x

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.first = self.Residual(d_model, MultiHeadSelfAttention(d_model, n_heads))
        self.second = self.Residual(d_model, Cross(d_model, n_heads))
        self.third = self.Residual(d_model, FeedForward(d_model, d_ff))

    def forward(self, x, memory, mask=None, memory_mask=None):
        return self.third(self.second(self.first(x, mask), memory, memory_mask))


@answers("DecoderBlock")
class BlockBackwards(nn.Module):
    """Everything declared from the last to the first."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_c = LayerNorm(d_model)
        self.ff = FeedForward(d_model, d_ff)
        self.norm_b = LayerNorm(d_model)
        self.crossing = Cross(d_model, n_heads)
        self.norm_a = LayerNorm(d_model)
        self.masked = MultiHeadSelfAttention(d_model, n_heads)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.masked(self.norm_a(x), mask)
        x = x + self.crossing(self.norm_b(x), memory, memory_mask)
        x = x + self.ff(self.norm_c(x))
        return x


@answers("DecoderBlock")
class BlockCopies(Block):
    """Works in place, on a copy of its own."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        stream = x.clone()
        stream += self.self_attention(self.norm_1(stream), mask)
        stream = stream.add(self.cross_attention(self.norm_2(stream), memory, memory_mask))
        return torch.add(stream, self.feed_forward(self.norm_3(stream)))


@answers("DecoderBlock")
class BlockOtherAttentions(nn.Module):
    """The attentions of other styles: a fused map for self-attention, einsum and raw matrices for the other."""

    class Fused(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            self.h = n_heads
            self.qkv = nn.Linear(d_model, 3 * d_model)
            self.out = nn.Linear(d_model, d_model)

        def forward(self, x, mask=None):
            q, k, v = (split_heads(t, self.h) for t in self.qkv(x).chunk(3, dim=-1))
            return self.out(merge_heads(attention(q, k, v, mask)[0]))

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.self_attn = self.Fused(d_model, n_heads)
        self.cross_attn = CrossEinsum(d_model, n_heads)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(d_model) for _ in range(3))

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attn(self.norm1(x), mask)
        x = x + self.cross_attn(self.norm2(x), memory, memory_mask)
        return x + self.linear2(F.gelu(self.linear1(self.norm3(x))))


@answers("DecoderBlock")
class BlockInMethods(Block):
    def look_back(self, x, mask):
        return self.self_attention(self.norm_1(x), mask)

    def look_over(self, x, memory, mask):
        return self.cross_attention(self.norm_2(x), memory, mask)

    def think(self, x):
        return self.feed_forward(self.norm_3(x))

    def forward(self, x, memory, mask=None, memory_mask=None):
        print("mask", None if mask is None else mask.shape)
        x = self.look_back(x, mask) + x
        x = self.look_over(x, memory, memory_mask) + x
        return self.think(x) + x
