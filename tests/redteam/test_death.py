"""The grader's own death: killed, without its database, without a disk. A rerun finishes the batch."""

import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import nbformat
import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from autograder.pipeline import grading
from autograder.pipeline.integrity import DONE
from tests.redteam import arena, machine
from tests.redteam.arena import HONEST

pytestmark = pytest.mark.full  # each grades several rounds

# The first and the third, so that their kernels run when the grader dies at its start or after two.
SLEEPERS = {student: {"scratch": "import time; time.sleep(3)"} for student in ("a_honest_right", "n_honest_wrong")}


@pytest.fixture
def course(tmp_path: Path) -> Path:
    made = arena.make_course(tmp_path)
    subprocess.run(
        [sys.executable, "-m", "autograder", "labs"],
        cwd=made,
        env=arena.environment(made),
        check=True,
        capture_output=True,
    )
    for student, (cells, _) in HONEST.items():
        arena.hand_in(made, student, {**cells, **SLEEPERS.get(student, {})})
    return made


def everybody_once(course: Path) -> None:
    """Every submission has its score, its verdicts and its page; nothing is there twice."""
    assert arena.scores(course) == {student: score for student, (_, score) in HONEST.items()}
    with sqlite3.connect(course / "gradebook.db") as database:
        rows = database.execute("SELECT student_id, count(*) FROM submitted_assignment GROUP BY student_id").fetchall()
    database.close()
    assert sorted(rows) == [(student, 1) for student in sorted(HONEST)]
    for student in HONEST:
        assert len(arena.verdicts(course, student)) == 2
        assert "layer_norm" in arena.pages(course, student)


@pytest.mark.parametrize("done", [0, 2])
def test_killed_in_mid_batch(course: Path, done: int) -> None:
    graded = "[p for p in (course / 'autograded').glob('*/*/*.ipynb') if b'headroom_graded' in p.read_bytes()]"
    kernels = "(course / 'autograded').exists() and " if not done else ""
    killed, again = arena.grade(course, kill_when=f"{kernels}len({graded}) >= {done}", again=True)
    assert killed.status == -9
    assert killed.processes == []
    assert again.status == 0, arena.log(course, 1)[-6000:]
    assert again.nothing(), again
    everybody_once(course)


@pytest.mark.parametrize("written", ["", "half", "whole"])
def test_killed_while_a_submission_is_written(tmp_path: Path, written: str) -> None:
    """nbgrader takes a folder in autograded/ for a graded submission, whatever is in it."""
    folder = tmp_path / "autograded" / "ann" / "lab04"
    folder.mkdir(parents=True)
    if written:
        notebook = nbformat.v4.new_notebook(metadata={DONE: True} if written == "whole" else {})
        nbformat.write(notebook, folder / "layer_norm.ipynb")
    grading._forget_half_made(tmp_path, "lab04")
    assert folder.exists() == (written == "whole")


def test_locked_database(course: Path) -> None:
    """Another process holds the gradebook: what it prevents is said, and the rerun finishes."""
    let_go = threading.Event()

    def hold() -> None:
        while not let_go.is_set() and not list((course / "feedback").glob("*")):
            if list((course / "autograded").glob("*/*/*.ipynb")):
                break
            time.sleep(0.05)
        database = sqlite3.connect(course / "gradebook.db", isolation_level=None, timeout=60)
        database.execute("BEGIN EXCLUSIVE")
        let_go.wait(600)
        database.rollback()
        database.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        (locked,) = arena.grade(course)
    finally:
        let_go.set()
        thread.join()
    assert locked.status != 0
    assert "database is locked" in arena.log(course)
    assert locked.nothing(), locked
    (again,) = arena.grade(course)
    assert again.status == 0, arena.log(course)[-6000:]
    everybody_once(course)


@pytest.mark.skipif(not machine.small_disk_possible(), reason="only root can mount a small disk")
@pytest.mark.parametrize("free_mb", [0.1])
def test_full_disk(course: Path, free_mb: float) -> None:
    full, again = arena.grade(course, free_mb=free_mb, again=True)
    assert full.status != 0
    assert "No space left on device" in arena.log(course) or "disk is full" in arena.log(course)
    assert again.status == 0, arena.log(course, 1)[-6000:]
    assert again.nothing(), again
    everybody_once(course)
