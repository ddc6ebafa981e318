"""Grades a submission from bytes to bytes, in a process of its own: what a machine does that shares nothing else.

The process keeps a throw-away course for each lab, in a temporary folder: the course's nbgrader_config.py, what lies
beside the lab's notebooks, and a gradebook with the lab's rows. In it, nbgrader grades as it does in the course itself:
same converters, same sandbox, same limits. What is in that gradebook and those folders afterwards is the answer.

    python -m autograder.pipeline.worker FOLDER     # in the course's folder; is asked on stdin, and answers on stdout
"""

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

from traitlets.config import Config

from autograder.course import VARIABLE, Course, course_of
from autograder.pipeline.course import configuration, environment, state

PACKAGES = ("torch", "numpy", "nbgrader", "nbclient", "ipykernel")  # whose versions a score may depend on
END = 10.0  # seconds that a process may take to end


class Died(Exception):
    """The process that grades has ended. The text says what it said last."""


class Refused(Exception):
    """A process that may not grade. The text says why, as a clause."""


def code(course: Course) -> dict[str, Path]:
    """What a score depends on beside the submission and the lab's source: the grader's and the course's own code.

    Returns:
        a file or folder for each name that can be imported.
    """
    tops = {course.exercises.partition(".")[0], *(Path(name).parts[0] for name in course.importable)}
    parts = {"autograder": Path(__file__).resolve().parents[1]}
    for top in sorted(tops - {"autograder"}):
        parts[top] = next(
            (path for path in (course.folder / top, course.folder / f"{top}.py") if path.exists()), Path(top)
        )
    return parts


def versions(course: Course) -> dict[str, str]:
    """A name for each part of `code` and each package that a score depends on, with a hash or its version."""
    parts = {name: _hash(path) for name, path in code(course).items()}
    parts |= {name: importlib.metadata.version(name) for name in PACKAGES}
    return parts | {"python": "{}.{}".format(*sys.version_info)}


def _hash(path: Path) -> str:
    """A hash of a file, or of all that is in a folder but for caches and what is hidden."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    digest = hashlib.sha256()
    for file in files:
        within = file.relative_to(path)
        if file.is_file() and not any(part.startswith((".", "__pycache__")) for part in within.parts):
            digest.update(f"{within.as_posix()}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


class Grader:
    """A process that grades, as another one asks it to. A fresh one takes its place when it has ended.

    Args:
        versions: what it must have, as of `versions`.
        isolated: whether students' code is run in a sandbox.
    """

    def __init__(self, versions: dict[str, str], isolated: bool = True) -> None:
        self._versions, self._isolated = versions, isolated
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self.weaker = ""  # once it has started: why it isolates less well than it could, as a sentence

    def start(self) -> None:
        """Start it.

        Raises:
            Refused: it has other versions, or cannot isolate.
            Died: it does not come up.
        """
        course = course_of()
        # Named like the folders of kernels: what is left of a grader that was killed, the next one removes.
        self._folder = tempfile.TemporaryDirectory(prefix=f"headroom-{os.getpid()}-", ignore_cleanup_errors=True)
        scratch = Path(self._folder.name)
        variables = environment(course, scratch) | {VARIABLE: str(course.folder)}
        variables.setdefault("OMP_NUM_THREADS", "1")
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it as long as it lives
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(scratch), *([] if self._isolated else ["--no-isolation"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=course.folder,
            env=variables,
            start_new_session=True,  # a Ctrl-C in the terminal is for the coordinator
        )
        if self._closed:  # by another thread, meanwhile
            self._end()
        if why := self._refusal(process):
            self._end()
            raise Refused(why)

    def _refusal(self, process: subprocess.Popen[bytes]) -> str:
        """Why the process may not grade, as a clause; "" if it may."""
        from autograder.pipeline.parcel import unpack

        if why := difference(unpack(self._answer(process))[0]["versions"], self._versions):
            return why
        isolation, _ = unpack(self._answer(process))
        self.weaker = isolation["weaker"]
        return isolation["cannot"]

    def ask(self, request: bytes) -> bytes:
        """Have a submission graded. What is asked and answered, `Desk` says.

        Raises:
            Died: the process has ended, and so has the one that took its place.
            Refused: as when it is started.
        """
        try:
            return self._ask(request)
        except Died:
            return self._ask(request)

    def _ask(self, request: bytes) -> bytes:
        if self._closed:
            raise Died("the grader's process was ended")
        if self._process is None:
            self.start()
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):  # it has ended, or was closed meanwhile
                _write(process.stdin, request)
            return self._answer(process)
        raise Died("the grader's process was ended")

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        answer, output = None, ""
        with contextlib.suppress(OSError, ValueError):  # it was closed meanwhile
            answer = _read(process.stdout)
        if answer is None:
            with contextlib.suppress(OSError, ValueError):
                self._log.seek(0)
                output = self._log.read().decode(errors="replace").strip()[-2000:]
            self._end()
            raise Died(f"the grader's process ended with status {process.wait()}: {output or 'it said nothing'}")
        return answer

    def close(self) -> None:
        """End it, whatever it does; from another thread, too."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(END)  # it tidies up
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()  # only now: whoever reads from it would keep it open
        self._log.close()
        self._folder.cleanup()


