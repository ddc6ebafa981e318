"""The loss of a language model: the first of five broken programs to mend (lab 8)."""

from typing import Annotated, Any

import numpy as np
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes, sequence_length
from autograder.diagnosis.vocabulary import at_ids, logarithms, total, unlike, without_first, without_last
from autograder.exercise import Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises.broken_programs import KEPT, OVERWRITTEN
from autograder.exercises.known import mistake
from headroom import reference


def cases(rng: np.random.Generator) -> list[Case]:
    """Whole sequences, for which only the shift counts; padded ones; a pad that is not 0; logits in the hundreds."""
    visible = np.random.default_rng(81)

    def case(tag: str, label: str, source: np.random.Generator, lengths: list[int], pad: int, **kwargs: Any) -> Case:
        size = kwargs.pop("size", 2.0)
        logits, tokens = _sequences(source, np.array(lengths), max(lengths), 8, pad, size)
        if size > 100:
            logits[0, 0, tokens[0, 1]] = 1e4  # so sure that the surprise is exactly 0
        return Case(
            tag, f"{label}, tokens of shape {tokens.shape}", (logits, tokens, pad), differentiate=True, **kwargs
        )

    return [
        case("shift", "no padding", visible, [5, 5, 5], 0, visible=True),
        case("shift", "no padding, logits in the hundreds", rng, [6, 6], 0, size=400.0),
        case("shift", "a single question", rng, [2], 0),
        case("padding", "lengths 6, 3 and 2", visible, [6, 3, 2], 0, visible=True),
        case(
            "padding", "lengths 7, 4, 1 and 2, the padding has another id", rng, [7, 4, 1, 2], int(rng.integers(1, 7))
        ),
    ]


def _sequences(
    rng: np.random.Generator, lengths: np.ndarray, tokens: int, n_tokens: int, pad: int, size: float
) -> tuple[np.ndarray, np.ndarray]:
    """Logits, and token ids of which every one but `pad` is real; the longest sequence has them all, if it can."""
    ids = rng.integers(1, n_tokens, (len(lengths), tokens))
    ids[lengths.argmax()] = 1 + (rng.integers(n_tokens) + np.arange(tokens)) % (n_tokens - 1)
    ids = (ids + pad) % n_tokens
    ids[np.arange(tokens) >= lengths[:, None]] = pad
    return rng.normal(0.0, size, (*ids.shape, n_tokens)), ids


AXES = (
    Axis("batch", most=4),
    sequence_length("questions"),  # one less than tokens
    Axis("n_tokens", least=4, most=9),
    Choice("padding", (None, "longest first", "longest last")),
    Choice("pad", ("the first id", "the last id")),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, questions, n_tokens, padding, pad = sizes.values()
    lengths = np.full(batch, questions + 1)
    if padding:
        lengths = np.sort(rng.integers(2, questions + 2, batch))[:: -1 if padding == "longest first" else 1]
    pad = 0 if pad == "the first id" else n_tokens - 1
    logits, tokens = _sequences(rng, lengths, questions + 1, n_tokens, pad, 2.0)
    if not (tokens[:, 1:] % (n_tokens - 1)).any():  # who takes 0, or the last id, for padding has something to count
        tokens[0, 1] = 1
    return Case("padding" if padding else "shift", "", (logits, tokens, pad))


def right_answer(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    logits, tokens, pad = inputs
    return reference.cross_entropy(logits[:, :-1], tokens[:, 1:], ignore=pad)


def steps(logits: Annotated[Tensor, "batch places n_tokens"], tokens: Tensor, pad: float, /) -> Tensor:
    """The mean surprise, step by step."""
    predictions = without_last(logits)
    targets = without_first(tokens)
    surprise = -at_ids(logarithms(predictions, -1), targets)
    counted_tokens = unlike(targets, pad)  # pyright: ignore[reportArgumentType]
    count = total(counted_tokens, None)
    return total(surprise * counted_tokens, None) / count


MISTAKES = (
    OVERWRITTEN,
    mistake(
        "sequence_loss.not_shifted",
        "Take a sequence of four tokens. Write down which row of logits is compared with which token.",
        change="predictions = logits\ntargets = tokens",
        costs=("shift", "gradients"),
    ),
    mistake(
        "sequence_loss.divided_by_all",
        "A loss is a mean. Of how many numbers is this one the mean, with padding and without?",
        change="return mean(surprise * counted_tokens, None)",
        costs=("padding",),
    ),
    mistake(
        "sequence_loss.shifted_back",
        "Which of the two loses its first entry, and which its last?",
        change="predictions = without_first(logits)\ntargets = without_last(tokens)",
    ),
    mistake(
        "sequence_loss.rolled",
        "What is the answer at the last position? Should it be asked for at all?",
        change="predictions = logits\ntargets = tokens.roll(-1, 1)",
    ),
    mistake(
        "sequence_loss.padding_counted",
        "Which targets must have no part in the loss?",
        change="counted_tokens = torch.ones_like(targets)",
        costs=("padding",),
    ),
    mistake(
        "sequence_loss.mask_of_read",
        "There are two lists of tokens now: the input and the targets. Which of them has to be checked for padding?",
        change="counted_tokens = unlike(tokens[:, : targets.size(1)], pad)",
        costs=("padding",),
    ),
    mistake(
        "sequence_loss.per_sequence",
        "The task asks for one mean. Of which numbers?",
        change=(
            "return ((surprise * counted_tokens).sum(1) / counted_tokens.sum(1)).mean()",
            "return ((surprise * counted_tokens).sum(1) / counted_tokens.sum(1).clamp(min=1)).mean()",
            "means = (surprise * counted_tokens).sum(1) / counted_tokens.sum(1)\nreturn means.nanmean()",
        ),
        costs=("padding",),
    ),
    mistake(
        "sequence_loss.summed",
        "What is a sum divided by to become the mean of the tokens that count?",
        change="return total(surprise * counted_tokens, None)",
    ),
    mistake(
        "sequence_loss.by_batch",
        "What is a sum divided by to become the mean of the tokens that count?",
        change="return total(surprise * counted_tokens, None) / batch",
    ),
    mistake(
        "sequence_loss.softmax_twice",
        "What does `cross_entropy` expect: logits or probabilities?",
        change="logits = softmax(logits, -1)",
    ),
    mistake(
        "sequence_loss.detached",
        "Look for `.item()`, `detach`, `no_grad`, `.data` or a new tensor made from numbers.",
        change="surprise = surprise.detach()",
    ),
)

SEQUENCE_LOSS = Exercise(
    name="sequence_loss",
    returns="one number, a tensor of shape ()",
    shape=lambda case: (),
    criteria=(
        Criterion("shift", "a model is asked for what comes next", 0.5),
        Criterion("padding", "padding changes nothing", 0.4),
        Criterion("gradients", "gradients reach the logits", 0.1),
        KEPT,
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    steps=steps,
)
