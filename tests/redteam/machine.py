"""Runs a command in a mount namespace of its own, maybe as an ordinary user, and says what it leaves behind.

Where root runs the tests, /tmp and /dev/shm are empty ones that nobody else uses: whatever is found in them afterwards
was left by the command. Without root the machine's own are compared, before and after, by the names that the grader and
the attacks use.
"""

import contextlib
import ctypes
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = sys.platform.startswith("linux") and os.geteuid() == 0
ORDINARY = 12345
WATCHED = ("/tmp", "/dev/shm", "/var/tmp", "/run")
OURS = ("headroom-", "redteam")  # how what a grader or an attack makes in a folder that everybody uses is called

# Arguments: the user, the folders to be kept, "--", the folders to be empty, "--", the command. The kept ones are moved
# back into the emptied ones, so that an ordinary user gets at a Python that lies in root's home folder.
NAMESPACE = r"""
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /mnt
user=$1; shift
kept=(); hidden=()
while [ "$1" != -- ]; do kept+=("$1"); shift; done; shift
while [ "$1" != -- ]; do hidden+=("$1"); shift; done; shift
for i in "${!kept[@]}"; do
    if [ -d "${kept[$i]}" ]; then mkdir "/mnt/$i"; else touch "/mnt/$i"; fi
    mount --rbind "${kept[$i]}" "/mnt/$i"
done
for path in "${hidden[@]}"; do
    mode=755; case "$path" in /tmp|/var/tmp|/dev/shm) mode=1777;; esac
    mount -t tmpfs -o "mode=$mode" tmpfs "$path"
done
for i in "${!kept[@]}"; do
    if [ -d "/mnt/$i" ]; then mkdir -p "${kept[$i]}"; else mkdir -p "$(dirname "${kept[$i]}")"; touch "${kept[$i]}"; fi
    mount --move "/mnt/$i" "${kept[$i]}"
done
umount /mnt
cd /
if [ "$user" = 0 ]; then exec "$@"; fi
exec setpriv "--reuid=$user" "--regid=$user" --clear-groups "$@"
"""


@dataclass
class Left:
    """How a command ended, and what was there afterwards that had not been before."""

    status: int | None
    processes: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def nothing(self) -> bool:
        return not (self.processes or self.files or self.sockets)


