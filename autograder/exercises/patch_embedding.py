"""PatchEmbedding: one linear map from a patch's pixels to a token (lab 7)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Only, Sizes
from autograder.diagnosis.vocabulary import Bias, flat_windows, linear, windows
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Parameter, Weights
from autograder.exercises import patches as cut
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """As of `patchify`; a token is never as wide as a patch, so that a map has only one way to be read."""

    def case(
        tag: str, shape: tuple[int, ...], patch_size: int, d_model: int, visible: bool = False, **kwargs: Any
    ) -> Case:
        images = np.random.default_rng(7).normal(size=shape) if visible else rng.normal(size=shape)
        label = f"images of shape {shape}, patch_size {patch_size}, d_model {d_model}"
        return Case(tag, label, (images,), (patch_size, shape[1], d_model), visible=visible, **kwargs)

    side, d_model = int(rng.choice([3, 4])), int(rng.choice([5, 6, 7]))
    return [
        case("values", (2, 1, 6, 6), 2, 5, visible=True, differentiate=True),
        case("values", (4, 1, 3 * side, 3 * side), side, d_model, differentiate=True),
        case("values", (1, 1, 3, 3), 3, 5),  # a single patch
        case("channels", (2, 3, 6, 6), 2, 7, visible=True),
        case("channels", (4, 2, 3 * side, 3 * side), side, d_model, differentiate=True),
        case("channels", (3, 2, 4, 4), 4, d_model),  # a single patch of each
        case("sides", (3, 1, 4, 6), 2, 5, visible=True),
        case("sides", (1, 1, 28, 14), 2, 5),  # as wide as the lab's digits, and other patches
        case("contract", (2, 3, 4, 4), 2, 5, dtype="float32"),
    ]


AXES = (
    *cut.IMAGE_AXES,
    Axis("d_model", most=9, build=True),
    # A token is never as wide as a patch, or as one channel of it: a map has one way to be read.
    Only(lambda sizes: sizes["d_model"] not in (1, sizes["patch_size"] ** 2) and sizes["patch_size"] > 1),
    Only(lambda sizes: sizes["d_model"] != sizes["channels"] * sizes["patch_size"] ** 2),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    case = cut.drawn(sizes, rng)
    return replace(case, inputs=case.inputs[:1], build=(sizes["patch_size"], sizes["channels"], sizes["d_model"]))


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The one map, of nn.Linear, a convolution or a bare tensor, and a vector as wide as a token, its bias."""
    d_model, found = build[2], {}
    for _, tensor in parameters.values():
        weight = cut.flat_map(tensor, d_model)
        if tensor.numel() == d_model:
            found.setdefault("bias", tensor.flatten())
        elif weight is not None:
            found.setdefault("weight", weight)
    yield {"bias": reading.numbers("bias", (d_model,))} | found  # the task demands one: none is not as good as zeros


def roles(build: Build) -> reading.Roles:
    patch_size, channels, d_model = build
    found = reading.roles_of(reading.empty(reference.PatchEmbedding, build), demanded=("projection",))
    roles = {name.rpartition(".")[2]: role for name, role in found.items()}
    # What `sides` calls heads are colours here: there may be a map for each of them.
    roles["weight"] = replace(roles["weight"], sides=((d_model,), (channels, patch_size**2)))
    return roles


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    named = {f"projection.{part}": tensor for part, tensor in weights.items()}
    return reading.call(reading.empty(reference.PatchEmbedding, build), named, inputs)


def steps(
    images: Annotated[Tensor, "height width"],
    /,
    patch_size: int,
    channels: int,
    d_model: int,
    *,
    weight: Annotated[Tensor, "", "the map"],
    bias: Annotated[Bias, "", "the bias"],
) -> Tensor:
    """The embedding of patches, step by step."""
    squares = windows(images, patch_size)
    patches = flat_windows(squares)
    tokens = linear(patches, weight, bias)
    return tokens  # mistakes change the tokens, or what is returned of them


def _unregistered(seen: Evidence) -> bool:
    return not seen.mappable and len(seen.loose) > 0


UNREGISTERED = mistake(
    "patch_embedding.unregistered",
    "Count `list(module.parameters())`. What makes a tensor a parameter, and which container knows its layers?",
    sign=_unregistered,
)
ONE_CHANNEL = {"channels_apart", "one_channel"}  # a map for one channel has fewer columns

MISTAKES = (
    UNREGISTERED,
    mistake(
        "patch_embedding.made_anew",
        "Which of the two methods runs once, and which at every call?",
        sign=lambda seen: not seen.parameters and not seen.loose,
    ),
    *(
        replace(m, change=f"{m.change}\nweight = weight[:, : patches.size(2)]") if m.key in ONE_CHANNEL else m
        for m in cut.CUTTING
    ),
    mistake(
        "patch_embedding.no_bias",
        "Count the symbols in the formula, and the parameters of your module. Is each of them used?",
        change="bias = None",
        costs=("values", "gradients"),
    ),
    mistake(
        "patch_embedding.grid_kept",
        "How many axes should the result have, and which of them is the last?",
        change="return tokens.transpose(1, 2).unflatten(2, squares.shape[2:4])",
        costs=("shape", "values"),
    ),
    mistake(
        "patch_embedding.patches_last",
        "Print the shape of what you return. Which of its axes should count the patches?",
        change="return tokens.transpose(1, 2)",
        costs=("shape", "values"),
    ),
    mistake(
        "patch_embedding.grid_reshaped",
        "A convolution puts d_model before rows and columns. Which axes have to trade places?",
        change="return tokens.transpose(1, 2).reshape(tokens.shape)",
        costs=("values", "channels", "sides"),
    ),
    mistake(
        "patch_embedding.overlapping",
        "How far should the window move from one patch to the next?",
        change="squares = images.unfold(2, patch_size, 1).unfold(3, patch_size, 1)",
        costs=("shape", "values", "channels", "sides"),
    ),
)

PATCH_EMBEDDING = Exercise(
    name="PatchEmbedding",
    returns="a tensor of shape (batch, patches, d_model)",
    shape=lambda case: _shape(case.inputs[0], *case.built_with),
    criteria=(
        Criterion("shape", "runs, and the result has the shape (batch, patches, d_model)", 0.1),
        Criterion("values", "grey images: one map with its bias, the same for every patch", 0.4),
        Criterion("channels", "colour images", 0.2),
        Criterion("sides", "images that are taller or wider", 0.1),
        Criterion("gradients", "gradients reach the images and the map", 0.1),
        Criterion("contract", "the map is registered, the images stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    mappings=mappings,
    roles=roles,
    needs=frozenset({"weight"}),
)


def _shape(images: np.ndarray, patch_size: int, channels: int, d_model: int) -> tuple[int, int, int]:
    return len(images), cut.count(images, patch_size), d_model
