"""`make doctor`: one thing broken at a time, and the line that says so."""

import ctypes.util
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from headroom import doctor, environment

REPOSITORY = Path(__file__).resolve().parents[1]
Patch = pytest.MonkeyPatch


def old_python(patch: Patch, course: Path) -> None:
    patch.setattr(sys, "version_info", (3, 9, 6))


def no_environment(patch: Patch, course: Path) -> None:
    shutil.rmtree(course / ".venv")


def environment_that_does_not_start(patch: Patch, course: Path) -> None:
    (course / ".venv" / "bin" / "python").unlink()


def full_disk(patch: Patch, course: Path) -> None:
    patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**11, 10**11, 10**8))


def without(module: str) -> Callable[[Patch, Path], None]:
    return lambda patch, course: patch.setitem(sys.modules, module, None)


def broken_settings(patch: Patch, course: Path) -> None:
    (course / "jupyter" / "labconfig" / "default_setting_overrides.json").write_text("{")


def missing_extension(name: str) -> Callable[[Patch, Path], None]:
    gone = tuple(one._replace(shown=("@jupyter/gone",)) if one.title == name else one for one in doctor.EXTENSIONS)
    return lambda patch, course: patch.setattr(doctor, "EXTENSIONS", gone)


def without_program(*names: str) -> Callable[[Patch, Path], None]:
    which = shutil.which
    return lambda patch, course: patch.setattr(shutil, "which", lambda one: None if one in names else which(one))


def without_namespaces(patch: Patch, course: Path) -> None:
    patch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    patch.setattr(doctor, "NAMESPACES", ["false"])


def without_libseccomp(patch: Patch, course: Path) -> None:
    patch.setattr(ctypes.util, "find_library", lambda name: None)


def without_landlock(patch: Patch, course: Path) -> None:
    class Library:
        syscall = staticmethod(lambda *arguments: -1)

    patch.setattr(ctypes, "CDLL", lambda name: Library)


