"""What the grader runs inside the kernel of a submission.

The text of this file is sent there and becomes a module, so it imports nothing of this project: neither it nor the
exercises need to be installed where student code runs. Nothing that comes back is believed.
"""

import base64
import importlib
import sys
import types

MIME = "application/vnd.headroom.reply+json"
SENT = "headroom_sent"  # in the metadata of the message that has a cell run: what the grader sent beside the cell

probe_code: types.CodeType


def sent() -> list[str]:
    """What the grader sent beside the cell that runs."""
    return sys.modules["IPython"].get_ipython().get_parent()["metadata"][SENT]


def prepare() -> None:
    """Ready a fresh kernel, before the student's first line: what is slow is done, and `check` does nothing.

    The texts of this file and of the probe are sent beside the cell.
    """
    global probe_code
    _, probe_source = sent()
    probe_code = compile(probe_source, "<probe>", "exec")
    importlib.import_module("torch")
    module = types.ModuleType("autograder")
    vars(module)["check"] = lambda written: None
    sys.modules["autograder"] = module


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
        # A new module each time, so that nothing that the student's code did to an earlier one matters.
        probe = sys.modules["_headroom_probe"] = types.ModuleType("_headroom_probe")
        exec(probe_code, probe.__dict__)
        (request,) = sent()
        packed = base64.b64encode(probe.answer(base64.b64decode(request), shell.user_ns[name])).decode()
        reply = {"status": "too large"} if len(packed) > most else {"status": "answered", "reply": packed}
    shell.display_pub.publish({MIME: reply | {"nonce": nonce}})
