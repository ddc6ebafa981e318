"""As much output as a loop can make, faster than 32 MB in the 0.2 s that IPython collects for one message.

score: 15
says: was stopped after 1,000,000 characters of output
"""

# %% scratch
while True:
    print("x" * 100_000)
