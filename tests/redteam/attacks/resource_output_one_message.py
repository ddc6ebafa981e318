"""One message of 100 MB.

score: 15
says: ✓ RMSNorm
"""

# %% scratch
print("x" * 100_000_000)
