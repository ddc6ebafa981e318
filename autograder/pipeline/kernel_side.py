"""What the grader runs inside the kernel of a submission.

The text of this file is sent there and becomes a module, so it imports nothing of this project: neither it nor the
exercises need to be installed where student code runs. Nothing that comes back is believed.
"""

import base64
import builtins
import importlib
import marshal
import sys
import types
from typing import Any

MIME = "application/vnd.headroom.reply+json"
SENT = "headroom_sent"  # in the metadata of the message that has a cell run: what the grader sent beside the cell
PROBE = "_headroom_probe"  # what the probe is called in a kernel

probe_code: dict[str, types.CodeType]  # of its files, by name, each after those that it imports


def sent() -> list[Any]:
    """What the grader sent beside the cell that runs."""
    return sys.modules["IPython"].get_ipython().get_parent()["metadata"][SENT]


def prepare(compiled: bool = False) -> None:
    """Ready a fresh kernel, before the student's first line: what is slow is done, and `check` does nothing.

    The text of this file is sent beside the cell, and each of the probe's, by name: its text, or its code if compiled.
    """
    global probe_code
    _, files = sent()
    probe_code = {
        name: marshal.loads(base64.b64decode(file)) if compiled else compile(file, f"<probe/{name}.py>", "exec")
        for name, file in files.items()
    }
    importlib.import_module("torch")
    module = types.ModuleType("autograder")
    vars(module)["check"] = lambda written: None
    sys.modules["autograder"] = module


def new_probe() -> types.ModuleType:
    """The probe as a new package, so that nothing matters that the student's code did to an earlier one.

    Its relative imports find the files of this package: they do not look into `sys.modules`, where students' code can
    put others.
    """
    package = sys.modules[PROBE] = types.ModuleType(PROBE)

    def import_(name: str, space: Any, local: Any, names: Any, level: int) -> types.ModuleType:
        return vars(package)[name] if level else __import__(name, space, local, names, level)

    for name, code in probe_code.items():
        module = vars(package)[name] = sys.modules[f"{PROBE}.{name}"] = types.ModuleType(f"{PROBE}.{name}")
        vars(module)["__builtins__"] = vars(builtins) | {"__import__": import_}
        exec(code, vars(module))
    return package


def answer(name: str, nonce: str, most: int) -> None:
    """Hand the request that was sent to the probe, with what the notebook calls `name`, and display the reply.

    The request is packed, and base64.

    Args:
        name: of the function or class that the student writes.
        nonce: marks the reply as that to this request.
        most: characters of a reply.
    """
    shell = sys.modules["IPython"].get_ipython()
    if name not in shell.user_ns:
        reply = {"status": "missing"}
    else:
        probe = new_probe()
        (request,) = sent()
        packed = base64.b64encode(probe.calls.answer(base64.b64decode(request), shell.user_ns[name])).decode()
        reply = {"status": "too large"} if len(packed) > most else {"status": "answered", "reply": packed}
    shell.display_pub.publish({MIME: reply | {"nonce": nonce}})
