"""A Jupyter kernel provisioner whose kernels are forked from a warm parent into a sandbox."""

import asyncio
import contextlib
import json
import os
import select
import signal
import stat
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from queue import Empty
from typing import IO, Any

import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Integer, default

from autograder.kernels.cgroups import Group
from autograder.kernels.launch import NOBODY, PORTS, Fork, WarmParent, remove, warm_parent
from autograder.kernels.processes import descendants, ended
from autograder.kernels.relay import Relay

NAME = "headroom-isolated"  # among jupyter_client's provisioners
PASSED_ON = ("LANG", "LC_ALL", "TZ", "NBGRADER_EXECUTION", "NBGRADER_VALIDATING")  # of the environment, nothing else
LIMITS = ("memory_mb", "disk_mb", "file_mb", "processes", "cpu_s")
MAX_FILES = 1000  # of a submission's folder
MAX_MESSAGE = 32_000_000  # bytes of one message from a kernel, its parts together; a larger one ends the kernel
DYING_S = 2.0  # seconds that a process may take to end once it is killed
CHANNELS = ("shell", "iopub")  # for cells and what they show; of others nothing is asked, and they would be a way in
MAX_WAITING = 8  # messages that ZeroMQ holds for the grader. Attack: filling the grader's memory


class IsolatedProvisioner(LocalProvisioner):
    """Starts kernels by forking a warm, sandboxed parent; channels are files of the kernel's own folder, not ports.

    The kernel works on a copy of the folder in which it is started, and what it writes vanishes with it. Where kernels
    cannot be isolated, starting one raises `NoIsolation`.
    """

    memory_mb = Integer(2048, help="memory that a kernel may take, beside what the parent has").tag(config=True)
    disk_mb = Integer(64, help="what a kernel may write into its folder, and again into shared memory").tag(config=True)
    file_mb = Integer(64, help="the largest file that it may write").tag(config=True)
    processes = Integer(32, help="processes and threads that it may have").tag(config=True)
    cpu_s = Integer(1800, help="processor seconds that each of its processes may take").tag(config=True)

    exit_status: int | None = None
    took: dict[str, float] | None = None  # seconds of the steps of the last start
    left_out: tuple[str, ...] = ()  # files beside the notebook that the kernel does not have
    said_too_much: bool = False  # whether it was ended because of a message that was too large
    _warm: WarmParent
    _wanted: dict[str, dict[str, Any]]
    _fork: Fork | None = None
    _folder: Path | None = None
    _meeting: Path | None = None  # where clients connect
    _relay: Relay | None = None
    _group: Group | None = None

    @property
    def has_process(self) -> bool:
        return self._fork is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        environment = kwargs.get("env") or os.environ
        self._wanted = {
            "environment": {name: environment[name] for name in PASSED_ON if name in environment},
            "limits": {name: getattr(self, name) for name in LIMITS} | {"user": NOBODY},
        }
        self._warm = warm_parent(kwargs.pop("course", None))
        if self._folder is None:
            self._fork = self._warm.kernel(**self._wanted)
            self._folder = self._fork.folder
            self._meeting = Path(tempfile.mkdtemp(prefix="m", dir=self._warm.run))
        else:  # a restart: clients look for it where it was
            self._fork = self._warm.fork(**self._wanted, folder=self._folder)
        manager = self.parent
        assert manager is not None
        manager.transport, manager.ip = "ipc", f"{self._meeting}/s"
        manager.connection_file = f"{self._folder}/connection.json"
        for name, port in PORTS.items():
            setattr(manager, name, port)
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        fork, key = self._fork, self.connection_info.get("key")
        assert fork is not None and isinstance(key, bytes)  # from `pre_launch`
        self.exit_status, self.pgid = None, None
        try:
            fork.started()  # which the warm parent says first
        except RuntimeError:
            self._let_go()
            raise
        self._bound_in_sum(fork)
        with tempfile.TemporaryFile() as files:
            folder = Path(kwargs.get("cwd") or os.curdir).resolve()
            half = self.disk_mb * 500_000  # of what it may write: the other half is the student's
            self.left_out = pack_plain_files(folder, files, half)
            fork.send_submission(key.decode(), files)
        # Connecting before the kernel has its sockets would cost ZeroMQ's interval between two tries.
        fork.report.setblocking(False)
        receive = asyncio.get_running_loop().sock_recv(fork.report, 1 << 16)
        message = json.loads(await asyncio.wait_for(receive, 60) or b"{}")
        if not message.get("ready"):
            self._let_go()
            raise RuntimeError(f"the kernel did not start: {message.get('failed', message)}")
        self.took = message["took"]
        self.said_too_much = False
        try:
            numbers = [PORTS[f"{channel}_port"] for channel in CHANNELS]
            self._relay = Relay(f"{self._meeting}/s", fork.ip, numbers, MAX_MESSAGE, self._end_for_its_size)
        except OSError as problem:
            self._let_go()
            raise RuntimeError(f"the kernel does not listen: {problem}") from None
        return self.connection_info

    def _bound_in_sum(self, fork: Fork) -> None:
        """Where the system lets us, have it count the memory of all of the kernel's processes, before they start."""
        if self._warm.groups is None:
            return
        most = (self.memory_mb + 2 * self.disk_mb) << 20
        try:
            self._group = Group(self._warm.groups, self._warm.owner, most)
            self._group.add(fork.process_id)
        except OSError:  # the folder may be written to, and yet no process be moved there
            self._warm.groups = None

    def _end_for_its_size(self) -> None:
        """Nothing that comes after a message which is too large can be read, so nothing more can be asked."""
        self.said_too_much, fork = True, self._fork
        if fork is not None:
            with contextlib.suppress(OSError, RuntimeError):
                signal.pidfd_send_signal(fork.started(), signal.SIGKILL)

    async def poll(self) -> int | None:
        if self._fork is None:
            return 0 if self.exit_status is None else self.exit_status
        if not select.select([self._fork.started()], [], [], 0)[0]:
            return None
        self._learn_status(self._fork)
        return self.exit_status

    async def wait(self) -> int | None:
        if self._fork is None:
            return self.exit_status
        ended = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fork.started(), lambda: ended.done() or ended.set_result(None))
        try:
            await ended
        finally:
            loop.remove_reader(self._fork.started())
        self._learn_status(self._fork)
        self._let_go()
        return self.exit_status

    async def send_signal(self, signum: int) -> None:
        if self._fork is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fork.started(), signum)

    async def kill(self, restart: bool = False) -> None:
        await self.send_signal(signal.SIGKILL)
        if restart and self._fork is not None:  # the next one comes to the same place
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.wait(), 5)
        self._let_go()  # otherwise nobody waits for the end but the warm parent, which lets nothing survive

    async def terminate(self, restart: bool = False) -> None:
        await self.kill(restart)

    async def cleanup(self, restart: bool = False) -> None:
        await super().cleanup(restart)
        self._let_go()
        if self._folder is not None:
            for folder in ("submission", "home") if restart else ("",):
                remove(self._folder / folder)
            if not restart:
                if self._meeting is not None:
                    remove(self._meeting)
                self._folder = self._meeting = None
                with contextlib.suppress(OSError):  # the warm parent is gone: the next kernel starts another one
                    self._warm.prepare(**self._wanted)

    def end_helpers(self) -> None:
        """End all processes that the kernel has started, so that none answers in its place.

        Attack: memory that they took, and that the system has not got back when the kernel is looked at again.
        """
        if self._fork is None:
            return
        with contextlib.suppress(OSError, ValueError, IndexError):
            kernel = self._fork.process_id
            for _ in range(3):  # what one of them starts meanwhile is found the next time
                for child in descendants(kernel):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(child), signal.SIGKILL)
            until = time.monotonic() + DYING_S
            while not all(map(ended, descendants(kernel))) and time.monotonic() < until:
                time.sleep(0.01)

    def notes(self) -> list[str]:
        """What the kernel noted about itself since the last call; written by the kernel, so possibly not true."""
        data = b""
        if self._fork is not None:
            with contextlib.suppress(OSError):
                while more := os.read(self._fork.notes, 1 << 16):
                    data += more
                    if len(data) > 1 << 18:
                        break
        return [line[:300] for line in data.decode("utf-8", "replace").splitlines()[:100]]

    def _learn_status(self, fork: Fork) -> None:
        """The kernel's end is known: read what the parent says of it."""
        if self.exit_status is None:
            self.exit_status = -int(signal.SIGKILL)
            fork.report.settimeout(2)
            with contextlib.suppress(OSError, ValueError, KeyError):
                while message := fork.report.recv(1 << 16):
                    if b"exit" in message:
                        self.exit_status = json.loads(message)["exit"]
                        break

    def _let_go(self) -> None:
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        if self._fork is not None:
            self._fork.close()
            self._fork = None
        if self._group is not None:
            self._group.close()
            self._group = None


