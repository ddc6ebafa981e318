"""Wrong answers to lab 6 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import math

import torch

from tests.answers import answers, right_decoder, right_decoding, right_masks
from tests.answers.right_decoder_3_cached_self_attention import Cached


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
class EightPlacesKept(Cached):
    """The cache holds the last eight tokens."""

    def forward(self, x, cache=None):
        out, (k, v) = super().forward(x, cache)
        return out, (k[:, :, -8:], v[:, :, -8:])


@answers("CachedSelfAttention")
class KeptInHalf(Cached):
    """Keys and values are kept in half precision, to save memory."""

    def forward(self, x, cache=None):
        out, cache = super().forward(x, cache)
        return out, tuple(part.half().to(part.dtype) for part in cache)


@answers("CachedSelfAttention")
class FirstCallAlone(Cached):
    """Causal in the first call only: later ones hold a single token, it is thought."""

    def forward(self, x, cache=None):
        if cache is None:
            return super().forward(x)
        q, k, v = (right_decoder.split_heads(w(x), self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
        return self.w_o(right_decoder.merge_heads(right_decoder.attention(q, k, v)[0])), (k, v)


@answers("CachedSelfAttention")
class BatchOfOneLost(Cached):
    """The first axis is lost for a batch of one."""

    def forward(self, x, cache=None):
        out, cache = super().forward(x, cache)
        return out.squeeze(0), cache


@answers("CachedSelfAttention")
class OneBufferForAllTexts(Cached):
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
