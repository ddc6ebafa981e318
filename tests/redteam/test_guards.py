"""Each guard of the sandbox is taken out, and the attack that it stops then succeeds.

Where root runs the tests, an ordinary user runs this file once more: the weaker sandbox, Landlock's, is for that user.
"""

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from jupyter_client import AsyncKernelManager
from traitlets.config import Config

from autograder.course import course_of
from autograder.kernels import launch, provisioner, relay
from autograder.kernels.provisioner import IsolatedKernelSpecs, PromptClient
from tests.redteam import light, machine

STOLEN = "STOLEN"
LIMITS = {"memory_mb": 300, "disk_mb": 16, "file_mb": 8, "processes": 24}
# The forked kernel takes its sandbox from a file that the test names: one warm parent serves for all of them.
ENTER = '    work = sandbox.enter(kind, run, request["limits"])\n'
VARIANT = f"""    if variant := os.environ.pop("HEADROOM_VARIANT", ""):
        readable = sandbox.READABLE
        exec(compile(Path(__file__).with_name(variant).read_text(), variant, "exec"), sandbox.__dict__)
        sandbox.READABLE = readable
{ENTER}"""


@dataclass
class Guard:
    """What is taken out of sandbox.py, and the attack that it stops, which prints STOLEN where it succeeds.

    Args:
        without: pairs of a text that is there exactly once, and of what comes in its place.
        code: run in a kernel.
        beside: run before that in another kernel, which was there first and goes on.
        root: true for what only matters where root grades, false for what only matters where not.
        stays: whether the kernel must still be there after the attack.
    """

    name: str
    without: list[tuple[str, str]]
    code: str
    beside: str = ""
    kinds: tuple[str, ...] = ("namespaces",)
    root: bool | None = None
    limits: dict[str, int] = field(default_factory=dict)


BOTH = ("namespaces", "landlock")
STATUS = "about = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)\n"
WRITE = """
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def fill(folder, files, each):
    wrote = 0
    try:
        for i in range(files):
            with open(f"{folder}/redteam_{i}", "wb") as file:
                if each: file.write(bytes(each)); file.flush()
            wrote += each or 1
    except OSError as error:
        print(error)
    for i in range(files):
        try: os.remove(f"{folder}/redteam_{i}")
        except OSError: break
    return wrote
"""
THREADS = """
import threading
threading.stack_size(1 << 18)
end = threading.Event()
def start(count):  # to a limit on processes a thread is one, and it begins sooner
    for _ in range(count): threading.Thread(target=end.wait, daemon=True).start()
"""
SYSCALL = """
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *values):
    ctypes.set_errno(0)
    result = libc.syscall(number, *values)
    return result, ctypes.get_errno()
"""

CHILD = """
import os, resource, time
if not (child := os.fork()): time.sleep(60); os._exit(0)
"""

