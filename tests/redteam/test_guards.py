"""Each guard of the sandbox is taken out, and the attack that it stops then succeeds.

Where root runs the tests, an ordinary user runs this file, and what kernels take, once more: the weaker sandbox,
Landlock's, is for that user.
"""

import asyncio
import contextlib
import os
import select
import shutil
import socket
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from autograder.course import course_of
from autograder.kernels import launch, provisioner, relay
from tests.redteam import light, machine
from tests.redteam.guards import GUARDS, WRITE
from tests.redteam.sandboxes import BOTH, LIMITS, STOLEN, Kernel, Parents, attempt

CASES = [pytest.param(kind, i, id=f"{kind}-{guard.name}") for i, guard in enumerate(GUARDS) for kind in guard.kinds]


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_guard(parents: Parents, used, tmp_path: Path, kind: str, number: int) -> None:
    guard = GUARDS[number]
    if guard.root is not None and guard.root != (os.geteuid() == 0):
        pytest.skip("for root only" if guard.root else "not for root")
    used(parents.get(kind))
    assert STOLEN not in attempt(tmp_path, guard.code, guard.beside, guard.limits)
    text = (launch.HERE / "sandbox.py").read_text(encoding="utf-8")
    for old, new in guard.without:
        assert text.count(old) == 1, f"sandbox.py does not say this exactly once: {old!r}"
        text = text.replace(old, new)
    (parents.get(kind).code / "without.py").write_text(text, encoding="utf-8")
    used(parents.get(kind), "without.py")
    assert STOLEN in attempt(tmp_path, guard.code, guard.beside, guard.limits)


# --- What is not in sandbox.py -----------------------------------------------------------------------------------


def test_no_process_of_another_kernel_is_reached(parents: Parents, used, tmp_path: Path) -> None:
    """parent.py begins a PID namespace for each kernel; without it kernels see, and where they may kill, each other."""
    edits = [
        ("parent.py", '                sandbox.call("setns", self.own_processes, sandbox.NEWPID)\n', ""),
        ("parent.py", '                sandbox.call("unshare", sandbox.NEWPID)\n', ""),
    ]
    look = "import os\nif len([p for p in os.listdir('/proc') if p.isdigit()]) > 1: print('STO' 'LEN')"
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, look, beside="1")
    used(parents.light("namespaces", *edits))
    assert STOLEN in attempt(tmp_path, look, beside="1") or os.geteuid() != 0


def test_no_descriptor_is_inherited(parents: Parents, used, tmp_path: Path) -> None:
    """parent.py closes all that a fork inherits; without it a kernel could ask the parent for other kernels."""
    look = (
        "import os, socket, stat\n"
        "for fd in range(3, 256):\n"
        "    try:\n"
        "        if stat.S_ISSOCK(os.fstat(fd).st_mode):\n"
        "            kind = socket.socket(fileno=os.dup(fd)).type\n"
        "            if kind == socket.SOCK_SEQPACKET: print('STO' 'LEN', fd)\n"
        "    except OSError: pass"
    )
    edit = ("parent.py", "            os.closerange(KEPT + len(kept), 4096)\n", "")
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, look)
    used(parents.light("namespaces", edit))
    assert STOLEN in attempt(tmp_path, look)


def test_the_meeting_place_has_a_size(parents: Parents, used, tmp_path: Path) -> None:
    """sandbox.mount_folder, which the parent makes; without its size a kernel fills the parent's memory."""
    fill = WRITE + "import glob\nif fill(glob.glob('/run/k*')[0], 8, 4_000_000) > 20_000_000: print('STO' 'LEN')"
    edit = ("sandbox.py", 'f"size=1m,nr_inodes=64,mode=700{owner}"', 'f"nr_inodes=64,mode=700{owner}"')
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, fill)
    used(parents.light("namespaces", edit))
    assert STOLEN in attempt(tmp_path, fill)


