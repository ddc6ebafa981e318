"""The judge on exercises of a few lines, each of which needs one thing that it can do."""

import dataclasses
import functools
import importlib.util
import re
import signal
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from autograder import diagnosis, probe
from autograder.exercise import Case, Criterion, Exercise, Mistake, Property
from autograder.judge import judge
from autograder.probe import guards
from autograder.verdict import Verdict
from headroom.mistakes import catalogue


def judged(exercise: Exercise, answer) -> Verdict:
    return judge(exercise, lambda request: probe.answer(request, answer), 0)


def held(verdict: Verdict) -> dict[str, bool]:
    """What earns its share: it holds, or fails only along with another line."""
    return {result.title: result.earned > 0 for result in verdict.results}


# --- Several results, and what kind of numbers they are ----------------------------------------------------------


def split_variation(build, inputs, weights, slips):
    (x,) = inputs
    low, high = x.clamp(max=0), x.clamp(min=0)
    return (high, low) if "exchanged" in slips else (low, high * (2 if "doubled" in slips else 1))


SPLIT = Exercise(
    name="split",
    returns="two tensors: what is below zero, and what is above",
    parts=("low", "high"),
    shape=lambda case: (case.inputs[0].shape, case.inputs[0].shape),
    criteria=(
        Criterion("shape", "two results", 0.2),
        Criterion("values", "the right ones", 0.5),
        Criterion("edge", "one number too", 0.2),
        Criterion("gradients", "gradients flow", 0.1),
    ),
    mistakes=(
        Mistake("exchanged", "the two are exchanged", "Low is high.", "Which comes first?", costs=("values",)),
        Mistake("doubled", "high is doubled", "Twice too high.", "Count.", "factor"),
    ),
    cases=lambda rng: [
        Case("values", "the first", (np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]),), None, True, True),
        Case("edge", "one", (rng.normal(size=(1, 1)),)),
    ],
    reference=lambda build, inputs, weights: split_variation(build, inputs, weights, frozenset()),
    variation=split_variation,
    properties=(Property("low is never above zero", lambda case, out: bool((out[0] <= 0).all())),),
    stages=lambda build, inputs, weights: {"the negative part": inputs[0].clamp(max=0), "a third": inputs[0] / 3},
)


def test_several_results_are_compared_each():
    verdict = judged(SPLIT, lambda x: (x.clamp(max=0), torch.relu(x)))
    assert verdict.passed and ("low is never above zero", True) in verdict.properties


def test_one_result_where_two_are_wanted_is_said():
    verdict = judged(SPLIT, lambda x: x.clamp(max=0))
    assert verdict.score == 0 and "it should return two tensors" in verdict.headline and "Tensor" in verdict.headline
    assert "(NoneType, NoneType)" in judged(SPLIT, lambda x: (None, None)).headline
    assert "returns a tuple of 3" in judged(SPLIT, lambda x: (x, x, x)).text()
    assert "returns one result; should return two tensors" in judged(SPLIT, lambda x: (x.clamp(max=0),)).text()


def test_the_first_difference_names_the_part_and_draws_it():
    difference = judged(SPLIT, lambda x: (x.clamp(max=0), torch.relu(x) + 1)).difference
    assert difference.where == "high[0, 0]" and (difference.expected, difference.got) == ("1", "2")
    assert difference.picture.expected == ((1, 0, 3), (0, 5, 0)) and difference.picture.got[0] == (2, 1, 4)
    html = judged(SPLIT, lambda x: (x.clamp(max=0), torch.relu(x) + 1)).html()
    assert "high, expected" in html and "high, yours" in html and html.count("background-color:rgb(") == 12


def test_how_far_the_way_was_right_is_measured():
    """The stages are looked for in what the code computes, in any layout."""
    verdict = judged(SPLIT, lambda x: (x.T.clamp(max=0).T * 1.5, torch.relu(x)))
    assert (
        verdict.difference.way
        == "Your code computes the negative part as it should; nothing that it computes equals a third."
    )
    assert (
        judged(SPLIT, lambda x: (x * 2, x)).difference.way
        == "Nothing that your code computes equals the negative part."
    )
    after = judged(SPLIT, lambda x: (-torch.relu(-x) * (x / 3).exp(), x)).difference.way
    assert after.endswith("the negative part and a third as it should; what goes wrong comes after that.")


