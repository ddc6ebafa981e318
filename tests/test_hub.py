"""docs/jupyterhub.md: a hub for system users, in a sandbox whose /etc, /home and /srv are this test's own."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, expect

from autograder.pipeline import student_copy
from tests.browser import free_port

REPOSITORY = Path(__file__).resolve().parents[1]
LAB, NOTEBOOK = "lab02_multi_head", "multi_head.ipynb"
PROXY = shutil.which("configurable-http-proxy")
ABLE = sys.platform.startswith("linux") and os.geteuid() == 0 and shutil.which("bwrap") and PROXY
WHY = "a hub needs root, bubblewrap, JupyterHub (python3 bootstrap.py hub) and npm's configurable-http-proxy"
pytestmark = [pytest.mark.full, pytest.mark.skipif(not (ABLE and importlib.util.find_spec("jupyterhub")), reason=WHY)]

ROOT = "/srv/headroom"
PARTS = ("autograder", "headroom", "jupyter", "labs", "lectures", "solutions", "nbgrader_config.py", "pyproject.toml")
SETUP = f"""
set -e
groupadd headroom
for user in teacher ann ben; do
    useradd --create-home --key HOME_MODE=0700 --shell /bin/sh --groups headroom $user
    echo "$user:the-word-of-$user" | chpasswd
done
chown -R teacher: {ROOT}/course {ROOT}/students
chmod 700 {ROOT}/course
install -d -m 1777 {ROOT}/exchange
install -d -m 700 {ROOT}/hub
"""


@dataclass
class Hub:
    """A running hub, and the folder of its sandbox."""

    address: str
    folder: Path

    def run(self, command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """Run a shell command in the sandbox as a user; the instructor's in the course, its environment active."""
        active = f"cd {ROOT}/course && PATH={ROOT}/course/.venv/bin:$PATH HEADROOM_EXCHANGE={ROOT}/exchange"
        line = f"{active}; export PATH HEADROOM_EXCHANGE; {command}" if user == "teacher" else command
        shell = ["su", user, "-c", line] if user != "root" else ["sh", "-c", line]
        return subprocess.run([*sandbox(self.folder), *shell], capture_output=True, text=True, check=False)


