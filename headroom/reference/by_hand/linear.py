"""The linear map, of every token alike.

Rumelhart, Hinton & Williams 1986, "Learning Representations by Back-propagating Errors".
"""

import numpy as np

from headroom.reference.by_hand.arguments import check_floats, check_shape


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """out = x weightᵀ + bias, for every token alike.

    Args:
        x: `(..., n_in)`.
        weight: `(n_out, n_in)`, a row for each output, as `torch.nn.Linear` stores it.
        bias: `(n_out,)`.

    Returns:
        out `(..., n_out)`.

    Raises:
        TypeError: an argument that is not floating.
        ValueError: widths that do not fit.

    Source: Rumelhart et al. 1986, equation 1.
    """
    check_floats(x=x, weight=weight, bias=bias)
    if weight.shape != (*bias.shape, x.shape[-1]):
        raise ValueError(
            f"weight has shape {weight.shape}; for x of shape {x.shape} and bias of shape {bias.shape} it must be "
            f"(n_out, n_in) = {(*bias.shape, x.shape[-1])}"
        )
    return x @ weight.T + bias


def linear_backward(d_out: np.ndarray, x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """d_x = d_out weight, d_weight = Σ d_outᵀ x, d_bias = Σ d_out, the sums over all tokens.

    out_o = Σ_i weight_oi x_i + bias_o: an input gets back what each output gained by it, times its weight. Every token
    goes through the same weights, so each token's share of their gradient is added up.

    Args:
        d_out: `(..., n_out)`.
        x: `(..., n_in)`, as the forward got it.
        weight: `(n_out, n_in)`.

    Returns:
        d_x `(..., n_in)`, d_weight `(n_out, n_in)`, d_bias `(n_out,)`.

    Source: Rumelhart et al. 1986, equations 6 and 7.
    """
    check_floats(d_out=d_out, x=x, weight=weight)
    check_shape("d_out", d_out, (*x.shape[:-1], len(weight)))
    d_x = d_out @ weight  # (..., n_in)
    d_out = d_out.reshape(-1, d_out.shape[-1])  # (all tokens, n_out)
    d_weight = d_out.T @ x.reshape(-1, x.shape[-1])  # (n_out, n_in)
    return d_x, d_weight, d_out.sum(axis=0)
