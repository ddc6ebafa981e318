# ruff: noqa: F821
"""The course as nbgrader sees it: solutions/ is what instructors edit, labs/ what students get."""

import os
from pathlib import Path

from autograder.pipeline.configuration import configure

COURSE = Path(__file__).resolve().parent

configure(c, COURSE)
c.CourseDirectory.course_id = "headroom"

# nbgrader's usual exchange lies in a system folder that a laptop does not have. On a machine that the class shares,
# JupyterHub's configuration names one for all (docs/jupyterhub.md); without a hub, put the folder here.
EXCHANGE = Path(os.environ.get("HEADROOM_EXCHANGE") or COURSE / ".headroom" / "exchange")
if not EXCHANGE.exists():
    EXCHANGE.mkdir(parents=True, exist_ok=True)
    EXCHANGE.chmod(0o777)  # which nbgrader asks for: students hand in there
c.Exchange.root = str(EXCHANGE)
c.Exchange.cache = str(COURSE / ".headroom" / "exchange-cache")
# Students hand in what they filled in, in labs/; a lab that is missing is fetched to there, where its links lead on.
c.Exchange.assignment_dir = str(COURSE / "labs")

# A cell has this many seconds, a whole notebook this many, restarts of its kernel included. Lab 7 trains for a minute.
c.Execute.timeout = c.JudgedExecute.timeout = 240  # the former is what Validate runs a student's notebook with
c.JudgedExecute.total_timeout = 600.0
