"""Starts the course's JupyterLab: configured, and with nothing written into the user's home folder."""

import logging
import os
import shutil
import sys
import sysconfig
import urllib.request
import webbrowser
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

FIRST_NOTEBOOK = Path("lectures") / "00_start_here.ipynb"
STATE = ".headroom"
# What of the course's folder the file browser does not show to students, who have lectures/ and labs/ to see.
MACHINERY = (
    *("autograder", "benchmarks", "binder", "docs", "examples", "headroom", "jupyter", "solutions", "tests", "website"),
    *("autograded", "feedback", "integrity", "submitted", "report", "build", "node_modules", "*.egg-info"),
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"),
    *("Makefile", "development.mk", "bootstrap.py", "constraints.txt", "environment.yml", "pyproject.toml"),
    *("eslint.config.js", "package.json", "package-lock.json", "tsconfig.json"),
    *("nbgrader_config.py", "gradebook.db*", "grades.csv", "extensions.csv"),
)
ALWAYS_HIDDEN = ("__pycache__", "*.pyc", "*.pyo", ".DS_Store", "*~")  # Jupyter's own
STATE_VARIABLE = "HEADROOM_STATE"  # names another folder for what a student's own progress is kept in
HUB_VARIABLE = "JUPYTERHUB_API_TOKEN"  # which JupyterHub sets for the servers that it starts
# Of the course that a hub's students share, what each has in a folder of their own: to write in, and to be found by.
OWN = ("lectures",)
RENEWED = ("docs", "jupyter", "nbgrader_config.py", "pyproject.toml")


def course_folder(start: Path) -> Path:
    """Find the course: the nearest folder, from `start` upwards, that holds its first notebook.

    Where none does, the folder that this package was installed from is taken.

    Raises:
        FileNotFoundError: neither holds the first notebook.
    """
    for folder in (start, *start.parents, Path(__file__).resolve().parents[1]):
        if (folder / FIRST_NOTEBOOK).is_file():
            return folder
    raise FileNotFoundError(
        f"There is no {FIRST_NOTEBOOK.as_posix()} in {start} or above it: change into the course's folder first."
    )


def private_environment(state: Path, config: Path) -> dict[str, str]:
    """Return the variables that keep Jupyter, IPython, Matplotlib and nbgrader out of the home folder.

    And one that keeps torch from burning a core while it waits: with tensors as small as the course's, threads that
    spin at every operation make a notebook ten times slower as soon as another program wants the second core.

    Args:
        state: the folder that takes everything they write.
        config: the folder of committed Jupyter configuration.

    Returns:
        Variables to set, PATH included: nbgrader starts `alembic` by name, so this Python's own scripts come first.
    """
    folders = {
        "JUPYTER_CONFIG_DIR": state / "config",
        "JUPYTER_DATA_DIR": state / "data",
        "JUPYTER_RUNTIME_DIR": state / "runtime",
        "JUPYTERLAB_SETTINGS_DIR": state / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": state / "workspaces",
        "IPYTHONDIR": state / "ipython",
        "MPLCONFIGDIR": state / "matplotlib",
        "XDG_CACHE_HOME": state / "cache",
    }
    return {
        **{name: str(folder) for name, folder in folders.items()},
        STATE_VARIABLE: str(state),
        "JUPYTER_CONFIG_PATH": str(config),
        "JUPYTER_PATH": "",
        "JUPYTER_PREFER_ENV_PATH": "1",
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]),
    }


def environment(course: Path) -> dict[str, str]:
    """The variables with which the course's nbgrader runs; what it writes goes into the course's own folder."""
    state = course / STATE
    state.mkdir(exist_ok=True)
    return private_environment(state, course / "jupyter")


