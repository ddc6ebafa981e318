"""The half of a check that holds the answers: it asks the probe, compares, diagnoses and scores.

It never runs student code and believes nothing that it cannot compare: what the probe reports is parsed as
hostile input, every expected value is computed here, and no score ever crosses the line.
"""

import contextlib
import itertools
import logging
import math
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from autograder import diagnosis, location, probe, reading, relations
from autograder.exercise import Case, Criterion, Evidence, Exercise, Mistake, Parameter, Weights
from autograder.verdict import Difference, Picture, Result, Verdict, not_judged

Ask = Callable[[bytes], bytes]
Reply = dict[str, Any]  # what the probe says of one build or case
Parts = tuple[Tensor, ...]  # of an answer: one tensor, or several
MAX_WEIGHTS = 100_000  # elements that a student's module may have in these tiny cases
MAX_DEPTH = 20  # of modules within modules
MAX_MODULES = 1_000  # that hold a student's parameters
MAX_READINGS = 150  # ways to read a student's parameters that are tried for a right answer
MAX_FOLLOWED = 30  # of these, how many are followed stage by stage
MAX_DIAGNOSED = 3  # of these, how many are tried for every known mistake
NARROW = {"float16", "bfloat16", "float32"}  # dtypes that no part of a result in float64 may have
MAX_ASKED, MAX_KINDS = 2, 3  # cases of each kind in which is asked how the result depends on its inputs; kinds
MAX_SAID = 2  # sentences on what can be seen where nothing explains it
MAX_GUESSES = 3  # at which sizes the code goes wrong


class NoAnswer(Exception):
    """The probe's kernel did not answer: it died, hung or was never there. The text says which, as a sentence."""


def judge(exercise: Exercise, ask: Ask, seed: int | None = None) -> Verdict:
    """Judge what a student wrote.

    Args:
        exercise: the task.
        ask: carries a packed request to the probe and brings the packed reply; raises `NoAnswer` if none comes.
        seed: of the hidden cases and the weights; drawn afresh if None.

    Returns:
        the verdict. Whatever the student's code or the reply does, there is one.
    """
    rng = np.random.default_rng(secrets.randbits(64) if seed is None else seed)
    carried: list[Exception] = []  # what went wrong on the way to the probe is not the reply's doing

    def asked(request: bytes) -> bytes:
        try:
            return ask(request)
        except Exception as error:
            carried.append(error)
            raise

    try:
        with probe.exact(), np.errstate(all="ignore"):
            return _Trial(exercise, exercise.tried(rng), rng).run(asked)
    except NoAnswer as silence:
        return not_judged(exercise.name, str(silence))
    except _Malformed as why:
        return not_judged(exercise.name, str(why))
    except Exception as error:
        if error in carried:
            raise
        logging.getLogger(__name__).exception("%s: a reply that was not foreseen", exercise.name)
        return not_judged(
            exercise.name, f"the check itself failed ({type(error).__name__}) on what your code returned."
        )


class _Malformed(Exception):
    """The probe's reply is not what a probe would say, or more than is compared; the text says which."""

    def __init__(self, why: str = "the check got an answer that it cannot read, so nothing could be compared.") -> None:
        super().__init__(why)


class _Error(TypedDict):
    """An exception in the student's code."""

    type: str
    message: str
    lines: tuple[str, ...]  # the student's own


@dataclass(frozen=True)
class _Outcome:
    """What the student's code did with one case."""

    error: _Error | None = None
    type: str = ""
    output: tuple[np.ndarray, ...] | None = None  # its parts; None where it is not what the task wants at all
    dtypes: tuple[str, ...] = ()
    changed: str | None = None  # the first input that the call has changed
    input_gradients: tuple[np.ndarray | None, ...] | None = None
    weight_gradients: dict[str, np.ndarray | None] | None = None
    backward_error: str = ""
    called: frozenset[str] = frozenset()
    traced: np.ndarray | None = None
    printed: str = ""


