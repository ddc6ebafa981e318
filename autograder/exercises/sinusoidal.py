"""The sin-cos table, and the module that adds it (lab 3)."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from autograder.covering import Axis, Choice, Only, Sizes
from autograder.diagnosis.vocabulary import alternate, arange, column, cos, rows, sin, size
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Mistake, Weights
from headroom import reference
from headroom.mistakes import mistake

BASES = {"base": 1000.0, "base_100000": 100000.0}


def table(n_tokens: int, d_model: int, slips: frozenset[str]) -> Tensor:
    """The sin-cos table with mistakes switched on."""
    start = 1 if "from_one" in slips else 0
    position = torch.arange(start, start + n_tokens, dtype=torch.get_default_dtype())[:, None]
    two_i = torch.arange(0, d_model, 2, dtype=position.dtype)
    exponent = two_i / d_model
    cos_exponent = exponent
    if "doubled" in slips:
        exponent = cos_exponent = 2 * exponent
    elif "halved" in slips:
        exponent = cos_exponent = exponent / 2
    elif "per_column" in slips:
        exponent, cos_exponent = 2 * exponent, 2 * (two_i + 1) / d_model
    elif "own_cosine" in slips:
        cos_exponent = (two_i + 1) / d_model
    elif "floored" in slips:
        exponent = cos_exponent = torch.zeros_like(exponent)
    elif "spread" in slips:
        exponent = cos_exponent = torch.arange(len(two_i), dtype=position.dtype) / max(1, len(two_i) - 1)
    base = next((BASES[key] for key in slips if key in BASES), 10000.0)
    sign = 1 if "inverted" in slips else -1
    sine = (position * base ** (sign * exponent)).sin()
    cosine = (position * base ** (sign * cos_exponent)).cos()
    if "swapped" in slips:
        sine, cosine = cosine, sine
    if "no_cosine" in slips:
        cosine = sine
    if "concatenated" in slips:
        return torch.cat([sine, cosine], dim=1)[:, :d_model]
    result = torch.zeros(n_tokens, d_model, dtype=position.dtype)
    result[:, 0::2] = sine
    if "odd" in slips and d_model % 2 and d_model > 1:  # no cosine fits into no column
        return result.index_copy(1, torch.arange(1, d_model, 2), cosine)  # one cosine too many: raises
    result[:, 1::2] = cosine[:, : d_model // 2]
    return result


def table_steps(n_tokens: int, d_model: int, /) -> Tensor:
    """The table, step by step."""
    positions = arange(0, n_tokens, 1)
    even_columns = arange(0, d_model, 2)
    exponents = even_columns / d_model
    angles = column(positions) / 10000.0**exponents
    sines = sin(angles)
    cosines = cos(angles)
    return alternate(sines, cosines, d_model)


def _only_odd_widths_fail(width: int) -> Callable[[Evidence], bool]:
    """Recognises code that is right for every even width and for no odd one; `width` says where a case keeps it."""

    def sign(seen: Evidence) -> bool:
        widths = [c.inputs[1] if width else c.built_with[0] for c in seen.cases]
        odd = {i for i, d_model in enumerate(widths) if d_model % 2 and d_model > 1}
        even = {i for i, d_model in enumerate(widths) if d_model % 2 == 0}
        return bool(odd) and even <= seen.right and not odd & seen.right

    return sign


def table_mistakes(odd_sign: Callable[[Evidence], bool]) -> tuple[Mistake, ...]:
    """The mistakes of the table; the module that adds it can make each of them too."""
    return (
        mistake(
            "sinusoidal_encoding.odd",
            "Write down the columns for d_model = 5 and count the sines and the cosines.",
            "odd",
            sign=odd_sign,
        ),
        mistake(
            "sinusoidal_encoding.floored",
            "Print the exponents. How many different ones are there?",
            "exponent",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.doubled",
            "Write down the exponent for the third pair of columns and compare it with the formula.",
            "exponent",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.halved",
            "Write down the exponent for the last pair of columns: how close to 1 does it come?",
            "exponent",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.own_cosine",
            "Columns 2i and 2i + 1 belong together. What do they share?",
            "exponent",
            also=("per_column",),
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.spread",
            "Compare the exponent of the last pair with the formula.",
            "exponent",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.inverted",
            "Look at the sign of the exponent.",
            "sign",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.base",
            "Compare the constant with the formula.",
            "base",
            also=("base_100000",),
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.concatenated",
            "Which columns does the formula give to the sines?",
            "layout",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.swapped",
            "Look at position 0: which columns should be 0 and which 1?",
            "function",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.no_cosine",
            "Look at position 0: which columns should be 0 and which 1?",
            "function",
            costs=("values",),
        ),
        mistake(
            "sinusoidal_encoding.from_one",
            "What should the row of position 0 look like?",
            "position",
            costs=("values",),
        ),
    )


def _float32_is_fine(position: np.ndarray) -> np.ndarray:
    """Allowed error of a table computed in float32: the angle's rounding grows with the position."""
    return 3e-6 * (1 + position)


