# Ada: right: by hand, by ranks, in one map, group by group, and with a growing text.
# %% shifted-cross-entropy
def shifted_cross_entropy(logits, ids):
    logits, ids = logits[:, :-1], ids[:, 1:, None]
    return (logits.logsumexp(dim=-1, keepdim=True) - logits.gather(-1, ids)).mean()


# %% next-probabilities
def next_probabilities(logits, temperature=1.0, top_k=None, top_p=1.0):
    order = logits.argsort(dim=1, descending=True)
    rank = order.argsort(dim=1)
    p = (logits / temperature).softmax(dim=1)
    if top_k is not None:
        p = p * (rank < top_k)
        p = p / p.sum(dim=1, keepdim=True)
    if top_p < 1:
        p = p * (rank <= (p.gather(1, order).cumsum(dim=1) < top_p).sum(dim=1, keepdim=True))
    return p / p.sum(dim=1, keepdim=True)


# %% swiglu
class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wide = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        gate, content = self.wide(x).chunk(2, dim=-1)
        return self.down(gate * gate.sigmoid() * content)


# %% grouped
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.d_head, self.n_groups = d_model // n_heads, n_groups
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, n_groups * self.d_head)
        self.w_v = nn.Linear(d_model, n_groups * self.d_head)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None, cache=None):
        q, k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            k, v = cache.append(k, v)
        of_head = torch.arange(q.size(1)) * self.n_groups // q.size(1)
        heads, _ = attention(q, k[:, of_head], v[:, of_head], mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))


# %% generate
@torch.no_grad()
def generate(model, ids, n_tokens):
    cache, text = [KeyValueCache() for _ in model.blocks], ids
    for _ in range(n_tokens):
        new = text[:, len(cache[0]) :]
        text = torch.cat([text, model(new, cache)[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, ids.size(1) :]
