"""A call into C that keeps the interpreter, and heeds no signal.

score: 10
says: did not end within
says: not even when it was interrupted
"""

# %% rms-norm

sum(range(10**12))
