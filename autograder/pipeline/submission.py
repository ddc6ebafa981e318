"""Reads what students hand in, whatever it is, and puts the instructor's cells back into it."""

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import NotebookExporter
from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbformat.corpus.words import generate_corpus_id as random_cell_id
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor

from autograder.pipeline.integrity import Remark, remember, what_is_restored
from autograder.pipeline.markup import FORMATS, MAX_PICTURE

MAX_FILE = 20_000_000  # bytes of a submitted notebook
MAX_CELLS = 2_000
KINDS = ("code", "markdown", "raw")
REMOVED: dict[Path, list[Remark]] = {}  # what was removed from a submission's folder, until its notebook is noted


class Unreadable(ValueError):
    """A submitted file that is not a notebook. The text says why, as the end of a sentence."""


def read(path: Path) -> NotebookNode:
    """Read a notebook file that anyone may have written.

    Returns:
        a notebook of the present format that can be written as UTF-8; its metadata, and its cells', may hold anything.

    Raises:
        Unreadable: it is no notebook.
    """
    if path.is_symlink() or not path.is_file():
        raise Unreadable("it is not a file")
    if path.stat().st_size > MAX_FILE:
        raise Unreadable(f"it is larger than {MAX_FILE // 1_000_000} MB")
    data = path.read_bytes()
    if not data.strip():
        raise Unreadable("it is empty")
    try:
        notebook: Any = nbformat.from_dict(json.loads(_encodable(data.decode("utf-8-sig"))))
        if notebook.nbformat != 4:
            notebook = nbformat.convert(notebook, 4)
        cells = list(notebook.cells)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not readable JSON ({type(error).__name__})") from error
    except Exception as error:  # nbformat raises whatever the missing piece leads to
        raise Unreadable(f"it is not a notebook ({type(error).__name__})") from error
    if len(cells) > MAX_CELLS:
        raise Unreadable(f"it has {len(cells)} cells; at most {MAX_CELLS} are read")
    metadata = notebook.get("metadata")
    clean = new_notebook()
    clean.metadata = nbformat.from_dict(metadata) if isinstance(metadata, dict) else NotebookNode()
    clean.cells = [_cell(cell) for cell in cells if isinstance(cell, dict) and cell.get("cell_type") in KINDS]
    return clean


def remove_traps(assignment: str, student: str, notebooks: list[str]) -> None:
    """Remove from a submission's folder what is neither file nor folder; nbgrader calls it before it copies the rest.

    Names that cannot be printed are changed. What its owner may not read gets that permission, or nbgrader would break
    off.

    nbgrader copies what lies beside a notebook, through links: one to the gradebook would hand it out, one to /dev/zero
    fill the disk, and a pipe block for ever. A notebook that is a link is left: it is not copied, and `read` says so.

    Args:
        assignment, student: as nbgrader was asked for them, which may be "*".
        notebooks: paths of the submission's notebooks.
    """
    for root in {Path(path).parent for path in notebooks}:
        for folder, folders, files in os.walk(root):
            for path in (Path(folder, name) for name in (*folders, *files)):
                mode = path.lstat().st_mode
                needed = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR
                if not stat.S_ISLNK(mode) and mode & needed != needed:
                    with contextlib.suppress(PermissionError):  # another's file: nbgrader says that it cannot read it
                        path.chmod(stat.S_IMODE(mode) | needed)
        for folder, folders, files in os.walk(root, topdown=False):
            for name in (*folders, *files):
                path = Path(folder, name)
                mode = path.lstat().st_mode
                if str(path) in notebooks:
                    continue
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    path.unlink()
                    kind = "link" if stat.S_ISLNK(mode) else "pipe, socket or device"
                    what = f"is a {kind}, no file, and was removed"
                elif not name.isprintable():  # the name would give orders to the terminal in which the log is read
                    other = path.with_name("".join(c if c.isprintable() else "_" for c in name))
                    while os.path.lexists(other):
                        other = other.with_name(f"{other.name}_")
                    path.rename(other)
                    what = "was renamed: its name cannot be printed"
                else:
                    continue
                REMOVED.setdefault(root.absolute(), []).append(Remark(_encodable(str(path.relative_to(root))), what))


def make_cell(kind: str, source: str, metadata: dict[str, Any] | None = None) -> NotebookNode:
    """A cell, as nbformat makes them, but without looking whether the metadata is what nbformat expects."""
    own = {"outputs": [], "execution_count": None} if kind == "code" else {}
    about = nbformat.from_dict(metadata or {})
    return NotebookNode(id=random_cell_id(), cell_type=kind, metadata=about, source=source, **own)


def _cell(given: dict[str, Any]) -> NotebookNode:
    """A cell with what can be used of a given one."""
    source = given.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    metadata = given.get("metadata")
    source = _encodable(source) if isinstance(source, str) else ""
    cell = make_cell(given["cell_type"], source, metadata if isinstance(metadata, dict) else {})
    outputs = given.get("outputs")
    if cell.cell_type == "code" and isinstance(outputs, list):
        cell.outputs = outputs
    if cell.cell_type == "markdown" and (attachments := _pictures(given.get("attachments"))):
        cell.attachments = attachments
    return cell


