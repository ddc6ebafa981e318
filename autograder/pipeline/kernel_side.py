"""What the grader runs inside the kernel of a submission.

The text of this file is sent there and becomes a module, so it imports nothing of this project: neither it nor the
exercises need to be installed where student code runs. Nothing that comes back is believed.
"""

import base64
import importlib
import sys
import types

MIME = "application/vnd.headroom.reply+json"

probe_code: types.CodeType


def prepare(probe_source: str) -> None:
    """Ready a fresh kernel, before the student's first line: what is slow is done, and `check` does nothing.

    Args:
        probe_source: the text of the probe.
    """
    global probe_code
    probe_code = compile(probe_source, "<probe>", "exec")
    importlib.import_module("torch")
    module = types.ModuleType("autograder")
    vars(module)["check"] = lambda written: None
    sys.modules["autograder"] = module


def answer(request: str, name: str, nonce: str, most: int) -> None:
    """Hand a request to the probe, with what the notebook calls `name`, and display the reply.

    Args:
        request: the packed request, base64.
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
        packed = base64.b64encode(probe.answer(base64.b64decode(request), shell.user_ns[name])).decode()
        reply = {"status": "too large"} if len(packed) > most else {"status": "answered", "reply": packed}
    shell.display_pub.publish({MIME: reply | {"nonce": nonce}})
