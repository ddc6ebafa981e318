"""What an exercise without a right answer has to say of results: it may have other inputs tried."""

from collections.abc import Sequence
from typing import Any

from autograder.exercise import Inputs
from autograder.judging.comparing import Comparison


def remarks(comparison: Comparison) -> str:
    """The exercise's remarks; "" where it has none."""
    run, exercise = comparison.run, comparison.trial.exercise
    if exercise.remarks is None:
        return ""

    def call(inputs: Sequence[Inputs]) -> list[Any]:
        requests = [run.request(0) | {"inputs": [*each]} for each in inputs]
        replies = run.trial.replies({"do": "look", "cases": requests}, len(requests)) if requests else []
        return shown(comparison, [run.trial.outcome(reply).output for reply in replies])

    return exercise.remarks(comparison.cases, tuple(shown(comparison, [o.output for o in run.outcomes])), call)


def shown(comparison: Comparison, outputs: Sequence[Any]) -> list[Any]:
    """Outputs as an exercise reads them: an array each, or a tuple where it has several parts."""
    several = bool(comparison.trial.exercise.parts)
    return [output if output is None or several else output[0] for output in outputs]
