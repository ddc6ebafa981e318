"""Writing with a language model and a cache: greedily, so that there is one right text (lab 10)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import probe
from autograder.covering import Axis, Sizes
from autograder.exercise import Case, Criterion, Evidence, Exercise, Inputs, Weights
from autograder.exercises.known import mistake, overwritten
from headroom import reference

IN_A_BYTE, MANY = 256, 264  # token ids that fit into a byte, and some more
LARGE = 3e4  # added to every logit: what is likeliest stays so, and its exponential is infinite


def cases(rng: np.random.Generator) -> list[Case]:
    """Any text; a model in which what was kept is another number than what is computed anew; a text that just fits."""
    visible = np.random.default_rng(105)

    def case(tag: str, source: np.random.Generator, batch: int, begun: int, n_tokens: int, **kwargs: Any) -> Case:
        drift, offset = (0.75 if tag == "kept" else 0.0), kwargs.pop("offset", 0.0)
        n_vocabulary = kwargs.pop("n_vocabulary", 9)
        small = n_vocabulary == MANY  # or its tables would be large
        length = begun + n_tokens
        room = length - 1 if tag == "limit" else length if small else 2 * length
        model, ids = _model(source, batch, begun, n_vocabulary, room, 1 if small else 2, drift, offset)
        model |= {"calls": n_tokens} if tag == "limit" else {}
        label = f"batch {batch}, begun with {begun} tokens, n_tokens {n_tokens}, max_tokens {room}"
        label += ", what is read again is another number" if drift else ""
        label += f", logits about {offset:,.0f}" if offset else ""
        label += f", {n_vocabulary} tokens to choose from" if n_vocabulary != 9 else ""
        return Case(tag, label, (model, ids, n_tokens), **kwargs)

    return [
        case("values", visible, 3, 4, 5, visible=True),
        case("values", rng, 4, 3, 6),
        case("values", rng, 5, 1, 4),
        case("values", rng, 3, 5, 4, offset=LARGE, single=False),
        case("values", rng, 4, 2, 3, offset=-LARGE, single=False),
        case("values", rng, 2, 1, 2, n_vocabulary=MANY),
        case("values", rng, 1, 2, 12, n_vocabulary=3),
        case("kept", visible, 3, 4, 5, visible=True),
        case("kept", rng, 2, 3, 6),
        case("kept", rng, 4, 2, 5),
        case("kept", rng, 2, 3, 40, once=True),
        case("limit", visible, 2, 3, 4, visible=True),
        case("limit", rng, 3, 4, 1),
        case("limit", rng, 3, 2, 7),
    ]


def _model(
    rng: np.random.Generator,
    batch: int,
    begun: int,
    n_vocabulary: int,
    room: int,
    blocks: int,
    drift: float,
    offset: float = 0.0,
) -> tuple[dict[str, Any], np.ndarray]:
    """A model, and how its texts begin: no two rows alike, and with another model as with this one."""
    rows = 2 * rng.normal(size=(batch, room, n_vocabulary)) + offset
    rows[..., IN_A_BYTE:] += 20.0  # where there are such ids, they are written
    before = 1.5 * rng.normal(size=(blocks, room, n_vocabulary, n_vocabulary))
    ids = (3 * np.arange(begun) + np.arange(batch)[:, None]) % n_vocabulary
    return {"$make": "writer", "rows": rows, "before": before, "drift": drift}, ids


AXES = (
    Axis("batch", most=4),
    Axis("begun", most=6, long=40),
    Axis("n_vocabulary", least=4, most=9),
    Axis("n_tokens", most=6, long=20),
    Axis("blocks", most=3),
)


def drawn(sizes: Sizes, rng: np.random.Generator) -> Case:
    batch, begun, n_vocabulary, n_tokens, blocks = sizes.values()
    model, ids = _model(rng, batch, begun, n_vocabulary, 2 * (begun + n_tokens), blocks, 0.0)
    return Case("values", "", (model, ids, n_tokens))


def right_answer(build: None, inputs: Inputs, weights: Weights) -> Tensor:
    model, ids, n_tokens = inputs
    return reference.LanguageModel.generate(_renewed(model), ids, n_tokens, top_k=1)


def _renewed(model: Any) -> Any:
    """The model, as if it had not been called yet: the judge has one for the right answer and for every mistake."""
    model = probe.made(model)
    model.renew()
    return model


def variation(build: None, inputs: Inputs, weights: Weights, slips: frozenset[str]) -> Tensor:
    """Writing with mistakes switched on, as the `key`s of the list below name them."""
    model, ids, n_tokens = inputs
    model = _renewed(model)
    on = {slip.removeprefix("generate.") for slip in slips}
    text, new, written = ids, ids, list[Tensor]()
    if "last_of_the_beginning" in on:
        new = ids[:, -1:]
    cache = [reference.KeyValueCache() for _ in model.blocks]
    for _ in range(n_tokens - ("one_too_few" in on) + ("one_too_many" in on)):
        if "no_cache" in on:
            logits = model(text[:, ids.size(1) - 1 :] if "last_of_the_beginning" in on else text)
        elif "whole_text_again" in on:
            logits = model(text, cache)
        elif "forgets" in on:
            logits = model(text[:, -1:])
        elif "forgets, but the beginning" in on:
            logits = model(new)
        else:
            logits = model(new, cache)
        chosen = (
            logits.argmax(1)[:, -1]
            if "over_tokens" in on
            else logits[:, 0 if "first_position" in on else -1].argmax(-1)
        )
        if "first_row_for_all" in on:
            chosen = chosen[:1].expand(len(ids))
        new = chosen[:, None]
        written.append(new)
        text = torch.cat([text, new], dim=1)
    if "first_not_kept" in on:
        written = written[1:]
    if "beginning_returned" in on:
        written = [ids, *written]
    return torch.cat(written, dim=1) if written else ids[:, :0]


def _one_cache(seen: Evidence) -> bool:
    return any("needs a cache of its own" in error for error in seen.errors)


def _reads_the_last(seen: Evidence) -> bool:
    """What just fits is too long, and everything else is right."""
    others = {i for i, case in enumerate(seen.cases) if case.tag != "limit"}
    return others <= seen.right and any("longer than max_tokens" in error for error in seen.errors)


MISTAKES = (
    overwritten("contract", look="Look for an assignment into `ids`, or a method whose name ends in an underscore."),
    mistake(
        "generate.no_cache",
        "Print the shape of what you give to the model in the third step. Which of these tokens has it read before?",
        "fed",
        costs=("kept",),
    ),
    mistake(
        "generate.whole_text_again",
        "Print the shape of what you give to the model in the third step, and `len(cache[0])` before that call.",
        "fed",
        costs=("values", "kept", "limit"),
    ),
    mistake(
        "generate.forgets",
        "Where does the cache come from in the second call, and what is in it?",
        "fed",
        also=("generate.forgets, but the beginning",),
        costs=("values", "kept"),
    ),
    mistake(
        "generate.last_of_the_beginning",
        "Print the shape of what you give to the model in the first step.",
        "fed",
        costs=("values", "kept"),
    ),
    mistake(
        "generate.one_cache",
        "`cache[0] is cache[1]` should be False.",
        sign=_one_cache,
    ),
    mistake(
        "generate.first_row_for_all",
        "Is there a 0 where a colon should stand? Print the shape of what you take the argmax of.",
        "choice",
    ),
    mistake(
        "generate.over_tokens",
        "The logits have shape (batch, tokens, n_vocabulary). Which axis counts the vocabulary?",
        "choice",
    ),
    mistake(
        "generate.first_position",
        "The first call gives logits for each position of `ids`. After which of them does the text go on?",
        "choice",
    ),
    mistake(
        "generate.beginning_returned",
        "What has to be left out of what is returned?",
        "returned",
        costs=("shape",),
    ),
    mistake(
        "generate.one_too_few",
        "How many tokens does each call of the model give, and how many calls are there?",
        "count",
        costs=("shape",),
    ),
    mistake(
        "generate.one_too_many",
        "How many tokens does each call of the model give, and how many calls are there?",
        "count",
        costs=("shape", "limit"),
    ),
    mistake(
        "generate.first_not_kept",
        "Follow the token that the first call chooses: where is it added to the result, and is it there at the end?",
        "count",
        costs=("shape",),
    ),
    mistake(
        "generate.one_call_too_many",
        "Count the calls of the model. Whose token is the last that has to be read?",
        "calls",
        sign=_reads_the_last,
        costs=("limit",),
    ),
)

GENERATE = Exercise(
    name="generate",
    returns="token ids, whole numbers, of shape (batch, n_tokens)",
    shape=lambda case: (len(case.inputs[1]), case.inputs[2]),
    criteria=(
        Criterion("shape", "runs, and returns the written tokens, (batch, n_tokens)", 0.1),
        Criterion("values", "each token is the likeliest after all that came before it", 0.4),
        Criterion(
            "kept", "the first call reads ids, each later call one token a row; the rest comes from the cache", 0.3
        ),
        Criterion("limit", "n_tokens calls: a text that just fits into max_tokens can be written", 0.1),
        Criterion("contract", "ids stays untouched, the same answer twice", 0.1),
    ),
    mistakes=MISTAKES,
    cases=cases,
    axes=AXES,
    drawn=drawn,
    reference=right_answer,
    variation=variation,
)
