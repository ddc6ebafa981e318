"""What a kernel in the sandbox prints to."""

from ipykernel.iostream import OutStream

MAX_PIECE = 1_000_000  # characters; six bytes each at most, so a message stays far below provisioner.MAX_MESSAGE


class StreamInPieces(OutStream):
    """An output stream whose messages are never larger than the grader's socket takes.

    IPython sends everything that was printed within 0.2 s as one message. A loop that prints without end makes one of
    more than 32 MB on a fast machine: ZeroMQ would drop the connection, and the grader would see no output at all.
    """

    _unsent = 0  # characters since the last message, at most
    _last: object = None  # marks what was written last
    _flushed: object = None  # marks what is known to have gone

    def write(self, string: str) -> int:
        for start in range(0, len(string), MAX_PIECE):
            piece = string[start : start + MAX_PIECE]
            self._unsent += len(piece)
            super().write(piece)
            self._last = object()
            if self._unsent >= MAX_PIECE:
                self._unsent = 0
                self.flush()
        return len(string)

    def flush(self) -> None:
        """As IPython's, which waits for another thread, several times for each cell, whether it printed or not."""
        last = self._last
        if last is not self._flushed:
            super().flush()
            self._flushed = last
