"""Tokens with their positions: the fourth of five broken programs to mend (lab 8)."""

import math
from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Choice, Only, Sizes, sequence_length
from autograder.diagnosis.vocabulary import alternate, arange, column, cos, looked_up, sin, size
from autograder.exercise import Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises.broken_programs import KEPT, OVERWRITTEN
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """A table of zeros, which shows the positions alone; one late token, which shows the sum; batches of all sizes."""
    visible = np.random.default_rng(84)

    def case(
        tag: str, label: str, source: np.random.Generator, size: tuple[int, ...], start: int, **kwargs: Any
    ) -> Case:
        d_model = kwargs.pop("d_model", 6)
        table = source.normal(0.0, kwargs.pop("spread", 0.7), (9, d_model))
        ids = source.integers(1, 8, size)  # the last id never occurs
        if tag == "sum":
            ids.flat[0] = 0  # which some take for padding
        about = f"{label}, ids of shape {size}, d_model={d_model}, start={start}"
        return Case(tag, about, (table, ids, start), differentiate=True, **kwargs)

    late = int(rng.integers(300, 330))  # where a base of 9999 shows
    return [
        case("places", "all embeddings 0", visible, (3, 4), 0, spread=0.0, visible=True),
        case("places", "all embeddings 0, in a batch that goes on", rng, (4, 3), late, spread=0.0),
        case("sum", "one token", visible, (1, 1), 7, visible=True),
        case("sum", "one token", rng, (1, 1), late, d_model=10),
    ]


AXES = (
    Axis("batch", most=4),
    sequence_length("tokens"),
    Axis("d_model", least=2, most=8),
    Axis("n_tokens", least=2, most=9),
    Choice("start", (0, 1, 5_100)),  # beyond the tables that people make, for 512 or 5,000 places
    Only(lambda sizes: sizes["d_model"] % 2 == 0),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, tokens, d_model, n_tokens, start = sizes.values()
    ids = rng.integers(0, n_tokens, (batch, tokens))
    return Case("sum", "", (rng.normal(0.0, 0.7, (n_tokens, d_model)), ids, start), single=start < 1_000)


def right_answer(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    table, ids, start = inputs
    d_model = table.size(1)
    positions = reference.sinusoidal_encoding(start + ids.size(1), d_model)[start:].to(table)
    return math.sqrt(d_model) * table[ids] + positions


def steps(table: Tensor, ids: Annotated[Tensor, "batch n_places", "the ids"], start: int, /) -> Tensor:
    """The embeddings with their positions, step by step."""
    tokens = size(ids, 1)
    d_model = size(table, 1)
    embeddings = looked_up(table, ids) * d_model**0.5
    places = arange(start, tokens, 1)
    even_column_numbers = arange(0, d_model, 2)
    angles = column(places) / 10000.0 ** (even_column_numbers / d_model)
    sines = sin(angles)
    cosines = cos(angles)
    positions = alternate(sines, cosines, d_model)
    return embeddings + positions


SCALE = (
    "Follow a row of the table to the result. What is it multiplied by, and what in the program that you were given?"
)

MISTAKES = (
    OVERWRITTEN,
    mistake(
        "embed_tokens.by_batch",
        "`add_positions` says which shape it takes, and what its axes mean. Which shape does it get?",
        slot="places",
        change="places = arange(start, batch, 1)\npositions = positions[:, None]",
        costs=("places", "gradients"),
    ),
    mistake(
        "embed_tokens.x_twice",
        "What does `add_positions` return: positions, or something that already holds more?",
        change="return 2 * embeddings + positions",
        costs=("sum",),
    ),
    mistake(
        "embed_tokens.all_twice",
        "How many times is each of the two in what you return?",
        change="return 2 * (embeddings + positions)",
        costs=("sum",),
    ),
    mistake(
        "embed_tokens.positions_twice",
        "How many times is each of the two in what you return?",
        change="return embeddings + 2 * positions",
        costs=("sum",),
    ),
    mistake(
        "embed_tokens.token_lost",
        "Take the same place with two different words. What should differ?",
        change="return positions.expand_as(embeddings)",
    ),
    mistake(
        "embed_tokens.positions_lost",
        "Follow what `add_positions` returns.",
        change="return embeddings",
    ),
    mistake(
        "embed_tokens.not_turned_back",
        "Which axis of your result counts the tokens of a sentence, and which does the task want?",
        change="return (embeddings + positions).transpose(0, 1)",
    ),
    mistake(
        "embed_tokens.scrambled",
        "What is the difference between `view` or `reshape` and `transpose`?",
        slot="places",
        change="positions = positions[:, None].expand(-1, batch, -1).reshape(embeddings.shape)",
        costs=("places",),
    ),
    mistake(
        "embed_tokens.start_ignored",
        "Follow `start` from the signature to where the positions are made.",
        change="start = 0",
    ),
    mistake(
        "embed_tokens.both_scaled",
        "What is multiplied: the embedding, or the sum?",
        change="positions = positions * d_model**0.5",
        costs=("sum",),
    ),
    mistake(
        "embed_tokens.not_scaled",
        SCALE,
        change="embeddings = looked_up(table, ids)",
        costs=("sum",),
    ),
    mistake(
        "embed_tokens.divided",
        SCALE,
        change="embeddings = looked_up(table, ids) / d_model**0.5",
        costs=("sum",),
    ),
    mistake(
        "embed_tokens.by_d_model",
        SCALE,
        change="embeddings = looked_up(table, ids) * d_model",
        costs=("sum",),
    ),
    mistake(
        "embed_tokens.table_detached",
        "Look for `detach`, `no_grad`, `.data`, `.tolist()` or NumPy between the table and the result.",
        change="table = table.detach()",
    ),
)

EMBED_TOKENS = Exercise(
    name="embed_tokens",
    returns="a tensor of shape (batch, tokens, d_model)",
    shape=lambda case: (*case.inputs[1].shape, case.inputs[0].shape[1]),
    criteria=(
        Criterion("places", "each token gets the position of its own place", 0.5),
        Criterion("sum", "a token is its embedding once and its position once", 0.4),
        Criterion("gradients", "gradients reach the table", 0.1),
        KEPT,
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
)
