"""Wrong greedy decoding, written as students write it; `answers` names the mistakes, or none that is on a list."""

import torch

from tests.answers import answers


@answers("greedy_decode", "first_row_for_all")
def as_for_one_text(next_logits, start, end, max_tokens, batch):
    """The loop of the lecture, which writes one text, with a batch around it."""
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = torch.full((batch,), next_logits(tokens)[0, -1].argmax().item())
        token[ended] = end
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "over_tokens")
def argmax_over_the_places(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens).argmax(dim=1)[:, -1]
        token = torch.where(ended, end, token)
        ended = ended | (token == end)
        tokens = torch.cat([tokens, token.unsqueeze(1)], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "first_position")
def reads_place_0(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, 0].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "last_token_only")
def feeds_one_token(next_logits, start, end, max_tokens, batch):
    token = torch.full((batch,), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    written = []
    while len(written) < max_tokens and not ended.all():
        token = next_logits(token[:, None])[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        written.append(token)
    return torch.stack(written, dim=1)


@answers("greedy_decode", "no_start")
def begins_with_zeros(next_logits, start, end, max_tokens, batch):
    tokens = torch.zeros(batch, 1, dtype=torch.long)
    ended = torch.zeros(batch, dtype=torch.bool)
    for _ in range(max_tokens):
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        if ended.all():
            break
    return tokens[:, 1:]


@answers("greedy_decode", "no_start")
def begins_with_the_end(next_logits, start, end, max_tokens, batch):
    tokens, ended = torch.full((batch, 1), end), torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "start_returned")
def with_the_start(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens


@answers("greedy_decode", "goes_on")
def the_ended_write_on(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    for _ in range(max_tokens):
        token = next_logits(tokens)[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        ended |= token == end
        if ended.all():
            break
    return tokens[:, 1:]


@answers("greedy_decode", "filled_with_0")
def padded_with_zeros(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1) * ~ended
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "filled_with_0")
def starts_again(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = torch.where(ended, start, next_logits(tokens)[:, -1].argmax(dim=-1))
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "stops_with_the_first")
def any_in_place_of_all(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    for _ in range(max_tokens):
        token = next_logits(tokens)[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        if (token == end).any():
            break
    return tokens[:, 1:]


@answers("greedy_decode", "never_stops")
def always_to_the_end(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    for _ in range(max_tokens):
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "end_not_written")
def breaks_too_early(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    for _ in range(max_tokens):
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        if ended.all():
            break
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "one_too_few")
def start_counts(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) < max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "one_too_many")
def one_more(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    for _ in range(max_tokens + 1):
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        if ended.all():
            break
    return tokens[:, 1:]


@answers("greedy_decode", "no_limit")
def until_all_are_done(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


# --- two at once ---


@answers("greedy_decode", "goes_on", "never_stops")
def ends_mean_nothing(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    for _ in range(max_tokens):
        tokens = torch.cat([tokens, next_logits(tokens)[:, -1:].argmax(dim=-1)], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "start_returned", "one_too_few")
def start_kept_and_counted(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) < max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens


@answers("greedy_decode", "goes_on", "start_returned")
def writes_on_with_the_start(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    while tokens.size(1) <= max_tokens and not (tokens == end).any(dim=1).all():
        tokens = torch.cat([tokens, next_logits(tokens)[:, -1].argmax(dim=-1)[:, None]], dim=1)
    return tokens


@answers("greedy_decode", "stops_with_the_first", "start_returned")
def any_with_the_start(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    for _ in range(max_tokens):
        tokens = torch.cat([tokens, next_logits(tokens)[:, -1].argmax(dim=-1)[:, None]], dim=1)
        if end in tokens:
            break
    return tokens


# --- on no list ---


@answers("greedy_decode")
def logits_returned(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    for _ in range(max_tokens):
        logits = next_logits(tokens)
        tokens = torch.cat([tokens, logits[:, -1].argmax(dim=-1)[:, None]], dim=1)
    return logits


@answers("greedy_decode")
def sampled(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = torch.multinomial(next_logits(tokens)[:, -1].softmax(-1), 1)[:, 0].masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode")
def least_likely(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].sort(dim=-1).indices[:, 0].masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode")
def newest_first(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([token[:, None], tokens], dim=1)
    return tokens[:, :-1]


@answers("greedy_decode")
def last_two_tokens(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens[:, -2:])[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode")
def tokens_first(next_logits, start, end, max_tokens, batch):
    """Returned as (tokens, batch)."""
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:].T


@answers("greedy_decode")
def all_at_once(next_logits, start, end, max_tokens, batch):
    """As many questions as places, all asked after start tokens."""
    tokens = next_logits(torch.full((batch, max_tokens), start)).argmax(dim=-1)
    return tokens.masked_fill((tokens == end).cumsum(1) > 0, end)


@answers("greedy_decode")
def lists_that_end(next_logits, start, end, max_tokens, batch):
    """A list for each row, each cut after its end token."""
    tokens = torch.full((batch, 1), start)
    for _ in range(max_tokens):
        tokens = torch.cat([tokens, next_logits(tokens)[:, -1:].argmax(dim=-1)], dim=1)
    rows = tokens[:, 1:].tolist()
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


@answers("greedy_decode")
def end_forbidden(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    for _ in range(max_tokens):
        logits = next_logits(tokens)[:, -1].clone()
        logits[:, end] = float("-inf")
        tokens = torch.cat([tokens, logits.argmax(dim=-1)[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode")
def as_floats(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:].double()


@answers("greedy_decode")
def second_best(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].topk(2).indices[:, 1].masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode")
def nobody_asks_the_model(next_logits, start, end, max_tokens, batch):
    return torch.full((batch, max_tokens), end)


@answers("greedy_decode")
def argmax_over_the_batch(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].argmax(dim=0).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode")
def best_of_those_above_a_floor(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = next_logits(tokens)[:, -1].clamp(min=-1e4).argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode", "never_stops")
def writes_on_and_cuts_the_ends_off(next_logits, start, end, max_tokens, batch):
    """What it returns is right; the loop does not stop when all rows are done."""
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    for _ in range(max_tokens):
        token = next_logits(tokens)[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    written = tokens[:, 1:]
    n_kept = 1 + int((written == end).cumsum(dim=1).eq(0).sum(dim=1).max())
    return written[:, :n_kept]
