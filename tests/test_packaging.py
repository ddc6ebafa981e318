"""What goes where: into an installation, into a kernel, into nbgrader's configuration, into continuous integration."""

import ast
import dataclasses
import fnmatch
import functools
import importlib
import inspect
import pkgutil
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from nbconvert.exporters import Exporter
from nbgrader.exchange.default import Exchange
from nbgrader.plugins import ExportPlugin, LateSubmissionPlugin
from nbgrader.preprocessors import NbGraderPreprocessor
from packaging.specifiers import SpecifierSet
from traitlets.config import Config, PyFileConfigLoader

from autograder import course as course_module
from autograder import pipeline
from autograder.course import Course, course_of
from autograder.exercises import EXERCISES
from autograder.pipeline import configuration, gradescope
from autograder.pipeline.cells import is_run
from autograder.pipeline.feedback import OfFormgrader

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
COURSE = course_of(REPOSITORY)


def tracked(*folders: str) -> list[str]:
    """The files of some folders that git knows; the test is skipped where there is no git."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("there is no git here")
    return listed.stdout.splitlines()


# --- An installation --------------------------------------------------------------------------------------------------


def test_whatever_lies_beside_the_code_is_installed_with_it() -> None:
    """Templates, style sheets, models, data: without one, an installation that is no `pip install -e` breaks."""
    patterns = [pattern.split("/") for pattern in PROJECT["tool"]["setuptools"]["package-data"]["*"]]
    left_out = []
    for name in tracked("headroom", "autograder"):
        path = Path(name)
        if path.suffix == ".py" or path.name.startswith(".") or path.suffix == ".ts":
            continue
        package = next(above for above in path.parents if (REPOSITORY / above / "__init__.py").is_file())
        parts = path.relative_to(package).parts
        fits = (len(p) == len(parts) and all(map(fnmatch.fnmatch, parts, p)) for p in patterns)
        if not any(fits):
            left_out.append(name)
    assert left_out == []


# --- A kernel ---------------------------------------------------------------------------------------------------------


def importable() -> list[Path]:
    """The files of the course that students' code can read while it is graded."""
    found = []
    for path in (REPOSITORY / name for name in COURSE.importable):
        assert path.exists(), path
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return found


def test_nothing_that_a_kernel_can_read_defines_what_an_exercise_asks_for() -> None:
    asked = {name.replace("_", "").lower() for name in EXERCISES}
    for path in importable():
        names = {
            node.name.replace("_", "").lower()
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        }
        assert not names & asked, path


def test_of_the_reference_a_kernel_can_read_what_training_needs_and_nothing_else() -> None:
    names = [path.relative_to(REPOSITORY).as_posix() for path in importable()]
    assert [name for name in names if name.startswith("headroom/reference/")] == [
        "headroom/reference/loss.py",
        "headroom/reference/schedule.py",
    ]
    answers = ("widgets", "checkpoints", "mistakes", "pretrained")
    assert not [name for name in COURSE.importable if name.split("/")[0] != "headroom"]
    assert not [name for name in COURSE.importable if name.split("/")[1].startswith(answers)]


@functools.cache
def file_of(name: str) -> Path | None:
    """The file of a module of headroom/; None where it is none."""
    path = REPOSITORY / name.replace(".", "/")
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


@functools.cache
def imported_at_once(file: Path) -> list[str]:
    """The modules of headroom/ that a file imports as it is imported itself."""
    package = file.relative_to(REPOSITORY).parts[:-1]
    found = list[str]()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*above, *([node.module] if node.module else [])))
            found += [one if file_of(one := f"{module}.{alias.name}") else module for alias in node.names]
    return [name for name in found if name.startswith("headroom") and file_of(name)]


def needed(name: str, seen: set[Path]) -> None:
    """Gather the files that a module of headroom/ needs to be imported."""
    file = file_of(name)
    if file is not None and file not in seen:
        seen.add(file)
        for other in imported_at_once(file):
            needed(other, seen)


def closed(files: set[Path]) -> list[str]:
    """Those of some files that students' code cannot read while it is graded."""
    readable = [REPOSITORY / name for name in COURSE.importable]
    return sorted(str(file) for file in files if not any(file == one or one in file.parents for one in readable))


@pytest.mark.parametrize("path", sorted((REPOSITORY / "labs").glob("*/*.ipynb")), ids=lambda path: path.stem)
def test_what_a_lab_imports_can_be_imported_while_it_is_graded(path: Path) -> None:
    """But for cells that are not run then, such as a widget to try the answer with."""
    cells = nbformat.read(path, as_version=4).cells
    last = max(
        n for n, cell in enumerate(cells) if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade")
    )
    lines = [line for cell in cells[:last] if is_run(cell) for line in cell.source.splitlines()]
    names = [name for line in lines for name in re.findall(r"^\s*(?:from|import) (headroom[\w.]*)", line)]
    files: set[Path] = set()
    for name in names:
        needed(name, files)
    assert closed(files) == []


