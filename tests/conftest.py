"""What every test gets: Jupyter, Matplotlib and nbgrader kept out of the home folder, and a JupyterLab on demand."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headroom.lab import private_environment

REPOSITORY = Path(__file__).resolve().parents[1]

# As this file is imported, not in a fixture: Jupyter and Matplotlib read these variables when they are imported.
STATE = Path(tempfile.mkdtemp(prefix="headroom-tests-"))
os.environ.update(private_environment(STATE, REPOSITORY / "jupyter"))


def pytest_unconfigure() -> None:
    """Remove what the tests' Jupyter wrote."""
    shutil.rmtree(STATE, ignore_errors=True)


@pytest.fixture(scope="session")
def course_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the course's notebooks and configuration: what runs in it leaves the repository alone."""
    from browser import copy_course

    return copy_course(tmp_path_factory.mktemp("course") / "headroom")


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """The system's Chromium; without one the test is skipped, or fails where CI=true.

    It lives no longer than a module: while Playwright runs, its event loop counts as running everywhere.
    """
    from browser import chromium, chromium_path

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
    from browser import lab_server

    with lab_server(course_copy, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def lab(browser, server) -> Iterator:
    """A fresh browser tab on the running JupyterLab.

    Afterwards it must have asked nothing of another machine, and nothing may have gone wrong in it.
    """
    from browser import Lab

    tab = Lab(browser, server)
    yield tab
    tab.close()
    assert tab.left_the_machine == [], "the course works offline, yet the browser asked another machine"
    assert tab.errors == [], "the browser's console shows errors"
