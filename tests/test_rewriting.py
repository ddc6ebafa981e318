"""Wrong answers as changed lines of the right one."""

import inspect
from typing import Annotated

import pytest
import torch
from torch import Tensor

from autograder.diagnosis.vocabulary import mean
from autograder.exercise import Exercise, Mistake
from autograder.exercises import EXERCISES
from autograder.rewriting import names, replaced, run, values


def steps(x: Annotated[Tensor, "tokens features"], /, eps: float = 0.5, *, gain: Tensor) -> Tensor:
    centred = x - mean(x, -1)
    scaled = centred * gain
    return scaled + eps


X, GAIN = torch.tensor([[1.0, 2.0, 6.0], [0.0, 3.0, 3.0]]), torch.tensor(2.0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((), (X - X.mean(-1, keepdim=True)) * 2 + 0.5),
        (("centred = x",), X * 2 + 0.5),
        (("half = x / 2\nscaled = half * gain",), X + 0.5),
        (("return scaled * features",), (X - X.mean(-1, keepdim=True)) * 6),
        (("centred = x", "return scaled"), X * 2),
        (("return scaled - roles['gain']",), (X - X.mean(-1, keepdim=True)) * 2 - 2),
        (("centred = F.relu(x - tokens)", "scaled = centred"), (X - 2).relu() + 0.5),
        (("centred = 3 * centred", "centred = x"), X * 6 + 0.5),
        (("centred = x", "centred = 3 * centred"), X * 6 + 0.5),
        (("gain = 3",), (X - X.mean(-1, keepdim=True)) * 3 + 0.5),
        (("by = 2\nx = x * by", "centred = x"), X * 4 + 0.5),
    ],
)
def test_a_change_replaces_the_steps_that_it_names(changes: tuple[str, ...], expected: Tensor) -> None:
    torch.testing.assert_close(run(steps, changes, None, (X,), {"gain": GAIN}), expected)


def test_arguments_of_the_constructor_come_after_those_of_the_call() -> None:
    torch.testing.assert_close(run(steps, ("centred = x", "scaled = x"), (3.0,), (X,), {"gain": GAIN}), X + 3)


def test_gradients_flow_through_a_change() -> None:
    x = X.clone().requires_grad_()
    run(steps, ("scaled = centred.detach() * gain + x",), None, (x,), {"gain": GAIN}).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones_like(X))


def test_what_is_replaced_is_known() -> None:
    assert replaced("half = x / 2\nreturn half") == {"half", "return"}
    one, same = (
        Mistake("one", "", "", change="centred = x"),
        Mistake("same", "", "", change=("return x", "centred = 2")),
    )
    other, slotted = (
        Mistake("other", "", "", change="return x"),
        Mistake("slotted", "", "", slot="s", change="scaled = x"),
    )
    doubled = Mistake("doubled", "", "", change="centred = 2 * centred")
    assert not one.excludes(doubled) and not doubled.excludes(doubled)
    assert one.excludes(same) and not one.excludes(other) and not other.excludes(slotted)
    assert one.ways == ("one",) and same.ways == ("same", "same (2)")


@pytest.mark.parametrize(
    ("change", "message"),
    [("lost = x", "'lost' is used by no step"), ("x += 1", "a step is `name"), ("if x: return x", "a step is")],
)
def test_a_change_that_says_nothing_is_refused(change: str, message: str) -> None:
    with pytest.raises(SyntaxError, match=message):
        run(steps, (change,), None, (X,), {"gain": GAIN})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("centered = x", "'centered' is used by no step of the right answer"),
        ("centered = x\nreturn scaled", "'centered' is used by no step after it; there are x, eps, gain, centred"),
        ("return scald + eps", "'scald' in 'return' is no step before that; there are x, eps, gain, centred, scaled"),
        ("centred = scaled", "'scaled' in 'centred' is no step before that"),
    ],
)
def test_a_misspelt_change_is_refused_where_the_exercise_is_made(change: str, message: str) -> None:
    mistake = Mistake("no_gain", "", "", change=("scaled = sum([part for part in centred]) / tokens", change))
    with pytest.raises(ValueError, match=f"scaled_x: the change of 'no_gain' cannot be: {message}"):
        Exercise("scaled_x", "", lambda case: (), (), (mistake,), lambda rng: [], None, steps=steps)


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)
def test_every_change_of_an_exercise_replaces_a_step(exercise) -> None:
    """Else it would be a mistake that changes nothing, or that comes too late to be used.

    Where there is a variation, the suite runs each of them: see `tests/test_exercises.py`.
    """
    for mistake in exercise.mistakes if exercise.variation is None else ():
        for change in mistake.changes.values():
            varied = exercise.varied or exercise.steps
            assert varied is not None, f"{mistake.key}: nothing reads its change"
            assert replaced(change) & (names(varied) | inspect.signature(varied).parameters.keys()), (
                f"{mistake.key} replaces no step"
            )


def test_the_values_of_steps_have_the_names_that_are_given_to_them() -> None:
    found = values(steps, {"centred": "the centred x", "scaled": "the result"}, None, (X,), {"gain": GAIN})
    assert list(found) == ["the centred x", "the result"]
    torch.testing.assert_close(found["the result"], (X - X.mean(-1, keepdim=True)) * 2)
