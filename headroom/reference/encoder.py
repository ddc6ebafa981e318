"""The Transformer encoder: blocks of self-attention and feed-forward around a residual stream.

Vaswani et al. 2017, section 3.1; pre-norm after Xiong et al. 2020, "On Layer Normalization in the Transformer
Architecture".
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from headroom.reference.multihead import MultiHeadSelfAttention
from headroom.reference.norm import LayerNorm


class FeedForward(nn.Module):
    """Two linear maps with a GELU between, applied to every token alike: `(..., d_model)` → `(..., d_model)`.

    Source: Vaswani et al. 2017, section 3.3; GELU as in Dosovitskiy et al. 2021.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.shrink = nn.Linear(d_ff, d_model)
        self.activation = nn.GELU()
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.shrink(self.activation(self.expand(x))))


class DropPath(nn.Module):
    """While training, skips a branch for a whole sample with probability `rate`, and scales the rest up.

    `(batch, ...)` in and out; a skipped sample's branch is 0, and only the residual stream goes on.

    Raises:
        ValueError: the rate is not in [0, 1).

    Source: Huang et al. 2016, "Deep Networks with Stochastic Depth".
    """

    def __init__(self, rate: float):
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"drop_path={rate} must be at least 0 and less than 1")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        keep = torch.rand(x.size(0), *[1] * (x.dim() - 1), device=x.device) >= self.rate  # (batch, 1, …, 1)
        return x * keep / (1 - self.rate)


class EncoderBlock(nn.Module):
    """Pre-norm: x + attention(norm(x)), then x + feed_forward(norm(x)).

    Post-norm: norm(x + attention(x)), then norm(x + feed_forward(x)).

    Args:
        d_model, n_heads: width of the tokens and number of heads; `n_heads` divides `d_model`.
        d_ff: width inside the feed-forward network, usually 2 to 4 times `d_model`.
        dropout: on attention weights and on the feed-forward's output.
        drop_path: probability of skipping a branch for a sample.
        pre_norm: True to normalise the input of each branch, False to normalise each sum, as in the 2017 paper.
        norm: which normalisation: `LayerNorm`, or one of `norm.py`.
        attention: makes the self-attention from `d_model`, `n_heads` and `dropout`.

    Raises:
        ValueError: as `MultiHeadSelfAttention` and `DropPath`.

    Source: Vaswani et al. 2017, section 3.1; pre-norm: Xiong et al. 2020, table 1.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        *,
        pre_norm: bool = True,
        norm: Callable[[int], nn.Module] = LayerNorm,
        attention: Callable[[int, int, float], nn.Module] = MultiHeadSelfAttention,
    ):
        super().__init__()
        self.norm_1 = norm(d_model)
        self.attention = attention(d_model, n_heads, dropout)
        self.norm_2 = norm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.drop_path = DropPath(drop_path)
        self.pre_norm = pre_norm

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """`x`: `(batch, tokens, d_model)`, and so is the result; for `mask` see the attention."""
        if self.pre_norm:
            x = x + self.drop_path(self.attention(self.norm_1(x), mask))
            return x + self.drop_path(self.feed_forward(self.norm_2(x)))
        x = self.norm_1(x + self.drop_path(self.attention(x, mask)))
        return self.norm_2(x + self.drop_path(self.feed_forward(x)))


class Encoder(nn.Module):
    """`n_layers` blocks. With pre-norm, one more norm follows, because the residual stream grows with depth.

    Args:
        n_layers: number of blocks.
        d_model, n_heads, d_ff, dropout, pre_norm, norm, attention: of every block: see `EncoderBlock`.
        drop_path: the last block's rate; block l of L has l / L of it.

    Source: Vaswani et al. 2017, section 3.1; the last norm: Xiong et al. 2020, table 1.
    """

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        *,
        pre_norm: bool = True,
        norm: Callable[[int], nn.Module] = LayerNorm,
        attention: Callable[[int, int, float], nn.Module] = MultiHeadSelfAttention,
    ):
        super().__init__()
        rates = [drop_path * (layer + 1) / n_layers for layer in range(n_layers)]
        self.blocks = nn.ModuleList(
            EncoderBlock(d_model, n_heads, d_ff, dropout, rate, pre_norm=pre_norm, norm=norm, attention=attention)
            for rate in rates
        )
        self.norm = norm(d_model) if pre_norm else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Encode `x`, `(batch, tokens, d_model)`, in and out, under an optional `mask` (True = may attend)."""
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)
