"""What students' code is given beside arrays: decoders, language models, caches; what they depend on and refuse."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from autograder import probe
from autograder.probe import stand_ins
from autograder.probe.stand_ins import made, refusal
from headroom.reference import KeyValueCache

RNG = np.random.default_rng(0)
ROWS, BEFORE = RNG.normal(size=(2, 5, 4)), RNG.normal(size=(2, 5, 4, 4))
IDS = torch.tensor([[1, 2], [3, 0]])


def writer(**more: Any) -> Any:
    return made({"$make": "writer", "rows": ROWS, "before": BEFORE} | more)


def decoder(**more: Any) -> Any:
    return made({"$make": "next_logits", "rows": ROWS, "before": BEFORE[0]} | more)


def cache() -> Any:
    """The stand-in, which holds a token."""
    return made({"$make": "cache", "keys": np.zeros((2, 1, 1, 1)), "values": np.zeros((2, 1, 1, 1))})


def kept(tokens: int = 0) -> KeyValueCache:
    """A cache as students' code makes it for the model."""
    found = KeyValueCache()
    if tokens:
        found.append(torch.zeros(2, 1, tokens, 1), torch.zeros(2, 1, tokens, 4))
    return found


def twice(append: Any) -> Any:
    return [append(ONE, ONE) for _ in range(2)]


def shared(model: Any) -> Any:
    one = kept()
    return model(IDS, [one, one])


def written_on(model: Any) -> None:
    ids = IDS[:, :1]
    for _ in range(3):
        model(ids)
        ids = torch.cat((ids, torch.full((2, 1), 2)), dim=1)


