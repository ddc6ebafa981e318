"""The order in which the system ends processes when memory is short, turned round by the submission.

score: 15
says: ✓ LayerNorm
also: user
"""

# %% scratch
for path in ("/proc/self/oom_score_adj", "/proc/self/oom_adj", "/proc/1/oom_score_adj"):
    for value in ("0", "-1000", "500", "-17"):
        try: open(path, "w").write(value)
        except OSError as error: print("refused:", error)
if open("/proc/self/oom_score_adj").read().strip() != "1000": print("STO" "LEN")
