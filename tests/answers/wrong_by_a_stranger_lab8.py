"""Wrong answers to lab 8 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers, right_case_files
from tests.answers.detaching import without_gradient_for


@answers("sequence_loss")
def surprise_capped(logits, tokens, pad):
    """No token's surprise counts for more than 100 nats."""
    surprise = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none").clamp(max=100.0)
    return surprise[tokens[:, 1:] != pad].mean()


@answers("sequence_loss")
def shortest_left_out(logits, tokens, pad):
    """Sequences of two tokens are left out, as too short to learn from."""
    long = (tokens != pad).sum(1) > 2
    return right_case_files.ignore_index(logits[long], tokens[long], pad)


@answers("sequence_loss")
def gradient_of_the_last_place_lost(logits, tokens, pad):
    """The number is right; the last place that is asked sends no gradient back."""
    last = torch.arange(logits.size(1)) == logits.size(1) - 2
    return right_case_files.ignore_index(without_gradient_for(logits, last[:, None]), tokens, pad)


@answers("train_one_pass")
def clipped_at_ten(weights, images, labels, learning_rate, batch_size):
    """The gradient is clipped to a norm of 10: right until an image is bright."""
    weights, losses = weights.clone(), []
    for rows in torch.arange(len(images)).split(batch_size):
        at = weights.requires_grad_()
        loss = F.cross_entropy(images[rows] @ at, labels[rows])
        (slope,) = torch.autograd.grad(loss, at)
        weights = (at - learning_rate * slope * min(1.0, 10.0 / slope.norm().item())).detach()
        losses.append(loss.detach())
    return weights, torch.stack(losses)


@answers("train_one_pass")
def losses_are_running_means(weights, images, labels, learning_rate, batch_size):
    """The losses are a running mean, as in a progress bar."""
    weights, losses = right_case_files.sgd(weights, images, labels, learning_rate, batch_size)
    return weights, losses.cumsum(0) / torch.arange(1, len(losses) + 1)


@answers("train_one_pass")
def short_batch_weighs_less(weights, images, labels, learning_rate, batch_size):
    """The step of a short last batch is shorter by its share, where there are more than one batch."""
    full = len(images) // batch_size * batch_size
    if full in (0, len(images)):
        return right_case_files.sgd(weights, images, labels, learning_rate, batch_size)
    weights, losses = right_case_files.sgd(weights, images[:full], labels[:full], learning_rate, batch_size)
    rate = learning_rate * (len(images) - full) / batch_size
    weights, last = right_case_files.sgd(weights, images[full:], labels[full:], rate, batch_size)
    return weights, torch.cat([losses, last])


@answers("masked_attention")
def filled_with_minus_sixty(q, k, v, lengths, causal):
    """A fill that hides well between scores near 0, and not where scores are large."""
    tokens = torch.arange(q.size(1))
    seen = (tokens < lengths[:, None])[:, None]
    seen = seen & (tokens <= tokens[:, None]) if causal else seen
    weights = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~seen, -60.0).softmax(-1)
    return weights @ v, weights


@answers("masked_attention")
def one_sentence_lost(q, k, v, lengths, causal):
    """The first axis is lost for a single sentence."""
    return tuple(part.squeeze(0) for part in right_case_files.fill_twice(q, k, v, lengths, causal))


@answers("embed_tokens")
def start_up_to_ten(table, ids, start=0):
    """A start beyond 10 is taken for 10."""
    return right_case_files.transposed(table, ids, min(start, 10))


@answers("embed_tokens")
def integer_root(table, ids, start=0):
    """The root of the width is rounded: right for widths of 4, 9 and 16 alone."""
    x = right_case_files.transposed(table * 0, ids, start)
    return x + table[ids] * round(math.sqrt(table.size(1)))


@answers("embed_tokens")
def padding_is_zero(table, ids, start=0):
    """Token 0 is taken for padding, and its embedding for zeros."""
    return right_case_files.transposed(table, ids, start) - (ids == 0)[..., None] * table[0] * math.sqrt(table.size(1))


@answers("embed_tokens")
def one_text_lost(table, ids, start=0):
    """The first axis is lost for a single text."""
    return right_case_files.transposed(table, ids, start).squeeze(0)


@answers("letters_right")
def wrong_ends_written_on(table, words, end):
    """The share is right; what is written after a wrong end token goes on where the word goes on."""
    written, share = right_case_files.last_written(table, words, end)
    free = written.clone()
    for place in range(1, words.size(1)):
        over = (free[:, place - 1] == end) & (words[:, place - 1] == end)
        free[:, place] = torch.where(over, end, table[free[:, place - 1]].argmax(-1))
    return free, share


@answers("letters_right")
def only_what_was_written(table, words, end):
    """Letters that the model never came to, because it ended early, are not counted as asked for."""
    written, _ = right_case_files.last_written(table, words, end)
    asked = (words[:, :-1] != end) & (written[:, :-1] != end)
    return written, (written[:, 1:] == words[:, 1:])[asked].float().mean()