@pytest.mark.parametrize("name", COURSE.warm)
def test_what_every_kernel_has_imported_is_there_to_be_imported(name: str) -> None:
    files: set[Path] = set()
    needed(name, files)
    assert files and closed(files) == []


def test_the_packages_are_watched_of_which_only_parts_are_for_students(tmp_path: Path) -> None:
    course = Course(tmp_path, "questions.all", ("plots.py", "lib/data", "lib/other", "data"))
    assert course.packages == ("lib", "questions") and {"autograder", "headroom"} <= {*COURSE.packages}


def test_each_key_of_a_course_is_explained_where_it_is_read() -> None:
    keys = {field.name for field in dataclasses.fields(Course)} - {"folder"}
    (table,) = re.findall(r"\[tool\.autograder\]\n(.*)", course_module.__doc__ or "", re.DOTALL)
    assert {*re.findall(r"^    (\w+) = ", table, re.MULTILINE)} == keys


# --- nbgrader's configuration -----------------------------------------------------------------------------------------


def parts_of_nbgrader() -> list[type]:
    """The classes of the pipeline that nbgrader has to be told of."""
    kinds = (NbGraderPreprocessor, Exporter, ExportPlugin, LateSubmissionPlugin, Exchange)
    found = []
    for module in pkgutil.iter_modules(pipeline.__path__, "autograder.pipeline."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(one, kinds) and one.__module__ == module.name and one is not OfFormgrader:
                found.append(one)
    return found


def named(value: Any) -> set[str]:
    """The classes and functions that a configuration names."""
    if isinstance(value, str):
        return {value}
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {name for item in items for name in named(item)}


def test_nbgrader_is_told_of_every_part_and_of_none_that_is_not_there() -> None:
    config = Config()
    configuration.configure(config, REPOSITORY)
    ours = {name for name in named(config) if name.startswith("autograder.")}
    for name in ours:
        module, _, part = name.rpartition(".")
        assert hasattr(importlib.import_module(module), part), name
    classes = {f"{one.__module__}.{one.__name__}" for one in parts_of_nbgrader()}
    assert len(classes) > 10 and classes <= ours
    assert config.Autograde.sanitize_preprocessors == [], "RestoreCells does what they would do"
    assert config.HTMLExporter.sanitize_html is True and config.ExchangeCollect["update"] is True
    assert {*config.HTMLExporter.filters} == {"ansi2html", "clean_html", "highlight_code", "markdown2html"}


def loaded(folder: Path) -> Config:
    return PyFileConfigLoader("nbgrader_config.py", str(folder)).load_config()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no exchange on Windows")
def test_the_exchange_is_the_courses_own_or_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody may write there, which nbgrader asks for; and one that is there stays as it is."""
    course = tmp_path / "course"
    course.mkdir()
    (course / "nbgrader_config.py").write_text((REPOSITORY / "nbgrader_config.py").read_text(encoding="utf-8"))
    monkeypatch.delenv("HEADROOM_EXCHANGE", raising=False)
    own = loaded(course)
    assert own.Exchange.root == str(course / ".headroom" / "exchange")
    assert Path(own.Exchange.cache).parent == course / ".headroom" and own.Exchange.cache != own.Exchange.root
    assert own.Exchange.assignment_dir == str(course / "labs") and own.CourseDirectory.root == str(course)
    for exchange in (tmp_path / "shared", Path(own.Exchange.root)):
        monkeypatch.setenv("HEADROOM_EXCHANGE", str(exchange))
        assert loaded(course).Exchange.root == str(exchange)
        assert stat.S_IMODE(exchange.stat().st_mode) == 0o777
    exchange.chmod(0o770)
    loaded(course)
    assert stat.S_IMODE(exchange.stat().st_mode) == 0o770


def test_validating_a_notebook_gives_a_cell_as_long_as_grading_does() -> None:
    config = loaded(REPOSITORY)
    assert config.Execute.timeout == config.JudgedExecute.timeout < config.JudgedExecute.total_timeout
    assert config.CourseDirectory.course_id == "headroom" != loaded(REPOSITORY / "examples").CourseDirectory.course_id


# --- What a machine needs ---------------------------------------------------------------------------------------------

WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text("utf-8")) for path in (REPOSITORY / ".github/workflows").glob("*")
}
RUN = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")


def of_the_system(page: str) -> set[str]:
    """The packages that a page asks for by Debian's names."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    (sentence,) = re.findall(r"\(Debian:\s+([^)]+)\)|the packages ([^(]+) \(Debian's names\)", text)
    return {*re.findall(r"`([\w-]+)`", "".join(sentence))}


