"""Multi-head attention, of a sequence to itself or to another one. Vaswani et al. 2017, section 3.2.2."""

from torch import Tensor, nn

from headroom.reference.attention import attention_output, scaled_dot_product_attention
from headroom.reference.cache import KeyValueCache
from headroom.reference.rotary import rotate


class MultiHeadAttention(nn.Module):
    """`n_heads` attentions side by side, each in its own `d_head = d_model / n_heads` dimensions, then mixed.

    The queries come from one sequence, the keys and values from another, the memory: cross-attention.

    Args:
        d_model: width of the tokens, in and out.
        n_heads: number of heads; divides `d_model`.
        dropout: probability with which an attention weight is dropped while training.

    Raises:
        ValueError: `d_model` does not divide into `n_heads` equal heads.

    Source: Vaswani et al. 2017, section 3.2.2: MultiHead(Q, K, V) = Concat(head_1 … head_h) W_O.
    """

    rotary = False  # whether queries and keys are turned by their position

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"d_model={d_model} does not divide into n_heads={n_heads} equal heads")
        self.n_heads = n_heads
        self.dropout = dropout
        self.w_q = nn.Linear(d_model, d_model)  # all heads' query maps in one matrix; the same for k and v
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        mask: Tensor | None = None,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Let every token of `x` attend to every token of `memory`.

        Args:
            x: tokens that ask, `(batch, n_queries, d_model)`.
            memory: tokens that answer, `(batch, n_keys, d_model)`; None: only those in the cache.
            mask: bool, broadcastable to `(batch, heads, n_queries, n_keys)`; True = may attend.
            return_weights: also return the weights `(batch, heads, n_queries, n_keys)`.
            cache: holds the keys and values of earlier calls; `memory`'s are appended, and count towards n_keys.

        Returns:
            `(batch, n_queries, d_model)`, or that and the weights.

        Raises:
            ValueError: there is no memory, and no cache that holds anything.
        """
        start = len(cache) if cache is not None else 0  # the position of the first new token
        q = self.split_heads(self.w_q(x))  # (batch, heads, n_queries, d_head)
        if self.rotary:
            q = rotate(q, start)
        if memory is not None:
            k = self.split_heads(self.w_k(memory))  # (batch, heads, n_keys, d_head)
            v = self.split_heads(self.w_v(memory))
            if self.rotary:
                k = rotate(k, start)
            if cache is not None:
                k, v = cache.append(k, v)
        elif cache is not None:
            k, v = cache.kept()
        else:
            raise ValueError("there is neither a memory nor a cache to attend to")
        dropout = self.dropout if self.training else 0.0
        if return_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask, dropout)
            return self.w_o(self.merge_heads(heads)), weights
        heads = attention_output(q, k, v, mask, dropout)  # (batch, heads, n_queries, d_head)
        return self.w_o(self.merge_heads(heads))  # (batch, n_queries, d_model)

    def split_heads(self, x: Tensor) -> Tensor:
        """`(batch, tokens, d_model)` → `(batch, heads, tokens, d_head)`: head h owns the h-th slice of the width."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def merge_heads(self, x: Tensor) -> Tensor:
        """`(batch, heads, tokens, d_head)` → `(batch, tokens, d_model)`: `split_heads` undone."""
        return x.transpose(1, 2).flatten(-2)


class MultiHeadSelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself.

    Args: as of `MultiHeadAttention`, and
        rotary: turn queries and keys by their position (see `rotate`).

    Raises:
        ValueError: `d_model` does not divide into `n_heads` equal heads, or rotary positions get heads of odd width.

    Source: Vaswani et al. 2017, section 3.2.3, the second of its three uses of attention; rotary: Su et al. 2021.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0, rotary: bool = False):
        super().__init__(d_model, n_heads, dropout)
        if rotary and d_model // n_heads % 2:
            raise ValueError(f"rotary positions turn pairs of features: d_head={d_model // n_heads} must be even")
        self.rotary = rotary

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        return_weights: bool = False,
        cache: KeyValueCache | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Let every token of `x`, `(batch, tokens, d_model)`, attend to every other, and to those in the cache.

        Arguments and results as of `MultiHeadAttention.forward`, with `x` as its own memory.
        """
        return super().forward(x, x, mask, return_weights, cache)
