"""The sin-cos table (lab 3)."""

from typing import Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes
from autograder.diagnosis.vocabulary import alternate, arange, column, cos, sin
from autograder.exercise import Case, Criterion, Exercise
from autograder.exercises.sinusoidal import float32_is_fine, of_table
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Even widths, odd widths, a single position, a single pair."""

    def case(tag: str, n_tokens: int, d_model: int, **kwargs: Any) -> Case:
        return Case(tag, f"n_tokens={n_tokens}, d_model={d_model}", (n_tokens, d_model), **kwargs)

    return [
        case("values", 6, 8, visible=True),
        case("values", int(rng.integers(130, 200)), 2 * int(rng.integers(5, 21))),
        case("odd", 4, 5, visible=True),
        case("odd", int(rng.integers(10, 40)), 2 * int(rng.integers(4, 20)) + 1),
        case("edges", 1, 4, visible=True),
        case("edges", 9, 2),
    ]


AXES = (Axis("n_tokens", most=12, long=1100), Axis("d_model", most=12, long=64, build=True))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    n_tokens, d_model = sizes.values()
    tag = "odd" if d_model % 2 else "edges" if n_tokens == 1 or d_model <= 2 else "values"
    return Case(tag, "", (n_tokens, d_model))


def steps(n_tokens: int, d_model: int, /) -> Tensor:
    """The table, step by step."""
    positions = arange(0, n_tokens, 1)
    even_column_numbers = arange(0, d_model, 2)
    exponents = even_column_numbers / d_model
    angles = column(positions) / 10000.0**exponents
    sines = sin(angles)
    cosines = cos(angles)
    table = alternate(sines, cosines, d_model)
    return table


SINUSOIDAL_ENCODING = Exercise(
    name="sinusoidal_encoding",
    returns="a tensor (n_tokens, d_model)",
    shape=lambda case: case.inputs,
    criteria=(
        Criterion("shape", "runs, and the table has shape (n_tokens, d_model)", 0.1),
        Criterion("values", "sine and cosine pairs at the right frequencies", 0.6),
        Criterion("odd", "odd widths too", 0.2),
        Criterion("edges", "a single position, a single pair", 0.1),
    ),
    mistakes=of_table(count="n_tokens", width=1),
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=lambda build, inputs, weights: reference.sinusoidal_encoding(*inputs),
    steps=steps,
    tolerance=lambda case, expected: float32_is_fine(case.inputs[0]),
)
