"""Copies of the warm parent's code, changed for one test, and a warm-up of a second where nothing asks for PyTorch."""

import os
from pathlib import Path

from autograder.kernels import launch

WARM = "        warm()\n"
# What shuts a kernel in does not depend on what a notebook may import, and most of five seconds are PyTorch's.
LESS = """        from types import SimpleNamespace
        sys.modules["debugpy"] = None
        for name in "ipykernel.debugger ipykernel.zmqshell numpy matplotlib_inline.backend_inline pyseccomp".split():
            importlib.import_module(name)
        del sys.modules["debugpy"]
        sys.modules["torch"] = SimpleNamespace(default_generator=SimpleNamespace(seed=lambda: None))
        importlib.import_module("app").warm_shell()
"""


def copied(folder: Path, *edits: tuple[str, str, str]) -> Path:
    """A copy of what a warm parent consists of, with (file, text, replacement) done to it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in launch.HERE.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for file, old, new in edits:
            if file == path.name:
                assert text.count(old) == 1, f"{file} does not say this exactly once: {old!r}"
                text = text.replace(old, new)
        (folder / path.name).write_text(text, encoding="utf-8")
    for path in (folder, *folder.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    return folder


def light(folder: Path, *edits: tuple[str, str, str]) -> Path:
    """The same, of a warm parent that warms up in a second, and whose kernels have no PyTorch."""
    return copied(folder, ("parent.py", WARM, LESS), *edits)
