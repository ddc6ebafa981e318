"""Right feed-forward networks and blocks of lab 5 in the styles that people write: each class earns full marks."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from tests.answers import answers


class MultiHeadSelfAttention(nn.Module):
    """The attention that the lab gives."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.w_o((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(-2))


class LayerNorm(nn.Module):
    """The norm that the lab gives."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))

    def forward(self, x):
        mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
        return self.gamma * (x - mean) / torch.sqrt(variance + self.eps) + self.beta


# --- FeedForward -------------------------------------------------------------------------------------------------


@answers("FeedForward")
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.shrink = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.shrink(F.gelu(self.expand(x)))


@answers("FeedForward")
class InSequence(nn.Sequential):
    """No forward at all: the module is the sequence; a dropout of 0 beside it."""

    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(0.0), nn.Linear(d_ff, d_model))


@answers("FeedForward")
class WithUnusedDropout(nn.Module):
    """A place for dropout, with none."""

    def __init__(self, d_model, d_ff, dropout=0.0):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model), nn.Dropout(dropout)
        )

    def forward(self, x):
        return self.net(x)


@answers("FeedForward")
class Convolved(nn.Module):
    """Two convolutions of width 1, which want the features before the tokens."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.conv2 = nn.Conv1d(d_ff, d_model, kernel_size=1)
        self.conv1 = nn.Conv1d(d_model, d_ff, kernel_size=1)
        self.act = nn.GELU()

    def forward(self, x):
        tokens = x.reshape(1, -1, x.shape[-1]).transpose(1, 2)
        return self.conv2(self.act(self.conv1(tokens))).transpose(1, 2).reshape(x.shape)


@answers("FeedForward")
class BareMatrices(nn.Module):
    """x @ W with parameters of its own, and GELU from the error function."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.b2 = nn.Parameter(torch.zeros(d_model))
        self.W1 = nn.Parameter(torch.randn(d_model, d_ff) / d_model**0.5)
        self.W2 = nn.Parameter(torch.randn(d_ff, d_model) / d_ff**0.5)
        self.b1 = nn.Parameter(torch.zeros(d_ff))

    def forward(self, x):
        hidden = x @ self.W1 + self.b1
        return 0.5 * hidden * (1 + torch.erf(hidden / math.sqrt(2))) @ self.W2 + self.b2


@answers("FeedForward")
class TheOtherOrientation(nn.Module):
    """Parameters as nn.Linear keeps them, einsum, and GELU from the normal distribution."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(d_ff, d_model)), nn.Parameter(torch.randn(d_model, d_ff))
        self.up_bias, self.down_bias = nn.Parameter(torch.randn(d_ff)), nn.Parameter(torch.randn(d_model))

    def forward(self, x):
        h = torch.einsum("...i,oi->...o", x, self.up) + self.up_bias
        h = h * torch.distributions.Normal(0.0, 1.0).cdf(h)
        return torch.einsum("...i,oi->...o", h, self.down) + self.down_bias


@answers("FeedForward")
class TokenByToken(nn.Module):
    """One token after the other; names that say nothing, declared in the other order."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.b = nn.Linear(d_ff, d_model)
        self.a = nn.Linear(d_model, d_ff)

    def forward(self, x):
        rows = x.reshape(-1, x.size(-1))
        return torch.stack([self.b(nn.functional.gelu(self.a(row))) for row in rows]).view(x.shape)


@answers("FeedForward")
class KeysAndValues(nn.Module):
    """A sum of values, each weighed by how well the token fits its key (Geva et al. 2021)."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.layers = nn.ModuleDict({"fit": nn.Linear(d_model, d_ff), "tell": nn.Linear(d_ff, d_model)})

    def forward(self, x):
        keys, values = self.layers["fit"], self.layers["tell"]
        total = values.bias.expand_as(x)
        for m in range(keys.out_features):
            fit = torch.nn.functional.gelu((x * keys.weight[m]).sum(-1) + keys.bias[m])
            total = total + fit.unsqueeze(-1) * values.weight[:, m]
        return total


@answers("FeedForward")
class Talkative(nn.Module):
    """Helpers, prints, and work in place on tensors of its own."""

    class Bend(nn.Module):
        def forward(self, h):
            return torch.special.ndtr(h).mul_(h)

    def __init__(self, d_model, d_ff):
        super().__init__()
        maps = [nn.Linear(n_in, n_out) for n_in, n_out in ((d_model, d_ff), (d_ff, d_model))]
        self.maps = nn.ModuleList(maps)
        self.bend = self.Bend()

    def forward(self, x):
        print("x", tuple(x.shape))
        h = self.maps[0](x)
        return self.maps[1](self.bend(h))


# --- EncoderBlock ------------------------------------------------------------------------------------------------


@answers("EncoderBlock")
class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1 = LayerNorm(d_model)
        self.attention = MultiHeadSelfAttention(d_model, n_heads)
        self.norm_2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x), mask)
        return x + self.feed_forward(self.norm_2(x))