GUARDS = [
    Guard(
        "goes first when memory is short",
        [('    Path("/proc/self/oom_score_adj").write_text("1000")\n', "")],
        "if open('/proc/self/oom_score_adj').read().strip() != '1000': print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "not root",
        [
            ("        os.setresuid(*3 * [instead_of_root])\n", ""),
            ('_ordinary_user(limits["user"], about)', '_ordinary_user(limits["user"], None)'),
            ('    call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))\n', ""),
        ],
        "import os\nif 0 in (os.getuid(), os.geteuid()): print('STO' 'LEN')",
        root=True,
    ),
    Guard(
        "not in root's group",
        [("        os.setresgid(*3 * [instead_of_root])\n", "")],
        "import os\nif 0 in (os.getgid(), os.getegid()): print('STO' 'LEN')",
        root=True,
    ),
    Guard(
        "in no further groups",
        [("        os.setgroups([])\n", "")],
        "import os\nprint(os.getgroups())\nif os.getgroups(): print('STO' 'LEN')",
        root=True,
    ),
    Guard(
        "processes counted apart",
        [('_ordinary_user(limits["user"], about)', '_ordinary_user(limits["user"], None)')],
        THREADS + "try: start(60)\nexcept RuntimeError as error: print('STO' 'LEN', error)",
        beside=THREADS + "start(80)",
        limits={"processes": 100, "memory_mb": 2000},
    ),
    Guard(
        "no capabilities within reach",
        [("    for capability in range(64):\n", "    for capability in range(0):\n")],
        STATUS + "print(about['CapBnd'])\nif int(about['CapBnd'], 16): print('STO' 'LEN')",
    ),
    Guard(
        "no capabilities",
        [('    call("capset", struct.pack("Ii", 0x20080522, 0), bytes(24))\n', "")],
        STATUS + "if int(about['CapEff'], 16): print('STO' 'LEN')",
    ),
    Guard(
        "private memory",
        [('    limit(resource.RLIMIT_DATA, used["VmData"] + memory)', "    pass")],
        "kept = bytearray(830_000_000)\nprint('STO' 'LEN')",
        kinds=BOTH,
        limits={"memory_mb": 800},
    ),
    Guard(
        "maps",
        [('    limit(resource.RLIMIT_AS, used["VmSize"] + 2 * memory)', "    pass")],
        "import mmap\n"
        "kept = mmap.mmap(-1, 900_000_000, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)\n"
        "print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "shared memory that no process shows",
        [
            (
                '    rules.add_rule(refuse, "mmap", '
                "seccomp.Arg(3, seccomp.MASKED_EQ, SHARED | ANONYMOUS, SHARED | ANONYMOUS))\n",
                "",
            )
        ],
        "import mmap\nfor _ in range(2):\n"
        "    kept = mmap.mmap(-1, 4096)\n    kept.write(b'x')\n    kept.madvise(mmap.MADV_DONTNEED)\n"
        "print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "goes first for good",
        [("MS_NOEXEC | MS_RDONLY)", "MS_NOEXEC)")],
        "import os\n"
        "for process in ('self', '1'):\n"
        "    try: open(f'/proc/{process}/oom_score_adj', 'w').write('0')\n"
        "    except OSError as error: print(error)\n"
        "if open('/proc/self/oom_score_adj').read().strip() != '1000': print('STO' 'LEN')",
    ),
    Guard(
        "processes",
        [("    limit(resource.RLIMIT_NPROC, processes)", "    pass")],
        "import os, time\nfor _ in range(40):\n    if not os.fork(): time.sleep(60); os._exit(0)\nprint('STO' 'LEN')",
    ),
    Guard(
        "size of a file",
        [('    limit(resource.RLIMIT_FSIZE, limits["file_mb"] * MB)', "    pass")],
        WRITE + "if fill('.', 1, 12_000_000) > 10_000_000: print('STO' 'LEN')",
        kinds=BOTH,
        limits={"memory_mb": 1000},
    ),
    Guard(
        "processor time",
        [('    limit(resource.RLIMIT_CPU, limits["cpu_s"], limits["cpu_s"] + 1)', "    pass")],
        "import time, signal\n"
        "signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n"
        "start = time.process_time()\n"
        "while time.process_time() - start < 2.2: pass\n"
        "print('STO' 'LEN')",
        kinds=BOTH,
        limits={"cpu_s": 1},
    ),
    Guard(
        "open files",
        [("    limit(resource.RLIMIT_NOFILE, 256)\n", "")],
        "kept = [open('/dev/null') for _ in range(400)]\nprint('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "core dumps",
        [("    limit(resource.RLIMIT_CORE, 0)", "    pass")],
        "import resource\nif resource.getrlimit(resource.RLIMIT_CORE)[1]: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "locked memory",
        [("    limit(resource.RLIMIT_MEMLOCK, 0)", "    pass")],
        "import mmap, ctypes\n"
        "block = mmap.mmap(-1, 65536, flags=mmap.MAP_PRIVATE)\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(block))\n"
        "if ctypes.CDLL(None).mlock(ctypes.c_void_p(at), 65536) == 0: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "system calls",
        [("    rule(refuse, REFUSED)\n", "")],
        SYSCALL
        + """
import pyseccomp, sandbox
refused = 0
for name in sandbox.REFUSED.split():
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if number >= 0:
        result, error = call(number, *[ctypes.c_long(-1)] * 6)
        if error != errno.EPERM: print('STO' 'LEN', name, result, errno.errorcode.get(error))
        else: refused += 1
print(refused, "refused")
""",
        kinds=BOTH,
    ),
    Guard(
        "the newest system calls",
        [("        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), number)\n", "        pass\n")],
        SYSCALL
        + """
for number in range(450, 512):
    result, error = call(number, *[ctypes.c_long(-1)] * 6)
    if error != errno.ENOSYS: print('STO' 'LEN', number, errno.errorcode.get(error))
""",
        kinds=BOTH,
    ),
    Guard(
        "limits of other processes",
        [('    rule(refuse, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))\n', "")],
        CHILD + "resource.prlimit(child, resource.RLIMIT_NOFILE, (9, 9))\nprint('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "priorities of other processes",
        [("    rule(seccomp.ERRNO(0), PRIORITIES, seccomp.Arg(0, seccomp.NE, 0))\n", "")],
        CHILD + "os.sched_setscheduler(child, os.SCHED_BATCH, os.sched_param(0))\n"
        "if os.sched_getscheduler(child) == os.SCHED_BATCH: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "what Landlock does not look at",
        [("        rule(refuse, REFUSED_BESIDE_LANDLOCK)\n", "")],
        SYSCALL
        + """
import pyseccomp, sandbox
for name in sandbox.REFUSED_BESIDE_LANDLOCK.split():
    number = pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if number >= 0:
        result, error = call(number, *[ctypes.c_long(-1)] * 6)
        if error != errno.EPERM: print('STO' 'LEN', name, result, errno.errorcode.get(error))
""",
        kinds=("landlock",),
    ),
    Guard(
        "emptying what may be read",
        [
            ('        rule(refuse, "open", seccomp.Arg(1, seccomp.MASKED_EQ, *read_only))\n', ""),
            ('        rule(refuse, "openat", seccomp.Arg(2, seccomp.MASKED_EQ, *read_only))\n', ""),
        ],
        "import os\nwith open('mine', 'w') as file: file.write('x')\nos.open('mine', os.O_RDONLY | os.O_TRUNC)\n"
        "if not os.path.getsize('mine'): print('STO' 'LEN')",
        kinds=("landlock",),
    ),
    Guard(
        "flags of files",
        [
            (
                '            rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFF00, group << 8))\n',
                "            pass\n",
            )
        ],
        "import errno, fcntl\n"
        "for request in (0x80086601, 0x801C581F):  # which ask for them; to set them is in the same groups\n"
        "    try: fcntl.ioctl(open('/usr/bin/env'), request, bytes(28)); print('STO' 'LEN')\n"
        "    except OSError as error:\n"
        "        if error.errno != errno.EPERM: print('STO' 'LEN', error)",
        kinds=("landlock",),
    ),
    Guard(
        "new namespaces by clone3",
        [('    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")\n', "")],
        SYSCALL
        + "block = struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)\n"
        + "pid, error = call(435, block, ctypes.c_size_t(88))\n"
        + "if pid == 0: os._exit(0)\n"
        + "print(pid, error)\n"
        + "if pid > 0: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "new namespaces by clone",
        [
            (
                '        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))\n',
                "        pass\n",
            )
        ],
        SYSCALL
        + "pid, error = call({'x86_64': 56, 'aarch64': 220}[os.uname().machine], 0x10000011, 0, 0, 0, 0)\n"
        + "if pid == 0: os._exit(0)\n"
        + "print(pid, error)\n"
        + "if pid > 0: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "sockets",
        [('    rules.add_rule(no_socket, "socket", seccomp.Arg(0, seccomp.NE, 1))\n', "")],
        "import socket\n"
        "for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):\n"
        "    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
        "        try: print('STO' 'LEN', socket.socket(family, kind))\n"
        "        except OSError as error: print(error)",
        kinds=BOTH,
    ),
    Guard(
        "typing into a terminal",
        [('    rules.add_rule(refuse, "ioctl", seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, 0x5412))\n', "")],
        SYSCALL
        + "for request in (0x5412, 0x5412 | 7 << 32):\n"
        + "    number = {'x86_64': 16, 'aarch64': 29}[os.uname().machine]\n"
        + "    result, error = call(number, ctypes.c_long(0), ctypes.c_long(request), b'x')\n"
        + "    if error != errno.EPERM: print('STO' 'LEN', errno.errorcode.get(error))",
        kinds=BOTH,
    ),
    Guard(
        "the whole filter",
        [("    _refuse_system_calls(kind)\n    return work\n", "    return work\n")],
        SYSCALL
        + "if not (pid := os.fork()): os._exit(7 if libc.unshare(0x10000000) == 0 else 0)\n"
        + "if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "size of the disk",
        [('f"size={size}m,nr_inodes=4096,mode=1777"', '"nr_inodes=4096,mode=1777"')],
        WRITE
        + "for place in ('.', '/tmp', '/dev/shm', '/run'):\n"
        + "    if (wrote := fill(place, 10, 6_000_000)) > 40_000_000: print('STO' 'LEN', place, wrote)",
    ),
    Guard(
        "number of files",
        [('f"size={size}m,nr_inodes=4096,mode=1777"', 'f"size={size}m,mode=1777"')],
        WRITE + "if fill('.', 4500, 0) > 4200: print('STO' 'LEN')",
        limits={"disk_mb": 64},
    ),
    Guard(
        "no way to other kernels' sockets",
        [
            (', ("/run", 1)):', "):"),
            ("    os.mkdir(run)\n    mount(f", "    mount(f"),
        ],
        "import glob, os\n"
        "found = glob.glob('/run/*/connection.json')\n"
        "print(found)\n"
        "if len([path for path in found if open(path).read()]) > 1: print('STO' 'LEN')",
        beside="1",
    ),
    Guard(
        "no sight of other processes",
        [
            ('    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)\n', ""),
            ('    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY)\n', ""),
        ],
        "import os\n"
        "found = [open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()]\n"
        "if len(found) > 1: print('STO' 'LEN', found)",
        beside="1",
    ),
    Guard(
        "nothing but Python may be opened",
        [("        _landlock(run, work, home)\n", "        pass\n")],
        f"import os\nprint('STO' 'LEN', open({str(Path(__file__).resolve())!r}).read(20), os.listdir('/'))",
        kinds=("landlock",),
    ),
    Guard(
        "nothing is written elsewhere",
        [("        _landlock(run, work, home)\n", "        pass\n")],
        "import os\nopen('/tmp/redteam_guard', 'w')\nos.remove('/tmp/redteam_guard')\nprint('STO' 'LEN')",
        kinds=("landlock",),
    ),
]


