"""What the exercises with several heads share: sizes, masks, four maps in a student's parameters, mistakes."""

import numpy as np

from autograder import reading
from autograder.covering import Axis, Derived
from autograder.exercise import Build, Evidence, Weights
from autograder.exercises.known import mistake, overwritten
from headroom import reference

HEADS = (
    Axis("n_heads", most=4, long=9, build=True),
    Axis("d_head", least=2, most=5, build=True),  # of 1, the axes of a matrix of heads say nothing
    Derived("d_model", lambda sizes: sizes["n_heads"] * sizes["d_head"], build=True),
)
NEEDS = frozenset({"q_weight", "k_weight", "v_weight", "o_weight"})


def with_heads(mask: np.ndarray) -> np.ndarray:
    """A mask with an axis for heads, and one for the batch where it has none: four axes."""
    return mask[:, None] if mask.ndim == 3 else mask[None, None]


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
        "Count `list(module.parameters())`. What makes a tensor a parameter, and which container knows its layers?",
        sign=_unregistered,
    ),
    overwritten(),
    mistake(
        "multi_head_self_attention.view_split",
        "Split the last axis first. Then look at which two axes have to trade places.",
        change=for_each("{name} = split_by_view(projected_{name}, n_heads)"),
        costs=("values",),
    ),
    mistake(
        "multi_head_self_attention.no_transpose",
        "The attention compares along the last axis but one. Which axis should that be?",
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
        "Which features does head 0 get in your code, and which does the task give it?",
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
        "What does your `forward` use x for, besides its maps?",
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