def steps(job: str) -> str:
    return "\n".join(step.get("run", "") for step in WORKFLOWS["ci.yml"]["jobs"][job]["steps"])


def test_continuous_integration_brings_what_the_tests_need_and_runs_the_readmes_commands() -> None:
    needed = of_the_system("CONTRIBUTING.md")
    assert needed == {"chromium", "fonts-dejavu-core", "bubblewrap", "libseccomp2"}
    assert needed <= {*re.findall(r"[\w-]+", RUN.partition("\n\nmake")[0])}
    assert re.findall(r"^make [\w-]+", RUN, re.MULTILINE) == ["make check", "make test-all"]
    assert "set -euo pipefail" in RUN and (REPOSITORY / ".ci" / "run").stat().st_mode & 0o111
    assert needed - {"chromium"} <= {*re.findall(r"[\w-]+", steps("linux"))}, "with which its machine comes"
    assert steps("linux").rstrip().endswith("bash .ci/run")


def test_where_there_is_no_browser_its_tests_are_skipped_and_do_not_fail() -> None:
    for job in ("macos", "windows"):
        assert re.search(r"^CI=false .*(make test|-m \"not full\")$", steps(job), re.MULTILINE), job


def test_each_workflow_runs_on_the_oldest_python_and_may_do_no_more_than_it_has_to() -> None:
    (oldest,) = (one.version for one in SpecifierSet(PROJECT["project"]["requires-python"]))
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        asked = [
            step for job in workflow["jobs"].values() for step in job["steps"] if "setup-python" in step.get("uses", "")
        ]
        assert asked and all(step["with"]["python-version"] == oldest for step in asked)
        taken = [
            step for job in workflow["jobs"].values() for step in job["steps"] if "checkout" in step.get("uses", "")
        ]
        assert all(step["with"]["persist-credentials"] is False for step in taken)
        assert all("timeout-minutes" in job for job in workflow["jobs"].values() if len(job["steps"]) > 1)


def test_what_is_checked_before_a_commit_is_what_make_check_looks_at() -> None:
    hooks = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]["hooks"]
    make = (REPOSITORY / "development.mk").read_text(encoding="utf-8").partition("\nstyle:\n")[2].partition("\n\n")[0]
    checks = {*re.findall(r"-m (ruff \w+|headroom clean)|/(codespell)$", make, re.MULTILINE)}
    assert len(checks) == 4
    entries = " ".join(hook["entry"] for hook in hooks)
    assert all("".join(check) in entries for check in checks)
    (notebooks,) = (hook["files"] for hook in hooks if hook["id"] == "notebooks")
    stored = [name for name in tracked() if name.endswith(".ipynb") and not name.startswith("examples/")]
    assert stored and all(re.search(notebooks, name) for name in stored)


FORMS = sorted(
    set((REPOSITORY / ".github/ISSUE_TEMPLATE").glob("*.yml")) - {REPOSITORY / ".github/ISSUE_TEMPLATE/config.yml"}
)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_for_an_issue_asks_for_what_is_needed_and_names_what_there_is(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert form["name"] and form["description"] and form["labels"]
    assert len({field["id"] for field in fields}) == len(fields) > 2
    assert fields[0]["validations"]["required"] and all(field["attributes"]["label"] for field in fields)
    text = path.read_text(encoding="utf-8")
    for module, name in re.findall(r"from (headroom[\w.]*) import (\w+)", text):
        assert hasattr(importlib.import_module(module), name)
    for command in re.findall(r"python -m autograder (\w+)", text):
        assert f'"{command}"' in (REPOSITORY / "autograder" / "__main__.py").read_text(encoding="utf-8")
    logged = "".join((REPOSITORY / name).read_text(encoding="utf-8") for name in ("bootstrap.py", "Makefile"))
    assert all(name in logged for name in re.findall(r"\.headroom/([\w.]+?)\.?(?=[\s\"])", text))


def test_gradescopes_container_gets_what_the_sandbox_needs() -> None:
    assert of_the_system("docs/security.md") <= {*gradescope.SETUP.split()}
    pythons = re.findall(r"python(3\.\d+)", gradescope.SETUP)
    assert pythons == sorted(pythons, key=lambda one: -int(one.split(".")[1])) and len(pythons) > 2
    assert pythons[-1] in SpecifierSet(PROJECT["project"]["requires-python"])
