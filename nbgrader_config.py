# ruff: noqa: F821
"""The course as nbgrader sees it: solutions/ is what instructors edit, labs/ what students get."""

from pathlib import Path

COURSE = Path(__file__).resolve().parent

c.CourseDirectory.root = str(COURSE)
c.CourseDirectory.course_id = "headroom"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "labs"

# nbgrader's usual exchange lies in a system folder that a laptop does not have. Instructors of a shared machine put
# their own folder here.
EXCHANGE = COURSE / ".headroom" / "exchange"
EXCHANGE.mkdir(parents=True, exist_ok=True)
c.Exchange.root = str(EXCHANGE)
c.Exchange.cache = str(COURSE / ".headroom" / "exchange-cache")
# Students hand in what they filled in, in labs/; a lab that is missing is fetched to there, where its links lead on.
c.Exchange.assignment_dir = str(COURSE / "labs")

# --- Preprocessors: how labs are made, graded and returned ---------------------------------------------------------

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
# Autograding: the instructor's cells are put back, the student's cells run within limits, and for each check cell a
# judge outside of the student's kernel decides. autograder/pipeline/ holds what is named here.
c.Autograde.pre_convert_hook = "autograder.pipeline.submission.remove_traps"
c.Autograde.exporter_class = "autograder.pipeline.submission.SubmissionExporter"
c.Autograde.sanitize_preprocessors = ["autograder.pipeline.submission.RestoreCells"]
c.Autograde.autograde_preprocessors = [
    "autograder.pipeline.execute.JudgedExecute",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "autograder.pipeline.grades.SaveJudgedGrades",
    "autograder.pipeline.integrity.SaveIntegrityNote",
    "nbgrader.preprocessors.AssignLatePenalties",
]
c.SubmissionExporter.optimistic_validation = True  # once, at the end, and not after each of them
# A cell has this many seconds, a whole notebook this many, restarts of its kernel included. Lab 7 trains for a minute.
c.JudgedExecute.timeout = 240
c.JudgedExecute.total_timeout = 600.0

# Feedback pages are one file each, without scripts. Formgrader's view of a submission is nbgrader's own page: what is
# a student's in it goes through the same filters, so that it neither runs nor takes long.
c.GenerateFeedback.exporter_class = "autograder.pipeline.feedback.FeedbackExporter"
c.GenerateFeedback.preprocessors = ["nbgrader.preprocessors.GetGrades"]
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = {
    name: f"autograder.pipeline.feedback.{name}"
    for name in ("ansi2html", "clean_html", "highlight_code", "markdown2html")
}
