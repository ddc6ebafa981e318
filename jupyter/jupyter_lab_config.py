# ruff: noqa: F821
"""How the course's JupyterLab is set up. `python -m headroom lab` reads it; labconfig/ holds settings, labextensions/
what is shown of the course itself."""

import logging
from pathlib import Path

# Nothing asks the internet by itself.
c.LabApp.news_url = None
c.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
c.LabApp.extension_manager = "readonly"

# Only this computer reaches it, and Ctrl-C stops it without a second question.
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.answer_yes = True

# Two warnings that concern nobody: the time to answer a ping is longer than the time between two; and at each check
# that passes when a lab is validated, nbgrader says that its text is no number of points.
for name, text in (("tornado.general", "websocket_ping_timeout"), ("ServerApp", "expecting output to indicate")):
    logging.getLogger(name).addFilter(lambda record, text=text: text not in record.getMessage())

# Looking for language servers would start npm, which writes into the home folder.
c.LanguageServerManager.autodetect = False

# What shows the page with the course's map; what it shows is answered by jupyter_server_config.d/.
c.LabApp.extra_labextensions_path = [str(Path(__file__).parent / "labextensions")]
