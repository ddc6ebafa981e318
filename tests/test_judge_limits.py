"""The judge on what is made for the target, on measures, and on code that does not end."""

import dataclasses
import functools
import importlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from autograder import probe
from autograder.exercise import Case, Criterion
from autograder.exercises import find
from autograder.judge import judge
from autograder.probe import guards
from tests.conftest import REPOSITORY
from tests.small_exercises import MASK, forging, held, judged


def test_an_input_can_be_made_of_plain_data(monkeypatch):
    monkeypatch.setitem(probe.MADE, "line", lambda slope: lambda x: torch.as_tensor(slope) * x)
    exercise = dataclasses.replace(
        MASK,
        cases=lambda rng: [Case("values", "a line", (np.ones((2, 2)), {"$make": "line", "slope": np.array(3.0)}))],
        reference=lambda build, inputs, weights: inputs[1](inputs[0]),
        shape=lambda case: (2, 2),
    )
    assert judged(exercise, lambda x, line: line(x)).passed and not judged(exercise, lambda x, line: x).passed


LINE = """class Line(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.map = nn.Linear(width, width)
        self.register_buffer("steps", torch.arange(3), persistent=False)
    def forward(self, x):
        return self.map(x)
"""
OF_A_MODEL = dataclasses.replace(
    MASK,
    cases=lambda rng: [
        Case(
            "values",
            "a model",
            (
                np.ones((2, 3)),
                {
                    "$make": "module",
                    "source": LINE,
                    "kind": "Line",
                    "build": [3],
                    "weights": {"map.weight": rng.normal(size=(3, 3)), "map.bias": rng.normal(size=3)},
                },
            ),
            dtype=dtype,
        )
        for dtype in ("float64", "float32")
    ],
    criteria=(Criterion("values", "what the model gives", 0.5), Criterion("contract", "the model stays", 0.5)),
    reference=lambda build, inputs, weights: inputs[1](inputs[0]),
    variation=None,
    mistakes=(),
    axes=(),
    drawn=None,
    shape=lambda case: (2, 3),
)


def _weight(x, model):
    model.map.weight.data[0] += 1


def _frozen(x, model):
    model.requires_grad_(False)


def _counted(x, model):
    model.steps += 1


def _hooked(x, model):
    model.map.register_forward_hook(lambda module, inputs, output: None)


def _noted(x, model):
    model.seen = x


def _method_of_the_object(x, model):
    model.map.forward = model.map.forward


def _method_of_the_class(x, model):
    type(model).forward = lambda self, x: self.map(x)


def _wider(x, model):
    model.to(torch.float16)


def test_a_model_among_the_inputs_is_left_as_it_was():
    """What is left on it shows, whether it changes a result or not."""
    assert judged(OF_A_MODEL, lambda x, model: model(x)).passed
    for leaves, said in (
        (_weight, "`map.weight` of the model"),
        (_frozen, "`map.bias.requires_grad` of the model"),
        (_counted, "`steps` of the model"),
        (_hooked, "the list of hooks on `map` of the model"),
        (_noted, "`seen` of the model"),
        (_method_of_the_object, "`map.forward` of the model"),
        (_method_of_the_class, "`Line.forward` of the model"),
        (_wider, "`map.weight` of the model"),
    ):

        def written(x, model, leaves=leaves):
            output = model(x)
            leaves(x, model)
            return output

        verdict = judged(OF_A_MODEL, written)
        assert held(verdict) == {"what the model gives": True, "the model stays": False}, verdict.text()
        assert f"{said} is changed by the call" in verdict.text()


@pytest.mark.parametrize("said", [[], None, [{}], [None], "x", [[]]])
def test_a_reply_that_keeps_quiet_about_a_model_earns_nothing(said):
    verdict = judge(OF_A_MODEL, forging(lambda x, model: model(x), models_after=said), 0)
    assert not held(verdict)["the model stays"]


