"""Wrong caches, written as students write them; `answers` names their mistakes."""

import math

import torch
from torch import nn

from tests.answers import answers
from tests.answers.right_decoder import MultiHeadSelfAttention, attention, merge_heads, split_heads
from tests.answers.right_decoder_3_cached_self_attention import Cached
from tests.answers.wrong_decoder_1_cross_attention import causal


class Keeps(Cached):
    """The frame: `put` joins what is kept with what is new and says what to attend to and what to keep."""

    def put(self, cache, q, k, v):
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        return q, k, v, (k, v)

    def hide(self, new, every):
        return torch.ones(new, every, dtype=torch.bool).tril(every - new)

    def end(self, heads, x):
        return self.w_o(merge_heads(heads))

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        q, k, v, cache = self.put(cache, q, k, v)
        heads, _ = attention(q, k, v, self.hide(q.size(2), k.size(2)))
        return self.end(heads, x), cache


@answers("CachedSelfAttention", "recomputed")
class TokensKept(Cached):
    def forward(self, x, cache=None):
        every = x if cache is None else torch.cat([cache, x], dim=1)
        out, _ = super().forward(every)
        return out[:, -x.size(1) :], every


@answers("CachedSelfAttention", "cache_unused")
class NeverRead(Keeps):
    def put(self, cache, q, k, v):
        return q, k, v, (k, v)


@answers("CachedSelfAttention", "cache_unused")
class NeverFilled(Keeps):
    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        return q, k, v, cache


@answers("CachedSelfAttention", "only_new_kept")
class OneCallBack(Keeps):
    def put(self, cache, q, k, v):
        q, every_k, every_v, _ = super().put(cache, q, k, v)
        return q, every_k, every_v, (k, v)


@answers("CachedSelfAttention", "new_first")
class NewFirst(Keeps):
    def put(self, cache, q, k, v):
        if cache is not None:
            k, v = torch.cat([k, cache[0]], dim=2), torch.cat([v, cache[1]], dim=2)
        return q, k, v, (k, v)


@answers("CachedSelfAttention", "over_features")
class AlongFeatures(Keeps):
    def put(self, cache, q, k, v):
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=-1), torch.cat([cache[1], v], dim=-1)
        return q, k, v, (k, v)


@answers("CachedSelfAttention", "over_features")
class AlongHeads(Keeps):
    """dim=1 would be right before the heads are split."""

    def put(self, cache, q, k, v):
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
        return q, k, v, (k, v)


@answers("CachedSelfAttention", "queries_kept")
class QueriesToo(Keeps):
    def put(self, cache, q, k, v):
        if cache is not None:
            q, k, v = (torch.cat(pair, dim=2) for pair in zip(cache, (q, k, v), strict=True))
        return q, k, v, (q, k, v)


@answers("CachedSelfAttention", "exchanged")
class OutInTheOtherOrder(Keeps):
    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        return q, k, v, (v, k)


@answers("CachedSelfAttention", "over_features")
class KeysOnly(Keeps):
    def put(self, cache, q, k, v):
        if cache is not None:
            k = torch.cat([cache, k], dim=2)
        return q, k, v, k


@answers("CachedSelfAttention", "no_causal_mask")
class NoMask(Keeps):
    def hide(self, new, every):
        return None


@answers("CachedSelfAttention", "mask_from_the_first")
class PlainTril(Keeps):
    def hide(self, new, every):
        return torch.ones(new, every).tril().bool()


@answers("CachedSelfAttention", "mask_of_the_new")
class MaskOfTheNew(Keeps):
    def hide(self, new, every):
        return causal(new)


@answers("CachedSelfAttention", "no_self")
class NotItself(Keeps):
    def hide(self, new, every):
        return torch.ones(new, every, dtype=torch.bool).tril(every - new - 1)


@answers("CachedSelfAttention", "view_split")
class CachedStraightView(Keeps):
    def forward(self, x, cache=None):
        q, k, v = (w(x).view(x.size(0), self.n_heads, x.size(1), -1) for w in (self.w_q, self.w_k, self.w_v))
        q, k, v, cache = self.put(cache, q, k, v)
        heads, _ = attention(q, k, v, self.hide(q.size(2), k.size(2)))
        return self.end(heads, x), cache


