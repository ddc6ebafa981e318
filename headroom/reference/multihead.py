"""Multi-head attention, of a sequence to itself and to another one. Vaswani et al. 2017, section 3.2.2."""

from torch import Tensor, nn

from headroom.reference.attention import Attention


class MultiHeadSelfAttention(nn.Module):
    """`n_heads` attentions side by side, each in `d_head = d_model / n_heads` dimensions, concatenated, mixed by `w_o`.

    Args:
        d_model: width of the tokens, in and out.
        n_heads: number of heads; divides `d_model`.
        dropout: probability with which an attention weight is dropped while training.

    Raises:
        ValueError: `d_model` does not divide into `n_heads` equal heads.

    Source: Vaswani et al. 2017, section 3.2.2: MultiHead(Q, K, V) = Concat(head_1 … head_h) W_O.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)  # all heads' query maps in one matrix; the same for k and v
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.attend = Attention(dropout)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Let every token of `x` attend to all of them, itself included: `(batch, tokens, d_model)`, in and out.

        `mask`: bool, broadcastable to `(batch, heads, tokens, tokens)`; True = may attend.
        """
        q, k, v = (self.split_heads(w(x)) for w in (self.w_q, self.w_k, self.w_v))  # (batch, heads, tokens, d_head)
        heads = self.attend(q, k, v, mask)
        return self.w_o(self.merge_heads(heads))

    def split_heads(self, x: Tensor) -> Tensor:
        """`(batch, tokens, d_model)` → `(batch, heads, tokens, d_head)`: head h has the h-th slice of the width."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(-3, -2)

    def merge_heads(self, x: Tensor) -> Tensor:
        """`(batch, heads, tokens, d_head)` → `(batch, tokens, d_model)`: `split_heads` undone."""
        return x.transpose(-3, -2).flatten(-2)


class CrossAttention(MultiHeadSelfAttention):
    """Multi-head attention of one sequence to another, the memory, which gives the keys and values.

    Args and Raises: see `MultiHeadSelfAttention`.

    Source: Vaswani et al. 2017, section 3.2.3, the first of its three uses of attention.
    """

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None) -> Tensor:
        """Let every token of `x`, `(batch, n_queries, d_model)`, attend to every token of `memory`.

        Args:
            x: the tokens whose queries attend; the result has their shape.
            memory: the tokens that give keys and values, `(batch, n_keys, d_model)`.
            mask: bool, broadcastable to `(batch, heads, n_queries, n_keys)`; True = may attend.
        """
        q = self.split_heads(self.w_q(x))  # (batch, heads, n_queries, d_head)
        k, v = self.split_heads(self.w_k(memory)), self.split_heads(self.w_v(memory))  # (batch, heads, n_keys, d_head)
        heads = self.attend(q, k, v, mask)
        return self.w_o(self.merge_heads(heads))


def check_heads(d_model: int, n_heads: int) -> None:
    """Raise a ValueError unless `d_model` divides into `n_heads` equal heads."""
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"d_model={d_model} does not divide into n_heads={n_heads} equal heads")
