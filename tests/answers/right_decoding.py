"""Right greedy decoding in the styles that people write. Every function here earns full marks."""

import torch

from tests.answers import answers


@answers("greedy_decode")
def joined(next_logits, start, end, max_tokens, batch):
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        logits = next_logits(tokens)[:, -1]
        token = logits.argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


@answers("greedy_decode")
def for_with_break(next_logits, start, end, max_tokens, batch):
    tokens = torch.ones(batch, 1, dtype=torch.long) * start
    done = torch.zeros(batch, dtype=torch.bool)
    for _ in range(max_tokens):
        best = torch.argmax(next_logits(tokens)[:, -1, :], dim=1)
        best = torch.where(done, torch.tensor(end), best)
        tokens = torch.cat((tokens, best.unsqueeze(1)), 1)
        done = done | best.eq(end)
        if done.all():
            break
    return tokens[:, 1:]


@answers("greedy_decode")
def written_apart(next_logits, start, end, max_tokens, batch):
    """What was written is kept in a list, without the start token."""
    written = []
    first = torch.full((batch,), start)
    running = torch.ones(batch, dtype=torch.bool)
    while running.any() and len(written) < max_tokens:
        logits = next_logits(torch.stack([first, *written], dim=1))
        token = logits[:, -1].max(dim=-1).indices
        token[~running] = end
        running &= token != end
        written.append(token)
    return torch.stack(written, dim=1)


@answers("greedy_decode")
def end_seen_before(next_logits, start, end, max_tokens, batch):
    """Whether a row has ended is read off what it has written."""
    tokens = torch.empty(batch, 0, dtype=torch.int64)
    begin = torch.full((batch, 1), start, dtype=torch.int64)
    for _ in range(max_tokens):
        token = next_logits(torch.cat([begin, tokens], 1)).argmax(-1)[:, -1:]
        ended = (tokens == end).any(dim=1, keepdim=True)
        if bool(ended.all()):
            break
        tokens = torch.cat([tokens, token.masked_fill(ended, end)], 1)
    return tokens


@answers("greedy_decode")
def into_a_table(next_logits, start, end, max_tokens, batch):
    """The whole result is laid out full of end tokens and cut at the end."""
    table = torch.full((batch, max_tokens + 1), end)
    table[:, 0] = start
    alive = set(range(batch))
    length = 0
    while alive and length < max_tokens:
        choice = next_logits(table[:, : length + 1])[:, length].topk(1).indices[:, 0]
        length += 1
        for row in list(alive):
            table[row, length] = choice[row]
            if choice[row] == end:
                alive.remove(row)
    return table[:, 1 : length + 1]


@answers("greedy_decode")
def python_lists(next_logits, start, end, max_tokens, batch):
    rows = [[start] for _ in range(batch)]
    for _ in range(max_tokens):
        if all(row[-1] == end for row in rows):
            break
        logits = next_logits(torch.tensor(rows)).tolist()
        for row, answers_ in zip(rows, logits, strict=True):
            last = answers_[-1]
            row.append(end if row[-1] == end else last.index(max(last)))
    return torch.tensor([row[1:] for row in rows])


@answers("greedy_decode")
def recursive(next_logits, start, end, max_tokens, batch):
    def go_on(tokens, ended):
        if tokens.shape[1] == max_tokens + 1 or ended.all():
            return tokens
        probabilities = next_logits(tokens)[:, -1].softmax(dim=-1)
        token = probabilities.argmax(dim=-1, keepdim=True)
        token = token * ~ended + end * ended
        return go_on(torch.cat([tokens, token], dim=-1), ended | (token == end))

    return go_on(torch.tensor([[start]] * batch), torch.tensor([[False]] * batch))[:, 1:]


@answers("greedy_decode")
def mended_afterwards(next_logits, start, end, max_tokens, batch):
    """Rows go on while others are not done; what comes after an end is overwritten at the end."""
    with torch.no_grad():
        tokens = torch.full((batch, 1), start)
        while tokens.size(1) - 1 < max_tokens and not (tokens[:, 1:] == end).any(dim=1).all():
            tokens = torch.cat([tokens, next_logits(tokens)[:, -1:].argmax(dim=-1)], dim=1)
    tokens = tokens[:, 1:]
    after = (tokens == end).cumsum(dim=1) > 0
    return tokens.masked_fill(after, end)


@answers("greedy_decode")
def no_rest_for_the_ended(next_logits, start, end, max_tokens, batch):
    """An ended row's logits are changed so that only the end token can win."""
    tokens, lengths = torch.full((batch, 1), start), torch.zeros(batch)
    while True:
        logits = next_logits(tokens)[:, -1].log_softmax(-1).clone()
        over = tokens[:, -1] == end
        logits[over] = float("-inf")
        logits[over, end] = 0.0
        tokens = torch.hstack([tokens, logits.argmax(-1)[:, None]])
        lengths += 1
        print(tokens.shape)
        if (tokens[:, -1] == end).all() or tokens.size(1) > max_tokens:
            return tokens[:, 1:]


@answers("greedy_decode")
def into_a_buffer_full_of_ends(next_logits, start, end, max_tokens, batch):
    """The model gets all places at every step: what stands at a place depends on nothing after it."""
    tokens = torch.full((batch, 1 + max_tokens), end)
    tokens[:, 0] = start
    ended = torch.zeros(batch, dtype=torch.bool)
    for place in range(1, 1 + max_tokens):
        token = next_logits(tokens)[:, place - 1].argmax(dim=-1)
        tokens[:, place] = torch.where(ended, end, token)
        ended |= tokens[:, place] == end
        if ended.all():
            return tokens[:, 1 : 1 + place]
    return tokens[:, 1:]


@answers("greedy_decode")
def asks_once_more_than_it_writes(next_logits, start, end, max_tokens, batch):
    """The logits of a token that is never written are computed as well, and not used."""
    tokens = torch.full((batch, 1), start)
    ended = torch.zeros(batch, dtype=torch.bool)
    logits = next_logits(tokens)
    while tokens.size(1) <= max_tokens and not ended.all():
        token = logits[:, -1].argmax(dim=-1).masked_fill(ended, end)
        ended |= token == end
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        logits = next_logits(tokens)
    return tokens[:, 1:]
