"""What a verdict says beside a mistake's name, held against code of which it was once untrue."""

import functools
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

from autograder.exercises import find
from headroom import reference
from headroom.reference import KeyValueCache
from tests.answers import right_decoder
from tests.judged import judged


class InBatches(reference.LayerNorm):
    """Raises one error for a token alone and another for four axes."""

    def forward(self, x):
        _batch, _tokens, _d_model = x.shape
        return super().forward(x)


class LearnsItsEpsilon(nn.Module):
    """A third parameter, whose numbers are drawn as if it had a role."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.eps = nn.Parameter(torch.tensor([eps]))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.gamma * centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt() + self.beta


class NothingToLearnWhenEvaluated(reference.MultiHeadSelfAttention):
    def forward(self, x, mask=None):
        with torch.set_grad_enabled(self.training):
            return super().forward(x, mask)


class KeptByShape(reference.PatchEmbedding):
    """In evaluation mode other images of a shape get the tokens of the first ones."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.kept = {}

    def forward(self, images):
        if self.training:
            return super().forward(images)
        if images.shape not in self.kept:
            self.kept[images.shape] = super().forward(images)
        return self.kept[images.shape]


class ShareTheirScale(reference.LayerNorm):
    """Moved to float64, the first one moves all that are made after it."""

    scales: ClassVar[dict[int, nn.Parameter]] = {}

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.gamma = self.scales.setdefault(d_model, self.gamma)


class NormOfTwoAxes(reference.LayerNorm):
    """Right for two axes, and for one token of several texts; how many axes there are is what matters."""

    def forward(self, x):
        centred = x - x.mean(-1).unsqueeze(1)
        return self.gamma * centred / (x.var(-1, correction=0, keepdim=True) + self.eps).sqrt() + self.beta


class LearnsItsBias(reference.PatchEmbedding):
    def forward(self, images):
        patches = reference.patchify(images, self.patch_size)
        return nn.functional.linear(patches, self.projection.weight.detach(), self.projection.bias)


def nearly_a_softmax(q, k, v, mask=None):
    """Off by as much where scores are large, but where more is allowed."""
    scores = q @ k.mT / q.size(-1) ** 0.5
    shown = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    powers = (shown - shown.amax(-1, keepdim=True).clamp(min=-1e30)).exp()
    weights = powers / (powers.sum(-1, keepdim=True) + 1e-3)
    return weights @ v, weights


class NormAtTheEnd(right_decoder.Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return self.norm_3(super().forward(x, memory, mask, memory_mask))


class BiasBehindTheBend(reference.FeedForward):
    def forward(self, x):
        return self.shrink(nn.functional.gelu(x @ self.expand.weight.mT) + self.expand.bias)


def last_but_one(next_logits, start, end, max_tokens, batch):
    """Its results have one column too many, or two, or one too few, or are as wide as they should be."""
    tokens, done = torch.full((batch, 1), start), torch.zeros(batch, dtype=torch.bool)
    for _ in range(max_tokens):
        best = next_logits(tokens)[:, max(0, tokens.size(1) - 2)].argmax(-1).masked_fill(done, end)
        tokens, done = torch.cat([tokens, best[:, None]], 1), done | (best == end)
        if done.all():
            break
    return tokens[:, 1:]


def in_floats(next_logits, start, end, max_tokens, batch):
    return next_logits(torch.full((batch, 1), float(start)))[:, -1].argmax(-1)[:, None]


def one_cache_for_all(cache, model, ids, n_tokens):
    """It raises where the second text has another shape than the first, contiguous or not, in training or not."""
    cache += [KeyValueCache() for _ in model.blocks[len(cache) :]]
    new, written = ids, list[torch.Tensor]()
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1].argmax(dim=-1)[:, None]
        written.append(new)
    return torch.cat(written, dim=1)


def slowest_first(n_tokens, d_model):
    """Right for one token, whatever d_model is, and for one pair, however many tokens there are."""
    table = reference.sinusoidal_encoding(n_tokens, d_model)
    pairs = torch.arange(d_model - d_model % 2).view(-1, 2).flip(0).flatten()
    return table[:, torch.cat([pairs, torch.arange(len(pairs), d_model)])]


def rows_of_padding_too(q, k, v, lengths, causal):
    real = torch.arange(k.size(1)) < torch.as_tensor(lengths)[:, None]
    mask = real[:, None, :] & real[:, :, None]
    if causal:
        mask = mask & torch.ones(k.size(1), k.size(1), dtype=torch.bool).tril()
    weights = (q @ k.mT / k.size(-1) ** 0.5).masked_fill(~mask, -1e9).softmax(-1)
    return weights @ v, weights


def masks_of_two_axes_only(q, k, v, mask=None):
    return reference.scaled_dot_product_attention(q, k, v, mask if mask is not None and mask.dim() == 2 else None)


@pytest.mark.parametrize(
    ("name", "answer", "said", "unsaid"),
    [
        ("LayerNorm", InBatches, "raised errors, the first of them ValueError", "4 raised ValueError"),
        ("LayerNorm", LearnsItsEpsilon, "Your parameters hold", "twice as large"),
        ("MultiHeadSelfAttention", NothingToLearnWhenEvaluated, "", "in training mode the gradient"),
        ("PatchEmbedding", KeptByShape, "called again after other calls, it gives a different result", "got something"),
        ("greedy_decode", last_but_one, "The shape of the result is", "along its last axis"),
        ("greedy_decode", in_floats, "it got floating-point numbers", "float64"),
        ("generate", functools.partial(one_cache_for_all, []), "kept from one call to the next", "not contiguous"),
        ("generate", functools.partial(one_cache_for_all, []), "kept from one call to the next", "in training mode"),
        ("sinusoidal_encoding", slowest_first, "", "d_model ≥"),
        ("LayerNorm", ShareTheirScale, "objects that are built alike share `gamma`", "float64 out"),
        ("LayerNorm", NormOfTwoAxes, "the first of them RuntimeError", "and only there"),
        ("PatchEmbedding", LearnsItsBias, "no gradient reaches the weight of the map", "reaches the map"),
        ("scaled_dot_product_attention", nearly_a_softmax, "Each row of weights should sum to 1", "and only there"),
        ("DecoderBlock", NormAtTheEnd, "goes through what makes the third norm once more", "nearly every value"),
        ("FeedForward", BiasBehindTheBend, "the bias of the first map is added to the bent features", "nearly every"),
        ("scaled_dot_product_attention", masks_of_two_axes_only, "", "not change the result."),
        ("masked_attention", rows_of_padding_too, 'weight 0, in the cases of "no query sees padding', "weight 0 ·"),
    ],
)
def test_what_is_said_is_true_of_all_that_was_tried(name: str, answer: Any, said: str, unsaid: str) -> None:
    verdict = judged(find(name), answer, 1)
    text = verdict.text()
    assert not verdict.passed
    assert said in text and unsaid not in text, text
    assert "Also checked: ✓" not in text and " · ✓" not in text, "what holds of some cases is no property"


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "bfloat16"])
def test_a_dtype_is_called_as_the_answer_has_it(dtype: str) -> None:
    """Also one that does not cross from the probe to the judge, where another stands for it."""
    kind = getattr(torch, dtype)
    answer = functools.partial(lambda kind, *given: reference.padding_mask(*given).to(kind), kind)
    assert f"expected bool, got {dtype}\n" in judged(find("padding_mask"), answer, 1).text() + "\n"
