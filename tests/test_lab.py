"""How `python -m headroom` starts: with which arguments JupyterLab is started, what is said, and how a command ends."""

import fnmatch
import logging
import os
import subprocess
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from headroom import __main__ as launcher
from headroom import course_map, doctor, lab, notebooks

REPOSITORY = Path(__file__).resolve().parents[1]
ASKED = "To access the server, open this file"


class Ended(Exception):
    """In the place of the end of the process."""


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course with one lecture, which is the present folder."""
    first = tmp_path / "course" / lab.FIRST_NOTEBOOK
    first.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=[new_code_cell("1", id="one")]), first)
    monkeypatch.chdir(tmp_path / "course")
    for name in list(os.environ):
        if name.startswith(("JUPYTER", "IPYTHON", "MPLCONFIG", "XDG", "HEADROOM", "OMP_WAIT", "PATH")):
            monkeypatch.setenv(name, os.environ[name])  # `start` changes them
    for name in (lab.HUB_VARIABLE, "JUPYTERHUB_DEFAULT_URL"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return tmp_path / "course"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The arguments with which JupyterLab was started; in its place is one that serves at port 8888."""
    calls: list[list[str]] = []

    def initialize_server(arguments: list[str]) -> SimpleNamespace:
        calls.append(arguments)
        info = {"url": "http://localhost:8888/", "token": "secret", "port": 8888}
        return SimpleNamespace(server_info=lambda: info, start=lambda: None)

    module = ModuleType("jupyterlab.labapp")
    module.LabApp = SimpleNamespace(initialize_server=initialize_server)
    monkeypatch.setitem(sys.modules, "jupyterlab.labapp", module)
    monkeypatch.setattr(logging.getLogger("ServerApp"), "filters", [])

    def end(status: int) -> None:
        assert status == 0
        raise Ended

    monkeypatch.setattr(os, "_exit", end)
    return calls


def start(**arguments) -> None:
    with pytest.raises(Ended):
        lab.start(**arguments)


def option(arguments: list[str], name: str) -> list[str]:
    return [one.partition("=")[2] for one in arguments if one.startswith(f"--{name}=")]


def test_the_first_start_shows_the_first_notebook_and_a_later_one_the_map(course: Path, started, capsys) -> None:
    start()
    assert option(started[0], "LabApp.default_url") == ["/lab/tree/lectures/00_start_here.ipynb"]
    assert option(started[0], "ServerApp.root_dir") == [str(course)] and Path.cwd() == course
    said = capsys.readouterr().out
    assert "http://localhost:8888/lab/tree/lectures/00_start_here.ipynb?token=secret" in said and "Ctrl-C" in said
    assert said.index("Starting JupyterLab") < said.index("JupyterLab is running at")
    [quiet] = logging.getLogger("ServerApp").filters
    records = [logging.makeLogRecord({"msg": text}) for text in (f"{ASKED}: …", "The port is not free")]
    assert [quiet(record) for record in records] == [False, True], "the address is printed once"
    cell = new_code_cell("1", id="one", execution_count=1)
    nbformat.write(new_notebook(cells=[cell]), course / lab.FIRST_NOTEBOOK)
    os.utime(course / lab.FIRST_NOTEBOOK, (1, 1))
    start()
    assert option(started[1], "LabApp.default_url") == ["/lab"]


