"""The scaled scores of queries and keys (lab 1)."""

import math
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes, sequence_length
from autograder.diagnosis.vocabulary import size, transpose
from autograder.exercise import Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises.attention import OVERWRITTEN, detached, queries_and_keys, said
from autograder.exercises.known import mistake


def cases(rng: np.random.Generator) -> list[Case]:
    """Any number of leading axes; d_k no square number; large scores, where queries and keys are as many."""

    def case(
        tag: str, sizes: tuple[tuple[int, ...], int, int, int], source: np.random.Generator, **kwargs: Any
    ) -> Case:
        return Case(tag, said(*sizes), queries_and_keys(source, *sizes), **kwargs)

    visible = np.random.default_rng(11)
    batch, n_queries, n_keys, d_k = (int(n) for n in rng.permutation([2, 3, 5, 6]))
    large = ((3,), 4, 4, int(rng.choice([2, 5, 7])))
    return [
        case("values", ((2,), 3, 5, 7), visible, visible=True, differentiate=True),
        case("values", ((2,), 4, 4, 6), visible, visible=True),
        case("values", ((batch,), n_queries, n_keys, d_k), rng, differentiate=True),
        Case("values", f"large scores, {said(*large)}", queries_and_keys(rng, *large, 60.0)),
        case("leading", ((), 3, 4, 5), visible, visible=True),
        case("leading", ((2, 4), 3, 5, 6), rng),
        case("leading", ((2, 3, 1), 4, 5, 7), rng),
        case("contract", ((2,), 3, 4, 5), rng, dtype="float32"),
    ]


AXES = (Axis("batch", most=4), sequence_length("queries"), sequence_length("keys"), Axis("d_k", most=5))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, queries, keys, d_k = sizes.values()
    return Case("values", "", queries_and_keys(rng, (batch,), queries, keys, d_k))


def right_answer(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    q, k = inputs
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def steps(q: Annotated[Tensor, "n_queries d_k"], k: Annotated[Tensor, "n_keys d_k"], /) -> Tensor:
    """The scaled scores, step by step."""
    d_k = size(q, -1)
    raw_scores = q @ transpose(k, -2, -1)
    scores = raw_scores / d_k**0.5
    return scores


# Mistakes of whatever computes `raw_scores` and `scores` of q and k in these steps.
OF_SCORES = (
    mistake(
        "attention_scores.unscaled",
        "Look at what happens to q·k before the softmax.",
        change="scores = raw_scores",
        costs=("values",),
    ),
    mistake(
        "attention_scores.by_d_k",
        "What is the standard deviation of a dot product of d_k terms?",
        change="scores = raw_scores / d_k",
        costs=("values",),
    ),
    mistake(
        "attention_scores.precedence",
        "What is √16, and what does Python print for your expression with d_k = 16?",
        change=("scores = raw_scores / d_k / 2", "scores = raw_scores / (d_k / 2)"),
        costs=("values",),
    ),
    mistake(
        "attention_scores.floored_root",
        "What does `int(…)` or `//` make of √7?",
        change="scores = raw_scores / math.isqrt(d_k)",
        costs=("values",),
    ),
    mistake(
        "attention_scores.by_n_keys",
        "How many terms does one dot product add up? Which axis of q has that many entries?",
        change=(
            "scores = raw_scores / n_keys**0.5",
            "scores = raw_scores / n_queries**0.5",
            "scores = raw_scores / q.size(1) ** 0.5",
        ),
        costs=("values",),
    ),
    mistake(
        "attention_scores.multiplied",
        "Wider queries and keys have larger dot products. Should the factor make up for that or add to it?",
        change="scores = raw_scores * d_k**0.5",
        costs=("values",),
    ),
    mistake(
        "attention_scores.transposed",
        "Whose row is it: the query's or the key's?",
        change="raw_scores = k @ q.mT",
    ),
    mistake(
        "attention_scores.queries_twice",
        "Where in your product does `k` occur?",
        change="raw_scores = q @ q.mT",
    ),
    mistake(
        "attention_scores.keys_twice",
        "Where in your product does `q` occur?",
        change="raw_scores = k @ k.mT",
    ),
    mistake(
        "attention_scores.no_transpose",
        "Write down both shapes in the order of your product. Which two sizes meet in the middle?",
        change="raw_scores = q @ k",
    ),
    mistake(
        "attention_scores.viewed",
        "Try yours on `torch.arange(6).view(2, 3)`. Does it exchange rows and columns?",
        change="raw_scores = q @ read_on(k, -2, -1)",
    ),
    mistake(
        "attention_scores.fixed_axes",
        "What names the last two axes, however many come before them?",
        change="raw_scores = q @ k.transpose(1, 2)",
        costs=("shape", "leading"),
    ),
    mistake(
        "attention_scores.reversed_axes",
        "Take k of shape (2, 5, 7). Which shape should its transpose have, and which does yours have?",
        change="raw_scores = q @ axes_reversed(k, -2, -1)",
    ),
)

ATTENTION_SCORES = Exercise(
    name="attention_scores",
    returns="a tensor of shape (..., n_queries, n_keys)",
    shape=lambda case: (*case.inputs[0].shape[:-1], case.inputs[1].shape[-2]),
    criteria=(
        Criterion("shape", "runs, and there is one score for each query and key", 0.1),
        Criterion("values", "each query with each key, divided by √d_k", 0.5),
        Criterion("leading", "any number of leading axes", 0.2),
        Criterion("gradients", "gradients reach q and k", 0.1),
        Criterion("contract", "q and k stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=(
        OVERWRITTEN,
        *OF_SCORES,
        mistake(
            "attention_scores.softmax_too",
            "What are the rows of your result, and what should they sum to?",
            change="return softmax(scores, -1)",
        ),
        detached("return scores.detach()"),
    ),
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
)
