# Rosa: right; the check cell is deleted.
class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def split(self, t):
        return t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x, mask=None):
        heads, _ = attention(self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x)), mask)
        return self.w_o(heads.transpose(1, 2).flatten(-2))
