"""The verdict: what is earned, the headline, the mistakes that are recognised, the first difference."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autograder import points, probe
from autograder.exercise import Mistake
from autograder.judging.asking import Run, without_result
from autograder.judging.comparing import Comparison, differing, gradient_gaps, near, off
from autograder.judging.criteria import (
    UNREAD,
    Grounds,
    judge_apart,
    judge_by_response,
    judge_criteria,
    misshapen,
    properties,
)
from autograder.judging.explaining import explain, known_mistakes, recognise_signs, right_but_for_sizes
from autograder.judging.locating import locate
from autograder.judging.matching import compare, unread
from autograder.judging.observing import follow_stages, observe
from autograder.judging.repeating import Repetition
from autograder.judging.replies import StudentError
from autograder.judging.responding import hands_back_inputs
from autograder.judging.trying import remarks
from autograder.judging.wording import capitalised, error_lines, gist, in_place_of_result
from autograder.verdict import Difference, Picture, Result, Verdict, not_judged

FLOATS = "floating-point numbers"
MAX_OBSERVATIONS = 2  # sentences on what can be seen where nothing explains it


def nothing_to_compare(run: Run) -> Verdict | None:
    """The verdict where no case came to a tensor, or where somebody else's code did the work; else None."""
    exercise = run.trial.exercise
    called = frozenset().union(*(outcome.called for outcome in run.outcomes))
    errors = run.errors
    called |= {error.message for error in errors if error.type == probe.Forbidden.__name__}
    if forbidden := sorted(called & exercise.forbidden, key=lambda name: (name.startswith(("_", "native_")), name)):
        headline = f"your code calls `{forbidden[0]}`. {exercise.forbidden_reason}"
        return not_judged(exercise.name, headline, forbidden=forbidden[0])
    if any(outcome.output is not None for outcome in run.outcomes):
        return None
    for error in errors:
        if verdict := without_result(exercise, error):
            return verdict
    if returned := [outcome.type for outcome in run.outcomes if not outcome.error]:
        instead = in_place_of_result(returned[0])
        return not_judged(exercise.name, f"it should return {exercise.returns}; it returned {instead}")
    comparison = compare(run)
    mistakes = recognise_signs(comparison)
    if not mistakes and (cause := known_mistakes(comparison, right_but_for_sizes(comparison))):
        mistakes = cause.mistakes
    headline = f"it raised {errors[0].type}: {gist(errors[0].message)}"
    return not_judged(exercise.name, headline, error_lines(errors[0]), mistakes)


def conclude(comparison: Comparison, repetition: Repetition) -> Verdict:
    """The verdict where there are results to compare."""
    run, exercise = comparison.run, comparison.trial.exercise
    grounds = Grounds.of(comparison, repetition)
    results = judge_criteria(grounds)
    outcomes = zip(comparison.cases, run.outcomes, strict=True)
    printed = next((outcome.printed for case, outcome in outcomes if case.visible and outcome.printed), "")
    if all(result.holds for result in results):
        compared = exercise.reference is not None
        headline = f"all {len(run.outcomes)} cases agree." if compared else "everything that the task asks for holds."
        return Verdict(exercise.name, headline, tuple(results), printed=printed, properties=properties(comparison))
    results, mistakes = _charge(grounds, results)
    return Verdict(
        exercise.name,
        _headline(grounds, results, mistakes),
        tuple(results),
        mistakes,
        _first_difference(comparison, repetition, follow=not mistakes),
        error_lines(run.errors[0]) if run.errors else (),
        printed,
        tuple(known for known in properties(comparison) if not known[1]),  # what holds of these cases proves nothing
        _trouble(run.errors[0]) if run.errors else "",
    )


def _trouble(error: StudentError) -> str:
    """What the code does instead of coming to a result, in a few words."""
    return "too slow" if error.type == probe.TOO_SLOW else f"raises {error.type}"


