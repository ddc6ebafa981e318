"""A number as the last expression of a check cell.

score: 5
says: LayerNorm: not attempted yet
noted: was changed, and is put back
"""

# %% layer-norm
# wrong LayerNorm
# %% hand in
def change(notebook, cells):
    cells["check-layer-norm"].source = "10.0"
