"""What a verdict says beside a mistake's name, held against code of which it was once untrue."""

import functools
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from autograder.exercises import find
from headroom import reference
from headroom.reference import KeyValueCache
from tests.answers import right_decoder, right_generate, right_grouped_query_attention, right_heads, wrong_layouts
from tests.judged import judged, told


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


def other_frequencies(n_tokens, d_model):
    """Right where the angle is the position, so that the first row is not the only thing that is."""
    angles = torch.arange(n_tokens)[:, None] * 0.37 ** torch.arange((d_model + 1) // 2)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :d_model]


def rows_of_padding_too(q, k, v, lengths, causal):
    real = torch.arange(k.size(1)) < torch.as_tensor(lengths)[:, None]
    mask = real[:, None, :] & real[:, :, None]
    if causal:
        mask = mask & torch.ones(k.size(1), k.size(1), dtype=torch.bool).tril()
    weights = (q @ k.mT / k.size(-1) ** 0.5).masked_fill(~mask, -1e9).softmax(-1)
    return weights @ v, weights


class MeanOverTokens(reference.RMSNorm):
    def forward(self, x):
        count = x.shape[1] if x.dim() == 3 else x.shape[-1]
        return self.gamma * x / (x.square().sum(-1, keepdim=True) / count + self.eps).sqrt()


class SixtyFourTokens(reference.FeedForward):
    """With more it is wrong, and with any number from the fourth call on."""

    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * (1 + (x.dim() == 3 and x.size(1) > 64)) + (self.calls > 3)


class GateOfTheTokenBefore(reference.SwiGLU):
    def forward(self, x):
        gate = self.gate(x)
        gate = gate.roll(1, -2) if x.dim() > 1 else gate
        return self.down(nn.functional.silu(gate) * self.up(x))


def squares(images, size):
    cut = images.unfold(2, size, size).unfold(3, size, size).permute(0, 2, 3, 1, 4, 5)
    return cut.flatten(3).flatten(1, 2)


def without_a_batch_of_one(images, patch_size):
    return squares(images, patch_size).squeeze(0)


def one_order_for_each_size(images, patch_size, *, orders={}):  # noqa: B006  # the dict is the mistake
    numbers = torch.arange(float(images[0].numel())).view(1, *images.shape[1:])
    order = orders.setdefault(patch_size, squares(numbers, patch_size)[0].long())
    return images.flatten(1)[:, order]


def loss_of(logits, tokens, pad):
    return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten(), ignore_index=pad)


def perplexity(logits, tokens, pad):
    return loss_of(logits[:, :-1], tokens[:, 1:], pad).exp()


def without_the_last_question(logits, tokens, pad):
    last = -1 if tokens.size(1) > 2 else tokens.size(1)
    return loss_of(logits[:, :-1][:, :last], tokens[:, 1:][:, :last], pad)


def no_row_for_id_0(table, ids, start=0):
    positions = reference.sinusoidal_encoding(start + ids.size(1), table.size(1))[start:]
    return (table[ids] * table.size(1) ** 0.5).masked_fill((ids == 0)[..., None], 0) + positions


class WithoutACausalMask(reference.EncoderBlock):
    def forward(self, x, mask=None):
        return super().forward(x, mask if mask is not None and mask.size(2) == 1 else None)


class EpsilonBesideTheRoot(reference.LayerNorm):
    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        return self.gamma * centred / (centred.square().mean(-1, keepdim=True).sqrt() + self.eps) + self.beta


class NormsOfTheirOwn(reference.EncoderBlock):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.norm_1, self.norm_2 = EpsilonBesideTheRoot(d_model), EpsilonBesideTheRoot(d_model)


class SortedAsText(reference.Encoder):
    def forward(self, x, mask=None):
        for _, block in sorted(self.blocks.named_children()):
            x = block(x, mask)
        return self.norm(x)


