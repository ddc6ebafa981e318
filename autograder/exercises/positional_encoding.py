"""The module that adds the sin-cos table to tokens (lab 3)."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Choice, Only, Sizes
from autograder.diagnosis.vocabulary import alternate, arange, column, cos, rows, sin, size
from autograder.exercise import Case, Criterion, Evidence, Exercise
from autograder.exercises.known import mistake, overwritten
from autograder.exercises.sinusoidal import float32_is_fine, of_table
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Shorter than the table and as long; odd widths."""
    visible = np.random.default_rng(3)

    def case(tag: str, x: np.ndarray, max_tokens: int, **kwargs: Any) -> Case:
        label = f"d_model={x.shape[-1]}, max_tokens={max_tokens}, x of shape {x.shape}"
        return Case(tag, label, (x,), (x.shape[-1], int(max_tokens)), differentiate=True, **kwargs)

    batch, tokens = rng.choice([2, 3, 4, 5, 6], size=2, replace=False)
    return [
        case("values", visible.normal(size=(2, 5, 8)), 9, visible=True),
        case("values", rng.normal(size=(batch, tokens, 2 * int(rng.integers(4, 8)))), 30),
        case("length", visible.normal(size=(3, 4, 6)), 4, visible=True),
        case("odd", rng.normal(size=(batch, tokens, 7)), 10),
        Case("contract", "float32", (rng.normal(size=(2, 3, 8)),), (8, 5), dtype="float32"),
    ]


AXES = (
    Axis("batch", most=4),
    Axis("tokens", most=8, long=300),
    Axis("d_model", most=9, build=True),
    Choice("max_tokens", (12, 400), build=True),
    Only(lambda sizes: sizes["tokens"] <= sizes["max_tokens"]),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, max_tokens = sizes.values()
    x = rng.normal(size=(batch, tokens, d_model))
    x[0, -1] = 0.0  # a token like any other
    return Case("odd" if d_model % 2 else "length", "", (x,), (d_model, max_tokens))


def steps(x: Annotated[Tensor, "batch tokens features"], /, d_model: int, max_tokens: int) -> Tensor:
    """The table's rows added to the tokens, step by step."""
    positions = arange(0, max_tokens, 1)
    even_column_numbers = arange(0, d_model, 2)
    exponents = even_column_numbers / d_model
    angles = column(positions) / 10000.0**exponents
    sines = sin(angles)
    cosines = cos(angles)
    table = alternate(sines, cosines, d_model)
    tokens = size(x, 1)
    added_rows = rows(table, tokens)
    return x + added_rows


def _table_is_trained(seen: Evidence) -> bool:
    return any(parameter.trained for parameter in seen.parameters)


MISTAKES = (
    mistake(
        "positional_encoding.trained",
        "Which kind of tensor moves with a module, but is not trained?",
        sign=_table_is_trained,
    ),
    overwritten(),
    mistake(
        "positional_encoding.by_batch",
        "Which axis of x counts the tokens?",
        change=("added_rows = table[: x.size(0), None]", "added_rows = table[: x.size(0)]"),
        costs=("values",),
    ),
    mistake(
        "positional_encoding.whole_table",
        "How many rows does a sequence of x.size(1) tokens need?",
        change="added_rows = table",
    ),
    mistake(
        "positional_encoding.last_rows",
        "Which position has the first token?",
        change="added_rows = last_rows(table, tokens)",
        costs=("values",),
    ),
    mistake(
        "positional_encoding.twice",
        "Follow x through `forward` and count.",
        change="return 2 * x + added_rows",
        costs=("values",),
    ),
    mistake(
        "positional_encoding.not_added",
        "What should a token still know after its position was added?",
        change=("return added_rows.expand_as(x)", "return added_rows"),
    ),
    mistake(
        "positional_encoding.scaled",
        "Compare your `forward` with the task: what is x multiplied by?",
        change="return x * d_model**0.5 + added_rows",
        costs=("values",),
    ),
)


def tolerance(case: Case, expected: np.ndarray) -> np.ndarray:
    """As exact as the table, whatever the size of the tokens."""
    return float32_is_fine(case.inputs[0].shape[1]) / max(1e-3, np.abs(expected).max())


POSITIONAL_ENCODING = Exercise(
    name="PositionalEncoding",
    returns="a tensor of the shape of x, (batch, tokens, d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "each token gets the row of its own position", 0.4),
        Criterion("length", "any length up to max_tokens, any batch", 0.2),
        Criterion("odd", "odd widths too", 0.1),
        Criterion("gradients", "the gradient reaches x", 0.1),
        Criterion("contract", "the table is not trained, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES + of_table(count="max_tokens", width=0),
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=lambda build, inputs, weights: reference.PositionalEncoding(*build)(*inputs),
    steps=steps,
    tolerance=tolerance,
)
