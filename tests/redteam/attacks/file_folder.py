"""The notebook is a folder.

score: 0
says: could not be read as a notebook
"""

# %% hand in
def write(folder, path):
    path.unlink()
    path.mkdir()
    (path / "x").write_text("x")
