"""Softmax, LayerNorm and attention backwards, in NumPy (lab 9)."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes
from autograder.diagnosis.vocabulary import mean, size, square, total, transpose
from autograder.exercise import Case, Criterion, Exercise, Property, in_numpy
from headroom.mistakes import mistake
from headroom.reference import by_hand

# What others have that does the differentiating, or the layer backwards, by what runs.
AUTOGRAD = frozenset(
    {
        "backward",
        "grad",
        "_softmax_backward_data",
        "native_layer_norm_backward",
        "softmax",
        "_softmax",
        "layer_norm",
        "native_layer_norm",
        "scaled_dot_product_attention",
    }
)
AUTOGRAD_REASON = "The task is to write the derivative out yourself, in NumPy."

OVERWRITTEN = mistake(
    "softmax_backward.overwritten",
    "Look for `-=`, `*=`, `/=`, `out=`, or values assigned to a part of an argument.",
    sign=lambda seen: seen.input_changed,
    costs=("manners",),
)


LEADING = (Axis("batch", most=4), Axis("tokens", long=70))  # whatever stands before the last axis


def _shares(rng: np.random.Generator, shape: tuple[int, ...], hidden: bool = False, size: float = 1.0) -> np.ndarray:
    """Rows of weights, as a softmax gives them; `hidden`: some keys of each row have none, but never all."""
    scores = size * rng.normal(size=shape)
    if hidden:
        scores[_hidden_keys(rng, shape)] = -np.inf
    return by_hand.softmax(scores)


def _hidden_keys(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One to all but one of the keys of each row, from the end, as valid lengths hide them."""
    return np.arange(shape[-1]) >= rng.integers(1, shape[-1], size=(*shape[:-1], 1))


def _sums_to_0(rows: np.ndarray) -> bool:
    with np.errstate(invalid="ignore"):  # infinities of two signs sum to NaN, which is not 0 either
        return bool(np.all(np.abs(rows.sum(-1)) <= 1e-4 * max(1e-3, float(np.abs(rows).max()))))


# --- The softmax -------------------------------------------------------------------------------------------------


def softmax_cases(rng: np.random.Generator) -> list[Case]:
    """A row alone, several axes in front, hidden keys, and rows that have nearly made up their mind."""

    def case(
        tag: str,
        shape: tuple[int, ...],
        source: np.random.Generator,
        hidden: bool = False,
        size: float = 1.0,
        **kwargs: Any,
    ) -> Case:
        weights = _shares(source, shape, hidden, size)
        d_weights = source.normal(1.5, 2.0, shape)  # away from 0: what is added to all of a row must drop out
        said = "some keys hidden, " if hidden else "weights near 0 and 1, " if size > 1 else ""
        return Case(tag, f"{said}shape {shape}", (d_weights, weights), **kwargs)

    visible = np.random.default_rng(20)
    batch, queries, keys = (int(n) for n in rng.permutation([2, 3, 4, 5, 6])[:3])
    return [
        case("leading", (4,), visible, visible=True),
        case("values", (2, 3, 5), visible, visible=True),
        case("values", (2, 4, 4), visible, visible=True),
        case("values", (batch, queries, keys), rng),
        case("leading", (2, 3, 4, 5), rng),
        case("leading", (3, 4), rng),
        case("leading", (1, 1, 3), rng),
        case("mask", (2, 3, 4), visible, hidden=True, visible=True),
        case("mask", (3, 4, 6), rng, hidden=True),
        case("mask", (4, 6, 5), rng, size=6.0),
    ]


SOFTMAX_AXES = (*LEADING, Axis("keys", long=70), Choice("keys are hidden", (None, True)))


def drawn_softmax(sizes: Sizes, rng: np.random.Generator) -> Case:
    *shape, hidden = sizes.values()
    weights = _shares(rng, tuple(shape), hidden is not None and shape[-1] > 1)
    return Case("mask" if hidden else "values", "", (rng.normal(1.5, 2.0, shape), weights))


