"""Right attention with grouped queries in the styles that people write. Every class here earns full marks."""

import math

import torch
from torch import nn

from tests.answers import answers


def attention(q, k, v, mask=None):
    """As the lab gives it."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("GroupedQueryAttention")
class Repeated(nn.Module):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.d_head, self.n_shared = d_model // n_heads, n_heads // n_groups
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, n_groups * self.d_head, bias=False)
        self.w_v = nn.Linear(d_model, n_groups * self.d_head, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None, cache=None):
        q, k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (t.repeat_interleave(self.n_shared, dim=1) for t in (k, v))
        return self.w_o(attention(q, k, v, mask)[0].transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention")
class ReadsTheCache(Repeated):
    """What `append` returns is not used: the cache has the same."""

    def forward(self, x, mask=None, cache=None):
        q, k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            cache.append(k, v)
            k, v = cache.keys, cache.values
        k, v = (t.repeat_interleave(self.n_shared, dim=1) for t in (k, v))
        return self.w_o(attention(q, k, v, mask)[0].transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention")
class WithBiases(nn.Module):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.h, self.g, self.d = n_heads, n_groups, d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, n_groups * self.d)
        self.v_proj = nn.Linear(d_model, n_groups * self.d)
        self.o_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None, cache=None):
        batch, tokens, _ = x.shape
        q = self.q_proj(x).view(batch, tokens, self.h, self.d).permute(0, 2, 1, 3)
        k = self.k_proj(x).view(batch, tokens, self.g, self.d).permute(0, 2, 1, 3)
        v = self.v_proj(x).view(batch, tokens, self.g, self.d).permute(0, 2, 1, 3)
        if cache is not None:
            k, v = cache.append(k, v)
        k = k[:, :, None].expand(-1, -1, self.h // self.g, -1, -1).flatten(1, 2)
        v = v[:, :, None].expand(-1, -1, self.h // self.g, -1, -1).flatten(1, 2)
        heads, _ = attention(q, k, v, mask)
        return self.o_proj(heads.permute(0, 2, 1, 3).reshape(batch, tokens, -1))


@answers("GroupedQueryAttention")
class ByBroadcasting(Repeated):
    """An axis for the groups and one for the heads in each: nothing is copied."""

    def forward(self, x, mask=None, cache=None):
        q = self.w_q(x).unflatten(-1, (-1, self.n_shared, self.d_head)).permute(0, 2, 3, 1, 4)
        k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_k, self.w_v))
        if cache is not None:
            k, v = cache.append(k, v)
        scores = q @ k[:, :, None].transpose(-2, -1) / self.d_head**0.5  # (batch, groups, shared, tokens, all)
        if mask is not None:
            mask = mask.expand(*mask.shape[:-2], *scores.shape[-2:]) if mask.dim() < 3 else mask
            if mask.dim() == 4:  # one mask for all heads, or one for each
                mask = mask[:, :, None] if mask.size(1) == 1 else mask.unflatten(1, (-1, self.n_shared))
            scores = scores.masked_fill(~mask, -torch.inf)
        heads = scores.softmax(-1) @ v[:, :, None]
        return self.w_o(heads.permute(0, 3, 1, 2, 4).flatten(2))


@answers("GroupedQueryAttention")
class Einsum(Repeated):
    def forward(self, x, mask=None, cache=None):
        q = torch.einsum("btd,gsed->bgste", x, self.w_q.weight.unflatten(0, (-1, self.n_shared, self.d_head)))
        k = torch.einsum("btd,ged->bgte", x, self.w_k.weight.unflatten(0, (-1, self.d_head)))
        v = torch.einsum("btd,ged->bgte", x, self.w_v.weight.unflatten(0, (-1, self.d_head)))
        if cache is not None:
            k, v = cache.append(k, v)
        scores = torch.einsum("bgste,bgue->bgstu", q, k) / math.sqrt(self.d_head)
        if mask is not None:
            scores = scores.flatten(1, 2).masked_fill(~mask, float("-inf")).view_as(scores)
        out = torch.einsum("bgstu,bgue->btgse", scores.softmax(-1), v)
        return self.w_o(out.flatten(2))


@answers("GroupedQueryAttention")
class HeadByHead(Repeated):
    def forward(self, x, mask=None, cache=None):
        k = torch.stack(self.w_k(x).split(self.d_head, dim=-1), dim=1)
        v = torch.stack(self.w_v(x).split(self.d_head, dim=-1), dim=1)
        if cache is not None:
            k, v = cache.append(k, v)
        outputs = []
        for head, q in enumerate(self.w_q(x).split(self.d_head, dim=-1)):
            group = head // self.n_shared
            own = mask if mask is None or mask.dim() < 4 else mask[:, head if mask.size(1) > 1 else 0]
            outputs.append(attention(q, k[:, group], v[:, group], own)[0])
        return self.w_o(torch.cat(outputs, dim=-1))


@answers("GroupedQueryAttention")
class Fused(nn.Module):
    """One map for all, as in many models: queries first, then keys, then values."""

    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.n_heads, self.n_groups, self.d_head = n_heads, n_groups, d_model // n_heads
        self.qkv = nn.Linear(d_model, (n_heads + 2 * n_groups) * self.d_head, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None, cache=None):
        heads = self.qkv(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
        q, k, v = heads.split([self.n_heads, self.n_groups, self.n_groups], dim=1)
        if cache is not None:
            k, v = cache.append(k, v)
        index = torch.arange(self.n_heads, device=x.device) // (self.n_heads // self.n_groups)
        return self.out(attention(q, k[:, index], v[:, index], mask)[0].transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention")
class KeysAndValuesInOne(nn.Module):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.n_heads, self.n_groups = n_heads, n_groups
        self.to_q = nn.Linear(d_model, d_model, bias=False)
        self.to_kv = nn.Linear(d_model, 2 * n_groups * d_model // n_heads, bias=False)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None, cache=None):
        q = self.to_q(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.n_groups, -1)).transpose(1, 2) for t in self.to_kv(x).chunk(2, dim=-1))
        if cache is not None:
            k, v = cache.append(k, v)
        shared = self.n_heads // self.n_groups
        k, v = torch.repeat_interleave(k, shared, 1), torch.repeat_interleave(v, shared, 1)
        out, _ = attention(q, k, v, mask)
        return self.to_out(out.transpose(1, 2).contiguous().view(x.shape))


@answers("GroupedQueryAttention")
class RawParameters(nn.Module):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.d_head = d_head = d_model // n_heads
        self.n_shared = n_heads // n_groups
        self.W_q = nn.Parameter(torch.randn(d_model, n_heads * d_head) / d_model**0.5)
        self.W_k = nn.Parameter(torch.randn(d_model, n_groups * d_head) / d_model**0.5)
        self.W_v = nn.Parameter(torch.randn(d_model, n_groups * d_head) / d_model**0.5)
        self.W_o = nn.Parameter(torch.randn(n_heads * d_head, d_model) / d_model**0.5)

    def forward(self, x, mask=None, cache=None):
        q, k, v = ((x @ w).unflatten(-1, (-1, self.d_head)).movedim(-2, 1) for w in (self.W_q, self.W_k, self.W_v))
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = torch.stack([k] * self.n_shared, 2).flatten(1, 2), torch.stack([v] * self.n_shared, 2).flatten(1, 2)
        return attention(q, k, v, mask)[0].movedim(1, -2).flatten(-2) @ self.W_o


@answers("GroupedQueryAttention")
class AMapForEachGroup(nn.Module):
    """A list of groups; each holds the maps of its heads."""

    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        d_head, self.shared = d_model // n_heads, n_heads // n_groups
        self.queries = nn.ModuleList(nn.Linear(d_model, d_head, bias=False) for _ in range(n_heads))
        self.keys = nn.ModuleList(nn.Linear(d_model, d_head, bias=False) for _ in range(n_groups))
        self.values = nn.ModuleList(nn.Linear(d_model, d_head, bias=False) for _ in range(n_groups))
        self.merge = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None, cache=None):
        k = torch.stack([key(x) for key in self.keys], dim=1)
        v = torch.stack([value(x) for value in self.values], dim=1)
        if cache is not None:
            k, v = cache.append(k, v)
        q = torch.stack([query(x) for query in self.queries], dim=1)
        of_head = [head // self.shared for head in range(q.size(1))]
        return self.merge(attention(q, k[:, of_head], v[:, of_head], mask)[0].transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention")
class MatricesOfOutputsByInputs(nn.Module):
    """Bare matrices that lie as those of nn.Linear do."""

    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.d_head, self.n_shared = d_model // n_heads, n_heads // n_groups
        narrow = n_groups * self.d_head
        self.wq, self.wk, self.wv, self.wo = (
            nn.Parameter(torch.randn(width, d_model) / math.sqrt(d_model))
            for width in (d_model, narrow, narrow, d_model)
        )

    def forward(self, x, mask=None, cache=None):
        q, k, v = ((x @ w.T).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (part.repeat_interleave(self.n_shared, dim=1) for part in (k, v))
        return attention(q, k, v, mask)[0].transpose(1, 2).flatten(2) @ self.wo.T


@answers("GroupedQueryAttention")
class BareMatricesWithTwoBiases(nn.Module):
    """Of queries and output alone, which for as many groups as heads are as long as the others would be."""

    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.h, self.g, self.d = n_heads, n_groups, d_model // n_heads
        narrow = n_groups * self.d
        self.Wq, self.Wo = (nn.Parameter(torch.randn(d_model, d_model)) for _ in range(2))
        self.Wk, self.Wv = (nn.Parameter(torch.randn(d_model, narrow)) for _ in range(2))
        self.bq, self.bo = (nn.Parameter(torch.zeros(d_model)) for _ in range(2))

    def forward(self, x, mask=None, cache=None):
        b, t, _ = x.shape
        q = (x @ self.Wq + self.bq).reshape(b, t, self.h, self.d).permute(0, 2, 1, 3)
        k, v = ((x @ w).reshape(b, t, self.g, self.d).permute(0, 2, 1, 3) for w in (self.Wk, self.Wv))
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (part.repeat_interleave(self.h // self.g, 1) for part in (k, v))
        heads, _ = attention(q, k, v, mask)
        return heads.permute(0, 2, 1, 3).reshape(b, t, -1) @ self.Wo + self.bo


@answers("GroupedQueryAttention")
class FusedByGroup(nn.Module):
    """One map, in which a group's queries, its key and its value stand side by side."""

    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.n_groups, self.share, self.d_head = n_groups, n_heads // n_groups, d_model // n_heads
        self.qkv = nn.Linear(d_model, n_groups * (self.share + 2) * self.d_head)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None, cache=None):
        parts = self.qkv(x).unflatten(-1, (self.n_groups, self.share + 2, self.d_head))
        q, k, v = parts.split([self.share, 1, 1], dim=-2)
        q, k, v = q.flatten(2, 3).transpose(1, 2), k.squeeze(-2).transpose(1, 2), v.squeeze(-2).transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        of_head = torch.arange(self.n_groups * self.share) // self.share
        heads, _ = attention(q, k[:, of_head], v[:, of_head], mask)
        return self.proj(heads.transpose(1, 2).flatten(-2))


