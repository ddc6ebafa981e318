"""What nbgrader has to be told so that this grader makes, grades and returns labs; for a course's nbgrader_config.py:

from pathlib import Path

from autograder.pipeline.configuration import configure

configure(c, Path(__file__).parent)
"""

from pathlib import Path

from traitlets.config import Config


def configure(c: Config, course: Path) -> None:
    """Plug the grader into nbgrader.

    Args:
        c: the configuration that nbgrader hands to its file.
        course: the course's folder: solutions/ is what instructors edit, labs/ what students get.
    """
    c.CourseDirectory.root = str(course.resolve())
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "labs"

    # Making labs: nbgrader's own list, except that a solution may name a program to be mended, which students then get.
    c.GenerateAssignment.preprocessors = [
        "nbgrader.preprocessors.IncludeHeaderFooter",
        "nbgrader.preprocessors.InstantiateTests",
        "nbgrader.preprocessors.LockCells",
        "autograder.pipeline.release.ClearSolutions",
        "nbgrader.preprocessors.ClearOutput",
        "nbgrader.preprocessors.CheckCellMetadata",
        "nbgrader.preprocessors.ComputeChecksums",
        "nbgrader.preprocessors.SaveCells",
        "nbgrader.preprocessors.ClearHiddenTests",
        "nbgrader.preprocessors.ClearMarkScheme",
        "nbgrader.preprocessors.ComputeChecksums",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    # Autograding, each submission in a process of its own with limits: its files are taken in, the instructor's cells
    # put back, the student's cells run, and for each check cell a judge outside of the student's kernel decides.
    c.Autograde.exporter_class = "autograder.pipeline.submission.SubmissionExporter"
    c.Autograde.sanitize_preprocessors = []
    c.Autograde.autograde_preprocessors = [
        "autograder.pipeline.submission.RestoreCells",
        "autograder.pipeline.execute.JudgedExecute",
        "nbgrader.preprocessors.IgnorePattern",
        "nbconvert.preprocessors.ClearMetadataPreprocessor",
        "nbgrader.preprocessors.LimitOutput",
        "autograder.pipeline.grades.SaveJudgedGrades",
        "autograder.pipeline.integrity.SaveIntegrityNote",
        "nbgrader.preprocessors.AssignLatePenalties",
    ]
    c.SubmissionExporter.optimistic_validation = True  # once, at the end, and not after each of them

    # An exchange in which the whole class may write.
    c.ExchangeFactory.collect = "autograder.pipeline.exchange.CollectOwn"
    c.ExchangeCollect.update = True  # who hands in again is graded by what came last
    c.ExchangeFactory.release_feedback = "autograder.pipeline.exchange.ReleaseOwn"

    # Late: `c.LatePolicy` says what it costs, in the course's own file; nbgrader's own penalty_method is known as well.
    c.AssignLatePenalties.plugin_class = "autograder.pipeline.late.LatePolicy"

    # grades.csv with names and sentences quoted, and nothing in it that a spreadsheet would compute.
    c.ExportApp.plugin_class = "autograder.pipeline.grades.QuotedExport"

    # Feedback pages are one file each, without scripts. Formgrader's view of a submission is nbgrader's own page: what
    # is a student's in it goes through the same filters, so that it neither runs nor takes long.
    c.GenerateFeedback.exporter_class = "autograder.pipeline.feedback.FeedbackExporter"
    c.GenerateFeedback.preprocessors = ["autograder.pipeline.feedback.ReadGrades"]
    c.HTMLExporter.preprocessors = [
        "autograder.pipeline.feedback.PlainNames",
        "autograder.pipeline.feedback.ModelAnswers",
    ]
    c.HTMLExporter.sanitize_html = True
    c.HTMLExporter.filters = {
        name: f"autograder.pipeline.feedback.{name}"
        for name in ("ansi2html", "clean_html", "highlight_code", "markdown2html")
    }
