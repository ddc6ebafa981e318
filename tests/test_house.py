"""What a user meets first: the set-up, its sentences when something is missing, the launcher, and the two routes."""

import ast
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from nbgrader.converters import Autograde, GenerateAssignment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from traitlets.config import PyFileConfigLoader
from traitlets.utils.importstring import import_item

from autograder.pipeline.execute import PROBE
from headroom import __main__ as launcher
from headroom import notebooks
from headroom.lab import course_folder, private_environment

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
# What conda calls by another name.
CONDA_NAMES = {"pytorch": "torch"}


def load_bootstrap():
    spec = importlib.util.spec_from_file_location("bootstrap", REPOSITORY / "bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def requirements(lines: list[str]) -> dict[str, str]:
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(CONDA_NAMES.get(one.name, one.name)): str(one.specifier) for one in parsed}


def asked_for() -> dict[str, str]:
    extras = PROJECT["optional-dependencies"]
    tests = [line for line in extras["test"] if line != "headroom[grade]"]
    return requirements(PROJECT["dependencies"] + tests + extras["grade"])


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
    bootstrap = load_bootstrap()
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


def test_an_extra_is_installed_when_it_is_first_needed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap = load_bootstrap()
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
    bootstrap, brought = load_bootstrap(), Brought()
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
    bootstrap = load_bootstrap()
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
        ({"--dry-run": (2, WITHOUT_INDEX)}, ["uv"], "the usual build, as the index"),
        ({"auto": (1, "No solution found"), "cpu": (0, " + torch==2.15.0+cpu\n")}, ["uv cpu"], "processor."),
        ({"--only-binary": (1, "No matching distribution found")}, ["pip"], "pip installs"),
        ({"--python": (2, WITHOUT_INDEX)}, ["uv", "pip"], "pip installs"),  # uv's own commands alone have it
    ],
)
def test_uv_brings_the_build_for_the_machine_and_pip_what_uv_cannot(
    ends: dict, expected: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    bootstrap = load_bootstrap()
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
    bootstrap, asked = load_bootstrap(), []
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
    bootstrap = load_bootstrap()
    assert "disk is full" in bootstrap.explain("OSError: [Errno 28] No space left on device", "log")
    no_build = "ERROR: No matching distribution found for torch==2.15.0"
    assert "no build" in bootstrap.explain(no_build, "log")
    assert "cannot be reached" in bootstrap.explain("NewConnectionError(...)\n" + no_build, "log")
    assert "log" in bootstrap.explain("something else", "log")


# --- The two routes to the same environment --------------------------------------------------------------------------


def test_conda_and_pip_ask_for_the_same_packages() -> None:
    listed = yaml.safe_load((REPOSITORY / "environment.yml").read_text())["dependencies"]
    from_pip = next(entry["pip"] for entry in listed if isinstance(entry, dict))
    assert from_pip[-1] == "-e .", "the course itself, after everything that it needs"
    conda = requirements([entry for entry in listed if isinstance(entry, str)])
    assert conda.pop("python") == PROJECT["requires-python"]
    conda.pop("pip")
    assert conda | requirements(from_pip[:-1]) == asked_for()


def test_constraints_are_names_and_versions_within_the_ranges() -> None:
    pinned = {}
    for line in (REPOSITORY / "constraints.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        assert re.fullmatch(r'[\w.-]+==[\w.+!]+( ; sys_platform == "linux")?', line), line
        one = Requirement(line)
        pinned[canonicalize_name(one.name)] = next(iter(one.specifier)).version
    for name, specifier in asked_for().items():
        assert Requirement(name + specifier).specifier.contains(pinned[name]), name


@pytest.mark.skipif(Path(sys.prefix) != REPOSITORY / ".venv", reason="these tests do not run in the course's own .venv")
def test_the_environment_holds_the_versions_of_constraints() -> None:
    pinned = [Requirement(line) for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if line[0] != "#"]
    # This folder alone: once setuptools is imported, sys.path also leads to older copies of packages inside of it.
    found = importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])
    installed = {canonicalize_name(one.name): one.version for one in found}
    wrong = {
        one.name: installed[canonicalize_name(one.name)]
        for one in pinned
        if canonicalize_name(one.name) in installed
        and not one.specifier.contains(installed[canonicalize_name(one.name)])
    }
    assert wrong == {}