def _charge(grounds: Grounds, results: list[Result]) -> tuple[list[Result], tuple[Mistake, ...]]:
    """The results with those spared that only fail along with others, and the mistakes that are recognised."""
    comparison, signs = grounds.comparison, grounds.signs
    criteria = comparison.trial.exercise.criteria
    explanation = explain(comparison, grounds.repetition, signs, grounds.gaps)
    cause, response = explanation.cause, explanation.response
    has_parameters = comparison.run.parameters[0] or not comparison.trial.exercise.needs
    if response and not cause and not grounds.gaps and has_parameters:
        both = zip(criteria, results, strict=True)
        results = [judge_by_response(criterion, result, response) for criterion, result in both]
    apart = judge_apart(grounds, cause) if cause else None
    uses_all = explanation.uses_all
    if hands_back_inputs(comparison):
        apart, uses_all = None, False
    named = tuple(mistake for mistake in (cause.mistakes if cause else ()) if mistake not in signs)
    if cause and (grounds.repetition.in_training or _learns(grounds)):
        named = tuple(mistake.in_evaluation() for mistake in named)
    mistakes = signs + named
    slips, odd = cause.slips if cause else (), misshapen(comparison)
    charged = points.charged(criteria, results, apart, slips, uses_all, odd)
    if mistakes:
        charged = [replace(r, note="see what is recognised above") if r.note == UNREAD else r for r in charged]
    return charged, mistakes


def _learns(grounds: Grounds) -> bool:
    """Whether gradients that are wrong in evaluation mode, where results are right, come out right in training mode."""
    comparison, run = grounds.comparison, grounds.comparison.run
    wrong = [i for i, names in grounds.gaps.items() if names and comparison.right[i]]
    if not wrong or comparison.cases[wrong[0]].build is None:
        return False
    (reply,) = run.trial.replies({"do": "run", "cases": [run.request(i := wrong[0]) | {"training": True}]}, 1)
    outcomes = (*run.outcomes[:i], run.trial.outcome(reply), *run.outcomes[i + 1 :])
    return gradient_gaps(replace(run, outcomes=outcomes), i, comparison.expected[i] or ()) == []


# --- The headline ------------------------------------------------------------------------------------------------


def _headline(grounds: Grounds, results: Sequence[Result], mistakes: tuple[Mistake, ...]) -> str:
    """What is wrong, in one sentence or a few."""
    comparison, repetition = grounds.comparison, grounds.repetition
    errors = comparison.run.errors
    headline = _how_many_agree(grounds, results, mistakes)
    raised = _raised(errors) if errors else ""
    if comparison.trial.exercise.reference is None:
        if errors:
            return f"{len(errors)} of {len(comparison.run.outcomes)} calls {raised}"
        both = zip(comparison.trial.exercise.criteria, results, strict=True)
        refused = next((result.note for criterion, result in both if criterion.measure and not result.holds), "")
        if not refused or misshapen(comparison) or repetition.unsteady:
            return headline
        more = remarks(comparison) or refused
        return more if headline == refused else f"{headline}. {capitalised(more)}"
    if errors:
        headline += f" {len(errors)} {raised}"
    if mistakes:
        return headline
    beginning = f"{headline.rstrip('.')}."
    if where := locate(comparison, repetition):
        return f"{beginning} {where}."
    if all(comparison.right):
        return headline
    observations = observe(comparison, repetition)[:MAX_OBSERVATIONS]
    return " ".join([beginning, *(f"{sentence}." for sentence in observations)])


def _raised(errors: Sequence[StudentError]) -> str:
    """What was raised, as the end of a sentence that begins with how often: errors are alike but for their numbers."""
    if all(error.type == probe.TOO_SLOW for error in errors):
        return f"did not end within {errors[0].message} s."
    alike = {(error.type, re.sub(r"\d+", "", gist(error.message))) for error in errors}
    errors = sorted(errors, key=lambda error: error.type == probe.TOO_SLOW)  # which is no message to show
    first = f"{errors[0].type}: {gist(errors[0].message)}."
    if len(alike) > 1:
        return f"raised errors, the first of them {first}"
    same = len({error.message for error in errors}) == 1
    return f"raised {first}" if same else f"raised errors such as {first}"