def sandbox(folder: Path) -> list[str]:
    """The machine with other users; what they may not enter, and has something that they need, is open to them."""
    line = ["bwrap", "--die-with-parent", "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
    needed = {Path(path).resolve() for path in (sys.base_prefix, sys.prefix, REPOSITORY)}
    needed |= {Path(str(PROXY)).parent, Path(str(PROXY)).resolve().parents[2]}
    closed = {next((one for one in reversed(path.parents) if not one.stat().st_mode & 0o001), None) for path in needed}
    for top in sorted(closed - {None}):
        line += ["--perms", "0755", "--tmpfs", str(top)]
    for path in (one for one in sorted(needed) if closed & {*one.parents}):
        line += ["--ro-bind", str(path), str(path)]
    for name in ("etc", "home", "srv"):
        line += ["--bind", str(folder / name), f"/{name}"]
    return line


def give_environment(folder: Path, inside: str) -> None:
    """A .venv as the hub needs it: with this test's packages, and the course's own from where it lies."""
    site = folder / ".venv" / "lib" / "python{}.{}".format(*sys.version_info) / "site-packages"
    (folder / ".venv" / "bin").mkdir(parents=True)
    site.mkdir(parents=True)
    python = Path(os.path.realpath(sys.executable))
    (folder / ".venv" / "bin" / "python").symlink_to(python)
    (folder / ".venv" / "pyvenv.cfg").write_text(f"home = {python.parent}\n")
    for name in ("alembic", "nbgrader"):
        script = f'#!/bin/sh\nexec {inside}/.venv/bin/python -m {name} "$@"\n'
        if name == "alembic":
            script = script.replace("-m alembic", "-m alembic.config")
        (folder / ".venv" / "bin" / name).write_text(script)
        (folder / ".venv" / "bin" / name).chmod(0o755)
    for name in ("share", "etc"):
        (folder / ".venv" / name).symlink_to(Path(sys.prefix) / name)
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "course.pth").write_text(f"import sys; sys.path.insert(0, {inside!r})\n{packages}\n")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    course, students = folder / "srv/headroom/course", folder / "srv/headroom/students/headroom"
    subprocess.run(["cp", "-a", "/etc", folder / "etc"], check=True)
    (folder / "home").mkdir()
    for name in PARTS:
        source = REPOSITORY / name
        course.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, course / name) if source.is_dir() else shutil.copy(source, course)
    student_copy.make(REPOSITORY, students)
    give_environment(course, f"{ROOT}/course")
    give_environment(students, f"{ROOT}/students/headroom")
    port, api, proxy = free_port(), free_port(), free_port()
    (folder / "srv" / "config.py").write_text(
        f"load_subconfig('{ROOT}/course/jupyter/hub/jupyterhub_config.py')\n"
        f"c.JupyterHub.bind_url = 'http://127.0.0.1:{port}'\nc.JupyterHub.hub_port = {api}\n"
        f"c.ConfigurableHTTPProxy.api_url = 'http://127.0.0.1:{proxy}'\n"
    )
    made = Hub(f"http://127.0.0.1:{port}", folder)
    done = made.run(SETUP)
    assert done.returncode == 0, done.stderr
    command = f"cd {ROOT}/hub && exec {ROOT}/course/.venv/bin/python -m jupyterhub --config /srv/config.py"
    with (folder / "hub.log").open("wb") as log:
        running = subprocess.Popen([*sandbox(folder), "sh", "-c", command], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 120
        while True:
            try:
                urlopen(f"{made.address}/hub/login", timeout=5).close()
                break
            except URLError:
                assert running.poll() is None and time.monotonic() < end, (folder / "hub.log").read_text()
                time.sleep(0.2)
        yield made
    finally:
        running.terminate()
        running.wait(30)


def test_a_student_fetches_hands_in_and_reads_feedback(hub: Hub, browser: Browser) -> None:
    """And reaches neither the course nor others' work, and hands in nothing in somebody else's name."""
    assert hub.run(f"nbgrader release_assignment {LAB}", "teacher").returncode == 0
    page = browser.new_context().new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{hub.address}/hub/login")
    page.fill("#username_input", "ann")
    page.fill("#password_input", "the-word-of-ann")
    page.click("#login_submit", no_wait_after=True)
    expect(page.locator(".jp-NotebookPanel")).to_be_visible(timeout=90_000)  # lecture 0, the first time
    page.locator(".jp-BreadCrumbs-home").click()
    expect(page.locator(".jp-DirListing-itemName")).to_have_text(["labs", "lectures"])

    page.locator(".lm-MenuBar-itemLabel", has_text="Nbgrader").click()
    expect(page.locator(".lm-Menu-itemLabel", has_text="Assignment List")).to_be_visible()
    offered = page.locator(".lm-Menu-itemLabel").all_inner_texts()
    assert "Formgrader" not in offered and "Course List" not in offered
    page.locator(".lm-Menu-itemLabel", has_text="Assignment List").click()
    page.locator("#released_assignments_list button", has_text="Fetch").click()
    fetched = page.locator("#fetched_assignments_list")
    expect(fetched).to_contain_text(LAB)
    assert (hub.folder / "home/ann/headroom/labs" / LAB / NOTEBOOK).is_file()
    fetched.locator("button", has_text="Submit").click()
    expect(page.locator("#submitted_assignments_list")).to_contain_text(LAB)

    inbound = f"{ROOT}/exchange/headroom/inbound"
    forged = shlex.quote(f"{inbound}/ann+{LAB}+2099-01-01 00:00:00 UTC+x")
    assert hub.run(f"mkdir -m 777 {forged}; echo forged > {forged}/{NOTEBOOK}", "ben").returncode == 0
    for closed in (f"{ROOT}/course/solutions", inbound, "/home/ann/headroom/labs"):
        assert "Permission denied" in hub.run(f"ls {closed}", "ben").stderr
    collected = hub.run(f"nbgrader collect {LAB}", "teacher")
    assert "is left out: it belongs to 'ben'" in collected.stderr, collected.stderr
    folder = hub.folder / "srv/headroom/course/submitted/ann" / LAB
    assert '"nbformat"' in (folder / NOTEBOOK).read_text()

    feedback = f"feedback/ann/{LAB}"
    made = f"mkdir -p {feedback} && echo '<p>well done' > {feedback}/multi_head.html && nbgrader release_feedback {LAB}"
    assert hub.run(made, "teacher").returncode == 0
    page.locator("#refresh_assignments_list").click()
    page.locator("#submitted_assignments_list").get_by_text("Fetch Feedback").click()
    expect(page.locator("#submitted_assignments_list")).to_contain_text("(view feedback)")
    assert re.search(
        "well done",
        "".join(path.read_text() for path in (hub.folder / "home/ann/headroom/labs" / LAB).rglob("multi_head.html")),
    )
