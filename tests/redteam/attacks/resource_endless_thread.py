"""Threads that never end, and one that prints for ever.

score: 15
says: ✓ RMSNorm
"""

# %% scratch
import threading, time
def work():
    while True: time.sleep(0.01)
def talk():
    while True:
        print("still here " * 10); time.sleep(0.01)
for target in (work, work, talk):
    threading.Thread(target=target).start()
