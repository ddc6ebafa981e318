"""Multi-head self-attention. Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2."""

import numpy as np

from headroom.reference.by_hand.attention import attention, attention_backward
from headroom.reference.by_hand.linear import linear, linear_backward
from headroom.reference.by_hand.parameters import Parameters, Saved


def split_heads(x: np.ndarray, n_heads: int) -> np.ndarray:
    """`(batch, tokens, d_model)` → `(batch, heads, tokens, d_head)`: head h owns the h-th slice of the width.

    Nothing is computed, numbers only change places: its backward is `merge_heads`.

    Raises:
        ValueError: d_model does not divide into n_heads equal heads.
    """
    batch, n_tokens, d_model = x.shape
    if n_heads < 1 or d_model % n_heads:
        raise ValueError(f"d_model={d_model} does not divide into n_heads={n_heads} equal heads")
    return x.reshape(batch, n_tokens, n_heads, -1).swapaxes(1, 2)


def merge_heads(x: np.ndarray) -> np.ndarray:
    """`(batch, heads, tokens, d_head)` → `(batch, tokens, d_model)`: `split_heads` undone, and its backward."""
    batch, _, n_tokens, _ = x.shape
    return x.swapaxes(1, 2).reshape(batch, n_tokens, -1)


def multi_head_self_attention(
    parameters: Parameters, x: np.ndarray, n_heads: int, valid_lengths: np.ndarray | None = None
) -> tuple[np.ndarray, Saved]:
    """MultiHead(x) = Concat(head_1 … head_h) W_O, each head an attention in its own slice of the width.

    Args:
        parameters: w_q, w_k, w_v and w_o, each with weight `(d_model, d_model)` and bias `(d_model,)`.
        x: tokens `(batch, tokens, d_model)`.
        n_heads: number of heads; divides d_model.
        valid_lengths: int `(batch,)` or `(batch, tokens)`, how many tokens may be attended to; None: all.

    Returns:
        out `(batch, tokens, d_model)` and, for the backward, what was computed on the way: among it "weights",
        `(batch, heads, tokens, tokens)`.

    Raises: as `attention` and `split_heads`.

    Source: Vaswani et al. 2017, section 3.2.2.
    """
    p = parameters
    q = split_heads(linear(x, p["w_q.weight"], p["w_q.bias"]), n_heads)  # (batch, heads, tokens, d_head)
    k = split_heads(linear(x, p["w_k.weight"], p["w_k.bias"]), n_heads)
    v = split_heads(linear(x, p["w_v.weight"], p["w_v.bias"]), n_heads)
    heads, weights = attention(q, k, v, valid_lengths)
    merged = merge_heads(heads)  # (batch, tokens, d_model)
    out = linear(merged, p["w_o.weight"], p["w_o.bias"])
    return out, {"x": x, "q": q, "k": k, "v": v, "weights": weights, "merged": merged}


def multi_head_self_attention_backward(
    d_out: np.ndarray, parameters: Parameters, saved: Saved
) -> tuple[np.ndarray, Parameters]:
    """The forward's steps, last to first. x went three ways, into q, k and v: what comes back on each is added up.

    Args:
        d_out: `(batch, tokens, d_model)`.
        parameters: as the forward got them.
        saved: as the forward returned it.

    Returns:
        d_x `(batch, tokens, d_model)` and the parameters' gradients, under the parameters' names.

    Source: the chain rule on Vaswani et al. 2017, section 3.2.2.
    """
    p, x, q, k, v = parameters, saved["x"], saved["q"], saved["k"], saved["v"]
    gradients = {}
    d_merged, gradients["w_o.weight"], gradients["w_o.bias"] = linear_backward(d_out, saved["merged"], p["w_o.weight"])
    d_heads = split_heads(d_merged, n_heads=q.shape[1])  # (batch, heads, tokens, d_head)
    d_q, d_k, d_v = attention_backward(d_heads, q, k, v, saved["weights"])
    x_by_q, gradients["w_q.weight"], gradients["w_q.bias"] = linear_backward(merge_heads(d_q), x, p["w_q.weight"])
    x_by_k, gradients["w_k.weight"], gradients["w_k.bias"] = linear_backward(merge_heads(d_k), x, p["w_k.weight"])
    x_by_v, gradients["w_v.weight"], gradients["w_v.bias"] = linear_backward(merge_heads(d_v), x, p["w_v.weight"])
    return x_by_q + x_by_k + x_by_v, gradients
