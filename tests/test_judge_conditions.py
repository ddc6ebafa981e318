"""The judge calls again: with what an earlier call returned, and under conditions that must not matter."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from autograder.exercise import Case, Criterion, Exercise, Mistake
from tests.small_exercises import SCALE, held, judged, looked_at

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


class OverwritesWithoutGradients(Scale):
    def forward(self, x):
        return 2 * x if torch.is_grad_enabled() else x.mul_(2).clone()


class FillsOneResultAgain(Scale):
    def __init__(self, width):
        super().__init__(width)
        self.kept = {}

    def forward(self, x):
        if x.requires_grad:
            return 2 * x
        return torch.mul(x, 2, out=self.kept.setdefault((x.shape, x.dtype), torch.empty_like(x)))


class LendsABuffer(Scale):
    """The result lies in a buffer, as a table of positions does; a sparse one has no place at all."""

    def __init__(self, width):
        super().__init__(width)
        self.register_buffer("room", torch.zeros(40, width, dtype=torch.float64), persistent=False)
        self.register_buffer("sparse", torch.eye(2).to_sparse(), persistent=False)

    def forward(self, x):
        if x.requires_grad or x.dtype != self.room.dtype:
            return 2 * x
        return self.room[: len(x)].copy_(2 * x)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (OverwritesWithoutGradients, "`x` is changed by the call where no gradients are asked for (x of shape"),
        (FillsOneResultAgain, "what one call has returned is changed by the next (x of shape"),
        (KeepsTheFirstLength, "called after other calls, it gives a different result (x of shape (4, 3))"),
        (KeepsTheFirstSign, "called after other calls, it gives a different result"),
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


@pytest.mark.parametrize("answer", [Scale, TakenAlong, LendsABuffer])
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
