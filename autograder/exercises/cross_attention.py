"""CrossAttention: queries from the target, keys and values from the source (lab 6)."""

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
from autograder.exercises import multi_head
from autograder.exercises.attention import FORBIDDEN, extreme, masked, tolerance
from autograder.exercises.known import mistake
from autograder.exercises.multi_head_self_attention import MULTI_HEAD_SELF_ATTENTION
from headroom import reference


def padding(source: np.random.Generator, batch: int, n_tokens: int) -> np.ndarray:
    """A mask (batch, 1, 1, n_tokens) that hides filler from every sequence, a different number from each.

    Filler follows the first text and precedes the second, and so on: no token is seen by all.
    """
    lengths = source.permutation(np.arange(1, n_tokens))[:batch]
    seen = np.arange(n_tokens) < lengths[:, None]
    seen[1::2] = seen[1::2, ::-1]
    return seen[:, None, None, :]


def cases(rng: np.random.Generator) -> list[Case]:
    """Sizes all different, then as many target tokens as source tokens, where shapes tell nothing."""
    visible = np.random.default_rng(61)

    def case(tag: str, sizes: tuple[int, ...], source: np.random.Generator, mask: bool = False, **kwargs: Any) -> Case:
        batch, tokens, source_tokens, d_head, n_heads = map(int, sizes)
        d_model = n_heads * d_head
        x, memory = (source.normal(size=(batch, n, d_model)) for n in (tokens, source_tokens))
        if "single" in kwargs:
            x, memory = (extreme(source, t.shape) for t in (x, memory))
        label = f"batch {batch}, {tokens} tokens, {source_tokens} source tokens, d_model {d_model}, {n_heads} heads"
        label += (", padding mask" if mask else "") + (", scores of ±10⁵" if "single" in kwargs else "")
        inputs = (x, memory, padding(source, batch, source_tokens)) if mask else (x, memory)
        return Case(tag, label, inputs, (d_model, n_heads), **kwargs)

    def sizes(equal: bool = False) -> tuple[int, ...]:
        """batch, tokens, source_tokens, d_head, n_heads: all different but for equal lengths, and so is d_model."""
        batch, n_heads = map(int, rng.permutation([2, 3]))
        tokens, source_tokens, d_head = map(int, rng.choice([4, 5, 7], size=3, replace=False))
        return batch, tokens, tokens if equal else source_tokens, d_head, n_heads

    return [
        case("values", (3, 5, 6, 2, 4), visible, visible=True, differentiate=True),
        case("values", sizes(), rng, differentiate=True),
        case("values", sizes(equal=True), rng),
        case("one_head", (2, 3, 4, 5, 1), rng),
        case("mask", (3, 5, 6, 2, 4), visible, True, visible=True, differentiate=True),
        case("mask", sizes(), rng, True),
        case("mask", sizes(equal=True), rng, True),
        case("mask", (4, 3, 5, 2, 3), rng, True, single=False),
        case("contract", (3, 2, 5, 4, 2), rng, True, dtype="float32"),
    ]


AXES = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    sequence_length("source_tokens"),
    *multi_head.HEADS,
    Choice("mask", (None, "padding", "random")),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, source_tokens, n_heads, _, d_model, mask = sizes.values()
    inputs: Inputs = tuple(rng.normal(size=(batch, n, d_model)) for n in (tokens, source_tokens))
    if mask:
        inputs += (multi_head.with_heads(masked(mask, batch, tokens, source_tokens, rng)),)
    return Case("mask" if mask else "one_head" if n_heads == 1 else "values", "", inputs, (d_model, n_heads))


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    module = reading.empty(reference.CrossAttention, build)
    return reading.call(module, multi_head.for_reference(weights, build[0]), inputs)


