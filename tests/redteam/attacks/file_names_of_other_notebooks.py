"""Other notebooks beside the right one, with names that lead elsewhere.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
def write(folder, path):
    text = path.read_text()
    for name in ("a\nb.ipynb", "'\"; x.ipynb", "数据.ipynb", "..ipynb", "layer_norm (1).ipynb", "<script>alert(1)<.ipynb", "-h.ipynb"):
        (folder / name).write_text(text)
