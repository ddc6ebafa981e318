"""Train the course's Vision Transformer on the embedded digits: how long it takes and how good it gets.

    python benchmarks/vit_digits.py

Three seeds with `VIT_DIGITS`; then an epoch under other ways to compute, side by side: each batch in two parts that go
side by side (as `train` does), and whole, with one and with every thread of torch's; beside an idle and beside a busy
program; and in bfloat16. Writes `benchmarks/results/vit_digits.md`; takes about five minutes.
"""

import os
import platform
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from headroom import training
from headroom.data import embedded_digits
from headroom.recipes import VIT_DIGITS
from headroom.reference import ViT
from headroom.scale import need_full_scale
from headroom.training import seed_everything, train

RESULTS = Path(__file__).parent / "results" / "vit_digits.md"
SEEDS = (1, 2, 3)
WAYS = 3  # times that each way to compute is timed, in turn, so that a passing load hits all of them


def main() -> None:
    need_full_scale("Benchmarks are run")
    digits = embedded_digits()
    load = os.getloadavg()[0]
    epoch_seconds(nullcontext(), digits, epochs=1)  # imports and caches
    rows = [run(seed, digits) for seed in SEEDS]
    ways = compare_ways(digits)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(report(rows, ways, load, os.getloadavg()[0]), encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


def run(seed: int, digits) -> tuple[int, float, float, float]:
    """Seed, seconds, seconds of processor time and validation accuracy of a whole training run on the CPU."""
    seed_everything(seed)
    start = time.process_time()
    history = train(ViT(), digits, VIT_DIGITS, device="cpu")
    processor = time.process_time() - start
    if history.interrupted:
        sys.exit("interrupted: nothing was written")
    return seed, history.seconds, processor, history.val_accuracy[-1]


def compare_ways(digits) -> dict[str, float]:
    """Seconds an epoch for each way to compute, the least disturbed of a few."""
    ways = {
        "float32, in parts side by side (as shipped)": lambda: nullcontext(),
        "float32, whole, one thread": lambda: whole(1),
        "float32, whole, every thread": lambda: whole(torch.get_num_threads()),
        "bfloat16 autocast, whole, one thread": lambda: both(whole(1), torch.autocast("cpu", dtype=torch.bfloat16)),
        "float32, in parts side by side, beside a busy program": busy_program,
        "float32, whole, one thread, beside a busy program": lambda: both(whole(1), busy_program()),
        "float32, whole, every thread, beside a busy program": lambda: both(
            whole(torch.get_num_threads()), busy_program()
        ),
    }
    seconds = {name: [] for name in ways}
    for _ in range(WAYS):
        for name, way in ways.items():
            seconds[name].append(epoch_seconds(way(), digits))
    return {name: min(values) for name, values in seconds.items()}


def epoch_seconds(way, digits, epochs: int = 1) -> float:
    """Seconds an epoch takes inside a context."""
    seed_everything(0)
    with way:
        return train(ViT(), digits, replace(VIT_DIGITS, epochs=epochs), device="cpu").seconds / epochs


@contextmanager
def whole(threads: int):
    """Train on batches as a whole, with this many of torch's own threads."""

    @contextmanager
    def alone(device):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            yield None
        finally:
            torch.set_num_threads(before)

    side_by_side = training._side_by_side
    training._side_by_side = alone
    try:
        yield
    finally:
        training._side_by_side = side_by_side


@contextmanager
def busy_program():
    """Another program that wants one core all the time."""
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    time.sleep(0.5)
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


@contextmanager
def both(one, other):
    with one, other:
        yield


def report(rows: list[tuple[int, float, float, float]], ways: dict[str, float], before: float, after: float) -> str:
    """The results as Markdown; `before` and `after` are the machine's load average around the run."""
    shipped = next(iter(ways.values()))
    parameters = sum(parameter.numel() for parameter in ViT().parameters())
    lines = [
        "# The Vision Transformer on the embedded digits",
        "",
        f"`ViT()` with {parameters:,} parameters, `VIT_DIGITS` ({VIT_DIGITS.epochs} epochs), 9,000 training and 1,000 "
        f"validation digits, on a {platform.machine()} CPU with {torch.get_num_threads()} threads, torch "
        f"{torch.__version__.split('+')[0]}. Made by `python benchmarks/vit_digits.py`.",
        "",
        "| seed | seconds | processor seconds | validation accuracy |",
        "|---|---|---|---|",
        *(
            f"| {seed} | {seconds:.1f} | {processor:.1f} | {100 * accuracy:.1f} % |"
            for seed, seconds, processor, accuracy in rows
        ),
        "",
        f"The machine's load average was {before:.1f} before and {after:.1f} after; with this program alone it is "
        "about 2. Two threads at work make processor seconds nearly twice the seconds; where they don't, other "
        "programs had the processor meanwhile.",
        "",
        f"One epoch computed in other ways, the fastest of {WAYS} tries, taken in turn:",
        "",
        "| | seconds | ratio |",
        "|---|---|---|",
        *(f"| {name} | {seconds:.2f} | {seconds / shipped:.2f} |" for name, seconds in ways.items()),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
