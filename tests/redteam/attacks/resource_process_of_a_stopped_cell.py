"""A process that goes on after the cell that started it was stopped, and may cost the next cell its kernel.

score: 5
says: did not end within
says: and was stopped. Is there a loop without end in it?
noted: forked
"""

# %% layer-norm
import os, time
child = os.fork()
if not child:
    time.sleep(20)
    os._exit(0)
while True:
    time.sleep(1)

# %% scratch
if os.waitpid(child, os.WNOHANG) == (0, 0):
    print("STO" "LEN", "time: the process is still there")
