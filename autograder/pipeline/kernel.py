"""The kernel of a submission: started, readied for the grader's requests, asked how it ended, closed."""

import asyncio
import base64
import functools
import marshal
import signal
import sys
from collections.abc import Callable
from importlib.resources import files
from typing import Any

from jupyter_core.utils import ensure_async
from nbformat import NotebookNode
from nbgrader.preprocessors import Execute

from autograder.course import Course
from autograder.kernels.launch import NoIsolation
from autograder.kernels.provisioner import IsolatedKernelSpecs, PromptClient
from autograder.pipeline.cells import make_cell
from autograder.pipeline.kernel_side import SENT

AT_YOUR_RISK = (
    "To run it unprotected, with your full permissions: python -m autograder grade --no-isolation, or "
    "c.JudgedExecute.isolated = False in nbgrader_config.py."
)
PROBE = {  # the text of each of its files, after those that it imports
    name: files("autograder").joinpath("probe", f"{name}.py").read_text(encoding="utf-8")
    for name in ("wire", "stand_ins", "objects", "guards", "calls")
}
KERNEL_SIDE = files("autograder.pipeline").joinpath("kernel_side.py").read_text(encoding="utf-8")
GRADER = "_headroom_grader"  # what kernel_side is called in a kernel
BECOME_A_MODULE = (
    f"exec(get_ipython().get_parent()['metadata'][{SENT!r}][0], vars(__import__('sys').modules.setdefault({GRADER!r}, "
    f"__import__('types').ModuleType({GRADER!r}))))"
)
DEATHS = (
    {  # how an isolated kernel ended → as the end of a sentence
        -signal.SIGSEGV: " (segmentation fault)",
        -signal.SIGABRT: " (abort)",
        -signal.SIGBUS: " (bus error)",
        -signal.SIGFPE: " (arithmetic fault)",
        -signal.SIGILL: " (illegal instruction)",
        -9: " (killed: out of memory, or out of processor time)",
    }
    if sys.platform != "win32"
    else {}
)
MAX_LEFT_OUT = 20  # files that are named


def cannot_be_isolated(problem: NoIsolation) -> str:
    """That nothing is run, why, and what to do about it, as a sentence."""
    return f"students' code is not run, because it cannot be isolated here: {problem}. {AT_YOUR_RISK}"


def calling(function: str, *arguments: str | int) -> NotebookNode:
    """A cell that calls a function of `kernel_side` in the kernel and leaves no name behind."""
    return make_cell("code", _call(function, *arguments))


@functools.cache
def compiled_probe() -> dict[str, str]:
    """The code of each of the probe's files, as base64: to compile them takes longer than most answers."""
    codes = {name: compile(source, f"<probe/{name}.py>", "exec") for name, source in PROBE.items()}
    return {name: base64.b64encode(marshal.dumps(code)).decode() for name, code in codes.items()}


def _call(function: str, *arguments: str | int) -> str:
    return f"__import__({GRADER!r}).{function}(*{arguments!r})"


class Kernel:
    """The kernel in which a notebook's cells run: one after the other, where a cell ends it.

    Args:
        client: starts kernels, and holds the manager and the client of the present one, as nbclient does.
        isolated: whether it is forked from a warm parent into a sandbox (autograder/kernels/).
        course: tells whose notebook it is, which only an isolated kernel has to know.
        refused: why there is nothing that it can be forked from.
    """

    def __init__(
        self, client: Execute, isolated: bool, course: Callable[[], Course], refused: NoIsolation | None = None
    ) -> None:
        self._client, self._isolated, self._course, self._refused = client, isolated, course, refused

    def readying(self) -> tuple[NotebookNode, tuple[str, dict[str, str]]]:
        """Its first cell when it is fresh, and what is sent beside it; then it can be asked."""
        compiled = self._isolated  # and so forked from this Python, whose code it can take
        probe = compiled_probe() if compiled else PROBE
        return make_cell("code", f"{BECOME_A_MODULE}\n{_call('prepare', compiled)}"), (KERNEL_SIDE, probe)

    @property
    def is_there(self) -> bool:
        return self._client.km is not None

    @property
    def _provisioner(self) -> Any:
        """What started the kernel, and can tell about it; None where there is no kernel."""
        return None if self._client.km is None else self._client.km.provisioner

    def start(self) -> None:
        """Start one.

        Raises:
            NoIsolation: it cannot be isolated; the text says what to do.
        """
        client = self._client
        client.reset_execution_trackers()
        manager = client.create_kernel_manager()
        if self._isolated:
            manager.kernel_spec_manager = IsolatedKernelSpecs()
            manager.client_class = f"{PromptClient.__module__}.{PromptClient.__name__}"
        try:
            if self._refused is not None:
                raise self._refused
            client.start_new_kernel(**({"course": self._course()} if self._isolated else {}))
        except NoIsolation as problem:
            raise NoIsolation(cannot_be_isolated(problem)) from None
        client.start_new_kernel_client()

    def close(self) -> None:
        """End it, if there is one."""
        if self._client.km is not None:
            self._client._cleanup_kernel()  # pyright: ignore[reportPrivateUsage]  # as nbclient's own execution does
            self._client.km = self._client.kc = None

    def interrupt(self) -> None:
        """Interrupt it, and do not wait for that."""
        if self._client.km is not None:
            self._interrupting = asyncio.ensure_future(ensure_async(self._client.km.interrupt_kernel()))

    def end_helpers(self) -> None:
        """End the processes that it has started, so that none answers in its place."""
        if end_helpers := getattr(self._provisioner, "end_helpers", None):
            end_helpers()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Files beside the notebook that it does not have, some of them if there are many."""
        return getattr(self._provisioner, "left_out", ())[:MAX_LEFT_OUT]

    @property
    def said_too_much(self) -> bool:
        """Whether it was ended because of a message that was too large."""
        return getattr(self._provisioner, "said_too_much", False)

    @property
    def death(self) -> str:
        """How the student's code ended it, as the end of a sentence."""
        status = getattr(self._provisioner, "exit_status", None)
        return f"ended the Python process{'' if status is None else DEATHS.get(status, '')}"

    def notes(self) -> list[str]:
        """What it noted about itself since the last call."""
        notes = getattr(self._provisioner, "notes", None)
        return notes() if notes else []
