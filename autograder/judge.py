"""The half of a check that holds the answers: it asks the probe, compares, diagnoses and scores.

It never runs student code and believes nothing that it cannot compare: what the probe reports is parsed as
hostile input, every expected value is computed here, and no score ever crosses the line.
"""

import itertools
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autograder import probe
from autograder.exercise import Case, Evidence, Exercise, Mistake, Parameter, Weights
from autograder.verdict import Difference, Result, Verdict, not_judged

Ask = Callable[[bytes], bytes]
MAX_WEIGHTS = 100_000  # elements that a student's module may have in these tiny cases
MAX_READINGS = 150  # ways to read a student's parameters that are tried for a right answer
MAX_DIAGNOSED = 3  # of these, how many are tried for every known mistake


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
    try:
        with probe.exact():
            return _Trial(exercise, exercise.cases(rng), rng).run(ask)
    except NoAnswer as silence:
        return not_judged(exercise.name, str(silence))
    except _Malformed:
        return not_judged(exercise.name, "the check got an answer that it cannot read, so nothing could be compared.")


class _Malformed(Exception):
    """The probe's reply is not what a probe would say."""


@dataclass(frozen=True)
class _Outcome:
    """What the student's code did with one case."""

    error: dict | None = None
    type: str = ""
    output: np.ndarray | None = None
    dtype: str = ""
    input_changed: bool = False
    repeats: bool = True
    input_gradients: tuple[np.ndarray | None, ...] | None = None
    weight_gradients: dict[str, np.ndarray | None] | None = None
    backward_error: str = ""
    called: frozenset[str] = frozenset()
    printed: str = ""