def _pictures(attachments: Any) -> NotebookNode:
    """The pictures among the attachments of a cell: base64 by MIME type, by name."""
    found = NotebookNode()
    for name, forms in attachments.items() if isinstance(attachments, dict) else ():
        pictures = {
            mime: data
            for mime, data in (forms.items() if isinstance(forms, dict) else ())
            if mime in FORMATS and isinstance(data, str) and len(data) <= MAX_PICTURE and data.isascii()
        }
        if pictures and isinstance(name, str):
            found[_encodable(name)] = NotebookNode(pictures)
    return found


def _encodable(text: str) -> str:
    """Text without lone surrogates, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


class SubmissionExporter(NotebookExporter):
    """Writes a notebook for any submitted file: one that cannot be read becomes an empty one that says so."""

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[str, dict[str, Any]]:
        path = Path(filename)
        try:
            notebook = read(path)
        except Unreadable as problem:
            self.log.warning("%s cannot be read: %s", filename, problem)
            sentence = f"**The submitted file could not be read as a notebook: {problem}.** Nothing in it was graded."
            notebook = new_notebook(cells=[make_cell("markdown", sentence)])
        resources = ResourcesDict() if resources is None else resources
        resources["metadata"] = ResourcesDict(name=path.stem, path=str(path.parent))
        return self.from_notebook_node(notebook, resources, **kwargs)


class RestoreCells(NbGraderPreprocessor):
    """Puts the instructor's cells and metadata back, before anything else looks at a submission.

    Locked cells become what the instructor released, cell type and points included, wherever the student left them; a
    deleted one is put back after the cell it followed. Of several cells with one grade_id the last keeps it, as in
    nbgrader. Of a student's own cells the text is kept, and the pictures pasted into it: no tags, no outputs.

    So nothing is left to do for nbgrader's own sanitizers, which open the gradebook and validate every cell once more.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        about = resources["nbgrader"]
        with Gradebook(about["db_url"]) as gradebook:
            original: Any = gradebook.find_notebook(about["notebook"], about["assignment"])
            released, kernel = _released(original), original.kernelspec
        nb.metadata = NotebookNode({"kernelspec": json.loads(kernel)} if kernel else {})
        removed = REMOVED.pop(Path(resources["metadata"]["path"]).absolute(), [])
        remember(nb, removed + what_is_restored(nb.cells, released))
        nb.cells = restore(nb.cells, released)
        return nb, resources


# Any: to a type checker the rows of the gradebook hold SQLAlchemy's columns, in truth their values.
def _released(notebook: Any) -> dict[str, NotebookNode]:
    """The gradebook's cells of a notebook by grade_id, in the order of the notebook, with nbgrader's metadata."""
    points = {cell.name: cell.max_score for cell in (*notebook.grade_cells, *notebook.task_cells)}
    grades = {cell.name for cell in notebook.grade_cells}
    solutions = {cell.name for cell in notebook.solution_cells}
    tasks = {cell.name for cell in notebook.task_cells}

    def cell(source: Any) -> NotebookNode:
        about = {
            "schema_version": 3,
            "grade_id": source.name,
            "grade": source.name in grades,
            "solution": source.name in solutions,
            "task": source.name in tasks,
            "locked": source.locked,
            "cell_type": source.cell_type,
            "checksum": source.checksum,
        }
        if source.name in points:
            about["points"] = points[source.name]
        return make_cell(source.cell_type, source.source, {"nbgrader": about})

    return {source.name: cell(source) for source in notebook.source_cells}


def restore(submitted: list[NotebookNode], released: dict[str, NotebookNode]) -> list[NotebookNode]:
    """The cells of a submission with the instructor's put back.

    Args:
        submitted: the student's cells; any metadata.
        released: the instructor's cells by grade_id, in order.

    Returns:
        the student's cells in their order, the instructor's among them, each exactly once.
    """
    cells: list[NotebookNode] = []
    present: dict[str, NotebookNode] = {}
    for given in reversed(submitted):
        about = given.metadata.get("nbgrader")
        grade_id = about.get("grade_id") if isinstance(about, dict) else None
        original = released.get(grade_id) if isinstance(grade_id, str) and grade_id not in present else None
        if original is None:
            cell = make_cell(given.cell_type, given.source)
        else:
            source = original.source if original.metadata.nbgrader.locked else given.source
            cell = make_cell(original.cell_type, source, original.metadata)
            present[original.metadata.nbgrader.grade_id] = cell
        locked = original is not None and original.metadata.nbgrader.locked
        if cell.cell_type == "markdown" and not locked and "attachments" in given:
            cell.attachments = given.attachments
        cells.insert(0, cell)

    names = list(released)
    for i, (grade_id, original) in enumerate(released.items()):
        wanted = original.metadata.nbgrader.grade or original.metadata.nbgrader.task
        if grade_id not in present and wanted:
            cell = make_cell(original.cell_type, original.source, original.metadata)
            at = {id(cell): place for place, cell in enumerate(cells)}
            following = next((present[name] for name in names[i + 1 :] if name in present), None)
            if i and names[i - 1] in present:
                place = at[id(present[names[i - 1]])] + 1
            else:
                place = len(cells) if following is None else at[id(following)]
            cells.insert(place, cell)
            present[grade_id] = cell
    return cells
