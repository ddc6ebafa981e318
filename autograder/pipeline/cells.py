"""Which cells of a lab's notebook are checks, and which are run."""

import ast

from nbformat import NotebookNode
from nbgrader import utils


def checked_name(cell: NotebookNode) -> str | None:
    """The name in a check cell, one that the instructor locked and that says `check(Name)` and nothing else.

    Returns:
        None for every other cell, also for one with tests of another kind.
    """
    if cell.cell_type != "code" or not utils.is_grade(cell) or utils.is_solution(cell):
        return None
    try:
        body = ast.parse(cell.source).body
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
