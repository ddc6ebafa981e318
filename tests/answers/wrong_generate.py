"""Wrong loops that write with a cache; `answers` names the mistakes, or none that is on a list."""

import torch

from headroom.reference import KeyValueCache
from tests.answers import answers


def caches(model):
    return [KeyValueCache() for _ in model.blocks]


@answers("generate", "overwritten")
def shifted_into_ids(model, ids, n_tokens):
    cache, new, written = caches(model), ids.clone(), []
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1)[:, None]
        ids[:, -1:] = new
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "no_cache")
def all_anew(model, ids, n_tokens):
    text = ids
    for _ in range(n_tokens):
        text = torch.cat([text, model(text)[:, -1].argmax(dim=-1)[:, None]], dim=1)
    return text[:, ids.size(1) :]


@answers("generate", "no_cache")
def empty_caches_at_every_step(model, ids, n_tokens):
    text = ids
    for _ in range(n_tokens):
        text = torch.cat([text, model(text, caches(model))[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, ids.size(1) :]


@answers("generate", "whole_text_again")
def whole_text_and_cache(model, ids, n_tokens):
    cache, text = caches(model), ids
    for _ in range(n_tokens):
        text = torch.cat([text, model(text, cache)[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, ids.size(1) :]


@answers("generate", "forgets")
def last_token_without_a_cache(model, ids, n_tokens):
    new, written = ids[:, -1:], []
    for _ in range(n_tokens):
        new = model(new)[:, -1:].argmax(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "forgets")
def cache_inside_the_loop(model, ids, n_tokens):
    new, written = ids, []
    for _ in range(n_tokens):
        cache = caches(model)
        new = model(new, cache)[:, -1:].argmax(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "last_of_the_beginning")
def always_one_token(model, ids, n_tokens):
    cache, text = caches(model), ids
    for _ in range(n_tokens):
        text = torch.cat([text, model(text[:, -1:], cache)[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, ids.size(1) :]


@answers("generate", "one_cache")
def multiplied_list(model, ids, n_tokens):
    cache = [KeyValueCache()] * len(model.blocks)
    new, written = ids, []
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1:].argmax(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "first_row_for_all")
def row_0(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        best = model(new, cache)[0, -1].argmax()
        new = best.expand(len(ids), 1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "over_tokens")
def argmax_over_places(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        new = model(new, cache).argmax(dim=1)[:, -1:]
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "first_position")
def place_0(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        new = model(new, cache)[:, 0].argmax(dim=-1, keepdim=True)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "beginning_returned")
def with_the_beginning(model, ids, n_tokens):
    cache, text = caches(model), ids
    for step in range(n_tokens):
        text = torch.cat([text, model(text[:, -1:] if step else text, cache)[:, -1:].argmax(dim=-1)], dim=1)
    return text


@answers("generate", "one_too_few")
def from_1(model, ids, n_tokens):
    cache, new, written = caches(model), ids, [ids[:, :0]]
    for _ in range(1, n_tokens):
        new = model(new, cache)[:, -1:].argmax(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "one_too_many")
def one_more(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    while len(written) <= n_tokens:
        new = model(new, cache)[:, -1:].argmax(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "first_not_kept")
def prompt_before_the_loop(model, ids, n_tokens):
    cache, written = caches(model), [ids[:, :0]]
    new = model(ids, cache)[:, -1:].argmax(dim=-1)
    for _ in range(n_tokens - 1):
        new = model(new, cache)[:, -1:].argmax(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "one_call_too_many")
def calls_after_the_last(model, ids, n_tokens):
    cache, written = caches(model), []
    logits = model(ids, cache)
    for _ in range(n_tokens):
        new = logits[:, -1:].argmax(dim=-1)
        written.append(new)
        logits = model(new, cache)
    return torch.cat(written, dim=1)


# --- two at once ---


@answers("generate", "no_cache", "beginning_returned")
def anew_with_the_beginning(model, ids, n_tokens):
    for _ in range(n_tokens):
        ids = torch.cat([ids, model(ids)[:, -1].argmax(dim=-1)[:, None]], dim=1)
    return ids


@answers("generate", "first_row_for_all", "beginning_returned")
def row_0_with_the_beginning(model, ids, n_tokens):
    cache, new, text = caches(model), ids, ids
    for _ in range(n_tokens):
        new = model(new, cache)[0, -1].argmax().expand(len(ids), 1)
        text = torch.cat([text, new], dim=1)
    return text


# --- on no list ---


@answers("generate")
def sampled(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        new = torch.multinomial(model(new, cache)[:, -1].softmax(-1), 1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate")
def least_likely(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1:].argmin(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate")
def token_by_token(model, ids, n_tokens):
    """The beginning goes in one token a call: as many calls as it has tokens."""
    cache = caches(model)
    for place in range(ids.size(1)):
        logits = model(ids[:, place : place + 1], cache)
    written = [logits[:, -1:].argmax(dim=-1)]
    while len(written) < n_tokens:
        written.append(model(written[-1], cache)[:, -1:].argmax(dim=-1))
    return torch.cat(written, dim=1)


@answers("generate")
def last_two(model, ids, n_tokens):
    cache, text = caches(model), ids
    for step in range(n_tokens):
        text = torch.cat([text, model(text[:, -2:] if step else text, cache)[:, -1:].argmax(dim=-1)], dim=1)
    return text[:, ids.size(1) :]


@answers("generate")
def one_row_at_a_time(model, ids, n_tokens):
    rows = []
    for row in ids:
        cache, new = caches(model), row[None]
        for _ in range(n_tokens):
            new = model(new, cache)[:, -1:].argmax(dim=-1)
            rows.append(new)
    return torch.cat(rows, dim=1).view(len(ids), n_tokens)


@answers("generate")
def tokens_first(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1:].argmax(dim=-1)
        written.append(new[:, 0])
    return torch.stack(written)


@answers("generate")
def logits_returned(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        logits = model(new, cache)[:, -1:]
        new = logits.argmax(dim=-1)
        written.append(logits)
    return torch.cat(written, dim=1)


@answers("generate")
def nothing(model, ids, n_tokens):
    cache, new = caches(model), ids
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1:].argmax(dim=-1)


@answers("generate")
def cache_kept_on_the_model(model, ids, n_tokens):
    if not hasattr(model, "kept"):
        model.kept = caches(model)
    new, written = ids, []
    for _ in range(n_tokens):
        new = model(new, model.kept)[:, -1:].argmax(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate")
def asks_twice(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        n_vocabulary = model(new, caches(model)).size(-1)
        new = model(new, cache)[:, -1:].argmax(dim=-1).clamp(max=n_vocabulary - 1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate")
def best_of_those_above_a_floor(model, ids, n_tokens):
    cache, new, written = caches(model), ids, []
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1:].clamp(min=-1e4).argmax(dim=-1)
        written.append(new)
    return torch.cat(written, dim=1)


@answers("generate", "one_call_too_many")
def goes_on_after_a_refusal(model, ids, n_tokens):
    """One call more than there are tokens to write; what it raises is swallowed."""
    cache, new, written = caches(model), ids, []
    logits = model(ids, cache)
    for _ in range(n_tokens):
        new = logits[:, -1:].argmax(dim=-1)
        written.append(new)
        try:
            logits = model(new, cache)
        except Exception:
            break
    return torch.cat(written, dim=1)
