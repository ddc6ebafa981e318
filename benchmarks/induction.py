"""Train models of attention alone on random sequences that are written twice, and take their heads away.

    python benchmarks/induction.py

Eight seeds, each with two layers, with one layer, and with one layer on sequences that all repeat after 20 symbols. Of
the models with two layers: what each head attends to, what it costs to ablate it, what the model says when a head of
the first layer gives what it gives where the first half is moved by two places, and when a head of the second layer
gives what it gives on another sequence.
Writes `benchmarks/results/induction.md`; takes about ten minutes on one quiet core. With `--models FOLDER`, trained
models are kept there and used again.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headroom.data import repeated_sequences
from headroom.language_training import LENGTHS, repeat_accuracy, train_on_repeats
from headroom.pretrained import repeats_model
from headroom.recipes import REPEATS
from headroom.reference import (
    LanguageModel,
    ablate,
    attention_maps,
    induction_score,
    patch,
    previous_token_score,
)
from headroom.scale import need_full_scale
from headroom.training import seed_everything

RESULTS = Path(__file__).parent / "results"
LENGTH = 20  # of the sequences on which heads are scored and ablated, and of those that never vary
MIDDLE = slice(LENGTH + 3, 2 * LENGTH - 3)  # of their second half
N_SEQUENCES = 500
N_HEADS = 2  # in each layer of `repeats_model`
TWO, ONE, FIXED = "two layers", "one layer", f"one layer, always {LENGTH} symbols"
VARIANTS = {TWO: (2, LENGTHS), ONE: (1, LENGTHS), FIXED: (1, (LENGTH,))}


def main() -> None:
    need_full_scale("Benchmarks are run")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--models", type=Path, help="where trained models are kept, and taken from")
    asked = parser.parse_args()
    runs = {name: [trained(name, seed, asked.models) for seed in asked.seeds] for name in VARIANTS}
    text = report(runs, asked.seeds)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "induction.md").write_text(text, encoding="utf-8")
    print(text)


def trained(variant: str, seed: int, folder: Path | None) -> dict[str, Any]:
    """A model, `seconds` of processor time that its training took, `val_accuracy` after each epoch, and `variant`."""
    n_layers, lengths = VARIANTS[variant]
    file = folder and folder / f"{variant.replace(' ', '_').replace(',', '')}_{seed}.pt"
    model = repeats_model(n_layers)
    if file and file.exists():
        kept: dict[str, Any] = torch.load(file, weights_only=True)
    else:
        seed_everything(seed)
        model = repeats_model(n_layers)
        start = time.process_time()
        history = train_on_repeats(model, REPEATS, lengths, device="cpu")
        if history.interrupted:
            raise SystemExit("interrupted: nothing was written")
        kept = {
            "seconds": time.process_time() - start,
            "val_accuracy": history.val_accuracy,
            "weights": model.state_dict(),
        }
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.save(kept, file)
    model.load_state_dict(kept["weights"])
    return {"model": model.eval(), "seconds": kept["seconds"], "val_accuracy": kept["val_accuracy"], "lengths": lengths}


def by_length(model: LanguageModel, lengths: Sequence[int]) -> dict[int, float]:
    """The accuracy on the second half of fresh sequences of each length, in per cent."""
    drawn = torch.Generator().manual_seed(100)
    return {
        n: 100 * repeat_accuracy(model, repeated_sequences(200, n, generator=drawn, distinct=True)) for n in lengths
    }


@torch.no_grad()
def heads(model: LanguageModel) -> dict[str, Tensor]:
    """What there is to say of each head, `(layers, heads)`: scores 0 … 1, and costs in points of accuracy.

    `own` (the mean weight on the token itself), `previous`, `induction`, `control` (the induction score where nothing
    repeats), `zero` (cost of a zero output), `resampled` (of the output on other sequences), `random` (of a random
    vector as long as what the head adds); `before` and `third`: in how many per cent of places the model names the
    symbol before the present one, or the third one after it, when the head's output is that of the donor (`moved`);
    `theirs`: in how many it names the other sequence's next symbol, when the output is the one on other sequences.
    """
    drawn = torch.Generator().manual_seed(101)
    ids = repeated_sequences(N_SEQUENCES, LENGTH, generator=drawn, distinct=True)
    others = repeated_sequences(N_SEQUENCES, LENGTH, generator=drawn, distinct=True)
    unrepeated = repeated_sequences(N_SEQUENCES, 2 * LENGTH, generator=drawn, distinct=True)[:, : 2 * LENGTH]
    weights, plain = maps_of(model, ids), maps_of(model, unrepeated)
    found = {"previous": previous_token_score(weights), "induction": induction_score(weights, LENGTH)}
    found["own"] = weights.diagonal(dim1=-2, dim2=-1).mean(dim=(0, -1))
    found["control"] = induction_score(plain, LENGTH)
    whole = share_right(model(ids), ids)
    costs = {"zero": [], "resampled": [], "random": [], "theirs": [], "before": [], "third": []}
    for layer in range(2):
        for head in range(N_HEADS):
            costs["zero"].append(whole - share_right(ablate(model, ids, layer, head), ids))
            logits = patch(model, ids, others, layer, head)
            costs["resampled"].append(whole - share_right(logits, ids))
            costs["theirs"].append(share_right(logits, others))
            costs["random"].append(whole - share_right(with_noise(model, ids, layer, head, drawn), ids))
            said = patch(model, ids, moved(ids), layer, head)[:, MIDDLE].argmax(dim=-1)
            for name, ahead in (("before", -1), ("third", 3)):
                there = ids[:, MIDDLE.start - LENGTH + ahead : MIDDLE.stop - LENGTH + ahead]
                costs[name].append(100 * (said == there).float().mean().item())
    return found | {name: torch.tensor(cost).view(2, N_HEADS) for name, cost in costs.items()}


def moved(ids: Tensor) -> Tensor:
    """The donor: in the first half each symbol stands two places later, and the last two first."""
    length = ids.size(1) // 2
    return torch.cat([ids[:, :length].roll(2, dims=1), ids[:, length:]], dim=1)


def maps_of(model: LanguageModel, ids: Tensor) -> Tensor:
    with attention_maps(model) as maps:
        model(ids)
    return maps["blocks.attention"]  # (batch, layers, heads, tokens, tokens)


def share_right(logits: Tensor, ids: Tensor) -> float:
    """As `repeat_accuracy`, of logits, in per cent."""
    length = ids.size(1) // 2
    return 100 * (logits[:, length:-1].argmax(dim=-1) == ids[:, length + 1 :]).float().mean().item()


def with_noise(model: Any, ids: Tensor, layer: int, head: int, drawn: torch.Generator) -> Tensor:
    """The model's logits when a random vector is added to what its layer adds, as long as the head's own part of it."""
    w_o, n_heads = model.blocks[layer].attention.w_o, model.blocks[layer].attention.n_heads

    def disturb(_w_o: object, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        of_head = inputs[0].chunk(n_heads, dim=-1)[head] @ w_o.weight.chunk(n_heads, dim=1)[head].T
        noise = torch.randn(output.shape, generator=drawn)
        return output + noise / noise.norm(dim=-1, keepdim=True) * of_head.norm(dim=-1, keepdim=True)

    handle = w_o.register_forward_hook(disturb)
    try:
        return model(ids)
    finally:
        handle.remove()


def spread(values: Sequence[float], digits: int = 1) -> str:
    """The median, and the range."""
    low, middle, high = (f"{f(values):.{digits}f}" for f in (min, statistics.median, max))
    return f"{middle} ({low}–{high})"


def called(number: int) -> str:
    """A head by its layer and number, both from 1, as the lecture calls it: 0 … 3 → 1.1 … 2.2."""
    return f"{number // N_HEADS + 1}.{number % N_HEADS + 1}"


def half_learned(val_accuracy: Sequence[float]) -> str:
    """After how many steps the accuracy was above one half."""
    above = [100 * epoch for epoch, reached in enumerate(val_accuracy, 1) if reached > 0.5]
    return f"{above[0]:,}" if above else "never"


def report(runs: dict[str, list[dict[str, Any]]], seeds: Sequence[int]) -> str:
    """The results as Markdown."""
    lines = [
        "# What heads learn of sequences that are written twice",
        "",
        f"Seeds {', '.join(map(str, seeds))}: medians, and ranges in brackets. Models of attention alone, width 64, "
        f"two heads a layer, {REPEATS.epochs * 100:,} batches of {REPEATS.batch_size} sequences (`REPEATS`). Accuracy "
        "is on the second half of 200 fresh sequences of each length, without its first symbol. Processor seconds on "
        f"one thread of a {platform.machine()} CPU, torch {torch.__version__.split('+')[0]}; more on a busy one. "
        "Made by `python benchmarks/induction.py`.",
        "",
        "| model | parameters | symbols until it repeats | accuracy, % | at its worst length, % | processor seconds |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, several in runs.items():
        lengths = several[0]["lengths"]
        reached = [list(by_length(run["model"], lengths).values()) for run in several]
        parameters = sum(one.numel() for one in several[0]["model"].parameters())
        lines.append(
            f"| {name} | {parameters:,} | {min(lengths)}–{max(lengths)} "
            f"| {spread([statistics.mean(one) for one in reached])} | {spread([min(one) for one in reached])} "
            f"| {spread([run['seconds'] for run in several], 0)} |"
        )
    found = [heads(run["model"]) for run in runs[TWO]]
    lines += [
        "",
        "## The heads of the models with two layers",
        "",
        f"On {N_SEQUENCES} sequences of {LENGTH} symbols. Head 2.1 is the first of the second layer. Costs are points "
        "of accuracy, when the head's output is zero. Patched: the head's output is the one that it has where each "
        "symbol of the first half stands two places later; then the model names the third symbol after the present "
        "one, or the one before it, in so many per cent of places. In the last column the head with the highest "
        "induction score has the output that it has on another sequence.",
        "",
        "| seed | half learned after | previous-token head | its score | it costs | patched: the third after "
        "| other head of layer 1 | weight on the token itself | it costs | patched: the one before "
        "| induction scores in layer 2 | they cost | the higher one patched: the other sequence's next |",
        "|--:|--:|---|--:|--:|--:|---|--:|--:|--:|---|---|--:|",
    ]
    top = {"overall": 0, "layer": 0}
    for seed, run, of in zip(seeds, runs[TWO], found, strict=True):
        before, after = int(of["previous"][0].argmax()), int(of["induction"].argmax())
        own, cost = int(of["own"][0].argmax()), of["zero"].flatten()
        assert own != before, "one head of layer 1 is both"
        top["overall"] += int(cost.argmax()) == after
        top["layer"] += int(of["zero"][after // N_HEADS].argmax()) == after % N_HEADS
        lines.append(
            f"| {seed} | {half_learned(run['val_accuracy'])} "
            f"| {called(before)} | {of['previous'][0, before]:.2f} | {cost[before]:.1f} "
            f"| {of['third'][0, before]:.1f} "
            f"| {called(own)} | {of['own'][0, own]:.2f} | {cost[own]:.1f} | {of['before'][0, own]:.1f} "
            f"| {', '.join(f'{one:.2f}' for one in of['induction'][1].tolist())} "
            f"| {', '.join(f'{one:.1f}' for one in of['zero'][1].tolist())} "
            f"| {of['theirs'].flatten()[after]:.1f} |"
        )
    of_top = {
        name: [of[name].flatten()[int(of["induction"].argmax())].item() for of in found]
        for name in ("zero", "resampled", "theirs", "random", "control")
    }
    idle = sum(bool(((of["induction"] > 0.3) & (of["zero"] < 5)).any()) for of in found)
    lines += [
        "",
        f"The head with the highest induction score costs more than any other head in {top['overall']} of "
        f"{len(seeds)} models, and more than any other of its layer in {top['layer']}. To take it away costs "
        f"{spread(of_top['zero'])} points; to give it the output that it has on other sequences, "
        f"{spread(of_top['resampled'])} (the model then names their next symbol in {spread(of_top['theirs'])} % of "
        "places); to add a random vector that is as long as its own part of what the layer adds, "
        f"{spread(of_top['random'])}. Where nothing repeats, its induction score is "
        f"{spread(of_top['control'], 2)}. {idle} of the models have a head whose induction score is above 0.3 and "
        "which costs less than 5 points.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
