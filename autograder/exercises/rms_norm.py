"""RMSNorm from its definition (lab 4, second part)."""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from torch import Tensor
from torch.func import functional_call

from autograder import reading
from autograder.covering import Sizes
from autograder.diagnosis.vocabulary import mean, square
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Parameter, Weights
from autograder.exercises.known import mistake, overwritten
from autograder.exercises.layer_norm import AXES, LAYER_NORM
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Ordinary tokens, tokens far from 0 (where centring shows), and those where ε decides: tiny, zero, another ε."""
    visible = np.random.default_rng(5)

    def case(tag: str, label: str, x: np.ndarray, eps: float | None = None, **kwargs: Any) -> Case:
        build = (x.shape[-1],) if eps is None else (x.shape[-1], eps)
        return Case(tag, f"{label}, x of shape {x.shape}", (x,), build, differentiate=True, **kwargs)

    batch, tokens = (int(n) for n in rng.choice([2, 3, 4], size=2, replace=False))
    size = (batch, tokens, int(rng.choice([5, 6, 7, 9])))
    zero = _tokens(rng, 10.0, size)
    zero[0, 0] = 0.0
    mixed = _tokens(rng, 10.0, size)
    mixed[0] /= 8.0  # some mean squares below ε, and some above it
    outlier = _tokens(rng, 10.0, (2, 3, 17))
    outlier[..., 4] += 400.0  # after the norm, a number of 4
    return [
        case("values", "ordinary values", _tokens(visible, 10.0, (2, 3, 7)), visible=True),
        case("values", "values far from 0", _tokens(rng, 10.0, size) + 40.0),
        case("small", "tiny values", _tokens(visible, 2e-3, (2, 3, 7)), visible=True),
        case("small", "ε = 30", mixed, 30.0),
        case("small", "one token of zeros", zero),
        case("values", "one feature far from all others", outlier),
        case("shapes", "no batch axis", _tokens(visible, 10.0, (4, 5)), visible=True),
        case("shapes", "no batch axis, as many tokens as features", _tokens(rng, 10.0, (6, 6))),
        case("shapes", "four axes", _tokens(rng, 10.0, (2, 3, 4, 6))),
        case("shapes", "a single token", _tokens(rng, 10.0, (1, 1, 5))),
        case("shapes", "one token without any other axis", _tokens(rng, 10.0, (6,))),
    ]


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    x = _tokens(rng, 10.0, tuple(sizes.values()))
    return Case("values" if sizes["d_model"] > 2 else "shapes", "", (x,), x.shape[-1:])


def _tokens(rng: np.random.Generator, size: float, shape: tuple[int, ...]) -> np.ndarray:
    """Tokens whose root mean squares lie near `size`, and whose means don't lie near 0, by no luck."""
    x = rng.normal(size=shape)
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(-1, keepdims=True))
    sign = rng.choice([-1.0, 1.0], (*shape[:-1], 1))
    return size * rng.uniform(0.7, 1.4, (*shape[:-1], 1)) * (0.8 * x + 0.6 * sign)


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """γ by name; where names say nothing, by the value that it starts from; else the only one that fits."""
    d_model = build[0]
    right = {name: pair for name, pair in parameters.items() if pair[1].numel() == d_model}
    named = [name for name in right if name.lower().split(".")[-1] in reading.GAMMA]
    ones = [name for name, (parameter, _) in right.items() if parameter.constant == 1.0]
    chosen = next(iter(named or ones or right), None)
    yield {} if chosen is None else {"gamma": right[chosen][1].reshape(d_model)}


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return functional_call(reference.RMSNorm(*build), {"gamma": weights["gamma"]}, inputs)


def steps(
    x: Annotated[Tensor, "batch tokens features"], /, d_model: int, eps: float = 1e-5, *, gamma: Tensor
) -> Tensor:
    """RMSNorm, step by step."""
    mean_square = mean(square(x), -1)
    root_mean_square = (mean_square + eps) ** 0.5
    normalised_values = x / root_mean_square
    return normalised_values * gamma


def _not_registered(seen: Evidence) -> bool:
    return not seen.parameters and len(seen.loose) > 0


def _wrong_start(seen: Evidence) -> bool:
    if len(seen.parameters) != 1:
        return False
    return seen.parameters[0].start is None or bool((seen.starts.get("gamma", np.ones(1)) != 1).any())


def _shifts(seen: Evidence) -> bool:
    return any(p.name.lower().split(".")[-1] in reading.BETA or p.constant == 0 for p in seen.parameters[1:])


OVER = "mean_square = square(x).mean({}, keepdim=True)"  # other axes than each token's features