def test_a_start_from_within_the_course_serves_all_of_it(
    course: Path, started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(course / "lectures")
    start()
    assert option(started[0], "ServerApp.root_dir") == [str(course)]


def test_students_see_their_notebooks_and_instructors_everything(course: Path, started) -> None:
    start()
    hidden = option(started[0], "ContentsManager.hide_globs")
    assert set(hidden) == {*lab.MACHINERY, *lab.ALWAYS_HIDDEN}
    config = os.environ["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert config == [str(course / "jupyter" / "student"), str(course / "jupyter")], "what is for students counts first"
    start(instructor=True)
    assert option(started[1], "ContentsManager.hide_globs") == []
    assert os.environ["JUPYTER_CONFIG_PATH"] == str(course / "jupyter")


def test_what_is_in_the_courses_folder_is_hidden_but_for_lectures_and_labs() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("this is no clone")
    names = {name.split("/")[0] for name in listed.stdout.splitlines() if not name.startswith(".")}
    shown = {name for name in names if not any(fnmatch.fnmatch(name, one) for one in lab.MACHINERY)}
    assert shown == {"lectures", "labs"}
    grading = {
        "autograded",
        "feedback",
        "integrity",
        "submitted",
        "report",
        "gradebook.db",
        "grades.csv",
        "extensions.csv",
    }
    assert {one for one in grading if not any(fnmatch.fnmatch(one, glob) for glob in lab.MACHINERY)} == set()


@pytest.mark.parametrize(
    ("arguments", "expected", "missing"),
    [
        ({}, [], ["--no-browser", "--ServerApp.port"]),
        ({"port": 9000}, ["--ServerApp.port=9000"], ["--no-browser"]),
        ({"port": 0}, ["--ServerApp.port=0"], []),
        ({"browser": False}, ["--no-browser"], ["--ServerApp.port"]),
        ({"more": ("--debug",)}, ["--debug"], []),
    ],
)
def test_what_is_asked_for_reaches_jupyterlab(
    course: Path, started, arguments: dict, expected: list, missing: list
) -> None:
    start(**arguments)
    assert set(expected) <= set(started[0])
    assert not [one for one in started[0] if one.startswith(tuple(missing) or "nothing")]
    assert started[0][0] == "--Application.log_level=WARN", "what the user asks for comes after it, and counts"


@pytest.mark.parametrize(("port", "another"), [(None, False), (0, False), (8888, False), (8887, True)])
def test_another_port_than_was_asked_for_is_named(
    course: Path, started, capsys, port: int | None, another: bool
) -> None:
    start(port=port)
    assert (f"Port {port} is not free" in capsys.readouterr().out) == another


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_root_is_allowed_in_a_container(course: Path, started, monkeypatch, user: int, allowed: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user, raising=False)
    start()
    assert ("--allow-root" in started[0]) == allowed


@pytest.mark.parametrize("shows", [True, False])
def test_a_lab_that_is_running_is_opened_and_not_started_again(
    course: Path, started, monkeypatch, capsys, shows
) -> None:
    server = {"url": "http://localhost:8890/", "token": "secret", "pid": 12}
    asked, opened = [], []
    monkeypatch.setattr(lab, "running", lambda *where: asked.append(where) or server)
    monkeypatch.setattr(webbrowser, "open", opened.append)
    lab.start(browser=shows)
    said = capsys.readouterr().out
    assert started == [] and "http://localhost:8890/lab?token=secret" in said and "Ctrl-C" in said
    assert asked == [(course, course / lab.STATE / "runtime")]
    page = (course / lab.STATE / "runtime" / "jpserver-12-open.html").as_uri()
    assert opened == ([page] if shows else []), "a file: the token stays out of the list of processes"


def test_kernels_write_only_errors_into_the_terminal(course: Path, started) -> None:
    start()
    settings = course / lab.STATE / "ipython" / "profile_default" / "ipython_kernel_config.py"
    assert settings.read_text() == "c.IPKernelApp.log_level = 'ERROR'\n"


@pytest.mark.parametrize("instructor", [False, True])
def test_a_hubs_server_serves_students_a_folder_of_their_own(
    tmp_path: Path, course: Path, started, monkeypatch: pytest.MonkeyPatch, instructor: bool
) -> None:
    home, single = tmp_path / "home", ModuleType("jupyterhub.singleuser")
    single.main = lambda: started.append(sys.argv[1:])
    monkeypatch.setitem(sys.modules, "jupyterhub.singleuser", single)
    monkeypatch.setitem(sys.modules, "jupyterhub", ModuleType("jupyterhub"))
    monkeypatch.setattr(lab, "__file__", str(course / "headroom" / "lab.py"))
    monkeypatch.setattr(lab, "running", lambda *where: pytest.fail("each user of a hub has a server"))
    monkeypatch.setattr(sys, "argv", ["headroom", "lab"])
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setenv(lab.HUB_VARIABLE, "token")
    for name in lab.RENEWED:
        (course / name).touch()
    start(instructor=instructor, more=("--ServerApp.port=1",))
    root = course if instructor else home / "headroom"
    [arguments] = started
    assert option(arguments, "ServerApp.root_dir") == [str(root)] and arguments[-1] == "--ServerApp.port=1"
    assert os.environ["JUPYTERHUB_DEFAULT_URL"] == "/lab/tree/lectures/00_start_here.ipynb"
    assert (home / "headroom" / lab.FIRST_NOTEBOOK).exists() == (not instructor)
    assert (root / lab.STATE).is_dir() and (instructor or not (course / lab.STATE).exists()), (
        "a hub's course is read-only"
    )


def test_where_there_is_no_course_the_sentence_names_what_is_missing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(lab, "__file__", str(tmp_path / "headroom" / "lab.py"))
    with pytest.raises(FileNotFoundError, match=r"There is no lectures/00_start_here\.ipynb in .* or above it"):
        lab.course_folder(tmp_path)
    (tmp_path / "lectures").mkdir()
    (tmp_path / lab.FIRST_NOTEBOOK).touch()
    assert lab.course_folder(Path("/")) == tmp_path, "the folder that the package was installed from"


def test_all_that_is_written_goes_into_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setenv("PATH", "before")
    made = lab.environment(tmp_path)
    state = tmp_path / lab.STATE
    inside = {name for name, value in made.items() if Path(value).is_relative_to(state)}
    assert inside == {
        *("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR"),
        *("JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME", lab.STATE_VARIABLE),
    }
    assert len({made[name] for name in inside}) == len(inside), "each has a folder of its own"
    assert made["JUPYTER_CONFIG_PATH"] == str(tmp_path / "jupyter") and made["JUPYTER_PATH"] == ""
    assert made["JUPYTER_PREFER_ENV_PATH"] == "1" and made["OMP_WAIT_POLICY"] == "PASSIVE"
    assert made["PATH"].split(os.pathsep)[-1] == "before" and len(made["PATH"].split(os.pathsep)) == 2
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert lab.environment(tmp_path)["OMP_WAIT_POLICY"] == "ACTIVE", "who has chosen keeps it"


# --- The commands ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["lab"], (None, True, (), False)),
        (["lab", "--port", "9000"], (9000, True, (), False)),
        (["lab", "--no-browser"], (None, False, (), False)),
        (["lab", "--instructor", "--debug"], (None, True, ("--debug",), True)),
    ],
)
def test_the_lab_gets_what_its_command_says(arguments: list[str], expected: tuple, monkeypatch) -> None:
    asked = []
    monkeypatch.setattr(lab, "start", lambda *given: asked.append(given))
    assert launcher.main(arguments) == 0 and asked == [expected]


