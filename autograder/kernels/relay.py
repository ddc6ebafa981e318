"""Carries bytes between a kernel's channels and the grader's client, and counts what one message takes.

ZeroMQ bounds each part of a message but not their number, and when a connection breaks it looks the path up again,
which the kernel's code may meanwhile have made a link to any socket of the machine. So the grader's client connects to
sockets of the grader's own, and each of the kernel's is connected to once, before the first of the student's lines.
"""

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterable

PIECE = 1 << 18
GREETING = 64  # bytes that open a connection, in version 3 of ZeroMQ's protocol (https://rfc.zeromq.org/spec/23/)
MORE, LONG, COMMAND = 1, 2, 4
OF_A_PART = 1000  # bytes that a part takes besides its own
MAX_COMMAND = 10_000


class Counter:
    """Follows the parts of messages in a stream of bytes, and refuses one that is too large before it is there.

    Args:
        most: bytes of a message, its parts together.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._head, self._wanted = bytearray(), GREETING
        self._greeted = False
        self._left = 0  # of the present part
        self._message = 0  # bytes of the message so far

    def fits(self, data: bytes) -> bool:
        """Whether the stream may go on with these bytes."""
        at = 0
        while at < len(data):
            if self._left:
                step = min(self._left, len(data) - at)
                self._left, at = self._left - step, at + step
                continue
            step = min(self._wanted - len(self._head), len(data) - at)
            self._head += data[at : at + step]
            at += step
            if len(self._head) == self._wanted and not self._read_head():
                return False
        return True

    def _read_head(self) -> bool:
        head = self._head
        if not self._greeted:
            self._greeted = head[0] == 0xFF and head[9] == 0x7F and head[10] >= 3
            self._head, self._wanted = bytearray(), 1
            return self._greeted
        if self._wanted == 1:  # how long a length follows is known only now
            self._wanted = 9 if head[0] & LONG else 2
            return True
        self._left = int.from_bytes(head[1:], "big")
        self._head, self._wanted = bytearray(), 1
        if head[0] & COMMAND:
            return self._left <= MAX_COMMAND
        self._message += self._left + OF_A_PART
        fits = self._message <= self.most
        if not head[0] & MORE:
            self._message = 0
        return fits


class Relay:
    """The way between a kernel and a client, for one connection to each channel.

    Args:
        here: where the client connects, followed by a minus and the number of a channel; nothing else may get there.
        there: where the kernel listens, likewise.
        numbers: of the channels.
        most: bytes of one message of the kernel's.
        refused: called when a message is larger; the channel is closed then.

    Raises:
        OSError: the kernel does not listen.
    """

    def __init__(self, here: str, there: str, numbers: Iterable[int], most: int, refused: Callable[[], None]) -> None:
        self._most, self._refused = most, refused
        self._sockets: list[socket.socket] = []
        pairs = []
        try:
            for number in numbers:
                kernel, listener = (self._keep(socket.socket(socket.AF_UNIX)) for _ in range(2))
                kernel.settimeout(10)
                kernel.connect(f"{there}-{number}")
                kernel.settimeout(None)
                with contextlib.suppress(FileNotFoundError):  # of the kernel in whose place this one comes
                    os.unlink(f"{here}-{number}")
                listener.bind(f"{here}-{number}")
                listener.listen(1)
                pairs.append((listener, kernel))
        except OSError:
            self.close()
            raise
        for pair in pairs:
            threading.Thread(target=self._serve, args=pair, daemon=True).start()

    def _keep(self, opened: socket.socket) -> socket.socket:
        self._sockets.append(opened)
        return opened

    def _serve(self, listener: socket.socket, kernel: socket.socket) -> None:
        """Wait for the client; then carry what it says, and in a second thread what the kernel says."""
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            self._keep(client)
            where = listener.getsockname()
            listener.close()
            os.unlink(where)  # nobody else comes
            threading.Thread(target=self._carry, args=(kernel, client, Counter(self._most)), daemon=True).start()
            self._carry(client, kernel, None)

    def _carry(self, source: socket.socket, target: socket.socket, counter: Counter | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE):
                if counter is not None and not counter.fits(data):
                    self._refused()
                    break
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections; the threads end by it."""
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
