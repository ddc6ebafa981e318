# Ben: ReLU in the network; a block in post-norm; in the stack that same block, many times over.
# %% feed-forward
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


# %% block
class EncoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        self.attention = MultiHeadSelfAttention(d_model, n_heads)
        self.feed_forward = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))

    def forward(self, x, mask=None):
        x = self.norm_1(x + self.attention(x, mask))
        return self.norm_2(x + self.feed_forward(x))


# %% encoder
class Encoder(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff):
        super().__init__()
        self.blocks = nn.ModuleList([EncoderBlock(d_model, n_heads, d_ff)] * n_layers)
        self.norm = LayerNorm(d_model)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)