class _Trial:
    """One judgement: the cases, the weights drawn for them, what the student's code did, what was right."""

    def __init__(self, exercise: Exercise, cases: list[Case], rng: np.random.Generator):
        self.exercise, self.cases = exercise, cases
        self.parameters: list[dict[str, tuple[Parameter, Tensor]]] = [{} for _ in cases]  # per case, by name
        self.loose: tuple[dict, ...] = ()
        self.outcomes: list[_Outcome] = []
        self.leaves = [tuple(map(_leaf, case.inputs)) for case in cases]  # the judge's own copies, differentiable
        # A visible case has the same numbers at every check, so that a student can follow them by hand.
        self.rngs = [np.random.default_rng(i) if case.visible else rng for i, case in enumerate(cases)]
        self.cotangents = [
            source.normal(size=exercise.shape(case)) if case.differentiate else None
            for source, case in zip(self.rngs, cases, strict=True)
        ]
        self.unbuilt: dict[int, dict] = {}  # errors of the constructor, by case

    def run(self, ask: Ask) -> Verdict:
        if any(case.build is not None for case in self.cases) and (early := self._describe(ask)):
            return early
        self._call(ask)
        if early := self._nothing_to_compare():
            return early
        self._find_reading()
        return self._conclude()

    # --- Asking --------------------------------------------------------------------------------------------------

    def _describe(self, ask: Ask) -> Verdict | None:
        """Learn the parameters and draw weights for them; a verdict if no object can be built."""
        replies = _read(ask, {"do": "describe", "builds": [list(case.build) for case in self.cases]}, len(self.cases))
        name = self.exercise.name
        for i, reply in enumerate(replies):
            if "error" in reply:
                self.unbuilt[i] = _error(reply)
                continue
            if "not_a_module" in reply:
                return not_judged(name, f"{name}(…) is {_a(_text(reply['not_a_module']))}, not an nn.Module.")
            self.parameters[i] = self._draw(reply, self.rngs[i])
            self.loose = self.loose or tuple(
                {"name": _text(item.get("name")), "kind": _text(item.get("kind"))} for item in _dicts(reply, "loose")
            )
        if len(self.unbuilt) == len(self.cases):
            first = self.unbuilt[0]
            arguments = ", ".join(map(str, self.cases[0].build))
            return _not_attempted(name, first) or not_judged(
                name, f"`{name}({arguments})` raised {first['type']}: {first['message']}", first["lines"]
            )
        return None

    def _draw(self, reply: dict, rng: np.random.Generator) -> dict[str, tuple[Parameter, Tensor]]:
        """Random weights for described parameters: away from 0 and 1, matrices large enough that attention matters."""
        drawn, total = {}, 0
        for item in _dicts(reply, "parameters"):
            name, shape, constant = item.get("name"), item.get("shape"), item.get("constant")
            if not isinstance(name, str) or not isinstance(shape, list) or not all(type(n) is int for n in shape):
                raise _Malformed
            total += int(np.prod(shape, dtype=object))
            if min(shape, default=0) < 0 or total > MAX_WEIGHTS:
                raise _Malformed
            if item.get("trained") is not True and np.prod(shape) == 1:
                continue  # a constant, such as a scale, that the student keeps as a frozen parameter
            if len(shape) > 1:
                values = rng.normal(0.0, 1.5 / np.sqrt(shape[-1] or 1), shape)
            else:
                values = rng.uniform(0.4, 1.6, shape) * rng.choice([-1.0, 1.0], shape)
            parameter = Parameter(
                name,
                tuple(shape),
                item.get("trained") is True,
                float(constant) if isinstance(constant, int | float) else None,
            )
            drawn[name] = (parameter, torch.from_numpy(np.asarray(values)).requires_grad_())
        return drawn

    def _call(self, ask: Ask) -> None:
        requests = []
        built = [i for i in range(len(self.cases)) if i not in self.unbuilt]
        for i in built:
            case = self.cases[i]
            request: dict[str, Any] = {
                "inputs": list(case.inputs),
                "dtype": case.dtype,
                "watch": i == built[0],
                "twice": i == built[0],
            }
            if case.build is not None:
                weights = {name: tensor.detach().numpy() for name, (_, tensor) in self.parameters[i].items()}
                request |= {"build": list(case.build), "weights": weights if self.exercise.needs else {}}
            if self.cotangents[i] is not None:
                request["cotangent"] = self.cotangents[i]
            requests.append(request)
        replies = _read(ask, {"do": "run", "cases": requests}, len(requests))
        outcomes = {i: _Outcome(error=error) for i, error in self.unbuilt.items()}
        outcomes |= {i: _outcome(reply) for i, reply in zip(built, replies, strict=True)}
        self.outcomes = [outcomes[i] for i in range(len(self.cases))]

    def _nothing_to_compare(self) -> Verdict | None:
        """A verdict where no case came to a tensor, or where somebody else's code did the work."""
        name = self.exercise.name
        called = frozenset().union(*(outcome.called for outcome in self.outcomes))
        forbidden = sorted(called & self.exercise.forbidden, key=lambda f: (f.startswith(("_", "native_")), f))
        if forbidden:
            return not_judged(name, f"your code calls `{forbidden[0]}`. {self.exercise.forbidden_reason}")
        if any(outcome.output is not None for outcome in self.outcomes):
            return None
        errors = [outcome.error for outcome in self.outcomes if outcome.error]
        for error in errors:
            if unattempted := _not_attempted(name, error):
                return unattempted
        if not errors:
            kind = self.outcomes[0].type
            got = "nothing (None): is the `return` missing?" if kind == "NoneType" else f"{_a(kind)}."
            return not_judged(name, f"it should return {self.exercise.returns}; it returned {got}")
        self._find_reading()
        headline = f"it raised {errors[0]['type']}: {errors[0]['message']}"
        return not_judged(name, headline, errors[0]["lines"], self._signs() or self._diagnose())

    # --- Comparing -----------------------------------------------------------------------------------------------

    def _find_reading(self) -> None:
        """Choose the reading of the student's parameters under which most cases come out right."""
        options = [
            list(itertools.islice(self.exercise.mappings(drawn, case.build), MAX_READINGS))
            for drawn, case in zip(self.parameters, self.cases, strict=True)
        ]
        readings = [list(weights) for weights in zip(*options, strict=False)]  # per reading, the weights of each case

        def judged(weights: list[Weights]) -> tuple[list[Tensor | None], int]:
            expected = [self._reference(i, roles) for i, roles in enumerate(weights)]
            return expected, sum(self._agrees(i, answer) for i, answer in enumerate(expected))

        most = -1
        for weights in readings:
            expected, count = judged(weights)
            if count > most:
                most, self.expected, chosen = count, expected, weights
            if count == len(self.cases):
                break
        self.readings = [chosen, *(weights for weights in readings[:MAX_DIAGNOSED] if weights is not chosen)]
        self.right = [self._agrees(i, answer) for i, answer in enumerate(self.expected)]

    def _reference(self, i: int, weights: Weights) -> Tensor | None:
        """The right answer to case i, differentiable; None if these weights allow none."""
        if not self.exercise.needs <= weights.keys():
            return None
        try:
            answer = self.exercise.reference(self.cases[i].build, self.leaves[i], weights)
        except (RuntimeError, KeyError):
            return None
        return answer if tuple(answer.shape) == tuple(self.exercise.shape(self.cases[i])) else None

    def _agrees(self, i: int, answer: Tensor | None) -> bool:
        """Whether the student's output of case i equals `answer`."""
        got = self.outcomes[i].output
        if answer is None or got is None or got.shape != tuple(answer.shape):
            return False
        expected = answer.detach().numpy()
        case = self.cases[i]
        tolerance = self.exercise.tolerance(case, expected) * (20.0 if case.dtype == "float32" else 1.0)
        finite = np.isfinite(expected)
        size = max(1e-3, float(np.abs(expected[finite]).max(initial=0.0)))
        with np.errstate(invalid="ignore"):
            return bool(np.all((np.abs(got - expected) <= tolerance * size) | (np.isnan(got) & np.isnan(expected))))

    def _gradient_gaps(self, i: int, answer: Tensor) -> list[str] | None:
        """Names of the inputs and parameters whose gradient differs from that of `answer`; None if not asked for."""
        outcome, cotangent = self.outcomes[i], self.cotangents[i]
        if cotangent is None:
            return None
        got_inputs, got_weights = outcome.input_gradients, outcome.weight_gradients
        leaves = {"the input": self.leaves[i][0]}
        got = {"the input": got_inputs[0] if got_inputs else None}
        for name, (parameter, tensor) in self.parameters[i].items():
            if parameter.trained and self.exercise.needs:
                leaves[name], got[name] = tensor, (got_weights or {}).get(name)
        wanted = torch.autograd.grad(
            answer, list(leaves.values()), torch.from_numpy(cotangent), allow_unused=True, retain_graph=True
        )
        right = {n: np.zeros(leaves[n].shape) if g is None else g.numpy() for n, g in zip(leaves, wanted, strict=True)}
        size = max(float(np.abs(value).max(initial=0.0)) for value in right.values())
        gaps = []
        for name, value in right.items():
            mine = np.zeros(value.shape) if got[name] is None else got[name]
            if mine.shape != value.shape or not np.all(np.abs(mine - value) <= 1e-5 * max(1e-3, size)):
                gaps.append(name)
        return gaps

    # --- Concluding ----------------------------------------------------------------------------------------------

    def _conclude(self) -> Verdict:
        exercise, cases, outcomes = self.exercise, self.cases, self.outcomes
        right = self.right
        gaps: dict[str, list[str]] = {}
        for i in range(len(cases)):
            if right[i] and (missing := self._gradient_gaps(i, self.expected[i])) is not None:
                gaps[cases[i].label] = missing
        signs = self._signs()

        results = []
        for criterion in exercise.criteria:
            holds, note = self._criterion(criterion.key, right, gaps, signs)
            results.append(Result(criterion.title, criterion.share, holds, note))
        printed = next((o.printed for o, case in zip(outcomes, cases, strict=True) if case.visible and o.printed), "")
        if all(result.holds for result in results):
            return Verdict(exercise.name, f"all {len(cases)} cases agree.", tuple(results), printed=printed)

        mistakes = signs
        # Outputs say nothing where the weights could not be set: then the sign is the explanation.
        explained = signs and any(answer is None for answer in self.expected)
        if (not all(right) or any(gaps.values())) and not explained:
            mistakes += tuple(mistake for mistake in self._diagnose() if mistake not in mistakes)
        failing = [outcome.error for outcome in outcomes if outcome.error]
        headline = f"{sum(right)} of {len(cases)} cases agree."
        if all(right):
            headline = "all outputs are right; something else is not."
        if failing:
            headline += f" {len(failing)} raised {failing[0]['type']}: {failing[0]['message']}"
        return Verdict(
            exercise.name,
            headline,
            tuple(results),
            mistakes,
            self._first_difference(right),
            tuple(failing[0]["lines"]) if failing else (),
            printed,
        )

    def _signs(self) -> tuple[Mistake, ...]:
        """The known mistakes that show in something other than outputs."""
        evidence = Evidence(
            cases=tuple(self.cases),
            parameters=tuple(parameter for parameter, _ in self.parameters[0].values()),
            loose=self.loose,
            right=frozenset(i for i, agrees in enumerate(self.right) if agrees),
            errors=tuple(outcome.error["message"] for outcome in self.outcomes if outcome.error),
            input_changed=any(outcome.input_changed for outcome in self.outcomes),
            mappable=all(answer is not None for answer in self.expected),
        )
        return tuple(mistake for mistake in self.exercise.mistakes if mistake.sign and mistake.sign(evidence))

    def _criterion(
        self, key: str, right: list[bool], gaps: dict[str, list[str]], signs: tuple[Mistake, ...]
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
            return (True, "") if gaps else (False, "no case agrees, so no gradient can be compared")
        if key == "manners":
            return self._manners(signs)
        chosen = [i for i, case in enumerate(self.cases) if case.tag == key]
        agreeing = sum(right[i] for i in chosen)
        holds = agreeing == len(chosen)
        cases = "case agrees" if len(chosen) == 1 else "cases agree"
        return holds, "" if holds else f"{agreeing} of {len(chosen)} {cases}"

    def _shapes(self) -> tuple[bool, str]:
        for case, outcome in zip(self.cases, self.outcomes, strict=True):
            shape = tuple(self.exercise.shape(case))
            if outcome.error:
                return False, f"raises {outcome.error['type']}" + (f" for {case.label}" if case.visible else "")
            if outcome.output is None:
                return False, f"returns {_a(outcome.type)}, should be {self.exercise.returns}"
            if outcome.output.shape != shape:
                seen = f", should be {shape}" if case.visible else f"; it should be {self.exercise.returns}"
                return False, f"a result has shape {outcome.output.shape}{seen}"
        return True, ""

    def _manners(self, signs: tuple[Mistake, ...]) -> tuple[bool, str]:
        if signs and any(not sign.switchable for sign in signs):
            return False, next(sign.name for sign in signs if not sign.switchable)
        roles = self.exercise.needs - self.readings[0][0].keys()
        if roles:
            names = ", ".join(sorted(role.removesuffix("_weight") for role in roles))
            return False, f"no parameter found for {names}"
        if self.exercise.needs and not all(p.trained for pairs in self.parameters for p, _ in pairs.values()):
            return False, "a parameter does not require a gradient"
        if not all(outcome.repeats for outcome in self.outcomes):
            return False, "the same input gives another result the second time"
        for case, outcome in zip(self.cases, self.outcomes, strict=True):
            if case.dtype == "float32" and (outcome.output is None or outcome.dtype != "float32"):
                return False, f"float32 in, {outcome.dtype or 'an error'} out"
        return True, ""

    def _first_difference(self, right: list[bool]) -> Difference | None:
        for i, case in enumerate(self.cases):
            got, answer = self.outcomes[i].output, self.expected[i]
            if not case.visible or right[i] or got is None or answer is None or got.shape != tuple(answer.shape):
                continue
            expected = answer.detach().numpy()
            off = ~(np.abs(got - expected) <= 1e-4 * max(1e-3, float(np.abs(expected).max(initial=0.0))))
            if not off.any():
                continue
            at = tuple(int(n) for n in np.argwhere(off)[0])
            note = f"{int(off.sum())} of {off.size} values differ."
            if off.all() and expected.all():
                ratio = got / expected
                if np.ptp(ratio) < 1e-4 * abs(ratio.mean()):
                    note = f"Every value is {ratio.mean():.4g} times the expected one."
            return Difference(case.label, f"[{', '.join(map(str, at))}]", f"{expected[at]:.5g}", f"{got[at]:.5g}", note)
        return None

    # --- Diagnosing ----------------------------------------------------------------------------------------------

    def _diagnose(self) -> tuple[Mistake, ...]:
        """The known mistakes, alone or two together, that do exactly what the student's code did."""
        known = [mistake for mistake in self.exercise.mistakes if mistake.switchable]
        alone = [(mistake,) for mistake in known]
        pairs = [(a, b) for a, b in itertools.combinations(known, 2) if a.slot != b.slot]
        for weights in self.readings:
            for group in itertools.chain(alone, pairs):
                for keys in itertools.product(*((mistake.key, *mistake.also) for mistake in group)):
                    if self._explains(frozenset(keys), weights):
                        return group
        return ()

    def _explains(self, slips: frozenset[str], weights: list[Weights]) -> bool:
        """Whether switching `slips` on does in every case what the student's code did.

        Outputs, shapes and errors must be the same; where all outputs are right, the gradients must be the same.
        """
        reproduced = False
        for i, case in enumerate(self.cases):
            if case.dtype != "float64":
                continue
            error = self.outcomes[i].error
            try:
                answer = self.exercise.variation(case.build, self.leaves[i], weights[i], slips)
            except Exception as raised:  # the student's parameters may be of any shape: most mistakes do not fit them
                # Where other cases came out the same, raising too is agreement; alone, it takes the same sizes.
                if error is None or not (reproduced or _sizes(error["message"]) == _sizes(str(raised)) != []):
                    return False
                continue
            if not self._agrees(i, answer) or (all(self.right) and self._gradient_gaps(i, answer)):
                return False
            reproduced = True
        return True


def _sizes(message: str) -> list[str]:
    """The numbers in an error message: of two errors about shapes that do not fit, what they have in common."""
    return re.findall(r"\d+", message.split("\n")[0])


def _not_attempted(name: str, error: dict) -> Verdict | None:
    """The verdict on an error that only says that nothing was written yet; None for every other."""
    if error["type"] != "NotImplementedError":
        return None
    where = re.match(r"line \d+, in (\w+)", error["lines"][-1]) if error["lines"] else None
    return not_judged(name, f"not attempted yet: `{where[1] if where else name}` still raises NotImplementedError.")


def _a(kind: str) -> str:
    """A type's name with its article."""
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def _leaf(value: Any) -> Any:
    return torch.from_numpy(value).requires_grad_(value.dtype.kind == "f") if isinstance(value, np.ndarray) else value


# --- Reading hostile replies -------------------------------------------------------------------------------------


def _read(ask: Ask, request: dict, count: int) -> list[dict]:
    try:
        replies = probe.unpack(ask(probe.pack(request)))
    except ValueError as error:
        raise _Malformed from error
    if not isinstance(replies, list) or len(replies) != count or not all(isinstance(r, dict) for r in replies):
        raise _Malformed
    return replies


def _dicts(reply: dict, key: str) -> list[dict]:
    items = reply.get(key)
    if not isinstance(items, list) or len(items) > probe.MAX_NAMES or not all(isinstance(i, dict) for i in items):
        raise _Malformed
    return items


def _text(value: Any, limit: int = 500) -> str:
    """Text from the probe: bounded, and without control characters other than line breaks."""
    text = value if isinstance(value, str) else ""
    return "".join(c for c in text[:limit] if c == "\n" or c.isprintable())


def _error(reply: dict) -> dict:
    error = reply.get("error")
    if not isinstance(error, dict):
        raise _Malformed
    lines = error.get("lines")
    lines = tuple(_text(line) for line in lines[:6]) if isinstance(lines, list) else ()
    return {"type": _text(error.get("type"), 80), "message": _text(error.get("message")), "lines": lines}


def _array(value: Any) -> np.ndarray | None:
    if value is None or isinstance(value, np.ndarray):
        return value
    raise _Malformed


def _outcome(reply: dict) -> _Outcome:
    printed = _text(reply.get("printed"), 1000)
    if "error" in reply:
        return _Outcome(error=_error(reply), printed=printed)
    output, called = _array(reply.get("output")), reply.get("called", [])
    inputs, weights = reply.get("input_gradients"), reply.get("weight_gradients")
    if not isinstance(called, list) or not all(isinstance(name, str) for name in called):
        raise _Malformed
    if (inputs is not None and not isinstance(inputs, list)) or (weights is not None and not isinstance(weights, dict)):
        raise _Malformed
    return _Outcome(
        type=_text(reply.get("type"), 80),
        output=output,
        dtype=_text(reply.get("dtype"), 20),
        input_changed=reply.get("input_changed") is True,
        repeats=reply.get("repeats", True) is True,
        input_gradients=None if inputs is None else tuple(_array(g) for g in inputs),
        weight_gradients=None if weights is None else {name: _array(g) for name, g in weights.items()},
        backward_error=_text(reply.get("backward_error")),
        called=frozenset(called),
        printed=printed,
    )
