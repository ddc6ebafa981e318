"""The course's one figure style: its colours, its fonts, and figures that carry a title and a description.

use_style()
fig, ax = plt.subplots()
heatmap(ax, weights, rows=words, columns=words)
ax.set(title="“it” looks back at “cat”", xlabel="key", ylabel="query")
show(fig, alt="Heatmap of the weights of six words: the row of “it” has its largest weight, 0.71, at “cat”.")
"""

import base64
import html
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.rcsetup import cycler

if TYPE_CHECKING:
    import torch

    from headroom.training import History

ArrayLike: TypeAlias = "np.ndarray | torch.Tensor | Sequence[Any]"  # as text: a figure alone needs no torch
# Okabe & Ito's colours, which readers with any of the common colour blindnesses tell apart
# (https://jfly.uni-koeln.de/color/). Queries, keys and values keep theirs in every figure and widget.
COLORS = {
    "q": "#0072B2",
    "k": "#E69F00",
    "v": "#009E73",
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "sky": "#56B4E9",
    "pink": "#CC79A7",
    "yellow": "#F0E442",
    "ink": "#222222",
    "grey": "#8A8A8A",
    "paper": "#FFFFFF",
}
AMOUNTS = "cividis"  # from little to much
SIGNED = "PuOr"  # from minus to plus, white at 0
HIDDEN = "#D9D9D9"  # masked, infinite or undefined
PIXELS_PER_INCH = 80  # a figure's width on screen
SHARPNESS = 2  # pixels drawn per pixel on screen, for dense displays


def use_style() -> None:
    """Set matplotlib to the course's style: white paper, so that it reads on JupyterLab's light and dark themes."""
    mpl.rcParams.update(
        {
            "figure.figsize": (7.0, 3.5),
            "figure.facecolor": COLORS["paper"],
            "figure.constrained_layout.use": True,
            "figure.titlesize": 12,
            "figure.titleweight": "bold",
            "savefig.facecolor": COLORS["paper"],
            "axes.facecolor": COLORS["paper"],
            "axes.edgecolor": COLORS["grey"],
            "axes.labelcolor": COLORS["ink"],
            "axes.titlesize": 12,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(
                color=[COLORS[name] for name in ("blue", "orange", "green", "red", "sky", "pink", "ink")]
            ),
            "font.size": 11,
            "text.color": COLORS["ink"],
            "xtick.color": COLORS["ink"],
            "ytick.color": COLORS["ink"],
            "lines.linewidth": 2,
            "legend.frameon": False,
            "image.cmap": AMOUNTS,
            "image.interpolation": "nearest",
        }
    )


def show(fig: Figure, alt: str) -> None:
    """Display a figure with its description, and close it.

    JupyterLab drops alternative texts given as display metadata, so the figure goes out as HTML. Outside of IPython
    the description alone is printed.

    Args:
        fig: the figure; its title (the figure's own or that of one of its axes) says what it shows.
        alt: what the figure shows, in a sentence or two, for those who hear it instead of seeing it.

    Raises:
        ValueError: the description is empty, or the figure has no title.
    """
    if not alt.strip():
        raise ValueError('alt="" is empty: describe in a sentence what the figure shows')
    if not (fig.get_suptitle() or any(ax.get_title(loc) for ax in fig.axes for loc in ("left", "center", "right"))):
        raise ValueError("the figure has no title: state its finding with ax.set_title(…) or fig.suptitle(…)")
    from IPython import get_ipython
    from IPython.display import display

    if get_ipython() is None:  # a script has nowhere to show it
        print(alt)
    else:
        display({"text/html": as_html(fig, alt), "text/plain": alt}, raw=True)
    plt.close(fig)


def as_html(fig: Figure, alt: str) -> str:
    """The figure as an HTML `<figure>` that holds its PNG and its description."""
    png = io.BytesIO()
    fig.savefig(png, format="png", dpi=PIXELS_PER_INCH * SHARPNESS)
    data = base64.b64encode(png.getvalue()).decode("ascii")
    width = round(fig.get_figwidth() * PIXELS_PER_INCH)
    return (
        f'<figure style="margin: 0.5em 0"><img alt="{html.escape(alt)}" width="{width}" style="max-width: 100%" '
        f'src="data:image/png;base64,{data}"></figure>'
    )


