"""What the fork server of tests/kernels.py imports: what notebooks import, and nothing of the course.

Not pyplot and not tqdm.auto, which look around as they are imported whether they are in a notebook.
"""

import anywidget  # noqa: F401
import babel  # noqa: F401
import IPython.core.completer
import IPython.core.oinspect
import IPython.core.ultratb  # noqa: F401
import ipywidgets  # noqa: F401
import jupyterquiz  # noqa: F401
import matplotlib.backends.backend_agg
import matplotlib.figure
import matplotlib.font_manager  # noqa: F401
import numpy  # noqa: F401
import torch

# The first step of an optimizer imports as much as PyTorch itself.
layer = torch.nn.Linear(2, 2)
layer(torch.ones(1, 2)).sum().backward()
torch.optim.AdamW(layer.parameters()).step()
