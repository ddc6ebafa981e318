"""Runs the cells of a notebook in its kernel, within limits; whatever a cell does, it ends."""

import copy
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nbclient.exceptions import CellExecutionComplete, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute

from autograder.kernels.provisioner import MAX_MESSAGE
from autograder.pipeline.account import Account
from autograder.pipeline.cells import is_run
from autograder.pipeline.integrity import Remark
from autograder.pipeline.kernel import Kernel
from autograder.pipeline.kernel_side import MIME, SENT
from autograder.pipeline.outputs import OUTPUTS, SIGNALS, characters, showable, signal

NOT_ENDED = "did not end within"
Show = Callable[[dict[str, Any], NotebookNode, int], NotebookNode | None]  # nbclient's way to take in a message


@dataclass(frozen=True)
class Limits:
    """What a notebook may take.

    Args:
        cell_s: seconds of a cell; None for no limit of its own.
        notebook_s: seconds of all cells, fresh kernels included.
        first_s: seconds of the grader's own first cell in a fresh kernel.
        restarts: fresh kernels after the first.
        output: characters that a cell may print and display.
        shown: characters that are kept of what all cells print and display.
    """

    cell_s: float | None
    notebook_s: float
    first_s: float
    restarts: int
    output: int
    shown: int


@dataclass
class Request:
    """A request of the judge's, while a cell carries it.

    Args:
        exercise: what is checked.
        nonce: marks the reply.
        replies: those that came, two at most: honest code sends one.
    """

    exercise: str
    nonce: str
    replies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def takes(self, reply: object) -> bool:
        """Whether this is a reply to it, which is kept then."""
        if not isinstance(reply, dict) or reply.get("nonce") != self.nonce or len(self.replies) >= 2:
            return False
        self.replies.append(reply)
        return True


def for_student(happened: str) -> str:
    """The end of a sentence that says what happened in a cell, and what to look for in one that took too long."""
    return f"{happened}.{' Is there a loop without end in it?' * happened.startswith(NOT_ENDED)}"


