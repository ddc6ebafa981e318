"""Cross-attention, and the decoder block around it (lab 6)."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Choice, Only, Sizes
from autograder.diagnosis.vocabulary import INF, Bias, Mask, hide, linear, merge_heads, size, softmax, transpose
from autograder.diagnosis.vocabulary import split_heads as into_heads
from autograder.exercise import Build, Case, Criterion, Exercise, Inputs, Parameter, Weights
from autograder.exercises import multi_head
from autograder.exercises.attention import FORBIDDEN, masked
from autograder.exercises.multi_head_self_attention import MULTI_HEAD_SELF_ATTENTION
from headroom import reference
from headroom.mistakes import mistake

known = MULTI_HEAD_SELF_ATTENTION.known  # a mistake of lab 2, with what it costs here


def padding(source: np.random.Generator, batch: int, n_tokens: int) -> np.ndarray:
    """A mask (batch, 1, 1, n_tokens) that hides filler from every sequence, a different number from each."""
    lengths = source.permutation(np.arange(1, n_tokens))[:batch]
    return (np.arange(n_tokens) < lengths[:, None])[:, None, None, :]


def causal(n_tokens: int) -> np.ndarray:
    return np.tril(np.ones((n_tokens, n_tokens), dtype=bool))


# --- CrossAttention ----------------------------------------------------------------------------------------------


def cross_cases(rng: np.random.Generator) -> list[Case]:
    """Sizes all different, then as many target tokens as source tokens, where shapes tell nothing."""
    visible = np.random.default_rng(61)

    def case(tag: str, sizes: tuple[int, ...], source: np.random.Generator, mask: bool = False, **kwargs: Any) -> Case:
        batch, tokens, source_tokens, d_head, n_heads = map(int, sizes)
        d_model = n_heads * d_head
        x, memory = (source.normal(size=(batch, n, d_model)) for n in (tokens, source_tokens))
        label = f"batch {batch}, {tokens} tokens, {source_tokens} source tokens, d_model {d_model}, {n_heads} heads"
        inputs = (x, memory, padding(source, batch, source_tokens)) if mask else (x, memory)
        return Case(tag, label + (", padding mask" if mask else ""), inputs, (d_model, n_heads), **kwargs)

    def sizes(equal: bool = False) -> tuple[int, ...]:
        """batch, tokens, source_tokens, d_head, n_heads: all different but for equal lengths, and so is d_model."""
        batch, n_heads = map(int, rng.permutation([2, 3]))
        tokens, source_tokens, d_head = map(int, rng.choice([4, 5, 7], size=3, replace=False))
        return batch, tokens, tokens if equal else source_tokens, d_head, n_heads

    return [
        case("values", (3, 5, 6, 2, 4), visible, visible=True, differentiate=True),
        case("values", sizes(), rng, differentiate=True),
        case("values", sizes(equal=True), rng),
        case("values", (1, 3, 4, 3, 2), rng),
        case("values", (2, 1, 4, 3, 2), rng),
        case("one_head", (2, 3, 4, 5, 1), rng),
        case("mask", (3, 5, 6, 2, 4), visible, True, visible=True, differentiate=True),
        case("mask", sizes(), rng, True),
        case("mask", sizes(equal=True), rng, True),
        case("manners", (3, 2, 5, 4, 2), rng, True, dtype="float32"),
    ]


CROSS_AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=70),
    Axis("source_tokens", long=70),
    *multi_head.HEADS,
    Choice("mask", (None, "padding")),
)


def drawn_cross(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, source_tokens, n_heads, _, d_model, mask = sizes.values()
    inputs: Inputs = tuple(rng.normal(size=(batch, n, d_model)) for n in (tokens, source_tokens))
    if mask:
        inputs += (multi_head.with_heads(masked(mask, batch, 1, source_tokens, rng)),)
    return Case("mask" if mask else "one_head" if n_heads == 1 else "values", "", inputs, (d_model, n_heads))


def right_cross(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    module = reading.empty(reference.MultiHeadAttention, build)
    return reading.call(module, multi_head.for_reference(weights, build[0]), inputs)


def cross_steps(
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
    queries = into_heads(linear(x, q_weight, q_bias), n_heads)
    keys = into_heads(linear(memory, k_weight, k_bias), n_heads)
    values = into_heads(linear(memory, v_weight, v_bias), n_heads)
    d_head = size(queries, -1)
    scores = queries @ transpose(keys, -2, -1) / d_head**0.5
    visible_scores = hide(scores, mask, -INF)
    weights = softmax(visible_scores, -1)
    means = weights @ values
    merged_heads = merge_heads(means)
    return linear(merged_heads, o_weight, o_bias)


def cross_variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    x, memory, mask = inputs if len(inputs) == 3 else (*inputs, None)
    return attend(x, memory, mask, weights, build[1], slips)


def attend(
    x: Tensor, memory: Tensor, mask: Tensor | None, weights: Weights, n_heads: int, slips: frozenset[str]
) -> Tensor:
    """Cross-attention with mistakes switched on."""
    of = {"q": x, "k": memory, "v": memory}
    if "own_memory" in slips:
        of = dict.fromkeys("qkv", x)
    elif "memory_asks" in slips:
        of = {"q": memory, "k": x, "v": x}
    elif "memory_alone" in slips:
        of = dict.fromkeys("qkv", memory)
    elif "keys_from_x" in slips:
        of["k"] = x
    elif "values_from_x" in slips:
        of["v"] = x
    by = {"q": "q", "k": "k", "v": "v"}
    if "shared_qk" in slips:
        by["k"] = "q"
    elif "shared_kv" in slips:
        by["v"] = "k"
    elif "shared_vk" in slips:
        by["k"] = "v"
    elif "shared_qkv" in slips:
        by = dict.fromkeys("qkv", next((r for r in "qkv" if f"{r}_weight" in weights), "o"))
    q, k, v = (split_heads(project(of[r], weights, by[r]), n_heads, slips) for r in "qkv")
    scores = q @ k.mT
    if "unscaled" not in slips:
        d_head = q.size(-1)
        size = {"by_d_head": d_head**2, "by_d_model": d_head * n_heads}
        scores = scores / math.sqrt(next((n for key, n in size.items() if key in slips), d_head))
    over = -2 if "columns" in slips else -1
    mask = None if "mask_ignored" in slips else mask
    if "causal_memory" in slips:
        past = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        mask = past if mask is None else mask & past
    if mask is None:
        attention = scores.softmax(over)
    elif "mask_after" in slips:
        attention = scores.softmax(over) * mask
    else:
        keep = ~mask if "mask_inverted" in slips else mask.mT if "mask_on_queries" in slips else mask
        attention = scores.masked_fill(~keep, 0.0 if "filled_with_0" in slips else -math.inf).softmax(over)
    heads = attention @ v
    if "no_transpose" in slips or "view_merge" in slips:
        merged = heads.flatten(-2) if "no_transpose" in slips else heads.reshape(of["q"].shape)
    else:
        merged = heads.transpose(1, 2).flatten(-2)
    out = merged if "no_output" in slips else project(merged, weights, "o")
    return out + x if "residual" in slips else out


def project(x: Tensor, weights: Weights, role: str) -> Tensor:
    return x @ weights[f"{role}_weight"].T + weights.get(f"{role}_bias", 0.0)


def split_heads(x: Tensor, n_heads: int, slips: frozenset[str] = frozenset()) -> Tensor:
    if "view_split" in slips:
        return x.reshape(x.size(0), n_heads, x.size(1), -1)
    if "no_transpose" in slips:
        return x.unflatten(-1, (n_heads, -1))
    if "interleaved" in slips:
        return x.unflatten(-1, (-1, n_heads)).permute(0, 3, 1, 2)
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


# What can be wrong with the source of queries, keys and values; in the block too.
SOURCES = (
    mistake(
        "cross_attention.own_memory",
        "Change the memory and see whether the result moves. Which two maps should read it?",
        "source",
    ),
    mistake(
        "cross_attention.memory_asks",
        "How many rows should the result have? Whose question is it?",
        "source",
    ),
)

CROSS_MISTAKES = (
    known("unregistered"),
    known("overwritten"),
    *SOURCES,
    mistake(
        "cross_attention.memory_alone",
        "Which of the three should know what is being written?",
        "source",
    ),
    mistake(
        "cross_attention.keys_from_x",
        "The weights say which *source* token to read. Whose keys must they have been compared with?",
        "source",
    ),
    mistake(
        "cross_attention.values_from_x",
        "What should a written token bring home from the source?",
        "source",
    ),
    mistake(
        "cross_attention.causal_memory",
        "Which mask does the task hand you, and which do you apply?",
        "causal",
        costs=("values",),
    ),
    known("view_split", "values"),
    known("no_transpose", "values"),
    known("view_transposed"),
    known("residual", "values"),
    known("view_merge", "values"),
    known("interleaved", "values"),
    known("no_output", "values"),
    known("shared_qkv", "values"),
    mistake(
        "cross_attention.shared_kv",
        "How many different maps does the task list?",
        "project",
        also=("shared_vk",),
        costs=("values",),
    ),
    mistake(
        "cross_attention.shared_qk",
        "Which map makes the keys?",
        "project",
        costs=("values",),
    ),
    known("unscaled", "values"),
    known("by_d_head", "values"),
    known("by_d_model", "values"),
    known("columns", "values"),
    known("mask_ignored", "mask"),
    known("mask_after", "mask"),
    known("filled_with_0", "mask"),
    known("mask_inverted", "mask"),
    known("mask_on_queries", "mask"),
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
        Criterion("manners", "all layers registered, inputs stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=CROSS_MISTAKES,
    cases=cross_cases,
    axes=CROSS_AXES,
    drawn=drawn_cross,
    reference=right_cross,
    variation=cross_variation,
    steps=cross_steps,
    mappings=multi_head.mappings,
    roles=multi_head.roles,
    needs=frozenset({"q_weight", "k_weight", "v_weight", "o_weight"}),
    forbidden=FORBIDDEN,
    forbidden_reason="The task is to write cross-attention yourself, around the attention function that is given.",
)


# --- DecoderBlock ------------------------------------------------------------------------------------------------


def block_cases(rng: np.random.Generator) -> list[Case]:
    """No mask, a causal mask, a mask of the source, both; last with equal lengths, where the masks can be mixed up."""
    visible = np.random.default_rng(62)

    def case(tag: str, sizes: tuple[int, ...], source: np.random.Generator, masks: str = "", **kwargs: Any) -> Case:
        batch, tokens, source_tokens, d_head, n_heads = map(int, sizes)
        d_model = n_heads * d_head
        x, memory = (source.normal(size=(batch, n, d_model)) for n in (tokens, source_tokens))
        mask = causal(tokens) if "causal" in masks else None
        memory_mask = padding(source, batch, source_tokens) if "padding" in masks else None
        inputs = (x, memory, mask, memory_mask)
        label = f"batch {batch}, {tokens} tokens, {source_tokens} source tokens, d_model {d_model}, {n_heads} heads"
        label += ", no mask" if not masks else f", {masks} mask" + ("s" if "and" in masks else "")
        return Case(tag, label, inputs, (d_model, n_heads, d_model + 1 + batch), **kwargs)

    def sizes(equal: bool = False) -> tuple[int, ...]:
        batch, n_heads = map(int, rng.permutation([2, 3]))
        tokens, source_tokens = map(int, rng.choice([4, 5, 7], size=2, replace=False))
        return batch, tokens, tokens if equal else source_tokens, 3 if n_heads == 2 else 2, n_heads

    return [
        case("values", (2, 4, 5, 2, 3), visible, visible=True, differentiate=True),
        case("values", sizes(), rng, differentiate=True),
        case("values", (1, 1, 4, 3, 2), rng),
        case("mask", (2, 4, 5, 2, 3), visible, "causal", visible=True, differentiate=True),
        case("mask", sizes(), rng, "causal"),
        case("memory_mask", (2, 4, 5, 2, 3), visible, "padding", visible=True),
        case("memory_mask", sizes(), rng, "causal and padding", differentiate=True),
        case("memory_mask", sizes(equal=True), rng, "causal and padding"),
        case("manners", (3, 2, 5, 4, 2), rng, "causal and padding", dtype="float32"),
    ]


BLOCK_AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=40),
    Axis("source_tokens", long=40),
    *multi_head.HEADS,
    Axis("d_ff", least=5, most=17, build=True),
    Choice("mask", (None, "causal")),
    Choice("memory_mask", (None, "padding")),
    Only(lambda sizes: sizes["d_model"] > 1 and sizes["d_ff"] % sizes["d_model"] != 0),
)


def drawn_block(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, source_tokens, n_heads, _, d_model, d_ff, mask, memory_mask = sizes.values()
    x, memory = (rng.normal(size=(batch, n, d_model)) for n in (tokens, source_tokens))
    hidden = multi_head.with_heads(masked(memory_mask, batch, 1, source_tokens, rng)) if memory_mask else None
    tag = "memory_mask" if memory_mask else "mask" if mask else "values"
    return Case(tag, "", (x, memory, causal(tokens) if mask else None, hidden), (d_model, n_heads, d_ff))


def block_mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The student's layers as two attentions, three norms and a feed-forward network, by kind, name and order."""
    d_model, n_heads, _ = build
    found = reading.units(parameters, d_model, n_heads)
    attentions, norms = (reading.of_kind(found, kind) for kind in ("attention", "norm"))
    networks = reading.of_kind(found, "feed_forward")
    for roles in itertools.product(
        reading.orders(attentions, ("self_attention", "cross_attention")),
        reading.orders(norms, ("norm_1", "norm_2", "norm_3")),
        reading.orders(networks, ("feed_forward",)),
    ):
        yield reading.named({role: unit for order in roles for role, unit in order.items()})


