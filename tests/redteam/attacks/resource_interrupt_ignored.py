"""SIGINT ignored.

score: 10
says: did not end within
says: not even when it was interrupted
also: user
"""

# %% rms-norm
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
time.sleep(300)
