"""Wrong answers to lab 8, written as students write them; `answers` names their mistakes, or none that is on a list.

`…_as_given` is the broken program of the lab, with both of its slips.
"""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers
from tests.answers.right_case_files import add_positions

# --- sequence_loss: the program as given, half mended, and mended wrongly ----------------------------------------


@answers("sequence_loss", "not_shifted", "divided_by_all")
def loss_as_given(logits, tokens, pad):
    surprise = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
    real = (tokens != pad).flatten()
    return (surprise * real).mean()


@answers("sequence_loss", "not_shifted")
def loss_of_real_tokens(logits, tokens, pad):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), ignore_index=pad)


@answers("sequence_loss", "divided_by_all")
def loss_shifted(logits, tokens, pad):
    logits, tokens = logits[:, :-1], tokens[:, 1:]
    surprise = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
    real = (tokens != pad).flatten()
    return (surprise * real).mean()


@answers("sequence_loss", "padding_counted")
def padding_as_text(logits, tokens, pad):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


@answers("sequence_loss", "shifted_back")
def tokens_first(logits, tokens, pad):
    return F.cross_entropy(logits[:, 1:].mT, tokens[:, :-1], ignore_index=pad)


@answers("sequence_loss", "rolled")
def rolled(logits, tokens, pad):
    return F.cross_entropy(logits.flatten(0, 1), torch.roll(tokens, -1, 1).flatten(), ignore_index=pad)


@answers("sequence_loss", "mask_of_read")
def mask_left_behind(logits, tokens, pad):
    real = (tokens != pad)[:, :-1].flatten()
    surprise = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return (surprise * real).sum() / real.sum()


@answers("sequence_loss", "per_sequence")
def mean_of_means(logits, tokens, pad):
    targets = tokens[:, 1:]
    surprise = F.cross_entropy(logits[:, :-1].mT, targets, ignore_index=pad, reduction="none")
    return (surprise.sum(1) / (targets != pad).sum(1)).mean()


@answers("sequence_loss", "summed")
def summed(logits, tokens, pad):
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], ignore_index=pad, reduction="sum")


@answers("sequence_loss", "by_batch")
def by_batch(logits, tokens, pad):
    return summed(logits, tokens, pad) / tokens.size(0)


@answers("sequence_loss", "softmax_twice")
def probabilities(logits, tokens, pad):
    p = logits[:, :-1].softmax(-1)
    return F.cross_entropy(p.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=pad)


@answers("sequence_loss", "detached")
def a_number(logits, tokens, pad):
    loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=pad)
    return torch.tensor(loss.item())


@answers("sequence_loss", "overwritten")
def writes_minus_100(logits, tokens, pad):
    tokens[tokens == pad] = -100
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:])


@answers("sequence_loss", "not_shifted", "padding_counted")
def neither_shift_nor_mask(logits, tokens, pad):
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


@answers("sequence_loss", "mask_of_read", "divided_by_all")
def old_mask_and_mean(logits, tokens, pad):
    real = (tokens != pad)[:, :-1].flatten()
    surprise = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    return (surprise * real).mean()


@answers("sequence_loss", "rolled", "divided_by_all")
def rolled_and_mean(logits, tokens, pad):
    tokens = tokens.roll(-1, 1)
    surprise = F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none")
    return (surprise * (tokens != pad).flatten()).mean()


@answers("sequence_loss")
def shifted_by_two(logits, tokens, pad):
    return F.cross_entropy(logits[:, :-2].flatten(0, 1), tokens[:, 2:].flatten(), ignore_index=pad)


@answers("sequence_loss")
def smoothed(logits, tokens, pad):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=pad, label_smoothing=0.1)


@answers("sequence_loss")
def in_bits(logits, tokens, pad):
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], ignore_index=pad) / math.log(2)


@answers("sequence_loss")
def perplexity(logits, tokens, pad):
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], ignore_index=pad).exp()


@answers("sequence_loss")
def last_token_alone(logits, tokens, pad):
    return F.cross_entropy(logits[:, -2], tokens[:, -1])


