"""What several widgets take, checked; what is wrong is refused in a sentence."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from headroom.figures import ArrayLike
from headroom.widgets.shared import as_array

ROW_SUM_TOLERANCE = 1e-3  # how far the sum of a row of weights may be from 1


def check_finite(name: str, array: np.ndarray) -> None:
    """Raise a ValueError that says where the first NaN or infinite value is, if there is one."""
    with np.errstate(invalid="ignore"):  # ∞ − ∞ is what is looked for here
        if np.isfinite(array.sum()):  # far quicker than looking at each; a finite sum has finite terms
            return
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} has {int(bad.sum())} values that are NaN or infinite, the first at index {where}; "
            "every value must be finite"
        )


def check_unit(name: str, array: np.ndarray) -> None:
    """Raise a ValueError unless every value lies in [0, 1], as pixels do here; it guesses what was forgotten."""
    check_finite(name, array)
    low, high = float(array.min()), float(array.max())
    if low < 0 or high > 1:
        hint = "; divide bytes by 255" if low >= 0 and high > 2 else "; undo the normalisation first"
        raise ValueError(f"{name} has values from {low:g} to {high:g}; they must lie in [0, 1]{hint}")


def check_labels(name: str, labels: ArrayLike, n: int) -> np.ndarray:
    """The classes of `n` images, whole numbers `(n,)`."""
    array = as_array(name, labels)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}; it must be ({n},), one for each image")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} holds {array.dtype} values; classes are whole numbers")
    return array


def check_list(name: str, words: Sequence[Any]) -> None:
    """Raise a ValueError if what should be a list of words is a text."""
    if isinstance(words, str):
        raise ValueError(f"{name} is one string, {words!r}; it must be a list of words, such as {words.split()!r}")


def check_strings(name: str, words: Sequence[Any]) -> None:
    """Raise a ValueError if one of the words is none."""
    if not all(isinstance(word, str) for word in words):
        raise ValueError(f"{name} holds something else than strings: {list(words)!r}")


def as_mask(mask: ArrayLike) -> np.ndarray:
    """A mask as an array, whatever its shape."""
    may = as_array("mask", mask)
    if may.dtype != bool:
        raise ValueError(f"mask holds {may.dtype} values; it must be bool, True = may attend")
    return may


def check_keys_left(may: np.ndarray, whose: str = "") -> None:
    """Raise a ValueError if a mask `(..., n_queries, n_keys)` hides every key from a query; `whose` says of what."""
    without = np.argwhere(~may.any(axis=-1))
    if len(without):
        raise ValueError(f"mask leaves query {without[0][-1]}{whose} no key to attend to; its weights have no meaning")


def check_temperature(value: float, hint: str) -> float:
    """A finite number above 0; `hint` says what another value could be meant to do."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"temperature={value} must be greater than 0; {hint}")
    return value


def check_pair(answer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The answer of `call_with_attention`; TypeError unless it is logits and attention."""
    if not (isinstance(answer, tuple) and len(answer) == 2):
        raise TypeError(
            f"the model returned {type(answer).__name__}; it must return a pair (logits, attention) when called with "
            "return_attention=True, or hold one stack of headroom.reference's attentions"
        )
    return answer
