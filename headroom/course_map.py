"""The map of the course as a picture and as a list, and how long a lecture takes.

Lecture 0 shows the list; `python -m headroom map` writes the picture into docs/course_map.png, for the README.
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headroom.course import BY_NAME, Piece, core, existing, minutes, needed
from headroom.figures import COLORS, PIXELS_PER_INCH, SHARPNESS, use_style

PICTURE = Path("docs") / "course_map.png"
STORED = "Headroom"  # under which the picture keeps what it was drawn from
WIDE, TALL, LAB = 3.35, 0.9, 0.4  # of a lecture's box, and the height of a lab's, in inches
ACROSS, DOWN = 3.75, 1.78  # from one box to the next


@dataclass
class Length:
    """What there is to read in a part of a lecture.

    Attributes:
        words: of prose.
        lines: of code that is seen before anything is unfolded.
        questions: that are asked on the way.
        pauses: displayed formulas, figures, widgets, and things to try in a numbered list.
    """

    words: int = 0
    lines: int = 0
    questions: int = 0
    pauses: int = 0

    @property
    def minutes(self) -> int:
        """How long it takes, to the nearest five: a minute for 150 words or 6 lines, 1.5 for a question or a pause.

        Chosen by least squares over what three readers needed for lectures 0 to 12, with 150 words a minute given.
        """
        exact = self.words / 150 + self.lines / 6 + 1.5 * (self.questions + self.pauses)
        return max(5, 5 * round(exact / 5)) if exact else 0


def length(notebook: nbformat.NotebookNode) -> tuple[Length, Length]:
    """How long a lecture's core path is, and how long the sections beside it, whose headings begin with "Further"."""
    on_path, beside = Length(), Length()
    path = {id(cell) for cell in core(notebook.cells)}
    for cell in notebook.cells:
        part = on_path if id(cell) in path else beside
        if cell.cell_type == "markdown":
            part.pauses += cell.source.count("$$") // 2 + len(re.findall(r"^\d\. ", cell.source, re.MULTILINE))
            part.words += sum(bool(re.search(r"\w", word)) for word in cell.source.replace("|", " ").split())
            continue
        part.pauses += bool(re.search(r"\bshow\(|headroom\.widgets import", cell.source))
        if asked := re.findall(r"\bask\(", cell.source):
            part.questions += len(asked)
        elif not cell.metadata.get("jupyter", {}).get("source_hidden"):
            part.lines += sum(bool(line.strip()) for line in cell.source.splitlines())
    return on_path, beside


def contents(course: Path) -> str:
    """What exists, as a Markdown table with links from lectures/: what is in it, minutes, what it needs."""
    lines = ["| | contents | minutes | you need before |", "|---|---|--:|---|"]
    for piece in existing(course):
        notebook = piece.notebook(course)
        assert notebook is not None  # it exists
        path = notebook.relative_to(course).as_posix()
        needs = ", ".join(one.called.lower() for one in needed(piece, course)) or "nothing"
        link = f"[{piece.called} · {piece.title}](../{path})"
        lines.append(f"| {link} | {piece.builds} | {minutes(piece, course)} | {needs} |")
    return "\n".join(lines)


def course_map(course: Path) -> Figure:
    """Draw what exists: a box for each lecture, its lab under it, arrows from what is needed to what needs it.

    Args:
        course: the course's folder, where the notebooks are.
    """
    pieces = existing(course)
    labs = {piece.needs[-1] for piece in pieces if piece.is_lab}
    rows = 1 + max(piece.place[0] for piece in pieces if piece.place)
    fig, ax = plt.subplots(figsize=(3 * ACROSS - 0.25, rows * DOWN + 0.15))
    for piece in pieces:
        x, y = _corner(piece)
        _box(ax, piece, x, y, minutes(piece, course))
        for above in needed(piece, course) if not piece.is_lab else ():
            _arrow(ax, above, piece, above.name in labs)
    ax.set(xlim=(-0.08, 3 * ACROSS - 0.3), ylim=(rows * DOWN - 0.42, -0.1), aspect="equal")
    ax.axis("off")
    counts = f"{len(pieces) - len(labs)} lectures and {len(labs)} labs"
    fig.suptitle(f"{counts}: what each builds, and what comes before it")
    return fig


def write_picture(course: Path) -> Path:
    """Draw the map into docs/course_map.png, and return that path."""
    path = course / PICTURE
    path.parent.mkdir(exist_ok=True)
    use_style()
    fig = course_map(course)
    fig.savefig(path, dpi=PIXELS_PER_INCH * SHARPNESS, metadata={STORED: drawn_from(course), "Software": None})
    plt.close(fig)
    return path


def drawn_from(course: Path) -> str:
    """What the picture depends on, in a line: which pieces exist, and their minutes."""
    return ", ".join(f"{piece.name} {minutes(piece, course)}" for piece in existing(course))


def _corner(piece: Piece) -> tuple[float, float]:
    """The upper left corner of its box."""
    place = piece.place or BY_NAME[piece.needs[-1]].place
    assert place is not None  # a lab stands below a lecture
    row, column = place
    return column * ACROSS, row * DOWN + (TALL if piece.is_lab else 0)


def _box(ax: Axes, piece: Piece, x: float, y: float, duration: str) -> None:
    color = COLORS["ink"]
    fill = "#FFF6DC" if piece.is_lab else "#EAF3FA"
    tall = LAB if piece.is_lab else TALL
    ax.add_patch(Rectangle((x, y), WIDE, tall, facecolor=fill, edgecolor=color, linewidth=1.2))
    number = int(piece.name[-2:])
    head = f"Lab {number} · {piece.title}" if piece.is_lab else f"{number} · {piece.title}"
    weight = "normal" if piece.is_lab else "bold"
    ax.text(x + 0.1, y + 0.21, head, va="center", fontsize=9.5 if piece.is_lab else 10.5, weight=weight, color=color)
    ax.text(x + WIDE - 0.08, y + 0.21, f"{duration} min", va="center", ha="right", fontsize=9, color=color)
    if not piece.is_lab:
        ax.text(x + 0.1, y + 0.4, textwrap.fill(piece.builds, 42), va="top", fontsize=9, color=color, linespacing=1.3)


def _arrow(ax: Axes, above: Piece, below: Piece, has_lab: bool) -> None:
    (x0, y0), (x1, y1) = _corner(above), _corner(below)
    if y0 == y1:  # beside each other
        right = x1 > x0
        start, end = (x0 + WIDE if right else x0, y0 + TALL / 2), (x1 if right else x1 + WIDE, y1 + TALL / 2)
    else:
        lean = 0.3 * WIDE * ((x1 > x0) - (x1 < x0))  # an arrow that goes aside starts and ends on that side
        start, end = (x0 + WIDE / 2 + lean, y0 + TALL + has_lab * LAB), (x1 + WIDE / 2 - lean, y1)
    arrow = {"arrowstyle": "-|>", "color": COLORS["ink"], "shrinkA": 1, "shrinkB": 1, "linewidth": 1.3}
    ax.annotate("", end, start, arrowprops=arrow)
