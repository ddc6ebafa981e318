"""What may be wrong with a notebook: each check returns it, so that it can be tried on notebooks that are wrong."""

import ast
import functools
import inspect
import io
import json
import os
import re
import tokenize
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from headroom.figures import COLORS
from tests.browser import PEAK_MEMORY
from tests.kernels import forked_kernels

REPOSITORY = Path(__file__).resolve().parents[1]

GLOSSARY = REPOSITORY / "docs" / "glossary.md"
LONGEST_CELL = 20
CELL_SECONDS = 600
MOST_MEMORY = 2000  # MiB: a laptop has a browser open beside the notebook


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(REPOSITORY / name, as_version=4)


def watch_shapes() -> None:
    """Compare each shape that a cell's comment states with the tensor that the line made; runs inside the kernel.

    A line counts if it stands outside of functions, classes and loops and its comment states one shape for one name
    (or for each name, or as many shapes as names): `q = x @ w_q  # (tokens, d_k)`. The number of axes must agree, and
    each that is a number; axes of one name are of one length, and one such as `d_k` is as long as a line has set it.
    """
    import ast
    import re

    shell = get_ipython()  # noqa: F821
    watch_shapes.compared, watch_shapes.wrong = 0, []
    numbers = set()  # names with an underscore that a line outside of loops has set; `tokens` are those of any text

    def statements(body):
        for node in body:
            yield from statements(node.body) if isinstance(node, ast.With) else [node]

    def names(target):
        return [one.id for one in getattr(target, "elts", [target]) if isinstance(one, ast.Name)]

    def compare(name, stated, line):
        actual = getattr(shell.user_ns.get(name), "shape", None)
        axes = [axis.strip() for axis in stated.strip("()").split(",") if axis.strip()]
        if actual is None or not all(re.fullmatch(r"[\w ]+|…|\.\.\.", axis) for axis in axes):
            return
        watch_shapes.compared += 1
        leading = axes[0] in ("…", "...")
        axes = axes[leading:]
        fits = len(axes) <= len(actual) if leading else len(axes) == len(actual)
        known = {name: shell.user_ns[name] for name in numbers if isinstance(shell.user_ns.get(name), int)}
        for axis, length in zip(axes, tuple(actual)[len(actual) - len(axes) :], strict=False):
            fits = fits and length == (int(axis) if axis.isdigit() else known.setdefault(axis, length))
        if not fits:
            watch_shapes.wrong.append(f"{name} is {tuple(actual)} and not {stated}: {line.strip()}")

    def after(result):
        code = result.info.raw_cell
        lines = code.splitlines()
        try:
            body = list(statements(ast.parse(code).body))
        except SyntaxError:  # a line that IPython alone understands
            return
        assigned = [node for node in body if isinstance(node, ast.Assign)]
        numbers.update(name for node in assigned for name in names(node.targets[0]) if "_" in name)
        numbers.difference_update(name for node in body if isinstance(node, ast.For) for name in names(node.target))
        for index, node in enumerate(assigned):
            made = names(node.targets[0])
            comment = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode().partition("#")[2]
            stated = re.findall(r"(?<![\w\])])\([^()]*,[^()]*\)", comment)
            if len(stated) == 1 and (len(made) == 1 or "each" in comment):
                stated *= len(made)
            made_anew = {name for other in assigned[index + 1 :] for name in names(other.targets[0])}
            for name, shape in zip(made, stated, strict=False) if len(made) == len(stated) else ():
                if name not in made_anew:
                    compare(name, shape, lines[node.lineno - 1])

    shell.events.register("post_run_cell", after)


def watch_figures() -> None:
    """Look at each figure that is shown: what its axes count, and what its lines and colours are; inside the kernel."""
    import re

    import numpy as np

    from headroom import figures

    shown, watch_figures.wrong = figures.show, []

    def beside(ax, other, axis):
        """Whether another axes stands in the same row or column, whose label then is for both."""
        mine, its = ax.get_position(), other.get_position()
        low, high = ("y0", "y1") if axis == "y" else ("x0", "x1")
        return max(getattr(mine, low), getattr(its, low)) < min(getattr(mine, high), getattr(its, high))

    def amounts(ax):
        """Whether it shows amounts by the course's colours, more than yes and no; the others are pictures."""
        maps = [image for image in ax.images if image.get_cmap().name in (figures.AMOUNTS, figures.SIGNED)]
        return any(len(set(np.ma.compressed(image.get_array()).tolist())) > 2 for image in maps)

    def look(fig, alt):
        fig.canvas.draw()
        bars = [image.colorbar.ax for ax in fig.axes for image in ax.images if image.colorbar]
        said = fig.get_suptitle() or next(filter(None, (ax.get_title(loc="left") for ax in fig.axes)), alt)[:60]
        for ax in (one for one in fig.axes if one.axison and one not in bars):
            for axis in ("x", "y") if amounts(ax) or not ax.images else ():
                ticks = [tick for tick in getattr(ax, f"{axis}axis").get_ticklabels() if tick.get_text()]
                words = any(re.search(r"[^\W\d]", tick.get_text()) for tick in ticks)
                near = [one for one in fig.axes if one is ax or (one not in bars and beside(ax, one, axis))]
                if ticks and not words and not any(getattr(one, f"get_{axis}label")() for one in near):
                    watch_figures.wrong.append(f"“{said}” does not say what it counts along {axis}")
            if len(ax.get_legend_handles_labels()[1]) > 1 and not (
                fig.legends or any(one.get_legend() for one in fig.axes)
            ):
                watch_figures.wrong.append(f"“{said}” has no legend")
            if amounts(ax) and not bars and not ax.texts:
                watch_figures.wrong.append(f"“{said}” does not say what its colours measure")
        if any(not (bar.get_ylabel() or bar.get_xlabel()) for bar in bars):
            watch_figures.wrong.append(f"“{said}” has a colour bar without a label")

    def show(fig, alt):
        look(fig, alt)
        shown(fig, alt)

    figures.show = show


