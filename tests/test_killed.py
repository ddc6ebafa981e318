"""A round of grading that is killed, or loses its gradebook: the rest of it by a rerun, or by waiting."""

import json
import os
import pickle
import shutil
import signal
import threading
import time
import traceback
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import nbformat
import nbgrader.api
import pytest
from nbgrader.api import Base
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from autograder.pipeline import grading, parcel, writer
from autograder.pipeline.course import configuration
from autograder.pipeline.journal import FILE, Journal
from autograder.pipeline.submission import DONE
from autograder.pipeline.turns import Turn
from autograder.pipeline.writer import Writer
from tests import test_workers
from tests.test_workers import FILES, Postgresql, graded_elsewhere, wait_for, whole_gradebook, with_a_lab

if TYPE_CHECKING:
    from tests.test_cluster import Machines  # which there is only where Dask and Linux are

postgresql, url = test_workers.postgresql, test_workers.url  # fixtures

STUDENTS = [f"s{n}" for n in range(5)]
TEXTS = ["1", "2", "3"]  # of submissions; also their scores
KILLS = int(os.environ.get("HEADROOM_KILLS", "3"))
KILLS_OF_MACHINES = int(os.environ.get("HEADROOM_KILLS", "1"))  # which take seconds to start again


class Killed:
    """A course whose submissions all say the same, and rounds of grading in processes that can be killed.

    What the grader makes of each text is found out before, so that a round takes no longer than its writing.
    """

    def __init__(self, course: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.course, self.url = course, url
        config = {"course_id": "course", "db_url": url, "root": os.fspath(course)}
        lines = [f"c.CourseDirectory.{name} = {value!r}" for name, value in config.items()]
        (course / "nbgrader_config.py").write_text("\n".join(lines))
        for area in ("solutions", "labs"):
            (course / area / "lab1").mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(), course / "solutions" / "lab1" / "first.ipynb")
        nbformat.write(nbformat.v4.new_notebook(), course / "labs" / "lab1" / "first.ipynb")
        self.answers = answers = dict[tuple[str, bytes], bytes]()
        for student in STUDENTS:
            about = {"ok": True, "log": "graded", "rows": graded_elsewhere(course, url, 0.0, student)}
            for text in TEXTS:
                about["rows"]["grade"][0]["auto_score"] = float(text)
                files = {name.replace("ann", student): data + text.encode() for name, data in FILES.items()}
                graded = nbformat.v4.new_notebook(metadata={DONE: text})
                files[f"autograded/{student}/lab1/first.ipynb"] = nbformat.writes(graded).encode()
                answers[student, text.encode()] = parcel.pack(about | {"files": list(files)}, files.values())

        class Ready:
            weaker = ""

            def __init__(self, *_: Any) -> None:
                pass

            def start(self) -> None:
                pass

            def ask(self, request: bytes) -> bytes:
                asked, (_, submission) = parcel.unpack(request)
                return answers[asked["student"], parcel.unpack(submission)[1][0]]

            def close(self) -> None:
                pass

        monkeypatch.setattr(grading, "Grader", Ready)

    def hand_in(self, text: str) -> None:
        for student in STUDENTS:
            folder = self.course / "submitted" / student / "lab1"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "first.ipynb").write_text(text)

    def forget(self) -> None:
        """As before anything was graded."""
        made = ("comment", "grade", "submitted_notebook", "submitted_assignment", "student")
        with create_engine(self.url, poolclass=NullPool).begin() as connection:
            for table in reversed(Base.metadata.sorted_tables):
                if table.name in made:
                    connection.execute(table.delete())
        for area in ("autograded", "feedback", "integrity", ".headroom"):
            shutil.rmtree(self.course / area, ignore_errors=True)

    def round(self, seconds: float | None = None, scheduler: str | None = None) -> int:
        """Grade in a process that is killed after that time, or by a scheduler's workers; its exit status."""
        pid = os.fork()
        if not pid:
            status = 1
            try:
                with closing(Turn(self.course, "the course", print)):
                    config, journal = configuration(self.course), Journal(self.course)
                    plans = grading._plans(self.course, config, ["lab1"], [], journal)
                    if plans[0].todo:
                        grading._grade_and_write(plans, journal, config, True, 1, scheduler)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        if seconds is not None:
            time.sleep(seconds)
            os.kill(pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def written(self) -> int:
        """How many submissions were written, as the journal says, the same one again included."""
        path = self.course / FILE
        return path.read_bytes().count(b'"seed"') if path.exists() else 0

    def todo(self) -> list[str]:
        """Whom a rerun would grade."""
        config = configuration(self.course)
        return grading._plans(self.course, config, ["lab1"], [], Journal(self.course))[0].todo

    def state(self) -> tuple[Any, ...]:
        """The gradebook's rows, and the files with what they hold."""
        files = [path for area in ("autograded", "feedback", "integrity") for path in (self.course / area).rglob("*")]
        return whole_gradebook(self.url), {path: path.read_bytes() for path in files if path.is_file()}


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_killed_at_any_moment_a_rerun_makes_of_it_what_nobody_disturbed(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = Killed(tmp_path, url, monkeypatch)
    undisturbed = []
    for text in TEXTS:
        course.forget()
        course.hand_in(text)
        begun = time.monotonic()
        assert course.round() == 0
        took = time.monotonic() - begun
        undisturbed.append(course.state())
    assert undisturbed[0] != undisturbed[1] != undisturbed[2]
    random = Random(time.time_ns())
    halfway = 0
    for trial in range(KILLS):
        if trial % 2:
            course.forget()
        course.hand_in(TEXTS[trial % 3])  # unlike before: all are graded
        course.round(random.uniform(0, took))
        halfway += course.state() not in undisturbed
        course.round(random.uniform(0, took))
        assert course.round() == 0
        assert course.state() == undisturbed[trial % 3], (trial, took)
        assert course.todo() == []
    print(f"{KILLS} times: {halfway} of the first kills left something half done; a round takes {took:.2f} s")


PRELOADED = """
import pickle
import time
from pathlib import Path

from autograder.pipeline import cluster, parcel

ANSWERS = pickle.loads(Path({answers!r}).read_bytes())


class Ready:
    weaker = ""

    def __init__(self, *_):
        pass

    def start(self):
        pass

    def ask(self, request):
        time.sleep({seconds})
        asked, (_, submission) = parcel.unpack(request)
        return ANSWERS[asked["student"], parcel.unpack(submission)[1][0]]

    def close(self):
        pass


cluster.Grader = Ready
"""


class Fleet:
    """A scheduler and two workers, which know what to answer: to be killed, and started again."""

    def __init__(self, folder: Path, answers: dict[tuple[str, bytes], bytes]) -> None:
        self.folder = folder
        (folder / "answers.pickle").write_bytes(pickle.dumps(answers))
        preloaded = PRELOADED.format(answers=os.fspath(folder / "answers.pickle"), seconds=0.1)
        (folder / "preloaded.py").write_text(preloaded)
        self.machines: Machines | None = None

    def renew(self, lost: str) -> None:
        """Start what was lost; with the scheduler, the workers too."""
        from tests.test_cluster import REPOSITORY, Machines  # which skips the test where there is no Dask, or no Linux

        if self.machines is None or lost == "scheduler":
            self.close()
            (self.folder / "scheduler.json").unlink(missing_ok=True)
            self.machines = Machines(self.folder)
        options = ("--nthreads", "1", "--no-nanny", "--preload", os.fspath(self.folder / "preloaded.py"))
        for name in ("one", "two"):
            process = self.machines.processes.get(name)
            if process is None or process.poll() is not None:
                self.machines.start(name, REPOSITORY, "worker", *options)
        for name in ("one", "two"):
            while "Registered to" not in (self.folder / f"{name}.log").read_text():
                time.sleep(0.05)

    @property
    def address(self) -> str:
        return json.loads((self.folder / "scheduler.json").read_text())["address"]

    def close(self) -> None:
        for name in self.machines.processes if self.machines else ():
            self.machines.kill(name)


@pytest.mark.full
@pytest.mark.parametrize("lost", ["one", "scheduler"])
def test_of_what_a_worker_or_the_scheduler_took_with_it_nothing_is_written_twice_or_not_at_all(
    lost: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = Killed(tmp_path, url, monkeypatch)
    (tmp_path / "machines").mkdir()
    fleet = Fleet(tmp_path / "machines", course.answers)
    random = Random(time.time_ns())
    undisturbed, took, broken_off = [], 0.0, 0
    try:
        fleet.renew("scheduler")
        for text in TEXTS:
            course.forget()
            course.hand_in(text)
            begun = time.monotonic()
            assert course.round(scheduler=fleet.address) == 0
            took = time.monotonic() - begun
            undisturbed.append(course.state())
        for trial in range(KILLS_OF_MACHINES):
            if trial % 2:
                course.forget()
            course.hand_in(TEXTS[trial % 3])
            before = course.written()
            killing = threading.Timer(random.uniform(0, took), fleet.machines.kill, [lost])
            killing.start()
            status = course.round(scheduler=fleet.address)
            killing.join()
            broken_off += status != 0
            assert status == 0 or lost == "scheduler"
            fleet.renew(lost)
            assert course.round(scheduler=fleet.address) == 0
            assert course.state() == undisturbed[trial % 3], (trial, took)
            assert course.todo() == [] and course.written() - before == len(STUDENTS)
    finally:
        fleet.close()
    print(f"{KILLS_OF_MACHINES} times: {broken_off} rounds broken off; a round takes {took:.2f} s")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_killed_as_it_was_written_and_handed_in_as_before_it_is_graded_again(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal says of what is handed in that it was graded; what lies there is of what was handed in meanwhile."""
    course = Killed(tmp_path, url, monkeypatch)
    course.hand_in("1")
    assert course.round() == 0
    undisturbed = course.state()
    course.hand_in("2")
    with monkeypatch.context() as patched:
        patched.setattr(Writer, "write", lambda *what, write=Writer.write: (write(*what), os._exit(9)))  # the first
        assert course.round() == 9
    assert course.state() != undisturbed
    course.hand_in("1")
    assert course.round() == 0
    assert course.state() == undisturbed


def test_a_database_that_is_started_anew_meanwhile_is_waited_for(
    postgresql: Postgresql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nbgrader.api, "get_alembic_version", lambda: "any")
    course = Killed(tmp_path, with_a_lab(postgresql.url), monkeypatch)
    course.hand_in("1")
    assert course.round() == 0
    undisturbed = course.state()
    course.hand_in("2")
    assert course.round() == 0
    course.hand_in("1")
    begun, stopped = tmp_path / "begun", tmp_path / "stopped"
    record = Writer._record

    def record_without(*arguments: Any) -> None:
        if not begun.exists():
            begun.touch()
            wait_for(stopped)
        record(*arguments)

    def restart() -> None:
        wait_for(begun)
        postgresql.stop()
        stopped.touch()
        time.sleep(0.3)  # while the writer tries
        postgresql.start()

    monkeypatch.setattr(Writer, "_record", record_without)
    restarting = threading.Thread(target=restart, daemon=True)
    restarting.start()
    assert course.round() == 0
    restarting.join()
    assert course.state() == undisturbed


@pytest.mark.full
@pytest.mark.parametrize("step", ["_plans", "_standings"])
def test_a_gradebook_that_is_gone_between_two_submissions_is_waited_for_too(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = Killed(tmp_path, with_a_lab(f"sqlite:///{tmp_path}/book.db"), monkeypatch)
    course.hand_in("1")
    failures, told = [OperationalError("", {}, Exception("gone"))], list[str]()
    usual = getattr(grading, step)

    def sometimes(*arguments: Any) -> Any:
        found = usual(*arguments)
        if failures:
            raise failures.pop()
        return found

    monkeypatch.setattr(grading, step, sometimes)
    monkeypatch.setattr(grading, "_export", lambda *_: None)
    monkeypatch.setattr(writer, "WAITS", (0,))
    grading.grade(tmp_path, [], workers=1, voice=grading.Voice(told.append, told.append))
    assert any(line.startswith("lab1  s4") and " 1.00 of 10" in line for line in told)
    assert (failures, told.count("The gradebook cannot be used (gone); next attempt in 0 s.")) == ([], 1)
