"""input(), for which nobody is there.

score: 15
says: ✓ RMSNorm
"""

# %% scratch
x = input("password? ")
