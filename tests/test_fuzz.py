"""Replies as a hostile program could send them: there is always a verdict, and no point that was not earned.

Valid replies to honest code are changed at random, in every way that their form allows.
"""

import json
import logging
import random
import struct
import time
from typing import Any

import numpy as np
import pytest
import torch

from autograder import probe
from autograder.exercises import find
from autograder.judge import judge
from autograder.verdict import Verdict
from headroom import reference
from tests.answers import right_backprop, right_decoder

EARNED: dict[str, list[Any]] = {  # a right answer, and one that earns some points
    "LayerNorm": [reference.LayerNorm, torch.nn.Identity],
    "attention_scores": [lambda q, k: q @ k.mT / q.size(-1) ** 0.5, lambda q, k: q @ k.mT],
    "layer_norm_backward": [right_backprop.as_in_the_lecture, lambda d_out, x, gamma, eps=1e-5: (d_out, gamma, gamma)],
    "CachedSelfAttention": [right_decoder.Cached, lambda d_model, n_heads: _Uncached(d_model, n_heads)],
}


class _Uncached(right_decoder.Cached):
    def forward(self, x, cache=None):
        return super().forward(x)


ARRAYS = [
    *(np.zeros(0), np.zeros(()), np.zeros((0, 7)), np.zeros((2, 3, 7)), np.ones((2, 3, 7), np.float32)),
    *(np.full((2, 3, 7), value) for value in (np.nan, np.inf, 1e308, True, -(2**63))),
    *(np.zeros((1,) * 16), np.ones((100_000,)), np.array([[1]]), np.array(False)),
]
PLAIN = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 10**400, 1e308, float("nan"), float("inf"), -0.0),
    *("", "x" * 100_000, "gamma", "a.b.c", "a." * 12_000 + "b", "\ud800", "\0\x1b[31m\u202e", "float64", "$array"),
    *([], {}, [[]], [None], [0, *[100_000] * 6], [0] * 17, [1] * 70, [10**30, 0], [-1], [True], [["a"]] * 600),
    *({"a": 1}, {"$array": 0}, {"$array": -1}, {"$array": 10**9}, {"error": {}}, {"type": 1, "lines": 7}),
]


def changed(value: Any, chance: random.Random, often: float) -> Any:
    """A reply in which pieces are replaced, exchanged, left out, or there twice; arrays in all that they consist of."""
    if chance.random() < often:
        return chance.choice(PLAIN + ARRAYS)
    if isinstance(value, np.ndarray) and chance.random() < often:
        kind = chance.choice(["other numbers", "another shape", "another dtype", "one more axis", "a part"])
        if kind == "other numbers":
            return value * chance.choice([0, -1, 1 + 1e-9, 1e300])
        if kind == "another dtype":
            return value.astype(chance.choice(probe.DTYPES))
        return {"another shape": value.ravel(), "one more axis": value[None], "a part": value.ravel()[:1]}[kind]
    if isinstance(value, dict):
        items = [(key, changed(one, chance, often)) for key, one in value.items() if chance.random() > often / 2]
        if len(items) > 1 and chance.random() < often:
            (a, one), (b, other) = chance.sample(items, 2)
            items += [(a, other), (b, one)]
        return dict(items)
    if isinstance(value, list):
        kept = [changed(one, chance, often) for one in value if chance.random() > often / 4]
        if chance.random() < often:
            chance.shuffle(kept)
        return kept * 2 if chance.random() < often / 4 else kept
    return value


def rewritten(reply: bytes, chance: random.Random) -> bytes:
    """A message whose header says something else than what follows it, or whose bytes are others."""
    (size,) = struct.unpack_from("!I", reply)
    header, rest = json.loads(reply[4 : 4 + size]), bytearray(reply[4 + size :])
    what = chance.randrange(5)
    if what == 0 and header["arrays"]:
        one = chance.choice(header["arrays"])
        one[chance.randrange(2)] = chance.choice([*PLAIN, "object", "float16", "complex128", "datetime64", [0, 0, 3]])
    elif what == 1:
        header["arrays"] *= chance.choice([0, 2, 300])
    elif what == 2:
        header = chance.choice([*PLAIN, {"arrays": [], "body": header}, {"body": 1}])
    elif what == 3:
        for _ in range(5 * bool(rest)):
            rest[chance.randrange(len(rest))] = chance.randrange(256)
    text = json.dumps(header).encode()
    size = len(text) if what != 4 else chance.choice([0, 1, 2**32 - 1, len(text) - 1, len(text) + 8])
    return struct.pack("!I", size) + text + bytes(rest)


