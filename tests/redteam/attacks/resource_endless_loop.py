"""while True: pass.

score: 5
says: did not end within
says: and was stopped. Is there a loop without end in it?
"""

# %% layer-norm
while True: pass