def heatmap(
    ax: Axes,
    matrix: ArrayLike,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    values: bool = False,
    signed: bool = False,
    limits: tuple[float, float] | None = None,
    colorbar: str | None = None,
) -> AxesImage:
    """Draw a matrix as coloured cells; infinite or undefined cells (masked scores) are grey.

    Args:
        ax: where to draw.
        matrix: tensor or array `(rows, columns)`.
        rows, columns: labels, one for each row and column; without them, the axes count from 0.
        values: write each value into its cell.
        signed: colour around 0, from minus to plus; otherwise from little to much.
        limits: values of the lowest and the highest colour; by default the matrix's own.
        colorbar: label of a colour bar beside the axes; without it there is none.

    Returns:
        The image, so that another heatmap can share its colours.

    Raises:
        ValueError: the matrix is not two-dimensional, or the labels do not match it.
    """
    cells = to_array(matrix)
    if cells.ndim != 2:
        raise ValueError(f"matrix has shape {cells.shape}; a heatmap takes two: pick one sample and one head")
    for name, labels, size in (("rows", rows, cells.shape[0]), ("columns", columns, cells.shape[1])):
        if labels is not None and len(labels) != size:
            raise ValueError(f"{name} has {len(labels)} labels; the matrix of shape {cells.shape} needs {size}")
    finite = cells[np.isfinite(cells)]
    if limits is None and finite.size:
        limits = (float(finite.min()), float(finite.max()))
        if signed:
            reach = max(abs(limit) for limit in limits)
            limits = (-reach, reach)
    low, high = limits or (0.0, 1.0)
    cmap = mpl.colormaps[SIGNED if signed else AMOUNTS].with_extremes(bad=HIDDEN)
    image = ax.imshow(np.ma.masked_invalid(cells), cmap=cmap, vmin=low, vmax=high, aspect="equal")
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    if rows is not None:
        ax.set_yticks(range(len(rows)), rows)
    if columns is not None:
        steep = max(map(len, columns), default=0) > 2
        ax.set_xticks(range(len(columns)), columns, rotation=45 if steep else 0, ha="right" if steep else "center")
    if values:
        _write_values(ax, image, cells)
    if colorbar is not None:
        bar = ax.figure.colorbar(image, ax=ax, shrink=0.85)
        bar.set_label(colorbar)
        bar.outline.set_visible(False)
    return image


