"""Attention with two masks: the third of five broken programs to mend (lab 8)."""

import math
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes, sequence_length
from autograder.diagnosis.vocabulary import (
    INF,
    arange,
    at_most,
    column,
    for_queries,
    hide,
    if_asked,
    less,
    size,
    softmax,
    transpose,
)
from autograder.exercise import Case, Criterion, Exercise, Inputs, Property, Weights
from autograder.exercises.broken_programs import KEPT, OVERWRITTEN
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """An encoder and a decoder, with padding and without; what must be hidden, with far larger scores."""
    visible = np.random.default_rng(83)

    def case(
        tag: str, label: str, source: np.random.Generator, lengths: list[int], causal: bool, **kwargs: Any
    ) -> Case:
        size, around = (len(lengths), max(lengths)), kwargs.pop("around", None)
        q, k = (source.normal(0.0, 1.5, (*size, 7)) for _ in range(2))
        if silent := kwargs.pop("silent", False):
            q[0, 1] = 0.0  # all of its scores are 0, which hides no key; equal scores are a kink for who clamps them
        if around is not None:
            # What is to be hidden has the larger scores, by up to 600, around a number for each text.
            places = np.linspace(around - 300.0, around + 300.0, max(lengths))
            q[..., 0], k[..., 0] = math.sqrt(7), places + 2e3 * np.arange(len(lengths))[:, None]
        v = source.normal(0.0, 1.0, (*size, 4))
        about = f"{label}, lengths {', '.join(map(str, lengths))}, causal={causal}"
        return Case(tag, about, (q, k, v, np.array(lengths), causal), differentiate=not silent, **kwargs)

    return [
        case("future", "decoder, no padding", visible, [5, 5], True, visible=True),
        case("future", "decoder, no padding", rng, [2, 2, 2], True),
        case("future", "decoder, no padding", rng, [3, 3], True),
        case("future", "decoder, a query of zeros, no padding", rng, [4, 4], True, silent=True),
        case("padding", "encoder, padded", visible, [3, 5], False, visible=True),
        case("padding", "decoder, padded, scores far below 0", rng, [7, 4, 7, 6, 5], True, around=-1e4, single=False),
        case("padding", "decoder, padded, scores far above 0", rng, [3, 6], True, around=1e4, single=False),
    ]


AXES = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    Axis("d_k", most=5),
    Axis("d_v", most=5),
    Choice("padding", (None, "longest first", "longest last", "all")),
    Choice("causal", (False, True)),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_k, d_v, padding, causal = sizes.values()
    lengths = np.full(batch, tokens)
    if padding:
        lengths = np.sort(rng.integers(1, max(2, tokens), batch))[:: -1 if padding == "longest first" else 1].copy()
        if padding != "all":  # then the texts of another batch may be longer
            lengths[0 if padding == "longest first" else -1] = tokens
    q, k, v = (rng.normal(size=(batch, tokens, width)) for width in (d_k, d_k, d_v))
    return Case("future" if causal and not padding else "padding", "", (q, k, v, lengths, causal))


def right_answer(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, Tensor]:
    q, k, v, lengths, causal = inputs
    tokens = q.size(1)
    mask = reference.padding_mask(lengths, tokens)[:, 0]  # (batch, 1, tokens)
    if causal:
        mask = mask & reference.causal_mask(tokens)
    return reference.scaled_dot_product_attention(q, k, v, mask)


def steps(
    q: Annotated[Tensor, "n_queries d_k"],
    k: Annotated[Tensor, "n_keys d_k"],
    v: Annotated[Tensor, "n_keys d_v"],
    lengths: Tensor,
    causal: float,
    /,
) -> tuple[Tensor, Tensor]:
    """Attention under two masks, step by step."""
    tokens = size(q, 1)
    d_k = size(q, -1)
    places = arange(0, tokens, 1)
    real_tokens = for_queries(less(places, column(lengths)))
    past = if_asked(at_most(places, column(places)), causal)
    scores = q @ transpose(k, -2, -1) / d_k**0.5
    scores_of_real_tokens = hide(scores, real_tokens, -INF)
    masked_scores = hide(scores_of_real_tokens, past, -INF)
    weights = softmax(masked_scores, -1)
    output = weights @ v
    return output, weights


def _rows_sum_to_1(case: Case, outputs: tuple[Any, ...]) -> bool:
    return bool(np.allclose(outputs[1].sum(-1), 1.0, atol=1e-5))


def _padding_hidden(case: Case, outputs: tuple[Any, ...]) -> bool | None:
    real = np.arange(outputs[1].shape[-1]) < case.inputs[3][:, None]
    return None if real.all() else not np.any(outputs[1] * ~real[:, None, :])