# --- Launcher, layout, documents -------------------------------------------------------------------------------------


def test_without_a_command_the_launcher_explains_itself() -> None:
    ran = subprocess.run([sys.executable, "-m", "headroom"], cwd=REPOSITORY, capture_output=True, text=True)
    assert ran.returncode == 0
    assert "open the course in JupyterLab" in ran.stdout


def test_clean_names_what_is_not_stored_clean_and_checking_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    stored, dirty = tmp_path / "stored.ipynb", tmp_path / "dirty.ipynb"
    cell = nbformat.v4.new_code_cell("1 + 1", execution_count=3)
    dirty.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])), encoding="utf-8")
    stored.write_text(notebooks.clean(dirty.read_text(encoding="utf-8")), encoding="utf-8")
    before = dirty.read_bytes()

    assert launcher.main(["clean", "--check", str(stored)]) == 0
    assert launcher.main(["clean", "--check", str(stored), str(dirty)]) == 1
    said = capsys.readouterr().err
    assert "dirty.ipynb" in said and "stored.ipynb" not in said
    assert dirty.read_bytes() == before

    assert launcher.main(["clean", str(dirty)]) == 0
    assert launcher.main(["clean", "--check", str(dirty)]) == 0


def test_the_courses_environment_keeps_the_home_folder_empty(tmp_path: Path) -> None:
    """IPython, Jupyter and Matplotlib make folders as they start; test_browser.py sees the same of a whole session."""
    home, state = tmp_path / "home", tmp_path / "state"
    home.mkdir()
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "USERPROFILE") if name in os.environ}
    environment = kept | {"HOME": str(home)} | private_environment(state, REPOSITORY / "jupyter")
    lines = (
        "import matplotlib.pyplot as plt\nfrom jupyter_core.paths import jupyter_data_dir\nprint(jupyter_data_dir())"
    )
    command = [sys.executable, "-m", "IPython", "--no-banner", "--quick", "-c", lines]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0 and str(state) in ran.stdout, ran.stderr
    assert sorted(path.relative_to(home).as_posix() for path in home.rglob("*")) == []


def test_the_course_is_found_from_within(tmp_path: Path) -> None:
    first = tmp_path / "lectures" / "00_start_here.ipynb"
    inside = tmp_path / "labs" / "lab02"
    first.parent.mkdir()
    inside.mkdir(parents=True)
    first.touch()
    assert course_folder(inside) == tmp_path