@answers("sequence_loss")
def ignores_0(logits, tokens, pad):
    """The padding's id as a constant."""
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], ignore_index=0)


@answers("sequence_loss")
def overflows(logits, tokens, pad):
    p = logits[:, :-1].exp() / logits[:, :-1].exp().sum(-1, keepdim=True)
    right = p.gather(2, tokens[:, 1:, None])[..., 0]
    real = tokens[:, 1:] != pad
    return -(right.log() * real).sum() / real.sum()


@answers("sequence_loss")
def wrong_sign(logits, tokens, pad):
    return -F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], ignore_index=pad)


@answers("sequence_loss")
def squared(logits, tokens, pad):
    real = tokens[:, 1:] != pad
    off = logits[:, :-1].softmax(-1) - F.one_hot(tokens[:, 1:], logits.size(-1))
    return off.square().sum(-1)[real].mean()


@answers("sequence_loss")
def one_by_one(logits, tokens, pad):
    """A loss per token, not their mean."""
    return F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], ignore_index=pad, reduction="none")


@answers("sequence_loss")
def first_sequence_alone(logits, tokens, pad):
    return F.cross_entropy(logits[0, :-1], tokens[0, 1:], ignore_index=pad)


@answers("sequence_loss")
def squeezes_a_single_question(logits, tokens, pad):
    surprise = -logits[:, :-1].log_softmax(-1).gather(2, tokens[:, 1:, None]).squeeze()
    real = tokens[:, 1:] != pad
    return (surprise * real).sum() / real.sum()


@answers("sequence_loss")
def ignores_0_too(logits, tokens, pad):
    targets = tokens[:, 1:]
    keep = (targets != pad) & (targets != 0)
    return F.cross_entropy(logits[:, :-1][keep], targets[keep])


# --- train_one_pass ----------------------------------------------------------------------------------------------


@answers("train_one_pass", "piled_up", "divided_again")
def training_as_given(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        (loss / len(rows)).backward()
        optimizer.step()
    return weights.detach(), torch.stack(losses)


def pass_of(weights, images, labels, learning_rate, batch_size, step, loss_of=F.cross_entropy):
    """The frame: `step(optimizer, loss, rows)` is wrong in each function."""
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = loss_of(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        step(optimizer, loss, rows)
    return weights.detach(), torch.stack(losses)


@answers("train_one_pass", "piled_up")
def piled_up(*inputs):
    def step(optimizer, loss, rows):
        loss.backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "divided_again")
def divided_again(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (loss / len(rows)).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "divided_again")
def by_batch_size(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (loss / inputs[4]).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "divided_again")
def divided_and_recorded(*inputs):
    def loss_of(logits, labels):
        return F.cross_entropy(logits, labels) / len(labels)

    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return pass_of(*inputs, step, loss_of)


@answers("train_one_pass", "not_stepped")
def emptied_too_late(*inputs):
    def step(optimizer, loss, rows):
        loss.backward()
        optimizer.zero_grad()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "one_step")