def difference(actual: dict[str, str], wanted: dict[str, str]) -> str:
    """What of a process's `versions` is not as asked for, as a clause; "" if nothing is."""
    different = sorted(name for name in actual | wanted if actual.get(name) != wanted.get(name))
    return f"it has another version of {', '.join(different)}" if different else ""


def _write(to: IO[bytes], data: bytes) -> None:
    to.write(struct.pack("!Q", len(data)))
    to.write(data)
    to.flush()


def _read(file: IO[bytes]) -> bytes | None:
    """A piece that `_write` wrote; None at the end."""
    header = file.read(8)
    if len(header) < 8:
        return None
    data = file.read(size := struct.unpack("!Q", header)[0])
    return data if len(data) == size else None


# --- What follows runs in the process that grades -------------------------------------------------------------------


class Desk:
    """Grades one submission after the other, in throw-away courses.

    A request is `parcel.pack` of what is asked (`lab`, `student`, `seed`, `rows` of the submission), with two contents:
    the lab (`config`, the text of nbgrader_config.py; `rows` of the lab; `released`, its `earlier_prints`; `beside`,
    paths whose contents follow), and the submission (`parcel.snapshot`). The answer says `ok`, or `why` not; the `log`;
    the submission's `rows` as they are now; `files`, paths within the course's folder whose contents follow.

    Args:
        scratch: a folder for the courses.
        isolated: whether students' code is run in a sandbox.
    """

    def __init__(self, scratch: Path, isolated: bool) -> None:
        self.scratch, self.isolated = scratch, isolated
        self._courses: dict[bytes, tuple[Path, Config]] = {}

    def isolation(self) -> dict[str, str]:
        """Why students' code cannot be run as it is to be (`cannot`), why it is isolated less well than it could be.

        Each is "" where that is not so; the latter is called `weaker`.
        """
        from autograder.kernels.launch import NoIsolation, warm_parent
        from autograder.pipeline.kernel import cannot_be_isolated

        try:
            return {"cannot": "", "weaker": warm_parent(course_of()).weaker if self.isolated else ""}
        except NoIsolation as problem:
            return {"cannot": cannot_be_isolated(problem), "weaker": ""}

    def grade(self, request: bytes) -> bytes:
        """The answer to a request."""
        from autograder.pipeline.parcel import lay_out, pack, put_rows, rows_of_submission, unpack

        wanted, (lab_data, submission) = unpack(request)
        lab, student = wanted["lab"], wanted["student"]
        course, config = self._course(lab_data, lab)
        for name in ("submitted", "autograded", "feedback", "integrity"):
            shutil.rmtree(course / name, ignore_errors=True)
        shutil.copy(course / "lab.db", course / "gradebook.db")
        database = f"sqlite:///{course / 'gradebook.db'}"
        if wanted["rows"].get("submitted_assignment"):
            with _begun(database) as connection:
                put_rows(connection, wanted["rows"])
        lay_out(submission, course / "submitted" / student, lab)
        config.JudgedExecute.seed = wanted["seed"]
        log, ok = self._run(config, lab, student)
        with _begun(database) as connection:
            rows = rows_of_submission(connection, lab, student)
        folders = [course / name / student / lab for name in ("autograded", "feedback")]
        files = [path for folder in (*folders, course / "integrity" / lab) for path in sorted(folder.rglob("*"))]
        files = [path for path in files if path.is_file()]
        about = {"ok": ok, "why": "" if ok else log[-3000:], "log": log, "rows": rows}
        names = [os.fspath(path.relative_to(course)) for path in files]
        return pack(about | {"files": names}, [path.read_bytes() for path in files])

    def _run(self, config: Config, lab: str, student: str) -> tuple[str, bool]:
        """Autograde a submission and make its page; what was logged, and whether both succeeded."""
        from nbgrader.apps.api import NbGraderAPI
        from nbgrader.coursedir import CourseDirectory

        api: Any = NbGraderAPI(CourseDirectory(config=config), config=config)
        log = ""
        for step in (api.autograde, api.generate_feedback):
            result = step(lab, student)
            log += result.get("log", "") + result.get("error", "")
            if not result["success"]:
                return log, False
        return log, True

    def _course(self, data: bytes, lab: str) -> tuple[Path, Config]:
        """The throw-away course of a lab, made if it is new, and its configuration."""
        from nbgrader.api import Base

        from autograder.pipeline.integrity import RELEASED
        from autograder.pipeline.parcel import put_rows, unpack

        key = hashlib.sha256(data).digest()
        if key not in self._courses:
            about, contents = unpack(data)
            course = self.scratch / f"{len(self._courses)}"
            shutil.rmtree(course, ignore_errors=True)
            source = course / "solutions" / lab
            source.mkdir(parents=True)
            state(course)
            (course / "nbgrader_config.py").write_text(about["config"], encoding="utf-8")
            (course / RELEASED).write_text(json.dumps({lab: about["released"]}), encoding="utf-8")
            for within, content in zip(about["beside"], contents, strict=True):
                (source / within).parent.mkdir(parents=True, exist_ok=True)
                (source / within).write_bytes(content)
            database = f"sqlite:///{course / 'lab.db'}"
            with _begun(database) as connection:
                # Gradebook() would start a program of some seconds for the version too, and nobody upgrades this one.
                Base.metadata.create_all(connection)
                put_rows(connection, about["rows"])
            config = configuration(course)
            config.CourseDirectory.root = str(course)
            config.CourseDirectory.db_url = f"sqlite:///{course / 'gradebook.db'}"
            if not self.isolated:
                config.JudgedExecute.isolated = False
            self._courses[key] = course, config
        return self._courses[key]


