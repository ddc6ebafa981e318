"""The course as it is laid out: its lectures and labs, what each builds and needs.

Which of them a folder has is seen from the notebooks (a hub's students fetch their labs one by one), and so is how many
minutes they take.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FURTHER = "## Further: "  # begins a section beside a lecture's core path, which is folded


@dataclass(frozen=True)
class Piece:
    """A lecture or a lab as it is laid out.

    Attributes:
        name: how its file (a lecture) or folder (a lab) starts: "03", "lab02".
        title: short.
        builds: what one has built at its end.
        needs: names of the pieces that come before; what those need is not repeated.
        place: row and column on the map; None: under the lecture that a lab needs.
    """

    name: str
    title: str
    builds: str
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
    Piece("00", "Start here", "the finished thing, one step of attention, how checks work", (), (0, 0)),
    Piece("01", "Queries, keys and values", "from words to Q, K and V by learned matrices", ("00",), (0, 1)),
    Piece("02", "Scores, softmax and masks", "dot product, √d_k, softmax, temperature, masks", ("01",), (0, 2)),
    Piece("03", "Multi-head self-attention", "heads by loop, then by reshape; W_O; cost", ("02",), (1, 1)),
    Piece("04", "Positional encoding", "sines and cosines, learned, rotary; extrapolation", ("03",), (1, 0)),
    Piece("05", "LayerNorm and residuals", "which axis; pre-norm against post-norm", ("03",), (1, 2)),
    Piece("06", "The encoder", "feed-forward network, block, stack", ("04", "05"), (2, 1)),
    Piece("07", "The decoder", "causal mask, cross-attention, decoding, KV cache", ("06",), (3, 0)),
    Piece("08", "The whole Transformer", "reads dates in many languages, writes ISO 8601", ("07",), (4, 0)),
    Piece("09", "Vision Transformer", "patches, [class], trains on digits; rollout", ("06",), (3, 2)),
    Piece("10", "Beyond ViT", "fewer keys (PVT), windows (Swin), a fair control", ("09",), (4, 2)),
    Piece("11", "Backpropagation by hand", "attention and LayerNorm backwards, in NumPy", ("06",), (2, 2)),
    Piece("12", "Case files", "broken programs: symptom, search, repair, cost", ("08", "09"), (4, 1)),
    Piece("13", "A language model", "next-token loss, n-grams to beat, sampling, Llama's parts", ("08",), (5, 0)),
    Piece("14", "What a head has learned", "induction heads: found, ablated, patched", ("13",), (5, 1)),
    Piece("lab01", "Attention", "Q, K, V; scores; attention with a mask", ("02",)),
    Piece("lab02", "Multi-head self-attention", "split, attend, merge, project", ("03",)),
    Piece("lab03", "Positional encoding", "the table of sines and cosines", ("04",)),
    Piece("lab04", "LayerNorm", "LayerNorm from its definition; RMSNorm", ("05",)),
    Piece("lab05", "Encoder", "feed-forward, pre-norm block, encoder", ("06",)),
    Piece("lab06", "Decoder", "masks, cross-attention, decoding, KV cache", ("07",)),
    Piece("lab07", "ViT", "patches, [class], a ViT trained on digits", ("09",)),
    Piece("lab08", "Case files", "five broken programs to fix", ("12",)),
    Piece("lab09", "Backpropagation", "softmax, LayerNorm, attention backwards", ("11",)),
    Piece("lab10", "Language model", "loss, sampling, SwiGLU, grouped queries", ("13",)),
    Piece("lab11", "Find the head", "induction score, ablation, patching", ("14",)),
)
BY_NAME = {piece.name: piece for piece in COURSE}


def existing(course: Path) -> list[Piece]:
    """The pieces whose notebooks are in the course's folder, each lab behind the lecture that it follows."""
    labs = {piece.needs[-1]: piece for piece in COURSE if piece.is_lab}
    ordered = [listed for piece in COURSE if not piece.is_lab for listed in (piece, labs.get(piece.name)) if listed]
    return [piece for piece in ordered if piece.notebook(course)]


def cells(notebook: Path) -> list[dict[str, Any]]:
    """The cells of a notebook, tried again where Jupyter is just writing it; none where it is no notebook."""
    for wait_s in (0.05, 0.2, 0.0):
        with suppress(OSError, ValueError, LookupError, TypeError):  # students change their notebooks
            return list(json.loads(notebook.read_bytes())["cells"])
        time.sleep(wait_s)
    return []


def core(notebook_cells: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The cells of a lecture's core path: all but those of sections whose headings begin with "Further"."""
    further = False
    for cell in notebook_cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and re.match(r"#{1,2} ", source):
            further = source.startswith(FURTHER)
        if not further:
            yield cell


def minutes(piece: Piece, course: Path) -> str:
    """How long it takes: what its first cell says ("About 30 minutes", "60 to 90 minutes"); "" where it says nothing.

    A test holds what a lecture says to its length (`headroom.course_map.length`).
    """
    path = piece.notebook(course)
    with suppress(LookupError, TypeError):
        first = "".join(cells(path)[0]["source"]) if path else ""
        if found := re.search(r"(\d+)(?:(?: to | ?[–-] ?)(\d+))? minutes", first):
            return "–".join(filter(None, found.groups()))
    return ""


def needed(piece: Piece, course: Path) -> list[Piece]:
    """The lectures before it; in place of one that the folder lacks, those that this one needs."""
    found = []
    for before in (BY_NAME[name] for name in piece.needs):
        found += [before] if before.notebook(course) else needed(before, course)
    return sorted(set(found), key=COURSE.index)
