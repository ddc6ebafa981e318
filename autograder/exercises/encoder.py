"""Encoder: blocks one after the other, and a LayerNorm after the last (lab 5)."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from autograder import reading, rewriting
from autograder.covering import Axis
from autograder.exercise import Build, Case, Criterion, Exercise, Inputs, Mistake, Parameter, Weights
from autograder.exercises import encoder_block as block
from autograder.exercises import encoder_parts as parts
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    visible, case, sizes = np.random.default_rng(52), parts.block_case, parts.block_sizes
    return [
        case("block", (1, 2, 4, 3, 2, 7), visible, visible=True, differentiate=True),
        case("block", (1, *sizes(rng)), rng, differentiate=True),
        case("values", (2, 2, 4, 3, 2, 11), visible, visible=True),
        case("values", (3, *sizes(rng)), rng, differentiate=True),
        case("values", (11, 1, 2, 4, 1, 5), rng, once=True),  # sorted as text, 10 comes before 2
        case("norm", (2, 2, 3, 5, 2, 9), visible, size=30.0, visible=True),
        case("norm", (3, *sizes(rng)), rng, size=0.05),
        case("mask", (2, 2, 5, 4, 3, 7), visible, "padding", visible=True),
        case("mask", (3, *sizes(rng)), rng, "causal"),
        case("mask", (2, 2, 6, 4, 3, 13), rng, "twins"),
        case("contract", (2, 2, 3, 4, 5, 7), rng, "causal", dtype="float32"),
    ]


def mappings(parameters: dict[str, tuple[Parameter, Tensor]], build: Build) -> Iterator[Weights]:
    yield from parts.mappings(parameters, *build[1:], layers=build[0])


def right_answer(build: Build, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.Encoder, build), weights, inputs)


def variation(build: Build, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """The stack of blocks with mistakes switched on, its own or its blocks'."""
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    changes = tuple(change for switch, change in IN_BLOCKS.items() if switch in slips)
    layers = list(range(build[0]))
    if "repeated_block" in slips:
        layers = [0] * build[0]
    elif "other_number" in slips:  # where it is the right one: one more, the last again
        present = int(weights["present"]) if "present" in weights else build[0]
        layers = list(range(present)) if present != build[0] else [*layers, layers[-1]]
    elif "one_too_few" in slips:
        layers = layers[:-1]
    elif "first_left_out" in slips:
        layers = layers[1:]
    elif "first_only" in slips:
        layers = layers[:1]
    if "reversed" in slips:
        layers.reverse()

    def norm(t: Tensor) -> Tensor:
        if "no_affine" in slips:
            return F.layer_norm(t, t.shape[-1:])
        return F.layer_norm(t, t.shape[-1:], weights["norm.gamma"], weights["norm.beta"])

    began = x
    if "norm_first" in slips:
        x = norm(x)
    first = None  # what the first block made of x
    for place, layer in enumerate(layers):
        hidden = mask
        if ("mask_first_only" in slips and place > 0) or ("mask_last_only" in slips and place < len(layers) - 1):
            hidden = None
        source = began if "same_input" in slips else first if first is not None and "first_to_all" in slips else x
        x = rewriting.run(block.steps, changes, build[1:], (source, hidden), parts.of_layer(weights, f"blocks.{layer}"))
        first = x if first is None else first
        if "norm_each" in slips:
            x = norm(x)
    if "outer_residual" in slips:
        x = began + x
    if not slips & {"no_last_norm", "norm_first", "norm_each"}:
        x = norm(x)
    return began + x if "outer_residual_last" in slips else x


def stages(build: Build, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    x, mask = inputs if len(inputs) == 2 else (inputs[0], None)
    found = {}
    for layer in range(build[0]):
        x = rewriting.run(block.steps, (), build[1:], (x, mask), parts.of_layer(weights, f"blocks.{layer}"))
        found[f"what block {layer} should return"] = x
    return found


def _in_blocks(mistakes: tuple[Mistake, ...], costs: str) -> tuple[Mistake, ...]:
    return tuple(replace(mistake, costs=(costs,)) for mistake in mistakes)


MASK_IGNORED, MASK_INVERTED = block.MASK
BLOCK = _in_blocks((*block.BY_HALF, *block.OWN, *block.IN_NETWORK), "block")
IN_BLOCKS = {switch: change for m in (*block.MASK, *BLOCK) for switch, change in m.changes.items()}

MISTAKES = (
    parts.UNREGISTERED,
    parts.OVERWRITTEN,
    mistake(
        "encoder.repeated_block",
        "Count the parameters of encoders with one layer and with two. Which block runs in each layer?",
        "layers",
        costs=("values",),
    ),
    mistake(
        "encoder.no_last_norm",
        "What does the task put between the last block and the result?",
        "last",
        costs=("norm",),
    ),
    mistake(
        "encoder.norm_first",
        "At which end of the stack is a norm missing?",
        "last",
        costs=("norm",),
    ),
    mistake(
        "encoder.norm_each",
        "Is the line with the norm inside the loop?",
        "last",
        costs=("norm",),
    ),
    mistake(
        "encoder.same_input",
        "In the loop, what goes into a block, and where is its result kept?",
        "source",
        costs=("values",),
    ),
    mistake(
        "encoder.first_to_all",
        "What goes into the last block, and where is the result of the one before it kept?",
        "source",
        costs=("values",),
    ),
    mistake(
        "encoder.reversed",
        "In which order does your loop go through the list?",
        "order",
        costs=("values",),
    ),
    mistake(
        "encoder.one_too_few",
        "Where does your loop begin, and where does it end?",
        "layers",
        also=("first_left_out", "first_only"),
        costs=("values",),
    ),
    mistake(
        "encoder.other_number",
        "With `n_layers` 1, 2 and 3, how many blocks run?",
        "layers",
        costs=("values",),
    ),
    mistake(
        "encoder.outer_residual",
        "Which part of the encoder already adds the residual connections?",
        "outer",
        also=("outer_residual_last",),
        costs=("values",),
    ),
    MASK_IGNORED,
    mistake(
        "encoder.mask_first_only",
        "Look at each call of a block: does it get the mask?",
        "mask",
        also=("mask_last_only",),
        costs=("mask",),
    ),
    MASK_INVERTED,
    *BLOCK,
)

ENCODER = Exercise(
    name="Encoder",
    returns=parts.LIKE_X,
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of x", 0.1),
        Criterion("block", "a single layer: the block as it should be", 0.1),
        Criterion("values", "several layers, one after the other, each with its own parameters", 0.3),
        Criterion("norm", "one more LayerNorm after the last block", 0.15),
        Criterion("mask", "the mask reaches every block", 0.15),
        Criterion("gradients", "gradients reach x and all parameters", 0.1),
        Criterion("contract", "all blocks registered, x stays untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=(Axis("n_layers", most=2, long=5, build=True), *parts.BLOCK_AXES),
    drawn=parts.drawn_block,
    reference=right_answer,
    variation=variation,
    mappings=mappings,
    roles=lambda build: parts.roles(reference.Encoder, build, build[2]),
    needs=frozenset(f"blocks.0.attention.w_{role}.weight" for role in "qkvo"),
    forbidden=parts.DONE_FOR_YOU,
    forbidden_reason=parts.DONE_FOR_YOU_REASON,
    properties=(parts.FILLER_HAS_NO_SAY,),
    stages=stages,
)
