"""SIGSTOP to oneself: neither running nor ended.

score: 10
says: did not end within
"""

# %% rms-norm
import os, signal
os.kill(os.getpid(), signal.SIGSTOP)
import threading
import time; time.sleep(60)
