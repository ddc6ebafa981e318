"""EncoderBlock, pre-norm, around attention and LayerNorm that are given (lab 5)."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import numpy as np
from torch import Tensor

from autograder import reading, rewriting
from autograder.diagnosis.vocabulary import (
    INF,
    Bias,
    Mask,
    gelu,
    hide,
    linear,
    merge_heads,
    normalise,
    size,
    softmax,
    split_heads,
    transpose,
)
from autograder.exercise import Build, Case, Criterion, Exercise, Inputs, Mistake, Parameter, Weights
from autograder.exercises import encoder_parts as parts
from autograder.exercises.attention import tolerance
from autograder.exercises.feed_forward import FEED_FORWARD
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    visible, case, sizes = np.random.default_rng(51), parts.block_case, parts.block_sizes
    return [
        case("attention", (2, 5, 4, 3, 17), visible, visible=True, differentiate=True),
        case("attention", sizes(rng), rng, differentiate=True),
        case("feed_forward", (2, 3, 5, 2, 7), visible, visible=True),
        case("feed_forward", sizes(rng), rng),
        case("feed_forward", (3, 1, 4, 2, 11), rng),  # a single token has only itself to attend to
        case("mask", (2, 5, 4, 3, 9), visible, "padding", visible=True),
        case("mask", sizes(rng), rng, "causal", differentiate=True),
        case("mask", (2, 6, 4, 3, 13), rng, "twins"),
        case("mask", (4, 5, 3, 4, 7), rng, "causal", scale=5.0, single=False),  # scores of thousands, of either sign
        case("contract", (2, 3, 4, 5, 7), rng, "causal", dtype="float32"),
    ]


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    yield from parts.mappings(parameters, *build)


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.EncoderBlock, build), weights, inputs)


def steps(
    x: Annotated[Tensor, "batch tokens features"],
    mask: Mask,
    /,
    d_model: int,
    n_heads: int,
    d_ff: int,
    *,
    norm_1_gamma: Annotated[Tensor, "", "γ of the first norm"],
    norm_1_beta: Annotated[Tensor, "", "β of the first norm"],
    attention_w_q_weight: Annotated[Tensor, "", "the queries' map"],
    attention_w_k_weight: Annotated[Tensor, "", "the keys' map"],
    attention_w_v_weight: Annotated[Tensor, "", "the values' map"],
    attention_w_o_weight: Annotated[Tensor, "", "the output map"],
    attention_w_q_bias: Annotated[Bias, "", "the bias of the queries"],
    attention_w_k_bias: Annotated[Bias, "", "the bias of the keys"],
    attention_w_v_bias: Annotated[Bias, "", "the bias of the values"],
    attention_w_o_bias: Annotated[Bias, "", "the bias of the output map"],
    norm_2_gamma: Annotated[Tensor, "", "γ of the second norm"],
    norm_2_beta: Annotated[Tensor, "", "β of the second norm"],
    feed_forward_expand_weight: Annotated[Tensor, "", "the network's first map"],
    feed_forward_expand_bias: Annotated[Bias, "", "the bias of the network's first map"],
    feed_forward_shrink_weight: Annotated[Tensor, "", "the network's second map"],
    feed_forward_shrink_bias: Annotated[Bias, "", "the bias of the network's second map"],
) -> Tensor:
    """A pre-norm block, step by step."""
    first_norm = normalise(x, -1) * norm_1_gamma + norm_1_beta
    queries = split_heads(linear(first_norm, attention_w_q_weight, attention_w_q_bias), n_heads)
    keys = split_heads(linear(first_norm, attention_w_k_weight, attention_w_k_bias), n_heads)
    values = split_heads(linear(first_norm, attention_w_v_weight, attention_w_v_bias), n_heads)
    d_head = size(queries, -1)
    scores = queries @ transpose(keys, -2, -1) / d_head**0.5
    masked_scores = hide(scores, mask, -INF)
    weights = softmax(masked_scores, -1)
    merged_heads = merge_heads(weights @ values)
    attention_output = linear(merged_heads, attention_w_o_weight, attention_w_o_bias)
    first_sum = x + attention_output
    second_norm = normalise(first_sum, -1) * norm_2_gamma + norm_2_beta
    wide_features = linear(second_norm, feed_forward_expand_weight, feed_forward_expand_bias)
    bent_features = gelu(wide_features)
    network_output = linear(bent_features, feed_forward_shrink_weight, feed_forward_shrink_bias)
    return first_sum + network_output


STAGES = {
    "first_norm": "the first norm of x",
    "attention_output": "its attention",
    "first_sum": "their sum",
    "second_norm": "the second norm of it",
}


def _by_half(name: str, look: str, first: str, second: str) -> tuple[Mistake, ...]:
    """A mistake in both halves of the block, and in either of them: what the steps of the first and second become."""
    both = mistake(
        f"encoder_block.{name}", look, name, change=f"{first}\n{second}", costs=("attention", "feed_forward")
    )
    halves = (("attention", "attention", first), ("feed_forward", "the feed-forward network", second))
    each = (
        replace(
            both,
            key=f"{name}_{number}",
            title=f"{half.removeprefix('the ')}: {both.title}",
            sentence=both.sentence.replace("A branch", half[0].upper() + half[1:]),
            change=change,
            costs=(costs,),
        )
        for number, (costs, half, change) in enumerate(halves, 1)
    )
    return (*each, both)  # the narrower ones first: the other half may have a mistake of its own


BY_HALF = (
    *_by_half(
        "post_norm",
        "Which of the two is inside the other in your lines: the norm or the sum?",
        "first_norm = x\nfirst_sum = normalise(x + attention_output, -1) * norm_1_gamma + norm_1_beta",
        "second_norm = first_sum\nreturn normalise(first_sum + network_output, -1) * norm_2_gamma + norm_2_beta",
    ),
    *_by_half(
        "residual_of_norm",
        "Two tensors are added. Is one of them the stream as it came in?",
        "first_sum = first_norm + attention_output",
        "return second_norm + network_output",
    ),
    *_by_half(
        "no_residual",
        "How many plus signs do the block's two formulas have?",
        "first_sum = attention_output",
        "return network_output",
    ),
    *_by_half(
        "unnormalised",
        "Follow both norms through `forward`: what does each of them get, and who reads its result?",
        "first_norm = x",
        "second_norm = first_sum",
    ),
    *_by_half(
        "norm_on_branch",
        "Is the norm around the branch, or inside it?",
        "first_norm = x\nfirst_sum = x + normalise(attention_output, -1) * norm_1_gamma + norm_1_beta",
        "second_norm = first_sum\nreturn first_sum + normalise(network_output, -1) * norm_2_gamma + norm_2_beta",
    ),
)

OWN = (
    mistake(
        "encoder_block.shared_norm",
        "How many norms does the block have, and which one does the second branch use?",
        change="second_norm = normalise(first_sum, -1) * norm_1_gamma + norm_1_beta",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.stale",
        "When the second branch begins, the stream has changed. Is its normalised copy new?",
        change="second_norm = first_norm",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.parallel",
        "Which tensor does the second norm get, and when was it last changed?",
        change="second_norm = normalise(x, -1) * norm_2_gamma + norm_2_beta",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.reads_branch",
        "Which tensor does the second norm get: the sum, or one of its parts?",
        change="second_norm = normalise(attention_output, -1) * norm_2_gamma + norm_2_beta",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.old_residual",
        "Which of your tensors holds the stream after attention, and where is it used?",
        change="return x + network_output",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.exchanged",
        "Which of the two branches comes first in the task's formulas?",
        change="""
        read = normalise(x, -1) * norm_2_gamma + norm_2_beta
        bent = gelu(linear(read, feed_forward_expand_weight, feed_forward_expand_bias))
        x = x + linear(bent, feed_forward_shrink_weight, feed_forward_shrink_bias)
        first_norm = normalise(x, -1) * norm_1_gamma + norm_1_beta
        return first_sum
        """,
        costs=("attention",),
    ),
    mistake(
        "encoder_block.no_attention",
        "Follow the attention through `forward`: is its result used?",
        "halves",
        change="first_sum = x",
        costs=("attention", "mask"),
    ),
    mistake(
        "encoder_block.no_feed_forward",
        "Follow the feed-forward network through `forward`: is its result used?",
        "halves",
        change="return first_sum",
        costs=("feed_forward",),
    ),
    mistake(
        "encoder_block.no_affine",
        "Which LayerNorm is given, and what are its parameters?",
        change="first_norm = normalise(x, -1)\nsecond_norm = normalise(first_sum, -1)",
        costs=("attention",),
    ),
    mistake(
        "encoder_block.one_head",
        "Follow `n_heads` through `__init__` to the line that splits the heads.",
        change="""
        n_heads = 1
        queries = split_heads(linear(first_norm, attention_w_q_weight, attention_w_q_bias), n_heads)
        """,
        costs=("attention",),
    ),
)

MASK = (
    mistake(
        "encoder_block.mask_ignored",
        "Follow `mask` from the signature to the scores.",
        change="masked_scores = scores",
        costs=("mask",),
    ),
    mistake(
        "scaled_dot_product_attention.mask_inverted",
        "Which value of the mask does the given attention hide?",
        change="masked_scores = hide(scores, inverted(mask), -INF)",
        costs=("mask",),
    ),
)


def _in_the_block(change: str) -> str:
    """A change of the network's steps, as one of the block's."""
    names = {"x": "second_norm", "return": "network_output =", "roles": 'roles, "feed_forward."'}
    names |= {
        f"{name}_{part}": f"feed_forward_{name}_{part}" for name in ("expand", "shrink") for part in ("weight", "bias")
    }
    return re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), change)


IN_NETWORK = tuple(  # those of a network that still gives tokens of the right width
    replace(m, change=tuple(map(_in_the_block, m.changes.values())), costs=("feed_forward",))
    for m in FEED_FORWARD.mistakes
    if m.changes and m.key != "not_narrowed"
)

ENCODER_BLOCK = Exercise(
    name="EncoderBlock",
    returns=parts.LIKE_X,
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("attention", "the attention half: norm, attention, sum", 0.25),
        Criterion("feed_forward", "the feed-forward half: norm, feed-forward network, sum", 0.25),
        Criterion("mask", "padding and causal masks reach the attention", 0.2),
        Criterion("gradients", "gradients reach x and all parameters", 0.1),
        Criterion("contract", "all layers registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=(parts.UNREGISTERED, parts.OVERWRITTEN, *BY_HALF, *OWN, *MASK, *IN_NETWORK),
    cases=cases,
    axes=parts.BLOCK_AXES,
    drawn=parts.drawn_block,
    reference=right_answer,
    steps=steps,
    stages=lambda build, inputs, weights: rewriting.values(steps, STAGES, build, inputs, weights),
    mappings=mappings,
    roles=lambda build: parts.roles(reference.EncoderBlock, build, build[1]),
    needs=frozenset(f"attention.w_{role}.weight" for role in "qkvo"),
    tolerance=tolerance,
    forbidden=parts.DONE_FOR_YOU,
    forbidden_reason=parts.DONE_FOR_YOU_REASON,
    properties=(parts.FILLER_HAS_NO_SAY,),
)
