"""Starts the warm parent in a sandbox of its own, and says what isolation this machine has."""

import atexit
import contextlib
import json
import logging
import os
import select
import shutil
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any

from autograder.course import Course, course_of
from autograder.kernels import cgroups

HERE = Path(__file__).resolve().parent
NOBODY = 65534  # who students' code runs as when root grades
SECONDS = 300.0  # that the warm parent may take to come up; 4 to 6 are usual
DEVICES = ("null", "full", "random", "urandom")  # not zero, which is shared memory to whoever maps it
OF_ETC = (
    "alternatives",
    "fonts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "ssl/openssl.cnf",
)


# The channels of every kernel: files, which begin as its `ip` says.
PORTS = {f"{name}_port": number for number, name in enumerate(("shell", "iopub", "stdin", "control", "hb"), 1)}
CONNECTION = {"transport": "ipc", "signature_scheme": "hmac-sha256", "key": "", **PORTS}


class NoIsolation(RuntimeError):
    """This machine cannot isolate kernels. The text says why, and what can be done."""


class WarmParent:
    """A warm parent in its sandbox, and the folder under which its kernels have theirs.

    Args:
        kind: "namespaces" or "landlock"; None takes the first that works.
        code: the folder with parent.py and sandbox.py.
        course: whose notebooks are graded; that of the present folder if None.

    Raises:
        NoIsolation: neither works here.
    """

    control: socket.socket | None = None  # None before it is started, and once it is closed
    _watched: int = -1  # its pidfd: what a unit that is forked from this process can look at too

    def __init__(self, kind: str | None = None, code: Path = HERE, course: Course | None = None) -> None:
        if not sys.platform.startswith("linux"):
            raise NoIsolation(f"kernels can be isolated on Linux only, and this is {sys.platform}")
        self.code = code
        self.course = course or course_of()
        self._readable = readable(self.course)
        self.owner = os.getpid()
        self.groups = cgroups.place()  # where the memory of all of a kernel's processes can be bounded together
        self._spare: tuple[Any, Fork | None] = (None, None)  # what it was asked for with, and a kernel ahead of time
        _sweep()
        problems = []
        for self.kind in [kind] if kind else ["namespaces", "landlock"]:
            self.run = Path(tempfile.mkdtemp(prefix=f"headroom-{os.getpid()}-", dir="/tmp"))  # short: sockets' paths
            self.run.chmod(0o711)
            (self.run / "home").mkdir()
            try:
                self._start()
                break
            except (OSError, ValueError, RuntimeError) as problem:
                self.close()
                if isinstance(problem, NoIsolation):
                    raise
                problems.append(f"{self.kind}: {problem}")
        else:
            raise NoIsolation("; ".join(problems))
        self.weaker = ""  # than it could be, and why, as a sentence
        if problems:
            how = "students' code is isolated less well than it could be, by Landlock alone, because of"
            self.weaker = f"{how} {problems[0]}"
            logging.getLogger(__name__).warning(self.weaker)
        atexit.register(self.close)

    def _start(self) -> None:
        if self.kind == "namespaces" and not shutil.which("bwrap"):
            raise RuntimeError("there is no bubblewrap (Debian's and Fedora's package is called bubblewrap)")
        if self.kind == "landlock" and os.geteuid() == 0:
            for path in self._readable:
                if closed := [folder for folder in Path(path).parents if not folder.stat().st_mode & 0o001]:
                    raise RuntimeError(f"kernels would not run as root, and only root may enter {closed[0]}")
        self.control, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # so that the parent's own PID is told
        python = [sys.executable, str(self.code / "parent.py"), self.kind]
        home = "/tmp" if self.kind == "namespaces" else f"{self.run}/home"  # the former is the sandbox's own
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            **dict.fromkeys(("HOME", "TMPDIR"), home),
            **dict.fromkeys(("MPLCONFIGDIR", "IPYTHONDIR"), f"{home}/config"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "AUTOGRADER_READABLE": os.pathsep.join(self._readable),
            "AUTOGRADER_KERNELS": json.dumps(
                {"folder": str(self.course.folder), "warm": self.course.warm, "packages": self.course.packages}
            ),
        }
        log = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it as long as it lives
        self.process = _in_a_thread_of_its_own(
            self._bubblewrap(python) if self.kind == "namespaces" else python,
            stdin=other_end,
            stdout=log,
            stderr=log,
            env=environment,
            cwd="/",
            start_new_session=True,  # a Ctrl-C in the terminal is for the grader, which decides what becomes of kernels
        )
        other_end.close()
        self._watched = os.pidfd_open(self.process.pid)
        self.control.settimeout(SECONDS)
        try:
            warm, ancillary, _, _ = self.control.recvmsg(1 << 16, socket.CMSG_SPACE(12))
        except TimeoutError:  # no reason to try how else it could be isolated
            raise NoIsolation(
                f"what kernels are forked from was not ready after {SECONDS:.0f} s, as this machine is too busy: "
                "the same command goes on when it is not"
            ) from None
        except ConnectionError:
            warm, ancillary = b"", []
        if not warm:
            log.seek(0)
            output = log.read().decode(errors="replace").strip()[-2000:]
            raise RuntimeError(f"the warm parent did not come up: {output or 'it said nothing'}")
        self.control.settimeout(None)
        self.root = f"/proc/{struct.unpack('iii', ancillary[0][2])[0]}/root" if self.kind == "namespaces" else ""

    def _bubblewrap(self, command: list[str]) -> list[str]:
        """The command in namespaces with a read-only root of few folders, without network, processes or privileges."""
        root = os.geteuid() == 0
        line = ["bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup"]
        line += ["--die-with-parent", "--hostname", "headroom"]
        # To give each kernel namespaces of its own, the parent needs one privilege inside of its own user namespace;
        # when root grades there is none, so that what only root may read can be mounted, and kernels drop to nobody.
        line += ["--cap-add", "ALL"] if root else ["--unshare-user", "--cap-add", "CAP_SYS_ADMIN"]
        line += ["--tmpfs", "/", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/dev"]
        line += ["--dir", "/dev/shm"]
        for device in DEVICES:
            line += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
        line += ["--symlink", "/proc/self/fd", "/dev/fd"]
        line += ["--ro-bind-try", "/sys/devices/system/cpu", "/sys/devices/system/cpu"]
        for folder in ("bin", "lib", "lib32", "lib64", "sbin"):
            path = Path("/", folder)
            if path.is_symlink():
                line += ["--symlink", os.readlink(path), str(path)]
        bound = [*self._readable, str(self.code), str(self.run)]
        for folder in sorted({str(parent) for path in bound for parent in Path(path).parents} - {"/"}):
            line += ["--perms", "0755", "--dir", folder]  # or only root could look for anything below
        for path in bound:
            line += ["--ro-bind", path, path]
        return [*line, "--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/", "--", *command]

    def kernel(self, environment: dict[str, str], limits: dict[str, int]) -> "Fork":
        """A kernel that comes up, or has come up ahead of time, to where it needs the submission's files.

        Args:
            environment: what it gets beside the parent's few variables.
            limits: of `sandbox.enter`.
        """
        (wanted, spare), self._spare = self._spare, (None, None)
        if spare is not None:
            if wanted == (environment, limits) and spare.alive:
                return spare
            spare.discard()
        return self.fork(environment, limits)

    def prepare(self, environment: dict[str, str], limits: dict[str, int]) -> None:
        """Have a kernel come up ahead of time, while the grader does something else: most are like the one before."""
        _, spare = self._spare
        if spare is None:
            self._spare = (environment, limits), self.fork(environment, limits)

    def fork(self, environment: dict[str, str], limits: dict[str, int], folder: Path | None = None) -> "Fork":
        """Ask for a kernel, and do not wait for it.

        Args:
            folder: of the kernel in whose place it comes, if there was one.
        """
        assert self.control is not None, "the warm parent is closed"
        folder = folder or Path(tempfile.mkdtemp(prefix="k", dir=self.run))
        # Where kernel and grader meet. In a sandbox with namespaces it lies in the parent's memory, which the grader
        # sees through /proc: a kernel has nothing on a disk that it could fill.
        run = f"/run/{folder.name}" if self.root else f"{folder}/run"
        if not self.root:
            Path(run).mkdir(exist_ok=True)
            if os.geteuid() == 0:
                for path in (folder, run):
                    os.chown(path, NOBODY, NOBODY)
        request = {"run": run, "connection": CONNECTION, "environment": environment, "limits": limits}
        report, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        door, their_door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        notes, their_notes = _one_way()
        fork = Fork(folder, f"{self.root}{run}/s", report, notes, door)
        try:
            handed = [other_end.fileno(), their_notes, their_door.fileno()]
            socket.send_fds(self.control, [json.dumps(request).encode()], handed)
        except OSError:
            fork.discard()
            raise
        finally:
            other_end.close()
            their_door.close()
            os.close(their_notes)
        return fork

    @property
    def alive(self) -> bool:
        return self.control is not None and not select.select([self._watched], [], [], 0)[0]

    def close(self) -> None:
        """End the parent and all its kernels, and leave nothing behind."""
        if self._watched >= 0:
            os.close(self._watched)
            self._watched = -1
        if self.control is not None:
            with contextlib.suppress(OSError):
                self.control.shutdown(socket.SHUT_RDWR)  # also where a unit has a copy of it
            self.control.close()
            self.control = None
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        (_, spare), self._spare = self._spare, (None, None)
        if spare is not None:
            spare.close()
        if self.groups is not None:
            cgroups.sweep(self.groups, self.owner)
        remove(self.run)


class Fork:
    """One kernel.

    Args:
        folder: its own on the grader's disk.
        ip: Jupyter's word for where its channels are.
        report: the socket on which the parent, and once the kernel, report of it.
        notes: the socket with what it notes about itself.
        door: where it waits for the submission's files.
    """

    _process: int | None = None

    def __init__(self, folder: Path, ip: str, report: socket.socket, notes: int, door: socket.socket) -> None:
        self.folder, self.ip, self.report, self.notes, self.door = folder, ip, report, notes, door
        os.set_blocking(notes, False)

    def started(self) -> int:
        """Its pidfd, as soon as the warm parent has started it; RuntimeError if that fails."""
        if self._process is None:
            self.report.settimeout(30)
            data, descriptors, _, _ = socket.recv_fds(self.report, 1 << 16, 1)
            if not descriptors:
                raise RuntimeError(f"the warm parent refused: {data.decode(errors='replace') or 'it is gone'}")
            self._process = descriptors[0]
        return self._process

    @property
    def process_id(self) -> int:
        """Its process ID, as the grader's own namespace has it; OSError once it has ended."""
        about = Path(f"/proc/self/fdinfo/{self.started()}").read_text()
        process = int(about.split("\nPid:")[1].split()[0])
        if process <= 0:
            raise ProcessLookupError(process)
        return process

    @property
    def alive(self) -> bool:
        try:
            return not select.select([self.started()], [], [], 0)[0]
        except (OSError, RuntimeError):
            return False

    def send_submission(self, key: str, files: IO[bytes]) -> None:
        """Give it what it waits for: the key of Jupyter's messages, and a tar file."""
        files.seek(0)
        with contextlib.suppress(OSError):  # it has ended: the report says why
            socket.send_fds(self.door, [json.dumps({"key": key}).encode()], [files.fileno()])
        self.door.close()

    def close(self) -> None:
        """Let go of it; if it still runs, the parent kills it."""
        self.report.close()
        self.door.close()
        os.close(self.notes)
        if self._process is not None:
            os.close(self._process)

    def discard(self) -> None:
        """Let go of it, and of its folder."""
        self.close()
        remove(self.folder)


def _one_way() -> tuple[int, int]:
    """Descriptors to read from and to write to.

    Attack: what was noted is taken back. A pipe's other end can be opened, and emptied, through /proc by whoever holds
    one; a socket's cannot.
    """
    own_end, other_end = socket.socketpair()
    return own_end.detach(), other_end.detach()


def _in_a_thread_of_its_own(command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a process whose parent-death signal is bound to this process, not to the thread that happens to call."""
    started: Future[subprocess.Popen[Any]] = Future()

    def run() -> None:
        try:
            process = subprocess.Popen(command, **options)
        except OSError as problem:
            started.set_exception(problem)
        else:
            started.set_result(process)
            process.wait()

    threading.Thread(target=run, daemon=True).start()
    return started.result()


def _sweep() -> None:
    """Remove what graders left that were killed."""
    for folder in Path("/tmp").glob("headroom-*-*"):
        pid = folder.name.split("-")[1]
        with contextlib.suppress(OSError):
            about = folder.lstat()  # Attack: a link of this name, by which something else would be removed
            ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid()
            if ours and pid.isdigit() and not Path("/proc", pid).exists():
                remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder that a kernel may have filled with what does not let itself be removed easily.

    Attack: folders without permissions, and nested deeper than Python can follow. Only where it writes on a disk.
    """
    with contextlib.suppress(RecursionError):  # `ignore_errors` is about errors of the system
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder) and not folder.is_symlink():
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*command, str(folder)], check=False, capture_output=True)


