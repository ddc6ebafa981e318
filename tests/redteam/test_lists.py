"""What the sandbox refuses, mounts, passes on and notes, held against a second list: a name less is a hole more.

The attacks of guards.py show that a list has an effect; they read it, so that a name that is gone is not missed.
"""

import importlib
import os
import re
import sys
import tarfile
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from autograder.course import Course
from autograder.kernels import cgroups, launch, provisioner, sandbox
from autograder.kernels.launch import WarmParent
from tests.redteam.test_promises import PAGE

# By what a program could do with them.
REFUSED = {
    "mounts": "mount umount2 pivot_root fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr",
    "what memory is swapped to": "swapon swapoff",
    "namespaces": "chroot unshare setns",
    "files around permissions": "open_by_handle_at name_to_handle_at fanotify_init quotactl acct",
    "less trodden paths": "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register",
    "keys": "keyctl add_key request_key",
    "the kernel itself": "kexec_load kexec_file_load init_module finit_module delete_module reboot iopl ioperm syslog",
    "other processes": "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp personality",
    "their priorities": "sched_setaffinity setpriority ioprio_set",
    "the clock": "settimeofday clock_settime clock_adjtime adjtimex",
    "memory that no process shows": "shmget msgget semget mq_open memfd_create memfd_secret vmsplice",
}
UNDONE = {
    "permissions": "chmod fchmod fchmodat",
    "owners": "chown fchown lchown fchownat",
    "dates": "utime utimes futimesat utimensat",
}
BESIDE_LANDLOCK = {
    "attributes": "setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr",
    "sockets that lie there": "connect",
    "who uses which file when": "inotify_init inotify_init1",
    "emptying": "truncate openat2",
}


def names(groups: dict[str, str]) -> list[str]:
    return sorted(name for group in groups.values() for name in group.split())


@pytest.mark.parametrize(
    ("listed", "groups"),
    [
        (sandbox.REFUSED, REFUSED),
        (sandbox.UNDONE, UNDONE),
        (sandbox.REFUSED_BESIDE_LANDLOCK, BESIDE_LANDLOCK),
        (sandbox.PRIORITIES, {"": "sched_setscheduler sched_setparam sched_setattr"}),
    ],
)
def test_a_system_call_that_is_refused_stays_refused(listed: str, groups: dict[str, str]) -> None:
    assert sorted(listed.split()) == names(groups)


def test_those_are_refused_that_are_newer_than_the_lists() -> None:
    assert range(450, 512) == sandbox.NEWEST and sandbox.DATAGRAMS == (2, 3) and sandbox.ELSEWHERE == 500


# --- What bubblewrap is told ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", [True, False])
def test_the_warm_parent_has_namespaces_of_its_own_and_nothing_that_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    parent: Any = WarmParent.__new__(WarmParent)
    parent._readable, parent.code, parent.run = ["/usr", str(tmp_path / "deep" / "course.py")], launch.HERE, tmp_path
    line: list[str] = parent._bubblewrap(["python", "parent.py"])
    of = {
        kind: [] for kind in ("--ro-bind", "--dev-bind", "--symlink", "--tmpfs", "--remount-ro", "--cap-add", "--dir")
    }
    for at, word in enumerate(line):
        if word in of:
            of[word].append(line[at + 1])
    unshared = {word for word in line if word.startswith("--unshare-")}
    assert unshared == {
        f"--unshare-{what}" for what in ("pid", "net", "ipc", "uts", "cgroup", *([] if root else ["user"]))
    }
    assert "--die-with-parent" in line and line[-3:] == ["--", "python", "parent.py"]
    assert of["--cap-add"] == (["ALL"] if root else ["CAP_SYS_ADMIN"])
    assert of["--ro-bind"] == ["/usr", str(tmp_path / "deep" / "course.py"), str(launch.HERE), str(tmp_path)]
    assert of["--dev-bind"] == [f"/dev/{name}" for name in ("null", "full", "random", "urandom")]
    assert of["--tmpfs"] == ["/", "/tmp", "/run", "/dev"] and of["--remount-ro"] == ["/", "/dev"]
    assert str(tmp_path / "deep") in of["--dir"], "or only root could look for anything below"
    assert not {"--bind", "--share-net", "--bind-try", "--dev"} & {*line}


def test_of_the_machine_a_kernel_reads_nothing_that_tells_of_its_users() -> None:
    assert {*launch.OF_ETC} == {
        *("alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types"),
        "ssl/openssl.cnf",
    }
    outside = [path for path in launch._of_the_system() if path.is_relative_to("/etc")]
    assert {path.relative_to("/etc").as_posix() for path in outside} <= {*launch.OF_ETC}
    assert launch.NOBODY == 65534


def test_a_course_among_what_kernels_must_read_is_refused_and_where_else_it_may_lie_is_said(tmp_path: Path) -> None:
    with pytest.raises(launch.NoIsolation, match="the course lies in /usr/share/x, among what kernels must"):
        launch.readable(Course(Path("/usr/share/x"), "exercises"))
    listed = launch.readable(Course(tmp_path, "exercises", ("plots.py", "data")))
    assert listed[-2:] == [f"{tmp_path}/plots.py", f"{tmp_path}/data"] and "/usr" in listed
    assert not any(Path(one).is_relative_to(other) for one in listed for other in listed if one != other)


