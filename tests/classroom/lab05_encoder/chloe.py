# Chloe: the network right; the block without the mask; the encoder untouched.
# %% feed-forward
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.expand, self.shrink = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.shrink(nn.functional.gelu(self.expand(x)))


# %% block
class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attention = MultiHeadSelfAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))
