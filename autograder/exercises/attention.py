"""Queries, keys and values; their scores; attention with a mask (lab 1)."""

import math
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes
from autograder.diagnosis.vocabulary import INF, Mask, hide, size, softmax, transpose
from autograder.exercise import Case, Criterion, Exercise, Inputs, Property, Weights
from headroom import reference
from headroom.mistakes import mistake

# --- Projecting --------------------------------------------------------------------------------------------------


def projection_cases(rng: np.random.Generator) -> list[Case]:
    """Sizes all different, so that no axis can stand in for another; then all widths equal, where everything fits."""

    def case(tag: str, sizes: tuple[int, ...], source: np.random.Generator, **kwargs: Any) -> Case:
        batch, tokens, d_model, d_k, d_v = map(int, sizes)
        shapes = ((batch, tokens, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v))
        inputs = tuple(source.normal(0.0, 1.0 if i == 0 else d_model**-0.5, shape) for i, shape in enumerate(shapes))
        label = f"batch {batch}, tokens {tokens}, d_model {d_model}, d_k {d_k}, d_v {d_v}"
        return Case(tag, label, inputs, differentiate=True, **kwargs)

    visible = np.random.default_rng(10)
    width = int(rng.choice([5, 6, 7]))
    return [
        case("values", (2, 5, 6, 4, 3), visible, visible=True),
        case("values", tuple(rng.permutation([2, 3, 4, 5, 6])), rng),
        case("values", tuple(rng.permutation([2, 3, 4, 5, 7])), rng),
        case("sizes", (2, 3, 4, 4, 4), visible, visible=True),
        case("sizes", (3, 2, width, width, width), rng),
        case("sizes", (1, 1, 3, 1, 2), rng),
        case("manners", (2, 3, 6, 5, 4), rng, dtype="float32"),
    ]


PROJECTION_AXES = (
    Axis("batch", most=4),
    Axis("tokens", long=70),
    Axis("d_model"),
    Axis("d_k", most=5),
    Axis("d_v", most=5),
)