@answers("CachedSelfAttention", "view_merge")
class CachedMergedAsTheyLie(Keeps):
    def end(self, heads, x):
        return self.w_o(heads.reshape(x.shape))


@answers("CachedSelfAttention", "view_transposed")
class CachedViewTransposed(Keeps):
    def end(self, heads, x):
        return self.w_o(heads.transpose(1, 2).view(*x.shape))


@answers("CachedSelfAttention", "interleaved")
class CachedHeadsLast(Keeps):
    def forward(self, x, cache=None):
        maps = (self.w_q, self.w_k, self.w_v)
        q, k, v = (w(x).unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2) for w in maps)
        q, k, v, cache = self.put(cache, q, k, v)
        heads, _ = attention(q, k, v, self.hide(q.size(2), k.size(2)))
        return self.end(heads, x), cache


@answers("CachedSelfAttention", "no_output")
class CachedNotMixed(Keeps):
    def end(self, heads, x):
        return merge_heads(heads)


@answers("CachedSelfAttention", "residual")
class CachedAddsX(Keeps):
    def end(self, heads, x):
        return x + self.w_o(merge_heads(heads))


@answers("CachedSelfAttention", "k_for_v")
class CachedKeysTwice(Keeps):
    def put(self, cache, q, k, v):
        k = k if cache is None else torch.cat([cache, k], dim=2)
        return q, k, k, k


@answers("CachedSelfAttention", "overwritten")
class CachedInPlace(Keeps):
    def forward(self, x, cache=None):
        out, cache = super().forward(x, cache)
        x.mul_(2)
        return out, cache


@answers("CachedSelfAttention", "unregistered")
class CachedPlainTensors(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.maps = {role: torch.randn(d_model, d_model) for role in "qkvo"}

    def forward(self, x, cache=None):
        q, k, v = (split_heads(x @ self.maps[role], self.n_heads) for role in "qkv")
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        mask = torch.ones(x.size(1), k.size(2), dtype=torch.bool).tril(k.size(2) - x.size(1))
        return merge_heads(attention(q, k, v, mask)[0]) @ self.maps["o"], (k, v)


# two at once


@answers("CachedSelfAttention", "only_new_kept", "no_causal_mask")
class OneCallBackNoMask(OneCallBack):
    def hide(self, new, every):
        return None


@answers("CachedSelfAttention", "recomputed", "no_output")
class TokensKeptNotMixed(CachedNotMixed):
    def forward(self, x, cache=None):
        every = x if cache is None else torch.cat([cache, x], dim=1)
        out, _ = super().forward(every)
        return out[:, -x.size(1) :], every


@answers("CachedSelfAttention", "new_first", "no_output")
class NewFirstNotMixed(NewFirst):
    def end(self, heads, x):
        return merge_heads(heads)


@answers("CachedSelfAttention", "cache_unused", "no_causal_mask")
class PlainSelfAttention(MultiHeadSelfAttention):
    """The given self-attention with a second result."""

    def forward(self, x, cache=None):
        return super().forward(x), cache


@answers("CachedSelfAttention", "exchanged", "mask_from_the_first")
class ExchangedPlainTril(OutInTheOtherOrder):
    def hide(self, new, every):
        return torch.ones(new, every).tril().bool()


# on no list


@answers("CachedSelfAttention")
class KeptForGood(Cached):
    """Kept on the module, where the next text finds it."""

    kept = None

    def forward(self, x, cache=None):
        out, self.kept = super().forward(x, self.kept)
        return out, self.kept


@answers("CachedSelfAttention")
class NoCacheReturned(Cached):
    def forward(self, x, cache=None):
        return super().forward(x, cache)[0]


@answers("CachedSelfAttention")
class ThreeResults(Cached):
    def forward(self, x, cache=None):
        out, (k, v) = super().forward(x, cache)
        return out, k, v


@answers("CachedSelfAttention")
class FirstTokenForgotten(Keeps):
    """A window that lets go of the oldest token."""

    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        return q, k, v, (k[:, :, -2:], v[:, :, -2:])


@answers("CachedSelfAttention")
class OldOnesAveraged(Keeps):
    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        return q, k, v, (k.mean(2, keepdim=True), v.mean(2, keepdim=True))


@answers("CachedSelfAttention")
class OnlyTheOld(Keeps):
    """The new tokens see the cache and not each other."""

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        if cache is None:
            return self.end(attention(q, k, v, self.hide(x.size(1), x.size(1)))[0], x), (k, v)
        heads, _ = attention(q, *cache)
        return self.end(heads, x), (torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2))


