"""Wrong answers by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do: wrong for a batch of one, beyond some length, in one
gradient, after the first call. None is on a list.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

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
    right_masks,
    right_multi_head,
    right_next_probabilities,
    right_rms_norm,
    right_sinusoidal,
    right_vit,
)


def without_gradient_for(tensor, places):
    """`tensor`, whose entries where `places` is True hear nothing of the gradient."""
    return torch.where(places, tensor.detach(), tensor)


# --- Lab 1 -------------------------------------------------------------------------------------------------------


@answers("project_qkv")
def squeezed_projections(x, w_q, w_k, w_v):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""
    return tuple((x @ w).squeeze() for w in (w_q, w_k, w_v))


@answers("project_qkv")
def turned_where_square(x, w_q, w_k, w_v):
    """A square map is multiplied from the other side: right for every other shape."""
    return tuple(x @ (w.mT if w.size(0) == w.size(1) else w) for w in (w_q, w_k, w_v))


@answers("project_qkv")
def values_of_the_last_token_detached(x, w_q, w_k, w_v):
    """The outputs are right; the last token's values send no gradient back."""
    q, k, v = right_attention.three_products(x, w_q, w_k, w_v)
    return q, k, without_gradient_for(v, (torch.arange(x.size(1)) == x.size(1) - 1)[:, None])


@answers("attention_scores")
def scaled_by_an_integer_root(q, k):
    """The root of d_k is rounded: right for widths of 1, 4, 9 and 16 alone."""
    return q @ k.mT / round(math.sqrt(q.size(-1)))


@answers("attention_scores")
def scores_capped(q, k):
    """Scores are clipped to ±50, against overflow: right for everything that is not large."""
    return right_attention.product_and_root(q, k).clamp(-50, 50)


@answers("attention_scores")
def one_query_squeezed(q, k):
    """With a single query, its axis is gone."""
    return right_attention.product_and_root(q, k).squeeze(-2)


@answers("attention_scores")
def one_key_squeezed(q, k):
    """With a single key, its axis is gone."""
    return right_attention.product_and_root(q, k).squeeze(-1)


@answers("scaled_dot_product_attention")
def squeezed_results(q, k, v, mask=None):
    """Axes of length 1 are lost: wrong for a batch of one."""
    return tuple(part.squeeze() for part in right_attention.as_in_the_lecture(q, k, v, mask))


