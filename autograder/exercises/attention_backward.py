"""Attention backwards, in NumPy (lab 9)."""

import math
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes, sequence_length
from autograder.diagnosis.vocabulary import size, total, transpose
from autograder.exercise import Case, Criterion, Exercise, Property, in_numpy
from autograder.exercises.in_numpy import AUTOGRAD, AUTOGRAD_REASON, OVERWRITTEN, tolerance
from autograder.exercises.known import mistake
from autograder.exercises.softmax_backward import OVER, SOFTMAX_BACKWARD
from headroom.reference import by_hand


def cases(rng: np.random.Generator) -> list[Case]:
    """First equal sizes, where every product fits; then all different; hidden keys whose numbers are large."""

    def case(
        tag: str,
        lead: tuple[int, ...],
        sizes: tuple[int, ...],
        source: np.random.Generator,
        hidden: bool = False,
        alike: bool = False,
        **kwargs: Any,
    ) -> Case:
        n_queries, n_keys, d_head, d_value = (int(n) for n in sizes)
        q, k, v = (
            source.normal(size=(*lead, *shape)) for shape in ((n_queries, d_head), (n_keys, d_head), (n_keys, d_value))
        )
        k = q.copy() if alike else k
        scores = q @ k.swapaxes(-2, -1) / math.sqrt(d_head)
        if hidden:
            length = source.integers(1, n_keys, size=(*lead, 1, 1))  # at least one key is hidden from everybody
            scores = np.where(np.arange(n_keys) < length, scores, -np.inf)
            filler = np.arange(n_keys)[:, None] >= length
            k, v = np.where(filler, 6 * k, k), np.where(filler, 20 * v, v)
        weights = by_hand.softmax(scores)
        d_out = source.normal(size=(*lead, n_queries, d_value))
        front = f"leading axes {lead}" if lead else "no leading axes"
        label = f"{front}, {n_queries} queries, {n_keys} keys, d_head {d_head}, d_value {d_value}"
        label += (", some keys hidden" if hidden else "") + (", q and k alike" if alike else "")
        return Case(tag, label, (d_out, q, k, v, weights), **kwargs)

    visible = np.random.default_rng(22)
    return [
        case("values", (2,), (3, 3, 4, 3), visible, visible=True),
        case("leading", (), (4, 4, 4, 4), visible, visible=True),
        case("values", (2,), (3, 5, 4, 6), visible, visible=True),
        case("leading", (2, 3), (4, 5, 6, 7), rng),
        case("values", (2,), (4, 4, 3, 5), rng, alike=True),
        case("mask", (2,), (4, 4, 5, 4), visible, hidden=True, visible=True),
        case("mask", (3, 2), (4, 5, 3, 6), rng, hidden=True),
    ]