def softmax_steps(d_weights: Annotated[Tensor, "n_queries n_keys"], weights: Tensor, /) -> Tensor:
    """The softmax backwards, step by step."""
    row_terms = total(d_weights * weights, -1)
    return weights * (d_weights - row_terms)


softmax_right = in_numpy(by_hand.softmax_backward)


def _softmax_with(d_weights: np.ndarray, weights: np.ndarray, slips: frozenset[str]) -> np.ndarray:
    """The softmax's backward with mistakes switched on."""
    if "softmax_again" in slips:
        weights = by_hand.softmax(weights)
    product = d_weights * weights
    if "no_row_term" in slips:
        return product
    if "diagonal" in slips:
        return product * (1 - weights)
    axis = {"over_queries": -2, "over_axis_1": 1, "over_batch": 0}
    over = next((axis[key] for key in axis if key in slips), -1)
    if "over_everything" in slips:
        over = None
    keep = "no_keepdims" not in slips
    if "unweighted" in slips:
        expected = d_weights.sum(axis=over, keepdims=keep)
    elif "plain_mean" in slips:
        expected = d_weights.mean(axis=over, keepdims=keep)
    elif "mean" in slips:
        expected = product.mean(axis=over, keepdims=keep)
    else:
        expected = product.sum(axis=over, keepdims=keep)
    if "plus" in slips:
        expected = -expected
    if "row_term_only" in slips:
        return -expected if "no_weight" in slips else -weights * expected
    return d_weights - expected if "no_weight" in slips else weights * (d_weights - expected)


softmax_with = in_numpy(_softmax_with)

OF_THE_SOFTMAX = (
    mistake(
        "softmax_backward.no_row_term",
        "Raise one score of a row. Which of the row's weights change? Sum a row of your result: what should it be?",
        "softmax",
    ),
    mistake(
        "softmax_backward.diagonal",
        "The table of derivatives has one entry for each pair of keys. Which of them does your line use?",
        "softmax",
    ),
    mistake(
        "softmax_backward.plus",
        "When one score rises, do the other weights rise or fall?",
        "softmax",
    ),
)

SOFTMAX_BACKWARD = Exercise(
    name="softmax_backward",
    returns="an array of the shape of weights, (..., n_keys)",
    shape=lambda case: case.inputs[1].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of the weights", 0.1),
        Criterion("values", "each score's own effect, less what it takes from the others", 0.5),
        Criterion("leading", "any number of leading axes, also none", 0.1),
        Criterion("mask", "weights of 0, and rows that are nearly sure", 0.2),
        Criterion("manners", "the arguments stay untouched, and the same call gives the same result", 0.1),
    ),
    mistakes=(
        OVERWRITTEN,
        *OF_THE_SOFTMAX,
        mistake(
            "softmax_backward.row_term_only",
            "The result has two terms. Which of them does the chain rule give for k = j?",
            "softmax",
        ),
        mistake(
            "softmax_backward.no_weight",
            "What should the gradient of a score be whose weight is 0?",
            "front",
        ),
        mistake(
            "softmax_backward.unweighted",
            "Which mean of d_w belongs here: by what is each entry weighted?",
            "row",
        ),
        mistake(
            "softmax_backward.plain_mean",
            "By what is each entry of the row's mean weighted?",
            "row",
        ),
        mistake(
            "softmax_backward.mean",
            "Is there a 1/n in the formula?",
            "row",
        ),
        mistake(
            "softmax_backward.over_queries",
            "Which axis counts the keys, however many stand in front of it?",
            "axis",
            also=("over_axis_1", "over_batch"),
        ),
        mistake(
            "softmax_backward.over_everything",
            "What does `sum` reduce when no axis is given?",
            "axis",
        ),
        mistake(
            "softmax_backward.no_keepdims",
            "Compare the shapes of the weights and of the sum. What would make the last axis of the sum a 1?",
            "keepdims",
        ),
        mistake(
            "softmax_backward.softmax_again",
            "Sum a row of the second argument.",
            "again",
        ),
    ),
    cases=softmax_cases,
    axes=SOFTMAX_AXES,
    drawn=drawn_softmax,
    reference=softmax_right,
    variation=softmax_with,
    steps=softmax_steps,
    properties=(
        Property("each row sums to 0", lambda case, d_scores: _sums_to_0(d_scores)),
        Property(
            "a hidden key's score has the gradient 0",
            lambda case, d_scores: (
                bool(np.all(d_scores[case.inputs[1] == 0] == 0)) if np.any(case.inputs[1] == 0) else None
            ),
        ),
    ),
    library="numpy",
    forbidden=AUTOGRAD,
    forbidden_reason=AUTOGRAD_REASON,
)

