"""Cells that all sleep nearly as long as one may.

score: 10
says: the notebook used up its 30 s
"""

# %% hand in
from nbformat.v4 import new_code_cell
def change(notebook, cells):
    place = notebook.cells.index(cells["rms-norm"])
    notebook.cells[place:place] = [new_code_cell("import time; time.sleep(3.7)") for _ in range(20)]