def step_after_the_loop(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone().requires_grad_()
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        loss.backward()
    optimizer.step()
    return weights.detach(), torch.stack(losses)


@answers("train_one_pass", "first_only")
def returns_in_the_loop(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone().requires_grad_()
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        loss.backward()
        weights.data -= learning_rate * weights.grad
        return weights.detach(), torch.stack(losses)


@answers("train_one_pass", "drop_last")
def whole_batches(weights, images, labels, learning_rate, batch_size):
    weights = weights.clone()
    losses = [torch.zeros(())][:0]
    for i in range(len(images) // batch_size):
        x, y = images[i * batch_size : (i + 1) * batch_size], labels[i * batch_size : (i + 1) * batch_size]
        p = (x @ weights).softmax(-1)
        losses.append(F.cross_entropy(x @ weights, y))
        weights = weights - learning_rate * x.T @ (p - F.one_hot(y, p.size(-1))) / len(x)
    return weights, torch.stack(losses) if losses else torch.zeros(0)


@answers("train_one_pass", "summed")
def summed_gradient(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (loss * len(rows)).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "summed")
def summed_loss(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return pass_of(*inputs, step, lambda logits, labels: F.cross_entropy(logits, labels, reduction="sum"))


@answers("train_one_pass", "by_batches")
def divided_by_the_number_of_batches(*inputs):
    batches = math.ceil(len(inputs[1]) / inputs[4])

    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (loss / batches).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "uphill")
def uphill(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (-loss).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "softmax_twice")
def probabilities_into_the_loss(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return pass_of(*inputs, step, lambda logits, labels: F.cross_entropy(logits.softmax(-1), labels))


@answers("train_one_pass", "recorded_after")
def loss_of_afterwards(weights, images, labels, learning_rate, batch_size):
    w = weights.clone().requires_grad_()
    losses = []
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        w.grad = None
        F.cross_entropy(x @ w, y).backward()
        with torch.no_grad():
            w -= learning_rate * w.grad
            losses.append(F.cross_entropy(x @ w, y))
    return w.detach(), torch.stack(losses)


@answers("train_one_pass", "overwritten")
def trains_the_callers_weights(weights, images, labels, learning_rate, batch_size):
    losses = []
    for x, y in zip(images.split(batch_size), labels.split(batch_size), strict=True):
        p = (x @ weights).softmax(-1)
        losses.append(F.cross_entropy(x @ weights, y))
        weights -= learning_rate * x.T @ (p - F.one_hot(y, p.size(-1))) / len(x)
    return weights, torch.stack(losses)


@answers("train_one_pass", "piled_up", "summed")
def piled_up_and_summed(*inputs):
    def step(optimizer, loss, rows):
        (loss * len(rows)).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "divided_again", "uphill")
def divided_and_uphill(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        (-loss / len(rows)).backward()
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass", "piled_up", "by_batches")
def averaged_over_a_pass(*inputs):
    batches = math.ceil(len(inputs[1]) / inputs[4])

    def step(optimizer, loss, rows):
        (loss / batches).backward()
        optimizer.step()

    return pass_of(*inputs, step)


def with_optimizer(make, weights, images, labels, learning_rate, batch_size, order=lambda n: torch.arange(n)):
    weights = weights.clone().requires_grad_()
    optimizer = make([weights], learning_rate)
    losses = []
    for rows in order(len(images)).split(batch_size):
        loss = F.cross_entropy(images[rows] @ weights, labels[rows])
        losses.append(loss.detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights.detach(), torch.stack(losses)


@answers("train_one_pass")
def adam(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.Adam(w, lr), *inputs)


@answers("train_one_pass")
def momentum(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr, momentum=0.9), *inputs)


@answers("train_one_pass")
def decayed(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr, weight_decay=0.01), *inputs)


@answers("train_one_pass")
def shuffled(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), *inputs, order=torch.randperm)


@answers("train_one_pass")
def backwards(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), *inputs, order=lambda n: torch.arange(n).flip(0))


@answers("train_one_pass")
def own_learning_rate(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, 0.1), *inputs)


@answers("train_one_pass")
def clipped(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 0.05)
        optimizer.step()

    return pass_of(*inputs, step)


@answers("train_one_pass")
def two_passes(weights, *rest):
    once, _ = with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), weights, *rest)
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), once, *rest)


@answers("train_one_pass")
def from_zero(weights, *rest):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), torch.zeros_like(weights), *rest)


@answers("train_one_pass")
def rate_falls(*inputs):
    def step(optimizer, loss, rows):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.9

    return pass_of(*inputs, step)


@answers("train_one_pass")
def weights_alone(*inputs):
    return with_optimizer(lambda w, lr: torch.optim.SGD(w, lr), *inputs)[0]


# --- masked_attention --------------------------------------------------------------------------------------------