# --- LayerNorm ---------------------------------------------------------------------------------------------------


def norm_cases(rng: np.random.Generator) -> list[Case]:
    """Ordinary tokens, those where ε decides, and any number of leading axes; γ far from 1."""

    def case(
        tag: str,
        label: str,
        shape: tuple[int, ...],
        source: np.random.Generator,
        eps: float | None = None,
        **kwargs: Any,
    ) -> Case:
        x = source.normal(size=shape)
        x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)  # so that where ε must not matter, it never does
        x = x * source.uniform(0.7, 1.4, (*shape[:-1], 1)) + source.normal(0.0, 0.5, (*shape[:-1], 1))
        x = (2e-3 if label == "tiny values" else 10.0) * x + (300.0 if label == "values far from 0" else 0.0)
        if label == "a token with all features equal":
            x[0, 0] = 0.5
        gamma = source.uniform(0.5, 2.0, shape[-1]) * source.choice([-1.0, 1.0], shape[-1])
        if label == "one γ is 0":
            gamma[1] = 0.0
        d_out = source.normal(0.5, 1.0, shape)
        inputs = (d_out, x, gamma) if eps is None else (d_out, x, gamma, eps)
        return Case(tag, f"{label}, x of shape {shape}", inputs, **kwargs)

    visible = np.random.default_rng(21)
    batch, tokens = (int(n) for n in rng.permutation([2, 3, 4])[:2])
    shape = (batch, tokens, int(rng.choice([5, 6, 7, 9])))
    return [
        case("leading", "one token alone", (5,), visible, visible=True),
        case("leading", "no batch axis", (3, 4), visible, visible=True),
        case("values", "ordinary values", (2, 3, 5), visible, visible=True),
        case("values", "ordinary values", shape, rng),
        case("values", "values far from 0", shape, rng),
        case("values", "one γ is 0", shape, rng),
        case("leading", "four axes", (2, 3, 4, 5), rng),
        case("leading", "a single token", (1, 1, 4), rng),
        case("small", "tiny values", (2, 3, 4), visible, visible=True),
        case("small", "ε = 30", shape, rng, 30.0),
        case("small", "a token with all features equal", shape, rng),
    ]


NORM_AXES = (*LEADING, Axis("d_model", least=3, most=9))