# --- sinusoidal_encoding(n_tokens, d_model) ----------------------------------------------------------------------


def table_cases(rng: np.random.Generator) -> list[Case]:
    def case(tag: str, n_tokens: int, d_model: int, **kwargs: Any) -> Case:
        return Case(tag, f"n_tokens={n_tokens}, d_model={d_model}", (n_tokens, d_model), **kwargs)

    even, odd = 2 * int(rng.integers(4, 20)), 2 * int(rng.integers(4, 20)) + 1
    return [
        case("values", 6, 8, visible=True),
        case("values", int(rng.integers(20, 60)), even),
        case("values", int(rng.integers(130, 200)), even + 2),
        case("odd", 4, 5, visible=True),
        case("odd", int(rng.integers(10, 40)), odd),
        case("edges", 1, 4, visible=True),
        case("edges", 9, 2),
    ]


TABLE_AXES = (Axis("n_tokens", most=12, long=300), Axis("d_model", most=12, long=64, build=True))


def drawn_table(sizes: Sizes, rng: np.random.Generator) -> Case:
    n_tokens, d_model = sizes.values()
    tag = "odd" if d_model % 2 else "edges" if n_tokens == 1 or d_model <= 2 else "values"
    return Case(tag, "", (n_tokens, d_model))


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
    mistakes=table_mistakes(_only_odd_widths_fail(1)),
    cases=table_cases,
    axes=TABLE_AXES,
    drawn=drawn_table,
    reference=lambda build, inputs, weights: reference.sinusoidal_encoding(*inputs),
    variation=lambda build, inputs, weights, slips: table(inputs[0], inputs[1], slips),
    steps=table_steps,
    tolerance=lambda case, expected: _float32_is_fine(np.arange(case.inputs[0])[:, None]),
)


# --- PositionalEncoding(d_model, max_tokens) ---------------------------------------------------------------------


def module_cases(rng: np.random.Generator) -> list[Case]:
    visible = np.random.default_rng(3)

    def case(tag: str, x: np.ndarray, max_tokens: int, **kwargs: Any) -> Case:
        label = f"d_model={x.shape[-1]}, max_tokens={max_tokens}, x of shape {x.shape}"
        return Case(tag, label, (x,), (x.shape[-1], int(max_tokens)), differentiate=True, **kwargs)

    batch, tokens = rng.choice([2, 3, 4, 5, 6], size=2, replace=False)
    d_model = 2 * int(rng.integers(4, 8))
    return [
        case("values", visible.normal(size=(2, 5, 8)), 9, visible=True),
        case("values", rng.normal(size=(batch, tokens, d_model)), 30),
        case("length", visible.normal(size=(3, 4, 6)), 4, visible=True),
        case("length", rng.normal(size=(batch, 1, d_model)), 8),
        case("length", rng.normal(size=(1, 12, d_model)), 40),
        case("odd", rng.normal(size=(batch, tokens, 7)), 10),
        Case("manners", "float32", (rng.normal(size=(2, 3, 8)),), (8, 5), dtype="float32"),
    ]


