"""Malformed words: replies to the judge, messages of a kernel, requests to the warm parent."""

import asyncio
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

import torch
from torch import nn

from autograder import probe
from autograder.exercises import find
from autograder.judge import judge
from autograder.kernels import launch
from tests.redteam import arena, light

ODD = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**400, 1e308),
    *(float("nan"), float("inf"), float("-inf"), "", "x" * 5000, "gamma", "gamma.weight", [], {}, [[]], {"a": 1}),
    *([None], [1, 2, 3], [10**30, 0], [0, 10**9], [5] * 70, [0] * 70, {"$array": 0}, {"$array": -1}),
    *(np.zeros(0), np.zeros(()), np.zeros((2, 3, 7)), np.full((2, 3, 7), np.nan), np.full((2, 3, 7), np.inf)),
    *(np.zeros((2, 3, 7), bool), np.zeros((2, 3, 7), np.int64), np.full(4, 1e308), np.zeros((0, 7))),
]


def changed(value: Any, chance: random.Random, often: float) -> Any:
    """A reply in which pieces are replaced, left out, or there twice."""
    if chance.random() < often:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {key: changed(one, chance, often) for key, one in value.items() if chance.random() > often / 2}
    if isinstance(value, list):
        kept = [changed(one, chance, often) for one in value if chance.random() > often / 4]
        return kept * 2 if chance.random() < often / 4 else kept
    return value


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(1, 8))])
def test_whatever_a_reply_says_there_is_a_verdict(seed: int) -> None:
    space: dict[str, Any] = {"torch": torch, "nn": nn, "Tensor": torch.Tensor}
    exec(arena.ANSWERS["right"]["LayerNorm"], space)
    for number in range(40):
        chance = random.Random(1000 * seed + number)
        often, which = chance.choice([0.002, 0.01, 0.05, 0.2]), chance.choice([b'"describe"', b'"run"', b'"do"'])

        def ask(request: bytes, chance=chance, often=often, which=which) -> bytes:
            reply = probe.answer(request, space["LayerNorm"])
            if which in request:
                try:
                    reply = probe.pack(changed(probe.unpack(reply), chance, often))
                except (ValueError, KeyError):
                    reply = b""
            if chance.random() < 0.1:
                noise = bytearray(reply)
                for _ in range(5 * bool(noise)):
                    noise[chance.randrange(len(noise))] = chance.randrange(256)
                reply = bytes(noise)
            return reply

        verdict = judge(find("LayerNorm"), ask, seed=number)
        assert 0.0 <= verdict.score <= 1.0
        assert "LayerNorm" in verdict.text()
        json.dumps(verdict._repr_mimebundle_())


@pytest.fixture(scope="module")
def parent() -> Iterator[launch.WarmParent]:
    try:
        started = launch.WarmParent()
    except launch.NoIsolation as problem:
        pytest.skip(str(problem))
    yield started
    started.close()


