# Chloe: half: her block normalises after the sum, her cache keeps tokens; she has not come to the loop.
# %% padding-mask
def padding_mask(lengths, n_tokens):
    return (torch.arange(n_tokens) < lengths[:, None])[:, None, None, :]


# %% causal-mask
def causal_mask(n_tokens):
    return torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril()


# %% cross-attention
class CrossAttention(MultiHeadSelfAttention):
    def forward(self, x, memory, mask=None):
        q = split_heads(self.w_q(x), self.n_heads)
        k = split_heads(self.w_k(memory), self.n_heads)
        v = split_heads(self.w_v(memory), self.n_heads)
        return self.w_o(merge_heads(attention(q, k, v, mask)[0]))


# %% decoder-block
class DecoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norm_1, self.norm_2, self.norm_3 = LayerNorm(d_model), LayerNorm(d_model), LayerNorm(d_model)
        self.self_attention = MultiHeadSelfAttention(d_model, n_heads)
        self.cross_attention = CrossAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)

    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.norm_1(x + self.self_attention(x, mask))
        x = self.norm_2(x + self.cross_attention(x, memory, memory_mask))
        return self.norm_3(x + self.feed_forward(x))


# %% cached-self-attention
class CachedSelfAttention(MultiHeadSelfAttention):
    def forward(self, x, cache=None):
        every = x if cache is None else torch.cat([cache, x], dim=1)
        out = super().forward(every, causal_mask(every.size(1)))
        return out[:, -x.size(1) :], every
