"""An instructor's round: grades, feedback, export, and a list of what was graded and what was not."""

import contextlib
import importlib.util
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SQLAlchemyError
from traitlets.config import Config

from autograder.course import course_of
from autograder.pipeline import labs, late
from autograder.pipeline.course import STATE, Failed, configuration, in_short, nbgrader, within_reach
from autograder.pipeline.feedback import is_whole, write_index
from autograder.pipeline.integrity import SaveIntegrityNote
from autograder.pipeline.journal import Journal
from autograder.pipeline.late import how_late
from autograder.pipeline.parcel import unpack
from autograder.pipeline.plan import Plan
from autograder.pipeline.recorded import verdicts
from autograder.pipeline.standing import NOT_HANDED_IN, Standing, handed_in, standings, submitted
from autograder.pipeline.texts import listed, printable
from autograder.pipeline.turns import Turn
from autograder.pipeline.worker import Died, Grader, Refused, versions
from autograder.pipeline.writer import Writer

WORTHWHILE = 25  # submissions: they take about as long as one more worker takes to start
MEMORY = 1500 << 20  # bytes that each worker may take before there are fewer than cores
LOG = f"{STATE}/grade.log"  # in the course folder: what graders said
AT_WORK = f"{STATE}/grading"  # likewise; who has its turn there grades the course
CLUSTER = "pip install -e '.[grade]' in the course's folder"

Job = tuple[Any, Callable[[], bytes]]  # what it is known by, and what makes the request
Answers = Iterator[tuple[Any, bytes | Exception]]  # what a job is known by, and its answer or what kept it from one


def grade(
    course: Path,
    chosen: list[str],
    isolated: bool = True,
    workers: int | None = None,
    scheduler: str | None = None,
    regrade: Iterable[str] = (),
) -> list[str]:
    """Grade what lies in submitted/, write feedback/ and grades.csv, and print a list.

    What was graded before is left as it is, unless what was handed in, the lab or the grader changed. Penalties for
    being late follow due dates and extensions as they are now.

    Args:
        course: the course folder.
        chosen: labs; if empty, all that somebody handed in.
        isolated: whether students' code runs in a sandbox, or else with the rights of whoever grades.
        workers: processes on this machine that grade, of which one needs no Dask; None: as many as it has cores, and
            no more than are worth their start.
        scheduler: the address of a Dask scheduler whose workers grade instead.
        regrade: students, labs and exercises of which everything is graded again.

    Returns:
        the submissions without a grade or a feedback page, as "student, lab".

    Raises:
        Failed: nothing to grade, a lab that does not exist, no Dask for what needs it, or a gradebook or grades.csv
            that cannot be used.
    """
    if workers is not None and workers < 1:
        raise Failed(f"--workers {workers}: at least one is needed.")
    if (scheduler is not None or (workers or 1) > 1) and not _dask():
        raise Failed(f"Several workers need Dask: {CLUSTER}.")
    late.extensions(course, labs.names(course))  # a mistake in it is said before anything is graded
    chosen = [lab for lab in labs.chosen(course, chosen) if chosen or submitted(course, lab)]
    for lab in labs.changed(course, chosen):
        _warn(
            f"{lab}: solutions/ has changed since labs/ was made from it, and what was handed in is graded as it was."
        )
        _warn(f"    make labs LAB={lab} renews it; the next make grade then grades this lab again.")
    if not any(submitted(course, lab) for lab in chosen):
        raise Failed("There is nothing to grade: hand-ins are expected as submitted/STUDENT/LAB/NOTEBOOK.ipynb.")
    config = configuration(course)
    if not isolated:
        print("WARNING: students' code runs unprotected, with your full permissions.", file=sys.stderr)
    elif why := within_reach(config):
        raise Failed(f"Nothing is graded: {why}.")
    database = CourseDirectory(config=config).db_url
    missing = []
    try:
        with closing(Turn(course, "the grading of this course", print, AT_WORK)):
            with closing(Turn(course, "the gradebook", print)):
                if new := [lab for lab in chosen if not in_gradebook(database, lab)]:
                    labs.generate(course, new)
            journal = Journal(course)
            plans = _plans(course, config, chosen, regrade, journal)
            if any(plan.todo for plan in plans):
                _grade_and_write(plans, journal, config, isolated, workers, scheduler)
            counted = {}
            for lab, (most, standings) in _standings(course, config, chosen).items():
                counted[lab], without = _report(course, lab, most, standings)
                missing += [f"{student}, {lab}" for student in without]
            for folder in (course / "feedback").glob("*/"):
                write_index(folder)
    except SQLAlchemyError as problem:
        why = in_short(problem)
        raise Failed(f"The gradebook cannot be used ({why}). The next run takes up what is missing.") from problem
    except OSError as problem:
        raise Failed(f"{problem}. The next run takes up what is missing.") from problem
    if nbgrader(course, "export"):
        raise Failed("grades.csv could not be written; what nbgrader said stands above.")
    _sum_up(plans, counted)
    return missing