def _future_hidden(case: Case, outputs: tuple[Any, ...]) -> bool | None:
    return not np.any(np.triu(outputs[1], 1)) if case.inputs[4] else None


# Which keys are hidden as padding, and with what; with what the future is.
HIDDEN = "scores_of_real_tokens = hide(scores, {}, {})\nmasked_scores = hide(scores_of_real_tokens, past, {})"

MISTAKES = (
    OVERWRITTEN,
    mistake(
        "masked_attention.future_seen",
        "Print the scores right before the softmax. Has the mask changed them?",
        change="past = torch.ones(tokens, tokens, dtype=torch.bool)",
        costs=("future", "gradients"),
    ),
    mistake(
        "masked_attention.on_queries",
        "Weights have a row per query and a column per key. Which is hidden here, and which should be?",
        change=(
            HIDDEN.format("real_tokens.mT", -1e9, -1e9),
            HIDDEN.format("real_tokens.mT", -1e9, "-INF"),
            HIDDEN.format("real_tokens.mT", "-INF", "-INF"),
        ),
        costs=("padding",),
    ),
    mistake(
        "masked_attention.on_both",
        "The task hides keys. Which line of your program hides queries?",
        change=(
            HIDDEN.format("real_tokens & real_tokens.mT", -1e9, -1e9),
            HIDDEN.format("real_tokens & real_tokens.mT", "-INF", "-INF"),
        ),
        costs=("padding",),
    ),
    mistake(
        "masked_attention.padding_ignored",
        "Follow the padding mask to the softmax. Are the masked scores used?",
        change="scores_of_real_tokens = scores",
        costs=("padding",),
    ),
    mistake(
        "masked_attention.either",
        "Is your second mask an alternative to the first, or does it come on top?",
        change="scores_of_real_tokens = scores if causal else hide(scores, real_tokens, -INF)",
        costs=("padding",),
    ),
    mistake(
        "masked_attention.one_more",
        "A sentence of length 3 has tokens 0, 1 and 2. What does your comparison say of 3?",
        change="real_tokens = for_queries(at_most(places, column(lengths)))",
        costs=("padding",),
    ),
    mistake(
        "masked_attention.real_inverted",
        "Where your padding mask is True, are the scores kept or replaced?",
        change="real_tokens = for_queries(~less(places, column(lengths)))",
        costs=("padding",),
    ),
    mistake(
        "masked_attention.itself_hidden",
        "Print the weights of the first token. What may it see?",
        change="past = if_asked(less(places, column(places)), causal)",
        costs=("future",),
    ),
    mistake(
        "masked_attention.next_seen",
        "Print the weights of the first token. What may it see?",
        change="past = if_asked(at_most(places, column(places) + 1), causal)",
        costs=("future",),
    ),
    mistake(
        "masked_attention.future_inverted",
        "Where your causal mask is True, are the scores kept or replaced?",
        change="past = if_asked(~at_most(places, column(places)), causal)",
        costs=("future",),
    ),
    mistake(
        "masked_attention.always",
        "Where does your program look at `causal`?",
        change="past = at_most(places, column(places))",
    ),
    mistake(
        "masked_attention.future_after",
        "Where must a hidden key be hidden, so that the others share its weight?",
        change="weights = softmax(scores_of_real_tokens, -1) * past",
        costs=("future",),
    ),
    mistake(
        "masked_attention.mask_after",
        "Where must a hidden key be hidden, so that the others share its weight?",
        change="weights = softmax(scores, -1) * real_tokens * past",
    ),
    mistake(
        "scaled_dot_product_attention.filled_with_0",
        "Which score has the exponential 0?",
        change=HIDDEN.format("real_tokens", 0.0, 0.0),
    ),
    mistake(
        "attention_scores.unscaled",
        "Compare the line of the scores with the one that you were given.",
        change="scores = q @ transpose(k, -2, -1)",
    ),
)

MASKED_ATTENTION = Exercise(
    name="masked_attention",
    returns="two tensors: the output, (batch, tokens, d_v), and the weights, (batch, tokens, tokens)",
    shape=lambda case: (
        (*case.inputs[0].shape[:2], case.inputs[2].shape[-1]),
        (*case.inputs[0].shape[:2], case.inputs[0].shape[1]),
    ),
    parts=("the output", "the weights"),
    criteria=(
        Criterion("future", "in a decoder, no token sees what comes after it", 0.5),
        Criterion("padding", "no query sees padding, in an encoder and in a decoder", 0.4),
        Criterion("gradients", "gradients reach q, k and v", 0.1),
        KEPT,
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    properties=(
        Property("each row of the weights sums to 1", _rows_sum_to_1),
        Property("with causal=True, later keys get weight 0", _future_hidden),
        Property("padding gets weight 0", _padding_hidden),
    ),
)