def test_a_criterion_can_measure_in_place_of_comparing():
    def share(cases, outputs):
        right = np.mean([output.argmax(-1) == case.answer for case, output in zip(cases, outputs, strict=True)])
        return right >= 0.9, f"{right:.0%} of the labels are right"

    labels = np.arange(10) % 3
    exercise = dataclasses.replace(
        MASK,
        cases=lambda rng: [Case("measured", "ten", (np.eye(3)[labels],), answer=labels)],
        criteria=(Criterion("measured", "at least 90 % right", 1.0, share),),
        reference=None,
        variation=None,
        shape=lambda case: (10, 3),
    )
    assert judged(exercise, lambda x: x).passed
    verdict = judged(exercise, lambda x: -x)
    assert verdict.score == 0 and verdict.headline == "0% of the labels are right"


def test_a_loop_without_end_is_stopped_and_said():
    hasty = dataclasses.replace(MASK, seconds=2.0)

    def stubborn(x):
        while True:
            try:
                time.sleep(60)
            except Exception:
                continue

    began = time.monotonic()
    verdict = judged(hasty, stubborn)
    assert "too slow: it was stopped after 2 s" in verdict.headline and verdict.score == 0
    assert any("time.sleep(60)" in line for line in verdict.error)
    assert time.monotonic() - began < 30  # in place of 60; not a measurement
    assert judged(hasty, lambda x: x > 0).passed  # nothing of the watchdog is left


def test_what_a_busy_machine_delays_once_is_no_difference(monkeypatch):
    """The first repeats do not end in time, and each that is made to find out why does."""
    asked = []

    def ask(request):
        asked.append(probe.unpack(request)["do"])
        reply = probe.answer(request, lambda x: x > 0)
        if asked.count("each") > 1 or asked[-1] != "each":
            return reply
        slow = {"error": {"type": "TooSlow", "message": "2", "lines": []}, "printed": ""}
        return probe.pack([slow for _ in probe.unpack(reply)])

    assert judge(MASK, ask, 0).passed and asked.count("each") == 2


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (lambda x: x > 0, {1, 2, 3, 4, 5}),
        (lambda x: x < 0, {1, 4}),  # the smallest of each kind
        (lambda x: x > 0 if len(x) > 2 else x < 0, {1, 3, 4, 5}),
    ],
    ids=["right", "wrong", "wrong for some sizes"],
)
def test_of_what_is_wrong_anyway_one_case_of_each_kind_is_called_again(answer, again):
    kinds = dict.fromkeys((1, 2, 3), "values") | dict.fromkeys((4, 5), "mask")
    exercise = dataclasses.replace(
        MASK,
        criteria=(Criterion("values", "right", 0.5), Criterion("mask", "right there too", 0.5)),
        cases=lambda rng: [Case(kind, f"{n}", (rng.normal(size=(n, 2)),)) for n, kind in kinds.items()],
    )
    sizes = set()

    def ask(request):
        asked = probe.unpack(request)
        sizes.update(len(call["inputs"][0]) for look in asked.get("asks", ()) for call in look["cases"])
        return probe.answer(request, answer)

    judge(exercise, ask, 0)
    assert sizes == again


def test_a_call_that_does_not_end_the_second_time_is_said_to():
    calls = []

    def forgetful(x):
        calls.append(x)
        while len(calls) > 3:
            pass
        return x > 0

    verdict = judged(dataclasses.replace(MASK, seconds=0.5), forgetful)
    assert not verdict.passed and "does not end within 0.5 s" in str(verdict)


def test_a_loop_without_end_that_leaves_much_behind_is_stopped_and_said(monkeypatch):
    """The interrupt is heard at once; what the loop has made is given back after the next one would have come."""
    monkeypatch.setattr(guards, "AGAIN", 0.05)
    # One that comes while the garbage collector calls back, as it does for Hypothesis, is lost, and the next is heard;
    # pytest's hook for what cannot be raised would be interrupted by it.
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: None)

    def growing(x):
        kept, x = None, x.double().requires_grad_()
        while True:
            kept = [kept, x + 0, [0.0] * 100]

    assert "too slow: it was stopped after 2 s" in judged(dataclasses.replace(MASK, seconds=2.0), growing).headline