WATCHES = (watch_shapes, watch_figures)


def run_watched(notebook: nbformat.NotebookNode, folder: Path, scale: str = "small") -> nbformat.NotebookNode:
    """Run a notebook in `folder` while the watches look on; only Linux tells the peak of its memory, in MiB."""
    watched = [
        new_code_cell("\n\n".join(f"{inspect.getsource(one)}\n\n{one.__name__}()" for one in WATCHES)),
        *notebook.cells,
        new_code_cell(
            "import json\nprint(json.dumps([watch_shapes.compared, watch_shapes.wrong, watch_figures.wrong]))"
        ),
        new_code_cell(PEAK_MEMORY),
    ]
    client = NotebookClient(
        new_notebook(cells=watched, metadata=notebook.metadata),
        timeout=CELL_SECONDS,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )
    with forked_kernels() if scale == "small" else nullcontext():
        _, *cells, answer, memory = client.execute(env=os.environ | {"HEADROOM_SCALE": scale}).cells
    said = "".join(output.get("text", "") for output in answer.outputs if output.get("name") == "stdout")
    assert said.startswith("["), f"the watch gave no answer: {answer.outputs}"
    compared, wrong, figures_wrong = json.loads(said)
    found = {
        "shapes_compared": compared,
        "shapes_wrong": wrong,
        "figures_wrong": figures_wrong,
        "peak_memory": ast.literal_eval(memory.outputs[0].text),
    }
    return new_notebook(cells=cells, metadata=notebook.metadata | found)


# --- The checks: each returns what is wrong, so that they can be tried on notebooks that are wrong ------------------


def long_cells(notebook: nbformat.NotebookNode) -> list[str]:
    return [
        f"cell {cell.id} has {len(cell.source.splitlines())} lines"
        for cell in notebook.cells
        if cell.cell_type == "code" and len(cell.source.splitlines()) > LONGEST_CELL
    ]


def complaints(notebook: nbformat.NotebookNode) -> list[str]:
    """Errors, and anything on the error stream: a progress bar in a notebook is a widget and never goes there."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                found.append(f"cell {cell.id} raised {output.ename}: {output.evalue}")
            elif output.output_type == "stream" and output.name == "stderr":
                found.append(f"cell {cell.id} wrote to stderr: {output.text}")
    return found


def too_large(notebook: nbformat.NotebookNode) -> list[str]:
    peak = notebook.metadata.peak_memory or 0
    return [f"{peak:.0f} MiB at its peak, more than {MOST_MEMORY}"] if peak > MOST_MEMORY else []


class _Images(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open_figures = 0
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "figure":
            self.open_figures += 1
        if tag == "img":
            if not (dict(attrs).get("alt") or "").strip():
                self.wrong.append("an <img> without alt text")
            elif not self.open_figures:
                self.wrong.append("an <img> outside of a <figure>")

    def handle_endtag(self, tag: str) -> None:
        if tag == "figure":
            self.open_figures -= 1


def speechless_figures(notebook: nbformat.NotebookNode) -> list[str]:
    """Figures that a blind reader gets nothing from: JupyterLab passes no alt text along with a bare image."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            bare = [kind for kind in data if kind.startswith("image/")]
            if bare:
                found.append(f"cell {cell.id} shows a bare {bare[0]}: use headroom.figures.show(fig, alt=...)")
            images = _Images()
            images.feed("".join(data.get("text/html", "")))
            found += [f"cell {cell.id}: {wrong}" for wrong in images.wrong]
    return found