@contextlib.contextmanager
def _begun(database: str) -> Any:
    """A connection to a gradebook, and a transaction."""
    with _engine(database).begin() as connection:
        yield connection


@functools.cache
def _engine(database: str) -> Any:
    """What opens a gradebook: one for each, because SQLAlchemy compiles every query anew for another."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    return create_engine(database, poolclass=NullPool)


def _never_wait_for_the_disk() -> None:
    """Have SQLite hand over what it writes and go on: these gradebooks are thrown away, whatever happens."""
    from sqlalchemy import Engine, event

    @event.listens_for(Engine, "connect")
    def connected(connection: Any, _: object) -> None:  # pyright: ignore[reportUnusedFunction]  # SQLAlchemy uses it
        connection.execute("PRAGMA synchronous = OFF")


def _open_gradebooks_as_they_are() -> None:
    """Have nbgrader open a gradebook without looking for its tables and the course: they were made with the lab's.

    It opens one a dozen times for a submission, asked for eighteen tables each time, and compiled every query anew.
    """
    from nbgrader import api
    from sqlalchemy.orm import scoped_session, sessionmaker

    def opened(self: Any, db_url: str, course_id: str = "default_course", authenticator: Any = None) -> None:
        self.engine = _engine(db_url)
        self.db = scoped_session(sessionmaker(autoflush=True, bind=self.engine, future=True))
        self.course_id, self.authenticator = course_id, authenticator

    def close(self: Any) -> None:  # the engine stays
        self.db.remove()

    api.Gradebook.__init__, api.Gradebook.close = opened, close


def _end_with_who_asks(scratch: Path) -> None:
    """End this process when the other end of stdin is closed, as it is, too, when who asks was killed."""
    if sys.platform != "win32":
        from autograder.kernels import launch

        watched = select.poll()
        watched.register(0, 0)  # for the hang-up alone
        watched.poll()
        launch.end()
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)


def main(arguments: list[str]) -> int:
    """Answer what comes on stdin, until its end."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints is no answer
    from autograder.pipeline.parcel import pack

    scratch = Path(arguments[0])
    ending = threading.Thread(target=_end_with_who_asks, args=(scratch,), daemon=True)
    ending.start()
    _never_wait_for_the_disk()
    _open_gradebooks_as_they_are()
    desk = Desk(scratch, "--no-isolation" not in arguments)
    with contextlib.suppress(BrokenPipeError):  # who asked is gone
        _write(answers, pack({"versions": versions(course_of())}))
        _write(answers, pack(desk.isolation()))
        while (request := _read(sys.stdin.buffer)) is not None:
            _write(answers, desk.grade(request))
    ending.join()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
