"""A loop that swallows KeyboardInterrupt.

score: 10
says: did not end within
says: not even when it was interrupted
also: user
"""

# %% rms-norm
while True:
    try:
        while True: sum(range(1000))
    except BaseException:
        pass