def _plans(course: Path, config: Config, chosen: list[str], regrade: Iterable[str], journal: Journal) -> list[Plan]:
    """What is to be graded of each lab; what is graded again, and why, is printed."""
    grader = versions(course_of(course))
    plans = []
    for lab in chosen:
        students = [student for student, why_not in handed_in(course, lab).items() if not why_not]
        plans.append(Plan(course, config, lab, students, grader))
    for name in regrade:
        if not any(plan.includes(name) for plan in plans):
            raise Failed(f"--regrade {name}: no lab or exercise is called so, and nobody who handed in.")
    for plan in plans:
        plan.look(journal, {one for name in regrade for one in plan.includes(name)}, print)
    return plans


def _grade_and_write(
    plans: list[Plan], journal: Journal, config: Config, isolated: bool, workers: int | None, scheduler: str | None
) -> None:
    """Grade what is to be graded, and write it as it comes."""
    course = plans[0].course
    of: dict[tuple[str, str], tuple[dict[str, str], int]] = {}

    def job(plan: Plan, student: str) -> Job:
        def request() -> bytes:
            submission, seed = plan.snapshot(student), secrets.randbits(62)
            of[plan.lab, student] = plan.of(submission), seed
            return plan.request(student, submission, writer.rows(plan.lab, student), seed)

        return (plan.lab, student), request

    jobs = [job(plan, student) for plan in plans for student in plan.todo]
    count = _workers(workers, len(jobs)) if scheduler is None else 1
    progress = Progress(len(jobs))
    writer = Writer(course, config, _warn)
    try:
        with (
            (course / LOG).open("a", encoding="utf-8", errors="backslashreplace") as log,
            _answers(iter(jobs), versions(course_of(course)), isolated, count, scheduler) as (answers, alive),
        ):
            progress.begin()
            for key, answer in answers:
                lab, student = key
                about, contents = ({"why": str(answer)}, []) if isinstance(answer, Exception) else unpack(answer)
                print(f"=== {student}, {lab}\n{about.get('log') or about['why']}", file=log, flush=True)
                hashes, seed = of.pop(key)
                begun = time.monotonic()
                if about.get("ok"):
                    journal.begin(lab, student)
                    writer.write(lab, student, about, contents)
                    graded = dict(zip(about["files"], contents, strict=True))
                    journal.add(lab, student, hashes, seed, verdicts(graded))
                else:
                    _warn(f"{student!r}, {lab}: {_last_line(about['why'])} (more in {LOG})")
                progress.one_more(alive, time.monotonic() - begun)
    except KeyboardInterrupt:
        raise Failed(f"Stopped after {progress.done} of {len(jobs)}. The same command goes on from there.") from None


def _standings(course: Path, config: Config, chosen: list[str]) -> dict[str, tuple[float, list[Standing]]]:
    """The points of each lab and where everybody stands in it, with penalties as they are now; pages say the same."""
    database = CourseDirectory(config=config).db_url

    def look() -> dict[str, tuple[float, list[Standing]]]:
        with Gradebook(database) as gradebook:
            most: dict[str, Any] = {lab: gradebook.find_assignment(lab).max_score for lab in chosen}
            return {lab: (most[lab], standings(course, gradebook, lab)) for lab in chosen}

    with Gradebook(database) as gradebook:
        late.renew(gradebook, config, course, chosen, _warn)
    found = look()
    anew = {lab for lab, (_, known) in found.items() for one in known if one.stale}
    for page in (page for _, known in found.values() for one in known for page in one.stale):
        with contextlib.suppress(FileNotFoundError):
            page.parent.chmod(0o755)
            page.unlink()  # or nbgrader would leave it as it is
    for lab in sorted(anew):
        nbgrader(course, "generate_feedback", lab, quiet=True)
    return look() if anew else found


def _dask() -> bool:
    return importlib.util.find_spec("distributed") is not None


