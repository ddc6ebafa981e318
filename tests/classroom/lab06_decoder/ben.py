# Ben: wrong: padding is True, cross-attention is one more self-attention, and so is that of his block.
# %% padding-mask
def padding_mask(lengths, n_tokens):
    return (torch.arange(n_tokens) >= lengths[:, None])[:, None, None, :]


# %% causal-mask
def causal_mask(n_tokens):
    return torch.ones(n_tokens, n_tokens).tril().bool()


# %% cross-attention
class CrossAttention(MultiHeadSelfAttention):
    def forward(self, x, memory, mask=None):
        return super().forward(x, mask)


# %% decoder-block
class DecoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3 = LayerNorm(d_model), LayerNorm(d_model), LayerNorm(d_model)
        self.self_attention = MultiHeadSelfAttention(d_model, n_heads)
        self.cross_attention = CrossAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_3(x))


# %% greedy-decode
def greedy_decode(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    for _ in range(max_tokens):
        token = next_logits(tokens)[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        if (token == end).any():
            break
    return tokens[:, 1:]
