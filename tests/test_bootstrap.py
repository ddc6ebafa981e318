"""The set-up: its sentences when something is missing, what it installs, and how far it says that it is."""

import ast
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from headroom import doctor

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A tiny project beside a copy of bootstrap.py: setting it up is quick, and touches nothing of the course."""
    shutil.copy2(REPOSITORY / "bootstrap.py", tmp_path)
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "tiny"\nversion = "1"\n'
        '[project.optional-dependencies]\ngrade = []\ntest = ["tiny[grade]"]\nbook = []\n'
        "[tool.setuptools]\npy-modules = []\n"
    )
    return tmp_path


def run_bootstrap(project: Path, before: str = "") -> subprocess.CompletedProcess:
    """Run bootstrap.py as a program, after the lines `before`, which change the world that it sees."""
    program = (
        f"import runpy, sys\n{before}\nsys.argv = ['bootstrap.py']\nrunpy.run_path('bootstrap.py', run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-c", program], cwd=project, capture_output=True, text=True, timeout=300)


def assert_one_sentence(ran: subprocess.CompletedProcess, *words: str) -> None:
    assert ran.returncode == 1
    lines = ran.stderr.strip().splitlines()
    assert len(lines) == 1, f"one plain sentence, not this:\n{ran.stderr}"
    assert lines[0].endswith(".")
    for word in words:
        assert word in lines[0]


# --- Setting up ------------------------------------------------------------------------------------------------------


def test_an_old_python_is_named(project: Path) -> None:
    ran = run_bootstrap(project, "sys.version_info = (3, 9, 6)")
    assert_one_sentence(ran, "3.11 or newer", "Python 3.9.6", "PYTHON=")


def test_the_script_can_be_read_by_an_old_python() -> None:
    """Python 2.7 and 3.4 must get as far as the sentence: no f-string, no annotation, no later syntax."""
    tree = ast.parse((REPOSITORY / "bootstrap.py").read_text(), feature_version=(3, 4))
    for node in ast.walk(tree):
        assert not isinstance(node, ast.JoinedStr | ast.AnnAssign | ast.AsyncFunctionDef | ast.Nonlocal)
        if isinstance(node, ast.FunctionDef):
            annotated = [argument for argument in node.args.args if argument.annotation]
            assert not annotated and node.returns is None and not node.args.kwonlyargs


def test_a_missing_venv_module_is_named(project: Path) -> None:
    before = (
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'ensurepip' else find(name, *more)"
    )
    assert_one_sentence(run_bootstrap(project, before), "ensurepip", "-venv")


def test_a_full_disk_is_named_before_anything_is_downloaded(project: Path) -> None:
    before = "import shutil\nshutil.disk_usage = lambda path: shutil._ntuple_diskusage(10**10, 9 * 10**9, 10**9)"
    ran = run_bootstrap(project, before)
    assert_one_sentence(ran, "GB of free disk space", "1.0 GB")
    assert not (project / ".venv").exists()


def test_a_missing_network_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The discard port of this computer stands for a package index that cannot be reached."""
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    assert_one_sentence(run_bootstrap(project), "cannot be reached", "same command again")


class Brought:
    """In the place of `Installers`: remembers what it was to bring, and is interrupted the first time."""

    def __init__(self) -> None:
        self.calls = []

    def __call__(self, root: str, scratch: str):
        return self

    def bring(self, pinned: list[str], target: str, check) -> None:
        self.calls.append((pinned, target))
        if len(self.calls) == 1:
            raise KeyboardInterrupt


