"""From logits to text: greedy, sampled and beam decoding, all with the same stepwise use of the model.

Every function encodes the source once and feeds the model its own tokens, one a step, with a cache of keys and values.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from headroom.reference.cache import DecoderCache
from headroom.reference.transformer import Transformer

Choose = Callable[[Tensor], Tensor]  # (batch,) tokens, chosen from logits (batch, n_target)


def greedy_decode(
    model: Transformer, source: Tensor, start: int, end: int, max_tokens: int, source_mask: Tensor | None = None
) -> Tensor:
    """Always the likeliest next token.

    Args:
        model: in eval mode, unless dropout's noise is wanted.
        source: token ids `(batch, source_tokens)`.
        start, end: ids of the target tokens that begin and end a sequence.
        max_tokens: stop after so many, ended or not.
        source_mask: which source tokens may be attended to: see `padding_mask`.

    Returns:
        token ids `(batch, at most max_tokens)` without the start token; after its end token, a row repeats it.

    Raises:
        ValueError: `max_tokens` is less than 1.

    Source: Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks", section 3.2, with one beam.
    """
    return _decode(model, source, start, end, max_tokens, source_mask, lambda logits: logits.argmax(dim=-1))


def sample_decode(
    model: Transformer,
    source: Tensor,
    start: int,
    end: int,
    max_tokens: int,
    source_mask: Tensor | None = None,
    temperature: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Each token drawn with its probability, softmax(logits / temperature).

    Args: as of `greedy_decode`, and
        temperature: below 1 favours likely tokens, above 1 evens them out; greater than 0.
        generator: where the random numbers come from; by default torch's own.

    Returns: `(batch, at most max_tokens)`, as of `greedy_decode`.

    Raises:
        ValueError: the temperature is not greater than 0.

    Source: Ackley, Hinton & Sejnowski 1985, "A Learning Algorithm for Boltzmann Machines", for the temperature.
    """
    if temperature <= 0:
        raise ValueError(f"temperature={temperature} must be greater than 0; greedy_decode is its limit at 0")

    def draw(logits: Tensor) -> Tensor:
        return torch.multinomial((logits / temperature).softmax(dim=-1), 1, generator=generator).squeeze(-1)

    return _decode(model, source, start, end, max_tokens, source_mask, draw)


@torch.no_grad()
def _decode(
    model: Transformer, source: Tensor, start: int, end: int, max_tokens: int, mask: Tensor | None, choose: Choose
) -> Tensor:
    """Decode step by step."""
    check_max_tokens(max_tokens)
    memory = model.encode(source, mask)
    cache = DecoderCache(len(model.decoder.blocks))
    token = source.new_full((len(source),), start)
    tokens, ended = [], torch.zeros_like(token, dtype=torch.bool)
    while len(tokens) < max_tokens and not ended.all():
        logits = model.decode(token[:, None], memory, mask, cache)  # (batch, 1, n_target)
        token = choose(logits[:, -1]).masked_fill(ended, end)
        ended |= token == end
        tokens.append(token)
    return torch.stack(tokens, dim=1)


@torch.no_grad()
def beam_decode(
    model: Transformer,
    source: Tensor,
    start: int,
    end: int,
    max_tokens: int,
    source_mask: Tensor | None = None,
    beams: int = 4,
    length_penalty: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Keep the `beams` likeliest beginnings at every step, and return the best whole sequence among them.

    Args: as of `greedy_decode`, and
        beams: how many beginnings go on; 1 is greedy decoding.
        length_penalty: α in the score log P / lengthᵅ by which whole sequences are compared; 0 compares their
            probabilities, which favours short ones.

    Returns:
        token ids `(batch, at most max_tokens)` as of `greedy_decode`, and their log-probabilities `(batch,)`.

    Raises:
        ValueError: fewer than one beam, or token.

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.5; the length penalty in the
    simple form that Wu et al. 2016, section 7, start from.
    """
    check_max_tokens(max_tokens)
    if beams < 1:
        raise ValueError(f"beams={beams} must be at least 1")
    batch = len(source)
    memory = model.encode(source, source_mask)
    memory = memory.repeat_interleave(beams, dim=0)  # (batch · beams, source_tokens, d_model)
    if source_mask is not None:
        source_mask = source_mask.expand(batch, -1, -1, -1).repeat_interleave(beams, dim=0)
    cache = DecoderCache(len(model.decoder.blocks))
    tokens = source.new_full((batch, beams, 1), start)
    ended = torch.zeros_like(tokens[..., 0], dtype=torch.bool)  # (batch, beams)
    score = memory.new_full((batch, beams), float("-inf"))
    score[:, 0] = 0.0  # at first all beams are the same: one of them goes on, in its likeliest ways
    row = torch.arange(batch, device=source.device)
    while tokens.size(-1) <= max_tokens and not ended.all():
        logits = model.decode(tokens[..., -1].reshape(-1, 1), memory, source_mask, cache)
        log_probability = logits[:, -1].log_softmax(dim=-1).unflatten(0, (batch, beams))  # (batch, beams, n_target)
        n_target = log_probability.size(-1)
        log_probability[ended] = float("-inf")  # an ended beam goes on in one way, at no cost
        log_probability[..., end].masked_fill_(ended, 0.0)
        score, choice = (score[..., None] + log_probability).flatten(1).topk(beams)  # (batch, beams)
        beam, token = choice // n_target, choice % n_target
        cache.select((row[:, None] * beams + beam).flatten())
        tokens = torch.cat([tokens.gather(1, beam[..., None].expand_as(tokens)), token[..., None]], dim=-1)
        ended = ended.gather(1, beam) | (token == end)
    length = (tokens[..., 1:] != end).sum(dim=-1) + ended  # the end token counts once
    best = (score / length**length_penalty).argmax(dim=-1)  # (batch,)
    return tokens[row, best, 1:], score[row, best]


def check_max_tokens(max_tokens: int) -> None:
    """Raise ValueError unless `max_tokens` is at least 1."""
    if max_tokens < 1:
        raise ValueError(f"max_tokens={max_tokens} must be at least 1")
