"""Each criterion of an exercise: whether it holds, and a note."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autograder.exercise import Case, Criterion, Mistake
from autograder.judging.comparing import Comparison, agrees, all_gradient_gaps
from autograder.judging.explaining import RAISES, Cause, recognise_signs
from autograder.judging.matching import role_names, too_few, unread
from autograder.judging.repeating import Repetition
from autograder.judging.responding import Response
from autograder.judging.trying import shown
from autograder.judging.wording import as_code, gist, in_place_of_result, trouble, with_article
from autograder.verdict import Result

Gaps = Mapping[int, list[str]]  # by case: the inputs and parameters whose gradients differ
UNREAD = "cannot be compared, for the reason above"  # which is said where no mistake is recognised


@dataclass(frozen=True, eq=False)
class Grounds:
    """All that is known before criteria are judged.

    Attributes:
        comparison: what agrees with the right answers.
        repetition: what differs when calls are made again.
        signs: the known mistakes that show in something other than outputs.
        gaps: whose gradients differ, by case that agrees and was differentiated.
    """

    comparison: Comparison
    repetition: Repetition
    signs: tuple[Mistake, ...]
    gaps: Gaps

    @classmethod
    def of(cls, comparison: Comparison, repetition: Repetition) -> "Grounds":
        """Look for signs, and compare the gradients."""
        gaps = all_gradient_gaps(comparison.run, comparison.expected)
        return cls(comparison, repetition, recognise_signs(comparison), gaps)


def judge_criteria(grounds: Grounds) -> list[Result]:
    """The results of all criteria, as they come out."""
    comparison = grounds.comparison
    criteria = comparison.trial.exercise.criteria
    right = grounds.repetition.steadily(comparison.right)
    results = [_result(grounds, criterion, right, grounds.gaps) for criterion in criteria]
    compared = comparison.trial.exercise.reference is not None
    if compared and all(result.holds for result in results) and not all(comparison.right):
        return _every_case_counts(comparison, results)
    return results


def judge_apart(grounds: Grounds, cause: Cause) -> list[Result]:
    """The results as they would be if what explains the student's outputs were right."""
    comparison = grounds.comparison
    right = grounds.repetition.steadily(
        [
            answer == RAISES
            or agrees(comparison.run, i, answer)
            or case.dtype != "float64"
            or (answer is None and case.steps is not None)
            for i, (answer, case) in enumerate(zip(cause.answers, comparison.cases, strict=True))
        ]
    )
    gaps = all_gradient_gaps(comparison.run, cause.answers)
    return [
        Result(criterion.title, criterion.share, all(right))  # it would measure what is wrong
        if criterion.measure
        else _result(grounds, criterion, right, gaps)
        for criterion in comparison.trial.exercise.criteria
    ]


def judge_by_response(criterion: Criterion, result: Result, response: Response) -> Result:
    """The result of "gradients" where no case agrees: whether they are those of what the student's code returns."""
    if criterion.key != "gradients":
        return result
    if response.idle:
        return replace(result, note=f"nothing depends on {as_code(response.idle)}")
    if response.flat:
        them = "it" if len(response.flat) == 1 else "them"
        return replace(result, note=f"no gradient reaches {as_code(response.flat)}, and the result depends on {them}")
    if response.astray:
        return replace(result, note=f"the gradient of {as_code(response.astray)} is not that of what your code returns")
    return replace(result, holds=True, note="")


def _every_case_counts(comparison: Comparison, results: list[Result]) -> list[Result]:
    """Where what criteria measure holds and a case is wrong all the same, in whatever part: its criterion fails."""
    criteria = comparison.trial.exercise.criteria
    tags = {case.tag for case, right in zip(comparison.cases, comparison.right, strict=True) if not right}
    note = f"{sum(comparison.right)} of {len(comparison.cases)} cases agree in all parts"
    tags = tags & {criterion.key for criterion in criteria} or {criteria[-1].key}
    return [
        replace(result, holds=False, note=note) if criterion.key in tags else result
        for criterion, result in zip(criteria, results, strict=True)
    ]


def _result(grounds: Grounds, criterion: Criterion, right: Sequence[bool], gaps: Gaps) -> Result:
    exercise, repetition = grounds.comparison.trial.exercise, grounds.repetition
    if criterion.measure is not None:
        holds, note = _measured(grounds.comparison, criterion)
    else:
        holds, note = _judged(grounds, criterion.key, right, gaps)
    if holds and grounds.comparison.run.too_many and criterion is _for_shape(exercise.criteria):
        holds, note = _shape(grounds.comparison)
    if holds and criterion is _lightest(exercise.criteria):
        declared = any(other.key == "contract" for other in exercise.criteria)
        sentence = "".join([*repetition.conditions, *repetition.unsteady.values()][:1])
        kept, why = _contract(grounds) if declared else (not sentence, sentence)
        holds, note = (True, note) if kept else (False, why)
    return Result(criterion.title, criterion.share, holds, note)


