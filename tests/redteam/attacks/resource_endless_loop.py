"""while True: pass.

score: 5
says: did not end within 4 s and was stopped
"""

# %% layer-norm
while True: pass