def test_an_interrupted_setup_goes_on_and_a_finished_one_is_left_alone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is installed here; the environment itself is real."""
    bootstrap = doctor.load(REPOSITORY / "bootstrap.py")
    root, brought = str(project), Brought()
    monkeypatch.setattr(bootstrap, "Installers", brought)
    monkeypatch.setattr(bootstrap, "check_disk", lambda *arguments: None)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.set_up(root)
    packages = next((project / ".venv" / "lib").glob("python*/site-packages"))
    for name, record in (("half", None), ("lacking", "lacking.py,,\n"), ("whole", "whole.py,,\nwhole.pyc,,\n")):
        (packages / f"{name}-1.0.dist-info").mkdir()
        if record:
            (packages / f"{name}-1.0.dist-info" / "RECORD").write_text(record)
    (packages / "whole.py").touch()

    bootstrap.set_up(root)
    assert brought.calls == [([], ".")] * 2
    left = {path.name for path in packages.glob("*-1.0.dist-info")}
    assert left == {"whole-1.0.dist-info"}, "the others would be taken for installed"
    bootstrap.set_up(root)
    assert len(brought.calls) == 2, "nothing changed, so nothing is installed"

    (project / "constraints.txt").write_text("numpy==2.0.0\n")
    bootstrap.set_up(root)
    assert brought.calls[2] == (["-c", "constraints.txt"], "."), "new versions are installed, in the same environment"


def test_a_setup_waits_until_another_of_the_same_course_has_ended(tmp_path: Path, capsys) -> None:
    pytest.importorskip("fcntl", reason="there are no such locks on Windows")
    bootstrap = doctor.load(REPOSITORY / "bootstrap.py")
    second = threading.Thread(target=lambda: bootstrap.wait_for_turn(str(tmp_path)).close(), daemon=True)
    with bootstrap.wait_for_turn(str(tmp_path)):
        second.start()
        second.join(0.5)
        assert second.is_alive()
    second.join()
    assert "waiting" in capsys.readouterr().out


def test_an_extra_is_installed_when_it_is_first_needed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap = doctor.load(REPOSITORY / "bootstrap.py")
    root, brought = str(project), Brought()
    brought.calls.append("as if interrupted before")
    monkeypatch.setattr(bootstrap, "Installers", brought)
    monkeypatch.setattr(bootstrap, "check_disk", lambda *arguments: None)

    def targets(*extras: str) -> list[str]:
        """What setting these up brings, if anything."""
        before = len(brought.calls)
        bootstrap.set_up(root, extras)
        return [target for _, target in brought.calls[before:]]

    assert targets() == ["."]
    assert targets("test") == [".[grade,test]"], "with the one that it names"
    assert targets() == targets("grade") == targets("test") == []
    assert targets("book") == [".[book]"]
    assert targets("test") == [], "it is still there"
    with pytest.raises(bootstrap.Trouble, match="no extra tests"):
        bootstrap.set_up(root, ["tests"])


@pytest.mark.full
def test_a_broken_environment_is_made_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap, brought = doctor.load(REPOSITORY / "bootstrap.py"), Brought()
    brought.calls.append("as if interrupted before")
    monkeypatch.setattr(bootstrap, "Installers", brought)
    monkeypatch.setattr(bootstrap, "check_disk", lambda *arguments: None)
    bootstrap.set_up(str(project))
    python = Path(bootstrap.environment_python(str(project)))
    python.unlink()
    bootstrap.set_up(str(project))
    assert python.exists()


def test_the_set_up_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Both installers are silent for minutes where they write to no terminal."""
    script = """
import pathlib, sys, time
time.sleep(0.5)
for name in ("one-1.0", "two-2.0"):
    folder = pathlib.Path(sys.argv[1], f"{name}.dist-info")
    folder.mkdir()
    (folder / "RECORD").write_text("x" * 1000)
    time.sleep(0.5)
pathlib.Path(sys.argv[1] + ".log").open("a").write("Prepared 5 packages in 1s")
time.sleep(0.5)
sys.exit(3)
"""
    bootstrap = doctor.load(REPOSITORY / "bootstrap.py")
    monkeypatch.setattr(bootstrap, "SECONDS_A_LINE", 0.1)
    folder, log = tmp_path / "packages", tmp_path / "packages.log"
    folder.mkdir()
    log.write_text("Resolved 5 packages in 1s\n")
    process = subprocess.Popen([sys.executable, "-c", script, str(folder)])
    assert bootstrap.watch(process, str(folder), str(log)) == 3
    lines = [line.split(",")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["1 of 5 packages", "2 of 5 packages"] and set(lines[2:]) == {"putting them in place"}


WITHOUT_INDEX = "error: Failed to fetch: https://…/torch/\n  cause: dns error\n"


@pytest.mark.parametrize(
    ("ends", "expected", "says"),
    [  # how a program ends, by a word of its command; all others well, and silently
        ({"--dry-run": (0, " + torch==2.15.0+cpu\n")}, ["uv auto"], "for the processor, as there is no GPU"),
        ({"--dry-run": (0, " + torch==2.15.0+cu130\n")}, ["uv auto"], "for this GPU, cu130"),
        ({"--dry-run": (0, "Would make no changes\n")}, ["uv"], ""),
        ({"--dry-run": (2, WITHOUT_INDEX)}, ["uv"], "the usual build (6 GB, not 1.2)"),
        ({"auto": (1, "No solution found"), "cpu": (0, " + torch==2.15.0+cpu\n")}, ["uv cpu"], "processor."),
        ({"--only-binary": (1, "No matching distribution found")}, ["pip"], "pip installs"),
        ({"--python": (2, WITHOUT_INDEX)}, ["uv", "pip"], "pip installs"),  # uv's own commands alone have it
    ],
)
def test_uv_brings_the_build_for_the_machine_and_pip_what_uv_cannot(
    ends: dict, expected: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    bootstrap = doctor.load(REPOSITORY / "bootstrap.py")
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    monkeypatch.setattr(bootstrap, "environment_python", lambda root: sys.executable)
    (tmp_path / ".headroom").mkdir()
    installers, came = bootstrap.Installers(str(tmp_path), str(tmp_path)), []

    def run(arguments: list[str], folder=None, **more) -> int:
        code, said = next((end for word, end in ends.items() if word in arguments), (0, ""))
        Path(installers.log_path).write_text(said)
        if "." in arguments:
            came.append(" ".join(word for word in arguments if word in ("uv", "auto", "cpu")) or "pip")
        return code

    monkeypatch.setattr(installers, "run", run)
    installers.bring([], ".", lambda build: None)
    assert came == expected and says in capsys.readouterr().out


def test_in_another_jupyter_only_what_notebooks_need_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap, asked = doctor.load(REPOSITORY / "bootstrap.py"), []
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda command: asked.append(command) or 0)
    assert bootstrap.main(["--here"]) == 0
    [command] = asked
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    named = {requirement.name for requirement in map(Requirement, command[5:])}
    assert {"torch", "anywidget", "jupyterquiz"} <= named and not named & {"jupyterlab", "nbgrader"}
    sys.path.remove(str(REPOSITORY))  # as %run does at its end
    assert str(REPOSITORY) in sys.path


@pytest.mark.skipif(os.name == "nt", reason="Binder runs Linux")
def test_binder_starts_jupyter_with_the_courses_settings() -> None:
    script = "import os; print(*os.environ['JUPYTER_CONFIG_PATH'].split(os.pathsep), sep='\\n')"
    command = [REPOSITORY / "binder" / "start", sys.executable, "-c", script]
    ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [str(REPOSITORY / "jupyter" / "student"), str(REPOSITORY / "jupyter")]
    subprocess.run(["bash", "-n", REPOSITORY / "binder" / "postBuild"], check=True)
    assert os.access(REPOSITORY / "binder" / "postBuild", os.X_OK)


def test_pips_complaints_become_sentences() -> None:
    bootstrap = doctor.load(REPOSITORY / "bootstrap.py")
    assert "disk is full" in bootstrap.explain("OSError: [Errno 28] No space left on device", "log")
    no_build = "ERROR: No matching distribution found for torch==2.15.0"
    assert "no build" in bootstrap.explain(no_build, "log")
    assert "cannot be reached" in bootstrap.explain("NewConnectionError(...)\n" + no_build, "log")
    assert "log" in bootstrap.explain("something else", "log")
