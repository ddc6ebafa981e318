"""What /proc tells of the processes of a kernel."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from autograder.kernels.processes import LARGE, descendants, ended, memory


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


LARGE_PAGES = """
from pathlib import Path
from autograder.kernels.processes import hold_in_large_pages

def held():
    return int(Path("/proc/self/smaps_rollup").read_text().split("AnonHugePages:")[1].split()[0])

block = bytearray(b"headroom" * 4_000_000)
before = held()
hold_in_large_pages()
print(held() - before, block == b"headroom" * 4_000_000)
"""


@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (6, 1)
    or "[never]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text(),
    reason="the system holds nothing in large pages",
)
def test_what_is_held_in_large_pages_is_what_it_was() -> None:
    ran = subprocess.run([sys.executable, "-c", LARGE_PAGES], capture_output=True, text=True, check=True)
    held, same = ran.stdout.split()
    assert int(held) * 1024 >= 32_000_000 // LARGE * LARGE - LARGE and same == "True"
