"""Patches, their embedding, a Vision Transformer, and how well it reads digits that it never had (lab 7)."""

import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Derived, Only
from autograder.covering import Sizes as Drawn
from autograder.diagnosis.vocabulary import Bias, flat_windows, linear, windows
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Parameter, Weights
from autograder.exercises.data import unseen_digits
from autograder.reading import Parameters
from headroom import reference
from headroom.mistakes import mistake

# --- patchify ----------------------------------------------------------------------------------------------------


def patchify_cases(rng: np.random.Generator) -> list[Case]:
    """Grey and colour, square and not. Pixels of visible cases hold their number, so that they can be followed."""

    def case(tag: str, shape: tuple[int, ...], patch_size: int, visible: bool = False, **kwargs: Any) -> Case:
        images = np.arange(math.prod(shape), dtype=float).reshape(shape) if visible else rng.normal(size=shape)
        label = f"images of shape {shape}, patch_size {patch_size}" + (", pixels numbered" if visible else "")
        return Case(tag, label, (images, patch_size), visible=visible, **kwargs)

    def sizes(channels: int) -> tuple[tuple[int, ...], int]:
        """A shape with rows ≠ columns of patches, and a patch size different from both."""
        patch_size, rows, columns = (int(n) for n in rng.choice([2, 3, 4, 5], size=3, replace=False))
        return (int(rng.integers(2, 5)), channels, rows * patch_size, columns * patch_size), patch_size

    batch, side = int(rng.integers(2, 5)), int(rng.choice([2, 4]))
    return [
        case("values", (2, 1, 6, 6), 2, visible=True, differentiate=True),
        case("values", (batch, 1, 3 * side, 3 * side), side, differentiate=True),
        case("values", (3, 1, 4, 4), 4),
        case("channels", (1, 2, 6, 6), 3, visible=True),
        case("channels", (batch, 3, 3 * side, 3 * side), side, differentiate=True),
        case("sides", (1, 1, 4, 6), 2, visible=True),
        case("sides", *sizes(1)),
        case("sides", *sizes(3)),
        case("manners", (2, 3, 4, 4), 2, dtype="float32"),
    ]


IMAGE_AXES = (
    Axis("batch", most=4),
    Axis("channels", most=4, build=True),
    Axis("rows", most=4, long=12),
    Axis("columns", most=4, long=12),
    Axis("patch_size", most=4, build=True),
)


def drawn_patches(sizes: Drawn, rng: np.random.Generator) -> Case:
    batch, channels, rows, columns, patch_size = sizes.values()
    images = rng.normal(size=(batch, channels, rows * patch_size, columns * patch_size))
    return Case("sides" if rows != columns else "channels" if channels > 1 else "values", "", (images, patch_size))


