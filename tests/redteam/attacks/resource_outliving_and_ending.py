"""A process that outlives the kernel, which then ends itself.

score: 15
says: ended the Python process
also: user
"""

# %% scratch
import os, subprocess, time
for _ in range(5):
    subprocess.Popen(["sleep", "119"], start_new_session=True)
os._exit(0)
