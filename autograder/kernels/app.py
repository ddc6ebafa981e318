"""IPython's kernel in the sandbox, less what nothing there asks for: it runs a few cells, and lives for a second.

What is left out takes as long to start as the rest, and longer than most cells.
"""

import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from ipykernel import ipkernel
from ipykernel.compiler import XCachingCompiler
from ipykernel.kernelapp import IPKernelApp
from ipykernel.zmqshell import ZMQInteractiveShell
from streams import StreamInPieces
from traitlets.config import Config


class MainThread:
    """In place of the thread that hands on messages, of which IPython asks whether it is false, and for its parent."""

    def __bool__(self) -> bool:
        return False

    @property
    def parent_thread(self) -> threading.Thread:
        """The one thread that takes messages."""
        return threading.main_thread()


class Kernel(ipkernel.IPythonKernel):
    """One without subshells."""

    _supports_kernel_subshells: Any = False


class App(IPKernelApp):
    """An IPython kernel that runs cells, and nothing else.

    It reads no command line and no configuration, of which it has none, and keeps no log; has no heartbeat, whose
    silence the grader would learn of later than of the process's end; and takes messages on one thread, because nobody
    asks it for subshells.
    """

    kernel_class = Kernel

    def parse_command_line(self, argv: Any = None) -> None:
        """There is none."""

    def load_config_file(self, suppress_errors: bool | None = None) -> None:
        """There is none."""

    def _configure_logging(self) -> None:
        """Nobody reads a log, and to set it up touches every logger of every library."""

    def log_connection_info(self) -> None:
        """Nobody reads it."""

    def init_heartbeat(self) -> None:
        """It would be two more threads."""

    def init_control(self, context: Any) -> None:
        """The control channel as IPython's, and no thread for subshells."""
        super().init_control(context)
        self.shell_channel_thread = MainThread()

    def init_code(self) -> None:
        """The names that are IPython's own, as IPython notes them; there is no code to run first."""
        assert self.shell is not None
        self.shell.user_ns_hidden.update(self.shell.user_ns)


def warm_shell() -> None:
    """Make the shell that each kernel gets a copy of, in the process that kernels are forked from."""
    shell: Any = ZMQInteractiveShell.instance(
        config=Config(HistoryManager={"hist_file": ":memory:"}), compiler_class=XCachingCompiler
    )
    shell._sys_modules_keys = set(sys.modules)
    inline = sys.modules["matplotlib_inline.backend_inline"]  # imported while there was no shell to hook into
    inline.configure_inline_support.current_backend = "unset"
    inline._enable_matplotlib_integration()


def kernel_app(connection: Path, work: str) -> App:
    """IPython's kernel, ready to be started.

    Args:
        connection: its connection file.
        work: the present folder.
    """
    app = App.instance(
        outstream_class=f"{StreamInPieces.__module__}.{StreamInPieces.__name__}", connection_file=str(connection)
    )
    # IPython looks at every module for its debugger, which there is none of: a copy of twelve megabytes of the parent's
    # memory, page by page.
    with mock.patch.object(ipkernel, "sys", SimpleNamespace(modules={})):
        app.initialize([])
    shell: Any = app.shell
    shell.parent = shell.kernel = app.kernel
    shell.profile_dir, shell.ipython_dir = app.profile_dir, app.ipython_dir
    shell.home_dir, shell.starting_dir = os.environ["HOME"], work
    return app
