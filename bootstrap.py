"""Sets up .venv, the course's own Python environment, or does nothing when it is ready.

    python3 bootstrap.py            what a student needs; every make target calls it first
    python3 bootstrap.py test       and an extra of pyproject.toml (test, grade, bench, book); several can be named
    python3 bootstrap.py --renew    starts afresh with the newest allowed versions and writes them to constraints.txt
    python3 bootstrap.py --doctor   says what is wrong with the installation, and changes nothing
    python3 bootstrap.py --here     makes no .venv: installs what notebooks need and the Python that runs this lacks, as
                                    in Colab; as `%run bootstrap.py --here` in a notebook, also makes them importable

Packages come by uv, which pip puts into .venv first. It is quick, and finds the build of PyTorch for the machine:
without a GPU the one for the processor, which is far smaller than the usual one. Where the index of these builds cannot
be reached, the usual one comes; where uv is not to be had or reaches no index, pip brings all. Another build is named
as in `make setup UV_TORCH_BACKEND=cpu`; uv's --torch-backend says which there are.

Standard library only, and written so that a Python as old as 2.7 can read it: an old Python must get as far as the
sentence that says it is too old. It can be stopped at any moment and started again. Whatever goes wrong ends in one
sentence; the installers' own words are kept in .headroom/setup.log.
"""

from __future__ import print_function

import csv
import glob
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.realpath(__file__))
GB = 1e9
# Written into .venv when it is ready, one for what all need and one for each extra; says for what.
STAMP = "headroom-setup"
# Peak use of a first setup, and room for half a gigabyte more. On Linux the usual PyTorch brings CUDA along, and pip
# keeps what it has downloaded beside what it makes of it. The other systems' figure is an estimate.
NEEDED_GB = {"processor": 2.0, "usual": 7.0, "pip": 10.0}
NEEDED_GB_ELSEWHERE = 3.0
EXTRAS_GB = 1.0
TORCH = ["torch", "torchvision"]
EXTRAS = ["test", "bench", "book"]
SECONDS_A_LINE = 5
# What shows notebooks, or grades them: where they are shown already, it stays as it is.
NOT_HERE = ("jupyterlab", "nbgrader", "pyseccomp")

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
    "dns error",
    "client error (Connect)",
    "operation timed out",
)
NO_SPACE = ("No space left on device", "Errno 28", "os error 28", "Disk quota exceeded")
NO_BUILD = ("No matching distribution found", "requires a different Python", "No solution found")


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
    """Return the one sentence for an installer that failed, from what it wrote to its error output."""
    if any(sign in log for sign in NO_SPACE):
        return "The disk is full: make room and run the same command again, it goes on where it stopped."
    if any(sign in log for sign in NO_NETWORK):
        return (
            "The package index cannot be reached: the first setup needs the network, so connect and run the same"
            " command again, it goes on where it stopped."
        )
    if any(sign in log for sign in NO_BUILD):
        return (
            "There is no build of some package for Python %d.%d on this machine: try another Python from 3.11"
            " on, or see %s." % (tuple(sys.version_info[:2]) + (rest,))
        )
    return "The packages could not be installed: the installer's own words are in %s." % rest


def pyproject(root):
    """Return the tables of the pyproject.toml in `root`."""
    import tomllib

    with open(os.path.join(root, "pyproject.toml"), "rb") as file:
        return tomllib.load(file)


def fingerprint(root):
    """Return a text that changes when the environment in `root` has to be set up again.

    It covers what is installed (the project's tables in pyproject.toml and constraints.txt), the Python that it is
    installed for, and where: scripts in an environment hold absolute paths, so a moved folder needs a new one.
    """
    project = pyproject(root)
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
    folder, script = os.path.join(root, ".venv"), ""
    try:
        said = subprocess.check_output(
            [environment_python(root), "-c", "import sys, pip; print(sys.version_info[:2], sys.prefix)"],
            stderr=subprocess.STDOUT,
        ).decode("utf-8", "replace")
        if os.name != "nt":  # a script begins with the path of its Python, which a moved folder breaks
            with io.open(os.path.join(folder, "bin", "pip"), encoding="utf-8", errors="replace") as file:
                script = file.read(2000)
    except (EnvironmentError, subprocess.CalledProcessError):
        return False
    here = os.name == "nt" or folder in script
    return here and said.strip() == "%s %s" % (tuple(sys.version_info[:2]), folder)


