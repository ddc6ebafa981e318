"""Does the course work on this machine? A sentence for each thing it needs.

from headroom.environment import report

report()
"""

import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

OLDEST_PYTHON = (3, 11)  # the one that pyproject.toml asks for


@dataclass(frozen=True)
class Finding:
    """Whether one thing is there, and a sentence about it; where it is not, the sentence says what to do."""

    holds: bool
    sentence: str


def report() -> None:
    """Print the findings, a line each: ✓ for what is there, ✗ for what is not."""
    for finding in findings():
        print("✓" if finding.holds else "✗", finding.sentence)


def findings() -> Iterator[Finding]:
    """Try what the course needs, in order. Without PyTorch the rest cannot be tried, and the findings end there."""
    yield _python()
    torch = _torch()
    yield torch
    if torch.holds:
        yield device()
        yield digits()


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        return Finding(False, f"This is Python {version}; the course needs {wanted} or newer. {_COURSE_KERNEL}")
    return Finding(True, f"Python {version} runs this notebook.")


def _torch() -> Finding:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: its libraries are there, but cannot be loaded
        return Finding(False, f"PyTorch cannot be imported ({error}). {_COURSE_KERNEL}")
    return Finding(True, f"PyTorch {torch.__version__} is there.")


def device() -> Finding:
    """The device that training takes by itself, tried with a sum: a GPU can be visible and still not compute.

    Needs PyTorch, as `digits` does.
    """
    import torch

    from headroom.training import pick_device

    chosen = pick_device()
    if chosen.type == "cpu":
        cores = os.cpu_count() or 1
        cores = "one core" if cores == 1 else f"{cores} cores"
        return Finding(True, f"Models compute on the processor ({cores}), which is enough.")
    try:
        torch.ones(2, device=chosen).sum().item()
    except RuntimeError as error:
        first = str(error).strip().splitlines()[0]
        return Finding(False, f'The {chosen} device does not compute ({first}). Where you train, add device="cpu".')
    return Finding(True, f"Models train on the {chosen} device. The course works without one, too.")


def digits() -> Finding:
    """The digits that come with the course, read."""
    from headroom.data import embedded_digits

    start = time.perf_counter()
    try:
        found = embedded_digits()
    except Exception as error:  # a damaged archive fails in many ways
        return Finding(
            False,
            f"The digits cannot be read ({type(error).__name__}: {error}). "
            "Fetch headroom/data/mnist_10000.npz again; it is a part of the course.",
        )
    seconds = time.perf_counter() - start
    counts = f"{len(found.train_images):,} digits to train on and {len(found.val_images):,} held out"
    return Finding(True, f"{counts} were read in {seconds:.1f} s.")


_COURSE_KERNEL = (
    "Close this JupyterLab, and open the course as README.md says: `make lab`, or with conda `python -m headroom lab`."
)
