"""A loop without end that only a check meets.

score: 5
says: LayerNorm
"""

# %% layer-norm
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
    def forward(self, x):
        while True: pass
