"""The map of the course: what each lecture and lab builds, what needs what, how many minutes it takes.

Lecture 0 draws it and lists what there is; `python -m headroom map` writes docs/course_map.png for the README. The
table below is the course as it is laid out; what exists is seen from the notebooks, and so are their minutes.
"""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headroom.figures import COLORS, PIXELS_PER_INCH, SHARPNESS, use_style

PICTURE = Path("docs") / "course_map.png"
FURTHER = "## Further: "  # begins a section beside a lecture's core path, which is folded
STORED = "Headroom"  # under which the picture keeps what existed when it was drawn


@dataclass(frozen=True)
class Piece:
    """A lecture or a lab as it is laid out.

    Attributes:
        name: how its file (a lecture) or folder (a lab) starts: "03", "lab02".
        title: short.
        builds: what one has built at its end.
        minutes: as "30" or "60–90", until its notebook says it.
        needs: names of the pieces that come before; what those need is not repeated.
        place: row and column on the map; None: under the lecture that a lab needs.
    """

    name: str
    title: str
    builds: str
    minutes: str
    needs: tuple[str, ...]
    place: tuple[int, int] | None = None

    @property
    def is_lab(self) -> bool:
        return self.name.startswith("lab")

    @property
    def called(self) -> str:
        """Such as "Lecture 3" or "Lab 2"."""
        return f"{'Lab' if self.is_lab else 'Lecture'} {int(self.name[-2:])}"

    def notebook(self, course: Path) -> Path | None:
        """Its notebook, if it exists."""
        pattern = f"labs/{self.name}_*/*.ipynb" if self.is_lab else f"lectures/{self.name}_*.ipynb"
        return next(iter(sorted(course.glob(pattern))), None)


COURSE = (
    Piece("00", "Start here", "the finished thing, one step of attention, how checks work", "15", (), (0, 0)),
    Piece("01", "Queries, keys and values", "why attention; one word by hand, then matrices", "25", ("00",), (0, 1)),
    Piece("02", "Scores, softmax and masks", "dot product, √d_k, softmax, temperature, masks", "25", ("01",), (0, 2)),
    Piece("03", "Multi-head self-attention", "heads by loop, then by reshape; W_O; cost", "30", ("02",), (1, 1)),
    Piece("04", "Positional encoding", "sines and cosines, learned, rotary; extrapolation", "30", ("03",), (1, 0)),
    Piece("05", "LayerNorm and residuals", "which axis; pre-norm against post-norm", "30", ("03",), (1, 2)),
    Piece("06", "The encoder", "feed-forward network, block, stack", "25", ("04", "05"), (2, 1)),
    Piece("07", "The decoder", "causal mask, cross-attention, decoding, KV cache", "30", ("06",), (3, 0)),
    Piece("08", "The whole Transformer", "reads dates in many languages, writes ISO 8601", "35", ("07",), (4, 0)),
    Piece("09", "Vision Transformer", "patches, [class], trains on digits; rollout", "35", ("06",), (3, 2)),
    Piece("10", "Beyond ViT", "fewer keys (PVT), windows (Swin), a fair control", "35", ("09",), (4, 2)),
    Piece("11", "Backpropagation by hand", "attention and LayerNorm backwards, in NumPy", "30", ("05",), (2, 2)),
    Piece("12", "Case files", "broken programs: symptom, hunt, fix, price", "30", ("08", "09"), (4, 1)),
    Piece("13", "A language model", "next-token loss, n-grams to beat, sampling, Llama's parts", "40", ("08",), (5, 0)),
    Piece("14", "What a head has learned", "induction heads: found, ablated, patched", "35", ("13",), (5, 1)),
    Piece("lab01", "Attention", "Q, K, V; scores; attention with a mask", "60–90", ("02",)),
    Piece("lab02", "Multi-head self-attention", "split, attend, merge, project", "60–90", ("03",)),
    Piece("lab03", "Positional encoding", "the table of sines and cosines", "60–90", ("04",)),
    Piece("lab04", "LayerNorm", "LayerNorm from its definition; RMSNorm", "60–90", ("05",)),
    Piece("lab05", "Encoder", "feed-forward, pre-norm block, encoder", "60–90", ("06",)),
    Piece("lab06", "Decoder", "masks, cross-attention, decoding, KV cache", "60–90", ("07",)),
    Piece("lab07", "ViT", "patches, [class], a ViT trained on digits", "60–90", ("09",)),
    Piece("lab08", "Case files", "five broken programs to mend", "60–90", ("12",)),
    Piece("lab09", "Backpropagation", "softmax, LayerNorm, attention backwards", "60–90", ("11",)),
    Piece("lab10", "Language model", "loss, sampling, SwiGLU, grouped queries", "60–90", ("13",)),
    Piece("lab11", "Find the head", "induction score, ablation, patching", "60–90", ("14",)),
)
BY_NAME = {piece.name: piece for piece in COURSE}

