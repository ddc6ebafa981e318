"""What the sin-cos table and the module that adds it share: mistakes, and how exact it has to be (lab 3)."""

from collections.abc import Callable

import numpy as np

from autograder.exercise import Evidence, Mistake
from autograder.exercises.known import mistake


def float32_is_fine(n_tokens: int) -> np.ndarray:
    """The error, per position, of a table computed in float32, three times over: that of the angle grows along it.

    A base of 9999 is six times as far off, in a table of 6 positions and 8 columns.
    """
    return 3e-7 * (1 + np.arange(n_tokens)[:, None])


def _only_odd_widths_fail(width: int) -> Callable[[Evidence], bool]:
    """Recognises code that is right for every even width and for no odd one; `width` says where a case keeps it."""

    def sign(seen: Evidence) -> bool:
        widths = [c.inputs[1] if width else c.built_with[0] for c in seen.cases]
        odd = {i for i, d_model in enumerate(widths) if d_model % 2 and d_model > 1}
        even = {i for i, d_model in enumerate(widths) if d_model % 2 == 0}
        return bool(odd) and even <= seen.right and not odd & seen.right

    return sign


def of_table(count: str, width: int) -> tuple[Mistake, ...]:
    """The mistakes of the table, made in steps that compute it.

    Args:
        count: what the steps call its number of rows.
        width: where a case keeps its width: 1 as the second input, 0 as the constructor's first argument.
    """
    return (
        mistake(
            "sinusoidal_encoding.odd",
            "Write down the columns for d_model = 5: which of them are sines, and at which frequency is each?",
            sign=_only_odd_widths_fail(width),
            change="table = alternate(sines, cosines.expand(-1, d_model // 2), d_model)",
        ),
        mistake(
            "sinusoidal_encoding.floored",
            "Print the angles of position 1. How many different ones are there?",
            change="exponents = even_column_numbers // d_model",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.doubled",
            "Write down the exponent for the third pair of columns and compare it with the formula.",
            change="exponents = 2 * even_column_numbers / d_model",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.halved",
            "Write down the exponent for the last pair of columns: how close to 1 does it come?",
            change="exponents = even_column_numbers / 2 / d_model",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.own_cosine",
            "Columns 2i and 2i + 1 belong together. What do they share?",
            change=(
                "cosines = cos(column(positions) / 10000.0 ** ((even_column_numbers + 1) / d_model))",
                """
                exponents = 2 * even_column_numbers / d_model
                cosines = cos(column(positions) / 10000.0 ** (2 * (even_column_numbers + 1) / d_model))
                """,
            ),
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.spread",
            "Compare the exponent of the last pair with the formula.",
            change="exponents = even_column_numbers / max(2, 2 * len(even_column_numbers) - 2)",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.inverted",
            "Look at the sign of the exponent.",
            change="angles = column(positions) * 10000.0**exponents",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.base",
            "Compare the constant with the formula.",
            change=(
                "angles = column(positions) / 1000.0**exponents",
                "angles = column(positions) / 100000.0**exponents",
            ),
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.concatenated",
            "Which columns does the formula give to the sines?",
            change="table = side_by_side(sines, cosines, d_model)",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.swapped",
            "Look at position 0: which columns should be 0 and which 1?",
            change="sines = cos(angles)\ncosines = sin(angles)",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.no_cosine",
            "Look at position 0: which columns should be 0 and which 1?",
            change="cosines = sin(angles)",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.from_one",
            "What should the row of position 0 look like?",
            change=f"positions = arange(1, {count}, 1)",
            costs=("values",),
        ),
    )
