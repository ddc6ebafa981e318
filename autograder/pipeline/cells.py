"""The cells of a lab's notebook: which are checks, which are run, and how one is made."""

import ast
from collections.abc import Mapping
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.corpus.words import generate_corpus_id as random_cell_id


def is_check(cell: Mapping[str, Any]) -> bool:
    """Whether a cell is code that gives points and is not the student's: a check, or tests of another kind.

    Args:
        cell: of a notebook that nbgrader knows, also as JSON has it.
    """
    about = cell["metadata"].get("nbgrader", {})
    return cell["cell_type"] == "code" and bool(about.get("grade")) and not about.get("solution")


def checked_name(cell: NotebookNode) -> str | None:
    """The name in a check cell, one that the instructor locked and that says `check(Name)` and nothing else.

    Returns:
        None for every other cell, also for one with tests of another kind.
    """
    return checked_in(cell.source) if is_check(cell) else None


def checked_in(source: str) -> str | None:
    """The name in the text of a check cell, as of `checked_name`."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # IPython's magics
        return None
    match body:
        case [ast.Expr(ast.Call(ast.Name("check"), [ast.Name(name)], []))]:
            return name
        case _:
            return None


def is_run(cell: NotebookNode) -> bool:
    """Whether the kernel runs a cell: code, but no check, and nothing that is only there to be looked at.

    The latter are the instructor's, worth no points, and named for it.
    """
    about = cell.metadata.get("nbgrader", {})
    named = about.get("grade_id", "").startswith(("picture-", "reward-"))
    looked_at = named and about.get("locked") and not about.get("grade")
    return cell.cell_type == "code" and not checked_name(cell) and not looked_at


def make_cell(kind: str, source: str, metadata: dict[str, Any] | None = None) -> NotebookNode:
    """A cell, as nbformat makes them, but without looking whether the metadata is what nbformat expects."""
    own = {"outputs": [], "execution_count": None} if kind == "code" else {}
    about = nbformat.from_dict(metadata or {})
    return NotebookNode(id=random_cell_id(), cell_type=kind, metadata=about, source=source, **own)