WIDE, TALL, LAB = 3.35, 0.9, 0.4  # of a lecture's box, and the height of a lab's, in inches
ACROSS, DOWN = 3.75, 1.78  # from one box to the next
ABSENT = "#6B6B6B"  # text about what does not exist yet; its contrast on white is above 5


def existing(course: Path) -> list[Piece]:
    """The pieces whose notebooks are in the course's folder, each lab behind the lecture that it follows."""
    labs = {piece.needs[-1]: piece for piece in COURSE if piece.is_lab}
    ordered = [listed for piece in COURSE if not piece.is_lab for listed in (piece, labs.get(piece.name)) if listed]
    return [piece for piece in ordered if piece.notebook(course)]


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
    core, further = Length(), Length()
    part = core
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            if re.match(r"#{1,2} ", cell.source):
                part = further if cell.source.startswith(FURTHER) else core
            part.pauses += cell.source.count("$$") // 2 + len(re.findall(r"^\d\. ", cell.source, re.MULTILINE))
            part.words += sum(bool(re.search(r"\w", word)) for word in cell.source.replace("|", " ").split())
            continue
        part.pauses += bool(re.search(r"\bshow\(|headroom\.widgets import", cell.source))
        if asked := re.findall(r"\bask\(", cell.source):
            part.questions += len(asked)
        elif not cell.metadata.get("jupyter", {}).get("source_hidden"):
            part.lines += sum(bool(line.strip()) for line in cell.source.splitlines())
    return core, further


def minutes(piece: Piece, course: Path) -> str:
    """How long it takes: what its first cell says ("About 30 minutes", "60 to 90 minutes"), or else the plan.

    A test holds what a lecture says to its `length`.
    """
    path = piece.notebook(course)
    if path is None:
        return piece.minutes
    first = nbformat.read(path, as_version=4).cells[0].source
    found = re.search(r"(\d+)(?: (?:to|–|-) (\d+))? minutes", first)
    return "–".join(filter(None, found.groups())) if found else piece.minutes


def contents(course: Path) -> str:
    """What exists, as a Markdown table with links from lectures/: what it builds, minutes, what it needs."""
    lines = ["| | you build | minutes | you need before |", "|---|---|--:|---|"]
    for piece in existing(course):
        notebook = piece.notebook(course)
        assert notebook is not None  # it exists
        path = notebook.relative_to(course).as_posix()
        needs = ", ".join(needed.called.lower() for needed in _needed(piece, course)) or "nothing"
        link = f"[{piece.called} · {piece.title}](../{path})"
        lines.append(f"| {link} | {piece.builds} | {minutes(piece, course)} | {needs} |")
    return "\n".join(lines)


def _needed(piece: Piece, course: Path) -> list[Piece]:
    """The lectures before it; in place of one that does not exist yet, those that this one needs."""
    found = []
    for needed in (BY_NAME[name] for name in piece.needs):
        found += [needed] if needed.notebook(course) else _needed(needed, course)
    return sorted(set(found), key=COURSE.index)