def verdict_on(name: str, answer: Any, chance: random.Random | None = None, seed: int = 0) -> Verdict:
    """The verdict on an answer whose replies are changed at random, where there is a chance."""
    often, which = (chance.choice([0.002, 0.01, 0.05, 0.2]), chance.randrange(1, 5)) if chance else (0.0, 0)
    asked = 0

    def ask(request: bytes) -> bytes:
        nonlocal asked
        asked += 1
        reply = probe.answer(request, answer)
        if chance is None or asked < which:
            return reply
        if chance.random() < 0.2:
            return rewritten(reply, chance)
        try:
            return probe.pack(changed(probe.unpack(reply), chance, often))
        except (ValueError, TypeError):
            return b""

    return judge(find(name), ask, seed)


@pytest.mark.parametrize("name", EARNED)
@pytest.mark.parametrize("rounds", [5, pytest.param(300, marks=pytest.mark.full)])
def test_whatever_a_reply_says_there_is_a_verdict_and_no_point_for_it(name, rounds, caplog):
    for answer in EARNED[name]:
        honest = verdict_on(name, answer).score
        for number in range(rounds):
            began = time.process_time()
            with caplog.at_level(logging.ERROR):
                verdict = verdict_on(name, answer, random.Random(f"{name} {rounds} {number}"))
            assert not caplog.records, f"round {number}: {caplog.text}"
            assert 0.0 <= verdict.score <= honest, f"round {number}: {verdict.text()}"
            json.dumps(verdict.html())
            verdict.text().encode()  # a lone surrogate could not be written into a notebook
            assert time.process_time() - began < 60


def describes(parameters: list[dict[str, Any]]) -> Any:
    """What carries requests to a probe that describes these parameters for every object, and runs honest code."""

    def ask(request: bytes) -> bytes:
        asked = probe.unpack(request)
        if asked["do"] == "describe":
            return probe.pack([{"parameters": parameters, "loose": []}] * len(asked["builds"]))
        return probe.answer(request, reference.LayerNorm)

    return ask


@pytest.mark.parametrize(
    "shape", [[0, *[100_000] * 6], [0] * 16, [0, 3], [1] * 16, [0, *[5] * 15]], ids=["huge", "no", "0", "1", "many"]
)
def test_no_shape_of_a_parameter_ends_the_judge(shape, caplog):
    described = {"shape": shape, "trained": True, "start": np.zeros(0)}
    verdict = judge(find("LayerNorm"), describes([described | {"name": "gamma"}, described | {"name": "beta"}]))
    assert verdict.headline and not verdict.passed and not caplog.records


@pytest.mark.parametrize("name", ["EncoderBlock", "LayerNorm", "MultiHeadSelfAttention"])
@pytest.mark.parametrize(
    "names",
    [
        lambda i: ".".join("ab" * 6) + f".{i}.weight",
        lambda i: f"{i}." * 19 + "w",
        lambda i: "a." * 12_000 + f"{i}",
        lambda i: f"\ud800{i}",
        lambda i: "$array",
    ],
    ids=["nested", "each in modules of its own", "12,000 deep", "half a pair", "a word of the wire"],
)
def test_names_of_parameters_cost_no_more_than_their_number(name, names):
    began = time.process_time()
    one = {"shape": [8, 8], "trained": True, "start": np.zeros((8, 8))}
    verdict = judge(find(name), describes([one | {"name": names(i)} for i in range(probe.MAX_NAMES)]))
    verdict.text().encode()
    assert not verdict.passed and time.process_time() - began < 30


def test_a_message_is_bounded_before_it_is_read():
    nested = b'{"arrays":[],"body":[' + b"[]," * (probe.MAX_HEADER // 3) + b"[]]}"
    for data in (struct.pack("!I", len(nested)) + nested, b"\0" * (probe.MAX_MESSAGE + 1)):
        with pytest.raises(ValueError):
            probe.unpack(data)


def test_what_honest_code_says_too_much_of_has_a_sentence():
    class Wide(reference.LayerNorm):
        def __init__(self, d_model: int, eps: float = 1e-5) -> None:
            super().__init__(d_model, eps)
            self.vocabulary = torch.nn.Parameter(torch.zeros(50_257, 24))

    class Many(reference.LayerNorm):
        def __init__(self, d_model: int, eps: float = 1e-5) -> None:
            super().__init__(d_model, eps)
            self.layers = torch.nn.ParameterList(torch.zeros(1) for _ in range(probe.MAX_NAMES + 1))

    for answer, says in ((Wide, "more than 100,000 numbers"), (Many, "more than 500 parameters")):
        verdict = judge(find("LayerNorm"), lambda request, answer=answer: probe.answer(request, answer), 0)
        assert says in verdict.headline and verdict.score == 0
