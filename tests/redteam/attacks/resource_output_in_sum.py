"""Forty cells that each produce less output than a cell may: forty megabytes together.

score: 15
says: Not all is shown: the notebook's outputs have more than 10,000,000 characters.
"""

# %% hand in
import nbformat
def change(notebook, cells):
    more = [nbformat.v4.new_code_cell("print('x' * 990_000)") for _ in range(40)]
    notebook.cells[1:1] = more
    return notebook
