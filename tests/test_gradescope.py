"""The autograder that is uploaded to Gradescope, unpacked and run as its protocol says."""

import json
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from autograder.pipeline import gradescope
from tests.browser import REPOSITORY, copy_course

if not sys.platform.startswith("linux"):
    pytest.skip("students' code is isolated on Linux only", allow_module_level=True)

LAB = "lab02_multi_head"


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


@pytest.mark.parametrize(
    ("name", "source", "score", "says", "verdict"),
    [
        ("multi_head.ipynb", "solutions", 10, "3 more points are given by hand", "all 27 cases agree"),
        pytest.param(
            *("mine/multi_head (1).ipynb", "labs", 0, "Read from 'multi_head (1).ipynb'.", "not attempted yet"),
            marks=pytest.mark.full,
        ),
        pytest.param(
            *("other.txt", "labs", 0, "multi_head.ipynb is expected", "It was not handed in."), marks=pytest.mark.full
        ),
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
