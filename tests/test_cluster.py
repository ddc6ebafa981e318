"""Workers of Dask: those of this machine, and those of a scheduler, each with a folder of its own."""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.pipeline import journal
from autograder.pipeline.course import Failed
from autograder.pipeline.grading import LOG
from autograder.pipeline.worker import Died, Refused
from tests.test_pipeline import REPOSITORY, hand_in
from tests.test_workers import folders, wait_for, whole_gradebook

pytest.importorskip("distributed", reason="there is no Dask (the extra `grade`)")
if not sys.platform.startswith("linux"):
    pytest.skip("students' code is isolated on Linux only", allow_module_level=True)

LAB = "lab04_layer_norm"
STUDENTS = ("ada", "ben", "chloe")


class Reverser:
    """In place of a process that grades."""

    weaker = ""

    def __init__(self, versions: dict[str, str], isolated: bool) -> None:
        self.versions = versions

    def start(self) -> None:
        if self.versions:
            raise Refused("it has another version of torch")

    def ask(self, request: bytes) -> bytes:
        if request == b"dead":
            raise Died("it ended")
        if request == b"cut":
            from distributed.comm.core import CommClosedError

            raise CommClosedError("in <TCP (closed) ConnectionPool.gather>: Connection reset by peer")
        return request[::-1]

    def close(self) -> None:
        pass


def listening() -> set[str]:
    """The addresses where this process waits for connections."""
    own = {os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()}
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path("/proc/net", name).read_text().splitlines()]
    return {line[1] for line in lines if f"socket:[{line[9]}]" in own and line[3] == "0A"}


def test_own_workers_answer_each_job_once_and_open_no_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.pipeline import cluster

    monkeypatch.setattr(cluster, "Grader", Reverser)
    before = listening()
    jobs = [(n, f"{n}".encode) for n in range(100)] + [("dead", lambda: b"dead")]
    with cluster.cluster(None, 2, {}, True, print, os.fspath(tmp_path)) as workers:
        assert listening() == before
        assert workers.look() == 2 and list(tmp_path.iterdir())
        answers = list(workers.graded(iter(jobs)))
    found = dict(answers)
    assert len(answers) == len(found) == 101
    assert all(found[n] == f"{n}".encode()[::-1] for n in range(100)) and isinstance(found["dead"], Died)
    told: list[str] = []
    with pytest.raises(Failed), cluster.cluster(None, 2, {"torch": "1"}, True, told.append, os.fspath(tmp_path)):
        pass
    assert len(told) == 2 and all("takes no work: it has another version of torch." in one for one in told)