@pytest.mark.parametrize("command", ["progress", "doctor", "map", "clean"])
def test_only_jupyterlab_takes_further_arguments(command: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        launcher.main([command, "--debug"])
    assert ended.value.code == 2 and "unknown arguments: --debug" in capsys.readouterr().err


def test_every_command_is_explained(capsys: pytest.CaptureFixture) -> None:
    assert launcher.main([]) == 0
    said = capsys.readouterr().out
    commands = {line.split()[0]: line.split(maxsplit=1)[1:] for line in said.splitlines() if line.startswith("    ")}
    assert set(commands) >= {"lab", "clean", "doctor", "map", "progress"}
    assert all(commands[name] for name in ("lab", "clean", "doctor", "map", "progress"))


def test_the_doctors_verdict_is_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for status in (0, 1):
        monkeypatch.setattr(doctor, "main", lambda status=status: status)
        assert launcher.main(["doctor"]) == status


def test_the_map_is_drawn_of_the_course_that_one_is_in(course: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(course_map, "write_picture", lambda folder: folder / "docs" / "course_map.png")
    assert launcher.main(["map"]) == 0
    assert capsys.readouterr().out == f"{course / 'docs' / 'course_map.png'}\n"
    assert os.environ["MPLCONFIGDIR"] == str(course / lab.STATE / "matplotlib")


@pytest.mark.parametrize("command", ["lab", "progress", "map", "clean"])
def test_without_a_course_a_command_ends_with_one_sentence(command: str, monkeypatch, capsys) -> None:
    def missing(folder: Path) -> Path:
        raise FileNotFoundError("There is no course here.")

    monkeypatch.setattr(lab, "course_folder", missing)
    assert launcher.main([command]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "There is no course here.\n")


def test_cleaning_without_a_name_cleans_all_of_the_course_and_counts(
    course: Path, capsys: pytest.CaptureFixture
) -> None:
    write: Callable[[Path], None] = lambda path: nbformat.write(  # noqa: E731
        new_notebook(cells=[new_code_cell("1", execution_count=3)]), path
    )
    for name in (
        "labs/lab01/a.ipynb",
        "solutions/lab01/a.ipynb",
        "lectures/.ipynb_checkpoints/b.ipynb",
        "docs/c.ipynb",
    ):
        (course / name).parent.mkdir(parents=True, exist_ok=True)
        write(course / name)
    (course / lab.FIRST_NOTEBOOK).write_text(notebooks.clean((course / lab.FIRST_NOTEBOOK).read_text()))
    assert launcher.main(["clean"]) == 0
    labs = [course / "labs/lab01/a.ipynb", course / "solutions/lab01/a.ipynb"]
    assert capsys.readouterr().out == "".join(f"cleaned {path}\n" for path in labs) + "3 notebooks, 2 changed.\n"
    assert launcher.main(["clean", "--check"]) == 0