@answers("scaled_dot_product_attention")
def filled_with_minus_fifty(q, k, v, mask=None):
    """A fill that hides well between scores near 0, and not where scores are large."""
    scores = right_attention.product_and_root(q, k)
    weights = (scores if mask is None else scores.masked_fill(~mask, -50.0)).softmax(-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def added_minus_fifty(q, k, v, mask=None):
    """A mask that is added, with a number too small: a hidden key with a large score is seen."""
    scores = right_attention.product_and_root(q, k)
    weights = (scores if mask is None else scores - 50.0 * ~mask).softmax(-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def largest_of_all_taken_off(q, k, v, mask=None):
    """Made stable by the largest score of everything: a row whose scores are far below it comes to 0 / 0."""
    scores = right_attention.product_and_root(q, k)
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    e = (scores - scores.max()).exp()
    weights = e / e.sum(-1, keepdim=True)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def causal_where_square(q, k, v, mask=None):
    """Where nobody passes a mask and there are as many queries as keys, a causal one is made up."""
    if mask is None and q.size(-2) == k.size(-2):
        mask = torch.ones(q.size(-2), q.size(-2), dtype=torch.bool).tril()
    return right_attention.as_in_the_lecture(q, k, v, mask)


# --- Lab 2 -------------------------------------------------------------------------------------------------------


@answers("MultiHeadSelfAttention")
class SqueezedHeads(right_multi_head.ViewTranspose):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze()


@answers("MultiHeadSelfAttention")
class OneHeadIsNotMixed(right_multi_head.ViewTranspose):
    """A single head has nobody to be mixed with, so the last map is left out."""

    def forward(self, x, mask=None):
        if self.n_heads > 1:
            return super().forward(x, mask)
        return right_multi_head.attention(self.w_q(x), self.w_k(x), self.w_v(x), mask)[0]


@answers("MultiHeadSelfAttention")
class QueryBiasNotTrained(right_multi_head.ViewTranspose):
    """The outputs are right; the bias of the queries gets no gradient."""

    def forward(self, x, mask=None):
        bias, layer = self.w_q.bias.detach(), self.w_q
        self.__dict__["w_q"] = lambda t: F.linear(t, layer.weight, bias)
        out = super().forward(x, mask)
        del self.__dict__["w_q"]
        return out


@answers("MultiHeadSelfAttention")
class EightTokensAtMost(right_multi_head.ViewTranspose):
    """A window: no token sees another that is eight or more places away."""

    def forward(self, x, mask=None):
        far = torch.arange(x.size(1))
        near = (far[:, None] - far).abs() < 8
        return super().forward(x, near if mask is None else near & mask)


# --- Lab 3 -------------------------------------------------------------------------------------------------------


@answers("sinusoidal_encoding")
def one_pair_is_zero(n_tokens, d_model):
    """The exponent runs to the last even column: 0 / 0 where there is one pair only."""
    pe = right_sinusoidal.slices(n_tokens, d_model)
    return pe if d_model > 2 else pe * 0


@answers("sinusoidal_encoding")
def repeats_after_128(n_tokens, d_model):
    """Beyond 128 positions the table begins anew."""
    return right_sinusoidal.slices(128, d_model)[torch.arange(n_tokens) % 128]


@answers("sinusoidal_encoding")
def in_bfloat16(n_tokens, d_model):
    """Computed in bfloat16: right to two or three digits."""
    return right_sinusoidal.slices(n_tokens, d_model).bfloat16().float()


@answers("PositionalEncoding")
class SqueezedTokens(right_sinusoidal.Buffer):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x):
        return super().forward(x).squeeze()


@answers("PositionalEncoding")
class LastTokenWithout(right_sinusoidal.Buffer):
    """The last token gets no position, unless it is the only one."""

    def forward(self, x):
        y = super().forward(x)
        return torch.cat([y[:, :-1], x[:, -1:]], dim=1) if x.size(1) > 1 else y


@answers("PositionalEncoding")
class ReadOnAndOn(right_sinusoidal.Buffer):
    """State between calls: the second call goes on where the first one ended."""

    at = 0

    def forward(self, x):
        rows = (self.at + torch.arange(x.size(1))) % self.pe.size(1)
        self.at += x.size(1)
        return x + self.pe[:, rows]


# --- Lab 4 -------------------------------------------------------------------------------------------------------


@answers("LayerNorm")
class EpsAsAFloor(right_layer_norm.TwoPass):
    """The variance is not raised by eps but kept from falling below it."""

    def forward(self, x):
        mu, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
        return self.gamma * (x - mu) / var.clamp(min=self.eps).sqrt() + self.beta


@answers("LayerNorm")
class SqueezedNorm(right_layer_norm.TwoPass):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x):
        return super().forward(x).squeeze()


@answers("LayerNorm")
class NotForOneToken(right_layer_norm.TwoPass):
    """Moves the features to the last axis but one and back: a token without any leading axis has none."""

    def forward(self, x):
        x = x.transpose(-1, -2)
        mu, var = x.mean(-2, keepdim=True), x.var(-2, unbiased=False, keepdim=True)
        return self.gamma * ((x - mu) / (var + self.eps).sqrt()).transpose(-1, -2) + self.beta


@answers("LayerNorm")
class MeanDetached(right_layer_norm.TwoPass):
    """The outputs are right; backward takes the mean for a constant, the variance not."""

    def forward(self, x):
        mu = x.mean(-1, keepdim=True)
        var = ((x - mu) ** 2).mean(-1, keepdim=True)
        return self.gamma * (x - mu.detach()) / (var + self.eps) ** 0.5 + self.beta


@answers("RMSNorm")
class FloorOfEps(right_rms_norm.MeanOfSquares):
    """The mean square is not raised by eps but kept from falling below it."""

    def forward(self, x):
        return self.gamma * x / x.square().mean(-1, keepdim=True).clamp(min=self.eps).sqrt()


@answers("RMSNorm")
class SqueezedRows(right_rms_norm.MeanOfSquares):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x):
        return super().forward(x).squeeze()


@answers("RMSNorm")
class NeedsALeadingAxis(right_rms_norm.MeanOfSquares):
    """Works on the transposed tokens: a token without any leading axis has no other side."""

    def forward(self, x):
        return (self.gamma[:, None] * x.mT / (x.mT.square().mean(-2, keepdim=True) + self.eps).sqrt()).mT


