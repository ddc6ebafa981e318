"""A class made up of the answers in tests/answers: who handed in what, lab by lab and time after time.

An answer's text is taken with whatever of its file it uses, so it stands in a notebook as if somebody had written it.
"""

import ast
import builtins
import importlib
import inspect
from pathlib import Path

import nbformat

IMPORTS = (
    "import math\n\nimport numpy as np\nimport torch\nimport torch.nn.functional as F\nfrom torch import Tensor, nn\n"
)
CELLS = {  # labs' exercises: the cell to write in
    "project_qkv": "project-qkv",
    "attention_scores": "attention-scores",
    "scaled_dot_product_attention": "attention",
    "MultiHeadSelfAttention": "multi-head",
    "sinusoidal_encoding": "sinusoidal",
    "PositionalEncoding": "positional-encoding",
}


def text(path: str) -> tuple[str, str]:
    """The exercise and the text of an answer, such as "right_attention.three_products", with all that it needs."""
    module, name = path.split(".")
    answer = getattr(importlib.import_module(f"tests.answers.{module}"), name)
    parts: dict[str, str] = {}
    _add(name, inspect.getmodule(answer), parts)
    source = "\n\n".join(parts.values())
    return answer.exercise, f"{IMPORTS}\n\n{source}\n\n{answer.exercise} = {name}\n"


def renamed(source: str) -> str:
    """The same program with other names for variables and arguments, other spacing, and a comment."""
    tree = ast.parse(source)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own = stored - {"self", *CELLS}
    names = {name: f"my_{name}_{i}" for i, name in enumerate(sorted(own))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            node.id = names[node.id]
    return f"# all my own work\n{ast.unparse(tree)}\n"


def hand_in(course: Path, student: str, lab: str, cells: dict[str, str]) -> None:
    """Put cells' texts, by grade_id, into the released notebook, and that into submitted/."""
    (released,) = (course / "labs" / lab).glob("*.ipynb")
    notebook = nbformat.read(released, as_version=4)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = cells.get(name, cell.source)
    folder = course / "submitted" / student / lab
    folder.mkdir(parents=True, exist_ok=True)
    (folder / released.name).write_text(nbformat.writes(notebook), encoding="utf-8")


def _add(name: str, module, parts: dict[str, str]) -> None:
    """Add the text of a name of a file, after those of the names that it uses."""
    value = vars(module).get(name)
    if name in parts or value is None or hasattr(builtins, name):
        return
    home = inspect.getmodule(value) if inspect.isclass(value) or inspect.isfunction(value) else module
    if home is None or not home.__name__.startswith("tests.answers."):
        return
    for node in ast.parse(inspect.getsource(home)).body:
        defined = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            defined = node.targets[0].id
        if defined == name:
            used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} - {name}
            for one in sorted(used - {"answers"}):
                _add(one, home, parts)
            node.decorator_list = []
            parts[name] = ast.get_source_segment(inspect.getsource(home), node) or ""
            return