@pytest.mark.parametrize("flag", ["--unshare-net", "--unshare-cgroup"])
def test_what_bubblewrap_is_told(
    parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    """launch.py; without a network namespace abstract sockets of the machine can be reached, which are no files."""
    name = f"\0guard-{os.getpid()}"
    code = {
        "--unshare-net": f"import socket\nsocket.socket(socket.AF_UNIX).connect({name!r})\nprint('STO' 'LEN')",
        "--unshare-cgroup": "for line in open('/proc/self/cgroup'):\n"
        "    if line.strip()[-2:] != ':/': print('STO' 'LEN')",
    }[flag]
    if flag == "--unshare-cgroup" and all(
        line.endswith(":/") for line in Path("/proc/self/cgroup").read_text().splitlines()
    ):
        pytest.skip("this machine has one control group only")
    made = launch.WarmParent._bubblewrap
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        used(parents.light("namespaces"))
        assert STOLEN not in attempt(tmp_path, code)
        monkeypatch.setattr(
            launch.WarmParent,
            "_bubblewrap",
            lambda self, command: [word for word in made(self, command) if word != flag],
        )
        parent = launch.WarmParent("namespaces", light.light(parents.folder / flag))
        try:
            used(parent)
            assert STOLEN in attempt(tmp_path, code)
        finally:
            parent.close()


def test_no_device_is_shared_memory(parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """launch.DEVICES; of what is mapped from /dev/zero no process shows what it holds."""
    code = (
        "import mmap, os\nkept = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)\nkept.write(b'x')\n"
        "kept.madvise(mmap.MADV_DONTNEED)\nif kept[0]: print('STO' 'LEN')"
    )
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, code)
    monkeypatch.setattr(launch, "DEVICES", (*launch.DEVICES, "zero"))
    with contextlib.closing(launch.WarmParent("namespaces", light.light(parents.folder / "zero"))) as parent:
        used(parent)
        assert STOLEN in attempt(tmp_path, code)


OUTSIDE = """
import os, socket
file, listens, hears = {file!r}, {listens!r}, {hears!r}
def pair(kind): return socket.socketpair(socket.AF_UNIX, kind)[0]
for name, attack in (
    ("permissions", lambda: os.chmod(file, 0o777)),
    ("dates", lambda: os.utime(file, (1, 1))),
    ("attributes", lambda: os.setxattr(file, "user.redteam", b"x")),
    ("connected", lambda: socket.socket(socket.AF_UNIX).connect(listens)),
    ("1", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"1", hears)),
    ("2", lambda: pair(socket.SOCK_DGRAM).sendmsg([b"2"], [], 0, hears)),
    ("3", lambda: pair(socket.SOCK_RAW).sendmsg([b"3"], [], 0, hears)),
    ("4", lambda: pair(socket.SOCK_SEQPACKET).sendmsg([b"4"], [], 0, hears)),
):
    try: attack()
    except OSError as error: print(name, error)
"""


def test_files_and_sockets_outside_stay_as_they_are(parents: Parents, used, tmp_path: Path) -> None:
    """sandbox.py refuses what Landlock does not look at; seen from outside, because some of it is said to be done."""
    folder = Path(tempfile.mkdtemp(prefix="headroom-test-", dir="/tmp"))  # short: sockets' paths
    file, listens, hears = folder / "file", folder / "listens", folder / "hears"
    file.touch(mode=0o600)
    about = file.stat()
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as post:
            server.bind(str(listens))
            server.listen()
            post.bind(str(hears))
            post.setblocking(False)
            if os.geteuid() == 0:  # whose kernels run as nobody, who is to reach them but for the rule
                for path in (folder, file, listens, hears):
                    os.chown(path, launch.NOBODY, launch.NOBODY)

            def reached() -> set[str]:
                attempt(tmp_path, OUTSIDE.format(file=str(file), listens=str(listens), hears=str(hears)))
                now = file.stat()
                found = {
                    "permissions": now.st_mode != about.st_mode,
                    "dates": now.st_mtime != about.st_mtime,
                    "attributes": "user.redteam" in os.listxattr(file),
                    "connected": bool(select.select([server], [], [], 0)[0]),
                }
                with contextlib.suppress(BlockingIOError):
                    while True:
                        found[post.recv(9).decode()] = True
                return {name for name, done in found.items() if done}

            used(parents.light("landlock"))
            assert reached() == set()
            used(
                parents.light(
                    "landlock", ("sandbox.py", '    if kind == "landlock":\n        rule(', "    if 0:\n        rule(")
                )
            )
            assert reached() >= {"permissions", "dates", "connected", "1", "2", "3"}  # not all disks have attributes
    finally:
        shutil.rmtree(folder)


def test_no_variable_of_the_grader_is_passed_on(
    parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """provisioner.py passes on a few by name; without that list a kernel reads tokens."""
    monkeypatch.setenv("HEADROOM_TEST_SECRET", "sk-1")
    code = "import os\nif 'HEADROOM_TEST_SECRET' in os.environ: print('STO' 'LEN')"
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, code)
    monkeypatch.setattr(provisioner, "PASSED_ON", tuple(os.environ))
    assert STOLEN in attempt(tmp_path, code)


def test_links_are_not_followed(parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """provisioner.py packs plain files only; without that a link brings a secret, or blocks as a pipe does."""
    (tmp_path / "secret").write_text("sk-1")
    handed_in = tmp_path / "handed_in"
    handed_in.mkdir()
    (handed_in / "link").symlink_to(tmp_path / "secret")
    code = "if open('link').read() == 'sk-1': print('STO' 'LEN')"
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(handed_in, code)

    def packed(source: Path, target: IO[bytes], most: int) -> tuple[str, ...]:
        with tarfile.open(fileobj=target, mode="w", dereference=True) as archive:
            archive.add(source, ".")
        return ()

    monkeypatch.setattr(provisioner, "pack_plain_files", packed)
    assert STOLEN in attempt(handed_in, code)


SENDS = """
import time
session, thread = get_ipython().kernel.session, get_ipython().kernel.iopub_thread
parts = [b"x" * {size} for _ in range({parts})]
session.send(get_ipython().kernel.iopub_socket, "display_data", {{"data": {{}}, "metadata": {{}}}}, buffers=parts)
time.sleep(2)
"""


@pytest.mark.parametrize(("parts", "size"), [(1, 33_000_000), (40, 1_000_000), (40_000, 0)])
def test_a_message_has_a_size(
    parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int, size: int
) -> None:
    """relay.py; without it a kernel has the grader hold what it likes, in parts of which each is small."""

    async def ended() -> tuple[bool, bool]:
        async with Kernel(tmp_path, {"memory_mb": 1000}) as kernel:
            said = await kernel.run(SENDS.format(parts=parts, size=size), 60)
            return "ended" in said, kernel.manager.provisioner.said_too_much

    used(parents.light("namespaces"))
    assert asyncio.run(ended()) == (True, True)
    monkeypatch.setattr(relay.Counter, "fits", lambda self, data: True)
    assert asyncio.run(ended()) == (False, False)


def test_no_path_of_a_kernel_is_looked_up_twice(
    parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """relay.py; without it ZeroMQ connects anew, to where a link leads that the kernel puts in its socket's place."""
    folder = Path(tempfile.mkdtemp(prefix="headroom-test-", dir="/tmp"))
    attack = (
        "import glob, os, stat, time\n"
        "for path in glob.glob('/run/k*/s-*'):\n"
        f"    os.remove(path); os.symlink({str(folder / 'host')!r}, path)\n"
        "for fd in range(3, 256):\n"
        "    try:\n"
        "        if stat.S_ISSOCK(os.fstat(fd).st_mode): os.close(fd)\n"
        "    except OSError: pass\n"
        "time.sleep(3)"
    )

    class Direct:
        """What was there before: the client's paths are the kernel's."""

        def __init__(self, here: str, there: str, numbers: Iterable[int], *_: object) -> None:
            for number in numbers:
                os.symlink(f"{there}-{number}", f"{here}-{number}")

        def close(self) -> None:
            pass

    async def connected() -> bool:
        async with Kernel(tmp_path) as kernel:
            await kernel.run(attack, 2)
            return bool(select.select([server], [], [], 1)[0])

    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "host"))
            server.listen()
            used(parents.light("namespaces"))
            assert not asyncio.run(connected())
            monkeypatch.setattr(provisioner, "Relay", Direct)
            # Now and then the kernel ends of its own closed sockets before ZeroMQ has tried again.
            assert any(asyncio.run(connected()) for _ in range(5))
    finally:
        shutil.rmtree(folder)


def test_no_note_is_taken_back(parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """launch.py; a pipe in place of the socket is opened again, and emptied, by whoever holds its other end."""
    notes = (
        "import os\n"
        "try: open('/etc/shadow')\n"
        "except OSError: pass\n"
        "for fd in range(3, 20):\n"
        "    try: os.read(os.open(f'/proc/self/fd/{fd}', os.O_RDONLY | os.O_NONBLOCK), 1 << 20)\n"
        "    except OSError: pass"
    )

    async def noted() -> bool:
        async with Kernel(tmp_path) as kernel:
            await kernel.run(notes)
            return any("/etc/shadow" in note for note in kernel.manager.provisioner.notes())

    used(parents.light("namespaces"))
    assert asyncio.run(noted())
    if os.geteuid():  # root's kernels run as another user, who may not open a pipe of root's
        monkeypatch.setattr(launch, "_one_way", os.pipe)
        assert not asyncio.run(noted())


def test_a_kernel_is_in_its_group_before_it_has_the_submission(
    parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """provisioner.py; a folder stands in for the tree of control groups, as few machines let the tests make one."""
    parent = parents.light("namespaces")
    used(parent)
    monkeypatch.setattr(parent, "groups", tmp_path)
    send, joined = launch.Fork.send_submission, []

    def seen(fork: launch.Fork, *submission: object) -> None:
        joined.extend((path.read_text(), fork.process_id) for path in tmp_path.glob("headroom-*/cgroup.procs"))
        send(fork, *submission)

    monkeypatch.setattr(launch.Fork, "send_submission", seen)
    attempt(tmp_path, "")
    ((told, process),) = joined
    assert int(told) == process
    (most,) = (int(path.read_text()) for path in tmp_path.glob(f"headroom-{parent.owner}-*/memory.max"))
    assert most == (LIMITS["memory_mb"] + 2 * LIMITS["disk_mb"]) << 20  # what lies in memory as files counts too


COURSE = Path(find_spec("headroom").origin).parents[1]
OPENS = """
for path in {paths!r}:
    try:
        with open(path): print("opened", path)
    except OSError: pass
"""


@pytest.mark.parametrize("kind", BOTH)
def test_of_the_course_only_what_it_names_is_in_reach(parents: Parents, used, tmp_path: Path, kind: str) -> None:
    """launch.py; widgets, checkpoints, the reference, the exercises, the judge and solutions/ are what must not be."""
    secret = ("headroom/widgets", "headroom/checkpoints", "headroom/reference", "autograder", "solutions", "tests")
    places = [path for name in (*secret, "headroom/data") for path in (COURSE / name).rglob("*") if path.is_file()]
    places = [path for path in places if path.suffix != ".pyc"]  # which come and go while tests run
    assert all(any(path.is_relative_to(COURSE / name) for path in places) for name in secret)
    course = course_of(COURSE)

    def opened() -> set[Path]:
        said = attempt(tmp_path, OPENS.format(paths=[str(path) for path in places]))
        return {Path(line.removeprefix("opened ")) for line in said.splitlines() if line.startswith("opened ")}

    used(parents.light(kind))
    named = {path for path in places if any(path.is_relative_to(COURSE / name) for name in course.importable)}
    assert opened() == named and {path.name for path in named} > {"loss.py", "schedule.py"}
    more = replace(course, importable=("headroom",))
    parent = launch.WarmParent(kind, light.light(parents.folder / f"all-{kind}"), more)
    try:
        used(parent)
        assert opened() == {path for path in places if path.is_relative_to(COURSE / "headroom")}
    finally:
        parent.close()


@pytest.mark.full
def test_the_same_for_an_ordinary_user(tmp_path: Path) -> None:
    """All of the above, and what kernels take, once more, also in the weaker sandbox, which root does not use."""
    if reason := machine.why_not_another_user():
        pytest.skip(reason)
    course = tmp_path / "course"
    course.mkdir()
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-o", "addopts=", "-rs", "--basetemp", str(course / "base")]
    command += [str(Path(__file__)), str(Path(__file__).with_name("test_kernels.py"))]
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    (left,) = machine.run(command, course, environment, machine.ORDINARY)
    said = (tmp_path / "course-log-0.txt").read_text()
    print(said)
    assert left.status == 0, said[-6000:]
