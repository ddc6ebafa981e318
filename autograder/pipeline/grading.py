"""An instructor's round: has submissions graded, writes what comes back, makes pages and the export, and a list."""

import contextlib
import importlib.util
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool
from traitlets.config import Config

from autograder.course import course_of
from autograder.pipeline import labs, late, listing
from autograder.pipeline.course import STATE, Failed, configuration, in_short, nbgrader, within_reach
from autograder.pipeline.feedback import write_index
from autograder.pipeline.journal import Journal
from autograder.pipeline.parcel import unpack
from autograder.pipeline.people import called
from autograder.pipeline.plan import Plan
from autograder.pipeline.recorded import verdicts
from autograder.pipeline.standing import Standing, handed_in, standings, submitted
from autograder.pipeline.texts import how_many, printable
from autograder.pipeline.turns import Turn
from autograder.pipeline.worker import Died, Grader, Refused, versions
from autograder.pipeline.writer import Writer, tried

WORTHWHILE = 25  # submissions: they take about as long as one more worker takes to start
MEMORY = 1500 << 20  # bytes that each worker may take before there are fewer than cores
LOG = f"{STATE}/grade.log"  # in the course folder: what graders said
AT_WORK = f"{STATE}/grading"  # likewise; who has its turn there grades the course
CLUSTER = "pip install -e '.[grade]' in the course's folder"

Say = Callable[[str], None]
Job = tuple[Any, Callable[[], bytes]]  # what it is known by, and what makes the request
Answers = Iterator[tuple[Any, bytes | Exception]]  # what a job is known by, and its answer or what kept it from one


@dataclass(frozen=True)
class Voice:
    """How the round speaks, line by line.

    Args:
        say: called with what it was asked for.
        warn: called with what is to be noticed beside that.
    """

    say: Say = lambda line: None
    warn: Say = lambda line: None


SILENT = Voice()


