"""The two masks of a decoder: which keys are real tokens, and which token may look at which (lab 6)."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.covering import Axis, Sizes
from autograder.diagnosis.vocabulary import arange, at_most, column, for_heads_and_queries, less
from autograder.exercise import Case, Criterion, Evidence, Exercise, Inputs, Mistake, Weights
from headroom import reference
from headroom.mistakes import mistake


def padding_cases(rng: np.random.Generator) -> list[Case]:
    """More tokens than sequences, some of them filler everywhere; then full and empty sequences."""
    visible = np.random.default_rng(6)

    def case(tag: str, lengths: list[int] | np.ndarray, n_tokens: int, **kwargs: Any) -> Case:
        lengths = np.asarray(lengths, dtype=np.int64)
        return Case(tag, f"lengths {lengths.tolist()}, n_tokens {n_tokens}", (lengths, n_tokens), **kwargs)

    def drawn(source: np.random.Generator, batch: int, n_tokens: int) -> np.ndarray:
        return source.permutation(np.arange(1, n_tokens - 1))[:batch]  # all different, the last place always filler

    batch = int(rng.choice([4, 5]))
    return [
        case("values", drawn(visible, 3, 7), 7, visible=True),
        case("values", drawn(rng, batch, batch + 4), batch + 4),
        case("values", drawn(rng, 2, 9), 9),
        case("edges", [4, 2, 4], 4, visible=True),
        case("edges", rng.permutation([0, 3, 6, 1]), 6),
        case("edges", [5], 8),
        case("values", drawn(rng, 6, 300), 300),
    ]


def causal_cases(rng: np.random.Generator) -> list[Case]:
    def case(tag: str, n_tokens: int, **kwargs: Any) -> Case:
        return Case(tag, f"n_tokens {n_tokens}", (n_tokens,), **kwargs)

    return [
        case("values", 4, visible=True),
        case("values", int(rng.integers(5, 12))),
        case("values", int(rng.integers(130, 150))),
        case("one", 1, visible=True),
    ]


PADDING_AXES = (Axis("batch", most=7), Axis("n_tokens", most=7, long=300))
CAUSAL_AXES = (Axis("n_tokens", most=9, long=300),)


def drawn_padding(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, n_tokens = sizes.values()
    return Case("edges" if batch == 1 else "values", "", (rng.integers(0, n_tokens + 1, batch), n_tokens))


def drawn_causal(sizes: Sizes, rng: np.random.Generator) -> Case:
    return Case("one" if sizes["n_tokens"] == 1 else "values", "", (sizes["n_tokens"],))


def right_padding(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    return reference.padding_mask(*inputs)


def right_causal(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    return reference.causal_mask(*inputs)


def padding_steps(lengths: Tensor, n_tokens: int, /) -> Tensor:
    """The padding mask, step by step."""
    places = arange(0, n_tokens, 1)
    real_tokens = less(places, column(lengths))
    return for_heads_and_queries(real_tokens)


def causal_steps(n_tokens: int, /) -> Tensor:
    """The causal mask, step by step."""
    keys = arange(0, n_tokens, 1)
    queries = arange(0, n_tokens, 1)
    return at_most(keys, column(queries))


def padding_variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """The padding mask with mistakes switched on."""
    lengths, n_tokens = inputs
    if "longest" in slips:
        n_tokens = int(lengths.max())
    places, ends = torch.arange(n_tokens), lengths[:, None]
    if "one_too_many" in slips:
        real = places <= ends
    elif "one_too_few" in slips:
        real = places + 1 < ends
    elif "filler_first" in slips:
        real = places >= n_tokens - ends
    else:
        real = places < ends  # (batch, n_tokens)
    if "mask_inverted" in slips:
        real = ~real
    if "two_axes" in slips:
        mask = real
    elif "three_axes" in slips:
        mask = real[:, None, :]
    elif "mask_on_queries" in slips:
        mask = real[:, None, :, None]
    elif "on_both" in slips:
        mask = real[:, None, None, :] & real[:, None, :, None]
    else:
        mask = real[:, None, None, :]
    return _written(mask, slips)


def causal_variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """The causal mask with mistakes switched on."""
    (n_tokens,) = inputs
    every = torch.ones(n_tokens, n_tokens, dtype=torch.bool)
    if "no_self" in slips:
        mask = every.tril(-1)
    elif "one_ahead" in slips:
        mask = every.tril(1)
    elif "transposed" in slips:
        mask = every.triu()
    elif "mask_inverted" in slips:
        mask = every.triu(1)
    elif "everything" in slips:
        mask = every
    else:
        mask = every.tril()
    if slips & {"axes_in_front", "axis_in_front"}:
        mask = mask[None] if "axis_in_front" in slips else mask[None, None]
    return _written(mask, slips)


def _written(mask: Tensor, slips: frozenset[str]) -> Tensor:
    """The mask in the numbers that it is written in."""
    if "numbers" in slips:
        return mask.to(torch.get_default_dtype())
    if "whole_numbers" in slips:
        return mask.to(torch.int64)
    if slips & {"to_be_added", "to_be_added_large"}:
        return torch.zeros(mask.shape).masked_fill(~mask, -1e9 if "to_be_added_large" in slips else -math.inf)
    return mask


def is_bool(cases: tuple[Case, ...], outputs: tuple[Any, ...]) -> tuple[bool, str]:
    """Whether every mask is bool."""
    kinds = {str(np.asarray(output).dtype) for output in outputs if output is not None}
    if kinds == {"bool"} and all(output is not None for output in outputs):
        return True, ""
    return False, f"its dtype is {', '.join(sorted(kinds - {'bool'}))}" if kinds - {"bool"} else "no mask to look at"


def _changed(seen: Evidence) -> bool:
    return seen.input_changed


INVERTED = mistake(
    "padding_mask.mask_inverted",
    "Take one entry that you are sure of, such as the first token of a text, and print it.",
    "polarity",
)
NUMBERS = mistake(
    "padding_mask.numbers",
    "Print `mask.dtype`. What is the dtype of a comparison?",
    "dtype",
    also=("whole_numbers",),
    costs=("dtype",),
)
ADDED = mistake(
    "padding_mask.to_be_added",
    "Print `mask.dtype`, and read again what True and False stand for.",
    "dtype",
    also=("to_be_added_large",),
    costs=("dtype",),
)

PADDING_MISTAKES = (
    mistake(
        "padding_mask.overwritten",
        "Look for `-=`, `+=` or a method whose name ends in an underscore.",
        sign=_changed,
        costs=("manners",),
    ),
    INVERTED,
    mistake(
        "padding_mask.one_too_many",
        "What is the place of the last real token of a sequence of length 3? Does your comparison hold one place on?",
        "place",
    ),
    mistake(
        "padding_mask.one_too_few",
        "What is the place of the last real token of a sequence of length 3? Does your comparison hold there?",
        "place",
    ),
    mistake(
        "padding_mask.filler_first",
        "Which end of a row should be False?",
        "place",
    ),
    mistake(
        "padding_mask.two_axes",
        "Write the four axes of the scores next to each other, and your mask's below them, from the right.",
        "axes",
        also=("three_axes",),
        costs=("shape",),
    ),
    mistake(
        "padding_mask.mask_on_queries",
        "Which axis of the scores counts the keys?",
        "axes",
        costs=("shape", "values"),
    ),
    mistake(
        "padding_mask.on_both",
        "Does the mask need to know which query asks?",
        "axes",
        costs=("shape",),
    ),
    mistake(
        "padding_mask.longest",
        "Where does `n_tokens` enter?",
        "width",
    ),
    NUMBERS,
    ADDED,
)

CAUSAL_MISTAKES = (
    mistake(
        "causal_mask.no_self",
        "Print the first row. Which diagonal does `tril` or `triu` begin with, and is it kept?",
        "diagonal",
    ),
    mistake(
        "causal_mask.one_ahead",
        "Print the first row: how many tokens should the first token see?",
        "diagonal",
    ),
    mistake(
        "causal_mask.transposed",
        "Rows are queries, columns are keys. Which triangle is the past?",
        "diagonal",
    ),
    Mistake(
        "mask_inverted",
        INVERTED.title,
        INVERTED.sentence,
        "Take one entry that you are sure of, such as a token's look at itself, and print it.",
        "diagonal",
    ),
    mistake(
        "causal_mask.everything",
        "Is the result of `tril` or `triu` used? Without the underscore at its end it changes nothing in place.",
        "diagonal",
    ),
    mistake(
        "causal_mask.axes_in_front",
        "Compare `mask.shape` with the task.",
        "axes",
        also=("axis_in_front",),
        costs=("shape",),
    ),
    NUMBERS,
    ADDED,
)

PADDING_MASK = Exercise(
    name="padding_mask",
    returns="a bool tensor of shape (batch, 1, 1, n_tokens)",
    shape=lambda case: (len(case.inputs[0]), 1, 1, case.inputs[1]),
    criteria=(
        Criterion("shape", "runs, and the result has shape (batch, 1, 1, n_tokens): it lies on the keys", 0.2),
        Criterion("values", "real tokens are True, filler is False", 0.5),
        Criterion("edges", "sequences without filler and without a token", 0.1),
        Criterion("dtype", "the mask is bool", 0.1, is_bool),
        Criterion("manners", "lengths stays untouched, the same answer twice", 0.1),
    ),
    mistakes=PADDING_MISTAKES,
    cases=padding_cases,
    axes=PADDING_AXES,
    drawn=drawn_padding,
    reference=right_padding,
    variation=padding_variation,
    steps=padding_steps,
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
    mistakes=CAUSAL_MISTAKES,
    cases=causal_cases,
    axes=CAUSAL_AXES,
    drawn=drawn_causal,
    reference=right_causal,
    variation=causal_variation,
    steps=causal_steps,
)
