"""Files that are there as a whole, or not at all."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A file to write to, beside `path`, which takes its place when the block ends.

    What is there stays if the block does not end, as on a full disk, and until then for whoever reads it.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
