"""MultiHeadSelfAttention from scaled dot-product attention (lab 2)."""

import math
from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Choice, Derived, Sizes
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
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Parameter, Weights
from autograder.exercises.attention import masked
from autograder.exercises.scaled_dot_product_attention import SCALED_DOT_PRODUCT_ATTENTION
from headroom import reference
from headroom.mistakes import mistake


def cases(rng: np.random.Generator) -> list[Case]:
    """Sizes all different, so that no axis can stand in for another; masks that matter."""
    visible = np.random.default_rng(2)

    def case(
        tag: str, sizes: tuple[int, ...], source: np.random.Generator, mask: str | None = None, **kwargs: Any
    ) -> Case:
        batch, tokens, d_head, n_heads = map(int, sizes)
        d_model = n_heads * d_head
        x = source.normal(size=(batch, tokens, d_model))
        label = f"batch {batch}, tokens {tokens}, d_model {d_model}, {n_heads} heads"
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
        case("values", sizes(), rng),
        case("values", (1, 1, 4, 2), rng),
        case("values", (2, 40, 3, 2), rng),
        case("one_head", (2, 3, 6, 1), rng),
        case("mask", (2, 5, 4, 3), visible, "padding", visible=True, differentiate=True),
        case("mask", (2, 4, 5, 3), visible, "causal", visible=True),
        case("mask", sizes(), rng, "padding"),
        case("mask", sizes(), rng, "causal", differentiate=True),
        case("manners", (2, 3, 4, 5), rng, "causal", dtype="float32"),
    ]


HEADS = (
    Axis("n_heads", most=4, build=True),
    Axis("d_head", least=2, most=5, build=True),  # of 1, the axes of a matrix of heads say nothing
    Derived("d_model", lambda sizes: sizes["n_heads"] * sizes["d_head"], build=True),
)
AXES = (Axis("batch", most=4), Axis("tokens", long=70), *HEADS, Choice("mask", (None, "causal", "padding")))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, n_heads, _, d_model, mask = sizes.values()
    inputs: Inputs = (rng.normal(size=(batch, tokens, d_model)),)
    if mask is not None:
        inputs += (with_heads(masked(mask, batch, tokens, tokens, rng)),)
    return Case("mask" if mask else "one_head" if n_heads == 1 else "values", "", inputs, (d_model, n_heads))


def with_heads(mask: np.ndarray) -> np.ndarray:
    """A mask with an axis for heads, and one for the batch where it has none: four axes."""
    return mask[:, None] if mask.ndim == 3 else mask[None, None]


# --- Reading a student's parameters ------------------------------------------------------------------------------


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The likeliest way to read the parameters as four maps, `(rows, d_in)` like the weight of nn.Linear.

    By names that say a role, heads side by side, one map for q, k and v cut in three; what has no such name takes
    the roles that are left as it was declared. A raw tensor multiplies from the right.
    """
    grouped: dict[str, list[Tensor]] = {}
    unknown: list[tuple[str, Tensor]] = []
    for name, (_, tensor) in parameters.items():
        kind, role = "bias" if tensor.dim() == 1 else "weight", reading.role_of(name)
        if kind == "weight" and not name.endswith("weight"):
            tensor = tensor.flatten(0, -2).T if tensor.dim() == 3 and role == "o" else tensor.mT.flatten(0, -2)
        several = "qkv" if role in (None, "qkv", "o") else "kv" if role == "kv" else ""
        if several and len(tensor) == len(several) * build[0]:
            for part, piece in zip(several, tensor.chunk(len(several)), strict=True):
                grouped.setdefault(f"{part}_{kind}", []).append(piece)
        elif role in ("q", "k", "v", "o"):
            grouped.setdefault(f"{role}_{kind}", []).append(tensor)
        elif tensor.shape == (build[0],) * (1 + (kind == "weight")):
            unknown.append((kind, tensor))
    nameless = [role for role in "qkvo" if f"{role}_weight" not in grouped]
    for kind in ("weight", "bias"):
        left = [tensor for other, tensor in unknown if other == kind]
        if kind == "weight" or len(left) >= len(nameless):
            grouped |= {f"{role}_{kind}": [tensor] for role, tensor in zip(nameless, left, strict=False)}
    yield {role: torch.cat(pieces) for role, pieces in grouped.items()}


def roles(build: Build) -> reading.Roles:
    """The four maps, as "q_weight", "q_bias" and so on."""
    found = reading.roles_of(reading.empty(reference.MultiHeadSelfAttention, build), build[1])
    return {name.removeprefix("w_").replace(".", "_"): role for name, role in found.items()}


# --- The answer, and the mistakes --------------------------------------------------------------------------------


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    module = reading.empty(reference.MultiHeadSelfAttention, build)
    return reading.call(module, for_reference(weights, build[0]), inputs)


def for_reference(weights: Weights, d_model: int) -> Weights:
    """The four maps by their names in headroom.reference; a bias that the student's does not have is 0."""
    parts = {}
    for role in "qkvo":
        weight = parts[f"w_{role}.weight"] = weights[f"{role}_weight"]
        parts[f"w_{role}.bias"] = weights.get(f"{role}_bias", weight.new_zeros(d_model))
    return parts


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
    queries = split_heads(linear(x, q_weight, q_bias), n_heads)
    keys = split_heads(linear(x, k_weight, k_bias), n_heads)
    values = split_heads(linear(x, v_weight, v_bias), n_heads)
    d_head = size(queries, -1)
    scores = queries @ transpose(keys, -2, -1) / d_head**0.5
    visible_scores = hide(scores, mask, -INF)
    weights = softmax(visible_scores, -1)
    means = weights @ values
    merged_heads = merge_heads(means)
    return linear(merged_heads, o_weight, o_bias)


def variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """Multi-head self-attention with mistakes switched on."""
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    d_model, n_heads = build
    d_head = d_model // n_heads
    if "across_batch" in slips:
        x = x.transpose(0, 1)
    source = {"q": "q", "k": "k", "v": "v"}
    if "shared_qk" in slips:
        source["k"] = "q"
    elif "shared_qkv" in slips:
        source = dict.fromkeys("qkv", next((r for r in "qkv" if f"{r}_weight" in weights), "o"))
    elif "k_for_v" in slips:
        source["v"] = "k"
    elif "q_for_v" in slips:
        source["v"] = "q"
    q, k, v = (_project(x, weights, source[role], n_heads, "sliced" in slips) for role in "qkv")

    def split(t: Tensor) -> Tensor:
        if "view_split" in slips:
            return t.reshape(t.size(0), n_heads, t.size(1), d_head)
        if slips & {"no_transpose", "no_first_transpose"}:
            return t.unflatten(-1, (n_heads, d_head))
        if "interleaved" in slips:
            return t.unflatten(-1, (d_head, n_heads)).permute(0, 3, 1, 2)
        return t.unflatten(-1, (n_heads, d_head)).transpose(1, 2)

    q, k, v = split(q), split(k), split(v)
    scores = k @ q.mT if "transposed" in slips else q @ k.mT
    if not slips & {"unscaled", "scaled_after"}:
        size = {"by_d_head": d_head**2, "by_d_model": d_model, "by_n_heads": n_heads, "multiplied": 1 / d_head}
        scores = scores / math.sqrt(next((n for key, n in size.items() if key in slips), d_head))
    over = -2 if "columns" in slips else -3 if "over_heads" in slips else -1
    if mask is None or "mask_ignored" in slips:
        attention = scores.softmax(over)
    elif "mask_after" in slips:
        attention = scores.softmax(over) * mask
    else:
        keep = ~mask if "mask_inverted" in slips else mask.mT if "mask_on_queries" in slips else mask
        attention = scores.masked_fill(~keep, 0.0 if "filled_with_0" in slips else -math.inf).softmax(over)
    if "no_softmax" in slips:
        attention = scores if mask is None else scores * mask
    if "scaled_after" in slips:
        attention = attention / math.sqrt(d_head)
    heads = attention.mT @ v if "weights_transposed" in slips else attention @ v
    if "weights_out" in slips:
        heads = attention
    if "no_transpose" in slips:
        merged = heads.flatten(-2)
    elif "no_first_transpose" in slips:
        merged = heads.transpose(1, 2).reshape(x.shape)
    elif "averaged" in slips:
        merged = heads.mean(1)
    elif "summed" in slips:
        merged = heads.sum(1)
    elif "view_merge" in slips:
        merged = heads.reshape(x.shape)
    elif "interleaved_merge" in slips:
        merged = heads.permute(0, 2, 3, 1).flatten(-2)
    else:
        merged = heads.transpose(1, 2).flatten(-2)
    out = merged if "no_output" in slips else merged @ weights["o_weight"].T + weights.get("o_bias", 0.0)
    if "residual" in slips:
        out = out + x
    return out.transpose(0, 1) if "across_batch" in slips else out


