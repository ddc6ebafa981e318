"""The grader's commands: what is typed reaches what does the work, and the exit status says how it went."""

import argparse
import contextlib
import inspect
import os
import runpy
import shlex
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder import __main__ as commands
from autograder.course import Course, NoCourse
from autograder.pipeline import (
    checking,
    gradescope,
    grading,
    labs,
    lms_feedback,
    lms_scores,
    lms_submissions,
    people,
    student_copy,
)
from autograder.pipeline.course import Failed, course_root, environment, nbgrader
from autograder.report import page


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course without a gradebook, in one of whose folders the commands are typed."""
    for lab in ("lab1", "lab2"):
        (tmp_path / "solutions" / lab).mkdir(parents=True)
        (tmp_path / "solutions" / lab / "first.ipynb").touch()
    (tmp_path / "nbgrader_config.py").touch()
    monkeypatch.chdir(tmp_path / "solutions" / "lab1")
    monkeypatch.setattr("autograder.pipeline.course.gradebook", lambda course: contextlib.nullcontext())
    return tmp_path


AS_USUAL = {"chosen": [], "isolated": True, "workers": None, "scheduler": None, "regrade": []}
IN_ALL_WAYS = "grade lab1 lab2 --no-isolation --workers 3 --scheduler tcp://a:1 --regrade ann --regrade lab1"
# What is typed, what does the work, and what it is told.
TYPED: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("check my/first.ipynb", checking, "check_notebook", {"path": Path("my/first.ipynb")}),
    ("labs", labs, "generate", {"labs": ["lab1", "lab2"]}),
    ("labs lab2", labs, "generate", {"labs": ["lab2"]}),
    ("labs --check", labs, "differing", {}),
    ("roster class.csv", people, "enrol", {"path": Path("class.csv")}),
    ("student-copy", student_copy, "make", {"target": None}),
    ("student-copy elsewhere", student_copy, "make", {"target": Path("elsewhere")}),
    ("collect lab1 all.zip", lms_submissions, "collect", {"lab": "lab1", "source": Path("all.zip")}),
    ("grade", grading, "grade", AS_USUAL),
    (
        IN_ALL_WAYS,
        grading,
        "grade",
        {
            "chosen": ["lab1", "lab2"],
            "isolated": False,
            "workers": 3,
            "scheduler": "tcp://a:1",
            "regrade": ["ann", "lab1"],
        },
    ),
    ("scores a.csv", lms_scores, "fill", {"path": Path("a.csv"), "chosen": [], "to": None}),
    ("scores a.csv lab2 --to b.csv", lms_scores, "fill", {"chosen": ["lab2"], "to": Path("b.csv")}),
    ("feedback lab1 all.zip", lms_feedback, "pack", {"lab": "lab1", "source": Path("all.zip"), "to": None}),
    ("feedback lab1 all.zip --to b.zip", lms_feedback, "pack", {"to": Path("b.zip")}),
    ("gradescope lab1", gradescope, "make", {"lab": "lab1", "isolated": True, "visibility": "visible", "to": None}),
    (
        "gradescope lab1 --to b.zip --visibility hidden --no-isolation",
        gradescope,
        "make",
        {"isolated": False, "visibility": "hidden", "to": Path("b.zip")},
    ),
    ("report", page, "report", {}),
]
LISTS = {"collect", "grade", "scores", "feedback"}  # whose work gives what is missing


def taken(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, answer: Any) -> dict[str, Any]:
    """What the function is told from now on; it does nothing but give this answer, or raise it."""
    told: dict[str, Any] = {}
    signature = inspect.signature(getattr(module, name))

    def take(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        told.update(bound.arguments)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, name, take)
    return told


def answers(line: str) -> tuple[Any, Any]:
    """What the work gives where all is well, and where it is not."""
    if line.startswith("check"):
        return True, False
    if line.split()[0] in LISTS or line == "labs --check":
        return [], ["ann"]
    return ([] if line.startswith("roster") else (Path("a"), Path("b"))), Failed("ann: it cannot be done.")


@pytest.mark.parametrize(("line", "module", "name", "wanted"), TYPED, ids=[line for line, *_ in TYPED])
def test_what_is_typed_reaches_what_does_the_work(
    course: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    module: Any,
    name: str,
    wanted: dict[str, Any],
) -> None:
    well, ill = answers(line)
    told = taken(monkeypatch, module, name, well)
    assert commands.main(shlex.split(line)) == 0
    assert {key: told[key] for key in wanted} == wanted
    assert told.get("course", course) == course
    assert capsys.readouterr().err == ""
    taken(monkeypatch, module, name, ill)
    assert commands.main(shlex.split(line)) == 1
    assert line.startswith("check") or capsys.readouterr().err.startswith("ann: ")


def test_every_option_of_every_command_is_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    parsers: list[argparse.ArgumentParser] = []

    def keep(parser: argparse.ArgumentParser, *_: object) -> None:
        parsers.append(parser)
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", keep)
    with pytest.raises(KeyboardInterrupt):
        commands.main([])
    (choices,) = (action.choices for action in parsers[0]._actions if isinstance(action.choices, dict))
    typed = {name: [line.split() for line, *_ in TYPED if line.split()[0] == name] for name in choices}
    for name, parser in choices.items():
        options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}
        assert typed[name] and options <= {word for line in typed[name] for word in line}, name


def test_a_round_says_its_list_on_one_stream_and_what_is_to_be_noticed_on_the_other(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = taken(monkeypatch, grading, "grade", [])
    commands.main(["grade"])
    told["voice"].say("ann 3 of 4")
    told["voice"].warn("it takes long")
    assert tuple(capsys.readouterr()) == ("ann 3 of 4\n", "it takes long\n")


@pytest.mark.parametrize("problem", [Failed("Do this."), NoCourse("Do this.")])
def test_what_a_command_cannot_do_is_a_sentence_and_no_traceback(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: Exception
) -> None:
    taken(monkeypatch, grading, "grade", problem)
    assert commands.main(["grade"]) == 1
    assert tuple(capsys.readouterr()) == ("", "Do this.\n")


def test_a_course_is_found_from_within_and_both_of_what_it_has_are_looked_for(course: Path) -> None:
    inside = course / "labs" / "lab1"
    inside.mkdir(parents=True)
    (course / "labs" / "nbgrader_config.py").touch()
    (inside / "solutions").mkdir()
    assert course_root(inside) == course
    (course / "nbgrader_config.py").unlink()
    with pytest.raises(Failed, match=r"There is no nbgrader_config\.py beside a solutions/ in .*lab1 or above it"):
        course_root(inside)


@pytest.mark.skipif(sys.platform == "win32", reason="a script stands in for Python")
@pytest.mark.parametrize("status", [0, 3])
def test_what_nbgrader_says_is_kept_until_it_fails(
    course: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], status: int
) -> None:
    python, lines, failed = course / "python", list[str](), list[str]()
    python.write_text(f"#!/bin/sh\necho $0 $*\necho beside >&2\npwd\nexit {status}\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    about = Course(course, "exercises")
    how: dict[str, Any] = {"quiet": True, "about": about, "log": lines.append, "failed": failed.append}
    assert nbgrader(course, "export", "--to=a", **how) == status
    assert "".join(lines) == f"{python} -m nbgrader export --to=a\nbeside\n{course}\n"
    assert failed == (["".join(lines)] if status else []) and tuple(capfd.readouterr()) == ("", "")
    assert nbgrader(course, "export", about=about) == status
    assert capfd.readouterr().out.startswith(str(python))


@pytest.mark.skipif(sys.platform == "win32", reason="a script stands in for Python")
@pytest.mark.parametrize("says", ["database or disk is full", "OSError: [Errno 28] No space left on device"])
def test_a_full_disk_is_called_so_whoever_says_it(course: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    python = course / "python"
    python.write_text(f"#!/bin/sh\necho '{says}'\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(Failed, match=f"The disk that holds {course} is full: make room, and run the same command"):
        nbgrader(course, "export", quiet=True, about=Course(course, "exercises"), failed=pytest.fail)


def test_a_program_of_nbgraders_finds_this_pythons_own_scripts_and_the_courses_variables(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("MINE", "kept")
    own = {"JUPYTER_CONFIG_DIR": f"{course}/jupyter"}
    monkeypatch.setattr(Course, "function", lambda self, path: lambda folder: own if folder == course else {})
    about = Course(course, "exercises", environment="plots:variables")
    variables = environment(about, course)
    assert variables["PATH"].split(os.pathsep) == [sysconfig.get_path("scripts"), "/usr/bin"]
    assert variables["MINE"] == "kept" and own.items() <= variables.items()
    assert environment(Course(course, "exercises"), course).get("JUPYTER_CONFIG_DIR") != own["JUPYTER_CONFIG_DIR"]


@pytest.mark.parametrize(
    ("missing", "said"),
    [("nbgrader", "lacks nbgrader. Activate the environment first"), ("autograder.pipeline.gone", None)],
)
def test_an_environment_that_is_not_active_is_named(
    monkeypatch: pytest.MonkeyPatch, missing: str, said: str | None
) -> None:
    """A module of the grader's own that is not there is no matter of the environment's."""

    class Lacks:
        def __getattr__(self, name: str) -> Any:
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)

    monkeypatch.setitem(sys.modules, "autograder.pipeline.course", Lacks())  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(sys, "argv", ["autograder", "report"])
    run: Callable[[], Any] = lambda: runpy.run_path(commands.__file__, run_name="__main__")  # noqa: E731
    if said:
        with pytest.raises(SystemExit, match=said):
            run()
    else:
        with pytest.raises(ModuleNotFoundError):
            run()
