"""Right losses of a language model in the styles that people write. Every function here earns full marks."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.answers import answers


@answers("shifted_cross_entropy")
def flattened(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


@answers("shifted_cross_entropy")
def vocabulary_second(logits, ids):
    return F.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:])


@answers("shifted_cross_entropy")
def gathered(logits, ids):
    log_p = logits.log_softmax(dim=-1)[:, :-1]
    return -log_p.gather(-1, ids[:, 1:].unsqueeze(-1)).mean()


@answers("shifted_cross_entropy")
def by_hand(logits, ids):
    logits, ids = logits[:, :-1, :], ids[:, 1:]
    chosen = torch.take_along_dim(logits, ids[..., None], dim=-1).squeeze(-1)
    return (torch.logsumexp(logits, dim=-1) - chosen).mean()


@answers("shifted_cross_entropy")
def one_hot(logits, ids):
    target = F.one_hot(ids[:, 1:], logits.size(-1)).to(logits.dtype)
    return -(target * F.log_softmax(logits[:, :-1], dim=-1)).sum(-1).mean()


@answers("shifted_cross_entropy")
def negative_log_likelihood(logits, ids):
    shifted = logits[..., :-1, :].contiguous()
    labels = ids[..., 1:].contiguous()
    return nn.NLLLoss()(shifted.log_softmax(-1).view(-1, shifted.size(-1)), labels.view(-1))


@answers("shifted_cross_entropy")
def loops(logits, ids):
    total, n = 0.0, 0
    for row, text in zip(logits, ids, strict=True):
        for place in range(len(text) - 1):
            total = total - row[place].log_softmax(dim=0)[text[place + 1]]
            n += 1
    return total / n


@answers("shifted_cross_entropy")
def index_of_rows_and_places(logits, ids):
    batch, tokens = ids.shape
    log_p = logits - torch.logsumexp(logits, 2, keepdim=True)
    rows, places = torch.arange(batch)[:, None], torch.arange(tokens - 1)
    return -log_p[rows, places, ids[:, 1:]].mean()


@answers("shifted_cross_entropy")
def last_target_ignored(logits, ids):
    """The last place has no target: it gets the label that the cross-entropy leaves out."""
    labels = torch.full_like(ids, -100)
    labels[:, :-1] = ids[:, 1:]
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), labels.reshape(-1))


@answers("shifted_cross_entropy")
def summed_and_divided(logits, ids):
    loss = F.cross_entropy(logits[:, :-1].permute(0, 2, 1), ids[:, 1:], reduction="sum")
    return loss / ids[:, 1:].numel()


@answers("shifted_cross_entropy")
def max_subtracted(logits, ids):
    z = logits.narrow(1, 0, logits.size(1) - 1)
    z = z - z.max(dim=-1, keepdim=True).values
    surprise = z.exp().sum(-1).log() - z.gather(2, ids[:, 1:, None])[..., 0]
    return surprise.sum() / surprise.numel()
