"""150 MB beside the notebook: fewer than are copied, more than a kernel's own disk holds.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
def write(folder, path):
    with open(folder / "data.bin", "wb") as file: file.truncate(150_000_000)
