"""What the exercises of lab 7 share: images that are cut into patches, and how they are cut wrongly."""

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes
from autograder.exercise import Case
from autograder.exercises.known import mistake

IMAGE_AXES = (
    Axis("batch", most=4),
    Axis("channels", most=4, build=True),
    Axis("rows", most=4, long=12),
    Axis("columns", most=4, long=12),
    Axis("patch_size", most=4, build=True),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    """A case of `patchify`, of drawn sizes."""
    side = sizes["patch_size"]
    images = rng.normal(size=(sizes["batch"], sizes["channels"], sizes["rows"] * side, sizes["columns"] * side))
    tag = "sides" if sizes["rows"] != sizes["columns"] else "channels" if sizes["channels"] > 1 else "values"
    return Case(tag, "", (images, side))


def count(images: np.ndarray, patch_size: int) -> int:
    """How many patches an image has."""
    return (images.shape[2] // patch_size) * (images.shape[3] // patch_size)


def flat_map(tensor: Tensor, outputs: int) -> Tensor | None:
    """A map as the weight of nn.Linear, (outputs, inputs): a convolution's kernels are flattened, a matrix of the
    student's own may multiply from the right. None: it is no such map."""
    if tensor.dim() < 2:
        return None
    if tensor.size(0) == outputs:
        return tensor.flatten(1)
    return tensor.flatten(0, -2).T if tensor.size(-1) == outputs else None


# How images are cut wrongly, as changes of two steps: the squares, (batch, channels, rows, columns, side, side), and
# the patches that these are flattened to.
CUTTING = (
    mistake(
        "patchify.plain_reshape",
        "Number the pixels and look at patch 0. Which axes have to trade places before the last reshape?",
        change="""
        squares = windows(images, patch_size)
        patches = images.reshape(flat_windows(squares).shape)
        """,
        costs=("values", "channels"),
    ),
    mistake(
        "patchify.strided",
        "Number the pixels of a row. Which of them does patch 0 get, and which should it get?",
        change="squares = windows_in_strides(images, patch_size)",
        costs=("values", "channels"),
    ),
    mistake(
        "patchify.column_major",
        "Which patch comes after the first: the one to its right, or the one below it?",
        change="squares = squares.transpose(2, 3)",
        costs=("values",),
    ),
    mistake(
        "patchify.transposed",
        "Inside a patch, which pixel comes after the first: the one to its right, or the one below it?",
        change="squares = squares.transpose(4, 5)",
        costs=("values",),
    ),
    mistake(
        "patchify.channels_last",
        "Where does the axis of channels stand before the last reshape?",
        change="patches = flat_with_channels_last(squares)",
        costs=("channels",),
    ),
    mistake(
        "patchify.channels_between",
        "Where does the axis of channels stand before the last reshape?",
        change="patches = flat_with_channels_between(squares)",
        costs=("channels",),
    ),
    mistake(
        "patchify.channels_mixed",
        "Which axes does the last reshape merge into one, and which stand beside each other?",
        change="patches = squares.reshape(flat_windows(squares).shape)",
        costs=("channels",),
    ),
    mistake(
        "patchify.channels_apart",
        "How many numbers does one token hold, according to the task?",
        change="patches = flat_channels_apart(squares)",
        costs=("channels", "shape"),
    ),
    mistake(
        "patchify.one_channel",
        "How many numbers does one token hold, according to the task?",
        change="patches = flat_windows(squares[:, :1])",
        costs=("channels", "shape"),
    ),
    mistake(
        "patchify.square_assumed",
        "Which two sizes do the rows and the columns of patches come from?",
        change="""
        n = images.size(2) // patch_size
        squares = images.reshape(*images.shape[:2], n, patch_size, n, patch_size).transpose(3, 4)
        """,
        costs=("sides", "shape"),
    ),
    mistake(
        "patchify.detached",
        "Look for `detach`, `no_grad`, `.data`, `.tolist()` or NumPy between the images and the result.",
        change="squares = squares.detach()",
        costs=("gradients",),
    ),
)
