"""What crosses between probe and judge: only well-formed, bounded messages; whatever comes, there is a verdict."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from autograder import probe
from autograder.exercises import EXERCISES, find
from autograder.judge import NoAnswer, judge
from autograder.pipeline import kernel_side
from autograder.pipeline.kernel import PROBE
from headroom import reference

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_messages_come_back(message):
    assert probe.unpack(probe.pack(message)) == message


@pytest.mark.parametrize("dtype", probe.DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 1, 3)])
def test_arrays_come_back(dtype, shape):
    array = np.random.default_rng(0).normal(size=shape) > 0 if dtype == "bool" else np.ones(shape, dtype)
    back = probe.unpack(probe.pack({"a": [np.asarray(array)]}))["a"][0]
    assert back.dtype == dtype and back.shape == shape and np.array_equal(back, array)


@given(st.binary(max_size=200))
@settings(max_examples=300)
def test_garbage_is_a_value_error(data):
    with pytest.raises(ValueError):
        probe.unpack(data)


def forged(arrays: list, body: object = None, tail: bytes = b"") -> bytes:
    header = json.dumps({"body": body, "arrays": arrays}).encode()
    return struct.pack("!I", len(header)) + header + tail


@pytest.mark.parametrize(
    "data",
    [
        forged([["object", [1]]], tail=b"12345678"),
        forged([["float64", [-1]]]),
        forged([["float64", [10**9, 10**9]]]),
        forged([["float64", [2]]], tail=b"\0" * 15),
        forged([["float64", [1]]], tail=b"\0" * 9),
        forged([["bool", [1]]], tail=b"\x07"),
        forged([["float64", [True]]], tail=b"\0" * 8),
        forged([], {"$array": 0}),
        forged([], {"$array": "x"}),
        b"\xff\xff\xff\xff{}",
        struct.pack("!I", 60_000) + b"[" * 60_000,
    ],
)
def test_forged_messages_are_refused(data):
    with pytest.raises(ValueError):
        probe.unpack(data)


REPLIES = [
    b"",
    probe.pack(None),
    probe.pack([]),
    probe.pack([1] * 9),
    probe.pack([{"error": "no"}] * 9),
    probe.pack([{"parameters": 3}] * 9),
    probe.pack([{"parameters": [{"name": 1, "shape": [2]}], "loose": []}] * 9),
    probe.pack([{"parameters": [{"name": "w", "shape": [10**8]}], "loose": []}] * 9),
    probe.pack([{"parameters": [{"name": "w", "shape": [-1]}], "loose": []}] * 9),
    probe.pack([{"parameters": [], "loose": [], "output": "full marks"}] * 9),
    probe.pack([{"parameters": [], "loose": [], "score": 1.0, "passed": True}] * 9),
    probe.pack([{"parameters": [], "loose": [], "called": [{}], "output": np.zeros(3)}] * 9),
    probe.pack([{"parameters": [], "loose": [], "output": np.full((2, 3, 7), np.nan)}] * 9),
    probe.pack([{"parameters": [], "loose": [], "output": np.zeros((0,)), "input_gradients": [np.zeros(3)]}] * 9),
]


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.parametrize("reply", REPLIES, ids=range(len(REPLIES)))
def test_whatever_the_reply_there_is_a_verdict_and_no_point_for_free(name, reply):
    verdict = judge(find(name), lambda request: reply)
    assert not verdict.passed and verdict.score < 0.3 and verdict.headline
    assert "<div" in verdict.html()


def test_no_answer_is_a_verdict_of_its_own():
    def silent(request: bytes) -> bytes:
        raise NoAnswer("the kernel died.")

    verdict = judge(find("LayerNorm"), silent)
    assert verdict.score == 0 and verdict.headline == "the kernel died."


def test_no_expected_value_goes_in_and_no_answer_is_imported():
    """The probe stands alone: with it at work, neither the judge nor the answers are in the process."""
    side = Path(kernel_side.__file__).read_text(encoding="utf-8")
    alone = f"""
import sys
exec({side!r})
sent = lambda: (None, {PROBE!r})
prepare()
new_probe().calls.answer({probe.pack({"do": "run", "cases": []})!r}, None)
print([m for m in sys.modules if m.startswith(("autograder.", "headroom"))])
"""
    out = subprocess.run([sys.executable, "-I", "-c", alone], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"

    requests = []

    def ask(request: bytes) -> bytes:
        requests.append(probe.unpack(request))
        return probe.answer(request, reference.LayerNorm)

    judge(find("LayerNorm"), ask)
    sent = {key for case in requests[1]["cases"] for key in case}
    assert sent <= {"build", "weights", "inputs", "dtype", "cotangents", "watch"}


@pytest.fixture
def sent(monkeypatch):
    """The probe, as a kernel has got it."""
    monkeypatch.setattr(kernel_side, "sent", lambda: (None, PROBE))
    monkeypatch.setattr(kernel_side, "probe_code", {}, raising=False)
    for name in ("autograder", kernel_side.PROBE, *(f"{kernel_side.PROBE}.{name}" for name in PROBE)):
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name))
    kernel_side.prepare()


def test_every_request_is_answered_by_a_new_probe(sent, monkeypatch):
    """Whatever was done to an earlier one, or is put where imports look: `sys.modules` is one name for it."""
    earlier = kernel_side.new_probe()
    for name in PROBE:
        vars(earlier)[name].pack = None
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    reply = kernel_side.new_probe().calls.answer(probe.pack({"do": "run", "cases": []}), None)
    assert probe.unpack(reply) == []


def test_of_an_error_only_the_students_lines_are_told(sent):
    """In a kernel, too, where the probe's files, and the classes of a model that is sent along, have other names."""

    def broken(model):
        return model(torch.ones(2))

    source = "class Given(nn.Module):\n    def forward(self, x):\n        return x @ torch.ones(3)"
    model = {"$make": "module", "source": source, "kind": "Given", "build": [], "weights": {}}
    request = probe.pack({"do": "run", "cases": [{"inputs": [model], "dtype": "float64"}]})
    for answer in (probe.answer, kernel_side.new_probe().calls.answer):
        (reply,) = probe.unpack(answer(request, broken))
        assert [line.split(", in ")[1] for line in reply["error"]["lines"]] == ["broken: return model(torch.ones(2))"]


def test_the_probe_puts_the_outside_back():
    class Meddling(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            torch.set_default_dtype(torch.float32)
            torch.set_grad_enabled(True)

        def forward(self, x):
            raise SystemExit(0)

    state, threads = torch.get_rng_state(), torch.get_num_threads()
    verdict = judge(find("LayerNorm"), lambda request: probe.answer(request, Meddling))
    assert "SystemExit" in verdict.headline
    assert torch.get_default_dtype() == torch.float32 and torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


def test_unbounded_recursion_is_a_sentence():
    class LayerNorm(reference.LayerNorm):
        def forward(self, x):
            return self.forward(x)

    verdict = judge(find("LayerNorm"), lambda request: probe.answer(request, LayerNorm))
    assert "calls itself without end" in verdict.headline
