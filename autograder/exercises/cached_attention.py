"""Self-attention that keeps the keys and values of earlier tokens (lab 6)."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Choice, Sizes
from autograder.exercise import Build, Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises import multi_head
from autograder.exercises.decoder import known, project, split_heads
from headroom import reference
from headroom.mistakes import mistake


def cases(rng: np.random.Generator) -> list[Case]:
    """A whole text in one call, token by token, in pieces; last in pieces between which the weights change."""
    visible = np.random.default_rng(63)

    def case(tag: str, steps: tuple[int, ...], source: np.random.Generator, batch: int = 5, **kwargs: Any) -> Case:
        d_head, n_heads = (2, 3) if batch == 5 else (4, 2)
        x = source.normal(size=(batch, sum(steps), n_heads * d_head))
        how = "in one call" if len(steps) == 1 else f"in calls of {', '.join(map(str, steps))}"
        label = f"batch {batch}, {sum(steps)} tokens {how}, d_model {n_heads * d_head}, {n_heads} heads"
        label += ", weights changed between the calls" if "drift" in kwargs else ""
        return Case(tag, label, (x,), (n_heads * d_head, n_heads), steps=steps, **kwargs)

    return [
        case("whole", (4,), visible, visible=True, differentiate=True),
        case("whole", (7,), rng, batch=3, differentiate=True),
        case("steps", (1, 1, 1, 1), visible, visible=True),
        case("steps", (1,) * 5, rng, batch=3),
        case("pieces", (3, 4), visible, visible=True),
        case("pieces", tuple(map(int, rng.permutation([4, 1, 2]))), rng, batch=3),
        case("pieces", (10, 1, 6), rng, batch=1),
        case("kept", (3, 1, 4), visible, visible=True, drift=1.25),
        case("kept", tuple(map(int, rng.permutation([1, 2, 4]))), rng, batch=3, drift=0.8),
        case("manners", (2, 1), rng, batch=3, dtype="float32"),
    ]


SIZES = (
    Axis("batch", most=4),
    Axis("tokens", long=40),
    *multi_head.HEADS,
    Choice("calls", ("in one call", "one by one", "in two calls")),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, n_heads, _, d_model, calls = sizes.values()
    cut = (tokens + 1) // 2
    steps = {"in one call": (tokens,), "one by one": (1,) * tokens, "in two calls": (cut, tokens - cut)}[calls]
    steps = tuple(n for n in steps if n)
    tag = {"in one call": "whole", "one by one": "steps", "in two calls": "pieces"}[calls]
    return Case(tag, "", (rng.normal(size=(batch, tokens, d_model)),), (d_model, n_heads), steps=steps)


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> tuple[Tensor, reference.KeyValueCache]:
    """One call: the new tokens and the cache of the call before in, their output and the cache out."""
    x, before = inputs
    cache = reference.KeyValueCache()
    if before is not None:
        cache.append(before.keys, before.values)
    mask = reference.causal_mask(len(cache) + x.size(1))[len(cache) :]  # (new tokens, all tokens)
    module = reading.empty(reference.MultiHeadSelfAttention, build)
    return reading.call(module, multi_head.for_reference(weights, build[0]), (x, mask), cache=cache), cache


def variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> tuple[Tensor, object]:
    """One call of cached self-attention with mistakes switched on."""
    x, before = inputs
    n_heads, new = build[1], x.size(1)
    if "recomputed" in slips:
        x = x if before is None else torch.cat([before, x], dim=1)
        before = None
    by = {"q": "q", "k": "k", "v": "v"}
    if "shared_qk" in slips:
        by["k"] = "q"
    elif "k_for_v" in slips:
        by["v"] = "k"
    elif "shared_qkv" in slips:
        by = dict.fromkeys("qkv", next((r for r in "qkv" if f"{r}_weight" in weights), "o"))
    own = tuple(split_heads(project(x, weights, by[r]), n_heads, slips) for r in "qkv")
    q, k, v = own
    if before is not None and "cache_unused" not in slips:
        axis = next((place for place, key in enumerate(AXES) if key in slips), -2)
        joined = [
            torch.cat([new, old] if "new_first" in slips else [old, new], dim=axis)
            for old, new in zip(before, own, strict=True)
        ]
        q = joined[0] if "queries_kept" in slips else q
        k = joined[1]
        v = v if "values_not_kept" in slips else joined[2]
    if "recomputed" in slips:
        state = x
    else:
        state = own if "only_new_kept" in slips else (q, v, k) if "exchanged" in slips else (q, k, v)
    scores = q @ k.mT
    if "unscaled" not in slips:
        scores = scores / math.sqrt(build[0] if "by_d_model" in slips else q.size(-1))
    every = torch.ones(scores.shape[-2:], dtype=torch.bool)
    if "mask_from_the_first" in slips:
        mask = every.tril()
    elif "mask_of_the_new" in slips:
        mask = torch.ones(new, new, dtype=torch.bool).tril()
    elif "no_self" in slips:
        mask = every.tril(every.size(1) - every.size(0) - 1)
    else:
        mask = every.tril(every.size(1) - every.size(0))
    if "no_causal_mask" not in slips:
        scores = scores.masked_fill(~mask, -math.inf)
    heads = scores.softmax(-2 if "columns" in slips else -1) @ v
    if "no_transpose" in slips:
        merged = heads.flatten(-2)
    else:
        merged = heads.reshape(*x.shape) if "view_merge" in slips else heads.transpose(1, 2).flatten(-2)
    out = merged if "no_output" in slips else project(merged, weights, "o")
    out = out + x if "residual" in slips else out
    return (out[:, -new:] if "recomputed" in slips else out), state


AXES = ("over_batch", "over_heads", "", "over_features")  # the axes of (batch, heads, tokens, d_head)

MISTAKES = (
    known("unregistered"),
    known("overwritten"),
    mistake(
        "cached_self_attention.recomputed",
        "What do you put into the cache? What is left to compute of an earlier token in the next call?",
        "kept",
        costs=("kept",),
    ),
    mistake(
        "cached_self_attention.cache_unused",
        "Follow the cache: out of one call, into the next, up to the scores.",
        "kept",
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.only_new_kept",
        "How many tokens does your cache hold after three calls?",
        "kept",
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.new_first",
        "In which order are the two joined, and which columns does the mask hide?",
        "joined",
        costs=("pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.over_features",
        "Print the shapes of keys and values after the second call. Which axis counts tokens once the heads are split?",
        "joined",
        also=("over_heads", "over_batch", "values_not_kept"),
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.queries_kept",
        "How many rows should one call return? Which of q, k and v does an earlier token still need?",
        "queries",
        costs=("shape", "steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.exchanged",
        "In which order do you put them in, and in which do you take them out?",
        "exchanged",
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.no_causal_mask",
        "Send a text of several tokens through in one call. What may its first token see?",
        "mask",
        costs=("whole", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.mask_from_the_first",
        "The first row of the mask belongs to the first *new* token. How many keys may that see?",
        "mask",
        costs=("steps", "pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.mask_of_the_new",
        "Which two numbers are the shape of the scores in the second call?",
        "mask",
        costs=("pieces", "kept"),
    ),
    mistake(
        "cached_self_attention.no_self",
        "Print the mask's first row.",
        "mask",
    ),
    known("view_split", "whole"),
    known("no_transpose", "whole"),
    known("view_transposed"),
    known("view_merge", "whole"),
    known("interleaved", "whole"),
    known("no_output", "whole"),
    known("residual", "whole"),
    known("shared_qk", "whole"),
    known("shared_qkv", "whole"),
    known("k_for_v", "whole"),
    known("unscaled", "whole"),
    known("by_d_model", "whole"),
    known("columns", "whole"),
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
        Criterion("gradients", "gradients reach x and all four maps", 0.1),
        Criterion("manners", "all layers registered, x stays untouched, the same call twice gives the same", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=SIZES,
    drawn=drawn,
    reference=right_answer,
    variation=variation,
    mappings=reading.four_maps,
    roles=multi_head.roles,
    needs=frozenset({"q_weight", "k_weight", "v_weight", "o_weight"}),
    forbidden=multi_head.MULTI_HEAD_SELF_ATTENTION.forbidden,
    forbidden_reason="The task is to write attention and its cache yourself, around the function that is given.",
)
