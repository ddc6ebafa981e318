"""What `make` runs, and how JupyterLab is set up: files that nothing imports, held against what they promise."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from traitlets.config import PyFileConfigLoader

REPOSITORY = Path(__file__).resolve().parents[1]
MAKEFILES = ("Makefile", "development.mk")
TEXT = "\n".join((REPOSITORY / name).read_text(encoding="utf-8") for name in MAKEFILES)
PHONY = {name for names in re.findall(r"^\.PHONY: (.*)$", TEXT, re.MULTILINE) for name in names.split()}
TARGETS = {name for names in re.findall(r"^([a-z][a-z -]*)::?(?: |$)", TEXT, re.MULTILINE) for name in names.split()}
HELPED = dict(re.findall(r'@echo "make ([a-z-]+) +(.*)"', TEXT))
INNER = {"help", "types", "style", "with-test", "with-grade", "with-bench", "with-book"}  # what others use
# What each target runs of Python, once `bootstrap.py` has been; without what it prints.
RUNS = {
    "setup": ["bootstrap.py"],
    "doctor": ["bootstrap.py --doctor"],
    "lab": ["bootstrap.py", "-m headroom lab"],
    "test": ["bootstrap.py test", '-m pytest -m "not full"'],
    "test-all": ["bootstrap.py test", '-m pytest -m "not full"', "-m pytest -m full"],
    "labs": ["bootstrap.py", "-m autograder labs"],
    "student-copy": ["bootstrap.py", "-m autograder student-copy"],
    "grade": ["bootstrap.py grade", "-m autograder grade"],
    "report": ["bootstrap.py", "-m autograder report"],
    "bench": ["bootstrap.py bench", "$file"],
    "book": ["bootstrap.py book", "-m website.build"],
    "screenshots": ["bootstrap.py test", "-m tests.screenshots"],
    "format": ["bootstrap.py test", "-m headroom clean", "-m ruff format .", "-m ruff check --fix ."],
    "constraints": ["bootstrap.py --renew"],
    "types": [],
    "style": [
        *("-m ruff format --check --quiet .", "-m ruff check --quiet .", "-m headroom clean --check"),
        "tests/javascript.py",
    ],
}
no_make = pytest.mark.skipif(sys.platform == "win32", reason="there is no make")


def dry(*arguments: str) -> str:
    """What make would run."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    ran = subprocess.run(
        ["make", "-n", *arguments], cwd=REPOSITORY, env=own, capture_output=True, text=True, check=True
    )
    return ran.stdout


def test_every_target_is_phony_and_explained() -> None:
    """A file of its name, such as labs/, must not keep it from running."""
    assert PHONY == TARGETS and TARGETS - set(HELPED) == INNER
    assert set(HELPED) <= TARGETS and all(HELPED.values())
    assert TARGETS - INNER | {"types", "style"} == {*RUNS, "check"}


@pytest.mark.parametrize("target", ["test", "test-all", "check"])
def test_a_time_that_is_promised_is_the_same_everywhere(target: str) -> None:
    pages = [(REPOSITORY / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md")]
    rows = [row for page in pages for row in page.splitlines() if row.startswith(f"| `make {target}` |")]
    promised = [re.findall(r"(\d+) minutes?", text) for text in (HELPED[target], *rows)]
    assert len(promised) == 3 and len({tuple(minutes) for minutes in promised}) == 1 and len(promised[0]) == 1


@no_make
@pytest.mark.parametrize("target", RUNS)
def test_a_target_runs_its_commands_in_order(target: str) -> None:
    lines = [line for line in dry(target).splitlines() if not line.startswith("echo")]
    ran = [
        found
        for line in lines
        for found in re.findall(r"(?:python3?|python3 ) ((?:-m |bootstrap|tests/|\$).*?)(?: \|\|.*)?$", line)
    ]
    assert [one.strip().removesuffix("; done") for one in ran] == RUNS[target]


@no_make
def test_the_fast_checks_are_all_there() -> None:
    assert re.search(r"make.* -j2 types style", dry("check")) and "bootstrap.py test" in dry("check")
    assert "basedpyright" in dry("types") and "codespell" in dry("style")


@no_make
@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (("lab", "INSTRUCTOR=1"), "-m headroom lab --instructor"),
        (("test", "TESTS=tests/test_house.py"), '-m pytest -m "not full" tests/test_house.py'),
        (("grade", "LAB=lab02_multi_head"), "-m autograder grade lab02_multi_head"),
        (("labs", "LAB=lab02_multi_head"), "-m autograder labs lab02_multi_head"),
        (("student-copy", "TO=somewhere"), "-m autograder student-copy somewhere"),
        (("setup", "PYTHON=python3.12"), "python3.12 bootstrap.py"),
    ],
)
def test_what_make_is_told_stands_in_the_command(told: tuple[str, ...], expected: str) -> None:
    assert expected in dry(*told)


