"""How the course's notebooks are stored: text and code, nothing that running them leaves behind."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import nbformat

FOLDERS = ("lectures", "solutions", "labs")
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
KEPT_CELL_METADATA = frozenset(
    {"nbgrader", "tags", "deletable", "editable", "jupyter", "jp-MarkdownHeadingCollapsed", "quotes"}
)


def find(course: Path) -> list[Path]:
    """Return every notebook of the course in `course`, sorted, without checkpoints."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (course / folder).rglob("*.ipynb")
        if ".ipynb_checkpoints" not in path.parts
    )


def clean(text: str) -> str:
    """Return a notebook file's text in the form in which the course stores it.

    Outputs and execution counts go, and all metadata but the kernel's name and what `KEPT_CELL_METADATA` names. Cell
    ids stay; a cell without one, or with one that an earlier cell has, gets one that depends only on its place and
    its text. Cleaning twice is cleaning once.

    Raises:
        nbformat.ValidationError: what results is no valid notebook.
    """
    # nbformat's own reads() would already replace repeated ids, by random ones.
    notebook = nbformat.v4.reads(text)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    taken: set[str] = set()
    for place, cell in enumerate(notebook.cells):
        cell.metadata = nbformat.from_dict({k: v for k, v in cell.metadata.items() if k in KEPT_CELL_METADATA})
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if cell.get("id") is None or cell.id in taken:
            cell.id = hashlib.sha256(f"{place} {cell.source}".encode()).hexdigest()[:8]
        taken.add(cell.id)
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def clean_files(paths: Iterable[Path], write: bool = True) -> list[Path]:
    """Clean notebook files in place and return those that changed; without `write`, those that would change."""
    changed = []
    for path in paths:
        before = path.read_text(encoding="utf-8")
        after = clean(before)
        if after != before:
            if write:
                path.write_text(after, encoding="utf-8", newline="\n")
            changed.append(path)
    return changed
