"""What the data sets share that torchvision downloads: where they go, how long to wait, plain words when it fails."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.error import URLError

DOWNLOADS = Path(__file__).parent / "downloads"  # git ignores it
PATIENCE = 20.0  # seconds without an answer after which a download counts as refused

Data = TypeVar("Data")


def read_or_download(name: str, folder: Path, files: Sequence[str], read: Callable[[], Data], download: bool) -> Data:
    """Return what `read` returns, or raise an error that says why it cannot, and how to go on.

    Args:
        name: of the data set.
        folder: that holds its files, or shall hold them.
        files: their names.
        read: reads them, through torchvision, and downloads them first if `download` is True.
        download: whether missing files may be downloaded.

    Raises:
        ConnectionError: files are missing and cannot be downloaded.
        FileNotFoundError: files are missing and `download` is False.
        ValueError: the files are there but damaged.
    """

    def missing() -> bool:
        return not all((folder / file).is_file() for file in files)

    instead = "Go on with embedded_digits(), which needs no network"
    go_on = f"{instead}, or put {', '.join(files)} (unpacked) into {folder}"
    if not download and missing():
        raise FileNotFoundError(f"{name} is not in {folder}, and download=False. {go_on}")
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)  # torchvision itself would wait for ever
    try:
        return read()
    except (AssertionError, KeyError, RuntimeError, TypeError, ValueError, URLError, OSError) as error:
        if not missing():
            raise ValueError(
                f"{name}'s files in {folder} are damaged: delete that folder and fetch them again"
            ) from error
        if isinstance(error, RuntimeError | URLError | ConnectionError | TimeoutError):
            raise ConnectionError(f"{name} cannot be downloaded: is this machine offline? {go_on}") from error
        raise  # a full disk or a folder without write permission says so itself
    finally:
        socket.setdefaulttimeout(before)
