"""MultiHeadSelfAttention from scaled dot-product attention (lab 2)."""

import math
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Choice, Sizes, sequence_length
from autograder.diagnosis.vocabulary import (
    INF,
    Bias,
    Mask,
    hide,
    linear,
    merge_heads,
    size,
    softmax,
    split_heads,
    transpose,
)
from autograder.exercise import Build, Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises.attention import FORBIDDEN, extreme, masked, tolerance
from autograder.exercises.known import mistake
from autograder.exercises.multi_head import HEADS, NEEDS, OF_HEADS, for_each, for_reference, roles, with_heads
from autograder.exercises.scaled_dot_product_attention import SCALED_DOT_PRODUCT_ATTENTION
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Sizes all different, so that no axis can stand in for another; masks that matter; scores that overflow."""
    visible = np.random.default_rng(2)

    def case(
        tag: str, sizes: tuple[int, ...], source: np.random.Generator, mask: str | None = None, **kwargs: Any
    ) -> Case:
        batch, tokens, d_head, n_heads = map(int, sizes)
        d_model = n_heads * d_head
        single = kwargs.get("single", True)
        x = source.normal(size=(batch, tokens, d_model)) if single else extreme(source, (batch, tokens, d_model))
        label = f"batch {batch}, tokens {tokens}, d_model {d_model}, {n_heads} heads"
        label += "" if single else ", scores of ±10⁵"
        inputs: Inputs = (x,)
        if mask == "causal":
            inputs = (x, np.tril(np.ones((1, 1, tokens, tokens), dtype=bool)))
        elif mask == "padding":
            lengths = source.permutation(tokens - 1 - np.arange(batch) % (tokens - 1))[:, None]  # 1 … tokens − 1
            inputs = (x, (np.arange(tokens) < lengths)[:, None, None, :])
        return Case(tag, label + (f", {mask} mask" if mask else ""), inputs, (d_model, n_heads), **kwargs)

    def sizes() -> tuple[int, ...]:
        """batch, tokens, d_head, n_heads: all different, and different from d_model."""
        while True:
            drawn = rng.choice([2, 3, 4, 5, 6], size=4, replace=False)
            if drawn[1] > 2 and drawn[2] * drawn[3] not in drawn:
                return tuple(drawn)

    return [
        case("values", (2, 5, 4, 3), visible, visible=True, differentiate=True),
        case("values", sizes(), rng, differentiate=True),
        case("one_head", (2, 3, 5, 1), rng),
        case("values", (2, 6, 5, 4), rng, single=False),
        case("mask", (2, 5, 4, 3), visible, "padding", visible=True, differentiate=True),
        case("mask", (2, 4, 5, 3), visible, "causal", visible=True),
        case("mask", sizes(), rng, "padding"),
        case("mask", sizes(), rng, "causal", differentiate=True),
        case("mask", (6, 7, 5, 4), rng, "padding", single=False),
        case("contract", (2, 3, 4, 5), rng, "causal", dtype="float32"),
    ]


AXES = (Axis("batch", most=4), sequence_length("tokens"), *HEADS, Choice("mask", (None, "causal", "padding")))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, n_heads, _, d_model, mask = sizes.values()
    inputs: Inputs = (rng.normal(size=(batch, tokens, d_model)),)
    if mask is not None:
        inputs += (with_heads(masked(mask, batch, tokens, tokens, rng)),)
    return Case("mask" if mask else "one_head" if n_heads == 1 else "values", "", inputs, (d_model, n_heads))


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    module = reading.empty(reference.MultiHeadSelfAttention, build)
    return reading.call(module, for_reference(weights, build[0]), inputs)


def steps(
    x: Annotated[Tensor, "batch tokens features"],
    mask: Mask,
    /,
    d_model: int,
    n_heads: int,
    *,
    q_weight: Annotated[Tensor, "", "the queries' map"],
    k_weight: Annotated[Tensor, "", "the keys' map"],
    v_weight: Annotated[Tensor, "", "the values' map"],
    o_weight: Annotated[Tensor, "", "the output map"],
    q_bias: Annotated[Bias, "", "the bias of the queries"],
    k_bias: Annotated[Bias, "", "the bias of the keys"],
    v_bias: Annotated[Bias, "", "the bias of the values"],
    o_bias: Annotated[Bias, "", "the bias of the output map"],
) -> Tensor:
    """Multi-head self-attention, step by step."""
    projected_queries = linear(x, q_weight, q_bias)
    projected_keys = linear(x, k_weight, k_bias)
    projected_values = linear(x, v_weight, v_bias)
    queries = split_heads(projected_queries, n_heads)
    keys = split_heads(projected_keys, n_heads)
    values = split_heads(projected_values, n_heads)
    d_head = size(queries, -1)
    raw_scores = queries @ transpose(keys, -2, -1)
    scores = raw_scores / d_head**0.5
    masked_scores = hide(scores, mask, -INF)
    weights = softmax(masked_scores, -1)
    means = weights @ values
    merged_heads = merge_heads(means)
    output = linear(merged_heads, o_weight, o_bias)
    return output


def stages(build: Build, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    """What every way of writing it passes through."""
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    maps = ((weights[f"{role}_weight"], weights.get(f"{role}_bias")) for role in "qkv")
    q, k, v = (split_heads(linear(x, *map_), build[1]) for map_ in maps)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    attention = hide(scores, mask, -INF).softmax(-1)
    names = ("the queries", "the keys", "the values", "the scaled scores", "the weights", "the heads' means")
    return dict(zip(names, (q, k, v, scores, attention, attention @ v), strict=True))


# Each head's map sees only its own slice of the features.
SLICED = for_each("""
slices_of_{name} = x.unflatten(-1, (n_heads, 1, -1)) @ {role}_weight.unflatten(0, (n_heads, -1)).mT
projected_{name} = slices_of_{name}.flatten(2) + (0 if {role}_bias is None else {role}_bias)
""")

known = SCALED_DOT_PRODUCT_ATTENTION.known  # a mistake of lab 1, with what it costs here


MISTAKES = (
    *OF_HEADS,
    mistake(
        "multi_head_self_attention.interleaved_merge",
        "Look at the order of the last two axes before you flatten them.",
        change="merged_heads = merge_in_turns(means)",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.averaged",
        "How wide should the merged token be, before the output projection?",
        change="merged_heads = means.mean(1)",
    ),
    mistake(
        "multi_head_self_attention.summed",
        "How wide should the merged token be, before the output projection?",
        change="merged_heads = means.sum(1)",
    ),
    mistake(
        "multi_head_self_attention.sliced",
        "How many columns does the query map of one head have?",
        change=SLICED,
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.q_for_v",
        "What do the weights multiply, and which map made it?",
        change="projected_values = projected_queries",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.across_batch",
        "Which axis of x is the batch? Which axis should the scores compare?",
        change="""
        x = x.transpose(0, 1)
        projected_queries = linear(x, q_weight, q_bias)
        return output.transpose(0, 1)
        """,
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.by_d_head",
        "What is the standard deviation of a dot product of d_head terms?",
        change="scores = raw_scores / d_head",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.by_n_heads",
        "How many terms does one score sum?",
        change="scores = raw_scores / n_heads**0.5",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.multiplied",
        "Should wider heads give larger or smaller scores?",
        change="scores = raw_scores * d_head**0.5",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.scaled_after",
        "Which numbers do you divide by √d_head, and which does the formula?",
        change="scores = raw_scores\nweights = softmax(masked_scores, -1) / d_head**0.5",
        costs=("values",),
    ),
    known("columns", "values", change="weights = softmax(masked_scores, -2)"),
    mistake(
        "multi_head_self_attention.over_heads",
        "Which axis of the scores counts the keys?",
        change="weights = softmax(masked_scores, -3)",
        costs=("values",),
    ),
    known("no_softmax", "values", change="weights = multiply_by_mask(scores, mask)"),
    known("no_maximum", "values", change="weights = softmax_unshifted(masked_scores, -1)"),
    mistake(
        "attention_scores.transposed",
        "Whose row is it: the query's or the key's?",
        change="raw_scores = keys @ queries.mT",
        costs=("values",),
    ),
    known("weights_transposed", "values", change="means = weights.mT @ values"),
    mistake(
        "multi_head_self_attention.weights_out",
        "The given attention returns two things. Which of them do the heads pass on?",
        change="means = weights",
    ),
    mistake(
        "scaled_dot_product_attention.mask_ignored",
        "Follow `mask` from the signature to the scores. Is the result of masking assigned?",
        change="masked_scores = scores",
        costs=("mask",),
    ),
    known("mask_after", "mask", change="weights = multiply_by_mask(softmax(scores, -1), mask)"),
    known("filled_with_0", "mask", change="masked_scores = hide(scores, mask, 0.0)"),
    known("mask_inverted", "mask", change="masked_scores = hide(scores, inverted(mask), -INF)"),
    known("mask_on_queries", "mask", change="masked_scores = hide(scores, mask_transposed(mask), -INF)"),
)

MULTI_HEAD_SELF_ATTENTION = Exercise(
    name="MultiHeadSelfAttention",
    returns="a tensor of the shape of x, (batch, tokens, d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "split, attend, merge, project", 0.4),
        Criterion("one_head", "a single head too", 0.1),
        Criterion("mask", "padding and causal masks are respected", 0.2),
        Criterion("gradients", "gradients reach x and all four maps", 0.1),
        Criterion("contract", "all layers registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    stages=stages,
    mappings=reading.four_maps,
    roles=roles,
    needs=NEEDS,
    tolerance=tolerance,
    forbidden=FORBIDDEN,
    forbidden_reason="The task is to write the heads yourself, around the attention function that is given.",
)