def test_the_page_names_each_variable_that_is_passed_on() -> None:
    (said,) = re.findall(r"no environment variable of yours but ([^;]*?), and two in which nbgrader says", PAGE)
    named = re.findall(r"`(\w+)`", said)
    assert [*provisioner.PASSED_ON] == [*named, "NBGRADER_EXECUTION", "NBGRADER_VALIDATING"]


def test_a_group_bounds_what_is_swapped_out_and_ends_as_a_whole(tmp_path: Path) -> None:
    group = cgroups.Group(tmp_path, 1, 10**9)
    told = {path.name: path.read_text() for path in group.folder.iterdir()}
    assert told == {"memory.max": f"{10**9}", "memory.swap.max": "0", "memory.oom.group": "1"}


# --- What a kernel has at hand ----------------------------------------------------------------------------------------


def test_a_kernel_gets_plain_files_up_to_a_number_and_a_sum(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("a", "b", "deep/c", "large"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * (100 if name == "large" else 10))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("a")

    def packed(most: int) -> tuple[set[str], set[str]]:
        with tempfile.TemporaryFile() as file:
            left_out = provisioner.pack_plain_files(tmp_path, file, most)
            file.seek(0)
            with tarfile.open(fileobj=file) as archive:
                assert all(member.isreg() for member in archive)
                return {member.name for member in archive}, {*left_out}

    assert packed(1000) == ({"a", "b", "deep/c", "large"}, {"pipe", "link"})
    taken, left_out = packed(60)
    assert "large" in left_out and taken == {"a", "b", "deep/c"}
    monkeypatch.setattr(provisioner, "MAX_FILES", 2)
    taken, left_out = packed(1000)
    assert len(taken) == 2 and len(left_out) == 4


# --- What is noted ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parent() -> ModuleType:
    """parent.py, which imports its neighbours as the scripts that they are."""
    before = {*sys.modules}
    sys.path.insert(0, str(launch.HERE))
    try:
        return importlib.import_module("parent")
    finally:
        sys.path.remove(str(launch.HERE))
        for name in {"parent", "sandbox", "processes"} - before:
            sys.modules.pop(name, None)


# What Python says to its audit hooks (https://docs.python.org/3/library/audit_events.html), and what the note is.
EVENTS: dict[str, tuple[tuple[Any, ...], str]] = {
    "ctypes.dlopen": (("libm.so",), "loaded the library 'libm.so' through ctypes"),
    "os.exec": (("/bin/sh", ["sh"], None), "ran the program '/bin/sh'"),
    "os.fork": ((), "forked"),
    "os.kill": ((17, 9), "sent signal 9 to process 17"),
    "os.killpg": ((17, 9), "sent signal 9 to process group 17"),
    "os.posix_spawn": (("/bin/sh", ["sh"], {}), "ran the program '/bin/sh'"),
    "os.system": ((b"ls",), "ran the shell command b'ls'"),
    "socket.bind": (("self", ("", 80)), "opened a port: ('', 80)"),
    "socket.connect": (("self", ("a.b", 80)), "connected to ('a.b', 80)"),
    "socket.getaddrinfo": (("a.b", 80, 0, 0, 0), "looked up the address of 'a.b'"),
    "subprocess.Popen": (("sh", ["ls", "-l"], None, None), "ran the program ['ls', '-l']"),
}


def noted(parent: ModuleType, *events: tuple[str, tuple[Any, ...]]) -> list[str]:
    notes, (read, write) = parent.Notes(), os.pipe()
    try:
        notes.hook("os.fork", ())  # before the student's first line
        notes.start(write, ("/usr/lib/", "/tmp/own/"))
        for event, values in events:
            notes.hook(event, values)
        os.set_blocking(read, False)
        try:
            return os.read(read, 1 << 20).decode().splitlines()
        except BlockingIOError:
            return []
    finally:
        os.close(read)
        os.close(write)


def test_each_thing_that_a_notebook_has_no_need_to_do_has_its_note(parent: ModuleType) -> None:
    assert {*parent.NOTED} == {*EVENTS}
    for event, (values, note) in EVENTS.items():
        assert noted(parent, (event, values)) == [note]


def test_what_is_opened_elsewhere_and_imported_of_the_course_is_noted_once(parent: ModuleType) -> None:
    opened = [("open", (path, "r", 0)) for path in ("/etc/passwd", "/usr/lib/a.py", "/tmp/own/x", "/etc/passwd", 7)]
    assert noted(parent, *opened) == ["opened '/etc/passwd'"]
    names = ("autograder.judge", "numpy", "autograder.judge", "nbgrader")
    imported = noted(parent, *(("import", (name, None)) for name in names))
    assert imported == ["imported autograder.judge", "imported nbgrader"]


def test_notes_are_short_and_few_and_raise_nothing(parent: ModuleType) -> None:
    many = [("os.system", (f"{n} " + "x\n" * 1000,)) for n in range(500)]
    lines = noted(parent, ("os.kill", ()), *many)
    assert len(lines) == parent.MAX_NOTES == 100 and all(len(line) <= parent.MAX_NOTE == 300 for line in lines)
