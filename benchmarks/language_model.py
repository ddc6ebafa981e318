"""Train language models on code: against counting, and with one part of the block exchanged at a time.

    python benchmarks/language_model.py            # everything, in about an hour
    python benchmarks/language_model.py minute     # CODE_MINUTE, three seeds, beside n-grams and the shipped model
    python benchmarks/language_model.py parts      # each exchange, eight seeds, with fewer epochs

Bits per character are those of the test files, each token with at least half a window before it. Every run is kept
in `benchmarks/results/language_model.json` as it ends, and is not repeated while its recipe stays the same. Writes
`benchmarks/results/language_model.md`.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor

from headroom.data import CHARACTERS, as_ids, code_tokens, embedded_code
from headroom.language_training import train_language_model
from headroom.pretrained import FOLDER, pretrained_language_model, small_code_model
from headroom.recipes import CODE_MINUTE, Recipe
from headroom.reference import (
    GroupedQueryAttention,
    LanguageModel,
    NGram,
    PositionalEncoding,
    RMSNorm,
    RotarySelfAttention,
    SwiGLU,
    llama,
    surprise,
)
from headroom.scale import need_full_scale
from headroom.training import seed_everything

RESULTS = Path(__file__).parent / "results"
KEPT = RESULTS / "language_model.json"
DISCOUNTS = ((0.7, 1.0, 1.3), (0.8, 1.1, 1.4), (0.85, 1.3, 1.8), (0.9, 1.4, 2.0))
PARTS = replace(CODE_MINUTE, epochs=2)
LONGER = 256  # tokens in a window, to see what holds beyond the 64 of training
SIZE = {"n_vocabulary": 1024, "d_model": 128, "n_layers": 2, "n_heads": 4, "max_tokens": 64}
GATED = 171  # d_ff with three matrices: about as many weights as 256 with two


class Sines(PositionalEncoding):
    """Sines and cosines, with the embedding times √d_model as in section 3.4 of the 2017 paper."""

    def __init__(self, d_model: int, _max_tokens: int):
        super().__init__(d_model, LONGER)
        self.scale = d_model**0.5

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        return super().forward(self.scale * x, start)


gpt2 = partial(LanguageModel, **SIZE, d_ff=256)
rotary = partial(gpt2, positions=None)
MODELS: dict[str, Callable[[], LanguageModel]] = {
    "GPT-2's parts": gpt2,
    "post-norm": partial(gpt2, pre_norm=False),
    "untied": partial(gpt2, tied=False),
    "RMSNorm": partial(gpt2, norm=RMSNorm),
    "SwiGLU": partial(gpt2, feed_forward=SwiGLU, d_ff=GATED),
    "sin-cos positions": partial(gpt2, positions=Sines),
    "rotary positions": partial(rotary, attention=RotarySelfAttention),
    "rotary, untied": partial(rotary, attention=RotarySelfAttention, tied=False),
    "rotary, 4 groups": partial(
        rotary, attention=lambda d_model, n_heads, _: GroupedQueryAttention(d_model, n_heads, 4)
    ),
    "rotary, 2 groups": partial(
        rotary, attention=lambda d_model, n_heads, _: GroupedQueryAttention(d_model, n_heads, 2)
    ),
    "Llama's parts": partial(llama, **SIZE, n_groups=2, d_ff=GATED),
}


def main() -> None:
    need_full_scale("Benchmarks are run")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["minute", "parts"], help="one of the two; by default both")
    parser.add_argument("--seeds", type=int, default=8, help="of each exchange")
    arguments = parser.parse_args()
    if arguments.what != "parts":
        for seed in (1, 2, 3):
            run("minute", small_code_model, CODE_MINUTE, seed)
    if arguments.what != "minute":
        for seed in range(1, arguments.seeds + 1):
            for name, make in MODELS.items():
                run(name, make, PARTS, seed)
    text = report()
    (RESULTS / "language_model.md").write_text(text, encoding="utf-8")
    print(text)


@cache
def texts() -> tuple[dict[str, Tensor], dict[str, int]]:
    """Training, validation and test text in tokens, and how many characters each has."""
    code, tokens = embedded_code(), code_tokens()
    joined = {part: "".join(getattr(code, part).values()) for part in ("train", "val", "test")}
    return {part: tokens.encode(text) for part, text in joined.items()}, {p: len(text) for p, text in joined.items()}


def bits(model: LanguageModel, context: int) -> float:
    """Bits per character of the test files."""
    ids, characters = texts()
    with torch.no_grad():
        return surprise(model, ids["test"], context).sum().item() / characters["test"]


def kept() -> dict:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def run(name: str, make: Callable[[], LanguageModel], recipe: Recipe, seed: int) -> None:
    """Train one model and keep what came of it, unless that is known."""
    key, made = f"{name}, seed {seed}", json.loads(json.dumps(asdict(recipe)))
    known = kept().get(key)
    if known and known["recipe"] == made:
        return
    ids, _ = texts()
    seed_everything(seed)
    model = make()
    processor = time.process_time()
    history = train_language_model(model, ids["train"], ids["val"], recipe, device="cpu")
    processor = time.process_time() - processor
    row = {
        "bits": bits(model, model.max_tokens),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": history.seconds,
        "processor": processor,
        "recipe": made,
    }
    if not isinstance(model.positions, torch.nn.Module) or "sin-cos" in name:
        model.max_tokens = LONGER
        row["longer"] = bits(model, LONGER)
    print(key, {name: value for name, value in row.items() if name != "recipe"}, flush=True)
    KEPT.write_text(json.dumps(kept() | {key: row}, indent=1) + "\n")


def counted() -> dict[str, float]:
    """Bits per character of n-grams over characters and over tokens, discounts chosen on the validation files."""
    code = embedded_code()
    by_characters = {part: as_ids(getattr(code, part)) for part in ("train", "val", "test")}
    by_tokens, characters = texts()
    result = {}
    for what, ids, size, orders in (
        ("characters", by_characters, len(CHARACTERS), range(1, 10)),
        ("tokens", by_tokens, 1024, range(1, 6)),
    ):
        for order in orders:
            model = NGram(ids["train"], size, order)
            costs = {}
            for model.discounts in DISCOUNTS:
                costs[model.discounts] = model.bits(ids["val"])
            model.discounts = min(costs, key=costs.__getitem__)
            result[f"{what}, order {order}"] = model.bits(ids["test"]) * len(ids["test"]) / characters["test"]
    return result


def report() -> str:
    """The results as Markdown."""
    runs, orders = kept(), counted()
    best = min(orders.values())
    lines = [
        "# Language models of code",
        "",
        f"Bits per character of the test files. {platform.machine()} CPU, torch {torch.__version__.split('+')[0]}; "
        "processor seconds are those of all threads together. Made by `python benchmarks/language_model.py`.",
        "",
        "| | bits per character | against the best n-gram | processor seconds |",
        "|---|--:|--:|--:|",
        *(f"| n-gram over {name} | {found:.3f} | {found / best - 1:+.1%} | |" for name, found in orders.items()),
    ]
    minute = {seed: runs[key] for seed in (1, 2, 3) if (key := f"minute, seed {seed}") in runs}
    for seed, row in minute.items():
        share = row["bits"] / best - 1
        lines.append(f"| `CODE_MINUTE`, seed {seed} | {row['bits']:.3f} | {share:+.1%} | {row['processor']:.0f} |")
    if (FOLDER / "code.pt").exists():
        shipped = pretrained_language_model()
        reached = bits(shipped, shipped.max_tokens)
        lines.append(f"| the model that comes with the course | {reached:.3f} | {reached / best - 1:+.1%} | |")
    lines += [
        "",
        "## One part exchanged at a time",
        "",
        f"Width {SIZE['d_model']}, {SIZE['n_layers']} blocks, {SIZE['n_heads']} heads, windows of "
        f"{SIZE['max_tokens']} tokens; `CODE_MINUTE` with {PARTS.epochs} epochs. Mean (range) over seeds; the "
        f"difference is seed by seed, with its standard error. Longer: the same models in windows of {LONGER} tokens. "
        "Grouped queries come with rotary positions and without biases: what sharing does is 2 groups against 4.",
        "",
        "| | seeds | parameters | bits per character | difference | processor seconds | longer |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    base = _rows(runs, "GPT-2's parts")
    for name in MODELS:
        rows = _rows(runs, name)
        if not rows:
            continue
        reached = [row["bits"] for row in rows.values()]
        against = [rows[seed]["bits"] - base[seed]["bits"] for seed in rows if seed in base]
        error = statistics.stdev(against) / len(against) ** 0.5 if len(against) > 1 else 0.0
        longer = [row["longer"] for row in rows.values() if "longer" in row]
        seconds = statistics.median(row["processor"] for row in rows.values())
        difference = f"{statistics.mean(against):+.3f} ± {error:.3f}"
        lines.append(
            f"| {name} | {len(rows)} | {next(iter(rows.values()))['parameters']:,} | {statistics.mean(reached):.3f} "
            f"({min(reached):.3f}–{max(reached):.3f}) | {difference} | {seconds:.0f} | "
            + (f"{statistics.mean(longer):.3f} |" if longer else "|")
        )
    return "\n".join([*lines, ""])


def _rows(runs: dict, name: str) -> dict[int, dict]:
    """The runs of a model, by their seeds."""
    made = json.loads(json.dumps(asdict(PARTS)))
    found = {int(key.rsplit(" ", 1)[1]): row for key, row in runs.items() if key.rsplit(", seed ", 1)[0] == name}
    return {seed: row for seed, row in sorted(found.items()) if row["recipe"] == made}


if __name__ == "__main__":
    main()