def _of_the_system() -> list[Path]:
    """What kernels must read of a machine: Python, its libraries, a little of /etc."""
    paths = [Path("/usr"), *(Path("/etc", name) for name in OF_ETC), Path(sys.prefix), Path(sys.base_prefix)]
    paths += [Path(sysconfig.get_path("stdlib")), Path(sys.executable).resolve().parent]
    paths += [Path("/", name) for name in ("lib", "lib64", "bin") if not Path("/", name).is_symlink()]
    chosen: list[Path] = []
    for path in sorted({path for path in paths if path.exists()}):
        if not any(path.is_relative_to(other) for other in chosen):
            chosen.append(path)
    return chosen


def exposed(path: Path) -> bool:
    """Whether a path lies among what kernels must read of a machine."""
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in _of_the_system())


def readable(course: Course) -> list[str]:
    """The files and folders that kernels may read: those of the system, and a part of the course."""
    if exposed(course.folder):
        raise NoIsolation(
            f"the course lies in {course.folder}, among what kernels must read; put it elsewhere (and install it with "
            "pip install -e, if it is a package), so that its answers are out of their reach"
        )
    return [str(path) for path in (*_of_the_system(), *(course.folder / name for name in course.importable))]


_lock = threading.Lock()
_parent: WarmParent | None = None


def warm_parent(course: Course | None = None) -> WarmParent:
    """This process's warm parent for a course, or whichever there is; NoIsolation if none can be started."""
    global _parent
    with _lock:
        if _parent is None or not _parent.alive or course not in (None, _parent.course):
            if _parent is not None:
                if _parent.owner != os.getpid():  # this is a unit: the grader starts another for the next submission
                    raise RuntimeError("the process from which kernels are forked has ended")
                _parent.close()
            _parent = WarmParent(course=course)
        return _parent


def end() -> None:
    """End this process's warm parent, if there is one, and let no thread start another: the process is about to end."""
    _lock.acquire()
    if _parent is not None:
        _parent.close()