def test_a_stage_that_only_puts_together_what_was_there_is_not_told():
    exercise = dataclasses.replace(
        SPLIT,
        stages=lambda build, inputs, weights: {
            "the negative part": inputs[0].clamp(max=0),
            "x twice": torch.cat([inputs[0], inputs[0]]),
            "a third": inputs[0] / 3,
        },
    )
    assert (
        judged(exercise, lambda x: (x.T.clamp(max=0).T * 1.5, torch.relu(x))).difference.way
        == "Your code computes the negative part as it should; nothing that it computes equals a third."
    )


def test_only_the_students_own_line_says_that_nothing_was_written():
    def stub(x):
        raise NotImplementedError

    assert "not attempted yet" in judged(SPLIT, stub).headline
    assert "it raised NotImplementedError: Subtraction" in judged(SPLIT, lambda x: (x, 1 - (x > 0))).headline


def test_a_known_mistake_costs_what_it_breaks_and_no_more():
    verdict = judged(SPLIT, lambda x: (x.clamp(min=0), x.clamp(max=0)))
    assert [m.key for m in verdict.mistakes] == ["exchanged"]
    assert held(verdict) == {
        "two results": True,
        "the right ones": False,
        "one number too": True,
        "gradients flow": True,
    }
    assert verdict.score == pytest.approx(0.5)
    assert "○ 20 of 20 %  one number too – follows from what is recognised above" in verdict.text()
    assert ">20\N{NO-BREAK SPACE}of\N{NO-BREAK SPACE}20\N{NO-BREAK SPACE}%<" in verdict.html()  # on one line


def test_a_known_mistake_that_says_nothing_of_its_cost_loses_the_weightiest_line_that_disagrees():
    verdict = judged(SPLIT, lambda x: (x.clamp(max=0), 2 * torch.relu(x)))
    assert [m.key for m in verdict.mistakes] == ["doubled"] and not held(verdict)["the right ones"]
    both = judged(SPLIT, lambda x: (x.clamp(min=0), x.clamp(max=0) - 0))
    assert both.score == pytest.approx(0.5)


def test_the_cost_of_a_mistake_is_never_more_than_what_fails():
    """Outputs that agree by themselves stay right: exchanged parts of a single zero would be no mistake there."""
    costly = dataclasses.replace(SPLIT.mistakes[0], costs=("values", "shape"))
    verdict = judged(dataclasses.replace(SPLIT, mistakes=(costly,)), lambda x: (x.clamp(min=0), x.clamp(max=0)))
    assert held(verdict)["two results"] and not verdict.passed


def test_a_mistake_whose_cost_holds_anyway_is_not_for_free():
    cheap = dataclasses.replace(SPLIT.mistakes[0], costs=("shape",))
    verdict = judged(dataclasses.replace(SPLIT, mistakes=(cheap,)), lambda x: (x.clamp(min=0), x.clamp(max=0)))
    assert not verdict.passed and not held(verdict)["the right ones"]


def test_a_mistake_is_told_apart_by_its_gradients_too():
    """Exchanged, and one of them cut off: the pair explains more than the exchange alone."""

    def variation(build, inputs, weights, slips):
        low, high = split_variation(build, inputs, weights, slips)
        return low, high.detach() if "cut" in slips else high

    cut = Mistake("cut", "cut off", "No gradient flows.", "Look for `detach`.", "gradient", costs=("gradients",))
    exercise = dataclasses.replace(SPLIT, mistakes=(*SPLIT.mistakes, cut), variation=variation)
    verdict = judged(exercise, lambda x: (x.clamp(min=0), x.clamp(max=0).detach()))
    assert {m.key for m in verdict.mistakes} == {"exchanged", "cut"} and verdict.score == pytest.approx(0.4)