MISTAKES = (
    mistake(
        "rms_norm.unregistered",
        "Look at how `__init__` stores γ, and what makes a tensor a parameter of a module.",
        sign=_not_registered,
    ),
    mistake(
        "rms_norm.nothing_learned",
        "Which symbol of the definition is learned, and where is it made?",
        sign=lambda seen: not seen.parameters and not seen.loose,
    ),
    mistake(
        "rms_norm.shift_added",
        "Count the symbols with an index j in the definition. How many of them are learned?",
        sign=_shifts,
    ),
    mistake(
        "rms_norm.start",
        "Look at how γ is created.",
        sign=_wrong_start,
    ),
    overwritten(look="Look for an assignment into a slice, `/=`, `*=` or a method whose name ends in an underscore."),
    mistake(
        "rms_norm.no_keepdim",
        "Compare the shapes of x and of its mean square. What would make the last axis a 1?",
        change="mean_square = square(x).mean(-1)",
    ),
    mistake(
        "rms_norm.centred",
        "Add 50 to every feature of a token. LayerNorm does not notice; should RMSNorm?",
        change="""
        mean_square = x.var(-1, keepdim=True, correction=0)
        normalised_values = (x - mean(x, -1)) / root_mean_square
        """,
        costs=("values",),
    ),
    mistake(
        "rms_norm.variance",
        "Distances from what are squared in the definition?",
        change="mean_square = x.var(-1, keepdim=True, correction=0)",
        costs=("values",),
    ),
    mistake(
        "rms_norm.only_centred_above",
        "Compare the numerator of the definition with yours.",
        change="normalised_values = (x - mean(x, -1)) / root_mean_square",
        costs=("values",),
    ),
    mistake(
        "rms_norm.squared_mean",
        "In which order do squaring and averaging come?",
        change="mean_square = square(mean(x, -1))",
    ),
    mistake(
        "rms_norm.summed",
        "What stands before the sum in the definition?",
        change="mean_square = square(x).sum(-1, keepdim=True)",
        costs=("values",),
    ),
    mistake(
        "rms_norm.unbiased",
        "How many squares are averaged?",
        change="mean_square = mean_by_one_less(square(x), -1)",
        costs=("values",),
    ),
    mistake(
        "rms_norm.eps_outside",
        "Look at where ε stands in the definition: what is it added to?",
        change="root_mean_square = mean_square**0.5 + eps",
        costs=("small",),
    ),
    mistake(
        "rms_norm.no_eps",
        "Look at what the definition adds to the mean square.",
        change="root_mean_square = mean_square**0.5",
        costs=("small",),
    ),
    mistake(
        "rms_norm.no_root",
        "Compare the unit of what you divide by with the unit of x.",
        change="root_mean_square = mean_square + eps",
        costs=("values",),
    ),
    mistake(
        "rms_norm.not_divided",
        "What is the fraction bar for?",
        change="normalised_values = x",
    ),
    mistake(
        "layer_norm.fixed_eps",
        "Follow `eps` from `__init__` to the place where it is added.",
        change="root_mean_square = (mean_square + 1e-5) ** 0.5",
        costs=("small",),
    ),
    mistake(
        "rms_norm.other_default",
        "Compare the signature of your `__init__` with the task's.",
        change="root_mean_square = (mean_square + (eps if len(build) > 1 else 1e-6)) ** 0.5",
        costs=("small",),
    ),
    mistake(
        "rms_norm.over_batch",
        "Look at which axis the mean reduces. Whose root mean square is it?",
        change=OVER.format("0"),
    ),
    mistake(
        "rms_norm.over_tokens",
        "Look at which axis the mean reduces. Whose root mean square is it?",
        change=(OVER.format("-2"), OVER.format("1")),
    ),
    mistake(
        "rms_norm.over_tokens_and_features",
        "How many root mean squares should a sample of three tokens have?",
        change=(OVER.format("tuple(range(1, x.dim()))"), OVER.format("(-2, -1)")),
    ),
    mistake(
        "rms_norm.over_everything",
        "How many root mean squares should two samples of three tokens have? How many do you compute?",
        change=OVER.format("tuple(range(x.dim()))"),
    ),
    mistake(
        "rms_norm.gain_first",
        "Of what does the definition take the mean square: of x, or of γ x?",
        change="""
        mean_square = mean(square(gamma * x), -1)
        normalised_values = gamma * x / root_mean_square
        return normalised_values
        """,
        costs=("values",),
    ),
    mistake(
        "rms_norm.no_gamma",
        "Follow γ through `forward`.",
        change="return normalised_values",
        costs=("values",),
    ),
    mistake(
        "rms_norm.detached",
        "Look for `detach`, `no_grad`, `.data`, `.item()` or NumPy between x and the result.",
        change="mean_square = mean(square(x.detach()), -1)",
        costs=("gradients",),
    ),
)

RMS_NORM = Exercise(
    name="RMSNorm",
    returns="a tensor of the shape of x",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion(
            "values", "each token divided by its own root mean square, then γ, and nothing subtracted or added", 0.4
        ),
        Criterion("small", "ε under the root: tiny values, another ε, a token of zeros", 0.2),
        Criterion("shapes", "any number of leading axes", 0.1),
        Criterion("gradients", "gradients reach x and γ", 0.1),
        Criterion("contract", "γ is the only parameter and starts at 1, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    mappings=mappings,
    roles=lambda build: reading.roles_of(reading.empty(reference.RMSNorm, build)),
    needs=frozenset({"gamma"}),
    forbidden=LAYER_NORM.forbidden,
    forbidden_reason="The task is to write the normalisation yourself, from the mean of squares.",
)
