"""10⁵ small outputs, and pictures that are too large.

score: 15
says: ✓ RMSNorm
"""

# %% scratch
from IPython.display import display, HTML
for i in range(20_000):
    display(i)
