"""The mask of padding: which keys are real tokens (lab 6)."""

from typing import Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes
from autograder.diagnosis.vocabulary import arange, column, for_heads_and_queries, less
from autograder.exercise import Case, Criterion, Exercise
from autograder.exercises.known import mistake, overwritten
from autograder.exercises.masks import OF_DTYPE, is_bool
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """More tokens than sequences, some of them filler everywhere; then full and empty sequences."""
    visible = np.random.default_rng(6)

    def case(tag: str, lengths: list[int] | np.ndarray, n_tokens: int, **kwargs: Any) -> Case:
        lengths = np.asarray(lengths, dtype=np.int64)
        return Case(tag, f"lengths {lengths.tolist()}, n_tokens {n_tokens}", (lengths, n_tokens), **kwargs)

    def padded(source: np.random.Generator, batch: int, n_tokens: int) -> np.ndarray:
        return source.permutation(np.arange(1, n_tokens - 1))[:batch]  # all different, the last place always filler

    batch = int(rng.choice([4, 5]))
    return [
        case("values", padded(visible, 3, 7), 7, visible=True),
        case("values", padded(rng, batch, batch + 4), batch + 4),
        case("edges", [4, 2, 4], 4, visible=True),
        case("edges", rng.permutation([0, 3, 6, 1]), 6),
        case("edges", [batch] * 3, batch),
        case("values", padded(rng, 6, 300), 300),
    ]


AXES = (Axis("batch", most=7), Axis("n_tokens", most=7, long=300))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, n_tokens = sizes.values()
    if batch == 1 or n_tokens == 1:
        return Case("edges", "", (rng.integers(0, n_tokens + 1, batch), n_tokens))
    return Case("values", "", (rng.integers(1, n_tokens, batch), n_tokens))


def steps(lengths: Tensor, n_tokens: int, /) -> Tensor:
    """The padding mask, step by step."""
    places = arange(0, n_tokens, 1)
    ends = column(lengths)
    real_tokens = less(places, ends)
    mask = for_heads_and_queries(real_tokens)
    return mask


MISTAKES = (
    overwritten("contract"),
    mistake(
        "padding_mask.mask_inverted",
        "Take one entry that you are sure of, such as the first token of a text, and print it.",
        change="real_tokens = places >= ends",
    ),
    mistake(
        "padding_mask.one_too_many",
        "At which position is the last real token of a sequence of length 3? What does your mask say of the next one?",
        change="ends = column(lengths + 1)",
    ),
    mistake(
        "padding_mask.one_too_few",
        "At which position is the last real token of a sequence of length 3? What does your mask say of it?",
        change="ends = column(lengths - 1)",
    ),
    mistake(
        "padding_mask.filler_first",
        "Which end of a row should be False?",
        change="places = n_tokens - 1 - arange(0, n_tokens, 1)",
    ),
    mistake(
        "padding_mask.two_axes",
        "Write the four axes of the scores next to each other, and your mask's below them, from the right.",
        change=("mask = real_tokens", "mask = real_tokens[:, None]"),
        costs=("shape",),
    ),
    mistake(
        "padding_mask.mask_on_queries",
        "Which axis of the scores counts the keys?",
        change="mask = for_heads_and_keys(real_tokens)",
        costs=("shape", "values"),
    ),
    mistake(
        "padding_mask.on_both",
        "Does the mask need to know which query asks?",
        change="mask = for_heads_and_queries(real_tokens) & for_heads_and_keys(real_tokens)",
        costs=("shape",),
    ),
    mistake(
        "padding_mask.longest",
        "Where does `n_tokens` enter?",
        change="places = arange(0, int(lengths.max()), 1)",
    ),
    *OF_DTYPE,
)

PADDING_MASK = Exercise(
    name="padding_mask",
    returns="a bool tensor of shape (batch, 1, 1, n_tokens)",
    shape=lambda case: (len(case.inputs[0]), 1, 1, case.inputs[1]),
    criteria=(
        Criterion("shape", "runs, and the result has shape (batch, 1, 1, n_tokens): it masks keys", 0.2),
        Criterion("values", "real tokens are True, padding is False", 0.5),
        Criterion("edges", "sequences without padding, and sequences without a token", 0.1),
        Criterion("dtype", "the mask is bool", 0.1, is_bool),
        Criterion("contract", "lengths stays untouched, the same answer twice", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=lambda build, inputs, weights: reference.padding_mask(*inputs),
    steps=steps,
)
