"""A reply of NaN for everything, numbers and parameters alike.

score: 6
says: Recognised: γ or β starts from the wrong values
"""

# %% layer-norm
import sys
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((d_model,), float("nan")))
        self.beta = nn.Parameter(torch.full((d_model,), float("inf")))
    def forward(self, x):
        return x * float("nan")
