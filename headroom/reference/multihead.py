"""Multi-head self-attention. Vaswani et al. 2017, section 3.2.2."""

from torch import Tensor, nn

from headroom.reference.attention import scaled_dot_product_attention


class MultiHeadSelfAttention(nn.Module):
    """`n_heads` attentions side by side, each in its own `d_head = d_model / n_heads` dimensions, then mixed.

    Args:
        d_model: width of the tokens, in and out.
        n_heads: number of heads; divides `d_model`.
        dropout: probability with which an attention weight is dropped while training.

    Raises:
        ValueError: `d_model` does not divide into `n_heads` equal heads.

    Source: Vaswani et al. 2017, section 3.2.2: MultiHead(x) = Concat(head_1 … head_h) W_O.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model={d_model} does not divide into n_heads={n_heads} equal heads")
        self.n_heads = n_heads
        self.dropout = dropout
        self.w_q = nn.Linear(d_model, d_model)  # all heads' query maps in one matrix; the same for k and v
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(
        self, x: Tensor, mask: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Let every token attend to every other.

        Args:
            x: tokens `(batch, tokens, d_model)`.
            mask: bool, broadcastable to `(batch, heads, tokens, tokens)`; True = may attend.
            return_weights: also return the weights `(batch, heads, tokens, tokens)`.

        Returns:
            `(batch, tokens, d_model)`, or that and the weights.
        """
        q = self.split_heads(self.w_q(x))  # (batch, heads, tokens, d_head)
        k = self.split_heads(self.w_k(x))
        v = self.split_heads(self.w_v(x))
        dropout = self.dropout if self.training else 0.0
        heads, weights = scaled_dot_product_attention(q, k, v, mask, dropout)
        out = self.w_o(self.merge_heads(heads))  # (batch, tokens, d_model)
        return (out, weights) if return_weights else out

    def split_heads(self, x: Tensor) -> Tensor:
        """`(batch, tokens, d_model)` → `(batch, heads, tokens, d_head)`: head h owns the h-th slice of the width."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def merge_heads(self, x: Tensor) -> Tensor:
        """`(batch, heads, tokens, d_head)` → `(batch, tokens, d_model)`: `split_heads` undone."""
        return x.transpose(1, 2).flatten(-2)
