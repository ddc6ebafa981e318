"""The checks of notebooks, held against what is wrong."""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from headroom import notebooks
from headroom.figures import COLORS
from tests.notebook_checks import (
    CELL_SECONDS,
    LONGEST_CELL,
    MOST_MEMORY,
    broken_links,
    complaints,
    exchanged_axes,
    glossary,
    letters,
    long_cells,
    miscoloured,
    run_watched,
    speechless_figures,
    too_large,
    unknown_axes,
)
from tests.quotes import ill_formed, misquoted, numbers


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


FIGURES = """
    import matplotlib.pyplot as plt, numpy as np
    from headroom.figures import heatmap, show, use_style
    use_style()
    def draw(title, colorbar="weight", legend=True, **labels):
        fig, (left, right) = plt.subplots(1, 2)
        left.plot([1, 2], label="one")
        left.plot([2, 1], label="two")
        left.set(title=title, **({"xlabel": "step", "ylabel": "loss"} | labels))
        heatmap(right, np.arange(4.0).reshape(2, 2), rows=["a", "b"], columns=["c", "d"], colorbar=colorbar)
        if legend:
            left.legend()
        show(fig, "Two lines and a map")
    draw("Sound")
    draw("Bare", xlabel="", ylabel="")
    draw("Which", legend=False)
    draw("Amounts", colorbar=None)
    draw("Of what", colorbar="")
"""


def test_the_watches_find_shapes_that_are_not_true_and_figures_that_do_not_say_what_they_show(tmp_path: Path) -> None:
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
    cells = [new_code_cell(inspect.cleandoc(text)) for text in (lines, FIGURES)]
    ran = run_watched(new_notebook(cells=cells), tmp_path)
    assert complaints(ran) == []
    assert ran.metadata.shapes_compared == 9
    assert [wrong.split()[0] for wrong in ran.metadata.shapes_wrong] == ["b", "c", "f", "i"]
    assert ran.metadata.figures_wrong == [
        "“Bare” does not say what it counts along x",
        "“Bare” does not say what it counts along y",
        "“Which” has no legend",
        "“Amounts” does not say what its colours measure",
        "“Of what” has a colour bar without a label",
    ]


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
    notebook = new_notebook(cells=[new_code_cell("f()", outputs=outputs), cell])
    found = ill_formed(notebook) or misquoted(notebook)
    assert (len(found) == 1 and wrong in found[0]) if wrong else found == []


def test_only_what_is_printed_near_or_where_it_is_said_bears_out_a_quote() -> None:
    def said(number: int, about: Any) -> list[str]:
        printing = [new_output("stream", name="stdout", text=f"{number} of it\n") for number in (10, 20, 30, 40)]
        cells = [new_code_cell("f()", id=f"c{place}", outputs=[one]) for place, one in enumerate(printing)]
        cells.insert(3, new_markdown_cell(f"It is {number}.", metadata={"quotes": {str(number): about}}))
        notebook = new_notebook(cells=cells)
        return ill_formed(notebook) or misquoted(notebook)

    assert said(20, 0) == said(30, 0) == said(10, [0, "c0"]) == said(40, [0, "c3"]) == []
    assert "{'c1': 20.0, 'c2': 30.0}; if c0 is meant, name it" in said(10, 0)[0]
    assert "if c3 is meant" in said(40, 0)[0]
    assert said(41, 0) and "is meant" not in said(41, 0)[0]
    assert "no code cell" in said(10, [0, "c9"])[0]
    assert "no distance" in said(10, [0, "c0", 1])[0]


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