def right_block(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.DecoderBlock, build), weights, inputs)[0]


def block_variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """A decoder block with mistakes switched on."""
    x, memory, mask, memory_mask = inputs
    n_heads = build[1]

    def norm(place: int, t: Tensor) -> Tensor:
        if "no_norm" in slips or f"no_norm_{place}" in slips:
            return t
        place = 1 if "shared_norm" in slips else place
        gamma, beta = (weights[f"norm_{place}.{part}"] for part in ("gamma", "beta"))
        return torch.nn.functional.layer_norm(t, t.shape[-1:], gamma, beta)

    def maps(name: str) -> Weights:
        name = "self_attention" if "shared_attention" in slips else name
        return {f"{r}_{p}": t for r in "qkvo" for p in BOTH if (t := weights.get(f"{name}.w_{r}.{p}")) is not None}

    def self_attention(read: Tensor) -> Tensor:
        own = memory_mask if slips & {"masks_exchanged", "memory_mask_on_both"} else mask
        if "masks_joined" in slips and None not in (mask, memory_mask):
            own = mask & memory_mask
        if "always_causal" in slips:
            own = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
        own = None if "no_causal_mask" in slips else own
        return attend(read, read, own, maps("self_attention"), n_heads, frozenset())

    def cross_attention(read: Tensor) -> Tensor:
        known, hidden = memory, memory_mask
        if "own_memory" in slips:
            known = read
        elif "own_stream" in slips:
            known = stream
        elif "memory_normed" in slips:
            known = norm(2, memory)
        if slips & {"masks_exchanged", "causal_memory"}:
            hidden = mask
        elif "causal_memory_too" in slips and mask is not None:
            hidden = mask if hidden is None else mask & hidden
        hidden = None if "memory_mask_ignored" in slips else hidden
        inner = slips & {"memory_asks", "keys_from_x", "values_from_x", "no_output", "mask_inverted", "mask_on_queries"}
        return attend(read, known, hidden, maps("cross_attention"), n_heads, inner)

    def feed_forward(read: Tensor) -> Tensor:
        inside = torch.nn.functional.gelu(_linear(read, weights, "feed_forward.expand"))
        return _linear(inside, weights, "feed_forward.shrink")

    branches = [(1, self_attention), (2, cross_attention), (3, feed_forward)]
    left_out = {1: "no_self_attention", 2: "no_cross_attention", 3: "no_feed_forward"}
    branches = [branch for branch in branches if not slips & {left_out[branch[0]], f"{left_out[branch[0]]}_renamed"}]
    if slips & {"cross_first", "cross_first_renamed"}:
        branches = sorted(branches, key=lambda branch: (2, 1, 3).index(branch[0]))
    elif slips & {"feed_forward_first", "feed_forward_first_renamed"}:
        branches = sorted(branches, key=lambda branch: (1, 3, 2).index(branch[0]))
    if any(key.endswith("_renamed") for key in slips):  # the norms are counted as they are used
        branches = [(place, branch) for place, (_, branch) in enumerate(branches, start=1)]
    stream = x
    for place, branch in branches:
        if "post_norm" in slips:
            stream = norm(place, stream + branch(stream))
            continue
        read = norm(place, stream)
        wrote = branch(read)
        if slips & {"no_residual", f"no_residual_{place}"}:
            stream = wrote
        elif slips & {"residual_of_norm", f"residual_of_norm_{place}"}:
            stream = read + wrote
        else:
            stream = stream + wrote
    return stream


