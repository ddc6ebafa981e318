"""Self-attention that keeps the keys and values of earlier tokens (lab 6)."""

from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Choice, Only, Sizes
from autograder.diagnosis.vocabulary import (
    INF,
    Bias,
    after,
    arange,
    at_most,
    column,
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
from autograder.exercises.attention import FORBIDDEN, extreme, tolerance
from autograder.exercises.known import mistake
from autograder.exercises.multi_head_self_attention import MULTI_HEAD_SELF_ATTENTION
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """A whole text in one call, token by token, in pieces; then with weights that change, and scores that overflow."""
    visible = np.random.default_rng(63)

    def case(tag: str, steps: tuple[int, ...], source: np.random.Generator, batch: int = 5, **kwargs: Any) -> Case:
        d_head, n_heads = (2, 3) if batch == 5 else (5, 4) if "single" in kwargs else (4, 2)
        shape = (batch, sum(steps), n_heads * d_head)
        x = extreme(source, shape) if "single" in kwargs else source.normal(size=shape)
        how = "in one call" if len(steps) == 1 else f"in calls of {', '.join(map(str, steps))}"
        label = f"batch {batch}, {sum(steps)} tokens {how}, d_model {n_heads * d_head}, {n_heads} heads"
        label += ", weights changed between the calls" * ("drift" in kwargs) + ", scores of ±10⁵" * ("single" in kwargs)
        return Case(tag, label, (x,), (n_heads * d_head, n_heads), steps=steps, **kwargs)

    return [
        case("whole", (4,), visible, visible=True, differentiate=True),
        case("whole", (7,), rng, batch=3, differentiate=True),
        case("whole", (5,), rng, batch=6, single=False),
        case("steps", (1, 1, 1, 1), visible, visible=True),
        case("pieces", (3, 4), visible, visible=True),
        case("pieces", tuple(map(int, rng.permutation([4, 1, 2]))), rng, batch=3),
        case("pieces", (10, 1, 6), rng, batch=1),
        case("pieces", (3, 3), rng, batch=6, single=False),
        case("kept", (3, 1, 4), visible, visible=True, drift=1.25),
        case("kept", tuple(map(int, rng.permutation([1, 2, 4]))), rng, batch=3, drift=0.8),
        case("contract", (2, 1), rng, batch=3, dtype="float32"),
        case("contract", (2, 3), rng, batch=3, differentiate=True),  # through the cache
    ]


AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=70),
    *multi_head.HEADS,
    Choice("the text comes", ("in one call", "token by token", "in two calls")),
    Only(lambda sizes: sizes["the text comes"] == "in one call" or sizes["tokens"] > 1),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, n_heads, _, d_model, calls = sizes.values()
    cut = (tokens + 1) // 2
    steps = {"in one call": (tokens,), "token by token": (1,) * tokens, "in two calls": (cut, tokens - cut)}[calls]
    tag = {"in one call": "whole", "token by token": "steps", "in two calls": "pieces"}[calls]
    return Case(tag, "", (rng.normal(size=(batch, tokens, d_model)),), (d_model, n_heads), steps=steps)


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> tuple[Tensor, reference.KeyValueCache]:
    """One call: the new tokens and the cache of the call before in, their output and the cache out."""
    x, before = inputs
    cache = reference.KeyValueCache()
    if before is not None:
        cache.append(before.keys, before.values)
    mask = reference.causal_mask(len(cache) + x.size(1))[len(cache) :]  # (new tokens, all tokens)
    module = reading.empty(reference.CachedSelfAttention, build)
    return reading.call(module, multi_head.for_reference(weights, build[0]), (x, mask), cache=cache), cache


def one_call(
    x: Annotated[Tensor, "batch tokens features"],
    cache: Any,
    /,
    d_model: int,
    n_heads: int,
    *,
    q_weight: Tensor,
    k_weight: Tensor,
    v_weight: Tensor,
    o_weight: Tensor,
    q_bias: Bias,
    k_bias: Bias,
    v_bias: Bias,
    o_bias: Bias,
) -> tuple[Tensor, Any]:
    """One call, step by step; the cache holds keys and values."""
    projected_queries = linear(x, q_weight, q_bias)
    projected_keys = linear(x, k_weight, k_bias)
    projected_values = linear(x, v_weight, v_bias)
    queries = split_heads(projected_queries, n_heads)
    keys = split_heads(projected_keys, n_heads)
    values = split_heads(projected_values, n_heads)
    all_keys = keys if cache is None else torch.cat((cache[0], keys), -2)
    all_values = values if cache is None else torch.cat((cache[1], values), -2)
    d_head = size(queries, -1)
    raw_scores = queries @ transpose(all_keys, -2, -1)
    scores = raw_scores / d_head**0.5
    every = torch.ones(scores.shape[-2:], dtype=torch.bool)
    mask = every.tril(every.size(1) - every.size(0))
    masked_scores = hide(scores, mask, -INF)
    weights = softmax(masked_scores, -1)
    means = weights @ all_values
    merged_heads = merge_heads(means)
    output = linear(merged_heads, o_weight, o_bias)
    return output, (all_keys, all_values)


