"""Attention in which several heads of queries share keys and values, with a cache; without positions (lab 10)."""

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import reading, rewriting
from autograder.covering import Axis, Choice, Derived, Sizes, sequence_length
from autograder.diagnosis.vocabulary import INF, Bias, hide, linear, merge_heads, size, softmax, split_heads, transpose
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Weights
from autograder.exercises import grouped_maps, multi_head
from autograder.exercises.attention import FORBIDDEN, extreme, masked, tolerance
from autograder.exercises.known import mistake
from autograder.exercises.multi_head_self_attention import MULTI_HEAD_SELF_ATTENTION
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Groups of several heads, one group for all, a group for each; masks that matter; a cache that holds tokens."""
    visible = np.random.default_rng(104)

    def case(
        tag: str, source: np.random.Generator, groups: tuple[int, int], tokens: int, earlier: int = -1, **kwargs: Any
    ) -> Case:
        """groups: how many, and how many heads each serves; earlier: tokens in the cache; -1: there is no cache."""
        n_groups, shared = groups
        n_heads, d_head, batch = n_groups * shared, 4 if groups != (2, 2) else 3, 5 if tokens != 5 else 2
        d_model = n_heads * d_head
        large = "single" in kwargs
        x = extreme(source, (batch, tokens, d_model)) if large else source.normal(size=(batch, tokens, d_model))
        inputs: Inputs = (x,)
        label = f"batch {batch}, {tokens} tokens, d_model {d_model}, {n_heads} heads, {n_groups} groups"
        if tag == "mask" or earlier > 0:
            mask = np.tril(np.ones((1, 1, tokens, tokens + max(0, earlier)), dtype=bool), max(0, earlier))
            inputs, label = (x, mask), label + ", causal mask"
        if tag == "heads":
            mask = _by_head(1, n_heads, tokens, tokens + max(0, earlier), source)
            tag, inputs, label = "mask", (x, mask), label + ", another mask in each head"
        if earlier >= 0:
            inputs = (
                *inputs,
                *(() if len(inputs) == 2 else (None,)),
                _cache(source, (batch, n_groups, earlier, d_head)),
            )
            label += f", {earlier} tokens in the cache"
        label += ", scores of ±10⁵" if large else ""
        return Case(tag, label, inputs, (d_model, n_heads, n_groups), **kwargs)

    return [
        case("values", visible, (2, 3), 5, visible=True, differentiate=True),
        case("values", rng, (3, 2), 4, differentiate=True),
        case("values", rng, (2, 2), 3, single=False),
        case("ends", visible, (1, 3), 3, visible=True),
        case("ends", rng, (3, 1), 4),
        case("mask", visible, (2, 2), 4, visible=True),
        case("mask", rng, (2, 2), 6, single=False),
        case("heads", rng, (2, 3), 6, differentiate=True),
        case("heads", rng, (2, 2), 1, 5),
        case("cache", visible, (2, 3), 1, 4, visible=True),
        case("cache", rng, (3, 2), 3, 5, differentiate=True),
        case("cache", rng, (2, 2), 5, 0),
        case("contract", rng, (2, 2), 3, dtype="float32"),
    ]


def _by_head(batch: int, n_heads: int, queries: int, keys: int, source: np.random.Generator) -> np.ndarray:
    """A mask of four axes, another one for each head of each text."""
    return masked("random", batch * n_heads, queries, keys, source).reshape(batch, n_heads, queries, keys)


def _cache(source: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"$make": "cache", "keys": source.normal(size=shape), "values": source.normal(size=shape)}


AXES = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    Axis("n_groups", most=3, build=True),
    Axis("n_shared", most=3, build=True, told=False),
    Derived("n_heads", lambda sizes: sizes["n_groups"] * sizes["n_shared"], build=True),
    Axis("d_head", least=2, most=5, build=True),
    Derived("d_model", lambda sizes: sizes["n_heads"] * sizes["d_head"], build=True),
    Choice("mask", (None, "causal", "padding", "by head", "of two axes")),
    Choice("cache", (None, 1, 3)),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, n_groups, n_shared, n_heads, d_head, d_model, kind, earlier = sizes.values()
    inputs: Inputs = (rng.normal(size=(batch, tokens, d_model)),)
    if kind or earlier:
        mask = _by_head(batch, n_heads, tokens, tokens, rng) if kind == "by head" else None
        if kind in ("causal", "padding"):
            mask = multi_head.with_heads(masked(kind, batch, tokens, tokens, rng))
        elif kind == "of two axes":
            mask = np.tri(tokens, dtype=bool)
        if mask is not None and earlier:
            mask = np.concatenate([np.ones((*mask.shape[:-1], earlier), dtype=bool), mask], axis=-1)
        inputs = (*inputs, mask)
    if earlier:
        inputs = (*inputs, _cache(rng, (batch, n_groups, earlier, d_head)))
    one = 1 in (n_groups, n_shared)
    return Case(
        "cache" if earlier else "mask" if kind else "ends" if one else "values",
        "",
        inputs,
        (d_model, n_heads, n_groups),
    )


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    """Multi-head attention in which the heads of a group have the same maps, and the same keys and values kept."""
    d_model, n_heads, n_groups = build
    x, (mask, cache) = inputs[0], (*inputs[1:], None, None)[:2]

    def for_every_head(tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (n_groups, -1)).repeat_interleave(n_heads // n_groups, 0).flatten(0, 1)

    full = {role: for_every_head(t) if role[0] in "kv" else t for role, t in weights.items()}
    kept = reference.KeyValueCache()
    if cache is not None:
        keys, values = (part.to(x.dtype).repeat_interleave(n_heads // n_groups, 1) for part in cache.earlier)
        kept.append(keys, values)
    module = reading.empty(reference.CachedSelfAttention, (d_model, n_heads))
    return reading.call(module, multi_head.for_reference(full, d_model), (x, mask), cache=kept)


def one_call(
    x: Tensor,
    mask: Any,
    cache: Any,
    /,
    d_model: int,
    n_heads: int,
    n_groups: int,
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
    """One call, step by step."""
    projected_queries = linear(x, q_weight, q_bias)
    projected_keys = linear(x, k_weight, k_bias)
    projected_values = linear(x, v_weight, v_bias)
    queries = split_heads(projected_queries, n_heads)
    new_keys = split_heads(projected_keys, n_groups)
    new_values = split_heads(projected_values, n_groups)
    group_keys = new_keys if cache is None else torch.cat((cache.earlier[0].to(x.dtype), new_keys), -2)
    group_values = new_values if cache is None else torch.cat((cache.earlier[1].to(x.dtype), new_values), -2)
    n_shared = n_heads // n_groups
    keys = group_keys.repeat_interleave(n_shared, 1)
    values = group_values.repeat_interleave(n_shared, 1)
    d_head = size(queries, -1)
    raw_scores = queries @ transpose(keys, -2, -1)
    scores = raw_scores / d_head**0.5
    masked_scores = hide(scores, mask, -INF)
    weights = softmax(masked_scores, -1)
    means = weights @ values
    merged_heads = merge_heads(means)
    output = linear(merged_heads, o_weight, o_bias)
    return output


STAGES = {
    "queries": "the queries",
    "group_keys": "the groups' keys",
    "group_values": "the groups' values",
    "scores": "the scaled scores",
    "weights": "the weights",
    "means": "the heads' means",
}


# What the given cache says of keys and values of another shape.
_SHAPES = re.compile(
    r"here \(\d+, (?P<groups>\d+), tokens, (?P<own>\d+)\); it got \(\d+, (?P<heads>\d+), \d+, (?P<width>\d+)\)"
)


def _repeated_first(seen: Evidence) -> bool:
    """The cache got more heads than it keeps groups, of their width, and nothing else went wrong."""
    refused = [_SHAPES.search(error) for error in seen.errors if "the cache keeps" in error]
    if not all(
        found and int(found["heads"]) > int(found["groups"]) and found["width"] == found["own"] for found in refused
    ):
        return False
    plain = {i for i, case in enumerate(seen.cases) if len(case.inputs) < 3 and case.dtype == "float64"}
    other_width = grouped_maps.as_wide_as_queries(seen) or grouped_maps.of_another_number(seen)
    return bool(refused) and not other_width and len(seen.right & plain) > len(plain) / 2


def split(word: str) -> str:
    """A change of the splits of queries, keys and values alike."""
    lines = (("queries", "queries", "n_heads"), ("new_keys", "keys", "n_groups"), ("new_values", "values", "n_groups"))
    return "\n".join(f"{name} = {word}(projected_{of}, {heads})" for name, of, heads in lines)


TILED = "{0} = group_{0}.repeat(1, n_shared, 1, 1)"

known = MULTI_HEAD_SELF_ATTENTION.known

MISTAKES = (
    known("unregistered"),
    known("overwritten"),
    mistake(
        "grouped_query_attention.tiled",
        "Print what `repeat` and `repeat_interleave` make of tensor([0, 1]). Which is the order that the task wants?",
        change=TILED.format("keys") + "\n" + TILED.format("values"),
        costs=("values",),
    ),
    mistake(
        "grouped_query_attention.full_width",
        "How many heads of keys does the task want, and how many rows does your map of the keys have?",
        sign=grouped_maps.as_wide_as_queries,
        costs=("values", "ends", "cache"),
    ),
    mistake(
        "grouped_query_attention.per_group",
        "With 6 heads in 2 groups: how many heads of keys are there, and how many heads of queries share one?",
        sign=grouped_maps.of_another_number,
        costs=("values", "ends", "cache"),
    ),
    mistake(
        "grouped_query_attention.first_group",
        "Is there a 0 or a `:1` where all groups should stand?",
        change="""
        keys = group_keys[:, :1].repeat_interleave(n_heads, 1)
        values = group_values[:, :1].repeat_interleave(n_heads, 1)
        """,
        costs=("values",),
    ),
    mistake(
        "grouped_query_attention.values_tiled",
        "Are keys and values repeated in the same way?",
        change=(TILED.format("keys"), TILED.format("values")),
        costs=("values",),
    ),
    mistake(
        "grouped_query_attention.repeated_in_the_cache",
        "What should the cache hold: one head for each group, or one for each head of queries?",
        sign=_repeated_first,
        costs=("cache",),
    ),
    mistake(
        "grouped_query_attention.cache_ignored",
        "Follow what `append` returns up to the weights.",
        change=(
            "group_keys = new_keys\ngroup_values = new_values",
            """
            group_keys = new_keys
            group_values = new_values
            mask = None if mask is None else mask[..., -x.size(1) :]
            """,
        ),
        costs=("cache",),
    ),
    known("view_split", "values", change=split("split_by_view")),
    known("view_transposed"),
    known("view_merge", "values"),
    known("interleaved", "values", change=split("split_in_turns")),
    *(known(key, "values") for key in ("no_output", "residual", "k_for_v", "unscaled", "by_d_model", "columns")),
    known("no_maximum", "values"),
    *(known(key, "mask") for key in ("mask_ignored", "filled_with_0", "mask_inverted")),
)

GROUPED_QUERY_ATTENTION = Exercise(
    name="GroupedQueryAttention",
    returns="a tensor of the shape of x, (batch, tokens, d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "each group's keys and values serve the heads of that group", 0.4),
        Criterion("ends", "a single group, and as many groups as heads", 0.1),
        Criterion("mask", "the mask is respected", 0.1),
        Criterion("cache", "the cache keeps the groups' keys and values, and new tokens see what it holds", 0.1),
        Criterion("gradients", "gradients reach x and all four maps", 0.1),
        Criterion("contract", "all layers registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    varied=one_call,
    stages=lambda build, inputs, weights: rewriting.values(one_call, STAGES, build, inputs, weights),
    mappings=grouped_maps.mappings,
    roles=grouped_maps.roles,
    needs=multi_head.NEEDS,
    tolerance=tolerance,
    forbidden=FORBIDDEN,
    forbidden_reason="The task is to share the heads yourself, around the attention function that is given.",
)