def half_installed(folder):
    """Return what an interrupted installer left in the environment `folder`, as paths.

    A package may lack its RECORD, which pip writes last, or a file that its RECORD lists, as after uv was stopped.
    Either installer would take it for installed.
    """
    found = []
    for packages in glob.glob(os.path.join(folder, "lib", "python*", "site-packages")) + [
        os.path.join(folder, "Lib", "site-packages")
    ]:
        for path in glob.glob(os.path.join(packages, "*.dist-info")):
            try:
                with io.open(os.path.join(path, "RECORD"), encoding="utf-8", newline="") as file:
                    listed = [row[0] for row in csv.reader(file) if row and not row[0].endswith(".pyc")]
            except EnvironmentError:
                found.append(path)
                continue
            if not all(os.path.lexists(os.path.join(packages, name)) for name in listed):
                found.append(path)
        found += glob.glob(os.path.join(packages, "~*"))
    return found


def drop_half_installed(folder):
    """Remove what an interrupted installer left in the environment `folder`, so that it is installed again."""
    for path in half_installed(folder):
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.remove(path)


def installed(folder):
    """Return how many packages the environment `folder` holds, and how many bytes they take."""
    packages, size = 0, 0
    for path, _, files in os.walk(folder):
        packages += path.endswith(".dist-info") and "RECORD" in files and "_vendor" not in path
        for name in files:
            try:
                size += os.lstat(os.path.join(path, name)).st_size
            except EnvironmentError:  # pip has moved it
                continue
    return packages, size


def words(log_path):
    """Return what an installer has written to its log."""
    with io.open(log_path, encoding="utf-8", errors="replace") as log:
        return log.read()


