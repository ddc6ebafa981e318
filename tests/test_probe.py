"""What crosses between probe and judge: only well-formed, bounded messages; whatever comes, there is a verdict."""

import functools
import json
import struct
import subprocess
import sys
import warnings
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
from autograder.probe import guards
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


def called(function, *inputs, **case):
    """What the probe tells of one call."""
    request = probe.pack({"do": "run", "cases": [{"inputs": list(inputs), "dtype": "float64"} | case]})
    (reply,) = probe.unpack(probe.answer(request, function))
    return reply


MEDDLES = {
    "gradients": lambda: torch.set_grad_enabled(False),
    "dtype": lambda: torch.set_default_dtype(torch.float16),
    "device": lambda: torch.set_default_device("meta"),
    "seed": lambda: torch.manual_seed(1),
    "random numbers": lambda: torch.rand(1),
}


@pytest.mark.parametrize("setting", MEDDLES)
def test_each_setting_that_a_call_leaves_otherwise_is_told_and_put_back(setting):
    assert {*guards.SETTINGS} == {*MEDDLES}
    before = guards.settings(), torch.get_num_threads()
    try:
        assert called(lambda: torch.ones(2))["settings"] == []
        told = called(lambda: (MEDDLES[setting](), torch.set_num_threads(2))[:0])["settings"]
        assert setting in told and {*told} <= {setting, *(["random numbers"] if setting == "seed" else [])}
        after = guards.settings()
        kept = {"device"}  # of a process, which no kernel lives on with: each request has a probe of its own
        assert {name for name in after if after[name] != before[0][name]} <= kept
        assert torch.get_num_threads() == before[1]
    finally:
        torch.set_default_device(None)


def test_what_is_made_without_values_has_none_that_happen_to_be_right():
    made = called(lambda: (torch.empty(2), torch.empty(2, dtype=torch.int64), torch.empty(1, dtype=torch.bool)))[
        "output"
    ]
    assert np.isnan(made[0]).all() and (made[1] == np.iinfo(np.int64).max).all() and made[2].all()
    for dtype in (float, np.float32, np.int64, bool):
        like = called(lambda x, dtype=dtype: (np.empty(2, dtype), np.empty_like(x)), np.ones(2, dtype), library="numpy")
        largest = np.nan if np.dtype(dtype).kind == "f" else True if dtype is bool else np.iinfo(dtype).max
        assert all(np.array_equal(one, [largest] * len(one), equal_nan=True) for one in like["output"]), dtype
    assert np.empty is EMPTY[0] and np.empty_like is EMPTY[1]
    assert not torch.are_deterministic_algorithms_enabled()


EMPTY = np.empty, np.empty_like


def test_what_the_code_prints_is_told_and_what_it_warns_of_is_not(capfd, recwarn):
    def talks(x):
        print("mine")
        print("beside", file=sys.stderr)
        warnings.warn("careful", stacklevel=1)
        return x

    assert called(talks, np.ones(2))["printed"] == "mine\n"
    assert tuple(capfd.readouterr()) == ("", "") and not recwarn.list


def test_of_a_long_way_to_an_error_the_last_lines_are_told():
    def divides():
        return 1 / 0

    def deeper(n):
        return deeper(n - 1) if n else divides()

    lines = called(lambda: deeper(20))["error"]["lines"]
    assert len(lines) == probe.MAX_LINES and lines[-1].endswith("in divides: return 1 / 0")


class Kept(nn.Module):
    """What hangs on it where `parameters()` cannot see it."""

    def __init__(self, hidden):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.hidden = hidden


@pytest.mark.parametrize(
    ("hidden", "kind"),
    [
        ([nn.Linear(2, 2)], "list"),
        ((nn.Linear(2, 2),), "tuple"),
        ({"a": nn.Linear(2, 2)}, "dict"),
        ({"a": [torch.ones(3)]}, "dict"),
        (torch.ones(3), "Tensor"),
        ([nn.ReLU()], None),
        (torch.ones(3, dtype=torch.int64), None),
        ([1.0, "a"], None),
    ],
)
def test_weights_that_hang_where_parameters_cannot_see_them_are_told(hidden, kind):
    request = probe.pack({"do": "describe", "builds": [[]]})
    (reply,) = probe.unpack(probe.answer(request, lambda: Kept(hidden)))
    assert reply["loose"] == ([{"name": "hidden", "kind": kind}] if kind else [])
    assert {one["name"] for one in reply["parameters"]} == {"layer.weight", "layer.bias"}
    assert all(one["name"].startswith("hidden") for one in reply["unregistered"])


@pytest.mark.parametrize("how", ["nothing", "list on the class", "cache of a method", "dict of the module"])
def test_what_building_an_object_keeps_for_the_next_is_told(how):
    class Layer(nn.Module):
        made: list[int] = []  # noqa: RUF012

        def __init__(self):
            super().__init__()
            if how == "list on the class":
                self.made.append(1)
            if how == "cache of a method":
                Layer.table(len(Layer.made) + TABLES.setdefault("n", 0))
                TABLES["n"] += 1
            if how == "dict of the module":
                TABLES[f"{id(self)}"] = 1

    Layer.table = functools.cache(lambda n: n)
    TABLES.clear()
    (reply,) = probe.unpack(probe.answer(probe.pack({"do": "describe", "builds": [[]]}), Layer))
    wanted = {"nothing": "", "list on the class": "Layer.made", "cache of a method": "Layer.table"}
    assert reply["kept"] == wanted.get(how, "TABLES")


TABLES: dict[str, int] = {}


def test_unbounded_recursion_is_a_sentence():
    class LayerNorm(reference.LayerNorm):
        def forward(self, x):
            return self.forward(x)

    verdict = judge(find("LayerNorm"), lambda request: probe.answer(request, LayerNorm))
    assert "calls itself without end" in verdict.headline
