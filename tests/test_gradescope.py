"""Gradescope's autograder, built and run as Gradescope would: in a stand-in of its container, by its protocol."""

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("bubblewrap is Linux's", allow_module_level=True)

import pyseccomp

from autograder.pipeline import gradescope
from autograder.pipeline.course import Failed
from autograder.pipeline.parcel import unpack

REPOSITORY = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.full, pytest.mark.skipif(not shutil.which("bwrap"), reason="there is no bubblewrap")]
LAB, NOTEBOOK = "lab1_softmax", "softmax.ipynb"
# What Docker leaves to root in a container.
LEFT = "CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE NET_RAW SYS_CHROOT"
CLONE_NEWUSER = 0x10000000


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    course = tmp_path_factory.mktemp("gradescope") / "course"
    shutil.copytree(REPOSITORY / "examples", course, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    return gradescope.make(course, LAB)


def test_the_zip_has_what_gradescope_wants_and_no_solution(zipped: Path) -> None:
    with zipfile.ZipFile(zipped) as archive:
        names = archive.namelist()
        assert {"setup.sh", "run_autograder", "course/pyproject.toml", "course/exercises.py"} <= {*names}
        assert {"grader/bootstrap.py", "grader/pyproject.toml", "grader/headroom/data/PYTHON-LICENSE.txt"} <= {*names}
        assert all(archive.getinfo(name).external_attr >> 16 & 0o111 for name in ("setup.sh", "run_autograder"))
        assert not [name for name in names if "solutions" in name or name.endswith((".ipynb", ".pyc"))]
        about, (lab,) = unpack(archive.read("lab.parcel"))
        assert about == {"lab": LAB, "isolated": True, "visibility": "visible"} and b"BEGIN SOLUTION" not in lab
        for script in ("setup.sh", "run_autograder"):
            subprocess.run(["bash", "-n"], input=archive.read(script), check=True)


def container(folder: Path, *command: str, docker: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command where `folder` is /autograder; `docker`: with what Docker leaves to root, and no namespaces."""
    line = ["bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc", "--proc", "/proc", "--dev", "/dev"]
    for path in sorted(Path("/").iterdir()):
        if path.name not in ("proc", "dev", "tmp", "autograder"):
            line += (
                ["--symlink", os.readlink(path), str(path)] if path.is_symlink() else ["--ro-bind", *[str(path)] * 2]
            )
    line += ["--tmpfs", "/tmp", "--bind", str(folder), "/autograder", "--chdir", "/autograder"]
    with tempfile.TemporaryFile() as file:
        if docker:
            rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
            for name, code in (("unshare", errno.EPERM), ("setns", errno.EPERM), ("clone3", errno.ENOSYS)):
                rules.add_rule(pyseccomp.ERRNO(code), name)
            new = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)
            rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", new)
            rules.export_bpf(file)
            file.seek(0)
            line += ["--cap-drop", "ALL", *(part for name in LEFT.split() for part in ("--cap-add", f"CAP_{name}"))]
            line += ["--seccomp", str(file.fileno())]
        return subprocess.run([*line, *command], capture_output=True, text=True, check=False, pass_fds=[file.fileno()])


@pytest.fixture(scope="module")
def built(zipped: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/autograder after setup.sh, with stand-ins for what installs: apt-get, and the Python that it would bring."""
    folder = tmp_path_factory.mktemp("autograder")
    folder.chmod(0o755)
    shutil.unpack_archive(zipped, folder / "source")
    (folder / "bin").mkdir()
    python = f'test "$1" = bootstrap.py && test -f $1 && ln -s {sys.prefix} .venv && echo bootstrap >> /autograder/log'
    apt = "echo $@ >> /autograder/log; case $@ in *python3.13*) exit 100;; esac"
    for name, script in (("python3.12", python), ("apt-get", apt)):
        (folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / "bin" / name).chmod(0o755)
    done = container(folder, "env", "PATH=/autograder/bin:/usr/bin:/bin", "bash", "/autograder/source/setup.sh")
    assert done.returncode == 0, done.stderr
    log = (folder / "log").read_text()
    assert "bubblewrap libseccomp2" in log and log.endswith("python3.12 python3.12-venv\nbootstrap\n")
    shutil.copy(folder / "source" / "run_autograder", folder)
    (folder / "run_autograder").chmod(0o755)
    return folder


def graded(folder: Path, files: dict[str, Path], docker: bool = False) -> tuple[dict[str, Any], str]:
    """Hand in files, under these names; results.json, if there is one, and what was printed."""
    for name in ("submission", "results"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    for name, path in files.items():
        (folder / "submission" / name).parent.mkdir(exist_ok=True)
        shutil.copy(path, folder / "submission" / name)
    done = container(folder, "/autograder/run_autograder", docker=docker)
    results = folder / "results" / "results.json"
    assert (done.returncode == 0) == results.exists(), done.stdout + done.stderr
    return json.loads(results.read_text()) if results.exists() else {}, done.stdout + done.stderr


ATTACK = """
for path in ("results/results.json", "source/lab.parcel", "source/course/exercises.py"):
    try:
        open(f"/autograder/{path}", "w" if "results" in path else "r")
        print("reached", path)
    except OSError:
        pass
import numpy as np
def softmax(x):
    return np.exp(x) / np.exp(x).sum(axis=0, keepdims=True)
"""


def test_the_verdict_is_ours_whatever_the_notebook_does(zipped: Path, built: Path, tmp_path: Path) -> None:
    """Zipped with its folder, as students do; a known mistake; hands that reach for results and answers."""
    notebook = nbformat.read(zipped.parents[1] / "labs" / LAB / NOTEBOOK, as_version=4)
    (cell,) = (one for one in notebook.cells if one.cell_type == "code" and "def softmax" in one.source)
    cell.source = ATTACK
    nbformat.write(notebook, tmp_path / NOTEBOOK)
    results, said = graded(built, {f"my work/{NOTEBOOK}": tmp_path / NOTEBOOK})
    assert results, said
    (test,) = results["tests"]
    assert (test["name"], test["max_score"], test["status"], test["visibility"]) == ("softmax", 10, "failed", "visible")
    assert 0 < test["score"] < 10 and "Recognised: " in test["output"] and f"{test['score']:g} of 10" in test["output"]
    assert results["output"] == "" and "reached" not in json.dumps(results) + said
    assert "/autograder/results/results.json" in said, "the integrity note, which instructors see"


@pytest.mark.skipif(os.geteuid() != 0, reason="a container in which root has few rights is made by root")
def test_without_namespaces_it_isolates_otherwise_or_gives_no_score(built: Path) -> None:
    """Landlock needs a Python that an ordinary user reaches, as Gradescope's is; the one here may not be."""
    right = REPOSITORY / "examples" / "solutions" / LAB / NOTEBOOK
    results, said = graded(built, {"softmax (1).ipynb": right}, docker=True)
    if all(folder.stat().st_mode & 0o001 for folder in Path(sys.base_prefix).resolve().parents):
        assert "by Landlock alone" in said
        assert [one["score"] for one in results["tests"]] == [10] and "Read from 'softmax (1).ipynb'" in results[
            "output"
        ]
    else:
        assert results == {} and "cannot be isolated" in said and "gradescope LAB --no-isolation" in said


def test_a_name_that_nobody_can_guess_is_said_and_starts_no_kernel(built: Path) -> None:
    right = REPOSITORY / "examples" / "solutions" / LAB / NOTEBOOK
    results, _ = graded(built, {"Untitled.ipynb": right})
    assert [(one["score"], one["output"]) for one in results["tests"]] == [(0, "It was not handed in.")]
    assert results["output"] == "There is 'Untitled.ipynb' in what was handed in: softmax.ipynb is expected."


def test_what_keeps_the_zip_from_being_made_is_said(zipped: Path) -> None:
    course = zipped.parents[1]
    with pytest.raises(Failed, match="There is no lab lab9"):
        gradescope.make(course, "lab9")
    notebook = course / "solutions" / LAB / NOTEBOOK
    before = notebook.read_text()
    notebook.write_text(before.replace("softmax of", "softmax in") + " ")
    with pytest.raises(Failed, match=f"make labs LAB={LAB}, then this again"):
        gradescope.make(course, LAB)
    notebook.write_text(before)
