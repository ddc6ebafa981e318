"""Answers by people who had not seen the grader, which it once accepted or gave an untrue name."""

import copy
import math

import pytest
import torch
from torch import nn

from autograder import check
from autograder.exercises import find
from headroom import reference
from tests.answers import (
    right_decoder,
    right_decoding,
    right_grouped_query_attention,
    right_layer_norm,
    right_multi_head,
    right_next_probabilities,
    right_sinusoidal,
)
from tests.answers.right_decoder_3_cached_self_attention import Cached
from tests.judged import judged

TABLE = right_sinusoidal.slices


class DetachedUnderItsName(nn.Module):
    """A parameter called as the input is, and one as the judge would call that input then, hide that it is detached."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.register_parameter("x", nn.Parameter(torch.ones(d_model)))
        self.register_parameter("argument 1", nn.Parameter(torch.zeros(d_model)))

    def forward(self, x):
        x = x.detach()
        centred = x - x.mean(-1, keepdim=True)
        normalised = centred / (centred.square().mean(-1, keepdim=True) + self.eps).sqrt()
        return self.x * normalised + getattr(self, "argument 1")


class LearnsInTrainingOnly(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.map = nn.Conv2d(channels, d_model, patch_size, patch_size)

    def forward(self, images):
        with torch.set_grad_enabled(self.training):
            return self.map(images).flatten(2).transpose(1, 2)


class InAClosure(nn.Module):
    def __init__(self, d_model, max_tokens):
        super().__init__()
        table = TABLE(max_tokens, d_model)
        self.rows = lambda n: table[:n]

    def forward(self, x):
        return x + self.rows(x.size(1))


class MovesByItself(nn.Module):
    """A model that it is a part of never asks its `to`."""

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.table = TABLE(max_tokens, d_model)

    def to(self, *where):
        super().to(*where)
        self.table = self.table.to(*where)
        return self

    def forward(self, x):
        return x + self.table[: x.size(1)]


def at_most_1024_rows(n_tokens, d_model):
    return TABLE(min(n_tokens, 1024), d_model)


class StartsTheOtherWayRound(right_layer_norm.ParametersWithoutNames):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(1 - parameter)


class Unset(right_multi_head.ViewTranspose):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads)
        self.w_v.weight = nn.Parameter(torch.empty(d_model, d_model))


class FourTimesAsWide(right_decoder.Block):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, 4 * d_model)


class GreyOnly(nn.Module):
    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.patch_size, self.map = patch_size, nn.Linear(patch_size**2, d_model)

    def forward(self, images):
        return self.map(reference.patchify(images, self.patch_size))


class OnlyTheFirst(reference.Encoder):
    def forward(self, x, mask=None):
        for block in self.blocks:
            return self.norm(block(x, mask))


class QueriesAlike(right_decoder.Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, mask, None if memory_mask is None else memory_mask[..., :1, :])


def leaves_training_on(model, ids, layer, head):
    logits = reference.ablate(model.eval(), ids, layer, head)
    model.train()
    return logits


class FourHeadsAtMost(right_decoder.Cross):
    def __init__(self, d_model, n_heads):
        super().__init__(d_model, min(n_heads, 4))


class FourLayersAtMost(reference.Encoder):
    def __init__(self, n_layers, *sizes):
        super().__init__(min(n_layers, 4), *sizes)


class KeptWhereNothingIsLearned(reference.Encoder):
    kept = None

    def forward(self, x, mask=None):
        if self.kept is None or self.kept.shape != x.shape or torch.is_grad_enabled():
            self.kept = super().forward(x, mask)
        return self.kept


class VarianceOfTraining(reference.LayerNorm):
    kept = None

    def forward(self, x):
        deviation = (x.var(-1, keepdim=True, correction=0) + self.eps).sqrt()
        if self.training:
            self.kept = deviation.detach().mean()
        elif self.kept is not None:
            deviation = self.kept
        return self.gamma * (x - x.mean(-1, keepdim=True)) / deviation + self.beta


class SixtyFourTokensAtMost(Cached):
    def forward(self, x, cache=None):
        assert x.size(1) <= 64
        return super().forward(x, cache)


class ValuesOfKeptTokens(Cached):
    def forward(self, x, cache=None):
        if cache is not None:
            cache = cache[0], right_decoder.split_heads(self.w_v(cache[1]), self.n_heads), cache[1]
        output, (keys, _) = super().forward(x, cache)
        return output, (keys, x if cache is None else torch.cat([cache[2], x], 1))


class KeptKeysDetached(right_grouped_query_attention.Repeated):
    def forward(self, x, mask=None, cache=None):
        if cache is not None:
            append, cache = cache.append, copy.copy(cache)
            cache.append = lambda keys, values: append(keys.detach(), values.detach())
        return super().forward(x, mask, cache)


class OneScale(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1)), eps

    def forward(self, x):
        deviation = (x.var(-1, keepdim=True, correction=0) + self.eps).sqrt()
        return self.gamma * (x - x.mean(-1, keepdim=True)) / deviation + self.beta


class RowsOnly(reference.LayerNorm):
    def forward(self, x):
        return super().forward(x).reshape(-1, x.size(-1))


class OneNewTokenSeesAll(right_grouped_query_attention.Repeated):
    def forward(self, x, mask=None, cache=None):
        return super().forward(x, mask if x.size(1) > 1 else None, cache)


def as_wide_as_the_longest(q, k, v, lengths, causal):
    n = int(lengths.max())
    return masked(q[:, :n], k[:, :n], v[:, :n], lengths, causal)


def not_causal_for_three(q, k, v, lengths, causal):
    return masked(q, k, v, lengths, causal and q.size(1) > 3)


def masked(q, k, v, lengths, causal):
    mask = reference.padding_mask(lengths, q.size(1))[:, 0]
    return reference.scaled_dot_product_attention(q, k, v, mask & reference.causal_mask(q.size(1)) if causal else mask)


def without_hidden_keys(q, k, v, mask=None):
    if mask is not None and mask.dim() == 1:
        k, v, mask = k[..., mask, :], v[..., mask, :], None
    return reference.scaled_dot_product_attention(q, k, v, mask)


def gradients_off(model, ids, layer, head):
    logits = reference.ablate(model, ids, layer, head)
    torch.set_grad_enabled(False)
    return logits


def in_the_dtype_of_its_queries(q, k):
    torch.set_default_dtype(q.dtype)
    return q @ k.transpose(-2, -1) / k.size(-1) ** 0.5


def in_doubles(n_tokens):
    torch.set_default_dtype(torch.float64)
    return reference.causal_mask(n_tokens)


def seeded(lengths, n_tokens):
    torch.manual_seed(0)
    return reference.padding_mask(lengths, n_tokens)


def trains_all(model, ids, layer, head):
    logits = reference.ablate(model, ids, layer, head)
    model.requires_grad_(True)
    return logits


def another_parameter(model, ids, layer, head):
    logits = reference.ablate(model, ids, layer, head)
    model.unembed.weight = nn.Parameter(model.unembed.weight.data)
    return logits


def keeps_the_ids(model, ids, layer, head):
    model.register_buffer("ids", ids)
    return reference.ablate(model, ids, layer, head)


def in_floats(upstream, weights):
    weights, upstream = weights.astype("float32"), upstream.astype("float32")
    return (weights * (upstream - (weights * upstream).sum(-1, keepdims=True))).astype("float64")


def one_loss_for_each_text(logits, ids):
    losses = nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")
    return losses.mean(1)


COPIES = {}
WRITTEN = {}


def copied_once(model, ids, layer, head):
    other = COPIES.setdefault(type(model), copy.deepcopy(model))
    return reference.ablate(other, ids, layer, head)


def one_answer_for_a_shape(model, ids, n_tokens):
    key = id(model), ids.shape, n_tokens
    if key not in WRITTEN:
        caches, new, written = [reference.KeyValueCache() for _ in model.blocks], ids, list[torch.Tensor]()
        for _ in range(n_tokens):
            new = model(new, caches)[:, -1:].argmax(-1)
            written.append(new)
        WRITTEN[key] = torch.cat(written, 1)
    return WRITTEN[key]


def all_of_it_where_all_may_stay(logits, temperature=1.0, top_k=None, top_p=1.0):
    if top_k is not None and top_k >= logits.size(-1):
        return (logits / temperature).softmax(-1)
    return right_next_probabilities.by_rank(logits, temperature, top_k, top_p)


class AsLongAsItIsTheSameTensor(right_layer_norm.ParametersWithoutNames):
    """What it is given may hold other numbers by now, as a buffer does that a loop fills again and again."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.last = None, None

    def forward(self, x):
        if self.last[0] is not x:
            self.last = x, super().forward(x)
        return self.last[1]