@answers("GroupedQueryAttention")
class FusedByGroupInAMatrix(FusedByGroup):
    """The same in bare matrices, inputs by outputs."""

    def __init__(self, d_model, n_heads, n_groups):
        super().__init__(d_model, n_heads, n_groups)
        self._modules.clear()
        self.Wqkv = nn.Parameter(torch.randn(d_model, n_groups * (self.share + 2) * self.d_head) / d_model**0.5)
        self.Wo = nn.Parameter(torch.randn(d_model, d_model) / d_model**0.5)

    def qkv(self, x):
        return x @ self.Wqkv

    def proj(self, x):
        return x @ self.Wo


class OneGroup(nn.Module):
    """The heads that share a key and a value, with the columns of the last map that read them."""

    def __init__(self, d_model, d_head, members):
        super().__init__()
        self.d_head, self.members = d_head, members
        self.q = nn.Linear(d_model, members * d_head)
        self.kv = nn.Linear(d_model, 2 * d_head)
        self.o = nn.Linear(members * d_head, d_model, bias=False)

    def attend(self, x, k, v, mask):
        q = self.q(x).unflatten(-1, (self.members, self.d_head)).transpose(1, 2)
        scores = q @ k.unsqueeze(1).transpose(2, 3) / self.d_head**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == False, float("-inf"))  # noqa: E712
        return self.o((scores.softmax(3) @ v.unsqueeze(1)).transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention")
class AModuleForEachGroup(nn.Module):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.members = n_heads // n_groups
        self.groups = nn.ModuleList([OneGroup(d_model, d_model // n_heads, self.members) for _ in range(n_groups)])

    def forward(self, x, mask=None, cache=None):
        k, v = zip(*[group.kv(x).chunk(2, dim=-1) for group in self.groups], strict=True)
        k, v = torch.stack(k, 1), torch.stack(v, 1)
        if cache is not None:
            k, v = cache.append(k, v)
        total = 0
        for i, group in enumerate(self.groups):
            own = mask
            if mask is not None and mask.dim() > 2 and mask.size(-3) > 1:
                own = mask[..., i * self.members : (i + 1) * self.members, :, :]
            total = total + group.attend(x, k[:, i], v[:, i], own)
        return total