def drawn_projections(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, d_k, d_v = sizes.values()
    shapes = ((batch, tokens, d_model), (d_model, d_k), (d_model, d_k), (d_model, d_v))
    return Case("sizes", "", tuple(rng.normal(size=shape) for shape in shapes))


def projections(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, ...]:
    x, w_q, w_k, w_v = inputs
    return x @ w_q, x @ w_k, x @ w_v


def projection_steps(
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


def projections_with(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> tuple[Tensor, ...]:
    """The three projections with mistakes switched on."""
    x, w_q, w_k, w_v = inputs
    if "detached" in slips:
        x, w_q, w_k, w_v = (tensor.detach() for tensor in inputs)
    if "shared_qkv" in slips:
        w_k = w_v = w_q
    elif "shared_qk" in slips:
        w_k = w_q
    elif "k_for_v" in slips:
        w_v = w_k
    elif "q_for_v" in slips:
        w_v = w_q

    def project(x: Tensor, w: Tensor) -> Tensor:
        if "w_transposed" in slips:
            return x @ w.T
        if "w_left" in slips:
            return w @ x
        if "w_left_transposed" in slips:
            return w.T @ x
        return x @ w

    q = project(x, w_q)
    k = project(q if "chained" in slips else x, w_k)
    v = x if "x_for_v" in slips else project(k if "chained" in slips else x, w_v)
    if "scaled_q" in slips:
        q = q / math.sqrt(q.size(-1))
    if "exchanged_qk" in slips:
        return k, q, v
    return (q, v, k) if "exchanged_kv" in slips else (q, k, v)


def projection_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    x, *maps = case.inputs
    return tuple((*x.shape[:-1], w.shape[-1]) for w in maps)


DETACHED = mistake(
    "project_qkv.detached",
    "Look for `detach`, `no_grad`, `.data`, `.item()`, `.numpy()` or a new tensor made of the numbers of an old one.",
    "gradient",
    costs=("gradients",),
)
OVERWRITTEN = mistake(
    "project_qkv.overwritten",
    "Look for `/=`, `*=`, `+=` or a method whose name ends in an underscore.",
    sign=lambda seen: seen.input_changed,
    costs=("manners",),
)

PROJECT_QKV = Exercise(
    name="project_qkv",
    returns="three tensors: q and k of shape (batch, tokens, d_k), v of shape (batch, tokens, d_v)",
    parts=("q", "k", "v"),
    shape=projection_shapes,
    criteria=(
        Criterion("shape", "runs, and q, k and v have their shapes", 0.1),
        Criterion("values", "each token projected by three maps, returned as q, k, v", 0.5),
        Criterion("sizes", "d_k = d_v = d_model too, and a single token", 0.2),
        Criterion("gradients", "gradients reach x and all three maps", 0.1),
        Criterion("manners", "x and the maps stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=(
        OVERWRITTEN,
        mistake(
            "project_qkv.w_transposed",
            "Compare the shape of a map as the task gives it with that of `nn.Linear`'s weight.",
            "map",
        ),
        mistake(
            "project_qkv.w_left",
            "Write down both shapes in the order of your product. Which two sizes meet in the middle?",
            "map",
            also=("w_left_transposed",),
        ),
        mistake(
            "project_qkv.shared_qkv",
            "How many different maps does the task list?",
            "source",
        ),
        mistake(
            "project_qkv.shared_qk",
            "Which map makes the keys?",
            "source",
            costs=("values",),
        ),
        mistake(
            "project_qkv.k_for_v",
            "Follow each of the three maps from the signature to its product.",
            "source",
            costs=("values",),
        ),
        mistake(
            "project_qkv.q_for_v",
            "Follow each of the three maps from the signature to its product.",
            "source",
            costs=("values",),
        ),
        mistake(
            "project_qkv.x_for_v",
            "How many features should a value have?",
            "source",
        ),
        mistake(
            "project_qkv.exchanged_qk",
            "Which order does the `return` have, and which order does the task have?",
            "order",
            costs=("values",),
        ),
        mistake(
            "project_qkv.exchanged_kv",
            "Which order does the `return` have, and which order does the task have?",
            "order",
            costs=("values",),
        ),
        mistake(
            "project_qkv.chained",
            "What stands on the left of each of your three products?",
            "input",
        ),
        mistake(
            "project_qkv.scaled_q",
            "Compare your lines with the formulas. Is there a root in them?",
            "scale",
            costs=("values",),
        ),
        DETACHED,
    ),
    cases=projection_cases,
    axes=PROJECTION_AXES,
    drawn=drawn_projections,
    reference=projections,
    variation=projections_with,
    steps=projection_steps,
)

# --- Scores ------------------------------------------------------------------------------------------------------


def _qk(source: np.random.Generator, lead: tuple[int, ...], n_queries: int, n_keys: int, d_k: int, size: float = 1.0):
    """Queries and keys whose scores are of a size at which the softmax is neither flat nor a choice."""
    return source.normal(0.0, size, (*lead, n_queries, d_k)), source.normal(0.0, size, (*lead, n_keys, d_k))


def _words(lead: tuple[int, ...], n_queries: int, n_keys: int, d_k: int) -> str:
    front = {0: "no leading axes", 1: f"batch {lead[0]}" if lead else ""}.get(len(lead), f"leading axes {lead}")
    return f"{front}, {n_queries} queries, {n_keys} keys, d_k {d_k}"


def score_cases(rng: np.random.Generator) -> list[Case]:
    """Sizes all different, d_k no square number; as many queries as keys, where transposed scores fit."""

    def case(
        tag: str,
        sizes: tuple[tuple[int, ...], int, int, int],
        source: np.random.Generator,
        size: float = 1.0,
        **kwargs: Any,
    ) -> Case:
        return Case(tag, _words(*sizes), _qk(source, *sizes, size), **kwargs)

    visible = np.random.default_rng(11)
    batch, n_queries, n_keys, d_k = (int(n) for n in rng.permutation([2, 3, 5, 6]))
    return [
        case("values", ((2,), 3, 5, 7), visible, visible=True, differentiate=True),
        case("values", ((2,), 4, 4, 6), visible, visible=True),
        case("values", ((batch,), n_queries, n_keys, d_k), rng, differentiate=True),
        case("values", ((3,), 4, 4, int(rng.choice([2, 5, 7]))), rng, 60.0),
        case("leading", ((), 3, 4, 5), visible, visible=True),
        case("leading", ((2, 4), 3, 5, 6), rng),
        case("leading", ((2, 3, 1), 4, 5, 7), rng),
        case("leading", ((1,), 1, 1, 3), rng),
        case("manners", ((2,), 3, 4, 5), rng, dtype="float32"),
    ]


SCORE_AXES = (Axis("batch", most=4), Axis("queries", long=70), Axis("keys", long=70), Axis("d_k", most=5))


def drawn_scores(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, queries, keys, d_k = sizes.values()
    return Case("values", "", _qk(rng, (batch,), queries, keys, d_k))


def scaled_scores(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    q, k = inputs
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def score_steps(q: Annotated[Tensor, "n_queries d_k"], k: Annotated[Tensor, "n_keys d_k"], /) -> Tensor:
    """The scaled scores, step by step."""
    d_k = size(q, -1)
    products = q @ transpose(k, -2, -1)
    scores = products / d_k**0.5
    return scores


def scores_with(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """The scaled scores with mistakes switched on."""
    q, k = inputs
    if "detached" in slips:
        q, k = q.detach(), k.detach()
    d_k = q.size(-1)
    if "queries_twice" in slips:
        k = q
    elif "keys_twice" in slips:
        q = k
    if "transposed" in slips:
        q, k = k, q
    if "no_transpose" in slips:
        scores = q @ k
    elif "viewed" in slips:
        scores = q @ k.reshape(*k.shape[:-2], k.size(-1), k.size(-2))
    elif "fixed_axes" in slips:
        scores = q @ k.transpose(1, 2)
    elif "reversed_axes" in slips:
        scores = q @ k.permute(*reversed(range(k.dim())))
    else:
        scores = q @ k.mT
    divisors = {
        "unscaled": lambda: 1.0,
        "scaled_after": lambda: 1.0,
        "by_d_k": lambda: d_k,
        "multiplied": lambda: 1 / math.sqrt(d_k),
        "floored_root": lambda: math.isqrt(d_k),
        "by_n_keys": lambda: math.sqrt(inputs[1].size(-2)),
        "by_n_queries": lambda: math.sqrt(inputs[0].size(-2)),
        "by_axis_1": lambda: math.sqrt(inputs[0].size(1)),
    }
    scores = scores / next((divisor() for key, divisor in divisors.items() if key in slips), math.sqrt(d_k))
    return scores.softmax(-1) if "softmax_too" in slips else scores


OF_SCORES = (
    OVERWRITTEN,
    mistake(
        "attention_scores.unscaled",
        "Look at what happens to q·k before the softmax.",
        "scale",
        costs=("values",),
    ),
    mistake(
        "attention_scores.by_d_k",
        "What is the standard deviation of a dot product of d_k terms?",
        "scale",
        costs=("values",),
    ),
    mistake(
        "attention_scores.floored_root",
        "What does `int(…)` or `//` make of √7?",
        "scale",
        costs=("values",),
    ),
    mistake(
        "attention_scores.by_n_keys",
        "How many terms does one dot product add up? Which axis of q has that many entries?",
        "scale",
        also=("by_n_queries", "by_axis_1"),
        costs=("values",),
    ),
    mistake(
        "attention_scores.multiplied",
        "Should wider queries and keys give larger or smaller scores?",
        "scale",
        costs=("values",),
    ),
    mistake(
        "attention_scores.transposed",
        "Whose row is it: the query's or the key's?",
        "product",
    ),
    mistake(
        "attention_scores.queries_twice",
        "Where in your product does `k` occur?",
        "product",
    ),
    mistake(
        "attention_scores.keys_twice",
        "Where in your product does `q` occur?",
        "product",
    ),
    mistake(
        "attention_scores.no_transpose",
        "Write down both shapes in the order of your product. Which two sizes meet in the middle?",
        "axes",
    ),
    mistake(
        "attention_scores.viewed",
        "Try both on `torch.arange(6).view(2, 3)`. Which of them exchanges rows and columns?",
        "axes",
    ),
    mistake(
        "attention_scores.fixed_axes",
        "Which numbers name the last two axes, however many come before them?",
        "axes",
        costs=("shape", "leading"),
    ),
    mistake(
        "attention_scores.reversed_axes",
        "Print the shape of `k.T` for k of shape (2, 5, 7).",
        "axes",
    ),
    DETACHED,
)

ATTENTION_SCORES = Exercise(
    name="attention_scores",
    returns="a tensor of shape (..., n_queries, n_keys)",
    shape=lambda case: (*case.inputs[0].shape[:-1], case.inputs[1].shape[-2]),
    criteria=(
        Criterion("shape", "runs, and there is one score for each query and key", 0.1),
        Criterion("values", "each query with each key, divided by √d_k", 0.5),
        Criterion("leading", "any number of leading axes", 0.2),
        Criterion("gradients", "gradients reach q and k", 0.1),
        Criterion("manners", "q and k stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=(
        *OF_SCORES,
        mistake(
            "attention_scores.softmax_too",
            "What are the rows of your result, and what should they sum to?",
            "softmax",
        ),
    ),
    cases=score_cases,
    axes=SCORE_AXES,
    drawn=drawn_scores,
    reference=scaled_scores,
    variation=scores_with,
    steps=score_steps,
)

# --- Attention ---------------------------------------------------------------------------------------------------


def attention_cases(rng: np.random.Generator) -> list[Case]:
    """Without a mask, with a causal one, with padding whose numbers would show; scores so large that exp overflows."""

    def case(
        tag: str,
        sizes: tuple[tuple[int, ...], int, int, int],
        d_v: int,
        source: np.random.Generator,
        mask: str = "",
        size: float = 1.0,
        below: float = 0.0,
        **kwargs: Any,
    ) -> Case:
        lead, n_queries, n_keys, _ = sizes
        q, k = _qk(source, *sizes, size)
        if below:  # all scores lie so far below 0
            q[..., 0], k[..., 0] = math.sqrt(sizes[-1]), -below
        v = source.normal(size=(*lead, n_keys, d_v))
        label = f"{_words(*sizes)}, d_v {d_v}" + (f", {mask} mask" if mask else "")
        if not mask:
            return Case(tag, label, (q, k, v), **kwargs)
        if mask == "causal":
            may = np.tril(np.ones((n_queries, n_keys), dtype=bool))
        elif mask == "padding":
            lengths = 1 + source.permutation(n_keys - 1)[: lead[0]]  # 1 … n_keys − 1, all different
            may = np.arange(n_keys) < lengths.reshape(-1, 1, *[1] * len(lead))
            filler = ~may.reshape(lead[0], *[1] * (len(lead) - 1), n_keys, 1)
            k, v = np.where(filler, 12 * k, k), np.where(filler, 40 * v, v)
        else:
            may = source.random((*lead, n_queries, n_keys)) < 0.5
            may |= np.arange(n_keys) == source.integers(n_keys, size=(*lead, n_queries, 1))  # each query has a key
            may &= np.arange(n_keys) != (may.argmax(-1)[..., None] + 1) % n_keys  # and one that it may not see
        return Case(tag, label, (q, k, v, may), **kwargs)

    visible = np.random.default_rng(12)
    batch, n_queries, n_keys, d_k, d_v = (int(n) for n in rng.permutation([2, 3, 4, 5, 6]))
    return [
        case("values", ((2,), 3, 5, 6), 4, visible, visible=True, differentiate=True),
        case("values", ((2,), 4, 4, 5), 3, visible, visible=True),
        case("values", ((batch,), n_queries, n_keys, d_k), d_v, rng, differentiate=True),
        case("leading", ((), 3, 4, 5), 2, visible, visible=True),
        case("leading", ((2, 3), 4, 5, 6), 7, rng),
        case("leading", ((1,), 1, 3, 5), 4, rng),
        case("mask", ((2,), 4, 4, 5), 3, visible, "padding", visible=True),
        case("mask", ((3,), 4, 4, 5), 2, visible, "causal", visible=True, differentiate=True),
        case("mask", ((2, 3), 5, 5, 6), 4, rng, "padding"),
        case("mask", ((2,), 3, 6, 5), 4, rng, "random", differentiate=True),
        case("mask", ((2,), 5, 6, 5), 4, rng, "random", size=9.0, below=600.0),
        case("large", ((2,), 3, 4, 5), 6, rng, size=60.0),
        case("manners", ((2,), 4, 4, 6), 3, rng, "causal", dtype="float32"),
    ]


ATTENTION_AXES = (
    *SCORE_AXES,
    Axis("d_v", most=5),
    Choice("mask", (None, "causal", "padding", "random")),
    Choice("scores", ("ordinary", "of ±10³")),
)


def drawn_attention(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, queries, keys, d_k, d_v, mask, scores = sizes.values()
    q, k = _qk(rng, (batch,), queries, keys, d_k, 1.0 if scores == "ordinary" else 30.0)
    inputs: Inputs = (q, k, rng.normal(size=(batch, keys, d_v)))
    if mask is not None:
        inputs += (masked(mask, batch, queries, keys, rng),)
    tag = "large" if scores != "ordinary" else "mask" if mask else "values"
    return Case(tag, "", inputs, single=scores == "ordinary")


def masked(kind: str, batch: int, queries: int, keys: int, rng: np.random.Generator) -> np.ndarray:
    """A mask in which each query sees a key; of padding, the first text or the last is the longest."""
    if kind == "causal":
        return np.tril(np.ones((queries, keys), dtype=bool))
    if kind == "padding":
        lengths = np.sort(rng.integers(1, keys + 1, batch))[:: int(rng.choice([-1, 1]))]
        return np.arange(keys) < lengths[:, None, None]
    may = rng.random((batch, queries, keys)) < 0.5
    return may | (np.arange(keys) == rng.integers(keys, size=(batch, queries, 1)))


def attention(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, Tensor]:
    return reference.scaled_dot_product_attention(*inputs)


# How a row without any key comes out depends on how a hidden score is written: NaN, a plain mean, or as if all counted.
WRITTEN = {"": -math.inf, "_filled": -1e9, "_added": -1e9}


def attention_steps(
    q: Annotated[Tensor, "n_queries d_k"],
    k: Annotated[Tensor, "n_keys d_k"],
    v: Annotated[Tensor, "n_keys d_v"],
    mask: Mask,
    /,
) -> tuple[Tensor, Tensor]:
    """The attention, step by step."""
    d_k = size(q, -1)
    scores = q @ transpose(k, -2, -1) / d_k**0.5
    visible_scores = hide(scores, mask, -INF)
    weights = softmax(visible_scores, -1)
    output = weights @ v
    return output, weights


def attention_with(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention with mistakes switched on."""
    q, k, v, mask = inputs if len(inputs) == 4 else (*inputs, None)
    if "detached" in slips:
        q, k, v = q.detach(), k.detach(), v.detach()
    d_k = q.size(-1)
    scores = scores_with(build, (q, k), weights, slips)
    if mask is not None:
        scores = _masked(scores, mask, slips)
    axis = {"columns": -2, "over_axis_1": 1, "over_batch": 0, "over_heads": -3}
    axis["over_implicit"] = 0 if scores.dim() == 3 else 1
    over = next((axis[key] for key in axis if key in slips), -1)
    if "no_softmax" in slips:
        attended = scores if mask is None else scores.masked_fill(~mask, 0.0)
    elif "no_maximum" in slips:
        attended = scores.exp() / scores.exp().sum(over, keepdim=True)
    else:
        attended = scores.softmax(over)
    if "mask_after" in slips and mask is not None:
        attended = attended * mask
    if "scaled_after" in slips:
        attended = attended / math.sqrt(d_k)
    source = q if "q_for_v" in slips else k if "k_for_v" in slips else v
    output = attended.mT @ source if "weights_transposed" in slips else attended @ source
    if "weights_out" in slips:
        output = attended
    if "scores_returned" in slips:
        attended = scores
    return (attended, output) if "exchanged" in slips else (output, attended)


def _masked(scores: Tensor, mask: Tensor, slips: frozenset[str]) -> Tensor:
    if slips & {"mask_ignored", "mask_after"}:
        return scores
    if "mask_added" in slips:
        return scores + mask
    if "filled_with_0" in slips:
        return scores.masked_fill(~mask, 0.0)
    if "filled_with_inf" in slips:
        return scores.masked_fill(~mask, math.inf)
    if "own_causal" in slips:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    way = next((way for way in WRITTEN if slips & {f"mask_inverted{way}", f"mask_on_queries{way}"}), "")
    if f"mask_inverted{way}" in slips:
        mask = ~mask
    elif f"mask_on_queries{way}" in slips:
        mask = mask.mT
    return scores + WRITTEN[way] * ~mask if way == "_added" else scores.masked_fill(~mask, WRITTEN[way])


def attention_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    q, k, v = case.inputs[:3]
    return (*q.shape[:-1], v.shape[-1]), (*q.shape[:-1], k.shape[-2])


def attention_stages(build: None, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    output, attended = attention(build, inputs, weights)
    return {"scaled scores": scaled_scores(build, inputs[:2], weights), "weights": attended, "output": output}


def _rows_sum_to_1(case: Case, outputs: tuple[np.ndarray, ...]) -> bool:
    with np.errstate(invalid="ignore"):  # infinite weights of two signs sum to NaN, which is not 1 either
        return bool(np.all(np.abs(outputs[1].sum(-1) - 1) < 1e-4))


def _hidden_keys_weigh_nothing(case: Case, outputs: tuple[np.ndarray, ...]) -> bool | None:
    if len(case.inputs) < 4 or outputs[1].shape != attention_shapes(case)[1]:
        return None
    return bool(np.all(np.abs(outputs[1][~np.broadcast_to(case.inputs[3], outputs[1].shape)]) < 1e-6))


def _output_is_the_mean(case: Case, outputs: tuple[np.ndarray, ...]) -> bool | None:
    if (outputs[0].shape, outputs[1].shape) != attention_shapes(case) or not np.isfinite(outputs[1]).all():
        return None
    means = outputs[1].astype(float) @ case.inputs[2]
    return bool(np.all(np.abs(outputs[0] - means) <= 1e-3 * np.abs(means).max()))


SCALED_DOT_PRODUCT_ATTENTION = Exercise(
    name="scaled_dot_product_attention",
    returns="two tensors: the output, (..., n_queries, d_v), and the weights, (..., n_queries, n_keys)",
    parts=("output", "weights"),
    shape=attention_shapes,
    criteria=(
        Criterion("shape", "runs, and output and weights have their shapes", 0.1),
        Criterion("values", "compare, scale, softmax, mix", 0.3),
        Criterion("leading", "any number of leading axes", 0.1),
        Criterion("mask", "a hidden key gets no weight, and the others share it", 0.2),
        Criterion("large", "large scores do not overflow", 0.1),
        Criterion("gradients", "gradients reach q, k and v", 0.1),
        Criterion("manners", "q, k, v and the mask stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=(
        *OF_SCORES,
        mistake(
            "scaled_dot_product_attention.scaled_after",
            "Sum a row of your weights.",
            "scale",
            costs=("values",),
        ),
        mistake(
            "scaled_dot_product_attention.columns",
            "Which axis of the scores counts the keys?",
            "softmax",
            also=("over_axis_1",),
            costs=("values",),
        ),
        mistake(
            "scaled_dot_product_attention.over_batch",
            "Which axis of the scores counts the keys? Does your softmax name it?",
            "softmax",
            also=("over_heads", "over_implicit"),
            costs=("values",),
        ),
        mistake(
            "scaled_dot_product_attention.no_softmax",
            "What turns scores into weights?",
            "softmax",
        ),
        mistake(
            "scaled_dot_product_attention.no_maximum",
            "Only differences of scores count. What may you take off a whole row before you exponentiate it?",
            "softmax",
            costs=("large",),
        ),
        mistake(
            "scaled_dot_product_attention.weights_transposed",
            "Sum a row of what you multiply the values by.",
            "apply",
            costs=("values",),
        ),
        mistake(
            "scaled_dot_product_attention.weights_out",
            "What do the weights weigh?",
            "apply",
        ),
        mistake(
            "scaled_dot_product_attention.k_for_v",
            "What do the weights multiply?",
            "apply",
            costs=("values",),
        ),
        mistake(
            "scaled_dot_product_attention.q_for_v",
            "What do the weights multiply?",
            "apply",
            costs=("values",),
        ),
        mistake(
            "scaled_dot_product_attention.scores_returned",
            "Sum a row of the second result.",
            "results",
            costs=("values",),
        ),
        mistake(
            "scaled_dot_product_attention.exchanged",
            "Which order does the `return` have?",
            "results",
            costs=("shape",),
        ),
        mistake(
            "scaled_dot_product_attention.mask_ignored",
            "Follow `mask` from the signature to the scores. Is the result of masking assigned?",
            "mask",
            costs=("mask",),
        ),
        mistake(
            "scaled_dot_product_attention.mask_after",
            "Where must a hidden key be hidden, so that the others share its weight?",
            "mask",
            costs=("mask",),
        ),
        mistake(
            "scaled_dot_product_attention.filled_with_0",
            "Which score has the exponential 0?",
            "mask",
            costs=("mask",),
        ),
        mistake(
            "scaled_dot_product_attention.filled_with_inf",
            "Look at the sign of what hidden scores are replaced with.",
            "mask",
            costs=("mask",),
        ),
        mistake(
            "scaled_dot_product_attention.mask_inverted",
            "Which value of the mask does `masked_fill` replace?",
            "mask",
            also=("mask_inverted_filled", "mask_inverted_added"),
            costs=("mask",),
        ),
        mistake(
            "scaled_dot_product_attention.mask_on_queries",
            "Which axis of the scores counts the keys?",
            "mask",
            also=("mask_on_queries_filled", "mask_on_queries_added"),
            costs=("mask",),
        ),
        mistake(
            "scaled_dot_product_attention.mask_added",
            "What must be added to a score, so that its exponential is 0?",
            "mask",
            costs=("mask",),
        ),
        mistake(
            "scaled_dot_product_attention.own_causal",
            "Is the `mask` that was passed in used for anything but the question whether there is one?",
            "mask",
            costs=("mask",),
        ),
    ),
    cases=attention_cases,
    axes=ATTENTION_AXES,
    drawn=drawn_attention,
    reference=attention,
    variation=attention_with,
    steps=attention_steps,
    stages=attention_stages,
    properties=(
        Property("each row of the weights sums to 1", _rows_sum_to_1),
        Property("a hidden key has the weight 0", _hidden_keys_weigh_nothing),
        Property("the output is the mean of the values under the weights", _output_is_the_mean),
    ),
    forbidden=frozenset(
        {
            "scaled_dot_product_attention",
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_attention_math",
            "multi_head_attention_forward",
            "_native_multi_head_attention",
        }
    ),
    forbidden_reason="The task is to write the attention yourself: compare, scale, mask, softmax, mix.",
    tolerance=lambda case, expected: 1e-3 if case.tag == "large" else 1e-5,
)
