"""10⁸ characters of output.

score: 15
says: was stopped
also: user
"""

# %% scratch
for _ in range(100):
    print("x" * 1_000_000)
