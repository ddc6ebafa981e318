"""The autograder that is uploaded to Gradescope, unpacked and run as its protocol says."""

import json
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.pipeline import gradescope, parcel
from autograder.pipeline.course import Failed, configuration
from autograder.pipeline.gradescope import UNPROTECTED
from autograder.pipeline.kernel import AT_YOUR_RISK
from autograder.pipeline.plan import Plan
from autograder.pipeline.worker import Died, Refused
from tests import small_course
from tests.browser import REPOSITORY, copy_course
from tests.test_submission import released_cell

if not sys.platform.startswith("linux"):
    pytest.skip("students' code is isolated on Linux only", allow_module_level=True)

LAB = "lab02_multi_head"
VISIBLE = "after_published"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/autograder as Gradescope makes it: the zip in source/, and the others empty."""
    folder = tmp_path_factory.mktemp("gradescope") / "autograder"
    course = copy_course(folder.parent / "course")
    shutil.copy2(REPOSITORY / "pyproject.toml", course)
    made = gradescope.make(course, LAB, to=folder.parent / "autograder.zip")
    with zipfile.ZipFile(made) as archive:
        assert not [name for name in archive.namelist() if "solutions" in name or "tests/" in name]
        scripts = [archive.getinfo(name) for name in ("setup.sh", "run_autograder")]
        assert all(script.external_attr >> 16 & stat.S_IXUSR for script in scripts)
        archive.extractall(folder / "source")
    return folder


def graded(autograder: Path, *handed_in: tuple[str, Path]) -> dict[str, Any]:
    """results.json of a submission: files, by the name that they have in it."""
    for name in ("submission", "results"):
        shutil.rmtree(autograder / name, ignore_errors=True)
        (autograder / name).mkdir()
    for name, path in handed_in:
        target = autograder / "submission" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    command = [sys.executable, "-m", "autograder.pipeline.gradescope", str(autograder)]
    ran = subprocess.run(command, cwd=autograder / "source" / "grader", capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads((autograder / "results" / "results.json").read_text(encoding="utf-8"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "source", "score", "says", "verdict"),
    [
        ("multi_head.ipynb", "solutions", 10, "3 more points are given by hand", "all 27 cases agree"),
        ("mine/multi_head (1).ipynb", "labs", 0, "Read from 'multi_head (1).ipynb'.", "not attempted yet"),
        ("other.txt", "labs", 0, "multi_head.ipynb is expected", "It was not handed in."),
    ],
)
def test_gradescope_gets_the_scores_and_the_verdicts(
    unpacked: Path, name: str, source: str, score: float, says: str, verdict: str
) -> None:
    results = graded(unpacked, (name, REPOSITORY / source / LAB / "multi_head.ipynb"))
    (test,) = results["tests"]
    assert (test["score"], test["max_score"]) == (score, 10)
    assert test["status"] == ("passed" if score else "failed")
    assert says in results["output"] and verdict in test["output"]
    assert results["stdout_visibility"] == "hidden" and test["visibility"] == "visible"


# --- What it makes of a worker's answer -------------------------------------------------------------------------------


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/autograder with a lab that has a check of 10 points and an answer in prose for 3."""
    (tmp_path / "course").mkdir()
    course = small_course.make(tmp_path / "course", monkeypatch)
    with small_course.book(course) as gradebook:
        gradebook.add_grade_cell("prose", "first", "lab1", max_score=3, cell_type="markdown")
        gradebook.add_solution_cell("prose", "first", "lab1")
        gradebook.add_source_cell("prose", "first", "lab1", cell_type="markdown", source="")
    packed = Plan(course, configuration(course), "lab1", [], {}).packed
    folder = tmp_path / "autograder"
    for name in ("source", "submission", "results"):
        (folder / name).mkdir(parents=True)
    about = {"lab": "lab1", "isolated": False, "visibility": VISIBLE}
    (folder / "source" / "lab.parcel").write_bytes(parcel.pack(about, [packed]))
    return folder


def answered(monkeypatch: pytest.MonkeyPatch, score: float | None) -> list[tuple[dict[str, Any], bool]]:
    """Have a worker give this score; what it is asked."""
    asked: list[tuple[dict[str, Any], bool]] = []

    def answer(request: bytes, isolated: bool, say: Any) -> tuple[dict[str, Any], list[bytes]]:
        wanted, (lab, _) = parcel.unpack(request)
        asked.append((wanted, isolated))
        cells = parcel.unpack(lab)[0]["rows"]["base_cell"]
        grades = [{"cell_id": row["id"], "auto_score": score if row["name"] == "check" else None} for row in cells]
        cell = released_cell("check", "check(A)", grade=True, locked=True, points=10.0)
        cell.outputs = [nbformat.v4.new_output("display_data", {"text/plain": "\x1b[31mno\x1b[0m, not yet"})]
        graded = nbformat.writes(nbformat.v4.new_notebook(cells=[cell])).encode()
        files = ["autograded/student/lab1/first.ipynb", "integrity/lab1/student-first.md", "feedback/x.html"]
        return {"files": files, "rows": {"grade": grades}}, [graded, b"- forked", b""]

    monkeypatch.setattr(gradescope, "_answer", answer)
    return asked


