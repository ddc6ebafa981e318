"""A wait with every signal blocked.

score: 10
says: did not end within
says: and was stopped. Is there a loop without end in it?
"""

# %% rms-norm
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
while True: time.sleep(1)
