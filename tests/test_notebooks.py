"""Every notebook of the course: stored clean, formatted, linked to what exists, and running without a complaint."""

import ast
import functools
import inspect
import io
import json
import os
import re
import statistics
import sys
import tempfile
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from autograder.pipeline.cells import checked_name
from headroom import notebooks
from headroom.figures import COLORS
from tests.browser import PEAK_MEMORY, copy_course
from tests.kernels import forked_kernels
from tests.quotes import ill_formed, misquoted, numbers

REPOSITORY = Path(__file__).resolve().parents[1]
STORED = [path.relative_to(REPOSITORY).as_posix() for path in notebooks.find(REPOSITORY)]
LECTURES = [name for name in STORED if name.startswith("lectures/")]
SOLUTIONS = [name for name in STORED if name.startswith("solutions/")]
LABS = [name for name in STORED if name.startswith("labs/")]
GLOSSARY = "lectures/00_start_here.ipynb"
LONGEST_CELL = 20
CELL_SECONDS = 600
MOST_MEMORY = 2000  # MiB: a laptop has a browser open beside the notebook

every_stored = pytest.mark.parametrize("name", STORED)
every_lecture = pytest.mark.parametrize("name", LECTURES)


def every_executed(names: list[str]) -> pytest.MarkDecorator:
    """Each notebook as `make test` runs it, at the small scale of headroom/scale.py, and as a reader does."""
    small = [pytest.param(name, "small", id=f"{name}-small") for name in names]
    full = [pytest.param(name, "full", id=f"{name}-full", marks=pytest.mark.full) for name in names]
    return pytest.mark.parametrize(("name", "scale"), small + full)


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(REPOSITORY / name, as_version=4)


@functools.cache
def course() -> Path:
    return copy_course(Path(tempfile.mkdtemp(prefix="headroom-executed-")) / "headroom")


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


@functools.cache
def executed(name: str, scale: str) -> nbformat.NotebookNode:
    """Run a notebook in a clean kernel, in a copy of the course, once per session; errors stay in its outputs.

    What its shapes were found to be is in its metadata: `shapes_compared` and `shapes_wrong`; also its `peak_memory`.
    """
    return run_watched(read(name), (course() / name).parent, scale)


