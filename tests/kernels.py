"""Kernels that come up at once: forked from a process that has imported what tests/warm.py names.

An ordinary kernel takes some four seconds of a core before its notebook's first own line; there are thirty notebooks.
Only Linux forks a process with PyTorch in it without trouble: elsewhere, and at full scale, kernels start as usual.
"""

import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
from ipykernel.kernelapp import launch_new_instance
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

POSSIBLE = sys.platform.startswith("linux")


def become_kernel(arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Be the kernel that `python -m ipykernel_launcher ARGUMENTS` is."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # a kernel that nobody's `launch_kernel` started has something to say to a terminal
        os.dup2(null, stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["ipykernel_launcher", *arguments]
    sys.path.insert(0, "")
    random.seed()
    np.random.seed()
    matplotlib.rcParams["backend"] = "module://matplotlib_inline.backend_inline"  # which it was too early to ask for
    launch_new_instance()


class Forked:
    """A forked kernel's process, with what jupyter_client asks of a `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, command: list[str], cwd: str, env: dict[str, str], **_: Any) -> None:
        arguments = command[command.index("-f") :]
        self.process = server().Process(target=become_kernel, args=(arguments, cwd, env), daemon=True)
        self.process.start()
        self.pid = self.process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.process.join(timeout)
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def server() -> multiprocessing.context.ForkServerContext:
    """The context whose processes are forked from a warm one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.warm"])
    return context


class ForkedProvisioner(LocalProvisioner):
    """Forks a kernel where `LocalProvisioner` starts a program."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> dict[str, Any]:
        self.process = Forked(cmd, **self._scrub_kwargs(kwargs))
        self.pid, self.pgid = self.process.pid, None
        return self.connection_info


@contextmanager
def forked_kernels() -> Iterator[None]:
    """Within the block, kernels that this process starts are forked."""
    if not POSSIBLE:
        yield
        return
    factory = KernelProvisionerFactory.instance()
    before = factory.default_provisioner_name
    factory.provisioners["forked"] = SimpleNamespace(load=lambda: ForkedProvisioner)
    factory.default_provisioner_name = "forked"
    try:
        yield
    finally:
        factory.default_provisioner_name = before
