"""The causal mask: which token may look at which (lab 6)."""

from typing import Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes
from autograder.diagnosis.vocabulary import arange, at_most, column
from autograder.exercise import Case, Criterion, Exercise
from autograder.exercises.known import mistake
from autograder.exercises.masks import OF_DTYPE, is_bool
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    def case(tag: str, n_tokens: int, **kwargs: Any) -> Case:
        return Case(tag, f"n_tokens {n_tokens}", (n_tokens,), **kwargs)

    return [
        case("values", 4, visible=True),
        case("values", int(rng.integers(130, 150))),
        case("one", 1, visible=True),
    ]


AXES = (Axis("n_tokens", most=9, long=300),)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    return Case("one" if sizes["n_tokens"] == 1 else "values", "", (sizes["n_tokens"],))


def steps(n_tokens: int, /) -> Tensor:
    """The causal mask, step by step."""
    keys = arange(0, n_tokens, 1)
    queries = arange(0, n_tokens, 1)
    mask = at_most(keys, column(queries))
    return mask


MISTAKES = (
    mistake(
        "causal_mask.no_self",
        "Print the first row. What may the first token attend to?",
        change="mask = keys < column(queries)",
    ),
    mistake(
        "causal_mask.one_ahead",
        "Print the first row: how many tokens should the first token see?",
        change="mask = keys <= column(queries) + 1",
    ),
    mistake(
        "causal_mask.transposed",
        "Rows are queries, columns are keys. Which triangle is the past?",
        change="mask = keys >= column(queries)",
    ),
    mistake(
        "padding_mask.mask_inverted",
        "Take one entry that you are sure of, such as whether the first token may attend to itself, and print it.",
        change="mask = keys > column(queries)",
    ),
    mistake(
        "causal_mask.everything",
        "Print the mask after each of your lines. Which of them should make entries False, and is its result used?",
        change="mask = keys < column(queries) + n_tokens",
    ),
    mistake(
        "causal_mask.axes_in_front",
        "Compare `mask.shape` with the task.",
        change=("keys = arange(0, n_tokens, 1)[None, None, None]", "keys = arange(0, n_tokens, 1)[None, None]"),
        costs=("shape",),
    ),
    *OF_DTYPE,
)

CAUSAL_MASK = Exercise(
    name="causal_mask",
    returns="a bool tensor of shape (n_tokens, n_tokens)",
    shape=lambda case: (case.inputs[0], case.inputs[0]),
    criteria=(
        Criterion("shape", "runs, and the result has shape (n_tokens, n_tokens)", 0.2),
        Criterion("values", "a token sees itself and what came before it, nothing else", 0.6),
        Criterion("one", "a single token too", 0.1),
        Criterion("dtype", "the mask is bool", 0.1, is_bool),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=lambda build, inputs, weights: reference.causal_mask(*inputs),
    steps=steps,
)
