"""What /proc tells about the processes of a kernel; the warm parent and the grader both ask. Linux only."""

import contextlib
from pathlib import Path


def descendants(pid: int | str) -> list[str]:
    """The process IDs of a process's children, and of theirs; of those that have ended meanwhile, what is still known.

    Attack: processes that begin and end all the time, so that whoever looks gives up at the first that is gone.
    """
    processes = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in list(Path("/proc", str(pid), "task").iterdir()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                for child in (task / "children").read_text().split():
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