class _Trial:
    """One judgement: the cases, the weights drawn for them, what the student's code did, what was right."""

    def __init__(self, exercise: Exercise, cases: list[Case], rng: np.random.Generator):
        self.exercise, self.cases, self.rng = exercise, cases, rng
        self.parameters: list[dict[str, tuple[Parameter, Tensor]]] = [{} for _ in cases]  # per case, by name
        self.loose: tuple[dict[str, str], ...] = ()
        self.outcomes: list[_Outcome] = []
        self.leaves = [tuple(map(_leaf, case.inputs)) for case in cases]  # the judge's own copies, differentiable
        # A visible case has the same numbers at every check, so that a student can follow them by hand.
        self.rngs = [np.random.default_rng(i) if case.visible else rng for i, case in enumerate(cases)]
        self.cotangents = [
            [source.normal(size=shape) for shape in self._shapes_of(case)] if case.differentiate else None
            for source, case in zip(self.rngs, cases, strict=True)
        ]
        self.unbuilt: dict[int, _Error] = {}  # errors of the constructor, by case

    def run(self, ask: Ask) -> Verdict:
        if any(case.build is not None for case in self.cases) and (early := self._describe(ask)):
            return early
        self._call(ask)
        if early := self._nothing_to_compare(ask):
            return early
        self._find_reading(ask)
        self._look_again(ask)
        return self._conclude(ask)

    def _shapes_of(self, case: Case) -> tuple[tuple[int, ...], ...]:
        """The shape of each part of the right answer."""
        shape = self.exercise.shape(case)
        return shape if self.exercise.parts else (tuple(shape),)

    # --- Asking --------------------------------------------------------------------------------------------------

    def _describe(self, ask: Ask) -> Verdict | None:
        """Learn the parameters and draw weights for them; a verdict if no object can be built."""
        builds = list(dict.fromkeys(case.built_with for case in self.cases))
        told = self._asked(ask, {"do": "describe", "builds": [list(build) for build in builds]}, len(builds))
        name = self.exercise.name
        for i, case in enumerate(self.cases):
            reply = told[builds.index(case.built_with)]
            if "error" in reply:
                self.unbuilt[i] = _error(reply)
                continue
            if "not_a_module" in reply:
                return not_judged(name, f"{name}(…) is {_a(_text(reply['not_a_module']))}, not an nn.Module.")
            self.parameters[i] = self._draw(reply, self.rngs[i])
            for _, tensor in self.parameters[i].values():
                tensor.data *= case.scale
            self.loose = self.loose or tuple(
                {"name": _text(item.get("name")), "kind": _text(item.get("kind"))} for item in _dicts(reply, "loose")
            )
        if len(self.unbuilt) == len(self.cases):
            first = self.unbuilt[0]
            arguments = ", ".join(map(str, self.cases[0].built_with))
            return self._without_result(first) or not_judged(
                name, f"`{name}({arguments})` raised {first['type']}: {first['message']}", first["lines"]
            )
        return None

    def _draw(self, reply: Reply, rng: np.random.Generator) -> dict[str, tuple[Parameter, Tensor]]:
        """Random weights for described parameters: away from 0 and 1, matrices large enough that attention matters."""
        drawn, total, modules = {}, 0, set[str]()
        for item in _dicts(reply, "parameters"):
            name, shape, start = _parameter_name(item.get("name")), item.get("shape"), item.get("start")
            if not isinstance(shape, list) or len(shape) > probe.MAX_AXES or not all(type(n) is int for n in shape):
                raise _Malformed
            if min(shape, default=0) < 0:
                raise _Malformed
            total += math.prod(n for n in shape if n)
            if total > MAX_WEIGHTS:
                raise _Malformed(
                    f"its parameters hold more than {MAX_WEIGHTS:,} numbers, although it was built for small inputs: "
                    "is a size written into the code?"
                )
            modules.update(itertools.accumulate(name.split(".")[:-1], "{}.{}".format))
            if len(modules) > MAX_MODULES:
                raise _Malformed(f"its parameters are spread over more than {MAX_MODULES:,} modules.")
            if item.get("trained") is not True and np.prod(shape) == 1:
                continue  # a constant, such as a scale, that the student keeps as a frozen parameter
            if len(shape) > 1:
                values = rng.normal(0.0, 1.5 / np.sqrt(shape[-1] or 1), shape)
            else:
                values = rng.uniform(0.4, 1.6, shape) * rng.choice([-1.0, 1.0], shape)
            parameter = Parameter(name, tuple(shape), item.get("trained") is True, _constant(start, tuple(shape)))
            drawn[name] = (parameter, torch.from_numpy(np.asarray(values)).requires_grad_())
        return drawn

    def _request(self, i: int) -> dict[str, Any]:
        """What the probe is to do with case i."""
        case = self.cases[i]
        request: dict[str, Any] = {"inputs": list(case.inputs), "dtype": case.dtype, "watch": True}
        if self.exercise.library != "torch":
            request["library"] = self.exercise.library
        if case.build is not None:
            weights = {name: tensor.detach().numpy() for name, (_, tensor) in self.parameters[i].items()}
            request |= {"build": list(case.build), "weights": weights if self.exercise.needs else {}}
        if case.steps is not None:
            request |= {"steps": list(case.steps), "drift": case.drift}
        if self.cotangents[i] is not None:
            request["cotangents"] = self.cotangents[i]
        return request

    def _call(self, ask: Ask) -> None:
        built = [i for i in range(len(self.cases)) if i not in self.unbuilt]
        requests = [self._request(i) for i in built]
        replies = self._asked(ask, {"do": "run", "cases": requests}, len(requests))
        outcomes = {i: _Outcome(error=error) for i, error in self.unbuilt.items()}
        several = bool(self.exercise.parts)
        for i, reply in zip(built, replies, strict=True):
            outcome = _outcome(reply, several)
            changed = None if outcome.output is None else self._changed(i, reply)
            outcomes[i] = replace(outcome, changed=changed)
        self.outcomes = [outcomes[i] for i in range(len(self.cases))]
        self._find_trained()

    def _changed(self, i: int, reply: Reply) -> str | None:
        """The first input of case i that is another after the call than it was before; None: there is none."""
        sent, after = self._arrays_of(i), _arrays(reply.get("inputs_after", []))
        for n, (name, before) in enumerate(sent.items()):
            now = after[n] if n < len(after) else None
            if now is None or now.shape != before.shape or not np.array_equal(now, before):
                return name
        return None

    def _arrays_of(self, i: int) -> dict[str, np.ndarray]:
        """The arrays among the inputs of case i, as the student's code gets them, by what the task calls them."""
        inputs = self.cases[i].inputs
        several = sum(isinstance(value, np.ndarray) for value in inputs) > 1
        named = dict[str, np.ndarray]()
        for n, value in enumerate(inputs):
            if isinstance(value, np.ndarray):
                named[self._input_name(n) if several or self.exercise.steps else "the input"] = (
                    value.astype(self.cases[i].dtype) if value.dtype.kind == "f" else value
                )
        return named

    def _find_trained(self) -> None:
        """What is trained shows in what comes back from a backward pass, wherever one was asked for."""
        if all(outcome.weight_gradients is None for outcome in self.outcomes):
            return
        reached = {name for outcome in self.outcomes for name in outcome.weight_gradients or ()}
        for own in self.parameters:
            for name, (parameter, tensor) in own.items():
                own[name] = replace(parameter, trained=name in reached), tensor

    def _look_again(self, ask: Ask) -> None:
        """Make the same calls under conditions that must not matter; what must not differ is noted where it does.

        One object is called again and again, from the smallest case to the largest and back, in training mode, with
        inputs that are not contiguous. Where that shows nothing, none of the three matters; else each is tried alone.
        Another object begins with the largest.
        """
        self.unsteady: dict[int, str] = {}  # cases that come out otherwise when called again → as a sentence
        self.conditions: list[str] = []  # under which results differ, as sentences
        again = [i for i, outcome in enumerate(self.outcomes) if outcome.output is not None]
        again.sort(key=lambda i: _amount(self.cases[i]))
        again += again[::-1]
        if not again:
            return
        largest_first = again[len(again) // 2 :]
        if self._differs(ask, again, shared=True, training=True, strided=True) or (
            self._differs(ask, largest_first, shared=True, training=True)
        ):
            for order in (again, largest_first):
                for i, error in self._differs(ask, order, shared=True).items():
                    keeps = "" if self.cases[i].build is not None else ": something is kept from one call to the next"
                    label = self.cases[i].label
                    self.unsteady.setdefault(i, f"called again, it {_otherwise(error)}{keeps} ({label})")
            for i, error in self._differs(ask, again[: len(again) // 2], strided=True).items():
                how = "where an input is not contiguous in memory, as a transposed one is, it"
                self.conditions.append(f"{how} {_otherwise(error)} ({self.cases[i].label})")
            for i, error in self._differs(ask, again[: len(again) // 2], training=True).items():
                self.conditions.append(f"in training mode it {_otherwise(error)} ({self.cases[i].label})")
            if not self.unsteady and not self.conditions:
                self.conditions.append("called again in training mode, it gives another result")
        for i, outcome in enumerate(self.outcomes):
            case = self.cases[i]
            narrowed = case.single and case.dtype == "float64" and _has_floats(case) and NARROW & {*outcome.dtypes}
            if outcome.changed and not any("is changed by the call" in said for said in self.conditions):
                self.conditions.append(f"{outcome.changed} is changed by the call ({case.label})")
            if narrowed and not self.conditions:
                self.conditions.append(f"float64 in, {min(NARROW & {*outcome.dtypes})} out ({case.label})")
        if self.exercise.library == "torch":
            if not self.unsteady:  # else what differs there may be what is kept
                self._look_at_dtype(ask, again[: len(again) // 2])
            self._look_at_state(ask, again[0])

    def _differs(self, ask: Ask, order: list[int], **how: Any) -> dict[int, _Error | None]:
        """The cases whose results are not what they were, and what they raised, when called in this order."""
        replies = self._asked(ask, {"do": "look", "cases": [self._request(i) for i in order], **how}, len(order))
        differing: dict[int, _Error | None] = {}
        for i, reply in zip(order, replies, strict=True):
            outcome, first = _outcome(reply, bool(self.exercise.parts)), self.outcomes[i].output
            assert first is not None  # or it would not be called again
            if outcome.output is None or not self._same(i, outcome.output, first):
                differing.setdefault(i, outcome.error)
        return differing

    def _same(self, i: int, one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...], dtype: str = "") -> bool:
        """Whether two results of case i agree, whatever they are: the expected shape has a tolerance of its own."""
        if [a.shape for a in one] != [b.shape for b in other]:
            return False
        if tuple(b.shape for b in other) == self._shapes_of(self.cases[i]):
            return all(self._near(i, a, b, dtype) for a, b in zip(one, other, strict=True))
        return all(np.allclose(a, b, 1e-4, 1e-4, equal_nan=True) for a, b in zip(one, other, strict=True))

    def _look_at_dtype(self, ask: Ask, order: list[int]) -> None:
        """In float32, on the object as it was built, the results must be float32 and much the same."""
        order = [i for i in order if self.cases[i].single and self.cases[i].dtype == "float64" and self.right[i]]
        requests = [self._request(i) | {"dtype": "float32"} for i in order]
        replies = self._asked(ask, {"do": "look", "cases": requests, "shared": True}, len(order)) if order else []
        for i, reply in zip(order, replies, strict=True):
            outcome, first = _outcome(reply, bool(self.exercise.parts)), self.outcomes[i].output
            assert first is not None
            label = self.cases[i].label
            if outcome.output is None:
                self.conditions.append(f"in float32 it {_otherwise(outcome.error)} ({label})")
            elif _has_floats(self.cases[i]) and "float64" in outcome.dtypes:
                self.conditions.append(f"float32 in, float64 out ({label})")
            elif not self._same(i, outcome.output, first, "float32"):
                self.conditions.append(f"in float32 the result is far off ({label})")

    def _look_at_state(self, ask: Ask, i: int) -> None:
        """What hangs on a module: no parameters without a task, and nothing that does not move with it.

        The latter shows on a device that computes nothing.
        """
        if self.cases[i].build is None:
            return
        if self.parameters[i] and not self.exercise.needs:
            self.conditions.append(f"`{next(iter(self.parameters[i]))}` is among the parameters")
        (reply,) = self._asked(ask, {"do": "look", "cases": [self._request(i)], "device": "meta"}, 1)
        error = _outcome(reply, bool(self.exercise.parts)).error
        if error and "device" in error["message"] and "cpu" in error["message"] and "meta" in error["message"]:
            self.conditions.append("a tensor stays where it was when the module is moved with `.to(device)`")

    def _asked(self, ask: Ask, request: dict[str, Any], count: int) -> list[Reply]:
        limits = {"seconds": self.exercise.seconds, "forbidden": sorted(self.exercise.forbidden)}
        return _read(ask, request | limits, count)

    def _nothing_to_compare(self, ask: Ask) -> Verdict | None:
        """A verdict where no case came to a tensor, or where somebody else's code did the work."""
        name = self.exercise.name
        called = frozenset().union(*(outcome.called for outcome in self.outcomes))
        called |= {o.error["message"] for o in self.outcomes if o.error and o.error["type"] == probe.Forbidden.__name__}
        forbidden = sorted(called & self.exercise.forbidden, key=lambda f: (f.startswith(("_", "native_")), f))
        if forbidden:
            said = f"your code calls `{forbidden[0]}`. {self.exercise.forbidden_reason}"
            return not_judged(name, said, forbidden=forbidden[0])
        if any(outcome.output is not None for outcome in self.outcomes):
            return None
        errors = [outcome.error for outcome in self.outcomes if outcome.error]
        for error in errors:
            if unjudged := self._without_result(error):
                return unjudged
        if not errors:
            return not_judged(name, f"it should return {self.exercise.returns}; it returned {self._got_instead(0)}")
        self._find_reading(ask)
        headline = f"it raised {errors[0]['type']}: {errors[0]['message']}"
        return not_judged(name, headline, errors[0]["lines"], self._signs() or self._diagnose())

    def _got_instead(self, i: int) -> str:
        """What came in place of a result that could be compared, as the end of a sentence."""
        kind = self.outcomes[i].type
        return "nothing (None): is the `return` missing?" if kind == "NoneType" else f"{_a(kind)}."

    def _without_result(self, error: _Error) -> Verdict | None:
        """The verdict on an error that only says that nothing was written yet, or that time was up; else None."""
        name = self.exercise.name
        if error["type"] == "TooSlow":
            headline = f"too slow: it was stopped after {self.exercise.seconds:g} s. Is there a loop without end?"
            return not_judged(name, headline, error["lines"])
        if error["type"] != "NotImplementedError":
            return None
        where = re.match(r"line \d+, in (\w+)", error["lines"][-1]) if error["lines"] else None
        return not_judged(name, f"not attempted yet: `{where[1] if where else name}` still raises NotImplementedError.")

    # --- Comparing -----------------------------------------------------------------------------------------------

    def _find_reading(self, ask: Ask) -> None:
        """Choose the reading of the student's parameters under which most cases come out right.

        By names and shapes first; where none of these fits a telling case, by what each parameter does.
        """
        self.expected: list[Parts | None] = [None] * len(self.cases)
        self.readings: list[list[Weights]] = [[{}] * len(self.cases)]
        self.possible: list[list[Weights]] = []
        self.right = [False] * len(self.cases)
        if self.exercise.reference is None:
            return
        options = [list(self._by_name(i)) for i in range(len(self.cases))]
        readings = [list(weights) for weights in zip(*options, strict=False)]  # per reading, the weights of each case
        telling = self._telling()
        fits = [
            w for w in readings if telling is not None and self._agrees(telling, self._reference(telling, w[telling]))
        ]
        if telling is not None and not fits:
            complete = readings and self._reference(telling, readings[0][telling]) is not None
            guessed = not complete or bool(reading.unsaid(self.parameters[telling], self.roles[telling]))
            found = self._by_effect(telling, ask, guessed)
            if found and self._reference(telling, found[telling]) is not None:
                fits, readings = [found], [found, *readings]
            elif found:  # some roles are not there at all
                readings.insert(1, found)

        def judged(weights: list[Weights]) -> tuple[list[Parts | None], int]:
            expected = [self._reference(i, roles) for i, roles in enumerate(weights)]
            return expected, sum(self._agrees(i, answer) for i, answer in enumerate(expected))

        most, chosen = -1, self.readings[0]
        for weights in fits or readings:
            expected, count = judged(weights)
            if count > most:
                most, self.expected, chosen = count, expected, weights
            if count == len(self.cases):
                break
        self.possible = readings[:MAX_FOLLOWED]
        self.readings = [chosen, *(weights for weights in readings[:MAX_DIAGNOSED] if weights is not chosen)]
        self.right = [self._agrees(i, answer) for i, answer in enumerate(self.expected)]

    def _by_name(self, i: int) -> Iterator[Weights]:
        """The ways to read the parameters of case i by their names and shapes, as far as these make sense."""
        with contextlib.suppress(Exception):  # a student's parameters may have any shape: most readings do not fit
            yield from itertools.islice(self.exercise.mappings(self.parameters[i], self.cases[i].build), MAX_READINGS)

    def _telling(self) -> int | None:
        """The case that tells most about parameters: several layers, heads and tokens, no mask, few numbers."""
        if self.exercise.roles is None:
            return None

        def tells(i: int) -> tuple[Any, ...]:
            case, roles = self.cases[i], self.roles[i]
            several = any(role.layer > 0 for role in roles.values())
            heads = any(len(side) > 1 and side[0] > 1 for role in roles.values() for side in role.sides)
            masked = any(isinstance(value, np.ndarray) and value.dtype == bool for value in case.inputs)
            size = sum(tensor.numel() for _, tensor in self.parameters[i].values())
            tokens = all(min(value.shape[1:], default=1) > 1 for value in case.inputs if isinstance(value, np.ndarray))
            return case.drift == 1, several, heads, not masked, tokens, -size

        self.roles = [self.exercise.roles(case.build) for case in self.cases]
        usable = [i for i, case in enumerate(self.cases) if case.dtype == "float64" and self.parameters[i]]
        return max(usable, key=tells, default=None)

    def _by_effect(self, i: int, ask: Ask, guessed: bool) -> list[Weights] | None:
        """The reading, of all cases, that what the parameters of case i do leaves; None if there is none.

        guessed: names and shapes leave it open, so that what known mistakes would do is tried as well.
        """
        reference = self.exercise.reference
        assert reference is not None
        (shape,) = self._shapes_of(self.cases[i])

        def run(numbers: Mapping[str, np.ndarray]) -> tuple[np.ndarray, reading.Gradients] | None:
            asked = {"weights": dict(numbers), "cotangents": [reading.cotangent(shape).numpy()], "watch": False}
            request = self._request(i) | asked
            (reply,) = self._asked(ask, {"do": "run", "cases": [request]}, 1)
            outcome = _outcome(reply, False)
            if outcome.output is None or outcome.weight_gradients is None:
                return None
            return outcome.output[0], outcome.weight_gradients

        def given(function: Callable[..., Any], *slips: frozenset[str]) -> reading.Answers:
            return lambda weights: self._computed(i, weights, function, *slips)[0]

        answers = [given(reference)]
        if guessed and self.exercise.alters:
            known = (mistake for mistake in self.exercise.mistakes if mistake.computed)
            answers += [given(self.exercise.altered, frozenset({key})) for m in known for key in m.ways]
        recipe = reading.by_effect(self.parameters[i], self.roles[i], run, answers)
        if recipe is None:
            return None
        found = [self._read(recipe, j) for j in range(len(self.cases))]
        return found if found[i] else None

    def _read(self, recipe: reading.Recipe, j: int) -> Weights:
        """The weights of case j by a recipe; none where it does not fit."""
        try:
            return recipe.read(self.parameters[j], self.roles[j])
        except Exception:  # these parameters may have any shape
            return {}

    def _unread(self) -> str:
        """That the parameters cannot be told apart, if they cannot, as a part of a sentence; else nothing."""
        if self.exercise.roles is None or any(self.right):
            return ""
        parameters, roles = self.parameters[0], self.exercise.roles(self.cases[0].build)
        missing = self.exercise.needs - self.readings[0][0].keys()
        registered = sum(tensor.numel() for _, tensor in parameters.values())
        if missing and registered >= sum(math.prod(roles[name].shape) for name in self.exercise.needs):
            return f"I cannot tell which of your parameters are {self._called(missing)}"
        unsaid = set() if missing else reading.unsaid(parameters, roles)
        return f"I cannot tell by their names which of your parameters are {self._called(unsaid)}" if unsaid else ""

    def _called(self, names: Collection[str]) -> str:
        """Roles as the task calls them: "w_q, w_k and w_v"."""
        roles = self.exercise.roles(self.cases[0].build) if self.exercise.roles else {}
        kinds = [role.kind for name, role in roles.items() if name in names] or sorted(names)
        shown = [re.sub(r"^(encoder\.|blocks\.|attention\.)*|(\.weight|\.table)$", "", kind) for kind in kinds]
        return _listed(list(dict.fromkeys(shown)))

    def _reference(self, i: int, weights: Weights) -> Parts | None:
        """The parts of the right answer to case i, differentiable; None if these weights allow none."""
        reference = self.exercise.reference
        if reference is None or not self.exercise.needs <= weights.keys():
            return None
        try:
            answer = self._computed(i, weights, reference)
        except Exception:  # these weights may have any shape
            return None
        return answer if tuple(tuple(part.shape) for part in answer) == self._shapes_of(self.cases[i]) else None

    def _computed(self, i: int, weights: Weights, function: Callable[..., Any], *slips: frozenset[str]) -> Parts:
        """The parts of what the exercise's reference or variation gives for case i; in turns, where it has any."""
        case, inputs = self.cases[i], self.leaves[i]
        if case.steps is None:
            answer = function(case.build, inputs, weights, *slips)
            return answer if isinstance(answer, tuple) else (answer,)
        outputs, state = [], None
        for turn, piece in enumerate(inputs[0].split(case.steps, dim=1)):
            drifted = {role: weight * case.drift**turn for role, weight in weights.items()}
            output, state = function(case.build, (piece, *inputs[1:], state), drifted, *slips)
            outputs.append(output)
        return (torch.cat(outputs, dim=1),)

    def _agrees(self, i: int, answer: Parts | None) -> bool:
        """Whether the student's output of case i equals `answer`."""
        outputs = self.outcomes[i].output
        if answer is None or outputs is None or len(outputs) != len(answer):
            return False
        return all(self._near(i, got, part.detach().numpy()) for got, part in zip(outputs, answer, strict=True))

    def _near(self, i: int, got: np.ndarray, expected: np.ndarray, dtype: str = "") -> bool:
        """Whether an array of case i equals what is expected: numbers, shape, and what kind of numbers they are.

        `dtype`: in which it was computed, if not in the case's own.
        """
        if got.shape != expected.shape or got.dtype.kind != expected.dtype.kind:
            return False
        if expected.dtype.kind != "f":
            return np.array_equal(got, expected)
        case = self.cases[i]
        tolerance = self.exercise.tolerance(case, expected) * (20.0 if (dtype or case.dtype) == "float32" else 1.0)
        finite = np.isfinite(expected)
        size = max(1e-3, float(np.abs(expected[finite]).max(initial=0.0)))
        with np.errstate(invalid="ignore"):
            near = (np.abs(got - expected) <= tolerance * size) | (got == expected)
        return bool(np.all(near | (np.isnan(got) & np.isnan(expected))))

    def _gradient_gaps(self, i: int, answer: Parts) -> list[str] | None:
        """Names of the inputs and parameters whose gradient differs from that of `answer`; None if not asked for."""
        outcome, cotangents = self.outcomes[i], self.cotangents[i]
        if cotangents is None or [tuple(part.shape) for part in answer] != list(self._shapes_of(self.cases[i])):
            return None
        inputs = [leaf for leaf in self.leaves[i] if isinstance(leaf, Tensor) and leaf.requires_grad]
        told = outcome.input_gradients if outcome.input_gradients is not None else (None,) * len(inputs)
        floats = [name for name, value in self._arrays_of(i).items() if value.dtype.kind == "f"]
        leaves = dict(zip(floats, inputs, strict=True))
        got = dict(zip(leaves, told, strict=False))
        for name, (_, tensor) in self.parameters[i].items():
            if self.exercise.needs:
                leaves[name], got[name] = tensor, (outcome.weight_gradients or {}).get(name)
        pairs = [(p, torch.from_numpy(c)) for p, c in zip(answer, cotangents, strict=True) if p.requires_grad]
        if not pairs:  # what a known mistake gives may have no gradient at all
            wanted = (None,) * len(leaves)
        else:
            outputs, given = zip(*pairs, strict=True)
            wanted = torch.autograd.grad(outputs, list(leaves.values()), given, allow_unused=True, retain_graph=True)
        right = {n: np.zeros(leaves[n].shape) if g is None else g.numpy() for n, g in zip(leaves, wanted, strict=True)}
        size = max(map(_size, right.values()))
        gaps = []
        for name, value in right.items():
            mine = got.get(name)
            mine = np.zeros(value.shape) if mine is None else mine
            near = 1e-5 * max(1e-3, size)
            if mine.shape != value.shape or not np.allclose(mine, value, rtol=0, atol=near, equal_nan=True):
                gaps.append(name)
        return gaps

    # --- Concluding ----------------------------------------------------------------------------------------------

    def _conclude(self, ask: Ask) -> Verdict:
        exercise, cases, outcomes = self.exercise, self.cases, self.outcomes
        compared = exercise.reference is not None
        right = self._steadily(self.right)
        gaps = self._gaps(self.expected)
        signs = self._signs()
        printed = next((o.printed for o, case in zip(outcomes, cases, strict=True) if case.visible and o.printed), "")
        results = [self._result(criterion, right, gaps, signs) for criterion in exercise.criteria]
        if compared and all(result.holds for result in results) and not all(self.right):
            results = self._every_case_counts(results)
        if all(result.holds for result in results):
            headline = f"all {len(cases)} cases agree." if compared else "everything that is asked for holds."
            return Verdict(exercise.name, headline, tuple(results), printed=printed, properties=self._properties())

        mistakes, explanation = signs, None
        # Outputs say nothing where the weights could not be set: then the sign is the explanation.
        explained = signs and any(answer is None for answer in self.expected)
        if compared and (not all(self.right) or any(gaps.values())) and not explained:
            found = self._diagnose() or self._search(results)
            mistakes += tuple(mistake for mistake in found if mistake not in mistakes)
            explanation = self.explanation if found and all(mistake.costs for mistake in found) else None
        failing = [outcome.error for outcome in outcomes if outcome.error]
        headline = f"{sum(right)} of {len(cases)} cases agree."
        if not (any(right) or mistakes) and (unread := self._unread()):
            headline = f"{unread[0].upper()}{unread[1:]}: none of the ways to read them gives what your code returns."
        if not compared:
            headline = next(result.note for result in results if not result.holds)
        elif said := [*self.unsteady.values(), *self.conditions] if all(self.right) else []:
            headline = f"right, but {said[0]}."
        elif all(right):
            headline = f"all outputs are right, but {next(r.note or r.title for r in results if not r.holds)}."
        if failing:
            headline += f" {len(failing)} raised {failing[0]['type']}: {failing[0]['message']}"
        if compared and not mistakes and (where := self._where(ask)):
            headline = (
                f"{headline.rstrip('.')}. Of all sizes that were tried, it goes wrong where {where}, and only there."
            )
        elif compared and not mistakes and not all(self.right):
            headline = " ".join([f"{headline.rstrip('.')}.", *(f"{said}." for said in self._seen(ask)[:MAX_SAID])])
        first = self._first_different(right)
        return Verdict(
            exercise.name,
            headline,
            tuple(self._in_spite_of(mistakes, explanation, results, signs)),
            mistakes,
            self._difference(first, ask) if first is not None else None,
            tuple(failing[0]["lines"]) if failing else (),
            printed,
            self._properties(),
        )

    def _every_case_counts(self, results: list[Result]) -> list[Result]:
        """Where what criteria measure holds and a case is wrong all the same, in whatever part: its criterion fails."""
        tags = {case.tag for case, right in zip(self.cases, self.right, strict=True) if not right}
        said = f"{sum(self.right)} of {len(self.cases)} cases agree in all parts"
        tags = tags & {criterion.key for criterion in self.exercise.criteria} or {self.exercise.criteria[-1].key}
        return [
            replace(result, holds=False, note=said) if criterion.key in tags else result
            for criterion, result in zip(self.exercise.criteria, results, strict=True)
        ]

    def _seen(self, ask: Ask) -> list[str]:
        """What can be seen of wrong results that nothing explains, the most telling first, as sentences."""
        said = self._with_and_without()
        said += self._related(ask)
        said += [f"{text[0].upper()}{text[1:]}" for text in (*self.unsteady.values(), *self.conditions)][:1]
        pairs = []
        for i, answer in enumerate(self.expected):
            outputs = self.outcomes[i].output
            if answer is None or outputs is None or tuple(o.shape for o in outputs) != self._shapes_of(self.cases[i]):
                continue
            if self.cases[i].dtype == "float64":
                expected = tuple(part.detach().numpy() for part in answer)
                off = [
                    np.zeros(e.shape, bool) if self._near(i, g, e) else _off(g, e)
                    for g, e in zip(outputs, expected, strict=True)
                ]
                pairs.append((outputs, expected, off))
        differ = [case.label for case, right in zip(self.cases, self.right, strict=True) if not right]
        if len(differ) < len(self.cases) / 4:
            said.append(f"What differs: {'; '.join(differ)}")
        said += relations.looks(pairs, self.exercise.parts)
        return list(dict.fromkeys(said))

    def _with_and_without(self) -> list[str]:
        """An optional input, such as a mask, without which all is right, or with which all is."""
        inputs = [case.inputs for case in self.cases]
        for n in range(min(map(len, inputs), default=0)):
            with_it = [self.right[i] for i, given in enumerate(inputs) if given[n] is not None]
            without = [self.right[i] for i, given in enumerate(inputs) if given[n] is None]
            if len(with_it) < 2 or len(without) < 2 or all(with_it) == all(without):
                continue
            right, word, wrong = (without, "without", with_it) if all(without) else (with_it, "with", without)
            name = self._input_name(n)
            other = "with" if word == "without" else "without"
            told = (
                f"All {len(right)} cases {word} {name} are right, and {wrong.count(False)} of {len(wrong)} {other} it"
            )
            return [f"{told} are not"]
        return []

    def _input_name(self, n: int) -> str:
        """What the task calls an input."""
        names = diagnosis.inputs(self.exercise.steps) if self.exercise.steps else ()
        return f"`{names[n]}`" if n < len(names) else f"input {n + 1}"

    def _related(self, ask: Ask) -> list[str]:
        """Relations that the right answer has for the inputs of several cases, and the student's code has not."""
        usable = [i for i, case in enumerate(self.cases) if case.dtype == "float64" and case.steps is None]
        usable = [i for i in usable if not self.right[i] and not self._huge(i)]
        usable = [
            i for i in usable if all(np.isfinite(o).all() for o in self.outcomes[i].output or (np.array(np.nan),))
        ]
        usable.sort(key=lambda i: (min(_sides(self.cases[i]), default=0) < 2, -len(set(_sides(self.cases[i])))))
        asked = list[tuple[int, relations.Relation, list[bool | None]]]()
        kinds = dict[tuple[bool, ...], list[int]]()  # with a mask, and without
        for i in usable:
            kinds.setdefault(tuple(value is None for value in self.cases[i].inputs), []).append(i)
        for i in (i for alike in list(kinds.values())[:MAX_KINDS] for i in alike[:MAX_ASKED]):
            weights = self._any_weights(i)
            before = self._on(i, self.cases[i].inputs, weights)
            names = {n: self._input_name(n) for n in range(len(self.cases[i].inputs))}
            if before is None:
                continue
            for relation in relations.relations(self.cases[i].inputs, names):
                after = self._on(i, relation.inputs, weights)
                if after is not None and any(held := relation.holds(before, after)):
                    asked.append((i, relation, held))
        if not asked:
            return []
        requests = [self._request(i) | {"inputs": list(relation.inputs)} for i, relation, _ in asked]
        replies = self._asked(ask, {"do": "look", "cases": requests}, len(requests))
        broken = dict[tuple[bool, str], int]()
        for (i, relation, must), reply in zip(asked, replies, strict=True):
            after, before = _outcome(reply, bool(self.exercise.parts)).output, self.outcomes[i].output
            if after is None or before is None or not len(after) == len(before) == len(must):
                continue
            told = [held for held, must_hold in zip(relation.holds(before, after), must, strict=True) if must_hold]
            if False in told:
                key = relation.weak, relation.words
                broken[key] = broken.get(key, 0) + 1
        often = [key for key, count in broken.items() if count > 1]
        return [words for _, words in sorted(often, key=lambda key: key[0])]

    def _huge(self, i: int) -> bool:
        """Whether a case is too large, or its numbers are, to ask about it again and again."""
        arrays = [value for value in self.cases[i].inputs if isinstance(value, np.ndarray)]
        return (
            sum(a.size for a in arrays) > 5_000
            or max((_size(a) for a in arrays if a.dtype.kind == "f"), default=0) > 99
        )

    def _any_weights(self, i: int) -> Weights:
        """The student's weights by role, or, where these cannot be read, others of the right shapes."""
        weights = self.readings[0][i]
        if self._reference(i, weights) is None and self.exercise.roles is not None:
            roles = self.exercise.roles(self.cases[i].build)
            return {name: reading.numbers(name, role.shape) for name, role in roles.items()}
        return weights

    def _on(self, i: int, inputs: tuple[Any, ...], weights: Weights) -> tuple[np.ndarray, ...] | None:
        """What the reference gives for other inputs of case i; None where it gives nothing in the right shape."""
        if self.exercise.reference is None:
            return None
        try:
            with torch.no_grad():
                answer = self.exercise.reference(self.cases[i].build, tuple(map(_leaf, inputs)), weights)
        except Exception:  # these inputs may make no sense
            return None
        answer = answer if isinstance(answer, tuple) else (answer,)
        arrays = tuple(part.numpy() for part in answer)
        return arrays if tuple(a.shape for a in arrays) == self._shapes_of(self.cases[i]) else None

    def _where(self, ask: Ask) -> str:
        """At which sizes the code goes wrong, where it is right at all others: tried on further ones, then said."""
        axes, drawn = self.exercise.axes, [i for i, case in enumerate(self.cases) if case.sizes is not None]
        sets = [case.sizes for case in self.cases if case.sizes is not None]
        guesses = location.found(axes, sets, [not self.right[i] for i in drawn])
        for where in itertools.islice(guesses, MAX_GUESSES):
            further = location.further(axes, where, sets)
            more = _Trial(self.exercise, [self.exercise.of(sizes, self.rng) for sizes in further], self.rng)
            if not further or (more.cases[0].build is not None and more._describe(ask)):
                continue
            more._call(ask)
            more._find_reading(ask)
            if more.right == [not where.holds(sizes) for sizes in further]:
                return where.words
        return ""

    def _steadily(self, right: list[bool]) -> list[bool]:
        """Which cases count as right: those that come out right whenever they are called."""
        manners = any(criterion.key == "manners" and criterion.share for criterion in self.exercise.criteria)
        lost = bool(self.conditions) and not manners  # nothing else could be lost
        return [agrees and i not in self.unsteady and not lost for i, agrees in enumerate(right)]

    def _gaps(self, answers: list[Parts | None]) -> dict[int, list[str]]:
        """Per case that agrees with its answer and was differentiated: whose gradients differ."""
        gaps = {}
        for i, answer in enumerate(answers):
            if answer is None or not self._agrees(i, answer):
                continue
            if (missing := self._gradient_gaps(i, answer)) is not None:
                gaps[i] = missing
        return gaps

    def _in_spite_of(
        self,
        mistakes: tuple[Mistake, ...],
        explanation: list[Parts | None] | None,
        results: list[Result],
        signs: tuple[Mistake, ...],
    ) -> list[Result]:
        """The results where all that is wrong are known mistakes, each of which costs only what it breaks itself."""
        if explanation is None:
            return results
        costs = {key for mistake in mistakes for key in mistake.costs}
        right = self._steadily(
            [
                self._agrees(i, answer) or case.dtype != "float64"
                for i, (answer, case) in enumerate(zip(explanation, self.cases, strict=True))
            ]
        )
        gaps = self._gaps(explanation)
        mended = []
        for criterion, result in zip(self.exercise.criteria, results, strict=True):
            if not result.holds and criterion.key not in costs:
                result = self._result(criterion, right, gaps, signs)
                if result.holds:
                    result = replace(result, note="apart from the mistake named above")
            mended.append(result)
        # Something is wrong, so something is lost, also where what a mistake should cost holds by itself.
        return results if all(result.holds for result in mended) else mended

    def _properties(self) -> tuple[tuple[str, bool], ...]:
        """What else is known of the results, over all cases: a title, and whether it holds."""
        outcomes = [o for o in self.outcomes if o.output is not None]
        if not outcomes:
            return ()
        known: list[tuple[str, bool | None]] = [
            ("every value is finite", self._finite()),
            ("float32 and float64 are kept", self._dtypes_kept()),
            ("the inputs stay as they were", not any(o.changed for o in outcomes)),
            ("the same input gives the same result again", not self.unsteady),
        ]
        if any(c is not None for c in self.cotangents):
            flows = [
                any(
                    g is not None and np.any(g)
                    for g in (*(o.input_gradients or ()), *(o.weight_gradients or {}).values())
                )
                for o, c in zip(self.outcomes, self.cotangents, strict=True)
                if c is not None and (o.input_gradients is not None or o.weight_gradients is not None)
            ]
            known.append(("gradients flow", all(flows) if flows else None))
        if self.exercise.needs:
            known.append(("the parameters are registered", bool(self.parameters[0]) and not self.loose))
        for item in self.exercise.properties:
            said = [
                item.holds(case, o.output if self.exercise.parts else o.output[0])
                for case, o in zip(self.cases, self.outcomes, strict=True)
                if o.output is not None and tuple(a.shape for a in o.output) == self._shapes_of(case)
            ]
            said = [bool(answer) for answer in said if answer is not None]
            known.append((item.title, all(said) if said else None))
        return tuple((title, holds) for title, holds in known if holds is not None)

    def _finite(self) -> bool | None:
        """Whether all numbers are finite where the right ones are; None where nothing says what is right."""
        pairs = [
            (got, part.detach().numpy())
            for outcome, answer in zip(self.outcomes, self.expected, strict=True)
            if outcome.output is not None and answer is not None and len(outcome.output) == len(answer)
            for got, part in zip(outcome.output, answer, strict=True)
        ]
        if not pairs or all(part.dtype.kind != "f" for _, part in pairs):
            return None
        return all(np.isfinite(got).all() for got, part in pairs if np.isfinite(part).all())

    def _dtypes_kept(self) -> bool | None:
        dtypes = [(case.dtype, d) for case, o in zip(self.cases, self.outcomes, strict=True) for d in o.dtypes]
        told = [want == got for want, got in dtypes if got.startswith("float") or got.startswith("bfloat")]
        return all(told) if told and len({case.dtype for case in self.cases}) > 1 else None

    def _signs(self) -> tuple[Mistake, ...]:
        """The known mistakes that show in something other than outputs."""
        evidence = Evidence(
            cases=tuple(self.cases),
            parameters=tuple(parameter for parameter, _ in self.parameters[0].values()),
            loose=self.loose,
            right=frozenset(i for i, agrees in enumerate(self.right) if agrees),
            errors=tuple(outcome.error["message"] for outcome in self.outcomes if outcome.error),
            input_changed=any(outcome.changed is not None for outcome in self.outcomes),
            mappable=all(answer is not None for answer in self.expected),
        )
        return tuple(mistake for mistake in self.exercise.mistakes if mistake.sign and mistake.sign(evidence))

    def _result(
        self, criterion: Criterion, right: list[bool], gaps: dict[int, list[str]], signs: tuple[Mistake, ...]
    ) -> Result:
        if criterion.measure is not None:
            several = bool(self.exercise.parts)
            outputs = [None if o.output is None else o.output if several else o.output[0] for o in self.outcomes]
            try:
                holds, note = criterion.measure(tuple(self.cases), tuple(outputs))
            except Exception:  # results may have any shape, and be any numbers
                holds, note = False, f"cannot be measured: it should return {self.exercise.returns}"
        else:
            holds, note = self._criterion(criterion.key, right, gaps, signs)
        return Result(criterion.title, criterion.share, holds, note)

    def _criterion(
        self, key: str, right: list[bool], gaps: dict[int, list[str]], signs: tuple[Mistake, ...]
    ) -> tuple[bool, str]:
        """Whether a criterion holds, and a note."""
        if key == "shape":
            return self._shapes()
        if key == "gradients":
            missing = sorted({name for names in gaps.values() for name in names})
            if missing:
                broken = next((o.backward_error for o in self.outcomes if o.backward_error), "")
                if broken:
                    return False, f"backward raised an error: {broken.splitlines()[0][:200]}"
                return False, f"the gradient of {', '.join(missing[:4])} is missing or differs"
            compared = self._hidden(gaps)
            return (True, "") if compared else (False, "no case agrees, so no gradient can be compared")
        if key == "manners":
            return self._manners(signs)
        chosen = [i for i, case in enumerate(self.cases) if case.tag == key]
        agreeing = sum(right[i] for i in chosen)
        hidden = [i for i, case in enumerate(self.cases) if not case.visible]
        unseen = [i for i in hidden if i in chosen] or hidden  # what is known beforehand earns nothing
        holds = agreeing == len(chosen) and (not unseen or any(right[i] for i in unseen))
        cases = "case agrees" if len(chosen) == 1 else "cases agree"
        return holds, "" if holds else f"{agreeing} of {len(chosen)} {cases}"

    def _hidden(self, some: Collection[int]) -> list[int]:
        """Those of some differentiated cases that decide: hidden ones, where any was differentiated."""
        every = [i for i, cotangents in enumerate(self.cotangents) if cotangents is not None]
        hidden = [i for i in every if not self.cases[i].visible] or every
        return [i for i in some if i in hidden]

    def _shapes(self) -> tuple[bool, str]:
        for i, (case, outcome) in enumerate(zip(self.cases, self.outcomes, strict=True)):
            wanted = self._shapes_of(case)
            if outcome.error:
                return False, f"raises {outcome.error['type']}" + (f" for {case.label}" if case.visible else "")
            if outcome.output is None:
                return False, f"should return {self.exercise.returns}; returns {self._got_instead(i)}".rstrip(".")
            shapes = tuple(part.shape for part in outcome.output)
            if len(shapes) != len(wanted):
                return False, f"returns {len(shapes)} results; should return {self.exercise.returns}"
            for name, shape, right in zip(self.exercise.parts or ("a result",), shapes, wanted, strict=True):
                if shape != right:
                    seen = f", should be {right}" if case.visible else f"; it should be {self.exercise.returns}"
                    return False, f"{name} has shape {shape}{seen}"
        return True, ""

    def _manners(self, signs: tuple[Mistake, ...]) -> tuple[bool, str]:
        if signs and any(not sign.computed for sign in signs):
            return False, next(sign.title for sign in signs if not sign.computed)
        roles = self.exercise.needs - self.readings[0][0].keys()
        if roles:
            return False, self._unread() or f"no parameter found for {self._called(roles)}"
        compared = any(criterion.key == "gradients" for criterion in self.exercise.criteria)
        if (
            self.exercise.needs
            and not compared
            and not all(p.trained for own in self.parameters for p, _ in own.values())
        ):
            return False, "a parameter does not require a gradient"
        for said in (*self.conditions, *self.unsteady.values()):
            return False, said
        if any(outcome.changed is not None for outcome in self.outcomes):
            return False, "an argument is changed: the caller's has other values afterwards"
        for case, outcome in zip(self.cases, self.outcomes, strict=True):
            floats = [dtype for dtype in outcome.dtypes if dtype not in ("int64", "bool")]
            if case.dtype == "float32" and (outcome.output is None or any(dtype != "float32" for dtype in floats)):
                return False, f"float32 in, {floats[0] if floats else 'an error'} out"
        return True, ""

    def _first_different(self, right: list[bool]) -> int | None:
        """The first visible case whose numbers can be held beside the right ones, and differ."""
        for i, case in enumerate(self.cases):
            outputs, answer = self.outcomes[i].output, self.expected[i]
            if not case.visible or right[i] or outputs is None or answer is None or len(outputs) != len(answer):
                continue
            if any(got.shape != tuple(part.shape) for got, part in zip(outputs, answer, strict=True)):
                continue
            return i
        return None

    def _difference(self, i: int, ask: Ask) -> Difference:
        """Where case i first differs from the right answer, and how far the way to it was right."""
        case, outputs, answer = self.cases[i], self.outcomes[i].output, self.expected[i]
        assert outputs is not None and answer is not None  # or it would not be the case to show
        names = self.exercise.parts or ("",)
        for name, got, part in zip(names, outputs, answer, strict=True):
            expected = part.detach().numpy()
            if self._near(i, got, expected):
                continue
            mine, theirs, off = got.astype(float), expected.astype(float), _off(got, expected)
            if not off.any():  # the numbers agree; what kind of numbers they are does not
                where, both = "every place", (str(expected.dtype), str(got.dtype))
                return Difference(case.label, f"{name} in {where}".strip(), *both)
            at = tuple(int(n) for n in np.argwhere(off)[0])
            note = f"{int(off.sum())} of {off.size} values differ." if off.ndim else ""
            if off.ndim and off.all() and theirs.all() and np.isfinite(mine).all() and np.isfinite(theirs).all():
                ratio = mine / theirs
                if np.ptp(ratio) < 1e-4 * abs(ratio.mean()):
                    note = f"Every value is {ratio.mean():.4g} times the expected one."
            form = ".5g" if expected.dtype.kind == "f" else ""
            place = f"{name}[{', '.join(map(str, at))}]" if at else name or "the result"
            picture = Picture.of(theirs, mine, at, name)
            return Difference(
                case.label, place, f"{expected[at]:{form}}", f"{got[at]:{form}}", note, self._way(i, ask), picture
            )
        return Difference(case.label, "the result", "what the task describes", "something else")

    def _way(self, i: int, ask: Ask) -> str:
        """How far on the way to the answer of case i the student's code comes, as a sentence.

        The stages are looked for among all that it computes. Not every way of writing it passes through each of them,
        so what counts is the last one found; and of the readings of its parameters, the one that leads farthest.
        """
        if self.exercise.stages is None or not self.possible or self._unread():
            return ""
        (reply,) = self._asked(ask, {"do": "run", "cases": [self._request(i) | {"trace": True}]}, 1)
        traced = _outcome(reply, bool(self.exercise.parts)).traced
        if traced is None:
            return ""
        traced = np.sort(traced[np.isfinite(traced)], axis=None)
        ways = []
        for weights in self.possible:
            if not self._uses_all(i, weights[i]):
                continue
            try:
                stages = self.exercise.stages(self.cases[i].build, self.leaves[i], weights[i])
            except Exception:  # a reading that does not fit
                continue
            found = [_among(value.detach().numpy(), traced) for value in stages.values()]
            ways.append((max((n for n, there in enumerate(found, 1) if there), default=0), tuple(stages), found))
        if not ways:
            return ""
        reached, names, found = max(ways, key=lambda way: way[0])
        so_far = [name for name, there in zip(names, found, strict=True) if there]
        computed = f"Your code computes {_listed(so_far)} as it should; " if so_far else ""
        if reached == len(names):
            return f"{computed}what goes wrong comes after that."
        if not so_far and any(
            tensor.dim() > 1 and not name.endswith("weight") for name, (_, tensor) in self.parameters[i].items()
        ):
            return ""  # a bare matrix may be meant either way round
        missing = names[reached]
        sentence = f"{computed}{missing} never appear{'' if missing.endswith('s') else 's'} among its numbers."
        return sentence[0].upper() + sentence[1:]

    def _uses_all(self, i: int, weights: Weights) -> bool:
        """Whether a reading of case i has a role for each number of the student's parameters."""
        own = sum(tensor.numel() for _, tensor in self.parameters[i].values())
        return not self.exercise.needs or own == sum(w.numel() for w in weights.values() if w.requires_grad)

    # --- Diagnosing ----------------------------------------------------------------------------------------------

    def _diagnose(self) -> tuple[Mistake, ...]:
        """The known mistakes, alone or two together, that do exactly what the student's code did."""
        known = [mistake for mistake in self.exercise.mistakes if mistake.computed]
        alone = [(mistake,) for mistake in known]
        pairs = [(a, b) for a, b in itertools.combinations(known, 2) if not a.excludes(b)]
        outputs_only: tuple[Mistake, ...] = ()
        for weights in self.readings:
            for group in itertools.chain(alone, pairs):
                for keys in itertools.product(*(mistake.ways for mistake in group)):
                    explanation = self._explains(frozenset(keys), weights)
                    if explanation is None:
                        continue
                    if not any(self._gaps(explanation).values()):
                        self.explanation = explanation
                        return group
                    if not outputs_only:  # another group may agree in the gradients too
                        outputs_only, self.explanation = group, explanation
        return outputs_only

    def _search(self, results: list[Result]) -> tuple[Mistake, ...]:
        """What no known mistake explains: the small change of the exercise's steps that does what the code did."""
        steps = self.exercise.steps
        chosen = [i for i, case in enumerate(self.cases) if case.dtype == "float64" and case.steps is None]
        broken_off = any(outcome.backward_error for outcome in self.outcomes)
        if steps is None or broken_off or not self.exercise.needs <= self.readings[0][0].keys():
            return ()

        def observed(i: int) -> diagnosis.Observed:
            return diagnosis.Observed(
                diagnosis.bound(steps, self.cases[i].build, self.leaves[i], self.readings[0][i]),
                self.outcomes[i].output,
                lambda n, part: self._near(i, (self.outcomes[i].output or ())[n], part.detach().numpy()),
                lambda answer: not self._gradient_gaps(i, answer),
            )

        found = diagnosis.explain(diagnosis.read(steps), [observed(i) for i in chosen])
        if found is None:
            return ()
        self.explanation: list[Parts | None] = [None] * len(self.cases)
        for i, answer in zip(chosen, found.answers, strict=True):
            self.explanation[i] = answer
        # A slight change costs the weightiest of what it breaks; where a step is missing, or the shape is another,
        # whatever disagrees is lost.
        broken = [
            criterion for criterion, result in zip(self.exercise.criteria, results, strict=True) if not result.holds
        ]
        weightiest = sorted(broken, key=lambda criterion: -criterion.share)[: len(found.edits)]
        slight = found.slight and all(criterion.key != "shape" for criterion in broken)
        costs = tuple(criterion.key for criterion in weightiest) if slight else ()
        how = "this one change" if len(found.edits) == 1 else "these two changes"
        does = f"With {how}, right code gives in every case exactly what yours gives."
        look = f"Compare how your code comes to {found.where} with what the task says."
        return (Mistake(diagnosis.KEY, found.name, does, look, costs=costs),)

    def _explains(self, slips: frozenset[str], weights: list[Weights]) -> list[Parts | None] | None:
        """What `slips` switched on give in every case, if that is what the student's code did; else None.

        Outputs, shapes and errors must be the same; where all outputs are right, the gradients must be the same.
        """
        if not self.exercise.alters:
            return None
        answers: list[Parts | None] = [None] * len(self.cases)
        reproduced = False
        # What was returned says more than what was raised, so those cases come first.
        for i in sorted(range(len(self.cases)), key=lambda i: self.outcomes[i].error is not None):
            case = self.cases[i]
            if case.dtype != "float64":
                continue
            error = self.outcomes[i].error
            try:
                answer = self._computed(i, weights[i], self.exercise.altered, slips)
            except Exception as raised:  # the student's parameters may be of any shape: most mistakes do not fit them
                # Where other cases came out the same, raising too is agreement; alone, it takes the same sizes.
                if error is None or not _same_kind(error["type"], type(raised).__name__):
                    return None
                if not (reproduced or _sizes(error["message"]) == _sizes(str(raised)) != []):
                    return None
                continue
            shapes = tuple(tuple(part.shape) for part in answer)
            misfit = error is not None and error["type"] == "RuntimeError"  # torch's own
            if misfit and reproduced and shapes != self._shapes_of(case):
                continue  # a result that does not fit: what else is done with it may well raise
            if not self._agrees(i, answer) or (all(self.right) and self._gradient_gaps(i, answer)):
                return None
            answers[i] = answer
            reproduced = True
        return answers


def _has_floats(case: Case) -> bool:
    return any(isinstance(value, np.ndarray) and value.dtype.kind == "f" for value in case.inputs)


def _amount(case: Case) -> int:
    """How much there is to compute, roughly: which of two cases is the larger."""
    return sum(
        value.size if isinstance(value, np.ndarray) else value if type(value) is int else 0 for value in case.inputs
    )


def _otherwise(error: _Error | None) -> str:
    """What differs from before, as the end of a sentence."""
    return f"raises {error['type']}: {error['message'].splitlines()[0][:150]}" if error else "gives another result"


def _same_kind(one: str, other: str) -> bool:
    """Whether two types of exception say the same: what doesn't fit together raises one of these."""
    misfits = {"RuntimeError", "IndexError", "ValueError", "AxisError"}  # the last is NumPy's IndexError
    return one == other or {one, other} <= misfits


def _sizes(message: str) -> list[str]:
    """The numbers in an error message: of two errors about shapes that do not fit, what they have in common."""
    return re.findall(r"\d+", message.split("\n")[0])


def _a(kind: str) -> str:
    """A type's name with its article."""
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _size(values: np.ndarray) -> float:
    """The largest magnitude among those that are finite."""
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _off(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where two arrays of one shape differ by more than rounding."""
    mine, theirs = got.astype(float), expected.astype(float)
    with np.errstate(invalid="ignore"):
        off = ~((np.abs(mine - theirs) <= 1e-4 * max(1e-3, _size(theirs))) | (mine == theirs))
    return off & ~(np.isnan(mine) & np.isnan(theirs))


def _sides(case: Case) -> list[int]:
    """All sizes of a case's arrays."""
    return [n for value in case.inputs if isinstance(value, np.ndarray) for n in value.shape]


def _among(values: np.ndarray, sorted_numbers: np.ndarray) -> bool:
    """Whether each of the finite values is one of the numbers, to seven digits."""
    sought = values[np.isfinite(values)]
    near = 1e-7 * max(1e-3, _size(sought))
    at = np.searchsorted(sorted_numbers, sought - near)
    found = at < len(sorted_numbers)
    return bool(found.all() and np.all(sorted_numbers[at] <= sought + near))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _leaf(value: Any) -> Any:
    """The judge's own copy of an input, differentiable; what the probe makes of plain data is made here too."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value).requires_grad_(value.dtype.kind == "f")
    return probe.made(value)


# --- Reading hostile replies -------------------------------------------------------------------------------------


def _read(ask: Ask, request: dict[str, Any], count: int) -> list[Reply]:
    told = ask(probe.pack(request))
    try:
        replies = probe.unpack(told)
    except ValueError as error:
        raise _Malformed from error
    if not isinstance(replies, list) or len(replies) != count or not all(isinstance(r, dict) for r in replies):
        raise _Malformed
    return replies


def _dicts(reply: Reply, key: str) -> list[Reply]:
    items = reply.get(key)
    if not isinstance(items, list) or not all(isinstance(i, dict) for i in items):
        raise _Malformed
    if len(items) > probe.MAX_NAMES:
        raise _Malformed(f"it has more than {probe.MAX_NAMES} {key}, although it was built for small inputs.")
    return items


def _parameter_name(value: Any) -> str:
    """A parameter's name, which is told and sent back as it is."""
    if not isinstance(value, str) or not value.isprintable():  # half of a surrogate pair is not
        raise _Malformed
    if len(value) > probe.MAX_NAME or value.count(".") > MAX_DEPTH or value.startswith("$"):
        raise _Malformed(f"the name of a parameter cannot be used: `{value[:60]}…`")
    return value


def _text(value: Any, limit: int = 500) -> str:
    """Text from the probe: bounded, and without control characters other than line breaks."""
    text = value if isinstance(value, str) else ""
    return "".join(c for c in text[:limit] if c == "\n" or c.isprintable())


def _error(reply: Reply) -> _Error:
    error = reply.get("error")
    if not isinstance(error, dict):
        raise _Malformed
    lines = error.get("lines")
    lines = tuple(_text(line) for line in lines[:6]) if isinstance(lines, list) else ()
    return {"type": _text(error.get("type"), 80), "message": _text(error.get("message")), "lines": lines}


def _arrays(values: Any, limit: int = probe.MAX_NAMES) -> tuple[np.ndarray | None, ...]:
    if not isinstance(values, list) or len(values) > limit:
        raise _Malformed
    if not all(value is None or isinstance(value, np.ndarray) for value in values):
        raise _Malformed
    return tuple(values)


def _names(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or len(values) > probe.MAX_NAMES:
        raise _Malformed
    if not all(isinstance(value, str) for value in values):
        raise _Malformed
    return tuple(_text(value, 80) for value in values)


def _constant(start: Any, shape: tuple[int, ...]) -> float | None:
    """The number that all entries of a parameter start from, if it is one; computed here from all of them."""
    if not isinstance(start, np.ndarray) or start.shape != shape or start.dtype.kind != "f":
        return None
    first = float(start.flat[0]) if start.size else 0.0
    return first if bool((start == first).all()) else None


def _dtypes(output: tuple[np.ndarray, ...] | None, told: tuple[str, ...]) -> tuple[str, ...]:
    """The dtypes of a result's parts: what the arrays are, unless one was of a dtype that cannot cross."""
    if output is None:
        return ()
    told = told if len(told) == len(output) else ("",) * len(output)
    crossed = (*probe.DTYPES, "")
    return tuple(a.dtype.name if name in crossed else name for a, name in zip(output, told, strict=True))


def _outcome(reply: Reply, several: bool) -> _Outcome:
    """What a reply says; `several`: whether the task wants more than one tensor."""
    printed = _text(reply.get("printed"), 1000)
    if "error" in reply:
        return _Outcome(error=_error(reply), printed=printed)
    output = None
    if "output" in reply:
        parts = _arrays(reply["output"])
        output = tuple(part for part in parts if part is not None)
        if len(output) < len(parts) or len(output) > probe.MAX_PARTS:
            raise _Malformed
        if reply.get("several") is not several or not output or (len(output) > 1 and not several):
            output = None
    inputs, weights = reply.get("input_gradients"), reply.get("weight_gradients")
    if weights is not None and not isinstance(weights, dict):
        raise _Malformed
    return _Outcome(
        type=_text(reply.get("type"), 80),
        output=output,
        dtypes=_dtypes(output, _names(reply.get("dtypes", []))),
        input_gradients=None if inputs is None else _arrays(inputs),
        weight_gradients=None if weights is None else dict(zip(weights, _arrays(list(weights.values())), strict=True)),
        backward_error=_text(reply.get("backward_error")),
        called=frozenset(_names(reply.get("called", []))),
        traced=_arrays([reply.get("traced")])[0],
        printed=printed,
    )