def curves(history: "History") -> Figure:
    """Loss per step and validation accuracy per epoch of a training run, titled with what they reached.

    Args:
        history: as `headroom.training.train` and its like return it.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
    left.plot(history.losses, color=COLORS["sky"], linewidth=0.7, label="each step")
    smooth = _running_mean(history.losses, window=max(1, len(history.losses) // 50))
    left.plot(smooth, color=COLORS["ink"], label="running mean")
    left.set(xlabel="step", ylabel="loss (cross-entropy)", ylim=(0, None), title="No step was finished")
    if history.losses:
        left.set_title(f"The loss went from {smooth[0]:.2f} to {smooth[-1]:.2f}")
    left.legend()

    epochs = range(1, len(history.val_accuracy) + 1)
    right.plot(epochs, [100 * accuracy for accuracy in history.val_accuracy], color=COLORS["ink"], marker=".")
    right.set(xlabel="epoch", ylabel="validation accuracy, %", title="No epoch was finished")
    right.xaxis.get_major_locator().set_params(integer=True)
    if history.val_accuracy:
        stopped = ", then stopped" if history.interrupted else ""
        right.set_title(f"{100 * history.val_accuracy[-1]:.1f} % after {len(epochs)} epochs{stopped}")
    return fig


def gallery(images: ArrayLike, captions: Sequence[str], title: str, columns: int = 10) -> Figure:
    """Small grey images in rows, ink dark on white, each with a caption.

    Args:
        images: `(n, 1, height, width)` or `(n, height, width)`, values in [0, 1].
        captions: one for each image.
        title: what they show together.
        columns: images in a row.

    Raises:
        ValueError: the number of captions differs from that of the images.
    """
    pixels = to_array(images)
    pixels = pixels.reshape(len(pixels), *pixels.shape[-2:])
    if len(captions) != len(pixels):
        raise ValueError(f"captions has {len(captions)} entries for {len(pixels)} images")
    rows = -(-len(pixels) // columns)
    fig, axes = plt.subplots(rows, columns, figsize=(0.9 * columns, 1.15 * rows + 0.4), squeeze=False)
    for ax in axes.flat:
        ax.axis("off")
    for ax, image, caption in zip(axes.flat, pixels, captions, strict=False):
        ax.imshow(image, cmap="gray_r", vmin=0, vmax=1)
        ax.set_title(caption, loc="center", fontsize=10, fontweight="normal")
    fig.suptitle(title, x=0.01, ha="left")
    return fig


def patch_map(ax: Axes, image: ArrayLike, weights: ArrayLike, limits: tuple[float, float] | None = None) -> AxesImage:
    """An image under the weights of its patches: the stronger the weight, the stronger the orange.

    Args:
        ax: where to draw.
        image: `(height, width)` or `(1, height, width)`, values in [0, 1].
        weights: one for each patch, row by row, `(patches,)`: without that of [class].
        limits: weights of no and of full colour; by default 0 and the largest weight.

    Raises:
        ValueError: the number of weights is not that of a square of patches.
    """
    pixels, weights = to_array(image), to_array(weights)
    height, width = pixels.shape[-2:]
    side = round(len(weights) ** 0.5)
    if weights.ndim != 1 or side**2 != len(weights):
        raise ValueError(
            f"weights has shape {weights.shape}; it takes one weight for each patch of a square image, "
            "without that of [class]"
        )
    low, high = limits or (0.0, float(weights.max()))
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    ax.imshow(pixels.reshape(height, width), cmap="gray_r", vmin=0, vmax=1, extent=extent)
    fade = LinearSegmentedColormap.from_list("weights", [COLORS["k"] + "00", COLORS["k"] + "D0"])
    heat = ax.imshow(weights.reshape(side, side), cmap=fade, vmin=low, vmax=high, extent=extent)
    for edge in range(1, side):
        ax.axvline(edge * width / side - 0.5, color=COLORS["grey"], linewidth=0.4)
        ax.axhline(edge * height / side - 0.5, color=COLORS["grey"], linewidth=0.4)
    ax.set(xticks=[], yticks=[])
    return heat


def attention_step(
    words: Sequence[str],
    asks: str,
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike,
    output: ArrayLike,
    title: str,
) -> Figure:
    """One query's step of attention, number by number: it meets all keys, and the values are mixed.

    Letter, hatching and colour all say what is a query, a key or a value.

    Args:
        words: the tokens, one for each key.
        asks: the word whose query it is.
        q: that query, `(d_k,)`.
        k, v: keys `(tokens, d_k)` and values `(tokens, d_v)`.
        scores, weights: of the query with each key, `(tokens,)`.
        output: the weighted mean of the values, `(d_v,)`.
        title: the figure's finding.

    Raises:
        ValueError: the number of words differs from that of the keys, values, scores or weights.
    """
    q, k, v, scores, weights, output = map(to_array, (q, k, v, scores, weights, output))
    for name, array in (("k", k), ("v", v), ("scores", scores), ("weights", weights)):
        if len(array) != len(words):
            raise ValueError(f"{name} has {len(array)} rows for {len(words)} words")
    middle = len(q) + 1.6  # of the column of scores
    values = middle + 7.8  # where the values' cells start
    bottom = len(words) + 3
    fig, ax = plt.subplots(figsize=(10.4, 0.66 * bottom + 0.6))
    arrow = {"arrowstyle": "-|>", "color": COLORS["ink"], "linewidth": 1}
    _vector(ax, 0, 0, q, "q", asks)
    for row, word in enumerate(words, start=2):
        score, weight = scores[row - 2], weights[row - 2]
        _vector(ax, 0, row, k[row - 2], "k", word)
        ax.annotate("", (middle - 0.6, row), (len(q) + 0.1, row), arrowprops=arrow)
        ax.text(middle, row, f"{score:.2f}", ha="center", va="center")
        ax.annotate("", (middle + 1.3, row), (middle + 0.6, row), arrowprops=arrow)
        ax.add_patch(Rectangle((middle + 1.4, row - 0.3), 2 * weight, 0.6, color=COLORS["grey"]))
        ax.text(middle + 1.5 + 2 * weight, row, f"{weight:.2f}", va="center")
        ax.annotate("", (values - 2.3, row), (middle + 2.7 + 2 * weight, row), arrowprops=arrow)
        _vector(ax, values, row, v[row - 2], "v", word)
    ax.annotate("", (values + 0.3, bottom - 0.45), (values + 0.3, bottom - 1.5), arrowprops=arrow)
    _vector(ax, values, bottom, output, "", f"what “{asks}” takes in")
    for x, y, text in (
        (len(q) / 2, 1, "a query meets all keys"),
        (middle, 1, "1. scores"),
        (middle + 2.4, 1, "2. weights"),
        (values + len(output) / 2, 1, "values"),
        (values + len(output) / 2 + 0.5, bottom - 1, "3. their weighted mean"),
    ):
        ax.text(x, y, text, ha="center", va="center", style="italic")
    ax.set(xlim=(-3, values + len(output) + 0.5), ylim=(bottom + 0.6, -0.6), title=title)
    ax.axis("off")
    return fig


def to_array(values: ArrayLike) -> np.ndarray:
    """A tensor (on any device, with or without gradients) or anything array-like, as a float array."""
    detach = getattr(values, "detach", None)
    return np.asarray(values if detach is None else detach().cpu().numpy(), dtype=float)


def _vector(ax: Axes, x: float, y: float, numbers: np.ndarray, kind: str, name: str) -> None:
    """A row of cells from `x` on, in the look of a query ("q"), key ("k"), value ("v") or of none of them ("")."""
    color = COLORS[kind or "ink"]
    ax.text(x - 1.2, y, name, ha="right", va="center")
    if kind:
        hatch = {"q": "//", "k": "..", "v": "xx"}[kind]
        ax.add_patch(Rectangle((x - 1, y - 0.4), 0.9, 0.8, facecolor="white", edgecolor=color, hatch=hatch))
        clear = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        ax.text(x - 0.55, y, kind.upper(), ha="center", va="center", weight="bold", bbox=clear)
    decimals = next((n for n in (0, 1) if np.allclose(numbers, numbers.round(n))), 2)  # as many in each cell
    for place, number in enumerate(numbers):
        ax.add_patch(Rectangle((x + place, y - 0.4), 1, 0.8, facecolor=color + "30", edgecolor=color))
        text = f"{number:.{decimals}f}".replace("-", "−")
        ax.text(x + place + 0.5, y, text, ha="center", va="center")


def _running_mean(values: Sequence[float], window: int) -> np.ndarray:
    """The mean of the last `window` values at each step (of fewer at the start)."""
    sums = np.cumsum(np.concatenate([[0.0], np.asarray(values, dtype=float)]))
    ends = np.arange(1, len(sums))
    starts = np.maximum(0, ends - window)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _write_values(ax: Axes, image: AxesImage, cells: np.ndarray) -> None:
    """Each cell's value at its centre, dark on light cells and light on dark ones."""
    for (row, column), value in np.ndenumerate(cells):
        red, green, blue, _ = image.cmap(image.norm(value)) if np.isfinite(value) else to_rgba(HIDDEN)
        dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        text = f"{value:.2f}".replace("inf", "∞").replace("-", "−")
        ax.text(column, row, text, ha="center", va="center", fontsize=9, color="white" if dark else COLORS["ink"])
