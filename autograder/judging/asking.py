"""Asking the probe: objects described, weights drawn for them, the student's code called with every case."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import diagnosis, probe
from autograder.exercise import Case, Exercise, Parameter
from autograder.judging.replies import (
    Ask,
    Malformed,
    Outcome,
    Reply,
    StudentError,
    arrays,
    dicts,
    error_of,
    outcome,
    parameter,
    read,
    text,
)
from autograder.judging.wording import error_lines, gist, with_article
from autograder.verdict import Verdict, not_judged

Parameters = dict[str, tuple[Parameter, Tensor]]  # by the student's names, with the weights drawn for them
Cotangents = list[np.ndarray]  # one for each part of a result
MAX_WEIGHTS = 100_000  # elements that a student's module may have in these tiny cases
MAX_MODULES = 1_000  # that hold a student's parameters
MAX_ARRAYS, MAX_NUMBERS = 10_000, 4_000_000  # in one request; the probe takes five times, and twice as many


@dataclass(frozen=True, eq=False)
class Trial:
    """The cases of one check, and the numbers that are drawn for them.

    Attributes:
        exercise: the task.
        ask: carries a packed request to the probe and brings the packed reply.
        cases: what is tried.
        rng: draws what differs from check to check.
        rngs: for each case, draws its numbers. A visible case has the same at every check, so that a student can
            follow them by hand.
        inputs: for each case, the judge's own copies of its inputs, differentiable.
        cotangents: for each case, what its result is differentiated with; None where it is not.
    """

    exercise: Exercise
    ask: Ask
    cases: tuple[Case, ...]
    rng: np.random.Generator
    rngs: tuple[np.random.Generator, ...]
    inputs: tuple[tuple[Any, ...], ...]
    cotangents: tuple[Cotangents | None, ...]

    @property
    def forbidden(self) -> list[list[str]]:
        """The operations that the student's code may not call, as the probe takes them."""
        return probe.kernels(self.exercise.forbidden)

    @classmethod
    def of(cls, exercise: Exercise, ask: Ask, cases: Sequence[Case], rng: np.random.Generator) -> "Trial":
        """Draw what the cases need beside their inputs."""
        rngs = tuple(np.random.default_rng(i) if case.visible else rng for i, case in enumerate(cases))
        cotangents = tuple(
            [source.normal(size=shape) for shape in shapes_of(exercise, case)] if case.differentiate else None
            for source, case in zip(rngs, cases, strict=True)
        )
        inputs = tuple(tuple(map(leaf, case.inputs)) for case in cases)
        return cls(exercise, ask, tuple(cases), rng, rngs, inputs, cotangents)

    def shapes(self, i: int) -> tuple[tuple[int, ...], ...]:
        """The shape of each part of the right answer to case i."""
        return shapes_of(self.exercise, self.cases[i])

    def outcome(self, reply: Reply) -> Outcome:
        """What a reply says of one case."""
        return outcome(reply, bool(self.exercise.parts))

    def replies(self, request: dict[str, Any], count: int) -> list[Reply]:
        """Send a request to the probe and read that many replies; several requests, where one would be too large.

        Calls of one object that is shared stay in one.
        """
        calls = request.get("cases", ())
        if len(calls) > 1 and not fits_in_one(calls) and not request.get("shared"):
            half = len(calls) // 2
            parts = (calls[:half], calls[half:])
            return [reply for part in parts for reply in self.replies(request | {"cases": part}, len(part))]
        return self._read(request, count)

    def outcomes_of_each(self, requests: Sequence[dict[str, Any]]) -> list[list[Outcome] | None]:
        """What came of several requests with cases, sent as one: their way takes longer than what they ask for.

        None for those that have to be sent alone: all, where one would be too large, and where the time was up, those
        that did not have all of it.
        """
        if not fits_in_one([case for request in requests for case in request["cases"]]):
            return [None for _ in requests]
        counts = [len(request["cases"]) for request in requests]
        replies = self._read({"do": "each", "asks": list(requests)}, sum(counts))
        outcomes = map(self.outcome, replies)
        found = [list(itertools.islice(outcomes, count)) for count in counts]
        late = next((n for n, own in enumerate(found) if any(map(_is_late, own))), None)
        return [*found] if late is None else [own if n < max(late, 1) else None for n, own in enumerate(found)]

    def _read(self, request: dict[str, Any], count: int) -> list[Reply]:
        limits = {"seconds": self.exercise.seconds, "forbidden": self.forbidden}
        return read(self.ask, request | limits, count)


