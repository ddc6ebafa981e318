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


INVERTED = Mistake(
    "mask_inverted",
    "the mask is inverted",
    "What may be attended to is False, and what is hidden is True. Here True means: may attend.",
    "Take one entry that you are sure of, such as the first token of a text, and print it.",
    "polarity",
)
NUMBERS = Mistake(
    "numbers",
    "the mask is not bool",
    "It holds 0 and 1 as numbers. `~` refuses floats and turns the whole numbers 0 and 1 into −1 and −2, so nothing is "
    "hidden as it should be.",
    "Print `mask.dtype`. What is the dtype of a comparison?",
    "dtype",
    also=("whole_numbers",),
    costs=("dtype",),
)
ADDED = Mistake(
    "to_be_added",
    "a mask to be added to the scores",
    "It holds 0 where a token may attend and −∞ (or a very large negative number) where not. Other libraries add such "
    "a mask to the scores; the attention of this course takes a bool.",
    "Print `mask.dtype`, and read again what True and False stand for.",
    "dtype",
    also=("to_be_added_large",),
    costs=("dtype",),
)

PADDING_MISTAKES = (
    Mistake(
        "overwritten",
        "the caller's lengths are changed",
        "Something is done to `lengths` in place: after the call, the caller's tensor holds other numbers.",
        "Look for `-=`, `+=` or a method whose name ends in an underscore.",
        sign=_changed,
        switchable=False,
        costs=("manners",),
    ),
    INVERTED,
    Mistake(
        "one_too_many",
        "one filler token counts as real",
        "A sequence of 3 real tokens gets 4 Trues: places are counted from 0, so the real ones are 0, 1 and 2.",
        "What is the place of the last real token of a sequence of length 3? Does your comparison hold one place on?",
        "place",
    ),
    Mistake(
        "one_too_few",
        "the last real token is hidden",
        "A sequence of 3 real tokens gets 2 Trues.",
        "What is the place of the last real token of a sequence of length 3? Does your comparison hold there?",
        "place",
    ),
    Mistake(
        "filler_first",
        "the filler stands in front",
        "The last places are marked as real. In this course the real tokens come first, and filler after them.",
        "Which end of a row should be False?",
        "place",
    ),
    Mistake(
        "two_axes",
        "the mask has too few axes",
        "It doesn't line up with the scores (batch, heads, queries, keys): broadcasting starts at the last axis, so "
        "the axis that counts the sequences lands on the queries or the heads.",
        "Write the four axes of the scores next to each other, and your mask's below them, from the right.",
        "axes",
        also=("three_axes",),
        costs=("shape",),
    ),
    Mistake(
        "mask_on_queries",
        "the mask lies on the queries",
        "The places run along the last axis but one: filler gets rows without any key, so NaN, and real tokens still "
        "attend to filler.",
        "Which axis of the scores counts the keys?",
        "axes",
        costs=("shape", "values"),
    ),
    Mistake(
        "on_both",
        "the rows of filler are hidden too",
        "A query that is filler may attend to nothing, and becomes NaN. What filler looks at doesn't matter, as long "
        "as nobody looks at filler.",
        "Does the mask need to know which query asks?",
        "axes",
        costs=("shape",),
    ),
    Mistake(
        "longest",
        "as wide as the longest sequence",
        "The mask ends with the longest of these sequences; the tokens are padded to `n_tokens`.",
        "Where does `n_tokens` enter?",
        "width",
    ),
    NUMBERS,
    ADDED,
)

CAUSAL_MISTAKES = (
    Mistake(
        "no_self",
        "a token may not look at itself",
        "The diagonal is False: the first token has nothing to attend to, and becomes NaN.",
        "Print the first row. Which diagonal does `tril` or `triu` begin with, and is it kept?",
        "diagonal",
    ),
    Mistake(
        "one_ahead",
        "a token may look one place ahead",
        "One diagonal too many is True: each token sees the next one, which is the answer to its question.",
        "Print the first row: how many tokens should the first token see?",
        "diagonal",
    ),
    Mistake(
        "transposed",
        "sees the future in place of the past",
        "Token i may attend to i, i + 1, …: the two triangles are exchanged. The last token sees only itself.",
        "Rows are queries, columns are keys. Which triangle is the past?",
        "diagonal",
    ),
    Mistake(
        "mask_inverted",
        INVERTED.name,
        INVERTED.does,
        "Take one entry that you are sure of, such as a token's look at itself, and print it.",
        "diagonal",
    ),
    Mistake(
        "everything",
        "nothing is hidden",
        "Every entry is True: the triangle was never cut, or the result of cutting it was thrown away.",
        "Is the result of `tril` or `triu` used? Without the underscore at its end it changes nothing in place.",
        "diagonal",
    ),
    Mistake(
        "axes_in_front",
        "axes in front",
        "The triangle is right, but axes of length 1 stand before it; asked for is (n_tokens, n_tokens).",
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
