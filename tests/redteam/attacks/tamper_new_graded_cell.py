"""Cells of the student's own that claim to be worth points.

score: 5
says: LayerNorm: not attempted yet
"""

# %% layer-norm
# wrong LayerNorm
# %% hand in
from nbformat.v4 import new_code_cell
def change(notebook, cells):
    for i in range(3):
        cell = new_code_cell("100.0")
        cell.metadata["nbgrader"] = {"grade": True, "solution": False, "locked": True, "points": 100, "grade_id": f"bonus-{i}", "schema_version": 3, "cell_type": "code"}
        notebook.cells.append(cell)
