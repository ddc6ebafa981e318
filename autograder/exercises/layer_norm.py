"""LayerNorm from its definition (lab 4)."""

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call

from autograder import reading
from autograder.covering import Axis, Sizes
from autograder.diagnosis.vocabulary import mean, square
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Mistake, Parameter, Weights
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
    return [
        case("values", "ordinary values", _tokens(visible, 3.0, 10.0, (2, 3, 7)), visible=True),
        case("values", "ordinary values", _tokens(rng, -3.0, 10.0, size)),
        case("values", "values far from 0", _tokens(rng, 300.0, 10.0, size)),
        case("small", "tiny values", _tokens(visible, 0.0, 2e-3, (2, 3, 7)), visible=True),
        case("small", "ε = 30", _tokens(rng, 1.0, 10.0, size), 30.0),
        case("small", "one token with all features equal", flat),
        case("shapes", "no batch axis", _tokens(visible, 3.0, 10.0, (4, 5)), visible=True),
        case("shapes", "four axes", _tokens(rng, 3.0, 10.0, (2, 3, 4, 6))),
        case("shapes", "a single token", _tokens(rng, 3.0, 10.0, (1, 1, 5))),
        case("shapes", "one token without any other axis", _tokens(rng, 3.0, 10.0, (6,))),
        Case("manners", "float32", (_tokens(rng, 3.0, 10.0, (2, 3, 8)),), (8,), dtype="float32"),
    ]


AXES = (Axis("batch", most=4), Axis("tokens", long=300), Axis("d_model", least=2, most=9, build=True))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    x = _tokens(rng, 3.0, 10.0, tuple(sizes.values()))
    x[..., 0] = np.where(rng.random(x.shape[:-1]) < 0.5, 0.0, x[..., 0])  # a number like any other
    return Case("values" if sizes["d_model"] > 2 else "shapes", "", (x,), x.shape[-1:])


def _tokens(rng: np.random.Generator, mean: float, spread: float, shape: tuple[int, ...]) -> np.ndarray:
    """Tokens whose standard deviations lie near `spread`, by no luck: where ε must not matter, it never does."""
    x = rng.normal(size=shape)
    x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
    return spread * (x * rng.uniform(0.7, 1.4, (*shape[:-1], 1)) + rng.normal(0.0, 0.5, (*shape[:-1], 1))) + mean


GAMMA = {"gamma", "g", "weight", "scale", "gain", "alpha", "a", "a_2"}
BETA = {"beta", "b", "bias", "shift", "offset", "b_2"}


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """γ and β by name; where names say nothing, by the values they start from (1 and 0)."""
    d_model = build[0]
    right = {name: pair for name, pair in parameters.items() if pair[1].numel() == d_model}
    roles: Weights = {}
    for name, (parameter, tensor) in right.items():
        last = name.lower().split(".")[-1]
        by_name = "gamma" if last in GAMMA else "beta" if last in BETA else None
        role = by_name or ("gamma" if parameter.constant == 1 else "beta" if parameter.constant == 0 else None)
        if role:
            roles[role] = tensor.reshape(d_model)
    yield roles


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


def variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """LayerNorm with mistakes switched on."""
    (x,) = inputs
    eps = build[1] if len(build) > 1 else 1e-5
    axes, keep = axes_of(x, slips), "no_keepdim" not in slips
    mean = x.mean(axes, keepdim=keep)
    variance = x.var(axes, keepdim=keep, correction=1 if "unbiased" in slips else 0)
    if "root_mean_square" in slips:
        mean, variance = torch.zeros_like(mean), x.square().mean(axes, keepdim=True)
    if "detached" in slips:
        mean, variance = mean.detach(), variance.detach()
    if "fixed_eps" in slips:
        eps = 1e-5
    elif "other_default" in slips and len(build) == 1:
        eps = 1e-6
    centred = x if "not_centred" in slips else x - mean
    if "not_divided" in slips:
        normalized = centred
    elif "no_root" in slips:
        normalized = centred / (variance + eps)
    elif "eps_outside" in slips:
        normalized = centred / (variance.sqrt() + eps)
    elif "no_eps" in slips:
        normalized = centred / variance.sqrt()
    else:
        normalized = centred / torch.sqrt(variance + eps)
    if "no_affine" in slips:
        return normalized
    if "no_gamma" in slips:
        return normalized + weights["beta"]
    if "no_beta" in slips:
        return weights["gamma"] * normalized
    if "exchanged" in slips:
        return weights["beta"] * normalized + weights["gamma"]
    if "beta_scaled" in slips:
        return weights["gamma"] * (normalized + weights["beta"])
    return weights["gamma"] * normalized + weights["beta"]


