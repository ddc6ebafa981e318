"""Scaled dot-product attention and the masks it takes.

Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, equation 1.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

SHORT = 32  # keys; where torch's kernel begins to pay on a CPU: see benchmarks/attention.py


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √d_k) v: every query takes a weighted mean of the values.

    Args:
        q: queries, `(..., n_queries, d_k)`; the leading dimensions are usually `(batch, heads)`.
        k: keys, `(..., n_keys, d_k)`.
        v: values, `(..., n_keys, d_v)`.
        mask: bool, broadcastable to `(..., n_queries, n_keys)`; True = may attend.
            A query that may attend to nothing gets NaN: there is no mean of no values.
        dropout: the probability with which a weight is set to 0 (and the rest scaled up). Pass 0 in eval mode.

    Returns:
        output `(..., n_queries, d_v)` and weights `(..., n_queries, n_keys)`, the weights before dropout.

    Raises:
        TypeError: the mask is not bool.
        ValueError: the mask does not broadcast to the scores.

    Source: Vaswani et al. 2017, equation 1.
    """
    # Dividing q rather than q kᵀ is the same and cheaper: d_k numbers per query in place of n_keys.
    scores = (q / math.sqrt(q.size(-1))) @ k.transpose(-2, -1)  # (..., n_queries, n_keys)
    if mask is not None:
        check_mask(mask, scores.shape)
        scores = scores.masked_fill(~mask, float("-inf"))
    # Each query's weights sum to 1. They take the scores' place in memory where no gradient needs these any more.
    weights = torch.softmax(scores, dim=-1, out=None if scores.requires_grad else scores)
    return F.dropout(weights, dropout) @ v, weights


def attention_output(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """The output of `scaled_dot_product_attention` alone, with PyTorch's fused kernel where that is faster.

    The fused kernel goes through the keys block by block and keeps no weights; on a CPU, a short sequence is faster
    without it. Arguments and errors as there; returns `(..., n_queries, d_v)`.

    Source: Vaswani et al. 2017, equation 1; Dao et al. 2022, "FlashAttention", algorithm 1.
    """
    if q.device.type == "cpu" and k.size(-2) < SHORT:
        return scaled_dot_product_attention(q, k, v, mask, dropout)[0]
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
    check_mask(mask, (*q.shape[:-1], k.size(-2)))
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
    return output.masked_fill(~mask.any(dim=-1, keepdim=True), float("nan"))  # torch says 0 where there is no key


def causal_mask(n_tokens: int, device: torch.device | str | None = None) -> Tensor:
    """Which token may attend to which when nothing may look ahead: token i to tokens 0 … i.

    Returns:
        bool `(n_tokens, n_tokens)`, True on and below the diagonal.

    Source: Vaswani et al. 2017, section 3.2.3.
    """
    return torch.ones(n_tokens, n_tokens, dtype=torch.bool, device=device).tril()


def padding_mask(lengths: Tensor, n_tokens: int) -> Tensor:
    """Which keys are real tokens, for a batch of sequences padded to `n_tokens`.

    Args:
        lengths: int `(batch,)`, the number of real tokens of each sequence; padding comes after them.
        n_tokens: the padded length.

    Returns:
        bool `(batch, 1, 1, n_tokens)`: hides keys, from every head and every query alike. A sequence without any real
        token leaves its queries nothing to attend to.

    Raises:
        ValueError: `lengths` is not one-dimensional, or holds one that is not 0 … `n_tokens`.

    Source: as `key_padding_mask` of `torch.nn.MultiheadAttention`, with True the other way round.
    """
    if lengths.dim() != 1:
        raise ValueError(f"lengths has shape {tuple(lengths.shape)}; it must be (batch,): one length a sequence")
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= n_tokens:
        raise ValueError(
            f"lengths holds {lengths.min()} … {lengths.max()}; with n_tokens={n_tokens} it must be 0 … that"
        )
    real = torch.arange(n_tokens, device=lengths.device) < lengths[:, None]  # (batch, n_tokens)
    return real[:, None, None, :]


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise TypeError unless `mask` is bool, ValueError unless it broadcasts to the scores' `shape`."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}; it must be torch.bool, with True = may attend")
    fits = mask.dim() <= len(shape) and all(
        m in (1, s) for m, s in zip(reversed(mask.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise ValueError(f"mask of shape {tuple(mask.shape)} does not broadcast to the scores' {tuple(shape)}")
