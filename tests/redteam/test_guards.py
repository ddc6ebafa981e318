"""Each guard of the sandbox is taken out, and the attack that it stops then succeeds.

Where root runs the tests, an ordinary user runs this file once more: the weaker sandbox, Landlock's, is for that user.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import pytest
import zmq

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from jupyter_client import AsyncKernelManager
from traitlets.config import Config

from autograder.course import course_of
from autograder.kernels import launch, provisioner
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
            ('own_namespace=kind == "namespaces"', "own_namespace=False"),
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
        [('own_namespace=kind == "namespaces"', "own_namespace=False")],
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
        "shared memory",
        [('    limit(resource.RLIMIT_AS, used["VmSize"] + 2 * memory)', "    pass")],
        "import mmap\nkept = mmap.mmap(-1, 900_000_000)\nprint('STO' 'LEN')",
        kinds=BOTH,
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
        "block = mmap.mmap(-1, 65536)\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(block))\n"
        "if ctypes.CDLL(None).mlock(ctypes.c_void_p(at), 65536) == 0: print('STO' 'LEN')",
        kinds=BOTH,
    ),
    Guard(
        "system calls",
        [("            rules.add_rule(refuse, name)\n", "            pass\n")],
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
        [('    rules.add_rule(seccomp.ERRNO(errno.EOPNOTSUPP), "socket", seccomp.Arg(0, seccomp.NE, 1))\n', "")],
        "import socket\n"
        "for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):\n"
        "    try: print('STO' 'LEN', socket.socket(family, socket.SOCK_DGRAM))\n"
        "    except OSError as error: print(error)",
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
        [("    _refuse_system_calls()\n    return work\n", "    return work\n")],
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
        [('    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)\n', "")],
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
    """sandbox.room, which the parent makes; without its size a kernel fills the parent's memory."""
    fill = WRITE + "import glob\nif fill(glob.glob('/run/k*')[0], 8, 4_000_000) > 20_000_000: print('STO' 'LEN')"
    edit = ("sandbox.py", 'f"size=1m,nr_inodes=64,mode=700{owner}"', 'f"nr_inodes=64,mode=700{owner}"')
    guard = Guard("", [], fill)
    used(parents.light("namespaces"))
    assert STOLEN not in attempt(tmp_path, guard)
    used(parents.light("namespaces", edit))
    assert STOLEN in attempt(tmp_path, guard)


@pytest.mark.parametrize("flag", ["--unshare-net", "--unshare-cgroup", "importable"])
def test_what_bubblewrap_is_told(
    parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str
) -> None:
    """launch.py; without a network namespace abstract sockets of the machine can be reached, which are no files."""
    name = f"\0guard-{os.getpid()}"
    answer = Path(find_spec("headroom").origin).with_name("reference") / "norm.py"
    code = {
        "--unshare-net": f"import socket\nsocket.socket(socket.AF_UNIX).connect({name!r})\nprint('STO' 'LEN')",
        "--unshare-cgroup": "for line in open('/proc/self/cgroup'):\n"
        "    if line.strip()[-2:] != ':/': print('STO' 'LEN')",
        "importable": f"if 'class LayerNorm' in open({str(answer)!r}).read(): print('STO' 'LEN')",
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
        course = course_of()
        if flag == "importable":
            course = replace(course, importable=("headroom",))
        else:
            monkeypatch.setattr(
                launch.WarmParent,
                "_bubblewrap",
                lambda self, command: [word for word in made(self, command) if word != flag],
            )
        parent = launch.WarmParent("namespaces", light.light(parents.folder / flag), course)
        try:
            used(parent)
            assert STOLEN in attempt(tmp_path, guard)
        finally:
            parent.close()


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


def test_a_message_has_a_size(parents: Parents, used, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """provisioner.py; without the size a kernel has the grader hold what it likes."""
    size = provisioner.MAX_MESSAGE + 1_000_000

    async def received() -> int:
        async with Kernel(tmp_path, {"memory_mb": 1000}) as kernel:
            monitor = kernel.client.iopub_channel.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
            show = f"get_ipython().display_pub.publish({{'text/plain': 'x' * {size}}})"
            run = asyncio.ensure_future(kernel.run(show, 60))
            dropped = asyncio.ensure_future(monitor.recv_multipart())  # what ZeroMQ does at a message that is too large
            await asyncio.wait([run, dropped], return_when=asyncio.FIRST_COMPLETED)
            for task in (run, dropped):
                task.cancel()
            await asyncio.wait([run, dropped])
            kernel.client.iopub_channel.socket.disable_monitor()
            return 0 if run.cancelled() else len(run.result())

    used(parents.light("namespaces"))
    assert asyncio.run(received()) == 0
    monkeypatch.setattr(provisioner, "MAX_MESSAGE", -1)
    assert asyncio.run(received()) >= size


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
