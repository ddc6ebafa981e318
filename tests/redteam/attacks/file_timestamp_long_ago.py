"""A time of handing in before there were computers, and in a zone that does not exist.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
def write(folder, path):
    (folder / "timestamp.txt").write_text("0001-01-01 00:00:00.000000 Mars/Olympus")
