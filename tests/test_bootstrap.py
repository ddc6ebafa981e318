"""The set-up: its sentences when something is missing, what it installs, and how far it says that it is."""

import ast
import os
import shutil
import subprocess
import sys
import threading
import tomllib
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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


# --- What each part of it decides ------------------------------------------------------------------------------------


@pytest.fixture
def bootstrap():
    return doctor.load(REPOSITORY / "bootstrap.py")


SIGNS = {
    "The disk is full": "No space left on device|Errno 28|os error 28|Disk quota exceeded",
    "cannot be reached": "NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|"
    "Temporary failure in name resolution|Network is unreachable|Connection refused|dns error|client error (Connect)|"
    "Failed to establish a new connection|operation timed out",
    "There is no build": "No matching distribution found|requires a different Python|No solution found",
}


@pytest.mark.parametrize("sentence", SIGNS)
def test_every_sign_in_an_installers_words_is_understood(bootstrap, sentence: str) -> None:
    for sign in SIGNS[sentence].split("|"):
        assert sentence in bootstrap.explain(f"ERROR: something\n  {sign}: and more", "log"), sign


def pyproject(project: Path, old: str, new: str) -> None:
    text = (project / "pyproject.toml").read_text()
    assert old in text
    (project / "pyproject.toml").write_text(text.replace(old, new))


@pytest.mark.parametrize(
    "change",
    [
        lambda project, patch: pyproject(project, 'name = "tiny"', 'name = "tiny"\ndependencies = ["numpy"]'),
        lambda project, patch: pyproject(project, "setuptools>=77", "setuptools>=78"),
        lambda project, patch: pyproject(project, "py-modules = []", 'py-modules = ["one"]'),
        lambda project, patch: (project / "constraints.txt").write_text("numpy==2.0.0\n"),
        lambda project, patch: patch.setattr(sys, "version_info", (3, 13, 0, "final", 0)),
    ],
    ids=["packages", "build system", "modules", "constraints", "Python"],
)
def test_the_environment_is_out_of_date_when_what_it_was_made_of_changes(
    bootstrap, project, monkeypatch, change
) -> None:
    (project / ".venv").mkdir()
    Path(bootstrap.stamp(str(project))).write_text(bootstrap.fingerprint(str(project)))
    assert bootstrap.up_to_date(str(project)) and not bootstrap.up_to_date(str(project), "test")
    pyproject(project, "[tool.setuptools]", "[tool.ruff]\n[tool.setuptools]")
    assert bootstrap.up_to_date(str(project)), "what concerns tools alone needs no new set-up"
    change(project, monkeypatch)
    assert not bootstrap.up_to_date(str(project))


def test_an_environment_of_a_folder_that_was_moved_is_out_of_date(bootstrap, project: Path, tmp_path_factory) -> None:
    moved = tmp_path_factory.mktemp("moved") / "course"
    shutil.copytree(project, moved)
    assert bootstrap.fingerprint(str(moved)) != bootstrap.fingerprint(str(project))


@pytest.mark.skipif(os.name == "nt", reason="the environment in this test is a shell script")
@pytest.mark.parametrize(
    ("says", "script", "usable"),
    [
        ("({0}, {1}) {folder}", "#!{folder}/bin/python", True),
        ("({0}, {1}) {folder}", "#!/elsewhere/.venv/bin/python", False),
        ("({0}, {1}) /elsewhere/.venv", "#!{folder}/bin/python", False),
        ("(3, 9) {folder}", "#!{folder}/bin/python", False),
        (None, "#!{folder}/bin/python", False),
        ("({0}, {1}) {folder}", None, False),
    ],
    ids=["sound", "moved", "another's", "another Python", "does not start", "without pip"],
)
def test_only_an_environment_of_this_python_in_this_place_is_usable(
    bootstrap, tmp_path: Path, says, script, usable
) -> None:
    folder = tmp_path / ".venv"
    (folder / "bin").mkdir(parents=True)
    said = "exit 1" if says is None else "echo '" + says.format(*sys.version_info[:2], folder=folder) + "'"
    (folder / "bin" / "python").write_text(f"#!/bin/sh\n{said}\n")
    (folder / "bin" / "python").chmod(0o755)
    if script is not None:
        (folder / "bin" / "pip").write_text(f"{script.format(folder=folder)}\n")
    assert bootstrap.usable(str(tmp_path)) == usable


