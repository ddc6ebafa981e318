"""A notebook of 200 MB, most of it a hole in the file.

score: 0
says: it is larger than 20 MB
"""

# %% hand in
import os
def write(folder, path):
    os.truncate(path, 200_000_000)
