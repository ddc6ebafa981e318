"""Draw what the tables in `benchmarks/results/` say, one picture for each, as bars.

    python benchmarks/plots.py

Reads the tables, measures nothing, and takes a few seconds: run it after any other benchmark. Writes
`benchmarks/results/NAME.png`; docs/benchmarks.md shows them. Tables that have no picture of their own are drawn.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt

from headroom.figures import COLORS, use_style

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Plot:
    """Bars of a table.

    Attributes:
        name: of the table's file and the picture's.
        title: the finding.
        axis: what the bars' lengths are.
        head: what the table's header line contains; the first table of which that is true is drawn.
        labels: how many columns, from the left, say what a row is.
        columns: of the header, those that are drawn; a number in brackets, where there is one, is not.
        bracket: take the number in brackets instead.
    """

    name: str
    title: str
    axis: str
    head: str
    labels: int
    columns: tuple[str, ...]
    bracket: bool = False


PLOTS = (
    Plot(
        *("attention", "Multi-head self-attention: about as fast as the fastest of three"),
        *("times as long as the fastest that returns the same", "| batch, tokens", 2),
        columns=("headroom", "torch.nn", "vit-pytorch"),
        bracket=True,
    ),
    Plot(
        *("grading", "Isolated kernels grade lab 2 many times as fast as stock nbgrader"),
        *("seconds for each submission", "s for each submission", 1),
        columns=("s for each submission",),
    ),
    Plot(
        *("grader-accuracy", "Two mistakes at once: most pairs are told apart, and both named"),
        *("per cent of the pairs that can be told apart", "| exercise |", 1),
        columns=("told apart: both named",),
        bracket=True,
    ),
    Plot(
        *("induction", "Two layers learn to copy at any distance; one layer does not"),
        *("accuracy, %", "| model | parameters", 1),
        columns=("accuracy, %", "at its worst length, %"),
    ),
    Plot(
        *("language_model", "Trained for a minute, a small model beats the best n-gram"),
        *("bits per character (fewer is better)", "against the best n-gram", 1),
        columns=("bits per character",),
    ),
    Plot(
        *("notebooks", "How long each notebook runs"),
        *("seconds", "| notebook |", 1),
        columns=("all cells (s)",),
    ),
    Plot(
        *("vit_digits", "Parts side by side: as fast as all threads, and no slower beside a busy program"),
        *("seconds of an epoch", "| seconds | ratio |", 1),
        columns=("seconds",),
    ),
    Plot(
        *("widgets", "A widget that draws in the browser is quicker than one that asks Python"),
        *("milliseconds from the key to the painted frame, median", "| attention | what |", 2),
        columns=("median",),
    ),
)


def table(text: str, head: str) -> tuple[list[str], list[list[str]]]:
    """The first table whose header contains `head`: the header's cells, and the rows'."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|") and head in line)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    end = next((i for i, line in enumerate(lines[start:]) if not line.startswith("|")), len(cells))
    return cells[0], cells[2:end]


def number(cell: str, bracket: bool) -> float:
    """The number that a cell begins with, or the one that its brackets begin with; NaN where there is none."""
    found = re.search(r"\((\d[\d.]*)" if bracket else r"^(\d[\d.,]*)", cell)
    return float(found[1].replace(",", "")) if found else float("nan")


def draw(plot: Plot) -> Path:
    """Draw it, and return the picture's path."""
    head, rows = table((RESULTS / f"{plot.name}.md").read_text(encoding="utf-8"), plot.head)
    names = [", ".join(re.sub("[*`]", "", cell) for cell in row[: plot.labels] if cell) for row in rows]
    fig, ax = plt.subplots(figsize=(9, 1.3 + 0.22 * len(rows) * (1 + len(plot.columns))))
    deep = 0.8 / len(plot.columns)
    colors = (COLORS["q"], COLORS["k"], COLORS["v"])
    for i, (column, color) in enumerate(zip(plot.columns, colors, strict=False)):
        lengths = [number(row[head.index(column)], plot.bracket) for row in rows]
        places = [place + i * deep for place in range(len(rows))]
        bars = ax.barh(places, lengths, height=deep, color=color, label=column)
        ax.bar_label(bars, [f"{length:g}" if length == length else "" for length in lengths], padding=3, fontsize=8)
    ax.set_yticks([place + deep * (len(plot.columns) - 1) / 2 for place in range(len(rows))], names, fontsize=8)
    ax.invert_yaxis()
    ax.set(xlabel=plot.axis)
    ax.margins(x=0.12, y=0.01)
    fig.suptitle(plot.title)
    if len(plot.columns) > 1:
        ax.legend(fontsize=8)
    path = RESULTS / f"{plot.name}.png"
    fig.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(fig)
    return path


def main() -> None:
    """Draw all."""
    use_style()
    for plot in PLOTS:
        print(draw(plot))


if __name__ == "__main__":
    main()
