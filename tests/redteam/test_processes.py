"""What /proc tells of the processes of a kernel."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from autograder.kernels.processes import descendants, ended, memory


def soon(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    return holds()


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A child of this process that waits, and its own child, which holds 60 MB."""
    read, write = os.pipe()
    if not (child := os.fork()):
        if not (grandchild := os.fork()):
            kept = bytearray(b"x" * 60_000_000)
            os.write(write, b".")
            signal.pause()
            os._exit(len(kept) % 2)
        os.write(write, f" {grandchild} ".encode())
        signal.pause()
    said = b""
    while said.count(b".") < 1 or said.count(b" ") < 2:
        said += os.read(read, 100)
    grandchild = int(said.replace(b".", b""))
    yield child, grandchild
    for pid in (grandchild, child):
        if not ended(pid):
            os.kill(pid, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read), os.close(write)


def test_children_and_theirs_are_found_with_what_they_take(family: tuple[int, int]) -> None:
    child, grandchild = family
    found = descendants(os.getpid())
    assert {str(child), str(grandchild)} <= {*found} and found.index(str(child)) < found.index(str(grandchild))
    assert descendants(child) == [str(grandchild)] and descendants(grandchild) == []
    assert memory(grandchild) > 60_000_000 and not ended(grandchild)
    assert 60_000_000 < memory(grandchild, divided=True) <= memory(grandchild) * 1.05


def test_who_has_ended_has_no_memory_be_it_that_nobody_asked_how(family: tuple[int, int]) -> None:
    child, grandchild = family
    os.kill(grandchild, signal.SIGKILL)
    assert soon(lambda: ended(grandchild)) and memory(grandchild) == 0
    assert not ended(child)
    gone = 2**22 + 1
    assert ended(gone) and memory(gone) == 0 == memory(gone, divided=True) and descendants(gone) == []