MASK = Exercise(
    name="is_positive",
    returns="a bool tensor of the shape of x",
    shape=lambda case: case.inputs[0].shape,
    criteria=(Criterion("values", "right", 1.0),),
    mistakes=(),
    cases=lambda rng: [Case("values", "the first", (np.array([[1.0, -1.0], [2.0, -2.0]]),), None, True)],
    reference=lambda build, inputs, weights: inputs[0] > 0,
    variation=lambda build, inputs, weights, slips: inputs[0] > 0,
)


def test_numbers_are_not_truth_values():
    assert judged(MASK, lambda x: x > 0).passed
    for wrong in (lambda x: (x > 0).float(), lambda x: (x > 0).long(), lambda x: x <= 0):
        assert not judged(MASK, wrong).passed
    difference = judged(MASK, lambda x: (x > 0).double()).difference
    assert (difference.expected, difference.got) == ("bool", "float64")


def test_infinities_equal_themselves():
    log = dataclasses.replace(
        MASK,
        reference=lambda b, i, w: i[0].log(),
        cases=lambda rng: [Case("values", "zero", (np.array([0.0, 1.0, -1.0]),), None, True)],
    )
    assert judged(log, torch.log).passed
    assert not judged(log, lambda x: torch.log(x).nan_to_num()).passed


def test_a_lost_gradient_shows_whatever_the_cases_are_called():
    twins = lambda rng: [  # noqa: E731
        Case("values", "alike", (np.array([[value, -2.0]]),), None, True, True) for value in (1.0, 3.0)
    ]
    exercise = dataclasses.replace(
        SPLIT, cases=twins, criteria=(Criterion("values", "a", 0.5), Criterion("gradients", "b", 0.5))
    )
    cut = lambda x: (x.clamp(max=0), torch.relu(x.detach() if x[0, 0] == 1 else x))  # noqa: E731
    assert held(judged(exercise, cut)) == {"a": True, "b": False}


def test_a_single_number_has_no_place():
    exercise = dataclasses.replace(
        MASK, shape=lambda case: (), reference=lambda build, inputs, weights: inputs[0].sum()
    )
    difference = judged(exercise, lambda x: x.sum() + 1).difference
    assert (difference.where, difference.note, difference.picture) == ("the result", "", None)


# --- NumPy -------------------------------------------------------------------------------------------------------


NUMPY = dataclasses.replace(
    MASK,
    name="softmax",
    library="numpy",
    cases=lambda rng: [Case("values", "the first", (np.array([[1.0, 2.0], [0.0, 3.0]]),), None, True)],
    reference=lambda build, inputs, weights: inputs[0].softmax(-1),
    variation=None,
)


def test_numpy_in_numpy_out():
    def softmax(x):
        assert isinstance(x, np.ndarray)
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    assert judged(NUMPY, softmax).passed
    assert "returned a Tensor" in judged(NUMPY, lambda x: torch.from_numpy(softmax(x))).headline


def test_numpy_written_in_place_is_seen():
    def softmax(x):
        np.exp(x, out=x)
        x /= x.sum(-1, keepdims=True)
        return x

    exercise = dataclasses.replace(
        NUMPY, criteria=(Criterion("values", "right", 0.5), Criterion("contract", "kept", 0.5))
    )
    assert "the input is changed by the call" in judged(exercise, softmax).headline


# --- Calls in turns ----------------------------------------------------------------------------------------------


