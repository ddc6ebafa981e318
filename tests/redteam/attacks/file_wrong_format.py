"""nbformat 99.

score: 0
says: could not be read as a notebook
"""

# %% hand in
import json
def write(folder, path):
    notebook = json.loads(path.read_text())
    notebook["nbformat"] = 99
    path.write_text(json.dumps(notebook))
