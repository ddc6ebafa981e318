"""A fork bomb, bounded in case it works: 300 processes that sleep.

score: 0
says: can't start new thread
noted: forked
also: user
"""

# %% scratch
import os, time
count = 0
for _ in range(300):
    try:
        if not os.fork():
            time.sleep(20)
            os._exit(0)
        count += 1
    except OSError as error:
        print("refused:", error)
        break
if count == 300: print("STO" "LEN", count)
