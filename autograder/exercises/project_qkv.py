"""Queries, keys and values of tokens (lab 1)."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes, sequence_length
from autograder.exercise import Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises.attention import OVERWRITTEN, detached
from autograder.exercises.known import mistake


def cases(rng: np.random.Generator) -> list[Case]:
    """Sizes all different, so that no axis can stand in for another; then all widths equal, where everything fits."""

    def case(tag: str, sizes: tuple[int, ...], source: np.random.Generator, **kwargs: Any) -> Case:
        batch, tokens, d_model, d_k, d_v = map(int, sizes)
        shapes = ((batch, tokens, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v))
        inputs = tuple(source.normal(0.0, 1.0 if i == 0 else d_model**-0.5, shape) for i, shape in enumerate(shapes))
        label = f"batch {batch}, tokens {tokens}, d_model {d_model}, d_k {d_k}, d_v {d_v}"
        return Case(tag, label, inputs, differentiate=True, **kwargs)

    visible = np.random.default_rng(10)
    *others, d_k, d_v = map(int, rng.permutation([2, 3, 4, 5, 6]))
    return [
        case("values", (2, 5, 6, 4, 3), visible, visible=True),
        case("values", (*others, min(d_k, d_v), max(d_k, d_v)), rng),  # d_k is the larger one above
        case("sizes", (2, 3, 4, 4, 4), visible, visible=True),
        case("contract", (2, 3, 6, 5, 4), rng, dtype="float32"),
    ]


AXES = (Axis("batch", most=4), sequence_length("tokens"), Axis("d_model"), Axis("d_k", most=5), Axis("d_v", most=5))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, d_k, d_v = sizes.values()
    shapes = ((batch, tokens, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v))
    return Case("sizes", "", tuple(rng.normal(size=shape) for shape in shapes))


def right_answer(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, ...]:
    x, w_q, w_k, w_v = inputs
    return x @ w_q, x @ w_k, x @ w_v


def steps(
    x: Annotated[Tensor, "batch tokens d_model"],
    w_q: Annotated[Tensor, "d_model d_k"],
    w_k: Annotated[Tensor, "d_model d_k"],
    w_v: Annotated[Tensor, "d_model d_v"],
    /,
) -> tuple[Tensor, Tensor, Tensor]:
    """The three projections, step by step."""
    q = x @ w_q
    k = x @ w_k
    v = x @ w_v
    return q, k, v


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    x, *maps = case.inputs
    return tuple((*x.shape[:-1], w.shape[-1]) for w in maps)


MISTAKES = (
    OVERWRITTEN,
    mistake(
        "project_qkv.w_transposed",
        "Compare the shape of a map as the task gives it with that of `nn.Linear`'s weight.",
        change="q = x @ w_q.T\nk = x @ w_k.T\nv = x @ w_v.T",
    ),
    mistake(
        "project_qkv.w_left",
        "Write down both shapes in the order of your product. Which two sizes meet in the middle?",
        change=(
            "q = w_q @ x\nk = w_k @ x\nv = w_v @ x",
            "q = w_q.T @ x\nk = w_k.T @ x\nv = w_v.T @ x",
        ),
    ),
    mistake(
        "project_qkv.shared_qkv",
        "How many different maps does the task list?",
        change="k = x @ w_q\nv = x @ w_q",
    ),
    mistake(
        "project_qkv.shared_qk",
        "Which map makes the keys?",
        change="k = x @ w_q",
        costs=("values",),
    ),
    mistake(
        "project_qkv.k_for_v",
        "Follow each of the three maps from the signature to its product.",
        change="v = x @ w_k",
        costs=("values",),
    ),
    mistake(
        "project_qkv.q_for_v",
        "Follow each of the three maps from the signature to its product.",
        change="v = x @ w_q",
        costs=("values",),
    ),
    mistake(
        "project_qkv.x_for_v",
        "How many features should a value have?",
        change="v = x",
    ),
    mistake(
        "project_qkv.exchanged_qk",
        "Which map makes the first of your results, and which should?",
        change="return k, q, v",
        costs=("values",),
    ),
    mistake(
        "project_qkv.exchanged_kv",
        "Which map makes the second of your results, and which should?",
        change="return q, v, k",
        costs=("values",),
    ),
    mistake(
        "project_qkv.chained",
        "What stands on the left of each of your three products?",
        change="k = q @ w_k\nv = k @ w_v",
    ),
    mistake(
        "project_qkv.scaled_q",
        "Compare your lines with the formulas. Is there a root in them?",
        change="q = x @ w_q / d_k**0.5",
        costs=("values",),
    ),
    detached("return q.detach(), k.detach(), v.detach()"),
)

PROJECT_QKV = Exercise(
    name="project_qkv",
    returns="three tensors: q and k of shape (batch, tokens, d_k), v of shape (batch, tokens, d_v)",
    parts=("q", "k", "v"),
    shape=shapes,
    criteria=(
        Criterion("shape", "runs, and q, k and v have their shapes", 0.1),
        Criterion("values", "each token projected by three maps, returned as q, k, v", 0.5),
        Criterion("sizes", "d_k = d_v = d_model too, and a single token", 0.2),
        Criterion("gradients", "gradients reach x and all three maps", 0.1),
        Criterion("contract", "x and the maps stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
)
