"""Memory taken bit by bit, and touched: as numbers, as bytes, and as shared mappings.

score: 15
says: ✓ RMSNorm
also: user
"""

# %% scratch
kept = []
try:
    while len(kept) < 60:
        kept.append(torch.ones(25_000_000))
    print("STO" "LEN", "6 GB")
except (MemoryError, RuntimeError) as error:
    print(len(kept), "times 100 MB, then", type(error))
kept.clear()
import mmap
try:
    while len(kept) < 60:
        one = mmap.mmap(-1, 100_000_000); one[::4096] = b"x" * len(one[::4096]); kept.append(one)
    print("STO" "LEN", "6 GB")
except (MemoryError, OSError) as error:
    print(len(kept), "mappings of 100 MB, then", type(error))