class Parents:
    """Warm parents by kind and by what is changed in parent.py."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: dict[str, launch.WarmParent] = {}

    def get(self, kind: str) -> launch.WarmParent:
        """One as the grader has it, but that its kernels can be told which variant of the sandbox to enter."""
        return self._get(light.copied, kind, ("parent.py", ENTER, VARIANT))

    def light(self, kind: str, *edits: tuple[str, str, str]) -> launch.WarmParent:
        """One that has imported no more than a kernel needs, changed; with and without a change both are light."""
        return self._get(light.light, kind, *edits)

    def _get(self, make: Callable[..., Path], kind: str, *edits: tuple[str, str, str]) -> launch.WarmParent:
        key = f"{make.__name__} {kind} {edits}"
        if key not in self.started:
            code = make(self.folder / f"{len(self.started)}", *edits)
            groups = os.getgroups()
            try:
                if os.geteuid() == 0:
                    os.setgroups([4, 27])  # such as a grader may have
                self.started[key] = launch.WarmParent(kind, code)
            except launch.NoIsolation as problem:
                pytest.skip(f"no {kind} here: {problem}")
            finally:
                if os.geteuid() == 0:
                    os.setgroups(groups)
        return self.started[key]


@pytest.fixture(scope="module")
def parents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parents]:
    found = Parents(tmp_path_factory.mktemp("kernels"))
    yield found
    for parent in found.started.values():
        parent.close()


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch):
    """Have the provisioner use a warm parent, and tell its kernels which variant of the sandbox to enter."""
    # Ahead of time would come a kernel for the variant before, which nobody wants any more.
    monkeypatch.setattr(launch.WarmParent, "prepare", lambda self, **_: None)
    monkeypatch.setattr(provisioner, "PASSED_ON", (*provisioner.PASSED_ON, "HEADROOM_VARIANT"))

    def use(parent: launch.WarmParent, variant: str = "") -> None:
        monkeypatch.setattr(launch, "_parent", parent)
        monkeypatch.setenv("HEADROOM_VARIANT", variant)

    return use


class Kernel:
    """A kernel of the warm parent that is in use."""

    def __init__(self, folder: Path, limits: dict[str, int] | None = None) -> None:
        self.folder, self.limits = folder, LIMITS | (limits or {})

    async def __aenter__(self) -> "Kernel":
        self.manager = AsyncKernelManager(
            kernel_spec_manager=IsolatedKernelSpecs(),
            client_class=f"{PromptClient.__module__}.{PromptClient.__name__}",
            config=Config(IsolatedProvisioner=self.limits),
        )
        await self.manager.start_kernel(cwd=str(self.folder))
        self.client = self.manager.client()
        self.client.start_channels()
        await self.client.wait_for_ready(60)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.stop_channels()
        fork = self.manager.provisioner._fork
        process = fork and os.dup(fork.started())
        await self.manager.shutdown_kernel(now=True)
        if process:  # nobody else waits for its end, and until then its processes count
            select.select([process], [], [], 20)
            os.close(process)

    async def run(self, code: str, seconds: float = 30.0) -> str:
        """What the code prints, its error, and how the kernel ended if it did."""
        said: list[str] = []

        def hear(message: dict) -> None:
            content = message["content"]
            shown = content.get("data", {}).get("text/plain", "")
            said.append(content.get("text", "") + shown + "\n".join(content.get("traceback", [])))

        task = asyncio.ensure_future(self.client._async_execute_interactive(code, allow_stdin=False, output_hook=hear))
        end = time.monotonic() + seconds
        while not task.done() and time.monotonic() < end and await self.manager.is_alive():
            await asyncio.wait([task], timeout=0.1)
        if not task.done():
            task.cancel()
            said.append(f"ended: {await self.manager.provisioner.poll()}")
        return "".join(said)


def attempt(folder: Path, guard: Guard) -> str:
    """Run a guard's attack in a fresh kernel."""

    async def both() -> str:
        async with contextlib.AsyncExitStack() as running:
            other = await running.enter_async_context(Kernel(folder, guard.limits)) if guard.beside else None
            attacker = await running.enter_async_context(Kernel(folder, guard.limits))
            if other:
                assert STOLEN not in await other.run(guard.beside)
            return await attacker.run(guard.code)

    return asyncio.run(both())


