"""What is said of a round of grading: how far it is, who got which score, and what of each lab was graded."""

import math
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from autograder.pipeline.feedback import is_whole
from autograder.pipeline.integrity import SaveIntegrityNote, unread
from autograder.pipeline.late import how_late
from autograder.pipeline.plan import Plan
from autograder.pipeline.standing import NOT_HANDED_IN, Standing
from autograder.pipeline.texts import how_many, listed, printable


@contextmanager
def repeated(every_s: float, tell: Callable[[], None]) -> Generator[None]:
    """Call `tell` every so many seconds, from a thread of its own, for as long as the block runs."""
    over = threading.Event()

    def tick() -> None:
        while not over.wait(every_s):
            tell()

    ticking = threading.Thread(target=tick, daemon=True)
    ticking.start()
    try:
        yield
    finally:
        over.set()
        ticking.join()


USUAL = 10  # times as long as half of the submissions take; what takes longer, as a loop without end, counts as this


class Progress:
    """How far a run is, and what is at work.

    Args:
        total: submissions that are to be graded.
        say: called with a line.
    """

    every_s = 10.0

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self.total, self.done, self._say = total, 0, say
        self._at_work: dict[tuple[str, str], float] = {}  # since when, the longest first
        self._between = list[float]()  # seconds from one that is done to the next
        self._writing = 0.0
        self._problem: Exception | None = None

    @contextmanager
    def reported(self, workers: Callable[[], int]) -> Generator[None]:
        """Say a line every few seconds, also while a submission takes its time, for as long as the block runs.

        `workers` tells how many grade; what it raises, `one_more` raises.
        """
        self._begun = self._last = time.monotonic()

        def tell() -> None:
            try:
                if self._problem is None:
                    self._say(self.line(workers()))
            except Exception as problem:
                self._problem = problem

        with repeated(self.every_s, tell):
            yield
        self._say(self.line(workers()))

    def begin(self, lab: str, student: str) -> None:
        """Note that a submission is handed to a worker."""
        self._at_work[lab, student] = time.monotonic()

    def one_more(self, lab: str, student: str, writing: float) -> None:
        """Count a submission; `writing` tells how many seconds its results took to write."""
        self._at_work.pop((lab, student), None)
        self.done += 1
        now = time.monotonic()
        self._between.append(now - self._last)
        self._last = now
        self._writing += writing
        if self._problem is not None:
            raise self._problem

    def line(self, workers: int) -> str:
        """How far the run is, how long it will take, and what has been at work since the line before."""
        now = time.monotonic()
        seconds = now - self._begun
        by = how_many(workers, "worker") if workers else "nobody"
        line = f"{self.done} of {self.total} done by {by}"
        if self.done:
            most = USUAL * statistics.median(self._between) or math.inf
            usual = statistics.mean(min(one, most) for one in self._between)
            left = timedelta(seconds=round((self.total - self.done) * usual))
            line += f", {self.done / seconds:.1f} a second, {left} left, {self._writing / seconds:.0%} of the time"
            line += " for writing"
        for (lab, student), since in [*self._at_work.items()][:1]:
            if now - since >= self.every_s:
                line += f"; {listed(student)}, {lab}: {now - since:.0f} s so far"
        return line


def scores(
    course: Path,
    lab: str,
    most: float,
    standings: list[Standing],
    say: Callable[[str], None],
    known: Collection[str] | None = None,
) -> tuple[Counter[str], list[str]]:
    """Say the scores of a lab.

    Args:
        course: the course folder.
        lab: the lab.
        most: its points.
        standings: of everybody.
        say: called with a line.
        known: those whose submissions were there when the run began; None: all.

    Returns:
        numbers of submissions and points, and the students who handed it in and have no grade or no page.
    """
    missing: list[str] = []
    counted = Counter[str]()
    absent: list[str] = []
    for standing in standings:
        student = listed(standing.student)
        if standing.state == NOT_HANDED_IN:
            absent.append(student)
            continue
        counted["handed in"] += 1
        if standing.score is None and known is not None and standing.student not in known:
            say(f"{lab}  {student:24}  handed in during this run: the next one grades it")
            continue
        if standing.score is None:
            missing.append(student)
            say(f"{lab}  {student:24}  NOT GRADED. {standing.why}")
            continue
        note = f", {standing.penalty:g} taken: {how_late(standing.late)} late" if standing.penalty else ""
        note += f", read from {standing.read}" if standing.read else ""
        if standing.ungraded:
            note += f", {standing.ungraded:g} more to be graded by hand"
        elif standing.by_hand:
            note += ", points given by hand to be looked at again"
        if not all(is_whole(page) for page in standing.pages):
            missing.append(student)
            note += ", NO FEEDBACK PAGE"
        folder = course / SaveIntegrityNote.directory.default_value / lab
        names = [page.stem for page in standing.pages if (folder / f"{standing.student}-{page.stem}.md").exists()]
        for name in names:
            if why := unread(course / "autograded" / standing.student / lab / f"{name}.ipynb"):
                note += f", {printable(why)}"
        if names:
            note += ", see integrity/"
        counted["graded"] += 1
        counted["points"] += standing.score  # pyright: ignore[reportArgumentType]  # which a Counter holds as well
        say(f"{lab}  {student:24}  {standing.score:5.2f} of {most:g}{note}")
    if absent:
        say(f"{lab}  not handed in by {len(absent)}: {', '.join(absent)}")
    counted["missing"] = len(missing)
    counted["absent"] = len(absent)
    return counted, missing


def sum_up(plans: list[Plan], counted: dict[str, Counter[str]], say: Callable[[str], None]) -> None:
    """Say a line for each lab, of what `scores` counted."""
    width = max(len(plan.lab) for plan in plans)
    say(f"\n{'':{width}}  handed in  not handed in  to grade in this run  no grade or page  mean score")
    for plan in plans:
        of = counted[plan.lab]
        mean = f"{of['points'] / of['graded']:.2f}" if of["graded"] else "–"
        line = f"{plan.lab:{width}}  {of['handed in']:9}  {of['absent']:13}  {len(plan.todo):20}"
        say(f"{line}  {of['missing']:16}  {mean:>10}")
