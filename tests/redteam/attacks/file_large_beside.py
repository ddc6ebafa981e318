"""300 MB beside the notebook, as a hole in a file, and 5000 small files.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
import os
def write(folder, path):
    with open(folder / "data.bin", "wb") as file: file.truncate(300_000_000)
    (folder / "many").mkdir()
    for i in range(5000): (folder / "many" / f"{i}").touch()
