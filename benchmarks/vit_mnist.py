"""Train Vision Transformers on all of MNIST, side by side: the lab sheet's, vit-pytorch's, timm's and the course's.

    python benchmarks/vit_mnist.py --root FOLDER

FOLDER holds `MNIST/raw/`; by default it is where `headroom.data.mnist()` puts its download, and nothing is fetched. The
last three have the same size, digits, loop and recipe (`VIT_MNIST`). The lab sheet's comes with a loop of its own and
is given ours as well. Validation digits are asked after every epoch, test digits once, at the end. Writes
`benchmarks/results/vit_mnist.md` and `.png`; takes about a quarter of an hour on two cores. Needs the extra `bench`,
which `make bench` installs.
"""

import argparse
import math
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
import vit_pytorch
from matplotlib.figure import Figure
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from tqdm.auto import tqdm

from headroom.data import FullDigits, mnist
from headroom.figures import COLORS, use_style
from headroom.recipes import VIT_MNIST, Recipe
from headroom.reference import ViT, cross_entropy
from headroom.scale import need_full_scale
from headroom.training import accuracy, augment, fit, seed_everything

RESULTS = Path(__file__).parent / "results"
SHEET_EPOCHS = 5  # as on the sheet; in our loop it gets no more
SHEET_BATCH = 16
SHEET_LR = 0.01
QUICK_DIGITS = 3000
MATCHED = 0.05  # how far the sizes of the last three may differ


