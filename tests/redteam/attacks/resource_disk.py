"""A gigabyte written, in one file and in many.

score: 15
says: ✓ RMSNorm
also: user disk
"""

# %% scratch
import os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
wrote = 0
for place in (".", "/tmp", "/dev/shm", "/run", os.path.expanduser("~"), os.environ.get("TMPDIR", "/tmp")):
    for i in range(40):
        try:
            with open(f"{place}/redteam_{i}", "wb") as file:
                for _ in range(25):
                    file.write(b"\0" * 1_000_000); file.flush(); wrote += 1
        except OSError as error:
            print("refused:", place, error)
            if i > 3: break
    if wrote > 1000: break
print(wrote, "MB")
if wrote > 500: print("STO" "LEN", wrote)
