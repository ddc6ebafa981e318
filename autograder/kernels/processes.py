"""What /proc tells about the processes of a kernel; the warm parent and the grader both ask. Linux only."""

import contextlib
import ctypes
import os
from pathlib import Path

LARGE = 2 << 20  # bytes of a large page
COLLAPSE = 25  # to madvise, since Linux 6.1: put together what lies in small pages


def descendants(pid: int | str) -> list[str]:
    """The process IDs of a process's children, and of theirs; of those that have ended meanwhile, what is still known.

    Attack: processes that begin and end all the time, so that whoever looks gives up at the first that is gone.
    """
    processes = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                with open(f"/proc/{pid}/task/{task}/children") as file:
                    children = file.read().split()
                for child in children:
                    processes += [child, *descendants(child)]
    return processes


def ended(pid: int | str) -> bool:
    """Whether a process has ended, be it that nobody has asked yet how."""
    try:
        return "\nState:\tZ" in Path("/proc", str(pid), "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def memory(pid: int | str, divided: bool = False) -> int:
    """Bytes of memory that a process has written to and no file lies behind.

    Args:
        pid: a process; one that has ended has none.
        divided: whether what it shares with others, as after a fork, counts for each of them in part; slower.

    Raises:
        PermissionError: it may not be looked at so closely.
    """
    whole, part = ("RssAnon:", "RssShmem:", "VmSwap:"), ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")
    name, of = ("smaps_rollup", part) if divided else ("status", whole)
    try:
        lines = Path("/proc", str(pid), name).read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(of)) * 1024


def hold_in_large_pages() -> None:
    """Have the system hold this process's own memory in pages of 2 MiB, where it can.

    A fork copies an entry for each page, and the end of the copy takes them back: for half a gigabyte in small ones,
    that is three quarters of what both take. A page that the copy then writes to is copied in small ones as before.
    """
    advise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, mode, _, _, file, *_ = line.split()
        if mode == "rw-p" and file == "0":
            begin, end = (int(bound, 16) for bound in bounds.split("-"))
            for place in range(-(-begin // LARGE) * LARGE, end - LARGE + 1, LARGE):
                advise(ctypes.c_void_p(place), ctypes.c_size_t(LARGE), COLLAPSE)
