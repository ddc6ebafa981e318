"""Runs the student's cells within limits, and has each check judged outside of the kernel."""

import asyncio
import base64
import binascii
import contextlib
import copy
import functools
import importlib
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async
from nbclient.exceptions import CellExecutionComplete, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader import utils
from nbgrader.preprocessors import Execute
from traitlets import Bool, Float, Integer, default
from traitlets.config import Config

from autograder.course import Course, course_of
from autograder.kernels.launch import NoIsolation, WarmParent, warm_parent
from autograder.kernels.provisioner import MAX_MESSAGE, IsolatedKernelSpecs, PromptClient
from autograder.pipeline.cells import checked_name, is_check, is_run
from autograder.pipeline.course import within_reach
from autograder.pipeline.integrity import MAX_REMARKS, NOTED, Remark
from autograder.pipeline.kernel_side import MIME, SENT
from autograder.pipeline.outputs import OUTPUTS, SIGNALS, characters, showable
from autograder.pipeline.recorded import record
from autograder.pipeline.texts import encodable

# The judge brings PyTorch, which takes seconds: commands that judge nothing use this file too.
if TYPE_CHECKING:
    from autograder.verdict import Verdict

ENDED = "autograder_ended"  # … under which it is said why nothing more is run, and what had been judged before
SCORES = "autograder_scores"  # the key in nbgrader's resources under which the shares of the points travel
AT_YOUR_RISK = (
    "To run it unprotected, with your full permissions: python -m autograder grade --no-isolation, or "
    "c.JudgedExecute.isolated = False in nbgrader_config.py."
)
PROBE = {  # the text of each of its files, after those that it imports
    name: files("autograder").joinpath("probe", f"{name}.py").read_text(encoding="utf-8")
    for name in ("wire", "stand_ins", "guards", "calls")
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


def unseeded(config: Config) -> Config:
    """A configuration but for the seed, which differs from submission to submission."""
    config = copy.deepcopy(config)
    config.JudgedExecute.pop("seed", None)
    return config


class JudgedExecute(Execute):
    """nbgrader's Execute, which survives whatever a cell does, and for a check asks the judge instead of the kernel.

    A cell that does not end is interrupted, then its kernel killed; a cell may also end the kernel itself. Either costs
    that cell: a fresh kernel runs the cells before it again, without it, and the notebook goes on. A kernel that
    cannot be started is the grader's own failure and raises, so that the submission stays ungraded. What stands below
    the last graded code cell cannot change a grade and is not run.

    The kernel is forked from a warm parent into a sandbox (autograder/kernels/). Cells that are there to be looked at
    (locked, ungraded, called picture-… or reward-…) may use what only students' own notebooks have, and are not run.

    Each check gets its verdict as its only output, and its share of the points goes into `resources[SCORES]`; what an
    instructor might want to know besides goes into `resources[NOTED]`.
    `on_verdict` is called with each check cell and its verdict as soon as there is one.
    """

    on_verdict: Callable[[NotebookNode, "Verdict"], None] | None = None
    # Called likewise, with what can be sent to another process: what was `judged`, and what was `noted`.
    say: Callable[[dict[str, Any]], None] | None = None
    course: Course | None = None  # whose exercises are checked; that which nbgrader grades if None
    own_failure: BaseException | None = None  # what kept the grader itself from going on
    _refused: NoIsolation | None = None  # why `make_ready` has no process to fork kernels from

    isolated = Bool(True, help="run students' code in a sandbox, or not at all; False is at your own risk").tag(
        config=True
    )
    total_timeout = Float(180.0, help="seconds that a whole notebook may take, restarts included").tag(config=True)
    max_restarts = Integer(3, help="fresh kernels that a notebook gets after the first").tag(config=True)
    max_output = Integer(1_000_000, help="characters of output that a cell may produce").tag(config=True)
    max_shown = Integer(10_000_000, help="characters of output that are kept of a whole notebook").tag(config=True)
    max_reply = Integer(30_000_000, help="characters of one reply to the judge").tag(config=True)
    seed = Integer(None, allow_none=True, help="of the hidden cases; drawn afresh for each check if None").tag(
        config=True
    )

    @default("iopub_timeout")
    def _iopub_timeout_default(self) -> int:
        return 3  # seconds after which an interrupt that is not heeded ends the kernel

    @default("shutdown_kernel")
    def _shutdown_kernel_default(self) -> str:
        return "immediate"  # student code has no say in how its kernel ends

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any], km: Any = None
    ) -> tuple[NotebookNode, dict[str, Any]]:
        self.nb, self.km, self.kc, self.owns_km = nb, None, None, True
        self._check_assign_resources(resources)
        self.timeout_func = lambda cell: self._seconds  # pyright: ignore[reportAttributeAccessIssue]  # fractions too
        self._restarts = self._shown = 0
        self._culprits: dict[int, str] = {}  # cells that are not run again → what happened, as the end of a sentence
        self._errors: dict[int, str] = {}
        self._collecting: str | None = None  # the nonce of the reply that is awaited
        self._remarks: list[Remark] = list(resources.get(NOTED, []))
        self.own_failure = None
        judged: dict[int, dict[str, Any]] = {}
        graded = [i for i, cell in enumerate(nb.cells) if cell.cell_type == "code" and utils.is_grade(cell)]
        if ended := resources.get(ENDED):
            from autograder.verdict import not_judged

            scores = {nb.cells[i].metadata.nbgrader.grade_id: 0.0 for i in graded if is_check(nb.cells[i])}
            for index in graded:
                if name := checked_name(cell := nb.cells[index]):
                    verdict = not_judged(name, f"it was not judged: {ended['why']}.")
                    silence = _told(cell, verdict.worth(float(cell.metadata.nbgrader.points)))
                    judged[index] = ended["judged"].get(silence["grade_id"], silence)
            for noted in ended["noted"]:
                self._note(Remark(**noted))
            self._note(Remark("grading", f"was broken off: {ended['why']}"))
        else:
            scores = {}
            self._run_all(graded, judged)
        # Written last, when no kernel is left that could still change an output.
        for index, told in judged.items():
            cell = nb.cells[index]
            cell.execution_count = None
            shown = {"text/plain": told["text"], "text/html": told["html"]}
            cell.outputs = [new_output("display_data", shown, metadata=told["recorded"])]
            scores[told["grade_id"]] = told["score"]
            if told["forbidden"]:
                self._remark(index, f"calls `{told['forbidden']}`, which the task forbids", asked=told["exercise"])
        resources[SCORES], resources[NOTED] = scores, self._remarks
        return nb, resources

    def make_ready(self) -> WarmParent | None:
        """What kernels are forked from, started if need be; None where that fails, which every submission is told.

        A unit, which gets a copy of this object, starts none of its own: nobody would remove what that leaves.
        """
        _import_what_judges(self.graded_course)
        self._refused = None
        try:
            if self.isolated and (why := within_reach(self.config)):
                raise NoIsolation(why)
            return warm_parent(self.graded_course) if self.isolated else None
        except NoIsolation as problem:
            self._refused = problem
            return None

    def _run_all(self, graded: list[int], judged: dict[int, dict[str, Any]]) -> None:
        """Run the cells up to the last graded one, and fill in what each check was judged to be worth."""
        self._deadline = time.monotonic()
        self._open_kernel()
        self._deadline = time.monotonic() + self.total_timeout
        try:
            for index, cell in enumerate(self.nb.cells[: 1 + max(graded, default=-1)]):
                if name := checked_name(cell):
                    verdict = self._judge(index, name).worth(float(cell.metadata.nbgrader.points))
                    judged[index] = _told(cell, verdict)
                    if self.on_verdict is not None:
                        self.on_verdict(cell, verdict)
                    if self.say is not None:
                        self.say({"judged": judged[index]})
                elif is_run(cell):
                    self._run(index, cell)
        finally:
            self._close_kernel()

    def _judge(self, index: int, name: str) -> "Verdict":
        """The verdict of one check, whatever the judge meets with in what comes back."""
        from autograder.judge import judge
        from autograder.verdict import not_judged

        try:
            exercise = self.graded_course.find(name)
        except Exception as problem:
            self.own_failure = problem
            raise
        try:
            verdict = judge(exercise, lambda request: self._ask(index, name, request), self.seed)
        except Exception as problem:
            if self.own_failure is not None:
                raise self.own_failure from None
            self.log.exception("the judge cannot take what came back")
            kind = type(problem).__name__
            self._remark(index, f"was answered with something at which the judge raised {kind}", asked=name)
            return not_judged(
                name, f"the check got an answer with which it could do nothing ({kind}), so nothing was compared."
            )
        if self.own_failure is not None:  # and the judge took it for silence
            raise self.own_failure
        return verdict

    @property
    def graded_course(self) -> Course:
        """Whose exercises are checked. Attack: a pyproject.toml that is handed in; nobody looks beside the notebook."""
        about = self.config.get("CourseDirectory", {})
        return self.course or course_of(Path(about["root"]) if "root" in about else None)

    def _remark(self, index: int, what: str, asked: str = "") -> None:
        """Note something for the instructor: what a cell does, or what the code does when a check asks for it."""
        where = f"while `{asked}` was checked" if asked else f"cell {index + 1}"
        self._note(Remark(where, what))

    def _note(self, remark: Remark) -> None:
        """Keep a remark. Attack: what was noted is lost because the code ends the process that holds it."""
        if remark not in self._remarks:
            self._remarks.append(remark)
            if self.say is not None and len(self._remarks) <= MAX_REMARKS:
                self.say({"noted": vars(remark)})

    # --- Kernels -------------------------------------------------------------------------------------------------

    @property
    def _provisioner(self) -> Any:
        """What started the kernel, and can tell about it; None where there is no kernel."""
        return None if self.km is None else self.km.provisioner

    def _open_kernel(self) -> None:
        self.reset_execution_trackers()
        manager = self.create_kernel_manager()
        if self.isolated:
            manager.kernel_spec_manager = IsolatedKernelSpecs()
            manager.client_class = f"{PromptClient.__module__}.{PromptClient.__name__}"
        try:
            if self._refused is not None:
                raise self._refused
            self.start_new_kernel(**({"course": self.graded_course} if self.isolated else {}))
            self.start_new_kernel_client()
            for name in getattr(self._provisioner, "left_out", ())[:20]:
                self._note(Remark(name, "is too large, too much, or no file: the kernel did not have it"))
            cell = new_code_cell(f"{BECOME_A_MODULE}\n{self._call('prepare')}")
            if happened := self._execute(len(self.nb.cells), cell, self.startup_timeout, (KERNEL_SIDE, PROBE)):
                raise RuntimeError(f"a fresh kernel cannot be used: its first cell {happened}")
        except Exception as problem:
            self._close_kernel()
            if isinstance(problem, NoIsolation):
                problem = NoIsolation(
                    f"students' code is not run, because it cannot be isolated here: {problem}. {AT_YOUR_RISK}"
                )
            self.own_failure = problem
            raise problem from None

    def _close_kernel(self) -> None:
        if self.km is not None:
            self._cleanup_kernel()
            self.km = self.kc = None

    def _renew(self, until: int) -> None:
        """Replace the kernel, and run the cells before `until` again, without checks and culprits."""
        while self._restarts < self.max_restarts and time.monotonic() < self._deadline:
            self._restarts += 1
            self._close_kernel()
            self._open_kernel()
            if self._replay(until):
                return
        self._close_kernel()

    def _replay(self, until: int) -> bool:
        for index, cell in enumerate(self.nb.cells[:until]):
            if is_run(cell) and index not in self._culprits:
                happened = self._execute(index, copy.deepcopy(cell))
                if happened:
                    self._culprits[index] = happened
                if self._gone:
                    return False
        return True

    def _why_not(self) -> str | None:
        """Why nothing more is run, as the end of a sentence; None while there is a kernel and time."""
        if time.monotonic() > self._deadline:
            return f"was not run: the notebook used up its {self.total_timeout:.0f} s"
        if self.km is None:
            return f"was not run: the Python process had to be started anew {self.max_restarts} times before"
        return None

    # --- Cells ---------------------------------------------------------------------------------------------------

    def _run(self, index: int, cell: NotebookNode) -> None:
        """Run one of the student's cells; whatever it does, it ends."""
        happened = self._why_not() or self._execute(index, cell)
        if happened:
            self._culprits[index] = happened
            self._remark(index, happened)
            sentence = f"This cell {happened}."
            cell.outputs = [o for o in cell.get("outputs", []) if o.output_type != "error"]
            cell.outputs.append(new_output("error", ename="NotFinished", evalue=sentence, traceback=[sentence]))
            if self.km is not None and self._gone:
                self._renew(index)
            return
        for output in cell.outputs:
            if output.output_type == "error":
                what = re.sub(r" \(\S*?, line (\d+)\)", r" (line \1)", output.evalue.strip().split("\n")[0])
                self._errors[index] = f"raised {output.ename}: {what}" if what else f"raised {output.ename}"

    def _execute(
        self, index: int, cell: NotebookNode, seconds: float | None = None, sent: tuple[str | dict[str, str], ...] = ()
    ) -> str | None:
        """Execute a cell in the kernel; what prevented it from ending, as the end of a sentence, or None.

        Args:
            index: of the cell.
            cell: its outputs become what it shows.
            seconds: that it may take, where it is the grader's own.
            sent: what goes to the kernel beside the cell, in the message's metadata. IPython splits a cell's text into
                tokens and hashes it, which takes longer than to judge what a request asks for.
        """
        self._size, self._flooded, self._gone, self._unshown = 0, False, False, False
        left = max(0.1, self._deadline - time.monotonic())
        self._seconds = seconds or min(self.timeout or left, left)
        limit = f"{self._seconds:.0f} s" if self._seconds != left else f"the notebook's {self.total_timeout:.0f} s"
        of_grader = seconds is not None or self._collecting is not None
        cells = self.nb.cells
        self.nb.cells = [cell] * (index + 1)  # nbclient puts the executed cell into its place: not into the notebook
        assert self.kc is not None
        session = self.kc.session
        session.metadata = {SENT: sent} if sent else {}
        try:
            self.execute_cell(cell, index, store_history=not of_grader)
        except DeadKernelError:
            self._gone = True
            if getattr(self._provisioner, "said_too_much", False) and not self._flooded:
                return f"sent a message of more than {MAX_MESSAGE // 10**6} MB to the grader, and was stopped"
            if self._flooded:
                return self._too_much_output()
            status = getattr(self._provisioner, "exit_status", None)
            return f"ended the Python process{'' if status is None else DEATHS.get(status, '')}"
        except CellTimeoutError:
            self._gone = True
            if self._flooded:  # and the interrupt was lost in what the kernel does as it prints
                return self._too_much_output()
            return f"did not end within {limit}, not even when it was interrupted, and was stopped"
        # nbclient, on a message that no kernel sends, such as one that is nested deeper than Python can follow
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            self.log.exception("a message that cannot be read")
            self._gone = True
            return "left the Python process in disorder"
        finally:
            self.nb.cells, session.metadata = cells, {}
            for said in self._said_by_kernel():
                self._remark(index, said, asked=self._asked if self._collecting else "")
        self._shown += self._size
        if self._unshown:
            text = f"[Not all is shown: the notebook's outputs have more than {self.max_shown:,} characters.]\n"
            cell.outputs.append(new_output("stream", name="stderr", text=text))
        if self._flooded:
            return self._too_much_output()
        if any(output.get("ename") == "CellTimeoutError" for output in cell.outputs):
            return f"did not end within {limit} and was stopped"
        return None

    def _too_much_output(self) -> str:
        return f"was stopped after {self.max_output:,} characters of output"

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        try:
            return self._take_in(msg, cell, cell_index)
        except CellExecutionComplete:
            raise
        except Exception:  # forged by student code: an honest kernel sends nothing that nbclient cannot take
            self.log.exception("a message that cannot be read")
            self._remark(cell_index, "sent a message that no kernel sends")
            return None

    def _take_in(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Take in one message of the kernel: a reply to the judge, or an output that may be shown, up to a size."""
        kind = msg["msg_type"]
        if kind not in OUTPUTS:  # no widgets, and nothing that changes the outputs of another cell
            return super().process_message(msg, cell, cell_index) if kind in SIGNALS else None
        content = msg["content"]
        if self._collecting and kind == "display_data" and (reply := content["data"].get(MIME)):
            if isinstance(reply, dict) and reply.get("nonce") == self._collecting and len(self._replies) < 2:
                self._replies.append(reply)
            else:
                self._remark(cell_index, "sent a reply that was not asked for", asked=self._asked)
            return None
        self._size += 100 + characters(content)
        if self._size > self.max_output:
            if not self._flooded and self.km is not None:
                self._flooded = True
                self._interrupting = asyncio.ensure_future(ensure_async(self.km.interrupt_kernel()))
            return None
        if self._shown + self._size > self.max_shown:
            self._unshown = True
            return None
        return super().process_message({**msg, "content": showable(kind, content)}, cell, cell_index)

    # --- Checks --------------------------------------------------------------------------------------------------

    def _ask(self, index: int, name: str, request: bytes) -> bytes:
        """Carry a request of the judge to the probe in the kernel, and the reply back."""
        from autograder.judge import NoAnswer

        if reason := self._why_not():
            raise NoAnswer(f"it {reason}.")
        if end_helpers := getattr(self._provisioner, "end_helpers", None):
            end_helpers()
        nonce = secrets.token_hex(16)
        cell = new_code_cell(self._call("answer", name, nonce, self.max_reply))
        self._replies, self._collecting, self._asked = [], nonce, name
        try:
            happened = self._execute(index, cell, sent=(base64.b64encode(request).decode(),))
        finally:
            self._collecting = None
        if happened:
            self._remark(index, happened, asked=name)
            if self._gone:
                self._renew(index)
            raise NoAnswer(f"while it was being checked, your code {happened}.")
        errors = [output for output in cell.outputs if output.output_type == "error"]
        if len(self._replies) > 1:
            self._remark(index, "sent more than one reply", asked=name)
            raise NoAnswer("the check got more than one answer from the notebook's Python process.")
        if not self._replies:
            why = f": the code raised {errors[-1].ename}: {errors[-1].evalue[:200]}" if errors else ""
            raise NoAnswer(f"the check got no answer from the notebook's Python process{why}.")
        (reply,) = self._replies
        if reply.get("status") == "missing":
            raise NoAnswer(self._why_missing(index, name))
        if reply.get("status") == "too large":
            raise NoAnswer("what it returns is too large to be compared.")
        try:
            return base64.b64decode(reply["reply"], validate=True)
        except (KeyError, TypeError, binascii.Error):
            return b""  # which the judge cannot read, and says so

    def _said_by_kernel(self) -> list[str]:
        notes = getattr(self._provisioner, "notes", None)
        return notes() if notes else []

    def _why_missing(self, index: int, name: str) -> str:
        """Why a name is not defined, as a sentence."""
        # Attack: blank lines, each of which would be the beginning of all that follow it.
        defines = re.compile(rf"^[ \t]*+(?:(?:class|def)[ \t]+{name}\b|{name}[ \t]*=)", re.MULTILINE)
        cells = [i for i, cell in enumerate(self.nb.cells) if cell.cell_type == "code" and defines.search(cell.source)]
        before = [i for i in cells if i < index]
        happened = self._culprits | self._errors
        if troubled := [i for i in before if i in happened]:
            return f"{name} is not defined: the cell that defines it {happened[troubled[-1]]}."
        if before:
            return f"{name} is not defined here, although a cell above defines it: is it deleted again?"
        if cells:
            return f"{name} is not defined here: the cell that defines it comes after its check."
        return f"{name} is not defined: the cell that defines it is missing, or gives it another name."

    @staticmethod
    def _call(function: str, *arguments: str | int) -> str:
        """The text of a cell that calls a function of `kernel_side` in the kernel and leaves no name behind."""
        return f"__import__({GRADER!r}).{function}(*{arguments!r})"


@functools.cache
def _import_what_judges(course: Course) -> None:
    """Import here what every unit would import for itself: it takes longer than to judge a submission."""
    importlib.import_module("autograder.judge")
    with contextlib.suppress(Exception):  # what is wrong with a course is said where it is asked for an exercise
        course.load()


def _told(cell: NotebookNode, verdict: "Verdict") -> dict[str, Any]:
    """What is kept of a verdict: text and numbers, which can be sent, and can be written as UTF-8."""
    return {
        "grade_id": cell.metadata.nbgrader.grade_id,
        "score": verdict.score,
        "text": encodable(verdict.text()),
        "html": encodable(verdict.html()),
        "exercise": verdict.exercise,
        "forbidden": verdict.forbidden,
        "recorded": record(verdict),
    }
