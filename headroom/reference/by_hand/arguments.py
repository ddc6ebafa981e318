"""Checks of arguments that this folder shares; each error names the argument and what would be right."""

import numpy as np


def check_floats(**arrays: np.ndarray) -> None:
    """TypeError, with its name, for what is no NumPy array of floating-point numbers.

    NumPy would compute with integers too, until a gradient is written into an integer array and loses its fraction.
    """
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{name} is a {type(array).__name__}; it must be a NumPy array of floats")
        if not np.issubdtype(array.dtype, np.floating):
            raise TypeError(f"{name} has dtype {array.dtype}; it must be floating, such as float64")


def check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    """ValueError unless the array has that shape: NumPy would stretch many a wrong one, and compute on."""
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; it must be {shape}")


def check_indices(name: str, indices: np.ndarray, n_choices: int, choices: str, first: int = 0) -> None:
    """TypeError for indices that are not integers, ValueError for one outside of first … n_choices − 1.

    Args:
        name: what the indices are called.
        indices: int, any shape.
        n_choices: how many things there are to choose from.
        choices: what these are called.
        first: the smallest index allowed.
    """
    if not isinstance(indices, np.ndarray) or not np.issubdtype(indices.dtype, np.integer):
        kind = indices.dtype if isinstance(indices, np.ndarray) else type(indices).__name__
        raise TypeError(f"{name} must be a NumPy array of integers, not {kind}")
    wrong = np.argwhere((indices < first) | (indices >= n_choices))
    if len(wrong):
        where = tuple(int(i) for i in wrong[0])
        place = ", ".join(map(str, where))
        raise ValueError(f"{name}[{place}] is {indices[where]}; with {choices} it must be {first} … {n_choices - 1}")
