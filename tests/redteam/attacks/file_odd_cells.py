"""Cells that are numbers, null, of an unknown kind, or without a source, between the true ones.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
import json
def write(folder, path):
    notebook = json.loads(path.read_text())
    odd = [3, None, [], {}, {"cell_type": "code"}, {"cell_type": "alien", "source": "x"}, {"cell_type": "code", "source": 7, "outputs": {"a": 1}, "metadata": 3},
           {"cell_type": "markdown", "source": ["a", 3, None], "attachments": {"x.png": {"image/svg+xml": "<svg onload=alert(1)>"}}}, {"cell_type": "code", "source": "\ud800", "id": "../../x"}]
    notebook["cells"] = odd + notebook["cells"] + odd
    path.write_text(json.dumps(notebook))
