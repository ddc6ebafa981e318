"""LayerNorm backwards, in NumPy (lab 9)."""

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes, sequence_length
from autograder.diagnosis.vocabulary import mean, square, total
from autograder.exercise import Case, Criterion, Exercise, Property, in_numpy
from autograder.exercises.in_numpy import AUTOGRAD, AUTOGRAD_REASON, OVERWRITTEN, sums_to_0, tolerance
from autograder.exercises.known import mistake
from headroom.reference import by_hand


def cases(rng: np.random.Generator) -> list[Case]:
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
        x = (2e-3 if label == "tiny values" else 10.0) * x + (1e7 if label == "values far from 0" else 0.0)
        if label == "a token with all features equal":
            x[0, 0] = 0.5
        gamma = source.uniform(0.5, 2.0, shape[-1]) * source.choice([-1.0, 1.0], shape[-1])
        gamma[:2] = (0.0, 1.0) if label == "γ of 0 and 1" else gamma[:2]
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
        case("values", "values far from 0", shape, rng),
        case("values", "γ of 0 and 1", shape, rng),
        case("leading", "four axes", (2, 3, 4, 5), rng),
        case("small", "tiny values", (2, 3, 4), visible, visible=True),
        case("small", "ε = 30", shape, rng, 30.0),
        case("small", "a token with all features equal", shape, rng),
    ]


AXES = (Axis("batch", most=4), sequence_length("tokens"), Axis("d_model", least=3, most=9))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model = sizes.values()
    x = rng.normal(size=(batch, tokens, d_model))
    x = 10 * (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) + rng.normal(0.0, 5.0, (batch, tokens, 1))
    gamma = rng.uniform(0.5, 2.0, d_model)
    gamma[rng.permutation(d_model)[:2]] = 0.0, 1.0
    return Case("values", "", (rng.normal(0.5, 1.0, x.shape), x, gamma))


