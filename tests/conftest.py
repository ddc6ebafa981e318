"""What every test gets: Jupyter, Matplotlib and nbgrader kept out of the home folder, and a JupyterLab on demand.

Which tests run when: `make test` leaves out what is marked `full`, `make test-all` then runs that too. What drives a
browser is `full` unless it is marked `quick`. How the tests are shared out between the workers is written here too.
"""

import gc
import json
import os
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

# Before torch is imported, here and in whatever the tests start: a worker for each core, each with one thread.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from xdist.scheduler import LoadScopeScheduling

from headroom.lab import private_environment

REPOSITORY = Path(__file__).resolve().parents[1]
DURATIONS = Path(__file__).with_name("durations.json")
# Files whose tests share nothing but what is made for one notebook or exercise: each of these is a unit. What is said
# and what is earned by the same answers is one.
PARTED = {name: name for name in ("test_notebooks.py", "test_exercises.py")}
PARTED["test_points.py"] = "test_exercises.py"

# As this file is imported, not in a fixture: Jupyter and Matplotlib read these variables when they are imported.
STATE = Path(tempfile.mkdtemp(prefix="headroom-tests-"))
os.environ.update(private_environment(STATE, REPOSITORY / "jupyter"))


# --- Which tests, and in which order ---------------------------------------------------------------------------------


def unit(nodeid: str) -> str:
    """What one worker runs from beginning to end: a file, or its share for one notebook or exercise."""
    file, _, test = nodeid.partition("::")
    about = re.search(r"\[([^\]-]+)", test)
    folder, slash, name = file.rpartition("/")
    return f"{folder}{slash}{PARTED[name]}[{about[1]}]" if about and name in PARTED else file


class Units(LoadScopeScheduling):
    """Gives each worker one unit after the other, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


def pytest_xdist_auto_num_workers() -> int:
    """One more than cores: tests that wait for what they have started leave one free."""
    return (os.cpu_count() or 1) + 1


def pytest_xdist_make_scheduler(config: pytest.Config, log) -> Units:
    return Units(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-durations", action="store_true", help=f"write what each unit took to {DURATIONS.name}")


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what drives a browser, and put the longest units first, as they were measured; new ones before all."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("quick"):
            item.add_marker("full")
    stored = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    items.sort(key=lambda item: -stored.get(unit(item.nodeid), float("inf")))  # stable: units stay together


class Stopwatch:
    """Adds up what each unit takes, and writes it down at the end."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[unit(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        stored = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
        stored |= {name: round(seconds, 1) for name, seconds in self.seconds.items()}
        DURATIONS.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--store-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Stopwatch())


def pytest_collection_finish() -> None:
    """Leave what is there now out of later collections: every full one would go over all tests and PyTorch."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line for each reason what was skipped; where something is missing, the reason names its package."""
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminalreporter.getreports("skipped"))
    for reason, tests in sorted(reasons.items()):
        terminalreporter.write_line(f"Skipped {tests}: {reason}")


def pytest_unconfigure() -> None:
    """Remove what the tests' Jupyter wrote."""
    shutil.rmtree(STATE, ignore_errors=True)


@pytest.fixture(scope="module")
def course_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course's notebooks and configuration: what runs in it leaves the repository alone.

    One for each module: what was run and saved before, the start page shows as done.
    """
    from tests.browser import copy_course

    return copy_course(tmp_path_factory.mktemp("course") / "headroom")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """The system's Chromium; without one the test is skipped, or fails where CI=true.

    It lives no longer than a module: while Playwright runs, its event loop counts as running everywhere.
    """
    from tests.browser import chromium, chromium_path

    if chromium_path() is None:
        reason = "there is no Chromium on PATH (on Debian: apt-get install chromium fonts-dejavu-core)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def server(course_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """JupyterLab on the course's copy, started by the launcher, with a home folder of its own."""
    from tests.browser import lab_server

    with lab_server(course_copy, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def lab(browser, server) -> Iterator:
    """A fresh browser tab on the running JupyterLab.

    Afterwards it must have asked nothing of another machine, and nothing may have gone wrong in it.
    """
    from tests.browser import Lab

    tab = Lab(browser, server)
    yield tab
    tab.close()
    assert tab.left_the_machine == [], "the course works offline, yet the browser asked another machine"
    assert tab.errors == [], "the browser's console shows errors"
