"""Feedback pages, and what Formgrader shows of a student's: text, tables, pictures, formulas; nothing that runs.

A feedback page is one file, because one file is what `nbgrader release_feedback` hands out: no script, nothing that is
loaded, formulas as MathML. It is made in a process of its own, with limits. nbgrader_config.py names the exporter for
the pages, and the filters for Formgrader.
"""

import os
import re
import textwrap
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import nbformat
from jinja2.runtime import Context
from markupsafe import Markup, escape
from nbconvert.exporters import Exporter
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook
from nbgrader import utils
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import GetGrades, NbGraderPreprocessor
from traitlets import Float, Integer, List, Unicode, default

from autograder.pipeline import markup
from autograder.pipeline.cells import is_check
from autograder.pipeline.execute import unseeded
from autograder.pipeline.markup import Allowance
from autograder.pipeline.people import called
from autograder.pipeline.turns import take_turns
from autograder.pipeline.unit import Say, Units, of_the_grader

HERE = files("autograder.pipeline")
HTML = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
HTML.filters["breakable"] = markup.breakable
PAGE, INDEX_PAGE = (
    HTML.from_string(HERE.joinpath(f"{name}.html.j2").read_text(encoding="utf-8")) for name in ("feedback", "index")
)
INDEX = "index.html"  # in a student's folder: the list of the pages
STYLE = Markup(HERE.joinpath("feedback.css").read_text(encoding="utf-8"))
END = b"</html>"
HEAD = 100_000  # bytes of a page within which its score stands
NUMBER = rb"(-?\d+\.?\d*)"
SCORE_SHOWN = re.compile(
    rb'<h1>[^<]*<span class="score">\(Score: %b / %b(?:, %b not graded yet)?\)' % (NUMBER, NUMBER, NUMBER)
)
LINK = re.compile(r'<a href="([^"]+)">')
PICTURES = ("image/png", "image/jpeg")
NAMES = ("student", "first_name", "last_name", "notebook_path")  # in Formgrader's resources: what a student is called
SHOWN = ALL, VERDICTS, SCORE = ("all of it", "the verdicts only", "the score only")
MISSING = "autograder_missing"  # the key in nbconvert's resources for the sentence on what a page does not show


