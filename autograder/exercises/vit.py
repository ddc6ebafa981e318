"""ViT: patches, [class], positions, blocks, a norm and a head (lab 7)."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import torch
from torch import Tensor

from autograder import reading, rewriting
from autograder.diagnosis.vocabulary import Bias, flat_windows, linear, normalise, windows
from autograder.exercise import Criterion, Evidence, Exercise, Inputs, Weights
from autograder.exercises import encoder_block as block
from autograder.exercises.encoder_parts import of_layer
from autograder.exercises.known import mistake
from autograder.exercises.patch_embedding import UNREGISTERED
from autograder.exercises.patches import CUTTING
from autograder.exercises.vit_models import AXES, Sizes, cases, drawn, mappings
from headroom import reference


def right_answer(build: Sizes, inputs: Inputs, weights: Weights) -> Tensor:
    return reading.call(reading.empty(reference.ViT, build), weights, inputs)


def through(x: Tensor, layers: Iterable[int], build: Sizes, roles: Weights) -> Tensor:
    """x after the given blocks, in this order."""
    *_, d_model, _, n_heads, d_ff = build
    for layer in layers:
        weights = of_layer(roles, f"encoder.blocks.{layer}")
        x = rewriting.run(block.steps, (), (d_model, n_heads, d_ff), (x,), weights)
    return x


def steps(
    images: Annotated[Tensor, "height width"],
    /,
    image_size: int,
    patch_size: int,
    channels: int,
    n_classes: int,
    d_model: int,
    n_layers: int,
    n_heads: int,
    d_ff: int,
    *,
    embed_projection_weight: Tensor,
    embed_projection_bias: Bias,
    class_token: Tensor,
    positions_table: Tensor,
    encoder_norm_gamma: Tensor,
    encoder_norm_beta: Tensor,
    head_weight: Tensor,
    head_bias: Bias,
    build: Sizes,
    roles: Weights,
) -> Tensor:
    """A ViT, step by step; its blocks, which are given, are one step."""
    squares = windows(images, patch_size)
    patches = flat_windows(squares)
    embedded = linear(patches, embed_projection_weight, embed_projection_bias)
    tokens = torch.cat([class_token.expand(len(images), -1, -1), embedded], 1)
    placed = tokens + positions_table[torch.arange(tokens.size(1))]
    encoded = through(placed, range(n_layers), build, roles)
    normalised = normalise(encoded, -1) * encoder_norm_gamma + encoder_norm_beta
    read = normalised[:, 0]
    return linear(read, head_weight, head_bias)


def stages(build: Sizes, inputs: Inputs, weights: Weights) -> dict[str, Tensor]:
    called = {
        "embedded": "the embedded patches",
        "tokens": "the tokens with [class] in front",
        "placed": "the tokens with their positions",
    }
    found = rewriting.values(steps, called, build, inputs, weights)
    x, n_layers = found["the tokens with their positions"], build[5]
    for layer in range(n_layers):
        x = found[f"what block {layer + 1} returns" if n_layers > 1 else "what the block returns"] = through(
            x, [layer], build, weights
        )
    return found | {"the logits": rewriting.run(steps, (), build, inputs, weights)}


def _hard_coded(seen: Evidence) -> bool:
    """Whether a parameter has a size of the model for the course's digits, and none that this model has."""
    image_size, patch_size, channels, n_classes, d_model, _, _, d_ff = seen.cases[0].built_with
    tokens = (image_size // patch_size) ** 2 + 1
    own = {tokens, tokens - 1, n_classes, d_model, 3 * d_model, d_ff, patch_size, channels, channels * patch_size**2, 1}
    of_digits = {17, 16, 10, 64, 128, 49, 7}
    return not seen.mappable and any(set(p.shape) & (of_digits - own) for p in seen.parameters)


# What `cat` raises along the tokens, where one of two batches is of 1.
ONE_AND_MANY = re.compile(r"except in dimension 1\. Expected size (1 but got size|\d+ but got size 1 )")
APPENDED = "tokens = torch.cat([embedded, class_token.expand(len(images), -1, -1)], 1)"

MISTAKES = (
    UNREGISTERED,
    mistake(
        "vit.frozen",
        "Which of the tensors that you made are to be learned? Look for `requires_grad=False`.",
        sign=lambda seen: any(not parameter.trained for parameter in seen.parameters),
    ),
    mistake(
        "vit.not_expanded",
        "Which method repeats a tensor along an axis of size 1, without copying it?",
        sign=lambda seen: any(map(ONE_AND_MANY.search, seen.errors)),
    ),
    mistake(
        "vit.hard_coded",
        "Compare the shapes of your parameters with the arguments of `__init__`. How many patches has another image?",
        sign=_hard_coded,
    ),
    mistake(
        "vit.no_embedding_bias",
        "Count the symbols in the formula, and the parameters of your module. Is each of them used?",
        change=("embed_projection_bias = None", "head_bias = None"),
        costs=("values", "gradients"),
    ),
    mistake(
        "vit.no_class_token",
        "How many tokens should enter the first block?",
        change="tokens = embedded",
        costs=("values", "depth"),
    ),
    mistake(
        "vit.class_at_the_end",
        "Look at the order in which [class] and the patches are put together.",
        change=APPENDED,
        costs=("values", "depth"),
    ),
    mistake(
        "vit.class_last",
        "Look at the order in which [class] and the patches are put together.",
        change=f"{APPENDED}\nread = normalised[:, -1]",
        costs=("values",),
    ),
    mistake(
        "vit.class_constant",
        "What makes a tensor a parameter of a module? Is it that tensor that you put in front?",
        change="class_token = torch.zeros_like(embedded[:1, :1])",
        costs=("values", "gradients", "contract"),
    ),
    mistake(
        "vit.no_positions",
        "Follow the table of positions through `forward`. Is the sum assigned?",
        change="placed = tokens",
        costs=("values", "gradients"),
    ),
    mistake(
        "vit.class_without_position",
        "How many tokens enter the first block? How many of them get a row of the table?",
        change=(
            "embedded = embedded + positions_table[torch.arange(embedded.size(1))]\nplaced = tokens",
            "embedded = embedded + positions_table[1:]\nplaced = tokens",
        ),
        costs=("values", "gradients"),
    ),
    mistake(
        "vit.by_batch",
        "Along which axis of the tokens is the table added?",
        change="placed = tokens + positions_table[torch.arange(len(images)), None]",
        costs=("values", "depth", "sizes"),
    ),
    mistake(
        "vit.one_position",
        "How many rows does your table have, and how many are used?",
        change="placed = tokens + positions_table[:1]",
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
        change="encoded = placed",
    ),
    mistake(
        "vit.repeated_block",
        "How many different blocks do the tokens pass through? Multiplying a list copies no module.",
        change="encoded = through(placed, [0] * n_layers, build, roles)",
        costs=("depth", "contract"),
    ),
    mistake(
        "vit.not_chained",
        "Follow x through the loop over the blocks: what does the second one read?",
        change="encoded = through(placed, [n_layers - 1], build, roles)",
        costs=("depth",),
    ),
    mistake(
        "vit.first_block_only",
        "How many blocks do the tokens pass through? If there is a loop, when does it end?",
        change="encoded = through(placed, [0], build, roles)",
        costs=("depth",),
    ),
    mistake(
        "vit.no_last_norm",
        "What stands between the last block and the head?",
        change="normalised = encoded",
        costs=("values", "gradients"),
    ),
    mistake(
        "vit.over_tokens_and_features",
        "Over which axes does the last norm take its mean? Each token should be normalised by itself.",
        change="normalised = normalise(encoded, (1, 2)) * encoder_norm_gamma + encoder_norm_beta",
        costs=("values",),
    ),
    mistake(
        "vit.reads_last",
        "Which token does the head read? Count from the front.",
        change="read = normalised[:, -1]",
        costs=("values",),
    ),
    mistake(
        "vit.mean_pooled",
        "What does the head read, according to the task?",
        change="read = normalised.mean(1)",
        costs=("values",),
    ),
    mistake(
        "vit.mean_of_patches",
        "What does the head read, according to the task?",
        change="read = normalised[:, 1:].mean(1)",
        costs=("values",),
    ),
    mistake(
        "vit.all_tokens",
        "An image needs one answer. Which token gives it?",
        change="read = normalised",
        costs=("shape", "values"),
    ),
    mistake(
        "vit.softmax",
        "What does the head return, and what do you do to it?",
        change=(
            "return linear(read, head_weight, head_bias).softmax(-1)",
            "return linear(read, head_weight, head_bias).log_softmax(-1)",
        ),
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
        Criterion(
            "contract",
            "all is registered, nothing is frozen, the images stay untouched, float32 stays float32",
            0.1,
        ),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    varied=steps,
    mappings=mappings,
    roles=lambda build: reading.roles_of(reading.empty(reference.ViT, build), build[6], ("projection", "head")),
    needs=frozenset({"embed.projection.weight", "class_token", "positions.table", "head.weight"}),
    stages=stages,
)
