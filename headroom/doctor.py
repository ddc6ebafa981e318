"""Says what is wrong with an installation and how to mend it: `make doctor`, or `python -m headroom doctor`.

A line for each thing: ✓ it is there; ✗ the course needs it, and the line says what to do; – it is not there, and only
grading a class or the tests need it. What a student needs comes first. Standard library alone until a line tries a
package: where the environment is broken, any Python runs this.
"""

import ctypes
import ctypes.util
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from headroom import environment

COURSE = Path(__file__).resolve().parents[1]
THERE, MISSING, OPTIONAL = "✓", "✗", "–"
ANEW = "remove the folder .venv and run `make setup`"
ROOM_GB = 1  # what notebooks, outputs and a class's hand-ins may take
NAMESPACES = ["bwrap", "--ro-bind", "/", "/", "--unshare-user", "--unshare-pid", "--unshare-net", "true"]


class Line(NamedTuple):
    """What is printed of one thing: its mark and a sentence."""

    mark: str
    sentence: str


class Extension(NamedTuple):
    """A package that has a part in Python and one in JupyterLab, below share/jupyter/labextensions."""

    title: str
    imports: str
    shown: tuple[str, ...]


EXTENSIONS = (
    Extension("Widgets", "anywidget", ("anywidget", "@jupyter-widgets/jupyterlab-manager")),
    Extension("nbgrader", "nbgrader", ("@jupyter/nbgrader",)),
)


def main(course: Path = COURSE) -> int:
    """Print the lines, what is broken before all else, and return 1 if the course lacks something, else 0."""
    print("Looking at the installation: Python, packages, PyTorch, JupyterLab ...", flush=True)
    lines = list(examine(course))
    missing = [line for line in lines if line.mark == MISSING]
    for line in [*missing, *(line for line in lines if line.mark != MISSING)]:
        print(line.mark, line.sentence, flush=True)
    if (course / "tests").is_dir():  # not in the copy that students get
        print("\nFor grading a class, and for the tests; of no concern to a student:")
        for line in beyond(course):
            print(line.mark, line.sentence, flush=True)
    return 1 if missing else 0


def examine(course: Path) -> Iterator[Line]:
    """Look at what everybody needs, one thing after the other; the packages only where they are."""
    yield python()
    yield packages(course)
    yield disk(course)
    yield from torch()
    yield lab(course)
    yield from map(extension, EXTENSIONS)


def beyond(course: Path) -> Iterator[Line]:
    """Look at what only grading and the tests need."""
    yield from isolation(course)
    yield chromium()
    yield node(course)


def python() -> Line:
    """The Python that runs this, which is the environment's where that one starts."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < environment.OLDEST_PYTHON:
        wanted = ".".join(map(str, environment.OLDEST_PYTHON))
        return Line(MISSING, f"Python: this is {version}; install {wanted} or newer and run `make setup PYTHON=…`.")
    return Line(THERE, f"Python: {version}, {sys.executable}.")


def packages(course: Path) -> Line:
    """The environment in .venv, as bootstrap.py sees it; or conda's."""
    folder = course / ".venv"
    if not folder.exists():
        if os.environ.get("CONDA_PREFIX") == sys.prefix:
            return Line(THERE, f"Environment: conda's, in {sys.prefix}.")
        return Line(MISSING, "Environment: there is none yet; `make setup` makes it.")
    bootstrap = load(course / "bootstrap.py")
    if not bootstrap.usable(str(course)):
        why = ".venv does not start, or was made in another folder or by another Python"
        return Line(MISSING, f"Environment: {why}; `make setup` makes it anew.")
    if half := bootstrap.half_installed(str(folder)):
        names = ", ".join(sorted({Path(path).name.split("-")[0] for path in half}))
        return Line(MISSING, f"Environment: {names} is installed in part only; `make setup` installs it again.")
    if not bootstrap.up_to_date(str(course)):
        return Line(MISSING, "Environment: the course asks for other packages than .venv has; run `make setup`.")
    return Line(THERE, "Environment: .venv has what the course asks for.")


def disk(course: Path) -> Line:
    """Room for what the course writes."""
    free = shutil.disk_usage(course).free / 1e9
    if free < ROOM_GB:
        return Line(MISSING, f"Disk: {free:.1f} GB are free where the course lies; make room for {ROOM_GB} GB.")
    return Line(THERE, f"Disk: {free:.0f} GB are free.")