def test_a_loop_without_end_is_stopped_where_interrupts_are_ignored():
    """As in a process that a shell without job control has started in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        verdict = judged(dataclasses.replace(MASK, seconds=0.5), lambda x: time.sleep(60))
        assert "too slow: it was stopped after 0.5 s" in verdict.headline
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_package_whose_import_was_interrupted_is_whole_when_it_is_imported_again(tmp_path, monkeypatch):
    """PyTorch imports SymPy when it first needs it, and may need it while an answer is stopped."""
    (tmp_path / "halfway" / "parts").mkdir(parents=True)
    (tmp_path / "halfway" / "__init__.py").write_text("import time, halfway.parts\ntime.sleep(halfway.parts.wait)\n")
    (tmp_path / "halfway" / "parts" / "__init__.py").write_text("import halfway.parts.more\nwait = 60\n")
    (tmp_path / "halfway" / "parts" / "more.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(guards, "IMPORTING", 0)

    def importing(x):
        import halfway  # noqa: F401

    assert "too slow" in judged(dataclasses.replace(MASK, seconds=0.5), importing).headline
    (tmp_path / "halfway" / "parts" / "__init__.py").write_text("import halfway.parts.more\nwait = 0  # now\n")
    halfway = importlib.import_module("halfway")
    assert halfway.parts.more


def test_what_a_forbidden_function_is_called_in_does_not_matter():
    strict = dataclasses.replace(
        MASK,
        cases=lambda rng: [Case("values", "small", (np.ones((1, 2)),)), Case("values", "large", (np.ones((5, 2)),))],
        forbidden=frozenset({"relu"}),
        forbidden_reason="Write it yourself.",
    )
    sly = lambda x: torch.relu(x) > 0 if len(x) > 1 else x > 0  # noqa: E731
    assert "your code calls `relu`. Write it yourself." in judged(strict, sly).headline


class Ready(nn.Module):
    """Calls what PyTorch has ready made, on top of whatever the answer is."""

    def __init__(self, ready, *build):
        super().__init__()
        self.ready = ready

    def forward(self, *inputs):
        self.ready(torch.ones(2, 4, 6))
        return inputs[0]


NORMS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 2),
    "instance_norm": F.instance_norm,
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
}
ATTENTION = {
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "multi_head_attention_forward": lambda x: nn.MultiheadAttention(6, 2)(x, x, x),
}
DONE = {"LayerNorm": NORMS, "RMSNorm": NORMS} | dict.fromkeys(
    ("MultiHeadSelfAttention", "CrossAttention", "CachedSelfAttention", "GroupedQueryAttention"), ATTENTION
)


@pytest.mark.parametrize(("name", "called"), [(name, called) for name, ready in DONE.items() for called in ready])
def test_what_pytorch_has_ready_made_is_refused_where_the_task_is_to_write_it(name: str, called: str) -> None:
    verdict = judged(find(name), functools.partial(Ready, DONE[name][called]))
    assert verdict.score == 0 and verdict.forbidden == called, verdict.text()


@pytest.mark.full
def test_no_check_imports_pytorchs_compiler():
    """In a process of its own, as in a student's kernel: what is left behind is told all the same."""
    code = """
import sys
from torch import nn
from autograder import probe
from autograder.exercises import find
from autograder.judge import judge
from headroom import reference
class Kept(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.table = reference.sinusoidal_encoding(max_tokens, d_model)
    def forward(self, x):
        return x + self.table[: x.size(1)]
verdict = judge(find("PositionalEncoding"), lambda request: probe.answer(request, Kept), 0)
judge(find("ViT"), lambda request: probe.answer(request, reference.ViT), 0)
print(verdict.passed, "to(device)" in verdict.headline, "torch._dynamo" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY)
    assert run.stdout.split() == ["False", "True", "False"], run.stderr


def test_an_import_is_not_interrupted(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.4)\nwhole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(guards, "WAITING", 1)
    with pytest.raises(KeyboardInterrupt), guards.Watchdog(0.1):
        module = importlib.import_module("slow_to_import")
        assert module.whole
        time.sleep(5)
    assert module.whole
