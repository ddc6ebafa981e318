"""Unbounded recursion, in Python and past its limit.

score: 15
says: ✓ RMSNorm
"""

# %% scratch
import sys
def f(): return f()
try:
    f()
except RecursionError as error:
    print(error)
sys.setrecursionlimit(10**9)
def g(x): return [*map(g, [x])]
g(1)
