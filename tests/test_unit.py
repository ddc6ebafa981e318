"""A unit of work in a process of its own: whatever ends it, the grader goes on and can say how."""

import errno
import faulthandler
import logging
import mmap
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("units are processes of their own on Linux only", allow_module_level=True)

from nbgrader.api import MissingEntry
from sqlalchemy.exc import OperationalError

from autograder.pipeline.unit import MAX_GROWTH, MB, Ended, Failed, Say, Unit, Units, of_the_grader

KEPT: list[mmap.mmap] = []


def spin() -> None:
    while True:
        pass


def write_much() -> None:
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.truncate(100 * MB)


def _deeper() -> None:
    _deeper()


ENDS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "exception": (lambda: {}["no such key"], Failed, "KeyError"),
    "exit": (lambda: sys.exit(3), Failed, "SystemExit"),
    "exit at once": (lambda: os._exit(3), Ended, "status 3"),
    "deep recursion": (_deeper, Failed, "RecursionError"),
    "memory": (lambda: bytearray(900 * MB), Failed, "MemoryError"),
    "abort": (os.abort, Ended, "SIGABRT"),
    "killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), Ended, "SIGKILL"),
    "endless": (spin, Ended, "longer than 2 s"),
    "asleep": (lambda: time.sleep(60), Ended, "longer than 2 s"),
    "processor time": (lambda: os.kill(os.getpid(), signal.SIGXCPU), Ended, "2 s of processor time"),
    "stopped": (lambda: os.kill(os.getpid(), signal.SIGSTOP), Ended, "longer than 2 s"),
    "a large file": (write_much, Failed, "OSError"),
    "a large answer": (lambda: "x" * (70 * MB), Ended, "64 MB"),
}


def work(request: dict[str, Any], say: Say) -> Any:
    if request.get("grow"):
        # Not from the heap, in which a process that has done much may have as much left over.
        KEPT.append(mmap.mmap(-1, MAX_GROWTH + 64 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    say({"begun": True})
    if how := request.get("end"):
        faulthandler.disable()  # pytest's, which would print where it ended
        return ENDS[how][0]()
    return os.getpid()


def unit() -> Unit:
    return Unit(work, lambda problem: isinstance(problem, OSError), memory_mb=600, file_mb=50)


@pytest.mark.parametrize("how", ENDS)
def test_whatever_ends_it_is_said_and_what_came_before_is_kept(how: str) -> None:
    _, kind, said = ENDS[how]
    one, heard = unit(), []
    process = one.pid
    with pytest.raises(kind) as problem:
        one.ask({"end": how}, 2 if "2 s" in said else 60, heard.append)
    text = problem.value.name if isinstance(problem.value, Failed) else str(problem.value)
    assert said in text
    assert heard == [{"begun": True}]
    assert not one.alive
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_it_is_asked_again_as_long_as_nothing_happens() -> None:
    one = unit()
    assert one.ask({}, 10, lambda _: None) == one.ask({}, 10, lambda _: None) == one.pid != os.getpid()
    one.close()


def test_one_that_has_grown_is_not_asked_again() -> None:
    one = unit()
    assert one.ask({"grow": True}, 10, lambda _: None)
    assert not one.alive and KEPT == []


def test_the_graders_own_failures_are_told_apart() -> None:
    for how, own in (("a large file", True), ("exception", False)):
        with pytest.raises(Failed) as problem:
            unit().ask({"end": how}, 10, lambda _: None)
        assert problem.value.own == own


@pytest.mark.parametrize(
    ("problem", "own"),
    [
        (OperationalError("", {}, Exception("locked")), True),
        (MissingEntry("no such lab"), True),
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EACCES, "closed"), True),
        (OSError(errno.ENAMETOOLONG, "long"), False),
        (OSError(errno.EILSEQ, "odd"), False),
        (OSError("no picture"), False),
        (ValueError(), False),
        (MemoryError(), False),
    ],
)
def test_what_a_name_or_a_file_leads_to_is_no_failure_of_the_graders(problem: Exception, own: bool) -> None:
    """A disk that is full leaves a submission ungraded, and a name that is too long does not."""
    assert of_the_grader(problem) == own


def test_later_requests_are_told_why_the_first_came_to_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Units, "_latest", {})
    log = logging.getLogger(__name__)
    units = Units(lambda *_: None, lambda _: False, 500, log, lambda: None)
    ends = [Ended("took longer than 2 s"), Failed("KeyError", False, "…"), Failed("OSError", True, "disk full")]
    asked: list[tuple[int, str]] = []

    def ask(request: dict[str, Any], seconds: float, heard: Say) -> str:
        asked.append((request["n"], request["why"]))
        if ends:
            raise ends.pop(0)
        return "done"

    monkeypatch.setattr(units, "_ask", ask)
    with pytest.raises(RuntimeError, match="the grader itself failed:\ndisk full"):
        units.first_answer(({"n": n}, 1.0) for n in range(4))
    why = "the grader's process for this submission took longer than 2 s"
    assert asked == [(0, ""), (1, why), (2, why)]
    assert units.first_answer([({"n": 9}, 1.0)]) == "done"
    ends.append(Failed("KeyError", False, "…"))
    with pytest.raises(RuntimeError, match=r"not even a part .*: the grader met with something .* \(KeyError\)"):
        units.first_answer([({"n": 9}, 1.0)])


def test_it_ends_with_the_grader() -> None:
    """Killed, the grader closes nothing; nor does a thread of it that goes on."""
    read, write = os.pipe()
    if not (grader := os.fork()):
        os.write(write, f"{unit().pid}".encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(grader, 0)
    process = int(os.read(read, 100))
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            break
        with open(f"/proc/{process}/stat") as file:  # nobody waits for it where the tests run as the first process
            if file.read().rpartition(")")[2].split()[0] == "Z":
                break
        time.sleep(0.05)
    else:
        pytest.fail("the unit lives on")


def test_a_unit_serves_the_next_exporter_that_is_set_up_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Units, "_latest", {})

    def work(request: dict[str, Any], say: Say) -> int:
        return os.getpid()

    def answer(set_up: str, memory_mb: int = 500) -> int:
        units = Units(work, lambda _: False, memory_mb, logging.getLogger(__name__), lambda: set_up)
        return units.first_answer([({}, 20.0)])

    first = answer("as before")
    assert answer("as before") == first != os.getpid()
    assert answer("otherwise") != first
    assert answer("otherwise", memory_mb=600) != answer("otherwise")
