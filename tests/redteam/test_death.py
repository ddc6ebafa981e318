"""The grader's own death: killed, without its database, without a disk, beside another. A rerun finishes the batch."""

import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from tests.redteam import arena, machine
from tests.redteam.arena import HONEST

pytestmark = pytest.mark.full  # each grades several rounds

# So that a kernel runs when the grader dies.
SLEEPERS = {student: {"scratch": "import time; time.sleep(3)"} for student in ("a_honest_right", "n_honest_wrong")}


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the course and a home: everybody has handed in, nothing is graded."""
    folder = tmp_path_factory.mktemp("class")
    course = arena.make_course(folder)
    command = [sys.executable, "-m", "autograder", "labs"]
    subprocess.run(command, cwd=course, env=arena.environment(course), check=True, capture_output=True)
    for student, (cells, _) in HONEST.items():
        arena.hand_in(course, student, {**cells, **SLEEPERS.get(student, {})})
    return folder


@pytest.fixture
def course(handed_in: Path, tmp_path: Path) -> Path:
    return shutil.copytree(handed_in, tmp_path, dirs_exist_ok=True) / "course"


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


def test_killed_in_mid_batch(course: Path) -> None:
    """While a kernel runs; tests/test_killed.py kills at other moments."""
    graded = "[p for p in (course / 'autograded').glob('*/*/*.ipynb') if b'headroom_graded' in p.read_bytes()]"
    killed, again = arena.grade(course, kill_when=f"len({graded}) >= 2", again=True)
    assert killed.status == -9
    assert killed.processes == []
    assert again.status == 0, arena.log(course, 1)[-6000:]
    assert again.nothing(), again
    everybody_once(course)


def test_locked_database(course: Path) -> None:
    """Another process holds the gradebook for a while: what it keeps waiting is said, and all are graded once."""
    let_go = threading.Event()

    def hold() -> None:
        while not let_go.is_set() and not list((course / "autograded").glob("*/*/*.ipynb")):
            time.sleep(0.05)
        database = sqlite3.connect(course / "gradebook.db", isolation_level=None, timeout=60)
        database.execute("BEGIN EXCLUSIVE")
        let_go.wait(12)
        database.rollback()
        database.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        (locked,) = arena.grade(course)
    finally:
        let_go.set()
        thread.join()
    assert locked.nothing(), locked
    assert locked.status == 0, arena.log(course)[-6000:]
    assert re.search(r"The gradebook cannot be used \(.*locked.*\); next attempt in", arena.log(course))
    assert sorted(gradings(course)) == sorted(HONEST)
    everybody_once(course)


@pytest.mark.skipif(not machine.small_disk_possible(), reason="only root can mount a small disk")
def test_full_disk(course: Path) -> None:
    full, again = arena.grade(course, free_mb=0.14, again=True)  # enough for some of them
    log = arena.log(course)
    assert full.status != 0
    assert re.search(r"No space left on device|disk (is full|I/O error)|unable to open database file", log), log[-3000:]
    assert again.status == 0, arena.log(course, 1)[-6000:]
    assert again.nothing(), again
    everybody_once(course)


def gradings(course: Path) -> list[str]:
    """Whose submissions were graded, as often as they were."""
    return re.findall(r"Autograding \S*autograded/(\w+)/", arena.log(course))


def test_two_graders_at_once(course: Path) -> None:
    """Before there is a gradebook, which one of them makes."""
    (course / "gradebook.db").unlink()
    grade = f"{sys.executable} -m autograder grade"
    both = f"{grade} & {grade}; one=$?; wait $! && exit $one"
    (left,) = arena.grade(course, command=["bash", "-c", both])
    assert left.status == 0, arena.log(course)[-6000:]
    assert left.nothing(), left
    assert sorted(gradings(course)) == sorted(HONEST)
    everybody_once(course)


# What Formgrader's button does, in the Jupyter server's process, for each submission in turn.
BUTTON = f"""
import asyncio
from nbgrader.apps.api import NbGraderAPI
from nbgrader.coursedir import CourseDirectory
from traitlets.config import PyFileConfigLoader
config = PyFileConfigLoader("nbgrader_config.py").load_config()
server = NbGraderAPI(CourseDirectory(config=config), config=config)

async def press():  # where an event loop runs, as a server's handlers do
    for student in {sorted(HONEST)[::-1]}:
        pressed = server.autograde({arena.LAB!r}, student)
        print(pressed["log"])
        assert pressed["success"], pressed
        assert server.generate_feedback({arena.LAB!r}, student)["success"]

asyncio.run(press())
"""


def test_formgraders_button_while_the_command_line_grades(course: Path) -> None:
    (course.parent / "button.py").write_text(BUTTON)
    grade = f"{sys.executable} -m autograder grade"
    # The first may end while the button is at one of its submissions, which it then lists; the next run takes it up.
    both = f"{grade} & {sys.executable} ../button.py; pressed=$?; wait $!; {grade} && exit $pressed"
    (left,) = arena.grade(course, command=["bash", "-c", both])
    assert left.status == 0, arena.log(course)[-6000:]
    assert left.nothing(), left
    # The button means once more; the command line grades who is not graded yet.
    assert all(1 <= gradings(course).count(student) <= 2 for student in HONEST)
    everybody_once(course)
