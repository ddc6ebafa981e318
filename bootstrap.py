"""Sets up .venv, the course's own Python environment, or does nothing when it is ready.

    python3 bootstrap.py            what every make target calls first
    python3 bootstrap.py --renew    starts afresh with the newest allowed versions and writes them to constraints.txt

Standard library only, and written so that a Python as old as 2.7 can read it: an old Python must get as far as the
sentence that says it is too old. It can be stopped at any moment and started again. Whatever goes wrong ends in one
sentence; pip's own words are kept in .headroom/setup.log.
"""

from __future__ import print_function

import glob
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import time

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.realpath(__file__))
GB = 1e9
# Written into .venv when it is ready; says for what.
STAMP = "headroom-setup"
# Peak use of a first setup (8.7 GB on Linux, 6.1 GB of it to stay) plus some room. There the usual torch brings CUDA
# along; elsewhere it doesn't, and the figure is an estimate.
NEEDED_GB = {"linux": 10.0}
NEEDED_GB_ELSEWHERE = 3.0
SECONDS_A_LINE = 10

NO_NETWORK = (
    "NewConnectionError",
    "NameResolutionError",
    "ConnectTimeoutError",
    "ReadTimeoutError",
    "ProxyError",
    "Temporary failure in name resolution",
    "Network is unreachable",
    "Connection refused",
    "Failed to establish a new connection",
)
NO_SPACE = ("No space left on device", "Errno 28", "Disk quota exceeded")
NO_BUILD = ("No matching distribution found", "requires a different Python")


class Trouble(Exception):
    """Something the user has to mend. Its message is the one sentence that they get to read."""


def check_python(version, executable):
    """Raise Trouble when `version` (a tuple such as sys.version_info) is older than the course needs."""
    if tuple(version[:2]) < OLDEST:
        raise Trouble(
            "Headroom needs Python %d.%d or newer, and %s is Python %s: install a newer one and name it, as in"
            " `make setup PYTHON=python3.12`." % (OLDEST + (executable, ".".join(str(part) for part in version[:3])))
        )


def check_venv_module(find_spec):
    """Raise Trouble when this Python cannot make environments; `find_spec` is importlib.util.find_spec."""
    missing = [name for name in ("venv", "ensurepip") if find_spec(name) is None]
    if missing:
        raise Trouble(
            "This Python lacks its module %s, so it cannot make an environment: on Debian and Ubuntu install the"
            " package python%d.%d-venv, elsewhere a Python from its own installer."
            % ((missing[0],) + tuple(sys.version_info[:2]))
        )


def check_disk(free_bytes, needed_gb, folder):
    """Raise Trouble when `free_bytes` is less than the setup needs."""
    if free_bytes < needed_gb * GB:
        raise Trouble(
            "The setup needs %.0f GB of free disk space and %s has %.1f GB: make room and run the same command again."
            % (needed_gb, folder, free_bytes / GB)
        )


def explain(log, rest):
    """Return the one sentence for a pip that failed, from what it wrote to its error output."""
    if any(sign in log for sign in NO_SPACE):
        return "The disk is full: make room and run the same command again, it goes on where it stopped."
    if any(sign in log for sign in NO_NETWORK):
        return (
            "The package index cannot be reached: the first setup needs the network, so connect and run the same"
            " command again, it goes on where it stopped."
        )
    if any(sign in log for sign in NO_BUILD):
        return (
            "pip found no build of some package for Python %d.%d on this machine: try another Python from 3.11"
            " on, or see %s." % (tuple(sys.version_info[:2]) + (rest,))
        )
    return "pip could not install the packages: its own words are in %s." % rest


