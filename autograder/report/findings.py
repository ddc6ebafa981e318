"""What a class's hand-ins say: what to teach again, and who needs a word."""

import functools
import statistics
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from autograder.report.gather import Class, Lab
from autograder.report.likeness import WHOLE, Group, alike

NAMELESS = "wrong in a way that has no name"
MISSING = "not attempted"
FEWEST = 10  # students from whom a correlation says anything
FOLLOWED = 1 / 3  # of the class must have handed in a lab for the others to be late with it
WORTH = 0.1  # of those who handed in a lab: a mistake of fewer, or of one alone, is no matter for the whole class

Taught = Callable[[str, str], str]  # an exercise and a mistake's title → the lecture's section, or ""


@dataclass(frozen=True)
class Mistaken:
    """A mistake and who makes it.

    Attributes:
        after: how many showed it after their first hand-in, their second, …; who hands in no more counts as before.
        now, ever: the students who show it in their last hand-in, and in any.
        of: how many handed in the lab.
        judged: whether there were results to be judged: a name that is not defined says nothing of what to teach.
        treated: whether the section is named for this mistake, and not only for what the exercise is about.
    """

    lab: Lab
    exercise: str
    title: str
    sentence: str
    section: str
    after: list[int]
    now: list[str]
    ever: list[str]
    of: int
    judged: bool = True
    treated: bool = False


@dataclass(frozen=True)
class Again:
    """What to teach again: a section of a lecture (or an exercise), who needs it, and for which mistakes."""

    section: str
    students: list[str]
    of: int
    mistakes: list[Mistaken]

    @property
    def parts(self) -> tuple[list[Mistaken], list[Mistaken]]:
        """The mistakes for which the section is named, and those for whose exercise only."""
        untreated = [one for one in self.mistakes if one.section and not one.treated]
        return [one for one in self.mistakes if one not in untreated], untreated


@dataclass(frozen=True)
class Asked:
    """An exercise: how many tried it and passed, the mean share of its points, and how it goes with all others."""

    lab: Lab
    exercise: str
    points: float
    handed_in: int
    attempted: int
    passed: int
    mean: float
    correlation: float | None
    words: str


@dataclass(frozen=True)
class Stopped:
    """Somebody who handed in an earlier lab and none of the last ones."""

    student: str
    last: Lab
    missed: list[Lab]
    share: float
    left_with: list[str]


@dataclass(frozen=True)
class Findings:
    """All that the report says."""

    of: Class
    again: list[Again]
    mistakes: list[Mistaken]
    exercises: list[Asked]
    stopped: list[Stopped]
    never: list[str]
    alike: list[tuple[Lab, Group]]
    unread: list[tuple[Lab, str]]


def find(
    of: Class, taught: Taught = lambda exercise, title: "", say: Callable[[str], None] = lambda line: None
) -> Findings:
    """Work out what a class's hand-ins say.

    Args:
        of: the class.
        taught: says which section of a lecture treats a mistake; the exercise as a whole where its title is "".
        say: called with a line before what takes seconds.
    """
    taught = functools.cache(taught)
    exercises = [exercise for lab in of.labs for exercise in lab.exercises]
    mistakes = [one for lab in of.labs for exercise in lab.exercises for one in _mistaken(lab, exercise, taught)]
    mistakes = [replace(one, treated=_treated(one, exercises, taught)) for one in mistakes]
    mistakes.sort(key=lambda one: (-len(one.now), -len(one.ever), one.lab.name, one.title))
    handed_in = {student for lab in of.labs for student in lab.handed_in}
    groups: list[tuple[Lab, Group]] = []
    for lab in of.labs:
        say(f"{lab.name}: comparing hand-ins with each other ...")
        groups += [(lab, group) for group in _alike(lab)]
    return Findings(
        of,
        _again(mistakes, taught),
        mistakes,
        _asked(of),
        _stopped(of),
        [student for student in of.students if student not in handed_in],
        groups,
        [
            (lab, student)
            for lab in of.labs
            for student, one in lab.handed_in.items()
            if lab.exercises and not one.checks
        ],
    )


def earned(lab: Lab, student: str) -> float | None:
    """The points that a student has for a lab's checks; None where nothing was handed in."""
    given = lab.handed_in.get(student)
    if given is None:
        return None
    return sum(points * given.checks[name].share for name, points in lab.exercises.items() if name in given.checks)


def shares(lab: Lab) -> list[float]:
    """What each who handed in earned of a lab's points, from 0 to 1, in ascending order."""
    most = sum(lab.exercises.values()) or 1.0
    return sorted((earned(lab, student) or 0.0) / most for student, one in lab.handed_in.items() if one.checks)


def median(values: list[float]) -> float:
    """The median; 0 of nothing."""
    return statistics.median(values) if values else 0.0


# --- Mistakes ----------------------------------------------------------------------------------------------------