def steps(
    x: Annotated[Tensor, "batch tokens features"],
    earlier: Annotated[Tensor, "batch tokens features", "the earlier tokens"],
    /,
    d_model: int,
    n_heads: int,
    *,
    q_weight: Tensor,
    k_weight: Tensor,
    v_weight: Tensor,
    o_weight: Tensor,
    q_bias: Bias,
    k_bias: Bias,
    v_bias: Bias,
    o_bias: Bias,
) -> Tensor:
    """One call after others, step by step: what the cache holds is computed from the earlier tokens."""
    queries = split_heads(linear(x, q_weight, q_bias), n_heads)
    new_keys = split_heads(linear(x, k_weight, k_bias), n_heads)
    new_values = split_heads(linear(x, v_weight, v_bias), n_heads)
    earlier_keys = split_heads(linear(earlier, k_weight, k_bias), n_heads)
    earlier_values = split_heads(linear(earlier, v_weight, v_bias), n_heads)
    keys = after(earlier_keys, new_keys)
    values = after(earlier_values, new_values)
    d_head = size(queries, -1)
    raw_scores = queries @ transpose(keys, -2, -1)
    scores = raw_scores / d_head**0.5
    n_earlier = size(earlier, 1)
    n_new = size(x, 1)
    n_tokens = size(keys, -2)
    query_positions = arange(n_earlier, n_new, 1)
    key_positions = arange(0, n_tokens, 1)
    mask = at_most(key_positions, column(query_positions))
    masked_scores = hide(scores, mask, -INF)
    weights = softmax(masked_scores, -1)
    means = weights @ values
    merged_heads = merge_heads(means)
    output = linear(merged_heads, o_weight, o_bias)
    return output


JOINED = """
    all_keys = keys if cache is None else torch.cat((cache[0], keys), {0})
    all_values = values if cache is None else torch.cat((cache[1], values), {0})
    """

known = MULTI_HEAD_SELF_ATTENTION.known

MISTAKES = (
    known("unregistered"),
    known("overwritten"),
    mistake(
        "cached_self_attention.recomputed",
        "What do you put into the cache? What is left to compute of an earlier token in the next call?",
        change="""
        new = x.size(1)
        x = x if cache is None else torch.cat((cache, x), 1)
        cache = None
        projected_queries = linear(x, q_weight, q_bias)
        return output[:, -new:], x
        """,
        costs=("kept",),
    ),
    mistake(
        "cached_self_attention.cache_unused",
        "Follow the cache out of one call, into the next, and up to the weights.",
        change="all_keys = keys\nall_values = values",
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.only_new_kept",
        "In the third call, how many keys do the queries meet?",
        change="return output, (keys, values)",
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.cache_detached",
        "Look for `detach`, `no_grad`, `.data` or a new tensor made of the cached numbers.",
        change=(
            "return output, (all_keys.detach(), all_values.detach())",
            "return output, (all_keys.detach(), all_values)",
            "return output, (all_keys, all_values.detach())",
        ),
        costs=("gradients",),
    ),
    mistake(
        "cached_self_attention.new_first",
        "In which order are the two joined, and which columns does the mask hide?",
        change="""
        all_keys = keys if cache is None else torch.cat((keys, cache[0]), -2)
        all_values = values if cache is None else torch.cat((values, cache[1]), -2)
        """,
        costs=("pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.over_features",
        "Print the shapes of all that is joined in the second call. Which axis counts tokens once the heads are split?",
        change=(JOINED.format(-1), JOINED.format(1), JOINED.format(0), "all_values = values"),
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.queries_kept",
        "How many rows should one call return? Which of q, k and v does an earlier token still need?",
        change="""
        new_queries = split_heads(projected_queries, n_heads)
        queries = new_queries if cache is None else torch.cat((cache[2], new_queries), -2)
        return output, (all_keys, all_values, queries)
        """,
        costs=("shape", "steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.exchanged",
        "In which order do you put them in, and in which do you take them out?",
        change="return output, (all_values, all_keys)",
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.no_causal_mask",
        "Send a text of several tokens through in one call. What may its first token see?",
        change="mask = None",
        costs=("whole", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.mask_from_the_first",
        "The first row of the mask belongs to the first *new* token. How many keys may that see?",
        change="mask = every.tril()",
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.mask_of_the_new",
        "Which two numbers are the shape of the scores in the second call?",
        change="mask = torch.ones(tokens, tokens, dtype=torch.bool).tril()",
        costs=("pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.no_self",
        "Print the mask's first row in the first call.",
        change="mask = every.tril(every.size(1) - every.size(0) - 1)",
    ),
    *(known(key, "whole") for key in ("view_split", "no_transpose")),
    known("view_transposed"),
    *(known(key, "whole") for key in ("view_merge", "interleaved", "no_output", "residual", "shared_qk", "shared_qkv")),
    *(known(key, "whole") for key in ("k_for_v", "unscaled", "by_d_model", "columns", "no_maximum")),
)

CACHED_SELF_ATTENTION = Exercise(
    name="CachedSelfAttention",
    returns="a tensor of the shape of x, (batch, tokens, d_model), and the cache",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the output has the shape of x", 0.1),
        Criterion("whole", "a whole text in one call: no token sees a later one", 0.2),
        Criterion("steps", "token by token: the earlier ones come from the cache", 0.2),
        Criterion("pieces", "several tokens at a time", 0.2),
        Criterion("kept", "keys and values are kept as they were, not computed again", 0.1),
        Criterion("gradients", "gradients reach x and all four maps, through the cache too", 0.1),
        Criterion("contract", "all layers registered, x stays untouched, the same call twice gives the same", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    varied=one_call,
    steps=steps,
    mappings=reading.four_maps,
    roles=multi_head.roles,
    needs=multi_head.NEEDS,
    forbidden=FORBIDDEN,
    forbidden_reason="The task is to write attention and its cache yourself, around the function that is given.",
    tolerance=tolerance,
)