BOTH = ("weight", "bias")


def _linear(x: Tensor, weights: Weights, name: str) -> Tensor:
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)


BLOCK_MISTAKES = (
    known("unregistered"),
    mistake(
        "multi_head_self_attention.overwritten",
        "`x += …` writes into the tensor that you were given. What makes a new one?",
        sign=lambda seen: seen.input_changed,
        costs=("manners",),
    ),
    replace(SOURCES[0], also=("own_stream",)),
    SOURCES[1],
    mistake(
        "decoder_block.no_cross_attention",
        "Count the branches of the task's table, and those of your `forward`.",
        "branch_2",
        also=("no_cross_attention_renamed",),
        costs=("values", "memory_mask"),
    ),
    mistake(
        "decoder_block.no_self_attention",
        "Count the branches of the task's table, and those of your `forward`.",
        "branch_1",
        also=("no_self_attention_renamed",),
        costs=("values", "mask"),
    ),
    mistake(
        "decoder_block.no_feed_forward",
        "Count the branches of the task's table, and those of your `forward`.",
        "branch_3",
        costs=("values",),
    ),
    mistake(
        "decoder_block.cross_first",
        "Read the task's table from top to bottom.",
        "order",
        also=("cross_first_renamed",),
        costs=("values",),
    ),
    mistake(
        "decoder_block.feed_forward_first",
        "Read the task's table from top to bottom.",
        "order",
        also=("feed_forward_first_renamed",),
        costs=("values",),
    ),
    mistake(
        "decoder_block.no_causal_mask",
        "Follow `mask` from the signature to the branch that it belongs to.",
        "mask",
        costs=("mask",),
    ),
    mistake(
        "decoder_block.always_causal",
        "Where does the mask come from?",
        "mask",
        costs=("values",),
    ),
    mistake(
        "decoder_block.memory_mask_ignored",
        "Follow `memory_mask` from the signature to the branch that it belongs to.",
        "memory_mask",
        costs=("memory_mask",),
    ),
    mistake(
        "decoder_block.masks_exchanged",
        "One mask counts source tokens, the other target tokens. Which attention has which for keys?",
        "masks",
        costs=("mask", "memory_mask"),
    ),
    mistake(
        "decoder_block.causal_memory",
        "Which mask do you pass to the cross-attention?",
        "memory_mask",
        also=("causal_memory_too",),
        costs=("mask", "memory_mask"),
    ),
    mistake(
        "decoder_block.memory_mask_on_both",
        "Which mask do you pass to the self-attention?",
        "mask",
        also=("masks_joined",),
        costs=("mask", "memory_mask"),
    ),
    mistake(
        "decoder_block.memory_normed",
        "What does the table say that the cross-attention reads beside the normalised x?",
        "memory",
        costs=("values",),
    ),
    mistake(
        "decoder_block.no_residual",
        "What does each row of the task's table do with the x that it started from?",
        "stream",
        costs=("values",),
    ),
    mistake(
        "decoder_block.no_residual_1",
        "Compare the three lines with each other.",
        "stream_1",
        costs=("values",),
    ),
    mistake(
        "decoder_block.no_residual_2",
        "Compare the three lines with each other.",
        "stream_2",
        costs=("values",),
    ),
    mistake(
        "decoder_block.no_residual_3",
        "Compare the three lines with each other.",
        "stream_3",
        costs=("values",),
    ),
    mistake(
        "decoder_block.residual_of_norm",
        "What exactly stands on the left of each plus?",
        "stream",
        also=("residual_of_norm_1", "residual_of_norm_2", "residual_of_norm_3"),
        costs=("values",),
    ),
    mistake(
        "decoder_block.post_norm",
        "Look at what the norm is given in each row of the task's table.",
        "norm",
        costs=("values",),
    ),
    mistake(
        "decoder_block.no_norm",
        "Look at what each branch is given in the task's table.",
        "norm",
        also=("no_norm_1", "no_norm_2", "no_norm_3"),
        costs=("values",),
    ),
    mistake(
        "decoder_block.shared_norm",
        "How many norms does the task list?",
        "norm",
        costs=("values",),
    ),
    mistake(
        "decoder_block.shared_attention",
        "How many attentions does the task list?",
        "shared",
        costs=("values",),
    ),
    known("no_output", "values"),
    known("mask_inverted", "memory_mask"),
    known("mask_on_queries", "memory_mask"),
)

