"""The integrity note: what an instructor might want to know about a submission, beside its score.

What was restored in it, with the difference; what it called that the task forbids; what its code did that a notebook
has no need to. A note says what was seen and proves nothing about anybody's intent: a deleted check is mostly an
accident. It changes no score, and students do not get it.
"""

import difflib
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder.pipeline.course import STATE
from autograder.pipeline.texts import UNPRINTABLE, in_markdown, printable

NOTED = "autograder_noted"  # the key in nbgrader's resources under which the remarks travel
DONE = "headroom_graded"  # in the metadata of a notebook whose verdicts are in the gradebook
UNREAD = "headroom_unread"  # likewise, and in nbgrader's resources: why nothing of the file was read, as a clause
UNSEEN = "headroom_unseen"  # likewise: that grading was broken off so early that it holds nothing of the student's
MAX_LINES = 60  # of one difference
MAX_COMPARED = 20_000  # characters of a text: what compares two takes time that grows with the product of their lines
MAX_REMARKS, MAX_SAID = 200, 1000  # remarks of a note, characters of one
ABOUT = ("grade", "solution", "task", "locked", "points", "cell_type")
RELEASED = f"{STATE}/released.json"  # in the course folder: prints of the instructor's cells in every labs/ made here
HEAD = (
    "What was seen while this submission was graded. It changed no score, and it is no proof of anybody's intent: "
    "cells are deleted by accident, and libraries open files on their own. What the submission's own process reports "
    "about itself is not complete, and could be made up by it."
)


@dataclass(frozen=True)
class Remark:
    """One thing that was seen: where, what, and the difference if there is one."""

    where: str
    what: str
    difference: str = ""


def what_is_restored(
    submitted: list[NotebookNode], released: dict[str, NotebookNode], earlier: frozenset[str] = frozenset()
) -> list[Remark]:
    """How the instructor's cells in a submission differ from those that were released.

    Args:
        submitted: the student's cells, with any metadata.
        released: the instructor's cells by grade_id, in order.
        earlier: the `cell_print` of cells as students may have them from an earlier release; they are no difference.
    """
    given: dict[str, list[tuple[int, NotebookNode]]] = {}
    for index, cell in enumerate(submitted):
        about = cell.metadata.get("nbgrader")
        name = about.get("grade_id") if isinstance(about, dict) else None
        if isinstance(name, str) and name in released:
            given.setdefault(name, []).append((index, cell))
    remarks = []
    for name, original in released.items():
        about = original.metadata.nbgrader
        if name not in given:
            if about.grade or about.task:
                remarks.append(Remark(f"cell {name!r}", "was deleted, and is put back"))
            continue
        *others, (_, cell) = given[name]
        where = f"cell {name!r}"
        if others:
            remarks.append(Remark(where, f"was there {len(others) + 1} times; the last one counts"))
        changed = _properties(cell, original)
        altered = about.locked and cell.source.strip() != original.source.strip()
        if (changed or altered) and cell_print(cell) in earlier:
            changed, altered = [], False
        if altered:
            remarks.append(Remark(where, "was changed, and is put back", _difference(original.source, cell.source)))
        if changed:
            remarks.append(Remark(where, f"had other properties, which are put back: {', '.join(changed)}"))
        if tags := cell.metadata.get("tags"):
            remarks.append(Remark(where, f"had tags, which are dropped: {tags!r}"))
    order = sorted(given, key=lambda name: given[name][-1][0])
    if order != [name for name in released if name in given]:
        moved = _difference("\n".join(name for name in released if name in given), "\n".join(order))
        remarks.append(Remark("the instructor's cells", "were in another order, which is kept", moved))
    return remarks


def _properties(cell: NotebookNode, original: NotebookNode) -> list[str]:
    """The properties of a student's copy that are not the original's, each with the value that was released."""
    about = original.metadata.nbgrader
    given = {key: cell.metadata.nbgrader.get(key, about.get(key)) for key in ABOUT} | {"cell_type": cell.cell_type}
    wanted = {key: about.get(key) for key in ABOUT} | {"cell_type": original.cell_type}
    return [f"{key} {given[key]!r} instead of {wanted[key]!r}" for key in ABOUT if given[key] != wanted[key]]


def cell_print(cell: NotebookNode) -> str:
    """A hash of what decides whether an instructor's cell is as it was released: its properties, its text if locked."""
    about = cell.metadata.nbgrader
    points = about.get("points")
    values = [about.get("grade_id"), *(bool(about.get(key)) for key in ("grade", "solution", "task", "locked"))]
    whole = isinstance(points, int) and abs(points) < 2**53  # JSON may hold 10.0 as 10, and any number of digits
    values += [float(points) if whole else points, cell.cell_type]
    text = repr([*values, cell.source.strip() if about.get("locked") else ""])
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def earlier_prints(course: Path, lab: str) -> list[str]:
    """The `cell_print` of every cell that a lab had in any labs/ that was made here."""
    try:
        return json.loads((course / RELEASED).read_text(encoding="utf-8")).get(lab, [])
    except (OSError, ValueError):
        return []


def _difference(released: str, submitted: str) -> str:
    before, after = (text[:MAX_COMPARED].splitlines() for text in (released, submitted))
    lines = list(difflib.unified_diff(before, after, "released", "submitted", n=1, lineterm=""))
    return "\n".join(line[:MAX_SAID] for line in lines[:MAX_LINES])


class SaveIntegrityNote(NbGraderPreprocessor):
    """Writes what was noted about a submission to integrity/LAB/STUDENT-NOTEBOOK.md; nothing where nothing was."""

    directory = Unicode("integrity", help="folder for the notes; relative ones are in the course folder").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        about, remarks = resources["nbgrader"], resources.get(NOTED, [])
        root = Path(self.config.CourseDirectory.get("root", "") or ".")
        path = root / self.directory / about["assignment"] / f"{about['student']}-{about['notebook']}.md"
        if remarks:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(about["student"], about["notebook"], remarks), encoding="utf-8")
        else:
            path.unlink(missing_ok=True)
        nb.metadata[DONE] = True
        nb.metadata.update({key: resources[key] for key in (UNREAD, UNSEEN) if resources.get(key)})
        return nb, resources


def unread(graded: Path) -> str:
    """Why nothing of the file was read of which a notebook in autograded/ was made, as a clause; "" where it was."""
    try:
        return str(json.loads(graded.read_bytes())["metadata"].get(UNREAD, ""))
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # none that the grader wrote to its end
        return ""


def text(student: str, notebook: str, remarks: list[Remark]) -> str:
    """A note as Markdown. What came from a submission is shown as code, in which nothing is active."""
    parts = [f"# {in_markdown(student)}, {in_markdown(notebook)}", HEAD]
    for remark in remarks[:MAX_REMARKS]:
        parts.append(f"- **{in_markdown(remark.where[:MAX_SAID])}** {in_markdown(remark.what[:MAX_SAID])}")
        if remark.difference:
            parts.append("\n".join(f"      {printable(line, UNPRINTABLE)}" for line in remark.difference.splitlines()))
    if len(remarks) > MAX_REMARKS:
        parts.append(f"- {len(remarks) - MAX_REMARKS} more, which are not listed")
    return "\n\n".join(parts) + "\n"