class Accumulate(nn.Module):
    """The running sum of weight · x over the tokens; the state is the sum so far."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x, state=None):
        sums = (self.weight * x).cumsum(1) + (0 if state is None else state)
        return sums, sums[:, -1:]


def turn(build, inputs, weights, slips=frozenset()):
    x, state = inputs
    kept = x if state is None else torch.cat([state[0], x], 1)
    sums = (weights["weight"] * x).cumsum(1) + (0 if state is None else state[1])
    if "again" in slips:
        sums = (weights["weight"] * kept).cumsum(1)[:, -x.size(1) :]
    return sums, (kept, sums[:, -1:])


IN_TURNS = Exercise(
    name="Accumulate",
    returns="the running sums, and the state",
    shape=lambda case: case.inputs[0].shape,
    criteria=(Criterion("values", "right", 0.8), Criterion("contract", "the same twice", 0.2)),
    mistakes=(Mistake("again", "computed again", "All is computed again.", "What is kept?"),),
    cases=lambda rng: [
        Case("values", "3 and 2 tokens", (rng.normal(size=(2, 5, 3)),), (), True, steps=(3, 1, 1), drift=1.5)
    ],
    reference=turn,
    variation=turn,
    mappings=lambda parameters, build: iter([{name: tensor for name, (_, tensor) in parameters.items()}]),
    needs=frozenset({"weight"}),
)


def test_what_was_kept_of_earlier_turns_shows():
    assert judged(IN_TURNS, Accumulate).passed

    class Again(Accumulate):
        def forward(self, x, state=None):
            kept = x if state is None else torch.cat([state, x], 1)
            return (self.weight * kept).cumsum(1)[:, -x.size(1) :], kept

    verdict = judged(IN_TURNS, Again)
    assert not verdict.passed and [m.key for m in verdict.mistakes] == ["again"]


def test_calls_that_go_wrong_are_told_from_those_that_do_not():
    class Several(Accumulate):
        def forward(self, x, state=None):
            output, after = super().forward(x, state)
            return (output if state is None or x.size(1) == 1 else output.exp()), after

    class Later(Accumulate):
        def forward(self, x, state=None):
            output, after = super().forward(x, state)
            return (output if state is None else output.sinh()), after

    cases = [
        Case("values", f"{n}", (np.random.default_rng(len(n)).normal(size=(2, sum(n), 3)),), (), steps=n)
        for n in ((3, 1, 1), (2, 2), (5,), (1, 3, 1))
    ]
    exercise = dataclasses.replace(IN_TURNS, cases=lambda rng: cases)
    assert "Only later calls that bring several tokens go wrong (2 of 2)" in judged(exercise, Several).headline
    assert "Only the second call and those after it go wrong (5 of 5)" in judged(exercise, Later).headline


def test_a_case_can_have_larger_weights():
    def largest(scale: float) -> float:
        seen = []

        class Remembers(Accumulate):
            def forward(self, x, state=None):
                seen.append(float(self.weight.detach().abs().max()))
                return super().forward(x, state)

        (case,) = IN_TURNS.cases(np.random.default_rng(0))
        cases = [dataclasses.replace(case, scale=scale, drift=1.0)]
        judged(dataclasses.replace(IN_TURNS, cases=lambda rng: cases), Remembers)
        return max(seen)

    assert largest(5.0) == pytest.approx(5 * largest(1.0))


def test_a_state_left_on_the_module_shows_when_it_is_called_again():
    class Sticky(Accumulate):
        sums = None

        def forward(self, x, state=None):
            output, self.sums = super().forward(x, self.sums)
            return output, self.sums

    said = "with two texts in turn, each continued in two ways, it gives a different result"
    assert said in judged(IN_TURNS, Sticky).text()


def test_a_state_is_not_changed_by_who_gets_it_nor_by_other_texts():
    class WritesIntoTheState(Accumulate):
        def forward(self, x, state=None):
            output, last = super().forward(x, state)
            return output, last if state is None else state.copy_(last)

    class OneForAll(Accumulate):
        def forward(self, x, state=None):
            output, last = super().forward(x, None if state is None else self.last)
            self.last = last
            return output, "here"

    for answer in (WritesIntoTheState, OneForAll):
        assert "with two texts in turn" in judged(IN_TURNS, answer).text(), answer


# --- The same calls under other conditions -----------------------------------------------------------------------


def looked_at(x: np.ndarray, **kwargs) -> Case:
    return Case("values", f"x of shape {x.shape}", (x,), (x.shape[-1],), **kwargs)


SCALE = Exercise(
    name="Scale",
    returns="a tensor of the shape of x",
    shape=lambda case: case.inputs[0].shape,
    criteria=(Criterion("values", "twice", 0.8), Criterion("contract", "whenever, wherever, in whatever dtype", 0.2)),
    mistakes=(),
    cases=lambda rng: [looked_at(rng.normal(size=(n, 3))) for n in (2, 4)],
    reference=lambda build, inputs, weights: 2 * inputs[0],
    variation=None,
)


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x):
        return 2 * x


class KeepsTheFirstLength(Scale):
    def forward(self, x):
        self.length = getattr(self, "length", len(x))
        return 2 * x * (1 if len(x) == self.length else 3)


class KeepsTheFirstSign(Scale):
    def forward(self, x):
        self.sign = getattr(self, "sign", x.sign())
        return 2 * (self.sign * x.abs() if len(self.sign) == len(x) else x)


class DropsOut(Scale):
    def forward(self, x):
        return torch.nn.functional.dropout(2 * x, 0.5, self.training)


class Views(Scale):
    def forward(self, x):
        return 2 * x.view(-1).view(x.shape)


class DoubleInside(Scale):
    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("two", torch.tensor(2.0, dtype=torch.float64).reshape(1))

    def forward(self, x):
        return self.two * x


class WorthlessInFloat32(Scale):
    def forward(self, x):
        return 2 * (x + 1e9 - 1e9)


class StaysBehind(Scale):
    def __init__(self, width):
        super().__init__(width)
        self.tables = [torch.full((width,), 2.0)]

    def forward(self, x):
        return self.tables[0].to(x.dtype) * x


class TakenAlong(StaysBehind):
    """What hangs on the module does not move, but the code moves it."""

    def forward(self, x):
        return self.tables[0].to(x) * x


class Trained(Scale):
    def __init__(self, width):
        super().__init__(width)
        self.two = nn.Parameter(torch.full((width,), 2.0))

    def forward(self, x):
        return self.two * x


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (KeepsTheFirstLength, "called again, it gives a different result (x of shape (4, 3))"),
        (KeepsTheFirstSign, "called again, it gives a different result"),
        (DropsOut, "in training mode it gives a different result"),
        (Views, "where an input is not contiguous in memory, as a transposed one is, it raises RuntimeError"),
        (DoubleInside, "float32 in, float64 out"),
        (WorthlessInFloat32, "in float32 the result is far off"),
        (StaysBehind, "a tensor stays where it was when a model with this module in it is moved"),
        (Trained, "`two` is among the parameters"),
    ],
)
def test_a_right_answer_is_right_under_every_condition(answer, says):
    verdict = judged(SCALE, answer)
    assert not verdict.passed and says in verdict.headline, verdict.text()
    assert verdict.mistakes == ()


@pytest.mark.parametrize("answer", [Scale, TakenAlong])
def test_conditions_that_do_not_matter_cost_nothing(answer):
    assert judged(SCALE, answer).passed, judged(SCALE, answer).text()


def test_an_object_that_is_called_again_loses_the_cases_that_come_out_otherwise():
    assert not held(judged(SCALE, KeepsTheFirstLength))["twice"] and held(judged(SCALE, DropsOut))["twice"]


def test_without_a_line_of_its_own_a_condition_costs_the_cases():
    exercise = dataclasses.replace(SCALE, criteria=(Criterion("values", "twice", 1.0),))
    assert not judged(exercise, DropsOut).passed


def test_what_float32_cannot_hold_is_asked_of_nobody():
    """Above the mean and below it by so little that float32 has no numbers in between."""
    exercise = dataclasses.replace(
        SCALE,
        cases=lambda rng: [looked_at(1 + 1e-9 * rng.normal(size=(2, 3))), looked_at(rng.normal(size=(4, 3)))],
        reference=lambda build, inputs, weights: 1e9 * (inputs[0] - inputs[0].mean(-1, keepdim=True)),
    )

    class Centred(Scale):
        def forward(self, x):
            return 1e9 * (x - x.mean(-1, keepdim=True))

    class Lossy(Scale):
        def forward(self, x):
            x = x + 1e9 - 1e9 if x.dtype == torch.float32 else x
            return 1e9 * (x - x.mean(-1, keepdim=True))

    assert judged(exercise, Centred).passed, judged(exercise, Centred).text()
    assert "in float32 the result is far off (x of shape (4, 3))" in judged(exercise, Lossy).headline


# --- Things made for the target, measures, limits ----------------------------------------------------------------


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


def test_what_a_forbidden_function_is_called_in_does_not_matter():
    strict = dataclasses.replace(
        MASK,
        cases=lambda rng: [Case("values", "small", (np.ones((1, 2)),)), Case("values", "large", (np.ones((5, 2)),))],
        forbidden=frozenset({"relu"}),
        forbidden_reason="Write it yourself.",
    )
    sly = lambda x: torch.relu(x) > 0 if len(x) > 1 else x > 0  # noqa: E731
    assert "your code calls `relu`. Write it yourself." in judged(strict, sly).headline


# --- The page for whoever adds an exercise -----------------------------------------------------------------------


def test_the_exercise_of_the_page_does_what_the_page_says(tmp_path, monkeypatch):
    page = Path(__file__).resolve().parents[1] / "docs" / "adding-an-exercise.md"
    blocks = re.findall(r"```(?:toml|python)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    facts, *files = blocks
    known, others = tomllib.loads(facts), catalogue._table
    monkeypatch.setattr(catalogue, "_table", lambda topic: known if topic == "softmax" else others(topic))
    modules = []
    for name, source in zip(("exercise_of_the_page", "answers_of_the_page"), files, strict=True):
        path = tmp_path / f"{name}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        modules.append(importlib.util.module_from_spec(spec))
        monkeypatch.setitem(sys.modules, name, modules[-1])
        spec.loader.exec_module(modules[-1])
    exercise, answers = modules[0].SOFTMAX, modules[1]

    def overflowing(x):
        return x.exp() / x.exp().sum(-1, keepdim=True)

    def softmax(x):
        return (x - x.logsumexp(-1, keepdim=True)).exp()

    def with_mistake(key):
        return lambda x: exercise.altered(None, (x,), {}, frozenset({key}))

    assert judged(exercise, softmax).passed and judged(exercise, with_mistake("none")).passed
    for mistake in exercise.mistakes:
        assert judged(exercise, with_mistake(mistake.key)).mistakes == (mistake,)
    assert [m.title for m in judged(exercise, overflowing).mistakes] == ["the exponential overflows"]
    assert [m.key for m in judged(exercise, answers.over_columns).mistakes] == ["wrong_axis"]
    uniform = judged(exercise, answers.uniform)
    assert not uniform.passed and all(mistake.key == diagnosis.KEY for mistake in uniform.mistakes)


def test_a_part_that_no_criterion_measures_counts():
    """Where a criterion looks at one of two results only, the other is not free."""

    def first(cases, outputs):
        return all(np.allclose(o[0], np.minimum(c.inputs[0], 0)) for c, o in zip(cases, outputs, strict=True)), ""

    exercise = dataclasses.replace(SPLIT, criteria=(Criterion("edge", "low", 1.0, first),), mistakes=())
    assert judged(exercise, lambda x: (x.clamp(max=0), x.clamp(min=0))).passed
    verdict = judged(exercise, lambda x: (x.clamp(max=0), x))
    assert verdict.score == 0 and "cases agree in all parts" in verdict.results[0].note


# --- Evidence: what decides points is computed here, and not believed ---------------------------------------------


GAIN = dataclasses.replace(
    SCALE,
    name="Gain",
    criteria=(
        Criterion("values", "scaled", 0.5),
        Criterion("gradients", "gradients reach the gain", 0.3),
        Criterion("contract", "x stays as it was", 0.2),
    ),
    cases=lambda rng: [
        looked_at(np.random.default_rng(1).normal(size=(2, 3)), visible=True, differentiate=True),
        looked_at(rng.normal(size=(4, 3)), differentiate=True),
    ],
    reference=lambda build, inputs, weights: weights["gain"] * inputs[0],
    mappings=lambda parameters, build: iter([{"gain": parameters["gain"][1]}]),
    needs=frozenset({"gain"}),
)


class Gain(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.gain * x


class Frozen(Gain):
    def __init__(self, width):
        super().__init__(width)
        self.gain.requires_grad_(False)


class Cut(Gain):
    def forward(self, x):
        return self.gain.detach() * x


class InPlace(Gain):
    def forward(self, x):
        x *= self.gain
        return x


class Decays(Gain):
    def forward(self, x):
        with torch.no_grad():
            self.gain.mul_(1.0 if not self.training else 0.5)
        return super().forward(x)


class InHundredsOfParts(Gain):
    def __init__(self, width):
        super().__init__(width)
        self.more = nn.ParameterList(torch.zeros(width) for _ in range(400))

    def forward(self, x):
        return super().forward(x) + sum(self.more) + 1


class AsShown(Gain):
    """Right for the numbers that everybody sees."""

    def forward(self, x):
        return super().forward(x) if len(x) == 2 else x


def test_an_answer_of_hundreds_of_parameters_is_judged():
    assert judged(GAIN, InHundredsOfParts).score < 0.5


def test_a_call_that_changes_the_weights_is_seen():
    assert "in training mode it gives a different result" in judged(GAIN, Decays).headline


def forging(answer, **said):
    """What carries requests to a probe that says these things of everything, in place of what it saw."""

    def ask(request):
        replies = probe.unpack(probe.answer(request, answer))
        for reply in replies:
            for told in (reply, *reply.get("parameters", ())):
                told |= {key: value for key, value in said.items() if key in told or told is reply}
        return probe.pack(replies)

    return ask


@pytest.mark.parametrize("answer", [Gain, Frozen, Cut, InPlace, AsShown])
@pytest.mark.parametrize(
    "said",
    [
        {"trained": True},
        {"trained": False},
        {"constant": 1.0, "input_changed": False, "repeats": True},
        {"dtypes": ["float64"]},
        {"dtypes": []},
        {"loose": []},
        {"called": []},
        {"inputs_after": []},
        {"weight_gradients": {}},
        {"input_gradients": [None]},
    ],
    ids=str,
)
def test_what_a_reply_says_of_itself_earns_nothing(answer, said):
    assert judge(GAIN, forging(answer, **said), 0).score <= judged(GAIN, answer).score


class Unset(Gain):
    def __init__(self, width):
        super().__init__(width)
        self.gain.data[:] = torch.nan


class LeavesGradientsOff(Gain):
    def forward(self, x):
        result = super().forward(x)
        torch.set_grad_enabled(False)
        return result


@pytest.mark.parametrize(
    ("answer", "said"), [(Unset, {"start": np.ones(3)}), (LeavesGradientsOff, {"gradients_off": False})], ids=str
)
def test_what_these_lies_earn_is_the_line_on_the_contract(answer, said):
    """As docs/security.md has it in its table."""
    honest = held(judged(GAIN, answer))
    assert not honest["x stays as it was"]
    assert held(judge(GAIN, forging(answer, **said), 0)) == honest | {"x stays as it was": True}


def test_what_is_trained_and_what_is_changed_show_in_arrays():
    assert judged(GAIN, Gain).passed
    assert held(judged(GAIN, Frozen)) == {"scaled": True, "gradients reach the gain": False, "x stays as it was": True}
    verdict = judged(GAIN, InPlace)
    assert "the input is changed by the call" in verdict.headline and not held(verdict)["x stays as it was"]


def test_numbers_that_everybody_sees_earn_nothing():
    assert not any(judged(GAIN, AsShown).results[n].holds for n in (0, 1))
    shown_only = dataclasses.replace(
        GAIN,
        cases=lambda rng: [dataclasses.replace(case, tag=tag) for case, tag in zip(GAIN.cases(rng), "ab", strict=True)],
        criteria=(Criterion("a", "what is shown", 0.5), Criterion("b", "what is not", 0.5)),
    )
    assert judged(shown_only, AsShown).score == 0 and judged(shown_only, Gain).passed


def test_the_start_of_a_parameter_is_computed_from_all_its_numbers():
    seen = []
    sign = Mistake(
        "start", "starts wrongly", "It.", "There.", sign=lambda e: bool(seen.append(e.parameters[0].constant))
    )

    class Uneven(Gain):
        def __init__(self, width):
            super().__init__(width)
            self.gain.data[-1] = 2

    for answer in (Gain, Uneven):
        judged(dataclasses.replace(GAIN, mistakes=(sign,)), answer)
    assert seen[0] == 1.0 and seen[-1] is None


# --- What a plain function keeps between calls, and what it never wrote -------------------------------------------


DOUBLED = dataclasses.replace(
    SCALE,
    name="doubled",
    cases=lambda rng: [
        Case("values", f"case {n}", (rng.normal(size=shape),)) for n, shape in enumerate([(2, 3), (2, 3), (4, 3)])
    ],
)
CACHE: dict = {}
CALLS = 0
FIRST = None


def kept_by_shape(x):
    if x.shape not in CACHE:
        CACHE[x.shape] = 2 * x
    return CACHE[x.shape]


def helped(x):
    return kept_by_shape(x)


def counted(x):
    global CALLS
    CALLS += 1
    return 2 * x * (1 if CALLS < 3 else 5)


def in_a_default(x, seen=[]):  # noqa: B006  # the slip
    seen.append(x)
    return 2 * seen[0] if len(seen[0]) == len(x) else 2 * x


def on_itself(x):
    on_itself.first = getattr(on_itself, "first", x)
    return 2 * (on_itself.first if len(on_itself.first) == len(x) else x)


def first_kept(x):
    global FIRST
    if FIRST is None:
        FIRST = x.mean()
    return 2 * x + (x.mean() - FIRST)


def around():
    seen = []

    def inner(x):
        seen.append(1)
        return 2 * x * len(seen)

    return inner


@pytest.mark.parametrize("answer", [kept_by_shape, helped, counted, in_a_default, on_itself, first_kept, around()])
def test_a_function_that_keeps_something_is_told_so_and_loses_the_cases_that_it_breaks(answer):
    for _ in range(2):  # a check leaves nothing behind that changes the next
        verdict = judged(DOUBLED, answer)
        assert (
            "right, but called again, it gives a different result: something is kept from one call to"
            in verdict.headline
        )
        assert not held(verdict)["twice"]


TWO = {"factor": 2}


def recursive(x, depth=3):
    return TWO["factor"] * x if depth == 0 else mutual(x, depth)


def mutual(x, depth):
    return recursive(x, depth - 1)


@pytest.mark.parametrize(
    "answer", [recursive, torch.compiler.disable(recursive), functools.partial(recursive, depth=0)]
)
def test_functions_that_name_each_other_and_wrapped_ones_are_called_as_they_are(answer):
    assert judged(DOUBLED, answer).passed


def half_written(x):
    out = torch.empty_like(x)
    out[1:] = x[1:]
    return 2 * out


def summed_into_nothing(x):
    return torch.empty(x.shape) + 2 * x


def test_memory_that_was_never_written_shows_in_every_run():
    for answer in (half_written, summed_into_nothing):
        assert all(not judged(DOUBLED, answer).passed for _ in range(3))
    assert not torch.are_deterministic_algorithms_enabled() and np.empty is NP_EMPTY

    def softmax(x, exp=np.exp):
        e = np.empty_like(x)
        e[..., :1] = exp(x[..., :1])
        return e / e.sum(-1, keepdims=True)

    assert np.isnan(probe.unpack(probe.answer(asked_of(NUMPY), softmax))[0]["output"][0]).any()


NP_EMPTY = np.empty


def asked_of(exercise):
    requests = []
    judge(exercise, lambda request: requests.append(request) or probe.pack([{}]), 0)
    return requests[0]