class FeedbackExporter(Exporter):
    """Makes a feedback page of a graded notebook into which `ReadGrades` has put scores and comments.

    A file is read and shown in a unit (unit.py). Whatever ends that leaves a page with the verdicts, or else with the
    score alone, which says so; the grader's own failures raise.
    """

    memory_mb = Integer(1024, help="memory that the grader may take for a page").tag(config=True)
    page_s = Float(60.0, help="seconds that it may take").tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._units = Units(self._made, of_the_grader, self.memory_mb, self.log, lambda: unseeded(self.config))
        if isinstance(self.parent, GenerateFeedback):
            take_turns(self.parent, is_whole)
            # nbgrader copies what lies beside a notebook. Attack: a page of one's own, with a script or another score.
            vars(self.parent).update(init_assignment=lambda assignment_id, student_id: None)

    @default("file_extension")
    def _file_extension_default(self) -> str:
        return ".html"

    @default("optimistic_validation")
    def _optimistic_validation_default(self) -> bool:
        return True

    def from_filename(self, filename: str, resources: Any = None, **kwargs: Any) -> tuple[str, dict[str, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]  # as all exporters to text
        request = {"file": os.path.abspath(filename), "resources": resources or {}}
        page = self._units.first_answer(({**request, "cells": shown}, self.page_s) for shown in SHOWN)
        return page, self._init_resources(resources)

    def _made(self, request: dict[str, Any], say: Say) -> str:
        """The page of a file, with all of its cells or fewer. This is what the unit does."""
        shown, notebook = request["cells"], new_notebook()
        if shown != SCORE:
            notebook = nbformat.read(request["file"], as_version=4)
        if shown == VERDICTS:
            notebook.cells = [cell for cell in notebook.cells if is_check(cell)]
        missing = f"This page is not whole: {request['why']}. It shows {shown}." if request["why"] else ""
        page, _ = self.from_notebook_node(notebook, request["resources"] | {MISSING: missing})
        return page

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **kw: Any) -> tuple[str, dict[str, Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]  # as all exporters to text
        notebook, resources = super().from_notebook_node(nb, resources, **kw)
        allowance = Allowance()
        about = resources["nbgrader"]
        # The verdicts come first: a page that is too large loses what the student's cells printed.
        verdicts = {i: _verdict(cell) for i, cell in enumerate(notebook.cells) if is_check(cell)}
        cells = [_cell(cell, verdicts.get(i), allowance) for i, cell in enumerate(notebook.cells)]
        missing = resources.get(MISSING, "")
        page = PAGE.render(about=about, points=_points, cells=cells, missing=missing, style=STYLE)
        return page, resources


class ReadGrades(GetGrades):
    """nbgrader's GetGrades, which also says who a student is, and what has no score yet: None then, and not 0."""

    def _get_score(self, cell: NotebookNode, resources: Any) -> None:
        super()._get_score(cell, resources)
        about = cell.metadata.nbgrader
        grade: Any = self.gradebook.find_grade(about.grade_id, self.notebook_id, self.assignment_id, self.student_id)
        if has_no_score(grade):
            about.score = None

    def preprocess(self, nb: NotebookNode, resources: Any) -> tuple[NotebookNode, Any]:
        nb, resources = super().preprocess(nb, resources)
        with self.gradebook:  # also of cells that are not on the page
            of: Any = self.gradebook.find_submission_notebook(self.notebook_id, self.assignment_id, self.student_id)
            resources["nbgrader"]["ungraded"] = sum(grade.max_score for grade in of.grades if has_no_score(grade))
            resources["nbgrader"]["called"] = called(of.student)
        return nb, resources


def has_no_score(grade: Any) -> bool:
    """Whether a row of the gradebook waits for its first score, which somebody is to give by hand."""
    return grade.needs_manual_grade and grade.manual_score is None and grade.auto_score is None


def is_whole(path: Path) -> bool:
    """Whether a file is a page that was written to its end."""
    try:
        with path.open("rb") as file:
            file.seek(-len(END), os.SEEK_END)
            return file.read() == END
    except OSError:
        return False


def score_shown(path: Path) -> tuple[float | None, float]:
    """The score that a page shows at its top, None where it cannot be read; the points that it says are not graded."""
    score, _, ungraded = _shown(path)
    return score, ungraded


def write_index(folder: Path, student: str = "") -> None:
    """Write a student's index: all feedback pages, with their scores. One that is newer than all of them is left alone.

    Args:
        folder: the student's, with a folder for each lab.
        student: what they are called; "" for the folder's name.
    """
    heading = Markup("<h1>Feedback for {}</h1>").format(student := student or folder.name)
    pages = sorted(page for page in folder.glob("*/*.html") if page.is_file())
    links = [quote(page.relative_to(folder).as_posix()) for page in pages]
    index = folder / INDEX
    if is_whole(index):
        text = index.read_text(encoding="utf-8")
        newest = all(page.stat().st_mtime_ns < index.stat().st_mtime_ns for page in pages)
        if heading in text and LINK.findall(text) == links and newest:
            return
    index.unlink(missing_ok=True)
    if pages:
        shown = [
            dict(
                zip(("score", "most", "ungraded"), _shown(page), strict=True),
                lab=page.parent.name,
                name=page.stem,
                link=link,
            )
            for page, link in zip(pages, links, strict=True)
        ]
        text = INDEX_PAGE.render(student=student, heading=heading, pages=shown, points=_points, style=STYLE)
        index.write_text(text, encoding="utf-8")


def _shown(path: Path) -> tuple[float | None, float | None, float]:
    """What a page shows at its top: score, maximum, points not graded yet; None, None, 0 where it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return None, None, 0.0
    shown = SCORE_SHOWN.search(head)
    return (float(shown[1]), float(shown[2]), float(shown[3] or 0)) if shown else (None, None, 0.0)


def _points(number: Any) -> float:
    return round(float(number or 0), 2)


def _cell(cell: NotebookNode, verdict: list[Markup] | None, allowance: Allowance) -> dict[str, Any]:
    """What the page's template says of a cell."""
    about = cell.metadata.get("nbgrader", {})
    kinds = ("solution", "grade", "task")
    shown: dict[str, Any] = {kind: bool(about.get(kind)) for kind in kinds} | {
        key: about.get(key) for key in ("grade_id", "score", "points")
    }
    shown["empty"] = not (cell.source.strip() or cell.get("outputs") or any(shown.values()))
    if cell.cell_type == "markdown":
        shown["source"] = markup.prose(cell.source, allowance, cell.get("attachments"))
    elif cell.cell_type == "code":
        shown["source"] = markup.code(cell.source, allowance)
    else:
        shown["source"] = markup.text(cell.source, allowance)
    shown["outputs"] = verdict or [_output(output, allowance) for output in cell.get("outputs", [])]
    shown["verdict"] = verdict is not None
    comment = about.get("comment")  # the instructor's
    shown["comment"] = markup.prose(comment, Allowance()) if comment else ""
    return shown


def _verdict(cell: NotebookNode) -> list[Markup]:
    return [_output(output, Allowance()) for output in cell.get("outputs", [])]


def _output(output: NotebookNode, allowance: Allowance) -> Markup:
    """An output in the richest of its forms that may be shown."""
    if allowance.text <= 0:
        return Markup("")
    if output.output_type == "stream":
        return markup.text(output.text, allowance)
    if output.output_type == "error":
        return markup.text("\n".join(output.traceback), allowance, end=True)
    data = output.get("data", {})
    if (rich := data.get("text/html")) and (shown := markup.html_output(rich, allowance)) is not None:
        return shown
    if rich := data.get("text/markdown"):
        return markup.prose(rich, allowance)
    if rich := data.get("text/latex"):
        return markup.latex(rich, allowance)
    for mime in PICTURES:
        if mime in data:
            address = markup.picture(mime, data[mime].replace("\n", ""), allowance)
            if address is not None:
                return markup.contained(f'<img alt="A picture that this cell shows" src="{address}">')
    return markup.text(data.get("text/plain", ""), allowance)


# --- Formgrader, whose page is nbgrader's own ----------------------------------------------------------------------


class OfFormgrader(NbGraderPreprocessor):
    """What happens to a submission before Formgrader shows it."""

    # Of no use here, but nbconvert sets it for every preprocessor of a page, and warns of one that does not know it.
    display_data_priority = List(Unicode()).tag(config=True)


class PlainNames(OfFormgrader):
    """Makes plain text of a student's names. Attack: one that is HTML, which nbgrader's template prints as it is."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        resources.update({key: str(escape(resources[key])) for key in NAMES if resources.get(key)})
        return nb, resources


class ModelAnswers(OfFormgrader):
    """Puts the model answer below each answer that is graded by hand, where Formgrader shows a submission."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        if "submission_id" not in resources:  # some other page that is made of a notebook
            return nb, resources
        course = CourseDirectory(config=self.config)
        source = Path(course.format_path(course.source_directory, ".", resources["assignment_id"]))
        path = Path(course.root) / source / f"{resources['notebook_id']}.ipynb"
        try:
            cells = nbformat.read(path, as_version=4).cells
        except (OSError, ValueError) as problem:
            self.log.warning("No model answers are shown: %s cannot be read (%s)", path, problem)
            return nb, resources
        answers = {cell.metadata.nbgrader.grade_id: cell.source for cell in cells if _by_hand(cell)}
        shown = []
        for cell in nb.cells:
            shown.append(cell)
            if _by_hand(cell) and (answer := answers.get(cell.metadata.nbgrader.grade_id)):
                shown.append(new_markdown_cell("**Model answer**\n\n" + textwrap.indent(answer, "> ", lambda _: True)))
        return NotebookNode(nb | {"cells": shown}), resources


def _by_hand(cell: NotebookNode) -> bool:
    return cell.cell_type == "markdown" and utils.is_grade(cell) and utils.is_solution(cell)


class Cleaned(Markup):
    """HTML that is clean already; the template cleans what comes of Markdown outputs once more."""


def _allowance(context: Context) -> Allowance:
    """What is left of a page's allowance; it travels with the page's resources."""
    resources = context.get("resources")
    return resources.setdefault("headroom_allowance", Allowance()) if resources is not None else Allowance()


def _filter(shown: Callable[..., Markup]) -> Callable[..., Cleaned]:
    @jinja2.pass_context
    def filtered(context: Context, source: Any, *_: Any, **__: Any) -> Cleaned:
        return source if isinstance(source, Cleaned) else Cleaned(shown(context, str(source)))

    return filtered


def _prose(context: Context, source: str) -> Markup:
    cell = context.get("cell") or {}
    return markup.prose(source, _allowance(context), cell.get("attachments"))


def _html(context: Context, source: str) -> Markup:
    allowance = _allowance(context)
    shown = markup.html_output(source, allowance)
    return markup.text(source, allowance) if shown is None else shown


def _text(context: Context, source: str) -> Markup:
    shown, missing = markup.colored(source, _allowance(context))
    return shown + f"\n… {missing:,} characters are left out." if missing else shown


markdown2html = _filter(_prose)
clean_html = _filter(_html)
ansi2html = _filter(_text)
highlight_code = _filter(lambda context, source: markup.code(source, _allowance(context)))
