"""Right answers to lab 2 in the styles that people write. Every class here earns full marks."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from tests.answers import answers


def attention(q, k, v, mask=None):
    """The single-head attention that the lab gives."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


@answers("MultiHeadSelfAttention")
class ViewTranspose(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_head, self.n_heads = d_model // n_heads, n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        b, s, d = x.shape
        q, k, v = (w(x).view(b, s, self.n_heads, self.d_head).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        out, _ = attention(q, k, v, mask)
        return self.w_o(out.transpose(1, 2).contiguous().view(b, s, d))


@answers("MultiHeadSelfAttention")
class LoopOverHeads(nn.Module):
    """Slices of the full projection, one head at a time, results collected in a list."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.output = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask=None):
        m = None if mask is None else mask[:, 0]
        size = x.shape[-1] // self.n_heads
        q, k, v = self.query(x), self.key(x), self.value(x)
        outs = []
        for h in range(self.n_heads):
            part = slice(h * size, (h + 1) * size)
            outs.append(attention(q[..., part], k[..., part], v[..., part], m)[0])
        return self.output(torch.cat(outs, dim=-1))


@answers("MultiHeadSelfAttention")
class ModulePerHead(nn.Module):
    """Each head is a module of its own, in a ModuleList."""

    class Head(nn.Module):
        def __init__(self, d_model, d_head):
            super().__init__()
            self.q_proj = nn.Linear(d_model, d_head, bias=False)
            self.k_proj = nn.Linear(d_model, d_head, bias=False)
            self.v_proj = nn.Linear(d_model, d_head, bias=False)

        def forward(self, x, mask):
            return attention(self.q_proj(x), self.k_proj(x), self.v_proj(x), mask)[0]

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = nn.ModuleList(self.Head(d_model, d_model // n_heads) for _ in range(n_heads))
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        mask = mask.squeeze(1) if mask is not None else None
        return self.out_proj(torch.cat([head(x, mask) for head in self.heads], dim=-1))


@answers("MultiHeadSelfAttention")
class ListsOfMaps(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.queries = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.keys = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.values = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q = torch.stack([f(x) for f in self.queries], 1)
        k = torch.stack([f(x) for f in self.keys], 1)
        v = torch.stack([f(x) for f in self.values], 1)
        heads = attention(q, k, v, mask)[0]
        return self.mix(torch.cat(heads.unbind(1), -1))


@answers("MultiHeadSelfAttention")
class FusedChunk(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = n_heads
        self.to_qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in self.to_qkv(x).chunk(3, dim=-1))
        return self.to_out(rearrange(attention(q, k, v, mask)[0], "b h n d -> b n (h d)"))


@answers("MultiHeadSelfAttention")
class FusedHeadsFirst(nn.Module):
    """One map whose rows are ordered head by head: q, k, v of head 0, then of head 1."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        b, s, d = x.shape
        q, k, v = self.in_proj(x).reshape(b, s, self.n_heads, 3 * d // self.n_heads).transpose(1, 2).chunk(3, -1)
        return self.proj(attention(q, k, v, mask)[0].transpose(1, 2).reshape(b, s, d))


@answers("MultiHeadSelfAttention")
class FusedKeysAndValues(nn.Module):
    """One map for keys and values, the scale kept as a frozen parameter."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(d_model, d_model, bias=False)
        self.to_kv = nn.Linear(d_model, 2 * d_model, bias=False)
        self.scale = nn.Parameter(torch.tensor((d_model // n_heads) ** -0.5), requires_grad=False)
        self.to_out = nn.Sequential(nn.Linear(d_model, d_model), nn.Identity())

    def forward(self, x, mask=None):
        q, k, v = (
            rearrange(t, "b n (h d) -> b h n d", h=self.n_heads) for t in (self.to_q(x), *self.to_kv(x).chunk(2, -1))
        )
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
        return self.to_out(rearrange(scores.softmax(-1) @ v, "b h n d -> b n (h d)"))


@answers("MultiHeadSelfAttention")
class EinsumParameters(nn.Module):
    """Raw parameters, one matrix per head, einsum all the way, softmax by hand, finfo.min as the fill."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.W_Q = nn.Parameter(torch.randn(n_heads, d_model, d_head) / d_model**0.5)
        self.W_K = nn.Parameter(torch.randn(n_heads, d_model, d_head) / d_model**0.5)
        self.W_V = nn.Parameter(torch.randn(n_heads, d_model, d_head) / d_model**0.5)
        self.W_O = nn.Parameter(torch.randn(n_heads, d_head, d_model) / d_model**0.5)

    def forward(self, x, mask=None):
        q = torch.einsum("bsd,hde->bhse", x, self.W_Q)
        k = torch.einsum("bsd,hde->bhse", x, self.W_K)
        v = torch.einsum("bsd,hde->bhse", x, self.W_V)
        scores = torch.einsum("bhqe,bhke->bhqk", q, k) * q.shape[-1] ** -0.5
        if mask is not None:
            scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        scores = scores - scores.amax(-1, keepdim=True)
        weights = scores.exp()
        weights = weights / weights.sum(-1, keepdim=True)
        return torch.einsum("bhqk,bhke,hed->bqd", weights, v, self.W_O)


@answers("MultiHeadSelfAttention")
class RawMatrices(nn.Module):
    """x @ W with square raw matrices: the other orientation than nn.Linear's."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for name in ("Wq", "Wk", "Wv", "Wo"):
            setattr(self, name, nn.Parameter(torch.empty(d_model, d_model).normal_()))

    def forward(self, x, mask=None):
        q, k, v = ((x @ w).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.Wq, self.Wk, self.Wv))
        return attention(q, k, v, mask)[0].transpose(1, 2).flatten(2) @ self.Wo


@answers("MultiHeadSelfAttention")
class NamelessLayers(nn.Module):
    """Names that say nothing, declared in an order of their own; −1e9 as the fill; loops over samples."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.linear4 = nn.Linear(d_model, d_model)
        self.linear1 = nn.Linear(d_model, d_model)
        self.linear2 = nn.Linear(d_model, d_model)
        self.linear3 = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        results = []
        for i, sample in enumerate(x):
            q, k, v = (torch.stack(f(sample).chunk(self.h, -1)) for f in (self.linear1, self.linear2, self.linear3))
            scores = torch.bmm(q, k.mT) / k.shape[-1] ** 0.5
            if mask is not None:
                keep = mask[i if len(mask) > 1 else 0]
                scores = scores.masked_fill(keep == False, -1e9)  # noqa: E712
            results.append(torch.cat(list(torch.bmm(F.softmax(scores, 2), v)), -1))
        return self.linear4(torch.stack(results))


@answers("MultiHeadSelfAttention")
class Talkative(ViewTranspose):
    """Prints, warns and keeps its weights for later: none of the grader's business."""

    def forward(self, x, mask=None):
        import sys
        import warnings

        print("x", x.shape)
        print("careful", file=sys.stderr)
        warnings.warn("slow", stacklevel=1)
        self.last = x.detach()
        return super().forward(x, mask)


@answers("MultiHeadSelfAttention")
class LoopOverPositions(ViewTranspose):
    """One query at a time."""

    def forward(self, x, mask=None):
        b, s, d = x.shape
        q, k, v = (
            torch.movedim(f(x).reshape(b, s, self.n_heads, self.d_head), 2, 1) for f in (self.w_q, self.w_k, self.w_v)
        )
        rows = []
        for t in range(s):
            m = None if mask is None else mask[:, :, t : t + 1] if mask.shape[2] > 1 else mask
            rows.append(attention(q[:, :, t : t + 1], k, v, m)[0])
        return self.w_o(torch.cat(rows, 2).permute(0, 2, 1, 3).reshape(b, s, d))


@answers("MultiHeadSelfAttention")
class InPlaceOnItsOwn(ViewTranspose):
    """Works in place, but only on tensors that it made itself."""

    def forward(self, x, mask=None):
        b, s, d = x.shape
        q = self.w_q(x).reshape(b, s, self.n_heads, -1).transpose(1, 2)
        k = self.w_k(x).reshape(b, s, self.n_heads, -1).transpose(1, 2)
        v = self.w_v(x).reshape(b, s, self.n_heads, -1).transpose(1, 2)
        scores = torch.matmul(q, k.permute(0, 1, 3, 2))
        scores *= self.d_head**-0.5
        if mask is not None:
            scores += torch.zeros_like(scores).masked_fill_(~mask, -math.inf)
        return self.w_o(scores.softmax(-1).matmul(v).swapaxes(1, 2).reshape(b, s, d))