def run_watched(notebook: nbformat.NotebookNode, folder: Path, scale: str = "small") -> nbformat.NotebookNode:
    """Run a notebook in `folder` while `watch_shapes` looks on; only Linux tells the peak of its memory, in MiB."""
    watched = [
        new_code_cell(f"{inspect.getsource(watch_shapes)}\n\nwatch_shapes()"),
        *notebook.cells,
        new_code_cell("import json\nprint(json.dumps([watch_shapes.compared, watch_shapes.wrong]))"),
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
    compared, wrong = json.loads(said)
    found = {
        "shapes_compared": compared,
        "shapes_wrong": wrong,
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
    """What lecture 0 lays down: the names of axes, and the letters that come back in several lectures."""

    axes: frozenset[str]
    letters: frozenset[str]


@functools.cache
def glossary() -> Glossary:
    tables = {cell.id: re.findall(r"^\| (.*?) \|", cell.source, re.MULTILINE) for cell in read(GLOSSARY).cells}
    axes = {name for row in tables["glossary-axes"] for name in re.findall(r"`([^`]+)`", row)}
    return Glossary(frozenset(axes), frozenset(letters(" ".join(tables["glossary-symbols"]))))


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


# --- The checks, held against what is wrong --------------------------------------------------------------------------


def test_cleaning_takes_everything_that_running_leaves_and_nothing_else() -> None:
    solution = {"grade": False, "grade_id": "a", "locked": False, "schema_version": 3, "solution": True, "task": False}
    cell = new_code_cell("1 + 1", id="keep-me", execution_count=3, outputs=[new_output("stream", text="2")])
    cell.metadata = {"nbgrader": solution, "tags": ["x"], "execution": {"iopub.status.busy": "now"}, "scrolled": True}
    dirty = new_notebook(cells=[cell, new_markdown_cell("text")], metadata={"widgets": {}, "toc": 1})
    dirty.cells[1].id = "keep-me"
    dirty.cells[1].metadata = {"quotes": {"2": 0}, "collapsed": True}
    stored = notebooks.clean(json.dumps(dirty))
    result = nbformat.reads(stored, as_version=4)
    assert result.cells[0].source == "1 + 1"
    assert (result.cells[0].outputs, result.cells[0].execution_count) == ([], None)
    assert result.cells[0].metadata == {"nbgrader": solution, "tags": ["x"]}
    assert result.cells[1].metadata == {"quotes": {"2": 0}}
    assert set(result.metadata) == {"kernelspec", "language_info"}
    assert result.cells[0].id == "keep-me", "a cell's id is stable"
    assert result.cells[1].id != "keep-me", "ids are unique"
    assert notebooks.clean(stored) == stored


def test_the_checks_find_what_is_wrong(tmp_path: Path) -> None:
    bare = new_output("display_data", {"image/png": "AAAA"})
    silent = new_output("display_data", {"text/html": '<figure><img src="data:,"></figure>'})
    loose = new_output("display_data", {"text/html": '<img src="data:," alt="a line">'})
    right = new_output("display_data", {"text/html": '<figure><img src="data:," alt="a line"></figure>'})
    for output, expected in [(bare, 1), (silent, 1), (loose, 1), (right, 0)]:
        assert len(speechless_figures(new_notebook(cells=[new_code_cell("f", outputs=[output])]))) == expected
    error = new_output("error", ename="ValueError", evalue="no", traceback=[])
    warning = new_output("stream", name="stderr", text="UserWarning: old")
    said = new_output("stream", name="stdout", text="fine")
    assert len(complaints(new_notebook(cells=[new_code_cell("f", outputs=[error, warning, said])]))) == 2
    assert long_cells(new_notebook(cells=[new_code_cell("a\n" * (LONGEST_CELL + 1))]))
    (tmp_path / "here.ipynb").touch()
    linked = new_markdown_cell("[a](./here.ipynb#top) [b](gone.ipynb) <img src='gone.png'> [c](https://x.org) `[d](e)`")
    assert len(broken_links(new_notebook(cells=[linked]), tmp_path)) == 2


def test_the_checks_find_what_is_not_in_the_glossary() -> None:
    def said(text: str) -> list[str]:
        return unknown_axes(new_notebook(cells=[new_markdown_cell(text)]))

    assert {"batch", "tokens", "heads", "d_model", "d_head", "d_k", "d_v", "d_ff"} <= glossary().axes
    assert said("`(batch, tokens, d_model)` and `q (…, 1, n_heads · d_v)`, `(batch, tokens)`, `(d_k,)`") == []
    assert said("three seeds: `(seeds, tokens)`") == []
    assert len(said("`(seeds, tokens)`")) == 1, "seeds of what? the text has not said"
    assert said("A window has $w$ patches on a side and `side` windows stand in a row: `(batch, side, w)`") == []
    for wrong in ("`(batch, seq_len, d_model)`", "`(B, T, C)`", "`(batch, h, tokens, d_k)`", "`(tokens, embed)`"):
        assert said(wrong), wrong
    code = 'def f(x):\n    """x: (batch, length, d_model)."""\n    return x.view(batch, length)  # (batch, size)'
    assert len(unknown_axes(new_notebook(cells=[new_code_cell(code)]))) == 2, "the call's arguments are no shape"
    assert {"Q", "W_O", r"\gamma", "d_model", "d_k"} <= glossary().letters
    assert letters(r"$W_Q x_i^\top + \hat{\mu}$ and $$\text{FFN}(A_\ell)\,/\,d_\text{ff}$$, `$B$`") == {
        *("W_Q", r"\mu", "A", "d_ff"),
    }
    square = '<span style="color:{}">■</span> | **query** |'
    assert miscoloured(new_notebook(cells=[new_markdown_cell(square.format(COLORS["k"]))]))
    assert not miscoloured(new_notebook(cells=[new_markdown_cell(square.format(COLORS["q"]))]))


def test_the_check_finds_exchanged_axes() -> None:
    for x, y, wrong in [("key", "query", 0), ("query: who", "key", 1), ("2 queries, 3 keys", "", 0)]:
        cell = new_code_cell(f"ax.set(title='a', xlabel={x!r}, ylabel={y!r})")
        assert len(exchanged_axes(new_notebook(cells=[cell]))) == wrong


def test_the_watch_finds_shapes_that_are_not_true(tmp_path: Path) -> None:
    lines = """
        import torch
        batch, d_k = torch.zeros(2, 3), 4
        a = torch.zeros(2, 6)  # (batch, tokens)
        b = torch.zeros(2, 6)  # what comes in: (batch, tokens, 1)
        c = torch.zeros(2, 5)  # (batch, d_k)
        d, e = torch.zeros(2, 3, 3)  # each (3, tokens)
        f, g = torch.zeros(6, 5), torch.zeros(7)  # (tokens, tokens), (tokens,)
        h = torch.zeros(1, 2, 3)  # (…, 3)
        i = torch.zeros(1, 2)  # (1, 3)
    """
    cells = [new_code_cell(inspect.cleandoc(lines))]
    ran = run_watched(new_notebook(cells=cells), tmp_path)
    assert complaints(ran) == []
    assert ran.metadata.shapes_compared == 9
    assert [wrong.split()[0] for wrong in ran.metadata.shapes_wrong] == ["b", "c", "f", "i"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[("3,072 12_000", [(3072, 0.5), (12_000, 0.5)]), ("98.40 %, −0.3", [(98.4, 0.005), (-0.3, 0.05)])],
        *[("1e-05", [(1e-5, 5e-6)]), ("10⁻⁵ or 4·10⁻³", [(1e-5, 5e-6), (4e-3, 5e-4)])],
        *[(r"2.5 \times 10^{-3}", [(2.5e-3, 5e-5)]), ("4.1e+02", [(410, 5)]), ("float32 d2", [])],
        *[("3.2x, 5 ms", [(3.2, 0.05), (5, 0.5)]), ("(2, 100) 10–20", [(2, 0.5), (100, 0.5), (10, 0.5), (20, 0.5)])],
    ],
)
def test_quoted_numbers_are_read_as_they_are_written(text: str, expected: list[tuple[float, float]]) -> None:
    assert numbers(text) == [pytest.approx(one) for one in expected]


@pytest.mark.parametrize(
    ("text", "quote", "tolerance", "wrong"),
    [
        *[("a loss of 2.3.", "2.3", 0, ""), ("a loss of 2.31", "2.31", 0, "printed"), ("2.31", "2.3", 0.1, "say")],
        *[("3,072 tokens", "3,072", 0, ""), ("3,073 tokens", "3,073", 0, "printed"), ("13,072", "3,072", 0, "say")],
        *[("98.4 %", "98.4", 0.3, ""), ("98.4 %", "98.4", 0.2, "printed"), ("98.1 %", "98", 0, "say")],
        *[("65.5 % read", "65.5", 0, ""), ("65.5 tokens", "65.5", 0, "printed"), ("10⁻⁵", "10⁻⁵", 0, "")],
        *[("0.25", "0.25", 0, ""), ("stderr 5", "5", 0, "printed"), ("beside tables 7", "7", 0, "printed")],
        *[("alt 8", "8", 0, "printed"), ("repr 9", "9", 0, "printed"), ("41 m", "41 m", 0, "number")],
        *[("41", "41", -1, "distance"), ("41", "41", "0", "distance")],
    ],
)
def test_the_check_finds_what_is_misquoted(text: str, quote: str, tolerance: object, wrong: str) -> None:
    page = "<p>7</p><img alt='8'><table><tr><td>98.1</td><td>41</td></tr></table>"
    outputs = [
        new_output("stream", name="stdout", text="loss 2.304, 3,072 tokens, 0.655 read, 1.1e-05\n"),
        new_output("stream", name="stderr", text="5\n"),
        new_output("display_data", {"text/html": page, "text/plain": "<Page 9>"}),
        new_output("execute_result", {"text/plain": "tensor([0.2500, 6.0000])"}),
    ]
    cell = new_markdown_cell(text, metadata={"quotes": {quote: tolerance}})
    notebook = new_notebook(cells=[cell, new_code_cell("f()", outputs=outputs)])
    found = ill_formed(notebook) or misquoted(notebook)
    assert (len(found) == 1 and wrong in found[0]) if wrong else found == []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process's memory")
def test_the_peak_of_memory_is_seen_after_it_was_given_back(tmp_path: Path) -> None:
    cells = [new_code_cell(f"b'x' * ({MOST_MEMORY} << 20)\n0")]
    assert too_large(run_watched(new_notebook(cells=cells), tmp_path))
    assert not too_large(run_watched(new_notebook(cells=[new_code_cell("0")]), tmp_path))


def test_a_progress_bar_is_a_widget_and_not_a_complaint() -> None:
    """What lets `complaints` be strict: in a kernel, tqdm.auto writes nothing to the error stream."""
    cells = [new_code_cell("from tqdm.auto import tqdm\nfor _ in tqdm(range(3)):\n    pass")]
    notebook = new_notebook(cells=[*cells, new_code_cell("import warnings\nwarnings.warn('old')")])
    ran = NotebookClient(notebook, timeout=CELL_SECONDS, kernel_name="python3").execute()
    assert "application/vnd.jupyter.widget-view+json" in ran.cells[0].outputs[0].data
    assert len(complaints(ran)) == 1, "the warning in the second cell, and it alone"


# --- The course ------------------------------------------------------------------------------------------------------


def test_the_course_has_its_first_notebook() -> None:
    assert "lectures/00_start_here.ipynb" in STORED


@every_stored
def test_nothing_is_left_to_do(name: str) -> None:
    left = [cell.id for cell in read(name).cells if re.search(r"\b(TODO|FIXME|XXX)\b", cell.source)]
    assert left == []


@every_stored
def test_links_lead_somewhere(name: str) -> None:
    assert broken_links(read(name), (REPOSITORY / name).parent) == []


@every_lecture
def test_cells_are_short(name: str) -> None:
    assert long_cells(read(name)) == []


@every_executed(LECTURES + SOLUTIONS)
def test_runs_from_top_to_bottom_without_a_complaint(name: str, scale: str) -> None:
    assert complaints(executed(name, scale)) == []


@every_stored
def test_quoted_numbers_stand_in_their_text(name: str) -> None:
    assert ill_formed(read(name)) == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.full) for name in LECTURES])