def _is_late(outcome: Outcome) -> bool:
    return outcome.error is not None and outcome.error.type == probe.TOO_SLOW


def fits_in_one(calls: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a request may hold all of these calls."""
    sizes = [size for call in calls for value in (call.get("weights", {}), *call["inputs"]) for size in _sizes(value)]
    return len(sizes) <= MAX_ARRAYS and sum(sizes) <= MAX_NUMBERS


def _sizes(value: Any) -> list[int]:
    """The sizes of an array, or of all arrays in a dict."""
    if isinstance(value, dict):
        return [size for item in value.values() for size in _sizes(item)]
    return [value.size] if isinstance(value, np.ndarray) else []


@dataclass(frozen=True, eq=False)
class Description:
    """The objects of all cases before anything is called.

    Attributes:
        parameters: for each case, its parameters; none where nothing is built.
        unregistered: the same for tensors that may have been meant as parameters, and are not registered.
        loose: attributes holding tensors or layers that `parameters()` cannot see.
        errors: what the constructor raised, by case.
        shared: a parameter that two objects have in common, by its name; "" if there is none.
        kept: where something is kept that the next object finds, by its name; "" if there is nothing.
    """

    parameters: tuple[Parameters, ...]
    unregistered: tuple[Parameters, ...]
    loose: tuple[dict[str, str], ...]
    errors: Mapping[int, StudentError]
    shared: str = ""
    kept: str = ""


@dataclass(frozen=True, eq=False)
class Run:
    """What the student's code did with every case.

    Attributes:
        trial: what was tried.
        description: of the objects.
        parameters: for each case, those that count as the student's parameters.
        outcomes: for each case, what the code did.
        changed: for each case, the name of the first input that the call has changed.
        taken: of a result of too many parts, those that are judged.
        too_many: what was returned then.
        adopted: the names of parameters that are not registered and judged as if they were.
    """

    trial: Trial
    description: Description
    parameters: tuple[Parameters, ...]
    outcomes: tuple[Outcome, ...]
    changed: tuple[str | None, ...]
    taken: tuple[int, ...] = ()
    too_many: str = ""
    adopted: frozenset[str] = frozenset()

    def request(self, i: int) -> dict[str, Any]:
        """What the probe has done with case i, to have it done again."""
        return dict(self._requests[i])

    @cached_property
    def _requests(self) -> list[dict[str, Any]]:
        return [_request(self.trial, i, parameters, self.taken) for i, parameters in enumerate(self.parameters)]

    def input_name(self, n: int) -> str:
        """What the task calls an input, or else the student's code."""
        return _input_name(self.trial.exercise, n, self.outcomes[0].arguments if self.outcomes else ())

    @property
    def errors(self) -> list[StudentError]:
        """What was raised, in the order of the cases."""
        return [outcome.error for outcome in self.outcomes if outcome.error]

    def fits(self, i: int) -> bool:
        """Whether the output of case i has the shape of the right answer."""
        return self.outcomes[i].shapes == self.trial.shapes(i)


def leaf(value: Any) -> Any:
    """An input as a tensor that shares its memory, differentiable; what the probe makes of plain data is made too."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value).requires_grad_(value.dtype.kind == "f")
    return probe.made(value)


def shapes_of(exercise: Exercise, case: Case) -> tuple[tuple[int, ...], ...]:
    """The shape of each part of the right answer to a case."""
    shape = exercise.shape(case)
    return shape if exercise.parts else (tuple(shape),)


# --- Describing --------------------------------------------------------------------------------------------------


def describe(trial: Trial) -> Description | Verdict:
    """Learn the parameters and draw weights for them; a verdict if no object can be built."""
    cases, exercise = trial.cases, trial.exercise
    nothing = tuple[Parameters, ...]({} for _ in cases)
    if all(case.build is None for case in cases):
        return Description(nothing, nothing, (), {})
    builds = list(dict.fromkeys(case.built_with for case in cases))
    replies = trial.replies({"do": "describe", "builds": [list(build) for build in builds]}, len(builds))
    parameters, unregistered = list(nothing), list(nothing)
    loose, errors = tuple[dict[str, str], ...](), dict[int, StudentError]()
    for i, case in enumerate(cases):
        reply = replies[builds.index(case.built_with)]
        if "error" in reply:
            errors[i] = error_of(reply)
            continue
        if "not_a_module" in reply:
            kind = with_article(text(reply["not_a_module"]))
            return not_judged(exercise.name, f"{exercise.name}(…) is {kind}, not an nn.Module.")
        parameters[i] = _drawn(reply, "parameters", trial.rngs[i], case.scale)
        unregistered[i] = _drawn(reply, "unregistered", trial.rngs[i])
        loose = loose or tuple(
            {"name": text(item.get("name")), "kind": text(item.get("kind"))} for item in dicts(reply, "loose")
        )
    if len(errors) == len(cases):
        return _not_built(trial, errors[0])
    shared, kept = (text(replies[0].get(key)) for key in ("shared", "kept"))
    return Description(tuple(parameters), tuple(unregistered), loose, errors, shared, kept)


def _not_built(trial: Trial, error: StudentError) -> Verdict:
    """The verdict where the constructor raises an error in every case."""
    if verdict := without_result(trial.exercise, error):
        return verdict
    name, arguments = trial.exercise.name, ", ".join(map(str, trial.cases[0].built_with))
    return not_judged(name, f"`{name}({arguments})` raised {error.type}: {gist(error.message)}", error_lines(error))


def without_result(exercise: Exercise, error: StudentError) -> Verdict | None:
    """The verdict on an error that only says that nothing was written yet, or that time was up; else None."""
    name = exercise.name
    if error.type == probe.TOO_SLOW:
        headline = f"too slow: it was stopped after {exercise.seconds:g} s of computing. Is there a loop without end?"
        return not_judged(name, headline, error.lines)
    if error.type != "NotImplementedError" or not _raised_by_student(error):
        return None
    where = re.match(r"line \d+, in (\w+)", error.lines[-1]) if error.lines else None
    headline = (
        f"not attempted yet, or not to the end: `{where[1] if where else name}` still raises NotImplementedError. "
        "That line goes when yours are there."
    )
    return not_judged(name, headline, attempted=False)


def _raised_by_student(error: StudentError) -> bool:
    """Whether the line says `raise` itself, as far as it is known: torch raises NotImplementedError as well."""
    _, colon, line = error.lines[-1].partition(": ") if error.lines else ("", "", "")
    return not colon or line.startswith("raise ")


def _drawn(reply: Reply, key: str, rng: np.random.Generator, scale: float = 1.0) -> Parameters:
    """Random weights for described parameters: away from 0 and 1, matrices large enough that attention matters."""
    drawn, total, modules = Parameters(), 0, set[str]()
    for item in dicts(reply, key):
        described = parameter(item)
        name, shape = described.name, described.shape
        total += math.prod(n for n in shape if n)
        if total > MAX_WEIGHTS:
            tensors = "parameters" if key == "parameters" else "buffers and other tensors"
            raise Malformed(
                f"its {tensors} hold more than {MAX_WEIGHTS:,} numbers, although it was built for small inputs: "
                "is a size written into the code?"
            )
        modules.update(itertools.accumulate(name.split(".")[:-1], "{}.{}".format))
        if len(modules) > MAX_MODULES:
            raise Malformed(f"its parameters are spread over more than {MAX_MODULES:,} modules.")
        if not described.trained and math.prod(shape) == 1:
            continue  # a constant, such as a scale, that the student keeps as a frozen parameter
        if len(shape) > 1:
            values = rng.normal(0.0, 1.5 / np.sqrt(shape[-1] or 1), shape)
        else:
            values = rng.uniform(0.4, 1.6, shape) * rng.choice([-1.0, 1.0], shape)
        drawn[name] = described, torch.from_numpy(np.asarray(values * scale)).requires_grad_()
    return drawn


# --- Calling -----------------------------------------------------------------------------------------------------


def call(
    trial: Trial,
    description: Description,
    parameters: tuple[Parameters, ...],
    taken: tuple[int, ...] = (),
    adopted: frozenset[str] = frozenset(),
) -> Run:
    """Have the student's code called with every case whose object can be built."""
    errors = description.errors
    built = [i for i in range(len(trial.cases)) if i not in errors]
    requests = [_request(trial, i, parameters[i], taken) for i in built]
    replies = dict(zip(built, trial.replies({"do": "run", "cases": requests}, len(requests)), strict=True))
    outcomes, changed = list[Outcome](), list[str | None]()
    for i in range(len(trial.cases)):
        case_outcome = Outcome(error=errors[i]) if i in errors else trial.outcome(replies[i])
        outcomes.append(case_outcome)
        changed.append(None if case_outcome.output is None else _changed_input(trial, i, replies[i]))
    parameters = _with_trained(parameters, outcomes)
    return Run(trial, description, parameters, tuple(outcomes), tuple(changed), taken, adopted=adopted)


def _request(trial: Trial, i: int, parameters: Parameters, taken: tuple[int, ...]) -> dict[str, Any]:
    """What the probe is to do with case i."""
    case, exercise, cotangents = trial.cases[i], trial.exercise, trial.cotangents[i]
    request: dict[str, Any] = {"inputs": list(case.inputs), "dtype": case.dtype}
    if exercise.forbidden:
        request["watch"] = True
    if exercise.library != "torch":
        request["library"] = exercise.library
    if case.build is not None:
        weights = {name: tensor.detach().numpy() for name, (_, tensor) in parameters.items()}
        request |= {"build": list(case.build), "weights": weights if exercise.needs else {}}
    if taken:
        request |= {"taken": list(taken), "several": bool(exercise.parts)}
    if case.steps is not None:
        request |= {"steps": list(case.steps), "drift": case.drift}
    if cotangents is not None:
        request["cotangents"] = cotangents
    return request


def _changed_input(trial: Trial, i: int, reply: Reply) -> str | None:
    """The name of the first input of case i that is another after the call than it was before, if there is one."""
    after = arrays(reply.get("inputs_after", []))
    for n, (name, before) in enumerate(_sent_arrays(trial, i).items()):
        now = after[n] if n < len(after) else None
        if now is None or now.shape != before.shape or not np.array_equal(now, before):
            return name
    given = probe.models(trial.inputs[i])
    states = reply.get("models_after")
    states = states if isinstance(states, list) and len(states) == len(given) else [None] * len(given)
    for model, now in zip(given, states, strict=True):
        if (changed := _changed_state(probe.state(model), now, trial.cases[i].dtype)) is not None:
            return changed
    return None


def _changed_state(before: dict[str, Any], now: Any, dtype: str) -> str | None:
    """What of a model is another than before a call; None if nothing is."""
    if not isinstance(now, dict):
        return "the model"
    for name in (*before, *now):
        old, new = before.get(name), now.get(name)
        if isinstance(old, np.ndarray):
            old = old.astype(dtype) if old.dtype.kind == "f" else old
            same = isinstance(new, np.ndarray) and new.dtype == old.dtype and np.array_equal(old, new)
        else:
            same = type(old) is type(new) and old == new
        if not same:
            return f"{text(name)} of the model"
    return None


def _sent_arrays(trial: Trial, i: int) -> dict[str, np.ndarray]:
    """The arrays among the inputs of case i, as the student's code gets them, by what the task calls them."""
    case, exercise = trial.cases[i], trial.exercise
    several = sum(isinstance(value, np.ndarray) for value in case.inputs) > 1
    sent = dict[str, np.ndarray]()
    for n, value in enumerate(case.inputs):
        if isinstance(value, np.ndarray):
            name = _input_name(exercise, n) if several or exercise.steps else "the input"
            sent[name] = value.astype(case.dtype) if value.dtype.kind == "f" else value
    return sent


def _input_name(exercise: Exercise, n: int, arguments: Sequence[str] = ()) -> str:
    """What the task calls an input, or else the student's code."""
    names = diagnosis.inputs(exercise.steps) if exercise.steps else arguments
    return f"`{names[n]}`" if n < len(names) else f"input {n + 1}"


def _with_trained(parameters: tuple[Parameters, ...], outcomes: Sequence[Outcome]) -> tuple[Parameters, ...]:
    """The parameters; those that a backward pass reaches are trained, wherever one was asked for."""
    if all(outcome.weight_gradients is None for outcome in outcomes):
        return parameters
    reached = {name for outcome in outcomes for name in outcome.weight_gradients or ()}
    return tuple(
        {name: (replace(described, trained=name in reached), tensor) for name, (described, tensor) in own.items()}
        for own in parameters
    )