@functools.cache
def why_not_another_user() -> str:
    """Why the ordinary-user half cannot be done here; empty if it can."""
    if not ROOT:
        return "the tests run as an ordinary user anyway"
    if not (shutil.which("unshare") and shutil.which("setpriv")):
        return "there is no unshare or no setpriv"
    done = subprocess.run(_in_namespace(["true"], [], ORDINARY), capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"a mount namespace as another user: {done.stderr.strip()[:200]}"


@functools.cache
def _namespaces() -> bool:
    return (
        bool(ROOT and shutil.which("unshare") and shutil.which("setpriv"))
        and not subprocess.run(_in_namespace(["true"], [], 0), capture_output=True, check=False).returncode
    )


def small_disk_possible() -> bool:
    return _namespaces()


def _in_namespace(command: list[str], keep: list[Path], user: int) -> list[str]:
    needed = [Path(sys.base_prefix), Path(sys.prefix), Path(sysconfig.get_path("stdlib")), Path(__file__).parents[2]]
    hidden = {Path("/tmp"), Path("/dev/shm"), Path("/var/tmp")}
    if user:
        closed = [[folder for folder in path.parents if not folder.stat().st_mode & 0o001] for path in needed]
        hidden |= {folders[-1] for folders in closed if folders}
    kept = [path for path in (*needed, *keep) if any(path.is_relative_to(folder) for folder in hidden)]
    kept = [path for path in dict.fromkeys(kept) if not any(other in path.parents for other in kept)]
    head = ["unshare", "--mount", "bash", "-c", NAMESPACE, "namespace", str(user)]
    return [*head, *map(str, kept), "--", *map(str, sorted(hidden)), "--", *command]


def run(
    command: list[str],
    course: Path,
    environment: dict[str, str],
    user: int = 0,
    kill_when: str = "",
    again: bool = False,
    free_mb: float | None = None,
    seconds: float = 900.0,
) -> list[Left]:
    """Run a command in the course folder and look at what is left afterwards.

    Args:
        user: who to be, where root runs the tests; 0 is whoever runs them.
        kill_when: a Python expression of `course`; as soon as it is true every process of the grader is killed.
        again: after that, run the command once more.
        free_mb: what the course folder's disk has left the first time; needs `small_disk_possible()`.

    Returns:
        one `Left` for each time that the command ran.
    """
    report = course.parent / f"{course.name}-left.json"
    report.unlink(missing_ok=True)
    task = {
        "command": command,
        "environment": environment,
        "course": str(course),
        "report": str(report),
        "kill_when": kill_when,
        "again": again,
        "private": _namespaces(),
        "free_mb": free_mb,
        "seconds": seconds,
    }
    line = [sys.executable, str(Path(__file__)), json.dumps(task)]
    if _namespaces():
        line = _in_namespace(line, [course.parent], user)
    if user:
        for path in (course.parent, *course.parent.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)
    subprocess.run(line, cwd="/", check=True, timeout=2 * seconds + 60)
    return [Left(**left) for left in json.loads(report.read_text())]


# --- What follows runs as the watching process itself ------------------------------------------------------------


def _children() -> dict[int, str]:
    """All descendants of this process, which orphans come back to, with their command lines."""
    found: dict[int, str] = {}
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        try:
            children = [
                int(child)
                for path in Path(f"/proc/{pid}/task").glob("*/children")
                for child in path.read_text().split()
            ]
        except OSError:  # it ended meanwhile
            continue
        for child in children:
            with contextlib.suppress(OSError):
                waiting.append(child)
                found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")[:300]
    return found


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _files(private: bool) -> set[str]:
    found = set()
    for top in WATCHED:
        for folder, folders, files in os.walk(top):
            folders[:] = [name for name in folders if not os.path.ismount(os.path.join(folder, name))]
            if not private or top == "/run":
                folders[:] = [name for name in folders if name.startswith(OURS)] if folder == top else folders
                files = [name for name in files if name.startswith(OURS)]
            found |= {os.path.join(folder, name) for name in (*folders, *files)}
    for folder, folders, _ in os.walk("/sys/fs/cgroup"):
        found |= {os.path.join(folder, name) for name in folders if name.startswith(OURS)}
    return found


def _sockets(folders: set[str]) -> set[str]:
    lines = Path("/proc/net/unix").read_text().splitlines()
    return {line.split()[-1] for line in lines if any(name in line for name in ("redteam", *folders))}


def _watch(task: dict) -> list[dict]:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # a child subreaper: nothing that is started below gets out of sight
    course = Path(task["course"])
    copy = course.parent / f"{course.name}-elsewhere"
    if task["free_mb"] is not None:
        shutil.copytree(course, copy, symlinks=True)
        used = sum(path.stat().st_size // 4096 + 1 for path in course.rglob("*")) * 4
        size = f"size={used + int(task['free_mb'] * 1024)}k"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(course)], check=True)
        shutil.copytree(copy, course, symlinks=True, dirs_exist_ok=True)
    results = []
    before = _files(task["private"])
    folders = set()  # of graders, as they come and go
    for round_ in range(2 if task["again"] else 1):
        start = time.monotonic()
        if round_ and task["free_mb"] is not None:
            subprocess.run(["mount", "-o", "remount,size=1g", str(course)], check=True)
        log = (course.parent / f"{course.name}-log-{round_}.txt").open("w")
        process = subprocess.Popen(
            task["command"], cwd=course, env=task["environment"], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        condition: Callable[[], bool] = lambda: False  # noqa: E731
        if task["kill_when"] and not round_:
            condition = lambda: eval(task["kill_when"], {"course": course, "Path": Path})  # noqa: E731
        while process.poll() is None:
            if condition() or time.monotonic() - start > task["seconds"]:
                for pid, line in _children().items():
                    if "-m autograder" in line or "-m nbgrader" in line:
                        os.kill(pid, signal.SIGKILL)
                process.wait()
                break
            folders |= {str(path) for path in Path("/tmp").glob("headroom-*")} if task["private"] else set()
            time.sleep(0.05)
        taken = time.monotonic() - start
        for _ in range(50):
            _reap()
            if not _children():
                break
            time.sleep(0.1)
        left = _children()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        results.append(
            {
                "status": process.returncode,
                "processes": sorted(left.values()),
                "files": sorted(_files(task["private"]) - before),
                "sockets": sorted(_sockets(folders)),
                "seconds": taken,
            }
        )
    if task["free_mb"] is not None:
        shutil.rmtree(copy)
        shutil.copytree(course, copy, symlinks=True)
        subprocess.run(["umount", "--lazy", str(course)], check=True)
        shutil.rmtree(course)
        copy.rename(course)
    return results


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    Path(asked["report"]).write_text(json.dumps(_watch(asked)))