def test_quoted_numbers_are_printed_at_full_scale(name: str) -> None:
    assert misquoted(executed(name, "full")) == []


@every_executed(LECTURES + SOLUTIONS)
def test_fits_into_a_laptop(name: str, scale: str) -> None:
    assert too_large(executed(name, scale)) == []


@every_executed(LECTURES + SOLUTIONS)
def test_every_figure_has_a_description(name: str, scale: str) -> None:
    assert speechless_figures(executed(name, scale)) == []


def test_text_leads(capsys: pytest.CaptureFixture) -> None:
    """Each lecture begins and ends in words. How much text there is for how much code is reported, not judged."""
    rows = []
    for name in LECTURES:
        cells = read(name).cells
        assert (cells[0].cell_type, cells[-1].cell_type) == ("markdown", "markdown"), name
        words = sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
        code = [len(cell.source.splitlines()) for cell in cells if cell.cell_type == "code"]
        kinds = "".join("c" if cell.cell_type == "code" else "t" for cell in cells if "ask(" not in cell.source)
        run = max(map(len, kinds.split("t")))
        rows.append(
            f"{name:45} {words:5} words, {sum(code):4} lines of code: {words / sum(code):4.1f} to one; "
            f"cells of {statistics.median(code):g} lines, at most {max(code)}; at most {run} without a word between"
        )
    with capsys.disabled():
        print("", *rows, sep="\n")


