"""Control groups, version 2: the system's own count of what the processes of a kernel take together, and its limit.

It counts what no process shows (buffers, page tables, files in memory), at once, and ends the whole group when it is
too much. A group can be made where a folder of the tree hands the memory controller on and may be written to: by root,
and by a user to whom systemd has delegated a slice and who grades in it (`systemd-run --user --scope make grade`).
"""

import contextlib
import os
import secrets
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
NAME = "headroom-{}-"  # of a group, {} is the grader's process
MOST = "memory.max"
AND = {"memory.swap.max": "0", "memory.oom.group": "1"}  # where the system has these


def place(mount: Path = MOUNT, about: Path = Path("/proc/self/cgroup")) -> Path | None:
    """The nearest folder above this process in which groups with a limit on memory can be made; None if there is none.

    Args:
        mount: where the tree is mounted.
        about: what tells where in it this process is.
    """
    try:
        own = next(line[3:] for line in about.read_text().splitlines() if line.startswith("0::"))
        folder = mount / own.lstrip("/")
        for above in (folder, *folder.parents):
            if not above.is_relative_to(mount):
                break
            if "memory" in (above / "cgroup.subtree_control").read_text().split() and os.access(above, os.W_OK):
                return above
    except (OSError, StopIteration):
        pass
    return None


class Group:
    """A group with a limit on memory.

    Args:
        within: where to make it.
        grader: the grader's process, after which it is named.
        most: bytes.

    Raises:
        OSError: the system does not let us.
    """

    def __init__(self, within: Path, grader: int, most: int) -> None:
        sweep(within, grader)
        self.folder = within / f"{NAME.format(grader)}{secrets.token_hex(4)}"
        self.folder.mkdir()
        try:
            (self.folder / MOST).write_text(str(most))
        except OSError:
            self.close()
            raise
        for name, value in AND.items():
            with contextlib.suppress(OSError):
                (self.folder / name).write_text(value)

    def add(self, process: int) -> None:
        """Have a process, and all that it starts from now on, belong to the group."""
        (self.folder / "cgroup.procs").write_text(str(process))

    def close(self) -> None:
        """Remove the group, if nothing runs in it any more; otherwise `sweep` does that later."""
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def sweep(within: Path, grader: int) -> None:
    """Remove groups in which nothing runs: a grader's own, and those of graders that were killed."""
    for folder in within.glob(NAME.format("*") + "*"):
        process = folder.name.split("-")[1]
        if process == str(grader) or not Path("/proc", process).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()
