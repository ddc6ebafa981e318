"""A file and a folder beside the notebook that nobody may read.

score: 15
says: ✓ LayerNorm
also: user
"""

# %% hand in
def write(folder, path):
    (folder / "data.csv").write_text("1")
    (folder / "data.csv").chmod(0)
    (folder / "closed").mkdir(mode=0)
