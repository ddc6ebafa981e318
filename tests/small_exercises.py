"""Exercises of a few lines that the tests of the judge share, and what they do with a verdict."""

import dataclasses

import numpy as np

from autograder import probe
from autograder.exercise import Case, Criterion, Exercise
from autograder.judge import judge
from autograder.verdict import Verdict


def judged(exercise: Exercise, answer) -> Verdict:
    return judge(exercise, lambda request: probe.answer(request, answer), 0)


def held(verdict: Verdict) -> dict[str, bool]:
    """What earns its share: it holds, or fails only along with another line."""
    return {result.title: result.earned > 0 for result in verdict.results}


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


NUMPY = dataclasses.replace(
    MASK,
    name="softmax",
    library="numpy",
    cases=lambda rng: [Case("values", "the first", (np.array([[1.0, 2.0], [0.0, 3.0]]),), None, True)],
    reference=lambda build, inputs, weights: inputs[0].softmax(-1),
    variation=None,
)


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


def forging(answer, **said):
    """What carries requests to a probe that says these things of everything, in place of what it saw."""

    def ask(request):
        replies = probe.unpack(probe.answer(request, answer))
        for reply in replies:
            for told in (reply, *reply.get("parameters", ())):
                told |= {key: value for key, value in said.items() if key in told or told is reply}
        return probe.pack(replies)

    return ask