CASES = [pytest.param(kind, i, id=f"{kind}-{guard.name}") for i, guard in enumerate(GUARDS) for kind in guard.kinds]


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_guard(parents: Parents, used, tmp_path: Path, kind: str, number: int) -> None:
    guard = GUARDS[number]
    if guard.root is not None and guard.root != (os.geteuid() == 0):
        pytest.skip("for root only" if guard.root else "not for root")
    used(parents.get(kind))
    assert STOLEN not in attempt(tmp_path, guard)
    text = (launch.HERE / "sandbox.py").read_text(encoding="utf-8")
    for old, new in guard.without:
        assert text.count(old) == 1, f"sandbox.py does not say this exactly once: {old!r}"
        text = text.replace(old, new)
    (parents.get(kind).code / "without.py").write_text(text, encoding="utf-8")
    used(parents.get(kind), "without.py")
    assert STOLEN in attempt(tmp_path, guard)


# --- What is not in sandbox.py -----------------------------------------------------------------------------------


def test_no_process_of_another_kernel_is_reached(parents: Parents, used, tmp_path: Path) -> None:
    """parent.py begins a PID namespace for each kernel; without it kernels see, and where they may kill, each other."""
    edits = [
        ("parent.py", '                sandbox.call("setns", self.own_processes, sandbox.NEWPID)\n', ""),
        ("parent.py", '                sandbox.call("unshare", sandbox.NEWPID)\n', ""),
    ]
    look = "import os\nif len([p for p in os.listdir('/proc') if p.isdigit()]) > 1: print('STO' 'LEN')"
    guard = Guard("", [], look, beside="1")
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, guard)
    used(parents.light("namespaces", *edits))
    assert STOLEN in attempt(tmp_path, guard) or os.geteuid() != 0


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
    guard = Guard("", [], look)
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, guard)
    used(parents.light("namespaces", edit))
    assert STOLEN in attempt(tmp_path, guard)


