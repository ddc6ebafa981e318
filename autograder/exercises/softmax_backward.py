"""The softmax backwards, in NumPy (lab 9)."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes, sequence_length
from autograder.diagnosis.vocabulary import total
from autograder.exercise import Case, Criterion, Exercise, Property, in_numpy
from autograder.exercises.in_numpy import (
    AUTOGRAD,
    AUTOGRAD_REASON,
    OVERWRITTEN,
    shares,
    sums_to_0,
    tolerance,
)
from autograder.exercises.known import mistake
from headroom.reference import by_hand


def cases(rng: np.random.Generator) -> list[Case]:
    """A row alone, several axes in front, hidden keys, and rows that have nearly made up their mind."""

    def case(
        tag: str,
        shape: tuple[int, ...],
        source: np.random.Generator,
        hidden: str | None = None,
        size: float = 1.0,
        **kwargs: Any,
    ) -> Case:
        weights = shares(source, shape, hidden, size)
        d_weights = source.normal(1.5, 2.0, shape)  # away from 0: what is added to all of a row must drop out
        trait = "some keys hidden, " if hidden else "weights near 0 and 1, " if size > 1 else ""
        return Case(tag, f"{trait}shape {shape}", (d_weights, weights), **kwargs)

    visible = np.random.default_rng(20)
    return [
        case("leading", (4,), visible, visible=True),
        case("values", (2, 3, 5), visible, visible=True),
        case("values", (2, 4, 4), visible, visible=True),
        case("leading", (2, 3, 4, 5), rng),
        case("leading", (3, 4), rng),
        case("mask", (2, 3, 4), visible, "some", visible=True),
        case("mask", (4, 6, 5), rng, size=6.0),
    ]


AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=70),  # or loops over tokens and twice over keys would take minutes
    sequence_length("keys"),
    Choice("hidden key", (None, "some", "all but one")),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    *shape, hidden = sizes.values()
    weights = shares(rng, tuple(shape), hidden)
    return Case("mask" if hidden else "values", "", (rng.normal(1.5, 2.0, shape), weights))


def steps(d_weights: Annotated[Tensor, "n_queries n_keys"], weights: Tensor, /) -> Tensor:
    """The softmax backwards, step by step."""
    row_terms = total(d_weights * weights, -1)
    return weights * (d_weights - row_terms)


OVER = "row_terms = total(d_weights * weights, {})"  # other axes than the keys

MISTAKES = (
    OVERWRITTEN,
    mistake(
        "softmax_backward.no_row_term",
        "Raise one score of a row. Which of the row's weights change? Sum a row of your result: what should it be?",
        change="return weights * d_weights",
    ),
    mistake(
        "softmax_backward.diagonal",
        "The table of derivatives has one entry for each pair of keys. Which of them does your line use?",
        change="return weights * d_weights * (1 - weights)",
    ),
    mistake(
        "softmax_backward.plus",
        "When one score rises, do the other weights rise or fall?",
        change="row_terms = -row_terms",
    ),
    mistake(
        "softmax_backward.row_term_only",
        "The result has two terms. Which of them does the chain rule give for k = j?",
        change="return -weights * row_terms",
    ),
    mistake(
        "softmax_backward.no_weight",
        "What should the gradient of a score be whose weight is 0?",
        change="return d_weights - row_terms",
    ),
    mistake(
        "softmax_backward.unweighted",
        "Which mean of d_w belongs here: by what is each entry weighted?",
        change="row_terms = total(d_weights, -1)",
    ),
    mistake(
        "softmax_backward.plain_mean",
        "By what is each entry of the row's mean weighted?",
        change="row_terms = mean(d_weights, -1)",
    ),
    mistake(
        "softmax_backward.mean",
        "Is there a 1/n in the formula?",
        change="row_terms = mean(d_weights * weights, -1)",
    ),
    mistake(
        "softmax_backward.over_queries",
        "Which axis counts the keys, however many stand in front of it?",
        change=(OVER.format("-2"), OVER.format("1"), OVER.format("0")),
    ),
    mistake(
        "softmax_backward.over_everything",
        "How many rows share one sum in your code?",
        change=OVER.format("None"),
    ),
    mistake(
        "softmax_backward.no_keepdims",
        "Compare the shapes of the weights and of the sum. What would make the last axis of the sum a 1?",
        change="row_terms = (d_weights * weights).sum(-1)",
    ),
    mistake(
        "softmax_backward.softmax_again",
        "Sum a row of the second argument.",
        change="weights = softmax_unshifted(weights, -1)",
    ),
)

SOFTMAX_BACKWARD = Exercise(
    name="softmax_backward",
    returns="an array of the shape of weights, (..., n_keys)",
    shape=lambda case: case.inputs[1].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of the weights", 0.1),
        Criterion("values", "each score's own effect, less what it takes from the others", 0.5),
        Criterion("leading", "any number of leading axes, including none", 0.1),
        Criterion("mask", "weights of 0, and rows with nearly all weight on one key", 0.2),
        Criterion("contract", "the arguments stay untouched, and the same call gives the same result", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=in_numpy(by_hand.softmax_backward),
    steps=steps,
    properties=(
        Property("each row sums to 0", lambda case, d_scores: sums_to_0(d_scores)),
        Property(
            "a hidden key's score has the gradient 0",
            lambda case, d_scores: (
                bool(np.all(d_scores[case.inputs[1] == 0] == 0)) if np.any(case.inputs[1] == 0) else None
            ),
        ),
    ),
    library="numpy",
    tolerance=tolerance,
    forbidden=AUTOGRAD,
    forbidden_reason=AUTOGRAD_REASON,
)
