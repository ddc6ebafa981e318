"""Reads what students hand in, whatever it is, and puts the instructor's cells back into it."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import NoSuchKernel
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbformat.v4 import new_notebook
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import Autograde, NbGraderException
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Float, Integer
from traitlets.config import Config

from autograder.kernels.launch import NoIsolation, WarmParent
from autograder.pipeline.by_hand import Answers, answers, keep_or_take_back
from autograder.pipeline.cells import make_cell
from autograder.pipeline.execute import ENDED, JudgedExecute, unseeded
from autograder.pipeline.intake import TakenIn, copy_beside, handed_in_at, meant, read_plain, unusable
from autograder.pipeline.integrity import DONE, NOTED, UNREAD, UNSEEN, Remark, earlier_prints, what_is_restored
from autograder.pipeline.markup import FORMATS, MAX_PICTURE
from autograder.pipeline.texts import encodable
from autograder.pipeline.turns import take_turns
from autograder.pipeline.unit import Say, Units, of_the_grader

MAX_FILE = 20_000_000  # bytes of a submitted notebook
MAX_CELLS = 2_000
MAX_NOTEBOOKS = 20  # of one submission
KINDS = ("code", "markdown", "raw")


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
    data = read_plain(path, MAX_FILE)
    if data is None:
        raise Unreadable("it may not be read")
    if not data.strip():
        raise Unreadable("it is empty")
    try:
        notebook: Any = nbformat.from_dict(json.loads(encodable(data.decode("utf-8-sig"))))
        if notebook.nbformat != 4:
            notebook = nbformat.convert(notebook, 4)
        cells = list(notebook.cells)
        size = sum(len(str(cell.get("source"))) for cell in cells if isinstance(cell, dict))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not readable JSON ({type(error).__name__})") from error
    except MemoryError as error:  # Attack: millions of empty objects, each of which takes far more than its text
        raise Unreadable("to read it takes more memory than the grader has for a submission") from error
    except Exception as error:  # nbformat raises whatever the missing piece leads to
        raise Unreadable(f"it is not a notebook ({type(error).__name__})") from error
    if size > MAX_FILE:  # Attack: an old heading has as many # as it says
        raise Unreadable(f"in the present format it is larger than {MAX_FILE // 1_000_000} MB")
    if len(cells) > MAX_CELLS:
        raise Unreadable(f"it has {len(cells)} cells; at most {MAX_CELLS} are read")
    metadata = notebook.get("metadata")
    clean = new_notebook()
    clean.metadata = nbformat.from_dict(metadata) if isinstance(metadata, dict) else NotebookNode()
    clean.cells = [_cell(cell) for cell in cells if isinstance(cell, dict) and cell.get("cell_type") in KINDS]
    if not clean.cells:
        raise Unreadable("it has no cells")
    return clean


def _cell(given: dict[str, Any]) -> NotebookNode:
    """A cell with what can be used of a given one."""
    source = given.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    metadata = given.get("metadata")
    source = encodable(source) if isinstance(source, str) else ""
    cell = make_cell(given["cell_type"], source, metadata if isinstance(metadata, dict) else {})
    outputs = given.get("outputs")
    if cell.cell_type == "code" and isinstance(outputs, list):
        cell.outputs = outputs
    if cell.cell_type == "markdown" and (attachments := _pictures(given.get("attachments"))):
        cell.attachments = attachments
    return cell


def _pictures(attachments: Any) -> NotebookNode:
    """The pictures among the attachments of a cell: base64 by MIME type, by name."""
    kept = NotebookNode()
    for name, forms in attachments.items() if isinstance(attachments, dict) else ():
        pictures = {
            mime: data
            for mime, data in (forms.items() if isinstance(forms, dict) else ())
            if mime in FORMATS and isinstance(data, str) and len(data) <= MAX_PICTURE and data.isascii()
        }
        if pictures and isinstance(name, str):
            kept[encodable(name)] = NotebookNode(pictures)
    return kept


class SubmissionExporter(NotebookExporter):
    """Grades each submission in a process of its own, with limits, whatever it is.

    nbgrader's converter makes its exporter after it has looked for submissions and before it opens the first. From then
    on it sees a copy of the course's folders (`TakenIn`) in which each submission is empty notebooks and a checked
    date. The real ones are read, run, judged and written in a unit (unit.py), and what ends one ends no other: what had
    been judged then counts, and the notebook says why there is no more.

    A file that cannot be read becomes an empty notebook that says so. The grader's own failures (no kernel, a locked
    gradebook, a full disk) raise, and leave the submission ungraded.
    """

    memory_mb = Integer(2048, help="memory that the grader may take for a submission, beside its kernel's").tag(
        config=True
    )
    grader_s = Float(120.0, help="seconds that it may take, beside those of the notebook").tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._course: TakenIn | None = None
        self._earlier: dict[str, Answers] = {}  # of the submission that is taken up, by notebook
        self._units = Units(self._grade, self._is_own, self.memory_mb, self.log, self._set_up)
        if isinstance(self.parent, Autograde):
            self._course = self._take_in(self.parent)
            take_turns(self.parent, is_graded, self._course.close, self._remember)

    def _remember(self, files: list[Path]) -> None:
        """Note the answers in what is about to be graded again."""
        self._earlier = {path.stem: answers(path.read_bytes()) for path in files if path.is_file()}

    def _take_in(self, converter: Autograde) -> TakenIn:
        """Have the converter see what it may see of the submissions that it has found."""
        given: Any = converter.coursedir
        course = TakenIn(given)
        pattern = converter._format_source("(?P<lab>.*)", "(?P<student>.*)", escape=True)  # pyright: ignore[reportPrivateUsage]  # as nbgrader's own loop does
        assignments, why = {}, None
        of_lab: dict[str, list[str] | None] = {}
        for path, paths in sorted(converter.assignments.items()):
            about = re.match(pattern, path, re.DOTALL)
            if about is None:
                continue
            lab, student = about["lab"], about["student"]
            if lab not in of_lab:
                of_lab[lab] = _notebooks(course.db_url, lab)
            known = of_lab[lab]
            files = {Path(file).stem: Path(file).name for file in sorted(paths)}
            if known is not None and given.notebook_id == "*":
                files = meant(course.folder(lab, student), known)
            files = dict([pair for pair in sorted(files.items()) if known is None or pair[0] in known][:MAX_NOTEBOOKS])
            why = unusable(student) or (None if files else f"There is no {' or '.join(known or ())}.ipynb in it.")
            if why is None:
                folder, notebooks = course.add(lab, student, files)
                assignments[folder] = notebooks
            else:
                self.log.error("%r, %s is not graded. %s", student, lab, why)
        if converter.assignments and not assignments:
            raise NbGraderException(why)
        converter.assignments, converter.coursedir = assignments, course
        return course

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **kwargs: Any
    ) -> tuple[str, dict[str, Any]]:
        path, given = Path(filename), dict(resources or {})
        resources = self._init_resources(resources)
        assert self._course is not None
        if path.is_relative_to(Path(self._course.root, self._course.submitted_directory)):
            return "", resources  # nbgrader's first pass: the notebook begins to be there
        lab, student, name = (given["nbgrader"][key] for key in ("assignment", "student", "notebook"))
        folder = self._course.folder(lab, student)
        if handed_in_at(folder)[0] is None:
            _forget_time(given["nbgrader"]["db_url"], lab, student)
        source = folder / self._course.files[lab, student][name]
        seed = next((step.seed for step in self._preprocessors if isinstance(step, JudgedExecute)), None)
        request = {"resources": given, "folder": str(path.parent), "source": str(source), "seed": seed}
        graded = self._graded(request)
        if earlier := self._earlier.get(name):
            with Gradebook(given["nbgrader"]["db_url"]) as gradebook:
                keep_or_take_back(gradebook.db, lab, student, name, lambda: earlier, lambda: answers(graded.encode()))
                gradebook.db.commit()
        return graded, resources

    # --- In nbgrader's process -----------------------------------------------------------------------------------

    def _graded(self, request: dict[str, Any]) -> str:
        """The text of a graded notebook."""
        judged: dict[str, Any] = {}
        noted: list[dict[str, str]] = []
        run_s = sum(step.total_timeout for step in self._preprocessors if isinstance(step, JudgedExecute))
        less = {**request, "judged": judged, "noted": noted}  # filled while the first request is on its way
        requests = (
            ({**request, "look": True}, self.grader_s + run_s),
            ({**less, "look": True}, self.grader_s),
            ({**less, "look": False}, self.grader_s),
        )

        def heard(message: dict[str, Any]) -> None:
            if verdict := message.get("judged"):
                judged[verdict["grade_id"]] = verdict
            else:
                noted.append(message["noted"])

        return self._units.first_answer(requests, heard)

    def _set_up(self) -> tuple[Config, list[WarmParent | None]]:
        """What a unit has from where it was forked: the configuration, and what kernels are forked from."""
        return unseeded(self.config), [
            step.make_ready() for step in self._preprocessors if isinstance(step, JudgedExecute)
        ]

    # --- In the unit ---------------------------------------------------------------------------------------------

    def _grade(self, request: dict[str, Any], say: Say) -> str:
        """Read, run, judge and write one notebook; `look` and `why` say what of it is left out."""
        given, target, file = request["resources"], Path(request["folder"]), Path(request["source"])
        ended = {key: request[key] for key in ("why", "judged", "noted")} if request["why"] else None
        name, source = given["nbgrader"]["notebook"], file.parent
        notebook, remarks = new_notebook(), []
        unread = ""
        if request["look"]:
            _, remarks = handed_in_at(source)
            try:
                if link := next((folder for folder in (source.parent, source) if folder.is_symlink()), None):
                    raise Unreadable(f"{link.name!r} is a link, and would be somebody else's work")
                remarks += copy_beside(source, target)
                notebook = read(file)
            except Unreadable as problem:
                self.log.warning("%s in %s cannot be read: %s", name, source, problem)
                unread = f"the submitted file could not be read as a notebook: {problem}"
                remarks.append(Remark(repr(file.name), f"could not be read as a notebook: {problem}"))
                sentence = f"**T{unread[1:]}.** Nothing in it was graded."
                notebook.cells = [make_cell("markdown", sentence)]
        if ended:
            self.log.warning("%s in %s: %s", name, source, ended["why"])
            left_out = "" if request["look"] else " Nothing of the notebook is shown for that reason."
            sentence = f"**Grading was broken off: {ended['why']}.** What had been judged before counts.{left_out}"
            notebook.cells.insert(0, make_cell("markdown", sentence))
        for step in self._preprocessors:
            if isinstance(step, JudgedExecute):
                step.say, step.seed = say, request["seed"]
        resources = {
            **given,
            NOTED: remarks,
            ENDED: ended,
            UNREAD: unread,
            UNSEEN: not request["look"],
            "metadata": {"name": name, "path": str(target)},
        }
        output, _ = self.from_notebook_node(notebook, resources)
        return output

    def _is_own(self, problem: BaseException) -> bool:
        """Whether an exception is the grader's own failure, and no submission's doing."""
        if isinstance(problem, (NoIsolation, NoSuchKernel)) or of_the_grader(problem):
            return True
        return any(isinstance(step, JudgedExecute) and step.own_failure is problem for step in self._preprocessors)


def is_graded(path: Path) -> bool:
    """Whether a file in autograded/ is a notebook whose verdicts are in it, and in the gradebook.

    It is written once before anything is run, and again with its verdicts.
    """
    try:
        notebook = json.loads(path.read_bytes())
    except (ValueError, OSError):
        return False
    metadata = notebook.get("metadata") if isinstance(notebook, dict) else None
    return isinstance(metadata, dict) and DONE in metadata


def _forget_time(database: str, lab: str, student: str) -> None:
    """Have the gradebook know no time of handing in: nbgrader keeps that of an earlier grading."""
    with Gradebook(database) as gradebook:
        submission: Any = gradebook.find_submission(lab, student)
        if submission.timestamp is not None:
            submission.timestamp = None
            gradebook.db.commit()


def _notebooks(database: str, lab: str) -> list[str] | None:
    """The notebooks of a lab, as the gradebook knows them; None if it does not know the lab."""
    with Gradebook(database) as gradebook:
        try:
            rows: Any = gradebook.find_assignment(lab).notebooks
            return sorted(row.name for row in rows)
        except MissingEntry:
            return None


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
        root = Path(self.config.CourseDirectory.get("root", "") or ".")
        earlier = frozenset(earlier_prints(root, about["assignment"]))
        if not (resources.get(UNREAD) or resources.get(UNSEEN)):  # of what was not read, nothing is missing
            resources[NOTED] = [*resources.get(NOTED, []), *what_is_restored(nb.cells, released, earlier)]
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
