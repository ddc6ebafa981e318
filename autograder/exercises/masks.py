"""What the two masks of a decoder share: that they are bool, and the mistakes of those that are not (lab 6)."""

from typing import Any

import numpy as np

from autograder.exercise import Case
from autograder.exercises.known import mistake


def is_bool(cases: tuple[Case, ...], outputs: tuple[Any, ...]) -> tuple[bool, str]:
    """Whether every mask is bool."""
    kinds = {str(np.asarray(output).dtype) for output in outputs if output is not None}
    if kinds == {"bool"} and all(output is not None for output in outputs):
        return True, ""
    return False, "its dtype is not bool" if kinds - {"bool"} else "no mask to look at"


# Mistakes of whatever ends with `return mask`.
OF_DTYPE = (
    mistake(
        "padding_mask.numbers",
        "Print `mask.dtype`. What is the dtype of a comparison?",
        change=("return mask.double()", "return mask.long()"),
        costs=("dtype",),
    ),
    mistake(
        "padding_mask.to_be_added",
        "Print `mask.dtype`, and read again what True and False stand for.",
        change=(
            "return torch.zeros(mask.shape).masked_fill(~mask, -INF)",
            "return torch.zeros(mask.shape).masked_fill(~mask, -1e9)",
        ),
        costs=("dtype",),
    ),
)
