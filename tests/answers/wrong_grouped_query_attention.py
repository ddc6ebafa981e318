"""Wrong attention with grouped queries; `answers` names the mistakes, or none that is on a list."""

import torch
from torch import nn

from tests.answers import answers
from tests.answers.right_grouped_query_attention import attention


class Maps(nn.Module):
    """The maps and the heads of a right answer; subclasses exchange one thing."""

    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.n_heads, self.n_groups = n_heads, n_groups
        self.d_head, self.n_shared = d_model // n_heads, n_heads // n_groups
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, n_groups * self.d_head, bias=False)
        self.w_v = nn.Linear(d_model, n_groups * self.d_head, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def split(self, x):
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def keep(self, k, v, cache):
        return (k, v) if cache is None else cache.append(k, v)

    def share(self, t):
        return t.repeat_interleave(self.n_shared, dim=1)

    def attend(self, q, k, v, mask):
        return attention(q, k, v, mask)[0]

    def forward(self, x, mask=None, cache=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        k, v = self.keep(k, v, cache)
        heads = self.attend(q, self.share(k), self.share(v), mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention", "unregistered")
class DictOfMaps(Maps):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__(d_model, n_heads, n_groups)
        self.maps = {"k": self.w_k, "v": self.w_v}
        del self.w_k, self.w_v

    def forward(self, x, mask=None, cache=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.maps["k"](x)), self.split(self.maps["v"](x))
        k, v = self.keep(k, v, cache)
        heads = self.attend(q, self.share(k), self.share(v), mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention", "overwritten")
class InPlace(Maps):
    def forward(self, x, mask=None, cache=None):
        out = super().forward(x, mask, cache)
        with torch.no_grad():
            x += 1
        return out


@answers("GroupedQueryAttention", "tiled")
class Tiled(Maps):
    def share(self, t):
        return t.repeat(1, self.n_shared, 1, 1)


@answers("GroupedQueryAttention", "tiled")
class Concatenated(Maps):
    def share(self, t):
        return torch.cat([t] * self.n_shared, dim=1)


@answers("GroupedQueryAttention", "full_width")
class NothingShared(Maps):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__(d_model, n_heads, n_heads)


@answers("GroupedQueryAttention", "per_group")
class GroupsOfThatSize(Maps):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__(d_model, n_heads, n_heads // n_groups)


@answers("GroupedQueryAttention", "first_group")
class FirstGroup(Maps):
    def share(self, t):
        return t[:, :1]


@answers("GroupedQueryAttention", "values_tiled")
class ValuesTiled(Maps):
    def forward(self, x, mask=None, cache=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        k, v = self.keep(k, v, cache)
        heads = self.attend(q, self.share(k), v.repeat(1, self.n_shared, 1, 1), mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention", "repeated_in_the_cache")
class RepeatedFirst(Maps):
    def keep(self, k, v, cache):
        k, v = super().share(k), super().share(v)
        return (k, v) if cache is None else cache.append(k, v)

    def share(self, t):
        return t


@answers("GroupedQueryAttention", "cache_ignored")
class NotAssigned(Maps):
    """With the cache's tokens in the mask, the shapes do not fit: the last columns are taken."""

    def forward(self, x, mask=None, cache=None):
        if cache is not None:
            cache.append(self.split(self.w_k(x)), self.split(self.w_v(x)))
            mask = None if mask is None else mask[..., -x.size(1) :]
        return super().forward(x, mask)


@answers("GroupedQueryAttention", "cache_ignored")
class CacheUnused(Maps):
    def forward(self, x, mask=None, cache=None):
        return super().forward(x, mask)


@answers("GroupedQueryAttention", "view_split")
class ViewSplit(Maps):
    def split(self, x):
        return x.reshape(x.size(0), -1, x.size(1), self.d_head)


@answers("GroupedQueryAttention", "view_transposed")
class ViewAfterTranspose(Maps):
    def forward(self, x, mask=None, cache=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        k, v = self.keep(k, v, cache)
        heads = self.attend(q, self.share(k), self.share(v), mask)
        return self.w_o(heads.transpose(1, 2).view(x.shape))


@answers("GroupedQueryAttention", "view_merge")
class MergedByReshape(Maps):
    def forward(self, x, mask=None, cache=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        k, v = self.keep(k, v, cache)
        return self.w_o(self.attend(q, self.share(k), self.share(v), mask).reshape(x.shape))


@answers("GroupedQueryAttention", "interleaved")
class Interleaved(Maps):
    def split(self, x):
        return x.unflatten(-1, (self.d_head, -1)).permute(0, 3, 1, 2)


@answers("GroupedQueryAttention", "no_output")
class NoOutputMap(Maps):
    def forward(self, x, mask=None, cache=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        k, v = self.keep(k, v, cache)
        return self.attend(q, self.share(k), self.share(v), mask).transpose(1, 2).flatten(2)


@answers("GroupedQueryAttention", "residual")
class Residual(Maps):
    def forward(self, x, mask=None, cache=None):
        return x + super().forward(x, mask, cache)


@answers("GroupedQueryAttention", "k_for_v")
class KeysAsValues(Maps):
    def forward(self, x, mask=None, cache=None):
        q, k = self.split(self.w_q(x)), self.split(self.w_k(x))
        k, v = self.keep(k, k, cache)
        heads = self.attend(q, self.share(k), self.share(v), mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))


class OwnAttention(Maps):
    def scaled(self, scores, q):
        return scores / q.size(-1) ** 0.5

    def masked(self, scores, mask):
        return scores if mask is None else scores.masked_fill(~mask, float("-inf"))

    def normalised(self, scores):
        return scores.softmax(dim=-1)

    def attend(self, q, k, v, mask):
        return self.normalised(self.masked(self.scaled(q @ k.mT, q), mask)) @ v


@answers("GroupedQueryAttention", "unscaled")
class Unscaled(OwnAttention):
    def scaled(self, scores, q):
        return scores


@answers("GroupedQueryAttention", "by_d_model")
class ByDModel(OwnAttention):
    def scaled(self, scores, q):
        return scores / self.w_q.in_features**0.5


@answers("GroupedQueryAttention", "columns")
class Columns(OwnAttention):
    def normalised(self, scores):
        return scores.softmax(dim=-2)


@answers("GroupedQueryAttention", "no_maximum")
class Overflows(OwnAttention):
    def normalised(self, scores):
        return scores.exp() / scores.exp().sum(-1, keepdim=True)


@answers("GroupedQueryAttention", "mask_ignored")
class MaskIgnored(Maps):
    def attend(self, q, k, v, mask):
        return attention(q, k, v)[0]


@answers("GroupedQueryAttention", "filled_with_0")
class FilledWith0(OwnAttention):
    def masked(self, scores, mask):
        return scores if mask is None else scores * mask


@answers("GroupedQueryAttention", "mask_inverted")
class MaskInverted(OwnAttention):
    def masked(self, scores, mask):
        return scores if mask is None else scores.masked_fill(mask, float("-inf"))


# --- two at once ---


@answers("GroupedQueryAttention", "tiled", "residual")
class TiledAndResidual(Tiled):
    def forward(self, x, mask=None, cache=None):
        return x + super().forward(x, mask, cache)


@answers("GroupedQueryAttention", "tiled", "mask_ignored")
class TiledAndUnmasked(Tiled):
    def attend(self, q, k, v, mask):
        return attention(q, k, v)[0]


# --- on no list ---


@answers("GroupedQueryAttention")
class QueriesAveraged(Maps):
    """The queries of a group are averaged: one head for each group, copied."""

    def forward(self, x, mask=None, cache=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        q = q.unflatten(1, (self.n_groups, self.n_shared)).mean(2)
        k, v = self.keep(k, v, cache)
        heads = self.attend(q, k, v, mask).repeat_interleave(self.n_shared, 1)
        return self.w_o(heads.transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention")
class CausalAlways(OwnAttention):
    def masked(self, scores, mask):
        return scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf"))


@answers("GroupedQueryAttention")
class AppendedTwice(Maps):
    def keep(self, k, v, cache):
        if cache is not None:
            cache.append(k, v)
        return super().keep(k, v, cache)


@answers("GroupedQueryAttention")
class MaskOfTheNew(Maps):
    """A causal mask of its own, which forgets that the cache holds tokens."""

    def attend(self, q, k, v, mask):
        if mask is not None:
            mask = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril()
        return attention(q, k, v, mask)[0]


@answers("GroupedQueryAttention")
class ReadsTheCacheItself(Maps):
    """Joined by hand, and never appended: the next call would miss these tokens."""

    def keep(self, k, v, cache):
        if cache is None or cache.keys is None:
            return k, v
        return torch.cat([cache.keys, k], 2), torch.cat([cache.values, v], 2)


@answers("GroupedQueryAttention")
class AnEmptyCacheIsFalse(Maps):
    """`if cache:` is false for a cache that is empty, so the first tokens are never kept."""

    def keep(self, k, v, cache):
        return cache.append(k, v) if cache else (k, v)


@answers("GroupedQueryAttention")
class DetachedInTraining(Maps):
    """Nothing shows but in the gradients of training mode."""

    def keep(self, k, v, cache):
        return (k, v) if cache is None else cache.append(k, v.detach() if self.training else v)


@answers("GroupedQueryAttention")
class PrefersItsOwn(Maps):
    """Keeps what the last call has kept, and takes it for what a cache of that length holds."""

    kept = None

    def keep(self, k, v, cache):
        if cache is None:
            return k, v
        n_new = k.size(2)
        k, v = cache.append(k, v)
        if self.kept is not None and self.kept[0].shape == k[:, :, :-n_new].shape:
            k, v = (torch.cat([old, new[:, :, -n_new:]], 2) for old, new in zip(self.kept, (k, v), strict=True))
        self.kept = k.detach(), v.detach()
        return k, v


@answers("GroupedQueryAttention")
class Fused(Maps):
    def attend(self, q, k, v, mask):
        return nn.functional.scaled_dot_product_attention(q, k, v, mask)


@answers("GroupedQueryAttention")
class Nothing(Maps):
    def forward(self, x, mask=None, cache=None):
        super().forward(x, mask, cache)
