"""The induction score: how much weight goes to the token after the earlier occurrence (lab 11)."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes
from autograder.diagnosis.vocabulary import arange, at_places, mean_without_axis, size
from autograder.exercise import Case, Criterion, Exercise, Property
from autograder.exercises.known import mistake, overwritten
from headroom import reference


def maps(rng: np.random.Generator, batch: int, layers: int, heads: int, tokens: int) -> np.ndarray:
    """Causal attention weights, every head with a share of its own for each way to look back."""
    scores = rng.normal(0.0, 1.5, (batch, layers, heads, tokens, tokens))
    back = np.arange(tokens)[:, None] - np.arange(tokens)  # how far back a key is
    scores += rng.normal(0.0, 1.5, (layers, heads, 1, tokens))[..., np.clip(back, 0, None)][..., 0, :, :]
    weights = np.exp(scores) * (back >= 0)
    return weights / weights.sum(-1, keepdims=True)


def cases(rng: np.random.Generator) -> list[Case]:
    """Sequences written twice, three times, and cut off; and lengths at both ends of what may be."""
    visible = np.random.default_rng(111)

    def case(tag: str, source: np.random.Generator, shape: tuple[int, ...], length: int, **kwargs: Any) -> Case:
        label = f"weights of shape {(*shape, shape[-1])}, length {length}"
        weights = maps(source, *shape)
        if kwargs.pop("unseen", False):
            weights[0, ..., length, 1] = 0.0  # a match of the first text that nobody looks at
            label += ", a weight of 0 among those that count"
        return Case(tag, label, (weights, length), **kwargs)

    return [
        case("values", visible, (2, 2, 3, 8), 4, visible=True),
        case("values", rng, (3, 2, 4, 12), 6),
        case("values", rng, (2, 2, 2, 8), 4, unseen=True),
        case("tokens", visible, (2, 2, 3, 7), 3, visible=True),
        case("tokens", rng, (3, 3, 2, 11), 3),
        case("tokens", rng, (2, 2, 3, 9), 6),
        case("tokens", rng, (4, 2, 3, 6), 5),
    ]


AXES = (
    Axis("batch", most=4),
    Axis("layers", most=3),
    Axis("heads", most=4),
    Axis("length", most=6, long=20),
    Axis("repeated", most=7, long=40),  # tokens from the second occurrence on
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, layers, heads, length, repeated = sizes.values()
    tag = "values" if length == repeated else "tokens"
    return Case(tag, "", (maps(rng, batch, layers, heads, length + repeated), length))


def steps(weights: Annotated[Tensor, "batch layers heads tokens keys"], length: int, /) -> Tensor:
    """The score, step by step."""
    n_tokens = size(weights, -1)
    queries = arange(length, n_tokens - length, 1)
    keys = queries - length + 1
    matches = at_places(weights, queries, keys)
    sequence_scores = mean_without_axis(matches, -1)
    score = mean_without_axis(sequence_scores, 0)
    return score


MISTAKES = (
    overwritten(topic="sequence_loss"),
    mistake(
        "induction_score.the_earlier_one",
        "The sequence is A B C A. The last A is the query. Which token came after the first A, and at which position?",
        change="keys = queries - length",
    ),
    mistake(
        "induction_score.two_after",
        "The sequence is A B C A. The last A is the query. Which token came after the first A, and at which position?",
        change="keys = queries - length + 2",
    ),
    mistake(
        "induction_score.previous_token",
        "The sequence is A B C A. The last A is the query. At which position is the key whose weight you take?",
        change="keys = queries - 1",
    ),
    mistake(
        "induction_score.transposed",
        "Which of the last two axes counts the queries? Print one map: on which side of the diagonal is it 0?",
        change="matches = at_places(weights, keys, queries)",
    ),
    mistake(
        "induction_score.first_time_counted",
        "Which is the first token that has been there before? With which query does your mean begin?",
        change="queries = arange(length - 1, n_tokens - length + 1, 1)",
    ),
    mistake(
        "induction_score.last_left_out",
        "How many tokens are there from position `length` on? How many do you take the mean of?",
        change="queries = arange(length, n_tokens - length - 1, 1)",
    ),
    mistake(
        "induction_score.by_all_tokens",
        "How many weights do you add up, and by how many do you divide?",
        change="sequence_scores = matches.sum(-1) / n_tokens",
    ),
    mistake(
        "induction_score.half",
        "What if the sequence is written three times?",
        change="length = size(weights, -1) // 2",
        costs=("tokens",),
    ),
    mistake(
        "induction_score.twice_at_most",
        "What if the sequence is written three times? At which query does your choice end?",
        change="queries = arange(length, min(n_tokens - length, length), 1)",
        costs=("tokens",),
    ),
    mistake(
        "induction_score.hits_counted",
        "The task asks for weights: how much does a head that looks there with 0.4 of its weight score?",
        change="matches = (weights.argmax(-1)[..., queries.long()] == keys).double()",
    ),
    mistake(
        "induction_score.summed",
        "Which value should a head have that always looks there with all its weight?",
        change="sequence_scores = matches.sum(-1)",
    ),
    mistake(
        "induction_score.first_sequence",
        "How many sequences are there in the batch?",
        change="score = sequence_scores[0]",
    ),
    mistake(
        "induction_score.samples_kept",
        "Compare the shape of your result with the task.",
        change="score = sequence_scores",
        costs=("shape",),
    ),
)


def _is_share(case: Case, output: np.ndarray) -> bool:
    return bool((output >= -1e-6).all() and (output <= 1 + 1e-6).all()) if case.label.find("times as") < 0 else True


INDUCTION_SCORE = Exercise(
    name="induction_score",
    returns="a tensor of shape (layers, heads)",
    shape=lambda case: case.inputs[0].shape[1:3],
    criteria=(
        Criterion("shape", "runs, and the result has shape (layers, heads)", 0.1),
        Criterion("values", "a sequence written twice: the mean weight on the token after the earlier one", 0.5),
        Criterion("tokens", "a sequence that is cut off, or goes on for a third time", 0.3),
        Criterion("contract", "weights stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=lambda build, inputs, weights: reference.induction_score(*inputs),
    steps=steps,
    properties=(Property("every score is between 0 and 1", _is_share),),
)
