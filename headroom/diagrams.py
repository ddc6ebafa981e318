"""Diagrams of models: boxes, arrows, and the paths that tokens take through them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from headroom.figures import COLORS, HIDDEN, SIGNED, ArrayLike, to_array

if TYPE_CHECKING:
    from torch import nn

    from headroom.reference import Transformer

FILLED = "#CDE8F7"  # a box that stands out: a light sky
CIRCLE = {"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": COLORS["ink"], "linewidth": 1.4}


def word_paths(words: Sequence[str]) -> Figure:
    """The way from the first word to the last: along a recurrent network, up a convolution over 7, through attention.

    Args:
        words: at least two; the longest path has a step for each of them but the first.
    """
    last = len(words) - 1
    reach = 3  # places on either side
    layers = -(-last // reach)
    fig, axes = plt.subplots(1, 3, figsize=(10.4, 3.1), sharey=True)
    grey, pink = {"color": COLORS["grey"], "linewidth": 0.5}, {"color": COLORS["pink"], "linewidth": 2.4}
    recurrent, convolution, attention = axes
    for place in range(last + 1):
        recurrent.plot([place, place], [0, 1], **grey)
    recurrent.plot([0, *range(last + 1)], [0] + [1] * (last + 1), **pink)
    recurrent.set_title(f"Recurrent: {last} steps")
    for layer in range(layers):
        for here in range(last + 1):
            for there in range(max(0, here - reach), min(last, here + reach) + 1):
                convolution.plot([there, here], [layer, layer + 1], **grey)
    convolution.plot([min(last, reach * layer) for layer in range(layers + 1)], range(layers + 1), **pink)
    convolution.set_title(f"Convolution over {2 * reach + 1}: {layers} layers")
    for here in range(last + 1):
        for there in range(last + 1):
            attention.plot([there, here], [0, 1], **grey)
    attention.plot([0, last], [0, 1], **pink)
    attention.set_title("Attention: 1 layer")
    for ax, height in zip(axes, (1, layers, 1), strict=True):
        for row in range(height + 1):
            ax.plot(range(last + 1), [row] * (last + 1), "o", color=COLORS["ink"], markersize=4)
        ax.set_xticks(range(last + 1), words, rotation=60, ha="right", fontsize=9)
        ax.set(yticks=[], ylim=(-0.2, layers + 0.2))
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
    fig.suptitle(f"From “{words[0]}” to “{words[-1]}”: a direct path only through attention")
    return fig


def decoder_block() -> Figure:
    """The inside of a pre-norm decoder block: three branches around the residual stream, and where the memory enters.

    Q, K and V have their colours and their letters.
    """
    fig, ax = plt.subplots(figsize=(10.4, 4.3))
    arrow = {"arrowstyle": "-|>", "color": COLORS["ink"], "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (10.9, 0), (-0.5, 0), arrowprops=arrow | {"linewidth": 3})
    ax.text(-0.6, 0, "x", ha="right", va="center", weight="bold")
    ax.text(
        -0.45, -0.55, "residual stream: (batch, tokens, d_model), in and out", va="center", style="italic", fontsize=10
    )
    branches = (
        ("masked self-attention", "mask: causal", "QKV"),
        ("cross-attention", "memory_mask: padding", "Q"),
        ("feed-forward network", "each token by itself", ""),
    )
    for number, (name, detail, letters) in enumerate(branches):
        leaves = 0.3 + 3.7 * number  # where the branch leaves the stream, and where it comes back
        returns = leaves + 2.3
        ax.plot(leaves, 0, "o", color=COLORS["ink"], markersize=6)
        ax.annotate("", (leaves, 0.75), (leaves, 0), arrowprops=arrow)
        _labelled_box(ax, leaves - 0.55, 0.75, 1.1, 0.5, f"norm_{number + 1}")
        ax.annotate("", (leaves, 1.95), (leaves, 1.25), arrowprops=arrow)
        _letters(ax, leaves + 0.18, 1.6, letters)
        _labelled_box(ax, leaves - 0.55, 1.95, 3.2, 0.85, f"{name}\n{detail}")
        ax.annotate("", (returns, 0.2), (returns, 1.95), arrowprops=arrow)
        ax.text(returns, 0, "+", ha="center", va="center", weight="bold", fontsize=13, bbox=CIRCLE)
    middle = 0.3 + 3.7 - 0.55 + 1.6  # of the cross-attention
    _labelled_box(ax, middle - 2.7, 3.75, 5.4, 0.6, "memory, from the encoder: (batch, source_tokens, d_model)")
    ax.annotate("", (middle, 2.8), (middle, 3.75), arrowprops=arrow)
    _letters(ax, middle + 0.18, 3.28, "KV")
    ax.set(xlim=(-0.9, 11), ylim=(-0.8, 4.5), title="The memory enters the decoder block in one place: cross-attention")
    ax.axis("off")
    return fig


def transformer(model: "Transformer", source: str, given: str, written: str) -> Figure:
    """A pre-norm encoder-decoder: each sub-layer, where the masks and the memory go in, and the parameters' numbers.

    Args:
        model: its blocks and its parameters are counted.
        source: what the encoder reads.
        given: what the decoder reads.
        written: what comes out of the head.
    """
    n_blocks, n_all = len(model.encoder.blocks), _count(model)
    fig, ax = plt.subplots(figsize=(10.4, 7.2))
    for name, x, way, embedding, text, branches in (  # the stream's place, and on which side its branches are
        ("encoder", 1.3, 1, model.embed_source, source, (("self-attention", "QKV"), ("feed-forward\nnetwork", ""))),
        (
            "decoder",
            12.7,
            -1,
            model.embed_target,
            given,
            (("masked\nself-attention", "QKV"), ("cross-attention", "Q"), ("feed-forward\nnetwork", "")),
        ),
    ):
        stack, top = getattr(model, name), 2.3 + 1.4 * len(branches)
        start = min(x - 0.4 * way, x + 4.4 * way)  # of the block's frame
        ax.add_patch(Rectangle((start, 2.05), 4.8, top - 2.05, facecolor="#F4F4F4", edgecolor=COLORS["grey"]))
        note = f"{name} block, {_count(stack.blocks[0])} parameters; × {n_blocks}"
        ax.text(x + 2 * way, top + 0.2, note, ha="center", va="center", style="italic", fontsize=10)
        ax.text(x, 0, text, ha="center", va="center", family="monospace", fontsize=10)
        _arrow(ax, (x, 0.2), (x, 0.55))
        _labelled_box(ax, x - 1.25, 0.55, 2.5, 0.65, f"embedding · √d_model\n{_count(embedding)} parameters")
        _arrow(ax, (x, 1.2), (x, top + 0.45))
        _arrow(ax, (x + 1.3 * way, 1.6), (x + 0.24 * way, 1.6))
        ax.text(x, 1.6, "+", ha="center", va="center", weight="bold", bbox=CIRCLE)
        ax.text(x + 1.4 * way, 1.6, "positions", ha="left" if way > 0 else "right", va="center", fontsize=10)
        for number, (branch, letters) in enumerate(branches):
            y = 2.5 + 1.4 * number
            ax.plot(x, y, "o", color=COLORS["ink"], markersize=5)
            _arrow(ax, (x, y), (x + 0.35 * way, y))
            _labelled_box(ax, x + 0.91 * way - 0.56, y - 0.25, 1.12, 0.5, "LayerNorm")
            _arrow(ax, (x + 1.47 * way, y), (x + 2.45 * way, y))
            _letters(ax, x + 1.96 * way - 0.16 * len(letters) + 0.03, y + 0.2, letters)
            _labelled_box(ax, x + 3.35 * way - 0.9, y - 0.32, 1.8, 0.64, branch)
            _arrow(ax, (x + 3.35 * way, y + 0.32), (x + 3.35 * way, y + 0.75), (x + 0.24 * way, y + 0.75))
            ax.text(x, y + 0.75, "+", ha="center", va="center", weight="bold", bbox=CIRCLE)
        _labelled_box(ax, x - 0.7, top + 0.45, 1.4, 0.5, "LayerNorm")
    for y, name, hidden in ((2.5, "causal mask", lambda i, j: j > i), (3.5, "padding mask", lambda _, j: j > 2)):
        for i, j in np.ndindex(5, 5):  # a row for each query
            place, shade = (6.7 + 0.12 * j, y + 0.18 - 0.12 * i), HIDDEN if hidden(i, j) else COLORS["sky"]
            ax.add_patch(Rectangle(place, 0.12, 0.12, facecolor=shade, edgecolor="white", linewidth=0.7))
        ax.text(7, y - 0.44, name, ha="center", va="center", fontsize=9, style="italic")
    _arrow(ax, (7.35, 2.5), (8.45, 2.5))
    _arrow(ax, (6.65, 3.5), (6.1, 3.5), (6.1, 2.5), (5.55, 2.5))
    _arrow(ax, (7.35, 3.5), (7.75, 3.5), (7.75, 3.75), (8.45, 3.75))
    _arrow(ax, (1.3, 6.05), (1.3, 6.6), (3, 6.6))
    _labelled_box(ax, 3, 6.27, 3.2, 0.66, "memory, to every decoder block\n(batch, source_tokens, d_model)")
    _arrow(ax, (6.2, 6.6), (7, 6.6), (7, 4.1), (8.45, 4.1))
    _letters(ax, 7.3, 4.32, "KV")
    _arrow(ax, (12.7, 7.45), (12.7, 7.85))
    _labelled_box(ax, 11.45, 7.85, 2.5, 0.65, f"head\n{_count(model.head)} parameters")
    _arrow(ax, (12.7, 8.5), (12.7, 8.85))
    ax.text(12.7, 9.05, written, ha="center", va="center", family="monospace", fontsize=10)
    title = f"The whole Transformer, {n_all} parameters: only cross-attention joins its halves"
    ax.set(xlim=(-0.1, 14.1), ylim=(-0.3, 9.3), title=title)
    ax.axis("off")
    return fig


def vision_transformer(image: ArrayLike, tokens: ArrayLike, positions: ArrayLike, logits: ArrayLike) -> Figure:
    """The way of an image through a Vision Transformer with [class]: patches, tokens, positions, a block, logits.

    Args:
        image: `(height, width)`, values in [0, 1], a square of 4 × 4 patches.
        tokens: [class] and the embedded patches, `(17, d_model)`, before the positions are added.
        positions: the table that is added, of the same shape.
        logits: `(classes,)`.

    Raises:
        ValueError: there are not 17 tokens, or not as many positions.
    """
    image, tokens, positions, logits = (to_array(one) for one in (image, tokens, positions, logits))
    if len(tokens) != 17 or tokens.shape != positions.shape:
        raise ValueError(
            f"tokens {tokens.shape} and positions {positions.shape} must both have the shape (17, d_model)"
        )
    fig, ax = plt.subplots(figsize=(10.4, 5.3))
    ax.imshow(image, extent=(0, 1.5, 1.52, 3.02), cmap="gray_r", aspect="auto")
    for edge in (0.375, 0.75, 1.125):
        ax.plot([edge, edge], [1.52, 3.02], color=COLORS["sky"], linewidth=1)
        ax.plot([0, 1.5], [1.52 + edge, 1.52 + edge], color=COLORS["sky"], linewidth=1)
    _labelled_box(ax, 2.5, 0.06, 0.7, 4.16, "linear\n$E, b$")
    side = len(image) // 4
    cells: dict[str, Any] = {"aspect": "auto", "cmap": SIGNED, "vmin": -1, "vmax": 1}
    for number in range(17):
        y = 4.35 - 0.26 * number
        for x, table in ((3.4, tokens), (4.75, positions)):  # the first twelve numbers of each
            ax.imshow(table[number : number + 1, :12], extent=(x, x + 1, y - 0.1, y + 0.1), **cells)
            ax.add_patch(Rectangle((x, y - 0.1), 1, 0.2, fill=False, edgecolor=COLORS["grey"], linewidth=0.6))
        if number:
            row, column = divmod(number - 1, 4)
            tile = image[row * side : (row + 1) * side, column * side : (column + 1) * side]
            ax.imshow(tile, extent=(2.05, 2.29, y - 0.12, y + 0.12), cmap="gray_r", vmin=0, vmax=1, aspect="auto")
            ax.add_patch(Rectangle((2.05, y - 0.12), 0.24, 0.24, fill=False, edgecolor=COLORS["sky"]))
    ax.text(4.57, 2.27, "+", ha="center", va="center", fontsize=18)
    ax.add_patch(Rectangle((6.15, 0.06), 2.1, 4.42, facecolor=FILLED, edgecolor=COLORS["sky"]))
    for y, name in ((3.15, "self-attention"), (1.05, "feed-forward")):
        _labelled_box(ax, 6.85, y, 1.3, 0.4, name)
        _labelled_box(ax, 6.85, y + 0.55, 1.3, 0.4, "LayerNorm")
        _arrow(ax, (6.6, y + 0.75), (6.85, y + 0.75))
        _arrow(ax, (7.5, y), (7.5, y - 0.3), (6.68, y - 0.3))
        ax.text(6.6, y - 0.3, "+", ha="center", va="center", bbox=CIRCLE)
    _labelled_box(ax, 8.6, 0.06, 0.5, 4.42, "Layer\nNorm")
    _labelled_box(ax, 9.45, 4.1, 0.6, 0.5, "head")
    for path in (
        ((1.55, 2.27), (1.95, 2.27)),
        ((5.8, 2.27), (6.1, 2.27)),
        ((6.6, 4.4), (6.6, 0.1)),
        ((8.25, 2.27), (8.55, 2.27)),
        ((9.1, 4.35), (9.4, 4.35)),
        ((9.75, 4.1), (9.75, 3.75)),
    ):
        _arrow(ax, *path)
    lengths = (logits - logits.min()) / max(float(np.ptp(logits)), 1e-9)
    for number, length in enumerate(lengths):
        y = 3.55 - 0.36 * number
        ax.add_patch(Rectangle((9.55, y - 0.1), 0.05 + 0.75 * float(length), 0.2, color=COLORS["ink"]))
        ax.text(9.45, y, str(number), ha="right", va="center", fontsize=10)
    names = {"image": 0.75, "16 patches": 2.2, "[class], tokens": 3.9, "positions": 5.25}
    for name, x in (names | {"encoder block, repeated": 7.2, "logits": 10}).items():
        ax.text(x, 4.85, name, ha="center", va="center", style="italic")
    title = "From patches to logits: 17 tokens go in, and the logits come from [class] alone"
    ax.set(xlim=(-0.05, 10.45), ylim=(0, 5.05), title=title)
    ax.axis("off")
    return fig


def diagram(
    ax: Axes,
    boxes: Mapping[str, tuple[float, float, str]],
    arrows: Sequence[Sequence[str | tuple[float, float]]],
    *,
    width: float = 1.6,
    marked: Sequence[str] = (),
) -> None:
    """Boxes and the arrows between them: what flows where in a block.

    Args:
        ax: where to draw; one unit across is as long as one unit up.
        boxes: name → centre and text; a text of one letter or sign (“+”) is a circle.
        arrows: each the corners that it goes through, points or names of boxes; it ends at the edge of its last one.
        width: of a box that is no circle.
        marked: names of the boxes that are filled.

    Raises:
        ValueError: an arrow's last part is neither level nor upright.
    """
    half = {name: (0.22, 0.22) if len(text) == 1 else (width / 2, 0.3) for name, (_, _, text) in boxes.items()}
    for arrow in arrows:
        points = [boxes[corner][:2] if isinstance(corner, str) else corner for corner in arrow]
        (x0, y0), (x, y) = points[-2:]
        if x0 != x and y0 != y:
            raise ValueError(f"the arrow {list(arrow)} ends aslant: give it a corner at ({x0}, {y}) or ({x}, {y0})")
        across, up = half[arrow[-1]] if isinstance(arrow[-1], str) else (0.0, 0.0)
        points[-1] = (x - across * np.sign(x - x0), y - up * np.sign(y - y0))
        ax.plot(*zip(*points, strict=True), color=COLORS["ink"], linewidth=1.4, zorder=1)
        look = {"arrowstyle": "-|>", "color": COLORS["ink"], "shrinkA": 0, "shrinkB": 0, "linewidth": 1.4}
        ax.annotate("", points[-1], points[-2], arrowprops=look, zorder=1)
    for name, (x, y, text) in boxes.items():
        across, up = half[name]
        look: dict[str, Any] = {
            "facecolor": FILLED if name in marked else "white",
            "edgecolor": COLORS["ink"],
            "zorder": 2,
        }
        corner = (x - across, y - up)
        ax.add_patch(
            Circle((x, y), across, **look) if len(text) == 1 else Rectangle(corner, 2 * across, 2 * up, **look)
        )
        ax.text(x, y, text, ha="center", va="center", zorder=3)
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.axis("off")


def _count(part: "nn.Module") -> str:
    """The number of its parameters, as text."""
    return f"{sum(one.numel() for one in part.parameters()):,}"


def _arrow(ax: Axes, *path: tuple[float, float]) -> None:
    """A line through the points of the path, with a head at its end."""
    ax.plot(*zip(*path, strict=True), color=COLORS["ink"], linewidth=1.1)
    look = {"arrowstyle": "-|>", "color": COLORS["ink"], "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", path[-1], path[-2], arrowprops=look)


def _labelled_box(ax: Axes, x: float, y: float, width: float, height: float, text: str) -> None:
    """A frame from its lower left corner on, with text in its middle."""
    ax.add_patch(Rectangle((x, y), width, height, facecolor="#EAF3FA", edgecolor=COLORS["ink"], linewidth=1.2))
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=10, linespacing=1.4)


def _letters(ax: Axes, x: float, y: float, letters: str) -> None:
    """The letters of queries, keys and values beside an arrow, each in its colour."""
    for place, letter in enumerate(letters):
        color = COLORS[letter.lower()]
        ax.text(x + 0.32 * place, y, letter, va="center", weight="bold", color=color)
