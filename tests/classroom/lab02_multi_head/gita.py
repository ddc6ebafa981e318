# Gita: wrong: the view goes straight to (batch, heads, tokens, d_head).
class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        b, t, d = x.shape
        q, k, v = (w(x).view(b, self.n_heads, t, d // self.n_heads) for w in (self.w_q, self.w_k, self.w_v))
        heads, _ = attention(q, k, v, mask)
        return self.w_o(heads.transpose(1, 2).reshape(b, t, d))
