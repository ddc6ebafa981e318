"""What workers get and give as bytes, and the versions of both; how many grade."""

import os
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
import pytest
from sqlalchemy import create_engine

from autograder.course import Course
from autograder.kernels import launch
from autograder.pipeline import grading, intake, parcel, worker
from autograder.pipeline.course import Failed
from autograder.pipeline.journal import FILES, PARTS, Journal, digest
from autograder.pipeline.worker import Died
from tests import small_course

# --- Submissions as bytes -------------------------------------------------------------------------------------------


def seen(folder: Path, scratch: Path) -> tuple[Any, ...]:
    """What the grader makes of a submission's folder."""
    scratch.mkdir()
    remarks = intake.copy_beside(folder, scratch)
    copied = {path.relative_to(scratch): path.read_bytes() for path in scratch.rglob("*") if path.is_file()}
    names = ("first.ipynb", "second.ipynb")
    return copied, remarks, intake.handed_in_at(folder), [intake.read_plain(folder / name, 100) for name in names]


def odd(folder: Path) -> None:
    (folder / "data" / "deep").mkdir(parents=True)
    (folder / "data" / "deep" / "numbers.csv").write_text("1,2")
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("/etc/passwd")
    with (folder / "hole").open("wb") as file:
        file.truncate(10**12)
    (folder / os.fsdecode(b"not \xff text")).write_text("x")


def many(folder: Path) -> None:
    for n in range(intake.MAX_FILES + 5):
        (folder / f"{n:05d}").write_text(str(n))


def large(folder: Path) -> None:
    for n in range(4):
        with (folder / f"{n}").open("wb") as file:
            file.truncate(intake.MAX_FILE - n)


def late(folder: Path) -> None:
    (folder / intake.STAMP).write_text("2020-01-01 10:00:00 UTC")
    (folder / "second.ipynb").symlink_to("first.ipynb")


def without_a_time(folder: Path) -> None:
    (folder / intake.STAMP).write_text("1" * 1000)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pipes in folders on Windows")
@pytest.mark.parametrize("made", [odd, many, large, late, without_a_time])
def test_a_worker_sees_of_a_submission_what_the_grader_sees(tmp_path: Path, made: Any) -> None:
    folder = tmp_path / "submitted" / "ann" / "lab1"
    folder.mkdir(parents=True)
    (folder / "first.ipynb").write_text("{}")
    made(folder)
    data = parcel.snapshot(folder, ["first", "second"])
    parcel.lay_out(data, tmp_path / "worker" / "ann", "lab1")
    again = tmp_path / "worker" / "ann" / "lab1"
    assert seen(again, tmp_path / "b") == seen(folder, tmp_path / "a")
    assert parcel.snapshot(folder, ["first", "second"]) == data, "or an unchanged submission would be graded again"
    (folder / "first.ipynb").write_text("[]")
    assert parcel.snapshot(folder, ["first", "second"]) != data


def test_another_time_of_handing_in_is_no_other_attempt(tmp_path: Path) -> None:
    folder = tmp_path / "submitted" / "ann" / "lab1"
    folder.mkdir(parents=True)
    (folder / "first.ipynb").write_text("{}")
    journal, verdict = Journal(tmp_path), {"Softmax": {"score": 0.1, "mistakes": []}}

    def handed_in() -> int:
        data = parcel.snapshot(folder, ["first"])
        of = dict.fromkeys(PARTS, "") | {"submission": digest(data), FILES: digest(parcel.without_time(data))}
        journal.add("lab1", "ann", of, 1, verdict)
        return len(Journal(tmp_path).attempts("lab1", "ann"))

    assert handed_in() == 1
    for when in ("2026-11-30 22:58:00 UTC", "2026-12-01 22:58:00 UTC"):
        (folder / "timestamp.txt").write_text(when)
        assert handed_in() == 1
    (folder / "first.ipynb").write_text("[]")
    assert handed_in() == 2


def test_no_more_is_read_of_a_submission_than_is_graded(tmp_path: Path) -> None:
    """Attack: files each of which is small enough, and which together fill the memory of whoever grades."""
    large(tmp_path)
    assert len(parcel.snapshot(tmp_path, ["first"])) < intake.MAX_SUM + 10_000