def steps(
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


right_answer = in_numpy(by_hand.layer_norm_backward)


def _parts_agree(
    tags: tuple[str, ...], parts: tuple[int, ...]
) -> Callable[[tuple[Case, ...], tuple[Any, ...]], tuple[bool, str]]:
    """A criterion's measure: these parts alone, in all cases of these tags. d_x may be right where d_gamma is not."""

    def measure(cases: tuple[Case, ...], outputs: tuple[Any, ...]) -> tuple[bool, str]:
        agreeing = total = 0
        for case, output in zip(cases, outputs, strict=True):
            if case.tag in tags:
                total += 1
                right = [part.numpy() for part in right_answer(None, case.inputs, {})]
                agreeing += output is not None and all(_near(output[i], right[i]) for i in parts)
        return agreeing == total, "" if agreeing == total else f"{agreeing} of {total} cases agree"

    return measure


def _near(got: np.ndarray, right: np.ndarray) -> bool:
    if got.shape != right.shape:
        return False
    return bool(np.all(np.abs(got - right) <= 1e-5 * max(1e-3, float(np.abs(right).max()))))


def shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    return case.inputs[1].shape, case.inputs[2].shape, case.inputs[2].shape


# The means over other axes than each token's features.
OVER = """
    mean_term = g.mean({0}, keepdim=True)
    deviation_term = y * (g * y).mean({0}, keepdim=True)
    """
SUMMED = "d_gamma = (d_out * y){0}\nd_beta = d_out{0}"

MISTAKES = (
    OVERWRITTEN,
    mistake(
        "layer_norm_backward.constants",
        "Add a constant to all features of a token: the result stays. So what must the sum of d_x be?",
        change="d_x = g / deviation",
    ),
    mistake(
        "layer_norm_backward.no_mean_term",
        "Sum d_x over a token's features. Should the result change if you add a constant to all of them?",
        change="d_x = (g - deviation_term) / deviation",
    ),
    mistake(
        "layer_norm_backward.no_variance_term",
        "Multiply a token by 1.01: the result stays (but for ε). So along which direction must d_x have no component?",
        change="d_x = (g - mean_term) / deviation",
    ),
    mistake(
        "layer_norm_backward.sums",
        "What does each of the two terms divide by?",
        change="mean_term = total(g, -1)\ndeviation_term = y * total(g * y, -1)",
    ),
    mistake(
        "layer_norm_backward.over_tokens",
        "Whose mean is it? Which axis did the forward take it over?",
        change=(OVER.format("-2"), OVER.format("0")),
    ),
    mistake(
        "layer_norm_backward.over_everything",
        "How many tokens share one mean in your code?",
        change=OVER.format("tuple(range(g.dim()))"),
    ),
    mistake(
        "layer_norm_backward.raw_x",
        "Compare each letter of the formula with your line.",
        change="deviation_term = y * mean(g * x, -1)",
    ),
    mistake(
        "layer_norm_backward.gamma_outside",
        "At which point of the way back does γ come in: before or after the normalisation?",
        slot="gamma",
        change="mean_term = gamma * mean(d_out, -1)\ndeviation_term = gamma * y * mean(d_out * y, -1)",
    ),
    mistake(
        "layer_norm_backward.no_gamma",
        "out = γ y + β. Which gradient reaches y?",
        slot="gamma",
        change="g = d_out",
        costs=("values",),
    ),
    mistake(
        "layer_norm_backward.no_deviation",
        "Multiply x by 10: what happens to the derivative of y with respect to x?",
        slot="deviation",
        change="d_x = d_x * deviation",
    ),
    mistake(
        "layer_norm_backward.by_variance",
        "Compare the denominator of the formula with yours.",
        slot="deviation",
        change="d_x = d_x / deviation",
    ),
    mistake(
        "layer_norm_backward.unbiased",
        "What is the sum of squares divided by, in the forward and in your code?",
        change="variance = x.var(-1, keepdim=True)",
    ),
    mistake(
        "layer_norm_backward.no_eps",
        "Which deviation did the forward divide by?",
        change="deviation = variance**0.5",
        costs=("small",),
    ),
    mistake(
        "layer_norm.eps_outside",
        "Look at where ε stands in the definition: what is it added to?",
        change="deviation = variance**0.5 + eps",
        costs=("small",),
    ),
    mistake(
        "layer_norm.fixed_eps",
        "Follow `eps` from the signature to the place where it is added.",
        change="deviation = (variance + 1e-5) ** 0.5",
        costs=("small",),
    ),
    mistake(
        "layer_norm_backward.x_for_y",
        "What does γ stand next to in the definition?",
        change="d_gamma = total(d_out * x, 'leading')",
        costs=("affine",),
    ),
    mistake(
        "layer_norm_backward.centred_for_y",
        "What does γ stand next to in the definition?",
        change="d_gamma = total(d_out * centred_values, 'leading')",
        costs=("affine",),
    ),
    mistake(
        "layer_norm_backward.gamma_in_affine",
        "out = γ y + β. Differentiate with respect to β: where is γ?",
        change="d_gamma = gamma * total(d_out * y, 'leading')\nd_beta = gamma * total(d_out, 'leading')",
        costs=("affine",),
    ),
    mistake(
        "layer_norm_backward.over_axis_0",
        "γ serves every token of every sample. Over which axes do its uses add up?",
        change=(SUMMED.format(".sum(0)"), SUMMED.format(".sum(-2)")),
        costs=("shape", "affine"),
    ),
    mistake(
        "layer_norm_backward.over_features",
        "Which shape must d_gamma have?",
        change=SUMMED.format(".sum(-1)"),
        costs=("shape", "affine"),
    ),
    mistake(
        "layer_norm_backward.not_summed",
        "Which shape must d_gamma have?",
        change=SUMMED.format(""),
        costs=("shape", "affine"),
    ),
    mistake(
        "layer_norm_backward.averaged",
        "A number used ten times: does its gradient grow with the uses, or not?",
        change="d_gamma = mean(d_out * y, 'leading')\nd_beta = mean(d_out, 'leading')",
        costs=("affine",),
    ),
    mistake(
        "layer_norm_backward.exchanged",
        "out = γ y + β. Which of your last two results is the gradient of γ, and where does the task want it?",
        change="return d_x, d_beta, d_gamma",
        costs=("affine",),
    ),
)

LAYER_NORM_BACKWARD = Exercise(
    name="layer_norm_backward",
    returns="three arrays: d_x of the shape of x, and d_gamma and d_beta, each (d_model,)",
    parts=("d_x", "d_gamma", "d_beta"),
    shape=shapes,
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
        Criterion("contract", "the arguments stay untouched, and the same call gives the same result", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    properties=(Property("each token's d_x sums to 0", lambda case, outputs: sums_to_0(outputs[0])),),
    library="numpy",
    tolerance=tolerance,
    forbidden=AUTOGRAD,
    forbidden_reason=AUTOGRAD_REASON,
)
