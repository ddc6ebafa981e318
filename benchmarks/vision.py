"""Every image model of the course on the embedded digits: what it costs and how good it gets.

    python benchmarks/vision.py                                   # everything: about a quarter of an hour on two cores
    python benchmarks/vision.py --models PVT Swin --seeds 1 2     # some of it
    python benchmarks/vision.py --resume                          # what is missing; nothing missing: the report alone

What has been measured is kept in `benchmarks/results/vision.json`; a partial run replaces its own part of it. Writes
`vision.md` and `vision.png` beside it. Every training has one thread; as many run side by side as `--jobs` says.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from headroom.data import embedded_digits, some_digits
from headroom.figures import COLORS, use_style
from headroom.recipes import (
    CPVT_DIGITS,
    DEIT_DIGITS,
    FEW_DIGITS,
    PRETRAIN_DIGITS,
    PVT_DIGITS,
    SWIN_DIGITS,
    TEACHER_DIGITS,
    VIT_DIGITS,
    Distillation,
    Recipe,
)
from headroom.reference import CPVT, PVT, ConvNet, DeiT, Swin, ViT
from headroom.scale import need_full_scale
from headroom.training import History, distill, seed_everything, train

RESULTS = Path(__file__).parent / "results"
SEEDS = (1, 2, 3)
TEACHER_SEED = 1
KNOWN, NEW, LABELS = range(5), range(5, 10), 10  # classes to pre-train on, classes to learn, labels of each

TEACHER = "ConvNet, the teacher"
MODELS: dict[str, tuple[Callable[[], nn.Module], Recipe, Distillation | None]] = {
    TEACHER: (ConvNet, TEACHER_DIGITS, None),
    "ViT, [class]": (ViT, VIT_DIGITS, None),
    "ViT, mean": (lambda: ViT(pooling="mean"), VIT_DIGITS, None),
    "CPVT": (CPVT, CPVT_DIGITS, None),
    "PVT": (PVT, PVT_DIGITS, None),
    "Swin": (Swin, SWIN_DIGITS, None),
    "DeiT, no teacher": (DeiT, DEIT_DIGITS, None),
    "DeiT, soft": (DeiT, DEIT_DIGITS, Distillation()),
    "DeiT, hard": (DeiT, DEIT_DIGITS, Distillation(hard=True)),
}
FEW = "few labels"
STYLE = {  # colour and marker
    TEACHER: ("ink", "s"),
    "ViT, [class]": ("blue", "o"),
    "ViT, mean": ("sky", "o"),
    "CPVT": ("green", "D"),
    "PVT": ("orange", "^"),
    "Swin": ("red", "v"),
    "DeiT, no teacher": ("grey", "P"),
    "DeiT, soft": ("pink", "P"),
    "DeiT, hard": ("pink", "X"),
}


def main() -> None:
    need_full_scale("Benchmarks are run")
    names = [*MODELS, FEW]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=names, default=names, metavar="MODEL", help=", ".join(names))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="trainings side by side")
    parser.add_argument("--resume", action="store_true", help="keep what has been measured, measure what is missing")
    asked = parser.parse_args()
    measured = load()
    todo = [(name, seed) for seed in asked.seeds for name in asked.models]
    if asked.resume:
        todo = [(name, seed) for name, seed in todo if str(seed) not in measured[name]]
    with ProcessPoolExecutor(asked.jobs) as pool:
        for future in as_completed([pool.submit(measure, name, seed) for name, seed in todo]):
            name, seed, result = future.result()
            measured[name][str(seed)] = result
            save(measured)
            print(f"{name}, seed {seed}: {result}", flush=True)
    draw({name: measured[name] for name in MODELS if measured[name]}, RESULTS / "vision.png")
    (RESULTS / "vision.md").write_text(report(measured), encoding="utf-8")
    print((RESULTS / "vision.md").read_text(encoding="utf-8"))


def measure(name: str, seed: int) -> tuple[str, int, dict[str, Any]]:
    """Train one model from one seed, on one thread. Returns both, and what came out."""
    torch.set_num_threads(1)
    warm_up()
    if name == FEW:
        return name, seed, few_labels(seed)
    make, recipe, distillation = MODELS[name]
    taught = teacher() if distillation else None
    seed_everything(seed)
    model = make()
    start = time.process_time()
    if distillation:
        history = quietly(distill, model, taught, embedded_digits(), recipe, distillation, "cpu")
    else:
        history = quietly(train, model, embedded_digits(), recipe, "cpu")
    processor = time.process_time() - start
    took = {"seconds": history.seconds, "processor": processor}
    return name, seed, {"accuracy": history.val_accuracy[-1]} | took | {"recipes": recipes(name)}


def recipes(name: str) -> list[dict[str, Any]]:
    """How a model is trained, one training after the other, as it is kept with the result."""
    return [asdict(recipe) for recipe in ((PRETRAIN_DIGITS, FEW_DIGITS) if name == FEW else (MODELS[name][1],))]


@cache
def warm_up() -> None:
    """Import what torch imports at its first step, so that the first training is not charged for it."""
    digits = embedded_digits()
    model = ConvNet(widths=(2,))
    quietly(train, model, some_digits(digits, KNOWN, per_class=2), TEACHER_DIGITS, "cpu")


@cache
def teacher() -> nn.Module:
    """The one teacher of all students, trained once in each process; its time is in its own row."""
    seed_everything(TEACHER_SEED)
    model = ConvNet()
    quietly(train, model, embedded_digits(), TEACHER_DIGITS, "cpu")
    return model


def few_labels(seed: int) -> dict[str, Any]:
    """A ViT that has learned some classes learns the others from few labels; beside it, one that has learned none."""
    digits = embedded_digits()
    few = some_digits(digits, NEW, per_class=LABELS, seed=seed)
    start = time.process_time()
    seed_everything(seed)
    model = ViT()
    known = quietly(train, model, some_digits(digits, KNOWN), PRETRAIN_DIGITS, "cpu").val_accuracy[-1]
    result = {"known": known, "pretraining": time.process_time() - start, "recipes": recipes(FEW)}
    fresh = ViT()
    model.new_head(10)
    for kind, one in (("fine-tuned", model), ("from scratch", fresh)):
        start = time.process_time()
        seed_everything(seed)
        result[kind] = quietly(train, one, few, FEW_DIGITS, "cpu").val_accuracy[-1]
        result["processor"] = time.process_time() - start
    return result


def quietly(learn: Callable[..., History], *arguments) -> History:
    """Train without a progress bar; one that was interrupted ends the program."""
    with contextlib.redirect_stderr(io.StringIO()):
        history = learn(*arguments)
    if history.interrupted:
        sys.exit("interrupted: what was finished is kept")
    return history


def size(make: Callable[[], nn.Module]) -> tuple[int, int]:
    """The parameters of a model, and the multiply-adds of one image's way through it.

    torch counts two operations for each multiply-add of every matrix product and convolution, q kᵀ and weights · v
    included. Norms, softmax, activations and sums are not counted.
    """
    model = make().eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, 1, 28, 28))
    return sum(p.numel() for p in model.parameters()), counter.get_total_flops() // 2


def load() -> dict[str, dict[str, dict]]:
    """What has been measured so far: model → seed → result."""
    file = RESULTS / "vision.json"
    measured = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: measured.get(name, {}) for name in [*MODELS, FEW]}


def save(measured: dict) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "vision.json").write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")


def values(results: dict[str, dict], key: str) -> list[float]:
    return [result[key] for result in results.values()]


def middle(numbers: list[float], unit: str = "") -> str:
    """Median and range."""
    return f"{statistics.median(numbers):.1f}{unit} ({min(numbers):.1f}–{max(numbers):.1f})"


def percent(results: dict[str, dict], key: str) -> list[float]:
    return [100 * value for value in values(results, key)]


def report(measured: dict[str, dict[str, dict]]) -> str:
    """The results as Markdown."""
    rows = []
    for name, results in measured.items():
        if name != FEW and results:
            parameters, multiply_adds = size(MODELS[name][0])
            reached = middle(percent(results, "accuracy"), " %")
            processor, seconds = (statistics.median(values(results, key)) for key in ("processor", "seconds"))
            rows.append(
                f"| {name} | {parameters:,} | {multiply_adds / 1e6:.2f} | {reached} | {processor:.0f} | "
                f"{seconds:.0f} | {MODELS[name][1].epochs} | {len(results)} |"
            )
    lines = [
        "# Image models on the embedded digits",
        "",
        f"9,000 training and 1,000 validation digits, one thread of a {platform.machine()} CPU, torch "
        f"{torch.__version__.split('+')[0]}; recipes in `headroom/recipes.py`, chosen on these 1,000 digits: they "
        "validate, they do not test, and one digit is 0.1 %. Made by `python benchmarks/vision.py`.",
        "",
        "![Validation accuracy against processor seconds and against multiply-adds](vision.png)",
        "",
        "| model | parameters | million multiply-adds | validation accuracy, median (range) | processor seconds | "
        "seconds | epochs | seeds |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        "Multiply-adds are those of one image's way forward, counted by `torch.utils.flop_counter` (which counts two "
        "operations for each): every matrix product and convolution, attention's q kᵀ and weights · v included; norms, "
        "softmax and activations not. Seconds are medians. Where they exceed processor seconds, other programs had the "
        "processor meanwhile; beside a busy one, processor seconds grow too, since caches are shared.",
        "",
        f"DeiT's teacher is the ConvNet of seed {TEACHER_SEED}, and sees the same augmented images as the student; its "
        f"own training is not in DeiT's seconds, its answers are. Soft: T = {Distillation().temperature:g}; soft and "
        f"hard: α = {Distillation().alpha:g}. Without a teacher, both heads learn the labels.",
        "",
    ]
    if few := measured[FEW]:
        lines += [
            "## Few labels",
            "",
            f"`ViT()` learns digits {KNOWN[0]} to {KNOWN[-1]} (`PRETRAIN_DIGITS`, validation accuracy "
            f"{middle(percent(few, 'known'), ' %')}), gets a new head, and learns digits {NEW[0]} to {NEW[-1]} from "
            f"{LABELS} labels of each (`FEW_DIGITS`); beside it, a fresh ViT learns them from the same "
            f"{LABELS * len(NEW)} labels, with the same recipe. The seed also draws the labels.",
            "",
            f"| seed | {' | '.join(few)} | median |",
            f"|---|{'---|' * len(few)}---|",
        ]
        for kind in ("from scratch", "fine-tuned"):
            reached = percent(few, kind)
            cells = " | ".join(f"{value:.1f} %" for value in reached)
            lines.append(f"| {kind} | {cells} | {statistics.median(reached):.1f} % |")
        lines += [
            "",
            f"Pre-training takes {statistics.median(values(few, 'pretraining')):.0f} processor seconds, each of the "
            f"other two {statistics.median(values(few, 'processor')):.0f}.",
            "",
        ]
    return "\n".join(lines)


def draw(measured: dict[str, dict[str, dict]], file: Path) -> None:
    """Accuracy against what it costs to train, and against what one image costs."""
    if not measured:
        return
    use_style()
    fig, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True)
    for name, results in measured.items():
        color, marker = STYLE[name]
        accuracy = percent(results, "accuracy")
        y = statistics.median(accuracy)
        span = [[y - min(accuracy)], [max(accuracy) - y]]
        costs = (statistics.median(values(results, "processor")), size(MODELS[name][0])[1] / 1e6)
        for ax, x in zip(axes, costs, strict=True):
            ax.errorbar(x, y, span, color=COLORS[color], marker=marker, ms=8, lw=1.2, ls="none", label=name)
    axes[0].set(xlabel="processor seconds to train", ylabel="validation accuracy, %")
    axes[1].set(xlabel="million multiply-adds for an image")
    for ax in axes:
        ax.set_xlim(left=0)
        ax.grid(alpha=0.3)
    fig.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", title="median and range of seeds")
    fig.suptitle(finding(measured), x=0.01, ha="left")
    fig.savefig(file, dpi=120)
    plt.close(fig)


def finding(measured: dict[str, dict[str, dict]]) -> str:
    """The best of all and, if that is the teacher, the best Transformer, in a sentence."""

    def reached(name: str) -> float:
        return statistics.median(percent(measured[name], "accuracy"))

    def said(name: str) -> str:
        return f"{name}: {reached(name):.1f} % in {statistics.median(values(measured[name], 'processor')):.0f} s"

    ranked = sorted(measured, key=reached, reverse=True)
    if len(ranked) == 1 or ranked[0] != TEACHER:
        return f"The best on 9,000 digits is {said(ranked[0])}"
    return f"{said(TEACHER)}; the best Transformer, {said(ranked[1])}"


if __name__ == "__main__":
    main()
