"""Python's own source: text for a language model that comes with the course.

From the standard library of Python 3.11.7; provenance, rule and licence in `README.md` and `PYTHON-LICENSE.txt`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headroom.data.vocabulary import Vocabulary
from headroom.scale import FILES, scaled

EMBEDDED = Path(__file__).parent / "python_code.npz"
# Of every file's name and text, in the order of the names, each followed by a zero byte.
EMBEDDED_SHA256 = "2029507f68d30567e533efa6a751f5ff3d8d690c143c6f18598232e635237fd1"

CHARACTERS = Vocabulary("\n" + "".join(map(chr, range(ord(" "), ord("~") + 1))))  # all of ASCII that prints


@dataclass(frozen=True)
class Code:
    """Files to train on, to validate on, and for the test: the text of each by its name, such as `"json/tool.py"`."""

    train: dict[str, str]
    val: dict[str, str]
    test: dict[str, str]


def embedded_code() -> Code:
    """107 modules of Python's standard library, 0.94 million characters. No network, always the same.

    Sorted by name, of every ten files the fifth is for validation, the tenth for the test, the others for training.
    At small scale (see `headroom.scale`) they are the first few of each.
    """
    with np.load(EMBEDDED) as stored:
        files = {name: stored[name].tobytes().decode("ascii") for name in sorted(stored.files)}
    parts: tuple[dict[str, str], ...] = ({}, {}, {})
    for number, (name, text) in enumerate(files.items()):
        part = parts[{4: 1, 9: 2}.get(number % 10, 0)]
        if len(part) < scaled(len(files), FILES):
            part[name] = text
    return Code(*parts)


def as_ids(files: Mapping[str, str]) -> Tensor:
    """The texts of the files, one after the other, as numbers of `CHARACTERS`: int64 `(characters,)`.

    Raises:
        ValueError: there is no file, or one holds a character that `CHARACTERS` does not have.
    """
    if not files:
        raise ValueError("files is empty; there must be at least one text to encode")
    return torch.cat([CHARACTERS.encode([text])[0][0] for text in files.values()])


def content_sha256(files: Mapping[str, str]) -> str:
    """The checksum of files, whatever they are kept in: of each name and each text, a zero byte after either."""
    return hashlib.sha256("".join(f"{name}\0{files[name]}\0" for name in sorted(files)).encode()).hexdigest()
