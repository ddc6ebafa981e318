"""The loss of a language model, from its logits and the ids that it has read (lab 10).

The reference's `next_token_loss(model, ids)` calls a model; this takes what the model gave, so that gradients are seen.
"""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Sizes, sequence_length
from autograder.diagnosis.vocabulary import at_ids, logarithms, mean, without_first, without_last
from autograder.exercise import Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises.known import mistake, overwritten
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Any logits; logits that are all equal, for which the shift does not matter; logits in the thousands."""
    visible = np.random.default_rng(101)

    def case(tag: str, label: str, source: np.random.Generator, shape: tuple[int, ...], **kwargs: Any) -> Case:
        size = kwargs.pop("size", 2.0)
        logits, ids = _text(source, shape, size)
        if size > 100:
            logits[0, 0, ids[0, 1]] = logits[0, 0].max() + 5e3  # so sure that the surprise is exactly 0
        return Case(tag, f"{label}, logits of shape {shape}", (logits, ids), differentiate=True, **kwargs)

    batch, tokens, n_vocabulary = (int(n) for n in rng.permutation([3, 4, 6]))
    return [
        case("shift", "any numbers", visible, (2, 5, 6), visible=True),
        case("shift", "any numbers", rng, (batch, tokens, n_vocabulary)),
        case("shift", "two tokens", rng, (3, 2, 7)),
        case("mean", "logits all 0", visible, (2, 5, 8), size=0.0, visible=True),
        case("mean", "logits all 0", rng, (batch, tokens, n_vocabulary), size=0.0),
        case("large", "logits in the thousands", visible, (2, 4, 5), size=3e3, visible=True),
        case("large", "logits in the tens of thousands", rng, (batch, tokens, n_vocabulary), size=2e4),
    ]


def _text(rng: np.random.Generator, shape: tuple[int, ...], size: float) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and ids of which no token is the one before it, so that no shift gives what another does."""
    steps = rng.integers(1, shape[-1], shape[:2])
    return rng.normal(0.0, 1.0, shape) * size, steps.cumsum(1) % shape[-1]


AXES = (Axis("batch", most=5), sequence_length("questions"), Axis("n_vocabulary", least=3, most=9))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    """Any text, in which a token may well follow itself."""
    batch, questions, n_vocabulary = sizes.values()
    logits, _ = _text(rng, (batch, questions + 1, n_vocabulary), 2.0)
    return Case("shift", "", (logits, rng.integers(n_vocabulary, size=logits.shape[:2])))


