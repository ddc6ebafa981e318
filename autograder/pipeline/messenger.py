"""Carries a request of the judge to the probe in a notebook's kernel, and the reply back."""

import base64
import binascii
import re
import secrets

from autograder.pipeline.account import Account
from autograder.pipeline.kernel import Kernel, calling
from autograder.pipeline.running import Cells, Request, for_student


class Messenger:
    """The way from the judge to the kernel of a notebook.

    Args:
        kernel: of the notebook.
        cells: of the notebook, in which a request is carried as one more.
        account: gets what is noted.
        max_reply: characters of a reply.
    """

    def __init__(self, kernel: Kernel, cells: Cells, account: Account, max_reply: int) -> None:
        self._kernel, self._cells, self._account, self._max_reply = kernel, cells, account, max_reply

    def ask(self, index: int, name: str, request: bytes) -> bytes:
        """The probe's reply, as far as it can be believed: bytes that the kernel sent.

        Args:
            index: of the check.
            name: of the exercise, which is what the notebook calls its answer.
            request: as the judge has it.

        Raises:
            NoAnswer: there is none; the text says why.
        """
        from autograder.judge import NoAnswer  # which brings PyTorch

        if reason := self._cells.why_not():
            raise NoAnswer(f"it {reason}.")
        self._kernel.end_helpers()
        awaited = Request(name, secrets.token_hex(16))
        cell = calling("answer", name, awaited.nonce, self._max_reply)
        sent = (base64.b64encode(request).decode(),)
        if happened := self._cells.execute(index, cell, sent, request=awaited):
            self._account.remark(index, happened, name)
            self._cells.renew_if_gone(index)
            raise NoAnswer(f"while it was being checked, your code {for_student(happened)}")
        if len(awaited.replies) > 1:
            self._account.remark(index, "sent more than one reply", name)
            raise NoAnswer("the check got more than one answer from the notebook's Python process.")
        if not awaited.replies:
            errors = [output for output in cell.outputs if output.output_type == "error"]
            why = f": the code raised {errors[-1].ename}: {errors[-1].evalue[:200]}" if errors else ""
            raise NoAnswer(f"the check got no answer from the notebook's Python process{why}.")
        (reply,) = awaited.replies
        if reply.get("status") == "missing":
            sources = [cell.source if cell.cell_type == "code" else "" for cell in self._cells.all]
            raise NoAnswer(why_missing(name, index, sources, self._cells.troubles))
        if reply.get("status") == "too large":
            raise NoAnswer("what it returns is too large to be compared.")
        try:
            return base64.b64decode(reply["reply"], validate=True)
        except (KeyError, TypeError, binascii.Error):
            return b""  # which the judge cannot read, and says so


def why_missing(name: str, index: int, sources: list[str], troubles: dict[int, str]) -> str:
    """Why a name is not defined, as a sentence.

    Args:
        name: which the check asks for.
        index: of the check.
        sources: the text of each cell, "" where it is no code.
        troubles: what happened in cells, as the end of a sentence.
    """
    # Attack: blank lines, each of which would be the beginning of all that follow it.
    defines = re.compile(rf"^[ \t]*+(?:(?:class|def)[ \t]+{name}\b|{name}[ \t]*=)", re.MULTILINE)
    places = [place for place, source in enumerate(sources) if defines.search(source)]
    before = [place for place in places if place < index]
    if troubled := [place for place in before if place in troubles]:
        return f"{name} is not defined: the cell that defines it {for_student(troubles[troubled[-1]])}"
    if before:
        return f"{name} is not defined here, although a cell above defines it: is it deleted again?"
    if places:
        return f"{name} is not defined here: the cell that defines it comes after its check."
    return f"{name} is not defined: the cell that defines it is missing, or gives it another name."
