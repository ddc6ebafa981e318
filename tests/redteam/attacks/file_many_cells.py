"""10⁵ cells.

score: 0
says: it has 100000 cells; at most 2000 are read
"""

# %% hand in
import json
def write(folder, path):
    notebook = json.loads(path.read_text())
    notebook["cells"] = [{"cell_type": "code", "source": "1", "metadata": {}, "outputs": [], "execution_count": None}] * 100_000
    path.write_text(json.dumps(notebook))