def test_what_pip_left_half_moved_is_removed(bootstrap, tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    (packages / "~umpy").mkdir(parents=True)
    (packages / "~orch.py").touch()
    (packages / "whole-1.0.dist-info").mkdir()
    (packages / "whole-1.0.dist-info" / "RECORD").write_text('"a, b.py",,\n')
    (packages / "a, b.py").touch()
    bootstrap.drop_half_installed(str(tmp_path))
    assert {path.name for path in packages.iterdir()} == {"whole-1.0.dist-info", "a, b.py"}


def test_versions_are_written_without_builds_and_without_what_one_machine_alone_has(
    bootstrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = ("headroom==0.1", "nvidia-cublas-cu12==12.1", "cuda-bindings==1", "pip==25", "triton==3", "wheel==1")
    frozen = "\n".join((*left_out, "numpy==2.0.0", "torch==2.15.0+cpu", ""))
    asked = []
    monkeypatch.setattr(bootstrap.subprocess, "check_output", lambda command: asked.append(command) or frozen.encode())
    bootstrap.write_constraints(str(tmp_path))
    lines = (tmp_path / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["numpy==2.0.0", "torch==2.15.0"]
    assert "--all" in asked[0] and "--exclude-editable" in asked[0]


@pytest.mark.parametrize(
    ("problem", "status", "said"),
    [
        ("Trouble('The disk is full.')", 1, "The disk is full."),
        ("KeyboardInterrupt()", 130, "run the same command again"),
        ("OSError(28, 'No space left on device')", 1, "The disk is full"),
        ("OSError(13, 'Permission denied')", 1, "because of the file system: [Errno 13] Permission denied"),
    ],
)
def test_whatever_goes_wrong_ends_in_one_sentence(
    bootstrap, monkeypatch, capsys, problem: str, status: int, said: str
) -> None:
    def fail(*_: object) -> None:
        raise eval(problem, vars(bootstrap))

    monkeypatch.setattr(bootstrap, "set_up", fail)
    assert bootstrap.main([]) == status
    told = capsys.readouterr()
    assert said in told.err and len(told.err.strip().splitlines()) == 1 and told.out == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ("set_up", [], False)),
        (["test", "book"], ("set_up", ["test", "book"], False)),
        (["--renew"], ("set_up", ["test", "bench", "book"], True)),
        (["--doctor"], ("examine",)),
        (["--here"], ("install_here",)),
    ],
)
def test_the_command_does_what_it_is_told(bootstrap, monkeypatch, arguments: list[str], expected: tuple) -> None:
    done = []
    for name in ("set_up", "examine", "install_here"):
        monkeypatch.setattr(bootstrap, name, lambda root, *more, name=name: done.append((name, *more)) or 0)
    assert bootstrap.main(arguments) == 0 and done == [expected]
    known = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    held = bootstrap.with_named(str(REPOSITORY), bootstrap.EXTRAS)
    assert set(held) == set(known) - {"hub"}, "constraints cover what tests and documents ask for"


def test_the_doctor_is_run_by_the_environments_python_where_it_starts(bootstrap, tmp_path: Path, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda command, cwd: asked.append((command, cwd)) or 1)
    assert bootstrap.examine(str(tmp_path)) == 1
    own = Path(bootstrap.environment_python(str(tmp_path)))
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    bootstrap.examine(str(tmp_path))
    doctor_of = [["-m", "headroom", "doctor"], str(tmp_path)]
    assert [[command[1:], cwd] for command, cwd in asked] == [doctor_of] * 2
    assert [command[0] for command, _ in asked] == [sys.executable, str(own)]


@pytest.mark.parametrize(
    ("build", "extras", "needed"),
    [("processor", (), 2), ("usual", (), 7), ("pip", (), 10), ("processor", ("test",), 3)],
)
@pytest.mark.skipif(sys.platform != "linux", reason="the other systems have one figure")
def test_the_room_that_is_asked_for_is_that_of_the_build(
    bootstrap, project, monkeypatch, build, extras, needed
) -> None:
    asked: list[float] = []
    monkeypatch.setattr(bootstrap, "check_disk", lambda free, gb, folder: asked.append(gb))
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda *command, **more: (project / ".venv").mkdir() or 0)

    class Checking(Brought):
        def bring(self, pinned: list[str], target: str, check) -> None:
            check(build)

    monkeypatch.setattr(bootstrap, "Installers", Checking())
    bootstrap.set_up(str(project), extras)
    assert asked == [2 + len(extras), needed]
    asked.clear()
    monkeypatch.setattr(bootstrap, "usable", lambda root: True)
    pyproject(project, 'version = "1"', 'version = "2"')
    bootstrap.set_up(str(project), extras)
    assert asked == [], "most of it is there already"


def test_what_pip_was_told_of_an_index_holds_for_uv(bootstrap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    installers, came = bootstrap.Installers(str(tmp_path), str(tmp_path / "scratch")), []
    monkeypatch.setattr(installers, "run", lambda arguments, **more: came.append(arguments) or 0)
    told = b"global.index-url='https://one.example/simple'\nsite.index-url='https://two.example/simple'\n"
    monkeypatch.setattr(bootstrap.subprocess, "check_output", lambda command: told)
    assert installers.bring_uv(["-c", "constraints.txt"])
    assert installers.variables["UV_DEFAULT_INDEX"] == "https://two.example/simple"
    assert came == [["pip", "install", "--quiet", "--only-binary", ":all:", "-c", "constraints.txt", "uv"]]
    assert installers.variables["TMPDIR"] == str(tmp_path / "scratch")
    kept = {installers.variables[name] for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR") if name not in os.environ}
    assert kept <= {str(tmp_path / ".headroom" / "downloads")}, "the home folder stays untouched"


def test_the_oldest_python_of_the_script_is_the_projects(bootstrap) -> None:
    asked = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["requires-python"]
    assert asked == ">=" + ".".join(map(str, bootstrap.OLDEST))
    bootstrap.check_python(bootstrap.OLDEST, "python3")
    with pytest.raises(bootstrap.Trouble, match=r"needs Python 3\.11 or newer, and python3 is Python 3\.10\.9"):
        bootstrap.check_python((3, 10, 9), "python3")


def test_enough_room_is_enough(bootstrap) -> None:
    bootstrap.check_disk(2e9, 2.0, "/course")
    with pytest.raises(bootstrap.Trouble, match=r"needs 2 GB of free disk space and /course has 1\.9 GB"):
        bootstrap.check_disk(1.9e9, 2.0, "/course")
