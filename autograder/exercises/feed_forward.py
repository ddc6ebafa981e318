"""FeedForward: two linear maps with a GELU between them (lab 5)."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder import reading, rewriting
from autograder.covering import Axis, Sizes, sequence_length
from autograder.diagnosis.vocabulary import Bias, gelu, linear
from autograder.exercise import Build, Case, Criterion, Evidence, Exercise, Inputs, Parameter, Property, Weights
from autograder.exercises import encoder_parts as parts
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Any number of leading axes, and values where the non-linearities differ most and least."""
    visible = np.random.default_rng(5)

    def case(
        tag: str, shape: tuple[int, ...], d_ff: int, source: np.random.Generator, size: float = 1.5, **kwargs: Any
    ) -> Case:
        x = parts.stream(source, shape, size)
        label = f"x of shape {shape}, d_ff {d_ff}" + {1.5: "", 0.2: ", small values", 12.0: ", large values"}[size]
        return Case(tag, label, (x,), (shape[-1], d_ff), **kwargs)

    def sizes(n_axes: int) -> tuple[tuple[int, ...], int]:
        return tuple(map(int, rng.permutation([2, 3, 4, 5, 6])[:n_axes])), int(rng.choice(parts.D_FF))

    equal = case("values", (2, 3, 4), 9, rng)
    x = equal.inputs[0].copy()
    x[1, 2] = x[0, 0]
    return [
        case("values", (2, 5, 6), 11, visible, visible=True, differentiate=True),
        case("values", *sizes(3), rng, differentiate=True),
        replace(equal, label=equal.label + ", two tokens equal", inputs=(x,)),
        case("values", (2, 3, 6), 6, rng),
        case("activation", (2, 3, 4), 7, visible, 0.2, visible=True),
        case("activation", *sizes(3), rng, 12.0),
        case("axes", (4, 5), 9, visible, visible=True),
        case("axes", *sizes(1), rng),
        case("axes", *sizes(4), rng, differentiate=True),
        case("contract", (2, 3, 5), 13, rng, dtype="float32"),
    ]


AXES = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    Axis("d_model", build=True),
    Axis("d_ff", least=5, most=13, build=True),
    parts.OWN_WIDTH_SHOWS,
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, d_ff = sizes.values()
    x = parts.stream(rng, (batch, tokens, d_model))
    if batch > 1:
        x[-1, -1] = 0.0  # a token like any other: the biases make something of it
    return Case("values", "", (x,), (d_model, d_ff))


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    """The two maps: linear layers, convolutions of width 1, or bare matrices in either orientation.

    Where both are square, which is which and which way round is tried: the shapes no longer tell.
    """
    networks = reading.of_kind(reading.units(parameters, build[0], 1), "feed_forward")
    network = dict(networks[0].tensors) if networks else {}
    vectors = [tensor for _, tensor in parameters.values() if tensor.dim() == 1]
    if networks and len(vectors) == 2 and not {"expand.bias", "shrink.bias"} & network.keys():
        network |= {"expand.bias": vectors[0], "shrink.bias": vectors[1]}  # taken for those of a norm
    read = parts.fitted(network, "", *build) if networks else {}
    if read and read["expand.bias"].shape == (build[0],) != (build[1],) == read["shrink.bias"].shape:
        read = _arranged(read, -1, -1, True)  # a matrix in the other orientation has the shape of the other map
    for step, other_step, turned in itertools.product((1, -1), (1, -1), (False, True)):
        yield _arranged(read, step, other_step, turned) if read and build[0] == build[1] else read


def _arranged(read: Weights, step: int, other_step: int, turned: bool) -> Weights:
    """A reading with its maps, or its biases, in this order (1) or exchanged (-1), and the maps turned over or not."""
    maps = [read[f"{part}.weight"] for part in ("expand", "shrink")[::step]]
    biases = [read[f"{part}.bias"] for part in ("expand", "shrink")[::other_step]]
    values = [m.mT if turned else m for m in maps] + biases
    return read | dict(zip(("expand.weight", "shrink.weight", "expand.bias", "shrink.bias"), values, strict=True))


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.FeedForward, build), weights, inputs)


def steps(
    x: Annotated[Tensor, "batch tokens features"],
    /,
    d_model: int,
    d_ff: int,
    *,
    expand_weight: Annotated[Tensor, "", "the first map"],
    expand_bias: Annotated[Bias, "", "the bias of the first map"],
    shrink_weight: Annotated[Tensor, "", "the second map"],
    shrink_bias: Annotated[Bias, "", "the bias of the second map"],
) -> Tensor:
    """The feed-forward network, step by step."""
    wide_features = linear(x, expand_weight, expand_bias)
    bent_features = gelu(wide_features)
    return linear(bent_features, shrink_weight, shrink_bias)


STAGES = {"wide_features": "the widened tokens", "bent_features": "their GELU"}