def grade(
    course: Path,
    chosen: list[str],
    isolated: bool = True,
    workers: int | None = None,
    scheduler: str | None = None,
    regrade: Iterable[str] = (),
    voice: Voice = SILENT,
) -> list[str]:
    """Grade what lies in submitted/, write feedback/ and grades.csv, and say a list.

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
        voice: says the list, and whatever else there is to say.

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
        voice.warn(
            f"{lab}: solutions/ has changed since labs/ was made from it, and what was handed in is graded as it was."
        )
        voice.warn(f"    make labs LAB={lab} renews it; the next make grade then grades this lab again.")
    if not any(submitted(course, lab) for lab in chosen):
        raise Failed("There is nothing to grade: hand-ins are expected as submitted/STUDENT/LAB/NOTEBOOK.ipynb.")
    config = configuration(course)
    if not isolated:
        voice.warn("WARNING: students' code runs unprotected, with your full permissions.")
    elif why := within_reach(config):
        raise Failed(f"Nothing is graded: {why}.")
    database = CourseDirectory(config=config).db_url
    missing = []
    try:
        with closing(Turn(course, "the grading of this course", voice.say, AT_WORK)):
            with closing(Turn(course, "the gradebook", voice.say)):
                if new := [lab for lab in chosen if labs.broken_off(course, lab) or not in_gradebook(database, lab)]:
                    labs.generate(course, new)
            journal = Journal(course)
            known = {lab: submitted(course, lab) for lab in chosen}
            tried(lambda: _say_what_is_odd(database, labs.names(course), known, voice.warn), course, voice.warn)
            plans = tried(lambda: _plans(course, config, chosen, regrade, journal, voice.say), course, voice.warn)
            if any(plan.todo for plan in plans):
                _grade_and_write(plans, journal, config, isolated, workers, scheduler, voice)
            counted = {}
            of_labs = tried(lambda: _standings(course, config, chosen, voice.warn), course, voice.warn)
            for lab, (most, standings) in of_labs.items():
                counted[lab], without = listing.scores(course, lab, most, standings, voice.say, known[lab])
                missing += [f"{student}, {lab}" for student in without]
            students = tried(lambda: _students(database), course, voice.warn)
            for folder in (course / "feedback").glob("*/"):
                write_index(folder, students.get(folder.name, ""))
    except SQLAlchemyError as problem:
        why = in_short(problem)
        raise Failed(f"The gradebook cannot be used ({why}). The next run takes up what is missing.") from problem
    except OSError as problem:
        raise Failed(f"{problem}. The next run takes up what is missing.") from problem
    _export(course, database, voice.warn)
    listing.sum_up(plans, counted, voice.say)
    return missing


def _say_what_is_odd(database: str, names: list[str], known: Mapping[str, Iterable[str]], warn: Say) -> None:
    """Say when labs are due, which assignments are none, and who handed in and is not in the roster.

    nbgrader takes any name and any time zone, and makes a student of each folder.

    Args:
        database: the gradebook.
        names: of all labs.
        known: of each lab that is graded, who handed it in.
        warn: called with each sentence.
    """
    with Gradebook(database) as gradebook:
        listed = {str(s.id): bool(s.first_name or s.last_name or s.email) for s in gradebook.students}
        strangers = {student for those in known.values() for student in those if not listed.get(student)}
        for student in sorted(strangers) if any(listed.values()) else ():
            warn(f"WARNING: {printable(student)} handed in, and is not in the roster: is the folder's name misspelled?")
        for assignment in gradebook.assignments:
            name, due = printable(str(assignment.name)), assignment.duedate
            if name not in names:
                warn(f"WARNING: {name} is an assignment in the gradebook, and no lab in solutions/: is it misspelled?")
                warn(f"    nbgrader db assignment remove {name} takes it out, with all that was graded of it.")
            elif due is not None and name in known:
                warn(f"{name} is due {due:%Y-%m-%d %H:%M} UTC.")


def _plans(
    course: Path,
    config: Config,
    chosen: list[str],
    regrade: Iterable[str],
    journal: Journal,
    say: Say = SILENT.say,
) -> list[Plan]:
    """What is to be graded of each lab; what is graded again, and why, is said."""
    grader = versions(course_of(course))
    plans = []
    for lab in chosen:
        students = [student for student, why_not in handed_in(course, lab).items() if not why_not]
        plans.append(Plan(course, config, lab, students, grader))
    for name in regrade:
        if not any(plan.includes(name) for plan in plans):
            raise Failed(f"--regrade {name}: no lab or exercise is called so, and nobody who handed in.")
    for plan in plans:
        plan.look(journal, {student for name in regrade for student in plan.includes(name)}, say)
    return plans


def _grade_and_write(
    plans: list[Plan],
    journal: Journal,
    config: Config,
    isolated: bool,
    workers: int | None,
    scheduler: str | None,
    voice: Voice = SILENT,
) -> None:
    """Grade what is to be graded, and write it as it comes."""
    course = plans[0].course
    of: dict[tuple[str, str], tuple[dict[str, str], int]] = {}

    def job(plan: Plan, student: str) -> Job:
        def request() -> bytes:
            submission, seed = plan.snapshot(student), secrets.randbits(62)
            of[plan.lab, student] = plan.of(submission) | plan.files_of(submission), seed
            progress.begin(plan.lab, student)
            return plan.request(student, submission, writer.rows(plan.lab, student), seed)

        return (plan.lab, student), request

    jobs = [job(plan, student) for plan in plans for student in plan.todo]
    count = _workers(workers, len(jobs), voice.warn) if scheduler is None else 1
    by = f"starting {how_many(count, 'worker')}" if scheduler is None else f"asking {scheduler} for workers"
    voice.warn(f"{how_many(len(jobs), 'submission')} to grade: {by}…")
    progress = listing.Progress(len(jobs), voice.warn)
    writer = Writer(course, config, voice.say, voice.warn)
    try:
        with (
            (course / LOG).open("a", encoding="utf-8", errors="backslashreplace") as log,
            _answers(iter(jobs), versions(course_of(course)), isolated, count, scheduler, voice.warn) as (
                answers,
                alive,
            ),
            progress.reported(alive),
        ):
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
                    voice.warn(f"{student!r}, {lab}: {_reason(about['why'])} (more in {LOG})")
                progress.one_more(lab, student, time.monotonic() - begun)
    except KeyboardInterrupt:
        raise Failed(f"Stopped after {progress.done} of {len(jobs)}. The same command goes on from there.") from None


def _standings(course: Path, config: Config, chosen: list[str], warn: Say) -> dict[str, tuple[float, list[Standing]]]:
    """The points of each lab and where everybody stands in it, with penalties as they are now; pages say the same."""
    database = CourseDirectory(config=config).db_url

    def look() -> dict[str, tuple[float, list[Standing]]]:
        with Gradebook(database) as gradebook:
            most: dict[str, Any] = {lab: gradebook.find_assignment(lab).max_score for lab in chosen}
            return {lab: (most[lab], standings(course, gradebook, lab)) for lab in chosen}

    with Gradebook(database) as gradebook:
        late.renew(gradebook, config, course, chosen, warn)
    of_labs = look()
    anew = {lab for lab, (_, known) in of_labs.items() for standing in known if standing.stale}
    for page in (page for _, known in of_labs.values() for standing in known for page in standing.stale):
        with contextlib.suppress(FileNotFoundError):
            page.parent.chmod(0o755)
            page.unlink()  # or nbgrader would leave it as it is
    for lab in sorted(anew):
        nbgrader(course, "generate_feedback", lab, quiet=True)
    return look() if anew else of_labs


def _students(database: str) -> dict[str, str]:
    """What everybody in the gradebook is called."""
    with Gradebook(database) as gradebook:
        return {str(student.id): called(student) for student in gradebook.students}


def _export(course: Path, database: str, warn: Say) -> None:
    """Write grades.csv; a second time where it failed, because the gradebook may have been gone for a moment.

    Raises:
        Failed: it failed again.
    """
    said: list[str] = []
    for _ in range(2):
        tried(lambda: create_engine(database, poolclass=NullPool).connect().close(), course, warn)
        if not nbgrader(course, "export", quiet=True, failed=said.append):
            return
    raise Failed(f"grades.csv could not be written: {_reason(said[-1])}. The same command goes on from there.")


def _dask() -> bool:
    return importlib.util.find_spec("distributed") is not None


def _workers(wanted: int | None, jobs: int, warn: Say) -> int:
    """How many processes grade on this machine; a line says how there could be more."""
    count = min(wanted, jobs) if wanted else min(os.cpu_count() or 1, 1 + jobs // WORTHWHILE)
    if count > 1 and not _dask():
        warn(f"One core grades. For all of them: {CLUSTER}.")
        return 1
    if count > 1 and wanted is None:
        from psutil import virtual_memory  # which Dask brings

        count = max(1, min(count, virtual_memory().available // MEMORY))
    return count


@contextmanager
def _answers(
    jobs: Iterator[Job], wanted: dict[str, str], isolated: bool, workers: int, scheduler: str | None, warn: Say
) -> Generator[tuple[Answers, Callable[[], int]]]:
    """The answers to jobs as they come, and what tells how many workers are alive; they are ended with the block."""
    if scheduler is None and workers < 2:  # what needs no Dask
        try:
            with closing(Grader(wanted, isolated)) as grader:
                still = "Still starting: PyTorch takes long to load…"
                with listing.repeated(listing.Progress.every_s, lambda: warn(still)):
                    grader.start()
                if grader.weaker:
                    warn(f"WARNING: {grader.weaker}")
                yield _one_after_the_other(grader, jobs), lambda: 1
        except Refused as problem:
            raise Failed(f"Nothing is graded: {problem}") from None
        except Died as problem:
            raise Failed(str(problem)) from None
        return
    from autograder.pipeline.cluster import cluster

    # What is left of it when this process is killed goes with what is left of kernels, where there are any.
    named = f"headroom-{os.getpid()}-"
    own = (
        tempfile.TemporaryDirectory(prefix=named, ignore_cleanup_errors=True) if scheduler is None else nullcontext("")
    )
    with own as folder, cluster(scheduler, workers, wanted, isolated, warn, folder) as started:
        yield started.graded(jobs), started.look


def _one_after_the_other(grader: Grader, jobs: Iterator[Job]) -> Answers:
    for known, request in jobs:
        try:
            answer: bytes | Exception = grader.ask(request())
        except Died as problem:
            answer = problem
        yield known, answer


def _reason(log: str) -> str:
    """The line of a log that says what went wrong, without what would give orders to a terminal.

    That is the last error but nbgrader's own, which only says that there is one above; else the last line.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["it said nothing"]
    errors = [
        line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line) and "NbGraderException" not in line
    ]
    return printable((errors or lines)[-1], "")


def in_gradebook(database: str, lab: str) -> bool:
    """Whether a gradebook knows the notebooks of a lab."""
    if database.startswith("sqlite:///") and not Path(database.removeprefix("sqlite:///")).exists():
        return False
    with Gradebook(database) as gradebook:
        try:
            return bool(gradebook.find_assignment(lab).notebooks)
        except MissingEntry:
            return False