def fingerprint(root):
    """Return a text that changes when the environment in `root` has to be set up again.

    It covers what is installed (the project's tables in pyproject.toml and constraints.txt), the Python that it is
    installed for, and where: scripts in an environment hold absolute paths, so a moved folder needs a new one.
    """
    import tomllib

    with open(os.path.join(root, "pyproject.toml"), "rb") as file:
        project = tomllib.load(file)
    installed = [project["build-system"], project["project"], project["tool"]["setuptools"]]
    pins = ""
    path = os.path.join(root, "constraints.txt")
    if os.path.exists(path):
        with io.open(path, encoding="utf-8") as file:
            pins = file.read()
    text = json.dumps([installed, pins, list(sys.version_info[:3]), os.path.realpath(root)], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def environment_python(root):
    """Return the path of the Python inside the environment of `root`."""
    inside = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(root, ".venv", *inside)


def usable(root):
    """Tell whether the environment of `root` starts, has pip, is of this Python, and was made where it now stands."""
    try:
        said = subprocess.check_output(
            [environment_python(root), "-c", "import sys, pip; print(sys.version_info[:2], sys.prefix)"],
            stderr=subprocess.STDOUT,
        ).decode("utf-8", "replace")
    except (OSError, subprocess.CalledProcessError):
        return False
    folder = os.path.join(root, ".venv")
    return said.strip() == "%s %s" % (tuple(sys.version_info[:2]), folder) and made_here(folder)


def made_here(folder):
    """Tell whether pip's script in the environment `folder` still points into it (a moved folder breaks them all)."""
    if os.name == "nt":
        return True
    try:
        with io.open(os.path.join(folder, "bin", "pip"), encoding="utf-8", errors="replace") as file:
            return folder in file.read(2000)
    except EnvironmentError:
        return False


def drop_half_installed(folder):
    """Remove what an interrupted pip left in the environment `folder`, so that pip installs it again.

    pip writes a package's RECORD last: without it the package may lack files, yet pip would take it for installed.
    """
    removed = []
    for packages in glob.glob(os.path.join(folder, "lib", "python*", "site-packages")) + [
        os.path.join(folder, "Lib", "site-packages")
    ]:
        for path in glob.glob(os.path.join(packages, "*.dist-info")):
            if not os.path.exists(os.path.join(path, "RECORD")):
                removed.append(path)
        removed += glob.glob(os.path.join(packages, "~*"))
    for path in removed:
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)
    return removed


def installed(folder):
    """Return how many packages the environment `folder` holds, and how many bytes they take."""
    packages, size = 0, 0
    for path, _, files in os.walk(folder):
        packages += path.endswith(".dist-info") and "RECORD" in files
        for name in files:
            try:
                size += os.lstat(os.path.join(path, name)).st_size
            except EnvironmentError:  # pip has moved it
                continue
    return packages, size


def count_pins(root):
    """Return how many packages constraints.txt pins for this system, 0 without that file."""
    path = os.path.join(root, "constraints.txt")
    if not os.path.exists(path):
        return 0
    with io.open(path, encoding="utf-8") as file:
        lines = [line for line in file if "==" in line.split(";")[0]]
    return sum(1 for line in lines if "sys_platform" not in line or sys.platform == "linux")


