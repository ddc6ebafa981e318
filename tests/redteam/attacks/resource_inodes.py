"""A hundred thousand empty files.

score: 15
says: ✓ RMSNorm
also: user disk
"""

# %% scratch
count = 0
try:
    for count in range(100_000):
        open(f"redteam_{count}", "w").close()
    print("STO" "LEN", count)
except OSError as error:
    print("refused:", count, error)