def without_groups(patch: Patch, course: Path) -> None:
    (course / "autograder" / "kernels" / "cgroups.py").write_text("def place():\n    return None\n")


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """What the doctor reads of a course, with an environment that starts; what is in it is of no matter here."""
    for name in ("torch", "jupyterlab", "anywidget", "nbgrader"):
        importlib.import_module(name)  # not for the first time in a test that changes what they look at
    for name in ("bootstrap.py", "pyproject.toml", "autograder/kernels/cgroups.py", "tests/javascript.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, tmp_path / name)
    shutil.copytree(REPOSITORY / "jupyter", tmp_path / "jupyter")
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    says = f"({sys.version_info[0]}, {sys.version_info[1]}) {tmp_path / '.venv'}"
    (scripts / "python").write_text(f"#!/bin/sh\necho '{says}'\n")
    (scripts / "python").chmod(0o755)
    (scripts / "pip").write_text(f"#!{scripts / 'python'}\n")
    bootstrap = doctor.load(tmp_path / "bootstrap.py")
    Path(bootstrap.stamp(str(tmp_path))).write_text(bootstrap.fingerprint(str(tmp_path)))
    return tmp_path


def half_installed(patch: Patch, course: Path) -> None:
    (course / ".venv" / "lib" / "python3" / "site-packages" / "numpy-2.0.dist-info").mkdir(parents=True)


def older_packages(patch: Patch, course: Path) -> None:
    (course / "constraints.txt").write_text("numpy==1.26.0\n")


@pytest.mark.skipif(os.name == "nt", reason="the environment in these tests is a shell script")
@pytest.mark.parametrize(
    ("breaks", "mark", "words"),
    [
        (old_python, "✗", ["Python: this is 3.9.6", "3.11 or newer"]),
        (no_environment, "✗", ["Environment: there is none yet", "make setup"]),
        (environment_that_does_not_start, "✗", ["Environment: .venv does not start", "make setup"]),
        (half_installed, "✗", ["Environment: numpy is installed in part", "make setup"]),
        (older_packages, "✗", ["Environment: the course asks for other packages", "make setup"]),
        (full_disk, "✗", ["Disk: 0.1 GB", "make room"]),
        (without("torch"), "✗", ["PyTorch: it cannot be imported", "remove the folder .venv"]),
        (without("jupyterlab"), "✗", ["JupyterLab: it cannot be imported", "remove the folder .venv"]),
        (broken_settings, "✗", ["JupyterLab: the course's settings", "fetch jupyter/ again"]),
        (without("anywidget"), "✗", ["Widgets: anywidget cannot be imported"]),
        (missing_extension("Widgets"), "✗", ["Widgets: JupyterLab lacks the extension @jupyter/gone"]),
        (without("nbgrader"), "✗", ["nbgrader: nbgrader cannot be imported"]),
        (missing_extension("nbgrader"), "✗", ["nbgrader: JupyterLab lacks the extension @jupyter/gone"]),
        (without_program("bwrap"), "–", ["bubblewrap: grading needs it", "install"]),
        (without_libseccomp, "–", ["libseccomp: grading needs it", "install"]),
        (without_namespaces, "–", ["Namespaces: the system does not let bubblewrap"]),
        (without_landlock, "–", ["Landlock: this Linux lacks it"]),
        (without_groups, "–", ["Control groups: none can be made"]),
        (without_program("chromium", "chromium-browser"), "–", ["Chromium: tests in a browser are skipped", "install"]),
        (without_program("node"), "–", ["Node.js: there is no Node.js", "install"]),
    ],
)
def test_what_is_broken_is_named(
    breaks: Callable[[Patch, Path], None],
    mark: str,
    words: list[str],
    course: Path,
    monkeypatch: Patch,
    capsys: pytest.CaptureFixture,
) -> None:
    if mark == "–" and sys.platform != "linux":
        pytest.skip("what only Linux has")
    breaks(monkeypatch, course)
    status = doctor.main(course)
    lines = capsys.readouterr().out.splitlines()
    found = [line for line in lines if all(word in line for word in words)]
    assert len(found) == 1 and found[0].startswith(mark), "\n".join(lines)
    if mark == "✗":
        assert status == 1
        marks = [line[0] for line in lines if line[:1] in ("✗", "✓", "–")]
        assert marks == sorted(marks, key="✗".__ne__), "what is broken comes first"


@pytest.mark.skipif(os.name == "nt", reason="the environment in these tests is a shell script")
def test_a_sound_installation_gets_no_cross(course: Path, capsys: pytest.CaptureFixture) -> None:
    assert doctor.main(course) == 0
    assert "✗" not in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="the environment in these tests is a shell script")
def test_a_student_is_told_nothing_of_grading(course: Path, capsys: pytest.CaptureFixture) -> None:
    doctor.main(course)
    everybody, _, instructors = capsys.readouterr().out.partition("\n\n")
    assert "bubblewrap" in instructors and "bubblewrap" not in everybody
    shutil.rmtree(course / "tests")  # as in the copy that students get
    assert doctor.main(course) == 0
    took = re.compile(r"\d+\.\d s")
    assert took.sub("", capsys.readouterr().out) == took.sub("", f"{everybody}\n")


def test_widgets_are_asked_for_every_extension_that_comes_with_them() -> None:
    """Those of anywidget, of what it needs, and so on."""
    names, ahead = set(), ["anywidget"]
    while ahead:
        names.add(name := ahead.pop())
        needs = map(Requirement, metadata.requires(name) or ())
        needed = {one.name for one in needs if not one.marker or one.marker.evaluate({"extra": ""})}
        ahead += needed - names
    files = " ".join(str(path) for name in names for path in metadata.files(name) or ())
    brought = re.findall(r"labextensions/((?:@[\w-]+/)?[\w-]+)/package\.json", files)
    (widgets,) = (one for one in doctor.EXTENSIONS if one.title == "Widgets")
    assert len(brought) == 2 and set(brought) == set(widgets.shown)


