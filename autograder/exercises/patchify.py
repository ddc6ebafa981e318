"""patchify: images cut into squares, row by row (lab 7)."""

import math
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.diagnosis.vocabulary import flat_windows, windows
from autograder.exercise import Case, Criterion, Exercise
from autograder.exercises import patches as cut
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Grey and colour, square and not. Pixels of visible cases hold their number, so that they can be followed."""

    def case(tag: str, shape: tuple[int, ...], patch_size: int, visible: bool = False, **kwargs: Any) -> Case:
        images = np.arange(math.prod(shape), dtype=float).reshape(shape) if visible else rng.normal(size=shape)
        label = f"images of shape {shape}, patch_size {patch_size}" + (", pixels numbered" if visible else "")
        return Case(tag, label, (images, patch_size), visible=visible, **kwargs)

    batch, side = int(rng.integers(2, 5)), int(rng.choice([2, 4]))
    return [
        case("values", (2, 1, 6, 6), 2, visible=True, differentiate=True),
        case("values", (batch, 1, 3 * side, 3 * side), side, differentiate=True),
        case("values", (3, 1, 4, 4), 4),
        case("values", (2, 1, 6, 6), 3),  # as large as the first images, and cut otherwise
        case("channels", (1, 2, 6, 6), 3, visible=True),
        case("channels", (batch, 3, 3 * side, 3 * side), side, differentiate=True),
        case("sides", (1, 1, 4, 6), 2, visible=True),
        case("sides", (1, 1, 28, 14), 2),  # as wide as the lab's digits, and other patches
        case("contract", (2, 3, 4, 4), 2, dtype="float32"),
    ]


def steps(images: Annotated[Tensor, "channels height width"], patch_size: int, /) -> Tensor:
    """The cutting of images, step by step."""
    squares = windows(images, patch_size)
    patches = flat_windows(squares)
    return patches  # mistakes change the patches, or what is returned of them


MISTAKES = (
    *cut.CUTTING,
    mistake(
        "patchify.not_flattened",
        "How many axes should the result have?",
        change="return patches.unflatten(2, (-1, patch_size, patch_size))",
        costs=("shape", "values"),
    ),
    mistake(
        "patchify.grid_kept",
        "How many axes should the result have?",
        change="return patches.unflatten(1, squares.shape[2:4])",
        costs=("shape", "values"),
    ),
    mistake(
        "patchify.patches_last",
        "Print the shape of what you return. Which of its axes should count the patches?",
        change="return patches.transpose(1, 2)",
        costs=("shape", "values"),
    ),
    mistake(
        "patchify.patches_first",
        "Print the shape of what you return. Which of its axes should count the images?",
        change="return patches.transpose(0, 1)",
        costs=("shape", "values"),
    ),
)

PATCHIFY = Exercise(
    name="patchify",
    returns="a tensor of shape (batch, patches, channels · patch_size²)",
    shape=lambda case: _shape(*case.inputs),
    criteria=(
        Criterion("shape", "runs, and the result has the shape (batch, patches, channels · patch_size²)", 0.1),
        Criterion("values", "grey images: squares, row by row, and row by row inside", 0.4),
        Criterion("channels", "colour: the whole of one channel, then the next", 0.2),
        Criterion("sides", "images that are not square", 0.1),
        Criterion("gradients", "gradients reach the images", 0.1),
        Criterion("contract", "the images stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=cut.IMAGE_AXES,
    drawn=cut.drawn,
    reference=lambda build, inputs, weights: reference.patchify(*inputs),
    steps=steps,
)


def _shape(images: np.ndarray, patch_size: int) -> tuple[int, int, int]:
    return len(images), cut.count(images, patch_size), images.shape[1] * patch_size**2