@answers("CachedSelfAttention")
class OutputsKept(Keeps):
    """What is kept are outputs, which become keys and values of later tokens."""

    def forward(self, x, cache=None):
        every = x if cache is None else torch.cat([cache, x], dim=1)
        k, v = split_heads(self.w_k(every), self.n_heads), split_heads(self.w_v(every), self.n_heads)
        q = split_heads(self.w_q(x), self.n_heads)
        out = self.end(attention(q, k, v, self.hide(q.size(2), k.size(2)))[0], x)
        return out, out if cache is None else torch.cat([cache, out], dim=1)


@answers("CachedSelfAttention")
class ReturnsEverything(Keeps):
    """The output of all tokens so far, kept and returned."""

    def forward(self, x, cache=None):
        k_v, outs = (None, []) if cache is None else cache
        out, k_v = super().forward(x, k_v)
        outs = [*outs, out]
        return torch.cat(outs, dim=1), (k_v, outs)


@answers("CachedSelfAttention")
class WindowOfThree(Keeps):
    def hide(self, new, every):
        return super().hide(new, every) & torch.ones(new, every, dtype=torch.bool).triu(every - new - 2)


@answers("CachedSelfAttention")
class KeysMixedIn(Keeps):
    """Each call adds the mean of the old keys to the new ones."""

    def put(self, cache, q, k, v):
        if cache is not None:
            k = k + cache[0].mean(2, keepdim=True)
        return super().put(cache, q, k, v)


@answers("CachedSelfAttention")
class CachedFilledWithMinus10000(Keeps):
    def weigh(self, scores, seen):
        return scores.masked_fill(~seen, -1e4).softmax(-1)

    def forward(self, x, cache=None):
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        q, k, v, cache = self.put(cache, q, k, v)
        weights = self.weigh(q @ k.mT / math.sqrt(q.size(-1)), self.hide(q.size(2), k.size(2)))
        return self.end(weights @ v, x), cache


@answers("CachedSelfAttention", "no_self")
class NotItselfAndFilled(CachedFilledWithMinus10000):
    """The first token has nothing left to see: filled with a finite number, it sees all."""

    def hide(self, new, every):
        return super().hide(new, every).tril(every - new - 1)

    def weigh(self, scores, seen):
        return scores.masked_fill(~seen, -1e9).softmax(-1)


@answers("CachedSelfAttention", "no_maximum")
class CachedNaiveSoftmax(CachedFilledWithMinus10000):
    def weigh(self, scores, seen):
        powers = scores.masked_fill(~seen, -math.inf).exp()
        return powers / powers.sum(-1, keepdim=True)


@answers("CachedSelfAttention")
class WritesIntoTheCache(Keeps):
    def put(self, cache, q, k, v):
        q, k, v, _ = super().put(cache, q, k, v)
        if cache is not None:
            cache[:] = [k, v]
        return q, k, v, cache or [k, v]


@answers("CachedSelfAttention")
class CachedOnTheModule(Cached):
    """Kept on the module, and forgotten when a new text begins."""

    def forward(self, x, cache=None):
        if cache is None:
            self.keys = self.values = x.new_zeros(x.size(0), self.n_heads, 0, x.size(2) // self.n_heads)
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        self.keys, self.values = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        new, every = k.size(2), self.keys.size(2)
        mask = torch.ones(new, every, dtype=torch.bool).tril(every - new)
        return self.w_o(merge_heads(attention(q, self.keys, self.values, mask)[0])), True
