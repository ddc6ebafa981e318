"""What the kernels of a warm parent take together, and how they end: without what bounds that, an attack succeeds."""

import asyncio
import contextlib
import os
import select
import signal
import sys
from pathlib import Path

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from autograder.kernels import launch
from tests.redteam.sandboxes import BOTH, STOLEN, Kernel, Parents, attempt

ORDINARY = """
import tempfile
with tempfile.TemporaryFile() as file:
    print("kept", file.write(b"x"))
{}["key"]
"""


@pytest.mark.parametrize("kind", BOTH)
def test_what_notebooks_do_every_day_is_not_noted(parents: Parents, used, tmp_path: Path, kind: str) -> None:
    """An error has Python look for the file of the cell's lines, and a file of a moment is a notebook's own."""
    used(parents.get(kind))

    async def said_and_noted() -> tuple[str, list[str]]:
        async with Kernel(tmp_path) as kernel:
            return await kernel.run(ORDINARY), kernel.manager.provisioner.notes()

    said, noted = asyncio.run(said_and_noted())
    assert "kept 1" in said and "KeyError" in said, said
    assert noted == []


MANY = """
import os, time
r, w = os.pipe()
for _ in range(4):
    if FORKED:
        block = b"x" * 250_000_000
        time.sleep(1)  # a shorter time goes unseen
        os.write(w, b"x")
        time.sleep(30)
        os._exit(0)
os.close(w)
took = 0
while took < 4 and (told := os.read(r, 4)):
    took += len(told)
if took == 4:
    print('STO' 'LEN')
"""


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("forked", ["not os.fork()", "not (os.fork() or os.fork() and os._exit(0))"])
def test_memory_of_many_processes(parents: Parents, used, tmp_path: Path, kind: str, forked: str) -> None:
    """parent.py looks at what a kernel's processes take together; without that, each may take as much as one."""
    for edits in ((), (("parent.py", "                self._kill_over_memory()\n", "                pass\n"),)):
        used(parents.light(kind, *edits))
        said = attempt(tmp_path, MANY.replace("FORKED", forked), limits={"memory_mb": 500})
        assert (STOLEN in said) == bool(edits), said


STARTED = """
import subprocess, sys, time
mine = int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0]) * 1024
block = int(0.8 * mine) - 10_000_000
code = f"import time; block = b'x' * {block}; print(flush=True); time.sleep(30)"
count = 700_000_000 // block + 1
started = [subprocess.Popen([sys.executable, "-S", "-c", code], stdout=subprocess.PIPE) for _ in range(count)]
for one in started: one.stdout.read(1)
time.sleep(1)
for one in started: one.kill()
print('STO' 'LEN', count, block)
"""


@pytest.mark.parametrize("kind", BOTH)
def test_memory_of_programs_that_share_none_with_the_parent(parents: Parents, used, tmp_path: Path, kind: str) -> None:
    """parent.py takes what a kernel inherited off once; taken off each process, programs would have it for nothing."""
    once = "taken = sum(processes.memory(process) for process in each) - self.inherited"
    each = "taken = sum(max(0, processes.memory(process) - self.inherited) for process in each)"
    for edits in ((), (("parent.py", f"            {once}\n", f"            {each}\n"),)):
        used(parents.light(kind, *edits))
        said = attempt(tmp_path, STARTED, limits={"memory_mb": 500, "processes": 60})
        assert (STOLEN in said) == bool(edits), said


@pytest.mark.parametrize("kind", BOTH)
def test_kernels_end_with_their_parent(parents: Parents, used, tmp_path: Path, kind: str) -> None:
    """kill -9 of the parent: in namespaces they go with it, elsewhere by their parent-death signal."""
    line = '    call("prctl", PR_SET_PDEATHSIG, 9, 0, 0, 0)\n'
    variants = [()] if kind == "namespaces" else [(), (("sandbox.py", line, ""),)]
    for edits in variants:
        parent = parents.light(
            kind, ("parent.py", "MAX_NOTES, MAX_NOTE = 100, 300\n", "MAX_NOTES, MAX_NOTE = 99, 300\n"), *edits
        )
        used(parent)

        async def lives(parent: launch.WarmParent = parent) -> bool:
            async with Kernel(tmp_path) as kernel:
                await kernel.run("1")
                process = os.dup(kernel.manager.provisioner._fork.started())
                parent.process.kill()
                parent.process.wait()
                ended, _, _ = select.select([process], [], [], 5)
                if not ended:
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                os.close(process)
                return not ended

        assert asyncio.run(lives()) == bool(edits)


def test_orphans_end_with_their_kernel(parents: Parents, used, tmp_path: Path) -> None:
    """parent.py, where there is no PID namespace: a process in a session of its own is ended with its kernel."""
    mark = f"redteam-orphan-{os.getpid()}"
    code = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60) # {mark}'], start_new_session=True)"
    )

    def orphans() -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if mark.encode() in path.read_bytes():
                    found.append(int(path.parent.name))
        return found

    for edits in ((), (("parent.py", "orphans = children - kernels\n", "orphans = set()\n"),)):
        used(parents.light("landlock", *edits))
        attempt(tmp_path, code)
        attempt(tmp_path, "")  # the parent forks no other kernel before it is done with the first
        left = orphans()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert bool(left) == bool(edits)


USED = """
import os, sys
import matplotlib.pyplot as plt
print("said"); display("shown"); print("said again")
shell = get_ipython()
print(shell.kernel.shell is shell, os.getcwd() == shell.starting_dir, "starting_dir" in In[-1])
print({os.environ["HOME"]} == {shell.home_dir, os.path.dirname(shell.profile_dir.location)}, end="")
print("", sys.modules["__main__"].shell is shell)
plt.plot([0, 1]);
"""
AWAITED = """
import asyncio
await asyncio.sleep(0.01)
print(len(In), _oh, Out is _oh)
"""


def test_a_kernel_is_its_own_although_its_shell_was_made_before_it(parents: Parents, used, tmp_path: Path) -> None:
    used(parents.get("namespaces"))

    async def said() -> str:
        async with Kernel(tmp_path) as kernel:
            return await kernel.run(USED) + await kernel.run(AWAITED)

    assert asyncio.run(said()).splitlines() == [
        "said",
        "'shown'said again",
        "True True True",
        "True True",
        "<Figure size 640x480 with 1 Axes>3 {} True",
    ]


RANDOM = "import random, numpy, torch; print(random.random(), numpy.random.rand(), torch.rand(()).item())"


def test_no_kernel_has_the_random_numbers_of_another(parents: Parents, used, tmp_path: Path) -> None:
    used(parents.get("namespaces"))

    async def said() -> list[str]:
        async with Kernel(tmp_path) as kernel:
            return (await kernel.run(RANDOM)).split()

    one, other = asyncio.run(said()), asyncio.run(said())
    assert len(one) == len(other) == 3 and not {*one} & {*other}


def test_half_of_what_a_kernel_may_write_is_the_students(parents: Parents, used, tmp_path: Path) -> None:
    used(parents.get("namespaces"))
    for name, megabytes in {"fits.bin": 4, "too large.bin": 6}.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(megabytes * 1_000_000)

    async def left_out() -> tuple[str, ...]:
        async with Kernel(tmp_path, {"disk_mb": 10}) as kernel:
            return kernel.manager.provisioner.left_out

    assert asyncio.run(left_out()) == ("too large.bin",)