AXES = (
    Axis("batch", most=4),
    Axis("queries", long=70),  # or loops over queries and twice over keys would take minutes
    sequence_length("keys"),
    Axis("d_head", most=5),
    Axis("d_value", most=5),
    Choice("keys are hidden", (None, "from all queries", "from some")),
    Choice("scores", (None, "of ±10³")),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, queries, keys, d_head, d_value, hidden, large = sizes.values()
    shapes = ((queries, d_head), (keys, d_head), (keys, d_value))
    q, k, v = (rng.normal(size=(batch, *shape)) for shape in shapes)
    q, k = (30 * q, 30 * k) if large else (q, k)
    scores = q @ k.swapaxes(-2, -1) / math.sqrt(d_head)
    if hidden:
        rows = (batch, 1 if hidden == "from all queries" else queries, 1)
        scores = np.where(np.arange(keys) < rng.integers(1, keys + 1, size=rows), scores, -np.inf)
    d_out = rng.normal(size=(batch, queries, d_value))
    return Case("mask" if hidden else "values", "", (d_out, q, k, v, by_hand.softmax(scores)))


def steps(
    d_out: Annotated[Tensor, "n_queries d_value"],
    q: Annotated[Tensor, "n_queries d_head"],
    k: Annotated[Tensor, "n_keys d_head"],
    v: Annotated[Tensor, "n_keys d_value"],
    weights: Tensor,
    /,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention backwards, step by step."""
    d_head = size(q, -1)
    d_weights = d_out @ transpose(v, -2, -1)
    row_terms = total(d_weights * weights, -1)
    d_scores = weights * (d_weights - row_terms)
    d_products = d_scores / d_head**0.5
    d_q = d_products @ k
    d_k = transpose(d_products, -2, -1) @ q
    d_v = transpose(weights, -2, -1) @ d_out
    return d_q, d_k, d_v


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    return tuple(array.shape for array in case.inputs[1:4])


def _hidden_learn_nothing(case: Case, outputs: tuple[np.ndarray, ...]) -> bool | None:
    hidden = np.all(case.inputs[4] == 0, axis=-2)  # (..., n_keys): keys that nobody looks at
    if not hidden.any() or tuple(part.shape for part in outputs) != shapes(case):
        return None
    return not np.any(outputs[1][hidden]) and not np.any(outputs[2][hidden])


TURNED = "d_weights = d_out @ v.{0}\nd_k = d_products.{0} @ q\nd_v = weights.{0} @ d_out"

MISTAKES = (
    OVERWRITTEN,
    mistake(
        "attention_backward.unscaled",
        "scores = q kᵀ / √d_head. Which of your lines divides by that root?",
        change="d_products = d_scores",
        costs=("values",),
    ),
    mistake(
        "attention_backward.d_q_unscaled",
        "Which of your lines divide by the root?",
        change="d_q = d_scores @ k",
        costs=("values",),
    ),
    mistake(
        "attention_backward.d_k_unscaled",
        "Which of your lines divide by the root?",
        change="d_k = transpose(d_scores, -2, -1) @ q",
        costs=("values",),
    ),
    mistake(
        "attention_backward.by_d_head",
        "How often does √d_head occur in the forward?",
        change="d_products = d_scores / d_head",
        costs=("values",),
    ),
    mistake(
        "attention_backward.by_d_value",
        "Which array's last axis did the forward take the root of?",
        change="d_products = d_scores / d_value**0.5",
        costs=("values",),
    ),
    mistake(
        "attention_backward.multiplied",
        "What is the derivative of x / 2?",
        change="d_products = d_scores * d_head**0.5",
        costs=("values",),
    ),
    mistake(
        "attention_backward.no_softmax",
        "The forward has three lines. Which of yours goes back through which of them?",
        change="d_scores = d_weights",
        costs=("values", "mask"),
    ),
    SOFTMAX_BACKWARD.known("no_row_term", "values", change="d_scores = weights * d_weights"),
    SOFTMAX_BACKWARD.known("diagonal", "values", change="d_scores = weights * d_weights * (1 - weights)"),
    SOFTMAX_BACKWARD.known("plus", "values", change="row_terms = -row_terms"),
    SOFTMAX_BACKWARD.known("over_queries", change=(OVER.format("-2"), OVER.format("1"))),
    mistake(
        "attention_backward.recomputed",
        "Which weights did the forward mix with? Where do you get them from?",
        change="""
        powers = exp(without_largest(q @ transpose(k, -2, -1) / d_head**0.5, -1))
        weights = powers / total(powers, -1)
        """,
        costs=("mask",),
    ),
    mistake(
        "attention_backward.v_not_transposed",
        "out = weights v. What does the rule for products say about d_weights, and what do the shapes say?",
        change="d_weights = d_out @ v",
    ),
    mistake(
        "attention_backward.d_v_not_transposed",
        "d_v has a row for each key. Which axis of the weights counts the keys?",
        change="d_v = weights @ d_out",
    ),
    mistake(
        "attention_backward.d_k_not_transposed",
        "d_k has a row for each key. Which axis of d_scores counts the keys?",
        change="d_k = d_products @ q",
    ),
    mistake(
        "attention_backward.d_q_transposed",
        "d_q has a row for each query. Which axis of d_scores counts the queries?",
        change="d_q = transpose(d_products, -2, -1) @ k",
    ),
    mistake(
        "attention_backward.own_factor",
        "What is the derivative of a · b with respect to a?",
        change="d_q = d_products @ q\nd_k = transpose(d_products, -2, -1) @ k",
    ),
    mistake(
        "attention_backward.fixed_axes",
        "What names the last two axes, however many come before them?",
        change=(TURNED.format("transpose(1, 2)"), TURNED.format("permute(0, 2, 1)")),
        costs=("shape", "leading"),
    ),
    mistake(
        "attention_scores.reversed_axes",
        "Take v of shape (2, 5, 7). Which shape should its transpose have, and which does yours have?",
        change=TURNED.format("permute(*range(v.dim() - 1, -1, -1))"),
    ),
    mistake(
        "attention_backward.exchanged_qk",
        "Take sizes that all differ. Which shape should your first result have, and which does it have?",
        change="return d_k, d_q, d_v",
        costs=("shape", "values"),
    ),
    mistake(
        "attention_backward.backwards",
        "Take sizes that all differ. Which shape should your first result have, and which does it have?",
        change="return d_v, d_k, d_q",
        costs=("shape", "values"),
    ),
)

ATTENTION_BACKWARD = Exercise(
    name="attention_backward",
    returns="three arrays: d_q, d_k and d_v, shaped as q, k and v",
    parts=("d_q", "d_k", "d_v"),
    shape=shapes,
    criteria=(
        Criterion("shape", "runs, and d_q, d_k and d_v have the shapes of q, k and v", 0.1),
        Criterion("values", "back through the mix, the softmax, the scaling and the product", 0.5),
        Criterion("leading", "any number of leading axes, including none", 0.1),
        Criterion("mask", "hidden keys get no gradient", 0.2),
        Criterion("contract", "the arguments stay untouched, and the same call gives the same result", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=in_numpy(by_hand.attention_backward),
    steps=steps,
    properties=(Property("keys that nobody looks at learn nothing", _hidden_learn_nothing),),
    library="numpy",
    tolerance=tolerance,
    forbidden=AUTOGRAD,
    forbidden_reason=AUTOGRAD_REASON,
)
