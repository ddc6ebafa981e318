"""The journal of what was graded: by which submission, lab and grader each grade came about, and what changed since."""

import hashlib
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from autograder.pipeline.course import STATE, state

FILE = f"{STATE}/graded.jsonl"  # in the course folder: a line for each submission that was graded, the last one counts
PARTS = {
    "submission": "what was handed in has changed",
    "source": "the lab has changed",
    "grader": "the grader or its configuration has changed",
}
FILES = "files"  # the hash of what was handed in, without its time, by which attempts are told apart


def digest(what: bytes | dict[str, Any]) -> str:
    """A short hash of bytes, or of what JSON can hold."""
    data = what if isinstance(what, bytes) else json.dumps(what, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:32]


class Journal:
    """What was graded in a course. A line that was broken off, by a full disk or a crash, counts as none.

    Args:
        course: its folder.
    """

    def __init__(self, course: Path) -> None:
        self._course, self._path = course, course / FILE
        self._of: dict[tuple[str, str], dict[str, str] | None] = {}  # None: its writing has begun
        self._attempts: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for line in file:
                try:
                    record = json.loads(line)
                    key, of = (record["lab"], record["student"]), record["of"]
                    self._of[key] = of
                    if of is not None and "verdicts" in record:
                        self._attempts[key][of.get(FILES, of["submission"])] = record["verdicts"]
                except (ValueError, LookupError, TypeError):
                    continue

    def knows(self, lab: str, student: str) -> bool:
        """Whether a submission was graded, as far as the journal goes: it knows nothing of nbgrader's own commands."""
        return self._of.get((lab, student)) is not None

    def broken_off(self, lab: str, student: str) -> bool:
        """Whether the writing of a submission began, and did not end."""
        return (lab, student) in self._of and not self.knows(lab, student)

    def why_again(self, lab: str, student: str, of: dict[str, str]) -> str:
        """Why a submission that it knows is to be graded again, as a clause; "" if nothing changed.

        Args:
            lab: the lab.
            student: whose submission.
            of: a hash for each of `PARTS`, as it is now.
        """
        before = self._of[lab, student] or {}
        return ", ".join(clause for part, clause in PARTS.items() if before.get(part) != of[part])

    def begin(self, lab: str, student: str) -> None:
        """Note, for good, that what was graded of a submission is about to be written."""
        self._add({"lab": lab, "student": student, "of": None})

    def attempts(self, lab: str, student: str) -> list[dict[str, Any]]:
        """What was said of each thing that a student handed in for a lab, the first one first, as of `add`."""
        return list(self._attempts.get((lab, student), {}).values())

    def add(self, lab: str, student: str, of: dict[str, str], seed: int, verdicts: dict[str, Any]) -> None:
        """Note, for good, that a submission was graded, with this seed of its hidden cases, and is written.

        Args:
            lab: the lab.
            student: whose submission.
            of: a hash for each of `PARTS` and of `FILES`.
            seed: of the hidden cases.
            verdicts: what was said, as of `recorded.verdicts`.
        """
        self._add({"lab": lab, "student": student, "of": of, "seed": seed, "verdicts": verdicts})

    def _add(self, record: dict[str, Any]) -> None:
        state(self._course)
        with self._path.open("ab") as file:
            file.write(f"\n{json.dumps(record)}\n".encode())  # on a line of its own, whatever stands before
            file.flush()
            os.fsync(file.fileno())
        self._of[record["lab"], record["student"]] = record["of"]
