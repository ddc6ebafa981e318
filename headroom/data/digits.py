"""Handwritten digits: 10,000 beside this file, all 70,000 through torchvision.

MNIST: LeCun, Cortes & Burges, http://yann.lecun.com/exdb/mnist/; provenance and licence in `README.md`.
"""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headroom.data.downloads import DOWNLOADS, read_or_download
from headroom.scale import DIGITS_PER_CLASS, TRAIN_DIGITS, VAL_DIGITS, scaled

FOLDER = Path(__file__).parent
EMBEDDED = FOLDER / "mnist_10000.npz"
# Of the images' bytes followed by the labels' bytes, in MNIST's order: the first 10,000 training digits.
EMBEDDED_SHA256 = "2e49afdffc567fd5f9f306a04e2bafced2432146ae04f4b9a58b25505ba05b2e"
NEARLY_8 = 256  # of the held-out digits, a 3
RAW_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


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
    At small scale (see `headroom.scale`) they are the first of both.
    """
    with np.load(EMBEDDED) as stored:
        images, labels = torch.from_numpy(stored["images"]), torch.from_numpy(stored["labels"])
    train_images, train_labels, val_images, val_labels = hold_out(images.unsqueeze(1), labels.long())
    train, val = scaled(len(train_labels), TRAIN_DIGITS), scaled(len(val_labels), VAL_DIGITS)
    return Digits(
        unit_images(train_images[:train]), train_labels[:train], unit_images(val_images[:val]), val_labels[:val]
    )


def ten_digits() -> tuple[Tensor, Tensor]:
    """One of each of the held-out digits, 0 to 9, to start from: images `(10, 1, 28, 28)` and labels `(10,)`.

    The first of each class, but for the 3, which is nearly an 8. They are the same at every scale.
    """
    with np.load(EMBEDDED) as stored:
        _, _, images, labels = hold_out(torch.from_numpy(stored["images"]), torch.from_numpy(stored["labels"]).long())
    chosen = [int((labels == digit).nonzero()[0]) for digit in range(10)]
    chosen[3] = NEARLY_8
    return unit_images(images[chosen].unsqueeze(1)), labels[chosen]


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

    def read() -> tuple[MNIST, MNIST]:
        train, test = MNIST(root, train=True, download=download), MNIST(root, train=False, download=False)
        if len(train.data) != len(train.targets) or len(test.data) != len(test.targets):
            raise ValueError("as many labels as images expected")
        return train, test

    train, test = read_or_download("MNIST", root / "MNIST" / "raw", RAW_FILES, read, download)
    split = hold_out(unit_images(train.data.unsqueeze(1)), train.targets)
    return FullDigits(*split, unit_images(test.data.unsqueeze(1)), test.targets)


def some_digits(digits: Digits, classes: Sequence[int], per_class: int | None = None, seed: int = 0) -> Digits:
    """The digits of some classes, and few of each if you like: to pre-train on some and fine-tune on others.

    Labels stay as they are: a 7 is a 7, so a model that has learned 0 … 4 takes the others without another head.

    Args:
        digits: all digits, such as `embedded_digits()`. What it has beyond training and validation is left out.
        classes: the labels to keep.
        per_class: how many training images of each class to keep, drawn at random and in their order; by default all.
            Validation images stay as many as they are. At small scale (see `headroom.scale`) there are fewer.
        seed: of that draw. A larger `per_class` with the same seed only adds images, so that a curve over it is smooth.

    Raises:
        ValueError: a class is not among the digits, or named twice, or has fewer than `per_class` training images;
            `classes` is empty, or `per_class` < 1.
    """
    classes = [int(label) for label in classes]
    per_class = per_class and scaled(per_class, DIGITS_PER_CLASS)
    there = digits.train_labels.bincount().tolist()
    if not classes:
        raise ValueError("classes is empty; it must name at least one class")
    if len(set(classes)) < len(classes):
        raise ValueError(f"classes={classes} names a class twice")
    if unknown := [label for label in classes if not 0 <= label < len(there) or not there[label]]:
        known = ", ".join(str(label) for label, count in enumerate(there) if count)
        raise ValueError(f"classes={classes}: there is no class {unknown[0]} in these digits, which have {known}")
    if per_class is not None and per_class < 1:
        raise ValueError(f"per_class={per_class}: it must be at least 1 image, or None for all")
    if short := [label for label in classes if per_class is not None and there[label] < per_class]:
        raise ValueError(f"per_class={per_class}: class {short[0]} has only {there[short[0]]} training images")

    keep = torch.zeros(len(digits.train_labels), dtype=torch.bool)
    for label in classes:
        of_class = (digits.train_labels == label).nonzero().squeeze(1)
        order = list(range(len(of_class)))
        random.Random(f"{seed}, {label}").shuffle(order)  # of its own: the other classes asked for change nothing
        keep[of_class[order[:per_class]]] = True
    val = torch.isin(digits.val_labels, torch.tensor(classes))
    return Digits(digits.train_images[keep], digits.train_labels[keep], digits.val_images[val], digits.val_labels[val])


def content_sha256(images: np.ndarray, labels: np.ndarray) -> str:
    """The checksum of digits, whatever file they are kept in: of the images' bytes followed by the labels'."""
    return hashlib.sha256(images.astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes()).hexdigest()


def hold_out(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hold out every tenth image of those sorted by class: each class gives a tenth of its own, to within one image.

    A rule and no random numbers, so that the split is the same on every machine and under every version of torch.
    """
    by_class = labels.argsort(stable=True)  # the images of a class stay in their order
    held_out = torch.zeros(len(labels), dtype=torch.bool)
    held_out[by_class[9::10]] = True
    return images[~held_out], labels[~held_out], images[held_out], labels[held_out]


def unit_images(pixels: Tensor) -> Tensor:
    """Bytes, of any shape, as floats in [0, 1]."""
    return pixels.to(torch.float32) / 255