def course_map(course: Path) -> Figure:
    """Draw the map: a box for each lecture, its lab under it, arrows from what is needed to what needs it.

    What does not exist yet is lighter, has a dashed frame and says so.

    Args:
        course: the course's folder, where the notebooks are.
    """
    there = {piece.name for piece in existing(course)}
    rows = 1 + max(piece.place[0] for piece in COURSE if piece.place)
    fig, ax = plt.subplots(figsize=(3 * ACROSS - 0.25, rows * DOWN + 0.15))
    for piece in COURSE:
        x, y = _corner(piece)
        _box(ax, piece, x, y, minutes(piece, course), piece.name in there)
        for name in piece.needs if not piece.is_lab else ():
            _arrow(ax, BY_NAME[name], piece, {name, piece.name} <= there)
    lectures, labs = (sum(1 for piece in COURSE if piece.is_lab is lab) for lab in (False, True))
    ax.set(xlim=(-0.08, 3 * ACROSS - 0.3), ylim=(rows * DOWN - 0.42, -0.1), aspect="equal")
    ax.axis("off")
    finding = f"{lectures} lectures and {labs} labs: what each builds, and what comes before it"
    missing = "" if len(there) == len(COURSE) else f"\n{len(there)} exist so far; the others are dashed"
    fig.suptitle(finding + missing)
    return fig


def in_words(course: Path) -> str:
    """The map for those who hear it: every piece, what it builds, how long it takes, what it needs."""
    there = {piece.name for piece in existing(course)}
    sentences = []
    for piece in COURSE:
        needs = " and ".join(BY_NAME[name].called.lower() for name in piece.needs)
        text = f"{piece.called}, {piece.title}: {piece.builds}; {minutes(piece, course)} minutes"
        text += f", after {needs}" if needs else ""
        sentences.append(text if piece.name in there else f"{text} (does not exist yet)")
    return f"Map of the course. {'. '.join(sentences)}."


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


def _box(ax: Axes, piece: Piece, x: float, y: float, duration: str, exists: bool) -> None:
    color = COLORS["ink"] if exists else ABSENT
    fill = "white" if not exists else "#FFF6DC" if piece.is_lab else "#EAF3FA"
    look: dict[str, Any] = {
        "facecolor": fill,
        "edgecolor": color,
        "linewidth": 1.2,
        "linestyle": "-" if exists else (0, (4, 3)),
    }
    ax.add_patch(Rectangle((x, y), WIDE, LAB if piece.is_lab else TALL, **look))
    number = int(piece.name[-2:])
    head = f"Lab {number} · {piece.title}" if piece.is_lab else f"{number} · {piece.title}"
    weight = "normal" if piece.is_lab else "bold"
    ax.text(x + 0.1, y + 0.21, head, va="center", fontsize=9.5 if piece.is_lab else 10.5, weight=weight, color=color)
    ax.text(x + WIDE - 0.08, y + 0.21, f"{duration} min", va="center", ha="right", fontsize=9, color=color)
    if not piece.is_lab:
        ax.text(x + 0.1, y + 0.4, textwrap.fill(piece.builds, 42), va="top", fontsize=9, color=color, linespacing=1.3)


def _arrow(ax: Axes, above: Piece, below: Piece, exists: bool) -> None:
    (x0, y0), (x1, y1) = _corner(above), _corner(below)
    has_lab = any(piece.is_lab and piece.needs[-1] == above.name for piece in COURSE)
    if y0 == y1:  # beside each other
        right = x1 > x0
        start, end = (x0 + WIDE if right else x0, y0 + TALL / 2), (x1 if right else x1 + WIDE, y1 + TALL / 2)
    else:
        lean = 0.3 * WIDE * ((x1 > x0) - (x1 < x0))  # an arrow that goes aside starts and ends on that side
        start, end = (x0 + WIDE / 2 + lean, y0 + TALL + has_lab * LAB), (x1 + WIDE / 2 - lean, y1)
    color, style = (COLORS["ink"], "-") if exists else (COLORS["grey"], (0, (4, 3)))
    arrow = {"arrowstyle": "-|>", "color": color, "linestyle": style, "shrinkA": 1, "shrinkB": 1, "linewidth": 1.3}
    ax.annotate("", end, start, arrowprops=arrow)