def _workers(asked: int | None, jobs: int) -> int:
    """How many processes grade on this machine; a line says how there could be more."""
    count = min(asked, jobs) if asked else min(os.cpu_count() or 1, 1 + jobs // WORTHWHILE)
    if count > 1 and not _dask():
        _warn(f"One core grades. For all of them: {CLUSTER}.")
        return 1
    if count > 1 and asked is None:
        from psutil import virtual_memory  # which Dask brings

        count = max(1, min(count, virtual_memory().available // MEMORY))
    return count


@contextmanager
def _answers(
    jobs: Iterator[Job], wanted: dict[str, str], isolated: bool, workers: int, scheduler: str | None
) -> Generator[tuple[Answers, Callable[[], int]]]:
    """The answers to jobs as they come, and what tells how many workers are alive; they are ended with the block."""
    if scheduler is None and workers < 2:  # what needs no Dask
        try:
            with closing(Grader(wanted, isolated)) as grader:
                grader.start()
                if grader.weaker:
                    _warn(f"WARNING: {grader.weaker}")
                yield _one_after_the_other(grader, jobs), lambda: 1
        except Refused as problem:
            raise Failed(f"Nothing is graded: {problem}") from None
        except Died as problem:
            raise Failed(str(problem)) from None
        return
    from autograder.pipeline.cluster import cluster

    with (
        # What is left of it when this process is killed goes with what is left of its kernels.
        tempfile.TemporaryDirectory(prefix=f"headroom-{os.getpid()}-", ignore_cleanup_errors=True) as folder,
        cluster(scheduler, workers, wanted, isolated, _warn, folder) as started,
    ):
        yield started.graded(jobs), started.look


def _one_after_the_other(grader: Grader, jobs: Iterator[Job]) -> Answers:
    for known, request in jobs:
        try:
            answer: bytes | Exception = grader.ask(request())
        except Died as problem:
            answer = problem
        yield known, answer


def _last_line(text: str) -> str:
    """The last line of a log that says something, without what would give orders to a terminal."""
    lines = [line for line in text.splitlines() if line.strip()] or ["it said nothing"]
    return printable(lines[-1], "")


def _warn(sentence: str) -> None:
    print(sentence, file=sys.stderr)


class Progress:
    """Says how far a run is, a few times a minute.

    Args:
        total: submissions that are to be graded.
    """

    every_s = 10.0

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.begin()

    def begin(self) -> None:
        """Count time from now on."""
        self._begun = self._said = time.monotonic()
        self._writing = 0.0

    def one_more(self, workers: Callable[[], int], writing: float) -> None:
        """Count a submission; `workers` tells how many grade, `writing` how many seconds its results took to write."""
        self.done += 1
        self._writing += writing
        now = time.monotonic()
        if now - self._said < self.every_s and self.done < self.total:
            return
        self._said, rate = now, self.done / (now - self._begun)
        left = timedelta(seconds=round((self.total - self.done) / rate))
        share = self._writing / (now - self._begun)
        by = f"{count} worker{'s' * (count != 1)}" if (count := workers()) else "nobody"
        said = f"{self.done} of {self.total} done by {by}, {rate:.1f} a second, {left} left"
        _warn(f"{said}, {share:.0%} of the time for writing")


def in_gradebook(database: str, lab: str) -> bool:
    """Whether a gradebook knows the notebooks of a lab."""
    if database.startswith("sqlite:///") and not Path(database.removeprefix("sqlite:///")).exists():
        return False
    with Gradebook(database) as gradebook:
        try:
            return bool(gradebook.find_assignment(lab).notebooks)
        except MissingEntry:
            return False


def _report(course: Path, lab: str, most: float, standings: list[Standing]) -> tuple[Counter[str], list[str]]:
    """Print the scores of a lab.

    Returns:
        numbers of submissions and points, and the students who handed it in and have no grade or no page.
    """
    missing: list[str] = []
    counted = Counter[str]()
    absent: list[str] = []
    for one in standings:
        student = listed(one.student)
        if one.state == NOT_HANDED_IN:
            absent.append(student)
            continue
        counted["handed in"] += 1
        if one.score is None:
            missing.append(student)
            print(f"{lab}  {student:24}  NOT GRADED. {one.why}")
            continue
        note = f", {one.penalty:g} taken: {how_late(one.late)} late" if one.penalty else ""
        note += f", read from {one.read}" if one.read else ""
        if one.ungraded:
            note += f", {one.ungraded:g} more to be graded by hand"
        elif one.by_hand:
            note += ", an answer to be graded by hand again"
        if not all(is_whole(page) for page in one.pages):
            missing.append(student)
            note += ", NO FEEDBACK PAGE"
        folder = course / SaveIntegrityNote.directory.default_value / lab
        if any((folder / f"{student}-{page.stem}.md").exists() for page in one.pages):
            note += ", see integrity/"
        counted["graded"] += 1
        counted["points"] += one.score  # pyright: ignore[reportArgumentType]  # which a Counter holds as well
        print(f"{lab}  {student:24}  {one.score:5.2f} of {most:g}{note}")
    if absent:
        print(f"{lab}  not handed in by {len(absent)}: {', '.join(absent)}")
    counted["missing"] = len(missing)
    counted["absent"] = len(absent)
    return counted, missing


def _sum_up(plans: list[Plan], counted: dict[str, Counter[str]]) -> None:
    """Print a line for each lab."""
    width = max(len(plan.lab) for plan in plans)
    print(f"\n{'':{width}}  handed in  not handed in  to grade in this run  no grade or page  mean score")
    for plan in plans:
        of = counted[plan.lab]
        mean = f"{of['points'] / of['graded']:.2f}" if of["graded"] else "–"
        line = f"{plan.lab:{width}}  {of['handed in']:9}  {of['absent']:13}  {len(plan.todo):20}"
        print(f"{line}  {of['missing']:16}  {mean:>10}")
