# Ada: right, in her own style and with her own names.
# %% padding-mask
def padding_mask(lengths, n_tokens):
    mask = torch.zeros(len(lengths), 1, 1, n_tokens, dtype=torch.bool)
    for row, length in enumerate(lengths.tolist()):
        mask[row, ..., :length] = True
    return mask


# %% causal-mask
def causal_mask(n_tokens):
    place = torch.arange(n_tokens)
    return place[:, None] >= place


# %% cross-attention
class CrossAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_kv = nn.Linear(d_model, 2 * d_model)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x, memory, mask=None):
        q = split_heads(self.to_q(x), self.n_heads)
        k, v = (split_heads(t, self.n_heads) for t in self.to_kv(memory).chunk(2, dim=-1))
        return self.to_out(merge_heads(attention(q, k, v, mask)[0]))


# %% decoder-block
class DecoderBlock(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.norms = nn.ModuleList(LayerNorm(d_model) for _ in range(3))
        self.own = MultiHeadSelfAttention(d_model, n_heads)
        self.source = CrossAttention(d_model, n_heads)
        self.mlp = FeedForward(d_model, d_ff)

    def forward(self, x, memory, mask=None, memory_mask=None):
        first, second, third = self.norms
        x = x + self.own(first(x), mask)
        x = x + self.source(second(x), memory, memory_mask)
        return x + self.mlp(third(x))


# %% greedy-decode
def greedy_decode(next_logits, start, end, max_tokens, batch):
    rows = [[start] for _ in range(batch)]
    for _ in range(max_tokens):
        best = next_logits(torch.tensor(rows))[:, -1].argmax(dim=-1).tolist()
        for row, token in zip(rows, best, strict=True):
            row.append(end if row[-1] == end else token)
        if all(row[-1] == end for row in rows):
            break
    return torch.tensor(rows)[:, 1:]


# %% cached-self-attention
class CachedSelfAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x, cache=None):
        q, *new = (split_heads(t, self.n_heads) for t in self.qkv(x).chunk(3, dim=-1))
        cache = new if cache is None else [torch.cat(pair, dim=2) for pair in zip(cache, new, strict=True)]
        mask = causal_mask(cache[0].size(2))[-x.size(1) :]
        return self.out(merge_heads(attention(q, *cache, mask)[0])), cache
