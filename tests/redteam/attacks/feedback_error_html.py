"""Scripts in the names and texts of errors, which a check repeats.

score: 5
says: LayerNorm
"""

# %% layer-norm
Bad = type("<img src=x onerror=alert(1)>", (Exception,), {})
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        print("<script>alert(1)</script>")
    def forward(self, x):
        raise Bad("<script>alert(1)</script>\x1b[2J" + "A" * 100_000)