def axes_of(x: Tensor, slips: frozenset[str]) -> tuple[int, ...]:
    """The axes that the statistics run over: each token's features, or others by mistake."""
    every = tuple(range(x.dim()))
    others = {
        "over_batch": (0,),
        "over_tokens": (-2,),
        "over_axis_1": (1,),
        "over_tokens_and_features": every[1:],
        "over_last_two": (-2, -1),
        "over_everything": every,
    }
    return next((axes for key, axes in others.items() if key in slips), (-1,))


def stages(build: Build, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    """What every way of writing it passes through."""
    (x,) = inputs
    return {"the centred values": x - x.mean(-1, keepdim=True)}


def _not_registered(seen: Evidence) -> bool:
    return len(seen.parameters) < 2 and len(seen.loose) > 0


def _wrong_start(seen: Evidence) -> bool:
    starts = {p.name.lower(): p.constant for p in seen.parameters}
    return any((name in GAMMA and start != 1) or (name in BETA and start != 0) for name, start in starts.items())


MISTAKES = (
    Mistake(
        "unregistered",
        "γ or β is not a parameter",
        "It is a plain tensor on the module: `parameters()` does not list it, so no optimizer trains it, it is not "
        "saved and it does not move to another device.",
        "Look at how `__init__` stores γ and β, and what makes a tensor a parameter of a module.",
        sign=_not_registered,
        switchable=False,
    ),
    Mistake(
        "start",
        "γ or β starts from the wrong values",
        "A fresh LayerNorm should only normalise: it scales by 1 and shifts by 0 until training changes that.",
        "Look at what `__init__` fills γ and β with.",
        sign=_wrong_start,
        switchable=False,
    ),
    Mistake(
        "overwritten",
        "the caller's tensor is changed",
        "Something is done to x in place: after the call, the caller's tensor holds other values.",
        "Look for `-=`, `/=` or a method whose name ends in an underscore.",
        sign=lambda seen: seen.input_changed,
        switchable=False,
    ),
    Mistake(
        "no_keepdim",
        "the reduced axis is gone",
        "Without its last axis, the mean of shape (batch, tokens) does not line up with x.",
        "Compare the shapes of x and of its mean. What would make the last axis of the mean a 1?",
        "keepdim",
    ),
    Mistake(
        "unbiased",
        "the unbiased variance",
        "The sum of squares is divided by d_model − 1, so every normalised value is too small by the factor "
        "√((d_model − 1)/d_model).",
        "Look at what `var` and `std` divide by unless told otherwise.",
        "variance",
        costs=("values",),
    ),
    Mistake(
        "eps_outside",
        "ε outside the square root",
        "The standard deviation plus ε is used: much the same for ordinary values, far off for small ones.",
        "Look at where ε stands in the definition: what is it added to?",
        "root",
        costs=("small",),
    ),
    Mistake(
        "no_eps",
        "no ε",
        "A token whose features are all equal divides 0 by 0, and tiny values are blown up to size 1.",
        "Look at what the definition adds to the variance.",
        "root",
        costs=("small",),
    ),
    Mistake(
        "no_root",
        "the square root is missing",
        "The centred values are divided by the variance, so the result has variance 1/σ² in place of 1.",
        "Compare the unit of what you divide by with the unit of x.",
        "root",
        costs=("values",),
    ),
    Mistake(
        "not_divided",
        "nothing is divided",
        "The mean is taken off, but the spread stays what it was.",
        "LayerNorm has two steps before the affine map. Where is the second?",
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
        "`LayerNorm(d_model)` uses 1e-6 where the task says 1e-5; it shows for tiny values only.",
        "Compare the signature of your `__init__` with the task's.",
        "eps",
        costs=("small",),
    ),
    Mistake(
        "over_batch",
        "normalised over the batch",
        "The statistics run over axis 0: one sample's result depends on the others, as in batch normalisation.",
        "Look at which axis `mean` and the variance reduce. Whose mean is it?",
        "axis",
        costs=("values", "shapes"),
    ),
    Mistake(
        "over_tokens",
        "normalised over the tokens",
        "The statistics run over the token axis: every feature is normalised along the sequence.",
        "Look at which axis `mean` and the variance reduce. Whose mean is it?",
        "axis",
        also=("over_axis_1",),
        costs=("values", "shapes"),
    ),
    Mistake(
        "over_tokens_and_features",
        "normalised over tokens and features together",
        "All tokens of a sample share one mean and one variance, so tokens leak into each other.",
        "How many means should a sample of three tokens have?",
        "axis",
        also=("over_last_two",),
        costs=("values", "shapes"),
    ),
    Mistake(
        "over_everything",
        "normalised over everything",
        "One mean and one variance serve the whole tensor, so samples leak into each other.",
        "Look at what `mean` reduces when no axis is given.",
        "axis",
        costs=("values", "shapes"),
    ),
    Mistake(
        "root_mean_square",
        "RMSNorm in place of LayerNorm",
        "The values are divided by their root mean square and never centred: a token's level stays in the result.",
        "Add 50 to every feature of a token. What should LayerNorm make of it?",
        "centre",
        costs=("values",),
    ),
    Mistake(
        "not_centred",
        "the mean is not taken off the values",
        "The values are divided by their standard deviation without being centred first.",
        "Look at the numerator of the definition.",
        "centre",
    ),
    Mistake(
        "beta_scaled",
        "β is multiplied by γ",
        "The result is γ (x̂ + β): the shift is scaled too.",
        "Look at the order of scale and shift in the last line.",
        "affine",
        costs=("values",),
    ),
    Mistake(
        "exchanged",
        "γ and β have changed places",
        "The normalised values are multiplied by β and shifted by γ.",
        "Which of the two starts at 1, and why?",
        "affine",
        costs=("values",),
    ),
    Mistake(
        "no_affine",
        "the affine map is missing",
        "The result is the normalised value itself: γ and β are never used.",
        "The definition ends with a scale and a shift.",
        "affine",
    ),
    Mistake(
        "no_gamma",
        "γ is not used",
        "The normalised values are shifted but not scaled.",
        "Follow γ through `forward`.",
        "affine",
        costs=("values",),
    ),
    Mistake(
        "no_beta",
        "β is not used",
        "The normalised values are scaled but not shifted.",
        "Follow β through `forward`.",
        "affine",
        costs=("values",),
    ),
    Mistake(
        "detached",
        "mean and variance are cut off from the gradient",
        "The outputs are right, but backward treats the statistics as constants.",
        "Look for `detach`, `no_grad`, `.data`, `.item()` or NumPy between x and the result.",
        "gradient",
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
            "manners", "γ and β are parameters and start at 1 and 0, x stays untouched, float32 stays float32", 0.1
        ),
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
    roles=lambda build: reading.roles_of(reading.empty(reference.LayerNorm, build)),
    needs=frozenset({"gamma", "beta"}),
    forbidden=frozenset(
        {
            "layer_norm",
            "native_layer_norm",
            "group_norm",
            "native_group_norm",
            "batch_norm",
            "native_batch_norm",
            "instance_norm",
            "rms_norm",
        }
    ),
    forbidden_reason="The task is to write the normalisation yourself, from mean and variance.",
)