@answers("masked_attention", "future_seen", "on_queries")
def attention_as_given(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    real = torch.arange(tokens) < lengths[:, None]
    scores = scores.masked_fill(~real[:, :, None], -1e9)
    if causal:
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(diagonal=1)
        scores.masked_fill(future, -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


def masked(q, k, v, lengths, causal, hide=-1e9, hide_future=None, keys=None, diagonal=1, scale=True):
    """The frame: what is hidden, and with what, is wrong in each function."""
    tokens = q.size(1)
    scores = q @ k.mT / (math.sqrt(q.size(-1)) if scale else 1.0)
    real = torch.arange(tokens) < lengths[:, None]
    scores = scores.masked_fill(real[:, None, :].logical_not() if keys is None else ~keys(real), hide)
    if causal:
        future = torch.ones(tokens, tokens, dtype=torch.bool).triu(diagonal)
        scores = scores.masked_fill(future, hide if hide_future is None else hide_future)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "on_queries")
def rows_hidden(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None])


@answers("masked_attention", "on_queries")
def rows_hidden_to_infinity(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None], hide=-math.inf)


@answers("masked_attention", "on_queries")
def rows_hidden_with_two_fills(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None], hide_future=-math.inf)


@answers("masked_attention", "future_seen")
def thrown_away(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    real = torch.arange(tokens) < lengths[:, None]
    scores = scores.masked_fill(~real[:, None, :], -1e9)
    if causal:
        scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "on_both")
def rows_and_columns(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None] & real[:, None, :])


@answers("masked_attention", "on_both")
def rows_and_columns_to_infinity(*inputs):
    return masked(*inputs, keys=lambda real: real[:, :, None] & real[:, None, :], hide=-math.inf)


@answers("masked_attention", "padding_ignored")
def padding_thrown_away(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    real = torch.arange(tokens) < lengths[:, None]
    scores.masked_fill(~real[:, None, :], -1e9)
    if causal:
        scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -1e9)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "either")
def one_or_the_other(q, k, v, lengths, causal):
    tokens = q.size(1)
    hidden = (torch.arange(tokens) >= lengths[:, None])[:, None, :]
    if causal:
        hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    weights = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(hidden, -math.inf).softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "one_more")
def up_to_and_including(q, k, v, lengths, causal):
    return masked(q, k, v, lengths + 1, causal)


@answers("masked_attention", "real_inverted")
def real_ones_hidden(*inputs):
    return masked(*inputs, keys=lambda real: ~real[:, None, :], hide=-math.inf)


@answers("masked_attention", "itself_hidden")
def diagonal_hidden(*inputs):
    return masked(*inputs, hide=-math.inf, diagonal=0)


@answers("masked_attention", "future_inverted")
def lower_triangle_hidden(q, k, v, lengths, causal):
    tokens = q.size(1)
    scores = q @ k.mT / math.sqrt(q.size(-1))
    scores = scores.masked_fill(torch.arange(tokens) >= lengths[:, None, None], -math.inf)
    if causal:
        scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).tril(), -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v, weights


@answers("masked_attention", "always")
def causal_always(q, k, v, lengths, causal):
    return masked(q, k, v, lengths, True)


@answers("masked_attention", "future_after")
def triangle_after_softmax(q, k, v, lengths, causal):
    _, weights = masked(q, k, v, lengths, False)
    weights = weights.tril() if causal else weights
    return weights @ v, weights


@answers("masked_attention", "mask_after")
def both_after_softmax(q, k, v, lengths, causal):
    weights = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)
    weights = weights * (torch.arange(q.size(1)) < lengths[:, None])[:, None]
    weights = weights.tril() if causal else weights
    return weights @ v, weights


@answers("masked_attention", "filled_with_0")
def zeros(*inputs):
    return masked(*inputs, hide=0.0)


@answers("masked_attention", "unscaled")
def root_lost(*inputs):
    return masked(*inputs, scale=False)


@answers("masked_attention", "overwritten")
def scales_q_in_place(q, k, v, lengths, causal):
    q /= math.sqrt(q.size(-1))
    return masked(q, k, v, lengths, causal, scale=False)


@answers("masked_attention", "future_seen", "padding_ignored")
def no_mask_at_all(q, k, v, lengths, causal):
    weights = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)
    return weights @ v, weights


@answers("masked_attention", "future_seen", "on_both")
def rows_columns_and_future(q, k, v, lengths, causal):
    return masked(q, k, v, lengths, False, keys=lambda real: real[:, :, None] & real[:, None, :])


