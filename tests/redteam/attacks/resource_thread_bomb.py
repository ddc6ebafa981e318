"""300 threads that sleep.

score: 0
says: can't start new thread
also: user
"""

# %% scratch
import threading, time
count = 0
for _ in range(300):
    try:
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start(); count += 1
    except RuntimeError as error:
        print("refused:", error)
        break
if count == 300: print("STO" "LEN", count)
