"""LayerNorm from its definition (lab 4)."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor
from torch.func import functional_call

from autograder import reading
from autograder.covering import Axis, Sizes
from autograder.diagnosis.vocabulary import mean, square
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Weights
from autograder.exercises.known import mistake, operations, overwritten
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Ordinary tokens, then those where ε decides: tiny, huge, far from 0, and all features equal."""
    visible = np.random.default_rng(4)

    def case(tag: str, label: str, x: np.ndarray, eps: float | None = None, **kwargs: Any) -> Case:
        build = (x.shape[-1],) if eps is None else (x.shape[-1], eps)
        return Case(tag, f"{label}, x of shape {x.shape}", (x,), build, differentiate=True, **kwargs)

    batch, tokens = rng.choice([2, 3, 4], size=2, replace=False)
    size = (int(batch), int(tokens), int(rng.choice([5, 6, 7, 9])))
    flat = _tokens(rng, 0.0, 10.0, size)
    flat[0, 0] = 0.5
    outlier = _tokens(rng, 0.0, 10.0, (2, 3, 17))
    outlier[..., 4] += 400.0  # after the norm, a number of 4
    return [
        case("values", "ordinary values", _tokens(visible, 3.0, 10.0, (2, 3, 7)), visible=True),
        case("values", "values far from 0", _tokens(rng, 300.0, 10.0, size)),
        case("small", "tiny values", _tokens(visible, 0.0, 2e-3, (2, 3, 7)), visible=True),
        case("small", "ε = 30", _tokens(rng, 1.0, 10.0, size), 30.0),
        case("small", "ε = 10⁻⁹, tiny values", _tokens(rng, 0.0, 1e-3, size), 1e-9),
        case("small", "one token with all features equal", flat),
        case("small", "all tokens with all features equal", np.full(size, 2.5)),
        case("values", "one feature far from all others", outlier),
        case("shapes", "no batch axis", _tokens(visible, 3.0, 10.0, (4, 5)), visible=True),
        case("shapes", "no batch axis, as many tokens as features", _tokens(rng, 3.0, 10.0, (6, 6))),
        case("shapes", "four axes", _tokens(rng, 3.0, 10.0, (2, 3, 4, 6))),
        case("shapes", "a single token", _tokens(rng, 3.0, 10.0, (1, 1, 5))),
        case("shapes", "one token without any other axis", _tokens(rng, 3.0, 10.0, (6,))),
    ]


AXES = (Axis("batch", most=4), Axis("tokens", long=300), Axis("d_model", least=2, most=9, build=True))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    x = _tokens(rng, 3.0, 10.0, tuple(sizes.values()))
    with_0 = np.concatenate([np.zeros_like(x[..., :1]), x[..., 1:]], -1)  # a number like any other
    x = np.where((rng.random(x.shape[:-1]) < 0.5)[..., None] & (with_0.std(-1, keepdims=True) > 5.0), with_0, x)
    return Case("values" if sizes["d_model"] > 2 else "shapes", "", (x,), x.shape[-1:])


def _tokens(rng: np.random.Generator, mean: float, spread: float, shape: tuple[int, ...]) -> np.ndarray:
    """Tokens whose standard deviations lie near `spread`, by no luck: where ε must not matter, it never does."""
    x = rng.normal(size=shape)
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    return spread * (x * rng.uniform(0.7, 1.4, (*shape[:-1], 1)) + rng.normal(0.0, 0.5, (*shape[:-1], 1))) + mean


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return functional_call(reference.LayerNorm(*build), {k: weights[k] for k in ("gamma", "beta")}, inputs)


def steps(
    x: Annotated[Tensor, "batch tokens features"], /, d_model: int, eps: float = 1e-5, *, gamma: Tensor, beta: Tensor
) -> Tensor:
    """LayerNorm, step by step."""
    centred_values = x - mean(x, -1)
    variance = mean(square(centred_values), -1)
    deviation = (variance + eps) ** 0.5
    normalised_values = centred_values / deviation
    return normalised_values * gamma + beta


