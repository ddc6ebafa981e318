"""Is a backward pass right? Wiggle every input and see."""

from collections.abc import Callable

import numpy as np

from headroom.reference.by_hand.arguments import check_floats


def numerical_gradient(
    f: Callable[[np.ndarray], np.ndarray | float], x: np.ndarray, d_out: np.ndarray | float = 1.0, step: float = 1e-5
) -> np.ndarray:
    """d_x by central differences: (Σ d_out f(x + step) − Σ d_out f(x − step)) / (2 step), one entry of x at a time.

    The error is about step² from the curve's bend and 1e-16 / step from rounding: around 1e-10 at 1e-5, for an f and an
    x of size 1 in float64. It calls f twice for each entry of x: a check for small arrays, not a way to train.

    Args:
        f: from an array shaped as x to an array, or a number; it must not change the array it gets.
        x: where; it is left as it is.
        d_out: shaped as f's result: the gradient that a backward function would be given. 1 if f returns a loss.
        step: how far each entry is moved, both ways.

    Returns:
        d_x, of x's shape, in float64.

    Raises:
        TypeError: x is not an array of floats.

    Source: Press et al. 2007, "Numerical Recipes", section 5.7, equation 5.7.7.
    """
    check_floats(x=x)
    d_x = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        above, below = x.astype(np.float64), x.astype(np.float64)  # copies
        above[index] += step
        below[index] -= step
        d_x[index] = np.sum(d_out * (f(above) - f(below))) / (2 * step)
    return d_x