DECODER_BLOCK = Exercise(
    name="DecoderBlock",
    returns="a tensor of the shape of x, (batch, tokens, d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "three branches in their order, each added to what it started from", 0.4),
        Criterion("mask", "the mask hides target tokens from the self-attention", 0.15),
        Criterion("memory_mask", "the memory mask hides source tokens from the cross-attention", 0.15),
        Criterion("gradients", "gradients reach x, the memory and all layers", 0.1),
        Criterion("manners", "all layers registered, inputs stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=BLOCK_MISTAKES,
    cases=block_cases,
    axes=BLOCK_AXES,
    drawn=drawn_block,
    reference=right_block,
    variation=block_variation,
    mappings=block_mappings,
    roles=lambda build: reading.roles_of(reading.empty(reference.DecoderBlock, build), build[1]),
    needs=frozenset(
        f"{layer}.{part}"
        for layer, parts in {
            "self_attention": ("w_q.weight", "w_k.weight", "w_v.weight", "w_o.weight"),
            "cross_attention": ("w_q.weight", "w_k.weight", "w_v.weight", "w_o.weight"),
            "norm_1": ("gamma", "beta"),
            "norm_2": ("gamma", "beta"),
            "norm_3": ("gamma", "beta"),
            "feed_forward": ("expand.weight", "shrink.weight"),
        }.items()
        for part in parts
    ),
    forbidden=FORBIDDEN,
    forbidden_reason="The task is to build the block from the layers that are given and from your CrossAttention.",
)
