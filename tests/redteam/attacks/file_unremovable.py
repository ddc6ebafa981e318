"""Folders nested deeper than paths can be long, and without any permission, for whoever cleans up.

score: 15
says: ✓ RMSNorm
also: user
"""

# %% scratch
import os, glob
own = os.getcwd()
for start in (own, "/tmp", *glob.glob("/run/k*"), os.path.dirname(os.path.dirname(own)) + "/run", own + "/../run"):
    try:
        os.chdir(start)
        os.makedirs("redteam_locked/inside"); os.chmod("redteam_locked/inside", 0); os.chmod("redteam_locked", 0)
    except OSError as error:
        print("refused:", start, error)
    try:
        os.chdir(start)
        for _ in range(1500):
            os.mkdir("d" * 100); os.chdir("d" * 100)
    except OSError as error:
        print("refused:", start, error)
os.chdir(own)