def test_the_makefile_has_what_the_readme_names() -> None:
    files = [(REPOSITORY / name).read_text() for name in ("Makefile", "development.mk")]
    targets = set(re.findall(r"^([a-z-]+):", "\n".join(files), flags=re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)\b", (REPOSITORY / "README.md").read_text(), flags=re.MULTILINE))
    assert {"lab", "test", "setup"} <= named
    assert named <= targets


def test_the_readmes_pictures_are_small_and_for_both_themes() -> None:
    """`make screenshots` takes them."""
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    named = re.findall(r'(?:src|srcset)="([^"]+)"', page)
    light = {name.replace("-dark.", "-light.") for name in named}
    assert sorted(named) == sorted(light | {name.replace("-light.", "-dark.") for name in light}) and len(light) == 2
    for name in named:
        assert 0 < (REPOSITORY / name).stat().st_size < 150_000, f"{name}: make screenshots"
    assert len(re.findall(r'<img [^>]*alt="[^"]{60,}"', page)) == 2, "each says what it shows"


@pytest.mark.parametrize(
    "page", sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/*.md")]), ids=lambda page: page.name
)
def test_pages_link_to_what_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_what_notebooks_build_on_imports_none_of_the_program() -> None:
    """The three tables of docs/architecture.md name every module of headroom/; the first imports none of the others."""
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page[page.index("## The modules of") : page.index("## A check")]
    built_on, *others = (re.findall(r"`(\w+)\.py`", table) for table in section.split("|---|---|")[1:])
    beyond = {f"headroom.{name}" for names in others for name in names}
    modules = {f"headroom.{path.stem}" for path in (REPOSITORY / "headroom").glob("*.py")} - {"headroom.__init__"}
    assert {f"headroom.{name}" for name in built_on} == modules - beyond and beyond < modules
    for name in built_on:
        assert not imported(REPOSITORY / "headroom" / f"{name}.py") & beyond, name


def test_headroom_never_imports_the_grader() -> None:
    for path in (REPOSITORY / "headroom").rglob("*.py"):
        assert not re.search(r"^\s*(from|import) autograder\b", path.read_text(), flags=re.MULTILINE), path


def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it, as dotted names; of `from a import b` also a.b."""
    found, packages = set(), path.relative_to(REPOSITORY).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = packages[: len(packages) + 1 - node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def test_the_engine_imports_neither_headroom_nor_an_exercise() -> None:
    """All of autograder/ but this course's exercises, which it finds by configuration; and the second course alike."""
    course = REPOSITORY / "autograder" / "exercises"
    engine = [path for path in (REPOSITORY / "autograder").rglob("*.py") if not path.is_relative_to(course)]
    wrong = {
        (path.relative_to(REPOSITORY).as_posix(), name)
        for path in (*engine, *(REPOSITORY / "examples").rglob("*.py"))
        for name in imported(path)
        if re.match(r"(headroom|autograder\.exercises)(\.|$)", name)
    }
    assert len(engine) > 30 and wrong == set()
    assert any("headroom" in imported(path) for path in course.glob("*.py")), "or the rule would see nothing"


def test_the_probe_imports_nothing_else_of_the_project() -> None:
    """But for its own files above, in the order of the table in docs/architecture.md, in which they are sent.

    By relative imports, because it has another name where they are sent to.
    """
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page[page.index("## A check") : page.index("## The judge's phases")]
    assert re.findall(r"^\| `(\w+)\.py`", table, flags=re.MULTILINE) == [*PROBE]
    before: set[str] = set()
    for name in PROBE:
        path = REPOSITORY / "autograder" / "probe" / f"{name}.py"
        assert not re.search(r"^\s*(from|import) autograder\b", path.read_text(), flags=re.MULTILINE), path
        ours = {one for one in imported(path) if re.match(r"(headroom|autograder)(\.|$)", one)}
        assert {".".join(one.split(".")[:3]) for one in ours} <= before, path
        before.add(f"autograder.probe.{name}")
    assert {path.stem for path in (REPOSITORY / "autograder" / "probe").glob("*.py")} == {*PROBE, "__init__"}


def test_a_phase_of_the_judge_imports_only_those_before_it() -> None:
    """In the order of the table in docs/architecture.md, which names each of them."""
    phases = REPOSITORY / "autograder" / "judging"
    page = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page[page.index("## The judge's phases") : page.index("## The rest of")]
    order = re.findall(r"^\| `(\w+)\.py`", table, flags=re.MULTILINE)
    assert {*order, "__init__"} == {path.stem for path in phases.glob("*.py")}
    for n, name in enumerate(order):
        later = {f"autograder.judging.{other}" for other in order[n:]} | {"autograder.judge"}
        assert not imported(phases / f"{name}.py") & later, name


def test_no_step_that_nbgrader_takes_by_itself_is_left_out() -> None:
    """Each of its preprocessors is in the configuration, itself or with ours in its place.

    Before grading, `RestoreCells` alone puts notebooks right; what CheckCellMetadata would look for cannot be there.
    """
    config = PyFileConfigLoader("nbgrader_config.py", str(REPOSITORY)).load_config()
    for converter, name in ((GenerateAssignment, "preprocessors"), (Autograde, "autograde_preprocessors")):
        ours = [import_item(path) for path in config[converter.__name__][name]]
        missing = {
            usual.__name__
            for usual in getattr(converter, name).default()
            if not any(issubclass(one, usual) for one in ours)
        }
        assert missing <= ({"CheckCellMetadata"} if converter is Autograde else set())