@answers("EncoderBlock")
class NumberedBackwards(nn.Module):
    """Everything declared in another order than it is used, and the norms' numbers exchanged."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.ln1 = LayerNorm(d_model)
        self.ln2 = LayerNorm(d_model)
        self.mha = MultiHeadSelfAttention(d_model, n_heads)

    def forward(self, x, mask=None):
        h = x + self.mha(self.ln2(x), mask=mask)
        return h + self.ffn(self.ln1(h))


@answers("EncoderBlock")
class Wrapped(nn.Module):
    """A branch that knows its norm and its sum."""

    class Residual(nn.Module):
        def __init__(self, d_model, fn):
            super().__init__()
            self.norm, self.fn = LayerNorm(d_model), fn

        def forward(self, x, *more):
            return self.fn(self.norm(x), *more) + x

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.sublayers = nn.ModuleList(
            [
                self.Residual(d_model, MultiHeadSelfAttention(d_model, n_heads)),
                self.Residual(d_model, FeedForward(d_model, d_ff)),
            ]
        )

    def forward(self, x, mask=None):
        attend, think = self.sublayers
        return think(attend(x, mask))


@answers("EncoderBlock")
class PyTorchsNorm(nn.Module):
    """nn.LayerNorm, the feed-forward network written out, and residuals kept under another name."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.attn = MultiHeadSelfAttention(d_model, n_heads)
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.attn_norm, self.ffn_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        residual = x
        x = self.attn_norm(x)
        x = self.attn(x, mask)
        x = residual + x
        residual = x
        x = self.ffn_norm(x)
        x = self.linear2(F.gelu(self.linear1(x)))
        x = residual + x
        return x


@answers("EncoderBlock")
class OwnFusedAttention(nn.Module):
    """The attention of lab 2 as somebody wrote it there: one map for q, k and v."""

    class Attention(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.to_qkv, self.to_out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)

        def forward(self, x, mask):
            q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=self.heads) for t in self.to_qkv(x).chunk(3, dim=-1))
            scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
            if mask is not None:
                scores = scores.masked_fill(mask.logical_not(), torch.finfo(scores.dtype).min)
            return self.to_out(rearrange(scores.softmax(-1) @ v, "b h n d -> b n (h d)"))

    def __init__(self, dim, heads, mlp_dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, dim))
        self.pre = nn.LayerNorm(dim)
        self.attn = self.Attention(dim, heads)

    def forward(self, x, mask=None):
        x = self.attn(self.pre(x), mask) + x
        return self.mlp(x) + x


@answers("EncoderBlock")
class MapsInTheBlock(nn.Module):
    """Attention written out in the block itself, PyTorch's kernel inside."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.h = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))
        self.norm_a, self.norm_b = LayerNorm(d_model), LayerNorm(d_model)
        self.ff = FeedForward(d_model, d_ff)

    def attend(self, x, mask):
        b, s, d = x.shape
        q, k, v = (w(x).view(b, s, self.h, d // self.h).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(out.transpose(1, 2).reshape(b, s, d))

    def forward(self, x, mask=None):
        a = self.attend(self.norm_a(x), mask)
        f = self.ff(self.norm_b(x + a))
        return x + a + f


@answers("EncoderBlock")
class InPlaceOnItsOwn(EncoderBlock):
    """`+=`, but on tensors of its own, which nobody needs any more."""

    def forward(self, x, mask=None):
        attended = self.attention(self.norm_1(x), mask)
        attended += x
        thought = self.feed_forward(self.norm_2(attended))
        thought += attended
        return thought


@answers("EncoderBlock")
class BareFeedForward(nn.Module):
    """Bare matrices for the feed-forward network, torch.add for the sums, a list of branches kept for printing."""

    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.W1, self.b1 = nn.Parameter(torch.randn(d_model, d_ff)), nn.Parameter(torch.zeros(d_ff))
        self.W2, self.b2 = nn.Parameter(torch.randn(d_ff, d_model)), nn.Parameter(torch.zeros(d_model))
        self.self_attention = MultiHeadSelfAttention(d_model, n_heads)
        self.norms = nn.ModuleList(LayerNorm(d_model) for _ in range(2))
        self.parts = [self.self_attention, self.norms]

    def forward(self, x, mask=None):
        x = torch.add(x, self.self_attention(self.norms[0](x), mask))
        return torch.add(x, F.gelu(self.norms[1](x) @ self.W1 + self.b1) @ self.W2 + self.b2)


@answers("EncoderBlock")
class SampleBySample(EncoderBlock):
    """One sequence of the batch after the other, the mask cut to fit."""

    def forward(self, x, mask=None):
        results = []
        for i, sample in enumerate(x.unsqueeze(1)):
            own = None if mask is None else mask[i : i + 1] if len(mask) > 1 else mask
            half = sample + self.attention(self.norm_1(sample), own)
            results.append(half + self.feed_forward(self.norm_2(half)))
        return torch.cat(results)