def _mistaken(lab: Lab, exercise: str, taught: Taught) -> list[Mistaken]:
    """The mistakes that somebody made in an exercise, and what is wrong with answers in which none is recognised."""
    made: dict[str, dict[str, list[bool]]] = defaultdict(dict)  # title → student → after each hand-in
    sentences: dict[str, str] = {NAMELESS: "Points are lost, and no known mistake gives the same results."}
    hand_ins = {student: one for student, one in lab.handed_in.items() if exercise in one.checks}
    unnamed = dict[str, bool]()  # title → whether it was judged; nothing is known of what was handed in before
    for student, one in hand_ins.items():
        check = one.checks[exercise]
        sentences |= check.mistakes
        for title in {title for attempt in one.attempts for title in attempt.get(exercise, ())}:
            made[title][student] = [title in attempt.get(exercise, ()) for attempt in one.attempts]
        if check.attempted and not check.passed and not check.mistakes:
            unnamed[title := check.in_short or NAMELESS] = check.judged
            made[title][student] = [False] * (len(one.attempts) - 1) + [True]
    found: list[Mistaken] = []
    for title, of in made.items():
        longest = max(len(one.attempts) for one in hand_ins.values())
        after = [sum(seen[min(i, len(seen) - 1)] for seen in of.values()) for i in range(longest)]
        now = sorted(student for student, seen in of.items() if seen[-1])
        section = taught(exercise, "" if title in unnamed else title)
        if title in unnamed:
            after = after[-1:]
        found.append(
            Mistaken(
                lab,
                exercise,
                title,
                sentences.get(title, ""),
                section,
                after,
                now,
                sorted(of),
                len(hand_ins),
                unnamed.get(title, True),
            )
        )
    return found


def _treated(mistake: Mistaken, exercises: list[str], taught: Taught) -> bool:
    """Whether one of the exercises, in which the same mistake may be made, names the section for it."""
    return any(taught(one, mistake.title) == mistake.section != taught(one, "") for one in exercises)


def _again(mistakes: list[Mistaken], taught: Taught) -> list[Again]:
    """The sections that the mistakes ask for, those that most students need first."""
    groups: dict[str, list[Mistaken]] = defaultdict(list)
    for one in mistakes:
        if one.now and one.judged:
            groups[one.section or one.exercise].append(one)
    found: list[Again] = []
    for section, those in groups.items():
        students = sorted({student for one in those for student in one.now})
        of = len({student for one in those for student in one.lab.handed_in})
        if len(students) >= max(2, WORTH * of):
            found.append(Again(section, students, of, those))
    return sorted(found, key=lambda one: (-len(one.students), one.section))


# --- Exercises ---------------------------------------------------------------------------------------------------


def _asked(of: Class) -> list[Asked]:
    """Every exercise, in the order of the labs."""
    table = {
        (lab.name, exercise): {
            student: one.checks[exercise].share for student, one in lab.handed_in.items() if exercise in one.checks
        }
        for lab in of.labs
        for exercise in lab.exercises
    }
    found: list[Asked] = []
    for lab in of.labs:
        for exercise, points in lab.exercises.items():
            own = table[lab.name, exercise]
            checks = [one.checks[exercise] for one in lab.handed_in.values() if exercise in one.checks]
            correlation = _with_the_rest(own, [one for key, one in table.items() if key != (lab.name, exercise)])
            found.append(
                Asked(
                    lab,
                    exercise,
                    points,
                    len(checks),
                    sum(check.attempted for check in checks),
                    sum(check.passed for check in checks),
                    statistics.fmean(own.values()) if own else 0.0,
                    correlation,
                    _in_words(correlation, list(own.values())),
                )
            )
    return found


def _with_the_rest(own: dict[str, float], others: list[dict[str, float]]) -> float | None:
    """The correlation of an exercise with the mean of a student's others, of which there may be fewer for some.

    Returns:
        None where there are too few students, or where it is not defined.
    """
    rest = {student: [one[student] for one in others if student in one] for student in own}
    pairs = [(share, statistics.fmean(rest[student])) for student, share in own.items() if rest[student]]
    if len(pairs) < FEWEST:
        return None
    values = np.array(pairs)
    if (values.std(axis=0) < 1e-9).any():
        return None
    return float(np.corrcoef(values.T)[0, 1])


def _in_words(correlation: float | None, own: list[float]) -> str:
    """What a correlation with the rest says."""
    if correlation is None:
        if len(own) >= FEWEST and max(own) - min(own) < 1e-9:
            return "everybody earns the same, so it tells nobody apart"
        return "too few hand-ins to say"
    if correlation >= 0.4:
        return "who does well here does well elsewhere"
    if correlation >= 0.2:
        return "goes with the other exercises, loosely"
    if correlation > -0.2:
        return "says little about the other exercises"
    return "who does well elsewhere does worse here: look at the task"


# --- Students ----------------------------------------------------------------------------------------------------


def _stopped(of: Class) -> list[Stopped]:
    """Who handed in an earlier lab and none of the last; labs that few have handed in yet are not waited for."""
    active = {student for lab in of.labs for student in lab.handed_in}
    due = [lab for lab in of.labs if len(lab.handed_in) >= FOLLOWED * len(active)]
    found: list[Stopped] = []
    for student in sorted(active):
        done = [i for i, lab in enumerate(of.labs) if student in lab.handed_in]
        missed = [lab for lab in of.labs[done[-1] + 1 :] if lab in due]
        if missed:
            last = of.labs[done[-1]]
            checks = last.handed_in[student].checks
            left_with = [title for check in checks.values() for title in check.mistakes]
            left_with += [f"{name}: {MISSING}" for name, check in checks.items() if not check.attempted]
            share = (earned(last, student) or 0.0) / (sum(last.exercises.values()) or 1.0)
            found.append(Stopped(student, last, missed, share, left_with))
    return sorted(found, key=lambda one: (of.labs.index(one.last), one.student))


def _alike(lab: Lab) -> list[Group]:
    """Hand-ins to a lab that are nearly the same; that of a cell is called by its exercise where it has one."""
    return alike({student: one.cells for student, one in lab.handed_in.items()}, lab.given)


__all__ = ["WHOLE", "Again", "Asked", "Findings", "Mistaken", "Stopped", "earned", "find", "median", "shares"]