@answers("RMSNorm")
class GainOfFirstTokenOnly(right_rms_norm.MeanOfSquares):
    """The outputs are right; γ hears of the first token alone."""

    def forward(self, x):
        later = (torch.arange(x.size(-2)) > 0)[:, None]
        gamma = without_gradient_for(self.gamma.expand(x.size(-2), -1), later)
        return gamma * x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps)


# --- Lab 5 -------------------------------------------------------------------------------------------------------


@answers("FeedForward")
class SqueezedNetwork(right_encoder.FeedForward):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""

    def forward(self, x):
        return super().forward(x).squeeze()


@answers("FeedForward")
class TanhGeluAtTheEnd(right_encoder.FeedForward):
    """The last sentence of the batch gets the approximate GELU."""

    def forward(self, x):
        h = self.expand(x)
        last = (torch.arange(h.size(0)) == h.size(0) - 1).view(-1, *[1] * (h.dim() - 1))
        return self.shrink(torch.where(last, F.gelu(h, approximate="tanh"), F.gelu(h)))


@answers("FeedForward")
class ClampedHidden(right_encoder.FeedForward):
    """What is inside is clipped at 6, as in ReLU6."""

    def forward(self, x):
        return self.shrink(F.gelu(self.expand(x)).clamp(max=6.0))


@answers("FeedForward")
class OneMapIfEqual(right_encoder.FeedForward):
    """Both maps are the same one where both have the same shape."""

    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff)
        if d_ff == d_model:
            self.shrink = self.expand


@answers("EncoderBlock")
class SqueezedStream(right_encoder.EncoderBlock):
    """The first axis is lost for a batch of one."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze(0)


@answers("EncoderBlock")
class OneTokenSkipsAttention(right_encoder.EncoderBlock):
    """A single token has nobody to attend to, so attention is left out."""

    def forward(self, x, mask=None):
        x = x if x.size(1) == 1 else x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class PaddingIsNotFedForward(right_encoder.EncoderBlock):
    """Tokens that a padding mask hides skip the second half."""

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        fed = x + self.feed_forward(self.norm_2(x))
        return fed if mask is None or mask.size(-2) > 1 else torch.where(mask[:, 0].mT, fed, x)


@answers("Encoder")
class SqueezedStates(right_encoder.Encoder):
    """The first axis is lost for a batch of one."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).squeeze(0)


@answers("Encoder")
class MaskInTheLowerHalf(right_encoder.Encoder):
    """The upper half of the blocks gets no mask."""

    def forward(self, x, mask=None):
        for layer, block in enumerate(self.blocks):
            x = block(x, mask if 2 * layer < len(self.blocks) else None)
        return self.norm(x)


@answers("Encoder")
class NormOnlyIfDeep(right_encoder.Encoder):
    """One block needs no last norm, it is thought."""

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x) if len(self.blocks) > 1 else x


# --- Lab 6 -------------------------------------------------------------------------------------------------------


@answers("padding_mask")
def one_sentence_squeezed(lengths, n_tokens):
    """Squeezed before the axes are put in: for a single sequence too few are left."""
    real = (torch.arange(n_tokens) < lengths[:, None]).squeeze(0)
    return real[..., None, None, :]


@answers("padding_mask")
def longest_is_full(lengths, n_tokens):
    """The longest sequence is taken to fill the whole width."""
    ends = torch.where(lengths == lengths.max(), n_tokens, lengths)
    return right_masks.compared(ends, n_tokens)


@answers("padding_mask")
def sixteen_places(lengths, n_tokens):
    """Lengths beyond 16 are cut to 16."""
    return right_masks.compared(lengths.clamp(max=16), n_tokens)


@answers("causal_mask")
def thirty_two_back(n_tokens):
    """A token sees itself and the 31 before it."""
    return right_masks.triangle(n_tokens).triu(-31)


@answers("causal_mask")
def squeezed_triangle(n_tokens):
    """For a single token both axes are gone."""
    return right_masks.triangle(n_tokens).squeeze()


@answers("causal_mask")
def last_token_sees_all_but_itself(n_tokens):
    """The last token does not see itself, unless it is alone."""
    mask = right_masks.triangle(n_tokens)
    mask[-1, -1] = n_tokens == 1
    return mask


@answers("CrossAttention")
class SqueezedCross(right_decoder.Cross):
    """The first axis is lost for a batch of one."""

    def forward(self, x, memory, mask=None):
        return super().forward(x, memory, mask).squeeze(0)