def test_all_is_graded_although_for_a_moment_nobody_could(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ended well with submissions left ungraded, where the only worker was away for half a minute."""
    from autograder.pipeline import cluster

    monkeypatch.setattr(cluster, "Grader", Reverser)
    jobs = [(n, f"{n}".encode) for n in range(20)]
    with cluster.cluster(None, 1, {}, True, print, os.fspath(tmp_path)) as workers:
        answers = []
        for answer in workers.graded(iter(jobs)):
            workers.workers = 0  # as `look` found
            answers.append(answer)
    assert dict(answers) == {n: f"{n}".encode()[::-1] for n in range(20)}


@pytest.mark.parametrize("text", ["in <TCP (closed)>: Stream is closed", "Timed out trying to connect to tcp://other"])
def test_a_worker_that_ends_while_a_run_begins_ends_no_run(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed.comm.core import CommClosedError

    from autograder.pipeline import cluster

    failures = [CommClosedError(text) if "closed" in text else OSError(text)]

    class Connected:
        def register_plugin(self, plugin: object) -> None:
            if failures:
                raise failures.pop()

        def nthreads(self) -> dict[str, int]:
            return {"tcp://other": 1}

        def run(self, *_: Any, **__: Any) -> dict[str, tuple[str, str]]:
            return {"tcp://other": ("", "")}

    monkeypatch.setattr(cluster.time, "sleep", lambda _: None)
    client: Any = Connected()
    assert cluster.Cluster(client, {}, True, print).workers == 1 and not failures


def test_of_each_worker_it_is_said_once_why_it_takes_no_work_and_which_is_weaker() -> None:
    from autograder.pipeline import cluster

    states = {
        "tcp://a": ("", "students' code is isolated less well"),
        "tcp://b": ("", "students' code is isolated less well"),
        "tcp://c": ("it has another version of torch.", ""),
        "tcp://d": (cluster.STARTING, ""),
    }

    class Connected:
        def register_plugin(self, plugin: Any) -> None:
            assert (plugin.versions, plugin.isolated) == ({"torch": "2"}, False)

        def nthreads(self) -> dict[str, int]:
            return {}

        def run(self, *_: Any, **__: Any) -> dict[str, tuple[str, str]]:
            return states

    told: list[str] = []
    client: Any = Connected()
    workers = cluster.Cluster(client, {"torch": "2"}, False, told.append)
    assert workers.look() == workers.workers == 2
    assert told == [
        "The scheduler has no worker yet.",
        "WARNING: students' code is isolated less well (the worker tcp://a).",
        "The worker tcp://c takes no work: it has another version of torch.",
    ]
    states["tcp://d"] = ("there is no bubblewrap", "")
    del states["tcp://a"], states["tcp://b"]
    with pytest.raises(Failed, match=r"No worker can grade; why, stands above\."):
        workers.look()
    assert told[-1] == "The worker tcp://d takes no work: there is no bubblewrap."


def test_a_scheduler_that_is_gone_is_said_once_and_blames_no_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from autograder.pipeline import cluster

    monkeypatch.setattr(cluster, "Grader", Reverser)
    with (
        pytest.raises(Failed, match=r"The connection to the scheduler is lost\. The same command goes on from there\."),
        cluster.cluster(None, 1, {}, True, print, os.fspath(tmp_path)) as workers,
    ):
        logging.getLogger("distributed.client").error("Traceback")
        list(workers.graded(iter([("ann", lambda: b"cut")])))
    assert "Traceback" not in capfd.readouterr().err


# --- Workers and one grader ------------------------------------------------------------------------------------------


def make_course(folder: Path) -> Path:
    for name in (f"solutions/{LAB}", f"labs/{LAB}"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns(".*"))
    shutil.copy(REPOSITORY / "nbgrader_config.py", folder)
    for student in STUDENTS:
        hand_in(folder, LAB, student)
    return folder


def begin(course: Path, *how: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "autograder", "grade", *how]
    return subprocess.Popen(command, cwd=course, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def grade(course: Path, *how: str) -> str:
    process = begin(course, *how)
    said = process.communicate()[0]
    assert process.returncode == 0, said[-5000:]
    return said


def state(course: Path) -> tuple[Any, ...]:
    return whole_gradebook(f"sqlite:///{course}/gradebook.db"), folders(course)


@pytest.mark.full
def test_two_workers_write_what_one_grader_writes(tmp_path: Path) -> None:
    """The same rows, but for their keys, the same files; and a rerun grades nothing but what changed."""
    courses = [make_course(tmp_path / "serial"), tmp_path / "workers"]
    shutil.copytree(courses[0], courses[1])
    grade(courses[0], "--workers", "1")
    grade(courses[1], "--workers", "2")
    assert state(courses[1]) == state(courses[0])
    kept = {path: path.stat().st_mtime_ns for path in courses[1].glob("*/*/*/*.ipynb")}
    (courses[1] / "submitted" / "ben" / LAB / "layer_norm.ipynb").write_text("no notebook any more")
    said = grade(courses[1], "--workers", "2", "--regrade", "chloe")
    assert f"{LAB}: graded again, because what was handed in has changed: ben" in said
    assert f"{LAB}: graded again, because this was asked for: chloe" in said
    changed = {
        path.parts[-3] for path in kept if path.parts[-4] == "autograded" and path.stat().st_mtime_ns != kept[path]
    }
    assert changed == {"ben", "chloe"}


# --- Workers of a scheduler ------------------------------------------------------------------------------------------


class Machines:
    """A scheduler, and workers each of which has its own copy of the course, in its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, dict[str, subprocess.Popen[bytes]]()
        self.file = folder / "scheduler.json"
        self.start("scheduler", folder, "scheduler", "--port", "0")
        wait_for(self.file)

    def start(self, name: str, where: Path, kind: str, *options: str) -> None:
        command = [sys.executable, "-m", "dask", kind, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
        command += ["--scheduler-file", os.fspath(self.file), *options]
        variables = {**os.environ, "PYTHONPATH": os.fspath(where), "DASK_TEMPORARY_DIRECTORY": os.fspath(self.folder)}
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(command, cwd=where, env=variables, stdout=log, stderr=log)

    def worker(self, name: str, changed: bool = False) -> None:
        where = self.folder / name
        for part in ("autograder", "headroom"):
            shutil.copytree(REPOSITORY / part, where / part, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "nbgrader_config.py"):
            shutil.copy(REPOSITORY / file, where)
        if changed:
            with (where / "autograder" / "points.py").open("a") as source:
                source.write("# changed")
        self.start(name, where, "worker", "--nthreads", "1", "--no-nanny")
        while "Registered to" not in (self.folder / f"{name}.log").read_text():
            time.sleep(0.1)

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    (tmp_path / "machines").mkdir()
    started = Machines(tmp_path / "machines")
    yield started
    for name in started.processes:
        started.kill(name)


def when_one_is_graded(course: Path, before: int) -> None:
    while (course / journal.FILE).read_text().count('"seed"') <= before:
        time.sleep(0.05)


@pytest.mark.full
def test_workers_with_folders_of_their_own_and_what_becomes_of_a_run_that_loses_them(
    machines: Machines, tmp_path: Path
) -> None:
    course = make_course(tmp_path / "course")
    for name in ("one", "two"):
        machines.worker(name)
    machines.worker("other", changed=True)
    scheduler = json.loads(machines.file.read_text())["address"]
    said = grade(course, "--scheduler", scheduler)
    assert re.search(r"The worker tcp://\S+ takes no work: it has another version of autograder\.", said), said
    graders = set(re.findall(r"Autograding (/tmp/headroom-\d+)-", (course / LOG).read_text()))
    assert len(graders) == 2, "both took part"
    undisturbed = state(course)

    process = begin(course, "--scheduler", scheduler, "--regrade", LAB)
    when_one_is_graded(course, len(STUDENTS))
    machines.kill("one")
    said = process.communicate()[0]
    assert process.returncode == 0, said
    assert state(course) == undisturbed

    process = begin(course, "--scheduler", scheduler, "--regrade", LAB)
    when_one_is_graded(course, 2 * len(STUDENTS))
    machines.kill("scheduler")
    said = process.communicate()[0]
    assert process.returncode == 1 and "The same command goes on from there." in said, said
    grade(course, "--workers", "1")
    assert state(course) == undisturbed