def test_cells_have_the_order_of_the_notebook_that_students_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows have none of their own; where labs/ is not there, as they come."""
    course = small_course.make(tmp_path, monkeypatch)
    with small_course.book(course) as gradebook:
        for name in ("last", "between"):
            gradebook.add_source_cell(name, "first", "lab1", cell_type="code", source="")
    cells = [
        nbformat.v4.new_code_cell("", metadata={"nbgrader": {"grade_id": n}}) for n in ("answer", "between", "check")
    ]
    (course / "labs" / "lab1").mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), course / "labs" / "lab1" / "first.ipynb")
    with create_engine(f"sqlite:///{course}/gradebook.db").connect() as connection:
        rows = parcel.rows_of_lab(connection, "lab1", course / "labs" / "lab1")
        assert [row["name"] for row in rows["source_cell"]] == ["answer", "between", "check", "last"]
        elsewhere = parcel.rows_of_lab(connection, "lab1", course / "gone")
        assert {row["name"] for row in elsewhere["source_cell"]} == {"answer", "between", "check", "last"}
        assert parcel.notebooks_of(connection, "lab1") == ["first"] and parcel.notebooks_of(connection, "lab9") == []


@pytest.mark.parametrize("linked", ["ann", "ann/lab1"])
def test_a_folder_that_is_a_link_stays_one_and_nothing_behind_it_is_read(tmp_path: Path, linked: str) -> None:
    real = tmp_path / "elsewhere" / "lab1"
    real.mkdir(parents=True)
    (real / "first.ipynb").write_text("somebody else's")
    link = tmp_path / "submitted" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(real if "/" in linked else real.parent)
    data = parcel.snapshot(tmp_path / "submitted" / "ann" / "lab1", ["first"])
    assert b"somebody else" not in data
    parcel.lay_out(data, tmp_path / "worker" / "ann", "lab1")
    assert (tmp_path / "worker" / linked).is_symlink()
    assert (tmp_path / "worker" / "ann" / "lab1" / "first.ipynb").read_bytes() == b""


# --- A worker of another version ------------------------------------------------------------------------------------


def test_a_worker_of_another_version_says_of_what() -> None:
    versions = {"torch": "2", "autograder": "1"}
    assert worker.difference(versions, versions) == ""
    assert worker.difference(versions | {"torch": "1"}, versions) == "it has another version of torch"
    assert worker.difference(versions | {"more": "1"}, versions) == "it has another version of more"
    assert worker.difference({}, versions) == "it has another version of autograder, torch"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no sandbox elsewhere")
def test_a_worker_without_a_sandbox_refuses_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object) -> None:
        raise launch.NoIsolation("there is no bubblewrap")

    monkeypatch.setattr(launch, "warm_parent", cannot)
    assert (
        "cannot be isolated here: there is no bubblewrap" in worker.Desk(tmp_path, isolated=True).isolation()["cannot"]
    )
    assert worker.Desk(tmp_path, isolated=False).isolation() == {"cannot": "", "weaker": ""}


def test_a_grader_that_is_closed_while_it_grades_stays_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a run is stopped: the thread that waits for the answer starts no other process."""
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def sleeps(_: list[str], **how: Any) -> subprocess.Popen[bytes]:
        answers = [parcel.pack({"versions": {}}), parcel.pack({"cannot": "", "weaker": ""})]
        code = "import sys; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1])); sys.stdout.flush(); sys.stdin.read()"
        data = b"".join(struct.pack("!Q", len(one)) + one for one in answers)
        begun.append(popen([sys.executable, "-c", code, data.hex()], **how))
        return begun[-1]

    monkeypatch.setattr(worker.subprocess, "Popen", sleeps)
    grader = worker.Grader({})
    grader.start()
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(grader.ask, b"request")
        time.sleep(0.2)
        grader.close()
        assert isinstance(asked.exception(), Died)
    assert len(begun) == 1 and begun[0].poll() is not None


def test_a_version_follows_every_file_of_the_course(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "a.py").write_text("x = 1")
    before = worker._hash(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("1")
    assert worker._hash(tmp_path) == before
    (tmp_path / "part" / "a.py").write_text("x = 2")
    assert worker._hash(tmp_path) != before


def test_what_a_score_depends_on_is_compared_between_machines(tmp_path: Path) -> None:
    """The grader, the course's own code, the libraries that compute, and Python."""
    for name in ("questions/one.py", "plots.py", "data/digits.npz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    course = Course(tmp_path, "questions.all", ("plots.py", "data/digits.npz"))
    own = {"autograder", "questions", "plots.py", "data"}
    assert {*worker.code(course)} == own
    assert {*worker.versions(course)} == own | {"torch", "numpy", "nbgrader", "nbclient", "ipykernel", "python"}


@pytest.mark.parametrize(
    ("ends", "asked"),
    [([], 1), ([Died("once")], 2), ([Died("once"), Died("twice")], 2), ([worker.Refused("other")], 1)],
)
def test_a_worker_that_ended_is_asked_once_more(
    monkeypatch: pytest.MonkeyPatch, ends: list[Exception], asked: int
) -> None:
    requests: list[bytes] = []

    def ask(self: worker.Grader, request: bytes) -> bytes:
        requests.append(request)
        if ends:
            raise ends.pop(0)
        return b"graded"

    monkeypatch.setattr(worker.Grader, "_ask", ask)
    fails = len(ends) - (isinstance(ends[0], Died) if ends else 0)
    if fails:
        with pytest.raises(type(ends[-1])):
            worker.Grader({}).ask(b"request")
    else:
        assert worker.Grader({}).ask(b"request") == b"graded"
    assert requests == [b"request"] * asked


# --- How many grade -----------------------------------------------------------------------------------------------


def test_how_many_grade_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for one submission; without Dask one for many, and a line says what there could be."""
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(grading, "_dask", lambda: False)
    warned: list[str] = []
    assert grading._workers(None, 1, warned.append) == grading._workers(1, 100, warned.append) == 1
    assert warned == []
    assert grading._workers(None, 100, warned.append) == 1
    assert warned == [f"One core grades. For all of them: {grading.CLUSTER}."]
    with pytest.raises(Failed, match="need Dask"):
        grading.grade(Path(), [], workers=2)
    monkeypatch.setattr(grading, "_dask", lambda: True)
    assert grading._workers(3, 100, print) == 3 and grading._workers(3, 2, print) == 2
