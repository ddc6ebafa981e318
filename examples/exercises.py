"""The exercises of this course: two with the mistakes that people make, and one private question without a list."""

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Only, Sizes
from autograder.diagnosis.vocabulary import mean, square, total
from autograder.diagnosis.vocabulary.axes import largest
from autograder.diagnosis.vocabulary.numbers import exp
from autograder.exercise import Case, Criterion, Exercise, Mistake, Property, in_numpy
from autograder.quick import question

CONTRACT = Criterion("contract", "the arguments stay as they are, and the same call gives the same result", 0.1)


# --- Lab 1: the softmax --------------------------------------------------------------------------------------------


def softmax_cases(rng: np.random.Generator) -> list[Case]:
    return [
        Case("values", "x of shape (2, 3)", (np.array([[0.0, 1.0, 2.0], [3.0, 3.0, -1.0]]),), visible=True),
        Case("large", "values of 10,000", (np.array([[1e4, 1e4 - 1.0], [0.0, -1e4]]),), visible=True),
        Case("values", "four axes", (rng.normal(size=(2, 3, 4, 5)),)),
    ]


def softmax_drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    return Case("values", "", (rng.normal(size=tuple(sizes.values())),))


def softmax(x: Tensor, /) -> Tensor:
    """The right answer, step by step; a mistake below says which step is written otherwise."""
    shifted_values = x - largest(x, -1)
    powers = exp(shifted_values)
    return powers / total(powers, -1)


SOFTMAX = Exercise(
    name="softmax",
    returns="an array of the shape of x",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "the weights along the last axis", 0.6),
        Criterion("large", "values of 10,000 too", 0.2),
        CONTRACT,
    ),
    mistakes=(
        Mistake(
            "first_axis",
            "softmax along the first axis",
            "The columns sum to 1; each row should.",
            "Sum your result along each axis. Which sums should be 1?",
            change="""
            shifted_values = x - largest(x, 0)
            return powers / total(powers, 0)
            """,
            costs=("values",),
        ),
        Mistake(
            "of_everything",
            "one softmax over everything",
            "All entries together sum to 1; each row should.",
            "What does `sum` add up when no axis is given?",
            change="""
            shifted_values = x - x.max()
            return powers / powers.sum()
            """,
            costs=("values",),
        ),
        Mistake(
            "not_shifted",
            "the exponential overflows",
            "exp(10,000) is infinite, and infinite by infinite is no number.",
            "What may be taken off all values of a row without changing the result?",
            change="shifted_values = x",
            costs=("large",),
        ),
    ),
    cases=softmax_cases,
    axes=(Axis("rows"), Axis("columns", long=70)),
    drawn=softmax_drawn,
    reference=lambda build, inputs, weights: softmax(*inputs),
    steps=softmax,
    properties=(Property("each row sums to 1", lambda case, out: bool(np.allclose(out.sum(-1), 1))),),
    library="numpy",
)


# --- Lab 2: the convolution ----------------------------------------------------------------------------------------


def convolution_cases(rng: np.random.Generator) -> list[Case]:
    image, kernel = np.arange(12.0).reshape(3, 4) ** 2, np.array([[1.0, 0.0], [-1.0, 2.0]])
    return [
        Case("values", "an image of shape (3, 4), a kernel of shape (2, 2)", (image, kernel), visible=True),
        Case("values", "a kernel as large as the image", (rng.normal(size=(3, 5)), rng.normal(size=(3, 5)))),
    ]


def convolution_drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    height, width, rows, columns = sizes.values()
    return Case("values", "", (rng.normal(size=(height, width)), rng.normal(size=(rows, columns))))


def convolution(image: np.ndarray, kernel: np.ndarray, slips: frozenset[str] = frozenset()) -> np.ndarray:
    """The right answer, with mistakes switched on by their keys."""
    windows = np.lib.stride_tricks.sliding_window_view(image, kernel.shape)
    if "one_window_short" in slips:
        windows = windows[:-1, :-1]
    if "flipped" in slips:
        kernel = kernel[::-1, ::-1]
    return np.einsum("ijkl,kl->ij", windows, kernel)


CONVOLVE = Exercise(
    name="convolve",
    returns="an array of shape (height − rows + 1, width − columns + 1)",
    shape=lambda case: tuple(n - m + 1 for n, m in zip(case.inputs[0].shape, case.inputs[1].shape, strict=True)),
    criteria=(
        Criterion("shape", "runs, and there is one entry for each place where the kernel fits", 0.2),
        Criterion("values", "each entry is the sum of a window times the kernel", 0.7),
        CONTRACT,
    ),
    mistakes=(
        Mistake(
            "flipped",
            "the kernel is turned around",
            "The kernel's last entry meets the window's first one, as in signal processing.",
            "Which entry of the kernel should meet the top left pixel of a window?",
            costs=("values",),
        ),
        Mistake(
            "one_window_short",
            "the last row and column of windows are missing",
            "The loop ends one place before the kernel reaches the edge of the image.",
            "In how many places does a kernel of 2 fit into a row of 3?",
        ),
    ),
    cases=convolution_cases,
    axes=(
        Axis("height", most=7, long=40),
        Axis("width", most=7, long=40),
        Axis("rows", most=5),
        Axis("columns", most=5),
        Only(lambda sizes: sizes["rows"] <= sizes["height"] and sizes["columns"] <= sizes["width"]),
    ),
    drawn=convolution_drawn,
    reference=in_numpy(convolution),
    variation=in_numpy(convolution),
    library="numpy",
)


@question(
    (np.array([[1.0, 2.0], [3.0, 6.0]]),),
    lambda rng: (rng.normal(3.0, 2.0, (4, 5)),),
    lambda rng: (rng.normal(-1.0, 0.1, (1, 7)),),
    search=True,
)
def standardise(image: Tensor, /) -> Tensor:
    """An array of the image's shape, with mean 0 and standard deviation 1."""
    centred_values = image - mean(image, None)
    variance = mean(square(centred_values), None)
    return centred_values / variance**0.5
