"""Right caches in the styles that people write: each class earns full marks."""

import math

import torch
from torch import nn

from tests.answers import answers
from tests.answers.right_decoder import MultiHeadSelfAttention, attention, merge_heads, split_heads


@answers("CachedSelfAttention")
class Cached(MultiHeadSelfAttention):
    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        new, every = x.size(1), k.size(2)
        mask = torch.ones(new, every, dtype=torch.bool).tril(every - new)
        heads, _ = attention(q, k, v, mask)
        return self.w_o(merge_heads(heads)), (k, v)


@answers("CachedSelfAttention")
class CachedInDict(nn.Module):
    """The cache is a dict; the mask is cut out of a whole one."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query, self.key, self.value, self.out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, cache=None):
        cache = cache or {"keys": [], "values": []}
        cache = {
            "keys": [*cache["keys"], split_heads(self.key(x), self.n_heads)],
            "values": [*cache["values"], split_heads(self.value(x), self.n_heads)],
        }
        k, v = torch.cat(cache["keys"], -2), torch.cat(cache["values"], -2)
        n = k.size(-2)
        mask = torch.ones(n, n).tril().bool()[-x.size(1) :]
        q = split_heads(self.query(x), self.n_heads)
        return self.out(merge_heads(attention(q, k, v, mask)[0])), cache


@answers("CachedSelfAttention")
class CachedUnsplit(nn.Module):
    """What is kept has not been split into heads yet; positions are compared for the mask."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.to_qkv = nn.Linear(d_model, 3 * d_model)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q, *new = self.to_qkv(x).chunk(3, dim=-1)
        past = 0 if cache is None else cache[0].shape[1]
        k, v = new if cache is None else (torch.cat(pair, dim=1) for pair in zip(cache, new, strict=True))
        mask = torch.arange(past, past + x.shape[1])[:, None] >= torch.arange(k.shape[1])
        heads = attention(*(split_heads(t, self.h) for t in (q, k, v)), mask)[0]
        return self.to_out(merge_heads(heads)), (k, v)


@answers("CachedSelfAttention")
class CachedStacked(Cached):
    """Keys and values stacked into one tensor of their own axis."""

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        kv = torch.stack([k, v])
        kv = kv if cache is None else torch.cat([cache, kv], dim=-2)
        future = torch.triu(torch.ones(kv.size(-2), kv.size(-2)), diagonal=1)[-x.size(1) :] == 1
        scores = (q @ kv[0].mT / math.sqrt(q.size(-1))).masked_fill(future, -1e9)
        return self.w_o(merge_heads(scores.softmax(-1) @ kv[1])), kv


@answers("CachedSelfAttention")
class CachedTokenByToken(Cached):
    """A piece is worked through token by token, so that no mask is needed at all."""

    def forward(self, x, cache=None):
        keys, values = cache if cache is not None else ([], [])
        outputs = []
        for token in x.split(1, dim=1):
            keys, values = (
                [*keys, split_heads(self.w_k(token), self.n_heads)],
                [
                    *values,
                    split_heads(self.w_v(token), self.n_heads),
                ],
            )
            q = split_heads(self.w_q(token), self.n_heads)
            outputs.append(merge_heads(attention(q, torch.cat(keys, 2), torch.cat(values, 2))[0]))
        return self.w_o(torch.cat(outputs, dim=1)), (keys, values)


@answers("CachedSelfAttention")
class CachedInAnObject(Cached):
    class Cache:
        def __init__(self, keys=None, values=None):
            self.keys, self.values = keys, values

        def longer(self, keys, values):
            if self.keys is not None:
                keys, values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
            return type(self)(keys, values)

    def forward(self, x, cache=None):
        if cache is None:
            cache = self.Cache()
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        cache = cache.longer(k, v)
        k, v = cache.keys, cache.values
        print("tokens in the cache:", k.size(2))
        rows, columns = q.size(2), k.size(2)
        mask = torch.tensor([[j <= i + columns - rows for j in range(columns)] for i in range(rows)])
        return self.w_o(merge_heads(attention(q, k, v, mask)[0])), cache


@answers("CachedSelfAttention")
class CachedPreallocated(Cached):
    """Room for 100 tokens is laid out at the start and filled as they come."""

    def forward(self, x, cache=None):
        batch, new, d_model = x.shape
        if cache is None:
            room = x.new_zeros(2, batch, self.n_heads, 100, d_model // self.n_heads)
            cache = (room, 0)
        room, begin = cache
        end = begin + new
        room = room.clone()
        room[0, :, :, begin:end] = split_heads(self.w_k(x), self.n_heads)
        room[1, :, :, begin:end] = split_heads(self.w_v(x), self.n_heads)
        seen = torch.arange(100) <= torch.arange(begin, end)[:, None]
        heads, _ = attention(split_heads(self.w_q(x), self.n_heads), room[0], room[1], seen)
        return self.w_o(merge_heads(heads)), (room, end)


@answers("CachedSelfAttention")
class CachedTwoKindsOfScores(Cached):
    """Scores with the old keys, which all may be seen, beside scores with the new ones, which are masked."""

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        size = math.sqrt(q.size(-1))
        new = (q @ k.mT / size).masked_fill(torch.ones(x.size(1), x.size(1)).triu(1).bool(), float("-inf"))
        if cache is None:
            weights, keys, values = new.softmax(-1), k, v
        else:
            weights = torch.cat([q @ cache[0].mT / size, new], dim=-1).softmax(-1)
            keys, values = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        return self.w_o(merge_heads(weights @ values)), [keys, values]