def test_the_meeting_place_has_a_size(parents: Parents, used, tmp_path: Path) -> None:
    """sandbox.mount_folder, which the parent makes; without its size a kernel fills the parent's memory."""
    fill = WRITE + "import glob\nif fill(glob.glob('/run/k*')[0], 8, 4_000_000) > 20_000_000: print('STO' 'LEN')"
    edit = ("sandbox.py", 'f"size=1m,nr_inodes=64,mode=700{owner}"', 'f"nr_inodes=64,mode=700{owner}"')
    guard = Guard("", [], fill)
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, guard)
    used(parents.light("namespaces", edit))
    assert STOLEN in attempt(tmp_path, guard)


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
    guard = Guard("", [], code)
    made = launch.WarmParent._bubblewrap
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        used(parents.light("namespaces"))
        assert STOLEN not in attempt(tmp_path, guard)
        monkeypatch.setattr(
            launch.WarmParent,
            "_bubblewrap",
            lambda self, command: [word for word in made(self, command) if word != flag],
        )
        parent = launch.WarmParent("namespaces", light.light(parents.folder / flag))
        try:
            used(parent)
            assert STOLEN in attempt(tmp_path, guard)
        finally:
            parent.close()


def test_no_device_is_shared_memory(parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """launch.DEVICES; of what is mapped from /dev/zero no process shows what it holds."""
    code = (
        "import mmap, os\nkept = mmap.mmap(os.open('/dev/zero', os.O_RDWR), 4096)\nkept.write(b'x')\n"
        "kept.madvise(mmap.MADV_DONTNEED)\nif kept[0]: print('STO' 'LEN')"
    )
    guard = Guard("", [], code)
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, guard)
    monkeypatch.setattr(launch, "DEVICES", (*launch.DEVICES, "zero"))
    with contextlib.closing(launch.WarmParent("namespaces", light.light(parents.folder / "zero"))) as parent:
        used(parent)
        assert STOLEN in attempt(tmp_path, guard)


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

            def reached() -> set[str]:
                attempt(tmp_path, Guard("", [], OUTSIDE.format(file=str(file), listens=str(listens), hears=str(hears))))
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
    guard = Guard("", [], "import os\nif 'HEADROOM_TEST_SECRET' in os.environ: print('STO' 'LEN')")
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, guard)
    monkeypatch.setattr(provisioner, "PASSED_ON", tuple(os.environ))
    assert STOLEN in attempt(tmp_path, guard)