def steps(
    x: Annotated[Tensor, "batch tokens features"],
    memory: Annotated[Tensor, "batch source_tokens features"],
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
    """Cross-attention, step by step."""
    projected_queries = linear(x, q_weight, q_bias)
    projected_keys = linear(memory, k_weight, k_bias)
    projected_values = linear(memory, v_weight, v_bias)
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


# What can be wrong with the source of queries, keys and values; in the block too.
SOURCES = (
    mistake(
        "cross_attention.own_memory",
        "Change the memory and see whether the result moves. Which two maps should read it?",
        change="memory = x",
    ),
    mistake(
        "cross_attention.memory_asks",
        "How many rows should the result have? Which sequence should the queries come from?",
        change="""
        projected_queries = linear(memory, q_weight, q_bias)
        projected_keys = linear(x, k_weight, k_bias)
        projected_values = linear(x, v_weight, v_bias)
        """,
    ),
)
OF_ONE_SOURCE = {"shared_qkv", "shared_qk", "k_for_v"}  # here queries are made of something else
known = MULTI_HEAD_SELF_ATTENTION.known  # a mistake of lab 2, with what it costs here

MISTAKES = (
    *SOURCES,
    mistake(
        "cross_attention.memory_alone",
        "Which of queries, keys and values should depend on what is being written?",
        change="x = memory",
    ),
    mistake(
        "cross_attention.keys_from_x",
        "The weights say which *source* token to read. Whose keys must they have been compared with?",
        change="projected_keys = linear(x, k_weight, k_bias)",
    ),
    mistake(
        "cross_attention.values_from_x",
        "What should a token of the target get from the source?",
        change="projected_values = linear(x, v_weight, v_bias)",
    ),
    mistake(
        "cross_attention.causal_memory",
        "Which mask does your code get, and which does it apply?",
        change="masked_scores = hide_the_future_always(masked_scores, None, -INF)",
        costs=("values",),
    ),
    *(m for m in multi_head.OF_HEADS if m.key not in OF_ONE_SOURCE),
    known(
        "shared_qkv",
        "values",
        change="projected_keys = linear(memory, q_weight, q_bias)\nprojected_values = projected_keys",
    ),
    mistake(
        "cross_attention.shared_kv",
        "How many different maps does the task list?",
        change=("projected_values = projected_keys", "projected_keys = linear(memory, v_weight, v_bias)"),
        costs=("values",),
    ),
    mistake(
        "cross_attention.shared_qk",
        "Which map makes the keys?",
        change="projected_keys = linear(memory, q_weight, q_bias)",
        costs=("values",),
    ),
    known("by_d_head", "values", change="scores = raw_scores / d_head"),
    known("columns", "values", change="weights = softmax(masked_scores, -2)"),
    known("no_maximum", "values", change="weights = softmax_unshifted(masked_scores, -1)"),
    known("mask_ignored", "mask", change="mask = None"),
    known("mask_after", "mask", change="weights = multiply_by_mask(softmax(scores, -1), mask)"),
    known("filled_with_0", "mask", change="masked_scores = hide(scores, mask, 0.0)"),
    known("mask_inverted", "mask", change="masked_scores = hide(scores, inverted(mask), -INF)"),
    known("mask_on_queries", "mask", change="masked_scores = hide(scores, mask_transposed(mask), -INF)"),
)

CROSS_ATTENTION = Exercise(
    name="CrossAttention",
    returns="a tensor of the shape of x, (batch, tokens, d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "queries from x, keys and values from the memory", 0.4),
        Criterion("one_head", "a single head too", 0.1),
        Criterion("mask", "hidden source tokens get no weight", 0.2),
        Criterion("gradients", "gradients reach x, the memory and all four maps", 0.1),
        Criterion("contract", "all layers registered, inputs stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    mappings=reading.four_maps,
    roles=multi_head.roles,
    needs=multi_head.NEEDS,
    tolerance=tolerance,
    forbidden=FORBIDDEN,
    forbidden_reason="The task is to write cross-attention yourself, around the attention function that is given.",
)
