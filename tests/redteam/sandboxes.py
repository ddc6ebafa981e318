"""Kernels of warm parents that a test has changed."""

import asyncio
import contextlib
import os
import select
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jupyter_client import AsyncKernelManager
from traitlets.config import Config

from autograder.kernels import launch
from autograder.kernels.provisioner import IsolatedKernelSpecs, PromptClient
from tests.redteam import light

BOTH = ("namespaces", "landlock")
STOLEN = "STOLEN"
LIMITS = {"memory_mb": 300, "disk_mb": 16, "file_mb": 8, "processes": 24}
# The forked kernel takes its sandbox from a file that the test names: one warm parent serves for all of them.
ENTER = '    work = sandbox.enter(kind, run, request["limits"])\n'
VARIANT = f"""    if variant := os.environ.pop("HEADROOM_VARIANT", ""):
        readable = sandbox.READABLE
        exec(compile(Path(__file__).with_name(variant).read_text(), variant, "exec"), sandbox.__dict__)
        sandbox.READABLE = readable
{ENTER}"""


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


def attempt(folder: Path, code: str, beside: str = "", limits: dict[str, int] | None = None) -> str:
    """What code says that is run in a fresh kernel.

    Args:
        folder: in which it starts.
        beside: run before that in another kernel, which was there first and goes on.
        limits: where they are others than `LIMITS`.
    """

    async def both() -> str:
        async with contextlib.AsyncExitStack() as running:
            other = await running.enter_async_context(Kernel(folder, limits)) if beside else None
            attacker = await running.enter_async_context(Kernel(folder, limits))
            if other:
                assert STOLEN not in await other.run(beside)
            return await attacker.run(code)

    return asyncio.run(both())
