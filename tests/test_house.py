"""What a user meets first: the two routes to an environment, the launcher, and the documents."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.serverapp import ServerApp
from nbgrader.converters import Autograde, GenerateAssignment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from traitlets.config import PyFileConfigLoader
from traitlets.utils.importstring import import_item

from headroom import __main__ as launcher
from headroom import notebooks
from headroom.lab import bring, course_folder, private_environment, running

REPOSITORY = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
# What conda calls by another name.
CONDA_NAMES = {"pytorch": "torch"}


def requirements(lines: list[str]) -> dict[str, str]:
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(CONDA_NAMES.get(one.name, one.name)): str(one.specifier) for one in parsed}


def asked_for() -> dict[str, str]:
    extras = PROJECT["optional-dependencies"]
    tests = [line for line in extras["test"] if line != "headroom[grade]"]
    return requirements(PROJECT["dependencies"] + tests + extras["grade"])


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


def test_what_is_installed_runs_on_the_oldest_python_that_the_course_asks_for() -> None:
    (oldest,) = (one.version for one in SpecifierSet(PROJECT["requires-python"]))
    found = importlib.metadata.distributions(path=[sysconfig.get_path("purelib")])
    asked = {one.name: one.metadata.get_all("Requires-Python", []) for one in found}
    too_new = {
        name: some for name, some in asked.items() if not all(f"{oldest}.0" in SpecifierSet(one) for one in some)
    }
    assert too_new == {}, "pyproject.toml must keep these at an earlier version"


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


class Answers(BaseHTTPRequestHandler):
    """What a server of JupyterLab answers to the token "right"."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/api/status?token=right" else 403)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        ({}, True),
        ({"root_dir": "another"}, False),
        ({"pid": "of a process that is gone"}, False),
        ({"token": "wrong"}, False),  # another program has the number and the port of one that was killed
        ({"url": "http://127.0.0.1:9/"}, False),
    ],
)
def test_a_server_counts_as_running_if_it_answers_for_this_folder(
    other: dict[str, str], counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    course, runtime = tmp_path / "course", tmp_path / "runtime"
    course.mkdir()
    assert running(course, runtime) is None
    runtime.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        told = {"root_dir": str(course), "pid": os.getpid(), "token": "right"}
        told |= {"url": f"http://127.0.0.1:{server.server_port}/"} | other
        if "pid" in other:
            gone = subprocess.Popen([sys.executable, "-c", ""])
            gone.wait()
            told["pid"] = gone.pid
        (runtime / "jpserver-1.json").write_text(json.dumps(told))
        found = running(course, runtime)
        server.shutdown()
    assert found == (told if counts else None)


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


def test_on_a_hub_a_students_own_notebooks_stay_as_they_are(tmp_path: Path) -> None:
    """Whenever the server starts, what is new comes, and what the course configures is renewed."""
    shared, home = tmp_path / "course", tmp_path / "home" / "headroom"
    files = {"lectures/00_start_here.ipynb": "as released", "docs/faq.md": "old", "pyproject.toml": "old"}
    for name, text in files.items():
        (shared / name).parent.mkdir(parents=True, exist_ok=True)
        (shared / name).write_text(text)
    assert bring(shared, home) == home and (home / "labs").is_dir()
    assert {name: (home / name).read_text() for name in files} == files
    (home / "lectures" / "00_start_here.ipynb").write_text("with a student's notes")
    fresh = ("lectures/01_more.ipynb", "docs/faq.md", "pyproject.toml")
    for name in fresh:
        (shared / name).write_text("new")
    bring(shared, home)
    assert (home / "lectures" / "00_start_here.ipynb").read_text() == "with a student's notes"
    assert {(home / name).read_text() for name in fresh} == {"new"}


@pytest.mark.parametrize("user", ["teacher", "ann"])
def test_on_a_hub_formgrader_may_stand_in_a_frame_of_the_instructors_own(user: str) -> None:
    config = PyFileConfigLoader("jupyterhub_config.py", str(REPOSITORY / "jupyter" / "hub")).load_config()
    spawner = SimpleNamespace(user=SimpleNamespace(name=user))
    config.Spawner.pre_spawn_hook(spawner)
    server = ServerApp()
    server.parse_command_line([argument for argument in spawner.cmd if argument.startswith("--ServerApp.")])
    allowed = {"headers": {"Content-Security-Policy": "frame-ancestors 'self'"}} if user == "teacher" else {}
    assert server.tornado_settings == allowed
    assert ("--instructor" in spawner.cmd) == (user == "teacher")


def test_a_ping_that_comes_late_does_not_close_the_connection() -> None:
    """The server looks for an answer at each ping, so that a look a moment late must not count as none."""
    config = PyFileConfigLoader("jupyter_lab_config.py", str(REPOSITORY / "jupyter")).load_config()
    sockets = WebSocketMixin()
    sockets.settings = dict(config.ServerApp.get("tornado_settings", {}))
    assert sockets.ping_timeout >= 2 * sockets.ping_interval > 0


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
