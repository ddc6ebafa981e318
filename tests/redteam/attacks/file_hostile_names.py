"""Thousands of files beside the notebook, in folders whose names are patterns to whoever takes names for patterns.

score: 15
says: ✓ LayerNorm
noted: too many
"""

# %% hand in
def write(folder, path):
    deep = folder
    for _ in range(8):
        deep = deep / "*"
        for name in ("*", "[!a]*", "?", "**", "{x}"): (deep / name).mkdir(parents=True, exist_ok=True)
    for i in range(3000): (folder / f"[{i}]*").touch()
    for i in range(3000): (deep / f"[{i}]*").touch()
