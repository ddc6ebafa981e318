"""The embedding: a row of a table for each token, which is what a linear map makes of one-hot vectors."""

import numpy as np

from headroom.reference.by_hand.arguments import check_floats, check_indices, check_shape


def embedding(tokens: np.ndarray, table: np.ndarray) -> np.ndarray:
    """out = table[tokens]: each token's row.

    Args:
        tokens: int, any shape, each 0 … n_tokens − 1.
        table: `(n_tokens, d_model)`.

    Returns:
        out `(*tokens.shape, d_model)`.

    Raises:
        TypeError: tokens that are not integers, a table that is not floating.
        ValueError: a token outside of the table.

    Source: Bengio et al. 2003, "A Neural Probabilistic Language Model", section 2, the matrix C.
    """
    check_floats(table=table)
    check_indices("tokens", tokens, len(table), f"{len(table)} rows in the table")
    return table[tokens]


def embedding_backward(d_out: np.ndarray, tokens: np.ndarray, table: np.ndarray) -> np.ndarray:
    """d_table[t] = the sum of d_out wherever the token is t; tokens themselves have no gradient.

    Args:
        d_out: `(*tokens.shape, d_model)`.
        tokens: int, any shape.
        table: `(n_tokens, d_model)`.

    Returns:
        d_table `(n_tokens, d_model)`.

    Source: as `embedding`.
    """
    check_floats(d_out=d_out, table=table)
    check_shape("d_out", d_out, (*tokens.shape, table.shape[-1]))
    d_table = np.zeros_like(table)
    np.add.at(d_table, tokens, d_out)  # `d_table[tokens] += d_out` would count a token that occurs twice only once
    return d_table