class InAList(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.block = [reference.EncoderBlock(d_model, n_heads, d_ff)]

    def forward(self, x, mask=None):
        return self.block[0](x, mask)


def masks_of_two_axes_only(q, k, v, mask=None):
    return reference.scaled_dot_product_attention(q, k, v, mask if mask is not None and mask.dim() == 2 else None)


def only_itself(n_tokens):
    return torch.eye(n_tokens, dtype=torch.bool)


def longest_first(lengths, n_tokens):
    return reference.padding_mask(lengths.sort(descending=True).values, n_tokens)


def at_least_one(lengths, n_tokens):
    return reference.padding_mask(lengths.clamp(min=1), n_tokens)


class SourceCutOff(right_decoder.Block):
    """A source longer than the target loses its end."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        seen = slice(x.size(1))
        return super().forward(x, memory[:, seen], mask, None if memory_mask is None else memory_mask[..., seen])


class OnlyTheLastBlock(reference.ViT):
    def forward(self, images):
        x = self.embed(images)
        x = self.positions(torch.cat([self.class_token.expand(len(x), -1, -1), x], 1))
        for block in self.encoder.blocks:
            last = block(x)
        return self.head(self.encoder.norm(last)[:, 0])


def up_to_50(q, k, v, mask=None):
    scores = (q @ k.mT / q.size(-1) ** 0.5).clamp(max=50)
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    return weights @ v, weights


def loss_in_bfloat16(logits, ids):
    return reference.cross_entropy(logits[:, :-1].bfloat16(), ids[:, 1:]).to(logits)


def angles_in_half(n_tokens, d_model):
    angles = torch.arange(n_tokens)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    angles = angles.half().double()
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :d_model]


def first_token_never_ends(next_logits, start, end, max_tokens, batch):
    tokens, ended = torch.full((batch, 1), start), torch.zeros(batch, dtype=torch.bool)
    while tokens.size(1) <= max_tokens and not ended.all():
        best = next_logits(tokens)[:, -1].argmax(-1).masked_fill(ended, end)
        ended = ended | ((best == end) & (tokens.size(1) > 1))
        tokens = torch.cat([tokens, best[:, None]], 1)
    return tokens[:, 1:]


def one_mean_of_losses(weights, images, labels, learning_rate, batch_size):
    losses = []
    for rows in torch.arange(len(images)).split(batch_size):
        weights = weights.detach().requires_grad_()
        losses.append(nn.functional.cross_entropy(images[rows] @ weights, labels[rows]))
        weights = weights - learning_rate * torch.autograd.grad(losses[-1], weights)[0]
    return weights.detach(), torch.stack(losses).detach().mean()


def first_layer(model, ids, donor_ids, layer, head):
    return right_heads.walked(model, ids, donor_ids, 0, head)


def columns_cleared(model, ids, donor_ids, layer, head):
    logits, maps = right_heads.walked(model, ids, donor_ids, layer, head), model.blocks[layer].attention
    d_head = maps.w_o.in_features // maps.n_heads
    with torch.no_grad():
        maps.w_o.weight[:, head * d_head : (head + 1) * d_head] = 0
    return logits


def causal_without_padding(q, k, v, lengths, causal):
    mask = reference.padding_mask(lengths, q.size(1))[:, 0]
    if causal and mask.all():
        mask = mask & reference.causal_mask(q.size(1))
    return reference.scaled_dot_product_attention(q, k, v, mask)


class QueriesKept(right_grouped_query_attention.Repeated):
    """Each call returns a row for every token so far."""

    def __init__(self, d_model, n_heads):
        super().__init__(d_model, n_heads, n_heads)

    def forward(self, x, cache=None):
        x = x if cache is None else torch.cat([cache, x], 1)
        return super().forward(x, reference.causal_mask(x.size(1))), x


class NewOnesFirst(right_grouped_query_attention.Repeated):
    """Puts new tokens in front of the earlier ones, past the cache's own method."""

    def forward(self, x, mask=None, cache=None):
        q, k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        if cache is not None:
            k, v = torch.cat([k, cache.keys], 2), torch.cat([v, cache.values], 2)
            cache.keys, cache.values = k, v
        k, v = (t.repeat_interleave(self.n_shared, dim=1) for t in (k, v))
        return self.w_o(right_grouped_query_attention.attention(q, k, v, mask)[0].transpose(1, 2).flatten(2))


class ZeroedAfterwards(right_grouped_query_attention.Repeated):
    """Hides keys after the softmax."""

    def forward(self, x, mask=None, cache=None):
        q, k, v = (w(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        k, v = (k, v) if cache is None else cache.append(k, v)
        k, v = (t.repeat_interleave(self.n_shared, dim=1) for t in (k, v))
        _, weights = right_grouped_query_attention.attention(q, k, v)
        return self.w_o(((weights if mask is None else weights * mask) @ v).transpose(1, 2).flatten(2))


def floating_ids(model, ids, n_tokens):
    return right_generate.appended(model, ids, n_tokens).double()


def last_one_read_too(model, ids, n_tokens):
    cache, new, written = [KeyValueCache() for _ in model.blocks], ids, []
    for _ in range(n_tokens):
        new = model(new, cache)[:, -1].argmax(-1, keepdim=True)
        written.append(new)
    model(new, cache)
    return torch.cat(written, 1)


def all_for_a_top_k_of_1(logits, temperature=1.0, top_k=None, top_p=1.0):
    """With a `top_k` of 1, scaling the logits changes nothing; with others it does, in right code too."""
    return reference.next_probabilities(logits, temperature, None if top_k == 1 else top_k, top_p)


def as_likely_as_the_likeliest(logits, temperature=1.0, top_k=None, top_p=1.0):
    """How many values are off depends on the logits."""
    p = reference.next_probabilities(logits, temperature, top_k)
    kept = p * (p >= (1 - top_p) * p.amax(-1, keepdim=True)) if top_p < 1 else p
    return kept / kept.sum(-1, keepdim=True)


def dropped_out(q, k):
    """PyTorch's random numbers: the same at each of the probe's calls, and others where q lies otherwise in memory."""
    return nn.functional.dropout(q, 0.1) @ k.mT / q.shape[-1] ** 0.5


def drawn_by_numpy(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5 + 0.1 * float(np.random.normal())


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "answer", "said", "unsaid"),
    [
        ("LayerNorm", InBatches, "raised errors, the first of them ValueError", "4 raised ValueError"),
        ("LayerNorm", LearnsItsEpsilon, "Your parameters hold", "twice as large"),
        ("MultiHeadSelfAttention", NothingToLearnWhenEvaluated, "", "in training mode the gradient"),
        ("PatchEmbedding", KeptByShape, "called after other calls, it gives a different result", "got something"),
        ("greedy_decode", last_but_one, "The shape of the result is", "along its last axis"),
        ("greedy_decode", in_floats, "it got floating-point numbers", "float64"),
        ("generate", functools.partial(one_cache_for_all, []), "kept from one call to the next", "not contiguous"),
        ("generate", functools.partial(one_cache_for_all, []), "kept from one call to the next", "in training mode"),
        ("sinusoidal_encoding", slowest_first, "", "d_model ≥"),
        ("LayerNorm", ShareTheirScale, "objects that are built alike share `gamma`", "float64 out"),
        ("LayerNorm", NormOfTwoAxes, "the first of them RuntimeError", "only where"),
        ("PatchEmbedding", LearnsItsBias, "no gradient reaches the weight of the map", "reaches the map"),
        ("scaled_dot_product_attention", nearly_a_softmax, "Each row of weights should sum to 1", "only where"),
        ("DecoderBlock", NormAtTheEnd, "goes through what makes the third norm once more", "nearly every value"),
        ("FeedForward", BiasBehindTheBend, "the bias of the first map is added to the bent features", "nearly every"),
        ("scaled_dot_product_attention", masks_of_two_axes_only, "", "not change the result."),
        (
            "RMSNorm",
            MeanOverTokens,
            "tried for an input of 3 axes, it goes wrong only where tokens ≠ d_model",
            "sizes that were tried,",
        ),
        ("FeedForward", SixtyFourTokens, "it goes wrong where tokens ≥ 65; ", "only where"),
        ("SwiGLU", GateOfTheTokenBefore, "computes the numbers of W_gate x, its SiLU and W_up x", "as it should"),
        ("patchify", without_a_batch_of_one, "lacks its first axis where that has length 1", "merged"),
        ("patchify", one_order_for_each_size, "cases agree at every call", "cases agree\n"),
        ("sequence_loss", perplexity, "the result is exponentiated", "every value is off"),
        ("sequence_loss", without_the_last_question, "no gradient reaches `logits[..., -2, :]`", "every value is off"),
        ("embed_tokens", no_row_for_id_0, "no gradient reaches `table[..., 0, :]`", ""),
        ("EncoderBlock", WithoutACausalMask, "depends on later tokens", "last row of the mask"),
        ("EncoderBlock", NormsOfTheirOwn, "adds ε to the deviation, outside the root", "with it are not"),
        ("Encoder", SortedAsText, "Only these cases are wrong: 11 layers", "with it are not"),
        ("EncoderBlock", InAList, "all parameters – as if `", "were registered"),
        ("sinusoidal_encoding", other_frequencies, "only `[..., 0, :]` is right as a whole", "is right."),
        ("causal_mask", only_itself, "In effect: the mask is made with a comparison with ==", "Recognised"),
        ("padding_mask", longest_first, "its rows are the right ones in another order", "less than half"),
        ("padding_mask", at_least_one, "Only these cases are wrong: lengths [6, 0, 3, 1]", "Of all sizes"),
        ("DecoderBlock", SourceCutOff, "Reordering the tokens of `memory` should not change", "When the tokens are"),
        ("ViT", OnlyTheLastBlock, "and all parameters – in the cases that agree", "registered and learned"),
        ("scaled_dot_product_attention", up_to_50, "only where keys > 1 and scores are of ±10³", "weights go"),
        ("shifted_cross_entropy", loss_in_bfloat16, "of the largest value at most", "nothing depends on"),
        ("sinusoidal_encoding", angles_in_half, "off, by 0.03 of the largest value at most", "40 of 48"),
        ("greedy_decode", first_token_never_ends, "The shape of the result is (3, 8) where", "of its values are off"),
        ("train_one_pass", one_mean_of_losses, "The losses lack the first axis of the right one", "lacks"),
        ("next_probabilities", all_for_a_top_k_of_1, "but is not (tried with `top_k` = 1).", "but is not."),
        ("next_probabilities", as_likely_as_the_likeliest, "goes wrong only where `top_p` < 1, in", "of its values"),
        ("attention_scores", dropped_out, "different results: it draws random numbers", "not contiguous"),
        ("attention_scores", drawn_by_numpy, "called again and again, it gives different results", "something is kept"),
        ("masked_attention", rows_of_padding_too, 'weight 0, in the cases of "no query sees padding', "weight 0 ·"),
        ("masked_attention", causal_without_padding, "depends on later tokens", "In effect"),
        ("patch", first_layer, "it goes wrong only where layer > 0.", "layer = last"),
        ("patch", columns_cleared, "cases agree, but see what is recognised", "all results are right"),
        (
            "EncoderBlock",
            wrong_layouts.NormsInOneTable,
            "are norm_1.gamma, norm_1.beta, norm_2.gamma",
            "First difference",
        ),
        (
            "EncoderBlock",
            wrong_layouts.NormsInATable,
            "made with a normalisation by the unbiased variance",
            "I cannot tell",
        ),
        (
            "EncoderBlock",
            wrong_layouts.MapsInTheBlock,
            "the first norm and the second norm are made with a normalisation with an ε of 1e-6",
            "multiplied by d_model",
        ),
        ("EncoderBlock", wrong_layouts.HeadsInTheBlock, "the scores are divided by √d_model", "I cannot tell"),
        ("CachedSelfAttention", QueriesKept, "what all calls return, side by side, has shape", "a result has shape"),
        ("GroupedQueryAttention", NewOnesFirst, "float32 stays float32", "in float32 it raises"),
        ("GroupedQueryAttention", ZeroedAfterwards, "with it are not", "only where tokens > 1"),
        ("generate", floating_ids, "✓ 10 of 10 %  ids stays untouched", "what should be int64 is floating-point"),
        ("generate", last_one_read_too, "✓ 10 of 10 %  ids stays untouched", "3 raised ValueError"),
    ],
)
def test_what_is_said_is_true_of_all_that_was_tried(name: str, answer: Any, said: str, unsaid: str) -> None:
    text = told(name, answer)
    assert said in text and not (unsaid and unsaid in text), text
    assert "Also checked: ✓" not in text and " · ✓" not in text, "what holds of some cases is no property"


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float16", "bfloat16"])
def test_a_dtype_is_called_as_the_answer_has_it(dtype: str) -> None:
    """Also one that does not cross from the probe to the judge, where another stands for it."""
    kind = getattr(torch, dtype)
    answer = functools.partial(lambda kind, *given: reference.padding_mask(*given).to(kind), kind)
    assert f"expected bool, got {dtype}\n" in judged(find("padding_mask"), answer, 1).text() + "\n"
