"""JSON that ends too early.

score: 0
says: it is not readable JSON
"""

# %% hand in
def write(folder, path):
    path.write_text(path.read_text()[:3000])