@every_lecture
def test_shapes_have_the_names_of_the_glossary(name: str) -> None:
    assert unknown_axes(read(name)) == []


def test_letters_that_come_back_are_in_the_glossary() -> None:
    used = defaultdict(set)
    for name in set(LECTURES) - {GLOSSARY}:
        for cell in read(name).cells:
            for letter in letters(cell.source) if cell.cell_type == "markdown" else ():
                used[letter].add(name)
    missing = {
        letter: sorted(names) for letter, names in used.items() if len(names) > 1 and letter not in glossary().letters
    }
    assert missing == {}
    assert sorted(glossary().letters - set(used)) == [], "in the glossary, and in no lecture"


@every_stored
def test_queries_keys_and_values_have_their_colours(name: str) -> None:
    assert miscoloured(read(name)) == []


@every_stored
def test_rows_of_a_map_are_queries(name: str) -> None:
    assert exchanged_axes(read(name)) == []


@every_executed(LECTURES + SOLUTIONS)
def test_shapes_are_what_their_lines_say(name: str, scale: str) -> None:
    about = executed(name, scale).metadata
    assert about.shapes_wrong == []
    lines = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "code")
    stated = re.findall(r"^\w[\w, ]* = [^\n]*#[^\n]*\([^()\n]*,[^()\n]*\)", lines, re.MULTILINE)
    assert about.shapes_compared >= min(5, len(stated) // 2), "the watch has seen too few"


def verdicts(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What each check says, by the name of what it checks."""
    return {
        name: "".join(output.data["text/plain"] for output in cell.outputs if "data" in output)
        for cell in notebook.cells
        if (name := checked_name(cell))
    }


@every_executed(SOLUTIONS)
def test_every_check_of_a_solved_lab_passes(name: str, scale: str) -> None:
    said = verdicts(executed(name, scale))
    assert said
    if scale == "small" and "classify" in said:  # lab 7's model has learned little, and only that may be said of it
        lines = re.findall(r"^  ([✓✗]) +\d+ of +\d+ %  (.*)$", said["classify"], re.MULTILINE)
        assert len(lines) == 4 and lines[0][0] == "✓", said["classify"]
        assert all(title.startswith("reads at least") for mark, title in lines if mark == "✗"), said["classify"]
        assert not re.search("Recognised|Your code stopped at", said.pop("classify"))
    assert all(text.startswith("✓") for text in said.values()), "\n\n".join(said.values())


@every_executed(SOLUTIONS)
def test_a_solved_lab_shows_its_rewards(name: str, scale: str) -> None:
    """A lab's last pictures catch what goes wrong in them, and print it: nothing else would tell."""
    printed = "".join(
        output.get("text", "")
        for cell in executed(name, scale).cells
        if cell.cell_type == "code"
        for output in cell.outputs
    )
    assert not re.search(r"No (picture|training|page)|yet \(", printed), printed


@pytest.mark.parametrize("name", LABS)
def test_an_unsolved_lab_runs_to_its_end_and_says_what_is_to_be_done(name: str) -> None:
    notebook = executed(name, "small")
    assert complaints(notebook) == []
    said = verdicts(notebook)
    assert said
    for text in said.values():
        broken = text.startswith("✗") and "Recognised" in text and "lab08" in name  # which hands out broken programs
        assert broken or "not attempted yet" in text, text
