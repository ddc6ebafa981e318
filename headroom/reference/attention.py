"""Scaled dot-product attention and the masks it takes.

Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, equation 1.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SHORT = 32  # keys: with fewer, equation 1 trains faster on a CPU than the kernel (benchmarks/attention.py)


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / √d_k) v: every query takes a weighted mean of the values.

    Args:
        q: queries, `(..., n_queries, d_k)`; the leading dimensions are usually `(batch, heads)`.
        k: keys, `(..., n_keys, d_k)`.
        v: values, `(..., n_keys, d_v)`.
        mask: bool, broadcastable to `(..., n_queries, n_keys)`; True = may attend.
            A query that may attend to nothing gets NaN: there is no mean of no values.

    Returns:
        output `(..., n_queries, d_v)` and weights `(..., n_queries, n_keys)`; each query's weights sum to 1.

    Raises:
        TypeError: the mask is not bool.
        ValueError: the mask does not broadcast to the scores.

    Source: Vaswani et al. 2017, equation 1.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (..., n_queries, n_keys)
    if mask is not None:
        check_mask(mask, scores.shape)
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


class Attention(nn.Module):
    """Equation 1 as the models compute it: the output alone, by PyTorch's fused kernel.

    Training on short sequences on a CPU takes `scaled_dot_product_attention`, which is faster there. Every attention
    layer holds an `Attention` called `attend`; `attention_maps` (maps.py) finds them by this name.

    Args:
        dropout: probability with which a weight is set to 0, and the rest scaled up, while training.

    Source: Vaswani et al. 2017, equation 1; the kernel: Dao et al. 2022, "FlashAttention", algorithm 1.
    """

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """The output of `scaled_dot_product_attention`, `(..., n_queries, d_v)`; arguments and errors as there.

        The leading dimensions of `q`, `k` and `v` are equal. Where a query may attend to nothing, the
        gradient of `v` is NaN by equation 1, and finite by the kernel.
        """
        dropout = self.dropout if self.training else 0.0
        if q.requires_grad and not dropout and q.device.type == "cpu" and k.size(-2) < SHORT:
            return scaled_dot_product_attention(q, k, v, mask)[0]
        if mask is None:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)
        check_mask(mask, (*q.shape[:-1], k.size(-2)))
        output = F.scaled_dot_product_attention(q, k, v, torch.atleast_2d(mask), dropout)  # no mask of one dimension
        sees = mask.any(dim=-1, keepdim=True)  # whether a query may attend to anything: the kernel returns 0 if not
        return output if sees.all() else output.masked_fill(~sees, float("nan"))

    def weights(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        """The weights of the same call, before dropout, `(..., n_queries, n_keys)`; for `attention_maps`."""
        return scaled_dot_product_attention(q, k, v, mask)[1]


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
        TypeError: `lengths` holds floats.
        ValueError: `lengths` is not one-dimensional, or holds one that is not 0 … `n_tokens`.

    Source: as `key_padding_mask` of `torch.nn.MultiheadAttention`, with True the other way round.
    """
    if lengths.is_floating_point():
        raise TypeError(f"lengths has dtype {lengths.dtype}; it must hold integers")
    if lengths.dim() != 1:
        raise ValueError(f"lengths has shape {tuple(lengths.shape)}; it must be (batch,): one length a sequence")
    if len(lengths) and not 0 <= lengths.min() <= lengths.max() <= n_tokens:
        raise ValueError(
            f"lengths holds {lengths.min()} … {lengths.max()}; with n_tokens={n_tokens}, each must be 0 … {n_tokens}"
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