def stages(build: Build, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    """What every way of writing it passes through."""
    (x,) = inputs
    return {"the centred values": x - x.mean(-1, keepdim=True)}


def _not_registered(seen: Evidence) -> bool:
    return len(seen.parameters) < 2 and len(seen.loose) > 0


STARTS = {"gamma": 1.0, "beta": 0.0}


def _wrong_start(seen: Evidence) -> bool:
    if seen.right:  # then it is known which is which, whatever they are called
        roles = {name: start for name, start in seen.starts.items() if name in STARTS}
        untold = any(parameter.start is None for parameter in seen.parameters)
        return untold or any(bool((start != STARTS[name]).any()) for name, start in roles.items())
    starts = {p.name.lower(): p.constant for p in seen.parameters}
    return any(
        (name in reading.GAMMA and start != 1) or (name in reading.BETA and start != 0)
        for name, start in starts.items()
    )


# The statistics over other axes than each token's features.
OVER = """
    centred_values = x - x.mean({0}, keepdim=True)
    variance = square(centred_values).mean({0}, keepdim=True)
    """

MISTAKES = (
    mistake(
        "layer_norm.unregistered",
        "Look at how `__init__` stores γ and β, and what makes a tensor a parameter of a module.",
        sign=_not_registered,
    ),
    mistake(
        "layer_norm.start",
        "Look at what `__init__` fills γ and β with.",
        sign=_wrong_start,
    ),
    overwritten(look="Look for an assignment into a slice, `-=`, `/=` or a method whose name ends in an underscore."),
    mistake(
        "layer_norm.no_keepdim",
        "Compare the shapes of x and of its mean. What would make the last axis of the mean a 1?",
        change="centred_values = x - x.mean(-1)\nvariance = x.var(-1, correction=0)",
    ),
    mistake(
        "layer_norm.unbiased",
        "What is the sum of squares divided by? `var` and `std` have a default for it.",
        change="variance = variance * x.numel() / (x.numel() - variance.numel())",
        costs=("values",),
    ),
    mistake(
        "layer_norm.eps_outside",
        "Look at where ε stands in the definition: what is it added to?",
        change="deviation = variance**0.5 + eps",
        costs=("small",),
    ),
    mistake(
        "layer_norm.no_eps",
        "Look at what the definition adds to the variance.",
        change="deviation = variance**0.5",
        costs=("small",),
    ),
    mistake(
        "layer_norm.no_root",
        "Compare the unit of what you divide by with the unit of x.",
        change="deviation = variance + eps",
        costs=("values",),
    ),
    mistake(
        "layer_norm.not_divided",
        "LayerNorm has two steps before the affine map. Where is the second?",
        change="normalised_values = centred_values",
    ),
    mistake(
        "layer_norm.fixed_eps",
        "Follow `eps` from `__init__` to the place where it is added.",
        change="deviation = (variance + 1e-5) ** 0.5",
        costs=("small",),
    ),
    mistake(
        "layer_norm.other_default",
        "Compare the signature of your `__init__` with the task's.",
        change="deviation = (variance + (eps if len(build) > 1 else 1e-6)) ** 0.5",
        costs=("small",),
    ),
    mistake(
        "layer_norm.over_batch",
        "Look at which axis `mean` and the variance reduce. Whose mean is it?",
        change=OVER.format("0"),
        costs=("values", "shapes"),
    ),
    mistake(
        "layer_norm.over_tokens",
        "Look at which axis `mean` and the variance reduce. Whose mean is it?",
        change=(OVER.format("-2"), OVER.format("1")),
        costs=("values", "shapes"),
    ),
    mistake(
        "layer_norm.over_tokens_and_features",
        "How many means should a sample of three tokens have?",
        change=(OVER.format("tuple(range(1, x.dim()))"), OVER.format("(-2, -1)")),
        costs=("values", "shapes"),
    ),
    mistake(
        "layer_norm.over_everything",
        "How many means should two samples of three tokens have? How many do you compute?",
        change=OVER.format("tuple(range(x.dim()))"),
        costs=("values", "shapes"),
    ),
    mistake(
        "layer_norm.root_mean_square",
        "Add 50 to every feature of a token. What should LayerNorm make of it?",
        change="""
        centred_values = x
        variance = mean(square(x), -1)
        """,
        costs=("values",),
    ),
    mistake(
        "layer_norm.not_centred",
        "Look at the numerator of the definition.",
        change="normalised_values = x / deviation",
    ),
    mistake(
        "layer_norm.beta_scaled",
        "Look at the order of scale and shift in the last line.",
        change="return (normalised_values + beta) * gamma",
        costs=("values",),
    ),
    mistake(
        "layer_norm.exchanged",
        "Which of the two starts at 1, and why?",
        change="return normalised_values * beta + gamma",
        costs=("values",),
    ),
    mistake(
        "layer_norm.no_affine",
        "The definition ends with a scale and a shift.",
        change="return normalised_values",
    ),
    mistake(
        "layer_norm.no_gamma",
        "Follow γ from `__init__` through `forward`.",
        change="return normalised_values + beta",
        costs=("values",),
    ),
    mistake(
        "layer_norm.no_beta",
        "Follow β from `__init__` through `forward`.",
        change="return normalised_values * gamma",
        costs=("values",),
    ),
    mistake(
        "layer_norm.detached",
        "Look for `detach`, `no_grad`, `.data`, `.item()` or NumPy between x and the result.",
        change="centred_values = x - (x - centred_values).detach()\nvariance = variance.detach()",
        costs=("gradients",),
    ),
)

LAYER_NORM = Exercise(
    name="LayerNorm",
    returns="a tensor of the shape of x",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "each token normalised over its own features, then γ and β", 0.4),
        Criterion("small", "ε where it belongs: tiny values, another ε, equal features", 0.2),
        Criterion("shapes", "any number of leading axes", 0.1),
        Criterion("gradients", "gradients reach x, γ and β", 0.1),
        Criterion(
            "contract", "γ and β are parameters and start at 1 and 0, x stays untouched, float32 stays float32", 0.1
        ),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    stages=stages,
    mappings=reading.gain_and_shift,
    roles=lambda build: reading.roles_of(reading.empty(reference.LayerNorm, build)),
    needs=frozenset({"gamma", "beta"}),
    forbidden=operations(r"(layer|batch|group|instance|rms)_norm"),
    forbidden_reason="The task is to write the normalisation yourself, from mean and variance.",
)
