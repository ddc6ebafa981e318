"""Where a group can be made, told by a tree of files; and what it holds, where this machine has the controller."""

import mmap
import os
import signal
import sys
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("control groups are Linux's", allow_module_level=True)

from autograder.kernels import cgroups

# Version 1 counts in the same way; its files are called otherwise.
OLD = Path("/sys/fs/cgroup/memory")


def tree(mount: Path, own: str, **handed_on: str) -> Path:
    """A stand-in for the tree: the folders down to `own`, with what each hands on; where a process is told it is."""
    folder = mount
    for name in ("", *own.strip("/").split("/")):
        folder = folder / name
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(handed_on.get(name.replace(".", "_") or "root", ""))
    about = mount / "about"
    about.write_text(f"3:cpuset:/elsewhere\n0::{own}\n")
    return about


@pytest.mark.parametrize(
    ("handed_on", "found"),
    [
        ({"user_slice": "cpu memory pids"}, "user.slice"),
        ({"root": "memory", "user_slice": "memory"}, "user.slice"),
        ({"root": "memory"}, "."),
        ({"root": "cpu pids"}, None),
        ({"session_scope": "memory"}, "user.slice/session.scope"),
    ],
)
def test_the_nearest_folder_that_hands_memory_on(tmp_path: Path, handed_on: dict[str, str], found: str | None) -> None:
    about = tree(tmp_path, "/user.slice/session.scope", **handed_on)
    assert cgroups.place(tmp_path, about) == (found and tmp_path / found)


def test_where_there_is_no_tree_there_is_no_place(tmp_path: Path) -> None:
    about = tmp_path / "about"
    assert cgroups.place(tmp_path, about) is None
    about.write_text("9:name=systemd:/\n")
    assert cgroups.place(tmp_path, about) is None


def test_a_group_says_its_limits_and_takes_processes(tmp_path: Path) -> None:
    group = cgroups.Group(tmp_path, 123, 5000)
    (group.folder / "memory.swap.max").exists()
    assert {path.name: path.read_text() for path in group.folder.iterdir()} == {
        "memory.max": "5000",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
    }
    group.add(77)
    assert (group.folder / "cgroup.procs").read_text() == "77"


def test_nothing_is_left_of_graders_that_are_gone(tmp_path: Path) -> None:
    dead, own, other = (tmp_path / f"headroom-{number}-x" for number in (2**22 + 1, os.getpid(), os.getppid()))
    elsewhere = tmp_path / "elsewhere"
    for folder in (dead, own, other, elsewhere):
        folder.mkdir()
    (tmp_path / f"headroom-{2**22 + 1}-link").symlink_to(elsewhere)
    cgroups.sweep(tmp_path, os.getpid())
    assert [folder.exists() for folder in (dead, own, other, elsewhere)] == [False, False, True, True]


@pytest.mark.parametrize(("megabytes", "survives"), [(20, True), (200, False)])
def test_memory_that_no_process_shows_is_held_in_sum(
    monkeypatch: pytest.MonkeyPatch, megabytes: int, survives: bool
) -> None:
    """Shared, written and taken out of the own map again; the system ends the process, and nobody has to look."""
    place = cgroups.place()
    if place is None and os.access(OLD, os.W_OK) and (OLD / "memory.limit_in_bytes").exists():
        monkeypatch.setattr(cgroups, "MOST", "memory.limit_in_bytes")
        place = OLD
    if place is None:
        pytest.skip("no control group of memory can be made here")
    try:
        group = cgroups.Group(place, os.getpid(), 100 << 20)
    except OSError as problem:
        pytest.skip(f"no control group of memory can be made here: {problem}")
    ready, go = os.pipe()
    if not (process := os.fork()):
        os.read(ready, 1)
        held = mmap.mmap(-1, megabytes << 20)
        for _ in range(megabytes):
            held.write(b"x" * (1 << 20))
            held.madvise(mmap.MADV_DONTNEED)
        os._exit(0)
    try:
        group.add(process)
    except OSError as problem:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        group.close()
        pytest.skip(f"no process can be moved here: {problem}")
    os.write(go, b"x")
    _, status = os.waitpid(process, 0)
    group.close()
    assert os.waitstatus_to_exitcode(status) == (0 if survives else -signal.SIGKILL)
    assert not group.folder.exists()