def watch(process, folder, log_path):
    """Wait for an installer and return its exit status; while `folder` grows, say how far it is."""
    start, before = time.time(), installed(folder)[1]
    while True:
        try:
            return process.wait(SECONDS_A_LINE)
        except subprocess.TimeoutExpired:
            packages, size = installed(folder)
        log, line = words(log_path), ""
        if size > before and packages:
            total = re.search(r"Resolved (\d+) packages", log)  # uv says so
            of_all = " of %s" % total.group(1) if total and packages <= int(total.group(1)) else ""
            line = "%d%s packages, %.1f GB" % (packages, of_all, size / GB)
        elif "Prepared" in log:  # uv has them all
            line = "putting them in place"
        if line:
            seconds = int(time.time() - start)
            print("  %s, %d:%02d" % (line, seconds // 60, seconds % 60), flush=True)
        before = size


class Installers(object):
    """pip and uv inside the environment of `root`; their progress is shown, their words are kept in the log."""

    def __init__(self, root, scratch):
        self.root = root
        self.folder = os.path.join(root, ".venv")
        self.log_path = os.path.join(root, ".headroom", "setup.log")
        self.variables = dict(os.environ, TMPDIR=scratch, PIP_DISABLE_PIP_VERSION_CHECK="1", PYTHONUTF8="1")
        # Inside the project: the home folder stays untouched, and an interrupted setup finds its downloads again.
        self.downloads = os.path.join(root, ".headroom", "downloads")
        for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR"):
            self.variables.setdefault(name, self.downloads)

    def run(self, arguments, folder=None, **more):
        """Run a module of the environment and return its exit status; `folder` is to be watched meanwhile."""
        with open(self.log_path, "wb") as log:
            command = [environment_python(self.root), "-m"] + arguments
            process = subprocess.Popen(command, cwd=self.root, env=dict(self.variables, **more), stderr=log)
            try:
                return process.wait() if folder is None else watch(process, folder, self.log_path)
            except BaseException:  # Ctrl-C has stopped it as well; it may still be tidying up
                process.wait()
                raise

    def said(self, signs):
        """Tell whether the last one that ran said one of `signs`."""
        log = words(self.log_path)
        return any(sign in log for sign in signs)

    def trouble(self):
        """Return the Trouble that the last one was in."""
        return Trouble(explain(words(self.log_path), os.path.relpath(self.log_path, self.root)))

    def uv(self, arguments, **more):
        """Run `uv pip install`, as `run` does."""
        into = ["--python", environment_python(self.root)]
        return self.run(["uv", "pip", "install"] + into + arguments, **more)

    def bring_uv(self, pinned):
        """Have pip install uv, and tell whether it could."""
        if self.run(["pip", "install", "--quiet", "--only-binary", ":all:"] + pinned + ["uv"]) != 0:
            if self.said(NO_NETWORK + NO_SPACE):
                raise self.trouble()
            return False
        # Who has told pip of an index in PyPI's place means it.
        told = subprocess.check_output([environment_python(self.root), "-m", "pip", "config", "list"])
        index = re.findall(r"\.index-url='(.+)'", told.decode("utf-8", "replace"))
        if index:
            self.variables.setdefault("UV_DEFAULT_INDEX", index[-1])
        return True

    def choose_torch(self, pinned):
        """Return uv's options for the build of PyTorch that suits this machine, and its name in NEEDED_GB; say which.

        The name is None where PyTorch is there already.
        """
        chosen = os.environ.get("UV_TORCH_BACKEND", "auto")
        for backend in [chosen, "cpu"]:  # where a GPU's driver is too old for this version of PyTorch
            option = ["--torch-backend", backend]
            if self.uv(["--dry-run", "--no-deps"] + pinned + option + TORCH, UV_HTTP_RETRIES="0") == 0:
                new = re.search(r"^ \+ torch(?:vision)?==[^\s+]+\+?(\S*)", words(self.log_path), re.MULTILINE)
                if not new:
                    return [], None
                build = new.group(1)
                if build == "cpu":
                    print("PyTorch: the build for the processor%s." % (", as there is no GPU" * (backend == "auto")))
                    return option, "processor"
                print("PyTorch: the %s." % ("build for this GPU, " + build if build else "usual build"))
                return option, "usual"
            if self.said(NO_NETWORK):
                break
        print("PyTorch: the usual build (6 GB, not 1.2), as the index of the one for the processor cannot be reached.")
        return [], "usual"

    def bring(self, pinned, target, check):
        """Install `target`, such as ".[test]", by uv, else pip, or raise Trouble; `check` gets what came, by name."""
        if self.bring_uv(pinned):
            options, build = self.choose_torch(pinned)
            if build:
                check(build)
            inside = self.variables["UV_CACHE_DIR"] == self.downloads
            if self.uv(options + pinned + ["-e", target], folder=self.downloads if inside else self.folder) == 0:
                return
            if not self.said(NO_NETWORK):
                raise self.trouble()
        print("pip installs, which takes longer: uv could not.", flush=True)
        check("pip")
        if self.run(["pip", "install"] + pinned + ["-e", target], folder=self.folder) != 0:
            raise self.trouble()


def write_constraints(root):
    """Write the exact versions that the environment holds to constraints.txt: names and versions, nothing else.

    Each build of PyTorch pins what it needs of CUDA by itself, and differently: that is left out, as is the build.
    """
    frozen = subprocess.check_output([environment_python(root), "-m", "pip", "freeze", "--all", "--exclude-editable"])
    left_out = "(?:headroom|pip|wheel|triton)==|nvidia-|cuda-"
    lines = [
        "# The environment as the test suite last ran in it, but for what PyTorch brings of CUDA. As constraints, it",
        "# says which version, never what to install. Written by `make constraints`; don't edit by hand.",
    ] + re.findall(r"^(?!%s)(?:\S+?==[^\s+]+)" % left_out, frozen.decode("utf-8"), re.MULTILINE)
    with io.open(os.path.join(root, "constraints.txt"), "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(lines) + "\n")


def with_named(root, extras):
    """Return `extras` and those that they name in turn, such as `grade` for `headroom[grade]`, sorted."""
    project = pyproject(root)["project"]
    known, found, ahead = project.get("optional-dependencies", {}), set(), list(extras)
    while ahead:
        extra = ahead.pop()
        if extra not in known:
            raise Trouble("There is no extra %s in pyproject.toml: it has %s." % (extra, ", ".join(sorted(known))))
        if extra not in found:
            found.add(extra)
            ahead += [
                line[len(project["name"]) + 1 : -1] for line in known[extra] if line.startswith(project["name"] + "[")
            ]
    return sorted(found)


def stamp(root, extra=""):
    """Return the path of the file that says for what `extra` is installed; "" is what all need."""
    return os.path.join(root, ".venv", STAMP + ("-" + extra if extra else ""))


def up_to_date(root, extra=""):
    """Tell whether `extra` was installed as pyproject.toml and constraints.txt now ask for."""
    if not os.path.exists(stamp(root, extra)):
        return False
    with open(stamp(root, extra)) as file:
        return file.read() == fingerprint(root)


def ready(root, extras=()):
    """Tell whether the environment of `root` is set up, with these extras."""
    return all(up_to_date(root, extra) for extra in ("",) + tuple(extras)) and usable(root)


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


def set_up(root, extras=(), renew=False):
    """Make the environment of `root` ready; a second call finds it ready and returns at once."""
    extras = with_named(root, extras)
    if not renew and ready(root, extras):
        return
    state = os.path.join(root, ".headroom")
    if not os.path.isdir(state):
        os.makedirs(state)
    with wait_for_turn(state):
        if renew or not ready(root, extras):
            install(root, state, extras, renew)


def install(root, state, extras, renew):
    """Make or mend the environment and install into it; whatever an interrupted setup left is used again."""
    folder = os.path.join(root, ".venv")
    scratch = os.path.join(state, "tmp")
    # Not the system's temporary folder: that one is often a small memory disk, and the wheels are large.
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    fresh = renew or not usable(root)

    def check(build):
        """Check for room: when all is still to come, and more surely once it is known what."""
        if fresh:
            needed = NEEDED_GB[build] if sys.platform == "linux" else NEEDED_GB_ELSEWHERE
            check_disk(shutil.disk_usage(root).free, needed + (EXTRAS_GB if extras else 0), root)

    before = [path for path in glob.glob(stamp(root) + "*") if up_to_date(root, path[len(stamp(root)) + 1 :])]
    for path in glob.glob(stamp(root) + "*"):
        os.remove(path)
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
        check("processor")
        print("Making the environment in .venv ...", flush=True)
        with open(os.path.join(state, "setup.log"), "wb") as log:
            code = subprocess.call([sys.executable, "-m", "venv", folder], stdout=log, stderr=log)
        if code != 0:
            raise Trouble("Python could not make the environment .venv: its own words are in .headroom/setup.log.")
    else:
        drop_half_installed(folder)
    # By the course's own package.json, Node.js would misread the yarn that JupyterLab starts with.
    with open(os.path.join(folder, "package.json"), "w") as file:
        file.write("{}\n")
    what = "the course's packages" + (", with those for: " + ", ".join(extras) if extras else "")
    print("Installing %s ..." % what, flush=True)
    pinned = [] if renew or not os.path.exists(os.path.join(root, "constraints.txt")) else ["-c", "constraints.txt"]
    Installers(root, scratch).bring(pinned, ".[%s]" % ",".join(extras) if extras else ".", check)
    if renew:
        write_constraints(root)
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.rmtree(os.path.join(state, "downloads"), ignore_errors=True)
    for path in {stamp(root, extra) for extra in [""] + extras}.union([] if fresh else before):
        with open(path, "w") as file:
            file.write(fingerprint(root))
    print("The environment is ready.", flush=True)


def install_here(root):
    """Install into the Python that runs this what notebooks need and it lacks; return pip's exit status."""
    needed = pyproject(root)["project"]["dependencies"]
    needed = [line for line in needed if re.split("[^a-z-]", line)[0] not in NOT_HERE]
    sys.path.insert(0, root)  # even if it is there already: %run takes one away at its end
    # What is there and new enough is left as it is.
    return subprocess.call([sys.executable, "-m", "pip", "install", "--quiet"] + needed)


def examine(root):
    """Say what is wrong with the installation in `root`, by the environment's Python where it starts; return 0 or 1."""
    python = environment_python(root)
    try:
        subprocess.check_output([python, "-c", ""], stderr=subprocess.STDOUT)
    except (OSError, subprocess.CalledProcessError):
        python = sys.executable
    return subprocess.call([python, "-m", "headroom", "doctor"], cwd=root)


def main(arguments):
    """Do what the arguments ask for and return the exit status; every failure is one sentence on the error output."""
    try:
        check_python(sys.version_info, sys.executable)
        if "--doctor" in arguments:
            return examine(ROOT)
        if "--here" in arguments:
            return install_here(ROOT)
        import importlib.util

        check_venv_module(importlib.util.find_spec)
        renew = "--renew" in arguments
        # The constraints cover all extras, so an environment made to write them holds them all.
        set_up(ROOT, EXTRAS if renew else [name for name in arguments if not name.startswith("-")], renew)
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