MODULE_AXES = (
    Axis("batch", most=4),
    Axis("tokens", most=8, long=300),
    Axis("d_model", most=9, build=True),
    Choice("max_tokens", (12, 400), build=True),
    Only(lambda sizes: sizes["tokens"] <= sizes["max_tokens"]),
)


def drawn_module(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, max_tokens = sizes.values()
    x = rng.normal(size=(batch, tokens, d_model))
    x[0, -1] = 0.0  # a token like any other
    return Case("odd" if d_model % 2 else "length", "", (x,), (d_model, max_tokens))


def add_table(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """x plus the table, with mistakes switched on."""
    (x,) = inputs
    d_model, max_tokens = build
    encoding = table(max_tokens, d_model, slips).to(x.dtype)
    if "whole_table" in slips:
        return x + encoding
    rows = encoding[: x.size(1)]
    if "by_batch" in slips:
        rows = encoding[: x.size(0), None]
    elif "rows_of_batch" in slips:
        rows = encoding[: x.size(0)]
    if "last_rows" in slips:
        rows = encoding[-x.size(1) :]
    if "bare_rows" in slips:
        return rows
    if "not_added" in slips:
        return rows.expand_as(x)
    if "scaled" in slips:
        return x * d_model**0.5 + rows
    return (2 * x if "twice" in slips else x) + rows


def module_steps(x: Annotated[Tensor, "batch tokens features"], /, d_model: int, max_tokens: int) -> Tensor:
    """The table's rows added to the tokens, step by step."""
    positions = arange(0, max_tokens, 1)
    even_columns = arange(0, d_model, 2)
    exponents = even_columns / d_model
    angles = column(positions) / 10000.0**exponents
    sines = sin(angles)
    cosines = cos(angles)
    table = alternate(sines, cosines, d_model)
    tokens = size(x, 1)
    added_rows = rows(table, tokens)
    return x + added_rows


def _table_is_trained(seen: Evidence) -> bool:
    return any(parameter.trained for parameter in seen.parameters)


MODULE_MISTAKES = (
    mistake(
        "positional_encoding.trained",
        "Which kind of tensor moves with a module, but is not trained?",
        sign=_table_is_trained,
    ),
    mistake(
        "positional_encoding.overwritten",
        "Look for `+=` or a method whose name ends in an underscore.",
        sign=lambda seen: seen.input_changed,
    ),
    mistake(
        "positional_encoding.by_batch",
        "Which axis of x counts the tokens?",
        "rows",
        also=("rows_of_batch",),
        costs=("values",),
    ),
    mistake(
        "positional_encoding.whole_table",
        "How many rows does a sequence of x.size(1) tokens need?",
        "rows",
    ),
    mistake(
        "positional_encoding.last_rows",
        "Which position has the first token?",
        "rows",
        costs=("values",),
    ),
    mistake(
        "positional_encoding.twice",
        "Follow x through `forward` and count.",
        "sum",
        costs=("values",),
    ),
    mistake(
        "positional_encoding.not_added",
        "What should a token still know after its position was added?",
        "sum",
        also=("bare_rows",),
    ),
    mistake(
        "positional_encoding.scaled",
        "Compare your `forward` with the task: what is x multiplied by?",
        "sum",
        costs=("values",),
    ),
)

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
        Criterion("manners", "the table is not trained, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MODULE_MISTAKES + table_mistakes(_only_odd_widths_fail(0)),
    cases=module_cases,
    axes=MODULE_AXES,
    drawn=drawn_module,
    reference=lambda build, inputs, weights: reference.PositionalEncoding(*build)(*inputs),
    variation=add_table,
    steps=module_steps,
    tolerance=lambda case, expected: _float32_is_fine(np.arange(case.inputs[0].shape[1])[None, :, None]),
)