def test_a_busy_machine_is_no_reason_to_isolate_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warm parent that takes too long is given up, and none is tried with Landlock alone in its place."""
    if not shutil.which("bwrap"):
        pytest.skip("there is no bubblewrap")
    start, tried = launch.WarmParent._start, []
    monkeypatch.setattr(launch, "SECONDS", 0.001)
    monkeypatch.setattr(launch.WarmParent, "_start", lambda self: (tried.append(self.kind), start(self)))
    with pytest.raises(launch.NoIsolation, match="this machine is too busy: the same command goes on"):
        launch.WarmParent()
    assert tried == ["namespaces"]


LIMITS = {"memory_mb": 500, "disk_mb": 16, "file_mb": 8, "processes": 32, "cpu_s": 60, "user": launch.NOBODY}


def forked(parent: launch.WarmParent) -> str:
    """Start a kernel in the plain way; what it reports."""
    fork = parent.fork({}, LIMITS)
    try:
        with tempfile.TemporaryFile() as files:
            tarfile.open(fileobj=files, mode="w").close()
            fork.send_submission("k", files)
        assert fork.started()
        fork.report.settimeout(60)
        return fork.report.recv(1 << 16).decode()
    finally:
        fork.discard()


REQUESTS = {
    "not JSON": b"\xff\xfe{",
    "empty object": b"{}",
    "a number": b"7",
    "null": b"null",
    "nested": b"[" * 30_000 + b"]" * 30_000,
    "another folder": json.dumps({"run": "/etc", "limits": {"user": 0}}).encode(),
    "relative": json.dumps({"run": "../../x", "limits": {"user": 65534}}).encode(),
    "no limits": json.dumps({"run": "/run/kx"}).encode(),
    "wrong types": json.dumps({"run": 3, "limits": [], "connection": 1, "environment": 2}).encode(),
    "huge": b'{"run": "' + b"x" * 60_000 + b'"}',
    "zero bytes in a path": json.dumps({"run": "/run/a\0b", "limits": {"user": 65534}}).encode(),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_malformed_request_does_not_end_the_parent(parent: launch.WarmParent, tmp_path: Path, name: str) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    notes, their_notes = os.pipe()
    door = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(parent.control, [REQUESTS[name]], [theirs.fileno(), their_notes, door])
    for descriptor in (their_notes, theirs.detach(), door):
        os.close(descriptor)
    ours.settimeout(20)
    said = b""
    while more := ours.recv(1 << 16):
        said += more
    ours.close()
    os.close(notes)
    assert b"refused" in said or b"failed" in said or b"exit" in said
    assert "ready" in forked(parent)


@pytest.mark.parametrize("count", [0, 1])
def test_a_request_without_its_descriptors(parent: launch.WarmParent, tmp_path: Path, count: int) -> None:
    """The parent may end at that, with all its kernels; it must not go on half."""
    own = launch.WarmParent(parent.kind, light.light(tmp_path))
    try:
        with open(os.devnull, "rb") as one:
            socket.send_fds(own.control, [b"{}"], [one.fileno()][:count])
        try:
            own.process.wait(3)
        except Exception:
            assert "ready" in forked(own)
    finally:
        own.close()


def test_the_parent_ends_with_its_control_socket(parent: launch.WarmParent, tmp_path: Path) -> None:
    own = launch.WarmParent(parent.kind, light.light(tmp_path))
    run = own.run
    own.control.close()
    assert own.process.wait(10) is not None
    own.control = None
    own.close()
    assert not run.exists()


@pytest.mark.parametrize("when", ["before it looks", "while it warms up"])
def test_a_parent_that_warms_up_ends_with_its_control_socket(tmp_path: Path, when: str) -> None:
    """Nothing is left of a grader that is killed, not even for one long import: this one never ends."""
    stuck = "        Path('/proc/self/comm').write_text('stuck')\n        time.sleep(1000)\n"
    parent = light.copied(tmp_path, ("parent.py", light.WARM, stuck)) / "parent.py"
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if when == "before it looks":
        ours.close()
    process = subprocess.Popen([sys.executable, str(parent), "landlock"], stdin=theirs, start_new_session=True)
    theirs.close()
    try:
        if when == "while it warms up":
            while Path(f"/proc/{process.pid}/comm").read_text() != "stuck\n":
                assert process.poll() is None
                time.sleep(0.01)
            ours.close()
        assert process.wait(60) is not None
    finally:
        process.kill()
        process.wait()


def test_what_killed_graders_left_is_removed_and_no_link_is_followed(tmp_path: Path) -> None:
    gone = 2**22 + 1  # no process has this number
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch(mode=0o400)
    left = Path(tempfile.mkdtemp(prefix=f"headroom-{gone}-", dir="/tmp"))
    (left / "inside").mkdir()
    (left / "inside" / "out").symlink_to(kept)
    link = left.with_name(f"{left.name}-link")
    link.symlink_to(kept)
    try:
        launch._sweep()
        launch.remove(link)
        assert not left.exists()
        assert (kept / "file").stat().st_mode & 0o777 == 0o400
    finally:
        link.unlink(missing_ok=True)


def test_what_is_nested_deeper_than_python_follows_is_removed(tmp_path: Path) -> None:
    """The next grader sweeps it away, and must not end over it."""
    top = tmp_path / "kernel"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("x", dir_fd=folder)
        inner = os.open("x", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    launch.remove(top)
    assert not top.exists()


def test_nobody_waits_for_a_kernel_that_never_gets_ready(parent: launch.WarmParent) -> None:
    """Limits that say too little: the kernel says why, in time."""
    fork = parent.fork({}, {"user": 65534, "memory_mb": 100})

    async def hear() -> bytes:
        assert fork.started()
        fork.report.setblocking(False)
        return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(fork.report, 1 << 16), 20)

    assert b"failed" in asyncio.run(hear())
    fork.discard()


def test_a_kernel_is_not_heard_before_its_descriptor_has_come() -> None:
    """However busy the machine: what a kernel says at once was once taken for the warm parent's refusal."""
    code = """
import json, os, socket, sys, time
import parent

sys.modules["numpy"] = None  # so that it fails at once
usual, os.pidfd_open = os.pidfd_open, lambda pid: time.sleep(0.5) or usual(pid)
report, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request = {"run": "", "limits": {"memory_mb": 1}}
socket.send_fds(control, [json.dumps(request).encode()], [os.dup(other_end.fileno())])
parent.Kernels("landlock", asked)._request(asked)
for expected in ("pid", "failed"):
    said, descriptors, _, _ = socket.recv_fds(report, 1 << 16, 1)
    print(expected in json.loads(said), len(descriptors))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(launch.__file__).parent, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.split() == ["True", "1", "True", "0"], ran.stdout + ran.stderr


def test_a_kernel_ahead_of_time_is_used_once_and_only_where_it_fits(parent: launch.WarmParent) -> None:
    parent.prepare({}, LIMITS)
    _, spare = parent._spare
    parent.prepare({}, LIMITS)
    assert parent._spare[1] is spare  # one is enough
    assert parent.kernel({}, LIMITS) is spare
    assert parent._spare == (None, None)
    spare.discard()
    for killed, environment, limits in (
        (False, {"TZ": "UTC"}, LIMITS),
        (False, {}, LIMITS | {"file_mb": 9}),
        (True, {}, LIMITS),
    ):
        parent.prepare({}, LIMITS)
        _, spare = parent._spare
        if killed:
            signal.pidfd_send_signal(spare.started(), signal.SIGKILL)
            select.select([spare.started()], [], [], 10)
        other = parent.kernel(environment, limits)
        assert other is not spare
        assert not spare.folder.exists()
        assert other.started()
        other.discard()


def test_a_kernel_that_nobody_fetches_ends(parent: launch.WarmParent) -> None:
    fork = parent.fork({}, LIMITS)
    process = os.dup(fork.started())
    fork.discard()
    assert select.select([process], [], [], 10)[0]
    os.close(process)


def test_the_parent_lives_on_when_a_kernel_ends_and_is_let_go_of_at_once(parent: launch.WarmParent) -> None:
    process = int(parent.root.split("/")[2]) if parent.root else parent.process.pid
    fork = parent.fork({}, LIMITS)
    assert fork.started()
    os.kill(process, signal.SIGSTOP)
    signal.pidfd_send_signal(fork.started(), signal.SIGKILL)
    assert select.select([fork.started()], [], [], 10)[0]
    fork.discard()
    os.kill(process, signal.SIGCONT)
    assert "ready" in forked(parent)
