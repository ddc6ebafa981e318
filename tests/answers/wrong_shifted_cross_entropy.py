"""Wrong losses of a language model; `answers` names the mistakes, or none that is on a list."""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers


@answers("shifted_cross_entropy", "overwritten")
def written_into(logits, ids):
    logits -= logits.max(dim=-1, keepdim=True).values
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@answers("shifted_cross_entropy", "not_shifted")
def no_shift(logits, ids):
    return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


@answers("shifted_cross_entropy", "shifted_back")
def other_direction(logits, ids):
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, :-1].flatten())


@answers("shifted_cross_entropy", "rolled")
def in_a_circle(logits, ids):
    return F.cross_entropy(logits.transpose(1, 2), torch.roll(ids, -1, dims=1))


@answers("shifted_cross_entropy", "first_by_itself")
def first_logits_twice(logits, ids):
    log_p = torch.cat([logits[:, :1], logits[:, :-1]], dim=1).log_softmax(-1)
    return -log_p.gather(-1, ids[..., None]).mean()


@answers("shifted_cross_entropy", "bits")
def in_bits(logits, ids):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:]) / math.log(2)


@answers("shifted_cross_entropy", "summed")
def a_sum(logits, ids):
    log_p = logits[:, :-1].log_softmax(-1)
    return -log_p.gather(-1, ids[:, 1:, None]).sum()


@answers("shifted_cross_entropy", "by_batch")
def mean_over_the_batch(logits, ids):
    log_p = logits[:, :-1].log_softmax(-1)
    return -log_p.gather(-1, ids[:, 1:, None]).squeeze(-1).sum(dim=1).mean()


@answers("shifted_cross_entropy", "by_all_tokens")
def by_the_size_of_ids(logits, ids):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="sum") / ids.numel()


@answers("shifted_cross_entropy", "negative")
def sign_forgotten(logits, ids):
    log_p = logits[:, :-1].log_softmax(-1)
    return log_p.gather(-1, ids[:, 1:, None]).mean()


@answers("shifted_cross_entropy", "probability")
def nll_of_probabilities(logits, ids):
    p = logits[:, :-1].softmax(-1)
    return F.nll_loss(p.transpose(1, 2), ids[:, 1:])


@answers("shifted_cross_entropy", "probability")
def one_minus_p(logits, ids):
    return (1 - logits[:, :-1].softmax(-1).gather(-1, ids[:, 1:, None])).mean()


@answers("shifted_cross_entropy", "softmax_twice")
def probabilities_in(logits, ids):
    p = logits.softmax(dim=-1)
    return F.cross_entropy(p[:, :-1].transpose(1, 2), ids[:, 1:])


@answers("shifted_cross_entropy", "log_of_softmax")
def log_after_softmax(logits, ids):
    p = torch.softmax(logits[:, :-1], dim=-1).gather(-1, ids[:, 1:, None])
    return -torch.log(p).mean()


@answers("shifted_cross_entropy", "log_of_softmax")
def log_with_epsilon(logits, ids):
    p = torch.softmax(logits[:, :-1], dim=-1)
    return -torch.log(p.gather(-1, ids[:, 1:, None]) + 1e-9).mean()


@answers("shifted_cross_entropy", "no_maximum")
def without_the_maximum(logits, ids):
    logits = logits[:, :-1]
    wanted = logits.gather(-1, ids[:, 1:, None])[..., 0]
    return (logits.exp().sum(-1).log() - wanted).mean()


@answers("shifted_cross_entropy", "no_maximum")
def shares_without_the_maximum(logits, ids):
    p = torch.exp(logits[:, :-1])
    p = p / p.sum(-1, keepdim=True)
    return -torch.log(p.gather(-1, ids[:, 1:, None])).mean()


@answers("shifted_cross_entropy", "over_tokens")
def softmax_over_places(logits, ids):
    return -logits[:, :-1].log_softmax(dim=1).gather(-1, ids[:, 1:, None]).mean()


@answers("shifted_cross_entropy", "perplexity")
def exponential(logits, ids):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:]).exp()


@answers("shifted_cross_entropy", "detached")
def as_a_number(logits, ids):
    return torch.tensor(F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:]).item(), dtype=logits.dtype)


# --- two at once ---


@answers("shifted_cross_entropy", "not_shifted", "summed")
def no_shift_and_a_sum(logits, ids):
    return F.cross_entropy(logits.transpose(1, 2), ids, reduction="sum")


@answers("shifted_cross_entropy", "shifted_back", "bits")
def back_in_bits(logits, ids):
    return F.cross_entropy(logits[:, 1:].transpose(1, 2), ids[:, :-1]) / math.log(2)


# --- on no list ---


@answers("shifted_cross_entropy")
def nothing(logits, ids):
    F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:])


@answers("shifted_cross_entropy")
def for_each_token(logits, ids):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")


@answers("shifted_cross_entropy")
def two_ahead(logits, ids):
    return F.cross_entropy(logits[:, :-2].transpose(1, 2), ids[:, 2:])


@answers("shifted_cross_entropy")
def last_place_only(logits, ids):
    return F.cross_entropy(logits[:, -2], ids[:, -1])


@answers("shifted_cross_entropy")
def squared_error(logits, ids):
    target = F.one_hot(ids[:, 1:], logits.size(-1)).to(logits.dtype)
    return (logits[:, :-1].softmax(-1) - target).square().mean()


@answers("shifted_cross_entropy")
def axes_not_moved(logits, ids):
    """The classes stand last, where cross_entropy expects places."""
    return F.cross_entropy(logits[:, :-1], ids[:, 1:])


@answers("shifted_cross_entropy")
def ignores_token_0(logits, ids):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], ignore_index=0)


@answers("shifted_cross_entropy")
def smoothed(logits, ids):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], label_smoothing=0.1)


@answers("shifted_cross_entropy")
def likeliest_token(logits, ids):
    return -logits[:, :-1].log_softmax(-1).amax(-1).mean()


@answers("shifted_cross_entropy")
def repeated_tokens_do_not_count(logits, ids):
    targets = ids[:, 1:].masked_fill(ids[:, 1:] == ids[:, :-1], -100)
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), targets)
