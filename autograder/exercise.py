"""What an exercise is: the task's name, its cases, its reference, and the mistakes that people make in it.

One file per exercise in `autograder/exercises/`. The judge reads them; the probe never does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

Weights = dict[str, Tensor]  # by role ("q", "gamma", …) for references, by the student's own names for mappings


@dataclass(frozen=True)
class Parameter:
    """One parameter of the student's module, as the probe describes it."""

    name: str
    shape: tuple[int, ...]
    trained: bool = True
    constant: float | None = None  # the value that all its entries have at the start, if they are all equal


@dataclass(frozen=True)
class Case:
    """One input to try.

    Attributes:
        tag: the criterion it counts for.
        label: the case in words, for the student; only visible cases are ever shown.
        inputs: positional arguments of the call: arrays and plain numbers.
        build: positional arguments of the constructor; None where the target is a function.
        visible: whether its numbers may be shown.
        differentiate: whether gradients are compared too.
        dtype: "float64" or "float32".
    """

    tag: str
    label: str
    inputs: tuple
    build: tuple | None = None
    visible: bool = False
    differentiate: bool = False
    dtype: str = "float64"


@dataclass(frozen=True)
class Criterion:
    """A property that earns a share of the points. The shares of an exercise add up to 1.

    Besides the tags of the cases, three keys have a fixed meaning: "gradients" (backward agrees wherever forward
    does), "manners" (input untouched, dtype kept, same answer twice, parameters registered), "shape" (of the result).
    """

    key: str
    title: str
    share: float


@dataclass(frozen=True)
class Evidence:
    """What the probe reported, in the form in which a `Mistake.sign` reads it.

    Attributes:
        parameters: the student's parameters, for a module.
        loose: attributes holding tensors or layers that `parameters()` cannot see: name, kind, count.
        cases: all cases.
        right: those whose output agreed, by index.
        errors: the messages of what was raised.
        mappable: whether the parameters can be matched to the task's roles.
    """

    cases: tuple[Case, ...]
    parameters: tuple[Parameter, ...] = ()
    loose: tuple[dict, ...] = ()
    right: frozenset[int] = frozenset()
    errors: tuple[str, ...] = ()
    input_changed: bool = False
    mappable: bool = True


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people give.

    Attributes:
        key: the switch that turns it on in the exercise's `variation`.
        name: what it is called.
        does: what the wrong code does, as a sentence to the student.
        look: where to look; never the answer.
        slot: two mistakes of one slot exclude each other, so that no pair is made of them.
        sign: recognises it from evidence other than outputs, where outputs cannot tell.
        switchable: whether `variation` can compute what it does.
        also: further switches: the same mistake written in another way.
    """

    key: str
    name: str
    does: str
    look: str
    slot: str = ""
    sign: Callable[[Evidence], bool] | None = None
    switchable: bool = True
    also: tuple[str, ...] = ()


def no_mapping(parameters: dict[str, tuple[Parameter, Tensor]], build: tuple | None) -> Iterator[Weights]:
    """For targets without weights: nothing to match."""
    yield {}


@dataclass(frozen=True)
class Exercise:
    """One thing to write.

    Attributes:
        name: of the function or class that the student writes.
        returns: the result in words, with its shape.
        shape: of the right answer to a case.
        cases: makes the cases; the visible ones always the same, the hidden ones from the generator.
        reference: the right answer: (build, inputs, weights by role) → output.
        variation: the same with mistakes switched on: (build, inputs, weights, keys) → output; a test holds
            `variation(…, frozenset())` equal to `reference`.
        mappings: ways to read the student's parameters as the task's roles, the likeliest first; each maps roles
            to tensors made of the student's by slicing, stacking and transposing, so that gradients flow back.
        needs: the roles without which there is no right answer.
        forbidden: torch functions that would do the exercise for the student.
        forbidden_reason: the sentence for that.
        tolerance: largest error that is still right, as a multiple of the largest expected value. Wide enough for
            code that computes in float32 inside; the cases are chosen so that mistakes differ by far more.
    """

    name: str
    returns: str
    shape: Callable[[Case], tuple[int, ...]]
    criteria: tuple[Criterion, ...]
    mistakes: tuple[Mistake, ...]
    cases: Callable[[np.random.Generator], list[Case]]
    reference: Callable[[tuple | None, tuple, Weights], Tensor]
    variation: Callable[[tuple | None, tuple, Weights, frozenset[str]], Tensor]
    mappings: Callable[[dict[str, tuple[Parameter, Tensor]], tuple | None], Iterator[Weights]] = no_mapping
    needs: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    forbidden_reason: str = ""
    tolerance: Callable[[Case, Any], Any] = field(default=lambda case, expected: 1e-5)

    def mistake(self, key: str) -> Mistake:
        return next(mistake for mistake in self.mistakes if mistake.key == key)
