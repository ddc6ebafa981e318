"""Train the Transformer on written dates: how long it takes, how many unseen dates it gets right, where it looks.

    python benchmarks/dates.py

Three seeds with `DATES`; each trained model decodes dates of days that it has never seen, greedily and freely, and must
get every character right. Writes `benchmarks/results/dates.md` and `dates.png`; takes about seven minutes.
"""

import argparse
import os
import platform
import statistics
import time
from datetime import date
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import Figure

from headroom.data import LANGUAGES, Dates, days_of, split_of, styles, where_written, write_date, written_dates
from headroom.figures import heatmap, use_style
from headroom.pretrained import dates_transformer
from headroom.recipes import DATES, DATES_TRAIN, DATES_VAL
from headroom.reference import attention_maps, padding_mask
from headroom.scale import need_full_scale
from headroom.training import exact_match, seed_everything, train_transformer, translate

RESULTS = Path(__file__).parent / "results"
ASKED = {"year": [0, 1, 2, 3], "month": [5, 6], "day": [8, 9]}  # characters of YYYY-MM-DD
SHOWN = (
    (date(1987, 6, 28), "en", "american_full"),
    (date(2030, 9, 10), "es", "long"),
    (date(1969, 7, 22), "ru", "full"),
)
N_TEST = 2000


def main() -> None:
    need_full_scale("Benchmarks are run")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    seeds = parser.parse_args().seeds
    use_style()
    load = os.getloadavg()[0]
    start = time.perf_counter()
    train, val, test = written_dates(**DATES_TRAIN), written_dates(**DATES_VAL), written_dates("test", N_TEST)
    made = time.perf_counter() - start
    with_typos = written_dates("test", N_TEST, typos=1.0)
    rows, models = [], []
    for seed in seeds:
        seed_everything(seed)
        model = dates_transformer()
        processor = time.process_time()
        history = train_transformer(model, train, val, DATES, device="cpu")
        processor = time.process_time() - processor
        rows.append((seed, history.seconds, processor, exact_match(model, test), exact_match(model, with_typos)))
        models.append(model)
        print(rows[-1])
    RESULTS.mkdir(exist_ok=True)
    look(models[0]).savefig(RESULTS / "dates.png", dpi=160)
    text = report(rows, models[0], test, made, load, os.getloadavg()[0])
    (RESULTS / "dates.md").write_text(text, encoding="utf-8")
    print(text)


def cross_attention(model, dates: Dates) -> torch.Tensor:
    """The cross-attention of the first decoder layer, its heads' mean, `(n, 11, source tokens)`."""
    with torch.no_grad():
        mask = padding_mask(dates.source_lengths, dates.source.size(1))
        with attention_maps(model) as maps:
            model(dates.source, dates.target[:, :-1], mask)
    return maps["decoder.blocks.cross_attention"][:, 0].mean(dim=1)


def masses(model, language: str) -> dict[str, tuple[float, float]]:
    """For year, month and day: the attention's share on the characters that say it, and these characters' share."""
    days = days_of("test")[::25]
    listed = styles(language)
    chosen = [listed[i % len(listed)] for i in range(len(days))]
    written = [write_date(day, language, style) for day, style in zip(days, chosen, strict=True)]
    weights = cross_attention(model, Dates(written, [day.isoformat() for day in days], [language] * len(days)))
    result = {}
    for part, asked in ASKED.items():
        there = [where_written(day, language, style)[part] for day, style in zip(days, chosen, strict=True)]
        mass = [weights[i, asked, place].sum(dim=-1).mean().item() for i, place in enumerate(there)]
        share = [(place.stop - place.start) / len(text) for place, text in zip(there, written, strict=True)]
        result[part] = statistics.mean(mass), statistics.mean(share)
    return result


def look(model) -> Figure:
    """Three unseen dates: which source characters each written character was read from."""
    fig, axes = plt.subplots(len(SHOWN), 1, figsize=(8.6, 4.1 * len(SHOWN)))
    for ax, (day, language, style) in zip(axes, SHOWN, strict=True):
        if split_of(day) == "train":
            raise ValueError(f"{day} is in the training split: show another")
        text = write_date(day, language, style)
        dates = Dates([text], [day.isoformat()], [language])
        rows = list(day.isoformat())
        heatmap(ax, cross_attention(model, dates)[0, : len(rows)], rows=rows, columns=list(text), limits=(0, 1))
        ax.set(title=f"{text} → {translate(model, dates)[0]}", xlabel="source character", ylabel="character written")
    fig.suptitle("Each part of the date is read where it is written", x=0.01, ha="left")
    return fig


def report(rows, model, test: Dates, made: float, before: float, after: float) -> str:
    """The results as Markdown; `before` and `after` are the machine's load average around the run."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    written = translate(model, test)
    wrong = [
        (language, source, iso, got)
        for language, source, iso, got in zip(test.language, test.written, test.iso, written, strict=True)
        if got != iso
    ]
    lines = [
        "# The Transformer on written dates",
        "",
        f"`Transformer` with {parameters:,} parameters, `DATES` ({DATES.epochs} epochs of {DATES_TRAIN['n']:,} dates "
        f"in {len(LANGUAGES)} languages, made in {made:.1f} s), on a {platform.machine()} CPU with "
        f"{torch.get_num_threads()} threads, torch {torch.__version__.split('+')[0]}. Exact: every character right, "
        f"decoded greedily and freely, on {N_TEST:,} dates of days that no training date is of. Made by "
        "`python benchmarks/dates.py`.",
        "",
        "| seed | seconds | processor seconds | exact | exact, one typo a date |",
        "|---|---|---|---|---|",
        *(f"| {seed} | {s:.0f} | {p:.0f} | {100 * e:.2f} % | {100 * t:.1f} % |" for seed, s, p, e, t in rows),
        f"| median | {statistics.median(r[1] for r in rows):.0f} | {statistics.median(r[2] for r in rows):.0f} | "
        f"{100 * statistics.median(r[3] for r in rows):.2f} % | {100 * statistics.median(r[4] for r in rows):.1f} % |",
        "",
        "It never saw a typo while training. "
        f"The machine's load average was {before:.1f} before and {after:.1f} after.",
        "",
        f"## What seed {rows[0][0]} got wrong",
        "",
        "| language | written | right | the model's |",
        "|---|---|---|---|",
        *(f"| {language} | {source} | {iso} | {got} |" for language, source, iso, got in wrong[:12]),
        "" if wrong else "Nothing.",
        "## Where it looks",
        "",
        "Cross-attention of the first decoder layer, mean over heads: how much of it lies on the characters that say "
        "the year while it writes the year, and so on; in brackets what even attention would put there. All styles of "
        "a language. `dates.png` shows three dates.",
        "",
        "| language | year | month | day |",
        "|---|---|---|---|",
    ]
    for language in LANGUAGES:
        cells = " | ".join(f"{100 * m:.0f} % ({100 * c:.0f})" for m, c in masses(model, language).values())
        lines.append(f"| {language} | {cells} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
