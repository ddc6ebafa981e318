"""The notebook is a pipe.

score: 0
says: could not be read as a notebook
"""

# %% hand in
import os
def write(folder, path):
    path.unlink()
    os.mkfifo(path)