def right_answer(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    logits, ids = inputs
    return reference.cross_entropy(logits[:, :-1], ids[:, 1:])


def steps(logits: Annotated[Tensor, "batch tokens n_vocabulary"], ids: Tensor, /) -> Tensor:
    """The mean surprise, step by step."""
    predictions = without_last(logits)
    next_tokens = without_first(ids)
    surprises = -at_ids(logarithms(predictions, -1), next_tokens)
    return mean(surprises, None)


WANTED = "surprises = {}"  # something else than minus the logarithm of the probability

MISTAKES = (
    overwritten(
        "contract", look="Look for an assignment into a slice, `-=`, or a method whose name ends in an underscore."
    ),
    mistake(
        "shifted_cross_entropy.not_shifted",
        "Take a text of four tokens. Write down which row of logits is compared with which token.",
        change="predictions = logits\nnext_tokens = ids",
        costs=("shift", "gradients"),
    ),
    mistake(
        "shifted_cross_entropy.shifted_back",
        "Which of the two loses its first entry, and which its last?",
        change="predictions = without_first(logits)\nnext_tokens = without_last(ids)",
        costs=("shift", "gradients"),
    ),
    mistake(
        "shifted_cross_entropy.rolled",
        "What follows the last token? Can the last row of logits be asked for anything?",
        change="predictions = logits\nnext_tokens = ids.roll(-1, 1)",
        costs=("shift", "gradients"),
    ),
    mistake(
        "shifted_cross_entropy.first_by_itself",
        "How many tokens of a text have something before them?",
        change="""
        predictions = torch.cat((logits[:, :1], without_last(logits)), 1)
        next_tokens = ids
        """,
        costs=("shift", "gradients"),
    ),
    mistake(
        "shifted_cross_entropy.bits",
        "To which base does the task take the logarithm?",
        change="surprises = -at_ids(logarithms(predictions, -1), next_tokens) / math.log(2)",
        costs=("mean",),
    ),
    mistake(
        "shifted_cross_entropy.summed",
        "What is a sum divided by to become the mean of the tokens asked for?",
        change="return surprises.sum()",
        costs=("mean",),
    ),
    mistake(
        "shifted_cross_entropy.by_batch",
        "What is a sum divided by to become the mean of the tokens asked for?",
        change="return surprises.sum() / batch",
        costs=("mean",),
    ),
    mistake(
        "shifted_cross_entropy.by_all_tokens",
        "How many tokens are asked for in a text of four?",
        change="return surprises.sum() / (batch * tokens)",
        costs=("mean",),
    ),
    mistake(
        "shifted_cross_entropy.negative",
        "Is the logarithm of a probability positive or negative?",
        change=WANTED.format("at_ids(logarithms(predictions, -1), next_tokens)"),
        costs=("mean",),
    ),
    mistake(
        "shifted_cross_entropy.probability",
        "Compare your code with the formula, symbol by symbol.",
        change=(
            WANTED.format("-at_ids(softmax(predictions, -1), next_tokens)"),
            WANTED.format("at_ids(softmax(predictions, -1), next_tokens)"),
            WANTED.format("1 - at_ids(softmax(predictions, -1), next_tokens)"),
        ),
        costs=("shift", "mean"),
    ),
    mistake(
        "shifted_cross_entropy.softmax_twice",
        "What does `cross_entropy` expect: logits or probabilities?",
        change=WANTED.format("-at_ids(logarithms(softmax(predictions, -1), -1), next_tokens)"),
        costs=("shift", "large"),
    ),
    mistake(
        "shifted_cross_entropy.log_of_softmax",
        "Which function gives the logarithm of the softmax in one step?",
        change=(
            WANTED.format("-at_ids(softmax(predictions, -1).log(), next_tokens)"),
            *(
                WANTED.format(f"-at_ids((softmax(predictions, -1) + {eps}).log(), next_tokens)")
                for eps in ("1e-12", "1e-10", "1e-9", "1e-8", "1e-7")
            ),
        ),
        costs=("large",),
    ),
    mistake(
        "shifted_cross_entropy.no_maximum",
        "What may be subtracted from all logits of a row without changing their softmax?",
        change=(
            WANTED.format("-at_ids(predictions - predictions.exp().sum(-1, keepdim=True).log(), next_tokens)"),
            WANTED.format("-at_ids((predictions.exp() / predictions.exp().sum(-1, keepdim=True)).log(), next_tokens)"),
        ),
        costs=("large",),
    ),
    mistake(
        "shifted_cross_entropy.over_tokens",
        "Which axis of the logits counts the vocabulary?",
        change=(
            WANTED.format("-at_ids(logarithms(predictions, 1), next_tokens)"),
            WANTED.format("-at_ids(logarithms(logits, 1)[:, :-1], next_tokens)"),
        ),
        costs=("shift", "mean"),
    ),
    mistake(
        "shifted_cross_entropy.perplexity",
        "Compare your last line with the formula.",
        change="return surprises.mean().exp()",
        costs=("mean",),
    ),
    mistake(
        "shifted_cross_entropy.detached",
        "Look for `.item()`, `detach`, `no_grad`, `.data` or a new tensor made from numbers.",
        change=WANTED.format("-at_ids(logarithms(predictions.detach(), -1), next_tokens)"),
        costs=("gradients",),
    ),
)

SHIFTED_CROSS_ENTROPY = Exercise(
    name="shifted_cross_entropy",
    returns="one number, a tensor of shape ()",
    shape=lambda case: (),
    criteria=(
        Criterion("shape", "runs, and returns one number", 0.1),
        Criterion("shift", "each row of logits is asked for the token that comes next", 0.4),
        Criterion("mean", "a mean, in nats: where all logits are equal, the logarithm of their number", 0.2),
        Criterion("large", "logits in the tens of thousands", 0.1),
        Criterion("gradients", "gradients reach the logits", 0.1),
        Criterion("contract", "logits and ids stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
)
