"""A report on what a model writes: the last of five broken programs to mend (lab 8)."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes
from autograder.exercise import Case, Criterion, Exercise, Inputs, Weights
from autograder.exercises.broken_programs import OVERWRITTEN
from autograder.exercises.known import mistake


def cases(rng: np.random.Generator) -> list[Case]:
    """Models that are sometimes right. Words of one length, for which only the writing counts, and words of several."""
    visible = np.random.default_rng(85)
    return [
        _case("words of one length", visible, [6, 6, 6, 6], 7, int(visible.integers(7)), visible=True),
        _case("words of several lengths", visible, [7, 3, 4, 5], 8, int(visible.integers(8)), visible=True),
        _case("words of several lengths", rng, [9, 3, 6, 4, 2], 9, int(rng.integers(9))),
    ]


def _case(
    label: str,
    rng: np.random.Generator,
    lengths: list[int],
    n_tokens: int,
    end: int,
    visible: bool = False,
    stops: int = -1,
    stays: int = -1,
) -> Case:
    """A model that writes letter after letter of a circle, and words that leave the circle near their beginning.

    At letter number `stops` of the circle it ends a word, unless words are longer than the whole circle; at number
    `stays`, if there is one, it stays. Which letter is likeliest, a row of logits says by itself: hidden ones lie
    anywhere, and some of them close together.
    """
    letters = [token for token in range(n_tokens) if token != end]
    after = rng.permutation(letters)
    table = rng.uniform(-2.0, 2.0, (n_tokens, n_tokens))
    table[after, np.roll(after, -1)] += 6.0
    table[end, after[0]] += 6.0  # what it would write after an end, if it were asked
    if max(lengths) <= n_tokens or stops >= 0:  # else it goes round and round, to the end of the longest word
        table[after[stops], end] += 12.0
    if stays >= 0:
        table[after[stays], after[stays]] += 20.0
    if not visible:
        table = table * rng.uniform(0.02, 1.0, (n_tokens, 1)) + rng.uniform(-1e3, 1e3, (n_tokens, 1))
    following = table.argmax(1)
    words = np.full((len(lengths), max(lengths)), end)
    for row, length in enumerate(lengths):
        words[row, 0] = after[row % 3]
        for place in range(1, length - 1):
            usual = following[words[row, place - 1]]
            leaves = usual == end or place == 1 + row % 2 or rng.random() < 0.3
            words[row, place] = rng.choice([letter for letter in letters if letter != usual]) if leaves else usual
    tag = "alone" if len(set(lengths)) == 1 else "counted"
    about = f"{label}, words of shape {words.shape}, end={end}".removeprefix(", ")
    return Case(tag, about, (table, words, end), visible=visible, single=False)


AXES = (
    Axis("words", most=5),
    Axis("letters", least=2, most=8, long=40),  # of the longest word, with its end
    Axis("n_tokens", least=4, most=9),
    Choice("lengths", ("equal", "longest first", "longest last")),
    Choice("end", ("the first id", "the last id", "another id")),
    Choice("model", ("writes on", "ends early", "stays")),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    words, letters, n_tokens, kind, end, model = sizes.values()
    lengths = np.full(words, letters)
    if kind != "equal":
        lengths = np.sort(rng.integers(2, letters + 1, words))[:: -1 if kind == "longest first" else 1].copy()
        lengths[0 if kind == "longest first" else -1] = letters
    ends = {"the first id": 0, "the last id": n_tokens - 1, "another id": n_tokens // 2}
    stops, stays = 2 if model == "ends early" else -1, 1 if model == "stays" else -1
    return _case("", rng, lengths.tolist(), n_tokens, ends[end], stops=stops, stays=stays)


def right_answer(build: None, inputs: Inputs, weights: Weights) -> tuple[Tensor, Tensor]:
    table, words, end = inputs
    after = table.detach().argmax(dim=-1)
    after[end] = end
    written = [words[:, 0]]
    while len(written) < words.size(1):
        written.append(after[written[-1]])
    written = torch.stack(written, dim=1)
    asked = words[:, :-1] != end
    return written, (written == words)[:, 1:][asked].to(table).mean()


def variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> tuple[Tensor, Tensor]:
    """The report with mistakes switched on."""
    table, words, end = inputs
    after = (table.mT if "columns" in slips else table).detach().argmax(dim=-1)
    if "not_stopped" not in slips:
        after[end] = end
    written = words[:, :1]
    for place in range(1, words.size(1)):
        last = written[:, 0 if "first_again" in slips else -1]
        last = words[:, place - 1] if "answers_read" in slips else last
        written = torch.cat([written, after[last][:, None]], dim=1)
    right = written == words
    asked = F.pad(words[:, :-1] != end, (1, 0))
    if "filler_counted" in slips:
        asked[:, 1:] = True
    elif "end_not_counted" in slips:
        asked[:, 1:] = words[:, 1:] != end
    elif "as_written" in slips:
        asked[:, 1:] = written[:, :-1] != end
    if "first_counted" in slips:
        asked[:, 0] = True
    counted = (right & asked).to(table)
    shares = {
        "whole_words": (right | ~asked).all(dim=1).to(table).mean(),
        "per_word": (counted.sum(dim=1) / asked.sum(dim=1)).mean(),
        "summed": counted.sum(),
        "by_all": counted[:, 1:].mean(),
    }
    return written, next((share for key, share in shares.items() if key in slips), counted.sum() / asked.sum())


MISTAKES = (
    OVERWRITTEN,
    mistake(
        "letters_right.answers_read",
        "At every letter, ask: what has been written so far, and what is read?",
        "read",
        costs=("alone",),
    ),
    mistake(
        "letters_right.filler_counted",
        "How many places should a word of three letters contribute in a batch of width nine? How many do you count?",
        "count",
        costs=("counted",),
    ),
    mistake(
        "letters_right.by_all",
        "A share has two counts. Which of yours still depends on the width of the batch?",
        "mean",
        costs=("counted",),
    ),
    mistake(
        "letters_right.end_not_counted",
        "Which is the last place that belongs to a word?",
        "count",
        costs=("counted",),
    ),
    mistake(
        "letters_right.as_written",
        "Whose length says what was asked for?",
        "count",
        costs=("counted",),
    ),
    mistake(
        "letters_right.first_counted",
        "Which letters did the model write?",
        "first",
        costs=("counted",),
    ),
    mistake(
        "letters_right.per_word",
        "The task asks for the share of all letters. Of which numbers do you take the mean?",
        "mean",
        costs=("counted",),
    ),
    mistake(
        "letters_right.whole_words",
        "The task asks for the share of letters.",
        "mean",
    ),
    mistake(
        "letters_right.summed",
        "Right letters out of how many?",
        "mean",
    ),
    mistake(
        "letters_right.not_stopped",
        "Compare with the program that you were given: what did it do with an ended word?",
        "stop",
    ),
    mistake(
        "letters_right.first_again",
        "Which letter has just been written?",
        "read",
    ),
    mistake(
        "letters_right.columns",
        "What does a row of the table hold?",
        "table",
    ),
)

LETTERS_RIGHT = Exercise(
    name="letters_right",
    returns="two tensors: what the model wrote, int64 (words, length), and a share of shape ()",
    shape=lambda case: (case.inputs[1].shape, ()),
    parts=("what was written", "the share"),
    criteria=(
        Criterion("alone", "the model writes on its own", 0.5),
        Criterion("counted", "only letters that were asked for are counted", 0.5),
        Criterion("contract", "the tensors that you are given stay as they were, what is written is int64", 0.0),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    variation=variation,
)
