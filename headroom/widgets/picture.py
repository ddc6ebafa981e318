"""A still picture of a widget, for pages that show no widgets: a notebook on a website, a printed page, a preview."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from headroom.figures import COLORS, heatmap

MOST_LABELS = 24  # rows or columns that are named; more names than that cannot be read
LONGEST_LABEL = 14  # letters
HEIGHT, WIDTH = 3.2, 7.2  # inches


@dataclass(frozen=True)
class Panel:
    """A matrix in a picture: its numbers as colours, or an image as it is."""

    title: str
    matrix: np.ndarray  # (rows, columns), or an image (height, width, 3)
    rows: Sequence[str] | None = None  # their names; None: they are numbered
    columns: Sequence[str] | None = None
    first: int = 1  # the number of the first row and column
    signed: bool = False  # colour around 0
    values: bool = False  # write the numbers
    ink: bool = False  # an image: 0 is paper, 1 ink
    patches: tuple[int, int] = (1, 1)  # an image: cut by lines into so many rows and columns


def draw(panels: Sequence[Panel]) -> Figure:
    """Panels side by side. The figure is none of pyplot's: a cell may be drawing with that at the same time."""
    fig = Figure(figsize=(WIDTH if len(panels) > 1 else WIDTH / 2, HEIGHT), facecolor="white", layout="constrained")
    for ax, panel in zip(np.atleast_1d(fig.subplots(1, len(panels))), panels, strict=True):
        if panel.ink or panel.matrix.ndim == 3:
            ax.imshow(panel.matrix, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            (height, width), (rows, columns) = panel.matrix.shape[:2], panel.patches
            for row in range(1, rows):
                ax.axhline(row * height / rows - 0.5, color=COLORS["sky"], linewidth=1)
            for column in range(1, columns):
                ax.axvline(column * width / columns - 0.5, color=COLORS["sky"], linewidth=1)
        else:
            n_rows, n_columns = panel.matrix.shape
            rows, columns = _labels(panel.rows, n_rows, panel.first), _labels(panel.columns, n_columns, panel.first)
            heatmap(ax, panel.matrix, rows, columns, signed=panel.signed, values=panel.values)
            if panel.values or max(n_rows, n_columns) > MOST_LABELS:  # cells need not be square
                ax.set_aspect("auto")
        ax.set_title("\n".join(textwrap.wrap(panel.title, 34)), loc="left", fontsize=10, fontweight="bold")
    return fig


def _labels(words: Sequence[str] | None, size: int, first: int) -> list[str]:
    if size > MOST_LABELS:
        return [""] * size
    words = [str(first + i) for i in range(size)] if words is None else words
    return [word if len(word) <= LONGEST_LABEL else f"{word[: LONGEST_LABEL - 1]}…" for word in words]