def drawn_norm(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model = sizes.values()
    x = rng.normal(size=(batch, tokens, d_model))
    x = 10 * (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) + rng.normal(0.0, 5.0, (batch, tokens, 1))
    return Case("values", "", (rng.normal(0.5, 1.0, x.shape), x, rng.uniform(0.5, 2.0, d_model)))


def norm_steps(
    d_out: Annotated[Tensor, "batch tokens d_model"], x: Tensor, gamma: Tensor, eps: float = 1e-5, /
) -> tuple[Tensor, Tensor, Tensor]:
    """LayerNorm backwards, step by step."""
    centred_values = x - mean(x, -1)
    variance = mean(square(centred_values), -1)
    deviation = (variance + eps) ** 0.5
    y = centred_values / deviation
    g = d_out * gamma
    mean_term = mean(g, -1)
    deviation_term = y * mean(g * y, -1)
    d_x = (g - mean_term - deviation_term) / deviation
    d_gamma = total(d_out * y, "leading")
    d_beta = total(d_out, "leading")
    return d_x, d_gamma, d_beta


norm_right = in_numpy(by_hand.layer_norm_backward)


def _norm_with(d_out: np.ndarray, x: np.ndarray, gamma: np.ndarray, *rest: Any) -> tuple[np.ndarray, ...]:
    """LayerNorm's backward with mistakes switched on."""
    eps, slips = (rest[0] if len(rest) == 2 else 1e-5), rest[-1]
    if "fixed_eps" in slips:
        eps = 1e-5
    centred = x - x.mean(axis=-1, keepdims=True)
    squares = centred**2
    d_model = x.shape[-1]
    variance = squares.sum(axis=-1, keepdims=True) / (d_model - 1 if "unbiased" in slips else d_model)
    if "eps_outside" in slips:
        deviation = np.sqrt(variance) + eps
    else:
        deviation = np.sqrt(variance + (0.0 if "no_eps" in slips else eps))
    y = centred / deviation
    g = d_out if "no_gamma" in slips else gamma * d_out

    over: int | None = -1
    if "over_tokens" in slips:
        over = -2
    elif "over_batch" in slips:
        over = 0
    elif "over_everything" in slips:
        over = None
    reduce = np.sum if "sums" in slips else np.mean
    of_mean = reduce(g, axis=over, keepdims=True)
    of_variance = y * reduce(g * (x if "raw_x" in slips else y), axis=over, keepdims=True)
    if "gamma_outside" in slips:  # γ belongs inside of both means
        of_mean = gamma * reduce(d_out, axis=over, keepdims=True)
        of_variance = gamma * y * reduce(d_out * y, axis=over, keepdims=True)
    if slips & {"no_mean_term", "constants"}:
        of_mean = 0.0
    if slips & {"no_variance_term", "constants"}:
        of_variance = 0.0
    d_x = g - of_mean - of_variance
    if "no_deviation" not in slips:
        d_x = d_x / (deviation**2 if "by_variance" in slips else deviation)

    seen = x if "x_for_y" in slips else centred if "centred_for_y" in slips else y
    d_gamma, d_beta = d_out * seen, d_out
    if "gamma_in_affine" in slips:
        d_gamma, d_beta = gamma * d_gamma, gamma * d_beta
    axes: tuple[int, ...] | int = tuple(range(x.ndim - 1))
    if "over_axis_0" in slips:
        axes = 0
    elif "tokens_only" in slips:
        axes = -2
    elif "over_features" in slips:
        axes = -1
    if "not_summed" not in slips:
        total = np.mean if "averaged" in slips else np.sum
        d_gamma, d_beta = total(d_gamma, axis=axes), total(d_beta, axis=axes)
    return (d_x, d_beta, d_gamma) if "exchanged" in slips else (d_x, d_gamma, d_beta)


norm_with = in_numpy(_norm_with)


def _parts_agree(
    tags: tuple[str, ...], parts: tuple[int, ...]
) -> Callable[[tuple[Case, ...], tuple[Any, ...]], tuple[bool, str]]:
    """A criterion's measure: these parts alone, in all cases of these tags. d_x may be right where d_gamma is not."""

    def measure(cases: tuple[Case, ...], outputs: tuple[Any, ...]) -> tuple[bool, str]:
        agreeing = total = 0
        for case, output in zip(cases, outputs, strict=True):
            if case.tag in tags:
                total += 1
                right = [part.numpy() for part in norm_right(None, case.inputs, {})]
                agreeing += output is not None and all(_near(output[i], right[i]) for i in parts)
        return agreeing == total, "" if agreeing == total else f"{agreeing} of {total} cases agree"

    return measure


def _near(got: np.ndarray, right: np.ndarray) -> bool:
    if got.shape != right.shape:
        return False
    return bool(np.all(np.abs(got - right) <= 1e-5 * max(1e-3, float(np.abs(right).max()))))


def norm_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    return case.inputs[1].shape, case.inputs[2].shape, case.inputs[2].shape


LAYER_NORM_BACKWARD = Exercise(
    name="layer_norm_backward",
    returns="three arrays: d_x of the shape of x, and d_gamma and d_beta, each (d_model,)",
    parts=("d_x", "d_gamma", "d_beta"),
    shape=norm_shapes,
    criteria=(
        Criterion("shape", "runs, and d_x, d_gamma and d_beta have their shapes", 0.1),
        Criterion(
            "values", "d_x: directly, through the mean, through the deviation", 0.4, _parts_agree(("values",), (0,))
        ),
        Criterion(
            "affine",
            "d_gamma and d_beta: summed over every token",
            0.2,
            _parts_agree(("values", "leading"), (1, 2)),
        ),
        Criterion("small", "d_x with ε: tiny values, another ε, equal features", 0.1, _parts_agree(("small",), (0,))),
        Criterion("leading", "d_x with any number of leading axes", 0.1, _parts_agree(("leading",), (0,))),
        Criterion("manners", "the arguments stay untouched, and the same call gives the same result", 0.1),
    ),
    mistakes=(
        OVERWRITTEN,
        mistake(
            "layer_norm_backward.constants",
            "Add a constant to all features of a token: the result stays. So what must the sum of d_x be?",
            "terms",
        ),
        mistake(
            "layer_norm_backward.no_mean_term",
            "Sum d_x over a token's features. Should the result care for a constant added to all of them?",
            "terms",
        ),
        mistake(
            "layer_norm_backward.no_variance_term",
            "Multiply a token by 1.01: the result stays (but for ε). So along which direction must d_x have no part?",
            "terms",
        ),
        mistake(
            "layer_norm_backward.sums",
            "What does each of the two terms divide by?",
            "reduce",
        ),
        mistake(
            "layer_norm_backward.over_tokens",
            "Whose mean is it? Which axis did the forward take it over?",
            "axis",
            also=("over_batch",),
        ),
        mistake(
            "layer_norm_backward.over_everything",
            "What does `mean` reduce when no axis is given?",
            "axis",
        ),
        mistake(
            "layer_norm_backward.raw_x",
            "Compare each letter of the formula with your line.",
            "raw",
        ),
        mistake(
            "layer_norm_backward.gamma_outside",
            "At which point of the way back does γ come in: before or after the normalisation?",
            "gamma",
        ),
        mistake(
            "layer_norm_backward.no_gamma",
            "out = γ y + β. What reaches y?",
            "gamma",
        ),
        mistake(
            "layer_norm_backward.no_deviation",
            "Multiply x by 10: what happens to the derivative of y by x?",
            "deviation",
        ),
        mistake(
            "layer_norm_backward.by_variance",
            "Compare the denominator of the formula with yours.",
            "deviation",
        ),
        mistake(
            "layer_norm_backward.unbiased",
            "Look at what `var` and `std` are told to divide by.",
            "variance",
        ),
        mistake(
            "layer_norm_backward.no_eps",
            "Which deviation did the forward divide by?",
            "eps",
            costs=("small",),
        ),
        mistake(
            "layer_norm.eps_outside",
            "Look at where ε stands in the definition: what is it added to?",
            "eps",
            costs=("small",),
        ),
        mistake(
            "layer_norm_backward.fixed_eps",
            "Follow `eps` from the signature to the place where it is added.",
            "eps",
            costs=("small",),
        ),
        mistake(
            "layer_norm_backward.x_for_y",
            "What does γ stand next to in the definition?",
            "seen",
            costs=("affine",),
        ),
        mistake(
            "layer_norm_backward.centred_for_y",
            "What does γ stand next to in the definition?",
            "seen",
            costs=("affine",),
        ),
        mistake(
            "layer_norm_backward.gamma_in_affine",
            "out = γ y + β. Differentiate by β: where is γ?",
            "affine",
            costs=("affine",),
        ),
        mistake(
            "layer_norm_backward.over_axis_0",
            "γ serves every token of every sample. Over which axes do its uses add up?",
            "sum",
            also=("tokens_only",),
            costs=("shape", "affine"),
        ),
        mistake(
            "layer_norm_backward.over_features",
            "Which shape must d_gamma have?",
            "sum",
            costs=("shape", "affine"),
        ),
        mistake(
            "layer_norm_backward.not_summed",
            "Which shape must d_gamma have?",
            "sum",
            costs=("shape", "affine"),
        ),
        mistake(
            "layer_norm_backward.averaged",
            "A number used ten times: does its gradient grow with the uses, or not?",
            "total",
            costs=("affine",),
        ),
        mistake(
            "layer_norm_backward.exchanged",
            "Which order does the `return` have, and which order does the task have?",
            "order",
            costs=("affine",),
        ),
    ),
    cases=norm_cases,
    axes=NORM_AXES,
    drawn=drawn_norm,
    reference=norm_right,
    variation=norm_with,
    steps=norm_steps,
    properties=(Property("each token's d_x sums to 0", lambda case, outputs: _sums_to_0(outputs[0])),),
    library="numpy",
    forbidden=AUTOGRAD,
    forbidden_reason=AUTOGRAD_REASON,
)

# --- Attention ---------------------------------------------------------------------------------------------------


def attention_cases(rng: np.random.Generator) -> list[Case]:
    """First equal sizes, where every product fits; then all different; hidden keys whose numbers are large."""

    def case(
        tag: str,
        lead: tuple[int, ...],
        sizes: tuple[int, ...],
        source: np.random.Generator,
        hidden: bool = False,
        **kwargs: Any,
    ) -> Case:
        n_queries, n_keys, d_head, d_value = (int(n) for n in sizes)
        q, k, v = (
            source.normal(size=(*lead, *shape)) for shape in ((n_queries, d_head), (n_keys, d_head), (n_keys, d_value))
        )
        scores = q @ k.swapaxes(-2, -1) / math.sqrt(d_head)
        if hidden:
            length = source.integers(1, n_keys, size=(*lead, 1, 1))  # at least one key is hidden from everybody
            scores = np.where(np.arange(n_keys) < length, scores, -np.inf)
            filler = np.arange(n_keys)[:, None] >= length
            k, v = np.where(filler, 6 * k, k), np.where(filler, 20 * v, v)
        weights = by_hand.softmax(scores)
        d_out = source.normal(size=(*lead, n_queries, d_value))
        front = f"leading axes {lead}" if lead else "no leading axes"
        label = f"{front}, {n_queries} queries, {n_keys} keys, d_head {d_head}, d_value {d_value}"
        return Case(tag, label + (", some keys hidden" if hidden else ""), (d_out, q, k, v, weights), **kwargs)

    visible = np.random.default_rng(22)
    return [
        case("values", (2,), (3, 3, 4, 3), visible, visible=True),
        case("leading", (), (4, 4, 4, 4), visible, visible=True),
        case("values", (2,), (3, 5, 4, 6), visible, visible=True),
        case("values", (7,), tuple(rng.permutation([2, 3, 5, 6])), rng),
        case("leading", (2, 3), (4, 5, 6, 7), rng),
        case("leading", (1,), (1, 3, 5, 4), rng),
        case("mask", (2,), (4, 4, 5, 4), visible, hidden=True, visible=True),
        case("mask", (3, 2), (4, 5, 3, 6), rng, hidden=True),
    ]


ATTENTION_AXES = (
    Axis("batch", most=4),
    Axis("queries", long=70),
    Axis("keys", long=70),
    Axis("d_head", most=5),
    Axis("d_value", most=5),
    Choice("keys are hidden", (None, "from all queries", "from some")),
    Choice("scores", (None, "of ±10³")),
)


def drawn_attention(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, queries, keys, d_head, d_value, hidden, large = sizes.values()
    shapes = ((queries, d_head), (keys, d_head), (keys, d_value))
    q, k, v = (rng.normal(size=(batch, *shape)) for shape in shapes)
    q, k = (30 * q, 30 * k) if large else (q, k)
    scores = q @ k.swapaxes(-2, -1) / math.sqrt(d_head)
    if hidden:
        rows = (batch, 1 if hidden == "from all queries" else queries, 1)
        scores = np.where(np.arange(keys) < rng.integers(1, keys + 1, size=rows), scores, -np.inf)
    d_out = rng.normal(size=(batch, queries, d_value))
    return Case("mask" if hidden else "values", "", (d_out, q, k, v, by_hand.softmax(scores)))


def attention_steps(
    d_out: Annotated[Tensor, "n_queries d_value"],
    q: Annotated[Tensor, "n_queries d_head"],
    k: Annotated[Tensor, "n_keys d_head"],
    v: Annotated[Tensor, "n_keys d_value"],
    weights: Tensor,
    /,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention backwards, step by step."""
    d_head = size(q, -1)
    d_weights = d_out @ transpose(v, -2, -1)
    row_terms = total(d_weights * weights, -1)
    d_scores = weights * (d_weights - row_terms)
    d_products = d_scores / d_head**0.5
    d_q = d_products @ k
    d_k = transpose(d_products, -2, -1) @ q
    d_v = transpose(weights, -2, -1) @ d_out
    return d_q, d_k, d_v


attention_right = in_numpy(by_hand.attention_backward)


def _turned(array: np.ndarray, slips: frozenset[str]) -> np.ndarray:
    if "reversed_axes" in slips:
        return array.T
    if "axes_021" in slips:
        return array.transpose(0, 2, 1)
    return array.swapaxes(1, 2) if "fixed_axes" in slips else array.swapaxes(-2, -1)


def _attention_with(
    d_out: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, weights: np.ndarray, slips: frozenset[str]
) -> tuple[np.ndarray, ...]:
    """The backward of attention with mistakes switched on."""
    d_head = q.shape[-1]
    if "recomputed" in slips:
        weights = by_hand.softmax(q @ k.swapaxes(-2, -1) / math.sqrt(d_head))
    d_weights = d_out @ (v if "v_not_transposed" in slips else _turned(v, slips))
    d_v = (weights if "d_v_not_transposed" in slips else _turned(weights, slips)) @ d_out
    d_scores = d_weights if "no_softmax" in slips else _softmax_with(d_weights, weights, slips)
    root = math.sqrt(d_head)
    divisor = {
        "unscaled": 1.0,
        "by_d_head": d_head,
        "multiplied": 1 / root,
        "by_d_value": math.sqrt(v.shape[-1]),
    }
    scale = next((divisor[key] for key in divisor if key in slips), root)
    of_q = d_scores / (1.0 if "d_q_unscaled" in slips else scale)
    of_k = d_scores / (1.0 if "d_k_unscaled" in slips else scale)
    of_q = _turned(of_q, slips) if "d_q_transposed" in slips else of_q
    of_k = of_k if "d_k_not_transposed" in slips else _turned(of_k, slips)
    d_q, d_k = of_q @ (q if "own_factor" in slips else k), of_k @ (k if "own_factor" in slips else q)
    if "exchanged_qk" in slips:
        d_q, d_k = d_k, d_q
    return (d_v, d_k, d_q) if "backwards" in slips else (d_q, d_k, d_v)


attention_with = in_numpy(_attention_with)


def attention_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    return tuple(array.shape for array in case.inputs[1:4])


def _hidden_learn_nothing(case: Case, outputs: tuple[np.ndarray, ...]) -> bool | None:
    hidden = np.all(case.inputs[4] == 0, axis=-2)  # (..., n_keys): keys that nobody looks at
    if not hidden.any() or tuple(part.shape for part in outputs) != attention_shapes(case):
        return None
    return not np.any(outputs[1][hidden]) and not np.any(outputs[2][hidden])


ATTENTION_BACKWARD = Exercise(
    name="attention_backward",
    returns="three arrays: d_q, d_k and d_v, shaped as q, k and v",
    parts=("d_q", "d_k", "d_v"),
    shape=attention_shapes,
    criteria=(
        Criterion("shape", "runs, and d_q, d_k and d_v have the shapes of q, k and v", 0.1),
        Criterion("values", "back through the mix, the softmax, the scaling and the product", 0.5),
        Criterion("leading", "any number of leading axes, also none", 0.1),
        Criterion("mask", "hidden keys get no gradient", 0.2),
        Criterion("manners", "the arguments stay untouched, and the same call gives the same result", 0.1),
    ),
    mistakes=(
        OVERWRITTEN,
        mistake(
            "attention_backward.unscaled",
            "scores = q kᵀ / √d_head. Which of your lines knows about the root?",
            "scale",
            costs=("values",),
        ),
        mistake(
            "attention_backward.d_q_unscaled",
            "Which of your lines know about the root?",
            "scale",
            costs=("values",),
        ),
        mistake(
            "attention_backward.d_k_unscaled",
            "Which of your lines know about the root?",
            "scale",
            costs=("values",),
        ),
        mistake(
            "attention_backward.by_d_head",
            "How often does √d_head occur in the forward?",
            "scale",
            costs=("values",),
        ),
        mistake(
            "attention_backward.by_d_value",
            "Which array's last axis did the forward take the root of?",
            "scale",
            costs=("values",),
        ),
        mistake(
            "attention_backward.multiplied",
            "What is the derivative of x / 2?",
            "scale",
            costs=("values",),
        ),
        mistake(
            "attention_backward.no_softmax",
            "The forward has three lines. How many has your way back?",
            "softmax",
            costs=("values", "mask"),
        ),
        *(replace(one, costs=("values", "mask")) for one in OF_THE_SOFTMAX),
        mistake(
            "attention_backward.over_queries",
            "Which axis of the weights counts the keys?",
            "axis",
            also=("over_axis_1",),
        ),
        mistake(
            "attention_backward.recomputed",
            "Which weights did the forward mix with? Where do you get them from?",
            "weights",
            costs=("mask",),
        ),
        mistake(
            "attention_backward.v_not_transposed",
            "out = weights v. What does the rule for products say about d_weights, and what do the shapes say?",
            "v",
        ),
        mistake(
            "attention_backward.d_v_not_transposed",
            "d_v has a row for each key. Which axis of the weights counts the keys?",
            "d_v",
        ),
        mistake(
            "attention_backward.d_k_not_transposed",
            "d_k has a row for each key. Which axis of d_scores counts the keys?",
            "d_k",
        ),
        mistake(
            "attention_backward.d_q_transposed",
            "d_q has a row for each query. Which axis of d_scores counts the queries?",
            "d_q",
        ),
        mistake(
            "attention_backward.own_factor",
            "The derivative of a b by a: which of the two is left?",
            "factor",
        ),
        mistake(
            "attention_backward.fixed_axes",
            "Which numbers name the last two axes, however many come before them?",
            "axes",
            also=("axes_021",),
            costs=("shape", "leading"),
        ),
        mistake(
            "attention_scores.reversed_axes",
            "Print the shape of `v.T` for v of shape (2, 5, 7).",
            "axes",
        ),
        mistake(
            "attention_backward.exchanged_qk",
            "Which order does the `return` have, and which order does the task have?",
            "order",
            costs=("shape", "values"),
        ),
        mistake(
            "attention_backward.backwards",
            "Which order does the `return` have, and which order does the task have?",
            "order",
            costs=("shape", "values"),
        ),
    ),
    cases=attention_cases,
    axes=ATTENTION_AXES,
    drawn=drawn_attention,
    reference=attention_right,
    variation=attention_with,
    steps=attention_steps,
    properties=(Property("keys that nobody looks at learn nothing", _hidden_learn_nothing),),
    library="numpy",
    forbidden=AUTOGRAD,
    forbidden_reason=AUTOGRAD_REASON,
)
