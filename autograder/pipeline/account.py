"""What comes of running and judging a notebook: verdicts, remarks, and what keeps the grader from going on."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

from autograder.pipeline.cells import checked_name, is_check
from autograder.pipeline.integrity import MAX_REMARKS, Remark
from autograder.pipeline.recorded import record
from autograder.pipeline.texts import encodable

# The judge brings PyTorch, which takes seconds: commands that judge nothing use this file too.
if TYPE_CHECKING:
    from autograder.verdict import Verdict


class Account:
    """An account of one notebook's grading.

    Args:
        remarks: what was noted before.
        say: called with what can be sent to another process, as soon as it is known: what was `judged`, what was
            `noted`. Attack: it is lost because the code ends the process that holds it.
    """

    own_failure: BaseException | None = None  # what kept the grader itself from going on
    exhausted: MemoryError | None = None  # that this process took all the memory that it may, which is no such failure

    def __init__(self, remarks: Iterable[Remark] = (), say: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.remarks = list(remarks)
        self._say = say
        self._verdicts: dict[int, dict[str, Any]] = {}  # by the place of the check
        self._scores: dict[str, float] = {}  # shares of the points, by grade_id

    @property
    def end(self) -> BaseException | None:
        """Why nothing more can be judged, whatever the judge makes of it."""
        return self.own_failure or self.exhausted

    def remark(self, index: int, what: str, exercise: str = "") -> None:
        """Note something for the instructor: what a cell does, or what the code does when a check asks for it."""
        self.note(Remark(f"while `{exercise}` was checked" if exercise else f"cell {index + 1}", what))

    def note(self, remark: Remark) -> None:
        """Keep a remark, once."""
        if remark not in self.remarks:
            self.remarks.append(remark)
            if self._say is not None and len(self.remarks) <= MAX_REMARKS:
                self._say({"noted": vars(remark)})

    def judged(self, index: int, cell: NotebookNode, verdict: "Verdict") -> None:
        """Keep the verdict of a check, which is worth its points."""
        self._verdicts[index] = sendable(cell, verdict)
        if self._say is not None:
            self._say({"judged": self._verdicts[index]})

    def break_off(self, cells: list[NotebookNode], ended: dict[str, Any]) -> None:
        """Take over what was known when another process was ended.

        Args:
            cells: the notebook's.
            ended: `why`, as a part of a sentence, and what was said until then: `judged`, by grade_id, and `noted`.
        """
        self.give_nothing(cells, f"it was not judged: {ended['why']}.")
        for index, kept in self._verdicts.items():
            self._verdicts[index] = ended["judged"].get(kept["grade_id"], kept)
        for noted in ended["noted"]:
            self.note(Remark(**noted))
        self.note(Remark("grading", f"was broken off: {ended['why']}"))

    def give_nothing(self, cells: list[NotebookNode], why: str, attempted: bool = True) -> None:
        """Have every check, and tests of another kind, earn nothing; `why` is what the checks say, as a sentence."""
        from autograder.verdict import not_judged

        for index, cell in enumerate(cells):
            if is_check(cell):
                self._scores[cell.metadata.nbgrader.grade_id] = 0.0
            if name := checked_name(cell):
                verdict = not_judged(name, why, attempted=attempted)
                self._verdicts[index] = sendable(cell, verdict.worth(float(cell.metadata.nbgrader.points)))

    def write(self, cells: list[NotebookNode]) -> dict[str, float]:
        """Have each check show its verdict and nothing else; the shares of the points, by grade_id."""
        for index, kept in self._verdicts.items():
            cell = cells[index]
            cell.execution_count = None
            shown = {"text/plain": kept["text"], "text/html": kept["html"]}
            cell.outputs = [new_output("display_data", shown, metadata=kept["recorded"])]
            self._scores[kept["grade_id"]] = kept["score"]
            if kept["forbidden"]:
                self.remark(index, f"calls `{kept['forbidden']}`, which the task forbids", kept["exercise"])
        return self._scores


def sendable(cell: NotebookNode, verdict: "Verdict") -> dict[str, Any]:
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