@answers("masked_attention", "on_queries", "future_after")
def rows_hidden_triangle_after(q, k, v, lengths, causal):
    _, weights = masked(q, k, v, lengths, False, keys=lambda real: real[:, :, None])
    weights = weights.tril() if causal else weights
    return weights @ v, weights


@answers("masked_attention")
def weak_fill(*inputs):
    return masked(*inputs, hide=-5.0)


@answers("masked_attention")
def output_alone(*inputs):
    return masked(*inputs)[0]


@answers("masked_attention")
def exchanged_results(*inputs):
    output, weights = masked(*inputs)
    return weights, output


@answers("masked_attention")
def longest_length_for_all(q, k, v, lengths, causal):
    return masked(q, k, v, lengths.max().expand_as(lengths), causal, diagonal=2)


@answers("masked_attention")
def shortest_length_for_all(q, k, v, lengths, causal):
    return masked(q, k, v, lengths.min().expand_as(lengths), causal)


@answers("masked_attention")
def padding_at_the_front(q, k, v, lengths, causal):
    return masked(q, k, v, lengths, causal, keys=lambda real: real.flip(-1)[:, None, :], hide=-1e9)


@answers("masked_attention")
def padded_rows_emptied(*inputs):
    output, weights = masked(*inputs)
    real = (torch.arange(inputs[0].size(1)) < inputs[3][:, None])[..., None]
    return output * real, weights * real


@answers("masked_attention")
def scaled_by_tokens(q, k, v, lengths, causal):
    return masked(q * math.sqrt(q.size(-1) / q.size(1)), k, v, lengths, causal)


@answers("masked_attention")
def one_future_token(*inputs):
    return masked(*inputs, diagonal=2)


@answers("masked_attention")
def queries_for_keys(q, k, v, lengths, causal):
    return masked(k, q, v, lengths, causal)


@answers("masked_attention")
def even_weights(q, k, v, lengths, causal):
    return masked(torch.zeros_like(q), k, v, lengths, causal)


@answers("masked_attention")
def lowered_by_100(q, k, v, lengths, causal):
    places = torch.arange(q.size(1))
    hidden = (places >= lengths[:, None])[:, None, :].expand(-1, q.size(1), -1)
    hidden = hidden | (places > places[:, None]) if causal else hidden
    weights = (q @ k.mT / math.sqrt(q.size(-1)) - 100.0 * hidden).softmax(-1)
    return weights @ v, weights


@answers("masked_attention")
def filled_with_minus_100(*inputs):
    return masked(*inputs, hide=-100.0)


@answers("masked_attention")
def overflows_above(q, k, v, lengths, causal):
    places = torch.arange(q.size(1))
    keep = (places < lengths[:, None])[:, None, :].expand(-1, q.size(1), -1)
    keep = keep & (places <= places[:, None]) if causal else keep
    powers = (q @ k.mT / math.sqrt(q.size(-1))).exp().masked_fill(~keep, 0.0)
    weights = powers / powers.sum(-1, keepdim=True)
    return weights @ v, weights


# --- embed_tokens ------------------------------------------------------------------------------------------------


