"""The position-wise feed-forward network. Vaswani et al. 2017, section 3.3."""

import numpy as np

from headroom.reference.by_hand.gelu import gelu, gelu_backward
from headroom.reference.by_hand.linear import linear, linear_backward
from headroom.reference.by_hand.parameters import Parameters, Saved


def feed_forward(parameters: Parameters, x: np.ndarray) -> tuple[np.ndarray, Saved]:
    """out = shrink(gelu(expand(x))), for every token alike.

    Args:
        parameters: expand, weight `(d_ff, d_model)` and bias, and shrink, weight `(d_model, d_ff)` and bias.
        x: `(..., d_model)`.

    Returns:
        out `(..., d_model)` and, for the backward, what was computed on the way.

    Source: Vaswani et al. 2017, section 3.3, equation 2, with a GELU in place of the ReLU.
    """
    expanded = linear(x, parameters["expand.weight"], parameters["expand.bias"])  # (..., d_ff)
    active = gelu(expanded)
    out = linear(active, parameters["shrink.weight"], parameters["shrink.bias"])  # (..., d_model)
    return out, {"x": x, "expanded": expanded, "active": active}


def feed_forward_backward(d_out: np.ndarray, parameters: Parameters, saved: Saved) -> tuple[np.ndarray, Parameters]:
    """The forward's three steps, last to first.

    Args:
        d_out: `(..., d_model)`.
        parameters: as the forward got them.
        saved: as the forward returned it.

    Returns:
        d_x `(..., d_model)` and the parameters' gradients, under the parameters' names.

    Source: the chain rule on Vaswani et al. 2017, equation 2.
    """
    d_active, shrink_weight, shrink_bias = linear_backward(d_out, saved["active"], parameters["shrink.weight"])
    d_expanded = gelu_backward(d_active, saved["expanded"])  # (..., d_ff)
    d_x, expand_weight, expand_bias = linear_backward(d_expanded, saved["x"], parameters["expand.weight"])
    gradients = {
        "expand.weight": expand_weight,
        "expand.bias": expand_bias,
        "shrink.weight": shrink_weight,
        "shrink.bias": shrink_bias,
    }
    return d_x, gradients