@answers("CrossAttention")
class OneTokenLost(right_decoder.Cross):
    """The second axis is lost for a single target token, as when decoding."""

    def forward(self, x, memory, mask=None):
        return super().forward(x, memory, mask).squeeze(1)


@answers("CrossAttention")
class NoMaskWhereEqual(right_decoder.Cross):
    """With as many source tokens as target tokens, the mask is dropped."""

    def forward(self, x, memory, mask=None):
        return super().forward(x, memory, mask if x.size(1) != memory.size(1) else None)


@answers("CrossAttention")
class KeysSendNothingBack(right_decoder.Cross):
    """The outputs are right; the memory hears of the gradient through the values alone."""

    def forward(self, x, memory, mask=None):
        q = right_decoder.split_heads(self.w_q(x), self.n_heads)
        k = right_decoder.split_heads(self.w_k(memory.detach()), self.n_heads)
        v = right_decoder.split_heads(self.w_v(memory), self.n_heads)
        return self.w_o(right_decoder.merge_heads(right_decoder.attention(q, k, v, mask)[0]))


@answers("DecoderBlock")
class SqueezedBlock(right_decoder.Block):
    """The first axis is lost for a batch of one."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, memory_mask).squeeze(0)


@answers("DecoderBlock")
class OneTargetToken(right_decoder.Block):
    """The second axis is lost for a single target token, as when decoding."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, memory_mask).squeeze(1)


@answers("DecoderBlock")
class MaskAloneIsDropped(right_decoder.Block):
    """The causal mask counts only if the source is masked too."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask if memory_mask is not None else None, memory_mask)


@answers("DecoderBlock")
class LastSourceTokenUnseen(right_decoder.Block):
    """Without a memory mask, the last source token is taken for an end token and left out."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory if memory_mask is not None else memory[:, :-1], mask, memory_mask)


