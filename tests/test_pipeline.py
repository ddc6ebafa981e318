"""An instructor's round on a sample class: every hand-in ends with the score and the sentence written by hand."""

import atexit
import contextlib
import csv
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from autograder.pipeline.cells import checked_name
from tests.pages import words

REPOSITORY = Path(__file__).resolve().parents[1]
CLASSROOM = Path(__file__).parent / "classroom"
EXPECTED = tomllib.loads((CLASSROOM / "expected.toml").read_text(encoding="utf-8"))
SECONDS = 60  # that a cell may take here: a busy machine needs 20 for some of those that end


def solutions(lab: str, student: str) -> dict[str, str]:
    """The texts of the solution cells that a student filled in, by grade_id."""
    path = CLASSROOM / lab / f"{student}.py"
    if not path.exists():
        return {}
    header, *cells = re.split(r"^# %% (.+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if not cells:
        return {{"lab02_multi_head": "multi-head", "lab04_layer_norm": "layer-norm"}[lab]: header}
    return dict(zip(cells[::2], cells[1::2], strict=True))


def hand_in(course: Path, lab: str, student: str) -> None:
    """Fill a student's cells into the released notebook, do what else the table says, and put it into submitted/."""
    (released,) = (course / "labs" / lab).glob("*.ipynb")
    notebook = nbformat.read(released, as_version=4)
    place = {cell.metadata.nbgrader.grade_id: i for i, cell in enumerate(notebook.cells) if "nbgrader" in cell.metadata}
    for grade_id, source in solutions(lab, student).items():
        notebook.cells[place[grade_id]].source = source
    solution, check = place.get("multi-head"), place.get("check-multi-head")
    also = EXPECTED[lab][student].get("also", "")
    match also:
        case "" | "untouched" | "cut off" | "empty file":
            pass
        case "a cell that kills the kernel":
            notebook.cells.insert(check, new_code_cell("import os\nos._exit(1)"))
        case "check deleted":
            del notebook.cells[check]
        case "check tampered with":
            cell = notebook.cells[check]
            cell.source, cell.metadata.tags = "10.0", ["skip-execution"]
            cell.metadata.nbgrader.update(points=100, grade=False, locked=False)
            cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "100.0"}, execution_count=1)]
        case "scripts in Markdown":
            text = "<script>document.title = 'taken over'</script> [press](javascript:alert(1))"
            notebook.cells.append(new_markdown_cell(text))
        case "moved to another cell":
            notebook.cells[solution] = new_code_cell(notebook.cells[solution].source)
            del notebook.cells[check]
        case _:
            raise ValueError(f"{lab}, {student}: also = {also!r} is none of those above")
    folder = course / "submitted" / student / lab
    folder.mkdir(parents=True)
    text = nbformat.writes(notebook)
    text = {"cut off": text[: len(text) // 2], "empty file": ""}.get(also, text)
    (folder / released.name).write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Round:
    """A course folder in which `python -m autograder grade` has run, how that ended, and what it printed."""

    course: Path
    status: int
    log: str


@functools.cache
def graded() -> Round:
    """One round of all labs, on what the whole class handed in."""
    course = Path(tempfile.mkdtemp(prefix="headroom-class-"))
    atexit.register(shutil.rmtree, course, ignore_errors=True)
    for name in ("solutions", "labs", "jupyter"):
        shutil.copytree(REPOSITORY / name, course / name, ignore=shutil.ignore_patterns(".*"))
    config = (REPOSITORY / "nbgrader_config.py").read_text(encoding="utf-8")
    (course / "nbgrader_config.py").write_text(f"{config}\nc.JudgedExecute.timeout = {SECONDS}\n", encoding="utf-8")
    for lab, students in EXPECTED.items():
        for student in students:
            hand_in(course, lab, student)
    command = [sys.executable, "-m", "autograder", "grade"]
    done = subprocess.run(command, cwd=course, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode and b"--no-isolation" in done.stdout:  # nothing has been run then
        command.append("--no-isolation")
        done = subprocess.run(command, cwd=course, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return Round(course, done.returncode, done.stdout.decode("utf-8", "replace"))


def page(lab: str, student: str) -> str:
    (path,) = (graded().course / "feedback" / student / lab).glob("*.html")
    return path.read_text(encoding="utf-8")


# `make test` has one round: on Linux that of the red team, honest hand-ins and attacks; elsewhere this one.
pytestmark = pytest.mark.full if sys.platform.startswith("linux") else []
every_lab = pytest.mark.parametrize("lab", EXPECTED)
every_student = pytest.mark.parametrize(
    ("lab", "student"), [(lab, student) for lab, students in EXPECTED.items() for student in students]
)


def test_nobody_is_left_ungraded() -> None:
    assert graded().status == 0, graded().log[-6000:]


@every_lab
def test_scores(lab: str) -> None:
    with (graded().course / "grades.csv").open(encoding="utf-8", newline="") as file:
        scores = {row["student_id"]: row["score"] for row in csv.DictReader(file) if row["assignment"] == lab}
    nothing = dict.fromkeys((student for students in EXPECTED.values() for student in students), "")
    assert scores == nothing | {student: str(float(about["score"])) for student, about in EXPECTED[lab].items()}


def test_each_student_has_a_list_of_their_pages() -> None:
    for student in {one for students in EXPECTED.values() for one in students}:
        folder = graded().course / "feedback" / student
        own = {lab: students[student]["score"] for lab, students in EXPECTED.items() if student in students}
        rows = re.findall(r'<tr><td>(.*?)</td><td><a href="(.*?)">.*?<td class="right">(.*?)</td>', index(folder))
        assert {words(lab): float(words(score).split()[0]) for lab, _, score in rows} == own
        assert all((folder / link).is_file() for _, link, _ in rows)


def index(folder: Path) -> str:
    return (folder / "index.html").read_text(encoding="utf-8")


@every_student
def test_feedback_says_what_happened(lab: str, student: str) -> None:
    assert EXPECTED[lab][student]["says"] in words(page(lab, student))


@every_student
def test_every_check_has_a_verdict_and_nothing_else(lab: str, student: str) -> None:
    course = graded().course
    (path,) = (course / "autograded" / student / lab).glob("*.ipynb")
    checks = [cell for cell in nbformat.read(path, as_version=4).cells if checked_name(cell)]
    (released,) = (course / "labs" / lab).glob("*.ipynb")
    assert len(checks) == sum(map(bool, map(checked_name, nbformat.read(released, as_version=4).cells)))
    for cell in checks:
        (output,) = cell.outputs
        assert output.output_type == "display_data"
        assert checked_name(cell) in output.data["text/plain"].splitlines()[0]


@every_student
def test_nothing_of_a_student_runs_in_feedback(lab: str, student: str) -> None:
    tags = re.findall(r"<[a-z][^>]*>", page(lab, student).split("</head>", 1)[1])
    assert not [tag for tag in tags if re.match(r"<(script|iframe|object|embed|svg|form)\b", tag)]
    assert not [tag for tag in tags if re.search(r"\son\w+\s*=|javascript:", tag)]


@pytest.mark.parametrize("lab", ["lab02_multi_head"])
@pytest.mark.parametrize(
    ("student", "seen"),
    [
        ("ada", None),
        ("rosa", "cell 'check-multi-head'** was deleted, and is put back"),
        ("sven", "+10.0"),
        ("quinn", "ended the Python process"),
    ],
)
def test_what_was_put_back_is_noted_for_the_instructor(lab: str, student: str, seen: str | None) -> None:
    path = graded().course / "integrity" / lab / f"{student}-multi_head.md"
    assert path.exists() == (seen is not None)
    assert seen is None or seen in path.read_text(encoding="utf-8")


def processes_of(course: Path) -> set[int]:
    """Processes whose environment names the course folder: its kernels, and what they started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if os.fsencode(course) in path.read_bytes():
                found.add(int(path.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks into /proc, which only Linux has")
def test_no_process_is_left_behind() -> None:
    """Those that were told to end may take a moment."""
    course = graded().course
    control = subprocess.Popen(["sleep", "60"], env={"COURSE": str(course)})
    try:
        for _ in range(50):
            if processes_of(course) == {control.pid}:
                break
            time.sleep(0.1)
        assert processes_of(course) == {control.pid}
    finally:
        control.kill()
        control.wait()
