# Chloe: right: einsum, a softmax by hand, -1e9 as the fill.
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
        q, k, v = (w(x).reshape(b, t, self.n_heads, -1) for w in (self.w_q, self.w_k, self.w_v))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) * (d // self.n_heads) ** -0.5
        if mask is not None:
            scores = torch.where(mask, scores, torch.full_like(scores, -1e9))
        e = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
        weights = e / e.sum(dim=-1, keepdim=True)
        return self.w_o(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(b, t, d))