def test_it_runs_without_any_package() -> None:
    """By a Python that sees nothing but its own library, as where .venv is broken."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        "import sys; sys.path.insert(0, '.'); from headroom import __main__ as m;",
    ]
    command[-1] += " sys.exit(m.main(['doctor']))"
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert ran.returncode == 1 and ran.stderr == ""
    assert ran.stdout.splitlines()[1].startswith("✗") and "✗ PyTorch: it cannot be imported" in ran.stdout


@pytest.mark.parametrize(
    ("active", "mark", "words"), [(True, "✓", "Environment: conda's, in"), (False, "✗", "there is none yet")]
)
def test_an_environment_of_condas_needs_no_other(
    active: bool, mark: str, words: str, tmp_path: Path, monkeypatch: Patch
):
    monkeypatch.setenv("CONDA_PREFIX", sys.prefix if active else str(tmp_path))
    line = doctor.packages(tmp_path)
    assert line.mark == mark and words in line.sentence


@pytest.mark.parametrize(("free", "mark"), [(10**9, "✓"), (10**9 - 1, "✗")])
def test_a_gigabyte_is_room_enough(free: int, mark: str, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**12, 0, free))
    assert doctor.disk(tmp_path).mark == mark


@pytest.mark.parametrize(("there", "used", "said"), [(True, False, True), (True, True, False), (False, False, False)])
def test_a_gpu_that_is_not_used_is_told_of(there: bool, used: bool, said: bool, monkeypatch: Patch) -> None:
    import torch

    exists = Path.exists
    monkeypatch.setattr(torch.cuda, "is_available", lambda: used)
    monkeypatch.setattr(environment, "device", lambda: environment.Finding(True, "It computes."))
    monkeypatch.setattr(environment, "digits", lambda: environment.Finding(False, "They are gone."))
    monkeypatch.setattr(Path, "exists", lambda path: there if "nvidia" in str(path) else exists(path))
    lines = list(doctor.torch())
    assert [line.mark for line in lines[:3]] == ["✓", "✓", "✗"] and lines[2].sentence == "They are gone."
    assert [line.mark for line in lines[3:]] == ["–"] * said


@pytest.mark.parametrize(
    ("file", "text"),
    [("jupyter_lab_config.py", "c.LabApp. = 1\n"), ("labconfig/default_setting_overrides.json", None)],
)
def test_settings_of_jupyterlab_that_cannot_be_read_are_named(course: Path, file: str, text: str | None) -> None:
    path = course / "jupyter" / file
    path.unlink() if text is None else path.write_text(text)
    assert doctor.lab(course).mark == "✗" and "fetch jupyter/ again" in doctor.lab(course).sentence


def test_what_is_in_jupyterlab_is_looked_for_in_the_environment(
    course: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    assert doctor.lab(course).mark == "✓" and [doctor.extension(one).mark for one in doctor.EXTENSIONS] == ["✓"] * 2
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert "its pages are not in" in doctor.lab(course).sentence
    for one in doctor.EXTENSIONS:
        assert f"lacks the extension {one.shown[0]}" in doctor.extension(one).sentence


def test_elsewhere_than_on_linux_grading_is_not_isolated(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    [line] = doctor.isolation(tmp_path)
    assert line.mark == "–" and "--no-isolation" in line.sentence


def test_the_lines_come_in_the_order_of_what_a_student_needs(course: Path) -> None:
    starts = [line.sentence.split(":")[0].split()[0] for line in doctor.examine(course)]
    others = [
        one
        for one in starts
        if one in ("Python", "Environment", "Disk", "PyTorch", "JupyterLab", "Widgets", "nbgrader")
    ]
    assert others == ["Python", "Environment", "Disk", "PyTorch", "JupyterLab", "Widgets", "nbgrader"]
