# Ben: wrong: no shift; the token that reaches top_p is dropped; GELU; groups in turns; everything read anew.
# %% shifted-cross-entropy
def shifted_cross_entropy(logits, ids):
    return nn.functional.cross_entropy(logits.transpose(1, 2), ids)


# %% next-probabilities
def next_probabilities(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < last, float("-inf"))
    p = logits.softmax(dim=-1)
    if top_p < 1:
        falling, order = p.sort(descending=True)
        kept = falling.masked_fill(falling.cumsum(dim=-1) > top_p, 0.0)
        p = torch.zeros_like(p).scatter(-1, order, kept)
        p = p / p.sum(dim=-1, keepdim=True)
    return p


# %% swiglu
class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.up = nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.gate(x)) * self.up(x))


# %% grouped
class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_groups):
        super().__init__()
        self.d_head, self.n_shared = d_model // n_heads, n_heads // n_groups
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, n_groups * self.d_head, bias=False)
        self.w_v = nn.Linear(d_model, n_groups * self.d_head, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, mask=None, cache=None):
        q, k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            k, v = cache.append(k, v)
        k, v = k.repeat(1, self.n_shared, 1, 1), v.repeat(1, self.n_shared, 1, 1)
        heads, _ = attention(q, k, v, mask)
        return self.w_o(heads.transpose(1, 2).flatten(2))


# %% generate
@torch.no_grad()
def generate(model, ids, n_tokens):
    text = ids
    for _ in range(n_tokens):
        text = torch.cat([text, model(text)[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, ids.size(1) :]
