"""Runs and judges a notebook for nbgrader: the student's cells in a kernel, each check outside of it."""

import contextlib
import copy
import functools
import gc
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import Execute
from traitlets import Bool, Float, Integer, default
from traitlets.config import Config

from autograder.course import Course, course_of
from autograder.kernels.launch import NoIsolation, WarmParent, warm_parent
from autograder.pipeline.account import Account
from autograder.pipeline.cells import checked_name, is_run
from autograder.pipeline.course import within_reach
from autograder.pipeline.integrity import NOTED, UNREAD
from autograder.pipeline.kernel import Kernel, compiled_probe
from autograder.pipeline.messenger import Messenger
from autograder.pipeline.running import Cells, Limits

# The judge brings PyTorch, which takes seconds: commands that judge nothing use this file too.
if TYPE_CHECKING:
    from autograder.verdict import Verdict

ENDED = "autograder_ended"  # … under which it is said why nothing more is run, and what had been judged before
SCORES = "autograder_scores"  # the key in nbgrader's resources under which the shares of the points travel


def unseeded(config: Config) -> Config:
    """A configuration but for the seed, which differs from submission to submission."""
    config = copy.deepcopy(config)
    config.JudgedExecute.pop("seed", None)
    return config


class JudgedExecute(Execute):
    """nbgrader's Execute, which survives whatever a cell does, and for a check asks the judge instead of the kernel.

    How cells are run, `Cells` says. A kernel that cannot be started is the grader's own failure and raises, so that the
    submission stays ungraded. What stands below the last graded code cell cannot change a grade and is not run.

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

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.account = Account()  # of the notebook that is graded, or was last

    @property
    def own_failure(self) -> BaseException | None:
        """What kept the grader itself from going on."""
        return self.account.own_failure

    def preprocess(
        self, nb: NotebookNode, resources: dict[str, Any], km: Any = None
    ) -> tuple[NotebookNode, dict[str, Any]]:
        self.nb, self.km, self.kc, self.owns_km = nb, None, None, True
        self._check_assign_resources(resources)
        self.account = Account(resources.get(NOTED, []), self.say)
        if ended := resources.get(ENDED):
            self.account.break_off(nb.cells, ended)
        elif why := resources.get(UNREAD):
            self.account.give_nothing(nb.cells, f"{why}.", attempted=False)
        else:
            self._run_all()
        # Written last, when no kernel is left that could still change an output.
        resources[SCORES] = self.account.write(nb.cells)
        resources[NOTED] = self.account.remarks
        return nb, resources

    def make_ready(self) -> WarmParent | None:
        """What kernels are forked from, started if need be; None where that fails, which every submission is told.

        A unit, which gets a copy of this object, starts none of its own: nobody would remove what that leaves.
        """
        _import_what_judges(self.graded_course)
        compiled_probe()  # here and once, and not in each unit
        self._refused = None
        try:
            if self.isolated and (why := within_reach(self.config)):
                raise NoIsolation(why)
            return warm_parent(self.graded_course) if self.isolated else None
        except NoIsolation as problem:
            self._refused = problem
            return None

    def _run_all(self) -> None:
        """Run the cells up to the last graded one, and judge the checks among them."""
        limits = Limits(
            cell_s=self.timeout,
            notebook_s=self.total_timeout,
            first_s=self.startup_timeout,
            restarts=self.max_restarts,
            output=self.max_output,
            shown=self.max_shown,
        )
        kernel = Kernel(self, self.isolated, lambda: self.graded_course, self._refused)
        self._cells = cells = Cells(self, kernel, limits, self.account)
        messenger = Messenger(kernel, cells, self.account, self.max_reply)
        graded = [i for i, cell in enumerate(self.nb.cells) if cell.cell_type == "code" and utils.is_grade(cell)]
        cells.begin()
        try:
            for index, cell in enumerate(self.nb.cells[: 1 + max(graded, default=-1)]):
                if name := checked_name(cell):
                    verdict = self._judge(index, name, messenger.ask).worth(float(cell.metadata.nbgrader.points))
                    self.account.judged(index, cell, verdict)
                    if self.on_verdict is not None:
                        self.on_verdict(cell, verdict)
                elif is_run(cell):
                    cells.run(index, cell)
        finally:
            kernel.close()

    def _judge(self, index: int, name: str, ask: Callable[[int, str, bytes], bytes]) -> "Verdict":
        """The verdict of one check, whatever the judge meets with in what comes back.

        Args:
            index: of the check.
            name: of the exercise.
            ask: as of `Messenger`.
        """
        from autograder.judge import judge
        from autograder.verdict import not_judged

        try:
            exercise = self.graded_course.find(name)
        except Exception as problem:
            self.account.own_failure = problem
            raise
        try:
            verdict = judge(exercise, lambda request: ask(index, name, request), self.seed)
        except Exception as problem:
            if self.account.end is not None:
                raise self.account.end from None
            self.log.exception("the judge cannot take what came back")
            kind = type(problem).__name__
            self.account.remark(index, f"was answered with something at which the judge raised {kind}", name)
            return not_judged(
                name, f"the check got an answer with which it could do nothing ({kind}), so nothing was compared."
            )
        if self.account.end is not None:  # and the judge took it for silence
            raise self.account.end
        return verdict

    def process_message(self, msg: dict[str, Any], cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        return self._cells.take_in(msg, cell, cell_index, super().process_message)

    @property
    def graded_course(self) -> Course:
        """Whose exercises are checked. Attack: a pyproject.toml that is handed in; nobody looks beside the notebook."""
        about = self.config.get("CourseDirectory", {})
        return self.course or course_of(Path(about["root"]) if "root" in about else None)


@functools.cache
def _import_what_judges(course: Course) -> None:
    """Import here what every unit would import for itself: it takes longer than to judge a submission."""
    collected = gc.isenabled()
    gc.disable()  # nothing of it is garbage, and to look through it takes a quarter of the time
    try:
        importlib.import_module("autograder.judge")
        with contextlib.suppress(Exception):  # what is wrong with a course is said where it is asked for an exercise
            course.load()
    finally:
        if collected:
            gc.enable()
