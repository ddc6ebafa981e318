"""Handwritten digits: 10,000 beside this file, all 70,000 through torchvision.

MNIST: LeCun, Cortes & Burges, http://yann.lecun.com/exdb/mnist/; provenance and licence in `README.md`.
"""

import hashlib
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

import numpy as np
import torch
from torch import Tensor

FOLDER = Path(__file__).parent
EMBEDDED = FOLDER / "mnist_10000.npz"
# Of the images' bytes followed by the labels' bytes, in MNIST's order: the first 10,000 training digits.
EMBEDDED_SHA256 = "2e49afdffc567fd5f9f306a04e2bafced2432146ae04f4b9a58b25505ba05b2e"
DOWNLOADS = FOLDER / "downloads"
RAW_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
PATIENCE = 20.0  # seconds without an answer after which a download counts as refused


@dataclass(frozen=True)
class Digits:
    """Digits to train on and digits held out to validate on.

    Images are float32 in [0, 1], ink 1 on paper 0, `(n, 1, 28, 28)`; labels are int64 0 … 9, `(n,)`.
    """

    train_images: Tensor
    train_labels: Tensor
    val_images: Tensor
    val_labels: Tensor


@dataclass(frozen=True)
class FullDigits(Digits):
    """All of MNIST: its 60,000 training digits, a tenth of them held out to validate on, and its 10,000 test digits."""

    test_images: Tensor
    test_labels: Tensor


def embedded_digits() -> Digits:
    """The first 10,000 MNIST training digits: 9,000 to train on, 1,000 to validate on. No network, always the same.

    What a model reaches on the 1,000 is its *validation* accuracy; *test* is the word for MNIST's official test digits.
    """
    with np.load(EMBEDDED) as stored:
        images, labels = torch.from_numpy(stored["images"]), torch.from_numpy(stored["labels"])
    return Digits(*_split(_unit_images(images), labels.long()))


def mnist(root: str | Path | None = None, download: bool = True) -> FullDigits:
    """All 70,000 MNIST digits, through torchvision.

    Args:
        root: the folder that holds `MNIST/raw/`, or shall hold it; by default one inside the course,
            which git ignores. About 65 MB.
        download: fetch the files if they are missing.

    Raises:
        ConnectionError: the files are missing and cannot be fetched.
        FileNotFoundError: the files are missing and `download` is False.
        ValueError: the files are there but damaged.
    """
    from torchvision.datasets import MNIST  # takes over a second to import, and only this function needs it

    root = DOWNLOADS if root is None else Path(root).expanduser()
    raw = root / "MNIST" / "raw"
    go_on = f"Go on with embedded_digits(), which needs no network, or put {', '.join(RAW_FILES)} (unpacked) into {raw}"
    if not download and _missing(raw):
        raise FileNotFoundError(f"MNIST is not in {raw}, and download=False. {go_on}")
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(PATIENCE)  # torchvision itself would wait for ever
    try:
        train, test = MNIST(root, train=True, download=download), MNIST(root, train=False, download=False)
        if len(train.data) != len(train.targets) or len(test.data) != len(test.targets):
            raise ValueError("as many labels as images expected")
    except (AssertionError, KeyError, RuntimeError, TypeError, ValueError, URLError, OSError) as error:
        if not _missing(raw):
            raise ValueError(f"MNIST's files in {raw} are damaged: delete that folder and fetch them again") from error
        if isinstance(error, RuntimeError | URLError | ConnectionError | TimeoutError):
            raise ConnectionError(f"MNIST cannot be downloaded: is this machine offline? {go_on}") from error
        raise  # a full disk or a folder without write permission says so itself
    finally:
        socket.setdefaulttimeout(before)
    split = _split(_unit_images(train.data), train.targets)
    return FullDigits(*split, _unit_images(test.data), test.targets)


def content_sha256(images: np.ndarray, labels: np.ndarray) -> str:
    """The checksum of digits, whatever file they are kept in: of the images' bytes followed by the labels'."""
    return hashlib.sha256(images.astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes()).hexdigest()


def _split(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hold out every tenth digit of those sorted by class: each class gives a tenth of its own, to within one digit.

    A rule and no random numbers, so that the split is the same on every machine and under every version of torch.
    """
    by_class = labels.argsort(stable=True)  # the digits of a class stay in their order
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    held_out[by_class[9::10]] = True
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def _unit_images(pixels: Tensor) -> Tensor:
    """Bytes `(n, 28, 28)` as floats in [0, 1], `(n, 1, 28, 28)`."""
    return pixels.unsqueeze(1).to(torch.float32) / 255


def _missing(raw: Path) -> list[str]:
    """Which of MNIST's files are not in the folder."""
    return [name for name in RAW_FILES if not (raw / name).is_file()]
