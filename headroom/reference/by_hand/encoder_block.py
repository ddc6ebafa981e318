"""The pre-norm encoder block: everything else in this package, around a residual stream.

Vaswani et al. 2017, section 3.1; pre-norm after Xiong et al. 2020, "On Layer Normalization in the Transformer
Architecture".
"""

import numpy as np

from headroom.reference.by_hand.feed_forward import feed_forward, feed_forward_backward
from headroom.reference.by_hand.layer_norm import layer_norm, layer_norm_backward
from headroom.reference.by_hand.multi_head import multi_head_self_attention, multi_head_self_attention_backward
from headroom.reference.by_hand.parameters import Parameters, Saved, linear_parameters, named, norm_parameters, part


def encoder_block(
    parameters: Parameters, x: np.ndarray, n_heads: int, valid_lengths: np.ndarray | None = None
) -> tuple[np.ndarray, Saved]:
    """x + attention(norm_1(x)), then x + feed_forward(norm_2(x)).

    Args:
        parameters: norm_1, attention, norm_2 and feed_forward, named as in `headroom.reference.EncoderBlock`.
        x: tokens `(batch, tokens, d_model)`.
        n_heads: number of heads; divides d_model.
        valid_lengths: int `(batch,)` or `(batch, tokens)`, how many tokens may be attended to; None: all.

    Returns:
        out `(batch, tokens, d_model)` and, for the backward, what was computed on the way; the weights,
        `(batch, heads, tokens, tokens)`, are in it as saved["attention"]["weights"].

    Raises: as `multi_head_self_attention`.

    Source: Xiong et al. 2020, table 1, the right column.
    """
    p = parameters
    normed_1 = layer_norm(x, p["norm_1.gamma"], p["norm_1.beta"])
    attended, saved_attention = multi_head_self_attention(part(p, "attention"), normed_1, n_heads, valid_lengths)
    middle = x + attended  # (batch, tokens, d_model): the residual stream between the two branches
    normed_2 = layer_norm(middle, p["norm_2.gamma"], p["norm_2.beta"])
    fed, saved_feed_forward = feed_forward(part(p, "feed_forward"), normed_2)
    return middle + fed, {"x": x, "attention": saved_attention, "middle": middle, "feed_forward": saved_feed_forward}


def encoder_block_backward(d_out: np.ndarray, parameters: Parameters, saved: Saved) -> tuple[np.ndarray, Parameters]:
    """Both branches, last to first. A sum hands its gradient to both terms: d_x is d_out as it is, plus the branch's.

    Args:
        d_out: `(batch, tokens, d_model)`.
        parameters: as the forward got them.
        saved: as the forward returned it.

    Returns:
        d_x `(batch, tokens, d_model)` and the parameters' gradients, under the parameters' names.

    Source: the chain rule on Xiong et al. 2020, table 1; He et al. 2016, "Identity Mappings in Deep Residual
    Networks", equation 5, for the sum.
    """
    p = parameters
    d_normed_2, feed_gradients = feed_forward_backward(d_out, part(p, "feed_forward"), saved["feed_forward"])
    d_branch, gamma_2, beta_2 = layer_norm_backward(d_normed_2, saved["middle"], p["norm_2.gamma"])
    d_middle = d_out + d_branch  # (batch, tokens, d_model)
    d_normed_1, attention_gradients = multi_head_self_attention_backward(
        d_middle, part(p, "attention"), saved["attention"]
    )
    d_branch, gamma_1, beta_1 = layer_norm_backward(d_normed_1, saved["x"], p["norm_1.gamma"])
    gradients = {
        "norm_1.gamma": gamma_1,
        "norm_1.beta": beta_1,
        **named("attention", attention_gradients),
        "norm_2.gamma": gamma_2,
        "norm_2.beta": beta_2,
        **named("feed_forward", feed_gradients),
    }
    return d_middle + d_branch, gradients


def encoder_block_parameters(d_model: int, d_ff: int, rng: np.random.Generator) -> Parameters:
    """New parameters for a block of width `d_model`, `d_ff` inside the feed-forward network, in float64."""
    parameters = named("norm_1", norm_parameters(d_model)) | named("norm_2", norm_parameters(d_model))
    for name in ("w_q", "w_k", "w_v", "w_o"):
        parameters |= named(f"attention.{name}", linear_parameters(d_model, d_model, rng))
    parameters |= named("feed_forward.expand", linear_parameters(d_model, d_ff, rng))
    return parameters | named("feed_forward.shrink", linear_parameters(d_ff, d_model, rng))
