"""Right probabilities to draw from, in the styles that people write. Every function here earns full marks."""

import math

import torch
import torch.nn.functional as F

from tests.answers import answers


@answers("next_probabilities")
def masked(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits < last, float("-inf"))
    p = logits.softmax(dim=-1)
    if top_p < 1:
        falling, order = p.sort(dim=-1, descending=True)
        before = falling.cumsum(dim=-1) - falling
        p = torch.zeros_like(p).scatter(-1, order, falling.masked_fill(before >= top_p, 0.0))
        p = p / p.sum(dim=-1, keepdim=True)
    return p


@answers("next_probabilities")
def the_usual_recipe(logits, temperature=1.0, top_k=None, top_p=1.0):
    """As in many repositories: sort logits, shift the mask by one, scatter it back, softmax at the end."""
    logits = logits.clone() / temperature
    if top_k:
        v, _ = torch.topk(logits, min(top_k, logits.shape[-1]))
        logits[logits < v[:, [-1]]] = -float("Inf")
    if top_p < 1.0:
        sorted_logits, sorted_indices = torch.sort(logits, descending=True)
        cumulative = torch.cumsum(F.softmax(sorted_logits, dim=-1), dim=-1)
        remove = cumulative > top_p
        remove[..., 1:] = remove[..., :-1].clone()
        remove[..., 0] = False
        logits[remove.scatter(1, sorted_indices, remove)] = -float("Inf")
    return F.softmax(logits, dim=-1)


@answers("next_probabilities")
def row_by_row(logits, temperature=1.0, top_k=None, top_p=1.0):
    rows = []
    for row in logits:
        p = torch.softmax(row / temperature, dim=0)
        order = p.argsort(descending=True).tolist()
        if top_k is not None:
            order = order[:top_k]
        total = sum(p[i] for i in order)
        kept, mass = [], 0.0
        for i in order:
            kept.append(i)
            mass = mass + p[i] / total
            if mass >= top_p and top_p < 1:
                break
        new = torch.zeros_like(p)
        new[kept] = p[kept]
        rows.append(new / new.sum())
    return torch.stack(rows)


@answers("next_probabilities")
def by_rank(logits, temperature=1.0, top_k=None, top_p=1.0):
    """A token's rank is its place in the falling order."""
    n = logits.shape[1]
    order = logits.argsort(dim=1, descending=True)
    rank = order.argsort(dim=1)
    p = (logits / temperature).softmax(1)
    p = torch.where(rank < (n if top_k is None else top_k), p, torch.zeros_like(p))
    p = p / p.sum(1, keepdim=True)
    mass = p.gather(1, order).cumsum(1)
    n_kept = n if top_p >= 1 else (mass < top_p).sum(1, keepdim=True) + 1
    p = p * (rank < n_kept)
    return p / p.sum(1, keepdim=True)


@answers("next_probabilities")
def pairwise(logits, temperature=1.0, top_k=None, top_p=1.0):
    """Every token compared with every other: how many are likelier, and what they add up to."""
    likelier = logits[:, None, :] > logits[:, :, None]
    p = (logits / temperature).softmax(-1)
    if top_k is not None:
        p = p * (likelier.sum(-1) < top_k)
        p = p / p.sum(-1, keepdim=True)
    if top_p < 1:
        before = torch.einsum("bij,bj->bi", likelier.to(p.dtype), p)
        p = p * (before < top_p)
    return p / p.sum(-1, keepdim=True)


@answers("next_probabilities")
def index_scattered(logits, temperature=1.0, top_k=None, top_p=1.0):
    k = logits.size(-1) if top_k is None else min(top_k, logits.size(-1))
    values, ids = torch.topk(logits.div(temperature), k, dim=-1)
    p = F.softmax(values, dim=-1)
    if top_p != 1.0:
        keep = torch.cat([torch.ones_like(p[:, :1], dtype=torch.bool), p.cumsum(-1)[:, :-1] < top_p], dim=-1)
        p = p * keep
        p /= p.sum(dim=-1, keepdim=True)
    out = torch.zeros_like(logits)
    out.scatter_(1, ids, p)
    return out


@answers("next_probabilities")
def least_likely_first(logits, temperature=1.0, top_k=None, top_p=1.0):
    """Sorted upwards: what may go is what adds up to less than 1 - top_p."""
    z = logits / temperature
    if top_k is not None and top_k < z.size(1):
        z = z.masked_fill(z < z.kthvalue(z.size(1) - top_k + 1, dim=1, keepdim=True).values, -math.inf)
    p = z.softmax(1)
    if top_p < 1:
        rising, order = p.sort(dim=1)
        gone = rising.cumsum(1) <= 1 - top_p
        gone[:, -1] = False
        p = p.masked_fill(torch.zeros_like(gone).scatter(1, order, gone), 0)
        p = p / p.sum(1, keepdim=True)
    return p


@answers("next_probabilities")
def exponentials_by_hand(logits, temperature=1.0, top_k=None, top_p=1.0):
    z = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    e = z.exp()
    order = torch.argsort(z, dim=-1, descending=True)
    if top_k is not None:
        e = e.scatter(-1, order[:, top_k:], 0.0)
    e = e / e.sum(-1, keepdim=True)
    if top_p < 1.0:
        sums = e.gather(-1, order).cumsum(-1)
        last = (sums >= top_p).to(torch.int64).argmax(dim=-1, keepdim=True)
        threshold = e.gather(-1, order).gather(-1, last)
        e = torch.where(e >= threshold, e, 0.0)
    return torch.nn.functional.normalize(e, p=1, dim=-1)


@answers("next_probabilities")
def a_step_each(logits, temperature=1.0, top_k=None, top_p=1.0):
    def keep_k(p):
        return p if top_k is None else p * (p >= p.sort(descending=True).values[:, : int(top_k)][:, -1:])

    def keep_p(p):
        if top_p >= 1:
            return p
        out = p.clone()
        for b in range(p.shape[0]):
            left = top_p
            for token in p[b].argsort(descending=True):
                if left <= 0:
                    out[b, token] = 0
                left -= p[b, token].item()
        return out

    def share(p):
        return p / p.sum(-1, keepdim=True)

    with torch.no_grad():
        return share(keep_p(share(keep_k(torch.softmax(logits / temperature, -1)))))
