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

# --- Preprocessors: how labs are made, graded and returned ---------------------------------------------------------
