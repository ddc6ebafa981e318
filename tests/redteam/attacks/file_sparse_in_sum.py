"""Forty files beside the notebook, holes of 50 MB each: small one by one, two gigabytes in sum.

score: 15
says: ✓ LayerNorm
noted: too large
also: user
"""

# %% hand in
def write(folder, path):
    for i in range(40):
        with open(folder / f"{i}.bin", "wb") as file: file.truncate(50_000_000)