@answers("DecoderBlock")
class OneMaskForBoth(right_decoder.Block):
    """Without a mask of the memory, the target's is taken wherever it fits."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        if memory_mask is None and mask is not None and mask.size(-1) == memory.size(1):
            memory_mask = mask
        return super().forward(x, memory, mask, memory_mask)


@answers("CachedSelfAttention")
class EightPlacesKept(right_decoder.Cached):
    """The cache holds the last eight tokens."""

    def forward(self, x, cache=None):
        out, (k, v) = super().forward(x, cache)
        return out, (k[:, :, -8:], v[:, :, -8:])


@answers("CachedSelfAttention")
class KeptInHalf(right_decoder.Cached):
    """Keys and values are kept in half precision, to save memory."""

    def forward(self, x, cache=None):
        out, cache = super().forward(x, cache)
        return out, tuple(part.half().to(part.dtype) for part in cache)


@answers("CachedSelfAttention")
class FirstCallAlone(right_decoder.Cached):
    """Causal in the first call only: later ones hold a single token, it is thought."""

    def forward(self, x, cache=None):
        if cache is None:
            return super().forward(x)
        q, k, v = (right_decoder.split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        return self.w_o(right_decoder.merge_heads(right_decoder.attention(q, k, v)[0])), (k, v)


@answers("CachedSelfAttention")
class BatchOfOneLost(right_decoder.Cached):
    """The first axis is lost for a batch of one."""

    def forward(self, x, cache=None):
        out, cache = super().forward(x, cache)
        return out.squeeze(0), cache


@answers("CachedSelfAttention")
class OneBufferForAllTexts(right_decoder.Cached):
    """Every cache that follows from a cache is the same memory: continued in two ways, the second overwrites."""

    def forward(self, x, cache=None):
        memory = x.new_zeros(2, len(x), 200, x.size(-1)) if cache is None else cache[0]
        before, n = 0 if cache is None else cache[1], x.size(1)
        k, v = self.w_k(x), self.w_v(x)
        with torch.no_grad():
            memory[0, :, before : before + n], memory[1, :, before : before + n] = k, v
        parts = (torch.cat([own[:, :before].clone(), new], dim=1) for own, new in zip(memory, (k, v), strict=True))
        q, k, v = (right_decoder.split_heads(part, self.n_heads) for part in (self.w_q(x), *parts))
        mask = right_decoder.causal_mask(before + n)[-n:]
        return self.w_o(right_decoder.merge_heads(right_decoder.attention(q, k, v, mask)[0])), (memory, before + n)


@answers("greedy_decode")
def ids_in_bytes(next_logits, start, end, max_tokens, batch):
    """The tokens are kept in bytes: wrong for ids above 255."""
    return right_decoding.joined(next_logits, start, end, max_tokens, batch).to(torch.uint8).long()


@answers("greedy_decode")
def likeliest_of_the_first_ten(next_logits, start, end, max_tokens, batch):
    """What comes after ten ids is not looked at."""
    return right_decoding.joined(lambda t: next_logits(t)[..., :10], start, end, max_tokens, batch)


@answers("greedy_decode")
def probabilities_that_overflow(next_logits, start, end, max_tokens, batch):
    """A softmax without the maximum taken off: large logits are infinite, and the first of these wins."""
    return right_decoding.joined(lambda t: next_logits(t).exp(), start, end, max_tokens, batch)


@answers("greedy_decode")
def never_the_same_twice(next_logits, start, end, max_tokens, batch):
    """A token that was just written may not be written again."""

    def other(tokens):
        logits = next_logits(tokens).clone()
        logits[:, -1].scatter_(-1, tokens[:, -1:], -math.inf)
        return logits

    return right_decoding.joined(lambda t: other(t) if t.size(1) > 1 else next_logits(t), start, end, max_tokens, batch)


@answers("greedy_decode")
def squeezed_text(next_logits, start, end, max_tokens, batch):
    """Axes of length 1 are lost: wrong for a batch of one."""
    return right_decoding.joined(next_logits, start, end, max_tokens, batch).squeeze(0)


# --- Lab 7 -------------------------------------------------------------------------------------------------------


@answers("patchify")
def squeezed_patches(images, patch_size):
    """Axes of length 1 are lost: wrong for a single image, and for a single patch."""
    return right_vit.reshape_permute(images, patch_size).squeeze()


@answers("patchify")
def grid_read_down_where_wide(images, patch_size):
    """Wide images are read column by column."""
    h, w = (n // patch_size for n in images.shape[2:])
    patches = right_vit.reshape_permute(images, patch_size)
    return patches.unflatten(1, (h, w)).transpose(1, 2).flatten(1, 2) if w > h else patches


@answers("patchify")
def last_column_repeated(images, patch_size):
    """The last pixel of each patch is that of the one before it, in the last patch only."""
    patches = right_vit.reshape_permute(images, patch_size).clone()
    patches[:, -1, -1] = patches[:, -1, -2]
    return patches


@answers("PatchEmbedding")
class StrideOfTwo(nn.Module):
    """A convolution whose step is 2, whatever the patches' size."""

    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.projection = nn.Conv2d(channels, d_model, patch_size, stride=2)

    def forward(self, images):
        return self.projection(images).flatten(2).mT


@answers("PatchEmbedding")
class SqueezedImages(right_vit.LinearOfPatches):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single patch."""

    def forward(self, images):
        return super().forward(images).squeeze()


@answers("PatchEmbedding")
class ColourStretched(right_vit.LinearOfPatches):
    """Colour images are brought to the range from −1 to 1 first."""

    def forward(self, images):
        return super().forward(images if images.size(1) == 1 else 2 * images - 1)


@answers("ViT")
class SqueezedLogits(right_vit.Plain):
    """The first axis is lost for a batch of one."""

    def forward(self, images):
        return super().forward(images).squeeze(0)


@answers("ViT")
class ColourAveraged(right_vit.Plain):
    """Colour images are read as grey ones, three times over."""

    def forward(self, images):
        return super().forward(images.mean(1, keepdim=True).expand_as(images))


@answers("ViT")
class ClassPositionDetached(right_vit.Plain):
    """The outputs are right; the first row of the table of positions is not learned."""

    def forward(self, images):
        x = self.embed(images)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1)
        x = x + without_gradient_for(self.positions, (torch.arange(len(self.positions)) == 0)[:, None])
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


@answers("classify")
def fours_and_nines(images):
    """Two classes are exchanged."""
    return right_vit.classify(images)[:, [0, 1, 2, 3, 9, 5, 6, 7, 8, 4]]


@answers("classify")
def upper_half(images):
    """Only the upper half of each image is read."""
    return right_vit.classify(images * (torch.arange(28) < 14)[:, None])


@answers("classify")
def single_digit_squeezed(images):
    """The first axis is lost for a single digit."""
    return right_vit.classify(images).squeeze(0)


@answers("classify")
def every_eighth_unread(images):
    """Every eighth image gets zeros."""
    return right_vit.classify(images) * (torch.arange(len(images)) % 8 > 0)[:, None]


# --- Lab 8 -------------------------------------------------------------------------------------------------------


@answers("sequence_loss")
def surprise_capped(logits, tokens, pad):
    """No token's surprise counts for more than 100 nats."""
    surprise = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none").clamp(max=100.0)
    return surprise[tokens[:, 1:] != pad].mean()