def _patches_shape(images: Any, patch_size: int) -> tuple[int, int, int]:
    batch, channels, height, width = images.shape
    return batch, (height // patch_size) * (width // patch_size), channels * patch_size**2


def cut(images: Tensor, patch_size: int, slips: frozenset[str], step: int = 0) -> Tensor:
    """`patchify` with mistakes switched on; windows that start `step` pixels apart, by default a whole patch."""
    if "detached" in slips:
        images = images.detach()
    batch, channels, height, width = images.shape
    columns = (height if "square_assumed" in slips else width) // patch_size
    whole = (batch, height // patch_size * columns, channels * patch_size**2)
    if "plain_reshape" in slips:
        return images.reshape(whole)
    if "strided" in slips:
        x = images.reshape(batch, channels, patch_size, -1, patch_size, columns).permute(0, 1, 3, 5, 2, 4)
    elif "square_assumed" in slips:
        x = images.reshape(batch, channels, columns, patch_size, columns, patch_size).permute(0, 1, 2, 4, 3, 5)
    else:
        x = images.unfold(2, patch_size, step or patch_size).unfold(3, patch_size, step or patch_size)
    # x: (batch, channels, rows, columns, patch_size, patch_size), whichever pixels were taken together
    if "column_major" in slips:
        x = x.transpose(2, 3)
    if "transposed" in slips:
        x = x.transpose(4, 5)
    if "one_channel" in slips:
        x = x[:, :1]
    if "channels_apart" in slips:
        return x.flatten(4).flatten(1, 3)
    if "channels_mixed" in slips:
        return x.reshape(batch, x[0, 0, :, :, 0, 0].numel(), -1)
    place = 5 if "channels_last" in slips else 4 if "channels_between" in slips else 3
    return x.movedim(1, place).flatten(3).flatten(1, 2)


def patchify_steps(images: Annotated[Tensor, "channels height width"], patch_size: int, /) -> Tensor:
    """The cutting of images, step by step."""
    squares = windows(images, patch_size)
    return flat_windows(squares)


def patchify_variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    images, patch_size = inputs
    patches = cut(images, patch_size, slips & CUTTING_KEYS)
    if "not_flattened" in slips:
        pixels = (-1, patch_size, patch_size)
        return patches.unflatten(2, (patch_size, patch_size, -1) if "channels_last" in slips else pixels)
    if "grid_kept" in slips:
        rows, columns = images.size(2) // patch_size, images.size(3) // patch_size
        return patches.unflatten(1, (-1, rows) if "column_major" in slips else (-1, columns))
    if "patches_last" in slips:
        return patches.transpose(1, 2)
    return patches.transpose(0, 1) if "patches_first" in slips else patches


CUTTING = (
    mistake(
        "patchify.plain_reshape",
        "Number the pixels and look at patch 0. Which axes have to trade places before the last reshape?",
        "patches",
        costs=("values", "channels", "sides"),
    ),
    mistake(
        "patchify.strided",
        "In memory, what do you step through first: the pixels of a patch's row, or the patches?",
        "patches",
        costs=("values", "channels", "sides"),
    ),
    mistake(
        "patchify.column_major",
        "In the order of your axes before the last reshape, do rows or columns of patches come first?",
        "order",
        costs=("values",),
    ),
    mistake(
        "patchify.transposed",
        "In the order of your axes before the last reshape, do a patch's own rows or columns come first?",
        "inside",
        costs=("values",),
    ),
    mistake(
        "patchify.channels_last",
        "Where does the axis of channels stand before the last reshape?",
        "channels",
        costs=("channels",),
    ),
    mistake(
        "patchify.channels_between",
        "Where does the axis of channels stand before the last reshape?",
        "channels",
        costs=("channels",),
    ),
    mistake(
        "patchify.channels_mixed",
        "Which axes does the last reshape merge into one, and which stand beside each other?",
        "channels",
        costs=("channels",),
    ),
    mistake(
        "patchify.channels_apart",
        "How many numbers does one token hold, according to the task?",
        "channels",
        costs=("channels", "shape"),
    ),
    mistake(
        "patchify.one_channel",
        "How many numbers does one token hold, according to the task?",
        "channels",
        costs=("channels", "shape"),
    ),
    mistake(
        "patchify.square_assumed",
        "Which two sizes do the rows and the columns of patches come from?",
        "sides",
        costs=("sides", "shape"),
    ),
    mistake(
        "patchify.detached",
        "Look for `detach`, `.data`, `.tolist()`, `torch.tensor(…)` or NumPy between the images and the result.",
        "gradient",
        costs=("gradients",),
    ),
)

CUTTING_KEYS = frozenset(mistake.key for mistake in CUTTING)

PATCHIFY_MISTAKES = (
    *CUTTING,
    mistake(
        "patchify.not_flattened",
        "How many axes should the result have?",
        "form",
        costs=("shape", "values"),
    ),
    mistake(
        "patchify.grid_kept",
        "How many axes should the result have?",
        "form",
        costs=("shape", "values"),
    ),
    mistake(
        "patchify.patches_last",
        "Print the shape of what you return. Which of its axes should count the patches?",
        "form",
        costs=("shape", "values"),
    ),
    mistake(
        "patchify.patches_first",
        "Print the shape of what you return. Which of its axes should count the images?",
        "form",
        costs=("shape", "values"),
    ),
)

PATCHIFY = Exercise(
    name="patchify",
    returns="a tensor of shape (batch, patches, channels · patch_size²)",
    shape=lambda case: _patches_shape(*case.inputs),
    criteria=(
        Criterion("shape", "runs, and the result has the shape (batch, patches, channels · patch_size²)", 0.1),
        Criterion("values", "grey images: squares, row by row, and row by row inside", 0.4),
        Criterion("channels", "colour: the whole of one channel, then the next", 0.2),
        Criterion("sides", "images that are not square", 0.1),
        Criterion("gradients", "gradients reach the images", 0.1),
        Criterion("manners", "the images stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=PATCHIFY_MISTAKES,
    cases=patchify_cases,
    axes=IMAGE_AXES,
    drawn=drawn_patches,
    reference=lambda build, inputs, weights: reference.patchify(*inputs),
    variation=patchify_variation,
    steps=patchify_steps,
)


# --- PatchEmbedding ----------------------------------------------------------------------------------------------


def embedding_cases(rng: np.random.Generator) -> list[Case]:
    """As of `patchify`; a token is never as wide as a patch, so that a map has only one way to be read."""

    def case(
        tag: str, shape: tuple[int, ...], patch_size: int, d_model: int, visible: bool = False, **kwargs: Any
    ) -> Case:
        images = np.random.default_rng(7).normal(size=shape) if visible else rng.normal(size=shape)
        label = f"images of shape {shape}, patch_size {patch_size}, d_model {d_model}"
        return Case(tag, label, (images,), (patch_size, shape[1], d_model), visible=visible, **kwargs)

    side, d_model = int(rng.choice([2, 4])), int(rng.choice([5, 6, 7]))
    return [
        case("values", (2, 1, 6, 6), 2, 5, visible=True, differentiate=True),
        case("values", (4, 1, 3 * side, 3 * side), side, d_model, differentiate=True),
        case("channels", (2, 3, 6, 6), 2, 7, visible=True),
        case("channels", (4, 2, 3 * side, 3 * side), side, d_model, differentiate=True),
        case("sides", (3, 1, 4, 6), 2, 5, visible=True),
        case("sides", (2, 3, 2 * side, 5 * side), side, d_model),
        case("sides", (1, 1, 6, 3), 3, 5),
        case("manners", (2, 3, 4, 4), 2, 5, dtype="float32"),
    ]


EMBEDDING_AXES = (
    *IMAGE_AXES,
    Axis("d_model", most=9, build=True),
    # A token is never as wide as a patch, or as one channel of it: a map has one way to be read.
    Only(lambda sizes: sizes["d_model"] not in (1, sizes["patch_size"] ** 2) and sizes["patch_size"] > 1),
    Only(lambda sizes: sizes["d_model"] != sizes["channels"] * sizes["patch_size"] ** 2),
)


def drawn_embedding(sizes: Drawn, rng: np.random.Generator) -> Case:
    case = drawn_patches({name: sizes[name] for name in list(sizes)[:-1]}, rng)
    return replace(case, inputs=case.inputs[:1], build=(sizes["patch_size"], sizes["channels"], sizes["d_model"]))


def _flat_map(tensor: Tensor, outputs: int) -> Tensor | None:
    """A map as the weight of nn.Linear, (outputs, inputs): a convolution's kernels are flattened, a matrix of the
    student's own may multiply from the right. None: it is no such map."""
    if tensor.dim() < 2:
        return None
    if tensor.size(0) == outputs:
        return tensor.flatten(1)
    return tensor.flatten(0, -2).T if tensor.size(-1) == outputs else None


def embedding_mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The one map, of nn.Linear, a convolution or a bare tensor, and a vector as wide as a token, its bias."""
    d_model, roles = build[2], {}
    for _, tensor in parameters.values():
        weight = _flat_map(tensor, d_model)
        if tensor.numel() == d_model:
            roles.setdefault("bias", tensor.flatten())
        elif weight is not None:
            roles.setdefault("weight", weight)
    yield {"bias": reading.numbers("bias", (d_model,))} | roles  # the task demands one: none is not as good as zeros


def embedding_roles(build: Build) -> reading.Roles:
    found = reading.roles_of(reading.empty(reference.PatchEmbedding, build), demanded=("projection",))
    return {name.rpartition(".")[2]: role for name, role in found.items()}


def embedding_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    named = {f"projection.{part}": tensor for part, tensor in weights.items()}
    return reading.call(reading.empty(reference.PatchEmbedding, build), named, inputs)


def embedding_steps(
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
    return linear(patches, weight, bias)


def embedding_variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """`PatchEmbedding` with mistakes switched on."""
    (images,), (patch_size, _, d_model) = inputs, build
    patches = cut(images, patch_size, slips & CUTTING_KEYS, 1 if "overlapping" in slips else 0)
    tokens = patches @ weights["weight"][:, : patches.size(2)].T  # a map for one channel has fewer columns
    if "no_bias" not in slips:
        tokens = tokens + weights.get("bias", 0.0)
    grid = tokens.transpose(1, 2)  # (batch, d_model, patches), as a convolution leaves it
    if "patches_last" in slips:
        return grid
    if "grid_kept" in slips:
        columns = images.size(3) - patch_size + 1 if "overlapping" in slips else images.size(3) // patch_size
        return grid.unflatten(2, (-1, columns))
    if "grid_reshaped" in slips:
        return grid.reshape(len(images), -1, d_model)
    return tokens


UNREGISTERED = mistake(
    "patch_embedding.unregistered",
    "Count `list(module.parameters())`. What makes a tensor a parameter, and which container knows its layers?",
    sign=lambda seen: not seen.mappable and len(seen.loose) > 0,
)

EMBEDDING_MISTAKES = (
    UNREGISTERED,
    mistake(
        "patch_embedding.made_anew",
        "Which of the two methods runs once, and which at every call?",
        sign=lambda seen: not seen.parameters and not seen.loose,
    ),
    *CUTTING,
    mistake(
        "patch_embedding.no_bias",
        "Count the symbols in the formula, and the parameters of your module. Is each of them used?",
        "bias",
        costs=("values", "gradients"),
    ),
    mistake(
        "patch_embedding.grid_kept",
        "How many axes should the result have, and which of them is the last?",
        "form",
        costs=("shape", "values"),
    ),
    mistake(
        "patch_embedding.patches_last",
        "Print the shape of what you return. Which of its axes should count the patches?",
        "form",
        costs=("shape", "values"),
    ),
    mistake(
        "patch_embedding.grid_reshaped",
        "A convolution puts d_model before rows and columns. Which axes have to trade places?",
        "form",
        costs=("values", "channels", "sides"),
    ),
    mistake(
        "patch_embedding.overlapping",
        "How far should the window move from one patch to the next?",
        "patches",
        costs=("shape", "values", "channels", "sides"),
    ),
)

PATCH_EMBEDDING = Exercise(
    name="PatchEmbedding",
    returns="a tensor of shape (batch, patches, d_model)",
    shape=lambda case: (*_patches_shape(case.inputs[0], case.built_with[0])[:2], case.built_with[2]),
    criteria=(
        Criterion("shape", "runs, and the result has the shape (batch, patches, d_model)", 0.1),
        Criterion("values", "grey images: one map with its bias, the same for every patch", 0.4),
        Criterion("channels", "colour images", 0.2),
        Criterion("sides", "images that are higher or wider", 0.1),
        Criterion("gradients", "gradients reach the images and the map", 0.1),
        Criterion("manners", "the map is registered, the images stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=EMBEDDING_MISTAKES,
    cases=embedding_cases,
    axes=EMBEDDING_AXES,
    drawn=drawn_embedding,
    reference=embedding_answer,
    variation=embedding_variation,
    steps=embedding_steps,
    mappings=embedding_mappings,
    roles=embedding_roles,
    needs=frozenset({"weight"}),
)


# --- ViT ---------------------------------------------------------------------------------------------------------

# image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff
Sizes = tuple[int, int, int, int, int, int, int, int]


def vit_cases(rng: np.random.Generator) -> list[Case]:
    """One block where it is enough. All widths of a model differ, so that a parameter has one way to be read."""

    def case(tag: str, batch: int, build: Sizes, visible: bool = False, **kwargs: Any) -> Case:
        image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff = build
        source = np.random.default_rng(7) if visible else rng
        images = source.normal(size=(batch, channels, image_size, image_size))
        label = (
            f"images of shape {images.shape}, patch_size {patch_size}, {n_classes} classes, d_model {d_model}, "
            f"{n_layers} block{'s' * (n_layers > 1)}, {n_heads} heads, d_ff {d_ff}"
        )
        return Case(tag, label, (images,), build, visible=visible, **kwargs)

    n_classes = int(rng.choice([6, 7, 11]))
    return [
        case("values", 2, (6, 3, 1, 7, 8, 1, 2, 20), visible=True, differentiate=True),
        case("values", 3, (6, 3, 1, n_classes, 12, 1, 3, 18), differentiate=True),
        case("depth", 2, (6, 3, 1, 7, 8, 3, 2, 20), visible=True),
        case("depth", 3, (6, 2, 1, n_classes, 8, 2, 4, 14), differentiate=True),
        case("sizes", 2, (4, 2, 3, 3, 8, 1, 2, 22), visible=True),
        case("sizes", 1, (6, 2, 3, n_classes, 15, 1, 5, 24)),
        case("manners", 2, (6, 3, 1, 7, 8, 2, 2, 20), dtype="float32"),
    ]


# All widths of a model differ, and no product is another: a parameter has one way to be read.
VIT_AXES = (
    Axis("batch", most=4),
    Axis("side", least=2, most=3, build=True),
    Axis("patch_size", most=3, build=True),
    Axis("channels", most=3, build=True),
    Axis("n_classes", least=2, most=11, build=True),
    Axis("n_layers", most=2, build=True),
    Axis("n_heads", most=4, build=True),
    Axis("d_head", least=2, most=4, build=True),
    Axis("d_ff", least=14, most=24, build=True),
    Derived("d_model", lambda sizes: sizes["n_heads"] * sizes["d_head"], build=True),
    Derived("patch", lambda sizes: sizes["channels"] * sizes["patch_size"] ** 2, build=True),
    Derived("places", lambda sizes: sizes["side"] ** 2 + 1, build=True),
    Only(lambda sizes: sizes["patch"] != sizes["places"] - 1),
    Only(lambda sizes: len({sizes[name] for name in ("n_classes", "d_ff", "d_model", "patch", "places")}) == 5),
    Only(lambda sizes: sizes["d_ff"] % sizes["d_model"] != 0 and sizes["d_model"] > 3 and sizes["patch"] > 1),
)


def drawn_vit(sizes: Drawn, rng: np.random.Generator) -> Case:
    batch, side, patch_size, channels, n_classes, n_layers, n_heads, _, d_ff, d_model, _, _ = sizes.values()
    images = rng.normal(size=(batch, channels, side * patch_size, side * patch_size))
    build = (side * patch_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff)
    return Case("depth" if n_layers > 1 else "sizes", "", (images,), build)


class _Left:
    """The student's parameters that have no role yet."""

    def __init__(self, parameters: Parameters):
        self.parameters = dict(parameters)

    def map(self, role: str, rows: int, columns: int) -> Weights:
        """A map with so many outputs and inputs, and the bias that stands beside it."""
        for name, (_, tensor) in self.parameters.items():
            owner = name.rpartition(".")[0]
            matrix = _flat_map(tensor, rows)
            if matrix is None or matrix.size(1) != columns:
                continue
            del self.parameters[name]
            biases = [
                other
                for other, (_, vector) in self.parameters.items()
                if other.rpartition(".")[0] == owner and vector.shape == (rows,)
            ]
            if owner == "":  # bare tensors of the model itself: a vector that says that it is this map's bias
                stem = re.sub(r"(w|weights?|matrix)$", "", name.lower()).rstrip("_")
                biases = [other for other in biases if stem in other.lower() and "b" in other.lower()[len(stem) :]]
            found = {f"{role}.weight": matrix}
            return found | ({f"{role}.bias": self.parameters.pop(biases[0])[1]} if biases else {})
        return {}

    def tokens(self, role: str, counts: tuple[int, ...], d_model: int, words: str, named: bool = False) -> Weights:
        """A bare tensor or an nn.Embedding that holds so many tokens, first one whose name has one of the words."""
        fits = [
            name
            for name, (_, tensor) in self.parameters.items()
            if tensor.dim() and tensor.size(-1) == d_model and tensor.numel() // d_model in counts and self._bare(name)
        ]
        fits.sort(key=lambda name: re.search(words, name.lower()) is None)  # stable
        if not fits or (named and not re.search(words, fits[0].lower())):
            return {}
        return {role: self.parameters.pop(fits[0])[1].reshape(-1, d_model)}

    def _bare(self, name: str) -> bool:
        """Whether it is no part of a linear map or a norm."""
        owner, _, leaf = name.rpartition(".")
        if leaf in ("weight", "gamma") and {f"{owner}.bias", f"{owner}.beta"} & self.parameters.keys():
            return False
        return self.parameters[name][1].dim() > 1 or owner == ""

    def wide_norm(self, d_model: int) -> Weights:
        """A norm whose scale and shift have an entry for every token: it was made for (tokens, d_model)."""
        for name, (_, scale) in list(self.parameters.items()):
            owner, _, leaf = name.rpartition(".")
            shift = {"weight": f"{owner}.bias", "gamma": f"{owner}.beta"}.get(leaf)
            if shift in self.parameters and scale.dim() == 2 and self.parameters[shift][1].shape == scale.shape:
                del self.parameters[name]
                return {"encoder.norm.gamma": scale, "encoder.norm.beta": self.parameters.pop(shift)[1]}
        return {}


MAX_ENCODERS = 12  # ways to read what is left as an encoder


def vit_mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Sizes) -> Iterator[Weights]:
    """The embedding, the head, [class] and positions by their shapes and names; what is left is the encoder."""
    image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, _ = build
    n_patches, left = (image_size // patch_size) ** 2, _Left(parameters)
    roles = left.map("embed.projection", d_model, channels * patch_size**2)
    roles |= left.map("head", n_classes, d_model)
    where = r"pos|place|where"
    roles |= left.tokens("positions.table", (n_patches + 1, n_patches), d_model, where) or left.tokens(
        "positions.table", (1,), d_model, where, named=True
    )
    demanded = {"embed.projection.bias": d_model, "head.bias": n_classes}
    roles = {role: reading.numbers(role, (size,)) for role, size in demanded.items()} | roles
    roles |= left.tokens("class_token", (1,), d_model, r"cls|class|tok")
    if "class_token" in roles:
        roles["class_token"] = roles["class_token"][None]  # (1, 1, d_model)
    roles |= left.wide_norm(d_model)

    found = reading.units(left.parameters, d_model, n_heads)
    kinds = {kind: reading.of_kind(found, kind) for kind in ("attention", "norm", "feed_forward")}
    layers = min(n_layers, len(kinds["attention"])) or n_layers  # fewer, where a block is used more than once
    orders = partial(reading.orders, layers=layers, among=found, stack="encoder.blocks")
    last = None if "encoder.norm.gamma" in roles else "encoder.norm"
    ways = itertools.product(
        orders(kinds["attention"], ("attention",)),
        orders(kinds["norm"], ("norm_1", "norm_2"), last=last),
        orders(kinds["feed_forward"], ("feed_forward",)),
    )
    for attention, norms, feed_forward in itertools.islice(ways, MAX_ENCODERS):
        yield roles | reading.named(attention | norms | feed_forward)


def vit_answer(build: Sizes, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.ViT, build), weights, inputs)


def vit_variation(build: Sizes, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """A ViT with mistakes switched on."""
    x = _tokens(build, inputs[0], weights, slips)
    x = _encoded(build, x, weights, slips)
    if "no_last_norm" not in slips:
        axes = (1, 2) if "over_tokens_and_features" in slips else (2,)
        x = _normalized(x, weights, "encoder.norm", axes)
    if "reads_last" in slips or "class_last" in slips:
        x = x[:, -1]
    elif "mean_pooled" in slips:
        x = x.mean(1)
    elif "mean_of_patches" in slips:
        x = x[:, 1:].mean(1)
    elif "all_tokens" not in slips:
        x = x[:, 0]
    logits = _mapped(x, weights, "head", "no_head_bias" in slips)
    return logits.softmax(-1) if "softmax" in slips else logits.log_softmax(-1) if "log_softmax" in slips else logits


def _tokens(build: Sizes, images: Tensor, weights: Weights, slips: frozenset[str]) -> Tensor:
    """What enters the first block."""
    x = _mapped(cut(images, build[1], slips & CUTTING_KEYS), weights, "embed.projection", "no_embedding_bias" in slips)
    table = torch.zeros(1) if "no_positions" in slips else weights["positions.table"]
    if len(table) == 1 and not slips & {"no_positions", "one_position"}:
        raise ValueError("one row stands for all tokens")
    if "one_position" in slips:
        table = table[:1]
    elif "by_batch" in slips:
        table = table[: len(x), None]
    if "class_without_position" in slips:
        x = x + table[: x.size(1)]
    elif "class_without_first_position" in slips:
        x = x + table[1:]
    if "no_class_token" not in slips:
        constant = "class_constant" in slips
        token = torch.zeros_like(x[:, :1]) if constant else weights["class_token"].expand(len(x), 1, -1)
        x = torch.cat([x, token] if slips & {"class_at_the_end", "class_last"} else [token, x], dim=1)
    if slips & {"class_without_position", "class_without_first_position"}:
        return x
    if slips & {"no_positions", "one_position", "by_batch"}:
        return x + table
    return x + table[: x.size(1)] if "no_class_token" in slips else x + table


def _encoded(build: Sizes, x: Tensor, weights: Weights, slips: frozenset[str]) -> Tensor:
    """What leaves the last block."""
    n_layers, n_heads = build[5:7]
    layers = [0] * n_layers if "repeated_block" in slips else range(n_layers)
    if "encoder_skipped" in slips:
        layers = ()
    elif "first_block_only" in slips:
        layers = (0,)
    entered = x
    for layer in layers:
        x = _block(entered if "not_chained" in slips else x, weights, f"encoder.blocks.{layer}", n_heads)
    return x


def _block(x: Tensor, weights: Weights, name: str, n_heads: int) -> Tensor:
    """The block that is given."""
    read = _normalized(x, weights, f"{name}.norm_1", (2,))
    q, k, v = (
        _mapped(read, weights, f"{name}.attention.w_{role}").unflatten(-1, (n_heads, -1)).transpose(1, 2)
        for role in "qkv"
    )
    heads = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1) @ v
    x = x + _mapped(heads.transpose(1, 2).flatten(2), weights, f"{name}.attention.w_o")
    wide = _mapped(_normalized(x, weights, f"{name}.norm_2", (2,)), weights, f"{name}.feed_forward.expand")
    return x + _mapped(torch.nn.functional.gelu(wide), weights, f"{name}.feed_forward.shrink")


def _mapped(x: Tensor, weights: Weights, name: str, unbiased: bool = False) -> Tensor:
    return x @ weights[f"{name}.weight"].T + (0.0 if unbiased else weights.get(f"{name}.bias", 0.0))


def _normalized(x: Tensor, weights: Weights, name: str, axes: tuple[int, ...]) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    normalized = centred / torch.sqrt(centred.square().mean(axes, keepdim=True) + 1e-5)
    return weights[f"{name}.gamma"] * normalized + weights[f"{name}.beta"]


def vit_stages(build: Sizes, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    right = frozenset[str]()
    patches = reference.patchify(inputs[0], build[1])
    stages = {"the embedded patches": _mapped(patches, weights, "embed.projection")}
    token = weights["class_token"].expand(len(inputs[0]), 1, -1)
    stages["the tokens with [class] in front"] = torch.cat([token, stages["the embedded patches"]], dim=1)
    x = stages["the tokens with their positions"] = _tokens(build, inputs[0], weights, right)
    for layer in range(build[5]):
        x = _block(x, weights, f"encoder.blocks.{layer}", build[6])
        stages[f"what block {layer + 1} returns" if build[5] > 1 else "what the block returns"] = x
    stages["the logits"] = vit_variation(build, inputs, weights, right)
    return stages


def _hard_coded(seen: Evidence) -> bool:
    """Whether a parameter has a size of the model for the course's digits, and none that this model has."""
    image_size, patch_size, channels, n_classes, d_model, _, _, d_ff = seen.cases[0].built_with
    tokens = (image_size // patch_size) ** 2 + 1
    own = {tokens, tokens - 1, n_classes, d_model, 3 * d_model, d_ff, patch_size, channels, channels * patch_size**2, 1}
    of_digits = {17, 16, 10, 64, 128, 49, 7}
    return not seen.mappable and any(set(p.shape) & (of_digits - own) for p in seen.parameters)


VIT_MISTAKES = (
    UNREGISTERED,
    mistake(
        "vit.frozen",
        "Which of the tensors that you made are to be learned? Look for `requires_grad=False`.",
        sign=lambda seen: any(not parameter.trained for parameter in seen.parameters),
    ),
    mistake(
        "vit.not_expanded",
        "Which method repeats a tensor along an axis of size 1, without copying it?",
        sign=lambda seen: any("must match except in dimension" in error for error in seen.errors),
    ),
    mistake(
        "vit.hard_coded",
        "Compare the shapes of your parameters with the arguments of `__init__`. How many patches has another image?",
        sign=_hard_coded,
    ),
    mistake(
        "vit.no_embedding_bias",
        "Count the symbols in the formula, and the parameters of your module. Is each of them used?",
        "bias",
        also=("no_head_bias",),
        costs=("values", "gradients"),
    ),
    mistake(
        "vit.no_class_token",
        "How many tokens should enter the first block?",
        "class",
        costs=("values", "depth"),
    ),
    mistake(
        "vit.class_at_the_end",
        "Look at the order in which the two are put together.",
        "class",
        costs=("values", "depth"),
    ),
    mistake(
        "vit.class_last",
        "Look at the order in which the two are put together.",
        "class",
        costs=("values",),
    ),
    mistake(
        "vit.class_constant",
        "What makes a tensor a parameter of a module? Is it that tensor that you put in front?",
        "class",
        costs=("values", "gradients", "manners"),
    ),
    mistake(
        "vit.no_positions",
        "Follow the table of positions through `forward`. Is the sum assigned?",
        "positions",
        costs=("values", "gradients"),
    ),
    mistake(
        "vit.class_without_position",
        "What comes first: to prepend or to add? How many rows should the table have?",
        "positions",
        also=("class_without_first_position",),
        costs=("values", "gradients"),
    ),
    mistake(
        "vit.by_batch",
        "Which axis of the tokens is the table laid along?",
        "positions",
        costs=("values", "depth", "sizes"),
    ),
    mistake(
        "vit.one_position",
        "How many rows does your table have, and how many are used?",
        "positions",
        costs=("values", "gradients"),
    ),
    *(
        replace(mistake, costs=("sizes",) if "channels" in mistake.costs[:1] else mistake.costs[:1])
        for mistake in CUTTING
        if mistake.key not in ("channels_apart", "one_channel", "square_assumed")
    ),
    mistake(
        "vit.encoder_skipped",
        "Follow x through the loop over the blocks.",
        "blocks",
    ),
    mistake(
        "vit.repeated_block",
        "How often is a block made? Multiplying a list copies no module.",
        "blocks",
        costs=("depth", "manners"),
    ),
    mistake(
        "vit.not_chained",
        "Follow x through the loop over the blocks: what does the second one read?",
        "blocks",
        costs=("depth",),
    ),
    mistake(
        "vit.first_block_only",
        "Look at what happens in the loop over the blocks, and when it ends.",
        "blocks",
        costs=("depth",),
    ),
    mistake(
        "vit.no_last_norm",
        "What stands between the last block and the head?",
        "norm",
        costs=("values", "gradients"),
    ),
    mistake(
        "vit.over_tokens_and_features",
        "Over which axes does the last norm take its mean? Each token minds its own business.",
        "norm",
        costs=("values",),
    ),
    mistake(
        "vit.reads_last",
        "Which token does the head read? Count from the front.",
        "pool",
        costs=("values",),
    ),
    mistake(
        "vit.mean_pooled",
        "What does the head read, according to the task?",
        "pool",
        costs=("values",),
    ),
    mistake(
        "vit.mean_of_patches",
        "What does the head read, according to the task?",
        "pool",
        costs=("values",),
    ),
    mistake(
        "vit.all_tokens",
        "An image needs one answer. Which token gives it?",
        "pool",
        costs=("shape", "values"),
    ),
    mistake(
        "vit.softmax",
        "What does the head return, and what do you do to it?",
        "head",
        also=("log_softmax",),
        costs=("values",),
    ),
)

VIT = Exercise(
    name="ViT",
    returns="a tensor of logits, (batch, n_classes)",
    shape=lambda case: (len(case.inputs[0]), case.built_with[3]),
    criteria=(
        Criterion("shape", "runs, and the result has the shape (batch, n_classes)", 0.1),
        Criterion("values", "patches, [class], positions, a block, the norm, the head", 0.4),
        Criterion("depth", "several blocks, one after the other", 0.1),
        Criterion("sizes", "colour, and any sizes", 0.2),
        Criterion("gradients", "gradients reach the images and all parameters", 0.1),
        Criterion("manners", "all is registered and learned, the images stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=VIT_MISTAKES,
    cases=vit_cases,
    axes=VIT_AXES,
    drawn=drawn_vit,
    reference=vit_answer,
    variation=vit_variation,
    mappings=vit_mappings,
    roles=lambda build: reading.roles_of(reading.empty(reference.ViT, build), build[6], ("projection", "head")),
    needs=frozenset({"embed.projection.weight", "class_token", "positions.table", "head.weight"}),
    stages=vit_stages,
)


# --- classify ----------------------------------------------------------------------------------------------------

DRAWN = 900  # of the judge's 1,000 digits: so many that the draw moves the accuracy by a few tenths of a point
MOVES = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1))


def classify_cases(rng: np.random.Generator) -> list[Case]:
    """A single digit, then all others that were drawn. Each is paler by an amount of its own, so that none can be
    looked up; four in five stand a pixel beside their place, the same ones at every check, so that no luck is in it."""
    images, labels = unseen_digits()
    images = np.stack([np.roll(image, MOVES[i % len(MOVES)], (0, 1)) for i, image in enumerate(images)])
    chosen = rng.choice(len(images), DRAWN, replace=False)
    images = images[chosen] * rng.uniform(0.85, 1.0, (DRAWN, 1, 1)).astype(np.float32)
    labels = labels[chosen]
    return [
        Case("ninety", f"{len(part)} digits", (images[part],), dtype="float32", answer=labels[part])
        for part in (np.arange(1), np.arange(1, DRAWN))
    ]


def _read_right(cases: tuple[Case, ...], outputs: tuple[np.ndarray | None, ...]) -> tuple[int, str]:
    """How many digits are read right, and a sentence that says what stands out where they are few."""
    labels = np.concatenate([case.answer for case in cases])
    if any(o is None or o.shape != (len(c.answer), 10) for c, o in zip(cases, outputs, strict=True)):
        return 0, "there are no logits of ten classes for every digit"
    logits = np.concatenate([np.asarray(output, dtype=float) for output in outputs])
    if not np.isfinite(logits).all():
        return 0, "the logits hold NaN or infinity"
    read = logits.argmax(1)
    right = int((read == labels).sum())
    said = f"{1000 * right // len(labels) / 10:.1f} % of {len(labels)} digits are read right"  # never rounded up
    if len(set(read.tolist())) == 1:
        return right, f"{said}: every digit is called a {read[0]}"
    off = next((k for k in range(1, 10) if ((read - k) % 10 == labels).mean() > 0.5), None)
    if off is not None:
        return right, f"{said}: a 0 is called a {off}, so the logits do not stand in the order of the labels"
    if (logits.argmin(1) == labels).mean() > 0.5:
        return right, f"{said}, and most have their lowest logit at the right class"
    if right < 0.2 * len(labels):
        return right, f"{said}, which is guessing: was this model trained, and to the end?"
    return right, said


LEVELS = (90, 95, 97)


def _at_least(percent: int) -> Callable[[tuple[Case, ...], tuple[Any, ...]], tuple[bool, str]]:
    def measure(cases: tuple[Case, ...], outputs: tuple[Any, ...]) -> tuple[bool, str]:
        right, said = _read_right(cases, outputs)
        holds = 100 * right >= percent * DRAWN
        return holds, said if percent == LEVELS[0] or not holds else ""

    return measure


CLASSIFY = Exercise(
    name="classify",
    returns="a tensor of logits, (batch, 10)",
    shape=lambda case: (len(case.answer), 10),
    criteria=(
        Criterion("shape", "runs, and the result has the shape (batch, 10)", 0.1),
        Criterion("ninety", f"reads at least {LEVELS[0]} % of the judge's digits", 0.4, _at_least(LEVELS[0])),
        Criterion("ninety_five", f"reads at least {LEVELS[1]} % of them", 0.3, _at_least(LEVELS[1])),
        Criterion("ninety_seven", f"reads at least {LEVELS[2]} % of them", 0.2, _at_least(LEVELS[2])),
    ),
    mistakes=(),
    cases=classify_cases,
    reference=None,
    variation=None,
    seconds=30.0,
)
