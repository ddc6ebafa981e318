"""What a kernel may say in one message, counted over all of its parts, whatever the pieces in which it arrives."""

import random
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
import zmq

if not sys.platform.startswith("linux"):
    pytest.skip("kernels are isolated on Linux only", allow_module_level=True)

from autograder.kernels.provisioner import MAX_WAITING, PromptClient
from autograder.kernels.relay import LONG, MORE, OF_A_PART, Counter, Relay

GREETING = b"\xff" + bytes(8) + b"\x7f\x03" + bytes(53)


def part(size: int, more: bool = False, flags: int = 0) -> bytes:
    flags |= MORE * more
    if size < 256:
        return bytes([flags, size]) + b"x" * size
    return bytes([flags | LONG]) + size.to_bytes(8, "big") + b"x" * size


def fits(most: int, *stream: bytes, seed: int = 0) -> bool:
    """Whether a stream is taken to its end, cut into pieces of any size."""
    counter, chance, data = Counter(most), random.Random(seed), GREETING + b"".join(stream)
    while data:
        cut = chance.choice([1, 2, 7, 100, 5000])
        if not counter.fits(data[:cut]):
            return False
        data = data[cut:]
    return True


def test_few_messages_wait_for_the_grader() -> None:
    """Attack: filling the grader's memory with messages that it has not come to yet."""
    client = PromptClient()
    assert client.context.getsockopt(zmq.RCVHWM) == MAX_WAITING
    client.context.term()


@pytest.mark.parametrize("seed", range(5))
def test_messages_are_counted_one_by_one(seed: int) -> None:
    message = part(10, True) + part(3000, True) + part(0)
    assert fits(3010 + 3 * OF_A_PART, *[message] * 50, seed=seed)
    assert not fits(3009 + 3 * OF_A_PART, *[message] * 50, seed=seed)


@pytest.mark.parametrize("size", [0, 255, 256, 40_000])
def test_parts_are_counted_together(size: int) -> None:
    most = 10 * (size + OF_A_PART)
    assert fits(most, *[part(size, True)] * 9, part(size))
    assert not fits(most, *[part(size, True)] * 10, part(size))


def test_a_part_is_refused_before_it_is_there() -> None:
    counter = Counter(1000)
    assert counter.fits(GREETING)
    assert not counter.fits(bytes([LONG]) + (1 << 40).to_bytes(8, "big"))


@pytest.mark.parametrize("greeting", [b"\x01\x00" * 32, b"\xff" + bytes(8) + b"\x7f\x01" + bytes(53), bytes(64)])
def test_another_version_of_the_protocol_is_refused(greeting: bytes) -> None:
    assert not Counter(1000).fits(greeting)


def test_commands_are_small() -> None:
    assert fits(1, part(100, flags=4), part(5000, flags=4))
    assert not fits(10**6, part(20_000, flags=4))


def test_one_client_comes_through_and_nobody_after_it(tmp_path: Path) -> None:
    refused = threading.Event()
    kernel = socket.socket(socket.AF_UNIX)
    kernel.bind(str(tmp_path / "there-1"))
    kernel.listen()
    relay = Relay(str(tmp_path / "here"), str(tmp_path / "there"), [1], 5000, refused.set)
    theirs, _ = kernel.accept()
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(tmp_path / "here-1"))
    theirs.sendall(GREETING + part(300))
    received = b""
    while len(received) < 64 + 309:
        received += client.recv(1000)
    client.sendall(b"hello")
    assert theirs.recv(5) == b"hello"
    with socket.socket(socket.AF_UNIX) as other, pytest.raises(OSError):
        other.connect(str(tmp_path / "here-1"))
    theirs.sendall(part(6000))
    assert refused.wait(10)
    while client.recv(1000):
        pass
    relay.close()
    for one in (kernel, theirs, client):
        one.close()


def test_a_kernel_that_does_not_listen(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(OSError):
        Relay(str(tmp_path / "here"), str(tmp_path / "there"), [1, 2], 5000, print)
    time.sleep(0.1)
    assert threading.active_count() <= before
