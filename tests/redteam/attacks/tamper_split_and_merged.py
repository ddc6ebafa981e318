"""The answer split over two cells and the checks merged into one.

score: 15
says: ✓ RMSNorm
"""

# %% hand in
from nbformat.v4 import new_code_cell
def change(notebook, cells):
    own = cells["layer-norm"].source
    cells["layer-norm"].source = "first = 1"
    place = notebook.cells.index(cells["layer-norm"])
    notebook.cells.insert(place + 1, new_code_cell(own))
    cells["check-layer-norm"].source = "check(LayerNorm)\ncheck(RMSNorm)"
    notebook.cells.remove(cells["check-rms-norm"])
