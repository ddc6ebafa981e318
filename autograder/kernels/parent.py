"""The warm parent: imports what notebooks need, once, then forks a kernel for each request in about 10 ms.

    python parent.py KIND        KIND is "namespaces" or "landlock"; the control socket is standard input

It knows no answer and no secret, because a forked kernel can read all of its memory. It has one thread, because a fork
copies one only. Whoever holds the other end of the control socket sends a request as JSON, with three descriptors: a
socket for this kernel alone, another into which its notes go, and its door. On the kernel's socket the parent answers
`{"pid": …}` with a pidfd. The kernel comes up without knowing for whom, so that it can be asked for ahead of time, and
waits at its door for `{"key": …}`, which signs its messages, and for a tar file with what the submission may have at
hand. Then it says `{"ready": true, "took": {step: seconds}}`, and in the end the parent says `{"exit": status}`.
Closing the socket kills the kernel; closing the control socket ends the parent and all its kernels.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import linecache
import os
import random
import select
import selectors
import signal
import socket
import sys
import tarfile
import time
import traceback
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any, NamedTuple

import processes
import sandbox

MAX_REQUEST = 1 << 16
LOOK = 0.2  # seconds between two looks at how much memory the kernels have taken
MANY = 50  # kernels, for which it pays to hold memory in large pages, which takes a second
KEPT = 3  # the kernel's socket has this descriptor in a kernel, its notes and its door the next

# What a kernel or a notebook might import, or torch imports when it is first asked for something.
WARM = """
    app IPython.core.completer IPython.core.completerlib IPython.core.debugger IPython.core.logger IPython.core.oinspect
    IPython.core.ultratb IPython.extensions.storemagic IPython.terminal.pt_inputhooks ipykernel.ipkernel
    ipykernel.kernelapp ipykernel.zmqshell matplotlib.backends.backend_agg matplotlib.pyplot
    matplotlib_inline.backend_inline numpy pdb pyseccomp sqlite3 stack_data streams torch torch.nn.functional
    torch.optim torch.testing torch.utils._python_dispatch torch.utils.data tornado.platform.asyncio tqdm.auto
