"""Right loops that write with a cache, in the styles that people write. Every function here earns full marks."""

import torch

from headroom.reference import KeyValueCache
from tests.answers import answers


@answers("generate")
def appended(model, ids, n_tokens):
    cache = [KeyValueCache() for _ in model.blocks]
    new, written = ids, []
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1)[:, None]
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate")
@torch.no_grad()
def text_grows(model, ids, n_tokens):
    cache = [KeyValueCache() for _ in range(len(model.blocks))]
    text = ids
    for step in range(n_tokens):
        logits = model(text if step == 0 else text[:, -1:], cache)
        text = torch.cat([text, logits[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, ids.size(1) :]


@answers("generate")
def cut_by_what_is_kept(model, ids, n_tokens):
    """How much of the text the cache holds says what is new."""
    cache, text = [KeyValueCache() for _ in model.blocks], ids.clone()
    while text.shape[1] < ids.shape[1] + n_tokens:
        probabilities = model(text[:, len(cache[0]) :], cache)[:, -1, :].softmax(-1)
        text = torch.hstack([text, probabilities.max(dim=-1, keepdim=True).indices])
    return text[:, -n_tokens:]


@answers("generate")
def into_a_table(model, ids, n_tokens):
    model.eval()
    out = torch.zeros(len(ids), n_tokens, dtype=torch.long)
    cache = [KeyValueCache() for _ in model.blocks]
    out[:, 0] = model(ids, cache)[:, -1].argmax(-1)
    for t in range(1, n_tokens):
        out[:, t] = model(out[:, t - 1 : t], cache)[:, 0].argmax(-1)
    return out


@answers("generate")
def recursive(model, ids, n_tokens):
    caches = tuple(KeyValueCache() for _ in model.blocks)

    def go_on(new, left):
        chosen = torch.topk(model(new, caches)[:, -1], 1).indices
        return [chosen] if left == 1 else [chosen, *go_on(chosen, left - 1)]

    return torch.cat(go_on(ids, n_tokens), 1)


@answers("generate")
def python_lists(model, ids, n_tokens):
    cache = [KeyValueCache() for _ in model.blocks]
    rows, new = [[] for _ in ids], ids
    for _ in range(n_tokens):
        last = model(new, cache=cache)[:, -1].tolist()
        for row, logits in zip(rows, last, strict=True):
            row.append(max(range(len(logits)), key=logits.__getitem__))
        new = torch.tensor([row[-1:] for row in rows])
    return torch.tensor(rows)


@answers("generate")
def a_generator(model, ids, n_tokens):
    def tokens():
        cache, new = [KeyValueCache() for _ in model.blocks], ids
        while True:
            new = model(new, cache)[:, -1, None].argmax(-1)
            yield new.squeeze(1)

    return torch.stack([token for _, token in zip(range(n_tokens), tokens(), strict=False)], dim=1)


@answers("generate")
def prompt_first(model, ids, n_tokens):
    """The beginning in one call, then a loop over what is left to write."""
    cache = []
    for _ in model.blocks:
        cache.append(KeyValueCache())
    logits = model(ids, cache)
    written = logits[:, -1].log_softmax(-1).argmax(-1, keepdim=True)
    while written.size(1) < n_tokens:
        logits = model(written[:, -1].unsqueeze(1), cache)
        written = torch.cat((written, logits[:, -1].argmax(-1).unsqueeze(1)), dim=1)
    return written
