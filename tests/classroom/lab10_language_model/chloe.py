# Chloe: the loss is right, the temperature is the wrong way round, and nothing else is written.
# %% shifted-cross-entropy
def shifted_cross_entropy(logits, ids):
    return nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


# %% next-probabilities
def next_probabilities(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits * temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < last, float("-inf"))
    p = logits.softmax(dim=-1)
    if top_p < 1:
        falling, order = p.sort(descending=True)
        before = falling.cumsum(dim=-1) - falling
        p = torch.zeros_like(p).scatter(-1, order, falling.masked_fill(before >= top_p, 0.0))
        p = p / p.sum(dim=-1, keepdim=True)
    return p