def bring(shared: Path, own: Path) -> Path:
    """Give a student of a hub a folder of their own, as they would have it at home, and return it.

    What the course has and the folder lacks is copied. A notebook that is there stays as it is. Labs are fetched.

    Args:
        shared: the course that all students read.
        own: the folder, which is made if need be.
    """
    (own / "labs").mkdir(parents=True, exist_ok=True)
    for name in (*OWN, *RENEWED):
        for source in sorted((shared / name).rglob("*")) if (shared / name).is_dir() else [shared / name]:
            target = own / source.relative_to(shared)
            if source.is_file() and (name in RENEWED or not target.exists()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
    return own


def _quieten_kernels(ipython: Path) -> None:
    """Have kernels write errors alone to the terminal: each would warn of sockets that only this computer reaches."""
    settings = ipython / "profile_default" / "ipython_kernel_config.py"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("c.IPKernelApp.log_level = 'ERROR'\n", encoding="utf-8")


def running(course: Path, runtime: Path) -> dict[str, Any] | None:
    """The server that is running for a course's folder, as Jupyter describes it; None where there is none.

    A killed server leaves its description behind, and its process number may be another program's by now. So it counts
    only if it answers to its own token.

    Args:
        course: the folder.
        runtime: where Jupyter keeps what it knows of running servers.
    """
    if not any(runtime.glob("jpserver-*.json")):
        return None  # at once: the import takes seconds
    from jupyter_server.serverapp import list_running_servers

    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with suppress(OSError):  # a description that goes away while it is read
        for server in list_running_servers(str(runtime)):
            if Path(server["root_dir"]).resolve() != course.resolve():
                continue
            asked = f"{server['url']}api/status?token={server['token']}"
            with suppress(OSError, HTTPException), direct.open(asked, timeout=10):
                return server
    return None


def _address(server: dict[str, Any], page: str) -> str:
    """The address that opens a page of a running server, as Jupyter describes it."""
    return f"{server['url'].rstrip('/')}{page}?token={server['token']}"


def start(port: int | None = None, browser: bool = True, more: tuple[str, ...] = (), instructor: bool = False) -> None:
    """Start JupyterLab on the course's first notebook and stay until it is stopped.

    Where it is running for this folder already, its address is printed and opened instead.

    Where JupyterHub starts it, it is the hub's server for a user: for students in a folder of their own, `~/headroom`.

    Args:
        port: the port to ask for; where it is taken, the next free one is used and printed.
        browser: open the user's browser.
        more: further arguments, handed to JupyterLab as they are.
        instructor: show all of the course's folder, and nbgrader's tools for instructors.

    Raises:
        FileNotFoundError: the course's notebooks are not there.
    """
    hub, here = HUB_VARIABLE in os.environ, Path(__file__).resolve().parents[1]
    course = course_folder(here if hub else Path.cwd())
    if hub and not instructor:
        course = bring(course, Path.home() / "headroom")
    os.environ.update(environment(course))
    if not instructor:
        os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(
            [str(course / "jupyter" / "student"), os.environ["JUPYTER_CONFIG_PATH"]]
        )

    runtime = Path(os.environ["JUPYTER_RUNTIME_DIR"])
    if not hub and (server := running(course, runtime)):
        print(f"JupyterLab is running for this folder already:\n    {_address(server, '/lab')}")
        print("To start it anew, stop it first: Ctrl-C in its terminal, or File > Shut Down in JupyterLab.")
        if browser:  # the page that Jupyter opens itself: it keeps the token out of the list of processes
            webbrowser.open((runtime / f"jpserver-{server['pid']}-open.html").as_uri())
        return

    _quieten_kernels(Path(os.environ["IPYTHONDIR"]))
    print("Starting JupyterLab; its address comes in some seconds ...", flush=True)
    # Imported only now: Jupyter reads these variables as it is imported.
    from headroom.start_page import standing

    begun = any(piece["done"] for piece in standing(course)["pieces"])
    # The first time on the first notebook; later on the map of what is done, with what was open beside it.
    front = "/lab" if begun else f"/lab/tree/{FIRST_NOTEBOOK.as_posix()}"
    arguments = [f"--ServerApp.root_dir={course}", f"--LabApp.default_url={front}"]
    if not instructor:
        arguments += [f"--ContentsManager.hide_globs={name}" for name in (*ALWAYS_HIDDEN, *MACHINERY)]
    if port is not None:
        arguments.append(f"--ServerApp.port={port}")
    if not browser:
        arguments.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # In a container everybody is root, and the server listens to this computer alone.
        arguments.append("--allow-root")
    os.chdir(course)
    if hub:
        from jupyterhub.singleuser import main  # pyright: ignore[reportMissingImports]  # of the hub extra

        os.environ["JUPYTERHUB_DEFAULT_URL"] = front
        sys.argv[1:] = [*arguments, *more]
        main()
    else:
        from jupyterlab.labapp import LabApp

        # Of what Jupyter has to say, a student needs what follows, and the warnings and errors.
        app = LabApp.initialize_server(["--Application.log_level=WARN", *arguments, *more])
        logging.getLogger("ServerApp").addFilter(lambda record: "To access the server" not in record.getMessage())
        server = app.server_info()
        if port not in (None, 0, server["port"]):
            print(f"Port {port} is not free, so another is taken.")
        print(f"JupyterLab is running at\n    {_address(server, front)}\nCtrl-C here stops it.", flush=True)
        app.start()
    # The server has stopped, and its kernels with it. A request that was under way may have left a thread that waits
    # for its next task; Python would wait for that thread for ever, so the process ends here.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