def torch() -> Iterator[Line]:
    """PyTorch, the device that it trains on, and the digits."""
    try:
        found = importlib.import_module("torch")
    except Exception as error:  # a damaged installation fails in many ways
        yield Line(MISSING, f"PyTorch: it cannot be imported ({_first_line(error)}); {ANEW}.")
        return
    yield Line(THERE, f"PyTorch: {found.__version__}.")
    for finding in (environment.device(), environment.digits()):
        yield Line(THERE if finding.holds else MISSING, finding.sentence)
    if Path("/proc/driver/nvidia/version").exists() and not found.cuda.is_available():
        yield Line(OPTIONAL, f"GPU: this build of PyTorch does not use the one that is here; to have it used, {ANEW}.")


def lab(course: Path) -> Line:
    """JupyterLab itself, and how the course sets it up."""
    if problem := _cannot_import("jupyterlab"):
        return Line(MISSING, f"JupyterLab: it cannot be imported ({problem}); {ANEW}.")
    if not (Path(sys.prefix) / "share" / "jupyter" / "lab" / "static" / "index.html").is_file():
        return Line(MISSING, f"JupyterLab: its pages are not in {sys.prefix}; {ANEW}.")
    settings = course / "jupyter" / "labconfig" / "default_setting_overrides.json"
    try:
        json.loads(settings.read_text(encoding="utf-8"))
        compile((course / "jupyter" / "jupyter_lab_config.py").read_bytes(), "jupyter_lab_config.py", "exec")
    except (OSError, ValueError, SyntaxError) as error:
        return Line(
            MISSING, f"JupyterLab: the course's settings cannot be read ({_first_line(error)}); fetch jupyter/ again."
        )
    return Line(THERE, "JupyterLab: it and the course's settings are there.")


def extension(one: Extension) -> Line:
    """Both parts of it."""
    if problem := _cannot_import(one.imports):
        return Line(MISSING, f"{one.title}: {one.imports} cannot be imported ({problem}); {ANEW}.")
    below = Path(sys.prefix) / "share" / "jupyter" / "labextensions"
    if gone := [name for name in one.shown if not (below / name / "package.json").is_file()]:
        return Line(MISSING, f"{one.title}: JupyterLab lacks the extension {gone[0]}; {ANEW}.")
    return Line(THERE, f"{one.title}: Python's part and JupyterLab's are there.")


def isolation(course: Path) -> Iterator[Line]:
    """What keeps students' code in its place while it is graded."""
    if sys.platform != "linux":
        yield Line(OPTIONAL, "Isolation: only Linux has it; elsewhere grading needs `--no-isolation`.")
        return
    bubblewrap = shutil.which("bwrap")
    yield _optional(bool(bubblewrap), "bubblewrap", "grading needs it: install the package bubblewrap")
    yield _optional(bool(ctypes.util.find_library("seccomp")), "libseccomp", "grading needs it: install libseccomp2")
    works = bool(bubblewrap) and subprocess.run(NAMESPACES, capture_output=True).returncode == 0
    what = "the system does not let bubblewrap make them, so grading isolates by Landlock alone: see docs/security.md"
    yield _optional(works, "Namespaces", what if bubblewrap else "they need bubblewrap")
    version = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)  # landlock_create_ruleset, its version
    yield _optional(version > 0, "Landlock", "this Linux lacks it, so grading needs namespaces")
    groups = load(course / "autograder" / "kernels" / "cgroups.py").place()
    how = "none can be made, so memory is bounded process by process; `systemd-run --user --scope make grade` may help"
    yield _optional(groups is not None, "Control groups", how)


def chromium() -> Line:
    """The browser of the tests."""
    there = shutil.which("chromium") or shutil.which("chromium-browser")
    return _optional(bool(there), "Chromium", "tests in a browser are skipped: install the package chromium")


def node(course: Path) -> Line:
    """What checks the widgets' JavaScript."""
    why_not = load(course / "tests" / "javascript.py").why_not()
    return _optional(not why_not, "Node.js", f"{why_not}, so `make check` skips the JavaScript: install nodejs and npm")


def _optional(holds: bool, what: str, otherwise: str) -> Line:
    return Line(THERE, f"{what}: there.") if holds else Line(OPTIONAL, f"{what}: {otherwise}.")


def _cannot_import(name: str) -> str:
    try:
        importlib.import_module(name)
    except Exception as error:  # a damaged package fails in many ways
        return _first_line(error)
    return ""


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def load(path: Path) -> ModuleType:
    """A file of the course that belongs to no package of its own, as a module; standard library alone."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
