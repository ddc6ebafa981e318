"""F.layer_norm in a scripted function.

score: 5
says: LayerNorm: it raised
"""

# %% layer-norm
from typing import List
import linecache
source = """
def normed(x, gamma, beta, eps: float):
    return torch.layer_norm(x, [x.size(-1)], gamma, beta, eps)
"""
unit = torch.jit.CompilationUnit(source)
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps, self.gamma, self.beta = eps, nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
    def forward(self, x):
        return unit.normed(x, self.gamma, self.beta, self.eps)
