"""JSON nested 200 000 deep.

score: 0
says: it is not readable JSON
"""

# %% hand in
def write(folder, path):
    path.write_text("[" * 200_000 + "]" * 200_000)
