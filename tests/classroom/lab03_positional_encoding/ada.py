# Ada: right: the frequencies as an exponential.
# %% sinusoidal
def sinusoidal_encoding(n_tokens, d_model):
    position = torch.arange(n_tokens)[:, None]
    angle = position * torch.exp(-math.log(10000.0) * torch.arange(0, d_model, 2) / d_model)
    table = torch.zeros(n_tokens, d_model)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()[:, : d_model // 2]
    return table


# %% positional-encoding
class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.register_buffer("table", sinusoidal_encoding(max_tokens, d_model))

    def forward(self, x):
        return x + self.table[: x.size(1)]
