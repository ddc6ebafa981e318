"""What a judgement says; `autograder.showing` says how that looks."""

import re
from dataclasses import dataclass, replace

import numpy as np

from autograder import showing
from autograder.exercise import Mistake

MAX_SIDE = 12  # rows and columns of a picture


@dataclass(frozen=True)
class Result:
    """One criterion.

    Attributes:
        title: what is checked.
        share: of the points.
        holds: whether it does.
        note: a sentence, if there is more to say.
        spared: it does not hold, and costs nothing, because another one is lost for the same reason.
    """

    title: str
    share: float
    holds: bool
    note: str = ""
    spared: bool = False

    @property
    def earned(self) -> float:
        return self.share if self.holds or self.spared else 0.0

    @property
    def mark(self) -> str:
        return showing.HOLDS if self.holds else showing.SPARED if self.spared else showing.FAILS


@dataclass(frozen=True)
class Picture:
    """Two matrices side by side, as they are and as they should be: the last two axes around the first difference.

    Attributes:
        title: which part of the result, and which of its matrices.
        expected, got: rows of numbers.
    """

    title: str
    expected: tuple[tuple[float, ...], ...]
    got: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, expected: np.ndarray, got: np.ndarray, at: tuple[int, ...], name: str = "") -> "Picture | None":
        """The matrix that holds the place `at`; None where there is none, or it says no more than the place itself."""
        if expected.ndim < 2 or min(expected.shape[-2:]) < 2:
            return None
        matrix = at[:-2]
        index = f"[{', '.join(map(str, matrix))}]" if matrix else ""
        shown = [tuple(tuple(row[:MAX_SIDE]) for row in a[matrix][:MAX_SIDE].tolist()) for a in (expected, got)]
        return cls(f"{name or 'result'}{index}", *shown)


@dataclass(frozen=True)
class Difference:
    """Where a visible case first differs; `way`: how far the way to the result was right."""

    case: str
    where: str
    expected: str
    got: str
    note: str = ""
    way: str = ""
    picture: Picture | None = None


@dataclass(frozen=True)
class Verdict:
    """The judgement of one exercise.

    Attributes:
        exercise: its name.
        headline: one sentence that says how it went.
        results: the criteria in order; empty if none could be tried.
        mistakes: those recognised, the likeliest first.
        difference: the first difference on a visible case, if there is one to show.
        error: the student's own lines of an exception, if one was raised.
        printed: what the code printed on a visible case.
        properties: what else is known of all results, for no points: a title, and whether it holds.
        points: what the exercise is worth; None where that is not known, and shares are said.
        trouble: what it did in some cases instead of coming to a result, such as "raises ValueError".
        forbidden: the function that did the exercise for the student, where that is why nothing is given.
        attempted: False where nothing was written yet.
    """

    exercise: str
    headline: str
    results: tuple[Result, ...] = ()
    mistakes: tuple[Mistake, ...] = ()
    difference: Difference | None = None
    error: tuple[str, ...] = ()
    printed: str = ""
    properties: tuple[tuple[str, bool], ...] = ()
    trouble: str = ""
    forbidden: str = ""
    points: float | None = None
    attempted: bool = True

    def worth(self, points: float) -> "Verdict":
        """The same verdict, of an exercise that is worth so many points."""
        return replace(self, points=points)

    @property
    def earned(self) -> str:
        """What is earned, in words: "6 of 10 points", or "60 % of the points"."""
        if self.points is None:
            return f"{100 * self.score:.0f} % of the points"
        earned, worth = showing.amount(self.score * self.points), showing.amount(self.points)
        return f"{earned} of {worth} point{'' if self.points == 1 else 's'}"

    @property
    def in_short(self) -> str:
        """What kept results from being right, other than that they are wrong, in a few words; "" if nothing did."""
        if self.results:
            return f"{self.trouble} in some cases" if self.trouble else ""
        return re.split(r"[:.](?: |$)", self.headline, maxsplit=1)[0]

    @property
    def passed(self) -> bool:
        return bool(self.results) and all(result.holds for result in self.results)

    @property
    def score(self) -> float:
        """The share of the points earned, from 0 to 1; 1 only if everything holds."""
        earned = sum(result.earned for result in self.results)
        return 1.0 if self.passed else round(min(earned, 0.99), 4)

    def text(self) -> str:
        """The verdict for a terminal."""
        return showing.text(self)

    __str__ = text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}

    def html(self) -> str:
        """The verdict for a notebook or a feedback page: plain elements that survive sanitising, no script."""
        return showing.as_html(self)


def not_judged(
    exercise: str,
    headline: str,
    error: tuple[str, ...] = (),
    mistakes: tuple[Mistake, ...] = (),
    forbidden: str = "",
    attempted: bool = True,
) -> Verdict:
    """The verdict where nothing could be tried: not attempted, crashed, no answer."""
    return Verdict(exercise, headline, error=error, mistakes=mistakes, forbidden=forbidden, attempted=attempted)
