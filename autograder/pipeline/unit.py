"""A process of its own for what touches a submission, with limits: what ends it ends one submission and nothing else.

It is forked once, because a fork of a process with torch in it takes longer than grading should, and used for the next
submission as long as nothing happened: whatever went wrong in it, or has left it larger, ends it. Where there is no
`fork` that can be trusted (macOS, Windows) the work is done in the grader's own process, without these limits.
"""

import contextlib
import contextvars
import ctypes
import errno
import functools
import gc
import json
import logging
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import nbformat
from nbformat.v4 import new_notebook
from nbgrader.api import MissingEntry
from sqlalchemy.exc import SQLAlchemyError

MB = 1 << 20
POSSIBLE = sys.platform.startswith("linux")
MAX_ANSWER = 64 * MB  # of all that it says about one submission
MAX_GROWTH = 256 * MB  # of its memory, after which a new one takes its place

Say = Callable[[dict[str, Any]], None]
Work = Callable[[dict[str, Any], Say], Any]  # a request, and where to say how it goes on → the answer, both as JSON


OF_A_NAME = (errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.EILSEQ)  # what a name can lead to


class Ended(Exception):
    """A unit was ended, or ended itself, before it had answered. The text says why, as the end of a sentence."""


class Failed(Exception):
    """The work itself raised something. `name` is the exception's type, `own` what the work says of it."""

    def __init__(self, name: str, own: bool, text: str) -> None:
        super().__init__(text)
        self.name, self.own = name, own


def of_the_grader(problem: BaseException) -> bool:
    """Whether an exception is the grader's own failure, and no submission's doing: the gradebook's, or the system's."""
    return isinstance(problem, (SQLAlchemyError, MissingEntry)) or (
        # Libraries raise it without a number for what they cannot read; and names are students'.
        isinstance(problem, OSError) and problem.errno not in (None, *OF_A_NAME)
    )


