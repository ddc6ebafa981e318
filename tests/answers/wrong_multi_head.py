"""Wrong answers to lab 2, written as students write them; `answers` names their mistakes, or none that is on a list.

None of this is made from the exercise's own changes.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers
from tests.answers.right_multi_head import ViewTranspose, attention


class Base(ViewTranspose):
    """A right answer in steps, so that each class below changes one of them."""

    def split(self, t):
        return t.view(t.size(0), t.size(1), self.n_heads, self.d_head).transpose(1, 2)

    def attend(self, q, k, v, mask):
        return attention(q, k, v, mask)[0]

    def merge(self, heads):
        return heads.transpose(1, 2).reshape(heads.size(0), heads.size(2), -1)

    def forward(self, x, mask=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        return self.w_o(self.merge(self.attend(q, k, v, mask)))


# --- one known mistake each ---


@answers("MultiHeadSelfAttention", "view_split")
class ViewStraightToHeads(Base):
    def split(self, t):
        return t.view(t.size(0), self.n_heads, t.size(1), self.d_head)


@answers("MultiHeadSelfAttention", "view_merge")
class MergeWithoutTranspose(Base):
    def merge(self, heads):
        return heads.reshape(heads.size(0), heads.size(2), -1)


@answers("MultiHeadSelfAttention", "interleaved")
class HeadsLast(Base):
    def split(self, t):
        return t.view(*t.shape[:2], self.d_head, self.n_heads).permute(0, 3, 1, 2)


@answers("MultiHeadSelfAttention", "interleaved_merge")
class MergeInterleaved(Base):
    def merge(self, heads):
        return torch.stack(heads.unbind(1), dim=-1).flatten(2)


@answers("MultiHeadSelfAttention", "no_output")
class ForgotOutput(Base):
    def forward(self, x, mask=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        return self.merge(self.attend(q, k, v, mask))


@answers("MultiHeadSelfAttention", "no_output")
class NoOutputLayer(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f in (self.w_q, self.w_k, self.w_v))
        return attention(q, k, v, mask)[0].transpose(1, 2).flatten(2)


@answers("MultiHeadSelfAttention", "averaged")
class MeanOfHeads(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.w_o = nn.Linear(d_model // n_heads, d_model)

    def reduce(self, heads):
        return heads.mean(dim=1)

    def forward(self, x, mask=None):
        q, k, v = (f(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for f in (self.w_q, self.w_k, self.w_v))
        return self.w_o(self.reduce(attention(q, k, v, mask)[0]))


@answers("MultiHeadSelfAttention", "summed")
class SumOfHeads(MeanOfHeads):
    def reduce(self, heads):
        return sum(heads.unbind(1))


@answers("MultiHeadSelfAttention", "sliced")
class SlicedInput(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.size = d_model // n_heads
        self.q = nn.ModuleList(nn.Linear(self.size, self.size) for _ in range(n_heads))
        self.k = nn.ModuleList(nn.Linear(self.size, self.size) for _ in range(n_heads))
        self.v = nn.ModuleList(nn.Linear(self.size, self.size) for _ in range(n_heads))
        self.out = nn.Linear(d_model, d_model)

    def project(self, maps, x):
        return torch.stack([f(part) for f, part in zip(maps, x.split(self.size, -1), strict=True)], 1)

    def forward(self, x, mask=None):
        heads = attention(self.project(self.q, x), self.project(self.k, x), self.project(self.v, x), mask)[0]
        return self.out(heads.transpose(1, 2).flatten(2))


@answers("MultiHeadSelfAttention", "unregistered")
class HeadsInAList(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.q = [nn.Linear(d_model, d_model // n_heads) for _ in range(n_heads)]
        self.k = [nn.Linear(d_model, d_model // n_heads) for _ in range(n_heads)]
        self.v = [nn.Linear(d_model, d_model // n_heads) for _ in range(n_heads)]
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        mask = None if mask is None else mask[:, 0]
        parts = zip(self.q, self.k, self.v, strict=True)
        return self.out(torch.cat([attention(q(x), k(x), v(x), mask)[0] for q, k, v in parts], -1))


@answers("MultiHeadSelfAttention", "unregistered")
class HeadsInADict(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.maps = {name: nn.Linear(d_model, d_model) for name in "qkv"}
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (self.maps[n](x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for n in "qkv")
        return self.w_o(attention(q, k, v, mask)[0].transpose(1, 2).flatten(2))


@answers("MultiHeadSelfAttention", "shared_qkv")
class OneMapForAll(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.proj_in = nn.Linear(d_model, d_model)
        self.proj_out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        t = self.proj_in(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        return self.proj_out(attention(t, t, t, mask)[0].transpose(1, 2).flatten(2))


@answers("MultiHeadSelfAttention", "shared_qk")
class QueryMapForKeys(Base):
    def forward(self, x, mask=None):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_q(x)), self.split(self.w_v(x))
        return self.w_o(self.merge(self.attend(q, k, v, mask)))


@answers("MultiHeadSelfAttention", "k_for_v")
class KeysAsValues(Base):
    def attend(self, q, k, v, mask):
        return attention(q, k, k, mask)[0]


@answers("MultiHeadSelfAttention", "q_for_v")
class QueriesAsValues(Base):
    def attend(self, q, k, v, mask):
        return attention(q, k, q, mask)[0]


@answers("MultiHeadSelfAttention", "weights_out")
class WeightsAsOutput(Base):
    def attend(self, q, k, v, mask):
        return attention(q, k, v, mask)[1]


@answers("MultiHeadSelfAttention", "across_batch")
class BatchAsTokens(Base):
    def forward(self, x, mask=None):
        return super().forward(x.transpose(0, 1), mask).transpose(0, 1)


@answers("MultiHeadSelfAttention", "unscaled")
class NoScale(Base):
    def scores(self, q, k):
        return q @ k.mT

    def weigh(self, scores, mask):
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1)

    def attend(self, q, k, v, mask):
        return self.weigh(self.scores(q, k), mask) @ v


@answers("MultiHeadSelfAttention", "by_d_head")
class DividedByWidth(NoScale):
    def scores(self, q, k):
        return q @ k.mT / q.size(-1)


@answers("MultiHeadSelfAttention", "by_d_model")
class RootOfModelWidth(NoScale):
    def scores(self, q, k):
        return q @ k.mT / math.sqrt(self.w_q.in_features)


@answers("MultiHeadSelfAttention", "by_n_heads")
class RootOfHeads(NoScale):
    def scores(self, q, k):
        return q @ k.mT / self.n_heads**0.5


@answers("MultiHeadSelfAttention", "multiplied")
class Multiplied(NoScale):
    def scores(self, q, k):
        return q @ k.mT * math.sqrt(self.d_head)


@answers("MultiHeadSelfAttention", "scaled_after")
class ScaledTooLate(NoScale):
    def weigh(self, scores, mask):
        return super().weigh(scores, mask) / math.sqrt(self.d_head)


class Scaled(NoScale):
    def scores(self, q, k):
        return q @ k.mT / math.sqrt(self.d_head)


@answers("MultiHeadSelfAttention", "columns")
class SoftmaxOverQueries(Scaled):
    def weigh(self, scores, mask):
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), dim=-2)


@answers("MultiHeadSelfAttention", "over_heads")
class SoftmaxOverHeads(Scaled):
    def weigh(self, scores, mask):
        return torch.softmax(scores if mask is None else scores.masked_fill(~mask, -math.inf), dim=1)


@answers("MultiHeadSelfAttention", "no_softmax")
class NoSoftmax(Scaled):
    def weigh(self, scores, mask):
        return scores if mask is None else scores * mask


@answers("MultiHeadSelfAttention", "no_maximum")
class NaiveSoftmax(Scaled):
    def weigh(self, scores, mask):
        powers = torch.exp(scores if mask is None else scores.masked_fill(~mask, -math.inf))
        return powers / powers.sum(-1, keepdim=True)


@answers("MultiHeadSelfAttention", "transposed")
class KeysTimesQueries(Scaled):
    def scores(self, q, k):
        return k @ q.mT / math.sqrt(self.d_head)


@answers("MultiHeadSelfAttention", "weights_transposed")
class WeightsTransposed(Scaled):
    def attend(self, q, k, v, mask):
        return self.weigh(self.scores(q, k), mask).mT @ v


@answers("MultiHeadSelfAttention", "mask_ignored")
class MaskForgotten(Base):
    def attend(self, q, k, v, mask):
        return attention(q, k, v)[0]


@answers("MultiHeadSelfAttention", "mask_ignored")
class MaskedFillThrownAway(Scaled):
    def weigh(self, scores, mask):
        if mask is not None:
            scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1)


@answers("MultiHeadSelfAttention", "mask_after")
class MaskAfterSoftmax(Scaled):
    def weigh(self, scores, mask):
        weights = scores.softmax(-1)
        return weights if mask is None else weights * mask


@answers("MultiHeadSelfAttention", "filled_with_0")
class FilledWithZero(Scaled):
    def weigh(self, scores, mask):
        return (scores if mask is None else scores * mask).softmax(-1)


@answers("MultiHeadSelfAttention", "mask_inverted")
class MaskInverted(Scaled):
    def weigh(self, scores, mask):
        return (scores if mask is None else scores.masked_fill(mask, -math.inf)).softmax(-1)


@answers("MultiHeadSelfAttention", "mask_on_queries")
class MaskOnQueries(Base):
    def attend(self, q, k, v, mask):
        return attention(q, k, v, None if mask is None else mask.transpose(-2, -1))[0]


@answers("MultiHeadSelfAttention", "residual")
class Residual(Base):
    def forward(self, x, mask=None):
        return x + super().forward(x, mask)


@answers("MultiHeadSelfAttention", "no_transpose")
class HeadsBehindTokens(Base):
    def split(self, t):
        return t.view(*t.shape[:2], self.n_heads, self.d_head)

    def merge(self, heads):
        return heads.reshape(*heads.shape[:2], -1)


@answers("MultiHeadSelfAttention", "no_transpose")
class FirstTransposeForgotten(Base):
    def split(self, t):
        return t.view(*t.shape[:2], self.n_heads, self.d_head)

    def merge(self, heads):
        return heads.transpose(1, 2).contiguous().view(heads.size(0), heads.size(1), -1)


@answers("MultiHeadSelfAttention", "view_transposed")
class ViewAfterTranspose(Base):
    def merge(self, heads):
        return heads.transpose(1, 2).view(heads.size(0), heads.size(2), -1)


@answers("MultiHeadSelfAttention", "unregistered")
class HeadsInNestedLists(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.heads = [[nn.Linear(d_model, d_model // n_heads) for _ in range(3)] for _ in range(n_heads)]
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        mask = None if mask is None else mask[:, 0]
        return self.w_o(torch.cat([attention(q(x), k(x), v(x), mask)[0] for q, k, v in self.heads], -1))


@answers("MultiHeadSelfAttention", "overwritten")
class WritesIntoInput(Base):
    def forward(self, x, mask=None):
        out = super().forward(x, mask)
        x += out
        return out


# --- on no list ---


@answers("MultiHeadSelfAttention")
class Identity(Base):
    def forward(self, x, mask=None):
        return x


@answers("MultiHeadSelfAttention")
class AverageOfValues(Base):
    def attend(self, q, k, v, mask):
        return v.mean(2, keepdim=True).expand_as(v)


@answers("MultiHeadSelfAttention")
class AlwaysCausal(Base):
    def attend(self, q, k, v, mask):
        keep = torch.ones(q.size(2), q.size(2), dtype=torch.bool).tril()
        return attention(q, k, v, keep if mask is None else keep & mask)[0]


@answers("MultiHeadSelfAttention")
class DropsInEval(Base):
    def forward(self, x, mask=None):
        return F.dropout(super().forward(x, mask), 0.1)


@answers("MultiHeadSelfAttention")
class ReluOnQueries(Base):
    def forward(self, x, mask=None):
        q, k, v = self.split(self.w_q(x).relu()), self.split(self.w_k(x)), self.split(self.w_v(x))
        return self.w_o(self.merge(self.attend(q, k, v, mask)))


@answers("MultiHeadSelfAttention")
class OnlyFirstHead(Base):
    def merge(self, heads):
        return heads[:, :1].expand_as(heads).transpose(1, 2).flatten(2)


@answers("MultiHeadSelfAttention")
class OutputTwice(Base):
    def forward(self, x, mask=None):
        return self.w_o(super().forward(x, mask))


@answers("MultiHeadSelfAttention")
class HardAttention(Base):
    def attend(self, q, k, v, mask):
        return F.one_hot(attention(q, k, v, mask)[1].argmax(-1), q.size(2)).to(v.dtype) @ v


@answers("MultiHeadSelfAttention")
class DetachedScores(Base):
    def attend(self, q, k, v, mask):
        return attention(q.detach(), k.detach(), v, mask)[0]


@answers("MultiHeadSelfAttention")
class WeakFill(Scaled):
    """A fill too small to hide anything for good."""

    def weigh(self, scores, mask):
        return (scores if mask is None else scores.masked_fill(~mask, -3.0)).softmax(-1)


@answers("MultiHeadSelfAttention")
class FilledWithMinus100(Scaled):
    def weigh(self, scores, mask):
        return (scores if mask is None else scores.masked_fill(~mask, -100.0)).softmax(-1)


@answers("MultiHeadSelfAttention")
class FilledWithMinus10000(Scaled):
    """As for half precision; scores can be lower than that."""

    def weigh(self, scores, mask):
        return (scores if mask is None else scores.masked_fill(~mask, -1e4)).softmax(-1)


@answers("MultiHeadSelfAttention")
class ThroughFloat32Everywhere(Base):
    """Returns float32 whatever came in, rounded to halves on the way."""

    def forward(self, x, mask=None):
        return super().forward(x, mask).half().float()


@answers("MultiHeadSelfAttention")
class Normalised(Base):
    def forward(self, x, mask=None):
        return F.normalize(super().forward(x, mask), dim=-1)


@answers("MultiHeadSelfAttention")
class BiasForgotten(Base):
    def forward(self, x, mask=None):
        q, k, v = (self.split(x @ f.weight.T) for f in (self.w_q, self.w_k, self.w_v))
        return self.w_o(self.merge(self.attend(q, k, v, mask)))


@answers("MultiHeadSelfAttention")
class MaskOnlyForFirstSample(Base):
    def attend(self, q, k, v, mask):
        return attention(q, k, v, None if mask is None else mask[:1])[0]


@answers("MultiHeadSelfAttention")
class HeadsReversed(Base):
    def merge(self, heads):
        return super().merge(heads.flip(1))


@answers("MultiHeadSelfAttention")
class RealMultiheadAttention(nn.Module):
    """Somebody else's answer."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, n_heads, batch_first=True)

    def forward(self, x, mask=None):
        return self.inner(x, x, x, need_weights=False)[0]


@answers("MultiHeadSelfAttention")
class Fused(Base):
    """Torch's own attention in place of the one given."""

    def attend(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, mask)