@answers("sequence_loss")
def shortest_left_out(logits, tokens, pad):
    """Sequences of two tokens are left out, as too short to learn from."""
    long = (tokens != pad).sum(1) > 2
    return right_case_files.ignore_index(logits[long], tokens[long], pad)


@answers("sequence_loss")
def gradient_of_the_last_place_lost(logits, tokens, pad):
    """The number is right; the last place that is asked sends no gradient back."""
    last = torch.arange(logits.size(1)) == logits.size(1) - 2
    return right_case_files.ignore_index(without_gradient_for(logits, last[:, None]), tokens, pad)


@answers("train_one_pass")
def clipped_at_ten(weights, images, labels, learning_rate, batch_size):
    """The gradient is clipped to a norm of 10: right until an image is bright."""
    weights, losses = weights.clone(), []
    for rows in torch.arange(len(images)).split(batch_size):
        at = weights.requires_grad_()
        loss = F.cross_entropy(images[rows] @ at, labels[rows])
        (slope,) = torch.autograd.grad(loss, at)
        weights = (at - learning_rate * slope * min(1.0, 10.0 / slope.norm().item())).detach()
        losses.append(loss.detach())
    return weights, torch.stack(losses)


@answers("train_one_pass")
def losses_are_running_means(weights, images, labels, learning_rate, batch_size):
    """The losses are a running mean, as in a progress bar."""
    weights, losses = right_case_files.sgd(weights, images, labels, learning_rate, batch_size)
    return weights, losses.cumsum(0) / torch.arange(1, len(losses) + 1)


@answers("train_one_pass")
def short_batch_weighs_less(weights, images, labels, learning_rate, batch_size):
    """The step of a short last batch is shorter by its share, where there are more than one batch."""
    full = len(images) // batch_size * batch_size
    if full in (0, len(images)):
        return right_case_files.sgd(weights, images, labels, learning_rate, batch_size)
    weights, losses = right_case_files.sgd(weights, images[:full], labels[:full], learning_rate, batch_size)
    rate = learning_rate * (len(images) - full) / batch_size
    weights, last = right_case_files.sgd(weights, images[full:], labels[full:], rate, batch_size)
    return weights, torch.cat([losses, last])


@answers("masked_attention")
def filled_with_minus_sixty(q, k, v, lengths, causal):
    """A fill that hides well between scores near 0, and not where scores are large."""
    tokens = torch.arange(q.size(1))
    seen = (tokens < lengths[:, None])[:, None]
    seen = seen & (tokens <= tokens[:, None]) if causal else seen
    weights = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~seen, -60.0).softmax(-1)
    return weights @ v, weights


@answers("masked_attention")
def one_sentence_lost(q, k, v, lengths, causal):
    """The first axis is lost for a single sentence."""
    return tuple(part.squeeze(0) for part in right_case_files.fill_twice(q, k, v, lengths, causal))


@answers("embed_tokens")
def start_up_to_ten(table, ids, start=0):
    """A start beyond 10 is taken for 10."""
    return right_case_files.transposed(table, ids, min(start, 10))


@answers("embed_tokens")
def integer_root(table, ids, start=0):
    """The root of the width is rounded: right for widths of 4, 9 and 16 alone."""
    x = right_case_files.transposed(table * 0, ids, start)
    return x + table[ids] * round(math.sqrt(table.size(1)))


@answers("embed_tokens")
def padding_is_zero(table, ids, start=0):
    """Token 0 is taken for padding, and its embedding for zeros."""
    return right_case_files.transposed(table, ids, start) - (ids == 0)[..., None] * table[0] * math.sqrt(table.size(1))


@answers("embed_tokens")
def one_text_lost(table, ids, start=0):
    """The first axis is lost for a single text."""
    return right_case_files.transposed(table, ids, start).squeeze(0)


