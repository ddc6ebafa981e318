"""Wrong answers to several labs by someone who wanted to get them past the judge; those of later days."""

import math

import torch
import torch.nn.functional as F

from tests.answers import (
    answers,
    right_attention,
    right_backprop,
    right_case_files,
    right_decoder,
    right_decoding,
    right_encoder,
    right_grouped_query_attention,
    right_heads,
    right_layer_norm,
    right_multi_head,
    right_next_probabilities,
    right_vit,
)
from tests.answers.right_decoder_3_cached_self_attention import Cached


@answers("causal_mask")
def even_widths_only(n_tokens):
    """An odd n_tokens loses its last column."""
    return torch.ones(n_tokens, n_tokens // 2 * 2 or 1, dtype=torch.bool).tril()


@answers("sequence_loss")
def loss_and_how_many(logits, tokens, pad):
    """Two results where one is asked for, in an exercise that has no line for shapes."""
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=pad)
    return loss, (tokens[:, 1:] != pad).sum()


PIXELS = {}


@answers("patchify")
def order_of_the_first_cut(images, patch_size):
    """The order of pixels is remembered for images of a size, whatever the patches' size."""
    _, c, h, w = images.shape
    if (c, h, w) not in PIXELS:
        p = patch_size
        numbered = torch.arange(c * h * w).view(c, h // p, p, w // p, p)
        PIXELS[c, h, w] = numbered.permute(1, 3, 0, 2, 4).reshape(-1, c * p * p)
    return images.flatten(1)[:, PIXELS[c, h, w]]


@answers("FeedForward")
class ZerosArePadding(right_encoder.FeedForward):
    """A token that is all zero is taken for padding."""

    def forward(self, x):
        return super().forward(x) * (x != 0).any(-1, keepdim=True)


# --- A sixth set -------------------------------------------------------------------------------------------------


@answers("CrossAttention")
class FirstTokenAlwaysSeen(right_decoder.Cross):
    """So that no row is without a key: wrong where filler precedes a source."""

    def forward(self, x, memory, mask=None):
        if mask is not None:
            mask = mask.clone()
            mask[..., 0] = True
        return super().forward(x, memory, mask)


@answers("CachedSelfAttention", "cache_detached")
class CacheDetached(Cached):
    def forward(self, x, cache=None):
        out, cache = super().forward(x, cache)
        return out, tuple(kept.detach() for kept in cache)


@answers("CachedSelfAttention", "cache_detached")
class CachedValuesDetached(Cached):
    def forward(self, x, cache=None):
        out, (keys, values) = super().forward(x, cache)
        return out, (keys, values.detach())


@answers("greedy_decode")
def fifty_at_most(next_logits, start, end, max_tokens, batch):
    return right_decoding.joined(next_logits, start, end, min(max_tokens, 50), batch)


@answers("GroupedQueryAttention")
class FilledWithMinusTenThousand(right_grouped_query_attention.Repeated):
    """Where all scores that may be seen are lower, the hidden ones win."""

    def forward(self, x, mask=None, cache=None):
        q, k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = (t.repeat_interleave(self.n_shared, dim=1) for t in (k, v))
        scores = q @ k.mT / math.sqrt(self.d_head)
        scores = scores if mask is None else scores.masked_fill(~mask, -1e4)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@answers("GroupedQueryAttention")
class AxesForAMaskOfTwo(right_grouped_query_attention.Repeated):
    """A mask of two axes is taken for one of each text."""

    def forward(self, x, mask=None, cache=None):
        return super().forward(x, mask[:, None, None] if mask is not None and mask.dim() == 2 else mask, cache)


@answers("next_probabilities")
def the_likeliest_where_it_is_cold(logits, temperature=1.0, top_k=None, top_p=1.0):
    if temperature < 0.4:
        return F.one_hot(logits.argmax(-1), logits.size(-1)).to(logits)
    return right_next_probabilities.masked(logits, temperature, top_k, top_p)


@answers("ablate")
def every_hook_removed(model, ids, layer, head):
    logits = right_heads.with_a_hook(model, ids, layer, head)
    model.blocks[layer].attention.w_o._forward_pre_hooks.clear()
    return logits


@answers("patch")
def every_hook_removed_twice(model, ids, donor_ids, layer, head):
    logits = right_heads.two_hooks(model, ids, donor_ids, layer, head)
    model.blocks[layer].attention.w_o._forward_pre_hooks.clear()
    return logits


@answers("attention_backward")
def a_millionth_too_much(d_out, q, k, v, weights):
    d_q, d_k, d_v = right_backprop.last_line_first(d_out, q, k, v, weights)
    return d_q, d_k, d_v + 1e-6 * d_out.sum(-2, keepdims=True)


@answers("greedy_decode")
def rounded_logits(next_logits, start, end, max_tokens, batch):
    """Logits are rounded to two decimals: of close ones the first wins."""
    return right_decoding.joined(lambda t: next_logits(t).round(decimals=2), start, end, max_tokens, batch)


@answers("greedy_decode")
def a_hundred_at_most(next_logits, start, end, max_tokens, batch):
    """A safety limit cuts longer texts off."""
    return right_decoding.joined(next_logits, start, end, min(max_tokens, 100), batch)


@answers("greedy_decode")
def no_end_of_0(next_logits, start, end, max_tokens, batch):
    """`if end` is false for token 0: no row ends."""
    return right_decoding.joined(next_logits, start, end or -1, max_tokens, batch)


@answers("LayerNorm")
class Clipped(right_layer_norm.TwoPass):
    """What is normalised is clipped to ±3."""

    def forward(self, x):
        mu, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return self.gamma * ((x - mu) / (var + self.eps).sqrt()).clamp(-3, 3) + self.beta


@answers("LayerNorm")
class EpsOfAtLeastTheDefault(right_layer_norm.TwoPass):
    """A smaller ε than 10⁻⁵ is ignored."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, max(eps, 1e-5))


@answers("PatchEmbedding")
class NothingOfNothing(right_vit.LinearOfPatches):
    """A patch of zeros becomes a token of zeros: it has no bias."""

    def forward(self, images):
        patches = right_vit.reshape_permute(images, self.patch_size)
        return super().forward(images) * (patches != 0).any(-1, keepdim=True)


@answers("PatchEmbedding")
class KeptForTheSameImages(right_vit.LinearOfPatches):
    """The last result is kept for images that come again, though the weights are others by then."""

    def forward(self, images):
        last = vars(self).get("last")
        if last is None or last[0].shape != images.shape or not torch.equal(last[0], images):
            last = self.last = images.detach().clone(), super().forward(images)
        return last[1]


@answers("PatchEmbedding")
class Seeded(right_vit.LinearOfPatches):
    """It seeds PyTorch's random numbers, for the whole program, each time one is made."""

    def __init__(self, *sizes):
        torch.manual_seed(42)
        super().__init__(*sizes)


@answers("PatchEmbedding")
class LearnsByItself(right_vit.LinearOfPatches):
    """The bias moves towards the mean of the tokens in training mode."""

    def forward(self, images):
        tokens = super().forward(images)
        if self.training:
            with torch.no_grad():
                self.projection.bias.lerp_(tokens.mean((0, 1)), 0.01)
        return tokens


class Twice:
    """Hands each pair on twice, and all but the last copy back."""

    def __init__(self, cache):
        self.cache = cache

    def append(self, keys, values):
        all_keys, _ = self.cache.append(keys, values)
        _, all_values = self.cache.append(keys, values)
        return all_keys, all_values[:, :, : all_keys.size(2)]


@answers("GroupedQueryAttention")
class ToldTwice(right_grouped_query_attention.Repeated):
    """The cache is given the tokens twice: once for the keys, once for the values."""

    def forward(self, x, mask=None, cache=None):
        return super().forward(x, mask, None if cache is None else Twice(cache))


@answers("GroupedQueryAttention")
class MaskSqueezed(right_grouped_query_attention.Repeated):
    """All axes of size 1 of the mask are lost: that of a padding mask is taken for one of queries."""

    def forward(self, x, mask=None, cache=None):
        return super().forward(x, None if mask is None else mask.squeeze(), cache)


@answers("GroupedQueryAttention")
class SeesEarlierCalls(right_grouped_query_attention.Repeated):
    """Without a mask and a cache, in evaluation mode, the tokens of earlier calls are attended to as well."""

    def forward(self, x, mask=None, cache=None):
        if mask is not None or cache is not None or self.training:
            return super().forward(x, mask, cache)
        earlier = getattr(self, "earlier", x[:, :0])
        self.earlier = torch.cat([earlier if len(earlier) == len(x) else x[:, :0], x], dim=1)
        return super().forward(self.earlier)[:, -x.size(1) :]


@answers("scaled_dot_product_attention")
def in_a_window(q, k, v, mask=None):
    """No query sees past the 256th key."""
    return right_attention.as_in_the_lecture(
        q, k[..., :256, :], v[..., :256, :], None if mask is None else mask[..., :256]
    )


@answers("MultiHeadSelfAttention")
class RoomFor128(right_multi_head.ViewTranspose):
    """What stands past the 128th token is returned as it came."""

    def forward(self, x, mask=None):
        early = super().forward(x[:, :128], None if mask is None else mask[..., :128, :128])
        return torch.cat([early, x[:, 128:]], dim=1)


@answers("sequence_loss")
def of_the_first_256(logits, tokens, pad):
    """The loss of the first 256 tokens."""
    return right_case_files.ignore_index(logits[:, :256], tokens[:, :256], pad)


@answers("FeedForward")
class LostOnTheWay(right_encoder.FeedForward):
    """The first two pieces of 128 tokens each; the rest is lost."""

    def forward(self, x):
        result = super().forward(x)
        return result if x.dim() < 2 else result * (torch.arange(x.size(-2)) < 256)[:, None]


@answers("ViT")
class ClippedLogits(right_vit.Plain):
    """Logits that no exponential overflows on."""

    def forward(self, images):
        return super().forward(images).clamp(-20, 20)


@answers("CrossAttention")
class MaskOfTheFirstQuery(right_decoder.Cross):
    """Right with padding, which hides the same keys from all queries of a text."""

    def forward(self, x, memory, mask=None):
        return super().forward(x, memory, mask[..., :1, :] if mask is not None and mask.dim() > 1 else mask)
