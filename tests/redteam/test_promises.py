"""The limits that docs/security.md names are those that the code has."""

import re
import sys
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from traitlets.config import PyFileConfigLoader

from autograder.kernels import sandbox
from autograder.kernels.provisioner import MAX_MESSAGE, MAX_WAITING, IsolatedProvisioner
from autograder.pipeline import feedback, intake, markup, submission
from autograder.pipeline.execute import JudgedExecute
from autograder.pipeline.feedback import FeedbackExporter
from autograder.pipeline.integrity import MAX_REMARKS
from autograder.pipeline.markup import Allowance
from autograder.pipeline.submission import SubmissionExporter
from autograder.pipeline.unit import MAX_ANSWER, Unit
from autograder.probe import calls
from autograder.report.likeness import LONGEST

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")
CONFIG = PyFileConfigLoader("nbgrader_config.py", str(REPOSITORY)).load_config()
RUN, GRADED, SHOWN, KERNEL = (
    one(config=CONFIG) for one in (JudgedExecute, SubmissionExporter, FeedbackExporter, IsolatedProvisioner)
)
assert Unit.__init__.__defaults__ is not None
UNIT_FILE = Unit.__init__.__defaults__[-1]


def gb(mb: int) -> str:
    return f"{mb / 1024:g} GB"


def mb(count: int) -> str:
    return f"{count // 10**6} MB"


def power(count: int) -> str:
    exponent = len(str(count)) - 1
    assert count == 10**exponent
    return f"10{'⁰¹²³⁴⁵⁶⁷⁸⁹'[exponent]} characters"


# By the row of the table: how the second column begins.
TABLE = {
    "a cell, a notebook": f"{RUN.timeout} s, {RUN.total_timeout:g} s",
    "memory of each process, and of all of a kernel's together": gb(KERNEL.memory_mb),
    "the unit: memory, and seconds beside the notebook's": f"{gb(GRADED.memory_mb)}, {GRADED.grader_s:g} s",
    "the unit that makes a page: memory, seconds": f"{gb(SHOWN.memory_mb)}, {SHOWN.page_s:g} s",
    "a file that a unit writes; what it reports about a submission": f"{gb(UNIT_FILE)}; {MAX_ANSWER >> 20} MB",
    "a notebook file; its cells; its outputs in sum": (
        f"{mb(submission.MAX_FILE)}; {submission.MAX_CELLS:,}; {power(RUN.max_shown)}"
    ),
    "files beside it, with their folders; one; all": (
        f"{intake.MAX_FILES:,}; {mb(intake.MAX_FILE)}; {mb(intake.MAX_SUM)}"
    ),
    "a path within a submission; `timestamp.txt`; a student's name": (
        f"{intake.MAX_PATH} bytes, {intake.MAX_DEPTH - 1} folders; {intake.MAX_STAMP} bytes; "
        f"{intake.MAX_NAME} characters, {intake.MAX_NAME_BYTES} bytes"
    ),
    "files in its folder, and again in shared memory; one file": f"{KERNEL.disk_mb} MB; {KERNEL.file_mb} MB",
    "processes and threads": f"{KERNEL.processes}",
    "processor time of each process": f"{KERNEL.cpu_s:,} s",
    "output of a cell; a reply to the judge": f"{power(RUN.max_output)}; {mb(RUN.max_reply)}",
    "one message of a kernel, its parts together": (
        f"{mb(MAX_MESSAGE)}; a larger one ends the kernel; {MAX_WAITING} wait"
    ),
}
SENTENCES = [
    f"{KERNEL.disk_mb} MB in its folder and {KERNEL.disk_mb} MB of shared memory at most",
    f"reads {intake.MAX_STAMP} bytes of `timestamp.txt`",
    f"{markup.MAX_MARKDOWN:,} characters of one Markdown text",
    f"{markup.MAX_HTML:,} and {markup.MAX_TAGS:,} tags of one HTML output ({markup.MAX_SPANNED} rows and columns that",
    f"{markup.MAX_TEXT:,} of each output that a cell printed",
    f"{Allowance.markup:,} characters of markup, {Allowance.html:,} of the HTML that is made of it",
    f"{Allowance.text:,} of text, {mb(Allowance.pictures)} of pictures and {Allowance.pixels // 10**6} million",
    f"Of a submission {intake.MAX_LOOKED_AT:,} entries are looked at",
    f"of files that are left out {intake.MAX_REMARKS} are named",
    f"where it has more than {calls.MAX_STARTS:,}, none",
    f"A note lists the first {MAX_REMARKS} and counts",
    f"up to {LONGEST:,} characters of a cell",
    f"its page another {len(feedback.SHOWN) * SHOWN.page_s:g} s",
    f"use up its {RUN.total_timeout:g} s ({RUN.total_timeout + 3 * GRADED.grader_s:g} s where",
    f"among all of the user ({sandbox.ELSEWHERE} more)",
    f"up to {['no', 'one', 'two', 'three'][RUN.max_restarts]} fresh ones run the other cells again",
]


def test_students_are_told_how_long_a_cell_may_take() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "students.md").read_text(encoding="utf-8")
    assert f"a cell may take {RUN.timeout} s and the notebook {RUN.total_timeout:g} s" in page


def test_the_table_of_limits_is_the_codes() -> None:
    table = PAGE[PAGE.index("| limit |") :].split("\n\n")[0]
    rows = {name: value for name, value in re.findall(r"^\| (.+?) \| (.+?) \|", table, flags=re.M) if name != "limit"}
    assert set(rows) == set(TABLE)
    wrong = {name: value for name, value in rows.items() if not re.match(re.escape(TABLE[name]) + r"(?![\w,.])", value)}
    assert not wrong, {name: TABLE[name] for name in wrong}


@pytest.mark.parametrize("said", SENTENCES)
def test_a_limit_that_a_sentence_names_is_the_codes(said: str) -> None:
    assert said in PAGE
