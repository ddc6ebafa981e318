"""os._exit(0) in the midst of a cell.

score: 5
says: ended the Python process
also: quick
"""

# %% layer-norm
import os
os._exit(0)