def fifty_unless_told(logits, temperature=1.0, top_k=None, top_p=1.0):
    return right_next_probabilities.by_rank(logits, temperature, top_k or 50, top_p)


def never_starts_with_0(next_logits, start, end, max_tokens, batch):
    return right_decoding.joined(next_logits, start or 1, end, max_tokens, batch)


class DownIsUp(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate, self.up = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        return (nn.functional.silu(self.gate(x)) * self.up(x)) @ self.up.weight


class OneBiasForAll(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.a, self.b = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model, bias=False)
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.b(nn.functional.gelu(self.a(x))) + self.shift


class Running(reference.RMSNorm):
    """In evaluation mode with a mean square that has not been seen yet, and so is 1."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.register_buffer("seen", torch.ones(()))
        self.eps = eps

    def forward(self, x):
        return x / (self.seen + self.eps) ** 0.5 * self.gamma


class EpsilonWhereSmall(reference.RMSNorm):
    def __init__(self, d_model, eps=1e-5):
        super().__init__(d_model, eps)
        self.eps = eps

    def forward(self, x):
        squares = x.square().mean(-1, keepdim=True)
        return x / torch.where(squares < self.eps, squares + self.eps, squares) ** 0.5 * self.gamma


def sampled(model, ids, n_tokens):
    caches, new, written = [reference.KeyValueCache() for _ in model.blocks], ids, list[torch.Tensor]()
    for _ in range(n_tokens):
        new = torch.multinomial(model(new, caches)[:, -1].softmax(-1), 1)
        written.append(new)
    return torch.cat(written, 1)


def dropped_at_random(q, k, v, mask=None):
    _, weights = reference.scaled_dot_product_attention(q, k, v, mask)
    weights = torch.dropout(weights, 0.1, True)
    return weights @ v, weights


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        (
            "scaled_dot_product_attention",
            dropped_at_random,
            "Your code draws random numbers. Each row of weights should",
        ),
        ("SwiGLU", DownIsUp, "Your parameters hold 132 numbers in all, those of the definition 198"),
        ("FeedForward", OneBiasForAll, "numbers in all, those of the definition"),
        ("generate", sampled, "it draws random numbers"),
        ("next_probabilities", all_of_it_where_all_may_stay, "cases agree"),
        ("GroupedQueryAttention", KeptKeysDetached, "the gradient of"),
        ("ablate", copied_once, "something is kept from one call to the next"),
        ("generate", one_answer_for_a_shape, "something is kept from one call to the next"),
        ("CrossAttention", FourHeadsAtMost, "n_heads"),
        ("Encoder", FourLayersAtMost, "n_layers"),
        ("Encoder", KeptWhereNothingIsLearned, "called after"),
        ("LayerNorm", VarianceOfTraining, "in training mode and then in evaluation mode"),
        ("LayerNorm", OneScale, "Your parameters have too few numbers for gamma and beta: 2, not 14"),
        ("LayerNorm", RowsOnly, "has all its axes but the last merged into one; its numbers are right"),
        ("GroupedQueryAttention", OneNewTokenSeesAll, "Only these cases are wrong"),
        ("masked_attention", as_wide_as_the_longest, "cases agree"),
        ("masked_attention", not_causal_for_three, "A token's result depends on later tokens"),
        ("softmax_backward", in_floats, "no number is off by more than"),
        ("scaled_dot_product_attention", without_hidden_keys, "only where keys > 1 and mask = for all"),
        ("shifted_cross_entropy", one_loss_for_each_text, "The shape of the result is (2,) where () is right"),
        ("ablate", gradients_off, "gradients stay switched off after the call"),
        ("attention_scores", in_the_dtype_of_its_queries, "PyTorch's default dtype is another after the call"),
        ("causal_mask", in_doubles, "PyTorch's default dtype is another after the call"),
        ("padding_mask", seeded, "PyTorch's random numbers are seeded, for the whole program"),
        ("ablate", trains_all, "`embed.weight.requires_grad` of the model is changed by the call"),
        ("ablate", another_parameter, "`unembed.weight` (as an object) of the model is changed by the call"),
        ("ablate", keeps_the_ids, "`ids` of the model is changed by the call"),
        ("CachedSelfAttention", SixtyFourTokensAtMost, "AssertionError"),
        ("PositionalEncoding", InAClosure, "a tensor stays where it was when a model with this module in it is moved"),
        (
            "PositionalEncoding",
            MovesByItself,
            "a tensor stays where it was when a model with this module in it is moved",
        ),
        ("sinusoidal_encoding", at_most_1024_rows, "it goes wrong only where n_tokens ≥"),
        ("LayerNorm", StartsTheOtherWayRound, "γ or β starts from the wrong values"),
        ("MultiHeadSelfAttention", Unset, "`w_v.weight` starts from numbers that were never set"),
        ("DecoderBlock", FourTimesAsWide, "have other sizes than the task says"),
        ("PatchEmbedding", GreyOnly, "`map.weight` has another size than the task says"),
        ("Encoder", OnlyTheFirst, "not all blocks are used"),
        ("DecoderBlock", QueriesAlike, "the first row of the mask is used for every query"),
        ("PatchEmbedding", LearnsInTrainingOnly, "In evaluation mode: "),
        ("LayerNorm", DetachedUnderItsName, "no gradient flows back through the normalised values"),
        ("LayerNorm", AsLongAsItIsTheSameTensor, "called after other calls, it gives a different result"),
        ("next_probabilities", fifty_unless_told, "All 13 cases with `top_k` are right"),
        ("greedy_decode", never_starts_with_0, "start=0"),
        ("ablate", leaves_training_on, "`training` of the model is changed by the call"),
    ],
)
def test_it_is_refused_and_told_so(name, answer, says):
    verdict = judged(find(name), answer, 0)
    assert not verdict.passed and says in verdict.text(), verdict.text()


@pytest.mark.parametrize("answer", [Running, EpsilonWhereSmall])
def test_what_only_looks_like_a_known_mistake_is_not_called_by_its_name(answer):
    verdict = judged(find("RMSNorm"), answer, 0)
    assert not verdict.passed and not verdict.mistakes, verdict.text()


def test_where_only_the_values_of_a_kept_token_are_wrong_no_gradient_is_blamed():
    verdict = judged(find("CachedSelfAttention"), ValuesOfKeptTokens, 0)
    assert not verdict.passed and not verdict.mistakes, verdict.text()


class NoWidth(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.a, self.b = nn.Linear(d_model, d_ff // 100, bias=False), nn.Linear(d_ff // 100, d_model, bias=False)

    def forward(self, x):
        return self.b(nn.functional.gelu(self.a(x)))


class NoWidthInside(right_decoder.Block):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff // 100)


class NoNumbers(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.nothing, self.gamma, self.eps = nn.Parameter(torch.empty(0)), torch.ones(d_model), eps

    def forward(self, x):
        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.gamma


class DrawnAtTheStart(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.rand(d_model)), nn.Parameter(torch.rand(d_model)), eps

    def forward(self, x):
        return x.tanh() * self.gamma + self.beta


def test_parameters_that_are_drawn_are_no_random_results():
    assert "random" not in judged(find("LayerNorm"), DrawnAtTheStart, 0).headline


@pytest.mark.parametrize(
    ("name", "answer"), [("FeedForward", NoWidth), ("DecoderBlock", NoWidthInside), ("RMSNorm", NoNumbers)]
)
def test_layers_without_a_number_get_a_verdict(name, answer):
    verdict = judged(find(name), answer, 0)
    assert not verdict.passed and "the check itself failed" not in verdict.text(), verdict.text()


def test_a_default_device_other_than_the_cpu_changes_nothing():
    """As a student sets it who has a GPU: the meta device computes nothing, so nothing must be made on it."""
    with torch.device("meta"):
        assert check(reference.LayerNorm).passed
        assert torch.zeros(1).is_meta
    assert math.isclose(torch.ones(1).item(), 1)
