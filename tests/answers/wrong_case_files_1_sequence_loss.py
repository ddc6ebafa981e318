"""Wrong `sequence_loss`: the program as given, half mended, and mended wrongly.

`…_as_given` is the broken program of the lab, with both of its slips.
"""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers


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


@answers("sequence_loss", "per_sequence")
def mean_of_means_where_there_is_none(logits, tokens, pad):
    targets = tokens[:, 1:]
    surprise = F.cross_entropy(logits[:, :-1].mT, targets, ignore_index=pad, reduction="none")
    return (surprise.sum(1) / (targets != pad).sum(1).clamp(min=1)).mean()


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
