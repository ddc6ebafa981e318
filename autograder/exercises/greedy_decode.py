"""Greedy decoding: text from a model that gives the logits of the next token (lab 6)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import probe
from autograder.covering import Axis, Sizes
from autograder.exercise import Case, Criterion, Exercise, Inputs, Property, Weights
from autograder.exercises.known import mistake
from headroom import reference

SURE = 1e3  # the logit of the end token where a row has to end, and its negative everywhere else
MANY = 264  # tokens of a vocabulary whose last ids fit into no byte
LARGE = 3e4  # added to every logit: what is likeliest stays so, and its exponential is infinite


def cases(rng: np.random.Generator) -> list[Case]:
    """Rows that never end, that end one after the other, and that all end; each row of a batch with its own text."""
    visible = np.random.default_rng(7)

    def case(
        tag: str,
        source: np.random.Generator,
        ends: list[int | None],
        max_tokens: int,
        n_target: int = 0,
        offset: float = 0.0,
        ids: tuple[int, int] | None = None,
        close: bool = False,
        refuses: bool = False,
        **kwargs: Any,
    ) -> Case:
        """One batch.

        ends: for each row, how many tokens it has with its end token; None: more than it may have.
        close: whether all logits but those of the end lie within hundredths of each other.
        refuses: whether the model raises an error for a text that was written on when it was complete.
        """
        batch, n_target = len(ends), n_target or int(source.choice([7, 8, 9]))
        among = np.arange(max(1, n_target - 6), n_target - 1)
        start, end = ids or map(int, source.choice(among, size=2, replace=False))
        length = max_tokens + 2
        rows = 2 * source.normal(size=(batch, length, n_target))  # as much as a beginning of four tokens
        rows[..., end] = -SURE
        for row, place in enumerate(ends):
            if place is not None:
                rows[row, place - 1, end] = SURE
        before = source.normal(size=(length, n_target, n_target))
        before[..., end] = 0.0
        for row, place in enumerate(ends):  # every row that is free to tells how it was begun
            firsts = {0, end, start}
            while place != 1 and len({int((rows[row, 0] + before[0, i]).argmax()) for i in firsts}) < len(firsts):
                rows[row, 0] = 2 * source.normal(size=n_target)
                rows[row, 0, end] = -SURE
        if close:
            rows, before = np.where(abs(rows) < SURE, 1e-3 * rows, rows), 1e-3 * before
        model = {"$make": "next_logits", "rows": rows + offset, "before": before}
        model |= {"end": end, "most": max_tokens} if refuses else {}
        when = ", ".join("never" if place is None else str(place) for place in ends)
        label = f"batch {batch}, rows end after {when} tokens, max_tokens {max_tokens}"
        label += f", {n_target} tokens to choose from" if n_target == MANY else ""
        label += f", logits about {offset:,.0f}" if offset else ""
        label += ", close logits" if close else ""
        label += f", start={start}, end={end}" if ids else ""
        label += ", and next_logits takes no token too many" if refuses else ""
        return Case(tag, label, (model, start, end, max_tokens, batch), refuses=refuses, **kwargs)

    return [
        case("values", visible, [None, None, None], 5, visible=True),
        case("values", rng, [None] * 4, 6),
        case("values", rng, [None, None], 3, n_target=7, ids=(0, 6)),
        case("values", rng, [None, None], 3, n_target=7, ids=(6, 0)),
        case("ends", visible, [2, None, 4], 6, visible=True),
        case("ends", rng, [None, 3, 1, 5], 7),
        case("stop", visible, [2, 3], 7, visible=True),
        case("stop", rng, list(map(int, rng.permutation([1, 2, 4]))), 8),
        case("values", rng, [None] * 5, 4, offset=LARGE, single=False),
        case("values", rng, [None] * 3, 5, close=True),
        case("ends", rng, [3, 1, None], 4, n_target=7, ids=(6, 0), offset=-LARGE, single=False),
        case("stop", rng, [2, 1], 3, n_target=MANY),
        case("limit", rng, [None, None, 1, None, None], 1),
        case("limit", rng, [4], 4),
        case("stop", rng, [3, 1, 2], 6, refuses=True),
        case("limit", rng, [None, 2], 3, refuses=True),
    ]


AXES = (Axis("batch", most=4), Axis("n_target", least=4, most=9), Axis("max_tokens", most=6, long=105))


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, n_target, max_tokens = sizes.values()
    start, end = 1, 2  # always: another model may give other texts for the same arguments
    rows = 2 * rng.normal(size=(batch, max_tokens + 2, n_target))
    before = rng.normal(size=(max_tokens + 2, n_target, n_target))
    # Where a row ends is its own: a wrong token changes what is written, never how much.
    rows[..., end] = np.where(rng.random((batch, max_tokens + 2)) < 0.2, SURE, -SURE)
    if max_tokens > 20:
        rows[0, :, end] = -SURE  # the longest text is as long as it may be
    model = {"$make": "next_logits", "rows": rows, "before": before}
    return Case("values", "", (model, start, end, max_tokens, batch))


class _Model:
    """What `reference.greedy_decode` asks of a Transformer, around a function of all tokens so far."""

    decoder = SimpleNamespace(blocks=())

    def __init__(self, next_logits: Callable[[Tensor], Tensor]):
        self.next_logits, self.tokens = next_logits, None

    def encode(self, source: Tensor, mask: None) -> None:
        return None

    def decode(self, token: Tensor, *_: Any) -> Tensor:
        self.tokens = token if self.tokens is None else torch.cat([self.tokens, token], dim=1)
        return self.next_logits(self.tokens)[:, -1:]


def right_answer(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    model, start, end, max_tokens, batch = inputs
    source = torch.zeros(batch, 1, dtype=torch.int64)
    stand_in: Any = _Model(probe.made(model))
    return reference.greedy_decode(stand_in, source, start, end, max_tokens)


def variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """Greedy decoding with mistakes switched on."""
    next_logits, start, end, max_tokens, batch = inputs
    next_logits = probe.made(next_logits)
    first = 0 if "no_start" in slips else end if "starts_with_end" in slips else start
    tokens = torch.full((batch, 1), first)
    ended = torch.zeros(batch, dtype=torch.bool)
    most = max_tokens - ("one_too_few" in slips) + ("one_too_many" in slips)
    while tokens.size(1) <= most or "no_limit" in slips:
        if not slips & {"never_stops", "cut_off"} and (ended.any() if "stops_with_the_first" in slips else ended.all()):
            break
        if tokens.size(1) > 200:
            raise RuntimeError("without end")
        logits = next_logits(tokens[:, -1:] if "last_token_only" in slips else tokens)  # (batch, t, n_target)
        if "over_tokens" in slips:
            chosen = logits.argmax(1)[:, -1]
        else:
            chosen = logits[:, 0 if "first_position" in slips else -1].argmax(-1)  # (batch,)
        if "first_row_for_all" in slips:
            chosen = chosen[:1].expand(batch)
        if "goes_on" not in slips:
            chosen = chosen.masked_fill(
                ended, 0 if "filled_with_0" in slips else start if "restarted" in slips else end
            )
        ended = ended | (chosen == end)
        if "end_not_written" in slips and bool(ended.all()):
            break
        tokens = torch.cat([tokens, chosen[:, None]], dim=1)
    if "cut_off" in slips:  # once all rows have ended
        tokens = tokens[:, : 2 + int((tokens[:, 1:] == end).cumsum(1).eq(0).sum(1).max())]
    return tokens if "start_returned" in slips else tokens[:, 1:]


def _repeats_end(case: Case, output: np.ndarray) -> bool | None:
    """Whether only end tokens come after a row's first one; None where a case is not about ends."""
    end = case.inputs[2]
    if case.tag not in ("ends", "stop") or output.ndim != 2:
        return None
    ended = np.cumsum(output == end, axis=1) > 0
    return bool((output[ended] == end).all())