class IsolatedKernelSpecs(KernelSpecManager):
    """Whatever kernel is asked for: IPython's, in isolation."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return KernelSpec(
            name=kernel_name,
            argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            display_name="Python (isolated)",
            language="python",
            metadata={"kernel_provisioner": {"provisioner_name": NAME}},
        )


class PromptClient(AsyncKernelClient):
    """A client that waits no longer than it must, and takes no more than it can hold."""

    @default("context")
    def _limited_context(self) -> zmq.asyncio.Context:
        self._created_context = True
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.RCVHWM, MAX_WAITING)
        return context

    def start_channels(self, **_: bool) -> None:
        """Start those that there are: see `CHANNELS`."""
        super().start_channels(shell=True, iopub=True, stdin=False, hb=False, control=False)

    def stop_channels(self) -> None:
        """Stop them; jupyter_client would make those that there are not, and stop them."""
        for channel in (self.shell_channel, self.iopub_channel):
            if channel.is_alive():
                channel.stop()
        if self._created_context and not self.context.closed:
            self.context.destroy(linger=0)

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """Wait until the kernel answers and its outputs arrive; jupyter_client waits another 0.2 s for silence."""
        end = time.monotonic() + (timeout or 60)
        self.kernel_info()
        answered = subscribed = False
        while not (answered and subscribed):
            try:
                if not answered:
                    reply = await self.shell_channel.get_msg(timeout=1)
                    answered = reply["msg_type"] == "kernel_info_reply"
                else:
                    await self.iopub_channel.get_msg(timeout=1)
                    subscribed = True
            except Empty:
                if not await self._async_is_alive():
                    raise RuntimeError("the kernel ended before it answered") from None
                if time.monotonic() > end:
                    raise RuntimeError(f"the kernel did not answer in {timeout or 60:.0f} s") from None
                self.kernel_info()


def pack_plain_files(source: Path, target: IO[bytes], most: int) -> tuple[str, ...]:
    """Write a folder's files into a tar file; links, pipes and devices are left out, and what is too much.

    A submission may hold links to the gradebook, pipes that block whoever reads them, and files of any size.

    Args:
        source: a folder.
        target: a file, open for writing.
        most: bytes to pack.

    Returns:
        what was left out.
    """
    left, count, left_out = most, 0, []
    with tarfile.open(fileobj=target, mode="w") as archive:
        for folder, _, names in os.walk(source):
            for path in (Path(folder, name) for name in names):
                about = os.lstat(path)
                within = tarfile.TarInfo(str(path.relative_to(source)))
                within.size, within.mtime = about.st_size, int(about.st_mtime)
                plain = stat.S_ISREG(about.st_mode) and os.access(path, os.R_OK)
                if plain and about.st_size <= left and count < MAX_FILES:
                    left, count = left - about.st_size, count + 1
                    with path.open("rb") as file:
                        archive.addfile(within, file)
                else:
                    left_out.append(within.name)
    return tuple(left_out)
