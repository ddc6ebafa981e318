"""Wrong answers to lab 1 by someone who wanted to get them past the judge: each is right nearly everywhere.

Written against the cases rather than from what students do. None is on a list.
"""

import math

import torch

from tests.answers import answers, right_attention
from tests.answers.detaching import without_gradient_for


@answers("project_qkv")
def squeezed_projections(x, w_q, w_k, w_v):
    """Axes of length 1 are lost: wrong for a batch of one, and for a single token."""
    return tuple((x @ w).squeeze() for w in (w_q, w_k, w_v))


@answers("project_qkv")
def turned_where_square(x, w_q, w_k, w_v):
    """A square map is multiplied from the other side: right for every other shape."""
    return tuple(x @ (w.mT if w.size(0) == w.size(1) else w) for w in (w_q, w_k, w_v))


@answers("project_qkv")
def values_of_the_last_token_detached(x, w_q, w_k, w_v):
    """The outputs are right; the last token's values send no gradient back."""
    q, k, v = right_attention.three_products(x, w_q, w_k, w_v)
    return q, k, without_gradient_for(v, (torch.arange(x.size(1)) == x.size(1) - 1)[:, None])


@answers("attention_scores")
def scaled_by_an_integer_root(q, k):
    """The root of d_k is rounded: right for widths of 1, 4, 9 and 16 alone."""
    return q @ k.mT / round(math.sqrt(q.size(-1)))


@answers("attention_scores")
def scores_capped(q, k):
    """Scores are clipped to ±50, against overflow: right for everything that is not large."""
    return right_attention.product_and_root(q, k).clamp(-50, 50)


@answers("attention_scores")
def one_query_squeezed(q, k):
    """With a single query, its axis is gone."""
    return right_attention.product_and_root(q, k).squeeze(-2)


@answers("attention_scores")
def one_key_squeezed(q, k):
    """With a single key, its axis is gone."""
    return right_attention.product_and_root(q, k).squeeze(-1)


@answers("scaled_dot_product_attention")
def squeezed_results(q, k, v, mask=None):
    """Axes of length 1 are lost: wrong for a batch of one."""
    return tuple(part.squeeze() for part in right_attention.as_in_the_lecture(q, k, v, mask))


@answers("scaled_dot_product_attention")
def filled_with_minus_fifty(q, k, v, mask=None):
    """A fill that hides well between scores near 0, and not where scores are large."""
    scores = right_attention.product_and_root(q, k)
    weights = (scores if mask is None else scores.masked_fill(~mask, -50.0)).softmax(-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def added_minus_fifty(q, k, v, mask=None):
    """A mask that is added, with a number too small: a hidden key with a large score is seen."""
    scores = right_attention.product_and_root(q, k)
    weights = (scores if mask is None else scores - 50.0 * ~mask).softmax(-1)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def largest_of_all_taken_off(q, k, v, mask=None):
    """Made stable by the largest score of everything: a row whose scores are far below it comes to 0 / 0."""
    scores = right_attention.product_and_root(q, k)
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    e = (scores - scores.max()).exp()
    weights = e / e.sum(-1, keepdim=True)
    return weights @ v, weights


@answers("scaled_dot_product_attention")
def causal_where_square(q, k, v, mask=None):
    """Where nobody passes a mask and there are as many queries as keys, a causal one is made up."""
    if mask is None and q.size(-2) == k.size(-2):
        mask = torch.ones(q.size(-2), q.size(-2), dtype=torch.bool).tril()
    return right_attention.as_in_the_lecture(q, k, v, mask)
