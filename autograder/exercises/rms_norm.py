"""RMSNorm from its definition (lab 4, second part)."""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from autograder import reading
from autograder.covering import Sizes
from autograder.diagnosis.vocabulary import mean, square
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Mistake, Parameter, Weights
from autograder.exercises.layer_norm import AXES, BETA, GAMMA, LAYER_NORM, axes_of
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
    return [
        case("values", "ordinary values", _tokens(visible, 10.0, (2, 3, 7)), visible=True),
        case("values", "ordinary values", _tokens(rng, 10.0, size)),
        case("values", "values far from 0", _tokens(rng, 10.0, size) + 40.0),
        case("small", "tiny values", _tokens(visible, 2e-3, (2, 3, 7)), visible=True),
        case("small", "ε = 30", _tokens(rng, 10.0, size), 30.0),
        case("small", "one token of zeros", zero),
        case("shapes", "no batch axis", _tokens(visible, 10.0, (4, 5)), visible=True),
        case("shapes", "four axes", _tokens(rng, 10.0, (2, 3, 4, 6))),
        case("shapes", "a single token", _tokens(rng, 10.0, (1, 1, 5))),
        case("shapes", "one token without any other axis", _tokens(rng, 10.0, (6,))),
        Case("manners", "float32", (_tokens(rng, 10.0, (2, 3, 8)),), (8,), dtype="float32"),
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
    named = [name for name in right if name.lower().split(".")[-1] in GAMMA]
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


def variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """RMSNorm with mistakes switched on."""
    (x,) = inputs
    gamma, d_model = weights["gamma"], x.size(-1)
    eps = build[1] if len(build) > 1 else 1e-5
    if "fixed_eps" in slips:
        eps = 1e-5
    elif "other_default" in slips and len(build) == 1:
        eps = 1e-6
    axes, keep = axes_of(x, slips), "no_keepdim" not in slips
    if "gain_first" in slips:
        x = gamma * x
    source = x.detach() if "detached" in slips else x
    mean = source.mean(axes, keepdim=True)
    if "summed" in slips:
        mean_square = source.square().sum(axes, keepdim=keep)
    elif "unbiased" in slips:
        mean_square = source.square().sum(axes, keepdim=keep) / (d_model - 1)
    elif slips & {"centred", "variance"}:
        mean_square = source.var(axes, keepdim=keep, correction=0)
    elif "squared_mean" in slips:
        mean_square = source.mean(axes, keepdim=keep).square()
    else:
        mean_square = source.square().mean(axes, keepdim=keep)
    if slips & {"centred", "only_centred_above"}:
        x = x - mean
    if "not_divided" in slips:
        normalized = x
    elif "no_root" in slips:
        normalized = x / (mean_square + eps)
    elif "eps_outside" in slips:
        normalized = x / (mean_square.sqrt() + eps)
    elif "no_eps" in slips:
        normalized = x / mean_square.sqrt()
    else:
        normalized = x / torch.sqrt(mean_square + eps)
    return normalized if slips & {"no_gamma", "gain_first"} else gamma * normalized


def _not_registered(seen: Evidence) -> bool:
    return not seen.parameters and len(seen.loose) > 0


def _wrong_start(seen: Evidence) -> bool:
    return len(seen.parameters) == 1 and seen.parameters[0].constant != 1


def _shifts(seen: Evidence) -> bool:
    return any(p.name.lower().split(".")[-1] in BETA or p.constant == 0 for p in seen.parameters[1:])


MISTAKES = (
    Mistake(
        "unregistered",
        "γ is not a parameter",
        "It is a plain tensor on the module: `parameters()` does not list it, so no optimizer trains it, it is not "
        "saved and does not move to the GPU.",
        "What must a tensor be wrapped in so that a module registers it?",
        sign=_not_registered,
        switchable=False,
    ),
    Mistake(
        "nothing_learned",
        "there is no γ",
        "The module has no parameter at all: it can divide, but training can't give any feature a size of its own.",
        "Which symbol of the definition is learned, and where is it made?",
        sign=lambda seen: not seen.parameters and not seen.loose,
        switchable=False,
    ),
    Mistake(
        "shift_added",
        "a shift that RMSNorm does not have",
        "The module has a second parameter, which is added: RMSNorm scales and does nothing else.",
        "Count the symbols with an index j in the definition. How many of them are learned?",
        sign=_shifts,
        switchable=False,
    ),
    Mistake(
        "start",
        "γ starts from another value than 1",
        "An RMSNorm that has not been trained yet should leave a token's pattern as it is.",
        "Look at how γ is created.",
        sign=_wrong_start,
        switchable=False,
    ),
    Mistake(
        "overwritten",
        "the caller's tensor is changed",
        "Something is done to x in place: after the call, the caller's tensor holds other values.",
        "Look for `/=`, `*=` or a method whose name ends in an underscore.",
        sign=lambda seen: seen.input_changed,
        switchable=False,
    ),
    Mistake(
        "no_keepdim",
        "the reduced axis is gone",
        "Without its last axis, the mean square of shape (batch, tokens) does not line up with x.",
        "Compare the shapes of x and of its mean square. What would make the last axis a 1?",
        "keepdim",
    ),
    Mistake(
        "centred",
        "the mean is still taken off",
        "The values are centred and divided by their standard deviation: LayerNorm without its shift.",
        "Add 50 to every feature of a token. LayerNorm does not notice; should RMSNorm?",
        "centre",
        costs=("values", "small"),
    ),
    Mistake(
        "variance",
        "divided by the standard deviation",
        "The values are not centred, but what they are divided by is: the variance measures distances from the mean.",
        "Distances from what are squared in the definition?",
        "centre",
        costs=("values", "small"),
    ),
    Mistake(
        "only_centred_above",
        "the mean is taken off above the fraction bar",
        "The divisor is the root mean square, as it should be, but the values are centred first.",
        "Compare the numerator of the definition with yours.",
        "centre",
        costs=("values", "small"),
    ),
    Mistake(
        "squared_mean",
        "the square of the mean",
        "Features of both signs cancel before they are squared, so the divisor says little about their size.",
        "In which order do squaring and averaging come?",
        "mean",
    ),
    Mistake(
        "summed",
        "a sum, not a mean",
        "The squares are added up and not averaged: the result is too small by √d_model.",
        "What stands before the sum in the definition?",
        "mean",
        costs=("values", "small"),
    ),
    Mistake(
        "unbiased",
        "divided by d_model − 1",
        "The sum of squares is divided by d_model − 1. Nothing has been estimated here, so nothing is to be corrected.",
        "How many squares are averaged?",
        "mean",
        costs=("values",),
    ),
    Mistake(
        "eps_outside",
        "ε outside the square root",
        "The root mean square plus ε is used: much the same for ordinary values, far off for small ones.",
        "Look at where ε stands in the definition: what is it added to?",
        "root",
        costs=("small",),
    ),
    Mistake(
        "no_eps",
        "no ε",
        "A token of zeros divides 0 by 0, and tiny values are blown up to size 1.",
        "Look at what the definition adds to the mean square.",
        "root",
        costs=("small",),
    ),
    Mistake(
        "no_root",
        "the square root is missing",
        "The values are divided by their mean square: twice as large a token comes out half as large.",
        "Compare the unit of what you divide by with the unit of x.",
        "root",
        costs=("values", "small"),
    ),
    Mistake(
        "not_divided",
        "nothing is divided",
        "The values are scaled by γ and stay as large as they were.",
        "What is the fraction bar for?",
        "root",
    ),
    Mistake(
        "fixed_eps",
        "the argument `eps` is not used",
        "A constant is used whatever `eps` the constructor was given.",
        "Follow `eps` from `__init__` to the place where it is added.",
        "eps",
        costs=("small",),
    ),
    Mistake(
        "other_default",
        "another default for `eps`",
        "`RMSNorm(d_model)` uses 1e-6 where the task says 1e-5; it shows for tiny values only.",
        "Compare the signature of your `__init__` with the task's.",
        "eps",
        costs=("small",),
    ),
    Mistake(
        "over_batch",
        "normalised over the batch",
        "The mean square runs over axis 0: one sample's result depends on the others.",
        "Look at which axis the mean reduces. Whose root mean square is it?",
        "axis",
    ),
    Mistake(
        "over_tokens",
        "normalised over the tokens",
        "The mean square runs over the token axis: every feature is normalised along the sequence.",
        "Look at which axis the mean reduces. Whose root mean square is it?",
        "axis",
        also=("over_axis_1",),
    ),
    Mistake(
        "over_tokens_and_features",
        "normalised over tokens and features together",
        "All tokens of a sample share one root mean square, so tokens leak into each other.",
        "How many root mean squares should a sample of three tokens have?",
        "axis",
        also=("over_last_two",),
    ),
    Mistake(
        "over_everything",
        "normalised over everything",
        "One root mean square serves the whole tensor, so samples leak into each other.",
        "Look at what `mean` reduces when no axis is given.",
        "axis",
    ),
    Mistake(
        "gain_first",
        "γ before the division",
        "The values are scaled by γ first, and the root mean square is that of the scaled values.",
        "Of what does the definition take the mean square: of x, or of γ x?",
        "gain",
        costs=("values", "small"),
    ),
    Mistake(
        "no_gamma",
        "γ is not used",
        "The normalised values are returned as they are.",
        "Follow γ through `forward`.",
        "gain",
        costs=("values", "gradients"),
    ),
    Mistake(
        "detached",
        "the divisor is cut off from the gradient",
        "The outputs are right, but backward treats the root mean square as a constant.",
        "Look for `detach`, `no_grad`, `.data`, `.item()` or NumPy between x and the result.",
        "gradient",
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
            "values", "each token divided by its own root mean square, then γ, and nothing taken off or added", 0.4
        ),
        Criterion("small", "ε under the root: tiny values, another ε, a token of zeros", 0.2),
        Criterion("shapes", "any number of leading axes", 0.1),
        Criterion("gradients", "gradients reach x and γ", 0.1),
        Criterion("manners", "γ is the only parameter and starts at 1, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    variation=variation,
    steps=steps,
    mappings=mappings,
    roles=lambda build: reading.roles_of(reading.empty(reference.RMSNorm, build)),
    needs=frozenset({"gamma"}),
    forbidden=LAYER_NORM.forbidden | {"_fused_rms_norm"},
    forbidden_reason="The task is to write the normalisation yourself, from the mean of squares.",
)
