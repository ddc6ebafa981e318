"""Choosing the next token from a language model's logits, and the loss that the logits are trained and judged by."""

import math

import torch
from torch import Tensor, nn

from headroom.reference.loss import cross_entropy


def next_probabilities(
    logits: Tensor, temperature: float = 1.0, top_k: int | None = None, top_p: float = 1.0
) -> Tensor:
    """How likely each token is to be drawn next: softmax(logits / temperature), of which only the likeliest are kept.

    Args:
        logits: `(batch, n_vocabulary)`.
        temperature: below 1 favours likely tokens, above 1 evens them out; greater than 0.
        top_k: keep this many tokens, and others as likely as the last of them; None: all.
        top_p: keep the smallest set of likeliest tokens whose probabilities add up to at least this; 1: all. Of what
            `top_k` has left.

    Returns:
        `(batch, n_vocabulary)`; each row sums to 1, and tokens that are not kept have 0.

    Raises:
        ValueError: the temperature is not greater than 0, `top_k` less than 1, or `top_p` not between 0 and 1.

    Source: top-k: Fan, Lewis & Dauphin 2018, "Hierarchical Neural Story Generation", section 5.4; top-p: Holtzman et
    al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1.
    """
    if temperature <= 0:
        raise ValueError(f"temperature={temperature} must be greater than 0; top_k=1 takes the likeliest token")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k={top_k} must be at least 1, or None for all tokens")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p={top_p} must be greater than 0 and at most 1")
    logits = logits / temperature
    if top_k is not None:
        last = logits.topk(min(top_k, logits.size(-1))).values[:, -1:]  # (batch, 1)
        logits = logits.masked_fill(logits < last, float("-inf"))
    probabilities = logits.softmax(dim=-1)  # (batch, n_vocabulary)
    if top_p < 1:
        falling, order = probabilities.sort(descending=True)
        before = falling.cumsum(dim=-1) - falling  # what likelier tokens add up to: 0 for the likeliest
        kept = torch.zeros_like(falling).scatter(-1, order, falling.masked_fill(before >= top_p, 0.0))
        probabilities = kept / kept.sum(dim=-1, keepdim=True)
    return probabilities


def sample_next(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw a token by its probability.

    Args:
        logits: `(batch, n_vocabulary)`.
        temperature, top_k, top_p: as of `next_probabilities`, which says how likely each token is.
        generator: where the random numbers come from; by default torch's own.

    Returns:
        token ids `(batch,)`.

    Raises: ValueError as `next_probabilities`.

    Source: as there.
    """
    probabilities = next_probabilities(logits, temperature, top_k, top_p)  # (batch, n_vocabulary)
    return torch.multinomial(probabilities, 1, generator=generator).squeeze(-1)


def next_token_loss(model: nn.Module, ids: Tensor) -> Tensor:
    """Mean surprise, in nats, at every token but the first, each predicted from those before it.

    Args:
        model: ids `(batch, tokens)` → logits of the token that follows each, `(batch, tokens, n_vocabulary)`.
        ids: int64 `(batch, tokens)`; the model reads all but the last.

    Returns:
        a scalar; divided by ln 2, it is in bits.

    Source: Shannon 1951, "Prediction and Entropy of Printed English", for the measure.
    """
    return cross_entropy(model(ids[:, :-1]), ids[:, 1:])


@torch.no_grad()
def surprise(model: nn.Module, ids: Tensor, context: int, batch_size: int = 64) -> Tensor:
    """How many bits each token of a long text costs, given at least `context / 2` tokens before it.

    The text is read in windows of `context` tokens, each half a window after the last; what counts of a window is its
    second half, and of the first window all.

    Args:
        model: ids `(batch, tokens)` → logits `(batch, tokens, n_vocabulary)`, in eval mode.
        ids: the text, `(n,)`, n > `context`.
        context: tokens that the model sees at once; even.
        batch_size: windows computed at once.

    Returns:
        −log2 of each token's probability but of the first's, `(n − 1,)`; its mean is in bits per token.

    Raises:
        ValueError: `context` is odd, or the text not longer than it.

    Source: the sliding window of Baevski & Auli 2019, "Adaptive Input Representations", section 4.2.
    """
    if context < 2 or context % 2:
        raise ValueError(f"context={context} must be even: windows overlap by half")
    if len(ids) <= context:
        raise ValueError(f"ids has {len(ids)} tokens; context={context} needs more")
    half = context // 2
    starts = [*range(0, len(ids) - 1 - context, half), len(ids) - 1 - context]
    bits = torch.empty(len(ids) - 1)
    for some in torch.tensor(starts).split(batch_size):
        windows = torch.stack([ids[start : start + context + 1] for start in some.tolist()])  # (batch, context + 1)
        log_p = model(windows[:, :-1]).log_softmax(dim=-1)  # (batch, context, n_vocabulary)
        cost = -log_p.gather(-1, windows[:, 1:, None]).squeeze(-1) / math.log(2)  # (batch, context)
        for start, row in zip(some.tolist(), cost, strict=True):
            first = half if start else 0
            bits[start + first : start + context] = row[first:]
    return bits
