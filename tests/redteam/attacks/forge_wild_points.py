"""Points of NaN, negative, and above the maximum, in the metadata of the check.

score: 5
says: LayerNorm: not attempted yet
noted: points nan instead of 5.0
"""

# %% layer-norm
# wrong LayerNorm
# %% hand in
def change(notebook, cells):
    cells["check-layer-norm"].metadata.nbgrader.points = -1e9
    cells["check-rms-norm"].metadata.nbgrader.points = float("nan")
    cells["prose-answer"].metadata.nbgrader.points = 1e308
