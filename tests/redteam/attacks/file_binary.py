"""Binary garbage.

score: 0
says: it is not readable JSON
"""

# %% hand in
def write(folder, path):
    path.write_bytes(bytes(range(256)) * 100)
