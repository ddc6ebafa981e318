# Ben: right: one layer per head and a loop.
class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.queries = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.keys = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.values = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        heads = []
        for query, key, value in zip(self.queries, self.keys, self.values):
            head_mask = None if mask is None else mask[:, 0]
            heads.append(attention(query(x), key(x), value(x), head_mask)[0])
        return self.out(torch.cat(heads, dim=-1))
