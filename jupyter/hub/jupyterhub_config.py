# ruff: noqa: F821
"""A hub for one class: docs/jupyterhub.md. Copy it to where only root writes, and change what is in capitals."""

import os
from pathlib import Path

ROOT = Path(os.environ.get("HEADROOM_HUB", "/srv/headroom"))
INSTRUCTORS = {"teacher"}
GROUP = "headroom"  # the system's group whose members may log in

COURSE = ROOT / "course"  # the whole course, an instructor's, closed to everybody else
STUDENTS = ROOT / "students" / "headroom"  # what make student-copy made, for all to read
EXCHANGE = ROOT / "exchange"  # nbgrader's, for all to write in, as /tmp is

c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # for a web server in front of it, which speaks HTTPS to the world
c.JupyterHub.db_url = f"sqlite:///{ROOT / 'hub' / 'jupyterhub.sqlite'}"
c.JupyterHub.cookie_secret_file = str(ROOT / "hub" / "cookie_secret")

# Users of the system log in with their password, and each server runs as its user.
c.JupyterHub.authenticator_class = "pam"
c.JupyterHub.spawner_class = "jupyterhub.spawner.LocalProcessSpawner"
c.LocalAuthenticator.allowed_groups = {GROUP}

# Nothing of the hub's environment but this reaches a server.
c.Spawner.env_keep = ["PATH", "LANG", "LC_ALL", "TZ"]
c.Spawner.environment = {"HEADROOM_EXCHANGE": str(EXCHANGE)}
c.Spawner.start_timeout = 120
c.Spawner.http_timeout = 120


# Formgrader stands in a frame of the instructor's own JupyterLab, and a hub's servers forbid any.
FRAMES = """--ServerApp.tornado_settings={"headers": {"Content-Security-Policy": "frame-ancestors 'self'"}}"""


def start_the_course(spawner):
    """Formgrader and solutions/ for instructors; for students the course as at home, in ~/headroom."""
    teaches = spawner.user.name in INSTRUCTORS
    python = (COURSE if teaches else STUDENTS) / ".venv" / "bin" / "python"
    spawner.cmd = [str(python), "-m", "headroom", "lab", *(["--instructor", FRAMES] if teaches else [])]


c.Spawner.pre_spawn_hook = start_the_course