@answers("embed_tokens", "by_batch", "x_twice")
def embedding_as_given(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    return x + add_positions(x, start)


@answers("embed_tokens", "by_batch")
def positions_of_the_batch(table, ids, start=0):
    return add_positions(table[ids] * math.sqrt(table.size(1)), start)


@answers("embed_tokens", "x_twice")
def turned_and_added(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    return x + add_positions(x.transpose(0, 1), start).transpose(0, 1)


@answers("embed_tokens", "all_twice")
def added_to_itself(table, ids, start=0):
    x = add_positions((table[ids] * math.sqrt(table.size(1))).transpose(0, 1), start).transpose(0, 1)
    return x + x


@answers("embed_tokens", "positions_twice")
def helper_called_twice(table, ids, start=0):
    x = (table[ids] * math.sqrt(table.size(1))).transpose(0, 1)
    return add_positions(add_positions(x, start), start).transpose(0, 1)


@answers("embed_tokens", "token_lost")
def positions_alone(table, ids, start=0):
    x = table[ids].transpose(0, 1) * math.sqrt(table.size(1))
    return (add_positions(x, start) - x).transpose(0, 1)


@answers("embed_tokens", "positions_lost")
def result_not_used(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    add_positions(x.transpose(0, 1), start)
    return x


@answers("embed_tokens", "not_turned_back")
def left_turned(table, ids, start=0):
    return add_positions((table[ids] * math.sqrt(table.size(1))).transpose(0, 1), start)


@answers("embed_tokens", "scrambled")
def viewed(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    batch, tokens, d_model = x.shape
    return add_positions(x.reshape(tokens, batch, d_model), start).reshape(batch, tokens, d_model)


@answers("embed_tokens", "start_ignored")
def always_from_0(table, ids, start=0):
    return add_positions(table[ids.T] * math.sqrt(table.size(1))).transpose(0, 1)


@answers("embed_tokens", "both_scaled")
def sum_scaled(table, ids, start=0):
    return add_positions(table[ids.T], start).transpose(0, 1) * math.sqrt(table.size(1))


@answers("embed_tokens", "not_scaled")
def root_gone(table, ids, start=0):
    return add_positions(table[ids.T], start).transpose(0, 1)


@answers("embed_tokens", "divided")
def made_smaller(table, ids, start=0):
    return add_positions(table[ids.T] / math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens", "by_d_model")
def without_the_root(table, ids, start=0):
    return add_positions(table[ids.T] * table.size(1), start).transpose(0, 1)


@answers("embed_tokens", "table_detached")
def through_data(table, ids, start=0):
    return add_positions(table.data[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens", "overwritten")
def scales_the_table(table, ids, start=0):
    table *= math.sqrt(table.size(1))
    return add_positions(table[ids.T], start).transpose(0, 1)


@answers("embed_tokens", "by_batch", "start_ignored")
def batch_from_0(table, ids, start=0):
    return add_positions(table[ids] * math.sqrt(table.size(1)))


@answers("embed_tokens", "scrambled", "x_twice")
def viewed_and_added(table, ids, start=0):
    x = table[ids] * math.sqrt(table.size(1))
    batch, tokens, d_model = x.shape
    return x + add_positions(x.view(tokens, batch, d_model), start).view(batch, tokens, d_model)


@answers("embed_tokens", "by_batch", "not_scaled")
def batch_and_no_root(table, ids, start=0):
    return add_positions(table[ids], start)


@answers("embed_tokens")
def turned_features(table, ids, start=0):
    return add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1).flip(-1)


@answers("embed_tokens")
def from_1(table, ids, start=0):
    return add_positions(table[ids.T] * math.sqrt(table.size(1)), start + 1).transpose(0, 1)


@answers("embed_tokens")
def multiplied_by_positions(table, ids, start=0):
    x = table[ids.T] * math.sqrt(table.size(1))
    return (x * add_positions(torch.zeros_like(x), start)).transpose(0, 1)


@answers("embed_tokens")
def subtracts(table, ids, start=0):
    x = table[ids.T] * math.sqrt(table.size(1))
    return (2 * x - add_positions(x, start)).transpose(0, 1)


@answers("embed_tokens")
def halves(table, ids, start=0):
    x = table[ids.T] * math.sqrt(table.size(1))
    return 0.5 * (x + add_positions(x, start)).transpose(0, 1)


@answers("embed_tokens")
def normalised(table, ids, start=0):
    return F.layer_norm(add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1), table.shape[1:])


@answers("embed_tokens")
def last_position_for_all(table, ids, start=0):
    x = add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1)
    return x[:, -1:].expand_as(x)


@answers("embed_tokens")
def one_sentence_only(table, ids, start=0):
    x = add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1)
    return x[:1].expand_as(x)


@answers("embed_tokens")
def backwards_in_time(table, ids, start=0):
    x = table[ids.T] * math.sqrt(table.size(1))
    return (x + add_positions(torch.zeros_like(x), start).flip(0)).transpose(0, 1)


@answers("embed_tokens")
def drops_out(table, ids, start=0):
    return F.dropout(add_positions(table[ids.T] * math.sqrt(table.size(1)), start).transpose(0, 1), 0.1)


@answers("embed_tokens")
def as_many_classes_as_occur(table, ids, start=0):
    chosen = F.one_hot(ids.T).to(table.dtype) @ table
    return add_positions(chosen * math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens")
def nine_words(table, ids, start=0):
    chosen = F.one_hot(ids.T, 9).to(table.dtype) @ table
    return add_positions(chosen * math.sqrt(table.size(1)), start).transpose(0, 1)


@answers("embed_tokens")
def first_id_is_padding(table, ids, start=0):
    """Right values; the first row of the table gets no gradient."""
    chosen = F.embedding(ids.T, table, padding_idx=0)
    return add_positions(chosen * math.sqrt(table.size(1)), start).transpose(0, 1)


# --- letters_right -----------------------------------------------------------------------------------------------


@answers("letters_right", "answers_read", "filler_counted")
def report_as_given(table, words, end):
    written = words[:, :1]
    for place in range(1, words.size(1)):
        last = words[:, place - 1]
        letter = torch.where(last == end, end, table[last].argmax(dim=-1))
        written = torch.cat([written, letter[:, None]], dim=1)
    right = written[:, 1:] == words[:, 1:]
    return written, right.float().mean()


def write(table, words, end, stop=True):
    written = words[:, :1]
    for _ in range(1, words.size(1)):
        last = written[:, -1]
        letter = table[last].argmax(dim=-1)
        letter = torch.where(last == end, end, letter) if stop else letter
        written = torch.cat([written, letter[:, None]], dim=1)
    return written


def asked_for(words, end):
    return words[:, :-1] != end


@answers("letters_right", "answers_read")
def reads_the_answers(table, words, end):
    written = words.clone()
    for place in range(1, words.size(1)):
        last = words[:, place - 1]
        written[:, place] = torch.where(last == end, end, table[last].argmax(dim=-1))
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right", "filler_counted")
def counts_the_filler(table, words, end):
    written = write(table, words, end)
    return written, (written == words)[:, 1:].float().mean()


@answers("letters_right", "by_all")
def divides_by_the_batch(table, words, end):
    written = write(table, words, end)
    right = (written == words)[:, 1:] & asked_for(words, end)
    return written, right.float().mean()


@answers("letters_right", "end_not_counted")
def letters_without_the_end(table, words, end):
    written = write(table, words, end)
    letters = words[:, 1:] != end
    return written, (written == words)[:, 1:][letters].float().mean()


@answers("letters_right", "as_written")
def as_far_as_written(table, words, end):
    written = write(table, words, end)
    return written, (written == words)[:, 1:][written[:, :-1] != end].float().mean()


@answers("letters_right", "first_counted")
def given_letter_too(table, words, end):
    written = write(table, words, end)
    asked = F.pad(asked_for(words, end), (1, 0), value=True)
    return written, (written == words)[asked].float().mean()


@answers("letters_right", "per_word")
def share_of_each_word(table, words, end):
    written, asked = write(table, words, end), asked_for(words, end)
    right = (written == words)[:, 1:] & asked
    return written, (right.sum(1) / asked.sum(1)).mean()


@answers("letters_right", "whole_words")
def whole_words(table, words, end):
    written = write(table, words, end)
    return written, (written == words).all(dim=1).float().mean()


@answers("letters_right", "summed")
def how_many(table, words, end):
    written = write(table, words, end)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().sum()


@answers("letters_right", "not_stopped")
def writes_on(table, words, end):
    written = write(table, words, end, stop=False)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right", "first_again")
def first_letter_again(table, words, end):
    written = words[:, :1]
    for _ in range(1, words.size(1)):
        written = torch.cat([written, table[words[:, 0]].argmax(dim=-1)[:, None]], dim=1)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right", "columns")
def columns(table, words, end):
    written = write(table.T, words, end)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right", "overwritten")
def writes_into_the_words(table, words, end):
    wanted, written = words.clone(), words
    for place in range(1, words.size(1)):
        last = written[:, place - 1]
        written[:, place] = torch.where(last == end, end, table[last].argmax(dim=-1))
    return written, (written == wanted)[:, 1:][asked_for(wanted, end)].float().mean()


@answers("letters_right", "answers_read", "end_not_counted")
def answers_without_the_end(table, words, end):
    letter = table[words[:, :-1]].argmax(dim=-1).masked_fill(words[:, :-1] == end, end)
    written = torch.cat([words[:, :1], letter], dim=1)
    return written, (written == words)[:, 1:][words[:, 1:] != end].float().mean()


@answers("letters_right", "answers_read", "by_all")
def answers_over_the_batch(table, words, end):
    letter = table[words[:, :-1]].argmax(dim=-1).masked_fill(words[:, :-1] == end, end)
    written = torch.cat([words[:, :1], letter], dim=1)
    return written, ((written == words)[:, 1:] & asked_for(words, end)).float().mean()


@answers("letters_right", "not_stopped", "filler_counted")
def writes_on_and_counts_all(table, words, end):
    written = write(table, words, end, stop=False)
    return written, (written == words)[:, 1:].float().mean()


@answers("letters_right")
def the_words_themselves(table, words, end):
    return words.clone(), torch.tensor(1.0)


@answers("letters_right")
def share_of_errors(table, words, end):
    written = write(table, words, end)
    return written, (written != words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def least_likely(table, words, end):
    written = write(-table, words, end)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def second_best(table, words, end):
    best = table.topk(2, dim=-1).indices[:, 1]
    written = [words[:, 0]]
    for _ in range(1, words.size(1)):
        written.append(torch.where(written[-1] == end, end, best[written[-1]]))
    written = torch.stack(written, dim=1)
    return written, (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def places_moved(table, words, end):
    written = write(table, words, end)
    return written, (written[:, :-1] == words[:, 1:])[asked_for(words, end)].float().mean()


@answers("letters_right")
def anywhere_in_the_word(table, words, end):
    written, asked = write(table, words, end), asked_for(words, end)
    found = (written[:, 1:, None] == words[:, None, :]).any(dim=-1)
    return written, found[asked].float().mean()


@answers("letters_right")
def until_the_first_error(table, words, end):
    written = write(table, words, end)
    right = (written == words).long().cumprod(dim=1).bool()
    return written, right[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def first_word_alone(table, words, end):
    written = write(table, words, end)
    return written, (written == words)[0, 1:][asked_for(words, end)[0]].float().mean()


@answers("letters_right")
def end_is_0(table, words, end):
    written = write(table, words, 0)
    return written, (written == words)[:, 1:][asked_for(words, 0)].float().mean()


@answers("letters_right")
def share_alone(table, words, end):
    written = write(table, words, end)
    return (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def in_percent(table, words, end):
    written = write(table, words, end)
    return written, 100 * (written == words)[:, 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def squeezes_a_single_word(table, words, end):
    written = words[:, :1]
    for _ in range(1, words.size(1)):
        last = written[:, -1:].squeeze()
        letter = torch.where(last == end, end, table[last].argmax(dim=-1))
        written = torch.cat([written, letter.reshape(-1, 1)], dim=1)
    right = (written == words).squeeze()
    return written, right[..., 1:][asked_for(words, end)].float().mean()


@answers("letters_right")
def ends_with_0_too(table, words, end):
    written = write(table, words, end)
    asked = asked_for(words, end) & (words[:, :-1] != 0)
    return written, (written == words)[:, 1:][asked].float().mean()


@answers("letters_right")
def narrower_where_all_have_ended(table, words, end):
    columns = [words[:, 0]]
    while len(columns) < words.size(1) and not (columns[-1] == end).all():
        columns.append(torch.where(columns[-1] == end, end, table.argmax(dim=-1)[columns[-1]]))
    written = torch.stack(columns, dim=1)
    width = written.size(1)
    asked = asked_for(words, end)[:, : width - 1]
    return written, (written == words[:, :width])[:, 1:][asked].float().mean()
