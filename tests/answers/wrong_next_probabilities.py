"""Wrong probabilities to draw from; `answers` names the mistakes, or none that is on a list."""

import torch
import torch.nn.functional as F

from tests.answers import answers


def top_k_of(logits, top_k):
    if top_k is None:
        return logits
    last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
    return logits.masked_fill(logits < last, float("-inf"))


def top_p_of(p, top_p):
    if top_p == 1:
        return p
    falling, order = p.sort(dim=-1, descending=True)
    kept = falling.masked_fill(falling.cumsum(-1) - falling >= top_p, 0.0)
    p = torch.zeros_like(p).scatter(-1, order, kept)
    return p / p.sum(-1, keepdim=True)


@answers("next_probabilities", "overwritten")
def in_place(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits /= temperature
    return top_p_of(top_k_of(logits, top_k).softmax(-1), top_p)


@answers("next_probabilities", "temperature_ignored")
def always_1(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_p_of(top_k_of(logits, top_k).softmax(-1), top_p)


@answers("next_probabilities", "temperature_multiplied")
def times(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_p_of(top_k_of(logits * temperature, top_k).softmax(-1), top_p)


@answers("next_probabilities", "temperature_after")
def probabilities_divided(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_p_of(top_k_of(logits, top_k).softmax(-1), top_p) / temperature


@answers("next_probabilities", "temperature_too_late")
def temperature_last(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = top_k_of(logits, top_k)
    kept = top_p_of(logits.softmax(-1), top_p) > 0
    return (logits / temperature).masked_fill(~kept, float("-inf")).softmax(-1)


@answers("next_probabilities", "top_k_ignored")
def result_not_assigned(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits.masked_fill(logits < last, float("-inf"))
    return top_p_of(logits.softmax(-1), top_p)


@answers("next_probabilities", "one_too_many")
def index_k(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None and top_k < logits.size(-1):
        last = logits.sort(-1, descending=True).values[:, top_k][:, None]
        logits = logits.masked_fill(logits < last, float("-inf"))
    return top_p_of(logits.softmax(-1), top_p)


@answers("next_probabilities", "one_too_few")
def less_or_equal(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits <= last, float("-inf"))
    return top_p_of(logits.softmax(-1), top_p)


@answers("next_probabilities", "least_likely")
def sorted_upwards(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        last = logits.sort().values[:, :top_k][:, -1:]
        logits = logits.masked_fill(logits > last, float("-inf"))
    return top_p_of(logits.softmax(-1), top_p)


@answers("next_probabilities", "filled_with_0")
def zero_logits(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = torch.where(logits < last, 0.0, logits)
    return top_p_of(logits.softmax(-1), top_p)


@answers("next_probabilities", "first_row_for_all")
def row_0(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[0, -1]
        logits = logits.masked_fill(logits < last, float("-inf"))
    return top_p_of(logits.softmax(-1), top_p)


@answers("next_probabilities", "not_renormalised")
def sums_below_1(logits, temperature=1.0, top_k=None, top_p=1.0):
    p = top_k_of(logits / temperature, top_k).softmax(-1)
    if top_p < 1:
        falling, order = p.sort(dim=-1, descending=True)
        kept = falling.masked_fill(falling.cumsum(-1) - falling >= top_p, 0.0)
        p = torch.zeros_like(p).scatter(-1, order, kept)
    return p


@answers("next_probabilities", "top_p_ignored")
def no_top_p(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_k_of(logits / temperature, top_k).softmax(-1)


@answers("next_probabilities", "last_dropped")
def sums_up_to_top_p(logits, temperature=1.0, top_k=None, top_p=1.0):
    p = top_k_of(logits / temperature, top_k).softmax(-1)
    if top_p < 1:
        falling, order = p.sort(dim=-1, descending=True)
        kept = falling.masked_fill(falling.cumsum(-1) > top_p, 0.0)
        p = torch.zeros_like(p).scatter(-1, order, kept)
        p = p / p.sum(-1, keepdim=True)
    return p


@answers("next_probabilities", "last_dropped")
def but_never_nothing(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = top_k_of(logits / temperature, top_k)
    if top_p < 1:
        falling, order = logits.sort(dim=-1, descending=True)
        remove = falling.softmax(-1).cumsum(-1) > top_p
        remove[:, 0] = False
        logits = logits.masked_fill(remove.scatter(1, order, remove), float("-inf"))
    return logits.softmax(-1)


@answers("next_probabilities", "one_more")
def shifted_twice(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = top_k_of(logits / temperature, top_k)
    if top_p < 1:
        falling, order = logits.sort(dim=-1, descending=True)
        remove = falling.softmax(-1).cumsum(-1) >= top_p
        remove = F.pad(remove, (2, 0))[:, : remove.size(1)]
        logits = logits.masked_fill(remove.scatter(1, order, remove), float("-inf"))
    return logits.softmax(-1)


@answers("next_probabilities", "threshold")
def each_by_itself(logits, temperature=1.0, top_k=None, top_p=1.0):
    p = top_k_of(logits / temperature, top_k).softmax(-1)
    if top_p < 1:
        p = p * (p >= top_p)
        p = p / p.sum(-1, keepdim=True)
    return p


@answers("next_probabilities", "threshold")
def relative_to_the_likeliest(logits, temperature=1.0, top_k=None, top_p=1.0):
    """min-p, with the name of top-p."""
    p = top_k_of(logits / temperature, top_k).softmax(-1)
    if top_p < 1:
        p = p * (p >= top_p * p.max(-1, keepdim=True).values)
        p = p / p.sum(-1, keepdim=True)
    return p


@answers("next_probabilities", "rising")
def sort_as_it_comes(logits, temperature=1.0, top_k=None, top_p=1.0):
    p = top_k_of(logits / temperature, top_k).softmax(-1)
    if top_p < 1:
        rising, order = p.sort(dim=-1)
        kept = rising.masked_fill(rising.cumsum(-1) - rising >= top_p, 0.0)
        p = torch.zeros_like(p).scatter(-1, order, kept)
    return p / p.sum(-1, keepdim=True)


@answers("next_probabilities", "unsorted")
def sum_by_id(logits, temperature=1.0, top_k=None, top_p=1.0):
    p = top_k_of(logits / temperature, top_k).softmax(-1)
    if top_p < 1:
        p = p.masked_fill(p.cumsum(-1) - p >= top_p, 0.0)
    return p / p.sum(-1, keepdim=True)


@answers("next_probabilities", "left_sorted")
def not_put_back(logits, temperature=1.0, top_k=None, top_p=1.0):
    p = top_k_of(logits / temperature, top_k).softmax(-1)
    if top_p < 1:
        p = p.sort(dim=-1, descending=True).values
        p = p.masked_fill(p.cumsum(-1) - p >= top_p, 0.0)
    return p / p.sum(-1, keepdim=True)


@answers("next_probabilities", "top_p_first")
def top_p_of_everything(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    kept = top_p_of(logits.softmax(-1), top_p) > 0
    return top_k_of(logits.masked_fill(~kept, float("-inf")), top_k).softmax(-1)


@answers("next_probabilities", "over_batch")
def columns(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_p_of(top_k_of(logits / temperature, top_k).softmax(0), top_p)


@answers("next_probabilities", "logits_returned")
def logarithms(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_p_of(top_k_of(logits / temperature, top_k).softmax(-1), top_p).log()


# --- two at once ---


@answers("next_probabilities", "temperature_multiplied", "top_p_ignored")
def times_without_top_p(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_k_of(logits * temperature, top_k).softmax(-1)


@answers("next_probabilities", "one_too_few", "not_renormalised")
def too_few_and_below_1(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
        logits = logits.masked_fill(logits <= last, float("-inf"))
    p = logits.softmax(-1)
    if top_p < 1:
        falling, order = p.sort(dim=-1, descending=True)
        kept = falling.masked_fill(falling.cumsum(-1) - falling >= top_p, 0.0)
        p = torch.zeros_like(p).scatter(-1, order, kept)
    return p


# --- on no list ---


@answers("next_probabilities")
def topk_of_more_than_there_are(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        logits = logits.masked_fill(logits < logits.topk(top_k).values[:, -1:], float("-inf"))
    return top_p_of(logits.softmax(-1), top_p)


@answers("next_probabilities")
def a_draw(logits, temperature=1.0, top_k=None, top_p=1.0):
    p = top_p_of(top_k_of(logits / temperature, top_k).softmax(-1), top_p)
    return torch.multinomial(p, 1).squeeze(-1)


@answers("next_probabilities")
def exponentials_overflow(logits, temperature=1.0, top_k=None, top_p=1.0):
    e = top_k_of(logits / temperature, top_k).exp()
    return top_p_of(e / e.sum(-1, keepdim=True), top_p)


@answers("next_probabilities")
def evenly_among_the_kept(logits, temperature=1.0, top_k=None, top_p=1.0):
    kept = top_p_of(top_k_of(logits / temperature, top_k).softmax(-1), top_p) > 0
    return kept.to(logits.dtype) / kept.sum(-1, keepdim=True)


@answers("next_probabilities")
def one_or_the_other(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    if top_k is not None:
        return top_k_of(logits, top_k).softmax(-1)
    return top_p_of(logits.softmax(-1), top_p)


@answers("next_probabilities")
def half_precision(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_p_of(top_k_of(logits / temperature, top_k).half().softmax(-1), top_p).to(logits.dtype)


@answers("next_probabilities")
def no_none(logits, temperature=1.0, top_k=None, top_p=1.0):
    logits = logits / temperature
    last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]
    return top_p_of(logits.masked_fill(logits < last, float("-inf")).softmax(-1), top_p)


@answers("next_probabilities")
def another_default(logits, temperature=0.7, top_k=None, top_p=1.0):
    return top_p_of(top_k_of(logits / temperature, top_k).softmax(-1), top_p)


@answers("next_probabilities")
def nucleus_by_default(logits, temperature=1.0, top_k=None, top_p=0.9):
    return top_p_of(top_k_of(logits / temperature, top_k).softmax(-1), top_p)


@answers("next_probabilities")
def nobody_gets_nothing(logits, temperature=1.0, top_k=None, top_p=1.0):
    return top_p_of(top_k_of(logits / temperature, top_k).softmax(-1), top_p).clamp(min=1e-9)
