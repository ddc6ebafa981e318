"""The probabilities from which the next token is drawn: temperature, top-k, top-p (lab 10).

What is drawn is random and cannot be compared; what it is drawn from can. No case has ties, or a sum of probabilities
near `top_p`: there, rounding would decide.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder.covering import Axis, Choice, Sizes
from autograder.exercise import Case, Criterion, Exercise, Inputs, Property, Weights
from autograder.exercises.known import mistake, overwritten
from autograder.exercises.rows_to_draw_from import logits_of, top_p_between
from headroom import reference

LARGE = 3e4  # added to every logit: the probabilities stay, and its exponential is infinite


def cases(rng: np.random.Generator) -> list[Case]:
    """Each option alone and with the others, at its ends, and logits whose exponentials overflow."""
    visible = np.random.default_rng(102)

    def case(
        tag: str,
        source: np.random.Generator,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = 1.0,
        offset: float = 0.0,
        shape: tuple[int, int] = (3, 7),
        **kwargs: Any,
    ) -> Case:
        """top_p: None: one that is drawn."""
        logits = logits_of(source, shape)
        top_p = top_p_between(source, logits, temperature, top_k) if top_p is None else top_p
        said = f"temperature {temperature:g}, top_k {top_k}, top_p {top_p:g}"
        label = f"logits of shape {shape}" + (f" about {offset:,.0f}" if offset else "") + f", {said}"
        return Case(tag, label, (logits + offset, temperature, top_k, top_p), single=not offset, **kwargs)

    return [
        case("temperature", visible, 0.5, visible=True),
        case("temperature", rng, 1.7, shape=(4, 6)),
        case("temperature", rng, 0.2),
        case("temperature", rng, 0.7, offset=LARGE),
        case("temperature", rng, 1e-3),
        case("top_k", visible, top_k=3, visible=True),
        case("top_k", rng, 1.5, top_k=2, shape=(4, 9)),
        case("top_k", rng, top_k=1),
        case("top_k", rng, top_k=4, offset=-LARGE),
        case("all", visible, top_k=7, visible=True),
        case("all", rng, top_k=50),
        case("top_p", visible, top_p=None, visible=True),
        case("top_p", rng, top_p=None, shape=(5, 9)),
        case("top_p", rng, 0.6, top_p=None, offset=LARGE),
        *(case("top_p", rng, 0.6, top_p=top_p) for top_p in (1e-6, 0.98)),
        case("both", visible, top_k=4, top_p=None, visible=True),
        case("both", rng, 1.6, top_k=5, top_p=None, shape=(4, 9)),
        case("both", rng, 0.6, top_k=3, top_p=None, shape=(2, 8)),
        case("both", rng, 0.9, top_k=12, top_p=None, shape=(3, 8)),
    ]


AXES = (
    Axis("batch", most=5),
    Axis("n_vocabulary", least=2, most=9, long=70),
    Choice("options", ("none", "temperature", "top_k", "top_p", "all three"), told=False),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, n, options = sizes.values()
    logits = logits_of(rng, (batch, n))
    temperature = float(rng.choice({"temperature": [0.3, 0.8, 1.4, 2.0], "all three": [0.8, 1.4]}.get(options, [1.0])))
    top_k = max(1, min(n - 1, int(rng.integers(2, 5)))) if options in ("top_k", "all three") else None
    top_p = top_p_between(rng, logits, temperature, top_k) if options in ("top_p", "all three") else 1.0
    tag = {"none": "all", "all three": "both"}.get(options, options)
    given, defaults = [temperature, top_k, top_p], [1.0, None, 1.0]
    while given and given[-1] == defaults[len(given) - 1]:  # left out, as a caller would
        given.pop()
    return Case(tag, "", (logits, *given))


def right_answer(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    return reference.next_probabilities(*inputs)


def by_hand(logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0, /) -> Tensor:
    """The probabilities, step by step."""
    warm = logits / temperature
    count = warm.size(-1) if top_k is None else min(top_k, warm.size(-1))
    ranked = warm.sort(-1, True).values
    lowest = ranked[:, count - 1 : count]
    allowed = warm >= lowest
    visible = warm.masked_fill(~allowed, -torch.inf)
    left = visible.softmax(-1)
    judged = left
    sorted_pair = judged.sort(-1, True)
    falling = sorted_pair.values
    order = sorted_pair.indices
    likelier = falling.cumsum(-1) - falling
    cut = torch.zeros_like(likelier, dtype=torch.bool) if top_p == 1 else likelier >= top_p
    dropped = torch.zeros_like(cut).scatter(-1, order, cut)
    kept = left.masked_fill(dropped, 0.0)
    sums = kept.sum(-1, keepdim=True)
    return kept / sums


def _sums_to_one(case: Case, output: np.ndarray) -> bool:
    return bool(np.allclose(output.sum(-1), 1))


NOT_ONE = "return kept if top_p < 1 else left"
ALL = "torch.ones_like(warm, dtype=torch.bool)"

MISTAKES = (
    overwritten(
        "contract", look="Look for an assignment into a slice, an operator such as `-=`, or a method that ends in `_`."
    ),
    mistake(
        "next_probabilities.temperature_ignored",
        "Follow `temperature` through your code.",
        change="warm = logits",
        costs=("temperature",),
    ),
    mistake(
        "next_probabilities.temperature_multiplied",
        "Print the probabilities at a temperature of 0.1. Has the likeliest token nearly all?",
        change="warm = logits * temperature",
        costs=("temperature",),
    ),
    mistake(
        "next_probabilities.temperature_after",
        "What does the softmax have to see for the temperature to matter?",
        change=(
            "warm = logits\nreturn kept / sums / temperature",
            "warm = logits\nleft = visible.softmax(-1) / temperature\nreturn kept if top_p == 1 else kept / sums",
        ),
        costs=("temperature",),
    ),
    mistake(
        "next_probabilities.temperature_too_late",
        "In which order does the task list the three steps?",
        change="judged = logits.masked_fill(~allowed, -torch.inf).softmax(-1)",
        costs=("top_p", "both"),
    ),
    mistake(
        "next_probabilities.top_k_ignored",
        "Follow `top_k` through your code. Is the result of what it does assigned?",
        change=f"allowed = {ALL}",
        costs=("top_k",),
    ),
    mistake(
        "next_probabilities.one_too_many",
        "Count the tokens of a row whose probability is not 0.",
        "number",
        change="lowest = ranked[:, min(count, ranked.size(1) - 1), None]",
        costs=("top_k",),
    ),
    mistake(
        "next_probabilities.one_too_few",
        "Count the tokens of a row whose probability is not 0, for several `top_k`, also for 1.",
        "number",
        change="allowed = warm > lowest if top_k is not None else warm >= lowest",
        costs=("top_k",),
    ),
    mistake(
        "next_probabilities.least_likely",
        "Print the logits of a row, and which of them are kept. If you sort, in which order?",
        change="allowed = warm <= warm.sort(-1).values[:, count - 1 : count]",
        costs=("top_k",),
    ),
    mistake(
        "next_probabilities.filled_with_0",
        "Which logit gives a token the probability 0?",
        change="visible = warm.masked_fill(~allowed, 0.0)",
        costs=("top_k",),
    ),
    mistake(
        "next_probabilities.first_row_for_all",
        "Is there a 0 where a colon should stand? Print the shape of what you compare the logits with.",
        change="lowest = ranked[slice(None if top_k is None else 1), count - 1 : count]",
        costs=("top_k",),
    ),
    mistake(
        "next_probabilities.not_renormalised",
        "Sum a row of your result.",
        change=(
            NOT_ONE,
            "visible = warm\nleft = visible.softmax(-1) * allowed\n" + NOT_ONE,
            "visible = warm\nleft = visible.softmax(-1) * allowed\nreturn kept if top_p < 1 or top_k else left",
        ),
        costs=("top_p",),
    ),
    mistake(
        "next_probabilities.top_p_ignored",
        "Follow `top_p` through your code.",
        change="cut = torch.zeros_like(likelier, dtype=torch.bool)",
        costs=("top_p", "both"),
    ),
    mistake(
        "next_probabilities.last_dropped",
        "Take the probabilities 0.6, 0.3, 0.1 and top_p = 0.7. Which set is the smallest that reaches 0.7?",
        change=(
            "cut = torch.zeros_like(likelier, dtype=torch.bool) if top_p == 1 else falling.cumsum(-1) > top_p",
            "cut = (falling.cumsum(-1) > top_p) & (likelier > 0) & (top_p < 1)",
        ),
        costs=("top_p", "both"),
    ),
    mistake(
        "next_probabilities.one_more",
        "Take the probabilities 0.6, 0.3, 0.1 and top_p = 0.5. Which set is the smallest that reaches 0.5?",
        change="cut = F.pad(likelier >= top_p, (1, 0))[:, :-1] if top_p < 1 else likelier > 2",
        costs=("top_p", "both"),
    ),
    mistake(
        "next_probabilities.threshold",
        "Which sum does the task compare with top_p?",
        change=(
            "dropped = judged < top_p if top_p < 1 else judged < 0",
            "dropped = judged < 1 - top_p",
            "dropped = judged < top_p * judged.amax(-1, keepdim=True) if top_p < 1 else judged < 0",
        ),
        costs=("top_p", "both"),
    ),
    mistake(
        "next_probabilities.rising",
        "With which token does your sum begin? If you sort, in which order?",
        change="sorted_pair = judged.sort(-1)",
        costs=("top_p", "both"),
    ),
    mistake(
        "next_probabilities.unsorted",
        "From which token on does the sum have to run?",
        change="falling = judged\norder = torch.arange(judged.size(1)).expand_as(judged)",
        costs=("top_p", "both"),
    ),
    mistake(
        "next_probabilities.left_sorted",
        "To which token does a column of your result belong? `sort` returns two things.",
        change=(
            "dropped = cut\nkept = falling.masked_fill(dropped, 0.0)",
            "dropped = cut\nkept = (falling if top_p < 1 else left).masked_fill(dropped, 0.0)",
        ),
        costs=("top_p", "both"),
    ),
    mistake(
        "next_probabilities.top_p_first",
        "The probabilities that you add up: what do those of the tokens that `top_k` has left sum to?",
        change=(
            "judged = warm.softmax(-1)",
            "judged = warm.softmax(-1) * allowed",
        ),
        costs=("both",),
    ),
    mistake(
        "next_probabilities.over_batch",
        "Along which axis does your softmax run, and which axis of the logits counts the vocabulary?",
        change=(
            "left = visible.softmax(0)\nreturn kept if top_p == 1 else kept / sums",
            "left = visible.softmax(0)\nreturn kept",
            "left = visible.softmax(0)",
        ),
        costs=("temperature",),
    ),
    mistake(
        "next_probabilities.logits_returned",
        "Is every entry of your result between 0 and 1?",
        change=("return kept.log() - sums.log()", "return warm.masked_fill(kept == 0, -torch.inf)"),
        costs=("temperature", "top_k", "top_p", "both", "all"),
    ),
)

NEXT_PROBABILITIES = Exercise(
    name="next_probabilities",
    returns="a tensor of the shape of logits, (batch, n_vocabulary)",
    shape=lambda case: case.inputs[0].shape,
    criteria=(
        Criterion("shape", "runs, and the result has the shape of logits", 0.1),
        Criterion("temperature", "softmax(logits / temperature), logits in the tens of thousands too", 0.2),
        Criterion("top_k", "the top_k likeliest tokens and no others", 0.2),
        Criterion("top_p", "the smallest set of likeliest tokens whose probabilities add up to top_p", 0.2),
        Criterion("both", "top_p of what top_k has left", 0.1),
        Criterion("all", "top_k as large as the vocabulary, or larger, or None: all tokens", 0.1),
        Criterion("contract", "logits stay untouched, float32 stays float32", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    varied=by_hand,
    properties=(Property("each row sums to 1", _sums_to_one),),
    tolerance=lambda case, expected: np.where(np.asarray(expected) == 0, 1e-15, 1e-5),  # what is dropped is never drawn
)
