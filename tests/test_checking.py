"""`python -m autograder check`: the grader's verdicts in a terminal, for people without an nbgrader round."""

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from autograder import checking
from autograder.__main__ import main
from autograder.course import Course
from autograder.pipeline.cells import checked_name

REPOSITORY = Path(__file__).resolve().parents[1]
LABS = sorted((REPOSITORY / "labs").glob("*/*.ipynb"))
BROKEN = "lab08_case_files"  # hands out programs that run, and are wrong


@pytest.fixture(autouse=True)
def environment_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, os.environ.get(name, ""))


def names(path: Path) -> list[str]:
    return [name for cell in nbformat.read(path, as_version=4).cells if (name := checked_name(cell))]


def test_a_check_that_takes_long_says_that_it_is_at_work(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def causal_mask(n):
        time.sleep(0.05)
        print("the student's own")
        return torch.ones(n, n).tril().bool()

    assert checking.check(causal_mask).passed and "Still" not in capsys.readouterr().out
    monkeypatch.setattr(checking, "PATIENCE", 0.1)
    assert checking.check(causal_mask).passed
    assert capsys.readouterr().out.startswith("Still checking causal_mask:")


def test_a_second_check_of_the_same_object_says_that_its_cell_has_not_run_since() -> None:
    """Who has mended a cell and not run it would look for a mistake that is no longer there."""

    def made(diagonal: int) -> Any:
        def causal_mask(n):
            return torch.ones(n, n).tril(diagonal).bool()

        return causal_mask

    wrong, right = made(1), made(0)
    assert "has not run since" not in checking.check(wrong).headline
    assert "has not run since" in checking.check(wrong).headline
    assert "has not run since" not in checking.check(made(1)).headline
    assert checking.check(right).passed and "has not run" not in checking.check(right).headline
    assert "has not run since" not in checking.check(wrong).headline


@pytest.mark.full
@pytest.mark.parametrize("path", LABS, ids=lambda path: path.parent.name)
def test_an_unsolved_lab_earns_nothing_and_is_told_so(path: Path, capsys: pytest.CaptureFixture) -> None:
    before = path.read_bytes()
    assert main(["check", str(path)]) == 1
    said = capsys.readouterr().out
    assert len(re.findall(r"^  (Earned: )?0 of ", said, re.MULTILINE)) == len(names(path))
    assert "\n0 of " in said  # and in all
    for name in names(path):
        assert f"✗ {name}: " in said
        if path.parent.name != BROKEN:
            lines = next(line for line in said.splitlines() if line.startswith(f"✗ {name}: "))
            assert "not attempted" in lines or "is not defined" in lines, lines
    assert path.read_bytes() == before


def test_a_solved_lab_passes(capsys: pytest.CaptureFixture) -> None:
    assert main(["check", str(REPOSITORY / "solutions/lab03_positional_encoding/positional_encoding.ipynb")]) == 0
    said = capsys.readouterr().out
    assert "✓ sinusoidal_encoding: all" in said and "✓ PositionalEncoding: all" in said
    assert "10 of 10 points; 3 more are given by hand" in said


def test_a_check_of_another_course_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    about = {"grade_id": "check", "grade": True, "locked": True, "points": 1.0}
    cell = nbformat.v4.new_code_cell("check(softmax)", metadata={"nbgrader": about})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "lab.ipynb")
    assert main(["check", str(tmp_path / "lab.ipynb")]) == 1
    said = capsys.readouterr()
    assert "lab.ipynb cannot be checked: no exercise is called 'softmax'; there are" in said.err and said.out == ""


def causal_mask(n):
    return torch.ones(n, n).tril().bool()


@pytest.mark.parametrize("under", ["", "NBGRADER_VALIDATING", "NBGRADER_EXECUTION"])
def test_a_students_own_check_is_kept_and_what_keeps_it_costs_no_verdict(
    monkeypatch: pytest.MonkeyPatch, under: str
) -> None:
    told: list[tuple[Path, str]] = []

    def note(folder: Path, verdict: Any) -> None:
        told.append((folder, verdict.exercise))
        raise OSError("the disk is full")

    monkeypatch.setattr(Course, "function", lambda self, path: note if path == self.noted else pytest.fail(path))
    if under:
        monkeypatch.setenv(under, "1")
    assert checking.check(causal_mask).passed
    assert told == ([] if under else [(REPOSITORY, "causal_mask")])
    with pytest.raises(checking.CheckFailed) if under else contextlib.nullcontext():
        checking.check(wrong := type("causal_mask", (), {}))
    assert wrong is not None and len(told) == (0 if under else 2)


TEXT = nbformat.v4.new_markdown_cell("A lecture.")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("missing.ipynb", None, "cannot be checked: it is not a file"),
        ("cut.ipynb", '{"cells": [', "cannot be checked: it is not readable JSON"),
        ("empty.ipynb", nbformat.writes(nbformat.v4.new_notebook()), "cannot be checked: it has no cells"),
        ("lecture.ipynb", nbformat.writes(nbformat.v4.new_notebook(cells=[TEXT])), "holds no check"),
    ],
)
def test_what_is_no_lab_is_refused_in_a_sentence(name, text, sentence, tmp_path, capsys) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert main(["check", str(tmp_path / name)]) == 1
    assert sentence in capsys.readouterr().err
