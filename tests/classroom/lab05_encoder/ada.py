# Ada: everything right, in another style than the lab's.
# %% feed-forward
class FeedForward(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))


# %% block
class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.mlp = FeedForward(d_model, d_ff)
        self.ln_b, self.ln_a = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mha = MultiHeadSelfAttention(d_model, n_heads)

    def forward(self, x, mask=None):
        h = x + self.mha(self.ln_a(x), mask)
        return h + self.mlp(self.ln_b(h))


# %% encoder
class Encoder(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.last = LayerNorm(d_model)
        for i in range(n_layers):
            self.add_module(f"block{i}", EncoderBlock(d_model, n_heads, d_ff))
        self.n = n_layers

    def forward(self, x, mask=None):
        for i in range(self.n):
            x = getattr(self, f"block{i}")(x, mask)
        return self.last(x)
