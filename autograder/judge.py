"""The half of a check that holds the answers: it asks the probe, compares, explains and scores.

It never runs student code and believes nothing that it cannot compare: what the probe reports is parsed as hostile
input, every expected value is computed here, and no score ever crosses the line. The phases are in
`autograder.judging`.
"""

import logging
import secrets

import numpy as np

from autograder import probe
from autograder.exercise import Exercise
from autograder.judging.asking import Trial, call, describe
from autograder.judging.concluding import conclude, nothing_to_compare
from autograder.judging.explaining import confirmed
from autograder.judging.matching import adopt, compare, take_parts
from autograder.judging.repeating import repeat
from autograder.judging.replies import Ask, Malformed
from autograder.verdict import Verdict, not_judged


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

    def carrying(request: bytes) -> bytes:
        try:
            return ask(request)
        except Exception as error:
            carried.append(error)
            raise

    try:
        with probe.exact(), np.errstate(all="ignore"):
            return _verdict(Trial.of(exercise, carrying, exercise.tried(rng), rng))
    except (NoAnswer, Malformed) as why:
        return not_judged(exercise.name, str(why))
    except Exception as error:
        if error in carried:
            raise
        logging.getLogger(__name__).exception("%s: a reply that was not foreseen", exercise.name)
        return not_judged(
            exercise.name, f"the check itself failed ({type(error).__name__}) on what your code returned."
        )


def _verdict(trial: Trial) -> Verdict:
    """Go through the phases."""
    description = describe(trial)
    if isinstance(description, Verdict):
        return description
    run = take_parts(call(trial, description, description.parameters))
    if verdict := nothing_to_compare(run):
        return verdict
    comparison = confirmed(adopt(compare(run)))
    return conclude(comparison, repeat(comparison))
