"""What a known mistake is told as, held against other ways of making it, of which it was once untrue."""

from typing import Any

import pytest
import torch
from torch import nn

from headroom import reference
from tests.judged import told


def weighted(q, k, v, score):
    weights = score(q @ k.mT / q.size(-1) ** 0.5).softmax(-1)
    return weights @ v, weights


def hidden_made_large(q, k, v, mask=None):
    return weighted(q, k, v, lambda scores: scores if mask is None else scores.masked_fill(~mask, 1e9))


def hidden_less_one(q, k, v, mask=None):
    return weighted(q, k, v, lambda scores: scores if mask is None else scores - (~mask).to(scores))


def no_such_mask(q, k, v, mask=None):
    """The mask is used, and hides nothing."""
    return weighted(q, k, v, lambda scores: scores if mask is None else scores.masked_fill(mask == -1, -torch.inf))


def lost_rows_see_all(q, k, v, mask=None):
    """A row that is hidden as a whole is as if nothing were hidden."""
    return weighted(q, k, v, lambda scores: scores if mask is None else scores + (~mask.mT) * -1e9)


class MeansDivided(reference.MultiHeadSelfAttention):
    def forward(self, x, mask=None):
        q, k, v = (m(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for m in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.mT if mask is None else (q @ k.mT).masked_fill(~mask, -torch.inf)
        return self.w_o((scores.softmax(-1) @ v / q.size(-1) ** 0.5).transpose(1, 2).flatten(2))


class PartsViewed(nn.Module):
    """Nothing is transposed; the three parts lie side by side in memory."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.qkv, self.out, self.n_heads = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model), n_heads

    def forward(self, x, mask=None):
        batch, tokens, _ = x.shape
        parts = (part.view(batch, self.n_heads, tokens, -1) for part in self.qkv(x).chunk(3, -1))
        output, _ = reference.scaled_dot_product_attention(*parts, mask)
        return self.out(output.transpose(1, 2).reshape(x.shape))


def squares(images, side, rows, columns):
    batch, channels = images.shape[:2]
    cut = images.reshape(batch, channels, rows, side, columns, side)
    return cut.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, -1)


def counted_along_the_width(images, patch_size):
    return squares(images, patch_size, *[images.size(3) // patch_size] * 2)


def far_apart(images, patch_size):
    """No axis is split."""
    rows, columns = images.size(2) // patch_size, images.size(3) // patch_size
    patches = [images[:, :, i::rows, j::columns].flatten(1) for i in range(rows) for j in range(columns)]
    return torch.stack(patches, 1)


def probabilities(logits, top_p, softmax):
    left = softmax(logits)
    if top_p < 1:
        falling, order = left.sort(-1, True)
        cut = falling.cumsum(-1) - falling >= top_p
        left = left.masked_fill(torch.zeros_like(cut).scatter(1, order, cut), 0)
    return left


def one_less_by_topk(logits, temperature=1.0, top_k=None, top_p=1.0):
    """No comparison."""
    warm = logits / temperature
    if top_k is not None:
        few = warm.topk(min(top_k, warm.size(-1)) - 1).indices
        warm = warm.masked_fill(~torch.zeros_like(warm).scatter(1, few, 1.0).bool(), -torch.inf)
    left = probabilities(warm, top_p, lambda scores: scores.softmax(-1))
    return left / left.sum(-1, keepdim=True)


def over_the_batch(logits, temperature=1.0, top_k=None, top_p=1.0):
    """Then each row is made to sum to 1, and no column does."""
    warm = logits / temperature
    if top_k is not None:
        warm = warm.masked_fill(warm < warm.topk(min(top_k, warm.size(-1))).values[:, -1:], -torch.inf)
    left = probabilities(warm, top_p, lambda scores: scores.softmax(0))
    return left / left.sum(-1, keepdim=True)


def clamped(logits, ids):
    chosen = logits[:, :-1].softmax(-1).clamp(min=1e-9).log().gather(-1, ids[:, 1:, None])
    return -chosen.mean()


def one_speed(n_tokens, d_model):
    """No exponent at all."""
    angles = torch.arange(n_tokens).double()[:, None].expand(-1, (d_model + 1) // 2)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :d_model]


class EpsilonAsATensor(nn.Module):
    """A number hangs on the module, and β is missing."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.eps = nn.Parameter(torch.ones(d_model)), torch.tensor(eps)

    def forward(self, x):
        return self.gamma * (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + self.eps).sqrt()


class UnusedShift(reference.RMSNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.beta = nn.Parameter(torch.zeros(d_model))


class BesideTheFeatures(reference.ViT):
    """[class] is repeated, and then put beside the features."""

    def forward(self, images):
        x = self.embed(images)
        return torch.cat([self.class_token.expand(len(x), -1, -1), x], -1)


def at_the_first_weights(weights, images, labels, learning_rate, batch_size):
    """A step for each batch, with gradients that are all taken before the first."""
    start, losses = weights.clone().requires_grad_(), []
    for rows in torch.arange(len(images)).split(batch_size):
        losses.append(nn.functional.cross_entropy(images[rows] @ start, labels[rows]))
        weights = weights - learning_rate * torch.autograd.grad(losses[-1], start)[0]
    return weights, torch.stack(losses).detach()


@pytest.mark.parametrize(
    ("name", "answer", "title", "untrue"),
    [
        (
            "scaled_dot_product_attention",
            hidden_made_large,
            "hidden scores made the largest",
            "the softmax of infinity is NaN",
        ),
        ("scaled_dot_product_attention", hidden_less_one, "the mask is added to the scores", "rises"),
        ("scaled_dot_product_attention", no_such_mask, "the mask has no effect", ": it is not used"),
        ("scaled_dot_product_attention", lost_rows_see_all, "the mask is applied to the queries", "alike"),
        ("MultiHeadSelfAttention", MeansDivided, "scaled after the softmax", "each row sums to 1/"),
        ("MultiHeadSelfAttention", PartsViewed, "a `view` against the order of memory", "transposed memory"),
        ("patchify", counted_along_the_width, "the image is assumed to be square", "along the height"),
        ("patchify", far_apart, "the pixels of a patch lie far apart", "split in two"),
        ("next_probabilities", one_less_by_topk, "one token too few is kept", "comparison"),
        ("next_probabilities", over_the_batch, "the softmax runs over the batch", "The columns sum to 1"),
        ("shifted_cross_entropy", clamped, "the logarithm of a probability that has become 0", "added"),
        ("sinusoidal_encoding", one_speed, "all columns have the same frequency", "Print the exponents"),
        ("train_one_pass", at_the_first_weights, "all batches make one step", "collected"),
        ("LayerNorm", EpsilonAsATensor, "β is not used", "hangs on the module"),
        ("RMSNorm", UnusedShift, "a shift that RMSNorm does not have", "which is added"),
        ("ViT", BesideTheFeatures, "", "is not repeated for every image"),
    ],
)
def test_a_mistake_is_told_as_what_all_code_that_makes_it_does(name: str, answer: Any, title: str, untrue: str) -> None:
    text = told(name, answer)
    assert f"Recognised: {title}\n" in text or not title, text
    assert untrue not in text, text
