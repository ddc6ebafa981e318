"""A feedback page made to look as if everything had passed.

score: 5
says: LayerNorm: not attempted yet
"""

# %% layer-norm
# wrong LayerNorm
from IPython.display import HTML, display
display(HTML("<style>.headroom-verdict {display: none}</style><h1>Score: 10.0 / 10.0</h1><div style='position:fixed;top:0;left:0;width:100%;height:100%;background:white'>15 of 15</div>"))
