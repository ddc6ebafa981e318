# Jonas: wrong: the heads lie in a Python list, where no optimizer finds them.
class MultiHeadSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        d_head = d_model // n_heads
        self.heads = [[nn.Linear(d_model, d_head) for _ in range(3)] for _ in range(n_heads)]
        self.all_layers = [layer for head in self.heads for layer in head]
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        mask = None if mask is None else mask[:, 0]
        heads = [attention(*(layer.to(x.dtype)(x) for layer in head), mask)[0] for head in self.heads]
        return self.w_o(torch.cat(heads, dim=-1))