def broken_links(notebook: nbformat.NotebookNode, folder: Path) -> list[str]:
    """Links and images in the text whose target, a path within the course, does not exist."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        text = re.sub(r"```.*?```|`[^`\n]*`", "", cell.source, flags=re.DOTALL)
        targets = re.findall(r"\]\(\s*<?([^)\s>]+)", text) + re.findall(r"""(?:href|src)\s*=\s*["']([^"']+)""", text)
        for target in targets:
            path = unquote(target.split("#")[0])
            outside = re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("attachment:")
            if path and not outside and not (folder / path).exists():
                found.append(f"cell {cell.id} links to {target}, which does not exist")
    return found


@dataclass(frozen=True)
class Glossary:
    """What the glossary lays down: the names of axes, and the letters that come back in several lectures."""

    axes: frozenset[str]
    letters: frozenset[str]


@functools.cache
def glossary() -> Glossary:
    parts = re.split(r"^## (.+)\n", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)
    tables = {
        heading: re.findall(r"^\| (.*?) \|", part, re.MULTILINE)
        for heading, part in zip(parts[1::2], parts[2::2], strict=True)
    }
    axes = {name for row in tables["Shapes"] for name in re.findall(r"`([^`]+)`", row)}
    return Glossary(frozenset(axes), frozenset(letters(" ".join(tables["Formulas"]))))


def comments(code: str) -> Iterator[str]:
    """The comments and docstrings of a cell."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield ast.get_docstring(node) or ""


def stated_shapes(cell: nbformat.NotebookNode) -> list[list[str]]:
    """The shapes in a cell, each as the names and numbers in it; a pair of something else is not among them."""
    text = re.findall(r"`([^`\n]+)`", cell.source) if cell.cell_type == "markdown" else comments(cell.source)
    found = []
    for inside in re.findall(r"(?<![\w.\])])\(([^()\"'=@~\[\]]*,[^()\"'=@~\[\]]*)\)", " \n ".join(text)):
        parts = re.split(r"\s*(?:[,·*/+−²-]|//|\bor\b|\bat most\b|\s(?=\d))\s*", inside)
        parts = [part for part in parts if part and part not in ("…", "...") and not part.isdigit()]
        if all(re.fullmatch(r"[a-z]", part) for part in parts):  # of any matrix: (n, m) by (m, p)
            continue
        if glossary().axes & set(parts) or all(re.fullmatch(r"[A-Z]{1,2}", part) for part in parts):
            found.append(parts)
    return found


def unknown_axes(notebook: nbformat.NotebookNode) -> list[str]:
    """Names in shapes that are not in the glossary, and that the lecture has not introduced by then.

    A plural is introduced by being used, outside of a shape; another name by standing in the text as `name` or $name$.
    """
    found, said, introduced = [], "", set()
    for cell in notebook.cells:
        said += re.sub(r"\([^()]*,[^()]*\)", "", cell.source)
        if cell.cell_type == "markdown":
            introduced |= set(re.findall(r"`(\w+)`", cell.source))
            for formula in re.findall(r"\$([^$]+)\$", cell.source):
                introduced |= set(re.findall(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])", formula))
        for parts in stated_shapes(cell):
            for part in parts:
                plural = part.endswith("s") and re.search(rf"\b{part}\b", said)
                if not (plural or part in introduced or part in glossary().axes):
                    found.append(f"cell {cell.id}: “{part}” in ({', '.join(parts)})")
    return found


GREEK = "alpha|beta|gamma|delta|Delta|varepsilon|lambda|mu|omega|partial|pi|rho|sigma|tau|theta"


def letters(text: str) -> set[str]:
    """The letters of a text's formulas that are capital or Greek, and what is counted: W_Q, A, \\sigma, d_model."""
    found = set()
    for block, inline in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", re.sub(r"`[^`\n]*`", "", text), re.DOTALL):
        formula = re.sub(r"\b([dn])_\\text\{(\w+)\}", r" \1_\2 ", block or inline)
        found |= set(re.findall(r"(?<![A-Za-z\\])[dn]_\w+", formula))
        formula = re.sub(
            r"\\(?:text\w*|operatorname|math\w+)\{[^{}]*\}|_\{[^{}]*\}|(?<![A-Za-z\\])[dn]_\w+", " ", formula
        )
        formula = re.sub(r"(?<!W)_\w", " ", formula)  # an index is not a letter of its own, but W_Q is
        found |= set(re.findall(r"(?<![A-Za-z\\])(?:W_\w|[A-Z])(?![A-Za-z])", formula))
        found |= set(re.findall(rf"\\(?:{GREEK})(?![A-Za-z])", formula))
    return found


def miscoloured(notebook: nbformat.NotebookNode) -> list[str]:
    """Squares beside the word query, key or value that have another colour than Q, K and V have."""
    found = []
    for cell in notebook.cells:
        squares = re.findall(r"color:\s*(#\w+)[^>]*>■</span>[\s|*]*(quer|key|value)", cell.source)
        found += [f"cell {cell.id}: {word}" for color, word in squares if color != COLORS[word[0]]]
    return found


def exchanged_axes(notebook: nbformat.NotebookNode) -> list[str]:
    """Maps of attention whose labels put the queries along x: everywhere in the course a row is a query."""
    found = []
    for cell in notebook.cells:
        for node in ast.walk(ast.parse(cell.source)) if cell.cell_type == "code" else ():
            if isinstance(node, ast.Call):
                said = {keyword.arg: ast.unparse(keyword.value).lower() for keyword in node.keywords}
                if "quer" in said.get("xlabel", "") and "key" in said.get("ylabel", ""):
                    found.append(f"cell {cell.id}: {ast.unparse(node)}")
    return found
