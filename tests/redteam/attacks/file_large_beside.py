"""300 MB beside the notebook, as a hole in a file, and more small files than a kernel gets.

score: 15
says: ✓ LayerNorm
"""

# %% hand in
import os
def write(folder, path):
    with open(folder / "data.bin", "wb") as file: file.truncate(300_000_000)
    (folder / "many").mkdir()
    for i in range(1500): (folder / "many" / f"{i}").touch()
