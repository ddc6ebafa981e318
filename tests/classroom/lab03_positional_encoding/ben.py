# Ben: wrong: all sines first, then all cosines.
# %% sinusoidal
def sinusoidal_encoding(n_tokens, d_model):
    angle = torch.arange(n_tokens)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :d_model]


# %% positional-encoding
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("table", sinusoidal_encoding(max_tokens, d_model))

    def forward(self, x):
        return x + self.table[: x.size(1)]
