"""A tag that has the tests skipped: stock nbgrader then gives full marks.

score: 5
says: LayerNorm: not attempted yet
noted: had tags
"""

# %% layer-norm
# wrong LayerNorm
# %% hand in
def change(notebook, cells):
    for cell in notebook.cells:
        cell.metadata.tags = ["skip-execution", "remove_cell", "nbgrader-skip"]
