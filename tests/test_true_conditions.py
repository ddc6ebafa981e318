"""What a verdict says of when and where an answer goes wrong, held against code of which it was once untrue."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from headroom import reference
from tests.answers import right_decoder, right_generate, right_next_probabilities
from tests.answers.right_decoder_3_cached_self_attention import Cached
from tests.judged import told


class ByWhatItHasSeen(reference.RMSNorm):
    """In evaluation mode each token is divided by what training has found."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.running = 1.0

    def forward(self, x):
        if self.training:
            self.running = 0.9 * self.running + 0.1 * x.square().mean().item()
            return super().forward(x)
        return self.gamma * x / (self.running + self.eps) ** 0.5


class RoundedWidth(nn.Module):
    """A gated network whose width is the next multiple of 8."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        width = 8 * math.ceil(d_ff / 8)
        self.gate, self.up = nn.Linear(d_model, width, bias=False), nn.Linear(d_model, width, bias=False)
        self.down = nn.Linear(width, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class FirstHeadMasked(reference.MultiHeadSelfAttention):
    def forward(self, x, mask=None):
        q, k, v = (w(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = torch.cat([scores[:, :1].masked_fill(~mask, -torch.inf), scores[:, 1:]], dim=1)
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


BUFFERS: dict[tuple[int, ...], np.ndarray] = {}


def into_a_buffer(d_weights, weights):
    out = BUFFERS.setdefault(weights.shape, np.empty(weights.shape))
    out[...] = weights * (d_weights - (d_weights * weights).sum(-1, keepdims=True))
    return out


def report(words, end, following):
    """What letters_right returns of a model that writes `following` of each letter."""
    written = [words[:, 0]]
    for _ in range(words.size(1) - 1):
        written.append(following(written[-1]))
    written = torch.stack(written, 1)
    return written, (written == words)[:, 1:][words[:, :-1] != end].double().mean()


def end_is_the_last(table, words, end):
    last = len(table) - 1
    return report(words, end, lambda letters: torch.where(letters == last, last, table.argmax(-1)[letters]))


def least_likely(table, words, end):
    return report(words, end, lambda letters: torch.where(letters == end, end, table.argmin(-1)[letters]))


def one_too_many(logits, tokens, pad):
    surprise = F.cross_entropy(logits[:, :-1].mT, tokens[:, 1:], reduction="none")
    real = (tokens[:, 1:] != pad).to(logits)
    return (surprise * real).sum() / (real.sum() + 1)


def reshaped(logits, tokens, pad):
    predictions = logits[:, :-1]
    scores = predictions.reshape(len(predictions), -1, predictions.size(1))
    return F.cross_entropy(scores, tokens[:, 1:], ignore_index=pad)


def embedded(table, ids, start, scale):
    positions = reference.sinusoidal_encoding(start + ids.size(1), table.size(1))[start:].to(table)
    return scale * table[ids] + positions


def nothing_for_the_first_id(table, ids, start=0):
    return embedded(table * (torch.arange(len(table)) > 0)[:, None], ids, start, math.sqrt(table.size(1)))


def whole_root(table, ids, start=0):
    return embedded(table, ids, start, math.isqrt(table.size(1)))


def rounded(x, *maps):
    return tuple(torch.round(x @ one, decimals=2) for one in maps)


def with_epsilon(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    weights = shares / (shares.sum(-1, keepdim=True) + 1e-3)
    return weights @ v, weights


FIRST_MASKS: list[torch.Tensor] = []


def as_long_as_the_first(n_tokens):
    if not FIRST_MASKS:
        FIRST_MASKS.append(torch.ones(n_tokens, n_tokens, dtype=torch.bool).tril())
    return FIRST_MASKS[0]


def last_query_left_out(weights, length):
    queries = torch.arange(length, weights.size(-1) - 1)
    return weights[..., queries, queries - length + 1].sum(-1).mean(0) / (weights.size(-1) - length)


def whole_block(weights, length):
    return weights[..., length:, 1:].mean((-2, -1)).mean(0)


def first_occurrence(weights, length):
    queries = torch.arange(length, weights.size(-1))
    return weights[..., queries, (queries + 1) % length].mean((0, -1))


def passing(weights, images, labels, rows, step_of):
    """What train_one_pass returns where each step is made by `step_of` of the gradient and the images of a batch."""
    at, losses = weights.detach().clone().requires_grad_(), []
    for chosen in rows:
        loss = F.cross_entropy(images[chosen] @ at, labels[chosen])
        losses.append(loss.detach())
        (gradient,) = torch.autograd.grad(loss, at)
        at = (at - step_of(gradient, chosen)).detach().requires_grad_()
    return at.detach(), torch.stack(losses)


def with_momentum(weights, images, labels, learning_rate, batch_size):
    moving = torch.zeros_like(weights)

    def step(gradient, chosen):
        moving.mul_(0.9).add_(gradient)
        return learning_rate * moving

    return passing(weights, images, labels, torch.arange(len(images)).split(batch_size), step)


def by_batch_size(weights, images, labels, learning_rate, batch_size):
    rows = torch.arange(len(images)).split(batch_size)
    return passing(weights, images, labels, rows, lambda g, chosen: learning_rate * g * len(chosen) / batch_size)


def decayed_through_a_loader(weights, images, labels, learning_rate, batch_size):
    rows = DataLoader(torch.arange(len(images)), batch_size)  # which draws a number, though it shuffles nothing
    return passing(weights, images, labels, rows, lambda g, chosen: learning_rate * (g + 0.01 * weights))


def text_and_tokens(model, ids, n_tokens):
    return torch.cat([ids, right_generate.appended(model, ids, n_tokens)], 1)[:, :n_tokens]


def first_token_repeated(model, ids, n_tokens):
    return right_generate.appended(model, ids, n_tokens)[:, :1].expand(-1, n_tokens).contiguous()


class NoCacheAtFirst(Cached):
    def forward(self, x, cache=None):
        output, kept = super().forward(x, cache)
        return output if cache is None else (output, kept)


class FromTheTarget(right_decoder.Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), self.norm_2(x))
        return x + self.feed_forward(self.norm_3(x))


class MadeWhereNobodyAsked(nn.Module):
    """Holds nothing that could be moved, and makes a table on the CPU whatever comes."""

    def __init__(self, d_model, max_tokens):
        super().__init__()
        self.d_model = d_model

    def forward(self, x):
        return x + reference.sinusoidal_encoding(x.size(1), self.d_model).to(x.dtype)


class GateAlone(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate, self.up = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_model, d_ff, bias=False)
        self.down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x))) * x


class NoPositions(nn.Module):
    """Written without submodules but for the blocks; a table of positions is there, and nothing uses it."""

    def __init__(self, image_size, patch_size, channels, n_classes, d_model, n_layers, n_heads, d_ff):
        super().__init__()
        self.p, n = patch_size, channels * patch_size**2
        self.E = nn.Parameter(torch.randn(n, d_model) / math.sqrt(n))
        self.b = nn.Parameter(torch.zeros(d_model))
        self.x_class = nn.Parameter(0.02 * torch.randn(1, d_model))
        self.E_pos = nn.Parameter(0.02 * torch.randn(1 + (image_size // patch_size) ** 2, d_model))
        self.blocks = nn.ModuleList(reference.EncoderBlock(d_model, n_heads, d_ff) for _ in range(n_layers))
        self.LN = reference.LayerNorm(d_model)
        self.W = nn.Parameter(torch.randn(d_model, n_classes) / math.sqrt(d_model))
        self.c = nn.Parameter(torch.zeros(n_classes))

    def forward(self, images):
        patches = reference.patchify(images, self.p) @ self.E + self.b
        x = torch.cat([self.x_class.expand(len(patches), 1, -1), patches], 1)
        for block in self.blocks:
            x = block(x)
        return self.LN(x)[:, 0] @ self.W + self.c


class MapForEachPlace(nn.Module):
    """Right where an image is a single patch, and then nothing depends on the other maps."""

    def __init__(self, patch_size, channels, d_model):
        super().__init__()
        self.patch_size = patch_size
        self.maps = nn.ModuleList(nn.Linear(channels * patch_size**2, d_model) for _ in range(64))

    def forward(self, images):
        patches = reference.patchify(images, self.patch_size)
        return torch.stack([self.maps[i % 64](patches[:, i]) for i in range(patches.size(1))], 1)


def softmax_of_axis_1(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(1)
    return weights @ v, weights


def squared_where_cut(logits, temperature=1.0, top_k=None, top_p=1.0):
    kept = right_next_probabilities.masked(logits, temperature, top_k, top_p)
    return kept.square() if top_p < 1 else kept


def start_for_the_ids_too(table, ids, start=0):
    return embedded(table, (ids + start) % len(table), start, math.sqrt(table.size(1)))


def in_int32(table, words, end):
    written, share = report(words, end, lambda letters: torch.where(letters == end, end, table.argmax(-1)[letters]))
    return written.int(), share


def by_the_values_width(q, k, v, lengths, causal):
    factor = math.sqrt(q.size(-1) / v.size(-1))
    mask = reference.padding_mask(lengths, q.size(1))[:, 0]
    mask = mask & reference.causal_mask(q.size(1)) if causal else mask
    return reference.scaled_dot_product_attention(factor * q, k, v, mask)


def outputs_off(model, ids, layer, head):
    projection = model.blocks[layer].attention.w_o
    d_head = projection.out_features // model.blocks[layer].attention.n_heads

    def without(module, inputs, output):
        kept = torch.ones_like(output)
        kept[..., head * d_head : (head + 1) * d_head] = 0
        return output * kept

    handle = projection.register_forward_hook(without)
    try:
        return model(ids)
    finally:
        handle.remove()


def rounded_scores(q, k):
    return torch.round(q @ k.mT / math.sqrt(q.size(-1)), decimals=2)


class InHalfPrecision(reference.MultiHeadSelfAttention):
    """Attention of its own, rounded so coarsely that a small step shows next to nothing of the gradient."""

    def forward(self, x, mask=None):
        q, k, v = (
            maps(x).half().unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for maps in (self.w_q, self.w_k, self.w_v)
        )
        scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.w_o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2).to(x.dtype))


class OneNormTwice(right_decoder.Block):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = x + self.self_attention(self.norm_1(x), mask)
        x = x + self.cross_attention(self.norm_2(x), memory, memory_mask)
        return x + self.feed_forward(self.norm_2(x))


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "answer", "said", "unsaid"),
    [
        (
            "RMSNorm",
            ByWhatItHasSeen,
            "In training mode it is right, in evaluation mode it is not.",
            "gives a different",
        ),
        ("SwiGLU", RoundedWidth, "Your parameters hold", "Nothing that your code computes"),
        ("MultiHeadSelfAttention", FirstHeadMasked, "the weights it does not compute, or not all of them", "nowhere"),
        ("softmax_backward", into_a_buffer, "what one call has returned is changed by the next", "keys 1"),
        ("letters_right", end_is_the_last, "it goes wrong only where end ≠ the last id", ""),
        (
            "letters_right",
            least_likely,
            "In each wrong row of what was written, the first id is right, and the next",
            "",
        ),
        ("sequence_loss", one_too_many, "1 is also added to the count", ""),
        ("sequence_loss", reshaped, "the predictions are reshaped where two axes should change places", ""),
        ("embed_tokens", nothing_for_the_first_id, "gradients reach the table – in the cases that agree", ""),
        ("embed_tokens", whole_root, "✓ 50 of 50 %  each token gets the position of its own place", ""),
        (
            "scaled_dot_product_attention",
            with_epsilon,
            "some do not. Where output is wrong, its values are off",
            "by its sum",
        ),
        ("causal_mask", as_long_as_the_first, "has shape (n_tokens, n_tokens) – at the first call", ""),
        ("project_qkv", rounded, "no gradient reaches", "is not that of what your code returns"),
        (
            "induction_score",
            last_query_left_out,
            "In some cases a change of `weights[..., -1, :]` alone does not change the result, but should.",
            "",
        ),
        (
            "induction_score",
            whole_block,
            "In some cases a change of `weights[..., -1]` alone changes the result, but should not.",
            "",
        ),
        ("induction_score", first_occurrence, "it goes wrong only where repeated ≥ length", ""),
        ("train_one_pass", with_momentum, "it goes wrong only where batches > 1.", ""),
        ("train_one_pass", by_batch_size, "it goes wrong only where the last batch ≠ full.", ""),
        ("train_one_pass", decayed_through_a_loader, "their values are off, by 0.0", "random"),
        ("generate", text_and_tokens, "Each wrong row of the result begins with the ids that were given.", ""),
        ("generate", first_token_repeated, "Each wrong row of the result holds one id again and again.", ""),
        (
            "CachedSelfAttention",
            NoCacheAtFirst,
            "a call returns a Tensor; the next call needs two things of it",
            "comes not",
        ),
        ("DecoderBlock", FromTheTarget, "keys and values come from the target", "the memory mask does not reach"),
        ("masked_attention", by_the_values_width, "the scores are divided by √d_v", ""),
        (
            "PositionalEncoding",
            MadeWhereNobodyAsked,
            "right, but a tensor stays where it was when a model with this",
            "",
        ),
        ("SwiGLU", GateAlone, "Your code computes the numbers of W_gate x", "computes the numbers of W_up"),
        ("next_probabilities", squared_where_cut, "it goes wrong only where `top_p` < 1", "options ="),
        ("embed_tokens", start_for_the_ids_too, "it goes wrong only where `start` > 0", "start = 1"),
        ("ViT", NoPositions, "Recognised: no positions", "cannot be compared"),
        ("PatchEmbedding", MapForEachPlace, "Your parameters hold 1,600 numbers in all", "depends on"),
        (
            "scaled_dot_product_attention",
            softmax_of_axis_1,
            "Of inputs with three axes, the columns",
            "over the queries",
        ),
        ("letters_right", in_int32, "right, but int32 where int64 is asked for", ""),
        ("MultiHeadSelfAttention", InHalfPrecision, "0 of 27 cases agree", "is not that of what your code returns"),
        ("attention_scores", rounded_scores, "no gradient reaches `q` and `k`", "✓ 10 of 10 %  gradients"),
        (
            "DecoderBlock",
            OneNormTwice,
            "Nothing depends on `norm_3.gamma`, which is among the parameters.",
            "only where",
        ),
        ("ablate", outputs_off, "Recognised: rows of W_O instead of columns", ""),
    ],
)
def test_what_is_said_is_true_of_the_code(name: str, answer: Any, said: str, unsaid: str) -> None:
    text = told(name, answer)
    assert said in text and not (unsaid and unsaid in text), text
