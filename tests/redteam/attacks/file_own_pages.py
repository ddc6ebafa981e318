"""Pages beside the notebook, with a script, with a score that is none, and a folder called as the feedback page.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
def write(folder, path):
    claimed = "<script>alert(1)</script><h1>x <span class=\"score\">(Score: {} / 15)"
    for name, score in (("zz.html", "1.2.3"), ("index.html", "15"), ("many.svg", "inf"), ("more.htm", "15")):
        (folder / name).write_text(claimed.format(score))
    (folder / "layer_norm.html").mkdir()
    (folder / "layer_norm.html" / "a.txt").write_text("x")