@pytest.mark.parametrize(("score", "status"), [(10.0, "passed"), (9.99, "failed"), (0.0, "failed"), (None, "failed")])
def test_a_check_passes_with_all_of_its_points(
    container: Path, monkeypatch: pytest.MonkeyPatch, score: float | None, status: str
) -> None:
    (container / "submission" / "first.ipynb").write_text("{}")
    asked, said = answered(monkeypatch, score), list[str]()
    assert gradescope.grade(container, said.append) == {
        "output": "3 more points are given by hand, for the answer in your own words.",
        "stdout_visibility": "hidden",
        "tests": [
            {
                "name": "A",
                "score": score or 0.0,
                "max_score": 10.0,
                "status": status,
                "output": "no, not yet",
                "output_format": "text",
                "visibility": VISIBLE,
            }
        ],
    }
    ((wanted, isolated),) = asked
    assert (wanted["lab"], wanted["rows"], isolated) == ("lab1", {}, False) and wanted["seed"] > 2**32
    assert said == ["- forked"], "for instructors alone"


@pytest.mark.parametrize(
    ("name", "says", "output"),
    [
        ("mine/first (1).ipynb", "Read from 'first (1).ipynb'.", "no, not yet"),
        ("mine/first.ipynb", "", "no, not yet"),
        (
            "other.ipynb",
            "There is 'other.ipynb' in what was handed in: first.ipynb is expected.",
            "It was not handed in.",
        ),
        ("a.txt", "There is no notebook in what was handed in: first.ipynb is expected.", "It was not handed in."),
    ],
)
def test_what_was_handed_in_is_found_in_a_folder_or_said_to_be_missing(
    container: Path, monkeypatch: pytest.MonkeyPatch, name: str, says: str, output: str
) -> None:
    path = container / "submission" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("{}")
    asked = answered(monkeypatch, 4.0)
    results = gradescope.grade(container)
    assert results["output"].splitlines()[:-1] == ([says] if says else [])
    assert [test["output"] for test in results["tests"]] == [output] and bool(asked) == (output == "no, not yet")


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (Refused(f"it cannot be isolated. {AT_YOUR_RISK}"), f"Nothing is graded: it cannot be isolated. {UNPROTECTED}"),
        (Died("it ended"), "Nothing is graded: it ended"),
        ("ValueError: no", "Nothing is graded: ValueError: no"),
        (None, ""),
    ],
)
def test_why_nothing_is_graded_names_what_can_be_done_in_gradescope(
    monkeypatch: pytest.MonkeyPatch, problem: Exception | str | None, said: str
) -> None:
    class Starts:
        weaker = "isolated less well"

        def __init__(self, versions: dict[str, str], isolated: bool) -> None:
            assert isolated

        def start(self) -> None:
            if isinstance(problem, Exception):
                raise problem

        def ask(self, request: bytes) -> bytes:
            return parcel.pack({"ok": problem is None, "why": problem}, [request[::-1]])

        def close(self) -> None:
            pass

    monkeypatch.setattr(gradescope, "Grader", Starts)
    monkeypatch.setattr(gradescope, "versions", lambda course: {})
    told: list[str] = []
    if problem is None:
        assert gradescope._answer(b"abc", True, told.append) == ({"ok": True, "why": None}, [b"cba"])
        assert told == ["WARNING: isolated less well"]
    else:
        with pytest.raises(Failed) as failed:
            gradescope._answer(b"abc", True, told.append)
        assert str(failed.value) == said


def test_what_a_check_says_has_a_length() -> None:
    cell = released_cell("check", "check(A)", grade=True, locked=True)
    cell.outputs = [nbformat.v4.new_output("stream", text="x" * 30_000), nbformat.v4.new_output("stream", text="y")]
    ((name, text),) = gradescope._outputs(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])).encode())
    assert name == "check" and text == "x" * gradescope.LONGEST


@pytest.mark.parametrize("fails", [True, False])
def test_where_the_grader_itself_failed_no_score_is_written(
    container: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: bool
) -> None:
    monkeypatch.setattr(gradescope, "grade", lambda *_: _raise(Failed("Nothing is graded: no.")) if fails else {"a": 1})
    assert gradescope.main([str(container)]) == int(fails)
    results = container / "results" / "results.json"
    assert results.exists() != fails and capsys.readouterr().out == ("Nothing is graded: no.\n" if fails else "")


def _raise(problem: Exception) -> None:
    raise problem


def test_an_autograder_of_an_older_lab_or_without_its_installer_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = small_course.make(tmp_path, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(gradescope.labs, "changed", lambda course, labs: labs)
        with pytest.raises(Failed, match=r"since labs/ was made from it: make labs LAB=lab1, then this again"):
            gradescope.make(course, "lab1")
    with monkeypatch.context() as patch:
        patch.setattr(gradescope, "INSTALLED", tmp_path)
        with pytest.raises(Failed, match=r"There is no pyproject\.toml in .*: install this grader from its repository"):
            gradescope.make(course, "lab1")
    with pytest.raises(Failed, match="There is no lab lab9"):
        gradescope.make(course, "lab9")
    needed = {path for path in gradescope.INSTALLER if not (REPOSITORY / path).is_file()}
    assert not needed and "bootstrap.py" in gradescope.SETUP and "bootstrap.py" in gradescope.INSTALLER
