"""The Transformer encoder, pre-norm: blocks of self-attention and feed-forward around a residual stream.

Vaswani et al. 2017, section 3.1; pre-norm after Xiong et al. 2020, "On Layer Normalization in the Transformer
Architecture".
"""

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

    Source: Huang et al. 2016, "Deep Networks with Stochastic Depth".
    """

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        keep = torch.rand(x.size(0), *[1] * (x.dim() - 1), device=x.device) >= self.rate  # (batch, 1, 1)
        return x * keep / (1 - self.rate)


class EncoderBlock(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)).

    Args:
        d_model, n_heads: width of the tokens and number of heads; `n_heads` divides `d_model`.
        d_ff: width inside the feed-forward network, usually 2 to 4 times `d_model`.
        dropout: on attention weights and on the feed-forward's output.
        drop_path: probability of skipping a branch for a sample.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0, drop_path: float = 0.0):
        super().__init__()
        self.norm_1 = LayerNorm(d_model)
        self.attention = MultiHeadSelfAttention(d_model, n_heads, dropout)
        self.norm_2 = LayerNorm(d_model)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`x`: `(batch, tokens, d_model)`. Returns the same shape, and the weights `(batch, heads, tokens, tokens)`."""
        attended, weights = self.attention(self.norm_1(x), mask, return_weights=True)
        x = x + self.drop_path(attended)
        x = x + self.drop_path(self.feed_forward(self.norm_2(x)))
        return x, weights


class Encoder(nn.Module):
    """`n_layers` blocks and a last LayerNorm: without it, a pre-norm residual stream keeps growing with depth.

    Args: as of `EncoderBlock`; `drop_path` is the last block's rate, earlier blocks get proportionally less.
    """

    def __init__(
        self, n_layers: int, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0, drop_path: float = 0.0
    ):
        super().__init__()
        rates = [drop_path * (layer + 1) / n_layers for layer in range(n_layers)]
        self.blocks = nn.ModuleList(EncoderBlock(d_model, n_heads, d_ff, dropout, rate) for rate in rates)
        self.norm = LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Encode `x`, `(batch, tokens, d_model)`, under an optional `mask` (True = may attend).

        Returns:
            tokens `(batch, tokens, d_model)` and every weight `(batch, layers, heads, tokens, tokens)`.
        """
        attention = []
        for block in self.blocks:
            x, weights = block(x, mask)
            attention.append(weights)
        return self.norm(x), torch.stack(attention, dim=1)