MISTAKES = (
    mistake(
        "greedy_decode.first_row_for_all",
        "Is there a 0 where a colon should stand? Print the shape of what you take the argmax of.",
        "choice",
    ),
    mistake(
        "greedy_decode.over_tokens",
        "The logits have shape (batch, t, n_target). Which axis counts the tokens to choose from?",
        "choice",
    ),
    mistake(
        "greedy_decode.first_position",
        "Of the t answers that the model gives, which is new?",
        "position",
    ),
    mistake(
        "greedy_decode.last_token_only",
        "Print the shape of what you pass to `next_logits` in the third step.",
        "fed",
    ),
    mistake(
        "greedy_decode.no_start",
        "Look at what `tokens` is filled with before the loop.",
        "start",
        also=("starts_with_end",),
    ),
    mistake(
        "greedy_decode.start_returned",
        "What has to be cut off before the tokens are returned?",
        "returned",
        costs=("shape",),
    ),
    mistake(
        "greedy_decode.goes_on",
        "Which rows may still choose? What does a row get that may not?",
        "ended",
        costs=("ends",),
    ),
    mistake(
        "greedy_decode.filled_with_0",
        "Look at what an ended row is filled with.",
        "ended",
        also=("restarted",),
        costs=("ends",),
    ),
    mistake(
        "greedy_decode.stops_with_the_first",
        "How many rows have to be done before nothing is left to do: any, or all?",
        "stop",
        costs=("ends", "stop"),
    ),
    mistake(
        "greedy_decode.never_stops",
        "What could the loop look at to see that no row is left to write?",
        "stop",
        also=("cut_off",),
        costs=("stop",),
    ),
    mistake(
        "greedy_decode.end_not_written",
        "Does your loop put the new tokens in place before it stops, and does what you return hold them all?",
        "last",
        costs=("stop",),
    ),
    mistake(
        "greedy_decode.one_too_few",
        "How long is `tokens` after one step? After how many steps does your loop end?",
        "limit",
        costs=("limit",),
    ),
    mistake(
        "greedy_decode.one_too_many",
        "How long is `tokens` after one step? After how many steps does your loop end?",
        "limit",
        costs=("limit",),
    ),
    mistake(
        "greedy_decode.no_limit",
        "What ends your loop if the end token never comes?",
        "limit",
        costs=("limit", "values", "ends"),
    ),
)

GREEDY_DECODE = Exercise(
    name="greedy_decode",
    returns="token ids, whole numbers, of shape (batch, at most max_tokens)",
    shape=lambda case: right_answer(None, case.inputs, {}).shape,
    criteria=(
        Criterion("shape", "runs, and returns the written tokens, (batch, at most max_tokens)", 0.15),
        Criterion("values", "each token is the likeliest after all that came before it", 0.4),
        Criterion("ends", "a row that has ended repeats its end token", 0.15),
        Criterion("stop", "stops as soon as every row has ended", 0.15),
        Criterion("limit", "never more than max_tokens", 0.15),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    variation=variation,
    properties=(Property("after its first end token a row holds nothing else", _repeats_end),),
)