IDS_OF = "a tensor of token ids, whose dtype is torch.int64; it got"
TOO_LONG = "a sequence of 6 tokens is longer than max_tokens=5"
SHAPE = "of shape (batch, n_groups, tokens, d_head), here (2, 1, tokens, 1); it got"
ONE, FLAT = torch.ones(2, 1, 1, 1), torch.ones(2, 1, 1)
# What is done with which of them, and what it says.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no tensor": (lambda: writer()([[1], [2]]), f"the model takes {IDS_OF} list"),
    "floats": (lambda: writer()(torch.ones(2, 1)), f"the model takes {IDS_OF} floating-point numbers"),
    "truth values": (lambda: decoder()(IDS > 0), f"next_logits takes {IDS_OF} torch.bool"),
    "one axis": (lambda: writer()(IDS[0]), "of shape (batch, tokens), here with batch 2; it got shape (2,)"),
    "another batch": (lambda: writer()(IDS[:1]), "here with batch 2; it got shape (1, 2)"),
    "no token": (lambda: writer()(IDS[:, :0]), "here with batch 2; it got shape (2, 0)"),
    "too long": (lambda: writer()(IDS.repeat(1, 3)), TOO_LONG),
    "too long with what is cached": (lambda: writer()(IDS, [kept(4), kept(4)]), TOO_LONG),
    "one cache": (
        lambda: writer()(IDS, kept()),
        "cache must be a list of 2 caches, one for each of the model's blocks",
    ),
    "too few caches": (lambda: writer()(IDS, [kept()]), "cache must be a list of 2 caches"),
    "a cache for two": (
        lambda: shared(writer()),
        "block 2 finds 2 tokens in its cache, block 1 found 0: each block needs",
    ),
    "too many calls": (
        lambda: [model(IDS) for model in 2 * [writer(calls=1)]],
        "the model is called more than 1 times",
    ),
    "keys of another shape": (lambda: cache().append(FLAT, ONE), f"the cache keeps keys {SHAPE} (2, 1, 1)"),
    "values of another shape": (lambda: cache().append(ONE, ONE[:1]), f"the cache keeps values {SHAPE} (1, 1, 1, 1)"),
    "the same tokens twice": (lambda: twice(cache().append), "the cache was given the same tokens twice in one call"),
    "another batch to decode": (
        lambda: decoder()(IDS[:1]),
        "here with batch 2 and t from 1 to 40; it got shape (1, 2)",
    ),
    "after the end": (lambda: written_on(decoder(end=2)), "written after every row had written its end token"),
    "too many tokens": (
        lambda: written_on(decoder(end=3, most=1)),
        "got more than max_tokens=1 tokens that were written",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_wrong_call_is_refused_with_a_sentence_that_says_what_would_be_right(what: str) -> None:
    do, said = REFUSED[what]
    with pytest.raises((TypeError, ValueError, RuntimeError), match=re.escape(said)):
        do()


def test_what_is_refused_counts_even_where_the_code_goes_on() -> None:
    """Else a text that is written after its end, and thrown away, would be right."""

    def swallows(model: Any) -> torch.Tensor:
        try:
            return model(torch.ones(2, 1))
        except TypeError:
            return torch.zeros(2, 1, 4)

    model = {"$make": "writer", "rows": ROWS, "before": BEFORE}
    request = probe.pack({"do": "run", "cases": [{"inputs": [model], "dtype": "float64"}]})
    (reply,) = probe.unpack(probe.answer(request, swallows))
    assert "the model takes a tensor of token ids" in reply["error"]["message"] and "output" not in reply
    given = [writer(), 3, torch.ones(2)]
    swallows(given[0])
    assert isinstance(refusal(given), TypeError) and refusal(given) is None, "it is told once"


@pytest.mark.parametrize("make", [writer, decoder])
def test_what_comes_next_depends_on_the_row_on_every_token_and_on_its_place(make: Callable[[], Any]) -> None:
    ids = torch.tensor([[1, 2, 3], [1, 2, 3]], dtype=torch.int32)
    logits = make()(ids)
    assert logits.shape == (2, 3, 4) and logits.dtype == torch.float64 and not torch.equal(*logits)
    for place in range(3):
        other = ids.clone()
        other[:, place] = 0
        changed = (make()(other) != logits).any(-1)
        assert not changed[:, :place].any() and changed[:, place:].all()
    exchanged = make()(ids[:, [1, 0, 2]])
    assert not torch.allclose(exchanged[:, 2], logits[:, 2])


@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_a_cache_changes_nothing_but_where_what_was_kept_has_to_show(drift: float) -> None:
    ids, model, caches = torch.tensor([[1, 2, 3, 0]] * 2), writer(drift=drift), [kept(), kept()]
    whole = model(ids)
    parts = torch.cat([model(ids[:, cut], caches) for cut in (slice(2), slice(2, 3), slice(3, 4))], dim=1)
    assert torch.allclose(parts, whole) == (drift == 0.0)
    assert [len(one) for one in caches] == [4, 4]
    stand_in = cache()
    keys, values = stand_in.append(ONE, 2 * ONE)
    assert len(stand_in) == 2 and keys[0, 0].tolist() == [[0.0], [1.0]] and values[0, 0].tolist() == [[0.0], [2.0]]
    assert all(map(torch.equal, stand_in.kept(), (keys, values)))


def test_a_model_that_begins_with_another_text_may_be_called_as_often_again() -> None:
    model = writer(calls=1)
    model(IDS)
    model.renew()
    assert model(IDS).shape == (2, 2, 4)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (torch.tensor([1.0, -2.0]), torch.tensor([-1.0, 2.0])),
        (torch.tensor([[True, False]]), torch.tensor([[True, True]])),
        (torch.tensor([[1, 2], [3, 4]]), torch.tensor([[3, 4], [1, 2]])),
        (torch.tensor([[1, 2]]), torch.tensor([[2, 1]])),
        (7, 7),
        (None, None),
    ],
)
def test_another_input_makes_sense_wherever_this_one_does(value: Any, other: Any) -> None:
    found = stand_ins.other(value)
    assert torch.equal(found, other) if isinstance(value, torch.Tensor) else found == other
    if isinstance(value, torch.Tensor):
        assert np.array_equal(stand_ins.other(value.numpy()), other.numpy())