def _over_tokens(seen: Evidence) -> bool:
    """A map that wants d_model numbers got as many as there are tokens."""
    _, tokens, d_model = seen.cases[0].inputs[0].shape
    for message in seen.errors[:1]:
        product = re.search(r"\(\d+x(\d+) and (\d+)x\d+\)", message)
        channels = re.search(r"to have (\d+) channels, but got (\d+)", message)
        if product and (int(product[1]), int(product[2])) == (tokens, d_model):
            return True
        if channels and (int(channels[2]), int(channels[1])) == (tokens, d_model):
            return True
    return False


BENT = "bent_features = {}"  # something else than GELU of the wide features

MISTAKES = (
    parts.UNREGISTERED,
    parts.OVERWRITTEN,
    mistake(
        "feed_forward.over_tokens",
        "A linear layer works on the last axis, a convolution on the one before. Which axis of x holds the features?",
        sign=_over_tokens,
    ),
    mistake(
        "feed_forward.no_activation",
        "What stands between the two maps in the formula?",
        change=BENT.format("wide_features"),
        costs=("activation",),
    ),
    mistake(
        "feed_forward.relu",
        "Compare the name of your non-linearity with the one in the task.",
        change=BENT.format("relu(wide_features)"),
        costs=("activation",),
    ),
    mistake(
        "feed_forward.silu",
        "Compare the name of your non-linearity with the one in the task.",
        change=tuple(
            BENT.format(bend)
            for bend in (
                "silu(wide_features)",
                "tanh(wide_features)",
                "sigmoid(wide_features)",
                "F.leaky_relu(wide_features)",
                "F.elu(wide_features)",
                "softmax(wide_features, -1)",
            )
        ),
        costs=("activation",),
    ),
    mistake(
        "feed_forward.approximate",
        "Look at the arguments of your GELU, or at its formula.",
        change=(
            BENT.format("gelu_by_tanh(wide_features)"),
            BENT.format("wide_features * sigmoid(1.702 * wide_features)"),
        ),
        costs=("activation",),
    ),
    mistake(
        "feed_forward.activation_last",
        "Read the formula from the inside out: which of the three comes second?",
        change="""
        bent_features = wide_features
        return gelu(linear(bent_features, shrink_weight, shrink_bias))
        """,
        costs=("activation",),
    ),
    mistake(
        "feed_forward.activation_first",
        "Read the formula from the inside out: which of the three comes second?",
        change="""
        wide_features = linear(gelu(x), expand_weight, expand_bias)
        bent_features = wide_features
        """,
        costs=("activation",),
    ),
    mistake(
        "feed_forward.activation_twice",
        "How many times does GELU stand in the formula?",
        change="return gelu(linear(bent_features, shrink_weight, shrink_bias))",
        costs=("activation",),
    ),
    mistake(
        "feed_forward.not_narrowed",
        "Compare the last axis of your result with that of x.",
        change="return bent_features",
    ),
    mistake(
        "feed_forward.no_bias",
        "Count the symbols in the formula, and the parameters that your `forward` uses.",
        change=(
            "shrink_bias = None\nwide_features = linear(x, expand_weight, None)",
            "wide_features = linear(x, expand_weight, None)",
            "shrink_bias = None\nwide_features = linear(x, expand_weight, expand_bias)",
        ),
        costs=("values",),
    ),
    mistake(
        "feed_forward.other_width",
        "Follow `d_ff` through `__init__`. Which numbers do your layers' shapes come from?",
        change="""
        own = parts.of_own_width(roles)
        shrink_weight = own["shrink.weight"]
        shrink_bias = own["shrink.bias"]
        wide_features = linear(x, own["expand.weight"], own["expand.bias"])
        """,
        costs=("values",),
    ),
    mistake(
        "feed_forward.inner_residual",
        "Compare the last line of the network's `forward` with its formula.",
        change="return x + linear(bent_features, shrink_weight, shrink_bias)",
        costs=("values",),
    ),
)


def _equal_tokens_stay_equal(case: Case, output: np.ndarray) -> bool | None:
    if "two tokens equal" not in case.label:
        return None
    return bool(np.allclose(output[0, 0], output[1, 2], atol=1e-9))


FEED_FORWARD = Exercise(
    name="FeedForward",
    returns="a tensor of the shape of x, (..., d_model)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("values", "widened to d_ff, narrowed to d_model, every token by itself", 0.4),
        Criterion("activation", "GELU between the two maps, and nowhere else", 0.2),
        Criterion("axes", "any number of leading axes", 0.1),
        Criterion("gradients", "gradients reach x and both maps", 0.1),
        Criterion("contract", "all layers registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
    stages=lambda build, inputs, weights: rewriting.values(steps, STAGES, build, inputs, weights),
    mappings=mappings,
    roles=lambda build: parts.roles(reference.FeedForward, build, 1),
    needs=frozenset({"expand.weight", "shrink.weight"}),
    properties=(Property("equal tokens give equal results", _equal_tokens_stay_equal),),
)
