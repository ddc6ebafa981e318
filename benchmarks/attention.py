"""Time the course's multi-head self-attention beside other libraries', as ratios to the fastest that returns the same.

    python benchmarks/attention.py

Compares `MultiHeadSelfAttention` (its output alone, and with every head's weights) with `torch.nn.MultiheadAttention`
and vit-pytorch's `Attention`, in float32 on one thread of a CPU: forward in eval mode without gradients; and forward
and backward in training mode. The candidates take turns, so that a passing load hits all of them. Writes
`benchmarks/results/attention.md`; takes about two minutes. Needs the extra `bench`, which `make bench` installs.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from vit_pytorch.vit import Attention

from headroom.reference import MultiHeadSelfAttention, attention_maps

RESULTS = Path(__file__).parent / "results" / "attention.md"
SIZES = [(128, 17, 64, 4), (128, 50, 64, 4), (32, 197, 192, 3), (8, 512, 256, 8)]  # batch, tokens, d_model, heads
AT_LEAST = 10  # turns, however long they take
ALLOWED = 1.05  # times the fastest that returns the output
OURS = "headroom"

Call = Callable[[Tensor], Tensor | tuple[Tensor, Tensor]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="for each size and direction (default: 6)")
    seconds = parser.parse_args().seconds
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        load = os.getloadavg()[0]
        tables = {(size, way): compare(size, way, seconds) for size in SIZES for way in ("forward", "both")}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(report(tables, load, os.getloadavg()[0]), encoding="utf-8")
    finally:
        torch.set_num_threads(threads)
    print(RESULTS.read_text(encoding="utf-8"))


def candidates(d_model: int, n_heads: int) -> dict[str, dict[str, tuple[nn.Module, Call]]]:
    """What to compare, by what it returns: each name's module, and how to call it on `(batch, tokens, d_model)`."""
    ours = MultiHeadSelfAttention(d_model, n_heads)
    torchs = nn.MultiheadAttention(d_model, n_heads, batch_first=True)
    lucidrains = Attention(d_model, heads=n_heads, dim_head=d_model // n_heads)
    lucidrains.norm = nn.Identity()  # it normalises its input as well, the others leave that to the block
    return {
        "output": {
            OURS: (ours, ours),
            "torch.nn": (torchs, lambda x: torchs(x, x, x, need_weights=False)[0]),
            "vit-pytorch": (lucidrains, lucidrains),
        },
        "output and every head's weights": {
            OURS: (ours, lambda x: with_maps(ours, x)),
            "torch.nn": (torchs, lambda x: torchs(x, x, x, need_weights=True, average_attn_weights=False)),
        },
    }


def with_maps(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """As whoever looks at a model calls it: the output, and the weights computed beside it."""
    with attention_maps(module) as maps:
        output = module(x)
    return output, maps["attention"][:, 0]


def compare(size: tuple[int, int, int, int], way: str, seconds: float) -> dict[str, dict[str, float]]:
    """Median seconds a call of each candidate, by what it returns.

    Args:
        size: batch, tokens, d_model and heads.
        way: `"forward"` or `"both"`, with the backward pass.
        seconds: how long to go on taking turns.
    """
    batch, tokens, d_model, n_heads = size
    torch.manual_seed(0)
    x = torch.randn(batch, tokens, d_model)
    groups = candidates(d_model, n_heads)
    times = {group: {name: [] for name in members} for group, members in groups.items()}
    run = forward if way == "forward" else forward_and_backward
    calls = [(times[group][name], *members[name]) for group, members in groups.items() for name in members]
    for _, module, call in calls:
        run(module, call, x)  # once before it counts
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(calls[-1][0]) < AT_LEAST:
        for taken, module, call in calls:
            taken.append(run(module, call, x))
    return {
        group: {name: statistics.median(taken) for name, taken in members.items()} for group, members in times.items()
    }


def forward(module: nn.Module, call: Call, x: Tensor) -> float:
    """Seconds of processor time for one call in eval mode."""
    module.eval()
    with torch.no_grad():
        start = time.process_time()
        call(x)
        return time.process_time() - start


def forward_and_backward(module: nn.Module, call: Call, x: Tensor) -> float:
    """Seconds of processor time for one call in training mode and the gradients of input and parameters."""
    module.train()
    module.zero_grad()
    x = x.clone().requires_grad_()
    start = time.process_time()
    result = call(x)
    output = result[0] if isinstance(result, tuple) else result
    output.backward(torch.ones_like(output))
    return time.process_time() - start


def report(tables: dict, before: float, after: float) -> str:
    """The results as Markdown; `before` and `after` are the machine's load average around the run."""
    worst = max(groups["output"][OURS] / min(groups["output"].values()) for groups in tables.values())
    groups = list(next(iter(tables.values())))
    names = {group: list(next(iter(tables.values()))[group]) for group in groups}
    verdict = "nothing of ours is slower than" if worst <= ALLOWED else "ours is at worst more than"
    lines = [
        "# Multi-head self-attention beside other libraries'",
        "",
        f"Median milliseconds of processor time a call, and as a ratio to the fastest that returns the same; float32, "
        f"one thread of a {platform.machine()} CPU, torch {torch.__version__.split('+')[0]}. Made by "
        f"`python benchmarks/attention.py`; the load average was {before:.1f} before and {after:.1f} after.",
        "",
        f"At worst, ours takes {worst:.2f} times as long as the fastest that returns the output: {verdict} {ALLOWED} "
        "times. The weights are for looking at: no model computes them unless it is asked to.",
    ]
    for group in groups:
        lines += [
            "",
            f"## {group[0].upper() + group[1:]}",
            "",
            "| batch, tokens, d_model, heads | | " + " | ".join(names[group]) + " |",
            "|---|---|" + "---|" * len(names[group]),
        ]
        for (size, way), results in tables.items():
            members = results[group]
            best = min(members.values())
            cells = " | ".join(f"{1e3 * members[name]:.2f} ({members[name] / best:.2f})" for name in names[group])
            what = "forward" if way == "forward" else "forward and backward"
            lines.append(f"| {', '.join(map(str, size))} | {what} | {cells} |")
    lines += [
        "",
        "vit-pytorch's has no biases in its query, key and value maps, and cannot return weights by itself; the "
        "LayerNorm inside it is left out here, since the others leave that to the block. `torch.nn` takes a fused "
        "path of its own in eval mode.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
