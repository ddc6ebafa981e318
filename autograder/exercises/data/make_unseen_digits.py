"""Make the file of the judge's digits again, and refuse any other content.

    python -m autograder.exercises.data.make_unseen_digits ROOT

ROOT: a folder for `torchvision.datasets.MNIST`, which downloads what is missing there.
"""

import argparse
from pathlib import Path

import numpy as np

from autograder.exercises.data import UNSEEN, UNSEEN_SHA256
from headroom.data.digits import content_sha256, hold_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, metavar="ROOT")
    images, labels = from_torchvision(parser.parse_args().root)
    found = content_sha256(images, labels)
    if found != UNSEEN_SHA256:
        parser.error(f"these are not the judge's digits: SHA-256 {found} instead of {UNSEEN_SHA256}")
    np.savez_compressed(UNSEEN, images=images, labels=labels)
    print(f"{UNSEEN}: {len(labels)} digits, {UNSEEN.stat().st_size} bytes")


def from_torchvision(root: Path) -> tuple[np.ndarray, np.ndarray]:
    """A tenth of each class of the official test digits: images `(1000, 28, 28)` and labels `(1000,)` as bytes."""
    from torchvision.datasets import MNIST

    test = MNIST(root, train=False, download=True)
    _, _, images, labels = hold_out(test.data, test.targets)
    return images.numpy(), labels.numpy().astype(np.uint8)


if __name__ == "__main__":
    main()