@no_make
def test_a_kind_of_test_that_no_file_holds_is_no_failure_and_a_failure_is_one() -> None:
    """pytest ends with 5 where it found none."""
    for target in ("test", "test-all"):
        assert dry(target).count("|| [ $? -eq 5 ]") == dry(target).count("-m pytest")


@no_make
def test_without_a_python_a_sentence_says_what_to_install() -> None:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "setup", "PYTHON=no-python-of-this-name"]
    ran = subprocess.run(command, cwd=REPOSITORY, env=own, capture_output=True, text=True)
    assert ran.returncode != 0 and "There is no no-python-of-this-name here: install Python 3.11 or newer" in ran.stderr


# --- JupyterLab ------------------------------------------------------------------------------------------------------


def config(folder: str, name: str):
    return PyFileConfigLoader(name, str(REPOSITORY / "jupyter" / folder)).load_config()


def read(name: str) -> dict:
    return json.loads((REPOSITORY / "jupyter" / name).read_text(encoding="utf-8"))


def test_jupyterlab_asks_nobody_and_listens_to_this_computer_alone() -> None:
    said = config("", "jupyter_lab_config.py")
    assert said.ServerApp.ip == "127.0.0.1" and said.ServerApp.answer_yes is True
    assert said.LabApp.news_url is None and said.LabApp.extension_manager == "readonly"
    assert said.LabApp.check_for_updates_class == "jupyterlab.NeverCheckForUpdate"
    assert said.LanguageServerManager.autodetect is False
    told = read("labconfig/default_setting_overrides.json")["@jupyterlab/apputils-extension:notification"]
    assert told == {"checkForUpdates": False, "fetchNews": "false"}


def test_the_map_of_the_course_is_shown_and_answered() -> None:
    [extensions] = config("", "jupyter_lab_config.py").LabApp.extra_labextensions_path
    about = json.loads((Path(extensions) / "headroom" / "package.json").read_text())
    assert about["name"] == "headroom" and about["jupyterlab"]["_build"]["extension"] == "./extension"
    script = Path(extensions) / "headroom" / about["jupyterlab"]["_build"]["load"]
    assert script.is_file() and script.with_suffix(".css").is_file()
    assert "_JUPYTERLAB ??= {}).headroom" in script.read_text(encoding="utf-8"), "under the package's name"
    served = read("jupyter_server_config.d/headroom.json")["ServerApp"]["jpserver_extensions"]
    assert served == {"headroom.start_page": True}


def test_widgets_are_saved_with_a_notebook_and_their_messages_keep_their_order() -> None:
    told = read("labconfig/default_setting_overrides.json")
    assert told["@jupyter-widgets/jupyterlab-manager:plugin"]["saveState"] is True
    assert told["@jupyterlab/apputils-extension:kernels-settings"]["commsOverSubshells"] == "disabled"
    assert told["@jupyterlab/notebook-extension:tracker"]["codeCellConfig"]["lineWrap"] is True


def test_students_have_the_assignment_list_and_no_tool_of_an_instructors() -> None:
    off = read("student/labconfig/page_config.json")["disabledExtensions"]
    tools = {"formgrader", "course-list", "create-assignment"}
    assert off == {f"@jupyter/nbgrader:{tool}": True for tool in tools}


def test_a_hub_keeps_its_own_and_tells_servers_where_the_exchange_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADROOM_HUB", "/srv/class")
    said = config("hub", "jupyterhub_config.py")
    assert said.JupyterHub.bind_url == "http://127.0.0.1:8000", "what speaks to the world stands in front of it"
    assert said.JupyterHub.authenticator_class == "pam" and said.LocalAuthenticator.allowed_groups == {"headroom"}
    assert said.JupyterHub.db_url == "sqlite:////srv/class/hub/jupyterhub.sqlite"
    assert said.JupyterHub.cookie_secret_file == "/srv/class/hub/cookie_secret"
    assert said.Spawner.env_keep == ["PATH", "LANG", "LC_ALL", "TZ"], "nothing else of the hub's reaches a student"
    assert said.Spawner.environment == {"HEADROOM_EXCHANGE": "/srv/class/exchange"}
    pythons = {}
    for user in ("teacher", "ann"):
        spawner = SimpleNamespace(user=SimpleNamespace(name=user))
        said.Spawner.pre_spawn_hook(spawner)
        pythons[user] = spawner.cmd[0]
        assert spawner.cmd[1:4] == ["-m", "headroom", "lab"]
    assert pythons == {
        "teacher": "/srv/class/course/.venv/bin/python",
        "ann": "/srv/class/students/headroom/.venv/bin/python",
    }


def test_nbgrader_finds_the_courses_configuration_from_anywhere() -> None:
    lines = (REPOSITORY / "jupyter" / "nbgrader_config.py").read_text(encoding="utf-8")
    asked: list[tuple[str, str]] = []
    file = str(REPOSITORY / "jupyter" / "nbgrader_config.py")
    exec(lines, {"__file__": file, "load_subconfig": lambda name, path: asked.append((name, path))})
    assert asked == [("nbgrader_config.py", str(REPOSITORY))]