def _for_shape(criteria: Sequence[Criterion]) -> Criterion | None:
    """The criterion that is lost with the result's shape where no line is about that: the lightest."""
    told = any(criterion.key == "shape" for criterion in criteria)
    return None if told else min((c for c in criteria if c.share), key=lambda criterion: criterion.share)


def _lightest(criteria: Sequence[Criterion]) -> Criterion | None:
    """The criterion that is lost along with "contract", where that is worth nothing or not asked for."""
    worth = [criterion for criterion in criteria if criterion.share]
    return None if any(c.key == "contract" for c in worth) else min(worth, key=lambda criterion: criterion.share)


def _measured(comparison: Comparison, criterion: Criterion) -> tuple[bool, str]:
    """What a criterion measures from the student's outputs."""
    assert criterion.measure is not None
    exercise = comparison.trial.exercise
    outputs = shown(comparison, [outcome.output for outcome in comparison.run.outcomes])
    try:
        return criterion.measure(comparison.cases, tuple(outputs))
    except Exception:  # results may have any shape, and be any numbers
        return False, f"cannot be measured: it should return {exercise.returns}"


def _judged(grounds: Grounds, key: str, right: Sequence[bool], gaps: Gaps) -> tuple[bool, str]:
    """Whether a criterion that measures nothing holds, and a note."""
    comparison = grounds.comparison
    if key == "shape":
        holds, note = _shape(comparison)
        return holds, "at the first call" if holds and grounds.repetition.unsteady else note
    if key == "gradients":
        return _gradients(comparison, gaps)
    if key == "contract":
        return _contract(grounds)
    cases = comparison.cases
    chosen = [i for i, case in enumerate(cases) if case.tag == key]
    n_agreeing = sum(right[i] for i in chosen)
    hidden = [i for i, case in enumerate(cases) if not case.visible]
    unseen = [i for i in hidden if i in chosen] or hidden  # what is known beforehand earns nothing
    holds = n_agreeing == len(chosen) and (not unseen or any(right[i] for i in unseen))
    if not holds and unread(comparison):
        return False, UNREAD
    words = "case agrees" if len(chosen) == 1 else "cases agree"
    each_time = " at every call" if n_agreeing < sum(comparison.right[i] for i in chosen) else ""
    return holds, "" if holds else f"{n_agreeing} of {len(chosen)} {words}{each_time}"


def _shape(comparison: Comparison) -> tuple[bool, str]:
    """The shape of every result."""
    run, exercise = comparison.run, comparison.trial.exercise
    if run.too_many:
        return False, f"it returns {with_article(run.too_many)}; it should return {exercise.returns}"
    return next(((False, note) for _, note in _misshapen(comparison)), (True, ""))


def misshapen(comparison: Comparison) -> set[str]:
    """The criteria of the cases whose results are missing or have another shape."""
    return {case.tag for case, _ in _misshapen(comparison)}


def _misshapen(comparison: Comparison) -> Iterator[tuple[Case, str]]:
    """The cases whose results are missing or have another shape, each with a note."""
    run, exercise = comparison.run, comparison.trial.exercise
    for i, (case, outcome) in enumerate(zip(comparison.cases, run.outcomes, strict=True)):
        wanted = comparison.trial.shapes(i)
        if outcome.error and case.refuses:
            continue
        if outcome.error:
            yield case, trouble(outcome.error) + (f" for {case.label}" if case.visible else "")
        elif outcome.shapes is None:
            instead = in_place_of_result(outcome.type)
            yield case, f"should return {exercise.returns}; returns {instead}".rstrip(".")
        elif len(outcome.shapes) != len(wanted):
            n_results = len(outcome.shapes)
            count = "one result" if n_results == 1 else f"{n_results} results"
            yield case, f"returns {count}; should return {exercise.returns}"
        else:
            together = len(case.steps or ()) > 1
            one = "what all calls return, side by side," if together else "a result"
            for name, shape, right in zip(exercise.parts or (one,), outcome.shapes, wanted, strict=True):
                if shape != right:
                    yield case, f"{name} has shape {shape}, should be {right}"


