"""A pipe beside the notebook, which blocks whoever reads it, and a socket.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
import os, socket
def write(folder, path):
    os.mkfifo(folder / "data.csv")
    place = os.getcwd()
    os.chdir(folder)
    try:
        one = socket.socket(socket.AF_UNIX); one.bind("s"); one.close()
    finally:
        os.chdir(place)