"""
TOLD_OF = ("IPython", "app", "asyncio", "ipykernel", "tornado", "traitlets")  # packages that are in every stack
# Of the course: its folder, what of it is to be imported too, and the packages whose import is noted.
COURSE: dict[str, Any] = json.loads(os.environ.pop("AUTOGRADER_KERNELS", '{"folder": "", "warm": [], "packages": []}'))
PACKAGES = {"autograder", "nbgrader", *COURSE["packages"]}

# What a kernel notes about itself, for the instructor: Python's own audit events.
NOTED = {
    "ctypes.dlopen": "loaded the library {0!r} through ctypes",
    "os.exec": "ran the program {0!r}",
    "os.fork": "forked",
    "os.kill": "sent signal {1} to process {0}",
    "os.killpg": "sent signal {1} to process group {0}",
    "os.posix_spawn": "ran the program {0!r}",
    "os.system": "ran the shell command {0!r}",
    "socket.bind": "opened a port: {1!r}",
    "socket.connect": "connected to {1!r}",
    "socket.getaddrinfo": "looked up the address of {0!r}",
    "subprocess.Popen": "ran the program {1!r}",
}
LOOKED_AT = frozenset([*NOTED, "import", "open"])
MAX_NOTES, MAX_NOTE = 100, 300


@contextlib.contextmanager
def ending_at_once(control: socket.socket) -> Generator[None]:
    """While nobody reads the control socket, the system ends this process when its other end is closed.

    Warming up takes seconds, most of them within single imports, and a grader that is killed meanwhile must not leave
    anything running for so long. SIGIO, which anybody might ignore or block, is replaced by SIGKILL. Whatever else
    arrives would end the process too; but nobody asks for a kernel before there is one to be had.
    """
    flags = fcntl.fcntl(control, fcntl.F_GETFL)
    fcntl.fcntl(control, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(control, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(control, fcntl.F_SETFL, flags | os.O_ASYNC)
    if select.select([control], [], [], 0)[0]:  # it was closed before
        sys.exit()
    yield
    fcntl.fcntl(control, fcntl.F_SETFL, flags)


def warm() -> None:
    """Import and run once what is slow the first time; afterwards there is still one thread only."""
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    sys.modules["debugpy"] = None  # pyright: ignore[reportArgumentType]  # an import fails: a debugger would open a port, which no kernel may
    importlib.import_module("ipykernel.debugger")
    del sys.modules["debugpy"]
    sys.path.append(COURSE["folder"])
    for name in (*WARM.split(), *COURSE["warm"]):
        importlib.import_module(name)
    import torch
    from app import warm_shell
    from IPython.core.ultratb import AutoFormattedTB
    from matplotlib import pyplot
    from torch.nn import functional

    torch.set_num_threads(1)
    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4))
    for optimizer in (torch.optim.SGD, torch.optim.AdamW):
        functional.cross_entropy(layer(torch.ones(2, 4)), torch.tensor([0, 1])).backward()
        optimizer(layer.parameters()).step()
    functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2))
    torch.testing.assert_close(torch.ones(2), torch.ones(2))
    repr(torch.ones(2))
    scoped_library = torch.library._scoped_library  # pyright: ignore[reportPrivateUsage]  # torch has no public one
    with scoped_library("aten", "IMPL") as library, warnings.catch_warnings():  # as the probe will
        warnings.simplefilter("ignore")
        library.impl("layer_norm", print, "CompositeImplicitAutograd")
    for name, module in list(sys.modules.items()):  # `manual_seed` keeps where it was called, for GPUs to come
        if name.partition(".")[0] in TOLD_OF and (file := getattr(module, "__file__", None)):
            linecache.getlines(file)
    torch.manual_seed(0)
    for wrong in (lambda: torch.ones(2, 3) @ torch.ones(2), lambda: layer(torch.ones(3))):
        try:
            wrong()
        except RuntimeError as raised:
            shown = AutoFormattedTB(mode="Context", theme_name="neutral")
            shown.structured_traceback(type(raised), raised, raised.__traceback__)
    figure, axes = pyplot.subplots()
    axes.plot([0, 1], label="x")
    axes.legend()
    axes.imshow([[0.0]])
    figure.savefig(os.devnull, format="png")
    pyplot.close(figure)
    warm_shell()


class Notes:
    """What a kernel does that a notebook has no need to: Python's audit events, into a socket that nobody waits for.

    Evidence, not proof: code that goes round Python is not seen, and a kernel could write anything into the socket.
    """

    def __init__(self) -> None:
        self.to: int | None = None
        self.left = MAX_NOTES
        self.seen: set[str] = set()
        self.allowed: tuple[str, ...] = ()

    def start(self, to: int, allowed: tuple[str, ...]) -> None:
        os.set_blocking(to, False)
        self.to, self.allowed = to, allowed

    def hook(self, event: str, values: tuple[Any, ...]) -> None:
        if event in LOOKED_AT and self.to is not None and self.left:
            with contextlib.suppress(Exception):  # what is raised here would become an error of the student's line
                self._note(self.to, event, values)

    def _note(self, to: int, event: str, values: tuple[Any, ...]) -> None:
        if event in NOTED:
            note = NOTED[event].format(*values)
        elif event == "open" and isinstance(values[0], str):
            path = os.path.abspath(values[0])
            if path.startswith(self.allowed):
                return
            note = f"opened {path!r}"
        elif event == "import" and values[0].partition(".")[0] in PACKAGES:
            note = f"imported {values[0]}"  # the audit event comes only where the module is not there yet
        else:
            return
        if note not in self.seen:
            self.seen.add(note)
            self.left -= 1
            os.write(to, note[:MAX_NOTE].replace("\n", " ").encode("utf-8", "replace") + b"\n")


def become_kernel(request: dict[str, Any], kind: str, notes: Notes) -> None:
    """Enter the sandbox, then be an IPython kernel until the end."""
    import numpy
    import torch
    from app import kernel_app

    os.environ |= request["environment"]
    run = request["run"]
    begun = time.perf_counter()
    work = sandbox.enter(kind, run, request["limits"])
    shut = time.perf_counter()
    os.chdir(work)
    connection = Path(run, "connection.json")
    connection.write_text(json.dumps(request["connection"] | {"ip": f"{run}/s"}))
    sys.path.insert(0, "")
    for module in (random, numpy.random):
        module.seed()  # or every submission would start from the same random state
    torch.default_generator.seed()
    app = kernel_app(connection, work)
    took = {"sandbox": shut - begun, "IPython": time.perf_counter() - shut}
    app.session.key = receive_submission()
    os.write(KEPT, json.dumps({"ready": True, "took": took}).encode())
    os.close(KEPT)
    own = (work, run, os.environ["HOME"], os.path.dirname(__file__))
    notes.start(KEPT + 1, (*own, "/dev/", "/proc/", "/sys/", "<", *sandbox.READABLE))
    app.start()


def receive_submission() -> bytes:
    """Take in what the submission may have at hand; returns the key to sign messages with."""
    with socket.socket(fileno=KEPT + 2) as door:
        message, descriptors, _, _ = socket.recv_fds(door, MAX_REQUEST, 1)
    if not descriptors:
        sys.exit()  # nobody came
    with os.fdopen(descriptors[0], "rb") as file, tarfile.open(fileobj=file) as archive:
        # Not an argument, which Python before 3.11.4 does not know; without it, it takes out what the grader put in.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall()
    return json.loads(message)["key"].encode()


class Running(NamedTuple):
    """A forked kernel: its PID, where it runs, the socket on which it was asked for, the bytes that it may take."""

    pid: int
    run: str
    report: socket.socket
    most: int


class Kernels:
    """The forked kernels, and the loop that answers requests and reports ends."""

    def __init__(self, kind: str, control: socket.socket) -> None:
        self.kind, self.control = kind, control
        self.events = selectors.DefaultSelector()
        self.events.register(control, selectors.EVENT_READ, self._request)
        self.running: dict[int, Running] = {}  # by pidfd
        self.inherited = processes.memory("self")
        self.ended = 0
        self.notes = Notes()
        sys.addaudithook(self.notes.hook)
        self.own_processes = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def serve(self) -> None:
        """Answer until the other end of the control socket is closed."""
        looked = 0.0
        while True:
            happened = self.events.select(LOOK if self.running else None)
            for key, _ in happened[:1]:  # one, because it may take away what another event is about
                key.data(key.fileobj)
            if time.monotonic() > looked + LOOK:
                self._kill_over_memory()
                looked = time.monotonic()

    def _request(self, control: socket.socket) -> None:
        data, descriptors, _, _ = socket.recv_fds(control, MAX_REQUEST, 3)
        if not data:
            sys.exit()  # and with it all kernels: by their parent-death signal, or with the PID namespace
        report, *others = descriptors
        report = socket.socket(fileno=report)
        began, begin = os.pipe()  # the kernel waits at it: the first word on `report` is this process's
        try:
            request = json.loads(data)
            run, most = request["run"], request["limits"]["memory_mb"] << 20
            if self.kind == "namespaces":
                sandbox.mount_folder(run, request["limits"]["user"])
                # The next fork, and only that, begins a PID namespace
                sandbox.call("setns", self.own_processes, sandbox.NEWPID)
                sandbox.call("unshare", sandbox.NEWPID)
            pid = os.fork()
        except Exception as problem:  # whatever a request is, the parent lives on
            with contextlib.suppress(OSError):
                report.send(json.dumps({"refused": repr(problem)}).encode())
            report.close()
            for descriptor in (began, begin, *others):
                os.close(descriptor)
            return
        if not pid:
            os.close(begin)
            os.read(began, 1)
            self._be_child(request, [report.fileno(), *others])
        for descriptor in others:
            os.close(descriptor)
        watched = os.pidfd_open(pid)
        self.running[watched] = Running(pid, run, report, most)
        with contextlib.suppress(OSError):
            socket.send_fds(report, [json.dumps({"pid": pid}).encode()], [watched])
        os.close(begin)
        os.close(began)
        self.events.register(watched, selectors.EVENT_READ, self._ended)
        self.events.register(report, selectors.EVENT_READ, lambda _, fd=watched: self._unwanted(fd))

    def _be_child(self, request: dict[str, Any], kept: list[int]) -> None:
        status = 1
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            high = [os.dup2(fd, 100 + i) for i, fd in enumerate(kept)]
            for i, fd in enumerate((null, null, null, *high)):
                os.dup2(fd, i)
            os.closerange(KEPT + len(kept), 4096)
            become_kernel(request, self.kind, self.notes)
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 0
        except BaseException:
            text = traceback.format_exc()
            with contextlib.suppress(OSError):
                os.write(KEPT, json.dumps({"failed": text[-3000:]}).encode())
        finally:
            os._exit(status)

    def _unwanted(self, watched: int) -> None:
        """The client closed the kernel's socket: it wants no kernel any more. (Or it sent something; it never does.)"""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(watched, signal.SIGKILL)
        self.events.unregister(self.running[watched].report)

    def _ended(self, watched: int) -> None:
        kernel = self.running.pop(watched)
        _, status = os.waitpid(kernel.pid, 0)
        self.events.unregister(watched)
        os.close(watched)
        with contextlib.suppress(KeyError):
            self.events.unregister(kernel.report)
        with contextlib.suppress(OSError):
            kernel.report.send(json.dumps({"exit": os.waitstatus_to_exitcode(status)}).encode())
        kernel.report.close()
        if self.kind == "namespaces":
            with contextlib.suppress(OSError):
                sandbox.unmount_folder(kernel.run)
        else:
            self._end_orphans()
        self.ended += 1
        if self.ended == MANY:
            processes.hold_in_large_pages()
            self.inherited = processes.memory("self")

    def _kill_over_memory(self) -> None:
        """Attack: memory taken by many processes, each below the limit of one."""
        if self.kind != "namespaces":  # there, orphans stay below their kernel
            self._end_orphans()
        for watched, kernel in self.running.items():
            each = [kernel.pid, *processes.descendants(kernel.pid)]
            # The quick count takes what processes share for each one's own; so where it is too much, count closely.
            taken = sum(processes.memory(process) for process in each) - self.inherited
            if taken > kernel.most and len(each) > 1:  # of a single one the kernel's own limit takes care
                with contextlib.suppress(PermissionError):
                    taken = sum(processes.memory(process, divided=True) for process in each) - self.inherited
                if taken > kernel.most:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(watched, signal.SIGKILL)  # its end is that of all the others

    def _end_orphans(self) -> None:
        """Attack: a process in a session of its own that outlives its kernel. Orphans are this process's children."""
        while True:
            kernels = {kernel.pid for kernel in self.running.values()}
            children = {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}
            orphans = children - kernels
            if not orphans:
                return
            for pid in orphans:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def main() -> None:
    """Warm up, say so, serve."""
    kind = sys.argv[1]
    control = socket.socket(fileno=os.dup(0))
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # a child subreaper: orphans of kernels come back to this process
    gc.disable()  # nothing of what is imported is garbage, and to look through it takes a quarter of the time
    with ending_at_once(control):
        warm()
    gc.enable()
    gc.collect()
    gc.freeze()  # a collection in a kernel would touch, and so copy, all of the parent's memory
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the warm parent has {threads} threads; a fork would copy one of them")
    kernels = Kernels(kind, control)
    control.send(json.dumps({"warm": True}).encode())
    kernels.serve()


if __name__ == "__main__":
    main()