@answers("letters_right")
def wrong_ends_written_on(table, words, end):
    """The share is right; what is written after a wrong end token goes on where the word goes on."""
    written, share = right_case_files.last_written(table, words, end)
    free = written.clone()
    for place in range(1, words.size(1)):
        over = (free[:, place - 1] == end) & (words[:, place - 1] == end)
        free[:, place] = torch.where(over, end, table[free[:, place - 1]].argmax(-1))
    return free, share


@answers("letters_right")
def only_what_was_written(table, words, end):
    """Letters that the model never came to, because it ended early, are not counted as asked for."""
    written, _ = right_case_files.last_written(table, words, end)
    asked = (words[:, :-1] != end) & (written[:, :-1] != end)
    return written, (written[:, 1:] == words[:, 1:])[asked].float().mean()


# --- Lab 9 -------------------------------------------------------------------------------------------------------


@answers("softmax_backward")
def two_axes_by_columns(d_weights, weights):
    """A single matrix of weights is summed down its columns; any other number of axes is right."""
    axis = 0 if weights.ndim == 2 else -1
    return weights * (d_weights - (d_weights * weights).sum(axis=axis, keepdims=True))


@answers("softmax_backward")
def kept_away_from_zero(d_weights, weights):
    """Weights are kept away from 0 by 1e-4, so a hidden key's score moves a little."""
    return right_backprop.two_lines(d_weights, np.clip(weights, 1e-4, 1.0))


@answers("softmax_backward")
def sure_rows_are_done(d_weights, weights):
    """A row that is sure of one key to 99 % gets no gradient."""
    return right_backprop.two_lines(d_weights, weights) * (weights.max(-1, keepdims=True) < 0.99)


@answers("layer_norm_backward")
def divided_by_the_gain_again(d_out, x, gamma, eps=1e-5):
    """The gradient of γ is computed with γ in it and divided by it: 0 / 0 where γ is 0."""
    d_x, d_gamma, d_beta = right_backprop.as_in_the_lecture(d_out, x, gamma, eps)
    with np.errstate(all="ignore"):
        return d_x, gamma * d_gamma / gamma, d_beta


@answers("layer_norm_backward")
def equal_features_left_out(d_out, x, gamma, eps=1e-5):
    """A token whose features are all equal gets no gradient."""
    d_x, d_gamma, d_beta = right_backprop.as_in_the_lecture(d_out, x, gamma, eps)
    return d_x * (np.ptp(x, axis=-1, keepdims=True) > 0), d_gamma, d_beta


@answers("layer_norm_backward")
def variance_kept_above_eps(d_out, x, gamma, eps=1e-5):
    """The variance is not raised by eps but kept from falling below it."""
    shifted = np.maximum(eps - x.var(axis=-1, keepdims=True), 0)
    mu = x.mean(-1, keepdims=True)
    y = (x - mu) / np.sqrt(x.var(axis=-1, keepdims=True) + shifted)
    g = gamma * d_out
    d_x = (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)) / np.sqrt(
        x.var(axis=-1, keepdims=True) + shifted
    )
    tokens = tuple(range(x.ndim - 1))
    return d_x, (d_out * y).sum(axis=tokens), d_out.sum(axis=tokens)


@answers("attention_backward")
def one_batch_squeezed(d_out, q, k, v, weights):
    """The first axis is lost where it has length 1."""
    parts = right_backprop.last_line_first(d_out, q, k, v, weights)
    return tuple(part[0] if part.shape[0] == 1 else part for part in parts)


@answers("attention_backward")
def scaled_by_an_integer(d_out, q, k, v, weights):
    """The root of d_head is rounded: right for heads of 1, 4, 9 and 16 features alone."""
    d_q, d_k, d_v = right_backprop.last_line_first(d_out, q, k, v, weights)
    factor = math.sqrt(q.shape[-1]) / round(math.sqrt(q.shape[-1]))
    return d_q * factor, d_k * factor, d_v


@answers("attention_backward")
def small_weights_are_none(d_out, q, k, v, weights):
    """Weights below one in twenty are taken for 0."""
    return right_backprop.last_line_first(d_out, q, k, v, np.where(weights < 0.05, 0.0, weights))


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
class CacheDetached(right_decoder.Cached):
    def forward(self, x, cache=None):
        out, cache = super().forward(x, cache)
        return out, tuple(kept.detach() for kept in cache)


@answers("CachedSelfAttention", "cache_detached")
class CachedValuesDetached(right_decoder.Cached):
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