class SheetAttention(nn.Module):
    """The lab sheet's multi-head attention. Its maps are in plain lists, so that nothing ever trains them; each head
    gets a slice of the tokens' features; nothing mixes the heads; images and heads go one by one."""

    def __init__(self, width: int, n_heads: int):
        super().__init__()
        self.d_head = width // n_heads
        self.q, self.k, self.v = ([nn.Linear(self.d_head, self.d_head) for _ in range(n_heads)] for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        rows = []
        for tokens in x:
            heads = []
            for head, (q, k, v) in enumerate(zip(self.q, self.k, self.v, strict=True)):
                part = tokens[:, head * self.d_head : (head + 1) * self.d_head]
                weights = (q(part) @ k(part).T / math.sqrt(self.d_head)).softmax(-1)
                heads.append(weights @ v(part))
            rows.append(torch.cat(heads, dim=-1))
        return torch.stack(rows)


class SheetViT(nn.Module):
    """A Vision Transformer with the lab sheet's mistakes, written anew: besides those of its attention, patches that
    are strips of rows, a positional table whose frequencies are all the same and which is made again for every batch,
    norms over tokens and features at once, and a softmax before the cross-entropy."""

    def __init__(self, side: int = 7, width: int = 20, n_heads: int = 2, n_classes: int = 10):
        super().__init__()
        self.n_patches, self.width = side**2, width
        self.embed = nn.Linear(28 * 28 // self.n_patches, width)
        self.class_token = nn.Parameter(torch.rand(1, width))
        shape = [self.n_patches + 1, width]
        self.norm_1, self.norm_2 = nn.LayerNorm(shape), nn.LayerNorm(shape)
        self.attention = SheetAttention(width, n_heads)
        self.feed_forward = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(width, n_classes), nn.Softmax(dim=-1))

    def forward(self, images: Tensor) -> Tensor:
        x = self.embed(images.reshape(len(images), self.n_patches, -1))
        x = torch.stack([torch.vstack([self.class_token, tokens]) for tokens in x])
        x = x + self.positions()
        x = x + self.attention(self.norm_1(x))
        x = x + self.feed_forward(self.norm_2(x))
        return self.head(x[:, 0])

    def positions(self) -> Tensor:
        table = torch.ones(self.n_patches + 1, self.width)
        for position in range(self.n_patches + 1):
            for column in range(self.width):
                angle = position / 10000 ** (column // self.width)  # the exponent is always 0
                table[position, column] = math.cos(angle) if column % 2 else math.sin(angle)
        return table


@dataclass
class Run:
    """One training run: accuracies 0 … 1 on the validation digits, the seconds at which each was reached (validating
    included), and in the end on the test digits."""

    parameters: int
    seconds: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    test: float = math.nan


def theirs_vit_pytorch() -> nn.Module:
    return vit_pytorch.ViT(
        image_size=28, patch_size=7, channels=1, num_classes=10, dim=64, depth=2, heads=4, dim_head=16, mlp_dim=128
    )


def theirs_timm() -> nn.Module:
    return VisionTransformer(
        img_size=28, patch_size=7, in_chans=1, num_classes=10, embed_dim=64, depth=2, num_heads=4, mlp_ratio=2.0
    )


SHEET, SHEET_OURS, LUCIDRAINS, TIMM, OURS = (
    "lab sheet, its loop",
    "lab sheet, our loop",
    "vit-pytorch",
    "timm",
    "headroom",
)
CLEAN = {LUCIDRAINS: theirs_vit_pytorch, TIMM: theirs_timm, OURS: ViT}
LOOKS = {  # colour and line, in the order of table and legend
    SHEET: ("grey", ":"),
    SHEET_OURS: ("grey", "-"),
    LUCIDRAINS: ("orange", "-"),
    TIMM: ("green", "-"),
    OURS: ("blue", "-"),
}


def main() -> None:
    need_full_scale("Benchmarks are run")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, help="the folder that holds MNIST/raw/")
    parser.add_argument("--epochs", type=int, default=VIT_MNIST.epochs, help="(default: those of VIT_MNIST)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="the lab sheet's gets the first (default: 1)")
    parser.add_argument("--quick", action="store_true", help="an epoch of a few digits each; nothing is written")
    asked = parser.parse_args()
    try:
        digits = mnist(asked.root, download=False)
    except FileNotFoundError as missing:
        print(f"Nothing is measured: {missing}.\nFetch it with python -c 'from headroom.data import mnist; mnist()'.")
        return
    recipe = replace(VIT_MNIST, epochs=asked.epochs)
    sheet_recipe = replace(VIT_MNIST, epochs=min(asked.epochs, SHEET_EPOCHS))
    if asked.quick:
        digits = few(digits)
        recipe = sheet_recipe = replace(VIT_MNIST, epochs=1)
    check_sizes()
    use_style()
    load = os.getloadavg()[0]
    warm_up(digits)
    first, runs = asked.seeds[0], {}
    for seed in asked.seeds:
        for name, build in CLEAN.items():
            runs.setdefault(name, []).append(in_our_loop(build, digits, recipe, seed))
    runs[SHEET_OURS] = [in_our_loop(SheetViT, digits, sheet_recipe, first)]
    runs[SHEET] = [in_its_own_loop(digits, sheet_recipe.epochs, first)]
    text = report(runs, recipe, asked.seeds, digits, load, os.getloadavg()[0])
    if not asked.quick:
        RESULTS.mkdir(exist_ok=True)
        draw(runs).savefig(RESULTS / "vit_mnist.png", dpi=150)
        (RESULTS / "vit_mnist.md").write_text(text, encoding="utf-8")
    print(text)


def few(digits: FullDigits) -> FullDigits:
    """A few of the digits, to see that everything works."""
    return FullDigits(
        *(part[:QUICK_DIGITS] for part in (digits.train_images, digits.train_labels)),
        *(part[:QUICK_DIGITS] for part in (digits.val_images, digits.val_labels)),
        *(part[:QUICK_DIGITS] for part in (digits.test_images, digits.test_labels)),
    )


def check_sizes() -> None:
    """Stop unless the models that are compared are of the same size."""
    sizes = {name: count(build()) for name, build in CLEAN.items()}
    if max(sizes.values()) > (1 + MATCHED) * min(sizes.values()):
        raise SystemExit(f"the models differ too much in size to be compared: {sizes}")


def count(model: nn.Module) -> int:
    """The number of a model's registered parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def warm_up(digits: FullDigits) -> None:
    """Train for a moment, so that imports and caches count for nobody."""
    in_our_loop(ViT, few(digits), replace(VIT_MNIST, epochs=1), seed=0)


def in_our_loop(build: Callable[[], nn.Module], digits: FullDigits, recipe: Recipe, seed: int) -> Run:
    """Train with `headroom.training.fit`, as `train` does."""
    seed_everything(seed)
    model = build()
    run = Run(count(model))
    start = time.perf_counter()
    fit(
        model,
        examples=len(digits.train_images),
        batch=lambda rows, progress: (augment(digits.train_images[rows], recipe, progress), digits.train_labels[rows]),
        loss=lambda images, labels: cross_entropy(model(images), labels, recipe.smoothing),
        validate=lambda: validate(model, digits, run, start),
        recipe=recipe,
        device=torch.device("cpu"),
        divisible=True,
    )
    return finished(run, model, digits, recipe.epochs)


def in_its_own_loop(digits: FullDigits, epochs: int, seed: int) -> Run:
    """Train the lab sheet's model as the sheet does: Adam at one rate, small batches, the loss divided once more."""
    seed_everything(seed)
    model = SheetViT()
    run = Run(count(model))
    optimizer = torch.optim.Adam(model.parameters(), lr=SHEET_LR)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # its operations are far too small to share among threads: they would only wait
    start = time.perf_counter()
    for epoch in range(1, epochs + 1):
        model.train()
        batches = torch.randperm(len(digits.train_images)).split(SHEET_BATCH)
        for rows in tqdm(batches, desc=f"lab sheet, its loop, epoch {epoch}/{epochs}"):
            loss = F.cross_entropy(model(digits.train_images[rows]), digits.train_labels[rows]) / len(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        validate(model, digits, run, start)
    torch.set_num_threads(threads)
    return finished(run, model, digits, epochs)


def validate(model: nn.Module, digits: FullDigits, run: Run, start: float) -> float:
    """Note the accuracy on the validation digits and when it was reached."""
    reached = accuracy(model, digits.val_images, digits.val_labels)
    run.validation.append(reached)
    run.seconds.append(time.perf_counter() - start)
    return reached


def finished(run: Run, model: nn.Module, digits: FullDigits, epochs: int) -> Run:
    """The run with its accuracy on the test digits; an interrupted one ends the benchmark."""
    if len(run.validation) < epochs:
        raise SystemExit("interrupted: nothing was written")
    run.test = accuracy(model, digits.test_images, digits.test_labels)
    return run


def draw(runs: dict[str, list[Run]]) -> Figure:
    """Validation accuracy against seconds, the distance to 100 % on a logarithmic axis."""
    fig, ax = plt.subplots(figsize=(9, 5))
    for name, (color, style) in LOOKS.items():
        several = runs[name]
        for number, run in enumerate(several):
            ax.plot(
                run.seconds,
                [100 * (1 - reached) for reached in run.validation],
                color=COLORS[color],
                linestyle=style,
                marker=".",
                label=f"{name}: {100 * median_test(several):.2f} % on the test digits" if number == 0 else None,
            )
    ax.set_yscale("log")
    ax.invert_yaxis()
    worst = max(1 - reached for several in runs.values() for run in several for reached in run.validation)
    ticks = [wrong for wrong in (50, 20, 10, 5, 2, 1, 0.5) if wrong < 200 * worst]
    ax.set_yticks(ticks, [f"{100 - wrong:g} %" for wrong in ticks])
    ax.minorticks_off()
    sheet, ours = runs[SHEET], runs[OURS]
    ratio = (1 - median_test(sheet)) / (1 - median_test(ours))
    sooner = max(run.seconds[-1] for run in ours) < min(run.seconds[-1] for run in sheet)
    ax.set(
        xlabel="seconds of training",
        ylabel="validation accuracy",
        xlim=(0, None),
        title=f"Without the lab sheet's mistakes: {ratio:.0f} times fewer errors" + (", sooner" if sooner else ""),
    )
    ax.grid(axis="y", color=COLORS["grey"], alpha=0.3)
    handles, labels = ax.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower left", ncols=2)
    return fig


def median_test(several: list[Run]) -> float:
    """The median of the seeds' test accuracies."""
    return statistics.median(run.test for run in several)


def report(
    runs: dict[str, list[Run]], recipe: Recipe, seeds: list[int], digits: FullDigits, before: float, after: float
) -> str:
    """The results as Markdown; `before` and `after` are the machine's load average around the run."""
    rows = []
    for name in LOOKS:
        several = runs[name]
        seconds = statistics.median(run.seconds[-1] for run in several)
        epochs = len(several[0].seconds)
        validation = statistics.median(run.validation[-1] for run in several)
        each = ", ".join(f"{100 * run.test:.2f}" for run in several)
        tests = f"{100 * median_test(several):.2f} %" + (f" ({each})" if len(several) > 1 else "")
        rows.append(
            f"| {name} | {several[0].parameters:,} | {epochs} | {seconds:.1f} | {seconds / epochs:.1f} "
            f"| {100 * validation:.2f} % | {tests} |"
        )
    return "\n".join(
        [
            "# Vision Transformers on MNIST, side by side",
            "",
            f"{len(digits.train_images):,} training, {len(digits.val_images):,} validation and "
            f"{len(digits.test_images):,} test digits; {'seed' if len(seeds) == 1 else 'medians of seeds'} "
            f"{', '.join(map(str, seeds))}; float32 on a {platform.machine()} CPU with {torch.get_num_threads()} "
            f"cores, torch {torch.__version__.split('+')[0]}. Made by `python benchmarks/vit_mnist.py`; the load "
            f"average was {before:.1f} before and {after:.1f} after (with this program alone it is about 2).",
            "",
            "| | trained parameters | epochs | seconds | an epoch | validation | test |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
            f"The last three share digits, loop and recipe (`VIT_MNIST`, {recipe.epochs} epochs) and start from the "
            "weights that each library gives them. The lab sheet's keeps its query, key and value maps where no "
            f"optimizer finds them; it is trained for {len(runs[SHEET][0].seconds)} epochs, as on the sheet, once with "
            f"the sheet's loop (Adam at {SHEET_LR}, batches of {SHEET_BATCH}) and once with ours. Recipes were chosen "
            "on validation digits alone.",
            "",
            "![Validation accuracy against seconds of training](vit_mnist.png)",
            "",
        ]
    )


if __name__ == "__main__":
    main()