class Unit:
    """A forked process that does a piece of work as often as it is asked to.

    Args:
        work: done in the process, which is a copy of this one as it is now.
        is_own: tells of an exception of the work whether it is the grader's own failure.
        memory_mb: memory that it may take beside what this process has.
        file_mb: the largest file that it may write.
    """

    def __init__(
        self, work: Work, is_own: Callable[[BaseException], bool], memory_mb: int = 2048, file_mb: int = 2048
    ) -> None:
        self.memory_mb = memory_mb
        self._socket, other_end = socket.socketpair()
        sys.stdout.flush()
        sys.stderr.flush()
        grader = os.getpid()
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                self._socket.close()
                _bound(grader, memory_mb, file_mb)
                # Without the event loop that runs in this thread where a Jupyter server grades.
                contextvars.Context().run(_serve, other_end, work, is_own)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        other_end.close()
        self._process = os.pidfd_open(self.pid)

    def ask(self, request: dict[str, Any], seconds: float, heard: Say) -> Any:
        """Have it do its work.

        Args:
            request: for the work, as JSON.
            seconds: of wall time that it may take, and again of processor time.
            heard: called with each thing that the work says meanwhile.

        Returns:
            the answer.

        Raises:
            Failed: the work raised an exception.
            Ended: it did not answer. No further question can be asked then.
        """
        self._seconds = seconds
        end, left = time.monotonic() + seconds, MAX_ANSWER
        try:
            _send(self._socket, {"request": request, "seconds": seconds})
            while True:
                message, size = self._receive(end, left)
                left -= size
                if "said" in message:
                    heard(message["said"])
                elif "failed" in message:
                    raise Failed(message["failed"], message["own"], message["text"])
                else:
                    if message["growth"] > MAX_GROWTH:
                        self.close()
                    return message["answer"]
        except (Failed, BrokenPipeError, ConnectionError) as problem:
            if not isinstance(problem, Failed):
                problem = Ended(self._how())
            self.close()
            raise problem from None
        except BaseException:
            self.close()
            raise

    def _receive(self, end: float, most: int) -> tuple[dict[str, Any], int]:
        header = self._bytes(8, end)
        (size,) = struct.unpack("!Q", header)
        if size > most:
            raise Ended(f"said more than {MAX_ANSWER // MB} MB about it")
        return json.loads(self._bytes(size, end)), size

    def _bytes(self, count: int, end: float) -> bytearray:
        data = bytearray()
        while len(data) < count:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise Ended(f"took longer than {self._seconds:.0f} s")
            if not (more := self._socket.recv(min(count - len(data), MB))):
                raise BrokenPipeError
            data += more
        return data

    def _how(self) -> str:
        """How it ended, once it has."""
        if not select.select([self._process], [], [], 5)[0]:
            return "stopped answering"
        _, status = os.waitpid(self.pid, os.WNOHANG)
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGXCPU:
            return f"took more than {self._seconds:.0f} s of processor time"
        if code == -signal.SIGABRT:  # of C++: no memory, mostly
            return f"was broken off by the system (SIGABRT; it may take {self.memory_mb} MB of memory)"
        if code < 0:
            return f"was ended by the signal {signal.Signals(-code).name}"
        return f"ended with status {code}"

    @property
    def alive(self) -> bool:
        return bool(self.pid) and not select.select([self._process], [], [], 0)[0]

    def close(self) -> None:
        """End it, whatever it does."""
        self._socket.close()
        if self._process >= 0:
            if self.pid:
                with contextlib.suppress(OSError):
                    signal.pidfd_send_signal(self._process, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(self.pid, 0)
            os.close(self._process)
            self.pid, self._process = 0, -1


class Units:
    """One unit after the other for one kind of work, so that there is one whenever it is asked.

    Args:
        work: as of `Unit`. A process has one unit for each kind of it: a worker, or a Jupyter server, makes an exporter
            for each submission, and the unit of the one before serves it as well.
        is_own: as of `Unit`.
        memory_mb: as of `Unit`.
        log: where it says what a unit met with.
        set_up: asked before each request how the work would be done here, beside the request; a unit that was forked
            when this was something else is not used any more.
    """

    _latest: ClassVar[dict[str, tuple[Unit, Any]]] = {}

    def __init__(
        self,
        work: Work,
        is_own: Callable[[BaseException], bool],
        memory_mb: int,
        log: logging.Logger | logging.LoggerAdapter[Any],
        set_up: Callable[[], Any],
    ) -> None:
        self._work, self._is_own, self._memory_mb, self._log, self._set_up = work, is_own, memory_mb, log, set_up

    def first_answer(self, requests: Iterable[tuple[dict[str, Any], float]], heard: Say = lambda _: None) -> Any:
        """The answer to the first of several requests that comes to an end.

        Args:
            requests: each with the seconds that it may take; the later ones ask for less. The work is told as `why`
                what ended the first, as a part of a sentence, or "".
            heard: called with each thing that the work says meanwhile.

        Raises:
            RuntimeError: none does, or the grader itself failed.
        """
        why = reason = ""
        for request, seconds in requests:
            try:
                return self._ask({**request, "why": why}, seconds, heard)
            except Ended as problem:
                reason = f"the grader's process for this submission {problem}"
            except Failed as problem:
                if problem.own:
                    raise RuntimeError(f"the grader itself failed:\n{problem}") from None
                reason = f"the grader met with something that it cannot take ({problem.name})"
                self._log.error("%s", problem)
            self._log.error("%s", reason)
            why = why or reason
        raise RuntimeError(f"not even a part of it can be done: {reason}")

    def _ask(self, request: dict[str, Any], seconds: float, heard: Say) -> Any:
        kind, wanted = self._work.__qualname__, (self._memory_mb, self._set_up())
        if not POSSIBLE:
            try:
                return self._work(request, heard)
            except Exception as problem:
                raise Failed(type(problem).__name__, self._is_own(problem), str(problem)) from problem
        unit, had = Units._latest.get(kind, (None, None))
        if unit is None or had != wanted or not unit.alive:
            _compile_schemas()
            if unit is not None:
                unit.close()
            unit = Unit(self._work, self._is_own, self._memory_mb)
            Units._latest[kind] = unit, wanted
        return unit.ask(request, seconds, heard)


@functools.cache
def _compile_schemas() -> None:
    """Here and once what every unit would do first: nbformat compiles what it holds notebooks against."""
    for relaxed in (False, True):  # nbconvert's own way to validate has a schema of its own
        nbformat.validate(new_notebook(), relax_add_props=relaxed)


# --- What follows runs in the forked process ----------------------------------------------------------------------


def _bound(grader: int, memory_mb: int, file_mb: int) -> None:
    """Limits of the process, and its end with the grader's."""
    import resource

    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # the parent-death signal
    if os.getppid() != grader:
        os._exit(1)
    gc.freeze()  # a collection would touch, and so copy, all that the grader has in memory
    gc.set_threshold(10_000)  # objects; to grade a submission makes many times as many, and leaves hardly any
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    for what, most in (
        (resource.RLIMIT_DATA, _memory() + memory_mb * MB),
        (resource.RLIMIT_FSIZE, file_mb * MB),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _memory() -> int:
    """Bytes of private memory that this process has asked for."""
    about = Path("/proc/self/status").read_text()
    return int(about.split("VmData:")[1].split()[0]) * 1024


def _serve(channel: socket.socket, work: Work, is_own: Callable[[BaseException], bool]) -> None:
    import resource  # which Windows does not have

    before = _memory()
    while (header := channel.recv(8, socket.MSG_WAITALL)) and len(header) == 8:
        message = json.loads(channel.recv(struct.unpack("!Q", header)[0], socket.MSG_WAITALL))
        used = sum(os.times()[:2])
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + message["seconds"]) + 1, hard))
        try:
            answer = work(message["request"], lambda what: _send(channel, {"said": what}))
            _send(channel, {"answer": answer, "growth": _memory() - before})
        except BaseException as problem:
            text = "".join(traceback.format_exception(problem, limit=-20))[-5000:]
            own = isinstance(problem, KeyboardInterrupt) or is_own(problem)
            _send(channel, {"failed": type(problem).__name__, "own": own, "text": text})


def _send(to: socket.socket, what: dict[str, Any]) -> None:
    data = json.dumps(what).encode("utf-8", "replace")
    to.sendall(struct.pack("!Q", len(data)))
    to.sendall(data)