def test_links_are_not_followed(parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """provisioner.py packs plain files only; without that a link brings a secret, or blocks as a pipe does."""
    (tmp_path / "secret").write_text("sk-1")
    handed_in = tmp_path / "handed_in"
    handed_in.mkdir()
    (handed_in / "link").symlink_to(tmp_path / "secret")
    guard = Guard("", [], "if open('link').read() == 'sk-1': print('STO' 'LEN')")
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(handed_in, guard)

    def packed(source: Path, target: IO[bytes], most: int) -> tuple[str, ...]:
        with tarfile.open(fileobj=target, mode="w", dereference=True) as archive:
            archive.add(source, ".")
        return ()

    monkeypatch.setattr(provisioner, "pack_plain_files", packed)
    assert STOLEN in attempt(handed_in, guard)


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
    attempt(tmp_path, Guard("", [], ""))
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
        said = attempt(tmp_path, Guard("", [], OPENS.format(paths=[str(path) for path in places])))
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


MANY = """
import os, time
r, w = os.pipe()
for _ in range(4):
    if FORKED:
        block = b"x" * 250_000_000
        time.sleep(1)  # a shorter time goes unseen
        os.write(w, b"x")
        time.sleep(30)
        os._exit(0)
os.close(w)
took = 0
while took < 4 and (told := os.read(r, 4)):
    took += len(told)
if took == 4:
    print('STO' 'LEN')
"""


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("forked", ["not os.fork()", "not (os.fork() or os.fork() and os._exit(0))"])
def test_memory_of_many_processes(parents: Parents, used, tmp_path: Path, kind: str, forked: str) -> None:
    """parent.py looks at what a kernel's processes take together; without that, each may take as much as one."""
    for edits in ((), (("parent.py", "                self._kill_over_memory()\n", "                pass\n"),)):
        used(parents.light(kind, *edits))
        said = attempt(tmp_path, Guard("", [], MANY.replace("FORKED", forked), limits={"memory_mb": 500}))
        assert (STOLEN in said) == bool(edits), said


STARTED = """
import subprocess, sys, time
mine = int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) * 1024
block = int(0.8 * mine) - 10_000_000
code = f"import time; block = b'x' * {block}; print(flush=True); time.sleep(30)"
count = 700_000_000 // block + 1
started = [subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) for _ in range(count)]
for one in started: one.stdout.read(1)
time.sleep(1)
for one in started: one.kill()
print('STO' 'LEN', count, block)
"""


@pytest.mark.parametrize("kind", BOTH)
def test_memory_of_programs_that_share_none_with_the_parent(parents: Parents, used, tmp_path: Path, kind: str) -> None:
    """parent.py takes what a kernel inherited off once; taken off each process, programs would have it for nothing."""
    once = "taken = sum(processes.memory(process) for process in each) - self.inherited"
    each = "taken = sum(max(0, processes.memory(process) - self.inherited) for process in each)"
    for edits in ((), (("parent.py", f"            {once}\n", f"            {each}\n"),)):
        used(parents.light(kind, *edits))
        said = attempt(tmp_path, Guard("", [], STARTED, limits={"memory_mb": 500, "processes": 60}))
        assert (STOLEN in said) == bool(edits), said


@pytest.mark.parametrize("kind", BOTH)
def test_kernels_end_with_their_parent(parents: Parents, used, tmp_path: Path, kind: str) -> None:
    """kill -9 of the parent: in namespaces they go with it, elsewhere by their parent-death signal."""
    line = '    call("prctl", PR_SET_PDEATHSIG, 9, 0, 0, 0)\n'
    variants = [()] if kind == "namespaces" else [(), (("sandbox.py", line, ""),)]
    for edits in variants:
        parent = parents.light(
            kind, ("parent.py", "MAX_NOTES, MAX_NOTE = 100, 300\n", "MAX_NOTES, MAX_NOTE = 99, 300\n"), *edits
        )
        used(parent)

        async def lives(parent: launch.WarmParent = parent) -> bool:
            async with Kernel(tmp_path) as kernel:
                await kernel.run("1")
                process = os.dup(kernel.manager.provisioner._fork.started())
                parent.process.kill()
                parent.process.wait()
                ended, _, _ = select.select([process], [], [], 5)
                if not ended:
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                os.close(process)
                return not ended

        assert asyncio.run(lives()) == bool(edits)


def test_orphans_end_with_their_kernel(parents: Parents, used, tmp_path: Path) -> None:
    """parent.py, where there is no PID namespace: a process in a session of its own is ended with its kernel."""
    mark = f"redteam-orphan-{os.getpid()}"
    code = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60) # {mark}'], start_new_session=True)"
    )

    def orphans() -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if mark.encode() in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    for edits in ((), (("parent.py", "orphans = children - kernels\n", "orphans = set()\n"),)):
        used(parents.light("landlock", *edits))
        attempt(tmp_path, Guard("", [], code))
        attempt(tmp_path, Guard("", [], ""))  # the parent forks no other kernel before it is done with the first
        left = orphans()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert bool(left) == bool(edits)


@pytest.mark.full
def test_the_same_for_an_ordinary_user(tmp_path: Path) -> None:
    """All of the above once more, also in the weaker sandbox, which root does not use."""
    if reason := machine.why_not_another_user():
        pytest.skip(reason)
    course = tmp_path / "course"
    course.mkdir()
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-o", "addopts=", "-rs", "--basetemp", str(course / "base"), str(Path(__file__))]
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
