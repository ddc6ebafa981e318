"""A link to a file that is large, as /dev/zero would be without end.

score: 15
says: ✓ LayerNorm
"""

# %% scratch
import os
if os.path.exists("zero") and os.path.getsize("zero") > 1000: print("STO" "LEN", os.path.getsize("zero"))
# %% hand in
def write(folder, path):
    large = folder.parents[2] / "large"
    with open(large, "wb") as file: file.truncate(100_000_000)
    (folder / "zero").symlink_to(large)
