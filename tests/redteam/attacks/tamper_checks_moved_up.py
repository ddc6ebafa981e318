"""Both checks moved to the top, and the cells reversed.

score: 0
says: comes after its check
noted: were in another order
"""

# %% hand in
def change(notebook, cells):
    checks = [cell for cell in notebook.cells if cell.id in ("check-layer-norm", "check-rms-norm")]
    rest = [cell for cell in notebook.cells if cell not in checks]
    notebook.cells = [rest[1], *checks, *rest]
