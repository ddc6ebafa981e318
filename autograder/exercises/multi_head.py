"""What the exercises with several heads share: sizes, masks, four maps in a student's parameters, mistakes."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Derived
from autograder.exercise import Build, Evidence, Parameter, Weights
from headroom import reference
from headroom.mistakes import mistake

HEADS = (
    Axis("n_heads", most=4, build=True),
    Axis("d_head", least=2, most=5, build=True),  # of 1, the axes of a matrix of heads say nothing
    Derived("d_model", lambda sizes: sizes["n_heads"] * sizes["d_head"], build=True),
)
NEEDS = frozenset({"q_weight", "k_weight", "v_weight", "o_weight"})


def with_heads(mask: np.ndarray) -> np.ndarray:
    """A mask with an axis for heads, and one for the batch where it has none: four axes."""
    return mask[:, None] if mask.ndim == 3 else mask[None, None]


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


def for_reference(weights: Weights, d_model: int) -> Weights:
    """The four maps by their names in headroom.reference; a bias that the student's does not have is 0."""
    parts = {}
    for role in "qkvo":
        weight = parts[f"w_{role}.weight"] = weights[f"{role}_weight"]
        parts[f"w_{role}.bias"] = weights.get(f"{role}_bias", weight.new_zeros(d_model))
    return parts


def for_each(line: str) -> str:
    """A change of queries, keys and values alike."""
    return "\n".join(line.format(name=name, role=name[0]) for name in ("queries", "keys", "values"))


UNTRANSPOSED = for_each("{name} = split_untransposed(projected_{name}, n_heads)") + "\n"


def _unregistered(seen: Evidence) -> bool:
    return not seen.mappable and any(item["kind"] in ("list", "tuple", "dict", "Tensor") for item in seen.loose)


# Mistakes of whatever splits, attends and merges in steps of these names.
OF_HEADS = (
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
        change=for_each("{name} = split_by_view(projected_{name}, n_heads)"),
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.no_transpose",
        "The given attention compares along the last axis but one. Which axis should that be?",
        change=(
            UNTRANSPOSED + "merged_heads = merge_untransposed(means)",
            UNTRANSPOSED + "merged_heads = means.transpose(1, 2).reshape(x.shape)",
        ),
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.view_transposed",
        "Which method does the same and copies where it must?",
        sign=lambda seen: any("view size is not compatible" in error for error in seen.errors),
    ),
    mistake(
        "multi_head_self_attention.view_merge",
        "Which axes must lie side by side before you flatten them into d_model?",
        change="merged_heads = merge_by_reshape(means)",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.interleaved",
        "Look at the order of heads and d_head when the last axis is split.",
        change=for_each("{name} = split_in_turns(projected_{name}, n_heads)"),
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.no_output",
        "Which of the four maps is left to use after the heads are merged?",
        change="output = merged_heads",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.residual",
        "Compare the last line of your `forward` with the task.",
        change="output = x + linear(merged_heads, o_weight, o_bias)",
        costs=("values",),
    ),
    mistake(
        "project_qkv.shared_qkv",
        "How many different maps does the task list?",
        change="projected_keys = projected_queries\nprojected_values = projected_queries",
        costs=("values",),
    ),
    mistake(
        "project_qkv.shared_qk",
        "Which map makes the keys?",
        change="projected_keys = projected_queries",
        costs=("values",),
    ),
    mistake(
        "scaled_dot_product_attention.k_for_v",
        "What do the weights multiply, and which map made it?",
        change="projected_values = linear(x, k_weight, k_bias)",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.unscaled",
        "Look at what happens to q·k before the softmax.",
        change="scores = raw_scores",
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.by_d_model",
        "How many terms does one score sum?",
        change="scores = raw_scores / d_model**0.5",
        costs=("values",),
    ),
)