def watch(process, folder, total):
    """Wait for pip and return its exit status; while it writes packages, which it does silently, say how far it is."""
    start, before = time.time(), installed(folder)[1]
    while True:
        try:
            return process.wait(SECONDS_A_LINE)
        except subprocess.TimeoutExpired:
            packages, size = installed(folder)
        if size > before:  # it does not while pip downloads, and shows that itself
            seconds = int(time.time() - start)
            print(
                "  %d%s packages installed, %.1f GB, %d:%02d"
                % (packages, " of about %d" % total if total else "", size / GB, seconds // 60, seconds % 60),
                flush=True,
            )
        before = size


def pip_install(root, arguments, scratch):
    """Run pip inside the environment, its progress on the terminal, its complaints kept in the log."""
    log_path = os.path.join(root, ".headroom", "setup.log")
    variables = dict(os.environ, TMPDIR=scratch, PIP_DISABLE_PIP_VERSION_CHECK="1", PYTHONUTF8="1")
    # Inside the project: the home folder stays untouched, and an interrupted setup finds its downloads again.
    variables.setdefault("PIP_CACHE_DIR", os.path.join(root, ".headroom", "downloads"))
    with open(log_path, "wb") as log:
        process = subprocess.Popen(
            [environment_python(root), "-m", "pip", "install"] + arguments, cwd=root, env=variables, stderr=log
        )
        try:
            code = watch(process, os.path.join(root, ".venv"), count_pins(root))
        except BaseException:  # Ctrl-C has stopped pip as well; it may still be tidying up
            process.wait()
            raise
    if code != 0:
        with io.open(log_path, encoding="utf-8", errors="replace") as log:
            raise Trouble(explain(log.read(), os.path.relpath(log_path, root)))


def pins(frozen):
    """Return the lines of constraints.txt for the output of `pip freeze`: names and versions, nothing else.

    What only exists on Linux gets a marker, so that the file serves other systems too.
    """
    lines = []
    for line in frozen.splitlines():
        name = line.split("==")[0].strip()
        if "==" not in line or name in ("headroom", "pip", "wheel"):
            continue
        only_linux = name.startswith(("nvidia-", "cuda-")) or name == "triton"
        lines.append(line.strip() + (' ; sys_platform == "linux"' if only_linux else ""))
    return lines


def write_constraints(root):
    """Write the exact versions that the environment holds to constraints.txt."""
    frozen = subprocess.check_output([environment_python(root), "-m", "pip", "freeze", "--all", "--exclude-editable"])
    header = [
        "# The whole environment, exactly as the test suite last ran in it. pip reads it as constraints: it says which",
        "# version, never what to install. Written by `make constraints`; don't edit by hand.",
    ]
    with io.open(os.path.join(root, "constraints.txt"), "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(header + pins(frozen.decode("utf-8"))) + "\n")


def ready(root):
    """Tell whether the environment of `root` is set up as pyproject.toml and constraints.txt now ask for."""
    stamp = os.path.join(root, ".venv", STAMP)
    if not os.path.exists(stamp):
        return False
    with open(stamp) as file:
        return file.read() == fingerprint(root) and usable(root)


def wait_for_turn(state):
    """Return an open file that keeps other setups of the same course waiting until it is closed, or until we end."""
    lock = open(os.path.join(state, "setup.lock"), "w")  # noqa: SIM115 - it has to outlive this function
    try:
        import fcntl
    except ImportError:  # Windows, where conda sets up
        return lock
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except EnvironmentError:
        print("Another setup of this course is running: waiting for it ...", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def set_up(root, renew=False):
    """Make the environment of `root` ready; a second call finds it ready and returns at once."""
    if not renew and ready(root):
        return
    state = os.path.join(root, ".headroom")
    if not os.path.isdir(state):
        os.makedirs(state)
    with wait_for_turn(state):
        if renew or not ready(root):
            install(root, state, renew)


def install(root, state, renew):
    """Make or mend the environment and install into it; whatever an interrupted setup left is used again."""
    folder = os.path.join(root, ".venv")
    stamp = os.path.join(folder, STAMP)
    scratch = os.path.join(state, "tmp")
    # Not the system's temporary folder: that one is often a small memory disk, and the wheels are large.
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)

    if os.path.exists(stamp):
        os.remove(stamp)
    if renew or not usable(root):
        needed = NEEDED_GB.get(sys.platform, NEEDED_GB_ELSEWHERE)
        shutil.rmtree(folder, ignore_errors=True)
        check_disk(shutil.disk_usage(root).free, needed, root)
        print("Making the environment in .venv ...", flush=True)
        with open(os.path.join(state, "setup.log"), "wb") as log:
            code = subprocess.call([sys.executable, "-m", "venv", folder], stdout=log, stderr=log)
        if code != 0:
            raise Trouble("Python could not make the environment .venv: its own words are in .headroom/setup.log.")
    else:
        drop_half_installed(folder)
    print("Installing the course's packages (a first setup downloads up to 3 GB on Linux) ...", flush=True)
    pinned = [] if renew or not os.path.exists(os.path.join(root, "constraints.txt")) else ["-c", "constraints.txt"]
    # The constraints cover what `make bench` and `make book` add, so an environment made to write them holds that too.
    # What students get of the course has no tests, and needs nothing for them.
    usual = ".[test]" if os.path.isdir(os.path.join(root, "tests")) else "."
    pip_install(root, pinned + ["-e", ".[test,bench,book]" if renew else usual], scratch)
    if renew:
        write_constraints(root)
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(os.path.join(state, "downloads"), ignore_errors=True)
    with open(stamp, "w") as file:
        file.write(fingerprint(root))
    print("The environment is ready.", flush=True)


def main(arguments):
    """Set up the environment and return the exit status; every failure is one sentence on the error output."""
    try:
        check_python(sys.version_info, sys.executable)
        import importlib.util

        check_venv_module(importlib.util.find_spec)
        set_up(ROOT, renew="--renew" in arguments)
    except Trouble as trouble:
        print("\n" + str(trouble), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped: run the same command again and it goes on where it was.", file=sys.stderr)
        return 130
    except EnvironmentError as error:
        reason = explain(str(error), ".headroom/setup.log") if any(s in str(error) for s in NO_SPACE) else None
        print("\n" + (reason or "The setup stopped because of the file system: %s." % error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