class Cells:
    """The cells of one notebook.

    A cell that does not end is interrupted, then its kernel killed; a cell may also end the kernel itself. Either costs
    that cell: a fresh kernel runs the cells before it again, without it, and the notebook goes on.

    Args:
        client: executes a cell, has the notebook, and hands the kernel's messages to `take_in`.
        kernel: which the client starts.
        limits: of all cells together and of each.
        account: gets what is noted.
    """

    def __init__(self, client: Execute, kernel: Kernel, limits: Limits, account: Account) -> None:
        self._client, self._kernel, self._limits, self._account = client, kernel, limits, account
        client.timeout_func = lambda cell: self._seconds  # pyright: ignore[reportAttributeAccessIssue]  # fractions too
        self._restarts = self._shown = 0
        self._gone = False  # whether the last cell cost its kernel
        self._culprits: dict[int, str] = {}  # cells that are not run again → what happened, as the end of a sentence
        self._errors: dict[int, str] = {}
        self._request: Request | None = None  # to which a reply is awaited

    @property
    def all(self) -> list[NotebookNode]:
        return self._client.nb.cells

    @property
    def troubles(self) -> dict[int, str]:
        """What happened in cells that did not end, or raised something, as the end of a sentence."""
        return self._culprits | self._errors

    def begin(self) -> None:
        """Open the kernel; then the notebook's time begins.

        Raises:
            NoIsolation, and whatever else keeps a kernel from being used: the grader's own failure.
        """
        self._deadline = time.monotonic()
        self._open()
        self._deadline = time.monotonic() + self._limits.notebook_s

    def _open(self) -> None:
        try:
            self._kernel.start()
            for name in self._kernel.left_out:
                self._account.note(Remark(name, "is too large, too much, or no file: the kernel did not have it"))
            cell, sent = self._kernel.readying()
            if happened := self.execute(len(self.all), cell, sent, seconds=self._limits.first_s):
                raise RuntimeError(f"a fresh kernel cannot be used: its first cell {happened}")
        except Exception as problem:
            self._kernel.close()
            if problem is not self._account.exhausted:
                self._account.own_failure = problem
            raise problem from None

    def renew_if_gone(self, until: int) -> None:
        """If the last cell cost its kernel, have a fresh one, in which the cells before `until` have run again.

        All but checks and culprits. Afterwards there may be no kernel, if there were too many.
        """
        if not self._gone:
            return
        while self._restarts < self._limits.restarts and time.monotonic() < self._deadline:
            self._restarts += 1
            self._kernel.close()
            self._open()
            if self._replay(until):
                return
        self._kernel.close()

    def _replay(self, until: int) -> bool:
        for index, cell in enumerate(self.all[:until]):
            if is_run(cell) and index not in self._culprits:
                happened = self.execute(index, copy.deepcopy(cell))
                if happened:
                    self._culprits[index] = happened
                if self._gone:
                    return False
        return True

    def why_not(self) -> str | None:
        """Why nothing more is run, as the end of a sentence; None while there is a kernel and time."""
        if time.monotonic() > self._deadline:
            return f"was not run: the notebook used up its {self._limits.notebook_s:.0f} s"
        if not self._kernel.is_there:
            return f"was not run: the Python process had to be started anew {self._limits.restarts} times before"
        return None

    def run(self, index: int, cell: NotebookNode) -> None:
        """Run one of the student's cells."""
        happened = self.why_not() or self.execute(index, cell)
        if happened:
            self._culprits[index] = happened
            self._account.remark(index, happened)
            sentence = f"This cell {for_student(happened)}"
            cell.outputs = [o for o in cell.get("outputs", []) if o.output_type != "error"]
            cell.outputs.append(new_output("error", ename="NotFinished", evalue=sentence, traceback=[sentence]))
            if self._kernel.is_there:
                # Attack: processes that the cell has started go on, and cost the kernel while another cell runs.
                self._kernel.end_helpers()
                self.renew_if_gone(index)
            return
        for output in cell.outputs:
            if output.output_type == "error":
                what = re.sub(r" \(\S*?, line (\d+)\)", r" (line \1)", output.evalue.strip().split("\n")[0])
                self._errors[index] = f"raised {output.ename}: {what}" if what else f"raised {output.ename}"

    def execute(
        self,
        index: int,
        cell: NotebookNode,
        sent: tuple[str | dict[str, str], ...] = (),
        *,
        request: Request | None = None,
        seconds: float | None = None,
    ) -> str | None:
        """Execute a cell in the kernel; what prevented it from ending, as the end of a sentence, or None.

        Args:
            index: of the cell.
            cell: its outputs become what it shows.
            sent: what goes to the kernel beside the cell, in the message's metadata. IPython splits a cell's text into
                tokens and hashes it, which takes longer than to judge what a request asks for.
            request: which the cell carries, and which gets the replies.
            seconds: that it may take, where it is the grader's own.

        Raises:
            MemoryError: this process may not take what came back. Nothing more can be judged in it.
        """
        self._size, self._flooded, self._gone, self._unshown = 0, False, False, False
        left = max(0.1, self._deadline - time.monotonic())
        self._seconds = seconds or min(self._limits.cell_s or left, left)
        limit = f"{self._seconds:.0f} s" if self._seconds != left else self._rest
        client, cells = self._client, self.all
        client.nb.cells = [cell] * (index + 1)  # nbclient puts the executed cell into its place: not into the notebook
        assert client.kc is not None
        session, self._request = client.kc.session, request
        session.metadata = {SENT: sent} if sent else {}
        try:
            client.execute_cell(cell, index, store_history=request is None and seconds is None)
        except DeadKernelError:
            self._gone = True
            if self._flooded:
                return self._too_much_output
            if self._kernel.said_too_much:
                return f"sent a message of more than {MAX_MESSAGE // 10**6} MB to the grader, and was stopped"
            return self._kernel.death
        except CellTimeoutError:
            self._gone = True
            if self._flooded:  # and the interrupt was lost in what the kernel does as it prints
                return self._too_much_output
            return f"{NOT_ENDED} {limit}, not even when it was interrupted, and was stopped"
        except MemoryError as problem:
            self._account.exhausted = problem
            raise
        # nbclient, on a message that no kernel sends, such as one that is nested deeper than Python can follow
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            client.log.exception("a message that cannot be read")
            self._gone = True
            return "left the Python process in disorder"
        finally:
            client.nb.cells, session.metadata, self._request = cells, {}, None
            for note in self._kernel.notes():
                self._account.remark(index, note, request.exercise if request else "")
        self._shown += self._size
        if self._unshown:
            text = f"[Not all is shown: the notebook's outputs have more than {self._limits.shown:,} characters.]\n"
            cell.outputs.append(new_output("stream", name="stderr", text=text))
        if self._flooded:
            return self._too_much_output
        if any(output.get("ename") == "CellTimeoutError" for output in cell.outputs):
            return f"{NOT_ENDED} {limit} and was stopped"
        return None

    @property
    def _rest(self) -> str:
        return f"what was left of the notebook's {self._limits.notebook_s:.0f} s"

    @property
    def _too_much_output(self) -> str:
        return f"was stopped after {self._limits.output:,} characters of output"

    def take_in(self, message: dict[str, Any], cell: NotebookNode, index: int, show: Show) -> NotebookNode | None:
        """Take in one message of the kernel, whatever it is, while a cell is executed.

        Args:
            message: as Jupyter's protocol has it, or as a student's code forges it.
            cell: which is executed.
            index: of the cell.
            show: adds what a message holds to the cell's outputs.
        """
        try:
            return self._take_in(message, cell, index, show)
        except (CellExecutionComplete, MemoryError):
            raise
        except Exception:  # forged by student code: an honest kernel sends nothing that nbclient cannot take
            self._client.log.exception("a message that cannot be read")
            self._account.remark(index, "sent a message that no kernel sends")
            return None

    def _take_in(self, message: dict[str, Any], cell: NotebookNode, index: int, show: Show) -> NotebookNode | None:
        """A reply goes to the request, an output, up to a size, to the cell."""
        kind, content = message["msg_type"], message["content"]
        if kind not in OUTPUTS:  # no widgets, and nothing that changes the outputs of another cell
            return show({**message, "content": signal(content)}, cell, index) if kind in SIGNALS else None
        if self._request and kind == "display_data" and (reply := content["data"].get(MIME)):
            if not self._request.takes(reply):
                self._account.remark(index, "sent a reply that was not asked for", self._request.exercise)
            return None
        self._size += 100 + characters(content)
        if self._size > self._limits.output:
            if not self._flooded and self._kernel.is_there:
                self._flooded = True
                self._kernel.interrupt()
            return None
        if self._shown + self._size > self._limits.shown:
            self._unshown = True
            return None
        return show({**message, "content": showable(kind, content)}, cell, index)
