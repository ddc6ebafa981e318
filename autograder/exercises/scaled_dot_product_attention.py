"""Attention of queries to keys and values, with a mask (lab 1)."""

import math
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes
from autograder.diagnosis.vocabulary import INF, Mask, hide, size, softmax, transpose
from autograder.exercise import Case, Criterion, Exercise, Inputs, Property, Weights
from autograder.exercises.attention import FORBIDDEN, OVERWRITTEN, detached, masked, queries_and_keys, said, tolerance
from autograder.exercises.attention_scores import AXES as SCORE_AXES
from autograder.exercises.attention_scores import OF_SCORES
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Without a mask, with a causal one, with padding whose numbers would show; scores so large that exp overflows."""

    def case(
        tag: str,
        sizes: tuple[tuple[int, ...], int, int, int],
        d_v: int,
        source: np.random.Generator,
        mask: str = "",
        size: float = 1.0,
        below: float = 0.0,
        **kwargs: Any,
    ) -> Case:
        lead, n_queries, n_keys, _ = sizes
        q, k = queries_and_keys(source, *sizes, size)
        if below:  # all scores lie so far below 0
            q[..., 0], k[..., 0] = math.sqrt(sizes[-1]), -below
        v = source.normal(size=(*lead, n_keys, d_v))
        label = f"{said(*sizes)}, d_v {d_v}" + (f", {mask} mask" if mask else "")
        if not mask:
            return Case(tag, label, (q, k, v), **kwargs)
        if mask == "causal":
            may = np.tril(np.ones((n_queries, n_keys), dtype=bool))
        elif mask == "padding":
            lengths = 1 + source.permutation(n_keys - 1)[: lead[0]]  # 1 … n_keys − 1, all different
            may = np.arange(n_keys) < lengths.reshape(-1, 1, *[1] * len(lead))
            filler = ~may.reshape(lead[0], *[1] * (len(lead) - 1), n_keys, 1)
            k, v = np.where(filler, 12 * k, k), np.where(filler, 40 * v, v)
        else:
            may = source.random((*lead, n_queries, n_keys)) < 0.5
            may |= np.arange(n_keys) == source.integers(n_keys, size=(*lead, n_queries, 1))  # each query has a key
            may &= np.arange(n_keys) != (may.argmax(-1)[..., None] + 1) % n_keys  # and one that it may not see
        return Case(tag, label, (q, k, v, may), **kwargs)

    visible = np.random.default_rng(12)
    batch, n_queries, n_keys, d_k, d_v = (int(n) for n in rng.permutation([2, 3, 4, 5, 6]))
    return [
        case("values", ((2,), 3, 5, 6), 4, visible, visible=True, differentiate=True),
        case("values", ((2,), 4, 4, 5), 3, visible, visible=True),
        case("values", ((batch,), n_queries, n_keys, d_k), d_v, rng, differentiate=True),
        case("leading", ((), 3, 4, 5), 2, visible, visible=True),
        case("leading", ((2, 3), 4, 5, 6), 7, rng),
        case("mask", ((2,), 4, 4, 5), 3, visible, "padding", visible=True),
        case("mask", ((3,), 4, 4, 5), 2, visible, "causal", visible=True, differentiate=True),
        case("mask", ((2, 3), 5, 5, 6), 4, rng, "padding"),
        case("mask", ((2,), 3, 6, 5), 4, rng, "random", differentiate=True),
        case("mask", ((2,), 5, 6, 5), 4, rng, "random", size=9.0, below=1.2e4, single=False),
        case("large", ((2,), 3, 4, 5), 6, rng, size=60.0, single=False),
        case("contract", ((2,), 4, 4, 6), 3, rng, "causal", dtype="float32"),
    ]


AXES = (
    *SCORE_AXES,
    Axis("d_v", most=5),
    Choice("mask", (None, "causal", "padding", "random", "for all")),
    Choice("scores", ("ordinary", "of ±10³")),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, queries, keys, d_k, d_v, mask, scores = sizes.values()
    q, k = queries_and_keys(rng, (batch,), queries, keys, d_k, 1.0 if scores == "ordinary" else 30.0)
    inputs: Inputs = (q, k, rng.normal(size=(batch, keys, d_v)))
    if mask is not None:
        inputs += (masked(mask, batch, queries, keys, rng),)
    tag = "large" if scores != "ordinary" else "mask" if mask else "values"
    return Case(tag, "", inputs, single=scores == "ordinary")


def right_answer(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, Tensor]:
    return reference.scaled_dot_product_attention(*inputs)


def steps(
    q: Annotated[Tensor, "n_queries d_k"],
    k: Annotated[Tensor, "n_keys d_k"],
    v: Annotated[Tensor, "n_keys d_v"],
    mask: Mask,
    /,
) -> tuple[Tensor, Tensor]:
    """The attention, step by step."""
    d_k = size(q, -1)
    raw_scores = q @ transpose(k, -2, -1)
    scores = raw_scores / d_k**0.5
    masked_scores = hide(scores, mask, -INF)
    weights = softmax(masked_scores, -1)
    output = weights @ v
    return output, weights


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    q, k, v = case.inputs[:3]
    return (*q.shape[:-1], v.shape[-1]), (*q.shape[:-1], k.shape[-2])


def stages(build: None, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    """What every way of writing it passes through."""
    q, k = inputs[:2]
    output, attended = right_answer(build, inputs, weights)
    return {"scaled scores": q @ k.mT / math.sqrt(q.size(-1)), "weights": attended, "output": output}


def _rows_sum_to_1(case: Case, outputs: tuple[np.ndarray, ...]) -> bool:
    with np.errstate(invalid="ignore"):  # infinite weights of two signs sum to NaN, which is not 1 either
        return bool(np.all(np.abs(outputs[1].sum(-1) - 1) < 1e-4))


def _hidden_keys_weigh_nothing(case: Case, outputs: tuple[np.ndarray, ...]) -> bool | None:
    if len(case.inputs) < 4 or outputs[1].shape != shapes(case)[1]:
        return None
    return bool(np.all(np.abs(outputs[1][~np.broadcast_to(case.inputs[3], outputs[1].shape)]) < 1e-6))


def _output_is_the_mean(case: Case, outputs: tuple[np.ndarray, ...]) -> bool | None:
    if (outputs[0].shape, outputs[1].shape) != shapes(case) or not np.isfinite(outputs[1]).all():
        return None
    means = outputs[1].astype(float) @ case.inputs[2]
    return bool(np.all(np.abs(outputs[0] - means) <= 1e-3 * np.abs(means).max()))


MISTAKES = (
    OVERWRITTEN,
    *OF_SCORES,
    mistake(
        "scaled_dot_product_attention.scaled_after",
        "Sum a row of your weights.",
        change="scores = raw_scores\nweights = softmax(masked_scores, -1) / d_k**0.5",
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.columns",
        "Which axis of the scores counts the keys?",
        change=("weights = softmax(masked_scores, -2)", "weights = softmax(masked_scores, 1)"),
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.over_batch",
        "Which axis of the scores counts the keys? Does your softmax name it?",
        change=(
            "weights = softmax(masked_scores, 0)",
            "weights = softmax(masked_scores, -3)",
            "weights = softmax(masked_scores, 0 if scores.dim() == 3 else 1)",  # where no axis is named
        ),
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.no_softmax",
        "What turns scores into weights?",
        change="weights = hide(scores, mask, 0.0)",
    ),
    mistake(
        "scaled_dot_product_attention.no_maximum",
        "Only differences of scores count. What can you subtract from a whole row before you exponentiate it?",
        change="weights = softmax_unshifted(masked_scores, -1)",
        costs=("large",),
    ),
    mistake(
        "scaled_dot_product_attention.weights_transposed",
        "Sum a row of what you multiply the values by.",
        change="output = weights.mT @ v",
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.weights_out",
        "What do the weights weigh?",
        change="output = weights",
    ),
    mistake(
        "scaled_dot_product_attention.k_for_v",
        "What do the weights multiply?",
        change="output = weights @ k",
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.q_for_v",
        "What do the weights multiply?",
        change="output = weights @ q",
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.scores_returned",
        "Sum a row of the second result.",
        change="return output, masked_scores",
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.exchanged",
        "Which order does the `return` have?",
        change="return weights, output",
        costs=("shape",),
    ),
    mistake(
        "scaled_dot_product_attention.mask_ignored",
        "Follow `mask` from the signature to the scores. Is the result of masking assigned?",
        change="masked_scores = scores",
        costs=("mask",),
    ),
    mistake(
        "scaled_dot_product_attention.mask_after",
        "Where must a hidden key be hidden, so that the others share its weight?",
        change="weights = multiply_by_mask(softmax(scores, -1), mask)",
        costs=("mask",),
    ),
    mistake(
        "scaled_dot_product_attention.filled_with_0",
        "Which score has the exponential 0?",
        change="masked_scores = hide(scores, mask, 0.0)",
        costs=("mask",),
    ),
    mistake(
        "scaled_dot_product_attention.filled_with_inf",
        "Look at the sign of what hidden scores are replaced with.",
        change="masked_scores = hide(scores, mask, INF)",
        costs=("mask",),
    ),
    # A row without any key is NaN, a plain mean, or as if all counted: it depends on how a hidden score is written.
    mistake(
        "scaled_dot_product_attention.mask_inverted",
        "Which value of the mask should hide a key, and which one does in your code?",
        change=(
            "masked_scores = hide(scores, inverted(mask), -INF)",
            "masked_scores = hide(scores, inverted(mask), -1e9)",
            "masked_scores = hide_by_adding(scores, inverted(mask), -1e9)",
        ),
        costs=("mask",),
    ),
    mistake(
        "scaled_dot_product_attention.mask_on_queries",
        "Which axis of the scores counts the keys?",
        change=(
            "masked_scores = hide(scores, mask_transposed(mask), -INF)",
            "masked_scores = hide(scores, mask_transposed(mask), -1e9)",
            "masked_scores = hide_by_adding(scores, mask_transposed(mask), -1e9)",
        ),
        costs=("mask",),
    ),
    mistake(
        "scaled_dot_product_attention.mask_added",
        "What must be added to a score, so that its exponential is 0?",
        change="masked_scores = scores if mask is None else scores + mask",
        costs=("mask",),
    ),
    mistake(
        "scaled_dot_product_attention.own_causal",
        "Is the `mask` that was passed in used for anything but the question whether there is one?",
        change="masked_scores = hide_the_future(scores, mask, -INF)",
        costs=("mask",),
    ),
    detached("return output.detach(), weights.detach()"),
)

SCALED_DOT_PRODUCT_ATTENTION = Exercise(
    name="scaled_dot_product_attention",
    returns="two tensors: the output, (..., n_queries, d_v), and the weights, (..., n_queries, n_keys)",
    parts=("output", "weights"),
    shape=shapes,
    criteria=(
        Criterion("shape", "runs, and output and weights have their shapes", 0.1),
        Criterion("values", "compare, scale, softmax, mix", 0.3),
        Criterion("leading", "any number of leading axes", 0.1),
        Criterion("mask", "a hidden key gets no weight, and the others share it", 0.2),
        Criterion("large", "large scores do not overflow", 0.1),
        Criterion("gradients", "gradients reach q, k and v", 0.1),
        Criterion("contract", "q, k, v and the mask stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    stages=stages,
    properties=(
        Property("each row of the weights sums to 1", _rows_sum_to_1),
        Property("a hidden key has the weight 0", _hidden_keys_weigh_nothing),
        Property("the output is the mean of the values under the weights", _output_is_the_mean),
    ),
    forbidden=FORBIDDEN,
    forbidden_reason="The task is to write the attention yourself: compare, scale, mask, softmax, mix.",
    tolerance=tolerance,
)