def stages(build: Build, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    """What every way of writing it passes through."""
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    n_heads = build[1]
    q, k, v = (
        _project(x, weights, role, n_heads, False).unflatten(-1, (n_heads, -1)).transpose(1, 2) for role in "qkv"
    )
    scores = q @ k.mT / math.sqrt(q.size(-1))
    attention = (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(-1)
    names = ("the queries", "the keys", "the values", "the scaled scores", "the weights", "the heads' means")
    return dict(zip(names, (q, k, v, scores, attention, attention @ v), strict=True))


def _project(x: Tensor, weights: Weights, role: str, n_heads: int, sliced: bool) -> Tensor:
    weight, bias = weights[f"{role}_weight"], weights.get(f"{role}_bias", 0.0)
    if sliced:  # each head's map sees only its own slice of the features
        blocks = weight.unflatten(0, (n_heads, -1))  # (heads, d_head, d_head)
        projected = torch.einsum("bthi,hoi->btho", x.unflatten(-1, (n_heads, -1)), blocks)
        return projected.flatten(-2) + bias
    return x @ weight.T + bias


known = SCALED_DOT_PRODUCT_ATTENTION.known  # a mistake of lab 1, with what it costs here


def _unregistered(seen: Evidence) -> bool:
    return not seen.mappable and any(item["kind"] in ("list", "tuple", "dict", "Tensor") for item in seen.loose)


MISTAKES = (
    mistake(
        "multi_head_self_attention.unregistered",
        "Count `list(module.parameters())`. Which container tells the module about the layers that it holds?",
        sign=_unregistered,
    ),
    mistake(
        "multi_head_self_attention.overwritten",
        "Look for `+=`, `*=` or a method whose name ends in an underscore.",
        sign=lambda seen: seen.input_changed,
    ),
    mistake(
        "multi_head_self_attention.view_split",
        "Split the last axis first. Then look at which two axes have to trade places.",
        "split",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.no_transpose",
        "The given attention compares along the last axis but one. Which axis should that be?",
        "split",
        also=("no_first_transpose",),
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.view_transposed",
        "Which method does the same and copies where it must?",
        sign=lambda seen: any("view size is not compatible" in error for error in seen.errors),
    ),
    mistake(
        "multi_head_self_attention.residual",
        "Compare the last line of your `forward` with the task.",
        "residual",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.view_merge",
        "Which axes must lie side by side before you flatten them into d_model?",
        "merge",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.interleaved",
        "Look at the order of heads and d_head when the last axis is split.",
        "split",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.interleaved_merge",
        "Look at the order of the last two axes before you flatten them.",
        "merge",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.no_output",
        "Which of the four maps is left to use after the heads are merged?",
        "output",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.averaged",
        "How wide should the merged token be, before the output projection?",
        "merge",
    ),
    mistake(
        "multi_head_self_attention.summed",
        "How wide should the merged token be, before the output projection?",
        "merge",
    ),
    mistake(
        "multi_head_self_attention.sliced",
        "How many columns does the query map of one head have?",
        "project",
        costs=("values",),
    ),
    mistake(
        "project_qkv.shared_qkv",
        "How many different maps does the task list?",
        "project",
        costs=("values",),
    ),
    mistake(
        "project_qkv.shared_qk",
        "Which map makes the keys?",
        "project",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.k_for_v",
        "What do the weights multiply, and which map made it?",
        "project",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.q_for_v",
        "What do the weights multiply, and which map made it?",
        "project",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.across_batch",
        "Which axis of x is the batch? Which axis should the scores compare?",
        "axes",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.unscaled",
        "Look at what happens to q·k before the softmax.",
        "scale",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.by_d_head",
        "What is the standard deviation of a dot product of d_head terms?",
        "scale",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.by_d_model",
        "How many terms does one score sum?",
        "scale",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.by_n_heads",
        "How many terms does one score sum?",
        "scale",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.multiplied",
        "Should wider heads give larger or smaller scores?",
        "scale",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.scaled_after",
        "Sum a row of your weights.",
        "scale",
        costs=("values",),
    ),
    known("columns", "values"),
    mistake(
        "multi_head_self_attention.over_heads",
        "Which axis of the scores counts the keys?",
        "softmax",
        costs=("values",),
    ),
    known("no_softmax", "values"),
    mistake(
        "attention_scores.transposed",
        "Whose row is it: the query's or the key's?",
        "scores",
        costs=("values",),
    ),
    known("weights_transposed", "values"),
    mistake(
        "multi_head_self_attention.weights_out",
        "The given attention returns two things. Which of them do the heads pass on?",
        "apply",
    ),
    mistake(
        "multi_head_self_attention.mask_ignored",
        "Follow `mask` from the signature to the scores. Is the result of masking assigned?",
        "mask",
        costs=("mask",),
    ),
    known("mask_after", "mask"),
    known("filled_with_0", "mask"),
    known("mask_inverted", "mask"),
    known("mask_on_queries", "mask"),
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
        Criterion("manners", "all layers registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    variation=variation,
    steps=steps,
    stages=stages,
    mappings=mappings,
    roles=roles,
    needs=frozenset({"q_weight", "k_weight", "v_weight", "o_weight"}),
    forbidden=SCALED_DOT_PRODUCT_ATTENTION.forbidden,
    forbidden_reason="The task is to write the heads yourself, around the attention function that is given.",
)
