"""Verdicts on the answers of `tests/answers`, each made once: the tests of one exercise run in one process."""

import functools
import itertools
import os
from typing import Any

from autograder import probe
from autograder.exercise import Exercise
from autograder.exercises import find
from autograder.judge import judge
from autograder.verdict import Verdict
from tests.answers import found, switched


@functools.cache
def judged(exercise: Exercise, answer: Any, seed: int | None = None) -> Verdict:
    """The verdict on an answer."""
    return judge(exercise, lambda request: probe.answer(request, answer), seed)


def told(name: str, answer: Any) -> str:
    """What an answer to the exercise of this name, which is wrong, is told."""
    verdict = judged(find(name), answer, 1)
    assert not verdict.passed
    return verdict.text()


def first_of_each_mistake() -> list[tuple[str, Any]]:
    """(exercise's name, wrong answer): those that make a mistake which no answer to the exercise before them makes."""
    seen, first = set[tuple[str, str]](), []
    for name, answer in found("wrong"):
        made = {(name, key) for key in answer.mistakes}
        if not made <= seen:
            first.append((name, answer))
        seen |= made
    return first


@functools.cache
def with_mistakes(exercise: Exercise, *keys: str, seed: int = 0) -> Verdict:
    """The verdict on the first right answer with these mistakes switched on."""
    written = switched(exercise, frozenset(keys))
    return judge(exercise, lambda request: probe.answer(request, written), seed)


def pairs(exercise: Exercise) -> list[tuple[str, str]]:
    """About two pairs of mistakes that can be made together; HEADROOM_EVERY_NTH_PAIR=1 takes all."""
    known = [mistake for mistake in exercise.mistakes if mistake.computed]
    possible = [(a.ways[0], b.ways[0]) for a, b in itertools.combinations(known, 2) if not a.excludes(b)]
    return possible[:: int(os.environ.get("HEADROOM_EVERY_NTH_PAIR", max(1, len(possible) // 2)))]
