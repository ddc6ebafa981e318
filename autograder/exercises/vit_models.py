"""The models that a ViT is tried as, and how a student's is read: its embedding, [class], positions, blocks, head."""

import itertools
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import reading
from autograder.covering import Axis, Derived, Only
from autograder.covering import Sizes as Drawn
from autograder.exercise import Case, Parameter, Weights
from autograder.exercises.patches import flat_map
from autograder.reading import Parameters

WHERE = r"pos|place|where"  # what a table of positions is called
# image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff
Sizes = tuple[int, int, int, int, int, int, int, int]


def cases(rng: np.random.Generator) -> list[Case]:
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
        case("contract", 2, (6, 3, 1, 7, 8, 2, 2, 20), dtype="float32"),
    ]


# All widths of a model differ, and no product is another: a parameter has one way to be read. None is 2, the number of
# rows of [class] and its place in one tensor.
AXES = (
    Axis("batch", most=4),
    Axis("side", least=2, most=3, build=True),
    Axis("patch_size", most=3, build=True),
    Axis("channels", most=3, build=True),
    Axis("n_classes", least=3, most=11, build=True),
    Axis("n_layers", most=2, long=5, build=True),
    Axis("n_heads", most=4, long=9, build=True),
    Axis("d_head", least=2, most=4, build=True),
    Axis("d_ff", least=14, most=24, build=True),
    Derived("d_model", lambda sizes: sizes["n_heads"] * sizes["d_head"], build=True),
    Derived("patch", lambda sizes: sizes["channels"] * sizes["patch_size"] ** 2, build=True),
    Derived("places", lambda sizes: sizes["side"] ** 2 + 1, build=True),
    Only(lambda sizes: sizes["places"] - 1 not in (sizes["patch"], sizes["n_classes"])),
    Only(lambda sizes: len({sizes[name] for name in ("n_classes", "d_ff", "d_model", "patch", "places")}) == 5),
    Only(lambda sizes: sizes["d_ff"] % sizes["d_model"] != 0 and sizes["d_model"] > 3 and sizes["patch"] > 2),
)


def drawn(sizes: Drawn, rng: np.random.Generator) -> Case:
    batch, side, patch_size, channels, n_classes, n_layers, n_heads, _, d_ff, d_model, _, _ = sizes.values()
    images = rng.normal(size=(batch, channels, side * patch_size, side * patch_size))
    build = (side * patch_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff)
    return Case("depth" if n_layers > 1 else "sizes", "", (images,), build)


# --- Reading a student's parameters ------------------------------------------------------------------------------


class _Left:
    """The student's parameters that have no role yet."""

    def __init__(self, parameters: Parameters):
        self.parameters = dict(parameters)

    def map(self, role: str, rows: int, columns: int) -> Weights:
        """A map with so many outputs and inputs, and the bias that stands beside it."""
        for name, (_, tensor) in self.parameters.items():
            owner = name.rpartition(".")[0]
            matrix = flat_map(tensor, rows)
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

    def rows(self, count: int, d_model: int) -> int:
        """How many bare tensors hold so many tokens."""
        own = (name for name in self.parameters if self._bare(name))
        return sum(
            self.parameters[name][1].shape[-1:] == (d_model,) and self.parameters[name][1].numel() == count * d_model
            for name in own
        )

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


def _with_rows(
    parameters: dict[str, tuple[Parameter, Tensor]], d_model: int, n_patches: int
) -> dict[str, tuple[Parameter, Tensor]]:
    """The parameters, with tensors of tokens as rows of length d_model, however the model keeps them.

    A list of vectors becomes a table; an axis of the features that is not the last does; [class] and its place, which
    are only ever added to each other, become two rows.
    """
    counts, found, lists = (n_patches, n_patches + 1), dict(parameters), dict[str, list[str]]()
    for name, (parameter, tensor) in parameters.items():
        if tensor.shape == (d_model,) and parameter.constant != 1 and re.search(r"\.\d+$", name):
            lists.setdefault(name.rpartition(".")[0], []).append(name)
        axes = [axis for axis, size in enumerate(tensor.shape) if size == d_model]
        if tensor.dim() > 1 and len(axes) == 1 and tensor.numel() // d_model in counts:
            found[name] = parameter, tensor.movedim(axes[0], -1)
        elif tensor.shape == (2, d_model):
            del found[name]
            found |= {
                f"{name}.{what}": (parameter, row)
                for what, row in zip(("class", "place"), tensor[:, None], strict=True)
            }
    for name, names in lists.items():
        if len(names) in counts and re.search(WHERE, name.lower()):
            table = torch.stack([found.pop(one)[1] for one in names])
            found[name] = parameters[names[0]][0], table
    return found


MAX_ENCODERS = 12  # ways to read what is left as an encoder


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Sizes) -> Iterator[Weights]:
    """The embedding, the head, [class] and positions by their shapes and names; what is left is the encoder."""
    image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, _ = build
    n_patches, left = (image_size // patch_size) ** 2, _Left(parameters)
    roles = left.map("embed.projection", d_model, channels * patch_size**2)
    roles |= left.map("head", n_classes, d_model)
    left.parameters = _with_rows(left.parameters, d_model, n_patches)
    roles |= left.tokens("positions.table", (n_patches + 1, n_patches), d_model, WHERE) or left.tokens(
        "positions.table", (1,), d_model, WHERE, named=True
    )
    if "positions.table" in roles and len(roles["positions.table"]) == n_patches and left.rows(1, d_model) > 1:
        own = left.tokens("first", (1,), d_model, WHERE, named=True)  # the place of [class] has a table of its own
        roles["positions.table"] = torch.cat([*own.values(), roles["positions.table"]])
    roles |= left.tokens("class_token", (1,), d_model, r"cls|class|tok")
    if "class_token" in roles:
        roles["class_token"] = roles["class_token"][None]  # (1, 1, d_model)
    if "embed.projection.bias" not in roles:
        of_model = left.tokens("embed.projection.bias", (1,), d_model, "^[^.]*$", named=True)
        roles |= {role: row[0] for role, row in of_model.items()}
    demanded = {"embed.projection.bias": d_model, "head.bias": n_classes}
    roles = {role: reading.numbers(role, (size,)) for role, size in demanded.items()} | roles
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