def _gradients(comparison: Comparison, gaps: Gaps) -> tuple[bool, str]:
    """The gradients of every case that agrees."""
    differing = sorted({name for names in gaps.values() for name in names})
    if differing:
        errors = (outcome.backward_error for outcome in comparison.run.outcomes if outcome.backward_error)
        if error := next(errors, ""):
            return False, f"backward raised an error: {gist(error)}"
        return False, f"the gradient of {as_code(differing)} is missing or differs"
    if not _deciding(comparison, gaps):
        return False, "no case with gradients agrees, so none can be compared"
    asked = [right for case, right in zip(comparison.cases, comparison.right, strict=True) if case.differentiate]
    notes = [] if all(asked) else ["in the cases that agree"]
    if adopted := sorted(comparison.run.adopted):
        notes.append(f"as if {as_code(adopted, 2)} were among the parameters")
    return True, ", ".join(notes)


def _deciding(comparison: Comparison, differentiated: Collection[int]) -> list[int]:
    """Those of some differentiated cases that decide: hidden ones, where any was differentiated."""
    every = [i for i, case in enumerate(comparison.cases) if case.differentiate and not case.beside]
    hidden = [i for i in every if not comparison.cases[i].visible] or every
    return [i for i in differentiated if i in hidden]


def _contract(grounds: Grounds) -> tuple[bool, str]:
    """The contract of a call: inputs untouched, dtype kept, the same result again, parameters registered."""
    comparison, run, exercise = grounds.comparison, grounds.comparison.run, grounds.comparison.trial.exercise
    beside = recognise_signs(comparison, beside_results=True) if grounds.signs else ()
    if unseen := [sign for sign in beside if not sign.computed]:
        return False, unseen[0].title
    if run.adopted:
        return False, f"`{min(run.adopted)}` is not among `parameters()`: it is never trained"
    if comparison.missing and not unread(comparison):
        roles = role_names(run, comparison.missing)
        return False, f"{'too few numbers' if too_few(comparison) else 'no parameter found'} for {roles}"
    compared = any(criterion.key == "gradients" for criterion in exercise.criteria)
    trained = all(parameter.trained for own in run.parameters for parameter, _ in own.values())
    if exercise.needs and not compared and not trained:
        return False, "a parameter does not require a gradient"
    if sentences := (*grounds.repetition.conditions, *grounds.repetition.unsteady.values()):
        return False, sentences[0]
    for case, outcome in zip(comparison.cases, run.outcomes, strict=True):
        floats = [dtype for dtype in outcome.dtypes if dtype not in ("int64", "bool")]
        raised = outcome.error and not any(other.error for other in run.outcomes if other is not outcome)
        if case.dtype == "float32" and (raised or any(dtype != "float32" for dtype in floats)):
            return False, f"float32 in, {floats[0] if floats else 'an error'} out"
    return True, ""


# --- Properties --------------------------------------------------------------------------------------------------


def properties(comparison: Comparison) -> tuple[tuple[str, bool], ...]:
    """What else is known of the results, over all cases: a title, and whether it holds."""
    run, exercise = comparison.run, comparison.trial.exercise
    if all(outcome.output is None for outcome in run.outcomes):
        return ()
    finite = _finite(comparison)
    known = [] if finite else [("every value is finite", False)]
    for item in exercise.properties:
        answers = [
            (case.tag, item.holds(case, outcome.output if exercise.parts else outcome.output[0]))
            for i, (case, outcome) in enumerate(zip(comparison.cases, run.outcomes, strict=True))
            if outcome.output is not None and run.fits(i)
            if all(np.isfinite(part).all() for part in outcome.output)
        ]
        decided = [(tag, bool(answer)) for tag, answer in answers if answer is not None]
        failed = {tag for tag, holds in decided if not holds}
        if decided and (finite or failed):  # what holds of the finite ones alone is no comfort
            elsewhere = failed and {tag for tag, _ in decided} - failed
            known.append((item.title + (_in_cases_of(failed, exercise.criteria) if elsewhere else ""), not failed))
    return tuple(known)


def _in_cases_of(tags: Collection[str], criteria: Sequence[Criterion]) -> str:
    """Where a property fails that holds elsewhere, so that it denies no criterion that holds; "" if that is nowhere."""
    titles = [criterion.title for criterion in criteria if criterion.key in tags]
    return f', in the cases of "{titles[0]}"' if len(titles) == 1 else ""


def _finite(comparison: Comparison) -> bool:
    """Whether all numbers are finite where the right ones are; True where nothing says what is right."""
    pairs = [
        (got, part.detach().numpy())
        for outcome, answer in zip(comparison.run.outcomes, comparison.expected, strict=True)
        if outcome.output is not None and answer is not None and len(outcome.output) == len(answer)
        for got, part in zip(outcome.output, answer, strict=True)
    ]
    if all(part.dtype.kind != "f" for _, part in pairs):
        return True
    return all(np.isfinite(got).all() for got, part in pairs if np.isfinite(part).all())