def _how_many_agree(grounds: Grounds, results: Sequence[Result], mistakes: tuple[Mistake, ...]) -> str:
    """How many results are right, or, where all are, what is not."""
    comparison, repetition = grounds.comparison, grounds.repetition
    right = repetition.steadily(comparison.right)
    if comparison.trial.exercise.reference is None:
        return next(result.note for result in results if not result.holds)
    if mistakes and all(right):
        return f"all {len(comparison.cases)} cases agree, but see what is recognised below."
    if all(comparison.right) and (sentences := [*repetition.unsteady.values(), *repetition.conditions]):
        return f"right{' at first' if repetition.unsteady else ''}, but {sentences[0]}."
    if all(right):
        return f"all results are right, but {next(r.note or r.title for r in results if not r.holds)}."
    if not mistakes and (reason := unread(comparison)):
        return f"{capitalised(reason)}: no way to read them gives in every case what your code returns."
    each_time = " at every call" if sum(right) < sum(comparison.right) else ""
    return f"{sum(right)} of {len(comparison.cases)} cases agree{each_time}."


# --- The first difference ----------------------------------------------------------------------------------------


def _first_difference(comparison: Comparison, repetition: Repetition, follow: bool) -> Difference | None:
    """Where the first visible case differs whose numbers can be held beside the right ones; None if none does.

    `follow`: whether to say how far the way to it was right, which may contradict a mistake that is recognised: numbers
    that are found do not tell their layout.
    """
    if unread(comparison):
        return None  # the right numbers are a guess, then
    right = repetition.steadily(comparison.right)
    for i, case in enumerate(comparison.cases):
        outputs, answer = comparison.run.outcomes[i].output, comparison.expected[i]
        if not case.visible or right[i] or outputs is None or answer is None:
            continue
        if [got.shape for got in outputs] != [tuple(part.shape) for part in answer]:
            continue
        if difference := _difference(comparison, i, follow):
            return difference
    return None


def _difference(comparison: Comparison, i: int, follow: bool) -> Difference | None:
    """Where case i first differs from the right answer, and, if wanted, how far the way to it was right.

    None where it does not, but when it is called again.
    """
    case, outcome, answer = comparison.cases[i], comparison.run.outcomes[i], comparison.expected[i]
    assert outcome.output is not None and answer is not None  # or it would not be the case to show
    names = comparison.trial.exercise.parts or ("",)
    for name, got, dtype, part in zip(names, outcome.output, outcome.dtypes, answer, strict=True):
        expected = part.detach().numpy()
        if near(comparison.trial, i, got, expected):
            continue
        places = off(comparison.trial, i, got, expected)
        if not places.any():  # the numbers agree; what kind of numbers they are does not
            where = f"every place of {name}" if name else "every place"
            own = dtype if dtype != case.dtype else FLOATS  # which may be the grader's default, and not the code's
            return Difference(case.label, where, str(expected.dtype), own)
        last_digits = not differing(got, expected).any()
        form = ".10g" if last_digits else ".5g" if expected.dtype.kind == "f" else ""
        at = tuple(int(n) for n in np.argwhere(places)[0])
        numbers = expected.astype(float), got.astype(float)
        return Difference(
            case.label,
            f"{name.rpartition(' ')[2]}[{', '.join(map(str, at))}]" if at else name or "the result",
            f"{expected[at]:{form}}",
            f"{got[at]:{form}}",
            _extent(*numbers, places),
            follow_stages(comparison, i) if follow else "",
            Picture.of(*numbers, at, name),
        )
    return None


def _extent(expected: np.ndarray, got: np.ndarray, off: np.ndarray) -> str:
    """How many values differ, or by which factor all of them do, as a sentence."""
    if not off.ndim:
        return ""
    if off.all() and expected.all() and np.isfinite(got).all() and np.isfinite(expected).all():
        ratio = got / expected
        if np.ptp(ratio) < 1e-4 * abs(ratio.mean()) and abs(ratio.mean() - 1) > 1e-4:
            return f"Every value is {ratio.mean():.4g} times the expected one."
    return f"{int(off.sum())} of {off.size} values differ."
